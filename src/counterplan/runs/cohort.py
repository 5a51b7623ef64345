"""The one loop of a cohort run: parts out, results in, kept as they come.

Where the work is done, in processes here or on a cluster, changes nothing about the results.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from counterplan.core.limits import Progress, ProgressCallback
from counterplan.core.validation import whole_number
from counterplan.errors import CounterplanError
from counterplan.runs.store import (
    AGAIN,
    Manifest,
    Store,
    add,
    json_value,
    open_store,
    task_record,
    totals_of,
)
from counterplan.runs.task import (
    Lost,
    PartResult,
    Solve,
    TaskSpec,
    Worker,
    WorkerDiedError,
    local_solver,
)

PART_SIZE = 50
# More processes than this on one machine are a slip of the keyboard.
MOST_WORKERS = 1024
# Larger parts would not fit into memory a few at a time.
MOST_PART_SIZE = 10**5
# Parts that may be lost before the run ends early: it is not their fault then.
MOST_LOST = 3
# What a run is doing, see `Progress.what`.
READING, SOLVING = "reading", "solving"


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
class RunProgress(Progress):
    """How far a run has come: `done` of `total` parts are done, or so many have been read.

    resumed   parts that were done before
    episodes  that were done since
    totals    the summaries of all parts that are done, added up
    """

    resumed: int = 0
    episodes: float = 0.0
    totals: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSummary:
    """What a run has come to.

    out      its folder
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
    parts: Iterable[bytes],
    out: Path,
    settings: RunSettings,
    progress: ProgressCallback | None = None,
) -> RunSummary:
    """Do a task for every part and keep the results in the folder `out`.

    Stopped at any moment, the same call continues where it was and ends with the same bytes in
    every file; `parts` is read at the first call only. `progress` is called with a `RunProgress`
    for every part; False stops the run, which can be continued.
    """
    started, out = time.monotonic(), Path(out)
    with (
        _terminable(),
        open_store(out, _manifest_of(spec, settings), spec.files) as store,
        _solver(spec, settings) as solve,
    ):
        try:
            manifest, before = store.begin(_counted(parts, progress))
            tracker = _Tracker(progress, manifest.parts, len(before.pending), dict(before.totals))
            has_all = _solve_parts(spec, store, solve, before.pending, tracker)
        except (KeyboardInterrupt, SystemExit) as stop:
            text = f"{out}: stopped; {AGAIN}"
            print(text, file=sys.stderr)
            stop.add_note(text)  # so that nobody says it again
            raise
        if has_all and not manifest.complete:
            store.complete(manifest)
    totals = totals_of(store.layout, manifest.parts)
    return RunSummary(out, manifest.parts, tracker.resumed, totals, time.monotonic() - started)


def _manifest_of(spec: TaskSpec, settings: RunSettings) -> Manifest:
    if settings.workers is not None:
        whole_number(settings.workers, "the number of workers", 1, MOST_WORKERS)
    return Manifest(
        task=task_record(spec),
        arguments=json_value(dict(settings.arguments), "the arguments of the run"),
        hashes=dict(settings.hashes),
        seed=whole_number(settings.seed, "seed"),
        part_size=whole_number(settings.part_size, "the size of parts", 1, MOST_PART_SIZE),
        repeatable=settings.repeatable,
        notes=settings.notes,
    )


def _solver(spec: TaskSpec, settings: RunSettings) -> AbstractContextManager[Solve]:
    if settings.cluster is None:
        return local_solver(spec, settings.workers)
    from counterplan.runs.cluster import cluster_solver

    return cluster_solver(spec, settings.cluster)


def _counted(parts: Iterable[bytes], progress: ProgressCallback | None) -> Iterator[bytes]:
    for count, part in enumerate(parts, start=1):
        if progress is not None:
            progress(RunProgress(READING, count))
        yield part


class _Tracker:
    """Tells a callback of every part that is done."""

    def __init__(
        self, progress: ProgressCallback | None, parts: int, pending: int, totals: dict[str, float]
    ) -> None:
        self._progress, self._parts, self._totals = progress, parts, totals
        self.resumed = self._done = parts - pending
        self._episodes, self._started = 0.0, time.monotonic()
        self._call()

    def add(self, summary: Mapping[str, float]) -> bool:
        """Another part is done; False if the run shall stop."""
        self._done += 1
        self._episodes += summary.get("episodes", 0.0)
        add(self._totals, summary)
        return self._call()

    def _call(self) -> bool:
        if self._progress is None:
            return True
        seconds = time.monotonic() - self._started
        counts = {"done": self._done, "total": self._parts, "resumed": self.resumed}
        found = RunProgress(
            SOLVING, **counts, seconds=seconds, episodes=self._episodes, totals=dict(self._totals)
        )
        return self._progress(found) is not False


def _solve_parts(
    spec: TaskSpec, store: Store, solve: Solve, pending: Sequence[int], tracker: _Tracker
) -> bool:
    """Keep what comes out, and say whether all parts are done; raise at the end if there are parts
    without a result."""
    lost: dict[int, Lost] = {}
    for index, outcome in solve(pending, store.read_part):
        result = outcome
        if isinstance(outcome, Lost):
            recorded = _recorded_as_failed(spec, store.read_part(index), outcome)
            if recorded is None:
                lost[index] = outcome
                if len(lost) >= MOST_LOST:
                    break
                continue
            result = recorded
        assert isinstance(result, PartResult)
        store.write_part(index, result)
        if not tracker.add(result.summary):
            return False
    if lost:
        _refuse(store.layout.out, lost)
    return True


def _recorded_as_failed(spec: TaskSpec, part: bytes, lost: Lost) -> PartResult | None:
    """A part whose worker died too often as the task records it, None if it cannot."""
    try:
        with closing(Worker(spec)) as worker:
            return worker.failed(part, f"its process {lost.reason}")
    except WorkerDiedError:
        return None


def _refuse(out: Path, lost: Mapping[int, Lost]) -> NoReturn:
    index, outcome = next(iter(lost.items()))
    others = f" (likewise {len(lost) - 1} more)" if len(lost) > 1 else ""
    raise CounterplanError(
        f"{out}: part {index:05d} could not be done{others}: its worker process {outcome.reason}, "
        "at every try; what is done is kept; run the same command again, with fewer workers if "
        "memory is short"
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
