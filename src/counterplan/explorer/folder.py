"""Single items of a run, found without loading it: which part an item is in, and its rows there."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from counterplan.cohort.integrity import input_sums, read_input
from counterplan.cohort.reading import Run, open_run
from counterplan.errors import FileError

if TYPE_CHECKING:
    import polars as pl

RESULTS = "results"
# Where a row of results was read from.
PATH = "(path)"
# Items whose place is remembered; a place is two short texts.
PLACES = 10_000

Kept = TypeVar("Kept")


class AbsentError(FileError):
    """What was asked for is not in the run."""


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


class Folder:
    """A run whose items are read one by one.

    id_column  names the items: "episode_id" or "scenario_id"
    """

    def __init__(self, out: Path, id_column: str) -> None:
        self.run: Run = open_run(out)
        self.id_column = id_column
        self._places: Recent[int] = Recent(PLACES)

    def results(self) -> pl.LazyFrame:
        """The results of all parts that are done by now, with the file of each row as PATH."""
        import polars as pl

        paths = [self.run.layout.table(RESULTS, part) for part in self.run.done]
        if not paths:
            raise FileError("no part of this run is done yet: try again later")
        return pl.scan_parquet(paths, glob=False, hive_partitioning=False, include_file_paths=PATH)

    def part_of(self, name: str) -> int:
        """Which part an item is in."""
        return self._places.get(name, lambda: self._find(name))

    def remember(self, name: str, path: str) -> None:
        """Note the file that holds an item's results."""
        self._places.keep(name, int(Path(path).stem.rpartition("-")[2]))

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
        found = collected(wanted.select(PATH).head(1))
        if not found.height:
            raise AbsentError(f"the run has no {self.id_column.removesuffix('_id')} {name!r}")
        return int(Path(found[PATH][0]).stem.rpartition("-")[2])


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
