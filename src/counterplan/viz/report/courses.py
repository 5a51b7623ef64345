"""Figures about one case, from what the run has kept, and about all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterplan.cohort.subject import DiscreteSubject
from counterplan.core.result import Interval
from counterplan.core.words import counted
from counterplan.errors import InputError
from counterplan.viz.data.changes import ChangeStrip, StateBand, change_strip_data
from counterplan.viz.data.frontier import frontier_data
from counterplan.viz.data.intervals import IntervalRow
from counterplan.viz.data.labels import Labels
from counterplan.viz.data.trajectory import Trajectory, trajectory_data
from counterplan.viz.figures import (
    change_strip_figure,
    cohort_figure,
    frontier_figure,
    interval_figure,
    outcome_figure,
    trajectory_figure,
)
from counterplan.viz.page import Panel
from counterplan.viz.quantity import share
from counterplan.viz.report.policies import PolicyLook, guaranteed
from counterplan.viz.report.source import Source
from counterplan.viz.report.totals import Totals

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
            data = trajectory_data(course, labels, feature=feature)
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
        f"{source.subject.words.when(row['time'])} in {share(row['change_probability'])}"
        for row in course
        if row["change_probability"] >= 0.005
    )
    return Panel(
        f"{place}-changes",
        change_strip_figure(_strip_data(source, course)),
        "How often each step is changed (in %), above the states of the observed course and of the "
        "likeliest counterfactual one.",
        f"Changed: {often or 'nothing'}.",
    )


def _strip_data(source: Source, course: Rows) -> ChangeStrip:
    """States by their severity or level; where they are mere names, by what they earn."""
    column = source.labels.features[0]
    if len(source.labels.features) == 1 and (column.labels is None or column.levels is not None):
        return change_strip_data(course, labels=source.labels)
    assert isinstance(source.subject, DiscreteSubject)
    mdp = source.subject.mdp
    bands = []
    for label, prefix in (("observed", ""), ("likeliest", "counterfactual_")):
        names = [mdp.state_name(row[f"{prefix}state"]) for row in course]
        if max(map(len, names)) > LONGEST_NAME:
            names = [str(row[f"{prefix}state"]) for row in course]
        levels = np.array([row[f"{prefix}reward"] for row in course], dtype=np.float64)
        bands.append(StateBand(label, np.where(np.isfinite(levels), levels, np.nan), names))
    found = change_strip_data(course, bands, severity="states, by reward")
    title = source.terms.unit and f"time ({source.terms.unit})"
    return replace(found, darker="higher", title=title or found.title)


def _frontier(source: Source, rows: Rows, place: str) -> Panel | None:
    """What each further change brings, if several budgets were asked about."""
    if len(rows) < 2:
        return None
    data = frontier_data(rows, quantity=source.quantity)
    if not np.isfinite(data.values).all() or not np.isfinite(data.observed):
        return None
    values = ", ".join(f"k = {row['k']}: {source.quantity.write(row['value'])}" for row in rows)
    return Panel(
        f"{place}-frontier",
        frontier_figure(data),
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
