"""States that cannot be: one clear line, whoever is asked about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
