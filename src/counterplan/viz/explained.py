"""An explained episode as figures take it: of an explanation, or of rows of a run's tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from counterplan.core.result import Change, Explanation
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import InputError
from counterplan.viz.labels import Labels, Move, Named, labels_of, move, moves_of, value_names

if TYPE_CHECKING:
    import polars as pl

    from counterplan.counterfactual.continuous.claims import SequenceExplanation
    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation

# Tables of a run: frames, lazy or not, or their rows.
Rows: TypeAlias = "pl.DataFrame | pl.LazyFrame | Iterable[Mapping[str, Any]]"
OTHER = "counterfactual_"
# What time is counted in where no unit is known.
STEP = "step"
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


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One feature of an episode as it was and as it would have been, and what is changed.

    observed        (T,) values of the feature; nan from where it is over
    counterfactual  (T,) the same with the changes made; the likeliest one where chance decides
    moves           those changes, one for each dose
    feature         what the values are, with their unit
    step            length of a step
    unit            in which that length is given
    low, high       (T,) a band around the counterfactual, where chance decides or models differ
    ticks           numbers of the feature that have names
    endings         how both end, where they are over before the last step
    starts          (T,) when each step begins, where not all are of the same length
    band            what lies between low and high, in words
    changed         (T,) how often each step is changed
    sampled         (N, T) the feature where chance decides, or by each member of the model
    """

    observed: FloatArray
    counterfactual: FloatArray
    moves: tuple[Move, ...] = ()
    feature: str = "feature"
    step: float = 1.0
    unit: str = STEP
    low: FloatArray | None = None
    high: FloatArray | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    endings: tuple[str, str] = ("", "")
    starts: FloatArray | None = None
    band: str = COURSES.words
    changed: FloatArray | None = None
    sampled: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("observed", "counterfactual"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, values)
            # Finite numbers, then nothing but nan.
            going = int(np.isfinite(values).sum())
            is_right = np.isfinite(values[:going]).all() and np.isnan(values[going:]).all()
            if values.ndim != 1 or not values.size or not is_right:
                raise InputError(
                    f"trajectory: {name} must be a list of finite numbers (nan only from where a "
                    "course is over)"
                )
        steps = len(self.observed)
        if steps != len(self.counterfactual):
            raise InputError(
                f"trajectory: {steps} observed values, but "
                f"{len(self.counterfactual)} counterfactual ones"
            )
        for t in (one.t for one in self.moves):
            if not 0 <= t < steps:
                raise InputError(
                    f"trajectory: a change at step {t}, but the steps are 0..{steps - 1}"
                )

    @property
    def times(self) -> FloatArray:
        """(T,) in `unit`."""
        if self.starts is not None:
            return self.starts
        return np.asarray(self.step * np.arange(len(self.observed)))

    @property
    def doses(self) -> tuple[str, ...]:
        """The doses that change."""
        return tuple(dict.fromkeys(one.what for one in self.moves))

    @property
    def extent(self) -> tuple[float, float]:
        """The lowest and the highest of all values."""
        given = [self.observed, self.counterfactual, self.low, self.high]
        values = np.concatenate([one for one in given if one is not None])
        return float(np.nanmin(values)), float(np.nanmax(values))


def is_policy(found: object) -> TypeGuard[PolicyExplanation]:
    """Whether an explanation is a policy, without loading the solvers of discrete problems."""
    return isinstance(found, Explanation) and hasattr(found, "most_likely")


def is_sequence(found: object) -> TypeGuard[SequenceExplanation]:
    """Whether it is one of continuous states, likewise."""
    return isinstance(found, Explanation) and hasattr(found, "history")


