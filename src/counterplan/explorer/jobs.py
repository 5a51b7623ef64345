"""Questions that take longer than a request: they wait in line and go to worker processes.

Every client has a line of its own and they take turns, so that one who asks a lot waits for himself
and not the others for him. A client may have a few questions at a time, and of several workers one
is always left for others: long searches of one client keep nobody else waiting. A worker that takes
too long is ended, and so is one whose question was cancelled and that does not stop by itself.

A worker is one of `runs.task`. How far its search is goes into a file that the server reads; a file
of the same name with the ending ".stop" ends the search.
"""

from __future__ import annotations

import json
import logging
import secrets
import tempfile
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from counterplan.core.limits import Progress
from counterplan.errors import CounterplanError, FileError
from counterplan.explorer.models import to_json
from counterplan.runs.run import Run, open_run
from counterplan.runs.task import (
    EXPLAIN,
    REGRET,
    PartResult,
    TaskSpec,
    Worker,
    WorkerDiedError,
    Workers,
)

# How long a search that was told to stop may go on, and one that is over its time.
GRACE, OVERTIME = 1.0, 15.0
# Jobs that are done and can still be asked for.
FINISHED = 500
# All clients together.
MOST_WAITING = 100
# The one table of a worker's result: the answer as JSON.
ANSWER = "answer"
# Seconds between two notes about how far a search is.
PAUSE = 0.1

log = logging.getLogger(__name__)


class BusyError(CounterplanError):
    """Too much has been asked at once."""


def _new_name() -> str:
    return secrets.token_urlsafe(12)


def _address(client: str) -> str:
    return client.rpartition(" ")[2]


