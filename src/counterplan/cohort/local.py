"""Parts solved in processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice

from counterplan.cohort.task import TaskSpec
from counterplan.cohort.workers import Outcome, Solve, Workers

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
