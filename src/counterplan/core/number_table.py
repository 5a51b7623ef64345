"""Numbers from CSV or Parquet tables, with every mistake collected before anything is used.

A table is either read whole or refused with one line about its first mistake, which names file,
row, column and value and says what to do, and how many more there are. Rows of a CSV file are
numbered as spreadsheets do, the header being row 1; rows of a Parquet file count from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.files import check_readable, decode, read_bytes
from counterplan.core.parquet import parquet_frame
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError

if TYPE_CHECKING:
    import polars as pl

ROW = "row in the file"
MISSING_TEXTS = ("", "NA", "NAN", "NULL")
# What is beyond is a slip of the pen, and would overflow.
LARGEST_NUMBER = 1e100
# How a number is written, be it too large to be kept.
A_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
# What messages show of a value.
LONGEST_VALUE = 60


@dataclass(eq=False)
class NumberTable:
    """The wanted columns of a file as stripped texts, and what is wrong with them so far."""

    path: str | Path
    texts: pl.DataFrame
    _first: list[tuple[int, str]] = field(default_factory=list)
    _count: int = 0

    def __len__(self) -> int:
        return self.texts.height

    def numbers(self, column: str, may_miss: bool = False) -> FloatArray:
        """(n,) the numbers of a column, nan where nothing is given."""
        import polars as pl

        texts = self.texts[column]
        given = ~texts.str.to_uppercase().is_in(MISSING_TEXTS)
        parsed = texts.cast(pl.Float64, strict=False).set(~given, None)
        values = parsed.fill_null(np.nan).to_numpy().astype(np.float64)
        is_given = given.to_numpy()
        wrong = is_given & ~(np.abs(values) <= LARGEST_NUMBER)
        values[wrong] = np.nan
        large = wrong & texts.str.contains(A_NUMBER).to_numpy()
        self.report(large, column, f"is too far from 0, {LARGEST_NUMBER:g} at most; correct it")
        self.report(wrong & ~large, column, "is not a number; correct it")
        if not may_miss:
            self.report(~is_given, column, "is missing; fill the gap before reading the table")
        return values

    def codes(self, column: str, accepted: Mapping[str, int]) -> IntArray:
        """(n,) the numbers that the texts of a column stand for, -1 where they are not known."""
        import polars as pl

        texts = self.texts[column]
        found = texts.replace_strict(accepted, default=-1, return_dtype=pl.Int64).to_numpy()
        self.report(found < 0, column, f"is not one of {', '.join(accepted)}; correct it")
        return np.asarray(found, dtype=np.int64)

    def report(self, wrong: BoolArray, column: str, problem: str) -> None:
        """Note the rows whose entry in a column is wrong."""
        rows = np.flatnonzero(wrong)
        if len(rows) == 0:
            return
        self._count += len(rows)
        index = int(rows[0])
        row, value = self.texts[ROW][index], self.texts[column][index][:LONGEST_VALUE]
        shown = f"{value!r} " if value else ""
        self._first.append((row, f"row {row}, column {column!r}: {shown}{problem}"))

    def refuse_mistakes(self) -> None:
        """Raise if anything was reported: the first mistake in the file, and how many more."""
        if not self._first:
            return
        _, first = min(self._first, key=lambda mistake: mistake[0])
        others = self._count - 1
        tail = f" (and {others:,} more mistake{'s' if others > 1 else ''})" if others else ""
        raise FileError(f"{self.path}, {first}{tail}")


def read_number_table(path: str | Path, needed: Sequence[str]) -> NumberTable:
    """The `needed` columns of a .parquet file, or of a CSV file of any other name; further columns
    and blank lines are left out."""
    import polars as pl

    is_parquet = Path(path).suffix.lower() == ".parquet"
    what = f"a table with the columns {', '.join(needed)}"
    what += "" if is_parquet else ", separated by commas"
    table = (_parse_parquet if is_parquet else _parse_csv)(path, needed, what)
    absent = [column for column in needed if column not in table.columns]
    if absent:
        raise FileError(f"{path}: no column {', '.join(map(repr, absent))}; expected {what}")
    numbered = table.with_row_index(ROW, offset=1 if is_parquet else 2)
    texts = numbered.select(ROW, pl.col(needed).fill_null("").str.strip_chars())
    filled = texts.filter(pl.any_horizontal(pl.col(needed) != ""))
    if filled.height == 0:
        raise FileError(f"{path}: has a header but no rows; add one for each step")
    return NumberTable(path, filled)


def _parse_csv(path: str | Path, needed: Sequence[str], what: str) -> pl.DataFrame:
    import polars as pl

    content = read_bytes(path, what)
    decode(path, content)
    try:
        present = pl.read_csv(content, infer_schema=False, n_rows=0).columns
        wanted = [column for column in needed if column in present]
        return pl.read_csv(content, infer_schema=False, columns=wanted or None)
    # A panic of the parser is no subclass of Exception.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"{path}: is not a CSV table: {reason}; expected {what}") from None


def _parse_parquet(path: str | Path, needed: Sequence[str], what: str) -> pl.DataFrame:
    import polars as pl

    check_readable(path, what)
    table = parquet_frame(path)
    wanted = [column for column in needed if column in table.columns]
    for column in wanted:
        kind = table[column].dtype
        # Flags may be stored as booleans; as texts they would read "true".
        if kind == pl.Boolean:
            table = table.with_columns(pl.col(column).cast(pl.Int8))
        elif not (kind.is_numeric() or kind == pl.String):
            raise FileError(f"{path}, column {column!r}: holds {kind}; store numbers or texts")
    return table.select(pl.col(wanted).cast(pl.String))


def group_rows(keys: FloatArray, times: FloatArray) -> list[IntArray]:
    """Row indices of each key, in the order of keys' first rows; each in the order of times."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.lexsort((times, first[inverse]))
    starts = np.flatnonzero(np.diff(first[inverse][order])) + 1
    return [np.asarray(rows, dtype=np.int64) for rows in np.split(order, starts)]


def report_changes(
    table: NumberTable, column: str, values: FloatArray, groups: Sequence[IntArray]
) -> None:
    """Report the rows whose value differs from that of the first row of their group."""
    first = np.empty(len(table), dtype=np.int64)
    for rows in groups:
        first[rows] = rows[0]
    # What is no number has been reported already.
    known = np.isfinite(values) & np.isfinite(values[first])
    changed = known & (values != values[first])
    table.report(changed, column, "differs from the first row of this stay; it must not change")
