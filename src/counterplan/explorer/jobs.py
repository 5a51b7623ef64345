"""Work that takes longer than a request: questions wait in line and go to worker processes.

Every client has a line of its own and they take turns, so that one who asks a lot waits for himself
and not the others for him. A client may have a few questions at a time, and of several workers one
is always left for others: long searches of one client keep nobody else waiting. A worker that takes
too long is ended, and so is one whose question was cancelled and that does not stop by itself.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from counterplan.errors import CounterplanError
from counterplan.runs.task import PartResult, TaskSpec, Worker, WorkerDiedError

# How long a search that was told to stop may go on, and one that is over its time.
GRACE, OVERTIME = 1.0, 15.0
# Jobs that are done and can still be asked for.
FINISHED = 500
# All clients together.
MOST_WAITING = 100

State = Literal["queued", "running", "done", "failed", "cancelled"]
log = logging.getLogger(__name__)


class BusyError(CounterplanError):
    """Too much has been asked at once."""


@dataclass(eq=False)
class Job:
    """A question and what became of it.

    seconds   how long it may take
    progress  the file that tells how far it is
    """

    client: str
    question: Mapping[str, Any]
    seconds: float
    progress: Path
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: State = "queued"
    error: str | None = None
    result: Any = None
    started: float | None = None
    ended: float | None = None
    is_cancelled: bool = False
    timers: list[threading.Timer] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds at work."""
        if self.started is None:
            return 0.0
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    @property
    def is_over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ("done", "failed", "cancelled")

    def reached(self) -> tuple[int, float, float] | None:
        """How far the search is: nodes, best value, bound."""
        try:
            nodes, value, bound = json.loads(self.progress.read_text())
        except (OSError, ValueError):
            return None
        return int(nodes), float(value), float(bound)


