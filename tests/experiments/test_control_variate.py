"""Penalties as a control variate: the same means, exactly, and less variance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.options import AmericanOption
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.evaluate import evaluate
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.policies import (
    Greedy,
    OpenLoop,
    Optimal,
    Resolve,
    follow,
    futures,
    play,
)
from experiments.control_variate import controlled_outcomes
from tests.planning.expectimax import expectimax
from tests.planning.selling import random_selling
from tests.planning.small_models import every_path


def actions_of(model: Any, policy: Any, paths: FloatArray) -> FloatArray:
    """(n, T, A) of a policy along paths."""
    return play(model, policy.prepare(model, 0), paths).actions


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("policy", [Greedy(), LeastSquares(20), LeastSquares(2000)])
def test_means_are_the_same_exactly(sense: str, policy: Any) -> None:
    """On all paths by their probabilities, so no sampling is left."""
    model = random_selling(5, sense=sense)  # type: ignore[arg-type]
    paths, odds = every_path(model)
    actions = actions_of(model, policy, paths)
    outcomes = follow(model, policy.prepare(model, 0), paths)
    steady = controlled_outcomes(model, paths, actions)
    assert odds @ steady == pytest.approx(odds @ outcomes, abs=1e-9)
    spread = np.sqrt(odds @ (steady - odds @ steady) ** 2)
    assert spread < np.sqrt(odds @ (outcomes - odds @ outcomes) ** 2)


@pytest.mark.parametrize("config", "BCD")
def test_controlled_option(config: str) -> None:
    """The optimal policy earns V* on every path but for the grid: 1 %; bad ones earn less on all,
    and on average what they earn: 4 standard errors of the difference."""
    option = AmericanOption(config)
    paths = futures(option, 4000, 1)
    steady = controlled_outcomes(option, paths, actions_of(option, Optimal(), paths))
    assert steady == pytest.approx(option.optimal_value(), rel=0.01)
    actions = actions_of(option, Resolve(), paths)
    outcomes, steady = (
        follow(option, Resolve().prepare(option), paths),
        controlled_outcomes(option, paths, actions),
    )
    assert np.all(steady <= 1.01 * option.optimal_value())
    difference = steady - outcomes
    assert abs(difference.mean()) <= 4 * difference.std() / np.sqrt(4000) + 1e-9


def test_the_optimal_policy_earns_the_value_on_every_path() -> None:
    """Up to the fit on 10,000 paths, or the grid of the options' values: 1 %."""
    model = random_selling(5)
    steady = controlled_outcomes(
        model, every_path(model)[0], actions_of(model, Optimal(), every_path(model)[0])
    )
    assert steady == pytest.approx(expectimax(model).value, rel=0.01)
    basket = OptionBasket("F", cap=4, correlation=0.4)
    paths = futures(basket, 500, 1)
    steady = controlled_outcomes(basket, paths, actions_of(basket, Optimal(), paths))
    assert steady == pytest.approx(basket.optimal_value(), rel=0.01)


def test_tells_players_apart_sooner() -> None:
    """Bunkering, re-solving against the optimum on the same 300 voyages: the standard error of
    the paired difference falls to less than half."""
    model = Bunkering("A")
    paths = futures(model, 300, 0)
    plain, steady = (
        [measure(policy) for policy in (Optimal(), Resolve())]
        for measure in (
            lambda policy: follow(model, policy.prepare(model), paths),
            lambda policy: controlled_outcomes(model, paths, actions_of(model, policy, paths)),
        )
    )
    assert (steady[1] - steady[0]).std() < 0.5 * (plain[1] - plain[0]).std()


def test_an_evaluation_on_the_futures_of_its_seed() -> None:
    """Its actions earn its outcomes there, by the contract, and without the luck vary far less."""
    option = AmericanOption("C")
    found = evaluate(option, Optimal(), episodes=50, seed=3)
    paths = futures(option, 50, np.random.default_rng(3).spawn(2)[0])
    discounts = option.contract.discount(np.arange(11))[:, None]
    earned = (found.actions * discounts * option.contract.payoff(paths)).sum(axis=(1, 2))
    assert earned == pytest.approx(found.outcomes, abs=1e-9)
    steady = controlled_outcomes(option, paths, found.actions)
    assert steady.std() < 0.1 * found.outcomes.std()


def test_levels_that_no_action_leads_to() -> None:
    """An open loop that buys fractions between the order-up-to levels."""
    model = Bunkering("A")
    paths = futures(model, 10, 0)
    actions = actions_of(model, OpenLoop(), paths)
    actions[:, 0] -= 0.123
    actions[:, 1] += 0.123
    with pytest.raises(NotApplicableError, match="cannot be reached by the problem's own actions"):
        controlled_outcomes(model, paths, actions)


def test_shapes_must_agree() -> None:
    with pytest.raises(InputError, match="must agree in episodes and steps"):
        controlled_outcomes(AmericanOption("C"), np.ones((3, 11, 1)), np.ones((2, 11, 1)))
