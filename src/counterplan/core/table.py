"""Tables of any size, block after block: CSV and Parquet files and frames in memory, as texts.

    file = open_table_file("episodes.csv")            # the header is read and checked
    mistakes = Mistakes(file.path)
    for block in file.blocks(["episode_id", "sofa"], mistakes):
        sofa = block.numbers("sofa")                  # (n,), nan where nothing is given
    mistakes.refuse()                                 # one error with a line for each mistake

Every entry is a stripped text, "" where nothing is given; rows without any entry are left out. What
is wrong is gathered, with row, column and value, before anything is used. Rows of a CSV file are
numbered as editors number its lines, so the header is usually row 1; rows of a Parquet file count
from 1, those of a frame from 0.
"""

from __future__ import annotations

import csv
import io
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.files import check_readable, suffix_of
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, MistakesError

if TYPE_CHECKING:
    import polars as pl

WHAT = "a table of episodes, one row for each step"
FORMATS = (".csv", ".parquet")
MOST_COLUMNS = 10_000
# Entries of a table that is read whole: as texts these take some gigabytes.
MOST_ENTRIES = 200_000_000
LARGEST_FIELD = 2**20
# What programs write for nothing, in capitals.
GAPS = ("", "NA", "NAN", "NULL")
# What is beyond is a slip of the pen, and would overflow.
LARGEST_NUMBER = 1e100
# How a number is written, be it too large to be used.
A_NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
# In place of an entry that has been reported, so that nobody reports it again.
BAD = np.inf

# --- Mistakes ---------------------------------------------------------------------------------

MOST_LINES = 20
# How many mistakes of one kind are shown.
MOST_ALIKE = 3
LONGEST_VALUE = 60
# The row of mistakes that no row is to blame for.
WHOLE = -1
# The kind of mistake that leaves a row out.
BROKEN = "fields"


@dataclass
class _Kind:
    shown: list[tuple[int, str]] = field(default_factory=list)
    count: int = 0


