"""Tables of any length, block after block: CSV (`io.csv_blocks`) and Parquet, as stripped texts.

Rows of a CSV file are numbered as editors number its lines, so the header is usually row 1; rows of
a Parquet file count from 1.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.files import check_readable, decode, read_bytes, suffix_of
from counterplan.core.parquet import (
    parquet_blocks,
    parquet_columns,
    parquet_errors,
    parquet_frame,
    scan,
    try_decoding,
)
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, MistakesError
from counterplan.tables.entries import EntryError
from counterplan.tables.mistakes import BROKEN, Mistakes, shown
from counterplan.tables.schema import MOST_COLUMNS

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# CSV files read a few megabytes at a time, each row with the line on which it begins.
#
# Polars splits the fields; what it would mend in silence is checked before, byte by byte: quotes
# that stand inside a field or are left open, rows with too few or too many fields, bytes that are
# no text. A line break ends a row unless the quotes before it are odd in number.

BLOCK = 2**20
LARGEST_FIELD = 2**20
# Longer rows come from a quote that is never closed.
LONGEST_ROW = 16 * 2**20
QUOTE, COMMA, NEWLINE, RETURN = b'",\n\r'
UTF16 = (b"\xff\xfe", b"\xfe\xff")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


Letters: TypeAlias = NDArray[np.uint8]


class Block(NamedTuple):
    """Some rows of a file: stripped texts by column ("" where nothing is given), and their rows."""

    texts: pl.DataFrame
    rows: IntArray


class CsvFile(NamedTuple):
    """A CSV file whose header has been read; its rows begin at byte `start`, in line `line`."""

    path: str | Path
    header: list[str]
    start: int
    line: int


def open_csv(path: str | Path) -> CsvFile:
    """Read the header of a file."""
    with Path(path).open("rb") as file:
        first = file.read(BLOCK)
    if first.startswith(UTF16):
        raise FileError(f"{path}: is text in UTF-16; save it as CSV in UTF-8")
    start = len(BYTE_ORDER_MARK) if first.startswith(BYTE_ORDER_MARK) else 0
    line = 1
    while True:
        end = _row_end(first, start)
        if end == 0:
            end = len(first)
            if end == BLOCK:
                raise FileError(f"{path}, row {line}: the header does not end; give a CSV table")
        content = first[start:end]
        if content.strip() or end == len(first):
            break
        start, line = end, line + content.count(b"\n")
    fields = _header_fields(path, line, content)
    return CsvFile(path, fields, end, line + content.count(b"\n"))


def _header_fields(path: str | Path, line: int, content: bytes) -> list[str]:
    if b"\0" in content:
        raise FileError(f"{path}, row {line}: holds a NUL byte; it is no text file, save it as CSV")
    text = _decoded(path, line, content).rstrip("\r\n")
    if "\r" in text and '"' not in text:
        raise FileError(f"{path}: its lines end in CR only; save it with LF or CR LF line ends")
    try:
        fields = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except csv.Error as problem:
        raise FileError(f"{path}, row {line}: is not CSV: {problem}; correct the header") from None
    return [field.strip() for field in fields]


def csv_blocks(file: CsvFile, places: Sequence[int], mistakes: Mistakes) -> Iterator[Block]:
    """The columns at some places of the header, block after block; broken rows are reported and
    left out."""
    line, pending = file.line, b""
    with Path(file.path).open("rb") as stream:
        stream.seek(file.start)
        while True:
            content = stream.read(BLOCK)
            pending += content
            end = _row_end(pending, 0, last=True) if content else len(pending)
            if end:
                yield from _rows(file, line, pending[:end], places, mistakes)
                line += pending.count(b"\n", 0, end)
                pending = pending[end:]
            elif len(pending) > LONGEST_ROW:
                raise FileError(f"{file.path}, row {line}: {_endless(pending)}; correct it")
            if not content:
                return


def _endless(pending: bytes) -> str:
    stray, _ = _stray_quotes(np.frombuffer(pending, dtype=np.uint8))
    if b'"' not in pending:
        return f"is longer than {LONGEST_ROW:,} bytes"
    if stray.any():
        return "here or after it a quote stands inside a field, so that no row ends"
    return f"a quote is opened and not closed in the next {LONGEST_ROW:,} bytes"


def _row_end(content: bytes, start: int, last: bool = False) -> int:
    """Just behind the first (or last) line break that ends a row, 0 if none does."""
    if last and b'"' not in content:
        return content.rfind(b"\n") + 1
    if not last:
        end = content.find(b"\n", start)
        while end >= 0 and content.count(b'"', start, end) % 2:
            end = content.find(b"\n", end + 1)
        return end + 1
    letters = np.frombuffer(content, dtype=np.uint8)
    ends = np.flatnonzero((letters == NEWLINE) & ~_inside(letters))
    return int(ends[-1]) + 1 if ends.size else 0


def _inside(letters: Letters) -> BoolArray:
    """Whether the quotes up to and including each byte are odd in number."""
    return np.bitwise_xor.accumulate(letters == QUOTE)


def _stray_quotes(letters: Letters) -> tuple[BoolArray, BoolArray]:
    """Which quotes neither enclose a field nor are doubled in one; and which bytes are in quotes.

    An opening quote follows a separator; a closing one precedes one; the two halves of a doubled
    quote close and open again.
    """
    is_quote, inside = letters == QUOTE, _inside(letters)
    separator = (letters == COMMA) | (letters == NEWLINE)
    before = np.concatenate([[True], (separator | is_quote)[:-1]])
    after = np.concatenate([(separator | is_quote | (letters == RETURN))[1:], [True]])
    return is_quote & np.where(inside, ~before, ~after), inside


def _rows(
    file: CsvFile, line: int, content: bytes, places: Sequence[int], mistakes: Mistakes
) -> Iterator[Block]:
    """The rows of some bytes that begin and end where rows do."""
    _decoded(file.path, line, content)
    if b"\0" in content:
        where = line + content.count(b"\n", 0, content.index(b"\0"))
        raise FileError(f"{file.path}, row {where}: holds a NUL byte; it is no text, save it anew")
    letters = np.frombuffer(content, dtype=np.uint8)
    stray, inside = _stray_quotes(letters)
    if stray.any() or inside[-1]:
        _refuse_quote(file, line, letters, stray)
    ends = np.flatnonzero((letters == NEWLINE) & ~inside) + 1
    if not ends.size or ends[-1] < len(content):
        ends = np.append(ends, len(content))
    starts = np.concatenate([[0], ends[:-1]])
    commas = np.flatnonzero((letters == COMMA) & ~inside)
    _refuse_large_fields(file, line, content, np.sort(np.concatenate([starts - 1, commas])))
    fields = 1 + np.searchsorted(commas, ends) - np.searchsorted(commas, starts)
    rows = line + np.searchsorted(np.flatnonzero(letters == NEWLINE), starts)
    kept = _whole_rows(file, content, (starts, ends, fields, rows), mistakes)
    if kept.all():
        chosen = content
    else:
        bounds = zip(starts[kept], ends[kept], strict=True)
        chosen = b"".join(content[start:end] for start, end in bounds)
    if kept.any():
        yield _parsed(file, chosen, rows[kept], places)


def _whole_rows(
    file: CsvFile,
    content: bytes,
    found: tuple[IntArray, IntArray, IntArray, IntArray],
    mistakes: Mistakes,
) -> BoolArray:
    """Which rows are neither blank nor of the wrong length; the latter are reported."""
    starts, ends, fields, rows = found
    wanted = len(file.header)
    kept = np.asarray(fields == wanted)
    # A line with blanks only is short, or of one field.
    for place in np.flatnonzero((ends - starts <= 2) | ~kept):
        if not content[starts[place] : ends[place]].strip():
            kept[place] = False
        elif not kept[place]:
            mistakes.in_row(
                int(rows[place]),
                f": has {fields[place]} fields, but the header has {wanted}; add or remove commas",
                BROKEN,
            )
    return kept


def _parsed(file: CsvFile, content: bytes, rows: IntArray, places: Sequence[int]) -> Block:
    import polars as pl

    try:
        frame = pl.read_csv(content, has_header=False, infer_schema=False, columns=sorted(places))
    except pl.exceptions.PolarsError as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(f"{file.path}, from row {rows[0]}: is not CSV: {reason}") from None
    if frame.height != len(rows):
        raise FileError(f"{file.path}, from row {rows[0]}: its rows cannot be told apart")
    frame.columns = [file.header[place] for place in sorted(places)]
    return tidy(frame, rows)


def tidy(frame: pl.DataFrame, rows: IntArray) -> Block:
    """Stripped texts, without the rows in which every one of them is empty."""
    import polars as pl

    texts = frame.select(pl.all().fill_null("").str.strip_chars())
    filled = texts.select(pl.any_horizontal(pl.all() != "")).to_series().to_numpy()
    return Block(texts, rows) if filled.all() else Block(texts.filter(filled), rows[filled])


def _decoded(path: str | Path, line: int, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        where = line + content.count(b"\n", 0, problem.start)
        value = content[problem.start]
        raise FileError(
            f"{path}, row {where}: is not text in UTF-8 (byte 0x{value:02x}); save it as UTF-8"
        ) from None


def _refuse_quote(file: CsvFile, line: int, letters: Letters, stray: BoolArray) -> NoReturn:
    place = int(stray.argmax()) if stray.any() else len(letters)
    ends = np.flatnonzero((letters == NEWLINE) & ~_inside(letters))
    ended = ends[ends < place]
    where = line + int((letters[: ended[-1] + 1] == NEWLINE).sum()) if ended.size else line
    what = "stands inside a field" if stray.any() else "is opened and never closed"
    raise FileError(
        f"{file.path}, row {where}: a quote {what}; put the whole field in quotes and double those "
        "within it"
    )


def _refuse_large_fields(file: CsvFile, line: int, content: bytes, separators: IntArray) -> None:
    sizes = np.diff(np.append(separators, len(content)))
    large = np.flatnonzero(sizes > LARGEST_FIELD)
    if large.size:
        place = int(separators[large[0]]) + 1
        where = line + content.count(b"\n", 0, place)
        raise FileError(
            f"{file.path}, row {where}: has a field of {sizes[large[0]]:,} bytes, more than "
            f"{LARGEST_FIELD:,}; remove or shorten it"
        )


# ----------------------------------------------------------------------------------------------

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


# ----------------------------------------------------------------------------------------------
# Tables from CSV and Parquet files as texts, with errors that name row, column and value.
#
# Rows of a CSV file are numbered as editors number its lines, so the header is usually row 1; rows
# of a Parquet file count from 1.

RECORD = "record in the file"
TABLE_WHAT = "a table with the columns episode_id, t, state, action"


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


def read_text_table(path: str | Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """The `needed` columns of a file, and those `optional` ones that it has."""
    suffix = suffix_of(path, (".csv", ".parquet"), "tables")
    if suffix == ".parquet":
        check_readable(path, TABLE_WHAT)
        text, frame = None, parquet_frame(path)
    else:
        content = read_bytes(path, TABLE_WHAT)
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


# ----------------------------------------------------------------------------------------------
# Rows of numbers that do not fit in memory: kept on disk, given back some episodes at a time.
#
# The file has no name, so that nothing is left behind however the program ends.

# Episodes that are held in memory at a time.
EPISODES = 500


class Spill:
    """Rows whose first number is that of their episode, 0, 1, ... in order of appearance."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._file = tempfile.TemporaryFile(prefix="counterplan-")  # noqa: SIM115 (see close)
        # Where the rows of each bucket of episodes lie: byte and length.
        self._places: list[list[tuple[int, int]]] = []

    def add(self, rows: FloatArray) -> None:
        """Keep some more rows."""
        bucket = (rows[:, 0] // EPISODES).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        numbers, starts = np.unique(bucket[order], return_index=True)
        for number, part in zip(numbers, np.split(rows[order], starts[1:]), strict=True):
            while len(self._places) <= number:
                self._places.append([])
            content = np.ascontiguousarray(part).tobytes()
            self._places[number].append((self._write(content), len(content)))

    def _write(self, content: bytes) -> int:
        try:
            place = self._file.seek(0, os.SEEK_END)
            self._file.write(content)
            self._file.flush()
        except OSError as problem:
            raise FileError(
                f"{tempfile.gettempdir()}: cannot hold the rows of the table while they are "
                f"sorted: {problem.strerror}; free some space, or name another folder in TMPDIR"
            ) from None
        return place

    def buckets(self) -> Iterator[FloatArray]:
        """The rows of some episodes at a time, in the order of episodes."""
        for places in self._places:
            parts = []
            for place, length in places:
                self._file.seek(place)
                parts.append(self._file.read(length))
            yield np.frombuffer(b"".join(parts)).reshape(-1, self._width)

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
