"""The two courses of a feature and the changes between them: what a trajectory figure shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.viz.data.moves import Move

STEP = "step"


# How a change may be written, from long to short.
WAYS: tuple[Callable[[Move], str], ...] = (
    attrgetter("label"),
    attrgetter("two_lines"),
    attrgetter("number"),
)


def nothing(move: Move) -> str:
    """Not written at all."""
    return ""


class CourseEnd(NamedTuple):
    """A course is over: at step t, after a last value, and how."""

    t: int
    last: float
    text: str
    is_observed: bool


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What a trajectory figure shows.

    observed        (T,) values of the feature; nan from where the course is over
    counterfactual  (T,) the same with the changes made; the likeliest course where chance decides
    moves           those changes, one for each dose
    feature         what the values are, with their unit
    step            length of a step
    unit            in which that length is given
    begin           when the first step begins
    low, high       (T,) between which 8 in 10 counterfactual courses lie, where chance decides
    ticks           numbers of the feature that have names
    ends            how courses end that are over before the last step
    starts          (T,) when each step begins, where not all are of the same length
    """

    observed: FloatArray
    counterfactual: FloatArray
    moves: tuple[Move, ...] = ()
    feature: str = "feature"
    step: float = 1.0
    unit: str = STEP
    begin: float = 0.0
    low: FloatArray | None = None
    high: FloatArray | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    ends: tuple[CourseEnd, ...] = ()
    starts: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("observed", "counterfactual"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, values)
            if values.ndim != 1 or values.size == 0 or not _is_course(values):
                raise InputError(
                    f"trajectory: {name} must be a list of finite numbers (nan only from where a "
                    "course is over)"
                )
        if len(self.observed) != len(self.counterfactual):
            raise InputError(
                f"trajectory: {len(self.observed)} observed values, but "
                f"{len(self.counterfactual)} counterfactual ones"
            )
        for one in self.moves:
            if not 0 <= one.t < len(self.observed):
                raise InputError(
                    f"trajectory: a change at step {one.t}, but the steps are "
                    f"0..{len(self.observed) - 1}"
                )

    @property
    def times(self) -> FloatArray:
        """(T,) in `unit`."""
        if self.starts is not None:
            return self.starts
        return np.asarray(self.begin + self.step * np.arange(len(self.observed)))

    @property
    def time_title(self) -> str:
        """What stands at the axis of time."""
        return f"time ({self.unit}{'s' if self.unit == STEP else ''})"

    @property
    def doses(self) -> tuple[str, ...]:
        """The doses that change."""
        return tuple(dict.fromkeys(one.what for one in self.moves))

    @property
    def extent(self) -> tuple[float, float]:
        """The lowest and the highest value of all courses."""
        courses = [self.observed, self.counterfactual, self.low, self.high]
        values = np.concatenate([course for course in courses if course is not None])
        return float(np.nanmin(values)), float(np.nanmax(values))

    def beside(
        self, dose: str, step: float, arrow: float, letters: Sequence[float]
    ) -> tuple[Callable[[Move], str], int]:
        """How all changes of a dose are written, in the first way that fits between them, and which
        size of letters it takes; where none fits the markers alone tell it.

        step, arrow  widths of a step, on average, and of what marks a change
        letters      widths of a letter, of each size to try
        """
        moves = [move for move in self.moves if move.what == dose]
        end = float(self.times[-1]) + self.step
        places = [*(self.time(move.t) for move in moves), end]
        unit = step * len(self.observed) / (end - self.time(0))
        rooms = [unit * (after - time) - arrow for time, after in pairwise(places)]
        for way in WAYS:
            longest = [max(map(len, way(move).split("\n"))) for move in moves]
            for size, letter in enumerate(letters):
                fits = (letter * n <= room for n, room in zip(longest, rooms, strict=True))
                if all(way(move) for move in moves) and all(fits):
                    return way, size
        return nothing, 0

    def share(self, move: Move) -> float:
        """The size of a change as a share of the largest of the same dose; a half where there is
        no more or less."""
        sizes = [abs(one.size) for one in self.moves if one.what == move.what and one.direction]
        return abs(move.size) / max(sizes) if move.direction else 0.5

    def time(self, t: int) -> float:
        """When a step begins."""
        return float(self.times[t])


def _is_course(values: FloatArray) -> bool:
    """Finite numbers, then nothing but nan; at least one number."""
    finite = np.isfinite(values)
    ended = not np.isinf(values).any() and bool((np.diff(finite.astype(int)) <= 0).all())
    return bool(finite[0]) and ended
