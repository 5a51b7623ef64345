"""Single items of a run, found without loading it: which part an item is in, and its rows there."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counterplan.cohort.integrity import input_sums, read_input
from counterplan.cohort.reading import Run, open_run
from counterplan.errors import FileError
from counterplan.explorer.kept import Recent

if TYPE_CHECKING:
    import polars as pl

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
