"""Worker processes, on this machine: a fresh interpreter each, with one thread for linear algebra.

So N workers use N cores, and digits do not depend on N or on what else the parent process has
loaded. A worker that dies is replaced and its part tried again.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from counterplan import errors
from counterplan.errors import CounterplanError
from counterplan.runs.task import PartResult, TaskSpec
from counterplan.runs.worker import OUT_OF_MEMORY, Message, receive, result_of, send, spec_message

# How often a part may end its worker before it is given up.
TRIES = 3
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    # Several processes cannot share a graphics card.
    "JAX_PLATFORMS": "cpu",
}


class WorkerDiedError(Exception):
    """A worker process that ended without an answer."""


@dataclass(frozen=True)
class Lost:
    """What there is of a part that ended its worker too often.

    reason  what became of the worker
    """

    reason: str


Outcome = PartResult | Lost
# What comes out of the parts of these numbers, as it comes; the parts are read with the function.
Solve = Callable[[Iterable[int], Callable[[int], bytes]], Iterator[tuple[int, Outcome]]]


class Worker:
    """A worker process that has opened a task."""

    def __init__(self, spec: TaskSpec) -> None:
        path = [entry or os.getcwd() for entry in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "counterplan.runs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(path)},
            # Keys pressed in a terminal go to the parent only, which then ends its workers.
            process_group=0 if os.name == "posix" else None,
        )
        try:
            self._ask(spec_message(spec))
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def solve(self, part: bytes) -> PartResult:
        """The result of a part."""
        return result_of(self._ask(Message({}, {"part": part})))

    def failed(self, part: bytes, reason: str) -> PartResult | None:
        """What to keep of a part that cannot be solved, None if the task has no word for it."""
        answer = self._ask(Message({"give up": reason}, {"part": part}))
        return None if "none" in answer.about else result_of(answer)

    def kill(self) -> None:
        """End the process; whoever waits for its answer is told."""
        self._process.kill()

    def close(self) -> None:
        """End the process and forget it."""
        self.kill()
        for stream in self._streams():
            # What was still to be sent is of no use any more.
            with suppress(BrokenPipeError):
                stream.close()
        self._process.wait()

    def _streams(self) -> tuple[IO[bytes], IO[bytes]]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        return requests, answers

    def _ask(self, message: Message) -> Message:
        requests, answers = self._streams()
        try:
            send(requests, message)
            answer = receive(answers)
        except OSError:
            answer = None
        if answer is None:
            raise WorkerDiedError(_ending(self._process.wait()))
        if "error" in answer.about:
            raise _error(answer.about["error"], answer.about["text"])
        return answer


def _ending(code: int) -> str:
    if code == OUT_OF_MEMORY:
        return "was out of memory"
    if code == -signal.SIGKILL:
        return "was killed, as happens when memory runs out"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"ended with code {code}"


def _error(kind: str, text: str) -> Exception:
    """What a worker raised, anew; not a CounterplanError if the program is at fault."""
    if not kind:
        return RuntimeError(f"a worker failed:\n{text}")
    found: type[Exception] = getattr(errors, kind, CounterplanError)
    return found(text)


class Workers:
    """The workers of one task, started when needed and used again; threads may share it."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._has_ended = False

    def solve(self, part: bytes) -> Outcome:
        """The result of a part, tried several times if its worker dies."""
        reason = ""
        for _ in range(TRIES):
            worker = self._take()
            try:
                result = worker.solve(part)
            except WorkerDiedError as problem:
                reason = str(problem)
                self._drop(worker)
            else:
                self._idle.put(worker)
                return result
        return Lost(reason)

    def end(self) -> None:
        """End all workers, whatever they are doing."""
        with self._lock:
            self._has_ended = True
            workers = list(self._all)
        # First all, then wait: a reader in another thread lets go once its worker is dead.
        for worker in workers:
            worker.kill()
        for worker in workers:
            self._drop(worker)

    def _take(self) -> Worker:
        while True:
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return self._start()
            if worker.is_alive:
                return worker
            self._drop(worker)

    def _start(self) -> Worker:
        reason = ""
        for _ in range(TRIES):
            try:
                worker = Worker(self._spec)
            except WorkerDiedError as problem:
                reason = str(problem)
                continue
            with self._lock:
                if not self._has_ended:
                    self._all.add(worker)
                    return worker
            worker.close()
            raise CounterplanError("the workers have been ended")
        raise CounterplanError(
            f"worker processes end before they have opened the model: the last one {reason}; "
            "use fewer workers or a machine with more memory"
        )

    def _drop(self, worker: Worker) -> None:
        worker.close()
        with self._lock:
            self._all.discard(worker)