@dataclass
class Mistakes:
    """What is wrong with a file so far.

    Mistakes of one kind in one column share their lines: the first few are shown with row and
    value, the last of them says how many more there are.
    """

    path: str | Path
    place: Callable[[int], str] = "row {}".format
    _kinds: dict[tuple[str, str], _Kind] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many mistakes there are."""
        return sum(kind.count for kind in self._kinds.values())

    @property
    def has_broken_rows(self) -> bool:
        """Whether rows had to be left out."""
        return ("", BROKEN) in self._kinds

    def in_rows(
        self, column: str, problem: str, rows: Sequence[int], values: Sequence[object] = ()
    ) -> None:
        """Entries of a column that are wrong for the same reason; the first values are enough."""
        if not len(rows):
            return
        kind = self._kinds.setdefault((column, problem), _Kind())
        for index in range(min(MOST_ALIKE - len(kind.shown), len(rows))):
            value = shown(values[index]) + " " if index < len(values) and values[index] else ""
            text = f"{self.place(rows[index])}, column {column!r}: {value}{problem}"
            kind.shown.append((int(rows[index]), text))
        kind.count += len(rows)

    def in_row(self, row: int, problem: str, kind: str) -> None:
        """Something about a whole row, or about an entry where the text names others."""
        found = self._kinds.setdefault(("", kind), _Kind())
        if len(found.shown) < MOST_ALIKE:
            found.shown.append((row, f"{self.place(row)}{problem}"))
        found.count += 1

    def in_file(self, problem: str) -> None:
        """Something that no row is to blame for."""
        self._kinds.setdefault(("", problem), _Kind([(WHOLE, problem)])).count += 1

    def refuse(self) -> None:
        """Raise if there is any mistake: a line for each, in the order of rows."""
        if not self._kinds:
            return
        lines: list[tuple[int, str]] = []
        # Every kind is shown before more of the same are.
        alike = max(MOST_LINES // len(self._kinds), 1)
        for kind in self._kinds.values():
            chosen = kind.shown[:alike]
            others = kind.count - len(chosen)
            more = f" (and {others:,} more like it)" if others else ""
            row, text = chosen[-1]
            lines += [*chosen[:-1], (row, text + more)]
        lines.sort(key=lambda line: line[0])
        texts = [
            f"{self.path}{':' if row == WHOLE else ','} {text}" for row, text in lines[:MOST_LINES]
        ]
        if self.count > len(lines[:MOST_LINES]):
            texts.append(f"{self.path}: {self.count:,} mistakes in all; nothing was read")
        raise MistakesError("\n".join(" ".join(text.splitlines()) for text in texts))


def shown(value: object) -> str:
    """A value as messages show it, cut if it is long."""
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE - 10]}... ({len(text):,} characters)"


# --- Blocks of rows ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of a table.

    texts     by column, "" where nothing is given
    rows      (n,) their numbers in the file
    mistakes  where the checks below report what is wrong
    """

    texts: pl.DataFrame
    rows: IntArray
    mistakes: Mistakes

    def __len__(self) -> int:
        return len(self.rows)

    def report(self, wrong: BoolArray, name: str, problem: str) -> None:
        """Note the rows whose entry in a column is wrong."""
        places = np.flatnonzero(wrong)
        if places.size:
            values = self.texts[name].gather(places[:MOST_ALIKE].tolist()).to_list()
            self.mistakes.in_rows(name, problem, self.rows[places].tolist(), values)

    def numbers(self, name: str, may_miss: bool = True, problem: str = "") -> FloatArray:
        """(n,) the numbers of a column, nan where nothing is given, BAD where there is no number.

        may_miss  whether nothing may be given
        problem   what to say of what is no number, if not the usual
        """
        import polars as pl

        texts = self.texts[name]
        values: FloatArray = texts.cast(pl.Float64, strict=False).to_numpy().copy()
        odd = ~(np.abs(values) <= LARGEST_NUMBER)
        if not odd.any():
            return values
        gap = texts.str.to_uppercase().is_in(GAPS).to_numpy()
        wrong = odd & ~gap
        values[gap], values[wrong] = np.nan, BAD
        if not may_miss:
            self.report(gap, name, "is missing; fill it in")
        if problem or not wrong.any():
            self.report(wrong, name, problem)
            return values
        advice = "correct or empty it" if may_miss else "correct it"
        for pattern, why in (
            (r"^[-+]?\d+,\d+$", "has a decimal comma; write a decimal point"),
            ("(?i)^[-+]?inf", f"is not a finite number; {advice}"),
            (A_NUMBER, f"is too far from 0, {LARGEST_NUMBER:g} at most; {advice}"),
            ("", f"is not a number; {advice}"),
        ):
            found = wrong & texts.str.contains(pattern).to_numpy()
            self.report(found, name, why)
            wrong &= ~found
        return values

    def expect(self, name: str, values: FloatArray, right: BoolArray, problem: str) -> None:
        """Report the numbers of a column that are not right, and make them BAD."""
        wrong = np.isfinite(values) & ~right
        self.report(wrong, name, problem)
        values[wrong] = BAD

    def groups(self, values: FloatArray, times: FloatArray) -> list[IntArray]:
        """The rows with the same value, in the order of their first rows, each in the
        order of times."""
        _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
        order = np.lexsort((times, first[inverse]))
        starts = np.flatnonzero(np.diff(first[inverse][order])) + 1
        return [np.asarray(rows, dtype=np.int64) for rows in np.split(order, starts)]

    def choices(
        self,
        name: str,
        texts: Mapping[str, float],
        numbers: Collection[float],
        problem: str,
        may_miss: bool = True,
    ) -> FloatArray:
        """(n,) what the entries of a column stand for, by their texts or as numbers; nan where
        nothing is given, BAD where it is neither."""
        distinct, codes = distinct_texts(self.texts[name])
        found = np.array([_choice(text, texts, numbers) for text in distinct])[codes]
        self.report(np.isinf(found) if may_miss else ~np.isfinite(found), name, problem)
        return found


def distinct_texts(texts: pl.Series) -> tuple[list[str], IntArray]:
    """The different texts in the order in which they appear, and which of them each row has."""
    import polars as pl

    distinct = texts.unique(maintain_order=True).rename("text")
    codes = pl.DataFrame({"text": distinct}).with_row_index("code")
    found = pl.DataFrame({"text": texts}).join(codes, on="text", maintain_order="left")
    return distinct.to_list(), found["code"].to_numpy().astype(np.int64)


def _choice(text: str, texts: Mapping[str, float], numbers: Collection[float]) -> float:
    number = as_number(text)
    if text in texts:
        return texts[text]
    if text.upper() in GAPS:
        return np.nan
    return number if number is not None and number in numbers else BAD


