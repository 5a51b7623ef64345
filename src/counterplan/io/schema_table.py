"""Episode tables of any size, read by a schema: the whole table is checked before any of it is
used, and then given part by part.

    with open_table("episodes.csv", read_schema("schema.toml")) as table:
        for part in table.parts(50):
            ...                           # a list of 50 episodes, in order of first appearance

The rows of an episode may lie anywhere in the table. Memory holds the names of episodes and a few
hundred episodes at a time; all other numbers wait in a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.io.csv_blocks import Block
from counterplan.io.episode_parts import Recorded
from counterplan.io.missing import Filled
from counterplan.io.mistakes import Mistakes
from counterplan.io.schema import Schema
from counterplan.io.schema_entries import BAD, GAPS, Entries
from counterplan.io.schema_episodes import (
    Bucket,
    RowPlan,
    Told,
    check_constant,
    check_rewards,
    check_steps,
    complete,
    told,
)
from counterplan.io.spill import Spill
from counterplan.io.table_blocks import TableFile, open_table_file

if TYPE_CHECKING:
    import polars as pl

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

    def told(self) -> Iterator[Told]:
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
