"""A case of a report of explanations: its changes, what they rest on, and its figures.

Discrete cases are solved again, for all that their policy may do, not only what is most likely, and
what their value rests on: the ranges over causal models, and what more or less doubt would advise.
The changes of the others are replayed: by every member of the model, and with other luck.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change, Interval
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.support import NEIGHBOURS
from counterplan.errors import FileError, InputError
from counterplan.runs.explainer import TIPPING_DRAWS, ContinuousExplainer, DiscreteExplainer
from counterplan.runs.run import Run
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.schema import Column
from counterplan.viz.changes import StateBand, change_strip_figure, draw_change_strip
from counterplan.viz.claims import (
    ASSUMPTIONS,
    Claim,
    claim_of,
    cohort_figure,
    interval_figure,
    plans_by_doubt,
)
from counterplan.viz.explained import MODELS, OTHER, band_around, is_policy
from counterplan.viz.frontier import doubt_figure, frontier_figure
from counterplan.viz.labels import Labels, labels_of, step_title
from counterplan.viz.outcomes import outcome_figure
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.page import Panel, Pseudonyms, Row, Section
from counterplan.viz.sensitivity import sensitivity_figure
from counterplan.viz.trajectory import trajectory_figure, trajectory_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.counterfactual.contributions import Contributions
    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
    from counterplan.counterfactual.sensitivity import Sensitivity

Rows = Sequence[Row]
# What a model may tell of itself in `about`, for those who look at its answers: how the outcome is
# called, and how severe each discrete state is (null where an episode is over).
OUTCOME, SEVERITY = "outcome", "severity"
# By how much a value may differ from the stored one: other versions of libraries round otherwise.
SAME_VALUE = 1e-6
# How many of a policy's possible changes are listed, and from which probability on.
LISTED, LEAST_LISTED = 8, 0.02
# Features of a case that are drawn, the one to be improved first, then those that differ most: by
# more than rounding.
MOST_FEATURES, ROUNDING = 4, 1e-9
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
        labels = labels_of(self.layout or self.run.model)
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

    @cached_property
    def quantity(self) -> Quantity:
        """How the model calls its outcome, or what the features that are good or bad make it."""
        given = self.run.model.about.get(OUTCOME)
        if isinstance(given, Mapping) and isinstance(given.get("name"), str):
            return Quantity(given["name"], given.get("percent") is True, str(given.get("unit", "")))
        words = "" if self.layout is None else self.layout.outcome_in_words
        return Quantity(unit=f"summed {words}") if words else Quantity()

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


@dataclass(frozen=True, eq=False)
class PolicyCase:
    """The policy that explains a discrete case, with what is worth knowing about it.

    probability_better  that the counterfactual outcome beats the observed one
    sure                what it is worth in every causal model
    ranges              of its value over all, over stable and over monotone causal models
    by_doubt            doubt -> (expected, guaranteed) of the policy that it advises
    """

    explanation: PolicyExplanation
    probability_better: float
    sure: float
    ranges: tuple[Interval, ...]
    by_doubt: Mapping[float, tuple[float, float]]

    @cached_property
    def likely(self) -> list[tuple[Change, float]]:
        """All changes that the policy may make with their probabilities, most probable first."""
        probabilities = self.explanation.change_probabilities()
        observed = self.explanation.episode.actions
        found = [
            (Change(int(t), int(observed[t]), int(a)), float(probabilities[t, a]))
            for t, a in zip(*np.nonzero(probabilities), strict=True)
        ]
        return sorted(found, key=lambda one: -one[1])


def policy_case(source: ExplainedRun, episode: Episode, value: float) -> PolicyCase | None:
    """The explanation that the run has found, solved again; None where the answer depended on how
    busy the machine was and is another one now."""
    explainer, question = source.run.explainer, source.run.question
    assert isinstance(explainer, DiscreteExplainer)
    budgets = tuple(k for k in source.run.budgets if k <= source.k)
    found = explainer.explain(episode, replace(question, budgets=budgets))[-1]
    assert is_policy(found)
    if not _is_same(found.value, value):
        return None
    ranges = tuple(found.interval_in(explainer.mdp, assumed) for assumed in ASSUMPTIONS)
    others = plans_by_doubt(explainer, episode, replace(question, budgets=(found.k,)))
    better = found.probability_better().value
    sure = explainer.claim(found, question)["guaranteed"]
    return PolicyCase(found, better, sure, ranges, others)


def _is_same(value: float, stored: float) -> bool:
    """Whether what was found again is what the run has."""
    same = math.isclose(value, stored, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)
    return same or value == stored


@dataclass(frozen=True, eq=False)
class SequenceCase:
    """The changes of a continuous case, replayed.

    members      (B, T, D) where each member of the model says that they lead, where it has some
    sensitivity  what is left of the improvement with other luck, or under a hidden cause
    """

    members: FloatArray | None
    sensitivity: Sensitivity | None


def sequence_case(source: ExplainedRun, episode: Episode, row: Row) -> SequenceCase | None:
    """The changes of a row of results, replayed; None where that leads elsewhere than the run."""
    from counterplan.counterfactual.replay import replay
    from counterplan.counterfactual.sensitivity import sensitivity

    explainer = source.run.explainer
    assert isinstance(explainer, ContinuousExplainer)
    changes = {change["t"]: change["alternative"] for change in row["changes"]}
    if not changes:
        return None
    found = replay(**explainer.problem(episode), episode=episode, changes=changes)
    if not _is_same(found.improvement, row["improvement"]):
        return None
    members = getattr(found, "member_states", None)
    return SequenceCase(members, sensitivity(explainer.scm, episode, found, TIPPING_DRAWS))


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
    results: Rows,
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
        policy = policy_case(source, episode, row["value"])
    else:
        sequence = sequence_case(source, episode, row)
    changes = row["changes"] if policy is None else _likely_changes(case, policy)
    more = {"policy": policy, "changes": changes, "claim": claim_of(row), "sequence": sequence}
    more["contributed"] = None if actors is None else contributed(source, episode, actors)
    panels = _case_panels(source, replace(case, more=more), results)
    return replace(case, panels=panels, more=more)


def _likely_changes(case: Section, policy: PolicyCase) -> list[Row]:
    """All changes that are likely enough, as a row of results holds those of the likeliest path."""
    taken = {(one["t"], one["alternative"]): one["taken"] for one in case.row["changes"]}
    likely = [one for one in policy.likely if one[1] >= LEAST_LISTED][:LISTED]
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


# --- Figures about all cases ---


def cohort_panels(source: ExplainedRun, claims: Sequence[Claim], ranked: Rows) -> list[Panel]:
    """What is claimed of all cases, how sure that is for the first, and how good the model is."""
    panels = []
    if claims:
        figure = cohort_figure(claims, quantity=source.quantity)
        panels.append(Panel("cohort", figure, "cohort"))
    first, ends = ranked[:MOST_INTERVALS], ("value", "interval_low", "interval_high")
    known = [row for row in first if np.isfinite([row[one] or 0.0 for one in ends]).all()]
    if any(row["interval_low"] is not None for row in known):
        known = [{**row, "episode_id": source.pseudonyms.shown(row["episode_id"])} for row in known]
        same = {row["factual"] for row in first}
        observed = same.pop() if len(same) == 1 else None
        figure = interval_figure(known, observed=observed, quantity=source.quantity)
        panels.append(Panel("robustness", figure, "robustness", {"count": len(known)}))
    return panels


# --- Figures about one case ---


def _case_panels(source: ExplainedRun, case: Section, results: Rows) -> list[Panel]:
    """Figures named after the anchor of the case."""
    steps, panels, quantity = case.steps, [], source.quantity
    policy, sequence = case.more["policy"], case.more["sequence"]
    if source.run.terms.is_discrete and 0 < len(steps) <= MOST_STRIP_STEPS:
        often = [row for row in steps if row["change_probability"] >= 0.005]
        panels.append(case.panel("changes", _strip_figure(source, steps), often=often))
    panels += _trajectory_panels(source, case)
    if sequence is not None and sequence.sensitivity is not None:
        figure = sensitivity_figure(sequence.sensitivity, quantity=quantity)
        panels.append(case.panel("sensitivity", figure, words=str(sequence.sensitivity)))
    known = [row for row in results if row["status"] != "failed"]
    numbers = [row[name] for row in known for name in ("value", "factual")]
    if len(known) > 1 and np.isfinite(numbers).all():
        figure = frontier_figure(known, quantity=quantity)
        panels.append(case.panel("frontier", figure, results=known))
    return panels if policy is None else [*panels, *_policy_panels(source, case, policy)]


def _policy_panels(source: ExplainedRun, case: Section, policy: PolicyCase) -> Iterator[Panel]:
    """What a policy's value rests on, what another doubt would advise, and what may come of it."""
    found, row, quantity = policy.explanation, case.row, source.quantity
    if np.isfinite([*policy.ranges[0], found.value]).all() and found.changes:
        both = zip(("interval", "stable", "monotone"), policy.ranges, strict=True)
        ends = {f"{name}_{end}": one for name, ends in both for end, one in ends._asdict().items()}
        line = {**ends, "episode_id": case.name, "value": found.value, "guaranteed": policy.sure}
        figure = interval_figure([line], observed=found.factual_value, quantity=quantity)
        yield case.panel("assumptions", figure, ranges=policy.ranges)
    if len({*policy.by_doubt.values()}) > 1 and np.isfinite([*policy.by_doubt.values()]).all():
        doubt = row.get("doubt")
        figure = doubt_figure(policy.by_doubt, chosen=doubt, quantity=quantity)
        yield case.panel("doubt", figure, by_doubt=policy.by_doubt, doubt=doubt)
    try:
        figure = outcome_figure(found, quantity=quantity)
    except InputError:  # none is finite
        return
    yield case.panel("outcomes", figure, better=policy.probability_better)