def as_number(text: str) -> float | None:
    """The finite number that a text is, None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if "_" not in text and np.isfinite(number) else None


def _block(frame: pl.DataFrame, rows: IntArray, mistakes: Mistakes) -> Block:
    """Stripped texts, without the rows in which every one of them is empty."""
    import polars as pl

    texts = frame.select(pl.all().fill_null("").str.strip_chars())
    filled = texts.select(pl.any_horizontal(pl.all() != "")).to_series().to_numpy()
    if not filled.all():
        texts, rows = texts.filter(filled), rows[filled]
    return Block(texts, rows, mistakes)


# --- Tables -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableFile(ABC):
    """A table whose header has been read."""

    path: str | Path
    header: list[str]

    @abstractmethod
    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        """The wanted columns, block after block; rows that cannot be read are reported."""

    def check_columns(self, wanted: Sequence[str], advice: str = "") -> None:
        """Raise unless the table has each of them once; what is missing is named at once.

        advice  what to do about a column that is missing, if not to name it like the others
        """
        advice = advice or f"name the columns {', '.join(wanted)}"
        lines = []
        for name in wanted:
            count = self.header.count(name)
            if count > 1:
                lines.append(f"{count} columns are named {name!r}; rename or remove all but one")
            elif not count:
                near = get_close_matches(name, self.header, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                lines.append(f"no column {name!r}; {hint}{advice}")
        if len(lines) >= len(wanted) > 1:
            found = ", ".join(repr(name[:40]) for name in self.header[:8])
            other = _other_separator(self.header) or "; name the columns in the first row"
            lines = [f"none of the columns {', '.join(wanted[:8])}: found {found}{other}"]
        if lines:
            raise MistakesError("\n".join(f"{self.path}: {line}" for line in lines[:20]))

    def read(self, wanted: Sequence[str]) -> Block:
        """All rows at once, if they fit in memory."""
        import polars as pl

        self.check_columns(wanted)
        mistakes, parts, entries = Mistakes(self.path), list[Block](), 0
        for block in self.blocks(wanted, mistakes):
            parts.append(block)
            entries += len(block) * len(wanted)
            if entries > MOST_ENTRIES:
                raise FileError(f"{self.path}: has more than {MOST_ENTRIES:,} entries; split it up")
        if mistakes.has_broken_rows:
            mistakes.refuse()
        if not entries:
            raise FileError(f"{self.path}: {NO_ROWS}")
        texts = pl.concat([block.texts for block in parts])
        return Block(texts, np.concatenate([block.rows for block in parts]), mistakes)


NO_ROWS = "has a header but no rows; give one for each step"


def open_table_file(
    path: str | Path, what: str = WHAT, formats: tuple[str, ...] = FORMATS
) -> TableFile:
    """The header of a .csv or .parquet file.

    what     the file should hold
    formats  the extensions that it may have; none for any, where all but .parquet is CSV
    """
    suffix = suffix_of(path, formats, "tables") if formats else Path(path).suffix.lower()
    check_readable(path, what)
    file = open_parquet(path) if suffix == ".parquet" else open_csv(path)
    if not any(file.header):
        raise FileError(f"{path}: is empty; expected {what}")
    if len(file.header) > MOST_COLUMNS:
        raise FileError(
            f"{path}: has {len(file.header):,} columns, more than {MOST_COLUMNS:,}; give one row "
            "for each step, with a column for each quantity"
        )
    return file


def table_columns(path: str | Path) -> list[str]:
    """The columns of a .csv or .parquet file; none if it cannot be read, which is for whoever needs
    its rows to say."""
    try:
        return open_table_file(path).header
    except FileError:
        return []


def _other_separator(header: Sequence[str]) -> str:
    if len(header) == 1:
        for sign, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if sign in header[0]:
                return f", separated by {name}; separate them by commas"
    return ""


# --- Frames in memory -------------------------------------------------------------------------

# Rows that are looked at in one go.
FRAME_ROWS = 50_000


@dataclass(frozen=True)
class FrameTable(TableFile):
    """A polars frame as a table."""

    frame: pl.DataFrame

    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        import polars as pl

        _check_kinds(self.path, self.frame.schema, wanted)
        for start in range(0, self.frame.height, FRAME_ROWS):
            part = self.frame[start : start + FRAME_ROWS].select(pl.col(wanted).cast(pl.String))
            yield _block(part, np.arange(start, start + part.height), mistakes)


def _check_kinds(path: str | Path, kinds: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Raise where a column holds what is no text, and cannot become one."""
    import polars as pl

    for name in wanted:
        if kinds[name].is_nested() or kinds[name] in (pl.Binary, pl.Object):
            raise FileError(f"{path}, column {name!r}: holds {kinds[name]}; store numbers or texts")


