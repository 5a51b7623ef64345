"""Columns with levels or labels as one number: the cells of their grid, the last column fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.tables.schema import Column


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of some columns, numbered 0, 1, ..."""

    columns: tuple[Column, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(column.size or 0 for column in self.columns)

    def __len__(self) -> int:
        return prod(self.sizes)

    @cached_property
    def vectors(self) -> FloatArray:
        """(N, columns) the values of each cell, as models see them."""
        values = [np.array(column.values, dtype=np.float64) for column in self.columns]
        return np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(len(self), -1)

    def places(self, cell: int) -> tuple[int, ...]:
        """Which value each column has in a cell."""
        return tuple(int(place) for place in np.unravel_index(cell, self.sizes))

    def cells(self, values: FloatArray) -> IntArray:
        """(n,) the cells of values (n, columns), each of which is one of its column's."""
        places = []
        for column, given in zip(self.columns, values.T, strict=True):
            known = np.array(column.values, dtype=np.float64)
            order = np.argsort(known)
            places.append(order[np.searchsorted(known[order], given)])
        return np.asarray(np.ravel_multi_index(places, self.sizes), dtype=np.int64)

    def name(self, cell: int) -> str:
        """A cell in words: "ill", or "ward 3, fluids high" where there are several columns."""
        if len(self.columns) == 1:
            return value_in_words(self.columns[0], cell, self.columns[0].unit)
        parts = zip(self.columns, self.places(cell), strict=True)
        return ", ".join(
            f"{column.name} {value_in_words(column, place, column.unit)}" for column, place in parts
        )

    def change(self, observed: int, alternative: int) -> str:
        """What differs between two cells: "vasopressor 0 -> 2 µg/kg/min, fluids none -> high"."""
        before, after = self.places(observed), self.places(alternative)
        return ", ".join(
            f"{column.name} {value_in_words(column, old)} -> "
            f"{value_in_words(column, new, column.unit)}"
            for column, old, new in zip(self.columns, before, after, strict=True)
            if old != new
        )


def value_in_words(column: Column, place: int, unit: str = "") -> str:
    """The label of a value, or the level with its unit."""
    if column.labels is not None or not unit:
        return column.value_name(place)
    return f"{column.value_name(place)} {unit}"


def names(grid: Grid) -> Sequence[str]:
    """All cells in words."""
    return [grid.name(cell) for cell in range(len(grid))]
