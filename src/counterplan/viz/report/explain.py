"""The report of a run of explanations: what all cases come to, their ranking, single cases closely,
and the model.

Discrete cases are solved again, for all that their policy may do, not only what is most likely, and
what their value rests on: the ranges over causal models, and what more or less doubt would advise.
The changes of the others are replayed: by every member of the model, and with other luck.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change
from counterplan.counterfactual.support import NEIGHBOURS, TOLERATED
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import support_in_words
from counterplan.runs.explainer import TIPPING_DRAWS, ContinuousExplainer, DiscreteExplainer
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
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.quality import FINDINGS
from counterplan.tables.schema import Column
from counterplan.viz.changes import StateBand, change_strip_figure, draw_change_strip
from counterplan.viz.claims import (
    ASSUMPTIONS,
    calibration_figure,
    cohort_figure,
    doubt_figure,
    frontier_figure,
    interval_figure,
    plans_by_doubt,
    sensitivity_figure,
)
from counterplan.viz.explained import MODELS, OTHER, band_around, is_policy, trajectory_of
from counterplan.viz.labels import Labels, labels_of_run, step_title
from counterplan.viz.outcomes import outcome_figure
from counterplan.viz.quantity import ROUNDING, Claim, Quantity, claim_of
from counterplan.viz.report.page import (
    MOST_ROWS,
    Panel,
    Pseudonyms,
    RankingColumn,
    Report,
    ReportOptions,
    Row,
    Section,
    arrow,
    make_report,
    number_cell,
)
from counterplan.viz.trajectory import trajectory_figure

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from counterplan.counterfactual.contributions import Contributions
    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation

# What a model may tell of itself in `about`, for those who look at its answers: how severe
# each discrete state is (null where an episode is over), and what there is to know about it, in
# sentences. (What its outcome is called: `tables.models`.)
SEVERITY, NOTES = "severity", "notes"
# Reasons, and changes that recur, which are told one by one; cases that are named with a reason.
MOST_REASONS, MOST_RECURRING, MOST_NAMED = 20, 12, 3
# By how much a value may differ from the stored one: other versions of libraries round otherwise.
SAME_VALUE = 1e-6
# How many of a policy's possible changes are listed, and from which probability on.
LISTED, LEAST_LISTED = 8, 0.02
# Features of a case that are drawn, the one to be improved first, then those that differ most: by
# more than rounding.
MOST_FEATURES = 4
# Cases whose ranges over causal models are drawn together.
MOST_INTERVALS = 20
# Letters of a state's name that fit a cell; longer ones are numbered.
LONGEST_NAME = 8
# Steps up to which a strip of states can be read.
MOST_STRIP_STEPS = 60


@dataclass(frozen=True, eq=False)
class ExplainedRun:
    """A run of explanations, and the budget that is reported on."""

    run: Run
    pseudonyms: Pseudonyms
    k: int

    @property
    def layout(self) -> SchemaLayout | None:
        """What the table's schema makes of it; None for a plain table of discrete episodes."""
        explainer = self.run.explainer
        assert isinstance(explainer, DiscreteExplainer | ContinuousExplainer)
        return explainer.layout

    @cached_property
    def labels(self) -> Labels:
        """Names of features and doses, and what the model knows of the severity of its states."""
        labels = labels_of_run(self.run.model, self.layout)
        given: Any = self.run.model.about.get(SEVERITY)
        if given is None or not isinstance(self.run.explainer, DiscreteExplainer):
            return labels
        try:
            values, unit = given["values"], str(given.get("unit", ""))
            levels = [math.nan if level is None else float(level) for level in values]
            levels = levels if isinstance(values, list) else []
            column = Column(str(given["name"]), "state", unit, better=given.get("better"))
        except (KeyError, TypeError, ValueError):
            levels, column = [], labels.features[0]
        mdp = self.run.explainer.mdp
        if len(levels) != mdp.n_states or column.better not in (None, "lower", "higher"):
            raise FileError("the model's severity does not fit its states; save the model anew")
        endings = {s: mdp.state_name(s) for s, level in enumerate(levels) if math.isnan(level)}
        states = np.array(levels)[:, np.newaxis]
        return replace(labels, features=(column,), states=states, endings=endings)

    @property
    def quantity(self) -> Quantity:
        """What outcomes are."""
        return self.labels.quantity

    @property
    def outcome(self) -> str:
        """What the outcome is, in words."""
        name, unit = self.quantity.name, self.quantity.unit
        if name != Quantity().name:
            return f"{name} ({unit})" if unit else name
        return unit or "the sum of the model's rewards"

    @property
    def nearest(self) -> int | None:
        """How many of the nearest states in the data are asked about; None where discrete."""
        explainer = self.run.explainer
        if not isinstance(explainer, ContinuousExplainer):
            return None
        seen = explainer.scm.seen
        return NEIGHBOURS if seen is None else min(NEIGHBOURS, len(seen.states))


