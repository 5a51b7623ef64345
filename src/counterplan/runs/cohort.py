"""The one loop of a cohort run: parts out, results in, kept as they come.

Where the work is done, in processes here or on a cluster, changes nothing about the results.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from counterplan.core.validation import whole_number
from counterplan.errors import CounterplanError
from counterplan.runs.manifest import Manifest, plain, task_record
from counterplan.runs.pool import Lost, Outcome, Solve, Worker, WorkerDiedError, Workers
from counterplan.runs.progress import Progress
from counterplan.runs.store import AGAIN, Store, open_store, totals_of
from counterplan.runs.task import PartResult, TaskSpec

# ----------------------------------------------------------------------------------------------
# Parts solved in processes of this machine.

# Parts handed out for each worker: one at work and one that waits.
WINDOW = 2


@contextmanager
def local_solver(spec: TaskSpec, count: int) -> Iterator[Solve]:
    """What solves parts with `count` workers, which are ended when this ends."""
    workers = Workers(spec)
    threads = ThreadPoolExecutor(count)

    def solve(
        indices: Iterable[int], read: Callable[[int], bytes]
    ) -> Iterator[tuple[int, Outcome]]:
        def solve_one(index: int) -> Outcome:
            return workers.solve(read(index))

        waiting = iter(indices)
        running: dict[Future[Outcome], int] = {}
        while True:
            for index in islice(waiting, WINDOW * count - len(running)):
                running[threads.submit(solve_one, index)] = index
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()

    try:
        yield solve
    finally:
        workers.end()
        threads.shutdown(cancel_futures=True)


def core_count() -> int:
    """How many processes can work at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ----------------------------------------------------------------------------------------------

PART_SIZE = 50
# More processes than this on one machine are a slip of the keyboard.
MOST_WORKERS = 1024
# Larger parts would not fit into memory a few at a time.
MOST_PART_SIZE = 10**5
# Parts that may be lost before the run ends early: it is not their fault then.
MOST_LOST = 3


@dataclass(frozen=True)
class RunSettings:
    """How to run, and what to write down about the question.

    arguments   what the user asked, by option name without dashes ("k", "max_move"), plain JSON;
                no paths: files are told apart by their hashes
    hashes      checksums of what was read: "model", "input", "schema"
    seed        of all that is random
    workers     processes; None is one for every core
    cluster     address of a Dask scheduler instead, such as "tcp://127.0.0.1:8786"
    part_size   episodes per part: how `parts` was made
    repeatable  False if the question has limits in time, so that the answer may vary
    notes       lines about the input; a list that reading `parts` may add to
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    workers: int | None = None
    cluster: str | None = None
    part_size: int = PART_SIZE
    repeatable: bool = True
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class RunSummary:
    """What a run has come to.

    out      its folder, complete
    parts    how many there are
    resumed  how many of them were done before
    totals   the summaries of all parts, added up in order
    seconds  how long this took
    """

    out: Path
    parts: int
    resumed: int
    totals: Mapping[str, float]
    seconds: float


def run_cohort(
    spec: TaskSpec,
    parts: Iterable[bytes] | Callable[[], Iterable[bytes]],
    out: Path,
    settings: RunSettings,
) -> RunSummary:
    """Do a task for every part and keep the results in the folder `out`.

    Stopped at any moment, the same call continues where it was and ends with the same bytes in
    every file; `parts` is read at the first call only.
    """
    started, out = time.monotonic(), Path(out)
    asked = _question(spec, settings)
    progress = Progress()
    with (
        _terminable(),
        open_store(out, asked, spec.files) as store,
        _solver(spec, settings) as solve,
        progress.shown(),
    ):
        try:
            manifest, before = store.begin(progress.reading(parts))
            resumed = manifest.parts - len(before.pending)
            progress.begin(manifest.parts, resumed, before.totals)
            _Loop(spec, store, progress).run(solve(before.pending, store.read_part))
        except (KeyboardInterrupt, SystemExit) as stop:
            told = f"{out}: stopped; {AGAIN}"
            progress.note(told)
            stop.add_note(told)  # so that nobody tells it again
            raise
        if not manifest.complete:
            store.complete(manifest)
    totals = totals_of(store.layout, manifest.parts)
    return RunSummary(out, manifest.parts, resumed, totals, time.monotonic() - started)


def _solver(spec: TaskSpec, settings: RunSettings) -> AbstractContextManager[Solve]:
    if settings.cluster is None:
        return local_solver(spec, settings.workers or core_count())
    from counterplan.runs.cluster import cluster_solver

    return cluster_solver(spec, settings.cluster)


def _question(spec: TaskSpec, settings: RunSettings) -> Manifest:
    if settings.workers is not None:
        whole_number(settings.workers, "the number of workers", 1, MOST_WORKERS)
    return Manifest(
        task=task_record(spec),
        arguments=plain(dict(settings.arguments), "the arguments of the run"),
        hashes=dict(settings.hashes),
        seed=whole_number(settings.seed, "seed"),
        part_size=whole_number(settings.part_size, "the size of parts", 1, MOST_PART_SIZE),
        repeatable=settings.repeatable,
        notes=settings.notes,
    )


@dataclass(frozen=True)
class _Loop:
    spec: TaskSpec
    store: Store
    progress: Progress

    def run(self, outcomes: Iterable[tuple[int, Outcome]]) -> None:
        """Keep what comes out; raise at the end if there are parts without a result."""
        lost: dict[int, Lost] = {}
        for index, outcome in outcomes:
            result = self._recorded(index, outcome) if isinstance(outcome, Lost) else outcome
            if result is not None:
                self.store.write_part(index, result)
                self.progress.add(result.summary)
            elif isinstance(outcome, Lost):
                lost[index] = outcome
                if len(lost) >= MOST_LOST:
                    break
        if lost:
            self._refuse(lost)

    def _recorded(self, index: int, outcome: Lost) -> PartResult | None:
        """A part whose worker died too often as the task records it, None if it cannot."""
        part = self.store.read_part(index)
        try:
            with closing(Worker(self.spec)) as worker:
                return worker.failed(part, f"its process {outcome.reason}")
        except WorkerDiedError:
            return None

    def _refuse(self, lost: Mapping[int, Lost]) -> NoReturn:
        index, outcome = next(iter(lost.items()))
        others = f" (likewise {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise CounterplanError(
            f"{self.store.layout.out}: part {index:05d} could not be done{others}: its worker "
            f"process {outcome.reason}, at every try; what is done is kept; run the same command "
            "again, with fewer workers if memory is short"
        )


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the program as Ctrl-C does, so that nothing is left behind."""

    def stop(number: int, frame: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
