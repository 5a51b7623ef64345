"""The items of a run in the order of a list, kept for the other pages of that list.

Putting them in order reads all files of the run; a page then needs a few of them. What is kept are
names and parts alone, and only while the run does not go on.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterplan.explorer.folder import PART, Folder, collected
from counterplan.explorer.kept import Memo

if TYPE_CHECKING:
    import polars as pl

# Bytes: a name and its part take about thirty.
ROOM = 64 * 2**20


@dataclass(frozen=True)
class Order:
    """By which column of the results; ties stand in the order of names, so that pages fit."""

    column: str
    descending: bool


@dataclass(frozen=True, eq=False)
class Ranking:
    """The names of all items of a list in order, and the part of each."""

    items: pl.DataFrame

    @property
    def nbytes(self) -> int:
        return int(self.items.estimated_size())

    def places(self, start: int, count: int) -> dict[str, int]:
        """The parts of some items by their names, in order."""
        return dict(self.items.slice(start, count).iter_rows())


class Rankings:
    """Rankings of a run, those asked for last; threads may share them."""

    def __init__(self, folder: Folder, room: int = ROOM) -> None:
        self.folder = folder
        self._kept = Memo(room)
        self._making = threading.Lock()

    def get(self, wanted: Hashable, conditions: Sequence[pl.Expr], order: Order) -> Ranking:
        """All items that meet the conditions; `wanted` stands for these."""
        key = (len(self.folder.run.done), wanted, order)
        if (known := self._find(key)) is not None:
            return known
        # One list is put in order at a time: most who wait for it want the same.
        with self._making:
            if (known := self._find(key)) is not None:
                return known
            made = self._made(conditions, order)
            self._kept.keep(key, made)
            return made

    def _find(self, key: Hashable) -> Ranking | None:
        return next(iter(self._kept.find(key)), None)

    def _made(self, conditions: Sequence[pl.Expr], order: Order) -> Ranking:
        name = self.folder.id_column
        columns = [*dict.fromkeys((order.column, name))]
        falling = [order.descending, False][: len(columns)]
        chosen = self.folder.results().filter(*conditions).select(*columns, PART)
        ranked = chosen.sort(columns, descending=falling, nulls_last=True)
        return Ranking(collected(ranked.select(name, PART)))