def explain_report(run: Run, options: ReportOptions) -> Report:
    """The page about all cases of a run, or about one of them."""
    source = ExplainedRun(run, options.pseudonyms, run.budget(options.k))
    context: dict[str, Any] = {"source": source, "statuses": STATUSES, "tolerated": TOLERATED}
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
    doses = source.labels.doses
    ordered = [dose.name for dose in doses if dose.levels is not None or dose.is_dose]
    named = pl.element().struct.field("name").is_in(ordered)
    # Of what has no order there is no more and less.
    has_order = (pl.col("parts").list.len() > 0) & pl.col("parts").list.eval(named).list.all()
    direction = pl.when(part.field("alternative") > part.field("observed"))
    text = part.field("name") + direction.then(pl.lit(" raised")).otherwise(pl.lit(" lowered"))
    moved = every.filter(has_order).explode("parts").select("episode_id", what=text)
    together = pl.concat([moved, every.filter(~has_order).select("episode_id", "what")])
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
        found.append(column("Search", lambda row: STATUSES[row["status"]][0], choose=True))
    if any(row["supported"] is not None for row in ranked):
        found.append(column("Data", support_in_words, choose=True))
    changes = [[arrow(change["text"]) for change in row["changes"]] for row in ranked]
    return [*found, RankingColumn("Changes", changes, "changes")]


def cohort_panels(
    source: ExplainedRun, claims: Sequence[Claim], ranked: Sequence[Row]
) -> list[Panel]:
    """What is claimed of all cases, how sure that is for the first, and how good the model is."""
    panels = []
    drawn = [one for one in claims if np.isfinite([one.mean, one.low or 0.0]).all()]
    ends = [end for one in drawn for end in one[:3] if end is not None]
    if np.abs(ends).max(initial=0.0) > ROUNDING:
        figure = cohort_figure(claims, quantity=source.quantity)
        panels.append(Panel("cohort", figure, "cohort"))
    first, columns = ranked[:MOST_INTERVALS], ("value", "interval_low", "interval_high")
    known = [row for row in first if np.isfinite([row[one] or 0.0 for one in columns]).all()]
    if any(row["interval_low"] is not None for row in known):
        known = [{**row, "episode_id": source.pseudonyms.shown(row["episode_id"])} for row in known]
        same = {row["factual"] for row in first}
        observed = same.pop() if len(same) == 1 else None
        figure = interval_figure(known, observed=observed, quantity=source.quantity)
        panels.append(Panel("robustness", figure, "robustness", {"count": len(known)}))
    return panels


# --- Single cases ---


def likely_changes(found: PolicyExplanation) -> list[tuple[Change, float]]:
    """All changes that a policy may make with their probabilities, most probable first."""
    probabilities, observed = found.change_probabilities(), found.episode.actions
    changes = [
        (Change(int(t), int(observed[t]), int(a)), float(probabilities[t, a]))
        for t, a in zip(*np.nonzero(probabilities), strict=True)
    ]
    return sorted(changes, key=lambda one: -one[1])


def _policy(source: ExplainedRun, episode: Episode, value: float) -> dict[str, Any] | None:
    """The policy that explains a discrete case, solved again; None where the answer depended on how
    busy the machine was and is another one now.

    probability_better  that the counterfactual outcome beats the observed one
    sure                what it is worth in every causal model
    ranges              of its value over all, over stable and over monotone causal models
    by_doubt            doubt -> (expected, guaranteed) of the policy that it advises
    """
    explainer, question = source.run.explainer, source.run.question
    assert isinstance(explainer, DiscreteExplainer)
    budgets = tuple(k for k in source.run.budgets if k <= source.k)
    found = explainer.explain(episode, replace(question, budgets=budgets))[-1]
    assert is_policy(found)
    if not _is_same(found.value, value):
        return None
    return {
        "explanation": found,
        "likely": likely_changes(found),
        "probability_better": found.probability_better().value,
        "sure": explainer.claim(found, question)["guaranteed"],
        "ranges": [found.interval_in(explainer.mdp, assumed) for assumed in ASSUMPTIONS],
        "by_doubt": plans_by_doubt(explainer, episode, replace(question, budgets=(found.k,))),
    }


def _is_same(value: float, stored: float) -> bool:
    """Whether what was found again is what the run has."""
    same = math.isclose(value, stored, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)
    return same or value == stored


