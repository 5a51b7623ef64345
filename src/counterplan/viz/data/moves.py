"""What an explanation changes about doses: which, when, in what direction and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from counterplan.core.result import Change
from counterplan.io.schema import Column
from counterplan.viz.data.labels import Labels, with_unit


class Move(NamedTuple):
    """At step t the dose `what` goes from `before` to `after`.

    text  what is written beside it; empty for the size of the change. nan as `before` and `after`
          means that there is no more or less, only another
    """

    t: int
    what: str
    before: float
    after: float
    text: str = ""

    @property
    def size(self) -> float:
        """How much is added; nan where that means nothing."""
        return self.after - self.before

    @property
    def direction(self) -> int:
        """1: raised, -1: lowered, 0: replaced by something that is neither more nor less."""
        return 0 if math.isnan(self.size) else int(math.copysign(1, self.size))

    @property
    def label(self) -> str:
        """Direction and size in a few signs: "+2", "−0.5", "none → high"."""
        return self.text or self.number

    @property
    def number(self) -> str:
        """The size of the change; empty where there is no more or less."""
        return f"{self.size:+g}".replace("-", "−") if self.direction else ""

    @property
    def two_lines(self) -> str:
        """The label in less width."""
        return self.label.replace(" → ", "\n→ ")


def moves_of(changes: Iterable[Change], labels: Labels) -> tuple[Move, ...]:
    """One for each dose that a change of the action changes."""
    found: list[Move] = []
    for t, observed, alternative in changes:
        known = range(len(labels.actions))
        if observed not in known or alternative not in known:
            found.append(Move(t, "action", math.nan, math.nan, f"{observed} → {alternative}"))
            continue
        both = zip(labels.doses, labels.actions[observed], labels.actions[alternative], strict=True)
        found += [move(t, dose, float(old), float(new)) for dose, old, new in both if old != new]
    return tuple(found)


def move(t: int, dose: Column, before: float, after: float) -> Move:
    """A change of one dose, in the words of its column."""
    named = dict(zip(dose.values or (), dose.labels or (), strict=False))
    if before not in named or after not in named:
        return Move(t, with_unit(dose), before, after)
    text = f"{named[before]} → {named[after]}"
    if dose.levels is None:  # names alone have no order
        before = after = math.nan
    return Move(t, with_unit(dose), before, after, text)
