"""Every malformed input: exit code 2, a few clear lines that name the place, nothing written.

Each case changes one thing in a folder where all is well, runs the program, and looks at all that
it printed and at every file. `pytest tests/corpus` runs them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from . import (
    arguments,
    discrete,
    forms,
    measured,
    models,
    odd,
    permissions,
    runs,
    scenarios,
    schemas,
)
from .case import ADVICE, INSIDES, LONGEST_LINE, Case, assert_refused, contents
from .conftest import command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links and pipes")

MODULES = {
    "discrete": discrete.CASES,
    "measured": measured.CASES,
    "odd": odd.CASES,
    "forms": forms.CASES,
    "schemas": schemas.CASES,
    "models": models.CASES,
    "runs": runs.CASES,
    "scenarios": scenarios.CASES,
    "arguments": arguments.CASES,
}
CASES = {f"{kind}: {name}": case for kind, cases in MODULES.items() for name, case in cases.items()}
# What the documentation says.
PROMISED = 585

# As users start it: one or two of every kind, and what only shows in a process of its own.
PROCESSES = (
    "discrete: state of 5,000 digits",
    "discrete: parquet that ends its decoder",
    "discrete: folder: three mistakes",
    "measured: a mistake everywhere",
    "forms: partly UTF-8",
    "schemas: schema with 5,000 digits",
    "models: model a pickle",
    "models: hand nested too deeply",
    "runs: link for all results",
    "runs: another budget",
    "scenarios: folder: open quote",
    "arguments: two billion units",
)
PROGRAM = "from counterplan.cli import main; main()"
# What is right before anything is changed, so that a refusal is due to the change.
RIGHT = (
    discrete.EXPLAIN,
    odd.FIT,
    "explain ward.parquet -m ward.safetensors",
    "explain ward.json -m model.json",
    "fit ward.csv --schema grades.toml -o m.safetensors",
    "schema stays.csv",
    "explain cohort.csv -m sepsis.safetensors --k 1 --episode 200001 --nodes 5",
    runs.LIST,
    runs.AGAIN,
    scenarios.JUDGE,
    "plan bunkering --scenarios voyages.parquet",
    "plan bunkering --prices-csv prices.csv --scenarios-template t.csv",
    "plan hybrid --drive-cycle cycle.csv --scenarios-template t.csv",
)


@pytest.mark.parametrize("typed", RIGHT)
def test_the_folder_is_right(here: Path, typed: str) -> None:
    result = command(*shlex.split(typed))
    assert result.exit_code == 0, result.stderr


def refused(here: Path, case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    before = contents(here)
    result = command(*shlex.split(case.command))
    assert_refused(result.exit_code, result.stdout, result.stderr, case)
    # Libraries below Python write to the terminal by themselves.
    assert capfd.readouterr() == ("", "")
    assert contents(here) == before


@pytest.mark.parametrize("name", CASES)
def test_refused(here: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    CASES[name].change()
    refused(here, CASES[name], capfd)


@cache
def said_of_good(typed: str) -> str:
    """What a command says of the folder before anything is changed."""
    return command(*shlex.split(typed)).stderr


@pytest.mark.parametrize("name", odd.TOLD)
def test_told(here: Path, name: str) -> None:
    """What is odd goes through, with a warning that names the place and the way out."""
    case = odd.TOLD[name]
    assert not re.search(case.says, said_of_good(case.command))
    case.change()
    result = command(*shlex.split(case.command))
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if re.search(case.says, line)]
    assert line.startswith(("warning: ", "note: "))
    assert len(line) <= LONGEST_LINE
    assert line.isprintable()
    assert ADVICE.search(line), line
    assert not INSIDES.search(line)


@pytest.mark.parametrize("name", permissions.CASES)
def test_not_permitted(here: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    case = permissions.CASES[name]
    Path("probe").touch(mode=0o000)
    if os.access("probe", os.R_OK):
        pytest.skip("everything may be read and written")
    Path("probe").unlink()
    case.change()
    refused(here, case, capfd)


@pytest.mark.parametrize("name", PROCESSES)
def test_in_a_process(here: Path, name: str) -> None:
    case = CASES[name]
    case.change()
    before = contents(here)
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *shlex.split(case.command)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert_refused(finished.returncode, finished.stdout, finished.stderr, case)
    assert contents(here) == before


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CASES) == sum(len(cases) for cases in MODULES.values())
    assert len(CASES) >= PROMISED
    # No case twice under two names.
    assert len({(case.command, case.says, id(case.change)) for case in CASES.values()}) == len(
        CASES
    )
