"""Tables of any size, block after block: files of many kinds and frames in memory, as texts.

    file = open_table_file("episodes.csv")            # the header is read and checked
    mistakes = Mistakes(file.path)
    for block in file.blocks(["episode_id", "sofa"], mistakes):
        sofa = block.numbers("sofa")                  # (n,), nan where nothing is given
    mistakes.refuse()                                 # one error with a line for each mistake

Every entry is a stripped text, "" where nothing is given; rows without any entry are left out. What
is wrong is gathered, with row, column and value, before anything is used. Rows of a CSV file are
numbered as editors number its lines, so the header is usually row 1; rows of a Parquet file count
from 1, those of a frame from 0. How text files are packed, separated and encoded, and what sets off
decimals, is recognised (`core.source`).

Polars splits the fields of CSV; what it would mend in silence is checked before, byte by byte:
quotes that stand inside a field or are left open, rows with too few or too many fields, bytes that
are no text. A line break ends a row unless the quotes before it are odd in number.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.files import check_readable, suffix_of
from counterplan.core.source import (
    BLOCK,
    GROUPED,
    SEPARATORS,
    Signs,
    Stream,
    TablePath,
    Texts,
    plain_numbers,
    separator,
)
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, MistakesError

if TYPE_CHECKING:
    import polars as pl

    from counterplan.core.parquet import Stored

WHAT = "a table of episodes, one row for each step"
TEXTS = (".csv", ".tsv", ".txt")
DATABASES = (".sqlite", ".db", ".duckdb")
FORMATS = (*TEXTS, ".parquet", ".arrow", ".feather", ".xlsx", ".sqlite", ".db", ".duckdb")
MOST_COLUMNS = 10_000
# Entries of a table that is read whole: as texts these take some gigabytes.
MOST_ENTRIES = 200_000_000
LARGEST_FIELD = 2**20
# What programs write for nothing, in capitals.
GAPS = ("", "NA", "NAN", "NULL")
# What is beyond is a slip of the pen, and would overflow.
LARGEST_NUMBER = 1e100
# How a number is written, be it too large to be used.
A_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
# In place of an entry that has been reported, so that nobody reports it again.
BAD = np.inf
NO_ROWS = "has a header but no rows; give one for each step"

# --- Mistakes ---------------------------------------------------------------------------------

MOST_LINES = 20
# How many mistakes of one kind are shown.
MOST_ALIKE = 3
LONGEST_VALUE = 60
# The row of mistakes that no row is to blame for.
WHOLE = -1
# The kind of mistake that leaves a row out.
BROKEN = "fields"


class Mistakes:
    """What is wrong with a file so far.

    Mistakes of one kind in one column share their lines: the first few are shown with row and
    value, the last of them says how many more there are.
    """

    def __init__(self, path: str | Path, place: Callable[[int], str] = "row {}".format) -> None:
        self.path, self.place = path, place
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lines: dict[tuple[str, str], list[tuple[int, str]]] = {}

    @property
    def count(self) -> int:
        """How many mistakes there are."""
        return self._counts.total()

    @property
    def has_broken_rows(self) -> bool:
        """Whether rows had to be left out."""
        return ("", BROKEN) in self._counts

    def in_rows(
        self, column: str, problem: str, rows: Sequence[int], values: Sequence[object] = ()
    ) -> None:
        """Entries of a column that are wrong for the same reason; the first values are enough."""
        if not len(rows):
            return
        lines = self._lines.setdefault((column, problem), [])
        for index, row in enumerate(rows[: MOST_ALIKE - len(lines)]):
            value = f"{shown(values[index])} " if index < len(values) and values[index] else ""
            lines.append((int(row), f"{self.place(row)}, column {column!r}: {value}{problem}"))
        self._counts[column, problem] += len(rows)

    def in_row(self, row: int, problem: str, kind: str) -> None:
        """Something about a whole row, or about an entry where the text names others."""
        lines = self._lines.setdefault(("", kind), [])
        if len(lines) < MOST_ALIKE:
            lines.append((row, f"{self.place(row)}{problem}"))
        self._counts["", kind] += 1

    def in_file(self, problem: str) -> None:
        """Something that no row is to blame for."""
        self._lines["", problem] = [(WHOLE, problem)]
        self._counts["", problem] += 1

    def refuse(self) -> None:
        """Raise if there is any mistake: a line for each, in the order of rows."""
        if not self._counts:
            return
        lines: list[tuple[int, str]] = []
        # Every kind is shown before more of the same are.
        alike = max(MOST_LINES // len(self._counts), 1)
        for kind, count in self._counts.items():
            *some, (row, text) = self._lines[kind][:alike]
            others = count - len(some) - 1
            lines += [*some, (row, f"{text} (and {others:,} more like it)" if others else text)]
        lines = sorted(lines, key=lambda line: line[0])[:MOST_LINES]
        texts = [f"{self.path}{':' if row == WHOLE else ','} {text}" for row, text in lines]
        if self.count > len(lines):
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
    signs     by column: what sets off decimals, a point if not given
    """

    texts: pl.DataFrame
    rows: IntArray
    mistakes: Mistakes
    signs: Mapping[str, str] = field(default_factory=dict)

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

        texts = self.plain(name) if name in self.signs else self.texts[name]
        values: FloatArray = texts.cast(pl.Float64, strict=False).to_numpy().copy()
        odd = ~(np.abs(values) <= LARGEST_NUMBER)
        if not odd.any():
            return values
        if name not in self.signs:
            texts = self.plain(name)
            values = texts.cast(pl.Float64, strict=False).to_numpy().copy()
            odd = ~(np.abs(values) <= LARGEST_NUMBER)
        gap = texts.str.to_uppercase().is_in(GAPS).to_numpy()
        wrong = odd & ~gap
        values[gap], values[wrong] = np.nan, BAD
        if not may_miss:
            self.report(gap, name, "is missing; fill it in, or remove the row")
        advice = "correct or empty it" if may_miss else "correct it"
        either = "could be thousands or decimals; say which: --decimal . or --decimal ,"
        kinds = {
            r"^[-+]?\d+\?\d+$": f"has a sign before its last three digits, which {either}",
            r"^[-+]?\d[\d.]*,[\d.,]*$": "has a comma where other numbers of the column have a "
            "decimal point; write them alike",
            r"^[-+]?[\d,]*\.\.\d": "has a point where decimals have a comma; write them alike",
            "(?i)^[-+]?inf": f"is not a finite number; {advice}",
            A_NUMBER: f"is too far from 0, {LARGEST_NUMBER:g} at most; {advice}",
            "": f"is not a number; {advice}",
        }
        for pattern, why in ({"": problem} if problem else kinds).items():
            if wrong.any():
                found = wrong & texts.str.contains(pattern).to_numpy()
                self.report(found, name, why)
                wrong &= ~found
        return values

    def plain(self, name: str) -> pl.Series:
        """The texts of a column, its numbers with a decimal point."""
        texts, sign = self.texts[name], self.signs.get(name)
        if sign is None and not texts.str.contains(GROUPED).any():
            return texts
        return plain_numbers(texts, sign or ".")

    def expect(self, name: str, values: FloatArray, right: BoolArray, problem: str) -> None:
        """Report the numbers of a column that are not right, and make them BAD."""
        wrong = np.isfinite(values) & ~right
        self.report(wrong, name, problem)
        values[wrong] = BAD

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

        def meaning(text: str) -> float:
            if text in texts:
                return texts[text]
            number = np.nan if text.upper() in GAPS else as_number(plain.get(text, text))
            return BAD if number is None or not (np.isnan(number) or number in numbers) else number

        distinct, codes = distinct_texts(self.texts[name])
        plain = dict(zip(self.texts[name], self.plain(name), strict=True)) if self.signs else {}
        found = np.array([meaning(text) for text in distinct])[codes]
        self.report(np.isinf(found) if may_miss else ~np.isfinite(found), name, problem)
        return found


