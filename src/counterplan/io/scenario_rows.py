"""Rows of a table of scenarios: entries read and checked one by one, then put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.io.csv_blocks import Block
from counterplan.io.mistakes import Mistakes, shown
from counterplan.io.scenario_form import Entry

STEP = "t"
EMPTY = "is empty; fill it in"
WHOLE = "is not a whole number; number the decisions 0, 1, 2, ..."
STEPS = Entry(STEP, lambda steps: (steps >= 0) & (steps == np.rint(steps)), WHOLE)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a table.

    places  in the file, as an editor numbers them
    ids     of the scenarios
    values  (n, columns) numbers; nan where nothing is given, inf where it is wrong
    """

    places: IntArray
    ids: list[str]
    steps: FloatArray
    values: FloatArray

    def some(self, chosen: IntArray) -> Rows:
        """Those at some of its places."""
        ids = [self.ids[i] for i in chosen]
        return Rows(self.places[chosen], ids, self.steps[chosen], self.values[chosen])


def joined(several: Sequence[Rows]) -> Rows:
    """One after the other."""
    places, steps, values = (
        np.concatenate([getattr(one, name) for one in several])
        for name in ("places", "steps", "values")
    )
    return Rows(places, [name for one in several for name in one.ids], steps, values)


class Grouping:
    """Puts rows together to scenarios, across blocks, and reports those that are not whole.

    column   that names the scenario
    horizon  decisions of every scenario
    decided  (first, last + 1) places of the columns that say what was done, and their names
    """

    def __init__(
        self, column: str, horizon: int, decided: tuple[int, Sequence[str]], mistakes: Mistakes
    ) -> None:
        self._column, self._horizon, self._mistakes = column, horizon, mistakes
        self._first, self._decided = decided
        self._begun: dict[str, int] = {}
        self._open: list[Rows] = []

    def ended(self, rows: Rows) -> Iterator[Rows]:
        """The scenarios that have ended before the last of these rows."""
        ids = np.array(rows.ids, dtype=object)
        borders = np.flatnonzero(ids[1:] != ids[:-1]) + 1
        for chosen in np.split(np.arange(len(ids)), borders):
            some = rows.some(chosen)
            if not self._open or some.ids[0] != self._open[0].ids[0]:
                yield from self.last()
                self._note(some.ids[0], int(some.places[0]))
            self._open.append(some)

    def last(self) -> Iterator[Rows]:
        """The one that is still open."""
        if self._open:
            rows = joined(self._open)
            self._open = []
            if self._is_in_order(rows) and self._is_decided(rows):
                yield rows

    def _note(self, name: str, place: int) -> None:
        if name in self._begun:
            self._mistakes.in_row(
                place,
                f", column {self._column!r}: {shown(name)} continues here what began in row "
                f"{self._begun[name]}; put the rows of a scenario together",
                "apart",
            )
        elif name:
            self._begun[name] = place

    def _is_in_order(self, rows: Rows) -> bool:
        """Whether the steps are 0, 1, ..., T - 1; the first that is not is reported."""
        T, steps, name = self._horizon, rows.steps, rows.ids[0]
        wrong = np.flatnonzero(steps[:T] != np.arange(min(len(steps), T)))
        if wrong.size:
            i = int(wrong[0])
            if np.isfinite(steps[i]):  # else it has been reported
                self._mistakes.in_row(
                    int(rows.places[i]),
                    f", column {STEP!r}: {steps[i]:g} where {i} is expected; number the decisions "
                    f"of {shown(name)} 0 to {T - 1}, in order",
                    "order",
                )
            return False
        if len(steps) != T:
            self._mistakes.in_row(
                int(rows.places[min(len(steps), T + 1) - 1]),
                f", column {STEP!r}: {shown(name)} has {len(steps)} decisions, but this problem "
                f"has {T}, t = 0 to {T - 1}; give all of them",
                "length",
            )
            return False
        return True

    def _is_decided(self, rows: Rows) -> bool:
        """Whether it is said at all steps what was done, or at none."""
        missing = np.isnan(rows.values[:, self._first : self._first + len(self._decided)])
        if missing.all() or not missing.any():
            return True
        for column, empty in zip(self._decided, missing.T, strict=True):
            problem = (
                "is empty, but other decisions of this scenario are given; write 0 where nothing "
                "was done"
            )
            self._mistakes.in_rows(column, problem, rows.places[empty].tolist())
        return False


def read_numbers(block: Block, entry: Entry, may_miss: bool, mistakes: Mistakes) -> FloatArray:
    """(n,) the numbers of a column: nan where nothing is given, inf where it is wrong."""
    import polars as pl

    texts = block.texts[entry.column]
    given = (texts != "").to_numpy()
    if entry.names:
        codes = {name: float(i) for i, name in enumerate(entry.names)}
        found = texts.replace_strict(codes, default=None, return_dtype=pl.Float64)
    else:
        found = texts.cast(pl.Float64, strict=False)
    numbers = np.array(found.fill_null(np.nan).to_numpy(), dtype=np.float64) + 0.0
    known = np.isfinite(numbers)
    not_one = entry.problem if entry.names else "is not a finite number; correct it"
    report(block, entry.column, given & ~known, not_one, mistakes)
    if not may_miss:
        report(block, entry.column, ~given, EMPTY, mistakes)
    refused = np.zeros(len(numbers), dtype=np.bool_)
    refused[known] = ~entry.accepts(numbers[known])
    report(block, entry.column, refused, entry.problem, mistakes)
    numbers[refused | (given & ~known)] = np.inf
    numbers[~given] = np.nan
    return numbers


def report(block: Block, column: str, wrong: BoolArray, problem: str, mistakes: Mistakes) -> None:
    """Note the rows of a block whose entry in a column is wrong."""
    found = np.flatnonzero(wrong)
    values = [text for text in block.texts[column].gather(found[:3].tolist()) if text]
    mistakes.in_rows(column, problem, block.rows[found].tolist(), values)