def _sequence(source: ExplainedRun, episode: Episode, case: Section) -> dict[str, Any] | None:
    """The changes of a continuous case, replayed; None where that leads elsewhere than the run.

    members      (B, T, D) where each member of the model says that they lead, where it has some
    sensitivity  what is left of the improvement with other luck, or under a hidden cause
    """
    from counterplan.counterfactual.replay import replay
    from counterplan.counterfactual.sensitivity import sensitivity

    explainer, row = source.run.explainer, case.row
    assert isinstance(explainer, ContinuousExplainer)
    changes = explainer.edits(row["changes"], {step["t"]: step for step in case.steps})
    if not changes:
        return None
    found = replay(**explainer.problem(episode), episode=episode, changes=changes)
    if not _is_same(found.improvement, row["improvement"]):
        return None
    rests = sensitivity(explainer.scm, episode, found, TIPPING_DRAWS)
    return {"members": getattr(found, "member_states", None), "sensitivity": rests}


def contributed(
    source: ExplainedRun, episode: Episode, actors: Sequence[str]
) -> Contributions | None:
    """What each of those who decided contributed, against what was most often done in each state;
    None where the observed outcome is endless."""
    from counterplan.counterfactual.contributions import contributions

    explainer = source.run.explainer
    if not isinstance(explainer, DiscreteExplainer):
        raise InputError("--actors: who contributed is told of discrete models; leave it out")
    mdp, visits = explainer.mdp, explainer.mdp.visits
    if visits is None:
        raise InputError(
            "--actors: the model has kept none of its data, so nobody can tell what is usually "
            "done; learn it anew with `counterplan fit`"
        )
    if not np.isfinite(mdp.outcome(episode)):
        return None
    # A barred pair has no reward that is known: it earns what its state does on average.
    known = np.isfinite(mdp.rewards)
    earned = np.where(known, mdp.rewards, 0.0)
    mean = earned.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    mean = np.where(known.any(axis=1), mean, earned.sum() / max(1, known.sum()))
    mdp = mdp.with_rewards(np.where(known, mdp.rewards, mean[:, None]), mdp.final_rewards)
    named = [source.pseudonyms.shown(one) for one in actors]
    return contributions(mdp, episode, named, visits.argmax(axis=1))


def make_case(
    source: ExplainedRun,
    case: Section,
    results: Sequence[Row],
    episode: Episode,
    actors: Sequence[str] | None = None,
) -> Section:
    """A case with its figures drawn.

    results  of the case for all budgets
    episode  the episode itself
    actors   who decided at each step of it
    """
    row = case.row
    if row["status"] == "failed":
        return case
    policy = sequence = None
    if source.run.terms.is_discrete:
        policy = _policy(source, episode, row["value"])
    else:
        sequence = _sequence(source, episode, case)
    changes = row["changes"] if policy is None else _likely_changes(case, policy)
    more = {"policy": policy, "changes": changes, "claim": claim_of(row), "sequence": sequence}
    more["contributed"] = None if actors is None else contributed(source, episode, actors)
    panels = _case_panels(source, replace(case, more=more), results)
    return replace(case, panels=panels, more=more)


def _likely_changes(case: Section, policy: Mapping[str, Any]) -> list[Row]:
    """All changes that are likely enough, as a row of results holds those of the likeliest path."""
    taken = {(one["t"], one["alternative"]): one["taken"] for one in case.row["changes"]}
    likely = [one for one in policy["likely"] if one[1] >= LEAST_LISTED][:LISTED]
    return [
        {
            **change._asdict(),
            "time": case.steps[change.t]["time"],
            "date": case.steps[change.t].get("date"),
            "probability": probability,
            "taken": taken.get((change.t, change.alternative)),
        }
        for change, probability in sorted(likely, key=lambda one: (one[0].t, -one[1]))
    ]


# --- Figures about one case ---


def _case_panels(source: ExplainedRun, case: Section, results: Sequence[Row]) -> list[Panel]:
    """Figures named after the anchor of the case."""
    steps, panels, quantity = case.steps, [], source.quantity
    policy, sequence = case.more["policy"], case.more["sequence"]
    if source.run.terms.is_discrete and 0 < len(steps) <= MOST_STRIP_STEPS:
        often = [row for row in steps if row["change_probability"] >= 0.005]
        panels.append(case.panel("changes", _strip_figure(source, steps), often=often))
    panels += _trajectory_panels(source, case)
    if sequence is not None and sequence["sensitivity"] is not None:
        figure = sensitivity_figure(sequence["sensitivity"], quantity=quantity)
        panels.append(case.panel("sensitivity", figure, words=str(sequence["sensitivity"])))
    known = [row for row in results if row["status"] != "failed"]
    numbers = [row[name] for row in known for name in ("value", "factual")]
    if len(known) > 1 and np.isfinite(numbers).all():
        figure = frontier_figure(known, quantity=quantity)
        panels.append(case.panel("frontier", figure, results=known))
    return panels if policy is None else [*panels, *_policy_panels(source, case, policy)]


