"""Scenarios: the paths of a run of `plan`, what everyone did along each, and a planner's advice.

Everyone's decisions are replayed along the path that was: d_{t+1} = step_t(x_t, d_t, a_t).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from counterplan.core.limits import ProgressCallback
from counterplan.core.validation import FloatArray
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.lists import Items
from counterplan.planning.bounds import value_bounds
from counterplan.planning.description import action_in_words, axes_of, plan_record, state_in_words
from counterplan.planning.model import State
from counterplan.planning.policies import Played, played
from counterplan.planning.search.planners import PLANNERS, plan
from counterplan.runs.run import DECISIONS, RESULTS, Run
from counterplan.tables.scenarios import ID, Scenario

if TYPE_CHECKING:
    import polars as pl

# Futures that bounds on the optimum are means over.
BOUND_SAMPLES = 10_000
EXECUTED, ADVISED = "executed", "advised"
# Players, how the page calls them, and the column of the results with what they come to.
PLAYERS = {
    EXECUTED: ("Executed", "executed"),
    "policy": ("Best without foresight", "without_foresight"),
    "open_loop": ("Plan made once", "open_loop"),
    "planned": ("Planner", "planned"),
    "hindsight": ("Hindsight", "hindsight"),
}

LINE = (
    *("executed", "hindsight", "without_foresight", "planned", "regret_hindsight"),
    *("regret_policy", "expected_regret", "costliest", "status", "reason"),
)

Steps = Sequence[Mapping[str, Any]]


class Scenarios(Items):
    """A run of `plan`, opened for questions."""

    sorts: ClassVar = {"id": ID}

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._problem, self._columns = run.problem, run.columns
        self._axes = axes_of(run.problem)

    def about(self) -> dict[str, Any]:
        sense, description = self._problem.sense, self.run.manifest.task.description
        return {
            "kind": self.run.kind,
            "noun": self._axes.scenario,
            "quantity": "cost" if sense == "min" else "reward",
            "solver": "exact",
            "sense": sense,
            "planner": description.get("planner"),
            "players": [*PLAYERS],
        }

    @property
    def compared(self) -> pl.Expr:
        import polars as pl

        return pl.col("expected_regret")

    def overview(self, k: int | None) -> dict[str, Any]:
        return self.spread()

    def page(self, query: models.ScenarioQuery) -> dict[str, Any]:
        """A page of the list."""
        page = self.listed(query)
        return page | {"lines": [*map(_line, page["lines"])]}

    def conditions(self, query: models.ScenarioQuery) -> list[pl.Expr]:
        import polars as pl

        found = super().conditions(query)
        if query.min_expected_regret is not None:
            found.append(pl.col("expected_regret") >= query.min_expected_regret)
        return found

    def scenario(self, name: str) -> dict[str, Any]:
        """A scenario with what everyone did."""
        scenario, steps = self.run.scenario(name), self.rows(DECISIONS, name)
        (row,) = self.rows(RESULTS, name)
        done = self._journeys(scenario, steps)
        main = done.get(EXECUTED) or done.get("policy")
        losses = [step["expected_loss"] for step in steps]
        advised = _actions(self._axes.action_keys, steps, ADVISED) if EXECUTED in done else None
        return {
            "id": name,
            "sense": self._problem.sense,
            "horizon": self._problem.horizon,
            "line": _line(row),
            "policy": row["policy"],
            "planner": row["planner"],
            "seen": [
                {"name": one.title, "values": values, "labels": one.names or None}
                for one, values in zip(self._columns.observed, scenario.observed.T, strict=True)
            ],
            "step": self._axes.step.removesuffix(" t"),
            "tanks": self._axes.levels,
            "parts": self._axes.actions,
            "choices": self._axes.choices,
            "tracks": [self._track(player, one, row) for player, one in done.items()],
            "states": [
                state_in_words(self._problem, state) for state in (main.states if main else ())
            ],
            "advised": None if advised is None else self._in_words(advised),
            "expected_losses": None if None in losses else losses,
        }

    def check(self, question: models.AdviseQuestion) -> None:
        self._state(question)

    def answer(self, asked: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
        question = models.AdviseQuestion.model_validate(asked)
        problem, seed, state = self._problem, self.run.manifest.seed, self._state(question)
        planner = PLANNERS[question.planner](question.simulations)
        found = plan(problem, state, planner, seed=seed)
        bounds = value_bounds(problem, BOUND_SAMPLES, seed, state=state)
        record = plan_record(problem, state, found, bounds)
        return {
            **record,
            **record["bounds"],
            "t": question.t,
            "state": record["state"]["words"],
            "planner": planner.name,
            "simulations": question.simulations,
        }

    def _state(self, question: models.AdviseQuestion) -> State:
        """Where a player made the decision that a question is about."""
        name, t, player = question.id, question.t, question.player
        scenario = self.run.scenario(name)
        last = len(scenario.observed) - 1
        if not 0 <= t <= last:
            raise InputError(f"scenario {name!r} has decisions 0..{last}, not {t}")
        actions = _actions(self._axes.action_keys, self.rows(DECISIONS, name), player)
        if actions is None:
            raise InputError(f"scenario {name!r} has no decisions of {player!r}")
        return self._replayed(scenario, actions).states[t]

    def _journeys(self, scenario: Scenario, steps: Steps) -> dict[str, Played]:
        """Those of all players that have one; none where the scenario itself is impossible."""
        keys = self._axes.action_keys
        given = {player: _actions(keys, steps, player) for player in PLAYERS}
        try:
            return {
                player: self._replayed(scenario, actions)
                for player, actions in given.items()
                if actions is not None
            }
        except CounterplanError:
            return {}

    def _replayed(self, scenario: Scenario, actions: FloatArray) -> Played:
        path = self._columns.path(scenario.observed)
        start = self._columns.state(path, scenario.start)
        return played(self._problem, lambda t, x, d: actions[[t - start.t]], path, start)

    def _track(self, player: str, done: Played, row: Mapping[str, Any]) -> dict[str, Any]:
        title, column = PLAYERS[player]
        return {
            "player": player,
            "title": title,
            "value": row[column],
            "actions": done.actions,
            "words": self._in_words(done.actions),
            "rewards": done.rewards,
            "levels": done.levels,
        }

    def _in_words(self, actions: FloatArray) -> list[str]:
        """Actions in words."""
        return [action_in_words(self._problem, action) for action in actions]


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the list, of a row of results."""
    return {"id": row[ID], **{name: row[name] for name in LINE}}


def _actions(keys: Sequence[str], steps: Steps, player: str) -> FloatArray | None:
    """(T, A) what a player did, None where that is not known of every step."""
    found = [[step.get(f"{player}{key}") for key in keys] for step in steps]
    return None if any(None in action for action in found) else np.array(found, dtype=np.float64)
