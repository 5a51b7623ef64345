"""The answer to a question about one episode, whose fields are declared once, in `Answer`.

Everything that shows or stores an answer derives from these fields: a row of the table of results
(`Answer.row`), the columns of that table (`results_table`), and records for JSON, CSV and the
terminal (`records`). Beside the answer stands its trajectory, one row for each step: what was, and
what would have been (`trajectories_table`). A run keeps both tables as Parquet files whose columns
are the same in every part; numbers that are infinite are stored as such.
"""

from __future__ import annotations

import io
import logging
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from counterplan.errors import InputError
from counterplan.runs.explainer import (
    ContinuousExplainer,
    DiscreteExplainer,
    Explainer,
    PartChange,
    Prediction,
)
from counterplan.runs.question import Question
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.models import model_from_bytes
from counterplan.tables.parts import Recorded

if TYPE_CHECKING:
    import polars as pl

    from counterplan.core.result import Explanation
    from counterplan.scm.learned import LearnedSCM
    from counterplan.scm.support import Outlier
    from counterplan.tables.layout import SchemaLayout

log = logging.getLogger(__name__)
FAILED = "failed"
OUTCOME = "outcome:"
# Before the names of columns of a trajectory: what would have been.
OTHER = "counterfactual_"
HOURS = "h"
# Behind a change that pays only because nothing is counted after the last step.
AT_END = " (pays only because nothing follows)"


@dataclass(frozen=True)
class ChangeAnswer:
    """A change with all that is said about it.

    t            the step
    time         when it begins, in the unit of the table
    observed     the number of the action, and of its
    alternative  None where actions are doses, which `parts` tell
    date         and as a date, where the table has dates
    parts        the components of the action that change, where it has some
    text         all of it in words
    probability  how likely the policy makes this change; None where it is certain
    taken        how often the new action was taken there in the data, None if unknown
    """

    t: int
    time: float
    observed: int | None
    alternative: int | None
    observed_label: str
    alternative_label: str
    parts: tuple[PartChange, ...]
    text: str
    probability: float | None
    taken: int | None
    date: str | None = None


