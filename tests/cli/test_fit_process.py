"""`fit --process`: the law of a record of prices, from the command line."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import counterplan as cp
from counterplan.cli import app


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    law = cp.processes.Autoregression(45.0, 0.8, 45.0, 4.0)
    rows = law.sample_paths(1, 300, seed=0)[0, :, 0]
    days = (date(2024, 1, 1) + timedelta(days=i) for i in range(300))
    lines = [f"{day},{price:.3f}" for day, price in zip(days, rows, strict=True)]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(["Date,Price", *lines]), encoding="utf-8")
    return path


def test_a_law_is_learned_told_and_drawn(prices: Path, tmp_path: Path) -> None:
    target, figure = tmp_path / "p.safetensors", tmp_path / "p.svg"
    command = ["fit", str(prices), "--process", "-o", str(target), "--families", "walk,ou"]
    done = CliRunner().invoke(
        app, [*command, "--figure", str(figure), "--json", "--horizon", "200"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["law"], [one["law"] for one in told["scores"]]) == ("ou", ["walk", "ou"])
    phi = told["parameters"]["phi"]
    assert phi["low"] < 0.8 < phi["high"]
    assert "67% of the 300" in told["warnings"][0]
    assert figure.read_bytes().startswith(b"<?xml")
    found = cp.processes.load(target)
    np.testing.assert_allclose(found.start, told["start"]["Price"])
    done = CliRunner().invoke(app, command)
    assert all(text in done.stdout for text in ("ou, from 300 rows of Price", "90 % interval"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--process", "--prior", "1"], "--prior is not for --process"),
        (["--every", "month"], "--every is for prices: give --process, too"),
        (["--process", "--families", "arma"], "family 'arma' is not one of gbm"),
        (["--process", "--columns", "Cost"], "no column 'Cost'"),
        (["--process", "--time", "Day"], "no column 'Day'"),
        (["--process", "--figure", "p.pdf"], "p.pdf"),
        (["--process", "--every", "month"], "the record has 9 rows"),
    ],
)
def test_mistakes_get_a_line(prices: Path, tmp_path: Path, options: list[str], says: str) -> None:
    target = tmp_path / "p.safetensors"
    done = CliRunner().invoke(app, ["fit", str(prices), "-o", str(target), *options])
    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not target.exists()