def trajectory_of(
    found: Any,
    labels: Named | None,
    *,
    feature: str | int | None = None,
    what: str = "trajectory_figure",
    seed: Seed = 0,
) -> Trajectory:
    """From an explanation, or rows of a run's `trajectories` of one episode and k.

    feature  by name or number, see `Labels.place`
    what     the figure, for errors
    seed     of the samples
    """
    if labels is None:
        raise InputError(
            f"{what}: say what the features are called: labels=, such as a SchemaLayout "
            "or viz.Labels.named(features, doses, actions)"
        )
    known = labels_of(labels)
    place, step = known.place(feature), known.step if known.unit else 1.0
    usual: dict[str, Any] = {
        "feature": known.title(place),
        "step": step,
        "unit": known.unit or STEP,
        "ticks": tuple(value_names(known.features[place]).items()),
    }
    if is_table(found):
        return Trajectory(**(usual | _of_rows(found, known, place, what)))
    visited: Any
    if is_policy(found):
        changed = found.change_probabilities().sum(axis=1)
        visited, sampled, band = found.most_likely.states, found.sample(SAMPLES, seed=seed), COURSES
        others: Any = sampled.states
    elif is_sequence(found):
        changed = np.isin(np.arange(len(found.episode)), [one.t for one in found.changes]) * 1.0
        visited, others, band = found.states, getattr(found, "member_states", None), MODELS
    else:
        raise InputError(f"{what}: cannot draw a {type(found).__name__}")
    if others is not None:
        values = known.values(others, place)
        low, high = band_around(values, band.outside)
        usual |= {"low": low, "high": high, "band": band.words, "sampled": values}
    both = [_until_over(states, known, place) for states in (found.episode.states, visited)]
    (observed, counterfactual), endings = zip(*both, strict=True)
    moves = moves_of(found.changes, known)
    return Trajectory(observed, counterfactual, moves, changed=changed, endings=endings, **usual)


def _until_over(states: Any, labels: Labels, place: int) -> tuple[FloatArray, str]:
    """A feature along states, nan from where an episode of discrete ones is over, and how."""
    values = labels.values(states, place)
    over = np.flatnonzero(np.isnan(values))
    if labels.states is None or not over.size:
        return values, ""
    end = int(over[0])
    going = np.where(np.arange(len(values)) < end, values, np.nan)
    return going, labels.endings.get(int(states[end]), "")


def _of_rows(table: Any, labels: Labels, place: int, what: str) -> dict[str, Any]:
    rows = as_rows(table, what, "episode_id", "k", "t", "time", "changed", "change_probability")
    which = {(row["episode_id"], row["k"]) for row in rows}
    if len(which) > 1:
        raise InputError(
            f"{what}: the table holds {len(which):,} pairs of episode and k; choose one, such as "
            "table.filter(episode_id=..., k=...)"
        )
    rows = sorted(rows, key=lambda row: int(row["t"]))
    is_discrete = labels.states is not None
    column = "state" if is_discrete else f"state:{labels.features[place].name}"
    if column not in rows[0]:
        raise InputError(f"{what}: the table has no column {column!r}")
    observed, counterfactual = ([row[side + column] for row in rows] for side in ("", OTHER))
    endings = ("", "")
    if is_discrete:
        both = [_until_over(states, labels, place) for states in (observed, counterfactual)]
        (observed, counterfactual), endings = zip(*both, strict=True)
        changed = [row for row in rows if row["changed"]]
        changes = [Change(row["t"], row["action"], row[f"{OTHER}action"]) for row in changed]
        moves = moves_of(changes, labels)
    else:
        moves = tuple(
            move(int(row["t"]), dose, float(before), float(after))
            for row in rows
            for dose in labels.doses
            for before, after in [[row.get(f"{s}action:{dose.name}") for s in ("", OTHER)]]
            if before is not None and after is not None and before != after
        )
    often, times = (
        np.array([row[name] for row in rows], dtype=np.float64)
        for name in ("change_probability", "time")
    )
    found = {"observed": observed, "counterfactual": counterfactual, "endings": endings}
    # Rows may be missing.
    step = {"step": float(np.diff(times).min())} if len(times) > 1 else {}
    return {**found, "moves": moves, "changed": often, "starts": times, **step}


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
