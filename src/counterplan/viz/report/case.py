"""A section for each case looked at closely: what to change, how sure that is, and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Interval, Status
from counterplan.core.validation import counted
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.robust import robust_explain, value_interval
from counterplan.errors import InputError
from counterplan.runs.question import NEIGHBOURS, TOLERATED, ContinuousExplainer, DiscreteExplainer
from counterplan.tables.parts import Recorded
from counterplan.viz import (
    change_strip_figure,
    cohort_figure,
    frontier_figure,
    interval_figure,
    outcome_figure,
    trajectory_figure,
)
from counterplan.viz.case import Case, Evidence, LikelyChange, likely_changes
from counterplan.viz.changes import StateBand, draw_change_strip
from counterplan.viz.intervals import IntervalRow
from counterplan.viz.labels import Labels, Quantity, share, step_title, with_unit
from counterplan.viz.page import Html, Panel, element, facts, items, join, panels
from counterplan.viz.report.source import Source, Totals
from counterplan.viz.trajectory import Trajectory, trajectory_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# ----------------------------------------------------------------------------------------------
# The course of a case in numbers, step by step, for those who want to check a figure.

CourseRow = Mapping[str, Any]
OTHER = "counterfactual_"


def course_table(source: Source, course: Sequence[CourseRow]) -> Html:
    """Folded away until it is asked for."""
    if not course:
        return Html("")
    headings, cells = (
        _discrete(source, course)
        if isinstance(source.explainer, DiscreteExplainer)
        else _continuous(source, course)
    )
    unit = source.terms.unit
    head = element(
        "tr",
        *(element("th", text) for text in (f"Time ({unit})" if unit else "Step", *headings)),
    )
    body = (
        element(
            "tr",
            element("td", f"{row['time']:g}"),
            *(element("td", text) for text in texts),
            class_="changed" if row["changed"] else "",
        )
        for row, texts in zip(course, cells, strict=True)
    )
    table = element("table", element("thead", head), element("tbody", *body), class_="course")
    return element(
        "details",
        element("summary", "The course in numbers, observed → counterfactual where they differ"),
        element("div", table, class_="scroll"),
    )


def _discrete(source: Source, course: Sequence[CourseRow]) -> tuple[list[str], list[list[str]]]:
    assert isinstance(source.explainer, DiscreteExplainer)
    mdp, explainer = source.explainer.mdp, source.explainer
    cells = [
        [
            _both(mdp.state_name(row["state"]), mdp.state_name(row[f"{OTHER}state"])),
            _both(
                explainer.action_name(row["action"]), explainer.action_name(row[f"{OTHER}action"])
            ),
            f"{100 * row['change_probability']:.0f} %",
            _both(_number(row["reward"]), _number(row[f"{OTHER}reward"])),
        ]
        for row in course
    ]
    return ["State", "Action", "Changed in", "Reward"], cells


def _continuous(source: Source, course: Sequence[CourseRow]) -> tuple[list[str], list[list[str]]]:
    labels = source.labels
    doses = [name for name in course[0] if name.startswith("action:")]
    features = [f"state:{column.name}" for column in labels.features]
    cells = [
        [_both(_number(row[name]), _number(row[OTHER + name])) for name in (*doses, *features)]
        for row in course
    ]
    units = {dose.name: with_unit(dose) for dose in labels.doses}
    names = [name.removeprefix("action:") for name in doses]
    titles = [units.get(name, name) for name in names]
    return [*titles, *(with_unit(column) for column in labels.features)], cells


def _both(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value + 0.0:.4g}"


# ----------------------------------------------------------------------------------------------
# Discrete cases solved again for a close look: all that a policy may do, not only most likely.

# By how much a value may differ from the stored one: other versions of libraries round otherwise.
SAME_VALUE = 1e-6


@dataclass(frozen=True, eq=False)
class PolicyLook:
    """A policy with what is worth knowing about it.

    case  how much of it rests on the causal assumption, where the run has asked for that
    """

    explanation: PolicyExplanation
    probability_better: float
    likely: tuple[LikelyChange, ...]
    case: Case | None = None


def policy_look(source: Source, recorded: Recorded, value: float) -> PolicyLook | None:
    """The explanation that the run has found, solved again; None where there is no policy, or where
    the answer depended on how busy the machine was and is another one now."""
    explainer = source.explainer
    if not isinstance(explainer, DiscreteExplainer):
        return None
    budgets = tuple(k for k in source.budgets if k <= source.k)
    found = explainer.explain(recorded.episode, replace(source.question, budgets=budgets))
    policies = [one for one in found if isinstance(one, PolicyExplanation)]
    if not _is_near(policies[-1].value, value):
        return None
    better = policies[-1].probability_better().value
    case = _case(source, explainer, policies, better) if source.question.robust else None
    return PolicyLook(policies[-1], better, likely_changes(policies[-1]), case)


def guaranteed(source: Source, episode: Episode) -> float | None:
    """What some plan within the budget reaches in every causal model; None where the run did not
    ask about other models."""
    explainer = source.explainer
    if not source.question.robust or not isinstance(explainer, DiscreteExplainer):
        return None
    return _robust(source, explainer, episode).value


def _robust(source: Source, explainer: DiscreteExplainer, episode: Episode) -> PolicyExplanation:
    constraints = source.question.constraints(explainer.constraints(episode))
    return robust_explain(explainer.mdp, episode, source.k, constraints=constraints)


def _case(
    source: Source, explainer: DiscreteExplainer, found: list[PolicyExplanation], better: float
) -> Case:
    last = found[-1]
    episode, mdp = last.episode, explainer.mdp
    return Case(
        frontier=found,
        interval=value_interval(mdp, episode, last),
        stable_interval=value_interval(mdp, episode, last, stability=True),
        robust=_robust(source, explainer, episode),
        probability_better=better,
    )


def _is_near(now: float, then: float) -> bool:
    return now == then or math.isclose(now, then, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)


# ----------------------------------------------------------------------------------------------
# Figures about one case, from what the run has kept, and about all of them.

Rows = Sequence[Mapping[str, Any]]
# Features of a case that are drawn, the one to be improved first, then those that differ most.
MOST_FEATURES = 4
# Cases whose ranges over causal models are drawn together.
MOST_INTERVALS = 20
# Letters of a state's name that fit a cell; longer ones are numbered.
LONGEST_NAME = 8
# Steps up to which a strip of states can be read.
MOST_STRIP_STEPS = 60


def cohort_panels(source: Source, totals: Totals, ranked: Rows) -> list[Panel]:
    """How much all cases could have been improved, and how sure that is for the first."""
    if not totals.gains:
        return []
    noun, allowed = source.terms.noun, counted(source.k, "change")
    panels = [
        Panel(
            "cohort",
            cohort_figure(totals.gains, quantity=source.quantity),
            f"{noun.capitalize()}s by what at most {allowed} would have brought; the most "
            "improvable tenth is marked.",
            f"Histogram of improvements: {totals.improvable:,} of {totals.explained:,} "
            f"{noun}s could have been improved.",
        )
    ]
    rows = _interval_rows(source, ranked)
    if rows:
        same = {row["factual"] for row in ranked[: len(rows)]}
        panels.append(
            Panel(
                "robustness",
                interval_figure(
                    rows,
                    observed=same.pop() if len(same) == 1 else None,
                    quantity=source.quantity,
                ),
                f"The first {len(rows)} of the ranking: the value under the assumed causal model "
                "(circle), its range over all causal models that fit (bar), and what the plan with "
                "the best worst case reaches in every one of them (diamond).",
                "Ranges over causal models of the highest ranked cases; the numbers are in the "
                "table of cases.",
            )
        )
    return panels


def _interval_rows(source: Source, ranked: Rows) -> list[IntervalRow]:
    chosen, found = ranked[:MOST_INTERVALS], []
    if any(row["interval_low"] is None for row in chosen):
        return []
    episodes = source.run.episodes(row["episode_id"] for row in chosen)
    for row in chosen:
        numbers = [row["value"], row["interval_low"], row["interval_high"]]
        if not np.isfinite(numbers).all():
            return []
        value, low, high = map(float, numbers)
        sure = guaranteed(source, episodes[row["episode_id"]].episode)
        name = source.names.shown(row["episode_id"])
        found.append(IntervalRow(name, value, Interval(low, high), sure))
    return found


def case_panels(
    source: Source, rows: Rows, course: Rows, look: PolicyLook | None, place: str
) -> list[Panel]:
    """Figures about one case.

    rows    its results for all budgets
    course  its steps
    place   its anchor, from which the figures have their names
    """
    panels = [_strip(source, course, place)] if source.terms.is_discrete else []
    panels += _trajectories(source, course, place)
    panels.append(_frontier(source, rows, place))
    if look is not None:
        panels.append(_outcomes(source, look, place))
    return [panel for panel in panels if panel is not None]


def _trajectories(source: Source, course: Rows, place: str) -> list[Panel | None]:
    """The features that tell most about the case; none where states are names without an order."""
    labels = source.labels
    found: list[Panel | None] = []
    for feature in _telling(labels, course, source.terms.is_discrete):
        try:
            data = trajectory_of(course, labels, feature=feature)
            name = labels.features[feature].name
            found.append(
                Panel(
                    f"{place}-{_file_name(name)}",
                    trajectory_figure(data),
                    f"{name} as it was and as it would have been"
                    + (", with every change of a dose where it is made." if not found else "."),
                    _told(name, data),
                )
            )
        except InputError:
            # An endless or undefined number cannot be drawn; the numbers are in the table.
            continue
    return found


def _file_name(name: str) -> str:
    """Letters and digits only, of any column."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "feature"


