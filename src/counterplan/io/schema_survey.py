"""What the columns of a table hold, seen once from top to bottom: for the draft of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counterplan.errors import FileError
from counterplan.io.mistakes import Mistakes, shown
from counterplan.io.schema_entries import GAPS, as_number
from counterplan.io.table_blocks import TableFile, open_table_file

if TYPE_CHECKING:
    import polars as pl

# Columns with more different values are measurements, or names.
MOST_VALUES = 1_000
# Of so many episodes it is looked at whether a column changes within them.
WATCHED = 20_000


@dataclass
class Seen:
    """A column so far.

    values       its different texts, None if there are too many
    is_number    whether every value is a number
    is_constant  whether it has one value in each episode
    """

    name: str
    missing: int = 0
    values: set[str] | None = field(default_factory=set)
    is_number: bool = True
    is_constant: bool = True
    low: float = np.inf
    high: float = -np.inf
    _first: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it has no value at all."""
        return self.values is not None and not self.values

    @property
    def is_whole(self) -> bool:
        """Whether it holds a few different whole numbers."""
        return self.is_number and bool(self.values) and all(n.is_integer() for n in self.numbers())

    def numbers(self) -> list[float]:
        """Its different values as numbers, in order."""
        found = {as_number(value) for value in self.values or ()}
        return sorted(number for number in found if number is not None)

    def add(self, texts: pl.Series, episodes: pl.Series) -> None:
        """Look at some more rows."""
        import polars as pl

        gap = texts.str.to_uppercase().is_in(GAPS)
        known, owners = texts.filter(~gap), episodes.filter(~gap)
        self.missing += int(gap.sum())
        if not len(known):
            return
        if self.values is not None:
            self.values |= set(known.unique().to_list())
            if len(self.values) > MOST_VALUES:
                self.values = None
        if self.is_number:
            numbers = known.cast(pl.Float64, strict=False)
            self.is_number = not numbers.is_null().any() and bool(numbers.is_finite().all())
            if self.is_number:
                self.low = min(self.low, float(np.min(numbers.to_numpy())))
                self.high = max(self.high, float(np.max(numbers.to_numpy())))
        if self.is_constant:
            self._watch(known, owners)

    def _watch(self, known: pl.Series, owners: pl.Series) -> None:
        import polars as pl

        pairs = pl.DataFrame({"owner": owners, "value": known}).unique(maintain_order=True)
        for owner, value in pairs.iter_rows():
            if self._first.get(owner, value) != value:
                self.is_constant = False
                self._first.clear()
                return
            if len(self._first) < WATCHED:
                self._first[owner] = value


@dataclass(frozen=True)
class Survey:
    """A table: its columns but for those of episode and time, and how time goes on.

    odd_time  a time that is no number, empty if there is none
    """

    path: str | Path
    episode: str
    time: str
    increment: float
    columns: tuple[Seen, ...]
    rows: int
    episodes: int
    nameless: int
    odd_time: str


def survey(path: str | Path, episode_names: Sequence[str], time_names: Sequence[str]) -> Survey:
    """Look at a whole table; the names are those that its leading columns may have."""
    file = open_table_file(path)
    named = [name for name in file.header if name]
    file.check_columns(list(dict.fromkeys(named)))
    if len(named) < 2:
        raise FileError(
            f"{path}: has the column {shown(named[0])} only; add those of time, states and "
            "actions, separated by commas"
        )
    episode = _chosen(named, episode_names, named[0])
    others = [name for name in named if name != episode]
    time = _chosen(others, time_names, others[0])
    return _surveyed(file, named, episode, time)


def _surveyed(file: TableFile, named: Sequence[str], episode: str, time: str) -> Survey:
    mistakes = Mistakes(file.path)
    columns = [Seen(name) for name in named if name not in (episode, time)]
    names: set[str] = set()
    rows, steps, odd = 0, list[float](), ""
    for block in file.blocks(named, mistakes):
        owners = block.texts[episode]
        names |= set(owners.unique().to_list())
        rows += len(block.rows)
        if len(steps) < 2:
            steps.append(_usual_step(block.texts[time], owners))
        odd = odd or _no_number(block.texts[time])
        for column in columns:
            column.add(block.texts[column.name], owners)
    if not rows:
        mistakes.in_file("has a header but no rows; give one for each step")
    mistakes.refuse()
    known = [step for step in steps if step > 0.0]
    nameless = len(file.header) - len(named)
    increment = known[0] if known else 1.0
    return Survey(
        *(file.path, episode, time, increment, tuple(columns), rows, len(names), nameless, odd)
    )


def _no_number(texts: pl.Series) -> str:
    """The first text that is neither a number nor a gap, empty if there is none."""
    import polars as pl

    is_odd = texts.cast(pl.Float64, strict=False).is_null()
    odd = texts.filter(is_odd & ~texts.str.to_uppercase().is_in(GAPS))
    return str(odd[0]) if len(odd) else ""


def _usual_step(texts: pl.Series, owners: pl.Series) -> float:
    """By how much time mostly grows from one row of an episode to the next, 0 if it does not."""
    import polars as pl

    frame = pl.DataFrame({"owner": owners, "time": texts.cast(pl.Float64, strict=False)})
    frame = frame.filter(pl.col("time").is_finite()).sort("owner", "time", maintain_order=True)
    steps = frame.select(pl.col("time").diff().over("owner")).to_series().drop_nulls()
    usual = steps.filter(steps > 0.0).mode().sort()
    return float(usual[0]) if len(usual) else 0.0


def _chosen(header: Sequence[str], wanted: Sequence[str], usual: str) -> str:
    lower = {name.lower(): name for name in reversed(header)}
    return next((lower[name] for name in wanted if name in lower), usual)
