"""What is done with every part of a cohort, on this machine or on another.

A task is rebuilt from what crosses the wire: a kind, a description and files as bytes. Its output
depends on these and on the part's own bytes only, never on the time, the worker or the order, so
that a run gives the same bytes however it is spread or interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from counterplan.errors import CounterplanError, InputError

EXPLAIN, REGRET = "explain", "regret"
# The module of each kind of task; it has a function `open_task(spec) -> Task`.
KINDS = {
    EXPLAIN: "counterplan.runs.explain",
    REGRET: "counterplan.runs.regret",
}
LONGEST_REASON = 300


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


class Task(Protocol):
    """Solves parts; an item that fails is recorded in the tables with its reason.

    A task may also have a method `failed(part, reason) -> PartResult` that records all items of a
    part as failed: it is called for a part that has ended its process at every try. Without it such
    a part is left out, and the run says so at its end.
    """

    def solve(self, part: bytes) -> PartResult:
        """The result of one part of the input."""
        ...


def reason_of(problem: Exception) -> str:
    """Why an item failed, in one line."""
    text = " ".join(str(problem).split())
    if isinstance(problem, MemoryError):
        text = f"not enough memory: {text}"
    elif not isinstance(problem, CounterplanError):
        text = f"{type(problem).__name__}: {text}"
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


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
