"""Text tables as people have them: packed, in any encoding, with any separator and decimal sign.

What a file does not say is looked at, and said in one line:

    separator   the one of , ; tab | that splits the first rows into as many fields as the header
    encoding    UTF-8, UTF-16 with its mark, or else Windows-1252, of which Latin-1 is a part
    decimals    over a whole column: 1,5 or 1.234,5 has a decimal comma, 1,234.5 and 1,234,567
                commas between thousands. 1,234 alone may be either: other numbers of the column
                tell, or those of other columns; where none does the table is refused
"""

from __future__ import annotations

import codecs
import gzip
import re
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from counterplan.errors import FileError, InputError

if TYPE_CHECKING:
    import polars as pl

    Base = Path
else:
    Base = type(Path())

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

    def __new__(cls, path: str | Path, **options: str | None) -> Self:
        return super().__new__(cls, path)

    def __init__(self, path: str | Path, **options: str | None) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(path)
        sep, decimal, encoding = (options.get(name) for name in ("sep", "decimal", "encoding"))
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
        for name, value in {**options, "sep": sep}.items():
            setattr(self, name, value)

    @property
    def options(self) -> dict[str, str]:
        """Those that are given."""
        return {name: value for name, value in vars(self).items() if name[0] != "_" and value}


class Stream:
    """The bytes of a text file, unpacked and in UTF-8 where its mark or the caller says what it is
    in; of other files as they are."""

    def __init__(self, path: str | Path, encoding: str | None) -> None:
        self.path, self._file = path, Path(path).open("rb")  # noqa: SIM115 (see __exit__)
        self._size, self._read = Path(path).stat().st_size, 0
        self.is_packed = self._file.read(2) == PACKED
        self._file.seek(0)
        self._source: Any = gzip.GzipFile(fileobj=self._file) if self.is_packed else self._file
        try:
            first = self._unpacked(3)
        except FileError:
            self._file.close()
            raise
        self._source.seek(0)
        marked = next((name for mark, name in MARKS.items() if first.startswith(mark)), None)
        self.encoding = encoding or marked
        self._decoder = codecs.getincrementaldecoder(self.encoding)() if self.encoding else None

    def read(self, size: int = BLOCK) -> bytes:
        """Some more bytes, none at the end."""
        content = self._unpacked(size)
        if self._decoder is None:
            return content
        try:
            return self._decoder.decode(content, final=not content).encode()
        except UnicodeError:
            why = f"is not text in {self.encoding}; say in which --encoding it is"
            raise FileError(f"{self.path}: {why}") from None

    def _unpacked(self, size: int) -> bytes:
        try:
            content: bytes = self._source.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise FileError(
                f"{self.path}: is cut off or damaged ({problem}); copy or pack it anew"
            ) from None
        self._read += len(content)
        if self.is_packed and self._read > max(UNPACKED, MOST_PACKED * self._size):
            raise FileError(
                f"{self.path}: unpacks to more than {MOST_PACKED} times its size, as no table does;"
                " give it unpacked if it is one"
            )
        return content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.close()


class Texts:
    """Turns rows of bytes into text: UTF-8, or all of the file is Windows-1252."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.is_windows, self._is_utf8 = path, False, False

    def decoded(self, line: int, content: bytes) -> str:
        """Rows of which the first is in line `line`."""
        text = ""
        try:
            text = content.decode("utf-8")
            place, why = content.find(b"\0"), "holds a NUL byte; it is no text file, save it as CSV"
            self._is_utf8 |= not content.isascii()
        except UnicodeDecodeError as found:
            place, self.is_windows = found.start, True
            why = f"is not text in UTF-8 (byte 0x{content[place]:02x}); save it as UTF-8, or say "
            why += "in which --encoding it is"
            self._is_utf8 |= bool(re.search(rb"\xc3[\x80-\xbf]|\xe2\x80", content))
            if re.search(rb"[\x00-\x08\x0e-\x1f\x81\x8d\x8f\x90\x9d]", content) is None:
                text, place = content.decode(WINDOWS), -1
        if self.is_windows and self._is_utf8:
            raise FileError(
                f"{self.path}, row {line} or before: is partly in UTF-8 and partly not; save it in "
                "one encoding, or say which --encoding it is"
            )
        if place >= 0:
            raise FileError(f"{self.path}, row {line + content.count(10, 0, place)}: {why}")
        return text


def separator(header: bytes, rows: list[bytes]) -> str:
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
        return {name: _sign(found, is_comma) for name, found in self.seen.items()}


def _sign(found: set[str], is_comma: bool) -> str:
    """Of one column; `is_comma`: whether other columns have decimal commas."""
    if "," in found:
        return MIXED if found & {".", "thousands"} else ","
    if "thousands" in found or not found & {",?", ".?"}:
        return "."
    if ",?" in found:
        return "," if is_comma and not found & {".", ".?"} else OPEN
    return OPEN if is_comma and "." not in found else "."


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
