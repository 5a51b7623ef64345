"""Tasks of a user's own that workers can import, and runs as programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from counterplan.runs.cohort import RunSettings, RunSummary, run_cohort
from counterplan.runs.task import TaskSpec

MODULES = Path(__file__).parent / "modules"
Program = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True, scope="package")
def _own_tasks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(MODULES))
        yield


def reversing(**description: Any) -> TaskSpec:
    """A task that turns parts round."""
    return TaskSpec("own_tasks.reversing", description, {"suffix": b"!"})


def run_parts(
    out: Path, parts: Sequence[bytes], settings: RunSettings | None = None, **description: Any
) -> RunSummary:
    """Turn parts round."""
    return run_cohort(reversing(**description), parts, out, settings or RunSettings(workers=1))


def contents(out: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    paths = (path for path in out.rglob("*") if not path.is_dir())
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def environment() -> dict[str, str]:
    """For programs that load what this one has loaded."""
    path = os.pathsep.join([str(MODULES), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path}


def children(process: subprocess.Popen[Any]) -> set[int]:
    """The processes that another has started."""
    found: set[int] = set()
    for listing in Path(f"/proc/{process.pid}/task").glob("*/children"):
        try:
            found |= {int(number) for number in listing.read_text().split()}
        except OSError:
            continue  # a thread that has just ended
    return found


def is_running(number: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Fails if that takes too long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def program() -> Iterator[Program]:
    """Start a run as a program: its folder, parts, seconds for each, workers, cluster."""
    started: list[subprocess.Popen[str]] = []

    def start(out: Path, parts: int, *rest: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "own_tasks.command", str(out), str(parts)]
        command += [str(value) for value in rest]
        process = subprocess.Popen(
            command,
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
