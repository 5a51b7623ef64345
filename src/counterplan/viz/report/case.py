"""A case of a report of explanations: its changes, what they rest on, its steps and its figures.

Discrete cases are solved again, for all that their policy may do, not only what is most likely.
What their improvement rests on is told by the range of the value over all causal models that fit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change, Interval
from counterplan.core.validation import counted
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.robust import robust_explain, value_interval
from counterplan.counterfactual.support import NEIGHBOURS
from counterplan.errors import InputError
from counterplan.runs.question import ContinuousExplainer, DiscreteExplainer
from counterplan.runs.run import Run
from counterplan.tables.parts import Recorded
from counterplan.viz import (
    change_strip_figure,
    cohort_figure,
    frontier_figure,
    interval_figure,
    outcome_figure,
    trajectory_figure,
)
from counterplan.viz.changes import StateBand, draw_change_strip
from counterplan.viz.intervals import IntervalRow
from counterplan.viz.labels import Labels, step_title, with_unit
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.report.page import Item, Panel, Pseudonyms, Row, arrow
from counterplan.viz.trajectory import trajectory_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Row]
OTHER = "counterfactual_"
# Differences below this are rounding.
ROUNDING = 1e-9
# By how much a value may differ from the stored one: other versions of libraries round otherwise.
SAME_VALUE = 1e-6
# A range over causal models is called narrow if it is at most this share of the improvement.
NARROW = 0.25
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
    """A run of explanations with what its numbers are called.

    k         the budget that is reported on
    quantity  what an outcome is
    labels    names of features and doses
    """

    run: Run
    pseudonyms: Pseudonyms
    k: int
    quantity: Quantity
    labels: Labels

    @property
    def outcome(self) -> str:
        """What the outcome is, in words."""
        name, unit = self.quantity.name, self.quantity.unit
        if name != Quantity().name:
            return f"{name} ({unit})" if unit else name
        return unit or "the sum of the model's rewards"


# --- Policies solved again ---


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

    @property
    def mean_changes(self) -> float:
        """How many changes it makes on average."""
        return float(sum(n * p for n, p in enumerate(self.explanation.changes_distribution())))

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the outcome, None if it is infinite."""
        variance = self.explanation.outcome_variance
        return variance**0.5 if math.isfinite(variance) else None

    @property
    def evidence(self) -> str:
        """What the improvement rests on, from firm to weak: it is nearly the same in every causal
        model ("narrow"); there is some in each ("every model"); an "other policy" has some in each;
        or it rests on the "assumption" of this model. There may be "no improvement" at all."""
        assert self.interval is not None
        assert self.robust is not None
        gain = self.explanation.improvement
        if gain <= ROUNDING:
            return "no improvement"
        if self.interval.low - self.explanation.factual_value > ROUNDING:
            return "narrow" if self.interval.width <= NARROW * gain else "every model"
        return "other policy" if self.robust.improvement > ROUNDING else "assumption"


def policy_case(source: ExplainedRun, recorded: Recorded, value: float) -> PolicyCase | None:
    """The explanation that the run has found, solved again; None where there is no policy, or where
    the answer depended on how busy the machine was and is another one now."""
    explainer, question = source.run.explainer, source.run.question
    if not isinstance(explainer, DiscreteExplainer):
        return None
    budgets = tuple(k for k in source.run.budgets if k <= source.k)
    found = explainer.explain(recorded.episode, replace(question, budgets=budgets))[-1]
    assert isinstance(found, PolicyExplanation)
    same = math.isclose(found.value, value, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)
    if not same and found.value != value:
        return None
    better = found.probability_better().value
    if not question.robust:
        return PolicyCase(found, better)
    mdp, episode = explainer.mdp, recorded.episode
    return PolicyCase(
        found,
        better,
        value_interval(mdp, episode, found),
        value_interval(mdp, episode, found, stability=True),
        _robust(source, explainer, episode),
    )