def _told(name: str, data: Trajectory) -> str:
    ends = []
    for values in (data.observed, data.counterfactual):
        known = values[np.isfinite(values)]
        ends.append(f"{known[-1]:.4g}" if known.size else "unknown")
    return f"{name} ends at {ends[0]} as observed and at {ends[1]} with the changes."


def _telling(labels: Labels, course: Rows, is_discrete: bool) -> list[int]:
    """The features that are to be improved, then those that differ most from what was, as a share
    of how much they move."""
    if is_discrete:
        column = labels.features[0]
        ordered = len(labels.features) == 1 and (column.labels is None or column.levels is not None)
        return [0] if ordered else []
    differences = {}
    for number, column in enumerate(labels.features):
        before, after = (
            np.array([row[f"{prefix}state:{column.name}"] for row in course], dtype=np.float64)
            for prefix in ("", "counterfactual_")
        )
        spread = float(np.ptp(np.concatenate([before, after]))) if len(before) else 0.0
        apart = float(np.abs(before - after).mean()) if len(before) else 0.0
        if np.isfinite(spread) and spread > 0.0 and apart > 0.0:
            differences[number] = apart / spread
    good = [number for number, column in enumerate(labels.features) if column.better]
    others = sorted(differences.keys() - set(good), key=lambda number: -differences[number])
    return [*good, *others][:MOST_FEATURES]


