"""Episode tables of any size, read by a schema: the whole table is checked before any of it is
used, and then given part by part.

    with open_table("episodes.csv", read_schema("schema.toml")) as table:
        for part in table.parts(50):
            ...                           # a list of 50 episodes, in order of first appearance

The rows of an episode may lie anywhere in the table. Memory holds the names of episodes and a few
hundred episodes at a time; all other numbers wait in a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.tables.entries import BAD, GAPS, Entries, Filled, fill
from counterplan.tables.grid import Grid
from counterplan.tables.mistakes import Mistakes
from counterplan.tables.parts import Recorded
from counterplan.tables.reader import Block, Spill, TableFile, open_table_file
from counterplan.tables.schema import CARRY, REFUSE, Column, Schema

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# Rows of numbers gathered to episodes: put in order, checked, gaps filled.
#
# A row is episode, row in the file, time, and then the schema's columns as `RowPlan` lists them.

EPISODE, ROW, TIME = range(3)
LEADING = 3
LONGEST_EPISODE = 1_000_000
# Two times are as far apart as they should be, but for rounding.
SAME = 1e-6


class GatherNotes(NamedTuple):
    """An episode, and what its steps earned: (T,), nan where the table does not say, or None."""

    recorded: Recorded
    rewards: FloatArray | None


@dataclass(frozen=True)
class RowPlan:
    """Where the numbers of a row stand."""

    schema: Schema

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All columns that are read."""
        schema = self.schema
        return (*schema.features, *schema.components, *schema.of("reward", "outcome"))

    @cached_property
    def place(self) -> dict[str, int]:
        """Where the numbers of a column stand in a row."""
        return {column.name: LEADING + place for place, column in enumerate(self.columns)}

    @property
    def width(self) -> int:
        return LEADING + len(self.columns)

    def places(self, columns: Sequence[Column]) -> list[int]:
        """Likewise for some columns."""
        return [self.place[column.name] for column in columns]


class Bucket:
    """The rows of some whole episodes, sorted by episode and time."""

    def __init__(self, plan: RowPlan, rows: FloatArray) -> None:
        known = rows[np.isfinite(rows[:, TIME])]
        self.plan, self.schema = plan, plan.schema
        self.rows = known[np.lexsort((known[:, ROW], known[:, TIME], known[:, EPISODE]))]
        # Where a time is wrong, the steps of the episode are not looked at.
        self.doubtful = np.unique(rows[~np.isfinite(rows[:, TIME]), EPISODE])
        self.numbers, self.starts = np.unique(self.rows[:, EPISODE], return_index=True)
        self.lengths = np.diff(np.append(self.starts, len(self.rows)))
        self.first = np.repeat(self.starts, self.lengths)
        self.is_last = np.zeros(len(self.rows), dtype=np.bool_)
        self.is_last[self.starts + self.lengths - 1] = True

    def column(self, column: Column) -> FloatArray:
        """(n,) the numbers of a column, nan where there is a gap."""
        return self.rows[:, self.plan.place[column.name]]

    @cached_property
    def has_action(self) -> BoolArray:
        """(n,) rows with an action; only the last of an episode may be without."""
        given = self.rows[:, self.plan.places(self.schema.of("action"))]
        return ~(self.is_last & np.isnan(given).all(axis=1))

    @cached_property
    def decides(self) -> BoolArray:
        """(n,) rows whose action counts: in continuous problems the last one leads nowhere."""
        return self.has_action if self.schema.is_discrete else ~self.is_last


class Completed(NamedTuple):
    """A bucket without gaps: its values, how many were filled in each row, and by column."""

    values: FloatArray
    filled: IntArray
    counts: dict[str, Filled]


def complete(bucket: Bucket, means: Mapping[str, float], mistakes: Mistakes) -> Completed:
    """Fill the gaps of a bucket; those that may not be are reported."""
    values, filled = bucket.rows.copy(), np.zeros(len(bucket.rows), dtype=np.int64)
    counts: dict[str, Filled] = {}
    schema, everywhere = bucket.schema, np.ones(len(bucket.rows), dtype=np.bool_)
    for column in (*schema.features, *schema.components):
        used = bucket.decides if column.role in ("action", "contextual") else everywhere
        result = fill(bucket.column(column), bucket.first, column, means.get(column.name, np.nan))
        _report(bucket, result.left & used, column, _why_left(column), mistakes)
        values[:, bucket.plan.place[column.name]] = result.values
        carried, averaged = result.carried & used, result.averaged & used
        filled += carried | averaged
        counts[column.name] = Filled(int(carried.sum()), int(averaged.sum()))
    return Completed(values, filled, counts)


