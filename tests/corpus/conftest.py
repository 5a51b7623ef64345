"""A folder in which everything is right: tables, schemas, models, a run, scenarios."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from counterplan.cli import app

STAYS = """\
stay_id,t,sofa,map,age,sex,vent,vaso,died
ann,0,9,65.5,70,F,0,0,1
ann,1,8,70,70,F,1,2,1
ann,2,6,72,70,F,1,,1
bob,0,4,80,55,M,0,1,0
bob,1,5,78,55,M,0,0,0
"""
SCHEMA = """\
[table]
episode = "stay_id"
step = 4.0
unit = "h"

[columns.sofa]
role = "state"
unit = "points"
low = 0
high = 24
better = "lower"

[columns.map]
role = "state"

[columns.age]
role = "fixed"

[columns.sex]
role = "fixed"
labels = ["F", "M"]

[columns.vent]
role = "contextual"

[columns.vaso]
role = "action"
levels = [0, 1, 2]

[columns.died]
role = "outcome"
"""
CLINIC = """\
[table]
episode = "patient"

[columns]
lactate = {role = "state", better = "lower"}
pressure = {role = "state"}
age = {role = "fixed"}
ward = {role = "fixed", labels = ["north", "south", "west"]}
oxygen = {role = "contextual"}
dose = {role = "action", labels = ["none", "low", "high"], ordered = true}
fluids = {role = "action", levels = [0, 1]}
died = {role = "outcome"}
"""
GRADES = """\
[columns]
state = {role = "state", levels = [0, 1]}
action = {role = "action", levels = [0, 1]}
reward = {role = "reward"}
"""
MODEL: dict[str, Any] = {
    "transitions": [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]],
    "rewards": [[0, 0], [1, 1]],
}
# Seconds that a command may take at most.
LONGEST = 120
PRICES = (1000, 900, 1500, 2500, 1200, 800, 900)
BOUGHT = (50, 12, 25, 30, 16, 0, 0)


def command(*arguments: str) -> Result:
    """A command in this process; mistakes of the program itself are raised."""
    result = CliRunner().invoke(app, list(arguments), prog_name="counterplan")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def write_ward() -> None:
    """Sixty episodes of two discrete states, in three formats, and a model of them by hand."""
    import polars as pl

    rows = [("ann", 0, 0, 0, 0), ("ann", 1, 0, 1, 0), ("ann", 2, 1, 1, 1)]
    for number in range(59):
        states = (number % 2, (number // 2) % 2)
        rows += [(f"e{number}", t, state, t, state) for t, state in enumerate(states)]
    names = ["episode_id", "t", "state", "action", "reward"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    frame.write_csv("ward.csv")
    frame.write_parquet("ward.parquet")
    grouped = frame.group_by("episode_id", maintain_order=True).agg("state", "action", "reward")
    episodes = [
        {"id": name, "states": states, "actions": actions, "rewards": rewards}
        for name, states, actions, rewards in grouped.iter_rows()
    ]
    Path("ward.json").write_text(json.dumps({"episodes": episodes}))
    Path("model.json").write_text(json.dumps(MODEL))


def write_clinic() -> None:
    """Forty patients, six steps each, in which nothing is odd but that they are few."""
    import numpy as np
    import polars as pl

    rng, rows = np.random.default_rng(0), []
    for patient in range(40):
        lactate, pressure = rng.lognormal(0.9, 0.4), rng.normal(70.0, 5.0)
        about = int(rng.uniform(25, 90)), ("north", "south", "west")[patient % 3]
        died = int(rng.uniform() < 0.4)
        for t in range(6):
            dose, fluids = rng.integers(3), int(rng.integers(2))
            oxygen = round(rng.uniform(0.21, 0.6), 2)
            measured = round(lactate, 2), round(pressure, 1), *about, oxygen
            done = ("none", "low", "high")[dose], fluids
            rows.append((f"p{patient}", t, *measured, *done, died))
            lactate = max(0.3, lactate + 0.15 * (2.0 - lactate) - 0.2 * dose + rng.normal(0, 0.25))
            pressure = 70.0 + 0.6 * (pressure - 70.0) + dose + rng.normal(0.0, 2.0)
    names = ["lactate", "pressure", "age", "ward", "oxygen", "dose", "fluids", "died"]
    pl.DataFrame(rows, schema=["patient", "t", *names], orient="row").write_csv("clinic.csv")
    Path("clinic.toml").write_text(CLINIC)


def write_voyages() -> None:
    """Three voyages of a ship that buys fuel, and prices to draw from."""
    import polars as pl

    rows = [
        (f"v{number}", t, price, bought)
        for number in range(3)
        for t, (price, bought) in enumerate(zip(PRICES, BOUGHT, strict=True))
    ]
    frame = pl.DataFrame(rows, schema=["scenario_id", "t", "price", "action"], orient="row")
    frame.write_csv("voyages.csv")
    frame.write_parquet("voyages.parquet")
    days = [f"{2000 + year}-01-01,{40 + 7 * (year % 5)}" for year in range(30)]
    Path("prices.csv").write_text("\n".join(["Date,Price", *days]) + "\n")
    seconds = [f"{second},{second % 20}" for second in range(200)]
    Path("cycle.csv").write_text("\n".join(["cycSecs,cycMps", *seconds]) + "\n")


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder; commands on it succeed, so that a refusal is due to what a case changes."""
    import counterplan as cp

    folder = tmp_path_factory.mktemp("corpus") / "good"
    folder.mkdir()
    with inside(folder):
        write_ward()
        write_clinic()
        write_voyages()
        Path("stays.csv").write_text(STAYS)
        Path("stays.toml").write_text(SCHEMA)
        Path("grades.toml").write_text(GRADES)
        cp.domains.sepsis.write_cohort("cohort.csv", patients=12, seed=0)
        for arguments in (
            ("fit", "ward.csv", "-o", "ward.safetensors"),
            ("fit", "cohort.csv", "-o", "sepsis.safetensors", "--hidden", "4", "--epochs", "1"),
            ("explain", "ward.csv", "-m", "model.json", "--k", "1", "-o", "out", "--workers", "1"),
        ):
            result = command(*arguments)
            assert result.exit_code == 0, result.stderr
    return folder


@pytest.fixture
def here(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it, as the current folder."""
    folder = tmp_path / "here"
    shutil.copytree(good, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    # Whatever waits for a pipe would wait for ever.
    signal.alarm(LONGEST)
    yield folder
    signal.alarm(0)
    for path in (folder, *folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