def _strip(source: Source, course: Rows, place: str) -> Panel | None:
    """How often each step is changed, above the states."""
    if not course or len(course) > MOST_STRIP_STEPS:
        return None
    often = ", ".join(
        f"{source.explainer.time_text(row['time'])} in {share(row['change_probability'])}"
        for row in course
        if row["change_probability"] >= 0.005
    )
    return Panel(
        f"{place}-changes",
        _strip_figure(source, course),
        "How often each step is changed (in %), above the states of the observed course and of the "
        "likeliest counterfactual one.",
        f"Changed: {often or 'nothing'}.",
    )


def _strip_figure(source: Source, course: Rows) -> Figure:
    """States by their severity or level; where they are mere names, by what they earn."""
    column = source.labels.features[0]
    if len(source.labels.features) == 1 and (column.labels is None or column.levels is not None):
        return change_strip_figure(course, labels=source.labels)
    assert isinstance(source.explainer, DiscreteExplainer)
    mdp = source.explainer.mdp
    bands = []
    for label, prefix in (("observed", ""), ("likeliest", "counterfactual_")):
        names = [mdp.state_name(row[f"{prefix}state"]) for row in course]
        if max(map(len, names)) > LONGEST_NAME:
            names = [str(row[f"{prefix}state"]) for row in course]
        levels = np.array([row[f"{prefix}reward"] for row in course], dtype=np.float64)
        bands.append(StateBand(label, np.where(np.isfinite(levels), levels, np.nan), names))
    changed = np.array([row["change_probability"] for row in course], dtype=np.float64)
    times = [row["time"] for row in course]
    heading, title = "states, by reward: darker is higher", step_title(source.terms.unit)
    return draw_change_strip(changed, bands, heading, times, title)


