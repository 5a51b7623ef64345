"""Parquet and Arrow files that are not to be trusted, slice by slice, alone or in a folder.

No size that a file states is believed: a few kilobytes can hold a billion rows, or say that they
do, and a page with a negative number of values makes polars' decoder ask for 2^61 bytes, which ends
the process and cannot be caught. So rows are counted before any is read, and the head of every page
is compared with what the end of the file (Thrift's compact protocol) says of it.
"""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import IntArray
from counterplan.errors import FileError

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"PAR1"
ARROW = (".arrow", ".feather")
LARGEST_FIELD = 2**20
# Entries that are read at a time.
ENTRIES = 500_000
# More than ten million episodes of a hundred steps.
MOST_ROWS = 1_000_000_000
DAMAGED = "is damaged or no such table"


def _header(path: Path) -> tuple[Mapping[str, Any], int]:
    """The columns of a file with what they hold, and how many rows there are; all checked."""
    import polars as pl

    if path.suffix in ARROW:
        with _decoder_errors(path):
            rows = int(_scan(path).select(pl.len()).collect().item())
    else:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                raise FileError(f"{path}: is empty; write it anew")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                rows = stated_rows(path, content)
    with _decoder_errors(path):
        return _scan(path).collect_schema(), rows


@dataclass(frozen=True)
class Stored:
    """Files that are one table, in the order of their names.

    kinds   the columns with what they hold
    files   each with the number of rows before it, and the number of its own
    """

    kinds: Mapping[str, Any]
    files: tuple[tuple[Path, int, int], ...]

    def slices(self, wanted: Sequence[str]) -> Iterator[tuple[pl.DataFrame, IntArray]]:
        """The wanted columns as texts, some rows at a time, and their numbers."""
        import polars as pl

        # Slices hold less in memory than the batches of polars' own streaming.
        size = max(ENTRIES // len(wanted), 1)
        for path, before, rows in self.files:
            for start in range(0, rows, size):
                with _decoder_errors(path):
                    part = _scan(path).select(wanted).slice(start, size).collect()
                    # Dates that are none end in a panic only here.
                    part = part.select(pl.all().cast(pl.String))
                for column in part.iter_columns():
                    largest = column.str.len_bytes().max()
                    if isinstance(largest, int) and largest > LARGEST_FIELD:
                        raise FileError(
                            f"{path}, column {column.name!r}: has a field of {largest:,} bytes, "
                            f"more than {LARGEST_FIELD:,}; remove or shorten it"
                        )
                yield part, before + start + 1 + np.arange(part.height)

    def place(self, row: int) -> str:
        """A row, which counts from 1, in words."""
        path, before, _ = next(one for one in reversed(self.files) if row > one[1])
        return f"row {row}" if len(self.files) == 1 else f"{path.name}, row {row - before}"


def open_parquet(path: Path) -> Stored:
    """A file, or all of a folder; what they hold is checked to be the same."""
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not paths:
        raise FileError(f"{path}: is a folder without .parquet files; give a file")
    files, before, kinds = [], 0, dict[str, Any]()
    for one in paths:
        held, rows = _header(one)
        kinds = kinds or dict(held)
        for name in {**held, **kinds}:
            first, second = (_family(each.get(name)) for each in (held, kinds))
            if first != second:
                where = f"{one}, column {name!r}: is {first}, but {second} in {paths[0].name}"
                raise FileError(f"{where}; store them alike")
        files.append((one, before, rows))
        before += rows
    if before > MOST_ROWS:
        raise FileError(f"{path}: has {before:,} rows, more than {MOST_ROWS:,}; split it up")
    return Stored(kinds, tuple(files))


def _family(kind: Any) -> str:
    """What a column holds, however many bytes that takes."""
    if kind is None:
        return "missing"
    return "whole numbers" if kind.is_integer() else "numbers" if kind.is_float() else str(kind)


def stated_rows(path: str | Path, content: mmap.mmap | bytes) -> int:
    """How many rows a file has, once its parts agree on it and its pages hold what it states."""
    size = len(content)
    if content[:4] != MAGIC:
        raise FileError(f"{path}: is no Parquet table (it does not begin with PAR1); write it anew")
    length = int.from_bytes(content[size - 8 : size - 4], "little")
    if content[size - 4 :] != MAGIC or not 0 < length < size - 8:
        raise FileError(f"{path}: is cut off (it does not end with PAR1); copy or write it anew")
    footer = size - 8 - length
    try:
        about = _Thrift(content, footer).struct()
        if about[3] < 0 or sum(group[3] for group in about[4]) != about[3]:
            raise ValueError("its parts do not have as many rows as it states")
        for group in about[4]:
            for chunk in group[1]:
                _check_pages(content, footer, chunk[3])
        return int(about[3])
    except (KeyError, IndexError, TypeError, StopIteration, RecursionError):
        reason = "the description of its columns cannot be read"
    except ValueError as problem:
        reason = str(problem)
    raise FileError(f"{path}: {DAMAGED}: {reason}; write it anew")


def check_density(path: str | Path, content: bytes, densest: int) -> None:
    """Raise if the contents of a file are no table, or one with more rows for a byte than this."""
    if (rows := stated_rows(path, content)) > densest * len(content):
        raise FileError(
            f"{path}: has {rows:,} rows in {len(content):,} bytes, as no part of a run does; "
            "make it anew in another folder"
        )


def decoded(path: str | Path, content: bytes) -> pl.DataFrame:
    """The table in the contents of a file whose density was checked."""
    import polars as pl

    with _decoder_errors(path):
        return pl.read_parquet(io.BytesIO(content))


def _check_pages(content: mmap.mmap | bytes, footer: int, column: Mapping[int, Any]) -> None:
    """Raise unless the pages of a column hold as many values as it states."""
    values, place = column[5], min(column[9], column.get(11) or column[9])
    end = place + column[7]
    if not 0 <= place <= end <= footer:
        raise ValueError("a column of it lies outside of the file")
    while place < end:
        thrift = _Thrift(content, place)
        page = thrift.struct()
        # A dictionary holds values that pages only refer to.
        count = page[7][1] if 7 in page else (page[5] if 5 in page else page[8])[1]
        values -= 0 if 7 in page else count
        if min(count, values, page[2], page[3]) < 0:
            raise ValueError("a page of it states more values than its column, or less than none")
        place = thrift.place + page[3]
    if values:
        raise ValueError("its pages hold fewer values than it states")


class _Thrift:
    """Reads structs of Thrift's compact protocol: by the number of a field, what it holds."""

    def __init__(self, content: mmap.mmap | bytes, place: int) -> None:
        self.content, self.place = content, place

    def struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7 | 8:  # a double, or a text: nothing here depends on them
                length = 8 if kind == 7 else self._varint()
                self.place += length
                return None
            case 9 | 10:
                head = self._byte()
                size, inner = head >> 4, head & 15
                size = self._varint() if size == 15 else size
                flags = inner in (1, 2)
                return [self._byte() if flags else self._value(inner) for _ in range(size)]
            case 12:
                return self.struct()
        raise TypeError(kind)

    def _byte(self) -> int:
        value = self.content[self.place]
        self.place += 1
        return value

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise TypeError(value)

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _scan(path: str | Path) -> pl.LazyFrame:
    """A file as polars reads it: that file alone, as it is."""
    import polars as pl

    if Path(path).suffix in ARROW:
        return pl.scan_ipc(path, glob=False)
    return pl.scan_parquet(path, glob=False, hive_partitioning=False, low_memory=True)


@contextmanager
def _decoder_errors(path: str | Path) -> Iterator[None]:
    """What polars says of a file, as one line."""
    import polars as pl

    try:
        with _muted():
            yield
    # Damage inside a page makes the decoder panic, which is no subclass of Exception.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
        raise FileError(f"{path}: {DAMAGED}: {reason}; write it anew") from None


@contextmanager
def _muted() -> Iterator[None]:
    """Nothing on standard error: where the decoder panics it writes pages there by itself."""
    try:
        original = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
