"""The report of a run of explanations: what all cases come to, their ranking, and the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from counterplan.counterfactual.support import TOLERATED
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import support_in_words
from counterplan.runs.run import (
    RESULTS,
    STATUSES,
    TRAJECTORIES,
    CaseQuery,
    Run,
    claim_ends,
    is_far,
    is_withheld,
)
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.fit import poor_fit
from counterplan.tables.quality import FINDINGS
from counterplan.tables.schema import Column
from counterplan.viz.claims import ROUNDING, Claim, claim_of
from counterplan.viz.report.case import OUTCOME, SEVERITY, ExplainedRun, cohort_panels, make_case
from counterplan.viz.report.page import (
    MOST_ROWS,
    Panel,
    RankingColumn,
    Report,
    ReportOptions,
    Row,
    Section,
    arrow,
    make_report,
    number_cell,
)
from counterplan.viz.sensitivity import calibration_figure

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NOTES", "OUTCOME", "SEVERITY", "explain_report"]
# What else a model may tell of itself in `about`: what there is to know about it, in sentences.
NOTES = "notes"
# How statuses are called, and what they mean.
STATUS_WORDS = {
    "optimal": ("proved optimal", "no other choice of so few changes is better in this model"),
    "limit": ("stopped at a limit", "the best may be better, by at most the gap"),
    "heuristic": ("without proof", "a simple method, to compare with"),
    "failed": ("failed", "there is no answer; the reasons are below"),
}
# Reasons, and changes that recur, which are told one by one; cases that are named with a reason.
MOST_REASONS, MOST_RECURRING, MOST_NAMED = 20, 12, 3


def explain_report(run: Run, options: ReportOptions) -> Report:
    """The page about all cases of a run, or about one of them."""
    source = ExplainedRun(run, options.pseudonyms, run.budget(options.k))
    context: dict[str, Any] = {"source": source, "statuses": STATUS_WORDS, "tolerated": TOLERATED}
    context["rule"] = source.run.explainer.rule(source.run.question)
    training = training_of(run.model.about.get("training"))
    poor = poor_fit(run.model) if training and not isinstance(run.model, TabularMDP) else None
    context |= {"training": training, "poor_fit": poor, "described": described_columns(source)}
    context["findings"] = findings_of(run.model.about.get(FINDINGS))
    if options.case is not None:
        rows = run.rows_of(RESULTS, [options.case], source.k)[options.case]
        if not rows:
            noun = run.terms.noun
            raise InputError(f"{run.folder}: has no {noun} {options.case!r}; check it")
        _hide_dates(source, rows)
        cases = _cases(source, rows, 0, options)
        return make_report("explain.html", cases, totals=None, **context)
    totals = totals_of(source)
    ranked = run.cases(CaseQuery(k=source.k, limit=MOST_ROWS)).to_dicts()
    _hide_dates(source, ranked)
    panels = cohort_panels(source, totals["claims"], ranked)
    with suppress(InputError):  # a model that does not know
        panels.append(Panel("calibration", calibration_figure(run.model), "calibration"))
    cases = _cases(source, ranked[: options.cases], 1, options)
    columns = _ranking(source, ranked)
    return make_report("explain.html", cases, panels, columns, totals=totals, **context)


def _hide_dates(source: ExplainedRun, rows: Sequence[Row]) -> None:
    """Beside pseudonyms times count from the first step: dates tell who somebody is."""
    if source.pseudonyms.key is None or not source.run.explainer.has_dates:
        return
    for row in rows:
        for change in row["changes"] or ():
            when = source.run.explainer.time_text(change["time"])
            change["text"] = change["text"].replace(f"on {change['date']}", when)
            change["date"] = None
        for out in row["outside_range"] or ():
            out["text"] = re.sub(r"on \d{4}-[\d-]+( [\d:]+Z?)?", f"in step {out['t']}", out["text"])


def _cases(
    source: ExplainedRun, chosen: Sequence[Row], first: int, options: ReportOptions
) -> list[Section]:
    """The cases that have a section of their own, ranked from `first`; 0 for a case alone."""
    run, ids = source.run, [row["episode_id"] for row in chosen]
    results, steps = run.rows_of(RESULTS, ids), run.rows_of(TRAJECTORIES, ids, source.k)
    episodes = run.episodes(ids)
    actors = options.actors(ids) if options.actors is not None else {}
    found = []
    for rank, row in enumerate(chosen, start=first):
        name = row["episode_id"]
        if row["status"] != "failed" and not steps[name]:
            raise FileError(
                f"{run.folder}: has no trajectory of {name!r}; run the same command again to make "
                "it anew"
            )
        for step in steps[name] if source.pseudonyms.key is not None else ():
            step.pop("date", None)
        case = Section(row, source.pseudonyms.shown(name), rank, steps[name])
        episode = episodes[name].episode
        found.append(make_case(source, case, results[name], episode, actors.get(name)))
    return found


# --- What all cases come to ---


def totals_of(source: ExplainedRun) -> dict[str, Any]:
    """Numbers over all cases for the budget that is reported on, read file by file.

    cases, statuses         how many there are, and how many have each status
    improvable, far         how many can be improved at all; lie far outside the training data
    outside                 how many would leave the range of a column
    seen, unseen            explanations with data under them and without; unknown is in neither
    claims                  the finite ones that are not far outside the training data
    established             how many of these are
    low, high               means of the ends of their intervals, None where one is not known
    by_budget               rows of k, value and factual: means over cases finite for every budget
    failures                by reason, the most frequent first; other_failures have other reasons
    recurring               rows of what, changes, cases: the most frequent changes
    """
    import polars as pl

    results = source.run.results(source.k)
    known = pl.col("status") != "failed"
    numbers = results.select(
        cases=pl.len(),
        **{name: (pl.col("status") == name).sum() for name in STATUSES},
        improvable=(known & (pl.col("improvement") > ROUNDING)).sum(),
        seen=pl.col("supported").sum(),
        unseen=pl.col("supported").not_().sum(),
        outside=(pl.col("outside_range").list.len() > 0).sum(),
        far=is_far().sum(),
    )
    found: dict[str, Any] = numbers.collect(engine="streaming").row(0, named=True)
    counted_in = known & ~is_far() & pl.col("improvement").is_finite()
    low, high = claim_ends()
    columns = ("improvement", low.alias("low"), high.alias("high"), is_withheld().alias("withheld"))
    finite = results.filter(counted_in).select(*columns).collect(engine="streaming")
    failures = _failures(source, results)
    claims = [Claim(mean, low, high, withheld=no) for mean, low, high, no in finite.iter_rows()]
    return found | {
        "statuses": {name: found[name] for name in STATUSES},
        "claims": claims,
        "mean": finite["improvement"].mean(),
        "established": sum(one.is_established for one in claims),
        **{
            name: None if finite[name].null_count() else finite[name].mean()
            for name in ("low", "high")
        },
        "by_budget": _by_budget(source.run),
        "failures": failures,
        "other_failures": found["failed"] - sum(one["count"] for one in failures),
        "recurring": _recurring(source, results),
    }


def _by_budget(run: Run) -> list[dict[str, Any]]:
    import polars as pl

    table = run.results().filter(pl.col("status") != "failed", ~is_far())
    infinite = table.filter(~(pl.col("value").is_finite() & pl.col("factual").is_finite()))
    finite = table.join(infinite.select("episode_id").unique(), on="episode_id", how="anti")
    expected = (pl.col("factual") + pl.col("improvement")).alias("value")
    means = finite.group_by("k").agg(expected.mean(), pl.col("factual").mean()).sort("k")
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
    direction = pl.when(part.field("alternative") > part.field("observed"))
    text = part.field("name") + direction.then(pl.lit(" raised")).otherwise(pl.lit(" lowered"))
    doses = every.filter(has_order).explode("parts").select("episode_id", what=text)
    together = pl.concat([doses, every.filter(~has_order).select("episode_id", "what")])
    counts = together.group_by("what").agg(changes=pl.len(), cases=pl.col("episode_id").n_unique())
    ranked = counts.sort(["changes", "what"], descending=[True, False]).head(MOST_RECURRING)
    return ranked.collect().to_dicts()


def _ranking(source: ExplainedRun, ranked: Sequence[Row]) -> list[RankingColumn]:
    quantity, run = source.quantity, source.run

    def column(title: str, cell: Any, kind: str = "text", choose: bool = False) -> RankingColumn:
        return RankingColumn(title, [cell(row) for row in ranked], kind, choose)

    def numbers(title: str, name: str, write: Any = quantity.write) -> RankingColumn:
        def cell(row: Row) -> Any:
            return number_cell(row[name], "" if row[name] is None else write(row[name]))

        return column(title, cell, "number")

    def shown(row: Row) -> str:
        return source.pseudonyms.shown(row["episode_id"])

    def interval(row: Row) -> Any:
        claim = claim_of(row)
        if claim.is_causal:
            claim = claim._replace(high=None)
        text = claim.interval(quantity).replace(" points", "").removesuffix(" or more")
        return number_cell(claim.low, text)

    found = [
        column(run.terms.noun.capitalize(), shown, "name"),
        *(
            column(name, lambda row, name=name: row[f"outcome:{name}"] or "", choose=True)
            for name in run.outcomes
        ),
        numbers("Steps", "steps", "{:,}".format),
    ]
    if any(quantity.tells_apart(row.get("observed"), row["factual"]) for row in ranked):
        found += [numbers("Observed", "observed"), numbers("By the model", "factual")]
    else:
        found.append(numbers("Observed", "factual"))
    points = ", points" if quantity.percent else ""
    if any(claim_of(row).low is not None for row in ranked):
        title = "Guaranteed" if run.terms.is_discrete else "Interval of 90 %"
        found.append(column(f"{title}{points}", interval, "number"))
    found += [
        numbers(
            f"{'Expected' if run.terms.is_discrete else 'Improvement'}{points}",
            "improvement",
            lambda value: quantity.write_gain(value).removesuffix(" points"),
        ),
        column("Claim", lambda row: claim_of(row).verdict, choose=True),
    ]
    if len({row["status"] for row in ranked}) > 1:
        found.append(column("Search", lambda row: STATUS_WORDS[row["status"]][0], choose=True))
    if any(row["supported"] is not None for row in ranked):
        found.append(column("Data", support_in_words, choose=True))
    changes = [[arrow(change["text"]) for change in row["changes"]] for row in ranked]
    return [*found, RankingColumn("Changes", changes, "changes")]


# --- The model ---


def training_of(record: Any) -> Mapping[str, Any]:
    """The record of a training, empty if there is none that can be read."""
    try:
        numbers = [record["transitions"], record.get("epochs", 1)]
        numbers += [record["validation_nll"][record.get("best_epoch", 1) - 1]]
        numbers += [record["reference_nll"][kind] for kind in ("linear", "constant")]
    except (KeyError, IndexError, TypeError):
        return {}
    return record if all(isinstance(number, int | float) for number in numbers) else {}


def findings_of(stored: Any) -> Sequence[Mapping[str, str]] | None:
    """What was said about the table that a model was learned from, None if nobody knows."""
    keys = ("severity", "column", "text")
    is_right = isinstance(stored, list) and all(
        isinstance(one, dict) and all(isinstance(one.get(key), str) for key in keys)
        for one in stored
    )
    return stored if is_right else None


def described_columns(source: ExplainedRun) -> Sequence[Column]:
    """The columns that the model and the question use, as the schema describes them."""
    labels, layout = source.labels, source.layout
    if layout is None:
        return [*labels.features, *labels.doses]
    doses = iter(labels.doses)
    used = [column for column in layout.schema.columns if column.role != "ignore"]
    return [next(doses) if column.role == "action" else column for column in used]