def _frontier(source: Source, rows: Rows, place: str) -> Panel | None:
    """What each further change brings, if several budgets were asked about."""
    if len(rows) < 2:
        return None
    if not np.isfinite([row[name] for row in rows for name in ("value", "factual")]).all():
        return None
    values = ", ".join(f"k = {row['k']}: {source.quantity.write(row['value'])}" for row in rows)
    return Panel(
        f"{place}-frontier",
        frontier_figure(rows, quantity=source.quantity),
        "What each further change brings.",
        f"Outcome by the number of changes allowed: {values}.",
    )


def _outcomes(source: Source, look: PolicyLook, place: str) -> Panel | None:
    """How likely each outcome is."""
    try:
        figure = outcome_figure(look.explanation, quantity=source.quantity)
    except InputError:
        return None
    return Panel(
        f"{place}-outcomes",
        figure,
        "How likely each outcome is when chance plays out anew within what is known.",
        f"The outcome is better than the observed one with probability "
        f"{share(look.probability_better)}.",
    )


# ----------------------------------------------------------------------------------------------
# Changes, certificates and robustness in sentences.


def certificate_in_words(row: Mapping[str, Any], quantity: Quantity) -> str:
    """What is proved about the value of a row of results."""
    status = Status(row["status"])
    value = quantity.write(row["value"])
    if status is Status.HEURISTIC:
        return f"Value {value}, status {status.value}. {status.advice}"
    gap = "0" if row["gap"] == 0.0 else quantity.write_gain(row["gap"])
    bound = quantity.write(row["bound"])
    return f"Value {value}, bound {bound}, gap {gap}, status {status.value}. {status.advice}"


def robustness_in_words(case: Case, quantity: Quantity) -> str:
    """How much of the improvement rests on the causal assumption."""
    explanation, footing = case.explanation, case.footing
    changes = counted(explanation.k, "change")
    low, high = case.interval
    extent = quantity.write_range(low, high)
    robust = quantity.write(case.robust.value)
    if footing is Evidence.NONE:
        return "No admissible change improves the outcome, whatever the causal model."
    if footing is Evidence.NARROW:
        return (
            f"Narrow range: every causal model that fits the same MDP puts this explanation at "
            f"{extent}. Even the worst case improves on what was observed, so little rests on "
            "the causal assumption."
        )
    if footing is Evidence.EVERY_MODEL:
        return (
            f"Wide range, but always better: depending on the causal model this explanation is "
            f"worth {extent}. That it improves on what was observed holds in every model; how "
            f"much it improves rests on the causal assumption."
        )
    wide = (
        f"Wide range: depending on the causal model this explanation is worth {extent}, so its "
        f"size rests on the causal assumption."
    )
    if footing is Evidence.OTHER_POLICY:
        return (
            f"{wide} An improvement does not: another plan with at most {changes} reaches at "
            f"least {robust} in every causal model."
        )
    return f"{wide} No plan with at most {changes} improves the outcome in every causal model."


# ----------------------------------------------------------------------------------------------

Row = Mapping[str, Any]
# How many of a policy's possible changes are listed, and from which probability on.
LISTED, LEAST_LISTED = 8, 0.02
PROBABILITY = Quantity("probability", percent=True)


@dataclass(frozen=True, eq=False)
class CloseLook:
    """A case with all that is shown of it.

    row     its result for the budget that is reported on
    course  its steps
    rank    its place in the ranking, 0 if it has none
    """

    row: Row
    course: Sequence[Row]
    policy: PolicyLook | None
    panels: Sequence[Panel]
    rank: int
    place: str


