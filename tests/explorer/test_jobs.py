"""Questions in line: fair turns, limits, cancelling, and workers that die."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterplan.explorer import jobs as jobs_module
from counterplan.explorer.jobs import BusyError, Job, Jobs
from counterplan.runs.task import TaskSpec

MODULES = Path(__file__).parent / "modules"
Make = Callable[..., Jobs]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Jobs whose workers do what questions say; closed at the end."""
    monkeypatch.syspath_prepend(str(MODULES))
    made = []

    def start(workers: int = 1, per_client: int = 10) -> Jobs:
        made.append(Jobs(TaskSpec("answers.slow", {}), workers, per_client))
        return made[-1]

    yield start
    for one in made:
        one.close()


def ask(jobs: Jobs, client: str, name: str, do: str = "answer", **more: Any) -> Job:
    return jobs.submit(client, {"do": do, "name": name, **more}, more.get("seconds", 30.0))


def wait(*waited: Job) -> None:
    end = time.monotonic() + 60.0
    while not all(job.is_over for job in waited):
        assert time.monotonic() < end
        time.sleep(0.01)


def running(job: Job) -> None:
    end = time.monotonic() + 60.0
    while job.state != "running":
        assert time.monotonic() < end
        time.sleep(0.01)


def test_clients_take_turns(make: Make) -> None:
    jobs = make()
    first = ask(jobs, "ann", "hold", "wait", **{"for": 1.0})
    running(first)
    asked = [ask(jobs, "ann", f"a{i}") for i in range(3)]
    asked += [ask(jobs, "bob", f"b{i}") for i in range(2)] + [ask(jobs, "eve", "e0")]
    assert [jobs.ahead(job) for job in asked] == [0, 3, 5, 1, 4, 2]
    wait(first, *asked)
    order = sorted(asked, key=lambda job: job.started or 0.0)
    assert [job.question["name"] for job in order] == ["a0", "b0", "e0", "a1", "b1", "a2"]
    assert all(job.state == "done" and job.error is None for job in asked)
    # One process has answered them all.
    assert len({job.result[1] for job in asked}) == 1


