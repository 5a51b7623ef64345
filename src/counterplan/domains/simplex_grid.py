"""Distributions on a regular grid, and any other one as a mixture of close grid points.

The grid of resolution r holds the distributions on n outcomes with entries k / r. Freudenthal's
triangulation writes b as a mixture of at most n of them (Lovejoy 1991): with x_i = r (b_i + ... +
b_n), the base floor(x), and one more unit for one coordinate after another in the order of their
fractional parts, largest first. Linear functions are kept; a convex function is never
underestimated by mixing its values at the grid points.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.errors import InputError

MOST_POINTS = 20_000
# Coordinates that are whole numbers but for rounding are whole.
ROUNDING = 1e-9


class SimplexGrid:
    """The grid on n outcomes."""

    def __init__(self, outcomes: int, resolution: int) -> None:
        n, r = outcomes, whole_number(resolution, "resolution", minimum=1)
        size = comb(r + n - 1, n - 1)
        if size > MOST_POINTS:
            raise InputError(
                f"a grid of resolution {r} on {n} modes has {size:,} points, more than "
                f"{MOST_POINTS:,}: use a lower resolution"
            )
        self.resolution = r
        # Every way to cut r units into n parts: where the n - 1 cuts lie.
        cuts = np.array(list(combinations(range(r + n - 1), n - 1)), dtype=np.int64)
        first, last = np.full((size, 1), -1), np.full((size, 1), r + n - 1)
        ends = np.hstack([first, cuts.reshape(size, n - 1), last])
        self.counts: IntArray = np.diff(ends, axis=1) - 1

    @property
    def points(self) -> FloatArray:
        """(N, n) the distributions."""
        return np.asarray(self.counts / self.resolution)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row.tobytes(): place for place, row in enumerate(self.counts)}

    def mixture(self, distribution: FloatArray) -> FloatArray:
        """(N,) weights of the grid points whose mixture is the distribution (n,)."""
        sums = self.resolution * np.cumsum(distribution[::-1])[::-1] / distribution.sum()
        whole = np.floor(sums + ROUNDING)
        parts = np.maximum(sums - whole, 0.0)
        # The first sum is the resolution itself: it never moves.
        order = 1 + np.argsort(-parts[1:], kind="stable")
        fractions = np.concatenate([[1.0], parts[order], [0.0]])
        weights = np.zeros(len(self.counts))
        corner = whole.astype(np.int64)
        for i, weight in enumerate(-np.diff(fractions)):
            if i > 0:
                corner[order[i - 1]] += 1
            if weight > ROUNDING:
                entries = corner - np.append(corner[1:], 0)
                weights[self._places[entries.tobytes()]] += weight
        return np.asarray(weights / weights.sum())
