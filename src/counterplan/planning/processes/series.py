"""Records of prices or demand: numbers at equally spaced times, from arrays, frames and files.

The step is the most frequent time between two rows, or whole months; a record that has rows from
Monday to Friday alone has business days as steps, and weekdays that are missing, as holidays are,
are closed over. Any other gap, a time that occurs twice or out of order is a mistake with its row.
`every` takes the last row of each hour, day, week or month, so that a daily record becomes monthly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.dates import DAY, order_of, read_dates, seconds_of
from counterplan.core.validation import BoolArray, FloatArray, IntArray, feature_table
from counterplan.errors import FileError, InputError, counted
from counterplan.planning.processes.autoregression import Clock, Season, month_numbers, season_of

if TYPE_CHECKING:
    import polars as pl

    from counterplan.core.table import Block

WHAT = "a table of prices: a column of times and one or several of numbers"
PERIODS = {"hour": 3600.0, "day": DAY, "week": 7 * DAY, "month": 0.0}
# Days of a month at least, of a run of weekdays that may be missing, and their share at most.
SHORTEST_MONTH, LONGEST_HOLIDAY, MOST_HOLIDAYS = 27.5 * DAY, 5, 0.1
# Two steps are the same, but for rounding; so many times each season must have been seen.
SAME, FEWEST_SEASONS = 1e-6, 2
UNKNOWN = Clock()
CYCLES = {"hour": DAY, "weekday": 7 * DAY, "month": 365.25 * DAY}


@dataclass(frozen=True, eq=False)
class Series:
    """A record.

    values   (T, S)
    names    of the S series
    stamps   (T,) seconds since 1970, None where no dates are known
    clock    of what comes: t = 0 is the last row
    remarks  what was done to the record
    fine     (n, S) all rows, where `values` are the last of each period
    """

    values: FloatArray
    names: tuple[str, ...]
    stamps: FloatArray | None = None
    clock: Clock = UNKNOWN
    remarks: tuple[str, ...] = ()
    fine: FloatArray | None = None

    @property
    def cycles(self) -> dict[str, float]:
        """How often each season that the step can tell apart was seen in full."""
        if self.stamps is None or self.clock.step == 0:
            return {}
        units = {"s": 1.0, "months": 30.44 * DAY, "business days": DAY}
        step = self.clock.step * units[self.clock.unit]
        span = self.stamps[-1] - self.stamps[0] + step
        return {name: span / cycle for name, cycle in CYCLES.items() if step <= cycle / 2}

    @property
    def seasons(self) -> tuple[Season, ...]:
        """Those that have been seen often enough, and the numbers of each that occur."""
        found: list[Season] = []
        stamps = np.empty(0) if self.stamps is None else self.stamps
        for name, count in self.cycles.items():
            numbers = np.unique(season_of(name, stamps)).astype(int).tolist()
            if count >= FEWEST_SEASONS and len(numbers) > 1:
                found.append((name, tuple(numbers)))
        return tuple(found)


def read_series(source: Any, time: Any, columns: Sequence[str] | None, every: str | None) -> Series:
    """The record in an array (T,) or (T, S), a frame, or a table file."""
    if every not in (None, *PERIODS):
        raise InputError(f"every {every!r} is not one of {', '.join(PERIODS)}")
    source = source.to_frame() if hasattr(source, "to_frame") else source
    if getattr(getattr(getattr(source, "index", None), "dtype", None), "kind", "") == "M":
        source = source.reset_index()  # dates as index, as pandas has it
    if isinstance(source, str | PathLike) or hasattr(source, "columns"):
        return _from_table(source, time, columns, every)
    try:
        numbers = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("series must hold numbers: (T,), or (T, S) for S series") from None
    if numbers.ndim not in (1, 2):
        raise InputError(f"series must be (T,) or (T, S), got shape {numbers.shape}")
    table = feature_table(numbers.reshape(len(numbers), -1), "series")
    S = table.shape[1]
    usual = ["price"] if S == 1 else [f"price {i + 1}" for i in range(S)]
    names = tuple(usual if columns is None else columns)
    if len(names) != S:
        raise InputError(f"columns must name the {counted(S, 'series', 'series')}, got {names!r}")
    if time is None:
        if every is not None:
            raise InputError(f"every {every!r} needs times: give them as time=")
        return Series(table, names)
    import polars

    stamps = polars.Series("time", list(time))
    if len(stamps) != len(table):
        raise InputError(f"time has {len(stamps)} entries, but the series {len(table)} rows")
    made = polars.DataFrame({"time": stamps} | {n: table[:, i] for i, n in enumerate(names)})
    return _from_table(made, "time", names, every)


def _from_table(source: Any, time: Any, columns: Sequence[str] | None, every: str | None) -> Series:
    from counterplan.core.table import open_table_file

    file = open_table_file(source, WHAT, formats=())
    if columns is not None:
        columns = [columns] if isinstance(columns, str) else list(columns)
    file.check_columns([name for name in (time, *(columns or ())) if name is not None])
    wanted = [*file.header] if columns is None or time is None else [time, *columns]
    table = file.read([name for name in dict.fromkeys(wanted) if name])
    table.mistakes.refuse()
    time = _time_column(table, columns) if time is None else time
    names, remarks = columns, list[str]()
    if names is None:
        names = [name for name in table.texts.columns if name != time]
        empty = [n for n in names if table.plain(n).cast(float, strict=False).is_null().all()]
        names = [name for name in names if name not in empty]
        remarks += [f"column {name!r} holds no numbers and is left out" for name in empty]
    if not names:
        raise FileError(f"{file.path}: no column holds numbers; give {WHAT}")
    values = np.column_stack([table.numbers(name, may_miss=False) for name in names])
    if time is None:
        table.mistakes.refuse()
        if every is not None:
            raise FileError(f"{file.path}: every needs a column of dates; name it as time")
        return Series(values, tuple(names), remarks=tuple(remarks))
    return _dated(table, time, Series(values, tuple(names), remarks=tuple(remarks)), every)


def _time_column(table: Block, columns: Sequence[str] | None) -> str | None:
    """The first column of dates, or a column of numbers that is called after time."""
    others = [name for name in table.texts.columns if name not in (columns or ())]
    dates = (name for name in others if _is_date(table.texts[name]))
    times = (name for name in others if name.lower() in ("t", "time", "step"))
    return next(dates, next(times, None))


def _is_date(texts: pl.Series) -> bool:
    return bool(np.isfinite(seconds_of(texts[0], order_of(texts) or "dmy")[0]))


def _dated(table: Block, time: str, found: Series, every: str | None) -> Series:
    """The record in the order of its times, whose steps are checked."""
    texts, values, remarks = table.texts[time], found.values, list(found.remarks)
    order, dates = order_of(texts), _is_date(texts)
    if dates:
        stamps, _ = read_dates(texts, order)
        unclear = texts.str.contains(r"^\d\d?[/-]\d\d?[/-]\d{4}").to_numpy() & (order == "")
        table.report(unclear, time, "may have the day or the month first; write it as 2024-12-31")
        odd = np.isnan(stamps) & ~unclear
        table.report(odd, time, "is not a date such as 2024-12-31 or 2024-12-31 14:30; correct it")
    else:
        stamps = table.numbers(time, may_miss=False)
        table.report(np.full(len(stamps), every is not None), time, "is no date, as every needs")
    table.mistakes.refuse()
    turned = len(stamps) > 1 and bool((np.diff(stamps) < 0).all())
    if turned:
        stamps, values = stamps[::-1], values[::-1]
        remarks.append("rows go from the last to the first, and were turned round")
    steps = np.diff(stamps, prepend=-np.inf)
    clocks = "; where clocks were set {}, add the offset from UTC, as in 03:00+02:00"
    back = clocks.format("back") if np.median(steps) <= 3600.0 else ""
    table.report(steps == 0, time, f"occurs twice; keep one row{back}")
    table.report(steps < 0, time, f"is before the row above; sort the rows{back}")
    table.mistakes.refuse()
    numbers, length = _periods(stamps, every if dates else None, dates)
    fine, rows = None, np.arange(len(stamps))
    if every is not None:
        rows = _last_rows(stamps, numbers, every)
        without = "" if rows[-1] == len(stamps) - 1 else f", without the {every} that is not over"
        remarks.append(f"the last row of each {every} is taken{without}")
        stamps, fine, values = stamps[rows], values[: rows[-1] + 1], values[rows]
    if len(stamps) < 3:
        return Series(values, found.names)
    clock, wrong = _clock(stamps, numbers[rows], length, remarks)
    ahead = clocks.format("forward") if 0 < clock.step <= 3600.0 and clock.unit == "s" else ""
    after = np.zeros(len(table), dtype=np.bool_)
    after[rows[wrong]] = True
    shown = f"{clock.step:g} {clock.unit}" if dates else f"{clock.step:g}"
    why = f"comes after a gap or off the step of {shown}; fill in the rows between, or take longer"
    table.report(after[::-1] if turned else after, time, f"{why} steps with every{ahead}")
    table.mistakes.refuse()
    if not dates:
        return Series(values, found.names, remarks=tuple(remarks))
    return Series(values, found.names, stamps, clock, tuple(remarks), fine)


def _periods(stamps: FloatArray, every: str | None, dates: bool) -> tuple[FloatArray, float]:
    """(n,) the number of each row's period, and how long these are: 0 for months, which a record
    has that is as slow."""
    slow = every is None and dates and len(stamps) > 1 and np.diff(stamps).min() >= SHORTEST_MONTH
    if every == "month" or slow:
        return month_numbers(stamps), 0.0
    if every is None:
        return stamps, 1.0
    # Weeks begin on Mondays.
    return (stamps - 4 * DAY * (every == "week")) // PERIODS[every], PERIODS[every]


def _last_rows(stamps: FloatArray, numbers: FloatArray, every: str) -> IntArray:
    """The last row of each period; a period is not over if the next row would be in it, too."""
    last = np.flatnonzero(np.diff(numbers, append=np.inf) != 0)
    ahead = stamps[-1:] + (np.median(np.diff(stamps)) if len(stamps) > 1 else 0.0)
    day = season_of("weekday", ahead)
    if season_of("weekday", stamps).max() < 5:
        ahead = ahead + DAY * (7 - day) * (day > 4)
    is_open = len(last) > 1 and _periods(ahead, every, True)[0][0] == numbers[-1]
    return last[:-1] if is_open else last


def _clock(
    stamps: FloatArray, numbers: FloatArray, length: float, remarks: list[str]
) -> tuple[Clock, BoolArray]:
    """How time goes on, and which rows come after a gap."""
    steps = np.diff(numbers)
    values, counts = np.unique(np.round(steps, 6), return_counts=True)
    usual, start = float(values[counts.argmax()]), float(stamps[-1])
    wrong = np.abs(steps - usual) > SAME * usual
    clock = Clock(start, usual * length, "s") if length else Clock(start, usual, "months")
    if clock == Clock(start, DAY, "s") and season_of("weekday", stamps).max() < 5:
        days, clock = (stamps // DAY).astype("datetime64[D]"), Clock(start, 1.0, "business days")
        missing = np.busday_count(days[:-1], days[1:]) - 1
        wrong = missing > (LONGEST_HOLIDAY if missing.mean() <= MOST_HOLIDAYS else 0)
        if missing.any() and not wrong.any():
            many = counted(int(missing.sum()), "weekday")
            remarks.append(f"steps are business days; {many} without a row are closed over")
    return clock, np.concatenate([[False], wrong])