def _why_left(column: Column) -> str:
    if column.missing == CARRY and column.size is not None:
        return "is missing, and nothing stands before it in the episode to carry forward"
    if column.missing != REFUSE:
        return (
            "is missing, and no mean is known: no row of the table that the model is learned from "
            "has a value; give one, or ignore the column"
        )
    if column.role == "action":
        return "is missing; fill it in: only the last row of an episode may be without an action"
    choices = "'carry-forward'" if column.size is not None else "'carry-forward' or 'mean'"
    return f"is missing; fill it in, or say missing = {choices} in the schema"


def check_steps(bucket: Bucket, names: Sequence[str], mistakes: Mistakes) -> None:
    """Times of an episode rise by the schema's increment; no episode is endless."""
    schema, rows = bucket.schema, bucket.rows
    for number, length, start in zip(bucket.numbers, bucket.lengths, bucket.starts, strict=True):
        if length > LONGEST_EPISODE:
            problem = f": episode {names[int(number)]!r} has {length:,} rows, more than "
            problem += f"{LONGEST_EPISODE:,}; are its rows those of several episodes?"
            mistakes.in_row(int(rows[start, ROW]), problem, "long")
    times = rows[:, TIME]
    step = np.diff(times, prepend=times[:1])
    tolerance = SAME * schema.increment + 1e-12 * np.abs(times)
    wrong = np.abs(step - schema.increment) > tolerance
    wrong[bucket.starts] = False
    wrong &= ~np.isin(rows[:, EPISODE], bucket.doubtful)
    for place in np.flatnonzero(wrong):
        name, before = names[int(rows[place, EPISODE])], rows[place - 1]
        now = f", column {schema.time!r}: {times[place]:g}"
        if step[place] <= tolerance[place]:
            kind = "twice"
            problem = f"{now} occurs twice in episode {name!r}, in row {int(before[ROW])} too; "
            problem += "keep one of them"
        else:
            kind, due = "gap", before[TIME] + schema.increment
            problem = f"{now} follows {before[TIME]:g} in episode {name!r}; expected {due:g}: add "
            problem += "the missing row, or correct `increment` in [table] of the schema"
        mistakes.in_row(int(rows[place, ROW]), problem, kind)


def check_constant(bucket: Bucket, names: Sequence[str], mistakes: Mistakes) -> None:
    """Fixed columns and outcomes are the same in all rows of an episode, gaps apart."""
    for column in bucket.schema.of("fixed", "outcome"):
        values = bucket.column(column)
        known = np.isfinite(values)
        places = np.where(known, np.arange(len(values)), len(values))
        earliest = np.minimum.reduceat(places, bucket.starts)
        reference = np.repeat(earliest, bucket.lengths)
        compared = known & (reference < len(values))
        differs = np.zeros(len(values), dtype=np.bool_)
        differs[compared] = values[compared] != values[reference[compared]]
        for place in np.flatnonzero(differs):
            row, earlier = (int(bucket.rows[i, ROW]) for i in (place, reference[place]))
            name = names[int(bucket.rows[place, EPISODE])]
            advice = "state" if column.role == "fixed" else "ignore"
            problem = f", column {column.name!r}: differs from row {earlier} of episode {name!r}, "
            problem += f"but its role is {column.role!r}; correct it, or use role = {advice!r}"
            mistakes.in_row(row, problem, f"changes {column.name}")


def check_rewards(bucket: Bucket, mistakes: Mistakes) -> None:
    """Every step that counts has earned something known."""
    column = bucket.schema.reward
    if column is None:
        return
    earned, is_discrete = bucket.column(column), bucket.schema.is_discrete
    needed = bucket.has_action if is_discrete else ~bucket.is_last
    problem = "is missing; say what the step earned"
    _report(bucket, np.isnan(earned) & needed, column, problem, mistakes)
    if is_discrete:
        idle = ~bucket.has_action & np.isfinite(earned) & (earned != 0.0)
        problem = "is earned without an action; move it to the row of the action that earned it"
        _report(bucket, idle, column, problem, mistakes)