def _robust(source: ExplainedRun, explainer: DiscreteExplainer, episode: Episode) -> Any:
    constraints = source.run.question.constraints(explainer.constraints(episode))
    return robust_explain(explainer.mdp, episode, source.k, constraints=constraints)


# --- Cases ---


class ChangeLine(NamedTuple):
    """A change in words.

    probability  that the policy makes it, None where it is certain
    taken        how often the new action was taken there in the data, None if not known
    """

    when: str
    text: str
    probability: float | None
    taken: int | None


@dataclass(frozen=True, eq=False)
class Case(Item):
    """A case with all that is shown of it.

    outcomes     what the table says of it besides
    reason       why it failed
    changes      what would have been done differently
    nearest      how many of the nearest states in the data were asked about; None where discrete
    steps_table  headings, and for each step whether it is changed and its cells
    """

    outcomes: str
    reason: str = ""
    policy: PolicyCase | None = None
    changes: Sequence[ChangeLine] = ()
    nearest: int | None = None
    panels: Sequence[Panel] = ()
    steps_table: tuple[list[str], list[tuple[bool, list[str]]]] = ([], [])


def make_case(
    source: ExplainedRun,
    row: Row,
    rank: int,
    results: Rows,
    steps: Rows,
    recorded: Recorded | None,
) -> Case:
    """A case with its figures drawn.

    results   of the case for all budgets
    steps     rows of its trajectory
    recorded  the episode itself, where it is discrete
    """
    name = row["episode_id"]
    given = {outcome: row[f"outcome:{outcome}"] for outcome in source.run.outcomes}
    outcomes = ", ".join(f"{outcome}: {text}" for outcome, text in given.items() if text)
    case = Case(row, source.pseudonyms.shown(name), rank, outcomes)
    if row["status"] == "failed":
        return replace(case, reason=source.pseudonyms.within(row["reason"] or "", name))
    policy = None if recorded is None else policy_case(source, recorded, row["value"])
    explainer, nearest = source.run.explainer, None
    if isinstance(explainer, ContinuousExplainer):
        seen = explainer.scm.seen
        nearest = NEIGHBOURS if seen is None else min(NEIGHBOURS, len(seen.states))
    return replace(
        case,
        policy=policy,
        changes=_changes(source, row, steps, policy),
        nearest=nearest,
        panels=_case_panels(source, results, steps, policy, case.anchor),
        steps_table=_steps_table(source, steps),
    )


def _changes(
    source: ExplainedRun, row: Row, steps: Rows, policy: PolicyCase | None
) -> list[ChangeLine]:
    explainer, known = source.run.explainer, {}
    found = []
    for change in row["changes"]:
        known[change["t"], change["alternative"]] = change["taken"]
        text = arrow(explainer.change_text(change["observed"], change["alternative"]))
        when = explainer.time_text(change["time"])
        found.append(ChangeLine(when, text, change["probability"], change["taken"]))
    if policy is None:
        return found
    likely = [one for one in policy.likely if one[1] >= LEAST_LISTED][:LISTED]
    found = []
    for change, probability in sorted(likely, key=lambda one: (one[0].t, -one[1])):
        t, observed, alternative = change
        text = arrow(explainer.change_text(observed, alternative))
        when = explainer.time_text(steps[t]["time"])
        found.append(ChangeLine(when, text, probability, known.get((t, alternative))))
    return found