# --- CSV --------------------------------------------------------------------------------------
# Polars splits the fields; what it would mend in silence is checked before, byte by byte: quotes
# that stand inside a field or are left open, rows with too few or too many fields, bytes that are
# no text. A line break ends a row unless the quotes before it are odd in number.

BLOCK = 2**20
# Longer rows come from a quote that is never closed.
LONGEST_ROW = 16 * 2**20
QUOTE, COMMA, NEWLINE, RETURN = b'",\n\r'
UTF16 = (b"\xff\xfe", b"\xfe\xff")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Letters: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True)
class CsvTable(TableFile):
    """A CSV file; its rows begin at byte `start`, in line `line`."""

    start: int
    line: int

    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        line, pending = self.line, b""
        with Path(self.path).open("rb") as stream:
            stream.seek(self.start)
            while True:
                content = stream.read(BLOCK)
                pending += content
                end = _last_row_end(pending) if content else len(pending)
                if end:
                    yield from _CsvRows(self, line, pending[:end]).block(wanted, mistakes)
                    line += pending.count(b"\n", 0, end)
                    pending = pending[end:]
                elif len(pending) > LONGEST_ROW:
                    raise FileError(f"{self.path}, row {line}: {_endless(pending)}; correct it")
                if not content:
                    return


def open_csv(path: str | Path) -> CsvTable:
    """Read the header of a CSV file."""
    with Path(path).open("rb") as file:
        first = file.read(BLOCK)
    if first.startswith(UTF16):
        raise FileError(f"{path}: is text in UTF-16; save it as CSV in UTF-8")
    start = len(BYTE_ORDER_MARK) if first.startswith(BYTE_ORDER_MARK) else 0
    line = 1
    while True:
        end = _first_row_end(first, start) or len(first)
        if end == BLOCK:
            raise FileError(f"{path}, row {line}: the header does not end; give a CSV table")
        content = first[start:end]
        if content.strip() or end == len(first):
            break
        start, line = end, line + content.count(b"\n")
    fields = _header_fields(path, line, content)
    return CsvTable(path, fields, end, line + content.count(b"\n"))


def _header_fields(path: str | Path, line: int, content: bytes) -> list[str]:
    text = _decoded(path, line, content).rstrip("\r\n")
    if "\r" in text and '"' not in text:
        raise FileError(f"{path}: its lines end in CR only; save it with LF or CR LF line ends")
    try:
        fields = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except csv.Error as problem:
        raise FileError(f"{path}, row {line}: is not CSV: {problem}; correct the header") from None
    return [one.strip() for one in fields]


