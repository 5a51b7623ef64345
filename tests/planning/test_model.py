"""States that cannot be: one clear line, whoever is asked about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.exact_value import exact_value
from counterplan.planning.hindsight import hindsight
from counterplan.planning.model import State
from counterplan.planning.processes import GBM
from counterplan.planning.resource import Resource
from counterplan.planning.search.planners import plan

SHIP, CAR, HIDDEN = Bunkering(), HybridVehicle("A"), HybridVehicle("A", hidden=True)
PUT, LATTICE, BASKET = (
    AmericanOption("C"),
    AmericanOption("C", "binomial"),
    OptionBasket("A", cap=2),
)
STOCK = ExogenousMDP(
    GBM(20.0, 0.05, 0.4, dt=1 / 12), [[1.0]], Resource(30, 40), [(0, 10)] * 12, budget=(20, 30)
)
GAS = np.array([1.0, 0.0, 0.0])
WRONG: list[tuple[Any, Any, Any, str]] = [
    (SHIP, [1000.0], [-5.0], "a level of -5, which must lie between 0 and 50"),
    (SHIP, [1000.0], [70.0], "a level of 70, which must lie between 0 and 50"),
    (SHIP, [-1.0], [5.0], "a price of -1: prices must be positive"),
    (CAR, GAS, [-3.0, 5.0], "a tank with -3, which must lie between 0 and 10"),
    (CAR, GAS, [3.0, 50.0], "a tank with 50, which must lie between 0 and 10"),
    (CAR, GAS, [3.5, 2.0], "in the tanks: fuel comes in whole units"),
    (CAR, [0.5, 0.5, 0.0], [3.0, 2.0], "give 1 for the mode, else 0"),
    (CAR, [2.0, -1.0, 0.0], [3.0, 2.0], "give 1 for the mode, else 0"),
    (CAR, [0.0, 0.0, 0.0], [3.0, 2.0], "give 1 for the mode, else 0"),
    (HIDDEN, [10.0, 8.0, 0.7, 0.7, 0.0], [3.0, 2.0], "give probabilities that sum to 1"),
    (PUT, [-36.0], [1.0], "a price of -36: prices must be positive"),
    (PUT, [36.0], [5.0], r"holds \[5.0\]: give 1 for each option still held"),
    (LATTICE, [36.0], [0.5], r"holds \[0.5\]: give 1 for each option still held"),
    (BASKET, [1.0, -2.0, 3.0], [1.0, 1.0, 1.0], "a price of -2: prices must be positive"),
    (BASKET, [1.0, 2.0, 3.0], [1.0, 1.0, 2.0], "give 1 for each option still held"),
    (STOCK, [20.0], [-5.0, 0.0], "a level of -5, which must lie between 0 and 40"),
    (STOCK, [20.0], [45.0, 0.0], "a level of 45, which must lie between 0 and 40"),
    (STOCK, [20.0], [9.0, -1.0], "a total spent of -1, which must lie between 0 and 30"),
]


@pytest.mark.parametrize(("model", "exogenous", "resource", "words"), WRONG)
def test_states_that_cannot_be_are_refused(
    model: Any, exogenous: Any, resource: Any, words: str
) -> None:
    state = State(3, np.array(exogenous), np.array(resource))
    path = np.tile(np.abs(exogenous), (model.horizon - 3, 1))
    for ask in (
        lambda: model.actions(state),
        lambda: plan(model, state),
        lambda: hindsight(model, path, state=state),
        lambda: exact_value(model, state),
    ):
        with pytest.raises(InputError, match=f"the state at t=3 .*{words}") as caught:
            ask()
        assert "\n" not in str(caught.value)


def test_a_state_that_cannot_be_continued_is_refused() -> None:
    state = State(11, np.array([20.0]), np.array([30.0, 0.0]))
    for ask in (lambda: plan(STOCK, state), lambda: hindsight(STOCK, [[1.0]], state=state)):
        with pytest.raises(
            InfeasibleError, match=r"state at t=11 with resource .* leaves no action"
        ):
            ask()


def test_nothing_is_left_to_allocate_at_the_end() -> None:
    end = State(7, np.array([1000.0]), np.zeros(1))
    with pytest.raises(InputError, match="the state is at t=7, the end: there is nothing left"):
        hindsight(SHIP, np.empty((0, 1)), state=end)


@pytest.mark.parametrize(
    ("model", "resource", "action", "words"),
    [
        (PUT, [1.0], [3.0], "exercising 3 of the option at date t=2, when 1 .* 1 exercises"),
        (PUT, [0.0], [1.0], "exercising 1 of the option at date t=2, when 0 of it"),
        (PUT, [1.0], [-1.0], "exercising -1 of the option at date t=2"),
        (BASKET, [1.0, 0.0, 1.0], [0.0, 1.0, 0.0], "option 2 at date t=2, when 0 of it is still"),
        (BASKET, [1.0] * 3, [1.0] * 3, "exercising 3 options at date t=2: at most 2"),
    ],
)
def test_options_are_exercised_once(model: Any, resource: Any, action: Any, words: str) -> None:
    given = (np.array([one]) for one in (model.start.exogenous, resource, action))
    with pytest.raises(InfeasibleError, match=words):
        model.step(2, *given)


class Offers:
    """Two things to sell on four days; an offer goes up or down by one, or stays."""

    horizon, sense = 4, "max"
    start = State(0, np.array([3.0]), np.array([2.0]))

    def draw(self, t: int, x: Any, generator: Any) -> Any:
        return np.clip(x + generator.integers(-1, 2, x.shape), 1.0, 6.0)

    def actions(self, state: State) -> Any:
        return np.arange(0.0, state.resource[0] + 1.0)[:, None]

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        return x[:, 0] * a[:, 0], d - a


class InPlace(Offers):
    """The same, reckoned in the arrays that are given."""

    def draw(self, t: int, x: Any, generator: Any) -> Any:
        x += generator.integers(-1, 2, x.shape)
        return np.clip(x, 1.0, 6.0, out=x)

    def actions(self, state: State) -> Any:
        offered = np.arange(0.0, state.resource[0] + 1.0)[:, None]
        state.exogenous[:] = state.resource[:] = 0.0
        return offered

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        d -= a
        rewards = x[:, 0] * a[:, 0]
        x *= 0.0
        a *= 0.0
        return rewards, d


class Strayed(Offers):
    """Offers may rise by one; those listed rise by two."""

    def successors(self, t: int, x: Any) -> Any:
        return x + np.array([[-1.0], [0.0], [2.0]]), np.full(3, 1 / 3)


def test_a_model_may_reckon_in_place() -> None:
    """A step that changed the actions on offer was planned for as another problem, wordlessly."""
    plain, changed = (cp.plan(one, planner=cp.UCT(200), seed=0) for one in (Offers(), InPlace()))
    assert plain.action.tolist() == changed.action.tolist() == [0.0]
    assert plain.value == changed.value
    assert plain.values.tolist() == changed.values.tolist()


def test_draws_must_be_among_the_successors() -> None:
    with pytest.raises(InputError, match="which is none of its successors"):
        cp.plan(Strayed(), planner=cp.UCT(10), seed=0)
