"""What everyone did along the path of a scenario, replayed step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import CounterplanError, InputError
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.explorer import models
from counterplan.explorer.folder import RESULTS, collected
from counterplan.explorer.plain import number, numbers, table
from counterplan.explorer.plans import PlanDesk, line_of
from counterplan.io.plan_answer import action_in_words, state_in_words
from counterplan.io.scenario_form import ScenarioForm
from counterplan.io.scenario_table import Scenario

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
        seen=_seen(desk.form, scenario),
        tanks=[tank.removeprefix("_") for tank in desk.form.tanks],
        parts=[part.removeprefix("_") for part in desk.form.parts],
        tracks=[_track(desk, player, walk, row) for player, walk in walks.items()],
        states=[] if main is None else _states(desk.problem, main),
        advised=_advised(desk, steps, walks.get(EXECUTED)),
        expected_losses=None if None in losses else numbers(losses),
    )


def state_at(desk: PlanDesk, name: str, t: int, player: str) -> State:
    """The state in which a player made decision number t of a scenario."""
    scenario = desk.scenario(name)
    if not 0 <= t < len(scenario.seen):
        raise InputError(f"scenario {name!r} has decisions 0..{len(scenario.seen) - 1}, not {t}")
    actions = _actions(desk.form, _steps(desk, name), player)
    if actions is None:
        raise InputError(f"scenario {name!r} has no decisions of {player!r}")
    return _replayed(desk.problem, actions, _ground(desk, scenario)).state(t)


def _steps(desk: PlanDesk, name: str) -> Steps:
    """The rows of decisions of a scenario, in the order of its steps."""
    return collected(desk.folder.rows(DECISIONS, name)).sort("t").to_dicts()


def _ground(desk: PlanDesk, scenario: Scenario) -> Ground:
    path = desk.form.path(scenario.seen)
    return Ground(path, desk.form.state(path, scenario.start))


def _walks(desk: PlanDesk, scenario: Scenario, steps: Steps) -> dict[str, Walk]:
    """Those of all players that have one; none where the scenario itself is impossible."""
    try:
        ground = _ground(desk, scenario)
    except CounterplanError:
        return {}
    given = {player: _actions(desk.form, steps, player) for player in PLAYERS}
    return {
        player: _replayed(desk.problem, actions, ground)
        for player, actions in given.items()
        if actions is not None
    }


def _actions(form: ScenarioForm, steps: Steps, name: str) -> FloatArray | None:
    columns = [f"{name}{part}" for part in form.parts]
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
        words=_words(desk.problem, walk, walk.actions),
        rewards=numbers(walk.rewards),
        levels=table(walk.levels),
    )


def _words(problem: ExogenousModel, walk: Walk, actions: FloatArray) -> list[str]:
    """Actions in words, where the walk has come to."""
    return [action_in_words(problem, walk.state(s), action) for s, action in enumerate(actions)]


def _states(problem: ExogenousModel, walk: Walk) -> list[str]:
    return [state_in_words(problem, walk.state(s)) for s in range(len(walk.actions))]


def _advised(desk: PlanDesk, steps: Steps, executed: Walk | None) -> list[str] | None:
    actions = _actions(desk.form, steps, ADVISED)
    if actions is None or executed is None:
        return None
    return _words(desk.problem, executed, actions)


def _seen(form: ScenarioForm, scenario: Scenario) -> list[models.Series]:
    return [
        models.Series(
            name=entry.column.replace("_", " "),
            values=numbers(values),
            labels=list(entry.names) or None,
        )
        for entry, values in zip(form.seen, scenario.seen.T, strict=True)
    ]
