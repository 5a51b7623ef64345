"""Worker processes: what they are started with, and what they answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from counterplan.errors import CounterplanError, InputError
from counterplan.runs.task import (
    ENVIRONMENT,
    Lost,
    Outcome,
    PartResult,
    TaskSpec,
    Worker,
    WorkerDiedError,
    Workers,
    open_task,
)

from .conftest import is_running, reversing, wait_until


def test_what_a_library_prints_is_kept_from_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with closing(Worker(reversing())) as worker:
        assert worker.solve(b"chatty").tables["trajectories"] == b"chattychatty"
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "what a library prints must not get into the answer\n"


def test_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parent was started with."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with closing(Worker(TaskSpec("own_tasks.surroundings", {}))) as worker:
        tables = worker.solve(b"").tables
    found = dict(line.split("=", 1) for line in tables["environment"].decode().split("\n"))
    assert ENVIRONMENT.items() <= found.items()
    assert tables["threads"] == b"1"


def test_the_current_folder_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    with closing(Worker(reversing())) as worker:
        assert worker.solve(b"abc").tables["results"] == b"cba!"


def test_a_worker_that_has_died_says_how() -> None:
    with (
        closing(Worker(reversing())) as worker,
        pytest.raises(WorkerDiedError, match="was killed, as happens when memory runs out"),
    ):
        worker.solve(b"deadly")
    assert not worker.is_alive


def test_a_mistake_does_not_end_a_worker() -> None:
    with closing(Worker(reversing())) as worker:
        with pytest.raises(InputError, match="put it right"):
            worker.solve(b"wrong")
        assert worker.solve(b"abc").tables["results"] == b"cba!"


@pytest.fixture
def ended() -> Iterator[Callable[[TaskSpec], Workers]]:
    """Makes workers that are ended with the test."""
    with ExitStack() as stack:

        def make(spec: TaskSpec) -> Workers:
            workers = Workers(spec)
            stack.callback(workers.end)
            return workers

        yield make


def process_of(outcome: Outcome) -> int:
    assert isinstance(outcome, PartResult)
    return int(outcome.tables["process"])


def test_workers_are_used_again_and_replaced(ended: Callable[[TaskSpec], Workers]) -> None:
    workers = ended(TaskSpec("own_tasks.surroundings", {}))
    first, second = (process_of(workers.solve(b"")) for _ in range(2))
    assert first == second
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_running(first))
    assert process_of(workers.solve(b"")) != first


def test_workers_end_together(ended: Callable[[TaskSpec], Workers]) -> None:
    workers = ended(TaskSpec("own_tasks.surroundings", {}))
    process = process_of(workers.solve(b""))
    folder = Path(workers._temporary.name)
    assert folder.exists()
    workers.end()
    assert not folder.exists()
    assert not is_running(process)
    with pytest.raises(CounterplanError, match="the workers have been ended"):
        workers.solve(b"")


def test_lost(ended: Callable[[TaskSpec], Workers]) -> None:
    outcome = ended(reversing()).solve(b"deadly")
    assert outcome == Lost("was killed, as happens when memory runs out")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("nonsense", "unknown kind of task 'nonsense': there are explain, regret"),
        ("own_tasks.absent", "'own_tasks.absent' cannot be loaded: No module named"),
    ],
)
def test_unknown_tasks(kind: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        open_task(TaskSpec(kind, {}))
    with pytest.raises(InputError, match=says):
        Worker(TaskSpec(kind, {}))
