"""A case of a report of explanations: its changes, what they rest on, and its figures.

Discrete cases are solved again, for all that their policy may do, not only what is most likely.
What their improvement rests on is told by the range of the value over all causal models that fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change, Interval
from counterplan.counterfactual.support import NEIGHBOURS
from counterplan.errors import FileError, InputError
from counterplan.runs.question import ContinuousExplainer, DiscreteExplainer
from counterplan.runs.run import Run
from counterplan.tables.layout import SchemaLayout
from counterplan.tables.schema import Column
from counterplan.viz.changes import StateBand, change_strip_figure, draw_change_strip
from counterplan.viz.cohort import cohort_figure
from counterplan.viz.explained import OTHER, is_policy
from counterplan.viz.frontier import frontier_figure
from counterplan.viz.intervals import IntervalRow, interval_figure
from counterplan.viz.labels import Labels, labels_of, step_title
from counterplan.viz.outcomes import outcome_figure
from counterplan.viz.quantity import Quantity
from counterplan.viz.report.page import Panel, Pseudonyms, Row, Section
from counterplan.viz.trajectory import trajectory_figure, trajectory_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation

Rows = Sequence[Row]
# What a model may tell of itself in `about`, for those who look at its answers: how the outcome is
# called, and how severe each discrete state is (null where an episode is over).
OUTCOME, SEVERITY = "outcome", "severity"
# Differences below this are rounding.
ROUNDING = 1e-9
# By how much a value may differ from the stored one: other versions of libraries round otherwise.
SAME_VALUE = 1e-6
# How many of a policy's possible changes are listed, and from which probability on.
LISTED, LEAST_LISTED = 8, 0.02
# Features of a case that are drawn, the one to be improved first, then those that differ most.
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

    def robust(self, episode: Episode) -> PolicyExplanation:
        """The policy whose worst case over all causal models is best."""
        from counterplan.counterfactual.discrete.robust import robust_explain

        explainer = self.run.explainer
        assert isinstance(explainer, DiscreteExplainer)
        constraints = explainer.constraints(episode, self.run.question)
        return robust_explain(explainer.mdp, episode, self.k, constraints=constraints)


@dataclass(frozen=True, eq=False)
class PolicyCase:
    """The policy that explains a discrete case, with what is worth knowing about it.

    probability_better  that the counterfactual outcome beats the observed one

    Where the run has asked about other causal models:

    interval            range of its value over all causal models that fit the MDP
    stable_interval     the same, over those with counterfactual stability
    robust              the policy whose worst case over all causal models is best
    """

    explanation: PolicyExplanation
    probability_better: float
    interval: Interval | None = None
    stable_interval: Interval | None = None
    robust: PolicyExplanation | None = None

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
    from counterplan.counterfactual.discrete.robust import value_interval

    explainer, question = source.run.explainer, source.run.question
    assert isinstance(explainer, DiscreteExplainer)
    budgets = tuple(k for k in source.run.budgets if k <= source.k)
    found = explainer.explain(episode, replace(question, budgets=budgets))[-1]
    assert is_policy(found)
    same = math.isclose(found.value, value, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)
    if not same and found.value != value:
        return None
    case, mdp = PolicyCase(found, found.probability_better().value), explainer.mdp
    if not question.robust:
        return case
    return replace(
        case,
        interval=value_interval(mdp, episode, found),
        stable_interval=value_interval(mdp, episode, found, stability=True),
        robust=source.robust(episode),
    )


def make_case(
    source: ExplainedRun, case: Section, results: Rows, episode: Episode | None
) -> Section:
    """A case with its figures drawn.

    results  of the case for all budgets
    episode  the episode itself, where it is discrete
    """
    row = case.row
    if row["status"] == "failed":
        return case
    policy = None if episode is None else policy_case(source, episode, row["value"])
    changes = row["changes"] if policy is None else _likely_changes(case, policy)
    panels = _case_panels(source, case, results, policy)
    return replace(case, panels=panels, more={"policy": policy, "changes": changes})


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


def cohort_panels(source: ExplainedRun, totals: Mapping[str, Any], ranked: Rows) -> list[Panel]:
    """How much all cases could have been improved, and how sure that is for the first."""
    if not len(totals["gains"]):
        return []
    figure = cohort_figure(totals["gains"], quantity=source.quantity)
    panels = [Panel("cohort", figure, "cohort")]
    rows = _interval_rows(source, ranked[:MOST_INTERVALS])
    if rows:
        same = {row["factual"] for row in ranked[: len(rows)]}
        observed = same.pop() if len(same) == 1 else None
        figure = interval_figure(rows, observed=observed, quantity=source.quantity)
        panels.append(Panel("robustness", figure, "robustness", {"count": len(rows)}))
    return panels


def _interval_rows(source: ExplainedRun, chosen: Rows) -> list[IntervalRow]:
    columns = ("value", "interval_low", "interval_high")
    numbers = np.array([[row[name] for name in columns] for row in chosen], dtype=np.float64)
    if not np.isfinite(numbers).all():
        return []
    names = [row["episode_id"] for row in chosen]
    episodes = source.run.episodes(names)
    return [
        IntervalRow(
            source.pseudonyms.shown(name),
            value,
            Interval(low, high),
            source.robust(episodes[name].episode).value if source.run.question.robust else None,
        )
        for name, (value, low, high) in zip(names, numbers.tolist(), strict=True)
    ]


# --- Figures about one case ---


def _case_panels(
    source: ExplainedRun, case: Section, results: Rows, policy: PolicyCase | None
) -> list[Panel]:
    """Figures named after the anchor of the case."""
    steps, panels = case.steps, []
    if source.run.terms.is_discrete and 0 < len(steps) <= MOST_STRIP_STEPS:
        often = [row for row in steps if row["change_probability"] >= 0.005]
        panels.append(case.panel("changes", _strip_figure(source, steps), often=often))
    panels += _trajectory_panels(source, case)
    known = [row for row in results if row["status"] != "failed"]
    numbers = [row[name] for row in known for name in ("value", "factual")]
    if len(known) > 1 and np.isfinite(numbers).all():
        figure = frontier_figure(known, quantity=source.quantity)
        panels.append(case.panel("frontier", figure, results=known))
    if policy is not None:
        try:
            figure = outcome_figure(policy.explanation, quantity=source.quantity)
        except InputError:  # none is finite
            return panels
        panels.append(case.panel("outcomes", figure, better=policy.probability_better))
    return panels


def _trajectory_panels(source: ExplainedRun, case: Section) -> list[Panel]:
    """The features that tell most about the case; none where states are names without an order."""
    labels = source.labels
    found: list[Panel] = []
    for feature in _telling(labels, case.steps):
        try:
            trajectory = trajectory_of(case.steps, labels, feature=feature)
        except InputError:
            # An endless or undefined number cannot be drawn; the numbers are in the table.
            continue
        name = labels.features[feature].name
        both = (trajectory.observed, trajectory.counterfactual)
        last = [float(values[np.isfinite(values)][-1]) for values in both]
        file_name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "feature"
        figure, facts = trajectory_figure(trajectory), {"feature": name, "last": last}
        kind = "trajectory" if found else "first trajectory"
        found.append(Panel(f"{case.anchor}-{file_name}", figure, kind, facts))
    return found


def _has_order(labels: Labels) -> bool:
    """Whether discrete states are levels of one feature, not mere names."""
    column = labels.features[0]
    return len(labels.features) == 1 and (column.labels is None or column.levels is not None)


def _telling(labels: Labels, steps: Rows) -> list[int]:
    """The features that are to be improved, then those that differ most from what was, as a share
    of how much they move."""
    if labels.states is not None:
        return [0] if _has_order(labels) else []
    names = [f"state:{column.name}" for column in labels.features]
    before, after = (
        np.array([[row[prefix + name] for name in names] for row in steps], dtype=np.float64)
        for prefix in ("", OTHER)
    )
    spread, apart = np.ptp(np.concatenate([before, after]), axis=0), np.abs(before - after).mean(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(np.isfinite(spread) & (spread > 0.0), apart / spread, 0.0)
    good = [number for number, column in enumerate(labels.features) if column.better]
    others = [int(n) for n in np.argsort(-share, kind="stable") if share[n] > 0 and n not in good]
    return [*good, *others][:MOST_FEATURES]


def _strip_figure(source: ExplainedRun, steps: Rows) -> Figure:
    """States by their severity or level; where they are mere names, by what they earn."""
    if _has_order(source.labels):
        return change_strip_figure(list(steps), labels=source.labels)
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
