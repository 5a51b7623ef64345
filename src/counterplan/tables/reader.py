"""Episodes from a table, by a schema: the whole table is checked before any of it is used, and then
given part by part.

    with open_table("episodes.csv", read_schema("schema.toml")) as table:
        for part in table.parts(50):
            ...                           # a list of 50 episodes, in order of first appearance

The rows of an episode may lie anywhere in the table. Memory holds the names of episodes and a few
hundred episodes at a time; all other numbers wait in a temporary file. What becomes of gaps is said
by `missing` of their columns (docs/schema.md); every value that is filled in is counted.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from counterplan.core.dates import CLOCKS, DAY, LIKE_DATE, SAME, date_texts, read_dates
from counterplan.core.episode import Episode
from counterplan.core.table import (
    GAPS,
    NO_ROWS,
    Block,
    Mistakes,
    TableFile,
    as_number,
    distinct_texts,
    open_table_file,
)
from counterplan.core.table import TablePath as TablePath
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, InputError, MistakesError
from counterplan.tables.parts import LONGEST_ID, Recorded
from counterplan.tables.schema import (
    ALLOW,
    CARRY,
    GAP,
    INPUT,
    MEDIAN,
    MISSING,
    REFUSE,
    Column,
    Grid,
    Schema,
)

# Episodes of a part unless the caller says otherwise.
PART = 50
# Episodes that are held in memory at a time.
EPISODES = 500
LONGEST_EPISODE = 1_000_000
# Models index states and actions with 32 bits.
LARGEST_INDEX = 2**31 - 1
# A row of numbers: episode, row in the file, time, and then the columns of the schema. nan is a
# gap, BAD an entry that has been reported.
EPISODE, ROW, TIME = range(3)
LEADING = 3


class Filled(NamedTuple):
    """How many gaps of a column were filled with an earlier value, how many with its mean (or
    median), and how many of them were values outside its bounds."""

    carried: int = 0
    mean: int = 0
    outside: int = 0


class CheckedTable:
    """A table without mistakes; use it in a `with` block, which ends its temporary file.

    rows      how many there are
    episodes  their names, in the order in which they first appear
    means     by column: of the values in the table, or as the caller knows them from a model
    filled    by column: how many gaps were filled
    lowest    by column of rewards and costs: the lowest value
    place     names a row of the file
    form      what was recognised of the file, in words
    """

    def __init__(
        self,
        file: TableFile,
        schema: Schema,
        means: Mapping[str, float] | None = None,
        place: Callable[[int], str] | None = None,
    ) -> None:
        """Check a table whose header has been read; `place` names its rows in messages."""
        self.path, self.schema, self.place = file.path, schema, place or file.place
        mistakes = Mistakes(file.path, self.place)
        wanted = [schema.episode, schema.time, *(column.name for column in schema.used)]
        file.check_columns(wanted, "" if schema.is_plain else "correct the header or the schema")
        reading, self._spill = _Reading(schema), Spill(LEADING + len(schema.used))
        try:
            for block in file.blocks(wanted, mistakes):
                self._spill.add(reading.numbered(block))
                reading.refuse_endless(mistakes)
            if not reading.rows and not mistakes.has_broken_rows:
                mistakes.in_file(NO_ROWS)
            if not reading.rows or mistakes.has_broken_rows:
                mistakes.refuse()  # rows that are left out would look like gaps
            self.rows, self.lowest, self._zone = reading.rows, reading.lowest, reading.zone
            self.episodes, self.form = tuple(reading.numbers), ", ".join(file.form)
            self._outcomes = tuple(map(tuple, reading.outcomes.values()))
            self.means = reading.means() | self._medians() if means is None else dict(means)
            self.filled = {
                one.name: Filled(outside=reading.outside[one.name]) for one in schema.used
            }
            for bucket in self._buckets():
                bucket.check(self.episodes, mistakes)
                for name, counts in bucket.fill(self.means, mistakes).items():
                    self.filled[name] = Filled(*np.add(self.filled[name], counts).tolist())
            mistakes.refuse()
        except BaseException:
            self.close()
            raise

    def _buckets(self) -> Iterator[_Bucket]:
        """The rows of some whole episodes at a time."""
        return (_Bucket(self.schema, rows, self._zone) for rows in self._spill.buckets())

    def _medians(self) -> dict[str, float]:
        """Of the columns whose gaps are set to it, once earlier values are carried forward."""
        wanted = [column for column in self.schema.used if column.missing == MEDIAN]
        if not wanted:
            return {}
        parts = [[one.carried(column) for column in wanted] for one in self._buckets()]
        known = (values[np.isfinite(values)] for values in np.concatenate(parts, axis=1))
        pairs = zip(wanted, known, strict=True)
        return {column.name: float(np.median(values)) for column, values in pairs if values.size}

    def __iter__(self) -> Iterator[Recorded]:
        """The episodes one by one."""
        for bucket in self._buckets():
            bucket.fill(self.means, Mistakes(self.path))
            yield from bucket.episodes(self.episodes, self._outcomes)

    def parts(self, size: int = PART) -> Iterator[list[Recorded]]:
        """The episodes, `size` at a time; the last part may be smaller."""
        every = iter(self)
        while part := list(islice(every, size)):
            yield part

    def summary(self) -> str:
        """One line: how many episodes and steps, and how many gaps were filled."""
        text = f"{len(self.episodes):,} episodes, {self.rows:,} steps"
        text += f" (read as {self.form})" if self.form else ""
        carried, mean, _ = np.sum([Filled(), *self.filled.values()], axis=0)
        if not carried + mean:
            return text
        return f"{text}; gaps: {carried:,} carried forward, {mean:,} set to the mean"

    def close(self) -> None:
        """End the temporary file."""
        self._spill.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def open_table(
    source: Any, schema: Schema, means: Mapping[str, float] | None = None
) -> CheckedTable:
    """Check a whole table; all mistakes are one error, with a line for each.

    source  the path of a table, or a frame of polars or pandas, whose rows count from 0
    means   what gaps in columns with missing = "mean" stand for, as `means_of_model` gives them;
            None takes the means of this table
    """
    return CheckedTable(open_table_file(source), schema, means)


def read_table(
    path: Any, schema: Schema, means: Mapping[str, float] | None = None
) -> list[Recorded]:
    """All episodes of a table, see `open_table`, in the order in which they first appear."""
    with open_table(path, schema, means) as table:
        return list(table)


def from_frame(
    frame: Any, schema: Schema, means: Mapping[str, float] | None = None
) -> list[Recorded]:
    """The same of what can only be a frame of polars or pandas."""
    if isinstance(frame, str | os.PathLike):
        raise InputError(f"{frame} is a path: use read_table")
    return read_table(frame, schema, means)


def check_shipped(
    file: TableFile, schema: Schema, place: Callable[[int], str] | None = None
) -> CheckedTable:
    """Check a table by a schema of the program's own, which nobody is advised to correct."""
    try:
        return CheckedTable(file, schema, place=place)
    except MistakesError as problem:
        advice = r",? or (use role = '\w+'|[^;\n]*schema)"
        raise MistakesError(re.sub(advice, "", str(problem))) from None


