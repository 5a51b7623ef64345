"""The list of cases, and all about one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import counterplan
from counterplan.core.result import Status
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.items import Folder, Window, all_collected, collected, contains, page_of
from counterplan.explorer.models import Settings, number, numbers, table
from counterplan.explorer.scenarios import PLAYERS, PlanDesk
from counterplan.explorer.whatif import Desk, decisions_of
from counterplan.runs.answer import ACTION, OTHER, STATE, changes_in_words, trajectories_table
from counterplan.runs.answer import Answer as Found
from counterplan.runs.question import ContinuousExplainer, DiscreteExplainer, Explainer
from counterplan.runs.run import OUTCOME, RESULTS, TRAJECTORIES
from counterplan.scm.point import action_indices, action_vectors
from counterplan.tables.parts import Recorded
from counterplan.tables.schema import Column
from counterplan.viz.labels import with_unit

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# Rows of a run's tables, stored or just made, as the page takes them.

FAILED = "failed"


def observed_course(desk: Desk, recorded: Recorded) -> models.Course:
    """What happened."""
    episode, explainer = recorded.episode, desk.explainer
    actions = observed_actions(explainer, recorded)
    return models.Course(
        states=table(_features(desk, episode.states)),
        actions=actions,
        rewards=numbers(_rewards(explainer, recorded)),
        changed=[0.0] * len(episode),
    )


def observed_actions(explainer: Explainer, recorded: Recorded) -> list[int | None]:
    """The number of each action, None where nothing was decided."""
    episode = recorded.episode
    if isinstance(explainer, DiscreteExplainer):
        nothing = None if explainer.layout is None else explainer.layout.no_action
        return [None if int(a) == nothing else int(a) for a in episode.actions]
    vectors = action_vectors(explainer.problem(episode)["actions"], len(episode) - 1)
    return [*(int(a) for a in action_indices(episode, vectors)), None]


def _rewards(explainer: Explainer, recorded: Recorded) -> Sequence[float]:
    episode = recorded.episode
    if isinstance(explainer, ContinuousExplainer):
        return [float(reward) for reward in explainer.reward(episode.states)]
    assert isinstance(explainer, DiscreteExplainer)
    T, steps = len(episode), zip(episode.states, episode.actions, strict=True)
    return [float(explainer.mdp.rewards_at(t, T)[s, a]) for t, (s, a) in enumerate(steps)]


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
        observed = observed_actions(desk.explainer, recorded)
        # The number that stands for no action is none to choose.
        actions = [None if old is None else int(a) for old, a in zip(observed, taken, strict=True)]
    else:
        names = [name for name in columns if name.startswith(f"{OTHER}{STATE}:")]
        features = steps.select(names).to_numpy()
        actions = observed_actions(desk.explainer, recorded)
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
    steps = trajectories_table(desk.explainer, [found])
    return answer_of_row(desk, found.recorded, found.row(), steps)


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
    explainer = desk.explainer
    if not isinstance(explainer, DiscreteExplainer) or explainer.layout is not None:
        return [[] for _ in desk.labels.features]
    rewards = explainer.mdp.rewards_at(0, 1)
    worth = np.where(np.isfinite(rewards), rewards, -np.inf).max(axis=1)
    states = _occurring(0, courses)
    return [sorted(states, key=lambda state: (worth[int(state)], state))]


def _occurring(place: int, courses: Iterable[models.Course | None]) -> list[float]:
    given = (course for course in courses if course is not None)
    values = {state[place] for course in given for state in course.states}
    return sorted(value for value in values if isinstance(value, float))


# ----------------------------------------------------------------------------------------------

# What a list can be sorted by, and the column of each.
SORTS = {
    "improvement": "improvement",
    "relative": "relative_improvement",
    "gap": "gap",
    "factual": "factual",
    "value": "value",
    "changes": "n_changes",
    "steps": "steps",
    "id": "episode_id",
}
SUPPORTED = "yes"


@dataclass(frozen=True)
class CaseFilter:
    """Which cases.

    k          None for the largest of the run
    statuses   none given means any
    support    "yes", "no" or "" for both
    outcomes   "name=value" of what the table says
    changed    with a change of this part of actions, or to the action of this name
    search     part of the id
    """

    k: int | None = None
    statuses: tuple[str, ...] = ()
    min_improvement: float | None = None
    max_changes: int | None = None
    support: str = ""
    outcomes: tuple[str, ...] = ()
    changed: str = ""
    search: str = ""


def list_cases(desk: Desk, wanted: CaseFilter, window: Window) -> models.CasePage:
    """A page of the list."""
    k = budget_of(desk, wanted.k)
    at = Window(SORTS[window.sort], window.descending, window.offset, window.limit)
    chosen = replace(wanted, k=k)
    found = page_of(desk.rankings, chosen, _conditions(desk, chosen), at)
    lines = [_line(desk, row) for row in found.rows]
    return models.CasePage(total=found.total, offset=window.offset, k=k, lines=lines)


def budget_of(desk: Desk, k: int | None) -> int:
    """One of the run's budgets; None stands for the largest."""
    known = desk.folder.run.budgets
    if k is None:
        return known[-1]
    if k not in known:
        raise InputError(f"the run has answers for k = {', '.join(map(str, known))}, not for {k}")
    return k


