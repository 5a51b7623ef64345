"""Parts solved on a Dask cluster that is already running.

The task goes to the cluster once and lives in the workers' memory for as long as this client holds
on to it; parts and results travel as bytes, so that no file system need be shared. Every thread of
a Dask worker has a process of its own for the work, the same kind as a local run uses: whatever the
cluster's workers have loaded, and however many threads they have, the results are the same.
"""

from __future__ import annotations

import logging
import re
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from counterplan.errors import CounterplanError, InputError, NotApplicableError, not_installed
from counterplan.runs.store import AGAIN, package_versions
from counterplan.runs.task import WINDOW, Lost, Outcome, Solve, TaskSpec, Workers

if TYPE_CHECKING:
    from distributed import Client, Future, as_completed

CONNECT_SECONDS = 8
# Without any part coming back for so long, the scheduler is asked whether it is there, and given as
# long again to say so, as it is to whatever else it is asked: one that hangs keeps its connections.
SILENT_SECONDS = 30
ADDRESS = re.compile(r"(tcp|tls|ws|wss)://[^\s/]+:\d{1,5}")


class RemoteTask:
    """A task in the memory of a Dask worker, with the processes that do it there."""

    def __init__(self, spec: TaskSpec, versions: Mapping[str, str]) -> None:
        self._spec, self._versions = spec, versions
        self._workers = Workers(spec)
        weakref.finalize(self, self._workers.end)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another Dask worker gets the task, but not the processes."""
        return RemoteTask, (self._spec, self._versions)

    def solve(self, part: bytes) -> Outcome:
        # A worker may have joined the cluster after its versions were compared.
        _refuse_other_versions("a worker of the cluster", self._versions, package_versions())
        return self._workers.solve(part)


@contextmanager
def cluster_solver(spec: TaskSpec, address: str) -> Iterator[Solve]:
    """What solves parts on the cluster of a scheduler, which is connected to while this lasts."""
    try:
        from distributed import CancelledError
    except ModuleNotFoundError:
        raise NotApplicableError(not_installed("a cluster needs Dask", "cluster")) from None
    with _quiet(), _connect(address) as client:
        versions = package_versions()
        _check_workers(client, address, versions)
        with warnings.catch_warnings():
            # Dask warns of arguments as large as a model; this one is sent once.
            warnings.simplefilter("ignore", UserWarning)
            task = client.submit(RemoteTask, spec, versions, pure=False)

        def solve(
            indices: Iterable[int], read: Callable[[int], bytes]
        ) -> Iterator[tuple[int, Outcome]]:
            try:
                yield from _solve(client, task, ((index, read(index)) for index in indices))
            except TimeoutError:
                raise CounterplanError(
                    f"cluster {address}: its scheduler has not answered for {SILENT_SECONDS} "
                    f"seconds; what is done is kept; mend the cluster, then {AGAIN}"
                ) from None
            except (CancelledError, OSError):
                raise CounterplanError(
                    f"cluster {address}: the connection was lost; what is done is kept; {AGAIN}"
                ) from None

        yield solve


def _solve(
    client: Client, task: Future, parts: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[int, Outcome]]:
    from distributed import KilledWorker, as_completed

    running: dict[Future, int] = {}
    arriving = as_completed(loop=client.loop)
    while True:
        threads = client.sync(client.scheduler.ncores, callback_timeout=SILENT_SECONDS)
        size = WINDOW * max(sum(threads.values()), 1)
        for index, part in islice(parts, max(size - len(running), 0)):
            future = client.submit(RemoteTask.solve, task, part, pure=False)
            running[future] = index
            arriving.add(future)
        if not running:
            return
        _await_one(client, arriving)
        future = next(arriving)
        try:
            outcome: Outcome = future.result(timeout=SILENT_SECONDS)
        except KilledWorker:
            outcome = Lost("was killed with its Dask worker")
        yield running.pop(future), outcome


def _await_one(client: Client, arriving: as_completed) -> None:
    """Wait until a part has come; TimeoutError if the scheduler is no longer there."""
    asked = time.monotonic()
    while not arriving.has_ready():
        time.sleep(0.02)
        if time.monotonic() - asked > SILENT_SECONDS:
            client.sync(client.scheduler.identity, callback_timeout=SILENT_SECONDS)
            asked = time.monotonic()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep tracebacks of Dask's own threads from the terminal: what matters of them is raised."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _connect(address: str) -> Client:
    from distributed import Client

    if not ADDRESS.fullmatch(address):
        raise InputError(
            f"cluster {address!r}: is no address of a scheduler; give one like tcp://host:8786"
        )
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"cluster {address}: no Dask scheduler answers there ({problem}); check the address, "
            "or start one with `dask scheduler`"
        ) from None


def _check_workers(client: Client, address: str, versions: Mapping[str, str]) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise InputError(
            f"cluster {address}: the scheduler has no workers; start some with "
            f"`dask worker {address}`"
        ) from None
    for worker, found in client.run(package_versions, on_error="return").items():
        if not isinstance(found, dict):
            raise InputError(
                f"cluster {address}: worker {worker} cannot load counterplan ({found}); install "
                f"counterplan {versions['counterplan']} there"
            )
        _refuse_other_versions(f"cluster {address}: worker {worker}", versions, found)


def _refuse_other_versions(who: str, here: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Raise unless two places have the same versions of what results depend on."""
    other = [
        f"{name} {there.get(name, 'none')} instead of {here.get(name, 'none')}"
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    ]
    if other:
        raise InputError(f"{who} has {', '.join(other)}; install the same versions everywhere")