# A field that is no column of the results.
BESIDE = {"column": False}


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What should have been done differently, with at most `k` changes; the fields up to
    `predicted` are the columns of the results, and keys of JSON with these meanings.

    episode_id    its name
    k             how many changes were allowed
    steps         how many steps it has
    factual       the outcome that was; what is known at the end only, as the model expects it
    value         what was optimised, an outcome: expected, where states are discrete; of a model
                  with members the mean of their worst share `risk`
    improvement   value less factual; of a model with members the mean over all of them
    improvement_low   models with members: where the 90 % interval of the improvement begins
    improvement_high  and where it ends
    harm          models with members: how likely it is to be worse than what was done
    established   whether it is an improvement whatever is left open: in all of its interval, by a
                  model whose table is not known to leave out what matters; of discrete states: in
                  every causal model that fits, and within what the data leaves open
    guaranteed    discrete: the least value over every causal model that fits, and within the
                  uncertainty of the probabilities where the model knows the counts behind them
    risk          what was asked for: the share of members
    doubt         what was asked for: the weight that the worst causal model had in the choice
    relative_improvement  the improvement as a share of the observed outcome's size
    bound         no alternative can be better, by what was optimised (risk, doubt)
    gap           how much better than the value an alternative may be
    status        optimal, limit, heuristic, or failed: then there is a reason and little else
    reason        why it failed
    method        how it was found, such as which bound the search used
    nodes         what the solver counted: nodes of a search or rows of a dynamic program
    n_changes     how many changes there are
    changes       what should have been done, in order of time
    interval_low  with robust: the least value over every causal model that fits
    interval_high  and the largest
    stable_low    the least over those that are stable
    stable_high   and the largest
    monotone_low  the least over those that are monotone
    monotone_high  and the largest
    tipping_rho   continuous, for the largest k and where it is established: how much luck may
                  change before nothing is left of the improvement; none where nothing undoes it
    tipping_gamma  likewise how strong a hidden cause may be, see `sensitivity`
    filled        how many missing values of the episode were filled in
    distance_max  continuous: the farthest that its states are from the data, in units of what is
                  typical, see `Support`
    distance_mean  and on average
    far_from_data  whether that is far
    unseen_probability  discrete: the chance of taking an action in a state where nobody took it
    new_actions   changes to actions that were hardly ever taken there
    supported     whether there is data under all of it
    far_outside_training  columns, with commas between, in which the observed episode lies far
                  outside what the model has learned from, or was left out as implausible
    observed      what the table says that the episode earned; factual is what the model says
    at_end_only   how many changes pay only because nothing is counted after the last step
    predicted     what counts at the end only: what is predicted of each such column

    recorded      the episode as the table tells it; its outcomes are the columns "outcome:NAME"
    explanation   the library's own result, None if it failed
    """

    episode_id: str | None
    k: int
    steps: int
    factual: float | None = None
    value: float | None = None
    improvement: float | None = None
    improvement_low: float | None = None
    improvement_high: float | None = None
    harm: float | None = None
    established: bool | None = None
    guaranteed: float | None = None
    risk: float | None = None
    doubt: float | None = None
    relative_improvement: float | None = None
    bound: float | None = None
    gap: float | None = None
    status: str
    reason: str | None = None
    method: str | None = None
    nodes: int | None = None
    n_changes: int | None = None
    changes: tuple[ChangeAnswer, ...] = ()
    interval_low: float | None = None
    interval_high: float | None = None
    stable_low: float | None = None
    stable_high: float | None = None
    monotone_low: float | None = None
    monotone_high: float | None = None
    tipping_rho: float | None = None
    tipping_gamma: float | None = None
    filled: int
    distance_max: float | None = None
    distance_mean: float | None = None
    far_from_data: bool | None = None
    unseen_probability: float | None = None
    new_actions: int | None = None
    supported: bool | None = None
    far_outside_training: str | None = None
    observed: float | None = None
    at_end_only: int | None = None
    predicted: tuple[Prediction, ...] | None = None
    recorded: Recorded = field(repr=False, metadata=BESIDE)
    explanation: Any = field(default=None, repr=False, metadata=BESIDE)

    def __repr__(self) -> str:
        told = "" if self.improvement is None else f", improvement={self.improvement:.6g}"
        return f"Answer(episode_id={self.episode_id!r}, k={self.k}{told}, status={self.status!r})"

    def row(self) -> dict[str, Any]:
        outcomes = {OUTCOME + name: text for name, text in self.recorded.outcomes}
        return row_of(self) | outcomes


def answers(explainer: Explainer, recorded: Recorded, question: Question) -> list[Answer]:
    """What should have been done differently, for each budget that is asked about."""
    if far := explainer.outliers(recorded):
        return [_senseless(explainer, recorded, k, far) for k in question.budgets]
    found = explainer.explain(recorded.episode, question)
    for one in found:
        told = recorded.episode.id, one.k, one.status.value, one.improvement, one.gap
        log.debug("solved %s, k = %d: %s, improvement %g, gap %g", *told)
    *fewer, last = [answer_of(explainer, recorded, one, question) for one in found]
    # Of the largest budget alone, where there is an improvement to undo.
    if last.changes and last.established is not False:
        last = replace(last, **explainer.tipping(last.explanation))
    return [*fewer, last]


def failed_answer(recorded: Recorded, k: int, reason: str) -> Answer:
    """An episode that could not be explained."""
    return Answer(
        episode_id=recorded.episode.id,
        k=k,
        steps=len(recorded.episode),
        status=FAILED,
        reason=reason,
        filled=recorded.filled,
        recorded=recorded,
    )


def _senseless(explainer: Explainer, recorded: Recorded, k: int, far: Sequence[Outlier]) -> Answer:
    """An episode with a cell far outside what the model has learned from, or of those that it left
    out: whatever a model said of it would mean nothing."""
    one, more = far[0], f" (and {len(far) - 1} more columns)" if len(far) > 1 else ""
    how = "is far outside what" if one.is_far else "is set apart from all that"
    # No date: reports with pseudonyms show reasons as well.
    when = explainer.time_text(recorded.times[one.t])
    reason = (
        f"column {one.column!r}: {one.value:g} {how} the model has learned from, "
        f"{one.low:g} to {one.high:g}{more}; correct it ({when})"
    )
    columns = ", ".join(each.column for each in far)
    return replace(failed_answer(recorded, k, reason), far_outside_training=columns)


def answer_of(
    explainer: Explainer, recorded: Recorded, found: Explanation, question: Question | None = None
) -> Answer:
    """An explanation, with all that is said about it; no question was asked about a plan by
    hand."""
    support, nodes = explainer.support(found), found.stats.get("nodes_expanded")
    ends = explainer.pays_at_end_only(found)
    facts = [*zip(support.taken, ends, explainer.idle_parts(found), strict=True)]
    if kept := float(np.sum(explainer.left_over(recorded))):
        names = ("value", "factual_value", "bound", "outcomes")
        shifted = {name: getattr(found, name) + kept for name in names if hasattr(found, name)}
        found = replace(found, **shifted)
    far, distance = explainer.outliers(recorded), support.distance
    same = ("k", "value", "improvement", "relative_improvement", "bound", "gap", "method")
    return Answer(
        episode_id=found.episode.id,
        steps=len(found.episode),
        factual=found.factual_value,
        status=found.status.value,
        nodes=None if nodes is None else int(nodes),
        n_changes=len(found.changes),
        changes=_changes(explainer, recorded, found, facts),
        filled=recorded.filled,
        distance_max=None if distance is None else float(distance.max()),
        distance_mean=None if distance is None else float(distance.mean()),
        far_from_data=support.is_far,
        unseen_probability=support.unseen,
        new_actions=support.new_actions,
        supported=support.supported,
        far_outside_training=None if far is None else ", ".join(one.column for one in far),
        observed=explainer.observed(recorded),
        at_end_only=sum(ends) or None,
        recorded=recorded,
        explanation=found,
        **{name: getattr(found, name) for name in same},
        **explainer.said(recorded, found, question),
    )


def _changes(
    explainer: Explainer,
    recorded: Recorded,
    found: Explanation,
    facts: Sequence[tuple[int | None, bool, Sequence[str]]],
) -> tuple[ChangeAnswer, ...]:
    """With what is known of each: how often it was taken, whether it pays at the end only, and
    which of its components the data does not speak for."""
    likely, changes = explainer.change_probabilities(found), []
    told = zip(found.changes, facts, strict=True)
    for (t, observed, alternative), (count, pays_at_end, idle) in told:
        time = float(recorded.times[t])
        probability = None if likely is None else float(likely[t, alternative])
        chance = "" if probability is None else f" ({probability:.0%})"
        date = recorded.dates[t] if recorded.dates else None
        text = f"{explainer.time_text(time, date)}: {explainer.change_text(observed, alternative)}"
        chance += AT_END if pays_at_end else ""
        chance += f" ({', '.join(idle)}: not established)" if idle else ""
        changes.append(
            ChangeAnswer(
                t=t,
                time=time,
                observed=None if isinstance(observed, tuple) else observed,
                alternative=None if isinstance(alternative, tuple) else alternative,
                observed_label=explainer.action_name(observed),
                alternative_label=explainer.action_name(alternative),
                parts=tuple(explainer.changed_parts(observed, alternative)),
                text=text + chance,
                probability=probability,
                taken=count,
                date=date,
            )
        )
    return tuple(changes)


def results_table(found: Sequence[Answer], outcomes: Sequence[str]) -> pl.DataFrame:
    """One row per episode and budget; the columns of `outcomes` come last."""
    import polars as pl

    schema = {**column_types(Answer), **{OUTCOME + name: pl.String() for name in outcomes}}
    return pl.DataFrame([one.row() for one in found], schema=schema, orient="row")


def row_of(answer: Any) -> dict[str, Any]:
    """The fields of a dataclass that are columns, in plain lists and dictionaries."""
    kind: type = type(answer)
    return {name: _plain(getattr(answer, name)) for name in column_names(kind)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, float | int | str):
        return value
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if is_dataclass(value):
        return {name: _plain(inner) for name, inner in vars(value).items()}
    return value


@cache
def column_types(kind: type) -> Mapping[str, Any]:
    """The columns of a table whose rows are dataclasses of this kind, with their types."""
    hints = get_type_hints(kind)
    return {name: _column_type(hints[name]) for name in column_names(kind)}


@cache
def column_names(kind: Any) -> Sequence[str]:
    """Of the fields of a dataclass those that are columns."""
    return [one.name for one in fields(kind) if one.metadata.get("column", True)]


def _column_type(hint: Any) -> Any:
    """The type of a column of Parquet for a type in Python."""
    import polars as pl

    if isinstance(hint, types.UnionType):  # or None
        (hint,) = (one for one in get_args(hint) if one is not types.NoneType)
    if get_origin(hint) is tuple:
        return pl.List(_column_type(get_args(hint)[0]))
    if is_dataclass(hint):
        inner = get_type_hints(hint)
        return pl.Struct({name: _column_type(kind) for name, kind in inner.items()})
    return {str: pl.String(), int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean()}[hint]


def trajectories_table(explainer: Explainer, found: Sequence[Answer]) -> pl.DataFrame:
    """One row per episode, budget and step: what was, and what would have been; answers that
    failed have none."""
    import polars as pl

    schema: dict[str, Any] = {
        "episode_id": pl.String,
        "k": pl.Int64,
        "t": pl.Int64,
        "time": pl.Float64,
        "changed": pl.Boolean,
        "change_probability": pl.Float64,
        "reward": pl.Float64,
        f"{OTHER}reward": pl.Float64,
    }
    if explainer.has_dates:
        schema["date"] = pl.String
    kind = pl.Int64 if explainer.is_discrete else pl.Float64
    schema |= {side + name: kind for side in ("", OTHER) for name in explainer.step_columns}
    labels = explainer.step_labels(0, (), ())
    schema |= {side + name: pl.String for side in ("", OTHER) for name in labels}
    every = [trajectory(explainer, one) for one in found if one.explanation is not None]
    columns: dict[str, Any] = {}
    for name in schema if every else ():
        parts = [one[name] for one in every]
        is_array = all(isinstance(part, np.ndarray) for part in parts)
        columns[name] = np.concatenate(parts) if is_array else [*chain.from_iterable(parts)]
    return pl.DataFrame(columns, schema=schema)


def trajectory(explainer: Explainer, answer: Answer) -> dict[str, Any]:
    """The columns of an answer's trajectory, one row for each step."""
    found, T = answer.explanation, answer.steps
    changed = np.zeros(T, dtype=np.bool_)
    changed[[change.t for change in answer.changes]] = True
    likely = explainer.change_probabilities(found)
    columns = {
        "episode_id": [answer.episode_id] * T,
        "k": np.full(T, answer.k),
        "t": np.arange(T),
        "time": np.asarray(answer.recorded.times, dtype=np.float64),
        **({"date": answer.recorded.dates} if explainer.has_dates else {}),
        "changed": changed,
        "change_probability": changed * 1.0 if likely is None else likely.sum(axis=1),
    }
    for side, path in zip(("", OTHER), explainer.paths(found), strict=True):
        values = explainer.step_values(answer.recorded.episode, *path)
        columns |= {side + name: v for name, v in zip(explainer.step_columns, values, strict=True)}
        labels = explainer.step_labels(T, *path)
        columns |= {side + name: texts for name, texts in labels.items()}
        own = explainer.rewards(answer.recorded.episode, *path)
        columns[f"{side}reward"] = own + explainer.left_over(answer.recorded)
    return columns