def _conditions(desk: Desk, wanted: CaseFilter) -> list[pl.Expr]:
    import polars as pl

    found = [pl.col("k") == wanted.k]
    if wanted.statuses:
        found.append(pl.col("status").is_in(list(wanted.statuses)))
    if wanted.min_improvement is not None:
        found.append(pl.col("improvement") >= wanted.min_improvement)
    if wanted.max_changes is not None:
        found.append(pl.col("n_changes") <= wanted.max_changes)
    if wanted.support:
        found.append(pl.col("supported").eq(wanted.support == SUPPORTED))
    for text in wanted.outcomes:
        name, sign, value = text.partition("=")
        if not sign or name not in desk.outcomes:
            known = ", ".join(desk.outcomes) or "none"
            raise InputError(f"outcome {text!r}: write NAME=VALUE; names here: {known}")
        found.append(pl.col(OUTCOME + name) == value)
    if wanted.changed:
        found.append(_changes(wanted.changed))
    if wanted.search:
        found.append(contains("episode_id", wanted.search))
    return found


def _changes(text: str) -> pl.Expr:
    """Whether the words of a change contain a text."""
    import polars as pl

    words = pl.element().struct.field("text").str.to_lowercase()
    found = pl.col("changes").list.eval(words.str.contains(text.lower(), literal=True))
    return found.list.any().fill_null(False)


def _line(desk: Desk, row: dict[str, Any]) -> models.CaseLine:
    return models.CaseLine(
        id=row["episode_id"],
        steps=row["steps"],
        factual=number(row["factual"]),
        value=number(row["value"]),
        improvement=number(row["improvement"]),
        relative=number(row["relative_improvement"]),
        gap=number(row["gap"]),
        status=row["status"],
        reason=row["reason"],
        changes=changes_in_words(row),
        new_actions=row["new_actions"],
        far=row["far_from_data"],
        supported=row["supported"],
        outcomes={name: row[OUTCOME + name] for name in desk.outcomes},
    )


# --- One case ---------------------------------------------------------------------------------


def case_of(desk: Desk, name: str, k: int | None) -> models.Case:
    """An episode with what the run has about it; no answer for a k that was not asked about."""
    import polars as pl

    recorded = desk.recorded(name)
    rows = collected(desk.folder.rows(RESULTS, name)).sort("k").to_dicts()
    wanted = rows[-1]["k"] if k is None else k
    row = next((one for one in rows if one["k"] == wanted), None)
    answer = None
    if row is not None:
        steps = collected(desk.folder.rows(TRAJECTORIES, name).filter(pl.col("k") == wanted))
        answer = answer_of_row(desk, recorded, row, steps.sort("t"))
    observed = _observed(desk, recorded)
    course = None if answer is None else answer.course
    return models.Case(
        id=name,
        steps=len(recorded.episode),
        times=numbers(recorded.times),
        outcomes={name: rows[0][OUTCOME + name] for name in desk.outcomes},
        filled=recorded.filled,
        outside=rows[0]["far_outside_training"] or None,
        fixed=_fixed(desk, recorded),
        observed=observed,
        budgets=[_budget(one) for one in rows],
        answer=answer,
        names=names_in(desk, observed, course),
        order=order_in(desk, observed, course),
    )


def _observed(desk: Desk, recorded: Recorded) -> models.Course:
    """Empty where the model knows nothing of the episode's states or actions: it has failed."""
    try:
        return observed_course(desk, recorded)
    except (CounterplanError, IndexError):
        return models.Course(states=[], actions=[], rewards=[], changed=[])


def _fixed(desk: Desk, recorded: Recorded) -> list[int]:
    episode = recorded.episode
    given = desk.explainer.constraints(episode).fixed_steps
    decisions = decisions_of(desk.explainer, episode)
    undecided = range(decisions, len(episode))
    return sorted({*(t % len(episode) for t in given), *undecided})


def _budget(row: dict[str, Any]) -> models.Budget:
    return models.Budget(
        k=row["k"], value=number(row["value"]), bound=number(row["bound"]), status=row["status"]
    )


# ----------------------------------------------------------------------------------------------
# What a run is about, as the page needs it to draw anything.

# A column with more names than this is told by those that occur.
MOST_NAMES = 100


