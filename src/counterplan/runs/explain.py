"""The task of explaining the episodes of a cohort, part by part.

What an episode's rows say depends on the model, the question and the episode alone. One that cannot
be explained has a row with the reason, and the others go on.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Explanation, Interval
from counterplan.counterfactual.continuous.setting import SequenceExplanation
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.runs.question import (
    MODEL,
    ContinuousExplainer,
    DiscreteExplainer,
    Explainer,
    PartChange,
    Question,
    Support,
    policy_support,
    question_from_dict,
    stored_explainer,
)
from counterplan.runs.run import RESULTS, TRAJECTORIES
from counterplan.runs.task import EXPLAIN, PartResult, TaskSpec, reason_of
from counterplan.tables.parts import Recorded, episodes_from_bytes
from counterplan.tables.stays import Outlier, outliers

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# The answer to a question about one episode, which every record, stored or printed, is made of.


@dataclass(frozen=True)
class ChangeAnswer:
    """A change with all that is said about it.

    t            the step
    time         when it begins, in the unit of the table
    parts        the components of the action that change, where it has some
    text         all of it in words
    probability  how likely the policy makes this change; None where it is certain
    taken        how often the new action was taken there in the data, None if unknown
    """

    t: int
    time: float
    observed: int
    alternative: int
    observed_label: str
    alternative_label: str
    parts: tuple[PartChange, ...]
    text: str
    probability: float | None
    taken: int | None


@dataclass(frozen=True, eq=False)
class Answer:
    """An explanation for one budget.

    interval  of the value over all causal models that fit, where asked for
    far       states far outside what the model has learned from
    """

    recorded: Recorded
    explanation: Explanation
    changes: tuple[ChangeAnswer, ...]
    support: Support
    interval: Interval | None = None
    far: tuple[Outlier, ...] | None = None

    def row(self) -> dict[str, Any]:
        """One row of the table of results."""
        found, support = self.explanation, self.support
        distance = support.distance
        return {
            "episode_id": found.episode.id,
            "k": found.k,
            "steps": len(found.episode),
            "factual": found.factual_value,
            "value": found.value,
            "improvement": found.improvement,
            "relative_improvement": found.relative_improvement,
            "bound": found.bound,
            "gap": found.gap,
            "status": found.status.value,
            "reason": None,
            "method": found.method,
            "nodes": nodes_of(found.stats),
            "n_changes": len(self.changes),
            "changes": [_change_row(change) for change in self.changes],
            "interval_low": None if self.interval is None else self.interval.low,
            "interval_high": None if self.interval is None else self.interval.high,
            "filled": self.recorded.filled,
            "distance_max": None if distance is None else float(distance.max()),
            "distance_mean": None if distance is None else float(distance.mean()),
            "far_from_data": support.is_far,
            "unseen_probability": support.unseen,
            "new_actions": support.new_actions,
            "supported": support.supported,
            "far_outside_training": None if self.far is None else columns_of(self.far),
            **{f"outcome:{name}": text for name, text in self.recorded.outcomes},
        }


def failed_row(recorded: Recorded, k: int, reason: str) -> dict[str, Any]:
    """The row of an episode that could not be explained."""
    return {
        "episode_id": recorded.episode.id,
        "k": k,
        "steps": len(recorded.episode),
        "status": "failed",
        "reason": reason,
        "changes": [],
        "filled": recorded.filled,
        **{f"outcome:{name}": text for name, text in recorded.outcomes},
    }


def answers(explainer: Explainer, recorded: Recorded, question: Question) -> list[Answer]:
    """What should have been done differently, for each budget that is asked about."""
    found = explainer.explain(recorded.episode, question)
    if isinstance(explainer, DiscreteExplainer):
        return [_policy_answer(explainer, recorded, one, question) for one in found]
    assert isinstance(explainer, ContinuousExplainer)
    return [_sequence_answer(explainer, recorded, one) for one in found]


def columns_of(far: tuple[Outlier, ...]) -> str:
    """Which columns lie far outside."""
    return ", ".join(outlier.column for outlier in far)


def nodes_of(stats: Mapping[str, float]) -> int | None:
    """What a solver counted: nodes of a search or rows of a dynamic program."""
    counted = stats.get("nodes_expanded")
    return None if counted is None else int(counted)


def _policy_answer(
    explainer: DiscreteExplainer, recorded: Recorded, found: Explanation, question: Question
) -> Answer:
    from counterplan.counterfactual.discrete.robust import value_interval

    assert isinstance(found, PolicyExplanation)
    support, likely = policy_support(found, explainer.no_action), found.change_probabilities()
    changes = tuple(
        _worded(explainer, recorded, number, found, support, float(likely[one.t, one.alternative]))
        for number, one in enumerate(found.changes)
    )
    interval = None
    if question.robust:
        interval = value_interval(explainer.mdp, recorded.episode, found)
    return Answer(recorded, found, changes, support, interval)


def _sequence_answer(
    explainer: ContinuousExplainer, recorded: Recorded, found: Explanation
) -> Answer:
    assert isinstance(found, SequenceExplanation)
    support = explainer.seen.support(found, explainer.layout.action_set(recorded.episode))
    changes = tuple(
        _worded(explainer, recorded, number, found, support) for number in range(len(found.changes))
    )
    far = tuple(outliers(explainer.scm, explainer.layout, recorded.episode))
    return Answer(recorded, found, changes, support, far=far)


def _worded(
    explainer: Explainer,
    recorded: Recorded,
    number: int,
    found: Explanation,
    support: Support,
    probability: float | None = None,
) -> ChangeAnswer:
    t, observed, alternative = found.changes[number]
    time = float(recorded.times[t])
    chance = "" if probability is None else f" ({probability:.0%})"
    return ChangeAnswer(
        t=t,
        time=time,
        observed=observed,
        alternative=alternative,
        observed_label=explainer.action_name(observed),
        alternative_label=explainer.action_name(alternative),
        parts=tuple(explainer.changed_parts(observed, alternative)),
        text=f"{explainer.time_text(time)}: {explainer.change_text(observed, alternative)}{chance}",
        probability=probability,
        taken=support.taken[number],
    )


def _change_row(change: ChangeAnswer) -> dict[str, Any]:
    return {**vars(change), "parts": [part._asdict() for part in change.parts]}


# ----------------------------------------------------------------------------------------------
# Rows of results as plain records for JSON, CSV and the terminal.
#
# JSON has no infinities: they are written as the texts "inf" and "-inf".

HOURS = "h"


def records(rows: Sequence[Mapping[str, Any]], unit: str) -> list[dict[str, Any]]:
    """One record for each row; what is known of none of them is left out.

    unit  of times, as `Explainer.unit` has it
    """
    names = {name for row in rows for name, value in row.items() if value is not None}
    return [_record(row, unit, names) for row in rows]


def changes_in_words(record: Mapping[str, Any]) -> list[str]:
    """Such as "step 3: rest -> walk (87%)", one text for each change."""
    return [change["text"] for change in record["changes"]]


def support_in_words(record: Mapping[str, Any]) -> str:
    """Whether there is data under an explanation, and if not, what is missing."""
    if record.get("supported") is None:
        return ""
    if record["supported"]:
        return "seen"
    if record["new_actions"]:
        return f"{record['new_actions']} new"
    return "far" if record.get("far_from_data") else "new"


def _record(row: Mapping[str, Any], unit: str, names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"episode_id": row["episode_id"]}
    for name, value in row.items():
        if name in names and name not in ("episode_id", "n_changes", "changes"):
            found[name] = finite(value)
    found["changes"] = [_change(change, unit) for change in row["changes"]]
    return found


def _change(change: Mapping[str, Any], unit: str) -> dict[str, Any]:
    found: dict[str, Any] = {"t": change["t"], "time": whole(change["time"])}
    if unit == HOURS:
        found["hours"] = found["time"]
    if change["probability"] is None:
        for side in ("observed", "alternative"):
            found[side] = {part["name"]: whole(part[side]) for part in change["parts"]}
    else:
        for side in ("observed", "alternative"):
            found |= {side: change[side], f"{side}_label": change[f"{side}_label"]}
        found["probability"] = change["probability"]
    if change["taken"] is not None:
        found["taken"] = change["taken"]
    return {**found, "text": change["text"]}


def whole(value: float) -> float | int:
    """Without a point where there is nothing behind it."""
    return int(value) if float(value).is_integer() else value


def finite(value: Any) -> Any:
    """A text where JSON has no number for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