def distinct_texts(texts: pl.Series) -> tuple[list[str], IntArray]:
    """The different texts in the order in which they appear, and which of them each row has."""
    import polars as pl

    distinct = texts.unique(maintain_order=True).rename("text")
    codes = pl.DataFrame({"text": distinct}).with_row_index("code")
    found = pl.DataFrame({"text": texts}).join(codes, on="text", maintain_order="left")
    return distinct.to_list(), found["code"].to_numpy().astype(np.int64)


def as_number(text: str) -> float | None:
    """The finite number that a text is, None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if "_" not in text and np.isfinite(number) else None


# --- Tables -----------------------------------------------------------------------------------

# Some rows as they stand in the table, and their numbers.
Piece: TypeAlias = "tuple[pl.DataFrame, IntArray]"


@dataclass(frozen=True)
class TableFile:
    """A table whose header has been read.

    pieces   reads the wanted columns as texts, piece after piece; rows that cannot be read are
             reported
    place    names a row
    form     what was recognised of the file, in words; it grows while rows are read
    decimal  what sets off decimals, if the caller says
    suspect  whether numbers may hold commas
    """

    path: str | Path
    header: list[str]
    pieces: Callable[[Sequence[str], Mistakes], Iterator[Piece]]
    place: Callable[[int], str] = "row {}".format
    form: dict[str, None] = field(default_factory=dict)
    decimal: str | None = None
    suspect: Callable[[], bool] = lambda: True

    @cached_property
    def signs(self) -> Mapping[str, str]:
        """By column with decimals: what sets them off, see `core.source`."""
        if self.decimal is None and not self.suspect():
            return {}
        signs, names = Signs(self.decimal), [name for name in self.header if name]
        names = [name for name in names if names.count(name) == 1]
        for frame, _ in self.pieces(names, Mistakes(self.path)):
            signs.add(frame)
        found = signs.decided()
        thousands = {name for name, seen in signs.seen.items() if "thousands" in seen}
        for what, names in (
            ("decimal commas", [name for name, sign in found.items() if sign == ","]),
            ("commas between thousands", [name for name in found if name in thousands]),
        ):
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            if names:
                self.form[f"{what} in {', '.join(names[:3])}{more}"] = None
        return found

    def blocks(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Block]:
        """The wanted columns, block after block; rows that cannot be read are reported."""
        import polars as pl

        signs = self.signs
        for frame, rows in self.pieces(wanted, mistakes):
            texts = frame.select(pl.all().fill_null("").str.strip_chars())
            filled = texts.select(pl.any_horizontal(pl.all() != "")).to_series().to_numpy()
            if not filled.all():
                texts, rows = texts.filter(filled), rows[filled]
            yield Block(texts, rows, mistakes, signs)

    def check_columns(self, wanted: Sequence[str], advice: str = "") -> None:
        """Raise unless the table has each of them once; what is missing is named at once.

        advice  what to do about a column that is missing, if not to name it like the others
        """
        advice = advice or f"name the columns {', '.join(wanted)}"
        header, lines = self.header, []
        for name in wanted:
            count = header.count(name)
            if count > 1:
                lines.append(f"{count} columns are named {name!r}; rename or remove all but one")
            elif not count:
                near = get_close_matches(name, header, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                lines.append(f"no column {name!r}; {hint}{advice}")
        if len(lines) >= len(wanted) > 1:
            found = ", ".join(repr(name[:40]) for name in header[:8])
            found += "; name the columns in the first row, or say what is between them with --sep"
            lines = [f"none of the columns {', '.join(wanted[:8])}: found {found}"]
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
        rows = np.concatenate([block.rows for block in parts])
        return Block(texts, rows, mistakes, self.signs)


def open_table_file(
    path: str | Path, what: str = WHAT, formats: tuple[str, ...] = FORMATS
) -> TableFile:
    """The header of a table: a file, a folder of Parquet files, or the query of a database.

    what     the file should hold
    formats  the extensions that it may have; none for any, where those not in FORMATS are CSV
    """
    path = path if isinstance(path, Path) else Path(path)
    suffix = Path(re.sub(r"\.gz$", "", path.name.lower())).suffix
    if path.is_dir():
        suffix = ".folder"
    elif formats:
        suffix = suffix_of(Path(path.name.lower().removesuffix(".gz")), formats, "tables", path)
    if suffix != ".folder":
        check_readable(path, what)
    file = _opened(path, suffix)
    if not any(file.header):
        raise FileError(f"{path}: is empty; expected {what}")
    if len(file.header) > MOST_COLUMNS:
        raise FileError(
            f"{path}: has {len(file.header):,} columns, more than {MOST_COLUMNS:,}; give one row "
            "for each step, with a column for each quantity"
        )
    return file


def _opened(path: Path, suffix: str) -> TableFile:
    from counterplan.core.parquet import open_parquet

    given = path if isinstance(path, TablePath) else TablePath(path)
    wrong = {"query"} if suffix not in DATABASES else {"sep", "decimal", "encoding"}
    wrong |= set() if suffix in TEXTS or suffix in DATABASES else {"sep", "encoding"}
    if name := next(iter(wrong & set(given.options)), None):
        raise FileError(f"{path}: has no use for --{name}; leave it out")
    if suffix in DATABASES:
        from counterplan.core.stores import open_query

        header, pieces = open_query(given, suffix)
        return TableFile(path, header, pieces, "row {} of the query".format)
    if suffix == ".xlsx":
        from counterplan.core.stores import read_excel

        frame = read_excel(path)
        made = frame_file(path, frame, [name.strip() for name in frame.columns])
        # The first row holds the names.
        return replace(made, place=lambda row: f"row {row + 2}", decimal=given.decimal)
    if suffix in (".folder", ".parquet", ".arrow", ".feather"):
        stored = open_parquet(path)
        pieces = partial(_stored_pieces, path, stored)
        is_text = any(str(kind) == "String" for kind in stored.kinds.values())
        return TableFile(
            path, list(stored.kinds), pieces, stored.place, {}, given.decimal, lambda: is_text
        )
    return _open_csv(given, "\t" if suffix == ".tsv" else None)


def table_columns(path: str | Path) -> list[str]:
    """The columns of a .csv or .parquet file; none if it cannot be read, which is for whoever needs
    its rows to say."""
    try:
        return open_table_file(path).header
    except FileError:
        return []


# Rows of a frame that are looked at in one go.
FRAME_ROWS = 50_000


def frame_file(path: str | Path, frame: pl.DataFrame, header: list[str]) -> TableFile:
    """A polars frame as a table."""
    import polars as pl

    def pieces(wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Piece]:
        _check_kinds(path, frame.schema, wanted)
        for start in range(0, frame.height, FRAME_ROWS):
            part = frame[start : start + FRAME_ROWS].select(pl.col(wanted).cast(pl.String))
            yield part, np.arange(start, start + part.height)

    return TableFile(path, header, pieces)


def _stored_pieces(
    path: str | Path, stored: Stored, wanted: Sequence[str], mistakes: Mistakes
) -> Iterator[Piece]:
    _check_kinds(path, stored.kinds, wanted)
    for start, texts in stored.slices(wanted):
        for column in texts.iter_columns():
            largest = column.str.len_bytes().max()
            if isinstance(largest, int) and largest > LARGEST_FIELD:
                raise _too_large(f"{path}, column {column.name!r}", largest)
        yield texts, np.arange(start + 1, start + 1 + texts.height)


def _check_kinds(path: str | Path, kinds: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Raise where a column holds what is no text, and cannot become one."""
    import polars as pl

    for name in wanted:
        if kinds[name].is_nested() or kinds[name] in (pl.Binary, pl.Object):
            raise FileError(f"{path}, column {name!r}: holds {kinds[name]}; store numbers or texts")


