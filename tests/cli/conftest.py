"""A small ward: its episodes, its model, and a way to run commands on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from counterplan.cli import app

Run = Callable[..., Result]

EPISODES = """\
episode_id,t,state,action,reward
ann,0,0,0,0
ann,1,0,0,0
ann,2,1,1,1
bob,0,1,1,1
bob,1,0,0,0
bob,2,0,0,0
bob,3,0,0,0
eve,0,1,1,1
"""

MODEL: dict[str, Any] = {
    "transitions": [[[0.8, 0.2], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]]],
    "rewards": [[0, 0], [1, 1]],
    "state_labels": ["ill", "well"],
    "action_labels": ["rest", "walk"],
}


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with ward.csv and model.json in it."""
    (tmp_path / "ward.csv").write_text(EPISODES)
    (tmp_path / "model.json").write_text(json.dumps(MODEL))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Run a command in this process; mistakes of the program itself are raised."""
    runner = CliRunner()

    def call(*arguments: str) -> Result:
        result = runner.invoke(app, list(arguments), prog_name="counterplan")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call