# ----------------------------------------------------------------------------------------------
# The tables of a cohort run as Parquet files, whose columns are the same in every part.
#
#     results        one row per episode and budget
#     trajectories   one row per episode, budget and step: what was, and what would have been
#
# Numbers that are infinite are stored as such.

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


def trajectory_schema(explainer: Explainer) -> dict[str, Any]:
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
    if isinstance(explainer, DiscreteExplainer):
        return columns | dict.fromkeys(
            (STATE, ACTION, f"{OTHER}{STATE}", f"{OTHER}{ACTION}"), pl.Int64
        )
    assert isinstance(explainer, ContinuousExplainer)
    for prefix in ("", OTHER):
        names = [f"{prefix}{STATE}:{name}" for name in explainer.layout.features]
        names += [f"{prefix}{ACTION}:{name}" for name in explainer.layout.actions]
        columns |= dict.fromkeys(names, pl.Float64)
    return columns


def trajectories_to_bytes(explainer: Explainer, found: Sequence[Answer]) -> bytes:
    """Trajectories of answers as a file."""
    import polars as pl

    schema = trajectory_schema(explainer)
    frames = [pl.DataFrame(_trajectory(explainer, one), schema=schema) for one in found]
    return to_bytes(pl.concat(frames) if frames else pl.DataFrame(schema=schema))