class Jobs:
    """The lines, and the workers that serve them.

    spec        the task of the workers
    workers     how many
    per_client  how many questions a client may have waiting or at work
    finish      makes the result out of what a worker sends
    """

    def __init__(
        self,
        spec: TaskSpec,
        workers: int,
        per_client: int,
        finish: Callable[[Mapping[str, Any], PartResult], Any],
    ) -> None:
        self._spec, self._per_client, self._finish = spec, per_client, finish
        self._share = max(1, workers - 1)
        self._lines: OrderedDict[str, deque[Job]] = OrderedDict()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._at_work: list[Job] = []
        self._running: dict[str, Worker] = {}
        self._change = threading.Condition()
        self._is_closed = False
        self._notes = tempfile.TemporaryDirectory(prefix="counterplan-")
        self._lanes = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        for lane in self._lanes:
            lane.start()

    def submit(self, client: str, question: Mapping[str, Any], seconds: float) -> Job:
        """Put a question in its client's line."""
        with self._change:
            mine = sum(job.client == client and not job.is_over for job in self._jobs.values())
            if mine >= self._per_client:
                raise BusyError(
                    f"you have {mine} questions waiting or at work, and no more are allowed: wait "
                    "for one, or cancel it"
                )
            if sum(map(len, self._lines.values())) >= MOST_WAITING:
                raise BusyError("too many questions are waiting: try again later")
            progress = Path(self._notes.name) / secrets.token_hex(8)
            job = Job(client, question, seconds, progress)
            self._jobs[job.id] = job
            self._lines.setdefault(client, deque()).append(job)
            self._forget()
            self._change.notify()
        return job

    def known(self, client: str, question: Mapping[str, Any], result: Any) -> Job:
        """A question whose answer is known already, as a job that is done."""
        job = Job(client, question, 0.0, Path(self._notes.name) / "none", state="done")
        job.result = result
        with self._change:
            self._jobs[job.id] = job
            self._forget()
        return job

    def find(self, name: str) -> Job | None:
        """A job by its id; None if it is unknown or forgotten."""
        with self._change:
            return self._jobs.get(name)

    def ahead(self, job: Job) -> int:
        """How many waiting jobs are served before this one: lines take turns."""
        with self._change:
            lines = list(self._lines)
            if job.client not in lines or job not in self._lines[job.client]:
                return 0
            own, turn = self._lines[job.client].index(job), lines.index(job.client)
            others = (
                min(len(line), own + (lines.index(client) < turn))
                for client, line in self._lines.items()
                if client != job.client
            )
            return own + sum(others)

    def cancel(self, job: Job) -> None:
        """End a job, whether it waits or is at work."""
        with self._change:
            if job.is_over:
                return
            job.is_cancelled = True
            if job.state == "queued":
                self._end(job, "cancelled")
                self._leave(job)
                return
            job.progress.with_suffix(".stop").touch()
        self._later(GRACE, job)

    def close(self) -> None:
        """End all workers."""
        with self._change:
            self._is_closed = True
            workers = list(self._running.values())
            self._change.notify_all()
        for worker in workers:
            worker.kill()
        for lane in self._lanes:
            lane.join()
        self._notes.cleanup()

    # --- Lanes: each has a worker ---------------------------------------------------------------

    def _serve(self) -> None:
        worker: Worker | None = None
        try:
            worker = self._started(worker)
            while (job := self._next()) is not None:
                worker = self._started(worker)
                if worker is None:
                    self._close_job(job, "failed", "no worker process could be started")
                    continue
                worker = self._run(job, worker)
        finally:
            if worker is not None:
                worker.close()

    def _started(self, worker: Worker | None) -> Worker | None:
        """A worker that can be asked, None if none can be started."""
        if worker is not None and worker.is_alive:
            return worker
        if self._is_closed:
            return None
        try:
            return Worker(self._spec)
        except (WorkerDiedError, CounterplanError, OSError) as problem:
            log.error("a worker could not be started: %s", problem)
            return None

    def _next(self) -> Job | None:
        """The next job, one line after the other; None at the end of all work."""
        with self._change:
            while (client := self._turn()) is None and not self._is_closed:
                self._change.wait()
            if client is None or self._is_closed:
                return None
            line = self._lines.pop(client)
            job = line.popleft()
            if line:
                self._lines[client] = line
            self._at_work.append(job)
            job.state, job.started = "running", time.monotonic()
            return job

    def _turn(self) -> str | None:
        """The client whose turn it is, None if all who wait have their share of the workers."""
        busy = Counter(job.client for job in self._at_work)
        return next((client for client in self._lines if busy[client] < self._share), None)

    def _run(self, job: Job, worker: Worker) -> Worker | None:
        """Answer a job; returns the worker if it can go on."""
        asked = {**job.question, "seconds": job.seconds, "progress": str(job.progress)}
        with self._change:
            self._running[job.id] = worker
            if self._is_closed:
                worker.kill()
        self._later(job.seconds + OVERTIME, job)
        try:
            found = worker.solve(json.dumps(asked).encode())
            job.result = self._finish(job.question, found)
        except WorkerDiedError as problem:
            worker.close()
            over = job.elapsed >= job.seconds + OVERTIME
            reason = f"took longer than {job.seconds:g} seconds" if over else str(problem)
            self._close_job(job, "failed", f"there is no answer: the worker {reason}")
            return None
        except CounterplanError as problem:
            self._close_job(job, "failed", " ".join(str(problem).split()))
        except Exception:
            log.exception("a question could not be answered: %s", job.question)
            self._close_job(job, "failed", "the question could not be answered: a fault of ours")
        else:
            self._close_job(job, "done", None)
        return worker

    def _close_job(self, job: Job, state: State, error: str | None) -> None:
        with self._change:
            self._running.pop(job.id, None)
            self._at_work.remove(job)
            self._change.notify_all()
            if job.is_cancelled:
                self._end(job, "cancelled")
            else:
                self._end(job, state, error)

    def _end(self, job: Job, state: State, error: str | None = None) -> None:
        job.error, job.ended, job.state = error, time.monotonic(), state
        for timer in job.timers:
            timer.cancel()
        for suffix in ("", ".stop", ".new"):
            job.progress.with_suffix(suffix).unlink(missing_ok=True)

    def _leave(self, job: Job) -> None:
        line = self._lines[job.client]
        line.remove(job)
        if not line:
            del self._lines[job.client]

    def _later(self, seconds: float, job: Job) -> None:
        """End the worker of a job if it is still at it after some seconds."""

        def end() -> None:
            # With the lock in hand: the worker cannot have gone on to another job.
            with self._change:
                if (worker := self._running.get(job.id)) is not None:
                    worker.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        job.timers.append(timer)
        timer.start()

    def _forget(self) -> None:
        over = [name for name, job in self._jobs.items() if job.is_over]
        for name in over[: max(0, len(over) - FINISHED)]:
            del self._jobs[name]