def _steps_table(
    source: ExplainedRun, steps: Rows
) -> tuple[list[str], list[tuple[bool, list[str]]]]:
    """All steps in numbers, for those who want to check a figure."""
    explainer, labels, unit = source.run.explainer, source.labels, source.run.terms.unit
    if isinstance(explainer, DiscreteExplainer):
        state, action = explainer.mdp.state_name, explainer.action_name
        headings = ["State", "Action", "Changed in", "Reward"]
        cells = [
            [
                _both(state(row["state"]), state(row[f"{OTHER}state"])),
                _both(action(row["action"]), action(row[f"{OTHER}action"])),
                f"{100 * row['change_probability']:.0f} %",
                _both(_number(row["reward"]), _number(row[f"{OTHER}reward"])),
            ]
            for row in steps
        ]
    else:
        doses = [name.removeprefix("action:") for name in steps[0] if name.startswith("action:")]
        units = {dose.name: with_unit(dose) for dose in labels.doses}
        headings = [*(units.get(name, name) for name in doses), *map(with_unit, labels.features)]
        columns = [f"action:{name}" for name in doses]
        columns += [f"state:{column.name}" for column in labels.features]
        cells = [
            [_both(_number(row[name]), _number(row[OTHER + name])) for name in columns]
            for row in steps
        ]
    rows = [
        (bool(row["changed"]), [f"{row['time']:g}", *texts])
        for row, texts in zip(steps, cells, strict=True)
    ]
    return [f"Time ({unit})" if unit else "Step", *headings], rows


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.4g}"


# --- Figures about all cases ---


def cohort_panels(source: ExplainedRun, totals: Mapping[str, Any], ranked: Rows) -> list[Panel]:
    """How much all cases could have been improved, and how sure that is for the first."""
    if not len(totals["gains"]):
        return []
    noun, allowed = source.run.terms.noun, counted(source.k, "change")
    explained = totals["cases"] - totals["statuses"]["failed"]
    panels = [
        Panel(
            "cohort",
            cohort_figure(totals["gains"], quantity=source.quantity),
            f"{noun.capitalize()}s by what at most {allowed} would have brought; the most "
            "improvable tenth is marked.",
            f"Histogram of improvements: {totals['improvable']:,} of {explained:,} {noun}s could "
            "have been improved.",
        )
    ]
    rows = _interval_rows(source, ranked[:MOST_INTERVALS])
    if rows:
        same = {row["factual"] for row in ranked[: len(rows)]}
        observed = same.pop() if len(same) == 1 else None
        panels.append(
            Panel(
                "robustness",
                interval_figure(rows, observed=observed, quantity=source.quantity),
                f"The first {len(rows)} of the ranking: the value under the assumed causal model "
                "(circle), its range over all causal models that fit (bar), and what the plan with "
                "the best worst case reaches in every one of them (diamond).",
                "Ranges over causal models of the highest ranked cases; the numbers are in the "
                "table of cases.",
            )
        )
    return panels


def _interval_rows(source: ExplainedRun, chosen: Rows) -> list[IntervalRow]:
    explainer, found = source.run.explainer, []
    if any(row["interval_low"] is None for row in chosen):
        return []
    episodes = source.run.episodes(row["episode_id"] for row in chosen)
    for row in chosen:
        numbers = [row["value"], row["interval_low"], row["interval_high"]]
        if not np.isfinite(numbers).all():
            return []
        value, low, high = map(float, numbers)
        sure = None
        if source.run.question.robust and isinstance(explainer, DiscreteExplainer):
            sure = _robust(source, explainer, episodes[row["episode_id"]].episode).value
        name = source.pseudonyms.shown(row["episode_id"])
        found.append(IntervalRow(name, value, Interval(low, high), sure))
    return found


# --- Figures about one case ---


def _case_panels(
    source: ExplainedRun, results: Rows, steps: Rows, policy: PolicyCase | None, anchor: str
) -> list[Panel]:
    """Figures named after the anchor of the case."""
    panels: list[Panel | None] = []
    if source.run.terms.is_discrete and 0 < len(steps) <= MOST_STRIP_STEPS:
        panels.append(_strip_panel(source, steps, anchor))
    panels += _trajectory_panels(source, steps, anchor)
    panels.append(_frontier_panel(source, results, anchor))
    if policy is not None:
        panels.append(_outcome_panel(source, policy, anchor))
    return [panel for panel in panels if panel is not None]


