"""When a long computation must stop, and how far it has come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

from counterplan.core.validation import whole_number
from counterplan.errors import InputError


@dataclass(frozen=True)
class Limits:
    """When a solver stops, even if it has not proved its answer optimal: at whichever comes first;
    the result then has status 'limit' and a certified gap.

    seconds  wall-clock time, but for compiling (once after an install)
    nodes    nodes expanded (searches) or kernel rows evaluated (dynamic programs)
    gap      stop once bound - value is at most this

    On a frontier they hold for each budget anew, and for what is prepared for all of them.
    """

    seconds: float = math.inf
    nodes: int | None = None
    gap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "gap"):
            given = getattr(self, name)
            if not isinstance(given, Real):
                raise InputError(f"limits: {name} must be a number, got {given!r}")
        if not self.seconds > 0:
            raise InputError(f"limits: seconds must be positive, got {self.seconds}")
        if self.nodes is not None:
            whole_number(self.nodes, "limits: nodes", minimum=1)
        if not self.gap >= 0:
            raise InputError(f"limits: gap must be 0 or more, got {self.gap}")


@dataclass(frozen=True)
class Progress:
    """How far a long computation has come.

    what     what is being done, in words: "search", "backward pass", "training"
    done     steps that are finished: nodes, simulations, epochs, episodes
    total    how many there are, where that is known
    value    the best answer known so far, and
    bound    what no answer can exceed, where there are such
    seconds  since the start
    """

    what: str
    done: int
    total: int | None = None
    value: float | None = None
    bound: float | None = None
    seconds: float = 0.0


# Called every now and then by whatever takes long; False stops it, with the best answer so far and
# a certified gap.
ProgressCallback: TypeAlias = Callable[[Progress], bool | None]


# Names a folder for compiled code where there is no better place; here, since whoever sets it
# need not load the compiler.
TEMPORARY = "COUNTERPLAN_TEMPORARY"
_compiling = 0.0


def clock() -> float:
    """Seconds of work: the time, but for what numba took to compile. That happens once after an
    install and is nothing that a limit on an answer should pay for."""
    return time.perf_counter() - _compiling


def pause_clock(seconds: float) -> None:
    """So long nothing was done but compiling."""
    global _compiling
    _compiling += seconds


class Watch:
    """Whether a computation that begins now must stop: at its limits, or because its callback says
    so."""

    def __init__(
        self, what: str, limits: Limits | None = None, progress: ProgressCallback | None = None
    ) -> None:
        self._what, self._progress = what, progress
        self._limits = Limits() if limits is None else limits
        self._started = clock()

    @property
    def gap(self) -> float:
        """The gap at which an answer is good enough."""
        return self._limits.gap

    @property
    def deadline(self) -> float:
        """When the seconds are over, by `clock`."""
        return self._started + self._limits.seconds

    @property
    def seconds(self) -> float:
        """Since the start."""
        return clock() - self._started

    @property
    def is_limited(self) -> bool:
        """Whether anything but the end of its work can stop it, or is to be told on the way."""
        return self._progress is not None or self._limits != Limits()

    @property
    def wants_bounds(self) -> bool:
        """Whether values and bounds on the way matter to anyone."""
        return self._progress is not None or self._limits.gap > 0.0

    def remaining(self, wanted: int, done: int) -> int:
        """How many of the next `wanted` nodes there may be."""
        return wanted if self._limits.nodes is None else min(wanted, self._limits.nodes - done)

    def must_stop(
        self,
        done: int,
        value: float | None = None,
        bound: float | None = None,
        total: int | None = None,
    ) -> bool:
        """Tell how far the computation is, and whether it must stop here."""
        seconds = self.seconds
        if self.remaining(1, done) < 1 or seconds > self._limits.seconds:
            return True
        if self._progress is None:
            return False
        return self._progress(Progress(self._what, done, total, value, bound, seconds)) is False
