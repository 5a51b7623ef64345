"""Tables of any length, block after block: CSV (`io.csv_blocks`) and Parquet, as stripped texts.

Rows of a CSV file are numbered as editors number its lines, so the header is usually row 1; rows of
a Parquet file count from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplan.errors import FileError, MistakesError
from counterplan.files.contents import check_readable, suffix_of
from counterplan.files.parquet import (
    parquet_blocks,
    parquet_columns,
    parquet_errors,
    scan,
    try_decoding,
)
from counterplan.io.csv_blocks import (
    LARGEST_FIELD,
    Block,
    CsvFile,
    csv_blocks,
    open_csv,
    tidy,
)
from counterplan.io.mistakes import Mistakes
from counterplan.io.schema_checks import MOST_COLUMNS

if TYPE_CHECKING:
    import polars as pl

WHAT = "a table of episodes, one row for each step"
FORMATS = (".csv", ".parquet")


@dataclass(frozen=True)
class TableFile:
    """A table whose header has been read; `csv` is None for Parquet."""

    path: str | Path
    header: list[str]
    csv: CsvFile | None

    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        """The wanted columns, block after block; rows that cannot be read are reported."""
        if self.csv is not None:
            places = [self.header.index(name) for name in wanted]
            return csv_blocks(self.csv, places, mistakes)
        return _parquet_blocks(self.path, wanted)

    def check_columns(self, wanted: Sequence[str]) -> None:
        """Raise unless the table has each of them once; what is missing is named at once."""
        lines = []
        for name in wanted:
            count = self.header.count(name)
            if count > 1:
                lines.append(f"{count} columns are named {name!r}; rename or remove all but one")
            elif not count:
                near = get_close_matches(name, self.header, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                lines.append(f"no column {name!r}; {hint}correct the header or the schema")
        if len(lines) >= len(wanted) > 1:
            found = ", ".join(repr(name[:40]) for name in self.header[:8])
            other = _other_separator(self.header)
            lines = [f"none of the columns {', '.join(wanted[:8])}: found {found}{other}"]
        if lines:
            raise MistakesError("\n".join(f"{self.path}: {line}" for line in lines[:20]))


def open_table_file(path: str | Path) -> TableFile:
    """The header of a .csv or .parquet file."""
    suffix = suffix_of(path, FORMATS, "episode tables")
    check_readable(path, WHAT)
    csv = open_csv(path) if suffix == ".csv" else None
    header = csv.header if csv else parquet_columns(path)
    if not any(header):
        raise FileError(f"{path}: is empty; expected {WHAT}")
    if len(header) > MOST_COLUMNS:
        raise FileError(
            f"{path}: has {len(header):,} columns, more than {MOST_COLUMNS:,}; give one row for "
            "each step, with a column for each quantity"
        )
    return TableFile(path, header, csv)


def _other_separator(header: Sequence[str]) -> str:
    if len(header) == 1:
        for sign, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if sign in header[0]:
                return f", separated by {name}; separate them by commas"
    return "; name the columns in the first row, as the schema has them"


def _parquet_blocks(path: str | Path, wanted: Sequence[str]) -> Iterator[Block]:
    import polars as pl

    with parquet_errors(path):
        kinds = scan(path).collect_schema()
    for name in wanted:
        if kinds[name].is_nested() or kinds[name] in (pl.Binary, pl.Object):
            raise FileError(f"{path}, column {name!r}: holds {kinds[name]}; store numbers or texts")
    start = 0
    try_decoding(path)
    for part in parquet_blocks(path, wanted):
        with parquet_errors(path):
            texts = part.select(pl.all().cast(pl.String))
        _check_sizes(path, texts)
        yield tidy(texts, np.arange(start + 1, start + 1 + texts.height))
        start += texts.height


def _check_sizes(path: str | Path, texts: pl.DataFrame) -> None:
    for column in texts.iter_columns():
        largest = column.str.len_bytes().max()
        if isinstance(largest, int) and largest > LARGEST_FIELD:
            raise FileError(
                f"{path}, column {column.name!r}: has a field of {largest:,} bytes, more than "
                f"{LARGEST_FIELD:,}; remove or shorten it"
            )
