"""check_planner accepts every planner of the project and finds out bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.errors import InfeasibleError
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.search.planners import UCT, Clip, Planner
from counterplan.testing import check_planner

from ..planning.selling import Selling


@pytest.mark.parametrize(
    "planner", [UCT(100, bellman=True), UCT(300, quantiles=0, leaf="uniform")], ids=repr
)
def test_variants_of_shipped_planners(planner: Planner) -> None:
    check_planner(planner)


class Decision:
    def __init__(self, action: FloatArray) -> None:
        self.action = action


class Simple:
    """A planner of one's own: `choose` picks among the actions."""

    name = "simple"

    def __init__(self, choose: Callable[[State, FloatArray, np.random.Generator], Any]) -> None:
        self.choose = choose

    def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Any:
        rng = generator(seed)
        return lambda state: Decision(self.choose(state, problem.actions(state), rng))


def test_a_planner_of_ones_own() -> None:
    check_planner(Simple(lambda state, actions, rng: actions[len(actions) // 2]))
    check_planner(Simple(lambda state, actions, rng: rng.choice(actions)))


class Always:
    """A policy of one's own: the same number in every state."""

    name = "always"

    def __init__(self, units: float, spoil: bool = False) -> None:
        self.units, self.spoil = units, spoil

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Any:
        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            actions = np.minimum(self.units, resource)
            if self.spoil:
                resource[:] = 0.0
            return actions

        return rule


def test_a_policy_of_ones_own() -> None:
    model = Selling(np.array([1.0, 2.0]), np.full((2, 2), 0.5), horizon=3, least=0)
    check_planner(Always(2.0), model)
    with pytest.raises(AssertionError, match="always at t=0 changed the state's resource"):
        check_planner(Always(2.0, spoil=True), model)
    with pytest.raises(InfeasibleError, match="units at t=0"):
        check_planner(Always(3.0), model)


def spoil(state: State, actions: FloatArray, rng: np.random.Generator) -> FloatArray:
    state.resource[0] = 0.0
    return actions[0]


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        (Simple(lambda state, actions, rng: actions[0] + 0.5), "which is not offered"),
        (Simple(lambda state, actions, rng: np.zeros(2)), "an action of shape"),
        (Simple(spoil), "changed the state's resource"),
        (
            Simple(lambda state, actions, rng: np.random.default_rng().choice(actions)),
            "with the same seed",
        ),
        (object(), "needs a name and begin"),
    ],
)
def test_bad_planners(planner: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_planner(planner)


class Peeking(Selling):
    """A model that tells what will happen: the same futures every time."""

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        return np.full_like(exogenous, float(t == 1))


def test_a_planner_that_knows_the_future_is_found_out() -> None:
    """The price is 9 on day 2 whatever the law says, and the planner has been told."""
    model = Peeking(np.array([1.0, 9.0]), np.array([[0.9, 0.1], [0.9, 0.1]]), horizon=3, least=0)

    def choose(state: State, actions: FloatArray, rng: np.random.Generator) -> FloatArray:
        return actions[-1] if state.t == 2 else actions[0]

    with pytest.raises(AssertionError, match="must have seen the future"):
        check_planner(Simple(choose), model)


def test_a_planner_worse_than_random_is_found_out() -> None:
    model = Selling(np.array([3.0, 3.0]), np.full((2, 2), 0.5), horizon=3, least=0)
    with pytest.raises(AssertionError, match="worse than random"):
        check_planner(Simple(lambda state, actions, rng: actions[0]), model)
