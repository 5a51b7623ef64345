"""Tables of any size, block after block: files of many kinds and frames in memory, as texts.

    file = open_table_file("episodes.csv")            # the header is read and checked
    mistakes = Mistakes(file.path)
    for block in file.blocks(["episode_id", "sofa"], mistakes):
        sofa = block.numbers("sofa")                  # (n,), nan where nothing is given
    mistakes.refuse()                                 # one error with a line for each mistake

Every entry is a stripped text, "" where nothing is given; rows without any entry are left out. What
is wrong is gathered, with row, column and value, before anything is used. Rows of a CSV file are
numbered as editors number its lines, so the header is usually row 1; rows of a Parquet file count
from 1, those of a frame from 0. How text files are packed, separated and encoded is recognised, and
what sets off decimals: over a whole column 1,5 or 1.234,5 has a decimal comma, 1,234.5 and
1,234,567 commas between thousands. 1,234 alone may be either: other numbers of the column tell, or
those of other columns; where none does the table is refused.

Fields of CSV are split by Python's reader, strictly: quotes that are left open, rows with too few
or too many fields and bytes that are no text are mistakes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from counterplan.core.files import check_readable, suffix_of
from counterplan.core.parquet import LARGEST_FIELD, open_parquet
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, InputError, MistakesError

if TYPE_CHECKING:
    import polars as pl

    Base = Path
else:
    Base = type(Path())

log = logging.getLogger(__name__)
WHAT = "a table of episodes, one row for each step"
TEXTS = (".csv", ".tsv", ".txt")
DATABASES = (".sqlite", ".db", ".duckdb")
FORMATS = (*TEXTS, ".parquet", ".arrow", ".feather", ".xlsx", ".sqlite", ".db", ".duckdb")
MOST_COLUMNS = 10_000
# Entries of a table that is read whole: as texts these take some gigabytes.
MOST_ENTRIES = 200_000_000
# What programs write for nothing, in capitals.
GAPS = ("", "NA", "N/A", "#N/A", "<NA>", "NAN", "NAT", "NULL")
# What is beyond is a slip of the pen, and would overflow.
LARGEST_NUMBER = 1e100
# How a number is written, be it too large to be used.
A_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"
A_MEASUREMENT = r"^[$€£¥]\s*[-+]?\d[\d.,]*\D*$|^[-+]?\d[\d.,]*\s*[^\d\s.,]\D*$"
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


def numbered(values: FloatArray, rows: IntArray) -> str:
    """Which values stand where: "-999 in 24 rows (row 33 first) and 99999999 in row 519"."""
    distinct, counts = np.unique(values, return_counts=True)
    parts = []
    for place in np.argsort(-counts, kind="stable")[:3]:
        first, many = rows[values == distinct[place]].min(), counts[place]
        where = f"row {first}" if many == 1 else f"{many:,} rows (row {first} first)"
        parts.append(f"{distinct[place]:.12g} in {where}")
    more = len(distinct) - len(parts)
    return " and ".join(parts) + (f" and {more:,} more such values" if more else "")


# --- Signs in numbers -------------------------------------------------------------------------

GROUPS = r"\d{1,3}(?:[%s '\u2019\u00a0\u202f]\d{3})"
# Thousands set off by blanks or apostrophes, which mean nothing else.
GROUPED = r"^[-+]?\d{1,3}[ '\u2019\u00a0\u202f]\d{3}"
EXPONENT = r"(?:[eE][-+]?\d+)?$"
# How numbers are written, by what sets off their decimals.
WRITTEN = {
    sign: rf"^[-+]?(?:\d+|{GROUPS % other}+)?(?:[{sign}]\d*)?{EXPONENT}"
    for sign, other in ((".", ","), (",", "."))
}
# What tells which sign sets off decimals in a column (a comma, a point, or a point since commas
# stand between thousands), and what may be read either way.
TELLS = {
    ",": rf"^[-+]?(?:\d*,(?:\d{{1,2}}|\d{{4,}})|0*,\d+|\d{{4,}},\d+|{GROUPS % '.'}+,\d+){EXPONENT}"
    r"|^[-+]?\d{1,3}(?:\.\d{3}){2,}$",
    ".": rf"^[-+]?(?:\d*\.(?:\d{{1,2}}|\d{{4,}})|0*\.\d+|\d{{4,}}\.\d+){EXPONENT}",
    "thousands": r"^[-+]?\d{1,3}(?:(?:,\d{3})+\.\d*|(?:,\d{3}){2,})$",
    ",?": r"^[-+]?[1-9]\d{0,2},\d{3}$",
    ".?": r"^[-+]?[1-9]\d{0,2}\.\d{3}$",
}
OPEN, MIXED = "open", "mixed"
# A number with a currency before it or a unit behind it: "$1,828", "26 %", "5 mg".
MEASURED = (
    r"^\s*(?P<before>[$€£¥]?)\s*"
    r"(?P<number>[-+]?(?:\d[\d.,'\u2019 \u00a0\u202f]*)?\d(?:[eE][-+]?\d+)?)"
    r"\s*(?P<after>[^\d\s.,][^\d]{0,15}?)?\s*$"
)


@dataclass
class Signs:
    """What sets off decimals in the columns of a table, as far as it has been looked at."""

    given: str | None = None
    seen: dict[str, set[str]] = field(default_factory=dict)

    def add(self, frame: pl.DataFrame) -> None:
        """Look at the texts of some more rows."""
        for column in frame.iter_columns():
            texts = column.drop_nulls().unique().str.replace(MEASURED, "${number}")
            texts = texts.str.strip_chars()
            texts = texts.filter(texts.str.contains(r"^[-+]?[\d.,'\u2019 \u00a0\u202f]*[.,]\d"))
            if len(texts):
                found = {tell for tell, how in TELLS.items() if texts.str.contains(how).any()}
                self.seen.setdefault(column.name, set()).update(found)

    def decided(self) -> dict[str, str]:
        """By column: "," or ".", OPEN where nothing tells, MIXED where its numbers contradict."""
        if self.given is not None:
            return dict.fromkeys(self.seen, self.given)
        every = set[str]().union(*self.seen.values())
        is_comma = "," in every and "thousands" not in every

        def sign(found: set[str]) -> str:
            if "," in found:
                return MIXED if found & {".", "thousands"} else ","
            if "thousands" in found or not found & {",?", ".?"}:
                return "."
            if ",?" in found:
                return "," if is_comma and not found & {".", ".?"} else OPEN
            return OPEN if is_comma and "." not in found else "."

        return {name: sign(found) for name, found in self.seen.items()}


def without_unit(texts: pl.Series, unit: str) -> pl.Series:
    """Numbers without the unit that stands before or behind them."""
    import polars as pl

    if not unit:
        return texts
    parts = texts.str.extract_groups(MEASURED).struct.unnest()
    given = parts["before"] + parts["after"].fill_null("")
    is_own = (given.str.to_lowercase() == unit.lower()).fill_null(False)
    return pl.select(pl.when(is_own).then(parts["number"]).otherwise(texts)).to_series()


def plain_numbers(texts: pl.Series, sign: str) -> pl.Series:
    """Numbers with a decimal point and nothing between thousands; what is written otherwise is
    left as it is, but for what may be read in two ways, which becomes no number."""
    import polars as pl

    if sign == OPEN:
        return texts.str.replace(r"^(\D?\s*[-+]?\d{1,3})[.,](\d{3}\D*)$", "${1}?${2}")
    if sign not in WRITTEN:
        return texts
    text = pl.col("text")
    plain = text.str.replace_all(r"[ '\u2019\u00a0\u202f]", "")
    plain = plain.str.replace_all("," if sign == "." else ".", "", literal=True)
    other = text.str.replace(".", "..", literal=True) if sign == "," else text
    is_written = text.str.contains(WRITTEN[sign])
    changed = pl.when(is_written).then(plain.str.replace(",", ".")).otherwise(other)
    return pl.DataFrame({"text": texts}).select(changed).to_series()


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

    def numbers(
        self, name: str, may_miss: bool = True, problem: str = "", unit: str = ""
    ) -> FloatArray:
        """(n,) the numbers of a column, nan where nothing is given, BAD where there is no number.

        may_miss  whether nothing may be given
        problem   what to say of what is no number, if not the usual
        unit      what may stand beside a number
        """
        import polars as pl

        texts = self.plain(name, unit) if name in self.signs else self.texts[name]
        values: FloatArray = texts.cast(pl.Float64, strict=False).to_numpy().copy()
        odd = ~(np.abs(values) <= LARGEST_NUMBER)
        if not odd.any():
            return values
        if name not in self.signs:
            texts = self.plain(name, unit)
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
            r"^\D?\s*[-+]?\d+\?\d+\D*$": f"has a sign before its last three digits, which {either}",
            r"^[-+]?\d[\d.]*,[\d.,]*$": "has a comma where other numbers of the column have a "
            "decimal point; write them alike",
            r"^[-+]?[\d,]*\.\.\d": "has a point where decimals have a comma; write them alike",
            "(?i)^[-+]?inf": f"is not a finite number; {advice}",
            A_NUMBER: f"is too far from 0, {LARGEST_NUMBER:g} at most; {advice}",
            r"^[<>≤≥~]": "says where a number lies, not which it is; write one, or empty it",
            A_MEASUREMENT: f"is not in {unit}; convert it"
            if unit
            else "has a unit beside the "
            "number; write unit = '...' in the schema, or the number alone",
            "": f"is not a number; {advice}",
        }
        for pattern, why in ({"": problem} if problem else kinds).items():
            if wrong.any():
                found = wrong & texts.str.contains(pattern).to_numpy()
                self.report(found, name, why)
                wrong &= ~found
        return values

    def plain(self, name: str, unit: str = "") -> pl.Series:
        """The texts of a column, its numbers with a decimal point and without their unit."""
        texts, sign = without_unit(self.texts[name], unit), self.signs.get(name)
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
        unit: str = "",
    ) -> FloatArray:
        """(n,) what the entries of a column stand for, by their texts (in capitals or not, where
        that is clear) or as numbers; nan where nothing is given, BAD where it is neither."""

        def meaning(text: str) -> float:
            if text in texts:
                return texts[text]
            if text.upper() in GAPS:
                return np.nan
            if text.casefold() in folded:
                return folded[text.casefold()]
            number = as_number(plain.get(text, text))
            return number if number is not None and number in numbers else BAD

        distinct, codes = distinct_texts(self.texts[name])
        folded = {label.casefold(): value for label, value in texts.items()}
        folded = folded if len(folded) == len(texts) else {}
        is_plain = not (self.signs or unit)
        plain = {} if is_plain else dict(zip(self.texts[name], self.plain(name, unit), strict=True))
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
        """By column with decimals: what sets them off, see `Signs`."""
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
        """All rows at once, if they fit in memory; whoever takes them refuses the mistakes."""
        import polars as pl

        self.check_columns(wanted)
        mistakes, parts, entries = Mistakes(self.path, self.place), list[Block](), 0
        for block in self.blocks(wanted, mistakes):
            parts.append(block)
            entries += len(block) * len(wanted)
            if entries > MOST_ENTRIES:
                raise FileError(f"{self.path}: has more than {MOST_ENTRIES:,} entries; split it up")
        if not entries:
            mistakes.refuse()
            raise FileError(f"{self.path}: {NO_ROWS}")
        texts = pl.concat([block.texts for block in parts])
        rows = np.concatenate([block.rows for block in parts])
        return Block(texts, rows, mistakes, self.signs)


def open_table_file(source: Any, what: str = WHAT, formats: tuple[str, ...] = FORMATS) -> TableFile:
    """The header of a table: a file, a folder of Parquet files, the query of a database, or a frame
    of polars or pandas.

    what     the file should hold
    formats  the extensions that it may have; none for any, where those not in FORMATS are CSV
    """
    if not isinstance(source, str | PathLike):
        from counterplan.core.stores import FRAME, as_polars

        return frame_file(FRAME, as_polars(source))
    path = source if isinstance(source, Path) else Path(source)
    suffix = Path(re.sub(r"\.gz$", "", path.name.lower())).suffix
    if path.is_dir():
        suffix = ".folder"
    elif formats:
        suffix = suffix_of(Path(path.name.lower().removesuffix(".gz")), formats, "tables", path)
    if suffix != ".folder":
        check_readable(path, what)
    file = _opened(path, suffix)
    log.info("opened %s: %d columns", path, len(file.header))
    if not any(file.header):
        raise FileError(f"{path}: is empty; expected {what}")
    if len(file.header) > MOST_COLUMNS:
        raise FileError(
            f"{path}: has {len(file.header):,} columns, more than {MOST_COLUMNS:,}; give one row "
            "for each step, with a column for each quantity"
        )
    return file


def _opened(path: Path, suffix: str) -> TableFile:
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

        made = frame_file(path, read_excel(path))
        # The first row holds the names.
        return replace(made, place=lambda row: f"row {row + 2}", decimal=given.decimal)
    if suffix in (".folder", ".parquet", ".arrow", ".feather"):
        stored = open_parquet(path)

        def pieces(wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Piece]:
            _check_kinds(path, stored.kinds, wanted)
            return stored.slices(wanted)

        is_text = any(str(kind) == "String" for kind in stored.kinds.values())
        return TableFile(
            path, list(stored.kinds), pieces, stored.place, {}, given.decimal, lambda: is_text
        )
    text = _Csv(given, "\t" if suffix == ".tsv" else None)
    header = text.header()[0]
    return TableFile(
        path, header, text.pieces, "row {}".format, text.form, given.decimal, text.has_commas
    )


def table_columns(path: str | Path) -> list[str]:
    """The columns of a .csv or .parquet file; none if it cannot be read, which is for whoever needs
    its rows to say."""
    try:
        return open_table_file(path).header
    except FileError:
        return []


# Rows of a frame that are looked at in one go.
FRAME_ROWS = 50_000


def frame_file(path: str | Path, frame: pl.DataFrame) -> TableFile:
    """A polars frame as a table."""
    import polars as pl

    header = [name.strip() for name in frame.columns]
    if len(set(header)) == len(header):
        frame = frame.rename(dict(zip(frame.columns, header, strict=True)))

    def pieces(wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Piece]:
        _check_kinds(path, frame.schema, wanted)
        for start in range(0, frame.height, FRAME_ROWS):
            part = frame[start : start + FRAME_ROWS].select(pl.col(wanted).cast(pl.String))
            yield part, np.arange(start, start + part.height)

    return TableFile(path, header, pieces)


def _check_kinds(path: str | Path, kinds: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Raise where a column holds what is no text, and cannot become one."""
    import polars as pl

    for name in wanted:
        if kinds[name].is_nested() or kinds[name] in (pl.Binary, pl.Object):
            raise FileError(f"{path}, column {name!r}: holds {kinds[name]}; store numbers or texts")