def parquet_bytes(frame: pl.DataFrame) -> bytes:
    """A Parquet file; the same frame gives the same bytes."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def records(rows: Sequence[Mapping[str, Any]], unit: str) -> list[dict[str, Any]]:
    """One record for each row of results; what is known of none of them is left out. JSON has no
    infinities: they are the texts "inf" and "-inf".

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
            is_infinite = isinstance(value, float) and not math.isfinite(value)
            found[name] = str(value) if is_infinite else value
    found["changes"] = [_change_record(change, unit) for change in row["changes"]]
    return found


def _change_record(change: Mapping[str, Any], unit: str) -> dict[str, Any]:
    found: dict[str, Any] = {"t": change["t"], "time": _whole(change["time"])}
    if unit == HOURS:
        found["hours"] = found["time"]
    for side in ("observed", "alternative"):
        if change["probability"] is None:
            found[side] = {part["name"]: _whole(part[side]) for part in change["parts"]}
        else:
            found |= {side: change[side], f"{side}_label": change[f"{side}_label"]}
    for name in ("date", "probability", "taken"):
        if change.get(name) is not None:
            found[name] = change[name]
    return {**found, "text": change["text"]}


def _whole(value: float) -> float | int:
    """Without a point where there is nothing behind it."""
    return int(value) if float(value).is_integer() else value