def _too_large(where: str, size: int) -> FileError:
    limit = f"more than {LARGEST_FIELD:,}; remove or shorten it"
    return FileError(f"{where}: has a field of {size:,} bytes, {limit}")


# --- CSV --------------------------------------------------------------------------------------

# Longer rows come from a quote that is never closed.
LONGEST_ROW = 16 * 2**20
QUOTE, NEWLINE, RETURN = b'"\n\r'
# Rows that are looked at to see how they are separated.
SAMPLE = 50

Letters: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True)
class _Csv:
    """A text table: its rows begin in line `line`, with byte `start`."""

    path: TablePath
    sep: str
    header: list[str]
    start: int
    line: int
    texts: Texts
    form: dict[str, None]

    def pieces(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Piece]:
        """The rows from the first on."""
        line = self.line
        with Stream(self.path, self.path.encoding) as stream:
            pending = stream.read(BLOCK)[self.start :]
            while True:
                content = stream.read(BLOCK)
                pending += content
                end = _last_row_end(pending) if content else len(pending)
                if end:
                    yield from _CsvRows(self, line, pending[:end]).piece(wanted, mistakes)
                    line += pending.count(b"\n", 0, end)
                    pending = pending[end:]
                elif len(pending) > LONGEST_ROW:
                    why = _endless(pending, self.sep)
                    raise FileError(f"{self.path}, row {line}: {why}; correct it")
                if not content:
                    return

    def decoded(self, line: int, content: bytes) -> bytes:
        """Rows as UTF-8; what they are in is noted."""
        found = self.texts.decoded(line, content)
        if self.texts.is_windows:
            self.form["in Windows-1252 (or say --encoding)"] = None
        return found

    def has_commas(self) -> bool:
        """Whether a number with a comma may stand in a field."""
        number = rb'"\s*[-+]?[\d.,]*\d,\d[^"\n]*"' if self.sep == "," else rb"\d,\d"
        before = b""
        with Stream(self.path, self.path.encoding) as stream:
            while content := stream.read(BLOCK):
                if re.search(number, before + content):
                    return True
                before = content[-100:]
        return False


