"""What becomes of gaps in a table; every value that is filled in is counted.

    refuse          a gap is a mistake (the default)
    carry-forward   the last value before it in the same episode; where there is none, the mean, or
                    for levels and labels a mistake
    mean            of the column: of the table that a model is learned from, and of that table too
                    when the model explains another

With the last two a gap in a fixed column is filled from another row of its episode where there is
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.io.schema import Column
from counterplan.io.schema_checks import REFUSE


@dataclass(frozen=True)
class Filled:
    """How many gaps of a column were filled with an earlier value, and how many with the mean."""

    carried: int = 0
    mean: int = 0

    def __add__(self, other: Filled) -> Filled:
        return Filled(self.carried + other.carried, self.mean + other.mean)


@dataclass(frozen=True, eq=False)
class FilledColumn:
    """A column without gaps, but for those that are `left`.

    carried, averaged, left  (n,) which rows had a gap: filled from the episode, with the mean, not
                             at all
    """

    values: FloatArray
    carried: BoolArray
    averaged: BoolArray
    left: BoolArray


def fill(values: FloatArray, first: IntArray, column: Column, mean: float) -> FilledColumn:
    """Fill the gaps of a column by its policy.

    values  (n,) sorted by episode and time, nan where there is a gap
    first   (n,) the first row of each row's episode
    mean    nan if it is not known
    """
    gap = np.isnan(values)
    nowhere = np.zeros(len(values), dtype=np.bool_)
    if not gap.any() or column.missing == REFUSE:
        return FilledColumn(values, nowhere, nowhere, gap)
    source = np.full(len(values), -1)
    if column.role == "fixed":
        source = _known_in_episode(gap, first)
    elif column.missing == "carry-forward":
        latest = np.maximum.accumulate(np.where(gap, -1, np.arange(len(values))))
        source = np.where(latest >= first, latest, -1)
    carried = gap & (source >= 0)
    filled = np.where(carried, values[source], values)
    has_mean = column.size is None and np.isfinite(mean)
    averaged = gap & ~carried if has_mean else nowhere
    return FilledColumn(
        np.where(averaged, mean, filled), carried, averaged, gap & ~carried & ~averaged
    )


def _known_in_episode(gap: BoolArray, first: IntArray) -> IntArray:
    """(n,) a row of the same episode without a gap, -1 if there is none."""
    places = np.where(gap, len(gap), np.arange(len(gap)))
    starts = np.unique(first)
    earliest = np.minimum.reduceat(places, starts)[np.searchsorted(starts, first)]
    return np.where(earliest < len(gap), earliest, -1)