def about_cases(desk: Desk, settings: Settings) -> models.RunAbout:
    """A run of explanations."""
    explainer, labels = desk.explainer, desk.labels
    quantity = labels.quantity
    leading = explainer.layout.fixed if isinstance(explainer, ContinuousExplainer) else 0
    return models.RunAbout(
        kind="explain",
        noun=desk.terms.noun,
        unit=desk.terms.unit,
        discrete=explainer.is_discrete,
        budgets=desk.folder.run.budgets,
        outcomes=desk.outcomes,
        quantity=quantity.unit or quantity.name,
        solver=desk.question.solver,
        features=[
            _column(column, is_fixed=place < leading)
            for place, column in enumerate(labels.features)
        ],
        doses=[_column(column) for column in labels.doses],
        actions=table(labels.actions),
        names=[explainer.action_name(action) for action in range(len(labels.actions))],
        sense="max",
        planner=None,
        players=[],
        **_common(desk, settings),
    )


def about_plans(desk: PlanDesk, settings: Settings) -> models.RunAbout:
    """A run of judged plans."""
    description = desk.description
    return models.RunAbout(
        kind="regret",
        noun=desk.axes.scenario,
        unit="",
        discrete=False,
        budgets=[],
        outcomes=[],
        quantity="cost" if desk.problem.sense == "min" else "reward",
        solver="exact",
        features=[],
        doses=[],
        actions=[],
        names=[],
        sense=desk.problem.sense,
        planner=description.get("planner"),
        players=list(PLAYERS),
        **_common(desk, settings),
    )


def _common(desk: Desk | PlanDesk, settings: Settings) -> dict[str, Any]:
    run = desk.folder.run
    done = len(run.done)
    return {
        "title": Path(run.layout.out).resolve().name,
        # A run that was under way when it was opened may have come to its end since.
        "complete": done == run.manifest.parts,
        "parts": run.manifest.parts,
        "done": done,
        "limits": models.Limits(seconds=settings.seconds, jobs=settings.per_client),
        "version": counterplan.__version__,
    }


def _column(column: Column, is_fixed: bool = False) -> models.ColumnAbout:
    few = (column.size or 0) <= MOST_NAMES
    return models.ColumnAbout(
        name=column.name,
        title=with_unit(column),
        unit=column.unit,
        fixed=is_fixed or column.role == "fixed",
        # Names alone have no order.
        ordered=column.levels is not None or column.labels is None,
        better=column.better,
        values=list(column.values) if column.values is not None and few else None,
        labels=list(column.labels) if column.labels is not None and few else None,
    )


# ----------------------------------------------------------------------------------------------
# All items of a run at a glance: how many, what became of them, and how a number is spread.

BARS = 32
# Outcomes with more values than this are not offered for choice.
MOST_VALUES = 12


def overview_of(
    folder: Folder, column: str, outcomes: list[str], k: int | None = None
) -> models.Overview:
    """Counts and spread of a column; `k` chooses among budgets where there are some."""
    import polars as pl

    frame = folder.results()
    if k is not None:
        frame = frame.filter(pl.col("k") == k)
    finite = pl.col(column).filter(pl.col(column).is_finite())
    numbers = {"mean": finite.mean(), "median": finite.median(), "low": finite.min()}
    statuses, spread = all_collected(
        [
            frame.group_by("status").len().sort("status"),
            frame.select(total=pl.len(), high=finite.max(), **numbers),
        ]
    )
    facts = spread.row(0, named=True)
    return models.Overview(
        k=k,
        total=facts["total"],
        statuses=dict(statuses.iter_rows()),
        supported=_supported(frame),
        mean=number(facts["mean"]),
        median=number(facts["median"]),
        largest=number(facts["high"]),
        bars=_bars(frame, column, facts),
        outcomes={name: _values(frame, OUTCOME + name) for name in outcomes},
    )


def _supported(frame: pl.LazyFrame) -> int | None:
    import polars as pl

    if "supported" not in frame.collect_schema():
        return None
    known = collected(frame.select(pl.col("supported").count(), yes=pl.col("supported").sum()))
    count, yes = known.row(0)
    return int(yes) if count else None


def _values(frame: pl.LazyFrame, column: str) -> list[str]:
    """The values of an outcome, none if they are too many to choose from."""
    found = collected(frame.select(column).unique().head(MOST_VALUES + 1))[column].drop_nulls()
    return sorted(found.to_list()) if len(found) <= MOST_VALUES else []


def _bars(frame: pl.LazyFrame, column: str, facts: dict[str, Any]) -> list[models.Bar]:
    """Counts in equal steps from the lowest to the highest number, or from zero if it is higher."""
    import polars as pl

    if facts["low"] is None:
        return []
    low, high = min(0.0, facts["low"]), facts["high"]
    width = (high - low) / BARS
    if not width > 0.0:
        return [models.Bar(low=low, high=high, count=facts["total"])]
    bar = ((pl.col(column) - low) / width).floor().clip(0, BARS - 1).cast(pl.Int64)
    chosen = frame.filter(pl.col(column).is_finite()).select(bar=bar)
    counts = dict(collected(chosen.group_by("bar").len()).iter_rows())
    return [
        models.Bar(low=low + i * width, high=low + (i + 1) * width, count=counts.get(i, 0))
        for i in range(BARS)
    ]