def _report(
    bucket: Bucket, wrong: BoolArray, column: Column, problem: str, mistakes: Mistakes
) -> None:
    rows = bucket.rows[wrong, ROW].astype(np.int64)
    if rows.size:
        mistakes.in_rows(column.name, problem, np.sort(rows).tolist())


def told(
    bucket: Bucket, completed: Completed, names: Sequence[str], outcomes: Sequence[Sequence[str]]
) -> Iterator[GatherNotes]:
    """The episodes of a bucket without mistakes; `outcomes` are the texts of each such column."""
    plan, schema, values = bucket.plan, bucket.schema, completed.values
    states: NDArray[Any] = values[:, plan.places(schema.features)]
    actions: NDArray[Any] = values[:, plan.places(schema.components)]
    if schema.is_discrete:
        choices = Grid(schema.of("action"))
        states = Grid(schema.features).cells(states)
        cells = np.full(len(values), len(choices))
        cells[bucket.has_action] = choices.cells(actions[bucket.has_action])
        actions = cells
    times = bucket.rows[:, TIME] * (schema.step / schema.increment)
    earned = None if schema.reward is None else bucket.column(schema.reward)
    for number, start, length in zip(bucket.numbers, bucket.starts, bucket.lengths, strict=True):
        rows = slice(int(start), int(start + length))
        decisions = slice(rows.start, rows.stop if schema.is_discrete else rows.stop - 1)
        episode = Episode(states[rows], actions[decisions], id=names[int(number)])
        about = tuple(
            (column.name, _outcome(bucket.column(column)[rows], texts))
            for column, texts in zip(schema.of("outcome"), outcomes, strict=True)
        )
        count = int(completed.filled[rows].sum())
        recorded = Recorded(episode, times[rows].copy(), count, about)
        yield GatherNotes(recorded, None if earned is None else earned[rows].copy())


def _outcome(codes: FloatArray, texts: Sequence[str]) -> str:
    known = codes[np.isfinite(codes)]
    return texts[int(known[0])] if known.size else ""


# ----------------------------------------------------------------------------------------------

# Episodes of a part unless the caller says otherwise.
PART = 50


@dataclass(eq=False)
class _Reading:
    """What is known of a table while its rows are read."""

    plan: RowPlan
    mistakes: Mistakes
    numbers: dict[str, int] = field(default_factory=dict)
    outcomes: list[dict[str, int]] = field(default_factory=list)
    sums: dict[str, tuple[float, int]] = field(default_factory=dict)
    rows: int = 0

    def __post_init__(self) -> None:
        self.outcomes = [{} for _ in self.plan.schema.of("outcome")]

    def numbered(self, block: Block) -> FloatArray:
        """The rows of a block as numbers; what is wrong is reported."""
        schema = self.plan.schema
        entries = Entries(block.texts, block.rows, self.mistakes)
        names = entries.names(schema.episode)
        table = np.empty((len(block.rows), self.plan.width))
        table[:, 0] = [self._number(name) for name in names]
        table[:, 1] = block.rows
        times = entries.numbers(schema.time)
        empty = np.flatnonzero(np.isnan(times))
        problem = "is empty; say which step of the episode it is"
        self.mistakes.in_rows(schema.time, problem, block.rows[empty].tolist())
        table[:, 2] = np.where(np.isnan(times), BAD, times)
        known_texts = iter(self.outcomes)
        for column in self.plan.columns:
            place = self.plan.place[column.name]
            if column.role == "outcome":
                table[:, place] = _codes(block.texts[column.name], next(known_texts))
                continue
            table[:, place] = entries.column(column)
            # Those that may have no gaps count as well: a later table may fill them with the mean.
            if column.role != "reward" and column.size is None:
                self._add(column.name, table[:, place])
        self.rows += len(block.rows)
        return table[table[:, 0] >= 0.0]

    def _number(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers)) if name else -1

    def _add(self, name: str, values: FloatArray) -> None:
        known = values[np.isfinite(values)]
        total, count = self.sums.get(name, (0.0, 0))
        self.sums[name] = total + float(known.sum()), count + known.size


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """A table without mistakes; use it in a `with` block, which ends its temporary file.

    rows      how many there are
    episodes  their names, in the order in which they first appear
    means     by column: of the values in the table, or as the caller knows them from a model
    filled    by column: how many gaps were filled
    """

    path: str | Path
    schema: Schema
    rows: int
    episodes: tuple[str, ...]
    means: Mapping[str, float]
    filled: Mapping[str, Filled]
    _spill: Spill
    _outcomes: tuple[tuple[str, ...], ...]

    def parts(self, size: int = PART) -> Iterator[list[Recorded]]:
        """The episodes, `size` at a time; the last part may be smaller."""
        every = (one.recorded for one in self.told())
        while part := list(islice(every, size)):
            yield part

    def told(self) -> Iterator[GatherNotes]:
        """The episodes one by one, with what their steps earned."""
        plan, unused = RowPlan(self.schema), Mistakes(self.path)
        for rows in self._spill.buckets():
            bucket = Bucket(plan, rows)
            completed = complete(bucket, self.means, unused)
            yield from told(bucket, completed, self.episodes, self._outcomes)

    def summary(self) -> str:
        """One line: how many episodes and steps, and how many gaps were filled."""
        text = f"{len(self.episodes):,} episodes, {self.rows:,} steps"
        total = sum(self.filled.values(), Filled())
        if not total.carried + total.mean:
            return text
        return f"{text}; gaps: {total.carried:,} carried forward, {total.mean:,} set to the mean"

    def close(self) -> None:
        """End the temporary file."""
        self._spill.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def open_table(
    path: str | Path, schema: Schema, means: Mapping[str, float] | None = None
) -> CheckedTable:
    """Check a whole .csv or .parquet table; all mistakes are one error, with a line for each.

    means  what gaps in columns with missing = "mean" stand for, as `means_of_model` gives them;
           None takes the means of this table
    """
    return check_blocks(open_table_file(path), schema, means)