def _decoded(path: str | Path, line: int, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        where = line + content.count(b"\n", 0, problem.start)
        value = content[problem.start]
        raise FileError(
            f"{path}, row {where}: is not text in UTF-8 (byte 0x{value:02x}); save it as UTF-8"
        ) from None
    if "\0" in text:
        where = line + content.count(b"\n", 0, content.index(b"\0"))
        raise FileError(
            f"{path}, row {where}: holds a NUL byte; it is no text file, save it as CSV"
        )
    return text


def _first_row_end(content: bytes, start: int) -> int:
    """Just behind the first line break that ends a row, 0 if none does."""
    end = content.find(b"\n", start)
    while end >= 0 and content.count(b'"', start, end) % 2:
        end = content.find(b"\n", end + 1)
    return end + 1


def _last_row_end(content: bytes) -> int:
    """Just behind the last line break that ends a row, 0 if none does."""
    if b'"' not in content:
        return content.rfind(b"\n") + 1
    letters = np.frombuffer(content, dtype=np.uint8)
    ends = np.flatnonzero((letters == NEWLINE) & ~_inside(letters))
    return int(ends[-1]) + 1 if ends.size else 0


def _inside(letters: Letters) -> BoolArray:
    """Whether the quotes up to and including each byte are odd in number."""
    return np.asarray(np.bitwise_xor.accumulate(letters == QUOTE))


def _stray_quotes(letters: Letters) -> BoolArray:
    """Which quotes neither enclose a field nor are doubled in one.

    An opening quote follows a separator; a closing one precedes one; the two halves of a doubled
    quote close and open again.
    """
    is_quote = letters == QUOTE
    separator = (letters == COMMA) | (letters == NEWLINE)
    before = np.concatenate([[True], (separator | is_quote)[:-1]])
    after = np.concatenate([(separator | is_quote | (letters == RETURN))[1:], [True]])
    return np.asarray(is_quote & np.where(_inside(letters), ~before, ~after))


def _endless(pending: bytes) -> str:
    if b'"' not in pending:
        return f"is longer than {LONGEST_ROW:,} bytes"
    if _stray_quotes(np.frombuffer(pending, dtype=np.uint8)).any():
        return "here or after it a quote stands inside a field, so that no row ends"
    return f"a quote is opened and not closed in the next {LONGEST_ROW:,} bytes"


class _CsvRows:
    """Some bytes that begin and end where rows do; the first row is in line `line`.

    starts, ends  (n,) where each row begins and ends, its line break included
    fields        (n,) how many fields it has
    rows          (n,) in which line it begins
    """

    def __init__(self, file: CsvTable, line: int, content: bytes) -> None:
        self.file, self.content = file, content
        _decoded(file.path, line, content)
        letters = np.frombuffer(content, dtype=np.uint8)
        newlines, commas = np.flatnonzero(letters == NEWLINE), np.flatnonzero(letters == COMMA)
        ends = newlines
        if b'"' in content:
            inside = _inside(letters)
            ends, commas = newlines[~inside[newlines]], commas[~inside[commas]]
            self._check_quotes(letters, line, ends, is_open=bool(inside[-1]))
        ends = ends + 1
        self.ends = (
            ends if ends.size and ends[-1] == len(content) else np.append(ends, len(content))
        )
        self.starts = np.concatenate([[0], self.ends[:-1]])
        self.fields = 1 + np.searchsorted(commas, self.ends) - np.searchsorted(commas, self.starts)
        self.rows = line + np.searchsorted(newlines, self.starts)
        self._check_sizes(np.sort(np.concatenate([self.starts - 1, commas])))

    def _check_quotes(self, letters: Letters, line: int, ends: IntArray, is_open: bool) -> None:
        stray = _stray_quotes(letters)
        if not stray.any() and not is_open:
            return
        place = int(stray.argmax()) if stray.any() else len(letters)
        ended = ends[ends < place]
        where = line + int((letters[: ended[-1] + 1] == NEWLINE).sum()) if ended.size else line
        what = "stands inside a field" if stray.any() else "is opened and never closed"
        raise FileError(
            f"{self.file.path}, row {where}: a quote {what}; put the whole field in quotes and "
            "double those within it"
        )

    def _check_sizes(self, separators: IntArray) -> None:
        sizes = np.diff(np.append(separators, len(self.content)))
        if sizes.max() <= LARGEST_FIELD:
            return
        large = int(np.argmax(sizes > LARGEST_FIELD))
        row = self.rows[np.searchsorted(self.starts, separators[large] + 1, side="right") - 1]
        _refuse_size(f"{self.file.path}, row {row}", int(sizes[large]))

    def block(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        """The wanted columns of all rows that are whole."""
        import polars as pl

        whole = self._whole(mistakes)
        if not whole.any():
            return
        content, rows, header = self.content, self.rows[whole], self.file.header
        if not whole.all():
            bounds = zip(self.starts[whole], self.ends[whole], strict=True)
            content = b"".join(content[start:end] for start, end in bounds)
        places = sorted(header.index(name) for name in wanted)
        try:
            frame = pl.read_csv(content, has_header=False, infer_schema=False, columns=places)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
            self._refuse(rows, f"is not CSV: {str(problem).splitlines()[0]}; correct the file")
        if frame.height != len(rows):
            self._refuse(rows, "its rows cannot be told apart; write the file anew")
        frame.columns = [header[place] for place in places]
        yield _block(frame, rows, mistakes)

    def _refuse(self, rows: IntArray, problem: str) -> NoReturn:
        raise FileError(f"{self.file.path}, from row {rows[0]}: {problem}")

    def _whole(self, mistakes: Mistakes) -> BoolArray:
        """Which rows are neither blank nor of the wrong length; the latter are reported."""
        wanted = len(self.file.header)
        whole = np.asarray(self.fields == wanted)
        # A line with blanks only is short, or of one field.
        for place in np.flatnonzero((self.ends - self.starts <= 2) | ~whole):
            if not self.content[self.starts[place] : self.ends[place]].strip():
                whole[place] = False
            elif not whole[place]:
                problem = f": has {self.fields[place]} fields, but the header has {wanted}; add or "
                mistakes.in_row(int(self.rows[place]), f"{problem}remove commas", BROKEN)
        return whole


def _refuse_size(where: str, size: int) -> NoReturn:
    raise FileError(
        f"{where}: has a field of {size:,} bytes, more than {LARGEST_FIELD:,}; remove or shorten it"
    )


# --- Parquet ----------------------------------------------------------------------------------
# No size that a file states is believed: a few kilobytes can hold a billion rows, or say that they
# do, and a page with a negative number of values makes polars' decoder ask for 2^61 bytes, which
# ends the process and cannot be caught. So rows are counted before any is read, and the head of
# every page is compared with what the end of the file (Thrift's compact protocol) says of it.

MAGIC = b"PAR1"
# Entries that are read at a time.
ENTRIES = 500_000
# More than ten million episodes of a hundred steps.
MOST_ROWS = 1_000_000_000
DAMAGED = "is damaged or no Parquet table"


@dataclass(frozen=True)
class ParquetTable(TableFile):
    """A Parquet file of so many rows."""

    height: int

    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        import polars as pl

        with _parquet_errors(self.path):
            _check_kinds(self.path, _scan(self.path).collect_schema(), wanted)
        # Slices hold less in memory than the batches of polars' own streaming.
        size = max(ENTRIES // len(wanted), 1)
        for start in range(0, self.height, size):
            with _parquet_errors(self.path):
                part = _scan(self.path).select(wanted).slice(start, size).collect()
                texts = part.select(pl.all().cast(pl.String))
            for column in texts.iter_columns():
                largest = column.str.len_bytes().max()
                if isinstance(largest, int) and largest > LARGEST_FIELD:
                    _refuse_size(f"{self.path}, column {column.name!r}", largest)
            yield _block(texts, np.arange(start + 1, start + 1 + texts.height), mistakes)


def open_parquet(path: str | Path) -> ParquetTable:
    """Read and check what a Parquet file says of itself."""
    with Path(path).open("rb") as file:
        head = file.read(4)
        size = file.seek(0, os.SEEK_END)
        if head != MAGIC:
            raise FileError(
                f"{path}: is no Parquet table (it does not begin with PAR1); write it anew"
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            length = int.from_bytes(content[size - 8 : size - 4], "little")
            if content[size - 4 :] != MAGIC or not 0 < length < size - 8:
                raise FileError(
                    f"{path}: is cut off (it does not end with PAR1); copy or write it anew"
                )
            rows = _stated_rows(path, content, size - 8 - length)
    if rows > MOST_ROWS:
        raise FileError(f"{path}: has {rows:,} rows, more than {MOST_ROWS:,}; split it up")
    with _parquet_errors(path):
        return ParquetTable(path, list(_scan(path).collect_schema()), rows)


def _stated_rows(path: str | Path, content: mmap.mmap, footer: int) -> int:
    """How many rows a file has, once its parts agree on it and its pages hold what it states."""
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


def _check_pages(content: mmap.mmap, footer: int, column: Mapping[int, Any]) -> None:
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

    def __init__(self, content: mmap.mmap, place: int) -> None:
        self.content, self.place = content, place

    def struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            number = number + step if step else self._integer()
            found[number] = self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            self.place += 8
        elif kind == 8:
            length = self._varint()
            self.place += length
        elif kind in (9, 10):
            head = self._byte()
            size, inner = head >> 4, head & 15
            size = self._varint() if size == 15 else size
            return [self._byte() if inner in (1, 2) else self._value(inner) for _ in range(size)]
        elif kind == 12:
            return self.struct()
        else:
            raise TypeError(kind)
        return None

    def _byte(self) -> int:
        value = self.content[self.place]
        self.place += 1
        return value

    def _varint(self) -> int:
        value, shift = 0, 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise TypeError(value)

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _scan(path: str | Path) -> pl.LazyFrame:
    """A file as polars reads it: that file alone, as it is."""
    import polars as pl

    return pl.scan_parquet(path, glob=False, hive_partitioning=False, low_memory=True)


@contextmanager
def _parquet_errors(path: str | Path) -> Iterator[None]:
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