def _policy_panels(source: ExplainedRun, case: Section, policy: Row) -> Iterator[Panel]:
    """What a policy's value rests on, what another doubt would advise, and what may come of it."""
    found, row, quantity = policy["explanation"], case.row, source.quantity
    if np.isfinite([*policy["ranges"][0], found.value]).all() and found.changes:
        both = zip(("interval", "stable", "monotone"), policy["ranges"], strict=True)
        ends = {f"{name}_{end}": one for name, ends in both for end, one in ends._asdict().items()}
        line = {**ends, "episode_id": case.name, "value": found.value, "guaranteed": policy["sure"]}
        figure = interval_figure([line], observed=found.factual_value, quantity=quantity)
        yield case.panel("assumptions", figure, ranges=policy["ranges"])
    if (
        len({*policy["by_doubt"].values()}) > 1
        and np.isfinite([*policy["by_doubt"].values()]).all()
    ):
        doubt = row.get("doubt")
        figure = doubt_figure(policy["by_doubt"], chosen=doubt, quantity=quantity)
        yield case.panel("doubt", figure, by_doubt=policy["by_doubt"], doubt=doubt)
    try:
        figure = outcome_figure(found, quantity=quantity)
    except InputError:  # none is finite
        return
    yield case.panel("outcomes", figure, better=policy["probability_better"])


def _trajectory_panels(source: ExplainedRun, case: Section) -> list[Panel]:
    """The features that tell most about the case; none where states are names without an order."""
    labels, sequence = source.labels, case.more["sequence"]
    found: list[Panel] = []
    for feature in telling_features(labels, case.steps):
        is_banded = sequence is not None and sequence["members"] is not None
        try:
            trajectory = trajectory_of(case.steps, labels, feature=feature)
            if is_banded:
                values = labels.values(sequence["members"], feature)
                low, high = band_around(values, MODELS.outside)
                trajectory = replace(trajectory, low=low, high=high, band=MODELS.words)
            figure = trajectory_figure(trajectory)
        except InputError:
            # An endless or undefined number cannot be drawn; the numbers are in the table.
            continue
        name = labels.features[feature].name
        both = (trajectory.observed, trajectory.counterfactual)
        last = [float(values[np.isfinite(values)][-1]) for values in both]
        file_name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "feature"
        facts = {"feature": name, "last": last, "banded": is_banded}
        kind = "trajectory" if found else "first trajectory"
        found.append(Panel(f"{case.anchor}-{file_name}", figure, kind, facts))
    return found


def _has_order(labels: Labels) -> bool:
    """Whether discrete states are levels of one feature, not mere names."""
    column = labels.features[0]
    return len(labels.features) == 1 and (column.labels is None or column.levels is not None)


def telling_features(labels: Labels, steps: Sequence[Row]) -> list[int]:
    """The features that are to be improved, then those that differ most from what was, as a share
    of how much they move."""
    if labels.states is not None:
        return [0] if _has_order(labels) else []
    names = [f"state:{column.name}" for column in labels.features]
    before, after = (
        np.array([[row[prefix + name] for name in names] for row in steps], dtype=np.float64)
        for prefix in ("", OTHER)
    )
    both = np.concatenate([before, after])
    spread, apart = np.ptp(both, axis=0), np.abs(before - after).mean(axis=0)
    # Features that stay as they are differ by rounding only, as the model has its own units.
    moves = np.isfinite(spread) & (spread > ROUNDING * np.abs(both).max(axis=0))
    share = np.divide(apart, spread, out=np.zeros_like(apart), where=moves)
    good = [number for number, column in enumerate(labels.features) if column.better]
    others = [int(n) for n in np.argsort(-share, kind="stable") if share[n] > 0 and n not in good]
    return [*good, *others][:MOST_FEATURES]


def _strip_figure(source: ExplainedRun, steps: Sequence[Row]) -> Figure:
    """States by their severity or level; where they are mere names, by what they earn."""
    if _has_order(source.labels):
        return change_strip_figure(list(steps), source.labels)
    explainer = source.run.explainer
    assert isinstance(explainer, DiscreteExplainer)
    bands = []
    for label, prefix in (("observed", ""), ("likeliest", OTHER)):
        names = [explainer.mdp.state_name(row[f"{prefix}state"]) for row in steps]
        if max(map(len, names)) > LONGEST_NAME:
            names = [str(row[f"{prefix}state"]) for row in steps]
        levels = np.array([row[f"{prefix}reward"] for row in steps], dtype=np.float64)
        bands.append(StateBand(label, np.where(np.isfinite(levels), levels, np.nan), names))
    changed = np.array([row["change_probability"] for row in steps], dtype=np.float64)
    times = [row["time"] for row in steps]
    heading, title = "states, by reward: darker is higher", step_title(source.run.terms.unit)
    return draw_change_strip(changed, bands, heading, times, title)


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