def read_table(
    path: str | Path, schema: Schema, means: Mapping[str, float] | None = None
) -> list[Recorded]:
    """All episodes of a .csv or .parquet table, in the order in which they first appear."""
    with open_table(path, schema, means) as table:
        return [one for part in table.parts() for one in part]


def check_blocks(
    file: TableFile, schema: Schema, means: Mapping[str, float] | None = None
) -> CheckedTable:
    """Check a table whose header has been read."""
    plan, mistakes = RowPlan(schema), Mistakes(file.path)
    wanted = [schema.episode, schema.time, *(column.name for column in plan.columns)]
    file.check_columns(wanted)
    reading, spill = _Reading(plan, mistakes), Spill(plan.width)
    try:
        for block in file.blocks(wanted, mistakes):
            rows = reading.numbered(block)
            if len(rows):
                spill.add(rows)
        if not reading.rows:
            mistakes.in_file("has a header but no rows; give one for each step")
            mistakes.refuse()
        if mistakes.has_broken_rows:
            mistakes.refuse()  # rows that are left out would look like gaps
        names = tuple(reading.numbers)
        known = _means(reading, means)
        filled = _check(plan, spill, names, known, mistakes)
        mistakes.refuse()
    except BaseException:
        spill.close()
        raise
    outcomes = tuple(tuple(texts) for texts in reading.outcomes)
    return CheckedTable(file.path, schema, reading.rows, names, known, filled, spill, outcomes)


def _check(
    plan: RowPlan,
    spill: Spill,
    names: tuple[str, ...],
    means: Mapping[str, float],
    mistakes: Mistakes,
) -> dict[str, Filled]:
    counts: dict[str, Filled] = {}
    for rows in spill.buckets():
        bucket = Bucket(plan, rows)
        if not len(bucket.rows):
            continue
        check_steps(bucket, names, mistakes)
        check_constant(bucket, names, mistakes)
        check_rewards(bucket, mistakes)
        for name, filled in complete(bucket, means, mistakes).counts.items():
            counts[name] = counts.get(name, Filled()) + filled
    return counts


def _means(reading: _Reading, given: Mapping[str, float] | None) -> dict[str, float]:
    if given is not None:
        return dict(given)
    return {name: total / count for name, (total, count) in reading.sums.items() if count}


def _codes(texts: pl.Series, known: dict[str, int]) -> FloatArray:
    """(n,) the number of each text, nan where there is none."""
    # Whole numbers read alike however they are stored.
    plain = texts.str.replace(r"^(-?\d+)\.0+$", "$1")
    is_gap = texts.str.to_uppercase().is_in(GAPS)
    codes = [
        np.nan if gap else known.setdefault(text, len(known))
        for text, gap in zip(plain, is_gap, strict=True)
    ]
    return np.array(codes, dtype=np.float64)