def _open_csv(path: TablePath, usual: str | None) -> TableFile:
    """`usual`: what separates fields unless the caller says."""
    form, start, line = dict[str, None](), 0, 1
    with Stream(path, path.encoding) as stream:
        first = stream.read(BLOCK)
        if stream.is_packed:
            form["packed by gzip"] = None
        if stream.encoding not in (None, "utf-8-sig", "utf-8"):
            form[f"in {stream.encoding}"] = None
    sep = path.sep or usual
    if marked := re.match(rb"sep=(.)\r?\n", first):  # as Excel writes it
        sep, start, line = sep or marked[1].decode("latin-1"), marked.end(), 2
    while True:
        end = first.find(b"\n", start)
        while end >= 0 and first.count(b'"', start, end) % 2:
            end = first.find(b"\n", end + 1)
        end = end + 1 or len(first)
        if end >= BLOCK:
            raise FileError(f"{path}, row {line}: the header does not end; give a CSV table")
        content = first[start:end]
        if content.strip() or end == len(first):
            break
        start, line = end, line + content.count(b"\n")
    sep = sep or separator(content, first[end:].split(b"\n")[:SAMPLE][:-1])
    if sep != ",":
        form[f"separated by {SEPARATORS.get(sep, repr(sep))}"] = None
    found = _Csv(path, sep, [], end, line + content.count(b"\n"), Texts(path), form)
    found.header.extend(_header_fields(path, line, found.decoded(line, content), sep))
    return TableFile(
        path, found.header, found.pieces, form=form, decimal=path.decimal, suspect=found.has_commas
    )


