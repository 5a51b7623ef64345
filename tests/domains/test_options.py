"""The American option as a model: the contract, hindsight, policies and bounds."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.core.validation import FloatArray
from counterplan.domains.option_contract import OPTIONS
from counterplan.domains.options import AmericanOption
from counterplan.planning.exact_value import Solution
from counterplan.planning.model import (
    Compiled,
    FiniteSupport,
    State,
    estimate,
)
from counterplan.planning.policies import OpenLoop, Optimal, Resolve, follow

from .planning_support import bounds_at, mean_of

BOTH = [("A", "gbm"), ("C", "gbm"), ("C", "binomial"), ("D", "binomial")]
HELD = np.ones(1)


def test_capabilities_are_types() -> None:
    assert isinstance(AmericanOption("C"), Compiled)
    assert not isinstance(AmericanOption("C"), FiniteSupport)
    assert isinstance(AmericanOption("C", "binomial"), FiniteSupport)


@pytest.mark.parametrize("prices", ["gbm", "binomial"])
def test_copies(prices: str) -> None:
    option = AmericanOption("C", prices)  # type: ignore[arg-type]
    for twin in (copy.deepcopy(option), pickle.loads(pickle.dumps(option))):
        assert type(twin) is type(option)
        assert twin == option
        assert twin.optimal_value() == option.optimal_value()


def test_only_hold_after_exercise() -> None:
    option = AmericanOption("C")
    start = option.start
    assert option.actions(start).tolist() == [[0.0], [1.0]]
    rewards, held = option.step(0, start.exogenous[None], start.resource[None], np.ones((1, 1)))
    assert rewards.tolist() == [4.0]
    assert held.tolist() == [[0.0]]
    assert option.actions(State(1, start.exogenous, held[0])).tolist() == [[0.0]]
    assert option.optimal_value(State(1, start.exogenous, held[0])) == 0.0


def test_hindsight_is_the_best_date_and_the_first_of_equals() -> None:
    option = AmericanOption("C")
    path = np.full((1, 11, 1), 50.0)
    nothing = option.allocate(path)
    assert nothing.values[0] == 0.0
    assert nothing.actions.sum() == 0.0
    path[0, 3], path[0, 7] = 30.0, 30.0
    found = option.allocate(path)
    assert found.actions[0, :, 0].nonzero()[0].tolist() == [3]
    assert found.values[0] == pytest.approx(np.exp(-0.05 * 0.15) * 10.0)
    later = option.allocate(path[:, 4:], State(4, path[0, 4], HELD))
    assert later.values[0] == pytest.approx(np.exp(-0.05 * 0.35) * 10.0)
    assert option.allocate(path, State(0, path[0, 0], np.zeros(1))).values[0] == 0.0


def test_hindsight_reference() -> None:
    """The note's 8.48, with 40,000 paths: 3 standard errors of 0.02."""
    option = AmericanOption("C")
    values = option.allocate(option.sample_paths(40_000, 1)).values
    assert values.mean() == pytest.approx(8.48, abs=3 * values.std() / 200)


def test_lattice_solved_by_the_general_program() -> None:
    """The program that lists states knows nothing of options."""
    option = AmericanOption("C", "binomial")
    assert Solution(option).value == pytest.approx(option.optimal_value(), abs=1e-9)


@pytest.mark.parametrize("config", "ABCDEF")
def test_optimal_policy_earns_the_optimal_value(config: str) -> None:
    """Exactly where it is exercised now."""
    option = AmericanOption(config)
    outcomes = follow(option, Optimal().prepare(option), option.sample_paths(20_000, 3))
    assert option.optimal_value() == mean_of(outcomes, 1e-12)


def test_replanning_many_states_at_once_equals_one_by_one() -> None:
    option = AmericanOption("B")
    prices = np.linspace(6.0, 30.0, 25)[:, None]
    held = np.ones((25, 1))
    for t in (0, 7, 15):
        together = Resolve().prepare(option)(t, prices, held)
        for i in range(25):
            state = State(t, prices[i], held[i])
            plan = option.allocate(option.mean_path(state)[None], state).actions[0]
            assert together[i] == plan[0]


def test_open_loop_holds_its_plan() -> None:
    """A's expected payoff grows: the plan is to wait for the maturity, the European value."""
    option = AmericanOption("A")
    paths = option.sample_paths(1000, 2)
    outcomes = follow(option, OpenLoop().prepare(option), paths)
    final = option.contract.discount(10) * option.contract.payoff(paths[:, -1, 0])
    assert outcomes == pytest.approx(final)


# --- Bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "prices"), [*BOTH, ("B", "gbm"), ("E", "binomial")])
def test_bounds_hold_everywhere(config: str, prices: str) -> None:
    """Also off the nodes, beyond the table and near 0; the upper bound's margin of 3 standard
    errors makes a violation at a node unlikely (0.1 %), and the seed is fixed."""
    option = AmericanOption(config, prices)  # type: ignore[arg-type]
    tables = option.bound_tables(2000, 5)
    rng = np.random.default_rng(6)
    strike = option.contract.strike
    states = [
        State(int(rng.integers(option.horizon)), strike * np.exp(rng.normal(0, 0.8, 1)), HELD)
        for _ in range(200)
    ]
    extremes = [State(t, np.array([strike * f]), HELD) for t in (0, 5) for f in (1e-6, 1e3)]
    for state in [*states, *extremes, option.start]:
        lower, upper = bounds_at(option, tables, state)
        value = option.optimal_value(state)
        assert lower - 1e-9 <= value <= upper + 1e-9, state


