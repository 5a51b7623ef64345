"""The one loop of a cohort run: parts out, results in, kept as they come.

Where the work is done, in processes here or on a cluster, changes nothing about the results.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from counterplan.core.limits import Progress, ProgressCallback
from counterplan.core.validation import whole_number
from counterplan.errors import CounterplanError
from counterplan.runs.store import (
    AGAIN,
    Manifest,
    Store,
    Survey,
    add,
    json_value,
    open_store,
    task_record,
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

log = logging.getLogger(__name__)
PART_SIZE = 50
# More processes than this on one machine are a slip of the keyboard.
MOST_WORKERS = 1024
# Larger parts would not fit into memory a few at a time.
MOST_PART_SIZE = 10**5
# Parts that may be lost before the run ends early: it is not their fault then. Nor is it before
# any other has been done.
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
    again       whether to do parts again in which something failed
    repeatable  False if the question has limits in time, so that the answer may vary
    notes       lines about the input; a list that reading `parts` may add to
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    workers: int | None = None
    cluster: str | None = None
    part_size: int = PART_SIZE
    again: bool = False
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


class RunSummary(NamedTuple):
    """What a run has come to: its parts, how many of them were done before, the summaries of all
    added up in order, and how long this took."""

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
    started, out, report = time.monotonic(), Path(out), progress or (lambda _: None)

    def read() -> Iterator[bytes]:
        for count, part in enumerate(parts, start=1):
            report(RunProgress(READING, count))
            yield part

    with (
        _terminable(),
        open_store(out, _manifest_of(spec, settings), spec.files) as store,
        _solver(spec, settings) as solve,
    ):
        try:
            before = store.begin(read(), settings.notes, settings.again)
            log.info("%s: %d of %d parts to do", out, len(before.pending), store.manifest.parts)
            has_all = _solve_parts(spec, store, solve, before, report)
        except (KeyboardInterrupt, SystemExit) as stop:
            text = f"{out}: stopped; {AGAIN}"
            print(text, file=sys.stderr)
            stop.add_note(text)  # so that nobody says it again
            raise
        if has_all:
            store.complete()
    count, seconds = store.manifest.parts, time.monotonic() - started
    return RunSummary(out, count, count - len(before.pending), store.totals(), seconds)


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
    )


def _solver(spec: TaskSpec, settings: RunSettings) -> AbstractContextManager[Solve]:
    if settings.cluster is None:
        return local_solver(spec, settings.workers)
    from counterplan.runs.cluster import cluster_solver

    return cluster_solver(spec, settings.cluster)


def _solve_parts(
    spec: TaskSpec, store: Store, solve: Solve, before: Survey, report: Callable[[Progress], Any]
) -> bool:
    """Keep what comes out, and say whether all parts are done; raise at the end if there are parts
    without a result."""
    started, pending, totals = time.monotonic(), before.pending, dict(before.totals)
    resumed = done = store.manifest.parts - len(pending)
    episodes, lost = 0.0, dict[int, Lost]()

    def keep(index: int, result: PartResult) -> None:
        nonlocal done, episodes
        store.write_part(index, result)
        log.info("solved part %05d of %s", index, store.folder)
        done += 1
        episodes += result.summary.get("episodes", 0.0)
        add(totals, result.summary)

    def shall_go_on() -> bool:
        found = RunProgress(
            SOLVING,
            done,
            store.manifest.parts,
            seconds=time.monotonic() - started,
            resumed=resumed,
            episodes=episodes,
            totals=dict(totals),
        )
        return report(found) is not False

    shall_go_on()
    for index, outcome in solve(pending, store.read_part):
        if isinstance(outcome, Lost):
            lost[index] = outcome
        else:
            keep(index, outcome)
        for at, one in list(lost.items()) if done else ():
            result = None if one.machine else _as_failed(spec, store.read_part(at), one)
            if result is None:
                lost[at] = replace(one, machine=True)
            else:
                del lost[at]
                keep(at, result)
        if len(lost) >= MOST_LOST:
            break
        if not shall_go_on():
            return False
    for index, outcome in lost.items():
        others = f" (likewise {len(lost) - 1} more)" if len(lost) > 1 else ""
        raise CounterplanError(
            f"{store.folder}: part {index:05d} could not be done{others}: its worker process "
            f"{outcome.reason}, at every try; what is done is kept; run the same command again, "
            "with fewer workers if memory is short"
        )
    return True


def _as_failed(spec: TaskSpec, part: bytes, lost: Lost) -> PartResult | None:
    """A part whose worker died too often as the task records it, None if it cannot."""
    try:
        with closing(Worker(spec)) as worker:
            return worker.failed(part, f"its process {lost.reason}")
    except WorkerDiedError:
        return None


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
