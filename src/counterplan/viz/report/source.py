"""A run of explanations opened for its report: the model, the question, and the words for both."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.files import read_bytes
from counterplan.errors import FileError, InputError
from counterplan.runs.question import (
    ContinuousExplainer,
    DiscreteExplainer,
    Explainer,
    Question,
    question_from_dict,
    stored_explainer,
)
from counterplan.runs.run import RESULTS, STATUSES, TRAJECTORIES, Run, Terms
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.schema import Column
from counterplan.viz.labels import Labels, Quantity, labels_of
from counterplan.viz.page import Panel

if TYPE_CHECKING:
    import polars as pl

    from counterplan.scm.neural import NeuralSCM

# ----------------------------------------------------------------------------------------------
# How the cases of a report are called: by their ids, or by pseudonyms that do not lead back.
#
# A pseudonym is the start of a keyed hash (HMAC-SHA256) of the id. Without the key nobody can find
# out whose it is by trying ids; with the same key the same id has the same pseudonym everywhere.

# Keys that are shorter could be tried one after another.
SHORTEST_KEY = 16
# Twelve letters of five bits: of a million ids two share one with a chance of 4 in 10 million.
LETTERS, GROUP = 12, 4
SHORT = 4


@dataclass(frozen=True)
class Names:
    """What ids are shown as; `key` None for the ids themselves."""

    key: bytes | None = None

    @property
    def hidden(self) -> bool:
        """Whether ids are replaced."""
        return self.key is not None

    def shown(self, name: str) -> str:
        """What stands for an id."""
        if self.key is None:
            return name
        digest = hmac.new(self.key, name.encode(), hashlib.sha256).digest()
        text = base64.b32encode(digest).decode("ascii")[:LETTERS]
        return "-".join(["P", *(text[i : i + GROUP] for i in range(0, LETTERS, GROUP))])

    def within(self, text: str, name: str) -> str:
        """A text about the case `name`, in which it may be called by its id."""
        if self.key is None or not name:
            return text
        for written in dict.fromkeys((repr(name), repr(name)[1:-1], name)):
            pattern = re.escape(written)
            # A short id may well be part of a word that has nothing to do with it.
            if len(name) < SHORT:
                pattern = rf"(?<!\w){pattern}(?!\w)"
            text = re.sub(pattern, self.shown(name), text)
        return text


def pseudonyms(key_file: Path | None = None) -> Names:
    """Pseudonyms by the key in a file, or by a random one that is kept nowhere."""
    if key_file is None:
        return Names(secrets.token_bytes(32))
    key = read_bytes(key_file, "the key of pseudonyms")
    if len(key) < SHORTEST_KEY:
        raise FileError(
            f"{key_file}: has {len(key)} bytes, too few for a key; give at least {SHORTEST_KEY} "
            "random ones"
        )
    return Names(key)


# ----------------------------------------------------------------------------------------------

# What a model may tell of itself in `about`, for those who look at its answers: how the outcome is
# called, how severe each discrete state is (null where a course is over), and what else there is to
# know about it, in sentences.
OUTCOME, SEVERITY, NOTES = "outcome", "severity", "notes"


@dataclass(frozen=True, eq=False)
class Source:
    """All that a report of explanations is made of.

    k         the budget that is reported on
    budgets   all that were asked about
    explainer   the model with the words for its actions
    quantity  what an outcome is
    labels    names of features and doses
    """

    run: Run
    names: Names
    k: int
    budgets: tuple[int, ...]
    question: Question
    explainer: Explainer
    terms: Terms
    quantity: Quantity
    labels: Labels

    @property
    def model(self) -> TabularMDP | NeuralSCM:
        """The model itself."""
        return self.explainer.model

    @property
    def outcomes(self) -> list[str]:
        """What the table tells of an episode besides."""
        return list(self.run.description["outcomes"])

    @property
    def outcome(self) -> str:
        """What the outcome is, in words."""
        quantity = self.quantity
        if quantity.name != Quantity().name:
            return f"{quantity.name} ({quantity.unit})" if quantity.unit else quantity.name
        return quantity.unit or "the sum of the model's rewards"

    def results(self) -> pl.LazyFrame:
        """The results for the budget that is reported on."""
        import polars as pl

        return self.run.scan(RESULTS).filter(pl.col("k") == self.k)

    def rows_of(self, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
        """By episode: its results for all budgets, in rising order."""
        return self._by_episode(RESULTS, ids, None, "k")

    def courses_of(self, ids: list[str]) -> dict[str, list[dict[str, Any]]]:
        """By episode: its steps for the budget that is reported on."""
        return self._by_episode(TRAJECTORIES, ids, self.k, "t")

    def _by_episode(
        self, table: str, ids: list[str], k: int | None, order: str
    ) -> dict[str, list[dict[str, Any]]]:
        import polars as pl

        wanted = pl.col("episode_id").is_in(ids)
        if k is not None:
            wanted &= pl.col("k") == k
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ids}
        for row in self.run.scan(table).filter(wanted).sort(order).collect().iter_rows(named=True):
            found[row["episode_id"]].append(row)
        return found


def open_source(run: Run, names: Names, k: int | None = None) -> Source:
    """A run with its model; `k` None for the largest budget."""
    about = run.description
    budgets = run.budgets
    if k is not None and k not in budgets:
        there = ", ".join(map(str, budgets))
        raise InputError(f"{run.layout.out}: was run for k = {there}, not for {k}; choose one")
    try:
        explainer = stored_explainer(about, run.file)
        question = question_from_dict(about["question"])
    except (KeyError, TypeError) as problem:
        raise FileError(
            f"{run.layout.manifest}: is damaged: {problem}; make the run anew"
        ) from None
    labels = _labels(explainer)
    return Source(
        run,
        names,
        budgets[-1] if k is None else k,
        tuple(budgets),
        question,
        explainer,
        run.terms,
        _quantity(explainer.model.about, labels, explainer),
        labels,
    )


def _labels(explainer: Explainer) -> Labels:
    if isinstance(explainer, ContinuousExplainer):
        return labels_of(explainer.layout)
    assert isinstance(explainer, DiscreteExplainer)
    found = labels_of(explainer.mdp if explainer.layout is None else explainer.layout)
    return _with_severity(found, explainer.mdp)


def _with_severity(labels: Labels, mdp: TabularMDP) -> Labels:
    """What the model knows of the severity of its states, instead of their names."""
    given = mdp.about.get(SEVERITY)
    if given is None:
        return labels
    if not isinstance(given, Mapping) or not isinstance(given.get("values"), list):
        raise FileError("the model's severity of states is damaged; save the model anew")
    try:
        levels = [math.nan if level is None else float(level) for level in given["values"]]
        column = Column(
            str(given["name"]), "state", unit=str(given.get("unit", "")), better=given.get("better")
        )
    except (KeyError, TypeError, ValueError):
        raise FileError("the model's severity of states is damaged; save the model anew") from None
    if len(levels) != mdp.n_states or column.better not in (None, "lower", "higher"):
        raise FileError("the model's severity does not fit its states; save the model anew")
    endings = {s: mdp.state_name(s) for s, level in enumerate(levels) if math.isnan(level)}
    return replace(
        labels, features=(column,), states=np.array(levels)[:, np.newaxis], endings=endings
    )


def _quantity(about: Mapping[str, Any], labels: Labels, explainer: Explainer) -> Quantity:
    """How the model calls its outcome, or what the features that are good or bad make it."""
    given = about.get(OUTCOME)
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return Quantity(given["name"], given.get("percent") is True, str(given.get("unit", "")))
    if isinstance(explainer, DiscreteExplainer) and explainer.layout is None:
        return Quantity()
    good = [column for column in labels.features if column.better]
    if not good:
        return Quantity()
    weighted = " ".join(_worth(column) for column in good)
    return Quantity(unit=f"summed {weighted.removeprefix('+ ')}")


def _worth(column: Column) -> str:
    sign = "−" if column.merit < 0 else "+"
    weight = "" if abs(column.merit) == 1.0 else f"{abs(column.merit):g} × "
    name = f"{weight}{column.name}"
    return f"{sign}{name}" if sign == "−" else f"+ {name}"


# ----------------------------------------------------------------------------------------------
# What can be asked of a report, and what comes out.

# Cases in the table of a report; `counterplan cases` lists all of any run.
MOST_ROWS = 20_000
CASES = 10


@dataclass(frozen=True)
class ReportOptions:
    """What to report.

    k       the budget; None for the largest of the run
    cases   how many cases are looked at closely
    case    one case alone, by its id
    names   how cases are called
    """

    k: int | None = None
    cases: int = CASES
    case: str | None = None
    names: Names = field(default_factory=Names)


@dataclass(frozen=True, eq=False)
class Report:
    """The page as text, and its figures."""

    html: str
    panels: tuple[Panel, ...]


# ----------------------------------------------------------------------------------------------
# What all cases of a run of explanations come to, read file by file.

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
