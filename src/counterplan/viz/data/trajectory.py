"""One feature as it was and as it would have been, with every change of a dose where it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterplan.core.result import Change, Explanation
from counterplan.core.validation import FloatArray, IntArray, Seed
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.errors import InputError
from counterplan.viz.data.courses import STEP, CourseEnd
from counterplan.viz.data.courses import Trajectory as Trajectory
from counterplan.viz.data.label_sources import Named, labels_of
from counterplan.viz.data.labels import Labels
from counterplan.viz.data.moves import Move, move, moves_of
from counterplan.viz.data.rows import Rows, as_rows, is_table, one_episode

# How many courses tell the range of a policy's, and how many of them are left out on each side.
COURSES = 1_000
OUTSIDE = 0.1


def trajectory_data(
    found: Explanation | Rows | Trajectory,
    labels: Named | None = None,
    *,
    feature: str | int | None = None,
    begin: float = 0.0,
    seed: Seed = 0,
) -> Trajectory:
    """A feature of an explained episode.

    found    an explanation, or the rows of a run's `trajectories` of one episode and k
    labels   where names and units come from: a schema, a layout, a model, or `Labels`
    feature  its name or number; if not given the first that says what is better
    begin    when the first step begins
    seed     of the courses that show how far chance may lead a policy
    """
    if isinstance(found, Trajectory):
        return found
    if labels is None:
        raise InputError(
            "trajectory_figure: say what the features are called: labels=, such as a SchemaLayout "
            "or viz.Labels.named(features, doses, actions)"
        )
    known = labels_of(labels)
    place = known.place(feature)
    if is_table(found):
        return _of_rows(as_rows(found, "trajectory_figure", "episode_id", "t"), known, place)
    if isinstance(found, SequenceExplanation):
        values = [known.values(states, place) for states in (found.episode.states, found.states)]
        return _made(known, place, values, moves_of(found.changes, known), begin=begin)
    if isinstance(found, PolicyExplanation):
        return _of_policy(found, known, place, begin, seed)
    raise InputError(f"trajectory_figure: cannot draw a {type(found).__name__}")


def _made(
    labels: Labels,
    place: int,
    courses: Sequence[FloatArray],
    moves: tuple[Move, ...],
    **more: Any,
) -> Trajectory:
    observed, counterfactual = courses
    return Trajectory(
        observed,
        counterfactual,
        moves,
        labels.title(place),
        labels.step,
        labels.unit or STEP,
        ticks=labels.ticks(place),
        **more,
    )


def _of_policy(
    found: PolicyExplanation, labels: Labels, place: int, begin: float, seed: Seed
) -> Trajectory:
    path = found.most_likely
    courses = [_until_over(labels.values(s, place)) for s in (found.episode.states, path.states)]
    sampled = labels.values(found.sample(COURSES, seed=seed).states, place)
    low, high = _range(sampled)
    more = {
        "begin": begin,
        "low": low,
        "high": high,
        "ends": _ends(labels, (found.episode.states, path.states), courses),
    }
    return _made(labels, place, courses, moves_of(found.changes, labels), **more)


def _ends(
    labels: Labels, states: Sequence[Sequence[int] | IntArray], courses: Sequence[FloatArray]
) -> tuple[CourseEnd, ...]:
    """How the observed and the counterfactual course end."""
    found = []
    for number, (course, values) in enumerate(zip(states, courses, strict=True)):
        over = np.flatnonzero(np.isnan(values))
        if over.size:
            t = int(over[0])
            text = labels.endings.get(int(course[t]), "")
            found.append(CourseEnd(t, float(values[t - 1]), text, number == 0))
    return tuple(found)


def _range(sampled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(T,) low and high of those courses that are not over; nan where all are."""
    low, high = np.full((2, sampled.shape[1]), np.nan)
    for t, values in enumerate(sampled.T):
        going = values[np.isfinite(values)]
        if going.size:
            low[t], high[t] = np.quantile(going, [OUTSIDE, 1.0 - OUTSIDE], method="nearest")
    return low, high


def _until_over(values: FloatArray) -> FloatArray:
    """A course that is nan ends there, whatever follows."""
    over = np.cumsum(np.isnan(values)) > 0
    return np.where(over, np.nan, values)


def _of_rows(rows: Sequence[Mapping[str, Any]], labels: Labels, place: int) -> Trajectory:
    steps = one_episode(list(rows), "trajectory_figure")
    name = labels.features[place].name
    column = "state" if labels.states is not None else f"state:{name}"
    if column not in steps[0]:
        raise InputError(f"trajectory_figure: the table has no column {column!r}")
    given = [[row[prefix + column] for row in steps] for prefix in ("", "counterfactual_")]
    if labels.states is not None:
        courses = [_until_over(labels.values(states, place)) for states in given]
    else:
        courses = [np.array(values, dtype=np.float64) for values in given]
    times = np.array([row["time"] for row in steps], dtype=np.float64)
    ends = () if labels.states is None else _ends(labels, given, courses)
    moves = _moves_of_rows(steps, labels)
    made = _made(labels, place, courses, moves, begin=float(times[0]), ends=ends)
    return replace(made, **_steps(times)) if len(times) > 1 else made


def _steps(times: FloatArray) -> dict[str, Any]:
    """How long steps are; where rows are missing, when each begins."""
    lengths = np.diff(times)
    if np.allclose(lengths, lengths[0]):
        return {"step": float(lengths[0])}
    return {"step": float(lengths.min()), "starts": times}


def _moves_of_rows(steps: Sequence[Mapping[str, Any]], labels: Labels) -> tuple[Move, ...]:
    if labels.states is not None:
        changed = [row for row in steps if row["changed"]]
        return moves_of(
            (Change(row["t"], row["action"], row["counterfactual_action"]) for row in changed),
            labels,
        )
    found: list[Move] = []
    for row in steps:
        for dose in labels.doses:
            before = row.get(f"action:{dose.name}")
            after = row.get(f"counterfactual_action:{dose.name}")
            if before is not None and after is not None and before != after:
                found.append(move(int(row["t"]), dose, float(before), float(after)))
    return tuple(found)
