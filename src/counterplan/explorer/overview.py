"""All items of a run at a glance: how many, what became of them, and how a number is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplan.cohort.cases import OUTCOME
from counterplan.explorer import models
from counterplan.explorer.folder import Folder, all_collected, collected
from counterplan.explorer.plain import number

if TYPE_CHECKING:
    import polars as pl

BARS = 32
# Outcomes with more values than this are not offered for choice.
MOST_VALUES = 12


def overview_of(
    folder: Folder, column: str, outcomes: list[str], k: int | None = None
) -> models.Overview:
    """Counts and spread of a column; `k` chooses among budgets where there are some."""
    import polars as pl

    frame = folder.results()
    if k is not None:
        frame = frame.filter(pl.col("k") == k)
    finite = pl.col(column).filter(pl.col(column).is_finite())
    numbers = {"mean": finite.mean(), "median": finite.median(), "low": finite.min()}
    statuses, spread = all_collected(
        [
            frame.group_by("status").len().sort("status"),
            frame.select(total=pl.len(), high=finite.max(), **numbers),
        ]
    )
    facts = spread.row(0, named=True)
    return models.Overview(
        k=k,
        total=facts["total"],
        statuses=dict(statuses.iter_rows()),
        supported=_supported(frame),
        mean=number(facts["mean"]),
        median=number(facts["median"]),
        largest=number(facts["high"]),
        bars=_bars(frame, column, facts),
        outcomes={name: _values(frame, OUTCOME + name) for name in outcomes},
    )


def _supported(frame: pl.LazyFrame) -> int | None:
    import polars as pl

    if "supported" not in frame.collect_schema():
        return None
    known = collected(frame.select(pl.col("supported").count(), yes=pl.col("supported").sum()))
    count, yes = known.row(0)
    return int(yes) if count else None


def _values(frame: pl.LazyFrame, column: str) -> list[str]:
    """The values of an outcome, none if they are too many to choose from."""
    found = collected(frame.select(column).unique().head(MOST_VALUES + 1))[column].drop_nulls()
    return sorted(found.to_list()) if len(found) <= MOST_VALUES else []


def _bars(frame: pl.LazyFrame, column: str, facts: dict[str, Any]) -> list[models.Bar]:
    """Counts in equal steps from the lowest to the highest number, or from zero if it is higher."""
    import polars as pl

    if facts["low"] is None:
        return []
    low, high = min(0.0, facts["low"]), facts["high"]
    width = (high - low) / BARS
    if not width > 0.0:
        return [models.Bar(low=low, high=high, count=facts["total"])]
    bar = ((pl.col(column) - low) / width).floor().clip(0, BARS - 1).cast(pl.Int64)
    chosen = frame.filter(pl.col(column).is_finite()).select(bar=bar)
    counts = dict(collected(chosen.group_by("bar").len()).iter_rows())
    return [
        models.Bar(low=low + i * width, high=low + (i + 1) * width, count=counts.get(i, 0))
        for i in range(BARS)
    ]
