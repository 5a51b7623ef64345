"""`schema`, and `fit` with a schema, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan import draft_schema
from counterplan.tables import read_schema
from counterplan.tables.layout import layout_of_model

from .conftest import Run

STAYS = """\
stay,hour,sofa,a_vaso,a_iv,died
1,0,9,0,low,1
1,4,8,1,high,1
1,8,6,,,1
2,0,4,1,low,0
2,4,,0,low,0
"""


@pytest.fixture
def ward(ward: Path) -> Path:
    (ward / "stays.csv").write_text(STAYS)
    return ward


def refusal(run: Run, *arguments: str) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines: list[str] = result.stderr.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    return [line.removeprefix("error: ") for line in lines]


def test_draft_is_printed(ward: Path, run: Run) -> None:
    result = run("schema", "stays.csv")
    assert result.exit_code == 0
    assert result.stdout.startswith("# Draft from stays.csv: 2 episodes, 5 rows.\n")
    assert 'missing = "refuse"        # 20.0 % are missing' in result.stdout
    (ward / "printed.toml").write_text(result.stdout)
    assert read_schema("printed.toml") == draft_schema("stays.csv")


def test_draft_is_written(ward: Path, run: Run) -> None:
    result = run("schema", "stays.csv", "-o", "schema.toml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Wrote schema.toml: 4 columns. Read it and correct the roles.\n"
    assert read_schema("schema.toml").episode == "stay"
    # What was edited by hand is not lost by a second draft.
    lines = refusal(run, "schema", "stays.csv", "-o", "schema.toml")
    assert lines == ["schema.toml: exists already; remove it or choose another name"]


DISCRETE = """\
[columns.state]
role = "state"
levels = [0, 1]
labels = ["ill", "well"]
[columns.action]
role = "action"
labels = ["rest", "walk"]
[columns.reward]
role = "reward"
"""


def test_fit_discrete(ward: Path, run: Run) -> None:
    (ward / "schema.toml").write_text(DISCRETE)
    result = run("fit", "ward.csv", "--schema", "schema.toml", "-o", "m.safetensors")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "m.safetensors: 2 states and 2 actions; 3 episodes, 8 steps; 2 of 4 pairs of state and "
        "action were seen, others are barred; 1 of 2 values of action occur at least 5 times\n"
    )
    run("fit", "ward.csv", "-o", "plain.safetensors")
    model, plain = cp.load_model("m.safetensors"), cp.load_model("plain.safetensors")
    assert isinstance(model, cp.TabularMDP)
    assert isinstance(plain, cp.TabularMDP)
    assert np.array_equal(model.rewards, plain.rewards)
    assert np.array_equal(model.row(0, 0), plain.row(0, 0))
    layout = layout_of_model(model)
    assert layout is not None
    assert layout.schema == read_schema("schema.toml")
    summary = json.loads(
        run("fit", "ward.csv", "--schema", "schema.toml", "-o", "m.safetensors", "--json").stdout
    )
    assert summary["observed_pairs"] == 2


def test_rows_without_an_action_are_no_pairs(ward: Path, run: Run) -> None:
    (ward / "schema.toml").write_text(DISCRETE)
    with (ward / "ward.csv").open("a") as file:
        file.write("zoe,0,ill,rest,0\nzoe,1,ill,,\n")
    fit = ("fit", "ward.csv", "--schema", "schema.toml", "-o", "m.safetensors")
    result = run(*fit)
    assert "2 states and 2 actions" in result.stdout
    assert "of 4 pairs of state and action" in result.stdout


CONTINUOUS = """\
[table]
episode = "stay"
time = "hour"
step = 4
increment = 4
unit = "h"
[columns.sofa]
role = "state"
missing = "carry-forward"
better = "lower"
[columns.map]
role = "state"
[columns.a_vaso]
role = "action"
levels = [0, 1, 2]
"""


def stays(path: Path, episodes: int = 20) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(episodes):
        sofa, pressure = 10.0, 60.0
        for t in range(6):
            level = int(rng.integers(0, 3))
            rows.append((number, 4 * t, None if t == 3 else round(sofa, 3), pressure, level))
            sofa = 0.9 * sofa - 0.3 * level + rng.normal()
            pressure = 30 + 0.5 * pressure + level + rng.normal()
    names = ["stay", "hour", "sofa", "map", "a_vaso"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(path)


def test_fit_continuous(ward: Path, run: Run) -> None:
    (ward / "schema.toml").write_text(CONTINUOUS)
    stays(ward / "many.csv")
    small = ("--hidden", "8", "--epochs", "2", "--json")
    result = run("fit", "many.csv", "--schema", "schema.toml", "-o", "m.safetensors", *small)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["table"] == (
        "20 episodes, 120 steps; gaps: 20 carried forward, 0 set to the mean"
    )
    model = cp.load_model("m.safetensors")
    layout = layout_of_model(model)
    assert layout is not None
    assert layout.schema.unit == "h"
    assert layout.reward().weights.tolist() == [-1.0, 0.0]


def test_every_mistake_has_its_line(ward: Path, run: Run) -> None:
    (ward / "schema.toml").write_text(DISCRETE)
    (ward / "bad.csv").write_text(
        "episode_id,t,state,action,reward\na,0,dead,rest,1\na,1,ill,walk,much\na,3,ill,walk,1\n"
    )
    lines = refusal(run, "fit", "bad.csv", "--schema", "schema.toml", "-o", "m.safetensors")
    assert [line.partition(": ")[0] for line in lines] == [
        "bad.csv, row 2, column 'state'",
        "bad.csv, row 3, column 'reward'",
        "bad.csv, row 4, column 't'",
    ]
    (ward / "schema.toml").write_text(DISCRETE.replace('"state"', '"stat"') + "unit = 3\n")
    lines = refusal(run, "fit", "bad.csv", "--schema", "schema.toml", "-o", "m.safetensors")
    assert [line.partition(": ")[0] for line in lines] == [
        "schema.toml, columns.state.role",
        "schema.toml, columns.reward.unit",
    ]
    assert not (ward / "m.safetensors").exists()
