"""Tables in spreadsheets, databases and frames: read, never changed.

A database is opened for reading alone and answers one SELECT. Everything else is refused before it
runs: in SQLite by its authorizer, in DuckDB by the kind of statement and without access to other
files.
"""

from __future__ import annotations

import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.errors import FileError, InputError

if TYPE_CHECKING:
    import polars as pl

    from counterplan.core.table import Mistakes, Piece, TablePath

# What messages call a frame.
FRAME = "the table"
SQLITE = b"SQLite format 3\0"
# What a SELECT does: it selects, reads columns, calls functions, and may refer to itself.
ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
ROWS = 50_000
# Bytes of an unpacked spreadsheet: a million rows of a dozen columns.
LARGEST_SHEET = 2**30
EXTRA = "is not installed; in the clone run: python -m pip install '.[formats]'"


def as_polars(frame: Any) -> pl.DataFrame:
    """A frame of polars or pandas as one of polars.

    pandas is never imported: a frame of it comes with all that is needed.
    """
    import polars as pl

    if isinstance(frame, pl.DataFrame | pl.LazyFrame):
        return frame.lazy().collect()
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "columns"):
        raise InputError(
            f"expected a frame of polars or pandas, got {type(frame).__name__}; for arrays use "
            "counterplan.tables.formats.frame_from_arrays"
        )
    # A named index is a column that somebody has set aside.
    if levels := [name for name in frame.index.names if name and name not in frame.columns]:
        frame = frame.reset_index(levels)
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{FRAME}: two columns are named {twice!r}; keep one of them")
    found = []
    for name, column in (
        (name, frame[key]) for name, key in zip(names, frame.columns, strict=True)
    ):
        # Anything but numbers becomes text.
        is_number = str(column.dtype).lower().startswith(("int", "uint", "float", "bool"))
        pairs = zip(column.isna(), column.tolist() if is_number else column, strict=True)
        values = [None if gap else value if is_number else str(value) for gap, value in pairs]
        kind = None if is_number else pl.String
        found.append(pl.Series(name, values, dtype=kind, strict=False))
    return pl.DataFrame(found)


def read_excel(path: Path) -> pl.DataFrame:
    """The first sheet of a spreadsheet."""
    import polars as pl

    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > LARGEST_SHEET:
            raise FileError(f"{path}: unpacks to {size:,} bytes; save it as CSV or split it up")
        return pl.read_excel(path, infer_schema_length=None, drop_empty_rows=False)
    except FileError:
        raise
    except ImportError:
        raise FileError(f"{path}: fastexcel, for .xlsx, {EXTRA}; or save it as CSV") from None
    except Exception as problem:  # the reader has kinds of its own
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
        raise FileError(f"{path}: is damaged or no Excel table: {reason}; save it anew") from None


def open_query(
    path: TablePath, suffix: str
) -> tuple[list[str], Callable[[Sequence[str], Mistakes], Iterator[Piece]]]:
    """The columns of a query's answer, and what reads its rows."""
    with path.open("rb") as file:
        is_sqlite = file.read(len(SQLITE)) == SQLITE
    if not is_sqlite and suffix != ".duckdb":
        raise FileError(f"{path}: is no SQLite database; give one, or a table as CSV")
    start = partial(_sqlite if is_sqlite else _duckdb, path)
    if path.query is None:
        tables = "select name from sqlite_master where type in ('table', 'view') order by name"
        if not is_sqlite:
            tables = "select table_name from information_schema.tables order by 1"
        with closing(start(tables)[0]) as connection:
            names = [row[0] for row in connection.execute(tables).fetchmany(8)]
        found = ", ".join(map(repr, names)) or "none"
        raise FileError(
            f"{path}: is a database (its tables: {found}); say which rows: --query "
            f"'select * from {names[0] if names else 'TABLE'}'"
        )
    connection, cursor = start(path.query)
    with closing(connection):
        header = [str(column[0]) for column in cursor.description or ()]
    return header, partial(_rows, path, start, header)


def _rows(
    path: TablePath,
    start: Callable[[str], tuple[Any, Any]],
    header: list[str],
    wanted: Sequence[str],
    mistakes: Mistakes,
) -> Iterator[Piece]:
    import polars as pl

    places = {name: header.index(name) for name in wanted}
    connection, cursor = start(path.query or "")
    with closing(connection):
        first = 1
        while True:
            try:
                rows = list(cursor.fetchmany(ROWS))
            except Exception as problem:
                raise _refused(path, problem) from None
            if not rows:
                return
            columns = {
                name: pl.Series([_text(path, name, row[place]) for row in rows], dtype=pl.String)
                for name, place in places.items()
            }
            yield pl.DataFrame(columns), np.arange(first, first + len(rows))
            first += len(rows)


def _text(path: TablePath, name: str, value: Any) -> str | None:
    if isinstance(value, bytes | list | dict):
        raise FileError(f"{path}, column {name!r}: holds no number or text; cast it in the query")
    return value if value is None or isinstance(value, str) else str(value)


def _sqlite(path: TablePath, query: str) -> tuple[Any, Any]:
    """A connection and the answer."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY
        )
        return connection, connection.execute(query)
    except (sqlite3.Error, sqlite3.Warning) as problem:
        raise _refused(path, problem) from None


def _duckdb(path: TablePath, query: str) -> tuple[Any, Any]:
    try:
        import duckdb
    except ImportError:
        raise FileError(f"{path}: duckdb {EXTRA}; or store the rows as Parquet") from None
    try:
        settings: Any = {"enable_external_access": "false"}
        connection = duckdb.connect(str(path), read_only=True, config=settings)
        statements = connection.extract_statements(query)
        if [one.type for one in statements] != [duckdb.StatementType.SELECT]:
            raise duckdb.Error("not authorized")
        return connection, connection.execute(query)
    except duckdb.Error as problem:
        raise _refused(path, problem) from None


def _refused(path: TablePath, problem: Exception) -> FileError:
    reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
    if any(word in reason for word in ("authoriz", "one statement", "prohibited")):
        return FileError(f"{path}: --query may be one SELECT, which changes nothing; correct it")
    return FileError(f"{path}: cannot answer --query: {reason}; correct it")
