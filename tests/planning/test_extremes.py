"""Units do not matter: prices and amounts of any size, the same decisions and values."""

from dataclasses import replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import InputError
from counterplan.planning.processes import GBM
from counterplan.planning.resource import Resource
from counterplan.testing.planning import played


def stock(seed: int, price: float, unit: float) -> ExogenousMDP:
    """A stock to sell, a tank to fill or two stocks that share a quota, in units of any size."""
    rng = np.random.default_rng(seed)
    T, kind = int(rng.integers(1, 5)), seed % 3
    prices = GBM(rng.uniform(2.0, 8.0, size=2) * price, 0.0, 0.5, dt=1.0, kind="correlated")
    if kind == 0:
        stocks = (Resource(T * unit), Resource(T * unit))
        return ExogenousMDP(prices, np.eye(2), stocks, [(2.0 * unit, 2.0 * unit)] * T)
    if kind == 1:
        tank = Resource(0.0, 6.0 * unit, +1, -unit * rng.integers(1, 4, size=T))
        return ExogenousMDP(prices, [[1.0, 0.0]], tank, [(0.0, 6.0 * unit)] * T, sense="min")
    bounds = np.column_stack([np.zeros(T), rng.integers(1, 4, size=T)]) * unit
    return ExogenousMDP(prices, [[1.0, 0.0]], Resource(float(rng.integers(2, 6)) * unit), bounds)


@pytest.mark.parametrize("seed", range(12))
def test_values_do_not_depend_on_the_units(seed: int) -> None:
    values = []
    for price, unit in [(1.0, 1.0), (1e-9, 1.0), (1e9, 1.0), (1.0, 1e-9), (1.0, 1e9), (1e-90, 1e3)]:
        problem = stock(seed, price, unit)
        done = played(problem, np.random.default_rng(seed))
        path = np.array([one.state.exogenous for one in done])
        actions = np.array([one.action for one in done])
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
        problem = stock(seed, price, unit)
        bounds = cp.value_bounds(problem, samples=50, seed=0)
        searched = cp.plan(problem, planner=cp.UCT(100), seed=0)
        resolved = cp.evaluate(problem, cp.policies.Resolve(), episodes=5, seed=0)
        found = [bounds.lower, bounds.upper, searched.value, resolved.mean]
        values.append(np.array([*found, *(searched.action * price)]) / (price * unit))
    assert np.allclose(values, values[0], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("price", "drift", "fixed_cost", "says"),
    [
        (1e300, 0.0, 0.0, "initial is 1e\\+300, too far from 0"),
        (1.0, 700.0, 0.0, "prices move by a factor of e\\^100 in one step"),
        (1.0, -700.0, 0.0, "prices move by a factor of e\\^100 in one step"),
        (1.0, 0.0, 1e300, "too far from 0"),
    ],
)
def test_no_search_is_started_where_values_would_overflow(
    price: float, drift: float, fixed_cost: float, says: str
) -> None:
    def problem() -> cp.domains.Bunkering:
        return cp.domains.Bunkering(prices=GBM(price, drift, 0.3, dt=1 / 7), fixed_cost=fixed_cost)

    with pytest.raises(InputError, match=says):
        problem()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_decision_is_valued_at_what_is_no_number(value: float) -> None:
    found = cp.plan(cp.domains.Bunkering(), planner=cp.UCT(20))
    with pytest.raises(InputError, match=f"UCT: the rewards on the way add up to {value}"):
        replace(found, value=value)