# --- Who answers ------------------------------------------------------------------------------

# The built-in tables, as descriptions of tasks name them.
COHORT, ICU = "cohort", "icu"
DISCRETE, SCHEMA = "discrete", "schema"
MODEL = "model"


def open_explainer(model: TabularMDP | LearnedSCM, about: Mapping[str, Any]) -> Explainer:
    """The explainer of episodes of a kind: "kind", and for that of a schema "schema"."""
    kind = about["kind"]
    if kind == DISCRETE and isinstance(model, TabularMDP):
        return DiscreteExplainer(model)
    if kind == SCHEMA:
        layout = _schema_layout(model, about["schema"])
    elif kind in (COHORT, ICU) and not isinstance(model, TabularMDP):
        from counterplan.domains.icu_episodes import IcuLayout
        from counterplan.domains.sepsis_table import CohortLayout

        layout = CohortLayout() if kind == COHORT else IcuLayout()
    else:
        raise InputError(f"a {type(model).__name__} has no answers about {kind!r}")
    from counterplan.tables.layout import counts_of_model

    layout.counts = counts_of_model(model, layout.choices)
    if isinstance(model, TabularMDP):
        return DiscreteExplainer(model, layout)
    if layout.doses:
        # Here, since it loads what other tables have no use for.
        from counterplan.runs.dose_explainer import DoseExplainer

        return DoseExplainer(model, layout)
    return ContinuousExplainer(model, layout)


def _schema_layout(model: TabularMDP | LearnedSCM, schema: Any) -> SchemaLayout:
    """What a table means by its schema, with what the model has learned of its rewards."""
    from counterplan.tables.layout import SchemaLayout, layout_of_model
    from counterplan.tables.schema import schema_from_dict

    own, layout = layout_of_model(model), SchemaLayout(schema_from_dict(schema))
    if own is not None:
        if not own.has_same_rewards(layout.schema):
            raise InputError(
                "its columns of rewards and costs are not those that the model was learned with: "
                "fit it anew"
            )
        layout.exact, layout.learned = own.exact, own.learned
    return layout


def stored_explainer(description: Mapping[str, Any], read: Callable[[str], bytes]) -> Explainer:
    """The explainer of a task, from its description and its files."""
    name = MODEL + description["model_suffix"]
    return open_explainer(model_from_bytes(name, read(name)), description["subject"])