# --- Text files: packed, in any encoding, with any separator -----------------------------------

BLOCK = 2**20
# Bytes that are unpacked from a packed file before its size is compared with theirs, and by how
# much they may exceed it: tables shrink to a tenth or a fiftieth.
UNPACKED, MOST_PACKED = 2**28, 300
PACKED = b"\x1f\x8b"
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
WINDOWS = "cp1252"


class TablePath(Base):
    """The path of a table, with what its file does not say.

    sep       between fields
    decimal   "." or ",": the other sets off thousands
    encoding  of text, as Python calls it
    query     one SELECT, whose rows are the table; for databases
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    query: str | None = None

    def __new__(
        cls,
        path: str | Path,
        *,
        sep: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        query: str | None = None,
    ) -> Self:
        return super().__new__(cls, path)

    def __init__(
        self,
        path: str | Path,
        *,
        sep: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        query: str | None = None,
    ) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(path)
        sep = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
        if sep is not None and (len(sep) != 1 or sep in '"\r\n' or not sep.isascii()):
            raise InputError(f"sep {sep!r}: give a single sign, such as ';', or tab")
        if decimal not in (None, ".", ","):
            raise InputError(f"decimal {decimal!r}: give '.' or ','")
        try:
            "".encode(encoding or "utf-8")
        except (LookupError, UnicodeError):
            known = "utf-8, latin-1, cp1252 or utf-16"
            raise InputError(f"encoding {encoding!r} is unknown: give one like {known}") from None
        self.sep, self.decimal, self.encoding, self.query = sep, decimal, encoding, query

    @property
    def options(self) -> dict[str, str]:
        """Those that are given."""
        return {name: value for name, value in vars(self).items() if name[0] != "_" and value}


# Longer rows are no rows of a table.
LONGEST_ROW = 16 * 2**20
# Entries that are read at a time, and rows that are looked at to see how they are separated.
ENTRIES, SAMPLE = 200_000, 50
# What Python's reader says, and what it means.
BROKEN_ROWS = {
    "unexpected end": "a quote is opened and never closed; put the whole field in quotes and "
    "double those within it",
    "expected after": "a quote stands inside a field; put the whole field in quotes and double "
    "those within it",
    "field limit": f"has a field of more than {LARGEST_FIELD:,} bytes, or a quote that is not "
    "closed; remove or shorten it",
    "new-line": "a line ends in CR alone; save it with LF or CR LF line ends",
}


class _Csv:
    """A text table: its rows begin with byte `start`, in line `line`; the first is the header. What
    separates fields, if the caller does not say: `usual`, or what fits the first rows."""

    def __init__(self, path: TablePath, usual: str | None) -> None:
        self.path, self.start, self.line, self.form = path, 0, 1, dict[str, None]()
        sep, first = path.sep or usual, next(self._bytes())
        if marked := re.match(rb"sep=(.)\r?\n", first):  # as Excel writes it
            sep, self.start, self.line = sep or marked[1].decode("latin-1"), marked.end(), 2
        head, *some = [one for one in first[self.start :].split(b"\n") if one.strip()] or [b""]
        self.sep = sep or _separator(head, some[:SAMPLE][:-1])
        if self.sep != ",":
            self.form[f"separated by {SEPARATORS.get(self.sep, repr(self.sep))}"] = None

    def rows(self) -> Iterator[tuple[list[list[str]], IntArray]]:
        """The fields of some rows at a time, and the lines that they begin in."""
        csv.field_size_limit(LARGEST_FIELD)
        reader, line = csv.reader(self._lines(), delimiter=self.sep, strict=True), self.line
        size = 1
        while True:
            try:
                some = list(islice(reader, size))
            except csv.Error as problem:
                raise self._broken(str(problem)) from None
            if not some:
                return
            lines = np.ones(len(some), dtype=np.int64)
            if line + len(some) != self.line + reader.line_num:  # some break within a field
                lines += [sum(field.count("\n") for field in row) for row in some]
            yield some, line + np.cumsum(lines) - lines
            line, size = self.line + reader.line_num, max(ENTRIES // max(len(some[0]), 1), 1)

    def _broken(self, problem: str) -> FileError:
        """What Python's reader says of a row, with the line that it begins in."""
        reader, line = csv.reader(self._lines(), delimiter=self.sep, strict=True), self.line
        with suppress(csv.Error):
            for _ in reader:
                line = self.line + reader.line_num
        known = (why for what, why in BROKEN_ROWS.items() if what in problem)
        why = next(known, f"is not CSV: {problem}; correct it")
        return FileError(f"{self.path}, row {line}: {why}")

    def _bytes(self) -> Iterator[bytes]:
        """The file block after block, unpacked and in UTF-8 where its mark or the caller says what
        it is in, else as it is; what it is in is noted."""
        with Path(self.path).open("rb") as file:
            size, total = Path(self.path).stat().st_size, 0
            is_packed = file.read(2) == PACKED
            file.seek(0)
            source: Any = gzip.GzipFile(fileobj=file) if is_packed else file
            decoder = None
            while True:
                try:
                    content: bytes = source.read(BLOCK)
                except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
                    raise FileError(
                        f"{self.path}: is cut off or damaged ({problem}); copy or pack it anew"
                    ) from None
                if not total:
                    marks = (name for mark, name in MARKS.items() if content.startswith(mark))
                    encoding = self.path.encoding or next(marks, None)
                    decoder = codecs.getincrementaldecoder(encoding)() if encoding else None
                    if is_packed:
                        self.form["packed by gzip"] = None
                    if encoding not in (None, "utf-8-sig", "utf-8"):
                        self.form[f"in {encoding}"] = None
                total += len(content)
                if is_packed and total > max(UNPACKED, MOST_PACKED * size):
                    raise FileError(
                        f"{self.path}: unpacks to more than {MOST_PACKED} times its size, as no "
                        "table does; give it unpacked if it is one"
                    )
                try:
                    yield (
                        decoder.decode(content, final=not content).encode() if decoder else content
                    )
                except UnicodeError:
                    why = f"is not text in {encoding}; say in which --encoding it is"
                    raise FileError(f"{self.path}: {why}") from None
                if not content:
                    return

    def _lines(self) -> Iterator[str]:
        """The lines as text. The first comes alone, so that a header can be read whatever its rows
        are like."""
        blocks, line, seen = self._bytes(), self.line, set[str]()
        content: bytes | None = next(blocks)
        pending = (content or b"")[self.start :]
        end = pending.find(b"\n") + 1
        while pending or content is not None:
            if not end and len(pending) > LONGEST_ROW:
                raise FileError(
                    f"{self.path}, row {line}: is longer than {LONGEST_ROW:,} bytes; correct it"
                )
            found = self._decoded(line, pending[:end], seen)
            line, pending = line + found.count("\n"), pending[end:]
            yield from io.StringIO(found, newline="\n")
            content = next(blocks, None)
            pending += content or b""
            end = len(pending) if content is None else pending.rfind(b"\n") + 1

    def _decoded(self, line: int, content: bytes, seen: set[str]) -> str:
        """Rows, of which the first is in line `line`, as text: UTF-8, or all of the file is
        Windows-1252; `seen`: which of the two, as far as it tells."""
        text = ""
        try:
            text = content.decode("utf-8")
            place, why = content.find(b"\0"), "holds a NUL byte; it is no text file, save it as CSV"
            seen |= set() if content.isascii() else {"utf-8"}
        except UnicodeDecodeError as found:
            place = found.start
            why = f"is not text in UTF-8 (byte 0x{content[place]:02x}); save it as UTF-8, or say "
            why += "in which --encoding it is"
            is_both = re.search(rb"\xc3[\x80-\xbf]|\xe2\x80", content)
            seen |= {WINDOWS, "utf-8"} if is_both else {WINDOWS}
            if re.search(rb"[\x00-\x08\x0e-\x1f\x81\x8d\x8f\x90\x9d]", content) is None:
                text, place = content.decode(WINDOWS), -1
        if len(seen) > 1:
            raise FileError(
                f"{self.path}, row {line} or before: is partly in UTF-8 and partly not; save it in "
                "one encoding, or say which --encoding it is"
            )
        if place >= 0:
            raise FileError(f"{self.path}, row {line + content.count(10, 0, place)}: {why}")
        if WINDOWS in seen:
            self.form["in Windows-1252 (or say --encoding)"] = None
        return text

    def header(self) -> tuple[list[str], int]:
        """The fields of the first row that is not blank, and its line."""
        for some, lines in self.rows():
            for row, line in zip(some, lines.tolist(), strict=True):
                if any(map(str.strip, row)):
                    return [name.strip() for name in row], line
        return [], self.line

    def pieces(self, wanted: Sequence[str], mistakes: Mistakes) -> Iterator[Piece]:
        """The wanted columns; rows of the wrong length are reported."""
        import polars as pl

        header, first = self.header()
        places, count = {name: header.index(name) for name in wanted}, len(header)
        for some, lines in self.rows():
            whole = np.array([len(row) == count for row in some]) & (lines > first)
            for place in np.flatnonzero(~whole & (lines > first)).tolist():
                if any(map(str.strip, some[place])):
                    problem = f": has {len(some[place])} fields, but the header has {count}; add "
                    problem += f"or remove {SEPARATORS.get(self.sep, repr(self.sep))}"
                    mistakes.in_row(int(lines[place]), problem, BROKEN)
            kept = some if whole.all() else [some[place] for place in np.flatnonzero(whole)]
            if kept:
                columns = list(zip(*kept, strict=True))
                yield (
                    pl.DataFrame(
                        [pl.Series(name, columns[i], dtype=pl.String) for name, i in places.items()]
                    ),
                    lines[whole],
                )

    def has_commas(self) -> bool:
        """Whether a number with a comma may stand in a field."""
        number = rb'"\D{0,4}[-+]?[\d.,]*\d,\d[^"\n]*"' if self.sep == "," else rb"\d,\d"
        before = b""
        for content in self._bytes():
            if re.search(number, before + content):
                return True
            before = content[-100:]
        return False


def _separator(header: bytes, rows: list[bytes]) -> str:
    """What splits the rows into as many fields as the header, a comma where nothing does."""

    def fields(line: bytes, sign: str) -> int:
        return re.sub(rb'"[^"]*"', b"", line).count(sign.encode())

    counts = {sign: fields(header, sign) for sign in SEPARATORS}
    fits = [
        sign
        for sign, count in counts.items()
        if count and all(fields(row, sign) == count for row in rows if row.strip())
    ]
    if not fits and counts[","]:
        return ","
    return max(fits or counts, key=counts.__getitem__)