def close_look(source: Source, look: CloseLook) -> Html:
    """The section of a case."""
    row, name = look.row, source.names.shown(look.row["episode_id"])
    title = f"{look.rank}. {name}" if look.rank else name
    head = [element("h3", title), element("p", _headline(source, look), class_="headline")]
    if row["status"] == "failed":
        reason = source.names.within(row["reason"] or "", row["episode_id"])
        words = element("p", f"Could not be explained: {reason}", class_="note weak")
        return element("article", *head, words, class_="case", id=look.place)
    left = element(
        "div",
        element("h4", "What would have been done differently"),
        _changes(source, look),
        *_warnings(source, row),
        *_robustness(source, look),
    )
    right = element(
        "div",
        element("h4", "In numbers"),
        _facts(source, look),
        element("h4", "Certificate"),
        element("p", certificate_in_words(row, source.quantity), class_="certificate"),
        element("p", _method(row), class_="certificate"),
    )
    return element(
        "article",
        *head,
        element("div", left, right, class_="columns"),
        panels(look.panels),
        course_table(source, look.course),
        class_="case",
        id=look.place,
    )


def _headline(source: Source, look: CloseLook) -> str:
    row, quantity = look.row, source.quantity
    given = {name: row[f"outcome:{name}"] for name in source.outcomes}
    told = ", ".join(f"{name}: {text}" for name, text in given.items() if text)
    if row["status"] == "failed":
        return f"{counted(row['steps'], 'step')}. {told}"
    expected = " expected" if source.terms.is_discrete else ""
    decisions = row["steps"] if source.terms.is_discrete else row["steps"] - 1
    return (
        f"{quantity.label} {quantity.write(row['factual'])} observed, "
        f"{quantity.write(row['value'])}{expected} with at most {min(source.k, decisions)} of "
        f"{decisions} decisions changed. {told}"
    )


def _changes(source: Source, look: CloseLook) -> Html:
    """The changes in words, one line each; for a policy all that are likely enough."""
    rows = _policy_rows(source, look) if look.policy is not None else _plain_rows(source, look.row)
    if not rows:
        is_proved = look.row["status"] == "optimal"
        words = "No admissible change improves the outcome."
        return element("p", words if is_proved else "No change was found that improves it.")
    has_chance = any(chance for _, _, chance, _ in rows)
    has_data = any(taken for _, _, _, taken in rows)
    heads = [element("th", text) for text in ("When", "Change")]
    heads += [element("th", "Probability", class_="number")] if has_chance else []
    heads += [element("th", "In the data")] if has_data else []
    body = []
    for when, change, chance, taken in rows:
        cells = [element("td", when), element("td", change, class_="strong")]
        cells += [element("td", chance, class_="number")] if has_chance else []
        cells += [element("td", taken)] if has_data else []
        body.append(element("tr", *cells))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *body))
    rest = len(look.policy.likely) - len(rows) if look.policy is not None else 0
    note = f"{counted(rest, 'less probable change')} not listed." if rest > 0 else ""
    return join(table, element("p", note, class_="certificate") if note else Html(""))


Line = tuple[str, str, str, str]


def _plain_rows(source: Source, row: Row) -> list[Line]:
    """When, what, with which probability, and how often that was done in the data."""
    explainer = source.explainer
    found = []
    for change in row["changes"]:
        chance = "" if change["probability"] is None else share(change["probability"])
        text = explainer.change_text(change["observed"], change["alternative"])
        found.append(
            (explainer.time_text(change["time"]), arrow(text), chance, _taken(source, change))
        )
    return found


def _policy_rows(source: Source, look: CloseLook) -> list[Line]:
    assert look.policy is not None
    explainer = source.explainer
    likely = [one for one in look.policy.likely if one.probability >= LEAST_LISTED][:LISTED]
    found = []
    for one in sorted(likely, key=lambda one: (one.change.t, -one.probability)):
        t, observed, alternative = one.change
        known = [c for c in look.row["changes"] if (c["t"], c["alternative"]) == (t, alternative)]
        taken = _taken(source, known[0]) if known else ""
        when = explainer.time_text(look.course[t]["time"])
        found.append(
            (
                when,
                arrow(explainer.change_text(observed, alternative)),
                share(one.probability),
                taken,
            )
        )
    return found