@dataclass(eq=False)
class Job:
    """A question and what became of it.

    client   who asks, and after the last space the address he asks from
    seconds  how long it may take
    notes    the file that says how far it is
    keep     called with the result
    """

    client: str
    question: Mapping[str, Any]
    seconds: float
    notes: Path
    keep: Callable[[Any], None] = lambda _: None
    id: str = field(default_factory=_new_name)
    state: str = "queued"
    error: str | None = None
    result: Any = None
    started: float | None = None
    ended: float | None = None
    is_cancelled: bool = False
    timers: list[threading.Timer] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds at work."""
        end = time.monotonic() if self.ended is None else self.ended
        return 0.0 if self.started is None else end - self.started

    @property
    def is_over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def progress(self) -> dict[str, Any] | None:
        """How far the search is: nodes, best value, bound."""
        try:
            found: dict[str, Any] = json.loads(self.notes.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found

    def end(self, state: str, error: str | None = None) -> None:
        """Note what became of it, and let go of its timers and files."""
        self.error, self.ended, self.state = error, time.monotonic(), state
        for timer in self.timers:
            timer.cancel()
        for suffix in ("", ".stop", ".new"):
            self.notes.with_suffix(suffix).unlink(missing_ok=True)


class Jobs:
    """The lines, and the workers that serve them.

    spec        the task of the workers
    workers     how many
    per_client  how many questions a client may have waiting or at work
    """

    def __init__(self, spec: TaskSpec, workers: int, per_client: int) -> None:
        self._count, self._per_client = workers, per_client
        self._lines: OrderedDict[str, deque[Job]] = OrderedDict()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        # Jobs at work, and the worker of each once it has one.
        self._running: dict[Job, Worker | None] = {}
        self._lock, self._is_closed = threading.RLock(), False
        self._notes = tempfile.TemporaryDirectory(prefix="counterplan-")
        self._workers, self._threads = Workers(spec), ThreadPoolExecutor(workers)
        for _ in range(workers):
            self._threads.submit(self._start_worker)

    def submit(
        self,
        client: str,
        question: Mapping[str, Any],
        seconds: float,
        keep: Callable[[Any], None] = lambda _: None,
        name: str | None = None,
    ) -> Job:
        """Put a question in its client's line; `keep` is called with its result. One whose name is
        known already is not asked again."""
        with self._lock:
            if name is not None and (known := self._jobs.get(name)) is not None:
                if known.client != client or (known.question and known.question != question):
                    raise BusyError("another question has this name: choose another name")
                return known
            mine = sum(job.client == client and not job.is_over for job in self._jobs.values())
            if mine >= self._per_client:
                raise BusyError(
                    f"you have {mine} questions waiting or at work, and no more are allowed: wait "
                    "for one, or cancel it"
                )
            # Anyone can be many clients: half of the places are for other addresses.
            waiting = Counter(_address(one) for one, line in self._lines.items() for _ in line)
            if waiting.total() >= MOST_WAITING or waiting[_address(client)] >= MOST_WAITING // 2:
                raise BusyError("too many questions are waiting: try again later")
            job = Job(client, question, seconds, self._notes_file(), keep, name or _new_name())
            self._add(job)
            self._lines.setdefault(client, deque()).append(job)
            self._begin_next()
        return job

    def answered(self, client: str, question: Mapping[str, Any], result: Any) -> Job:
        """A question whose answer is known already, as a job that is done."""
        done = Job(client, question, 0.0, self._notes_file(), state="done", result=result)
        with self._lock:
            return self._add(done)

    def give_up(self, client: str, name: str) -> Job:
        """A job by the name that its client has chosen; one that is still on its way here will be
        found cancelled."""
        with self._lock:
            found = self._jobs.get(name)
            if found is not None:
                return found
            # No more names given up than questions asked, or they would crowd out answers.
            own = [job for job in self._jobs.values() if job.client == client]
            given_up = [job.id for job in own if not job.question]
            for old in given_up[: max(0, 1 + len(given_up) - self._per_client)]:
                del self._jobs[old]
            return self._add(Job(client, {}, 0.0, self._notes_file(), id=name, state="cancelled"))

    def find(self, name: str) -> Job | None:
        """A job by its id; None if it is unknown or forgotten."""
        with self._lock:
            return self._jobs.get(name)

    def ahead(self, job: Job) -> int:
        """How many waiting jobs are served before this one: lines take turns."""
        with self._lock:
            turns = zip_longest(*self._lines.values())
            order = [one for turn in turns for one in turn if one is not None]
        return order.index(job) if job in order else 0

    def cancel(self, job: Job) -> None:
        """End a job, whether it waits or is at work."""
        with self._lock:
            if job.is_over:
                return
            job.is_cancelled = True
            if job.state == "queued":
                job.end("cancelled")
                self._lines[job.client].remove(job)
                if not self._lines[job.client]:
                    del self._lines[job.client]
                return
            job.notes.with_suffix(".stop").touch()
        self._end_later(job, GRACE)

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._is_closed = True
        self._workers.end()
        self._threads.shutdown()
        self._notes.cleanup()

    def _notes_file(self) -> Path:
        return Path(self._notes.name) / secrets.token_hex(8)

    def _add(self, job: Job) -> Job:
        """Keep a job, and forget those that were over longest ago."""
        self._jobs[job.id] = job
        over = [name for name, one in self._jobs.items() if one.is_over]
        for name in over[: max(0, len(over) - FINISHED)]:
            del self._jobs[name]
        return job

    def _start_worker(self) -> None:
        """Start a worker before anyone asks."""
        with suppress(CounterplanError, OSError):
            self._workers.give_back(self._workers.take())

    def _begin_next(self) -> None:
        """Begin what can be begun, one line after the other; a client has its share of workers."""
        while not self._is_closed and len(self._running) < self._count:
            busy, share = Counter(job.client for job in self._running), max(1, self._count - 1)
            client = next((one for one in self._lines if busy[one] < share), None)
            if client is None:
                return
            line = self._lines.pop(client)
            job = line.popleft()
            if line:
                self._lines[client] = line
            self._running[job] = None
            job.state, job.started = "running", time.monotonic()
            self._threads.submit(self._answer, job)

    def _answer(self, job: Job) -> None:
        asked = {**job.question, "notes": str(job.notes)}
        try:
            worker = self._workers.take()
        except (CounterplanError, OSError) as problem:
            log.error("a worker could not be started: %s", problem)
            self._finish(job, "failed", "no worker process could be started")
            return
        with self._lock:
            self._running[job] = worker
        self._end_later(job, job.seconds + OVERTIME)
        try:
            job.result = json.loads(worker.solve(json.dumps(asked).encode()).tables[ANSWER])
            job.keep(job.result)
        except WorkerDiedError as problem:
            over = job.elapsed >= job.seconds + OVERTIME
            reason = f"took longer than {job.seconds:g} seconds" if over else str(problem)
            self._finish(job, "failed", f"there is no answer: the worker {reason}")
        except CounterplanError as problem:
            self._finish(job, "failed", " ".join(str(problem).split()))
        except Exception:
            log.exception("a question could not be answered: %s", job.question)
            self._finish(job, "failed", "the question could not be answered: a fault of ours")
        else:
            self._finish(job, "done")

    def _finish(self, job: Job, state: str, error: str | None = None) -> None:
        with self._lock:
            if (worker := self._running.pop(job)) is not None:
                self._workers.give_back(worker)
            if job.is_cancelled:
                job.end("cancelled")
            else:
                job.end(state, error)
            self._begin_next()

    def _end_later(self, job: Job, seconds: float) -> None:
        """End the worker of a job if it is still at it after some seconds."""

        def end() -> None:
            # With the lock in hand: the worker cannot have gone on to another job.
            with self._lock:
                if (worker := self._running.get(job)) is not None:
                    worker.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        job.timers.append(timer)
        timer.start()


def open_items(run: Run) -> Any:
    """A run by its kind, its model loaded; of the other kind nothing is."""
    if run.kind == EXPLAIN:
        from counterplan.explorer.cases import Cases

        return Cases(run)
    if run.kind == REGRET:
        from counterplan.explorer.scenarios import Scenarios

        return Scenarios(run)
    raise FileError(f"{run.folder}: is a run of {run.kind!r}, which the explorer does not know")


def worker_spec(run: Run) -> TaskSpec:
    """The task of answering questions about a run."""
    return TaskSpec(__name__, {"out": str(run.folder)})


def open_task(spec: TaskSpec) -> Answering:
    """The task, made ready in a worker."""
    return Answering(open_items(open_run(spec.description["out"])))


class Answering:
    """Answers questions about a run: JSON in, JSON out."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def solve(self, part: bytes) -> PartResult:
        """The answer to a question, see `models.SolveQuestion` and the others."""
        question = json.loads(part)
        notes = Notes(Path(question.pop("notes")))
        found = self._items.answer(question, notes)
        return PartResult({ANSWER: to_json(found)}, {})


class Notes:
    """Writes down how far a search is, and stops it if someone says so."""

    def __init__(self, path: Path) -> None:
        self._path, self._stop, self._next = path, path.with_suffix(".stop"), 0.0

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        if now < self._next:
            return True
        self._next = now + PAUSE
        if self._stop.exists():
            return False
        beside = self._path.with_suffix(".new")
        found = {"nodes": progress.done, "value": progress.value, "bound": progress.bound}
        beside.write_text(json.dumps(found), "utf-8")
        # Whoever reads sees all of a note or the one before.
        beside.replace(self._path)
        return True
