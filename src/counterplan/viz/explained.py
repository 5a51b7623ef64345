"""An explained episode as figures take it: of an explanation, or of rows of a run's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from counterplan.core.result import Change, Explanation
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import InputError
from counterplan.viz.labels import Labels, Move, move, moves_of

if TYPE_CHECKING:
    import polars as pl

    from counterplan.counterfactual.continuous.setting import SequenceExplanation
    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation

# Tables of a run: frames, lazy or not, or their rows.
Rows: TypeAlias = "pl.DataFrame | pl.LazyFrame | Iterable[Mapping[str, Any]]"
OTHER = "counterfactual_"
# How many sampled trajectories tell what a policy leads to.
SAMPLES = 1_000


class Band(NamedTuple):
    """What a band around a course holds: all but a share on each side."""

    outside: float
    words: str


COURSES, MODELS = Band(0.1, "8 in 10 courses"), Band(0.05, "9 in 10 models")


def band_around(sampled: FloatArray, outside: float) -> tuple[FloatArray, FloatArray]:
    """(T,) low and high of trajectories (N, T) that are not over, but for a share on each side; nan
    where all are over."""
    low, high = np.full((2, sampled.shape[1]), np.nan)
    for t, values in enumerate(sampled.T):
        going = values[np.isfinite(values)]
        if going.size:
            low[t], high[t] = np.quantile(going, [outside, 1.0 - outside], method="nearest")
    return low, high


class Course(NamedTuple):
    """A feature along a trajectory: (T,) values, nan from where it is over, and how it ends."""

    name: str
    values: FloatArray
    ending: str = ""


@dataclass(frozen=True, eq=False)
class ExplainedEpisode:
    """What is changed, and one feature as it was and as it would have been.

    changed  (T,) how often each step is changed
    courses  observed and counterfactual, the likeliest one where chance decides; none without names
    moves    the changes, one for each dose
    sampled  (N, T) the feature in sampled trajectories, where chance decides, or by each member of
             the model
    band     what is shown of them: the share that is left out on each side, and in words
    times    (T,) when steps begin, where that is known
    """

    changed: FloatArray
    courses: tuple[Course, ...] = ()
    moves: tuple[Move, ...] = ()
    sampled: FloatArray | None = None
    band: Band = COURSES
    times: FloatArray | None = None


def is_policy(found: object) -> TypeGuard[PolicyExplanation]:
    """Whether an explanation is a policy, without loading the solvers of discrete problems."""
    return isinstance(found, Explanation) and hasattr(found, "most_likely")


def is_sequence(found: object) -> TypeGuard[SequenceExplanation]:
    """Whether it is one of continuous states, likewise."""
    return isinstance(found, Explanation) and hasattr(found, "history")


def explained_episode(
    found: Any, labels: Labels | None, feature: str | int | None, what: str, seed: Seed
) -> ExplainedEpisode:
    """From an explanation, or rows of a run's `trajectories` of one episode and k.

    feature  by name or number, see `Labels.place`
    what     the figure, for errors
    seed     of the samples
    """
    place = 0 if labels is None else labels.place(feature)
    if is_table(found):
        return _of_rows(found, labels, place, what)
    sampled, band = None, COURSES
    if is_policy(found):
        changed = found.change_probabilities().sum(axis=1)
        both: dict[str, Any] = {
            "observed": found.episode.states,
            "likeliest": found.most_likely.states,
        }
        sampled = found.sample(SAMPLES, seed=seed).states
    elif is_sequence(found):
        changed = np.zeros(len(found.episode))
        changed[[change.t for change in found.changes]] = 1.0
        both = {"observed": found.episode.states, "counterfactual": found.states}
        sampled, band = getattr(found, "member_states", None), MODELS
    else:
        raise InputError(f"{what}: cannot draw a {type(found).__name__}")
    if labels is None:
        return ExplainedEpisode(changed)
    courses = tuple(_course(name, visited, labels, place) for name, visited in both.items())
    others = None if sampled is None else labels.values(sampled, place)
    return ExplainedEpisode(changed, courses, moves_of(found.changes, labels), others, band)


def _course(name: str, states: Any, labels: Labels, place: int) -> Course:
    values = labels.values(states, place)
    over = np.flatnonzero(np.isnan(values))
    if labels.states is None or not over.size:
        return Course(name, values)
    end = int(over[0])
    going = np.where(np.arange(len(values)) < end, values, np.nan)
    return Course(name, going, labels.endings.get(int(states[end]), ""))


def _of_rows(table: Any, labels: Labels | None, place: int, what: str) -> ExplainedEpisode:
    rows = as_rows(table, what, "episode_id", "k", "t", "time", "changed", "change_probability")
    which = {(row["episode_id"], row["k"]) for row in rows}
    if len(which) > 1:
        raise InputError(
            f"{what}: the table holds {len(which):,} pairs of episode and k; choose one, such as "
            "table.filter(episode_id=..., k=...)"
        )
    rows = sorted(rows, key=lambda row: int(row["t"]))
    changed, times = (
        np.array([row[name] for row in rows], dtype=np.float64)
        for name in ("change_probability", "time")
    )
    if labels is None:
        return ExplainedEpisode(changed, times=times)
    is_discrete = labels.states is not None
    column = "state" if is_discrete else f"state:{labels.features[place].name}"
    if column not in rows[0]:
        raise InputError(f"{what}: the table has no column {column!r}")
    courses = []
    for name, prefix in (("observed", ""), ("counterfactual", OTHER)):
        values = [row[prefix + column] for row in rows]
        courses.append(
            _course(name, values, labels, place)
            if is_discrete
            else Course(name, np.array(values, dtype=np.float64))
        )
    moves = (_discrete_moves if is_discrete else _dose_moves)(rows, labels)
    return ExplainedEpisode(changed, tuple(courses), moves, times=times)


def _discrete_moves(rows: Sequence[Mapping[str, Any]], labels: Labels) -> tuple[Move, ...]:
    changed = [row for row in rows if row["changed"]]
    both = [Change(row["t"], row["action"], row[f"{OTHER}action"]) for row in changed]
    return moves_of(both, labels)


def _dose_moves(rows: Sequence[Mapping[str, Any]], labels: Labels) -> tuple[Move, ...]:
    found = []
    for row in rows:
        for dose in labels.doses:
            before, after = (row.get(f"{prefix}action:{dose.name}") for prefix in ("", OTHER))
            if before is not None and after is not None and before != after:
                found.append(move(int(row["t"]), dose, float(before), float(after)))
    return tuple(found)


def is_table(given: object) -> bool:
    """Whether this is a frame, or rows of one."""
    if hasattr(given, "collect_schema") or hasattr(given, "to_dicts"):
        return True
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], Mapping)


def as_rows(table: Any, what: str, *needed: str) -> list[Mapping[str, Any]]:
    """The rows of a table that must have some columns; `what` names it in errors."""
    frame = table.collect() if hasattr(table, "collect") else table
    rows: list[Mapping[str, Any]]
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else list(frame)
    if not rows:
        raise InputError(f"{what}: there are no rows to draw")
    absent = [name for name in needed if name not in rows[0]]
    if absent:
        raise InputError(f"{what}: the table has no column {absent[0]!r}")
    return rows
