"""Units do not matter: prices and amounts of any size, the same decisions and values."""

from dataclasses import replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import InputError
from counterplan.testing import random_sale
from counterplan.testing.planning import played


def sale(seed: int, price: float, unit: float) -> ExogenousMDP:
    return random_sale(np.random.default_rng(seed), 1 + seed % 4, price, unit)


@pytest.mark.parametrize("seed", range(12))
def test_values_do_not_depend_on_the_units(seed: int) -> None:
    values = []
    for price, unit in [(1.0, 1.0), (1e-9, 1.0), (1e9, 1.0), (1.0, 1e-9), (1.0, 1e9), (1e-90, 1e3)]:
        problem = sale(seed, price, unit)
        done = played(problem, np.random.default_rng(seed))
        path = np.array([state.exogenous for state, _ in done])
        actions = np.array([action for _, action in done])
        hindsight = cp.hindsight(problem, path).value
        executed = cp.Episode(path, actions)
        best = [cp.explain(problem, executed, k=k) for k in (0, 1, 4)]
        assert all(found.status == "optimal" for found in best)
        values.append(np.array([hindsight, *(found.value for found in best)]) / (price * unit))
    assert np.allclose(values, values[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_nor_do_bounds_searches_and_what_policies_earn(seed: int) -> None:
    values = []
    for price, unit in [(1.0, 1.0), (1e-90, 1.0), (1e9, 1e-3), (1.0, 1e9)]:
        problem = sale(seed, price, unit)
        bounds = cp.value_bounds(problem, samples=50, seed=0)
        searched = cp.plan(problem, planner=cp.UCT(100), seed=0)
        resolved = cp.evaluate(problem, cp.policies.Resolve(), episodes=5, seed=0)
        found = [bounds.lower, bounds.upper, searched.value, resolved.mean]
        values.append(np.array([*found, *(searched.action * price)]) / (price * unit))
    assert np.allclose(values, values[0], rtol=1e-7, atol=1e-7)


def test_no_search_is_started_where_values_would_overflow() -> None:
    with pytest.raises(InputError, match="too far from 0"):
        cp.domains.Bunkering(fixed_cost=1e300)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_decision_is_valued_at_what_is_no_number(value: float) -> None:
    found = cp.plan(cp.domains.Bunkering(), planner=cp.UCT(20))
    with pytest.raises(InputError, match=f"UCT: the rewards on the way add up to {value}"):
        replace(found, value=value)