def test_a_client_has_few_and_all_have_some(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = make(per_client=2)
    kept = [ask(jobs, "ann", "hold", "wait", **{"for": 30.0}), ask(jobs, "ann", "next")]
    with pytest.raises(BusyError, match="you have 2 questions waiting or at work"):
        ask(jobs, "ann", "more")
    ask(jobs, "bob", "other")
    monkeypatch.setattr(jobs_module, "MOST_WAITING", 2)
    running(kept[0])
    with pytest.raises(BusyError, match="too many questions are waiting"):
        ask(jobs, "eve", "late")
    jobs.cancel(kept[1])
    assert kept[1].state == "cancelled"
    assert ask(jobs, "ann", "again").state == "queued"


def test_a_search_that_listens_is_told_to_stop(make: Make) -> None:
    jobs = make()
    job = ask(jobs, "ann", "long", "listen")
    while (reached := job.progress) is None:
        time.sleep(0.01)
    assert (reached["value"], reached["bound"]) == (1.0, 2.0)
    assert reached["nodes"] >= 0
    process = ask(jobs, "ann", "after")
    jobs.cancel(job)
    jobs.cancel(job)
    wait(job, process)
    assert (job.state, job.error, job.result) == ("cancelled", None, None)
    assert process.state == "done"
    assert job.progress is None
    assert not list(job.notes.parent.iterdir())


def test_one_that_does_not_listen_is_ended(make: Make) -> None:
    jobs = make()
    job = ask(jobs, "ann", "deaf", "wait", **{"for": 300.0})
    running(job)
    after = ask(jobs, "ann", "after")
    jobs.cancel(job)
    wait(job, after)
    assert job.state == "cancelled"
    assert job.elapsed < 30.0
    assert after.state == "done"


def test_time_is_limited(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "OVERTIME", 0.2)
    jobs = make()
    wait(ask(jobs, "ann", "ready"))
    job = jobs.submit("ann", {"do": "wait", "name": "slow", "for": 300.0}, 0.2)
    wait(job)
    assert job.state == "failed"
    assert job.error == "there is no answer: the worker took longer than 0.2 seconds"


def test_faults_are_told_in_one_line(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    jobs = make()
    failed, broken, dead = (ask(jobs, "ann", "x", do) for do in ("fail", "break", "die"))
    after = ask(jobs, "ann", "after")
    wait(failed, broken, dead, after)
    assert (failed.state, failed.error) == ("failed", "this cannot be answered")
    assert (broken.state, broken.error) == (
        "failed",
        "the question could not be answered: a fault of ours",
    )
    assert "ZeroDivisionError" in caplog.text
    assert (dead.state, dead.error) == (
        "failed",
        "there is no answer: the worker ended with code 3",
    )
    assert after.state == "done"


def test_two_workers_work_at_once(make: Make) -> None:
    jobs = make(workers=2)
    both = [ask(jobs, client, "x", "wait", **{"for": 1.5}) for client in ("ann", "bob")]
    wait(*both)
    (a, b), (c, d) = ((job.started or 0.0, job.ended or 0.0) for job in both)
    assert max(a, c) < min(b, d)
    assert both[0].result[1] != both[1].result[1]


def test_long_searches_of_one_keep_nobody_waiting(make: Make) -> None:
    jobs = make(workers=2)
    long = [ask(jobs, "ann", f"a{i}", "wait", **{"for": 300.0}) for i in range(4)]
    running(long[0])
    short = [ask(jobs, "bob", f"b{i}") for i in range(3)]
    wait(*short)
    assert [job.state for job in short] == ["done"] * 3
    # Ann has a worker, and all the others are free for others.
    assert [job.state for job in long] == ["running", "queued", "queued", "queued"]
    jobs.cancel(long[0])
    running(long[1])
    for job in long:
        jobs.cancel(job)
    wait(*long)
    # Both are free again.
    wait(*(ask(jobs, client, "last") for client in ("ann", "bob")))


def test_old_jobs_are_forgotten(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "FINISHED", 3)
    jobs = make()
    asked = [ask(jobs, "ann", str(i)) for i in range(6)]
    wait(*asked)
    last = ask(jobs, "ann", "last")
    assert [jobs.find(job.id) is None for job in asked] == [True] * 3 + [False] * 3
    assert jobs.find(last.id) is last
    assert jobs.find("unknown") is None
    known = jobs.answered("ann", {"kind": "solve"}, 7)
    assert (known.state, known.result, known.elapsed) == ("done", 7, 0.0)


def test_closing_ends_what_is_at_work(make: Make) -> None:
    jobs = make()
    job = ask(jobs, "ann", "long", "wait", **{"for": 300.0})
    running(job)
    started = time.monotonic()
    jobs.close()
    jobs.close()
    assert time.monotonic() - started < 30.0
    assert job.is_over


def test_names_are_their_clients_own(make: Make) -> None:
    jobs = make(per_client=2)
    mine = jobs.submit("ann", {"do": "answer", "name": "a"}, 30.0, name="n")
    assert jobs.submit("ann", {"do": "answer", "name": "a"}, 30.0, name="n") is mine
    for client, asked in (("bob", "a"), ("ann", "b")):
        with pytest.raises(BusyError, match="another question has this name"):
            jobs.submit(client, {"do": "answer", "name": asked}, 30.0, name="n")
    wait(mine)
    # Names that are given up are few, and crowd out nothing.
    for number in range(50):
        jobs.give_up("bob", f"x{number}")
    assert jobs.find("n") is mine
    assert jobs.find("x47") is None
    assert jobs.submit("bob", {"do": "answer", "name": "c"}, 30.0, name="x49").state == "cancelled"