def _trajectory(explainer: Explainer, answer: Answer) -> dict[str, Any]:
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
    if isinstance(explainer, DiscreteExplainer):
        return columns | _policy_columns(explainer, answer)
    assert isinstance(explainer, ContinuousExplainer)
    return columns | _sequence_columns(explainer, answer)


def _policy_columns(explainer: DiscreteExplainer, answer: Answer) -> dict[str, Any]:
    found, mdp = answer.explanation, explainer.mdp
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


def _sequence_columns(explainer: ContinuousExplainer, answer: Answer) -> dict[str, Any]:
    import polars as pl

    found = answer.explanation
    assert isinstance(found, SequenceExplanation)
    episode, layout = found.episode, explainer.layout
    vectors = np.asarray(layout.action_set(episode), dtype=np.float64)
    vectors = np.broadcast_to(vectors, (len(episode) - 1, *vectors.shape[-2:]))
    steps = np.arange(len(episode) - 1)
    columns: dict[str, Any] = {
        "change_probability": np.isin(np.arange(len(episode)), [c.t for c in found.changes]) * 1.0,
        "reward": explainer.reward(episode.states),
        f"{OTHER}reward": explainer.reward(found.states),
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


# ----------------------------------------------------------------------------------------------


class ExplainTask:
    """Explains episodes."""

    def __init__(self, explainer: Explainer, question: Question, outcomes: Sequence[str]) -> None:
        self._subject, self._question, self._outcomes = explainer, question, tuple(outcomes)

    def solve(self, part: bytes) -> PartResult:
        """The results and trajectories of the episodes of a part."""
        rows: list[dict[str, Any]] = []
        found: list[Answer] = []
        for recorded in episodes_from_bytes(part):
            try:
                answered = answers(self._subject, recorded, self._question)
            # Whatever goes wrong with one episode, a fault of the program included, must not cost
            # the others their answers.
            except Exception as problem:
                rows += self._failed(recorded, reason_of(problem))
            else:
                rows += [answer.row() for answer in answered]
                found += answered
        return self._result(rows, found)

    def failed(self, part: bytes, reason: str) -> PartResult:
        """A part that could not be solved at all."""
        recorded = episodes_from_bytes(part)
        return self._result([row for one in recorded for row in self._failed(one, reason)], [])

    def _failed(self, recorded: Recorded, reason: str) -> list[dict[str, Any]]:
        return [failed_row(recorded, k, reason) for k in self._question.budgets]

    def _result(self, rows: list[dict[str, Any]], found: list[Answer]) -> PartResult:
        tables = {
            RESULTS: results_to_bytes(rows, self._outcomes),
            TRAJECTORIES: trajectories_to_bytes(self._subject, found),
        }
        return PartResult(tables, summary(rows, self._question.budgets[-1]))


def summary(rows: Sequence[dict[str, Any]], k: int) -> dict[str, float]:
    """Numbers of the episodes for the largest budget: how many, their status, and what they gain
    together (where that is finite)."""
    last = [row for row in rows if row["k"] == k]
    statuses = Counter(row["status"] for row in last)
    gains = [row["improvement"] for row in last if row["status"] != "failed"]
    return {
        "episodes": float(len(last)),
        **{name: float(statuses[name]) for name in ("optimal", "limit", "heuristic", "failed")},
        "improvement": math.fsum(gain for gain in gains if math.isfinite(gain)),
    }


def explain_spec(
    model: bytes,
    suffix: str,
    about: Mapping[str, Any],
    question: Question,
    outcomes: Sequence[str],
) -> TaskSpec:
    """The task of explaining episodes.

    model     the contents of a model file, whose name ends in `suffix`
    about     what the episodes are about, see `open_explainer`
    outcomes  names of what the table tells of an episode besides
    """
    description = {
        "model_suffix": suffix,
        "subject": dict(about),
        "question": question.as_dict(),
        "outcomes": list(outcomes),
    }
    return TaskSpec(EXPLAIN, description, {MODEL + suffix: model})


def open_task(spec: TaskSpec) -> ExplainTask:
    """The task that a specification stands for."""
    about = spec.description
    explainer = stored_explainer(about, spec.files.__getitem__)
    return ExplainTask(explainer, question_from_dict(about["question"]), about["outcomes"])
