"""CSV files read a few megabytes at a time, each row with the line on which it begins.

Polars splits the fields; what it would mend in silence is checked before, byte by byte: quotes that
stand inside a field or are left open, rows with too few or too many fields, bytes that are no
text. A line break ends a row unless the quotes before it are odd in number.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import BoolArray, IntArray
from counterplan.errors import FileError
from counterplan.io.mistakes import BROKEN, Mistakes

if TYPE_CHECKING:
    import polars as pl

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