def _header_fields(path: str | Path, line: int, content: bytes, sep: str) -> list[str]:
    text = content.decode().rstrip("\r\n")
    if "\r" in text and '"' not in text:
        raise FileError(f"{path}: its lines end in CR only; save it with LF or CR LF line ends")
    try:
        fields = next(csv.reader(io.StringIO(text, newline=""), delimiter=sep, strict=True), [])
    except csv.Error as problem:
        raise FileError(f"{path}, row {line}: is not CSV: {problem}; correct the header") from None
    return [one.strip() for one in fields]


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


def _stray_quotes(letters: Letters, sep: str) -> BoolArray:
    """Which quotes neither enclose a field nor are doubled in one.

    An opening quote follows a separator; a closing one precedes one; the two halves of a doubled
    quote close and open again.
    """
    is_quote = letters == QUOTE
    ends = (letters == ord(sep)) | (letters == NEWLINE) | is_quote
    before = np.concatenate([[True], ends[:-1]])
    after = np.concatenate([(ends | (letters == RETURN))[1:], [True]])
    return np.asarray(is_quote & np.where(_inside(letters), ~before, ~after))


def _endless(pending: bytes, sep: str) -> str:
    if b'"' not in pending:
        return f"is longer than {LONGEST_ROW:,} bytes"
    if _stray_quotes(np.frombuffer(pending, dtype=np.uint8), sep).any():
        return "here or after it a quote stands inside a field, so that no row ends"
    return f"a quote is opened and not closed in the next {LONGEST_ROW:,} bytes"


