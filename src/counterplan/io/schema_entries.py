"""The entries of a table as numbers: what texts stand for in each column of a schema.

In the numbers, nan is a gap, and infinity an entry that has been reported as a mistake, so that
nobody reports it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.files.number_table import A_NUMBER
from counterplan.io.mistakes import Mistakes
from counterplan.io.schema import Column
from counterplan.io.schema_checks import LARGEST_NUMBER

if TYPE_CHECKING:
    import polars as pl

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
