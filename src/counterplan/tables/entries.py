"""What single entries of a table may be, and the numbers they stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.number_table import A_NUMBER
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.tables.mistakes import Mistakes
from counterplan.tables.schema import LARGEST_NUMBER, REFUSE, Column

if TYPE_CHECKING:
    import polars as pl

WHOLE = re.compile(r"-?[0-9]+(\.0*)?")
# Models index states and actions with 32 bits.
LARGEST = 2**31 - 1


class EntryError(ValueError):
    """Why an entry is refused and what to do; its reader adds where it stands."""


def read_index(text: str) -> int:
    """A whole number from 0 up; 3.0 counts, as spreadsheets write it where a column has gaps."""
    if text == "":
        raise EntryError("is empty; fill it in")
    if not WHOLE.fullmatch(text):
        raise EntryError("is not a whole number; number from 0 up")
    digits = text.partition(".")[0]
    if digits.lstrip("-0") and digits.startswith("-"):
        raise EntryError("is negative; number from 0 up")
    if len(digits.lstrip("0")) > len(str(LARGEST)) or int(digits) > LARGEST:
        raise EntryError(f"is too large (over {LARGEST}); number from 0 up without gaps")
    return abs(int(digits))


def read_number(text: str) -> float:
    """A finite number."""
    if text == "":
        raise EntryError("is empty; fill it in")
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise EntryError("is not a finite number; correct it")
    return value


class Vocabulary:
    """Reads states or actions: by their labels where there are any, and by their numbers.

    Where a label is itself a number, only labels are accepted: 1 could otherwise mean either.
    """

    def __init__(self, what: str, labels: Sequence[str] | None) -> None:
        self._what = what
        self._labels = [label.strip() for label in labels or ()]
        self._codes = {label: code for code, label in enumerate(self._labels)}
        self._numbers = not any(WHOLE.fullmatch(label) for label in self._labels)

    def read(self, text: str) -> int:
        """The number that `text` stands for."""
        if not self._labels:
            if text and not WHOLE.fullmatch(text):
                many = f"{self._what}s"
                raise EntryError(
                    f"is not a whole number; number the {many} from 0 up or give their labels"
                )
            return read_index(text)
        if text in self._codes:
            if self._labels.count(text) > 1:
                raise EntryError(f"is the label of more than one {self._what}; give its number")
            return self._codes[text]
        if self._numbers and WHOLE.fullmatch(text):
            code = read_index(text)
            if code < len(self._labels):
                return code
        raise EntryError(self._expected(text))

    def _expected(self, text: str) -> str:
        if text == "":
            return "is empty; fill it in"
        shown = [repr(label) for label in self._labels[:6]]
        more = ["..."] if len(self._labels) > len(shown) else []
        numbers = f", or a number 0..{len(self._labels) - 1}" if self._numbers else ""
        return f"is no {self._what} of the model; use one of {', '.join(shown + more)}{numbers}"


# ----------------------------------------------------------------------------------------------
# The entries of a table as numbers: what texts stand for in each column of a schema.
#
# In the numbers, nan is a gap, and infinity an entry that has been reported as a mistake, so that
# nobody reports it again.

# What programs write for nothing, in capitals.
GAPS = ("", "NA", "NAN", "NULL")
BAD = np.inf
LONGEST_ID = 1_000


class Entries:
    """Reads the columns of one block."""

    def __init__(self, texts: pl.DataFrame, rows: IntArray, mistakes: Mistakes) -> None:
        self._texts, self._rows, self._mistakes = texts, rows, mistakes

    def column(self, column: Column) -> FloatArray:
        """(n,) the numbers of a column, by its levels, labels and bounds."""
        if column.size is not None:
            return self._chosen(column)
        values = self.numbers(column.name)
        unit = f" {column.unit}" if column.unit else ""
        for side, bound, word in (("low", column.low, "below"), ("high", column.high, "above")):
            if bound is None:
                continue
            beyond = values < bound if side == "low" else values > bound
            outside = np.isfinite(values) & beyond
            problem = f"is {word} {side} = {bound:g}{unit}; correct it, or {side} in the schema"
            self._report(outside, column.name, problem)
            values[outside] = BAD
        return values

    def numbers(self, name: str) -> FloatArray:
        """(n,) the numbers of any column."""
        import polars as pl

        texts = self._texts[name]
        values: FloatArray = texts.cast(pl.Float64, strict=False).to_numpy().copy()
        wrong = ~(np.abs(values) <= LARGEST_NUMBER)
        if not wrong.any():
            return values
        gap = texts.str.to_uppercase().is_in(GAPS).to_numpy()
        wrong &= ~gap
        values[gap], values[wrong] = np.nan, BAD
        if wrong.any():
            comma = texts.str.contains(r"^[-+]?\d+,\d+$").to_numpy()
            endless = texts.str.contains("(?i)^[-+]?inf").to_numpy()
            self._report(wrong & comma, name, "has a decimal comma; write a decimal point")
            self._report(wrong & endless, name, "is not a finite number; correct or empty it")
            large = wrong & ~endless & texts.str.contains(A_NUMBER).to_numpy()
            most = f"is too far from 0, {LARGEST_NUMBER:g} at most; correct or empty it"
            self._report(large, name, most)
            rest = wrong & ~comma & ~endless & ~large
            self._report(rest, name, "is not a number; correct or empty it")
        return values

    def names(self, name: str) -> pl.Series:
        """The ids of episodes; what cannot be one is reported, and empty."""
        texts = self._texts[name]
        empty = (texts == "").to_numpy()
        self._report(empty, name, "is empty; name the episode or remove the row", show=False)
        long = (texts.str.len_chars() > LONGEST_ID).to_numpy()
        self._report(long, name, f"is longer than {LONGEST_ID:,} characters; shorten it")
        return texts.set(texts.str.len_chars() > LONGEST_ID, "") if long.any() else texts

    def _chosen(self, column: Column) -> FloatArray:
        """Numbers of a column that has few values."""
        distinct, codes = _distinct(self._texts[column.name])
        read = _read(column, distinct)
        found = np.array(read, dtype=np.float64)[codes]
        options = [repr(label) for label in column.labels or ()] or [
            f"{level:g}" for level in column.levels or ()
        ]
        more = ", ..." if len(options) > 6 else ""
        expected = f"is none of {', '.join(options[:6])}{more}; correct it, or add it to the schema"
        self._report(np.isinf(found), column.name, expected)
        return found

    def _report(self, wrong: BoolArray, name: str, problem: str, show: bool = True) -> None:
        places = np.flatnonzero(wrong)
        if places.size:
            values = self._texts[name][places[:3].tolist()].to_list() if show else ()
            self._mistakes.in_rows(name, problem, self._rows[places].tolist(), values)


def _distinct(texts: pl.Series) -> tuple[list[str], IntArray]:
    """The different texts, and which of them each row has."""
    distinct = texts.unique(maintain_order=True)
    places = {text: place for place, text in enumerate(distinct)}
    codes = texts.replace_strict(places) if len(places) > 1 else texts.str.len_bytes() * 0
    return distinct.to_list(), codes.to_numpy().astype(np.int64)


def _read(column: Column, texts: Sequence[str]) -> list[float]:
    """What texts stand for: labels, levels, or places of labels; BAD if nothing."""
    values = column.values or ()
    named = dict(zip(column.labels, values, strict=True)) if column.labels else {}
    # A place could be taken for a label where one is a number.
    is_clear = column.levels is not None or all(as_number(label) is None for label in named)
    numbers = set(values) if is_clear else set()
    found = []
    for text in texts:
        number = as_number(text)
        if text in named:
            found.append(named[text])
        elif text.upper() in GAPS:
            found.append(np.nan)
        else:
            found.append(number if number is not None and number in numbers else BAD)
    return found


def as_number(text: str) -> float | None:
    """The finite number that a text is, None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if "_" not in text and np.isfinite(number) else None