def test_bounds_are_close_to_what_they_stand_for() -> None:
    option = AmericanOption("C")
    lower, upper = bounds_at(option, option.bound_tables(20_000, 1))
    assert lower == pytest.approx(5.4578, abs=2e-4)  # the best fixed date
    assert upper == pytest.approx(8.48, rel=0.02)  # hindsight
    gone = State(1, option.start.exogenous, np.zeros(1))
    assert bounds_at(option, option.bound_tables(100, 0), gone) == (0.0, 0.0)
    assert bounds_at(option, np.empty(0)) == (-np.inf, np.inf)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10), st.floats(1.0, 200.0))
def test_rollout_policy_is_the_best_fixed_date_resolved(t: int, price: float) -> None:
    """Up to the distance of two nodes at the edge."""
    option = AmericanOption("C")
    kernel = option.compiled()
    offered = np.array([[0.0], [1.0]])
    numbers = (kernel.parameters, t, np.array([price]), HELD, np.random.default_rng(0))
    chosen = kernel.policy(*numbers, offered, 2)
    waits = range(1, option.horizon - t)
    near = price * np.array([0.97, 1.03])
    payoff = option.contract.payoff(near)
    later = np.max([np.zeros(2), *(option.exercise.fixed_date(near, s)[0] for s in waits)], axis=0)
    worth = (payoff > 0) & (payoff >= later)
    if worth.all() or not worth.any():
        assert chosen == worth[0]


# --- Tight bounds: hindsight less a martingale ---


def every_path(option: AmericanOption) -> tuple[FloatArray, FloatArray]:
    """(n, T) all paths of the lattice, and their probabilities."""
    lattice = option.process
    rises = np.array(list(product([1.0, 0.0], repeat=option.horizon - 1)))
    factors = np.where(rises > 0, lattice.up, lattice.down)  # type: ignore[union-attr]
    starts = np.full((len(rises), 1), option.contract.price)
    prices = np.hstack([starts, option.contract.price * np.cumprod(factors, axis=1)])
    p = lattice.probability  # type: ignore[union-attr]
    return prices, np.prod(np.where(rises > 0, p, 1 - p), axis=1)


@pytest.mark.parametrize("config", "ABCDEF")
def test_bounds_hold_exactly_on_the_lattice(config: str) -> None:
    """Nothing is sampled, so this holds to rounding."""
    contract = OPTIONS[config]
    option = AmericanOption(replace(contract, step=contract.maturity / 8), "binomial")
    prices, odds = every_path(option)
    gains = less_martingale(option, prices)
    along = payoffs_along(option, prices) - gains
    assert odds @ along == pytest.approx(np.zeros(option.horizon), abs=1e-9)
    # With the martingale of the optimal value itself, both bounds are met on every path.
    value = np.full(len(prices), option.optimal_value())
    assert gains.max(axis=1) == pytest.approx(value, abs=1e-9)
    assert executed(option, prices, gains) == pytest.approx(value, abs=1e-9)


def payoffs_along(option: AmericanOption, prices: FloatArray) -> FloatArray:
    return np.asarray(option.discounted(0, prices[:, :, None])[:, :, 0])


def less_martingale(option: AmericanOption, prices: FloatArray) -> FloatArray:
    gains, never, _ = option.without_luck(prices[:, :, None])
    return np.asarray((gains + never[:, None])[:, :, 0])


def executed(option: AmericanOption, prices: FloatArray, gains: FloatArray) -> FloatArray:
    """(n,) by the option's own rule, its last date at the latest."""
    held, dates = np.ones((len(prices), 1)), range(prices.shape[1])
    stops = np.hstack([option.optimal_actions(t, prices[:, t : t + 1], held) for t in dates])
    stops[:, -1] = 1.0
    return gains[np.arange(len(gains)), stops.argmax(axis=1)]


def test_control_variate_keeps_the_mean() -> None:
    """The same rule on the same paths, with and without the martingale: one mean, 4 standard
    errors of the difference, and no variance."""
    option = AmericanOption("C")
    prices = option.sample_paths(20_000, 1)[:, :, 0]
    payoffs = payoffs_along(option, prices)
    gains = less_martingale(option, prices)
    difference = estimate(executed(option, prices, gains) - executed(option, prices, payoffs))
    assert abs(difference.mean) <= 4 * difference.se
    assert executed(option, prices, gains).std() < 1e-9


@pytest.mark.parametrize("config", "ABCDEF")
def test_tight_bounds_are_the_value(config: str) -> None:
    """They meet: the martingale is that of the value itself."""
    option = AmericanOption(config)
    found = option.penalised(2000, 3)
    value = np.full(2000, option.optimal_value())
    assert found.executed == pytest.approx(value, rel=1e-9)
    assert found.hindsight == pytest.approx(value, rel=1e-9)