def _trajectory_panels(source: ExplainedRun, steps: Rows, anchor: str) -> list[Panel]:
    """The features that tell most about the case; none where states are names without an order."""
    labels = source.labels
    found: list[Panel] = []
    for feature in _telling(labels, steps, source.run.terms.is_discrete):
        try:
            trajectory = trajectory_of(steps, labels, feature=feature)
        except InputError:
            # An endless or undefined number cannot be drawn; the numbers are in the table.
            continue
        name = labels.features[feature].name
        both = (trajectory.observed, trajectory.counterfactual)
        last = [f"{values[np.isfinite(values)][-1]:.4g}" for values in both]
        changes = "" if found else ", with every change of a dose where it is made"
        file_name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "feature"
        found.append(
            Panel(
                f"{anchor}-{file_name}",
                trajectory_figure(trajectory),
                f"{name} as it was and as it would have been{changes}.",
                f"{name} ends at {last[0]} as observed and at {last[1]} with the changes.",
            )
        )
    return found


def _has_order(labels: Labels) -> bool:
    """Whether discrete states are levels of one feature, not mere names."""
    column = labels.features[0]
    return len(labels.features) == 1 and (column.labels is None or column.levels is not None)


def _telling(labels: Labels, steps: Rows, is_discrete: bool) -> list[int]:
    """The features that are to be improved, then those that differ most from what was, as a share
    of how much they move."""
    if is_discrete:
        return [0] if _has_order(labels) else []
    differences = {}
    for number, column in enumerate(labels.features):
        before, after = (
            np.array([row[f"{prefix}state:{column.name}"] for row in steps], dtype=np.float64)
            for prefix in ("", OTHER)
        )
        spread = float(np.ptp(np.concatenate([before, after])))
        apart = float(np.abs(before - after).mean())
        if np.isfinite(spread) and spread > 0.0 and apart > 0.0:
            differences[number] = apart / spread
    good = [number for number, column in enumerate(labels.features) if column.better]
    others = sorted(differences.keys() - set(good), key=lambda number: -differences[number])
    return [*good, *others][:MOST_FEATURES]


def _strip_panel(source: ExplainedRun, steps: Rows, anchor: str) -> Panel:
    """How often each step is changed, above the states."""
    often = ", ".join(
        f"{source.run.explainer.time_text(row['time'])} in {share(row['change_probability'])}"
        for row in steps
        if row["change_probability"] >= 0.005
    )
    return Panel(
        f"{anchor}-changes",
        _strip_figure(source, steps),
        "How often each step is changed (in %), above the states of the observed course and of the "
        "likeliest counterfactual one.",
        f"Changed: {often or 'nothing'}.",
    )


def _strip_figure(source: ExplainedRun, steps: Rows) -> Figure:
    """States by their severity or level; where they are mere names, by what they earn."""
    if _has_order(source.labels):
        return change_strip_figure(steps, labels=source.labels)
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


def _frontier_panel(source: ExplainedRun, results: Rows, anchor: str) -> Panel | None:
    """What each further change brings, if several budgets were asked about."""
    known = [row for row in results if row["status"] != "failed"]
    numbers = [row[name] for row in known for name in ("value", "factual")]
    if len(known) < 2 or not np.isfinite(numbers).all():
        return None
    write = source.quantity.write
    values = ", ".join(f"k = {row['k']}: {write(row['value'])}" for row in known)
    return Panel(
        f"{anchor}-frontier",
        frontier_figure(known, quantity=source.quantity),
        "What each further change brings.",
        f"Outcome by the number of changes allowed: {values}.",
    )


def _outcome_panel(source: ExplainedRun, policy: PolicyCase, anchor: str) -> Panel | None:
    """How likely each outcome is."""
    try:
        figure = outcome_figure(policy.explanation, quantity=source.quantity)
    except InputError:
        return None
    return Panel(
        f"{anchor}-outcomes",
        figure,
        "How likely each outcome is when chance plays out anew within what is known.",
        "The outcome is better than the observed one with probability "
        f"{share(policy.probability_better)}.",
    )