def _taken(source: Source, change: Row) -> str:
    """How often the new action was taken there."""
    count = change["taken"]
    if count is None:
        return ""
    if isinstance(source.explainer, ContinuousExplainer):
        seen = source.explainer.scm.seen
        most = NEIGHBOURS if seen is None else min(NEIGHBOURS, len(seen.states))
        return f"in {count} of the {most} nearest" if count else f"in none of the {most} nearest"
    return f"{counted(count, 'time')} in that state" if count else "never in that state"


def _warnings(source: Source, row: Row) -> list[Html]:
    """What is to be known before the case is believed."""
    found = []
    noun = source.terms.noun
    if row["far_outside_training"]:
        found.append(
            f"The observed {noun} lies far outside what the model has learned from "
            f"({row['far_outside_training']}): what the model says about it means nothing."
        )
    if row["new_actions"]:
        found.append(
            f"{counted(row['new_actions'], 'change')} to an action that was never taken there in "
            "the data."
        )
    if row["far_from_data"]:
        found.append(
            f"The course leaves the data: its states are up to {row['distance_max']:.1f} times as "
            "far from the nearest ones as is typical between different episodes."
        )
    if (row["unseen_probability"] or 0.0) > TOLERATED:
        found.append(
            f"With probability {share(row['unseen_probability'])} the course comes to take an "
            "action in a state in which nobody took it."
        )
    if row["filled"]:
        found.append(
            f"{counted(row['filled'], 'gap')} of the {noun} {_were(row['filled'])} filled in."
        )
    if row["status"] == "limit":
        found.append("The search was stopped: a better explanation may exist, within the gap.")
    if row["status"] == "heuristic":
        found.append("From a simple method without proof: better explanations may exist.")
    if not found:
        return []
    return [
        element("h4", "Read with care"),
        element("div", items(*found), class_="note weak warnings"),
    ]


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _robustness(source: Source, look: CloseLook) -> list[Html]:
    case = None if look.policy is None else look.policy.case
    if case is None:
        return []
    kind = {Evidence.ASSUMPTION: "note weak", Evidence.OTHER_POLICY: "note partly"}
    words = robustness_in_words(case, source.quantity)
    return [
        element("h4", "How much rests on the causal assumption"),
        element("p", words, class_=kind.get(case.footing, "note")),
    ]


def _facts(source: Source, look: CloseLook) -> Html:
    row, write = look.row, source.quantity.write
    pairs = [
        ("Observed outcome", write(row["factual"])),
        ("Outcome of the explanation", write(row["value"])),
        ("Improvement", source.quantity.write_gain(row["improvement"])),
    ]
    relative = row["relative_improvement"]
    if relative is not None and math.isfinite(relative) and not source.quantity.percent:
        pairs.append(("As a share of the observed outcome", f"{100 * relative:.1f} %"))
    if row["interval_low"] is not None:
        span = source.quantity.write_range(row["interval_low"], row["interval_high"])
        pairs.append(("Range, all causal models", span))
    if look.policy is not None:
        pairs += _policy_facts(look.policy, source.quantity)
    pairs.append(("Steps", f"{row['steps']:,}"))
    return facts(*pairs, class_="facts")


def _policy_facts(look: PolicyLook, quantity: Quantity) -> list[tuple[str, str]]:
    found = look.explanation
    changes = float(sum(n * p for n, p in enumerate(found.changes_distribution())))
    pairs = [
        ("Better than observed, probability", PROBABILITY.write(look.probability_better)),
        ("Changes made, on average", f"{changes:.2f}"),
    ]
    if math.isfinite(found.outcome_variance):
        pairs.insert(0, ("Standard deviation", quantity.write(found.outcome_variance**0.5)))
    case = look.case
    if case is not None:
        stable = quantity.write_range(*case.stable_interval)
        pairs.insert(0, ("Range, with counterfactual stability", stable))
        pairs += [
            ("Robust plan: guaranteed", quantity.write(case.robust.value)),
            ("Robust plan: expected", quantity.write(case.robust.outcome_mean)),
        ]
    return pairs


def _method(row: Row) -> str:
    """How it was found."""
    how = f"Method: {row['method']}. " if row["method"] else ""
    return f"{how}{row['nodes']:,} nodes were looked at." if row["nodes"] is not None else how


def arrow(text: str) -> str:
    """Typeset as on paper."""
    return text.replace("->", "→")
