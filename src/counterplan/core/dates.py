"""When visits take place: dates and date-times as numbers, how regular they are, and how they show.

    2024-03-01   2024-03-01 14:30   2024-03-01T14:30:05.5Z   2024-03-01 14:30+01:00   31.03.2024

A date is its seconds since 1970; one without an offset from UTC is taken as it stands. Whether
01/03/2024 is in January or in March must be said, "mdy" or "dmy"; a draft sees it where other dates
of the column leave no choice.

Visits are regular if the time from one to the next is mostly the same and otherwise a multiple of
it, as where a visit was missed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.table import GAPS, distinct_texts
from counterplan.core.validation import BoolArray, FloatArray

if TYPE_CHECKING:
    import polars as pl

# Seconds of the units that times of dates may be measured in.
DAY = 86_400.0
UNITS = {"weeks": 7 * DAY, "d": DAY, "h": 3600.0, "min": 60.0, "s": 1.0} | {
    name: seconds
    for names, seconds in (("week", 7 * DAY), ("day days", DAY), ("hour hours", 3600.0))
    for name in names.split()
}
DATE = re.compile(
    r"(?:(\d{4})([-/])(\d\d?)\2(\d\d?)|(\d\d?)([./-])(\d\d?)\6(\d{4}))"
    r"(?:[T ]+(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? *(?:(Z)|([+-])(\d\d):?(\d\d))?)?",
    re.IGNORECASE | re.ASCII,
)
# What should be a date, if not as it is written.
LIKE_DATE = r"^\d{4}-\d\d-\d\d|^\d\d?[./-]\d\d?[./-]\d{2,4}\b|^\d{4}/\d\d?/\d"
EPOCH = datetime(1970, 1, 1)
# Two steps are the same, but for rounding.
SAME = 1e-6
# Where clocks are changed, days of a time zone are an hour shorter or longer.
CLOCKS = 3600.0


def seconds_of(text: str, order: str = "") -> tuple[float, bool]:
    """A date as seconds since 1970, nan if it is none, and whether it has an offset from UTC;
    `order`: of day and month, if their place does not say."""
    found = DATE.fullmatch(text)
    if found is None:
        return np.nan, False
    year, _, month, day, *other, hour, minute, second, part, zulu, sign, hours, minutes = (
        found.groups()
    )
    if year is None:
        day, between, month, year = other
        if between != ".":
            day, month = (month, day) if order == "mdy" else (day, month)
            if not order:
                return np.nan, False
    try:
        at = (int(hour or 0), int(minute or 0), int(second or 0))
        date = datetime(int(year), int(month), int(day), *at)
    except ValueError:  # such as February 30
        return np.nan, False
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)).total_seconds()
    since = (date - EPOCH).total_seconds() + float(f"0.{part or 0}")
    return since - (-offset if sign == "-" else offset), bool(zulu or sign)


def order_of(texts: pl.Series) -> str:
    """Whether the day or the month comes first, "dmy" or "mdy", empty if nothing tells."""
    parts = texts.str.extract_groups(r"^(\d\d?)[/-](\d\d?)[/-]\d{4}").struct.unnest()
    first, second = (parts[name].cast(int).max() for name in parts.columns)
    is_day = [isinstance(one, int) and one > 12 for one in (first, second)]
    return {(True, False): "dmy", (False, True): "mdy"}.get((is_day[0], is_day[1]), "")


def read_dates(texts: pl.Series, order: str = "") -> tuple[FloatArray, BoolArray]:
    """(n,) the same of many texts."""
    distinct, codes = distinct_texts(texts)
    found = [seconds_of(text, order) for text in distinct]
    return np.array([one for one, _ in found])[codes], np.array([one for _, one in found])[codes]


def date_texts(seconds: Sequence[float] | FloatArray, zone: str = "") -> tuple[str, ...]:
    """Dates as texts that are read back, without the time of day where all are at midnight."""
    given = [datetime.fromtimestamp(round(one, 6), UTC) for one in seconds]
    if not zone and all(one % DAY == 0.0 for one in seconds):
        return tuple(one.strftime("%Y-%m-%d") for one in given)
    form = "%Y-%m-%d %H:%M" + ("" if all(one % 60.0 == 0.0 for one in seconds) else ":%S")
    return tuple(one.strftime(form) + zone for one in given)


def _in_days(step: float) -> float:
    """Whole days where it is these, but for an hour of changed clocks."""
    days = DAY * round(step / DAY)
    return days if days and abs(step - days) == CLOCKS else step


@dataclass(frozen=True)
class Spacing:
    """How time goes on from one row of an episode to the next.

    dates  whether times are dates
    order  of day and month in them, where it must be said
    odd    a time that is neither a number nor a date, or not what the others are
    steps  how often time grew by so much: seconds, or as the table has it
    """

    dates: bool = False
    order: str = ""
    odd: str = ""
    steps: Counter[float] = field(default_factory=Counter)

    @classmethod
    def of(cls, texts: pl.Series, owners: pl.Series) -> Spacing:
        """That of all rows of a table, by their times and the names of their episodes."""
        import polars as pl

        known = ~texts.str.to_uppercase().is_in(GAPS)
        texts, owners = texts.filter(known), owners.filter(known)
        if not len(texts):
            return cls()
        order = order_of(texts)
        dates = not np.isnan(seconds_of(texts[0], order)[0])
        zoned = False
        if dates:
            seconds, offsets = read_dates(texts, order)
            times, zoned = pl.Series(seconds).fill_nan(None), bool(offsets.any())
        else:
            times = texts.cast(pl.Float64, strict=False)
        odd = next(iter(texts.filter(times.is_null()).head(1)), "")
        frame = pl.DataFrame({"owner": owners, "time": times})
        frame = frame.filter(pl.col("time").is_finite()).sort("owner", "time")
        grown = frame.select(pl.col("time").diff().over("owner")).to_series().drop_nulls()
        found = cls(dates, order, odd, Counter(grown.filter(grown > 0.0).round_sig_figs(9)))
        days = replace(found, steps=Counter(map(_in_days, found.steps.elements())))
        return days if zoned and days.usual % DAY == 0.0 and days.is_regular else found

    @property
    def usual(self) -> float:
        """By how much time mostly grows, the least of several; 0 if it does not."""
        most = max(self.steps.values(), default=0)
        return min((step for step, count in self.steps.items() if count == most), default=0.0)

    @property
    def missed(self) -> int:
        """How many steps are longer than usual."""
        return sum(count for step, count in self.steps.items() if step > self.usual)

    @property
    def is_regular(self) -> bool:
        """Whether steps are mostly the usual one and otherwise a multiple of it."""
        multiples = np.array(list(self.steps)) / (self.usual or 1.0)
        whole = np.abs(multiples - np.rint(multiples)) <= SAME * multiples
        return bool(whole.all()) and 2 * self.steps[self.usual] >= self.steps.total()

    def unit(self, whole: bool) -> str:
        """In what times of dates are best measured: the longest unit in which every step is whole,
        or which most steps exceed."""
        middle = float(np.median(list(self.steps.elements()))) if self.steps else DAY
        for name in ("d", "h", "min"):
            if (
                all(step % UNITS[name] == 0.0 for step in self.steps)
                if whole
                else middle >= UNITS[name]
            ):
                return name
        return "s"