# ----------------------------------------------------------------------------------------------
# What becomes of gaps in a table; every value that is filled in is counted.
#
#     refuse          a gap is a mistake (the default)
#     carry-forward   the last value before it in the same episode; where there is none, the mean,
#     or
#                     for levels and labels a mistake
#     mean            of the column: of the table that a model is learned from, and of that table
#     too
#                     when the model explains another
#
# With the last two a gap in a fixed column is filled from another row of its episode where there is
# one.


@dataclass(frozen=True)
class Filled:
    """How many gaps of a column were filled with an earlier value, and how many with the mean."""

    carried: int = 0
    mean: int = 0

    def __add__(self, other: Filled) -> Filled:
        return Filled(self.carried + other.carried, self.mean + other.mean)


@dataclass(frozen=True, eq=False)
class FilledColumn:
    """A column without gaps, but for those that are `left`.

    carried, averaged, left  (n,) which rows had a gap: filled from the episode, with the mean, not
                             at all
    """

    values: FloatArray
    carried: BoolArray
    averaged: BoolArray
    left: BoolArray


def fill(values: FloatArray, first: IntArray, column: Column, mean: float) -> FilledColumn:
    """Fill the gaps of a column by its policy.

    values  (n,) sorted by episode and time, nan where there is a gap
    first   (n,) the first row of each row's episode
    mean    nan if it is not known
    """
    gap = np.isnan(values)
    nowhere = np.zeros(len(values), dtype=np.bool_)
    if not gap.any() or column.missing == REFUSE:
        return FilledColumn(values, nowhere, nowhere, gap)
    source = np.full(len(values), -1)
    if column.role == "fixed":
        source = _known_in_episode(gap, first)
    elif column.missing == "carry-forward":
        latest = np.maximum.accumulate(np.where(gap, -1, np.arange(len(values))))
        source = np.where(latest >= first, latest, -1)
    carried = gap & (source >= 0)
    filled = np.where(carried, values[source], values)
    has_mean = column.size is None and np.isfinite(mean)
    averaged = gap & ~carried if has_mean else nowhere
    return FilledColumn(
        np.where(averaged, mean, filled), carried, averaged, gap & ~carried & ~averaged
    )


def _known_in_episode(gap: BoolArray, first: IntArray) -> IntArray:
    """(n,) a row of the same episode without a gap, -1 if there is none."""
    places = np.where(gap, len(gap), np.arange(len(gap)))
    starts = np.unique(first)
    earliest = np.minimum.reduceat(places, starts)[np.searchsorted(starts, first)]
    return np.where(earliest < len(gap), earliest, -1)
