"""Rows of numbers gathered to episodes: put in order, checked, gaps filled.

A row is episode, row in the file, time, and then the schema's columns as `RowPlan` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.io.episode_parts import Recorded
from counterplan.io.missing import Filled, fill
from counterplan.io.mistakes import Mistakes
from counterplan.io.schema import Column, Schema
from counterplan.io.schema_checks import CARRY, REFUSE
from counterplan.io.schema_grid import Grid

EPISODE, ROW, TIME = range(3)
LEADING = 3
LONGEST_EPISODE = 1_000_000
# Two times are as far apart as they should be, but for rounding.
SAME = 1e-6


class Told(NamedTuple):
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
) -> Iterator[Told]:
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
        yield Told(recorded, None if earned is None else earned[rows].copy())


def _outcome(codes: FloatArray, texts: Sequence[str]) -> str:
    known = codes[np.isfinite(codes)]
    return texts[int(known[0])] if known.size else ""
