"""A task that is done with every part of a cohort, and the worker processes that do it.

A task is rebuilt from what crosses to a worker: a kind, a description and files as bytes. Its
output depends on these and on the part's own bytes only, never on the time, the worker or the
order, so that a run gives the same bytes however it is spread or interrupted.

A worker is a fresh interpreter with one thread for linear algebra: N workers use N cores, and
digits do not depend on N or on what else the parent process has loaded. It opens its task once and
solves the parts that come in on stdin until its parent is gone. A worker that dies is replaced and
its part tried again, at most TRIES times; such a part is `Lost`.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import Any, NoReturn, Protocol

from counterplan.core.limits import TEMPORARY
from counterplan.errors import CounterplanError, InputError

EXPLAIN, REGRET = "explain", "regret"
# The module of each kind of task; it has a function `open_task(spec) -> Task`.
KINDS = {EXPLAIN: "counterplan.runs.explain", REGRET: "counterplan.runs.regret"}
LONGEST_REASON = 300
# What is the machine's fault, and whose errors are.
FAULTS = (OSError, ImportError, MemoryError)
COMPILERS = ("numba", "llvmlite")
# How often a part may end its worker before it is given up.
TRIES = 3
# Parts handed out for each worker: one at work and one that waits.
WINDOW = 2
# The exit code of a worker that could not get the memory it needs.
OUT_OF_MEMORY = 77
# That of one that was killed; SIGKILL has no name on Windows.
KILLED = -9
LIBRARIES = ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "BLIS_NUM", "VECLIB_MAXIMUM", "NUMBA_NUM")
ENVIRONMENT = {
    **{f"{name}_THREADS": "1" for name in (*LIBRARIES, "POLARS_MAX")},
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    # Several processes cannot share a graphics card.
    "JAX_PLATFORMS": "cpu",
}
_PR_SET_PDEATHSIG = 1
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskSpec:
    """A task that can be sent.

    kind         one of KINDS, or the name of a module of one's own, with a dot in it, such as
                 "ward.counting", that has a function `open_task(spec) -> Task` too; it must be
                 importable wherever the work is done
    description  all that decides the results besides the files; plain JSON
    files        the model and whatever else is read, by name
    """

    kind: str
    description: Mapping[str, Any]
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class PartResult:
    """What came out of one part.

    tables   Parquet files by the folder they go to, such as "results" and "trajectories"
    summary  numbers to add up over parts for the progress line, such as {"episodes": 50,
             "failed": 1, "optimal": 48, "improvement": 12.5}
    """

    tables: Mapping[str, bytes]
    summary: Mapping[str, float]


@dataclass(frozen=True)
class Lost:
    """A part that ended its worker at every try; `reason` is what became of the last one, and
    `machine` whether it was no fault of the part."""

    reason: str
    machine: bool = False


Outcome = PartResult | Lost
# What comes out of the parts of these numbers, as it comes; the parts are read with the function.
Solve = Callable[[Iterable[int], Callable[[int], bytes]], Iterator[tuple[int, Outcome]]]


class Task(Protocol):
    """Solves parts; an item that fails is recorded in the tables with its reason.

    A task may also have a method `failed(part, reason) -> PartResult` that records all items of a
    part as failed: it is called for a part that is lost. Without it such a part is left out, and
    the run says so at its end.
    """

    def solve(self, part: bytes) -> PartResult:
        """The result of one part of the input."""
        ...


def open_task(spec: TaskSpec) -> Task:
    """The task that a specification stands for, made ready: the model is loaded once."""
    module = KINDS.get(spec.kind, spec.kind)
    if "." not in module:
        raise InputError(f"unknown kind of task {spec.kind!r}: there are {', '.join(KINDS)}")
    try:
        found = import_module(module)
    except ModuleNotFoundError as problem:
        raise InputError(
            f"the task {spec.kind!r} cannot be loaded: {problem}; install it where the work is done"
        ) from None
    task: Task = found.open_task(spec)
    return task


def reason_of(problem: Exception) -> str:
    """Why an item failed, in one line; a fault of the machine is none of the item's: it is raised
    again."""
    if _is_machines(problem):
        raise problem
    return _in_one_line(problem)


def _is_machines(problem: Exception) -> bool:
    """Whether a full disk, a missing library, the compiler or memory is at fault."""
    maker = type(problem).__module__.partition(".")[0]
    return isinstance(problem, FAULTS) or maker in COMPILERS


def _in_one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())
    if not isinstance(problem, CounterplanError):
        text = f"{type(problem).__name__}: {text}"
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


def serve() -> None:
    """Work for the process that has started this one, until it closes stdin: first comes a task,
    then calls of its methods as (name, arguments); every answer is a result or an exception."""
    # Whoever starts a worker ends it too: Ctrl-C in a terminal is not for it to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        # So that it ends with its parent even in the middle of compiled code.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()
    task: Task | None = None
    try:
        while True:
            request, answer = requests.get(), None
            try:
                if task is None:
                    task = open_task(request)
                elif (method := getattr(task, request[0], None)) is not None:
                    answer = method(*request[1])
            except MemoryError:
                raise
            except CounterplanError as problem:
                answer = problem
            except Exception as problem:
                answer = RuntimeError(f"a worker failed:\n{traceback.format_exc()}")
                if _is_machines(problem):
                    answer = MachineError(f"could not work ({_in_one_line(problem)})")
            pickle.dump(answer, answers)
            answers.flush()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        os._exit(0)


def _read_requests(requests: queue.SimpleQueue[Any]) -> NoReturn:
    """The process ends when there can be no more requests, whatever it is doing."""
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)


class WorkerDiedError(Exception):
    """A worker process that ended without an answer."""


class MachineError(WorkerDiedError):
    """One that cannot work where it is."""


class Worker:
    """A worker process that has opened a task, as its parent sees it."""

    def __init__(self, spec: TaskSpec, temporary: str = "") -> None:
        path = [entry or os.getcwd() for entry in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                **ENVIRONMENT,
                "PYTHONPATH": os.pathsep.join(path),
                **({TEMPORARY: temporary} if temporary else {}),
            },
            # Keys pressed in a terminal go to the parent only, which then ends its workers.
            process_group=0 if os.name == "posix" else None,
        )
        try:
            self._ask(spec)
        except BaseException:
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def solve(self, part: bytes) -> PartResult:
        """The result of a part; an exception of the task is raised here, WorkerDiedError if the
        process ends."""
        result: PartResult = self._ask(("solve", (part,)))
        return result

    def failed(self, part: bytes, reason: str) -> PartResult | None:
        """What to keep of a part that cannot be solved, None if the task has no word for it."""
        result: PartResult | None = self._ask(("failed", (part, reason)))
        return result

    def kill(self) -> None:
        """End the process; whoever waits for its answer is told."""
        self._process.kill()

    def close(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            # What was still to be sent is of no use any more.
            with suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        self._process.wait()

    def _ask(self, request: Any) -> Any:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            pickle.dump(request, requests)
            requests.flush()
            answer = pickle.load(answers)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError) as problem:
            # Another thread closed the pipe in the middle of an answer, which nobody waits for.
            if isinstance(problem, ValueError):
                self.kill()
            code = self._process.wait()
            ends = {
                OUT_OF_MEMORY: "was out of memory",
                KILLED: "was killed, as happens when memory runs out",
            }
            other = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise WorkerDiedError(ends.get(code, other)) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


class Workers:
    """The workers of one task, started when needed and used again; threads may share it."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec, self._lock, self._has_ended = spec, threading.Lock(), False
        self._all, self._idle = set[Worker](), list[Worker]()
        # For what they leave behind when they are killed.
        self._temporary = tempfile.TemporaryDirectory(prefix="counterplan-")

    def solve(self, part: bytes) -> Outcome:
        """The result of a part, tried several times if its worker dies."""
        lost = Lost("")
        for _ in range(TRIES):
            worker = self.take()
            try:
                result = worker.solve(part)
            except WorkerDiedError as problem:
                lost = Lost(str(problem), isinstance(problem, MachineError))
                log.warning("a worker process %s: its part is tried again", lost.reason)
                self.drop(worker)
            else:
                self.give_back(worker)
                return result
        return lost

    def end(self) -> None:
        """End all workers, whatever they are doing."""
        with self._lock:
            self._has_ended = True
            workers = list(self._all)
        # First all, then wait: a reader in another thread lets go once its worker is dead.
        for worker in workers:
            worker.kill()
        for worker in workers:
            self.drop(worker)
        self._temporary.cleanup()

    def take(self) -> Worker:
        """A worker that is free, to be given back or dropped."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return self._start()
            if worker.is_alive:
                return worker
            self.drop(worker)

    def _start(self) -> Worker:
        reason = ""
        for _ in range(TRIES):
            try:
                worker = Worker(self._spec, self._temporary.name)
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

    def give_back(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def drop(self, worker: Worker) -> None:
        worker.close()
        with self._lock:
            self._all.discard(worker)


@contextmanager
def local_solver(spec: TaskSpec, count: int | None = None) -> Iterator[Solve]:
    """What solves parts with `count` workers (None: one for every core), which are ended when this
    ends."""
    workers = Workers(spec)
    count = core_count() if count is None else count
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
