"""A run that judged executed plans, opened, and the list of its scenarios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import CounterplanError, FileError, InputError
from counterplan.explorer import models
from counterplan.explorer.items import (
    RESULTS,
    Folder,
    Rankings,
    Window,
    collected,
    contains,
    page_of,
)
from counterplan.explorer.models import number, numbers, plain, table
from counterplan.planning.bounds import value_bounds
from counterplan.planning.description import (
    Axes,
    Columns,
    action_in_words,
    axes_of,
    plan_record,
    state_in_words,
)
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.search.planners import PLANNERS, plan
from counterplan.runs.regret import RegretTask, open_task
from counterplan.runs.task import REGRET
from counterplan.tables.scenarios import ID, Scenario, scenarios_from_bytes

SORTS = {
    "expected_regret": "expected_regret",
    "executed": "executed",
    "regret_policy": "regret_policy",
    "regret_hindsight": "regret_hindsight",
    "hindsight": "hindsight",
    "id": ID,
}


class PlanDesk:
    """All that is needed to look at a scenario of the run."""

    def __init__(self, out: Path) -> None:
        self.folder = Folder(out, ID)
        self.rankings = Rankings(self.folder)
        kind = self.folder.run.manifest.task["kind"]
        if kind != REGRET:
            raise FileError(f"is a run of {kind!r}, which has no scenarios")

    @cached_property
    def _task(self) -> RegretTask:
        return open_task(self.folder.run.spec())

    @property
    def problem(self) -> ExogenousModel:
        """What was planned."""
        return self._task.problem

    @property
    def columns(self) -> Columns:
        """How its scenarios are written down."""
        return self._task.columns

    @property
    def axes(self) -> Axes:
        """What its numbers are called."""
        return axes_of(self.problem)

    @property
    def description(self) -> Any:
        """What was asked."""
        return self.folder.run.manifest.task["description"]

    def scenario(self, name: str) -> Scenario:
        """A scenario as it was read."""
        (found,) = scenarios_from_bytes(self.folder.input_of(name), self.columns)
        return found


@dataclass(frozen=True)
class PlanFilter:
    """Which scenarios.

    min_expected_regret  that lost at least so much in expectation
    statuses             none given means any
    search               part of the id
    """

    min_expected_regret: float | None = None
    statuses: tuple[str, ...] = ()
    search: str = ""


def list_plans(desk: PlanDesk, wanted: PlanFilter, window: Window) -> models.PlanPage:
    """A page of the list."""
    import polars as pl

    conditions = []
    if wanted.min_expected_regret is not None:
        conditions.append(pl.col("expected_regret") >= wanted.min_expected_regret)
    if wanted.statuses:
        conditions.append(pl.col("status").is_in(list(wanted.statuses)))
    if wanted.search:
        conditions.append(contains(ID, wanted.search))
    column = SORTS[window.sort]
    at = Window(column, window.descending, window.offset, window.limit)
    found = page_of(desk.rankings, wanted, conditions, at)
    lines = [line_of(row) for row in found.rows]
    return models.PlanPage(total=found.total, offset=window.offset, lines=lines)


def line_of(row: dict[str, Any]) -> models.PlanLine:
    """A row of results as a line of the list."""
    return models.PlanLine(
        id=row[ID],
        executed=number(row["executed"]),
        hindsight=number(row["hindsight"]),
        without_foresight=number(row["without_foresight"]),
        planned=number(row["planned"]),
        regret_hindsight=number(row["regret_hindsight"]),
        regret_policy=number(row["regret_policy"]),
        expected_regret=number(row["expected_regret"]),
        costliest=row["costliest"],
        status=row["status"],
        reason=row["reason"],
    )


# ----------------------------------------------------------------------------------------------
# What everyone did along the path of a scenario, replayed step by step.

DECISIONS = "decisions"
EXECUTED, ADVISED = "executed", "advised"
# Players, how the page calls them, and the column of the results with what they come to.
PLAYERS = {
    EXECUTED: ("Executed", "executed"),
    "policy": ("Best without foresight", "without_foresight"),
    "open_loop": ("Plan made once", "open_loop"),
    "planned": ("Planner", "planned"),
    "hindsight": ("Hindsight", "hindsight"),
}

Steps = Sequence[dict[str, Any]]


class Ground(NamedTuple):
    """What was revealed, (T, X), and the state in which it began."""

    path: FloatArray
    start: State


@dataclass(frozen=True, eq=False)
class Walk:
    """What a player did.

    actions  (T, A)
    rewards  (T,) what each brought
    levels   (T + 1, D) the resource before each, and at the end
    """

    ground: Ground
    actions: FloatArray
    rewards: FloatArray
    levels: FloatArray

    def state(self, s: int) -> State:
        """Where decision number s was made."""
        return State(self.ground.start.t + s, self.ground.path[s], self.levels[s])


def scenario_of(desk: PlanDesk, name: str) -> models.Scenario:
    """A scenario with what everyone did."""
    scenario, steps = desk.scenario(name), _steps(desk, name)
    row = collected(desk.folder.rows(RESULTS, name)).row(0, named=True)
    walks = _walks(desk, scenario, steps)
    main = walks.get(EXECUTED) or walks.get("policy")
    losses = [step["expected_loss"] for step in steps]
    return models.Scenario(
        id=name,
        sense=desk.problem.sense,
        horizon=desk.problem.horizon,
        line=line_of(row),
        policy=row["policy"],
        planner=row["planner"],
        seen=_seen(desk.columns, scenario),
        step=desk.axes.step.removesuffix(" t"),
        tanks=list(desk.axes.levels),
        parts=list(desk.axes.actions),
        choices=list(desk.axes.choices),
        tracks=[_track(desk, player, walk, row) for player, walk in walks.items()],
        states=[] if main is None else _states(desk.problem, main),
        advised=_advised(desk, steps, walks.get(EXECUTED)),
        expected_losses=None if None in losses else numbers(losses),
    )


def state_at(desk: PlanDesk, name: str, t: int, player: str) -> State:
    """The state in which a player made decision number t of a scenario."""
    scenario = desk.scenario(name)
    if not 0 <= t < len(scenario.observed):
        raise InputError(
            f"scenario {name!r} has decisions 0..{len(scenario.observed) - 1}, not {t}"
        )
    actions = _actions(desk.axes, _steps(desk, name), player)
    if actions is None:
        raise InputError(f"scenario {name!r} has no decisions of {player!r}")
    return _replayed(desk.problem, actions, _ground(desk, scenario)).state(t)


def _steps(desk: PlanDesk, name: str) -> Steps:
    """The rows of decisions of a scenario, in the order of its steps."""
    return collected(desk.folder.rows(DECISIONS, name)).sort("t").to_dicts()


def _ground(desk: PlanDesk, scenario: Scenario) -> Ground:
    path = desk.columns.path(scenario.observed)
    return Ground(path, desk.columns.state(path, scenario.start))


def _walks(desk: PlanDesk, scenario: Scenario, steps: Steps) -> dict[str, Walk]:
    """Those of all players that have one; none where the scenario itself is impossible."""
    try:
        ground = _ground(desk, scenario)
    except CounterplanError:
        return {}
    given = {player: _actions(desk.axes, steps, player) for player in PLAYERS}
    return {
        player: _replayed(desk.problem, actions, ground)
        for player, actions in given.items()
        if actions is not None
    }


def _actions(axes: Axes, steps: Steps, name: str) -> FloatArray | None:
    columns = [f"{name}{key}" for key in axes.action_keys]
    if any(step.get(column) is None for step in steps for column in columns):
        return None
    return np.array([[step[column] for column in columns] for step in steps], dtype=np.float64)


def _replayed(problem: ExogenousModel, actions: FloatArray, ground: Ground) -> Walk:
    resource = np.array(ground.start.resource, dtype=np.float64)[np.newaxis]
    rewards, levels = [], [resource[0]]
    for s, action in enumerate(actions):
        now = ground.path[s : s + 1]
        reward, resource = problem.step(ground.start.t + s, now, resource, action[np.newaxis])
        rewards.append(float(reward[0]))
        levels.append(resource[0])
    return Walk(ground, actions, np.array(rewards), np.array(levels))


def _track(desk: PlanDesk, player: str, walk: Walk, row: dict[str, Any]) -> models.Track:
    title, column = PLAYERS[player]
    return models.Track(
        player=player,
        title=title,
        value=number(row[column]),
        actions=table(walk.actions),
        words=_words(desk.problem, walk.actions),
        rewards=numbers(walk.rewards),
        levels=table(walk.levels),
    )


def _words(problem: ExogenousModel, actions: FloatArray) -> list[str]:
    """Actions in words."""
    return [action_in_words(problem, action) for action in actions]


def _states(problem: ExogenousModel, walk: Walk) -> list[str]:
    return [state_in_words(problem, walk.state(s)) for s in range(len(walk.actions))]


def _advised(desk: PlanDesk, steps: Steps, executed: Walk | None) -> list[str] | None:
    actions = _actions(desk.axes, steps, ADVISED)
    if actions is None or executed is None:
        return None
    return _words(desk.problem, actions)


def _seen(columns: Columns, scenario: Scenario) -> list[models.Series]:
    return [
        models.Series(
            name=column.title,
            values=numbers(values),
            labels=list(column.names) or None,
        )
        for column, values in zip(columns.observed, scenario.observed.T, strict=True)
    ]


# ----------------------------------------------------------------------------------------------
# What a planner would do at a step of a scenario, and what the optimum lies between there.

ADVICE = "advice"
# Futures that bounds on the optimum are means over.
BOUND_SAMPLES = 10_000


def advise(desk: PlanDesk, question: dict[str, Any]) -> bytes:
    """The answer to a question (`models.AdviseQuestion`) as JSON (`models.Advice`)."""
    problem, seed = desk.problem, desk.folder.run.manifest.seed
    state = state_at(desk, question["id"], question["t"], question["player"])
    planner = PLANNERS[question["planner"]](question["simulations"])
    found = plan(problem, state, planner, seed=seed)
    bounds = value_bounds(problem, BOUND_SAMPLES, seed, state=state)
    record = plan_record(problem, state, found, bounds)
    between = record["bounds"]
    advice = {
        "t": question["t"],
        "words": record["words"],
        "state": record["state"]["words"],
        "action": record["action"],
        "value": record["value"],
        "se": record["se"],
        **{name: between[name] for name in ("lower", "lower_se", "upper", "upper_se")},
        "exact": record["exact"],
        "choices": [
            {name: one[name] for name in ("words", "value", "se", "simulations")}
            for one in record["choices"]
        ],
        "planner": planner.name,
        "simulations": question["simulations"],
    }
    return json.dumps(plain(advice)).encode()
