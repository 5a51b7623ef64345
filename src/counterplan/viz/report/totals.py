"""What all cases of a run of explanations come to, read file by file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from counterplan.cohort.cases import STATUSES
from counterplan.cohort.tables import RESULTS
from counterplan.viz.report.source import Source

if TYPE_CHECKING:
    import polars as pl

# Differences below this are rounding.
ROUNDING = 1e-9
# Reasons, and changes that recur, which are told one by one.
MOST_REASONS, MOST_RECURRING = 20, 12
# Cases that are named with a reason.
NAMED = 3


@dataclass(frozen=True)
class Failure:
    """Why some cases failed: (id, reason) of the first ones, and how many there are."""

    examples: tuple[tuple[str, str], ...]
    count: int


@dataclass(frozen=True)
class Recurring:
    """A change that many cases have: what it is, how many changes, in how many cases."""

    what: str
    changes: int
    cases: int


@dataclass(frozen=True, eq=False)
class Totals:
    """Numbers over all cases for the budget that is reported on.

    statuses    how many have each
    improvable  how many can be improved at all
    gains       all finite improvements
    by_budget   (k, mean value) over cases that are finite for every budget
    observed    mean of what was observed over the same cases
    supported   (supported, not supported); what is not known is in neither
    holds       how many improve in every causal model; None if that was not asked
    far         cases that lie far outside what the model has learned from
    """

    cases: int
    statuses: dict[str, int]
    improvable: int
    gains: list[float]
    by_budget: tuple[tuple[int, float], ...]
    observed: float
    supported: tuple[int, int]
    holds: int | None
    far: int
    failures: tuple[Failure, ...]
    recurring: tuple[Recurring, ...]

    @property
    def explained(self) -> int:
        """Cases that did not fail."""
        return self.cases - self.statuses["failed"]

    @property
    def mean_gain(self) -> float:
        """Over cases whose improvement is finite; nan if there are none."""
        return math.fsum(self.gains) / len(self.gains) if self.gains else math.nan

    @property
    def median_gain(self) -> float:
        """Likewise."""
        if not self.gains:
            return math.nan
        middle, ordered = len(self.gains) // 2, sorted(self.gains)
        return ordered[middle] if len(ordered) % 2 else sum(ordered[middle - 1 : middle + 1]) / 2


def totals_of(source: Source) -> Totals:
    """Read the results once for each kind of number."""
    import polars as pl

    results = source.results()
    known = pl.col("status") != "failed"
    holds = known & (pl.col("interval_low") > pl.col("factual") + ROUNDING)
    numbers = results.select(
        cases=pl.len(),
        **{name: (pl.col("status") == name).sum() for name in STATUSES},
        improvable=(known & (pl.col("improvement") > ROUNDING)).sum(),
        seen=pl.col("supported").sum(),
        unseen=pl.col("supported").not_().sum(),
        holds=holds.sum(),
        asked=pl.col("interval_low").is_not_null().any(),
        far=(pl.col("far_outside_training").fill_null("") != "").sum(),
    )
    found: dict[str, Any] = numbers.collect(engine="streaming").row(0, named=True)
    gains = results.filter(known, pl.col("improvement").is_finite()).select("improvement")
    observed, by_budget = _by_budget(source)
    return Totals(
        cases=int(found["cases"]),
        statuses={name: int(found[name]) for name in STATUSES},
        improvable=int(found["improvable"]),
        gains=gains.collect(engine="streaming")["improvement"].to_list(),
        by_budget=by_budget,
        observed=observed,
        supported=(int(found["seen"] or 0), int(found["unseen"] or 0)),
        holds=int(found["holds"]) if found["asked"] else None,
        far=int(found["far"]),
        failures=_failures(results),
        recurring=_recurring(source),
    )


def _by_budget(source: Source) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Means over the cases whose outcomes are finite for every budget."""
    import polars as pl

    table = source.run.scan(RESULTS).filter(pl.col("status") != "failed")
    infinite = table.filter(~(pl.col("value").is_finite() & pl.col("factual").is_finite()))
    finite = table.join(infinite.select("episode_id").unique(), on="episode_id", how="anti")
    means = finite.group_by("k").agg(pl.col("value", "factual").mean()).sort("k").collect()
    if means.is_empty():
        return math.nan, ()
    pairs = zip(means["k"].to_list(), means["value"].to_list(), strict=True)
    return float(means["factual"][0]), tuple((int(k), float(value)) for k, value in pairs)


def _failures(results: pl.LazyFrame) -> tuple[Failure, ...]:
    """By reason, the most frequent first. Reasons that name their case differ for every one: they
    are held together by what they say once the name is out."""
    import polars as pl

    failed = results.filter(pl.col("status") == "failed").select("episode_id", "reason").collect()
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for name, reason in failed.iter_rows():
        text = reason or "no reason is known"
        by_reason.setdefault(text.replace(name, "") if name else text, []).append((name, text))
    ordered = sorted(by_reason.values(), key=lambda cases: -len(cases))[:MOST_REASONS]
    return tuple(Failure(tuple(cases[:NAMED]), len(cases)) for cases in ordered)


def _recurring(source: Source) -> tuple[Recurring, ...]:
    """The most frequent changes: of a dose up or down, or from one action to another."""
    import polars as pl

    change, part = pl.col("changes").struct, pl.col("parts").struct
    every = source.results().select("episode_id", "changes").explode("changes")
    every = every.drop_nulls("changes").select(
        "episode_id",
        change.field("parts"),
        what=change.field("observed_label") + " → " + change.field("alternative_label"),
    )
    ordered = [dose.name for dose in source.labels.doses if dose.levels is not None]
    named = pl.element().struct.field("name").is_in(ordered)
    # Of what has no order there is no more and less.
    has_order = (pl.col("parts").list.len() > 0) & pl.col("parts").list.eval(named).list.all()
    moved = every.filter(has_order).explode("parts")
    direction = pl.when(part.field("alternative") > part.field("observed"))
    worded = part.field("name") + direction.then(pl.lit(" raised")).otherwise(pl.lit(" lowered"))
    together = pl.concat(
        [
            moved.select("episode_id", what=worded),
            every.filter(~has_order).select("episode_id", "what"),
        ]
    )
    counts = together.group_by("what").agg(changes=pl.len(), cases=pl.col("episode_id").n_unique())
    ranked = counts.sort(["changes", "what"], descending=[True, False]).head(MOST_RECURRING)
    rows = ranked.collect().iter_rows()
    return tuple(Recurring(str(what), int(n), int(cases)) for what, n, cases in rows)