def _trajectory_panels(source: ExplainedRun, case: Section) -> list[Panel]:
    """The features that tell most about the case; none where states are names without an order."""
    labels, sequence = source.labels, case.more["sequence"]
    found: list[Panel] = []
    for feature in telling_features(labels, case.steps):
        try:
            trajectory = trajectory_of(case.steps, labels, feature=feature)
        except InputError:
            # An endless or undefined number cannot be drawn; the numbers are in the table.
            continue
        is_banded = sequence is not None and sequence.members is not None
        if is_banded:
            values = labels.values(sequence.members, feature)
            low, high = band_around(values, MODELS.outside)
            trajectory = replace(trajectory, low=low, high=high, band=MODELS.words)
        name = labels.features[feature].name
        both = (trajectory.observed, trajectory.counterfactual)
        last = [float(values[np.isfinite(values)][-1]) for values in both]
        file_name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "feature"
        figure, facts = (
            trajectory_figure(trajectory),
            {"feature": name, "last": last, "banded": is_banded},
        )
        kind = "trajectory" if found else "first trajectory"
        found.append(Panel(f"{case.anchor}-{file_name}", figure, kind, facts))
    return found


def _has_order(labels: Labels) -> bool:
    """Whether discrete states are levels of one feature, not mere names."""
    column = labels.features[0]
    return len(labels.features) == 1 and (column.labels is None or column.levels is not None)


def telling_features(labels: Labels, steps: Rows) -> list[int]:
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


def _strip_figure(source: ExplainedRun, steps: Rows) -> Figure:
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
