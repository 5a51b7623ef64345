"""Tables from CSV and Parquet files as texts, with errors that name row, column and value.

Rows of a CSV file are numbered as editors number its lines, so the header is usually row 1; rows of
a Parquet file count from 1.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import FileError
from counterplan.files.contents import check_readable, decode, read_bytes, suffix_of
from counterplan.files.parquet import parquet_frame
from counterplan.io.entries import EntryError
from counterplan.io.mistakes import shown

if TYPE_CHECKING:
    import polars as pl

RECORD = "record in the file"
WHAT = "a table with the columns episode_id, t, state, action"


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file as stripped texts (empty where nothing is given), and where they stand.

    texts  one row per step, blank lines left out; RECORD says which record of the file it was
    csv    the text of a CSV file, None for Parquet
    """

    path: str | Path
    texts: pl.DataFrame
    csv: str | None

    def __len__(self) -> int:
        return self.texts.height

    def __contains__(self, column: str) -> bool:
        return column in self.texts.columns

    def row(self, index: int) -> int:
        """The number of a row in the file, as messages give it."""
        record = int(self.texts[RECORD][index])
        if self.csv is None:
            return record + 1
        with suppress(_MalformedError):
            for number, (line, _) in enumerate(_records(self.csv)):
                if number == record + 1:  # the header is number 0
                    return line
        return record + 2

    def reject(self, index: int, column: str, problem: str) -> NoReturn:
        """Raise an error about one entry."""
        value = self.texts[column][index]
        said = f"{shown(value)} " if value else ""
        raise FileError(f"{self.path}, row {self.row(index)}, column {column!r}: {said}{problem}")

    def read(self, column: str, entry: Callable[[str], float]) -> NDArray[Any]:
        """The numbers that the texts of a column stand for."""
        texts = self.texts[column]
        numbers: dict[str, float] = {}
        for text in texts.unique(maintain_order=True):
            try:
                numbers[text] = entry(text)
            except EntryError as problem:
                self.reject(int((texts == text).arg_max() or 0), column, str(problem))
        return np.array([numbers[text] for text in texts])


def read_table(path: str | Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """The `needed` columns of a file, and those `optional` ones that it has."""
    suffix = suffix_of(path, (".csv", ".parquet"), "tables")
    if suffix == ".parquet":
        check_readable(path, WHAT)
        text, frame = None, parquet_frame(path)
    else:
        content = read_bytes(path, WHAT)
        text = decode(path, content)
        frame = _parse_csv(path, content, text)
    columns = _present(path, frame, needed, optional)
    texts = _as_texts(path, frame.select(list(columns.values())).with_row_index(RECORD), columns)
    if texts.height == 0:
        raise FileError(f"{path}: has no rows; give one for each step")
    return Table(path, texts, text)


def _parse_csv(path: str | Path, content: bytes, text: str) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_csv(content, infer_schema=False)
    except pl.exceptions.PolarsError as problem:
        reason = _why_malformed(text) or f"somewhere: {str(problem).splitlines()[0]}"
    raise FileError(f"{path}, {reason}; correct the file")


def _present(
    path: str | Path, frame: pl.DataFrame, needed: Sequence[str], optional: Sequence[str]
) -> dict[str, str]:
    """Which column of the file holds what: wanted name -> name in the file."""
    # The parser has renamed the second of two equal names.
    stripped = [name.strip().removesuffix("_duplicated_0") for name in frame.columns]
    absent = [column for column in needed if column not in stripped]
    if absent:
        given = [re.sub(r"_duplicated_\d+$", "", name) for name in frame.columns[:8]]
        found = ", ".join(map(shown, given))
        comma = ", separated by commas" if len(frame.columns) == 1 else ""
        raise FileError(
            f"{path}: no column {', '.join(map(repr, absent))}: found {found}; name the columns "
            f"{', '.join(needed)}{comma}"
        )
    wanted = [column for column in (*needed, *optional) if column in stripped]
    for column in wanted:
        if stripped.count(column) > 1:
            raise FileError(f"{path}: two columns are named {column!r}; keep one of them")
    return {column: frame.columns[stripped.index(column)] for column in wanted}


def _as_texts(path: str | Path, frame: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    """Stripped texts, without the rows in which every one of them is empty."""
    import polars as pl

    texts = [frame[RECORD]]
    for column, name in columns.items():
        try:
            text = frame[name].cast(pl.String).fill_null("").str.strip_chars()
        except pl.exceptions.PolarsError:
            raise FileError(
                f"{path}, column {column!r}: holds {frame[name].dtype}; store numbers or texts"
            ) from None
        texts.append(text.alias(column))
    table = pl.DataFrame(texts)
    return table.filter(pl.any_horizontal(pl.col(list(columns)) != ""))


class _MalformedError(ValueError):
    """Where a CSV text goes wrong, and why."""


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """The header and every record after it, blank ones too, with the line on which each starts."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line, header_seen = 1, False
    try:
        for fields in reader:
            if fields or header_seen:
                yield line, fields
                header_seen = True
            line = reader.line_num + 1
    except csv.Error as problem:
        raise _MalformedError(f"row {line}: is not CSV: {problem}") from None


def _why_malformed(text: str) -> str | None:
    """The first record that has more fields than the header or breaks the rules of quoting."""
    try:
        records = _records(text)
        _, header = next(records)
        for line, fields in records:
            if len(fields) > len(header):
                return f"row {line}: has {len(fields)} fields, but the header has {len(header)}"
    except _MalformedError as problem:
        return str(problem)
    return None
