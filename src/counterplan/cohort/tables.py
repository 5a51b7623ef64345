"""The tables of a cohort run as Parquet files, whose columns are the same in every part.

    results        one row per episode and budget
    trajectories   one row per episode, budget and step: what was, and what would have been

Numbers that are infinite are stored as such.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.cohort.answers import Answer
from counterplan.cohort.subject import ContinuousSubject, DiscreteSubject, Subject
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.sequence_explanation import SequenceExplanation

if TYPE_CHECKING:
    import polars as pl

RESULTS, TRAJECTORIES = "results", "trajectories"
STATE, ACTION = "state", "action"
OTHER = "counterfactual_"


def result_schema(outcomes: Sequence[str]) -> dict[str, Any]:
    """Names and types of the columns of the results; `outcomes` of the table come last."""
    import polars as pl

    part = pl.Struct({"name": pl.String, "observed": pl.Float64, "alternative": pl.Float64})
    change = pl.Struct(
        {
            "t": pl.Int64,
            "time": pl.Float64,
            "observed": pl.Int64,
            "alternative": pl.Int64,
            "observed_label": pl.String,
            "alternative_label": pl.String,
            "parts": pl.List(part),
            "text": pl.String,
            "probability": pl.Float64,
            "taken": pl.Int64,
        }
    )
    numbers = ("factual", "value", "improvement", "relative_improvement", "bound", "gap")
    return {
        "episode_id": pl.String,
        "k": pl.Int64,
        "steps": pl.Int64,
        **dict.fromkeys(numbers, pl.Float64),
        **dict.fromkeys(("status", "reason", "method"), pl.String),
        **dict.fromkeys(("nodes", "n_changes"), pl.Int64),
        "changes": pl.List(change),
        **dict.fromkeys(("interval_low", "interval_high"), pl.Float64),
        "filled": pl.Int64,
        **dict.fromkeys(("distance_max", "distance_mean"), pl.Float64),
        "far_from_data": pl.Boolean,
        "unseen_probability": pl.Float64,
        "new_actions": pl.Int64,
        "supported": pl.Boolean,
        "far_outside_training": pl.String,
        **{f"outcome:{name}": pl.String for name in outcomes},
    }


def results_to_bytes(rows: Sequence[dict[str, Any]], outcomes: Sequence[str]) -> bytes:
    """Rows of results as a file."""
    import polars as pl

    return to_bytes(pl.DataFrame(list(rows), schema=result_schema(outcomes), orient="row"))


def trajectory_schema(subject: Subject) -> dict[str, Any]:
    """Names and types of the columns of the trajectories."""
    import polars as pl

    columns: dict[str, Any] = {
        "episode_id": pl.String,
        "k": pl.Int64,
        "t": pl.Int64,
        "time": pl.Float64,
        "changed": pl.Boolean,
        "change_probability": pl.Float64,
        "reward": pl.Float64,
        f"{OTHER}reward": pl.Float64,
    }
    if isinstance(subject, DiscreteSubject):
        return columns | dict.fromkeys(
            (STATE, ACTION, f"{OTHER}{STATE}", f"{OTHER}{ACTION}"), pl.Int64
        )
    assert isinstance(subject, ContinuousSubject)
    for prefix in ("", OTHER):
        names = [f"{prefix}{STATE}:{name}" for name in subject.layout.features]
        names += [f"{prefix}{ACTION}:{name}" for name in subject.layout.actions]
        columns |= dict.fromkeys(names, pl.Float64)
    return columns


def trajectories_to_bytes(subject: Subject, found: Sequence[Answer]) -> bytes:
    """Trajectories of answers as a file."""
    import polars as pl

    schema = trajectory_schema(subject)
    frames = [pl.DataFrame(_trajectory(subject, one), schema=schema) for one in found]
    return to_bytes(pl.concat(frames) if frames else pl.DataFrame(schema=schema))


def _trajectory(subject: Subject, answer: Answer) -> dict[str, Any]:
    episode, T = answer.recorded.episode, len(answer.recorded.episode)
    columns = {
        "episode_id": [episode.id] * T,
        "k": np.full(T, answer.explanation.k),
        "t": np.arange(T),
        "time": np.asarray(answer.recorded.times, dtype=np.float64),
    }
    changed = np.zeros(T, dtype=np.bool_)
    changed[[change.t for change in answer.changes]] = True
    columns["changed"] = changed
    if isinstance(subject, DiscreteSubject):
        return columns | _policy_columns(subject, answer)
    assert isinstance(subject, ContinuousSubject)
    return columns | _sequence_columns(subject, answer)


def _policy_columns(subject: DiscreteSubject, answer: Answer) -> dict[str, Any]:
    found, mdp = answer.explanation, subject.mdp
    assert isinstance(found, PolicyExplanation)
    episode, path, T = found.episode, found.most_likely, len(found.episode)
    steps = range(T)
    return {
        "change_probability": found.change_probabilities().sum(axis=1),
        "reward": [mdp.rewards_at(t, T)[episode.states[t], episode.actions[t]] for t in steps],
        f"{OTHER}reward": [mdp.rewards_at(t, T)[path.states[t], path.actions[t]] for t in steps],
        STATE: episode.states,
        ACTION: episode.actions,
        f"{OTHER}{STATE}": path.states,
        f"{OTHER}{ACTION}": path.actions,
    }


def _sequence_columns(subject: ContinuousSubject, answer: Answer) -> dict[str, Any]:
    import polars as pl

    found = answer.explanation
    assert isinstance(found, SequenceExplanation)
    episode, layout = found.episode, subject.layout
    vectors = np.asarray(layout.action_set(episode), dtype=np.float64)
    vectors = np.broadcast_to(vectors, (len(episode) - 1, *vectors.shape[-2:]))
    steps = np.arange(len(episode) - 1)
    columns: dict[str, Any] = {
        "change_probability": np.isin(np.arange(len(episode)), [c.t for c in found.changes]) * 1.0,
        "reward": subject.reward(episode.states),
        f"{OTHER}reward": subject.reward(found.states),
    }
    for prefix, states, taken in (
        ("", episode.states, found.observed),
        (OTHER, found.states, found.actions),
    ):
        columns |= {
            f"{prefix}{STATE}:{name}": values
            for name, values in zip(layout.features, states.T, strict=True)
        }
        given = vectors[steps, taken]
        # Nothing is decided in the last state.
        columns |= {
            f"{prefix}{ACTION}:{name}": pl.Series([*values, None], dtype=pl.Float64)
            for name, values in zip(layout.actions, given.T, strict=True)
        }
    return columns


def to_bytes(frame: pl.DataFrame) -> bytes:
    """A Parquet file; the same frame gives the same bytes."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
