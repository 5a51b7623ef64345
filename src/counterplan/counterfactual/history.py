"""How a search went: nodes expanded, best value and bound as it goes on.

A search of millions of nodes is drawn and told by a few thousand of its moments. Once there are
more, every second one is forgotten and only every second further one is kept. Moments at which
something better was found are never forgotten.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray

LONGEST = 4096


class Moment(NamedTuple):
    """After so many nodes the best value was this, and nothing better than the bound is left."""

    expanded: int
    value: float
    bound: float


class History:
    """The moments of one search."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest, self._stride, self._seen = longest, 1, 0
        self._moments: list[Moment] = []
        self._last: Moment | None = None

    def add(self, expanded: int, value: float, bound: float) -> None:
        """Tell where the search stands."""
        last = self._last
        self._last = Moment(expanded, value, bound)
        if last is not None and last.expanded == expanded:
            # Nothing was expanded since: what is known now replaces what was known.
            if self._moments and self._moments[-1] == last:
                self._moments[-1] = self._last
            return
        is_better = last is not None and value > last.value
        if is_better or self._seen % self._stride == 0:
            self._moments.append(self._last)
            if len(self._moments) > self._longest:
                self._thin()
        self._seen += 1

    def array(self) -> FloatArray:
        """(m, 3) moments in order; the last is where the search ended."""
        moments = list(self._moments)
        if self._last is not None and moments[-1:] != [self._last]:
            moments.append(self._last)
        return np.array(moments, dtype=np.float64).reshape(-1, 3)

    def _thin(self) -> None:
        moments = self._moments
        self._moments = [
            moment
            for place, moment in enumerate(moments)
            if place % 2 == 0 or moment.value > moments[place - 1].value
        ]
        self._stride *= 2