class _CsvRows:
    """Some bytes that begin and end where rows do; the first row is in line `line`.

    starts, ends  (n,) where each row begins and ends, its line break included
    fields        (n,) how many fields it has
    rows          (n,) in which line it begins
    """

    def __init__(self, table: _Csv, line: int, content: bytes) -> None:
        self.table, self.path = table, table.path
        self.content = content = table.decoded(line, content)
        letters = np.frombuffer(content, dtype=np.uint8)
        newlines, commas = (
            np.flatnonzero(letters == NEWLINE),
            np.flatnonzero(letters == ord(table.sep)),
        )
        breaks, inside = newlines, None
        if b'"' in content:
            inside = _inside(letters)
            breaks, commas = newlines[~inside[newlines]], commas[~inside[commas]]
        rest = [] if len(breaks) and breaks[-1] + 1 == len(content) else [len(content)]
        self.ends = np.concatenate([breaks + 1, np.array(rest, dtype=np.int64)])
        self.starts = np.concatenate([[0], self.ends[:-1]])
        self.rows = line + np.searchsorted(newlines, self.starts)
        self.fields = 1 + np.diff(np.searchsorted(commas, np.append(self.starts, len(content))))
        if inside is not None:
            self._check_quotes(_stray_quotes(letters, table.sep), is_open=bool(inside[-1]))
        separators = np.sort(np.concatenate([self.starts - 1, commas]))
        sizes = np.diff(separators, append=len(content))
        if sizes.max() > LARGEST_FIELD:
            large = int(np.argmax(sizes > LARGEST_FIELD))
            raise _too_large(
                f"{self.path}, row {self._row_at(separators[large] + 1)}", int(sizes[large])
            )

    def _row_at(self, place: int) -> int:
        return int(self.rows[np.searchsorted(self.starts, place, side="right") - 1])

    def _check_quotes(self, stray: BoolArray, is_open: bool) -> None:
        if stray.any() or is_open:
            row = self._row_at(int(stray.argmax()) if stray.any() else len(stray))
            what = "stands inside a field" if stray.any() else "is opened and never closed"
            advice = "put the whole field in quotes and double those within it"
            raise FileError(f"{self.path}, row {row}: a quote {what}; {advice}")

    def piece(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Piece]:
        """The wanted columns of all rows that are whole, if there are any."""
        import polars as pl

        header = self.table.header
        whole = self._whole(len(header), mistakes)
        if not whole.any():
            return
        content, rows = self.content, self.rows[whole]
        if not whole.all():
            bounds = zip(self.starts[whole], self.ends[whole], strict=True)
            content = b"".join(content[start:end] for start, end in bounds)
        places, problem = sorted(header.index(name) for name in wanted), ""
        try:
            frame = pl.read_csv(
                content,
                has_header=False,
                infer_schema=False,
                columns=places,
                separator=self.table.sep,
            )
            if frame.height != len(rows):
                problem = "its rows cannot be told apart; write the file anew"
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as found:
            problem = f"is not CSV: {str(found).splitlines()[0]}; correct the file"
        if problem:
            raise FileError(f"{self.path}, from row {rows[0]}: {problem}")
        frame.columns = [header[place] for place in places]
        yield frame, rows

    def _whole(self, count: int, mistakes: Mistakes) -> BoolArray:
        """Which rows are neither blank nor of the wrong length; the latter are reported."""
        whole = np.asarray(self.fields == count)
        # A line with blanks only is short, or of one field.
        for place in np.flatnonzero((self.ends - self.starts <= 2) | ~whole):
            if not self.content[self.starts[place] : self.ends[place]].strip():
                whole[place] = False
            elif not whole[place]:
                problem = f": has {self.fields[place]} fields, but the header has {count}; add or "
                signs = SEPARATORS.get(self.table.sep, repr(self.table.sep))
                mistakes.in_row(int(self.rows[place]), f"{problem}remove {signs}", BROKEN)
        return whole