# --- Rows as numbers --------------------------------------------------------------------------


class _Reading:
    """What is known of a table while its rows are read.

    numbers   of the episodes by name, 0, 1, ... in order of appearance
    outcomes  by column: the numbers of its texts
    outside   by column: how many values beyond its bounds count as gaps
    lowest    by column of rewards and costs: the lowest value
    zone      "Z" where times are dates with an offset from UTC
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.zone = ""
        self._choices = {column.name: _accepted(column) for column in schema.used if column.size}
        self._sums: dict[str, tuple[float, int]] = {}
        self.numbers: dict[str, int] = {}
        self.outcomes: dict[str, dict[str, int]] = {one.name: {} for one in schema.of("outcome")}
        self.outside: Counter[str] = Counter()
        self.lowest: dict[str, float] = {}
        self.rows, self._lengths, self._last = 0, np.zeros(0, dtype=np.int64), 0

    def means(self) -> dict[str, float]:
        """Of the columns that hold numbers."""
        return {name: total / count for name, (total, count) in self._sums.items() if count}

    def numbered(self, block: Block) -> FloatArray:
        """The rows of a block as numbers; what is wrong is reported."""
        schema = self._schema
        table = np.empty((len(block), LEADING + len(schema.used)))
        table[:, EPISODE], table[:, ROW] = self._episodes(block), block.rows
        table[:, TIME] = self._times(block)
        for place, column in enumerate(schema.used, LEADING):
            table[:, place] = values = self._column(block, column)
            # Those that may have no gaps count as well: a later table may fill them with the mean.
            if column.role in ("reward", "cost"):
                self.lowest[column.name] = min(
                    self.lowest.get(column.name, np.inf), np.nanmin(values, initial=np.inf)
                )
            elif column.role != "outcome" and column.size is None:
                known = values[np.isfinite(values)]
                total, count = self._sums.get(column.name, (0.0, 0))
                self._sums[column.name] = total + float(known.sum()), count + known.size
        self.rows += len(block)
        return table[table[:, EPISODE] >= 0.0]

    def refuse_endless(self, mistakes: Mistakes) -> None:
        """Raise where an episode has too many rows: at once, a small file may hold billions."""
        if self._lengths.max(initial=0) > LONGEST_EPISODE:
            name = [*self.numbers][int(self._lengths.argmax())]
            problem = f": episode {name!r} has more than {LONGEST_EPISODE:,} rows; are they those "
            mistakes.in_row(self._last, f"{problem}of several episodes?", "long")
            mistakes.refuse()

    def _times(self, block: Block) -> FloatArray:
        """(n,) the times of rows: as they are, or the seconds of dates."""
        name, texts = self._schema.time, block.texts[self._schema.time]
        if not self._schema.dates:
            why = "is a date; number the steps, or say dates = true in [table] of the schema"
            is_date = bool(texts.str.contains(LIKE_DATE).any())
            return block.numbers(name, may_miss=False, problem=why if is_date else "")
        order = self._schema.dates if isinstance(self._schema.dates, str) else ""
        times, zoned = read_dates(texts, order)
        gap = texts.str.to_uppercase().is_in(GAPS).to_numpy()
        block.report(gap, name, "is missing; fill it in, or remove the row")
        wrong = np.isnan(times) & ~gap
        open_ = wrong & texts.str.contains(r"^\d\d?[/-]\d\d?[/-]\d{4}").to_numpy()
        why = 'may begin with the day or the month; say dates = "dmy" or "mdy" in [table]'
        block.report(open_ & (not order), name, why)
        wrong_too = wrong & ~(open_ & (not order))
        block.report(wrong_too, name, "is no date; write year-month-day, such as 2024-03-31 14:30")
        known = zoned[~wrong & ~gap]
        if not self.rows and len(known):
            self.zone = "Z" if known[0] else ""
        differs = ~wrong & ~gap & (zoned != bool(self.zone))
        has = "no offset from UTC, but earlier rows have one; add it"
        has = has if self.zone else "an offset from UTC, but earlier rows have none; leave it out"
        block.report(differs, name, f"has {has}, or the others' too")
        return np.where(differs, np.nan, times)

    def _episodes(self, block: Block) -> IntArray:
        """The numbers of the episodes of rows, -1 where the name cannot be one."""
        name = self._schema.episode
        distinct, codes = distinct_texts(block.texts[name])
        lengths = np.array([len(text) for text in distinct])[codes]
        block.report(lengths == 0, name, "is empty; name the episode or remove the row")
        problem = f"is longer than {LONGEST_ID:,} characters; shorten it"
        block.report(lengths > LONGEST_ID, name, problem)
        known = [
            self.numbers.setdefault(text, len(self.numbers)) if 0 < len(text) <= LONGEST_ID else -1
            for text in distinct
        ]
        found = np.array(known)[codes]
        counts = np.bincount(found[found >= 0], minlength=len(self.numbers))
        counts[: len(self._lengths)] += self._lengths
        self._lengths, self._last = counts, int(block.rows[-1]) if len(block) else self._last
        return found

    def _column(self, block: Block, column: Column) -> FloatArray:
        """(n,) the numbers of a column, by its levels, labels and bounds."""
        name = column.name
        if column.role == "outcome":
            # Whole numbers read alike however they are stored.
            texts, known = (
                block.texts[name].str.replace(r"^(-?\d+)\.0+$", "$1"),
                self.outcomes[name],
            )
            distinct, codes = distinct_texts(texts)
            numbers = [
                np.nan if text.upper() in GAPS else known.setdefault(text, len(known))
                for text in distinct
            ]
            return np.array(numbers, dtype=np.float64)[codes]
        if column.size is not None:
            return block.choices(name, *self._choices[name], unit=column.unit)
        if column.levels == ():
            problem = f"is not a whole number from 0 to {LARGEST_INDEX}; number the {column.role}s "
            problem += "so, or give their labels"
            values = block.numbers(name, problem=problem)
            whole = (values >= 0.0) & (values == np.floor(values)) & (values <= LARGEST_INDEX)
            block.expect(name, values, whole, problem)
            return values
        values, unit = block.numbers(name, unit=column.unit), f" {column.unit}".rstrip()
        for key, word, bound in (("low", "below", column.low), ("high", "above", column.high)):
            if bound is not None:
                right = values >= bound if key == "low" else values <= bound
                if column.outside == MISSING:
                    gaps = np.isfinite(values) & ~right
                    values[gaps] = np.nan
                    self.outside[name] += int(gaps.sum())
                    continue
                problem = f"is {word} {key} = {bound:g}{unit}; correct it, or {key} in the schema"
                block.expect(name, values, right, problem)
        return values


def _accepted(column: Column) -> tuple[dict[str, float], set[float], str]:
    """The texts and the numbers that a column may hold, and what to say of others."""
    values = column.values or ()
    named = dict(zip(column.labels, values, strict=True)) if column.labels else {}
    options = list(map(repr, column.labels or ())) or [f"{level:g}" for level in values]
    more = ", ..." if len(options) > 6 else ""
    problem = f"is none of {', '.join(options[:6])}{more}; correct it, or add it to the schema"
    # A place could be taken for a label where one is a number.
    is_clear = column.levels is not None or all(as_number(label) is None for label in named)
    return named, set(values) if is_clear else set(), problem


class Spill:
    """Rows of numbers that do not fit in memory, in a file without a name, so that nothing is left
    behind however the program ends; they are given back some episodes at a time."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._file = tempfile.TemporaryFile(prefix="counterplan-")  # noqa: SIM115 (see close)
        # Where the rows of each bucket of episodes lie: byte and length.
        self._places: list[list[tuple[int, int]]] = []

    def add(self, rows: FloatArray) -> None:
        """Keep some more rows."""
        bucket = (rows[:, EPISODE] // EPISODES).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        numbers, starts = np.unique(bucket[order], return_index=True)
        for number, part in zip(numbers, np.split(rows[order], starts[1:]), strict=False):
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


# --- Rows gathered to episodes ----------------------------------------------------------------


class _Bucket:
    """The rows of some whole episodes, sorted by episode and time.

    values    by column: (n,) its numbers, nan where there is a gap
    numbers   (m,) of the episodes
    starts    (m,) their first rows
    lengths   (m,) how many rows they have
    filled    (n,) how many gaps were filled in each row
    guessed   (n,) whether one of them was a state's
    """

    def __init__(self, schema: Schema, rows: FloatArray, zone: str = "") -> None:
        timed = np.isfinite(rows[:, TIME])
        known = rows[timed]
        self.schema, self._zone = schema, zone
        self.rows = known[np.lexsort((known[:, ROW], known[:, TIME], known[:, EPISODE]))]
        names = [column.name for column in schema.used]
        self.values = dict(zip(names, self.rows.T[LEADING:], strict=True))
        # Where a time is wrong, the steps of the episode are not looked at.
        self._doubtful = np.unique(rows[~timed, EPISODE])
        self.numbers, self.starts = np.unique(self.rows[:, EPISODE], return_index=True)
        self.lengths = np.diff(self.starts, append=len(self.rows))
        self.filled = np.zeros(len(self.rows), dtype=np.int64)
        self.guessed = np.zeros(len(self.rows), dtype=np.bool_)
        # In the schema's unit; those of dates count from the first of their episode.
        scale = schema.step / schema.spacing
        first = np.repeat(self.rows[self.starts, TIME], self.lengths) if schema.dates else 0.0
        self.times = (self.rows[:, TIME] - first) * scale
        if schema.computed:
            until = np.diff(self.rows[:, TIME], append=np.nan) * scale
            self.values[GAP] = np.where(self.is_last, np.nan, until)

    def columns(self, columns: Sequence[Column]) -> FloatArray:
        """(n, columns) the numbers of several."""
        return np.column_stack([self.values[column.name] for column in columns])

    @cached_property
    def is_last(self) -> BoolArray:
        """(n,) the last rows of episodes."""
        return np.isin(np.arange(len(self.rows)), self.starts + self.lengths - 1)

    @cached_property
    def has_action(self) -> BoolArray:
        """(n,) rows with an action; only the last of an episode may be without."""
        if self.schema.is_plain:
            return np.ones(len(self.rows), dtype=np.bool_)
        return ~(self.is_last & np.isnan(self.columns(self.schema.of("action"))).all(axis=1))

    @property
    def decides(self) -> BoolArray:
        """(n,) rows whose action counts: in continuous problems the last one leads nowhere."""
        return self.has_action if self.schema.is_discrete else ~self.is_last

    def check(self, names: Sequence[str], mistakes: Mistakes) -> None:
        """Report what is wrong with episodes as a whole."""
        if len(self.rows):
            self._check_steps(names, mistakes)
            self._check_constant(names, mistakes)
            self._check_rewards(mistakes)

    def _check_steps(self, names: Sequence[str], mistakes: Mistakes) -> None:
        """Times of an episode rise as the schema says."""
        schema, rows, times = self.schema, self.rows, self.rows[:, TIME]
        step = np.diff(times, prepend=times[:1])
        tolerance = SAME * schema.spacing + 1e-12 * np.abs(times)
        if self._zone and schema.spacing % DAY == 0.0:
            tolerance += CLOCKS
        most = LONGEST_EPISODE if schema.gaps == ALLOW else 1
        count = np.clip(np.rint(step / schema.spacing), 1, most)
        wrong = np.abs(step - count * schema.spacing) > tolerance
        if schema.gaps == INPUT:
            tolerance = np.zeros(len(times))
            wrong = step <= 0.0
        wrong[self.starts] = schema.is_plain & (times[self.starts] != 0.0)
        wrong &= ~np.isin(rows[:, EPISODE], self._doubtful)
        for place in np.flatnonzero(wrong):
            name, before = names[int(rows[place, EPISODE])], rows[place - 1]
            if place in self.starts:
                kind = "start"
                problem = f"is the first step of episode {name!r}; number the steps from 0 up"
            elif step[place] <= tolerance[place]:
                kind, other = "twice", mistakes.place(int(before[ROW]))
                problem = f"occurs twice in episode {name!r}, in {other} too; keep one of them, or "
                problem += "give each episode an id of its own"
            else:
                kind, due = "gap", self._when(before[TIME] + schema.spacing)
                key = "step" if schema.dates else "increment"
                problem = f"follows {self._when(before[TIME])} in episode {name!r}; expected {due}:"
                problem += f" add the missing row, or correct `{key}` or `gaps` in [table] of the "
                problem += "schema"
            text = f", column {schema.time!r}: {self._when(times[place])} {problem}"
            mistakes.in_row(int(rows[place, ROW]), text, kind)

    def _when(self, time: float) -> str:
        return date_texts([time], self._zone)[0] if self.schema.dates else f"{time:g}"

    def _check_constant(self, names: Sequence[str], mistakes: Mistakes) -> None:
        """Fixed columns and outcomes are the same in all rows of an episode, gaps apart."""
        for column in self.schema.of("fixed", "outcome"):
            values = self.values[column.name]
            first = self._first_known(np.isfinite(values))
            differs = np.isfinite(values) & (first >= 0) & (values != values[first])
            for place in np.flatnonzero(differs):
                row, earlier = (int(self.rows[i, ROW]) for i in (place, first[place]))
                name = names[int(self.rows[place, EPISODE])]
                advice = "state" if column.role == "fixed" else "ignore"
                problem = f", column {column.name!r}: differs from {mistakes.place(earlier)} of "
                problem += f"episode {name!r}, but its role is {column.role!r}; correct it, or use "
                mistakes.in_row(row, f"{problem}role = {advice!r}", f"changes {column.name}")

    def _first_known(self, known: BoolArray) -> IntArray:
        """(n,) the first row of the same episode with a value, -1 if there is none."""
        n = len(known)
        places = np.where(known, np.arange(n), n)
        earliest = np.repeat(np.minimum.reduceat(places, self.starts), self.lengths)
        return np.where(earliest < n, earliest, -1)

    def _check_rewards(self, mistakes: Mistakes) -> None:
        """Every step that counts has earned something known."""
        for name in (column.name for column in self.schema.rewards):
            earned = self.values[name]
            problem = "is missing; say what the step earned"
            self._report(np.isnan(earned) & self.decides, name, problem, mistakes)
            if self.schema.is_discrete:
                idle = ~self.has_action & np.isfinite(earned) & (earned != 0.0)
                problem = "is earned without an action; move it to the row of the action that "
                self._report(idle, name, f"{problem}earned it", mistakes)

    def _report(self, wrong: BoolArray, name: str, problem: str, mistakes: Mistakes) -> None:
        rows = self.rows[wrong, ROW].astype(np.int64)
        mistakes.in_rows(name, problem, np.sort(rows).tolist())

    def fill(self, means: Mapping[str, float], mistakes: Mistakes) -> dict[str, Filled]:
        """Fill the gaps by the policies of their columns and count them; report those that stay."""
        counts = {}
        for column in self.schema.used:
            if column.role in ("reward", "cost", "outcome"):
                continue
            values = self.values[column.name]
            gap = np.isnan(values)
            if not gap.any():
                continue
            used = self.decides if column.role in ("action", "contextual") else True
            source = self._source(column, gap)
            mean = means.get(column.name, np.nan) if column.size is None else np.nan
            carried = gap & (source >= 0)
            averaged = gap & ~carried & (column.missing != REFUSE) & np.isfinite(mean)
            left = gap & ~carried & ~averaged & used
            self._report(left, column.name, self._why_left(column), mistakes)
            values[carried], values[averaged] = values[source[carried]], mean
            carried, averaged = carried & used, averaged & used
            self.filled += carried | averaged
            if column.role == "state":
                self.guessed |= carried | averaged
            counts[column.name] = Filled(int(carried.sum()), int(averaged.sum()))
        return counts

    def carried(self, column: Column) -> FloatArray:
        """(n,) the numbers of a column, gaps filled from the same episode where they can be."""
        values = self.values[column.name]
        source = self._source(column, np.isnan(values))
        return np.asarray(np.where(np.isnan(values) & (source >= 0), values[source], values))

    def _source(self, column: Column, gap: BoolArray) -> IntArray:
        """(n,) the row of the same episode whose value is taken for a gap, -1 if there is none."""
        if column.missing != REFUSE and column.role == "fixed":
            return self._first_known(~gap)
        if column.missing not in (CARRY, MEDIAN):
            return np.full(len(gap), -1)
        latest = np.maximum.accumulate(np.where(gap, -1, np.arange(len(gap))))
        return np.where(latest >= np.repeat(self.starts, self.lengths), latest, -1)

    def _why_left(self, column: Column) -> str:
        if column.missing == CARRY and column.size is not None:
            return "is missing, and nothing stands before it in the episode to carry forward"
        if column.missing != REFUSE:
            return (
                "is missing, and no mean is known: no row of the table that the model is learned "
                "from has a value; give one, or ignore the column"
            )
        if column.role == "action" and not self.schema.is_plain:
            return (
                "is missing; fill it in: only the last row of an episode may be without an action"
            )
        choices = "'carry-forward'" if column.size is not None else "'carry-forward' or 'mean'"
        return f"is missing; fill it in, or say missing = {choices} in the schema"

    def episodes(
        self, names: Sequence[str], outcomes: Sequence[Sequence[str]]
    ) -> Iterator[Recorded]:
        """The episodes without mistakes or gaps; `outcomes` are the texts of each such column."""
        schema = self.schema
        states: NDArray[Any] = self.columns(schema.features)
        actions: NDArray[Any] = self.columns(schema.components)
        if schema.is_discrete:
            chosen = schema.of("action")
            states = _cells(schema.features, states)
            cells = np.full(len(self.rows), len(Grid(chosen)))
            cells[self.has_action] = _cells(chosen, actions[self.has_action])
            actions = cells
        places = self.rows[:, ROW].astype(np.int64)
        earned = None
        if schema.rewards:
            # The columns weighted and added up.
            parts = np.array([one.merit * self.values[one.name] for one in schema.rewards])
            earned = np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))
        about = [
            (column.name, self.values[column.name], texts)
            for column, texts in zip(schema.of("outcome"), outcomes, strict=True)
        ]
        for number, start, length in zip(self.numbers, self.starts, self.lengths, strict=True):
            rows = slice(int(start), int(start + length))
            decisions = slice(rows.start, rows.stop if schema.is_discrete else rows.stop - 1)
            yield Recorded(
                Episode(states[rows], actions[decisions], id=names[int(number)]),
                self.times[rows],
                int(self.filled[rows].sum()),
                (
                    *((name, _outcome(codes[rows], texts)) for name, codes, texts in about),
                    *((one.name, _last(self.values[one.name][rows])) for one in schema.finals),
                ),
                None if earned is None else earned[rows],
                places[rows],
                date_texts(self.rows[rows, TIME], self._zone) if schema.dates else (),
                self.guessed[rows],
            )


def _cells(columns: tuple[Column, ...], values: FloatArray) -> IntArray:
    """(n,) values (n, columns) as one number each."""
    if columns[0].levels == ():
        return values[:, 0].astype(np.int64)
    return Grid(columns).cells(values)


def _outcome(codes: FloatArray, texts: Sequence[str]) -> str:
    known = codes[np.isfinite(codes)]
    return texts[int(known[0])] if known.size else ""


def _last(values: FloatArray) -> str:
    known = values[np.isfinite(values)]
    return "" if not known.size else repr(float(known[-1])).removesuffix(".0")
