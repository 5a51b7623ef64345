"""The report of a run of explanations: what all cases come to, their ranking, and the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import counted
from counterplan.counterfactual.support import TOLERATED
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import support_in_words
from counterplan.runs.question import ContinuousExplainer, DiscreteExplainer
from counterplan.runs.run import RESULTS, STATUSES, TRAJECTORIES, CaseQuery, Run
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.fit import poor_fit
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.schema import Column
from counterplan.viz.labels import Labels, labels_of
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.case import Case, ExplainedRun, cohort_panels, make_case
from counterplan.viz.report.page import (
    MOST_ROWS,
    Panel,
    Pseudonyms,
    RankingColumn,
    Report,
    ReportOptions,
    arrow,
    number_cell,
    ranking_table,
    render,
)

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, Any]
# What a model may tell of itself in `about`, for those who look at its answers: how the outcome is
# called, how severe each discrete state is (null where a course is over), and what else there is to
# know about it, in sentences.
OUTCOME, SEVERITY, NOTES = "outcome", "severity", "notes"
# How statuses are called, and what they mean.
STATUS_WORDS = {
    "optimal": ("proved optimal", "no other choice of so few changes is better in this model"),
    "limit": ("stopped at a limit", "the best may be better, by at most the gap"),
    "heuristic": ("without proof", "a simple method, to compare with"),
    "failed": ("failed", "there is no answer; the reasons are below"),
}
# Differences below this are rounding.
ROUNDING = 1e-9
# Reasons, and changes that recur, which are told one by one; cases that are named with a reason.
MOST_REASONS, MOST_RECURRING, MOST_NAMED = 20, 12, 3
# Values of a column that are listed one by one.
MOST_VALUES = 8


def explain_report(run: Run, options: ReportOptions) -> Report:
    """The page about all cases of a run, or about one of them."""
    source = explained_run(run, options.pseudonyms, options.k)
    if options.case is not None:
        rows = run.rows_of(RESULTS, [options.case], source.k)[options.case]
        if not rows:
            noun = run.terms.noun
            raise InputError(f"{run.folder}: has no {noun} {options.case!r}; check it")
        cases = _cases(source, rows, [0])
        return _page(source, cases, single=True, totals=None)
    totals = totals_of(source)
    ranked = run.cases(CaseQuery(k=source.k, limit=MOST_ROWS)).to_dicts()
    panels = cohort_panels(source, totals, ranked)
    chosen = ranked[: options.cases]
    cases = _cases(source, chosen, range(1, len(chosen) + 1))
    total = totals["cases"] - totals["statuses"]["failed"]
    ranking = _ranking(source, ranked, cases)
    return _page(source, cases, panels, single=False, totals=totals, ranking=ranking, total=total)


def _page(
    source: ExplainedRun, cases: Sequence[Case], panels: Sequence[Panel] = (), **more: Any
) -> Report:
    run, model = source.run, source.run.model
    notes = model.about.get(NOTES)
    is_text = isinstance(notes, list) and all(isinstance(text, str) for text in notes)
    training = training_of(model)
    visits = model.visits if isinstance(model, TabularMDP) else None
    context = {
        "run": run,
        "pseudonyms": source.pseudonyms,
        "k": source.k,
        "quantity": source.quantity,
        "labels": source.labels,
        "outcome": source.outcome,
        "cases": cases,
        "panels": panels,
        "statuses": STATUS_WORDS,
        "tolerated": TOLERATED,
        "training": training,
        "poor_fit": poor_fit(model) if training and isinstance(model, NeuralSCM) else None,
        "median_visits": 0 if visits is None else int(np.median(visits[visits > 0])),
        "notes": notes if is_text else (),
        "columns": _columns(source),
        **more,
    }
    shown = (*panels, *(panel for case in cases for panel in case.panels))
    return Report(render("explain.html", context), shown)


def _cases(source: ExplainedRun, chosen: Sequence[Row], ranks: Sequence[int]) -> list[Case]:
    """The cases that have a section of their own; rank 0 for a case alone."""
    run, ids = source.run, [row["episode_id"] for row in chosen]
    results, steps = run.rows_of(RESULTS, ids), run.rows_of(TRAJECTORIES, ids, source.k)
    episodes = run.episodes(ids) if run.terms.is_discrete else {}
    found = []
    for row, rank in zip(chosen, ranks, strict=True):
        name = row["episode_id"]
        if row["status"] != "failed" and not steps[name]:
            raise FileError(
                f"{run.folder}: has no trajectory of {name!r}; run the same command again to make "
                "it anew"
            )
        found.append(make_case(source, row, rank, results[name], steps[name], episodes.get(name)))
    return found


# --- What numbers are called ---


def explained_run(run: Run, pseudonyms: Pseudonyms, k: int | None = None) -> ExplainedRun:
    """A run with the names that its model has for outcomes and states."""
    budget, labels = run.budget(k), _labels(run)
    return ExplainedRun(run, pseudonyms, budget, _quantity(run, labels), labels)


def _labels(run: Run) -> Labels:
    explainer = run.explainer
    if isinstance(explainer, ContinuousExplainer):
        return labels_of(explainer.layout)
    assert isinstance(explainer, DiscreteExplainer)
    mdp = explainer.mdp
    labels = labels_of(mdp if explainer.layout is None else explainer.layout)
    given = mdp.about.get(SEVERITY)
    if given is None:
        return labels
    # What the model knows of the severity of its states, instead of their names.
    if not isinstance(given, Mapping) or not isinstance(given.get("values"), list):
        raise FileError("the model's severity of states is damaged; save the model anew")
    try:
        levels = [math.nan if level is None else float(level) for level in given["values"]]
        name, unit = str(given["name"]), str(given.get("unit", ""))
        column = Column(name, "state", unit=unit, better=given.get("better"))
    except (KeyError, TypeError, ValueError):
        raise FileError("the model's severity of states is damaged; save the model anew") from None
    if len(levels) != mdp.n_states or column.better not in (None, "lower", "higher"):
        raise FileError("the model's severity does not fit its states; save the model anew")
    endings = {s: mdp.state_name(s) for s, level in enumerate(levels) if math.isnan(level)}
    states = np.array(levels)[:, np.newaxis]
    return replace(labels, features=(column,), states=states, endings=endings)


def _quantity(run: Run, labels: Labels) -> Quantity:
    """How the model calls its outcome, or what the features that are good or bad make it."""
    given, explainer = run.model.about.get(OUTCOME), run.explainer
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return Quantity(given["name"], given.get("percent") is True, str(given.get("unit", "")))
    good = [column for column in labels.features if column.better]
    if not good or (isinstance(explainer, DiscreteExplainer) and explainer.layout is None):
        return Quantity()
    weighted = " ".join(_worth(column) for column in good)
    return Quantity(unit=f"summed {weighted.removeprefix('+ ')}")


def _worth(column: Column) -> str:
    weight = "" if abs(column.merit) == 1.0 else f"{abs(column.merit):g} × "
    return f"{'−' if column.merit < 0 else '+ '}{weight}{column.name}"


# --- What all cases come to ---


def totals_of(source: ExplainedRun) -> dict[str, Any]:
    """Numbers over all cases for the budget that is reported on, read file by file.

    cases, statuses         how many there are, and how many have each status
    improvable, far         how many can be improved at all; lie far outside the training data
    seen, unseen            explanations with data under them and without; unknown is in neither
    asked, holds            whether other causal models were asked about; how many improve in all
    gains, median_gain      all finite improvements, and their median
    by_budget               rows of k, value and factual: means over cases finite for every budget
    failures                by reason, the most frequent first; other_failures have other reasons
    recurring               rows of what, changes, cases: the most frequent changes
    """
    import polars as pl

    results = source.run.results(source.k)
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
    finite = results.filter(known, pl.col("improvement").is_finite()).select("improvement")
    gains = finite.collect(engine="streaming")["improvement"].to_numpy()
    failures = _failures(source, results)
    return found | {
        "statuses": {name: found[name] for name in STATUSES},
        "gains": gains,
        "median_gain": float(np.median(gains)) if gains.size else math.nan,
        "by_budget": _by_budget(source.run),
        "failures": failures,
        "other_failures": found["failed"] - sum(one["count"] for one in failures),
        "recurring": _recurring(source, results),
    }


def _by_budget(run: Run) -> list[dict[str, Any]]:
    import polars as pl

    table = run.results().filter(pl.col("status") != "failed")
    infinite = table.filter(~(pl.col("value").is_finite() & pl.col("factual").is_finite()))
    finite = table.join(infinite.select("episode_id").unique(), on="episode_id", how="anti")
    means = finite.group_by("k").agg(pl.col("value", "factual").mean()).sort("k")
    return means.collect().to_dicts()


def _failures(source: ExplainedRun, results: pl.LazyFrame) -> list[dict[str, Any]]:
    """Reasons that name their case differ for every one: they are held together by what they say
    once the name is out."""
    import polars as pl

    failed = results.filter(pl.col("status") == "failed").select("episode_id", "reason").collect()
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for name, reason in failed.iter_rows():
        text = reason or "no reason is known"
        by_reason.setdefault(text.replace(name, "") if name else text, []).append((name, text))
    ordered = sorted(by_reason.values(), key=lambda cases: -len(cases))[:MOST_REASONS]
    return [
        {
            "names": [source.pseudonyms.shown(name) for name, _ in cases[:MOST_NAMED]],
            "more": max(len(cases) - MOST_NAMED, 0),
            "reason": source.pseudonyms.within(cases[0][1], cases[0][0]),
            "count": len(cases),
        }
        for cases in ordered
    ]


def _recurring(source: ExplainedRun, results: pl.LazyFrame) -> list[dict[str, Any]]:
    """The most frequent changes: of a dose up or down, or from one action to another."""
    import polars as pl

    change, part = pl.col("changes").struct, pl.col("parts").struct
    every = results.select("episode_id", "changes").explode("changes")
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
    text = part.field("name") + direction.then(pl.lit(" raised")).otherwise(pl.lit(" lowered"))
    doses = moved.select("episode_id", what=text)
    together = pl.concat([doses, every.filter(~has_order).select("episode_id", "what")])
    counts = together.group_by("what").agg(changes=pl.len(), cases=pl.col("episode_id").n_unique())
    ranked = counts.sort(["changes", "what"], descending=[True, False]).head(MOST_RECURRING)
    return ranked.collect().to_dicts()


def _ranking(source: ExplainedRun, ranked: Sequence[Row], cases: Sequence[Case]) -> dict[str, Any]:
    quantity, run = source.quantity, source.run

    def steps(row: Row) -> Any:
        return number_cell(row["steps"], f"{row['steps']:,}")

    def number(row: Row, name: str) -> Any:
        return number_cell(row[name], quantity.write(row[name]))

    def gain(row: Row) -> Any:
        text = quantity.write_gain(row["improvement"])
        return number_cell(row["improvement"], text.removesuffix(" points"))

    def extent(row: Row) -> Any:
        low, high = row["interval_low"], row["interval_high"]
        return number_cell(low, "" if low is None else quantity.write_range(low, high))

    def shown(row: Row) -> str:
        return source.pseudonyms.shown(row["episode_id"])

    def outcome(row: Row, name: str) -> str:
        return row[f"outcome:{name}"] or ""

    def changes(row: Row) -> list[str]:
        return [arrow(change["text"]) for change in row["changes"]]

    allowed, points = counted(source.k, "change"), ", points" if quantity.percent else ""
    columns = [
        RankingColumn(run.terms.noun.capitalize(), shown, "name"),
        *(RankingColumn(name, partial(outcome, name=name), choose=True) for name in run.outcomes),
        RankingColumn("Steps", steps, "number"),
        RankingColumn("Observed", partial(number, name="factual"), "number"),
        RankingColumn(f"With at most {allowed}", partial(number, name="value"), "number"),
        RankingColumn(f"Improvement{points}", gain, "number"),
    ]
    if any(row["interval_low"] is not None for row in ranked):
        columns.append(RankingColumn("Range over causal models", extent, "number"))
    if len({row["status"] for row in ranked}) > 1:
        status = RankingColumn("Status", lambda row: STATUS_WORDS[row["status"]][0], choose=True)
        columns.append(status)
    if any(row["supported"] is not None for row in ranked):
        columns.append(RankingColumn("Data", support_in_words, choose=True))
    columns.append(RankingColumn("Changes", changes, "changes"))
    anchors = {case.row["episode_id"]: case.anchor for case in cases}
    return ranking_table(columns, ranked, anchors, "episode_id")


# --- The model ---


def training_of(model: TabularMDP | NeuralSCM) -> Mapping[str, Any]:
    """The record of a training, empty if there is none that can be read."""
    record: Any = model.about.get("training")
    try:
        numbers = [record[name] for name in ("transitions", "epochs", "best_epoch")]
        numbers += [record["validation_nll"][record["best_epoch"] - 1]]
        numbers += [record["reference_nll"][kind] for kind in ("linear", "constant")]
    except (KeyError, IndexError, TypeError):
        return {}
    return record if all(isinstance(number, int | float) for number in numbers) else {}


def _columns(source: ExplainedRun) -> dict[str, Any]:
    """The columns that the model and the question use, as the schema describes them."""
    headings = ("Column", "Role", "Unit", "Values", "Gaps", "Better")
    texts = [_column_texts(column) for column in _described(source)]
    known = [n for n in range(len(headings)) if any(text[n] for text in texts)]
    rows = [[text[n] for n in known] for text in texts]
    return {"headings": [headings[n] for n in known], "rows": rows}


def _described(source: ExplainedRun) -> Sequence[Column]:
    labels = source.labels
    layout = getattr(source.run.explainer, "layout", None)
    if isinstance(layout, SchemaLayout):
        return [column for column in layout.schema.columns if column.role != "ignore"]
    if layout is None:
        return [*labels.features, *labels.doses]
    # The built-in tables: leading features never change, further inputs are replayed as they were.
    fixed = [replace(column, role="fixed") for column in labels.features[: layout.fixed]]
    chosen = {dose.name for dose in labels.doses}
    replayed = [Column(name, "contextual") for name in layout.actions if name not in chosen]
    return [*fixed, *labels.features[layout.fixed :], *labels.doses, *replayed]


def _column_texts(column: Column) -> list[str]:
    names = column.labels or tuple(f"{level:g}" for level in column.levels or ())
    values = ", ".join(names[:MOST_VALUES])
    if len(names) > MOST_VALUES:
        values += f" and {len(names) - MOST_VALUES:,} more"
    if not names and (column.low is not None or column.high is not None):
        low, high = ("" if end is None else f"{end:g}" for end in (column.low, column.high))
        values = f"{low} to {high}".strip()
    better = column.better or ""
    if better and column.weight != 1.0:
        better += f", weight {column.weight:g}"
    gaps = "" if column.missing == "refuse" else column.missing
    return [column.name, column.role, column.unit, values, gaps, better]
