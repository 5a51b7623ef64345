"""Single items of a run, found without loading it: which part an item is in, and its rows there."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from counterplan.errors import FileError
from counterplan.runs.run import Run, open_run
from counterplan.runs.store import input_sums, read_input

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# Things kept for the next question: a number of them, or as many as there is room for.

# Bytes.
KEPT_ROOM = 128 * 2**20

Kept = TypeVar("Kept")


class Recent(Generic[Kept]):
    """The last few things that were made; threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Kept | None:
        """What is kept under a key, None if nothing is."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Hashable, made: Kept) -> Kept:
        """Keep something, and forget what was not asked for longest."""
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What is kept under a key, made if there is nothing."""
        found = self.find(key)
        return self.keep(key, make()) if found is None else found


class Memo:
    """Things with `nbytes`, in lists by where they belong, up to `room` bytes; threads may share
    it."""

    def __init__(self, room: int = KEPT_ROOM) -> None:
        self._room, self._used = room, 0
        self._kept: OrderedDict[Hashable, list[Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that are kept."""
        return self._used

    def find(self, place: Hashable) -> list[Any]:
        """What is kept at a place."""
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
            return list(self._kept.get(place, ()))

    def keep(self, place: Hashable, made: Any) -> None:
        """Keep one more thing at a place, and forget places that were not asked for longest."""
        if made.nbytes > self._room:
            return
        with self._lock:
            self._kept.setdefault(place, []).append(made)
            self._kept.move_to_end(place)
            self._used += made.nbytes
            while self._used > self._room:
                _, gone = self._kept.popitem(last=False)
                self._used -= sum(one.nbytes for one in gone)


# ----------------------------------------------------------------------------------------------

RESULTS = "results"
# Which part a row of results is of.
PART = "(part)"
# Items whose place is remembered; a place is two short texts.
PLACES = 10_000


class AbsentError(FileError):
    """What was asked for is not in the run."""


class Folder:
    """A run whose items are read one by one.

    id_column  names the items: "episode_id" or "scenario_id"
    """

    def __init__(self, out: Path, id_column: str) -> None:
        self.run: Run = open_run(out)
        self.id_column = id_column
        self._places: Recent[int] = Recent(PLACES)

    def results(self) -> pl.LazyFrame:
        """The results of all parts that are done by now, with the part of each row as PART."""
        import polars as pl

        parts = {str(self.run.layout.table(RESULTS, part)): part for part in self.run.done}
        if not parts:
            raise FileError("no part of this run is done yet: try again later")
        rows = pl.scan_parquet(
            [*parts], glob=False, hive_partitioning=False, include_file_paths=PART
        )
        return rows.with_columns(pl.col(PART).replace_strict(parts, return_dtype=pl.UInt32))

    def part_of(self, name: str) -> int:
        """Which part an item is in."""
        return self._places.get(name, lambda: self._find(name))

    def remember(self, name: str, part: int) -> None:
        """Note which part an item is in."""
        self._places.keep(name, part)

    def rows(self, table: str, name: str) -> pl.LazyFrame:
        """The rows of an item in a table; only the file of its part is read."""
        import polars as pl

        path = self.run.layout.table(table, self.part_of(name))
        return pl.scan_parquet(path, glob=False, hive_partitioning=False).filter(
            pl.col(self.id_column) == name
        )

    def input_of(self, name: str) -> bytes:
        """The input of one item, as the whole part has it for many."""
        import polars as pl

        part, run, found = self.part_of(name), self.run, io.BytesIO()
        content = read_input(run.layout, part, input_sums(run.layout, run.manifest)[part])
        rows = pl.read_parquet(io.BytesIO(content)).filter(pl.col(self.id_column) == name)
        rows.write_parquet(found)
        return found.getvalue()

    def _find(self, name: str) -> int:
        import polars as pl

        wanted = self.results().filter(pl.col(self.id_column) == name)
        found = collected(wanted.select(PART).head(1))
        if not found.height:
            raise AbsentError(f"the run has no {self.id_column.removesuffix('_id')} {name!r}")
        return int(found.item())


def collected(frame: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a query; files that cannot be read are an error in one line."""
    return all_collected([frame])[0]


def all_collected(frames: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
    """The same for several queries, which share what they read."""
    import polars as pl

    try:
        return pl.collect_all(frames, engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"the tables of the run cannot be read: {reason}") from None


# ----------------------------------------------------------------------------------------------
# The items of a run in the order of a list, kept for the other pages of that list.
#
# Putting them in order reads all files of the run; a page then needs a few of them. What is kept
# are names and parts alone, and only while the run does not go on.

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


# ----------------------------------------------------------------------------------------------
# Lists of a run's items, filtered, sorted and cut into pages.
#
# First the items of the page are found by what they are filtered and sorted by (`ranking`), then
# all columns are read of these alone: no list loads the run.

MOST_LINES = 200


@dataclass(frozen=True)
class Window:
    """Which lines of a list, in which order.

    sort  a column of the results
    """

    sort: str
    descending: bool
    offset: int
    limit: int


@dataclass(frozen=True)
class Found:
    """The rows of a page, in order, and how many the whole list has."""

    total: int
    rows: list[dict[str, Any]]


def page_of(
    rankings: Rankings, wanted: Hashable, conditions: Sequence[pl.Expr], window: Window
) -> Found:
    """The rows of results that meet all conditions, cut to the window; `wanted` stands for the
    conditions."""
    import polars as pl

    folder = rankings.folder
    ranking = rankings.get(wanted, conditions, Order(window.sort, window.descending))
    places = ranking.places(window.offset, window.limit)
    for name, part in places.items():
        folder.remember(name, part)
    rows = []
    if places:
        paths = [folder.run.layout.table(RESULTS, part) for part in sorted({*places.values()})]
        files = pl.scan_parquet(paths, glob=False, hive_partitioning=False)
        found = files.filter(*conditions, pl.col(folder.id_column).is_in([*places]))
        rank = {name: number for number, name in enumerate(places)}
        rows = sorted(collected(found).to_dicts(), key=lambda row: rank[row[folder.id_column]])
    return Found(len(ranking.items), rows)


def contains(column: str, text: str) -> pl.Expr:
    """Whether a column contains a text, capitals or not."""
    import polars as pl

    return pl.col(column).str.to_lowercase().str.contains(text.lower(), literal=True)
