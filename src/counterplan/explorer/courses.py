"""Rows of a run's tables, stored or just made, as the page takes them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.cohort.answers import Answer as Found
from counterplan.cohort.subject import ContinuousSubject, DiscreteSubject, Subject
from counterplan.cohort.tables import ACTION, OTHER, STATE, trajectories_to_bytes
from counterplan.core.result import Status
from counterplan.explorer import models
from counterplan.explorer.desk import Desk
from counterplan.explorer.plain import number, numbers, table
from counterplan.io.episode_parts import Recorded
from counterplan.scm.point import action_indices, action_vectors

if TYPE_CHECKING:
    import polars as pl

FAILED = "failed"


def observed_course(desk: Desk, recorded: Recorded) -> models.Course:
    """What happened."""
    episode, subject = recorded.episode, desk.subject
    actions = observed_actions(subject, recorded)
    return models.Course(
        states=table(_features(desk, episode.states)),
        actions=actions,
        rewards=numbers(_rewards(subject, recorded)),
        changed=[0.0] * len(episode),
    )


def observed_actions(subject: Subject, recorded: Recorded) -> list[int | None]:
    """The number of each action, None where nothing was decided."""
    episode = recorded.episode
    if isinstance(subject, DiscreteSubject):
        nothing = None if subject.layout is None else subject.layout.no_action
        return [None if int(a) == nothing else int(a) for a in episode.actions]
    vectors = action_vectors(subject.problem(episode)["actions"], len(episode) - 1)
    return [*(int(a) for a in action_indices(episode, vectors)), None]


def _rewards(subject: Subject, recorded: Recorded) -> Sequence[float]:
    episode = recorded.episode
    if isinstance(subject, ContinuousSubject):
        return [float(reward) for reward in subject.reward(episode.states)]
    assert isinstance(subject, DiscreteSubject)
    T, steps = len(episode), zip(episode.states, episode.actions, strict=True)
    return [float(subject.mdp.rewards_at(t, T)[s, a]) for t, (s, a) in enumerate(steps)]


def _features(desk: Desk, states: Any) -> Any:
    labels = desk.labels
    places = range(len(labels.features))
    return np.stack([labels.values(states, place) for place in places], axis=-1)


def other_course(
    desk: Desk,
    recorded: Recorded,
    changes: Iterable[Mapping[str, Any]],
    steps: pl.DataFrame,
) -> models.Course:
    """What would have happened, by the rows of the table of trajectories."""
    columns = steps.columns
    if f"{OTHER}{STATE}" in columns:
        features = _features(desk, steps[f"{OTHER}{STATE}"].to_numpy())
        taken = steps[f"{OTHER}{ACTION}"].to_list()
        observed = observed_actions(desk.subject, recorded)
        # The number that stands for no action is none to choose.
        actions = [None if old is None else int(a) for old, a in zip(observed, taken, strict=True)]
    else:
        names = [name for name in columns if name.startswith(f"{OTHER}{STATE}:")]
        features = steps.select(names).to_numpy()
        actions = observed_actions(desk.subject, recorded)
        for change in changes:
            actions[change["t"]] = int(change["alternative"])
    return models.Course(
        states=table(features),
        actions=actions,
        rewards=numbers(steps[f"{OTHER}reward"]),
        changed=numbers(steps["change_probability"]),
    )


def answer_of_row(
    desk: Desk, recorded: Recorded, row: Mapping[str, Any], steps: pl.DataFrame | None
) -> models.Answer:
    """A row of results with its trajectory."""
    course = None
    if steps is not None and steps.height:
        course = other_course(desk, recorded, row["changes"], steps)
    changes = row["changes"] or []
    status = row["status"]
    return models.Answer(
        k=row["k"],
        factual=number(row["factual"]),
        value=number(row["value"]),
        improvement=number(row["improvement"]),
        relative=number(row["relative_improvement"]),
        bound=number(row["bound"]),
        gap=number(row["gap"]),
        status=status,
        reason=row["reason"],
        advice="" if status == FAILED else Status(status).advice,
        method=row["method"],
        nodes=row["nodes"],
        low=number(row["interval_low"]),
        high=number(row["interval_high"]),
        changes=[_change(change) for change in changes],
        support=_support(row),
        course=course,
        notes=[],
    )


def answer_of_found(desk: Desk, found: Found) -> models.Answer:
    """An answer that has just been found, by the rows that a run would have stored."""
    import polars as pl

    steps = pl.read_parquet(io.BytesIO(trajectories_to_bytes(desk.subject, [found])))
    return answer_of_row(desk, found.recorded, {"reason": None, **found.row()}, steps)


def _change(change: Mapping[str, Any]) -> models.ChangeAbout:
    return models.ChangeAbout(
        t=change["t"],
        observed=change["observed"],
        alternative=change["alternative"],
        text=change["text"],
        probability=number(change["probability"]),
        taken=change["taken"],
    )


def _support(row: Mapping[str, Any]) -> models.Support:
    return models.Support(
        supported=row["supported"],
        far=row["far_from_data"],
        distance_max=number(row["distance_max"]),
        distance_mean=number(row["distance_mean"]),
        unseen=number(row["unseen_probability"]),
        new_actions=row["new_actions"],
    )


# --- Names ------------------------------------------------------------------------------------


def names_in(desk: Desk, *courses: models.Course | None) -> list[dict[str, str]]:
    """For each feature: the names of the values that occur, by their number as text."""
    found: list[dict[str, str]] = []
    for place, column in enumerate(desk.labels.features):
        occurring = _occurring(place, courses) if column.labels is not None else []
        found.append({f"{value:g}": desk.labels.text(place, value) for value in occurring})
    return found


def order_in(desk: Desk, *courses: models.Course | None) -> list[list[float]]:
    """For each feature: values that occur in the order of their worth, the worst first, where their
    numbers say nothing: states of a discrete model without a schema."""
    subject = desk.subject
    if not isinstance(subject, DiscreteSubject) or subject.layout is not None:
        return [[] for _ in desk.labels.features]
    rewards = subject.mdp.rewards_at(0, 1)
    worth = np.where(np.isfinite(rewards), rewards, -np.inf).max(axis=1)
    states = _occurring(0, courses)
    return [sorted(states, key=lambda state: (worth[int(state)], state))]


def _occurring(place: int, courses: Iterable[models.Course | None]) -> list[float]:
    given = (course for course in courses if course is not None)
    values = {state[place] for course in given for state in course.states}
    return sorted(value for value in values if isinstance(value, float))
