"""Baskets of options: the model, its actions, its bounds, its classical policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from counterplan.core.validation import FloatArray
from counterplan.domains.basket import OptionBasket
from counterplan.domains.option_contract import BASKETS, BasketContract
from counterplan.domains.options import AmericanOption, assign
from counterplan.errors import NotApplicableError
from counterplan.planning.exact_value import Solution, exact_value
from counterplan.planning.model import State, estimate
from counterplan.planning.policies import OpenLoop, Optimal, Resolve, follow
from counterplan.planning.processes.prices import BinomialLattice
from experiments.longstaff_schwartz import LeastSquaresEach

from .planning_support import bounds_at, mean_of


def separate_value(basket: OptionBasket) -> float:
    """The sum of the options' own values: never less than the basket's."""
    return sum(single.optimal_value() for single in basket.singles)


def test_cap_binds_on_every_date() -> None:
    basket = OptionBasket("C")
    for t in (0, basket.horizon - 1):
        sets = basket.actions(State(t, np.array([30.0, 10.0, 40.0]), np.ones(3)))
        assert sets.sum(axis=1).tolist() == [0, 1, 2]


def test_ranked_sets_grow_by_what_gains_most() -> None:
    """A's calls without dividend are better kept: the one with dividend comes first although the
    others pay more."""
    prices = np.array([60.0, 30.0, 12.0])
    state = State(25, prices, np.ones(3))
    ranked = OptionBasket("A").actions(state)
    assert ranked[1].tolist() == [0.0, 1.0, 0.0]
    assert ranked.sum(axis=1).tolist() == [0.0, 1.0, 2.0, 3.0]
    worthless = OptionBasket("C").actions(State(3, np.array([10.0, 20.0, 50.0]), np.ones(3)))
    assert worthless.tolist() == [[0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_increments_are_correlated_in_both_languages(correlation: float) -> None:
    """4 standard errors of 20,000 draws: 0.03."""
    basket = OptionBasket("C", correlation=correlation)
    kernel, rng = basket.compiled(), np.random.default_rng(0)
    x = np.repeat(basket.start.exogenous[None], 20_000, axis=0)
    drawn, out = np.empty_like(x), np.empty(3)
    for i in range(len(x)):
        kernel.draw(kernel.parameters, 0, x[i], rng, out)
        drawn[i] = out
    for after in (basket.draw(0, x, rng), drawn):
        found = np.corrcoef(np.log(after / x).T)
        assert found[np.triu_indices(3, 1)] == pytest.approx(correlation, abs=0.03)
        growth = np.exp([option.drift * option.step for option in basket.contracts])
        assert (after / x).mean(axis=0) == pytest.approx(growth, abs=0.003)


def test_quantiles_have_the_right_means() -> None:
    basket = OptionBasket("C", correlation=0.5)
    kernel = basket.compiled(quantiles=32)
    states, odds = np.empty((32, 3)), np.empty(32)
    x = np.array([26.0, 15.0, 38.0])
    assert kernel.successors(kernel.parameters, 4, x, states, odds) == 32
    growth = np.exp([option.drift * option.step for option in basket.contracts])
    assert odds @ states == pytest.approx(x * growth, rel=1e-12)
    assert np.corrcoef(np.log(states.T))[0, 1] == pytest.approx(0.5, abs=0.2)


def test_hindsight_respects_the_cap() -> None:
    basket = OptionBasket("E", correlation=0.5)
    paths = basket.sample_paths(300, 1)
    free, capped = (replace(basket, cap=cap).allocate(paths) for cap in (4, 1))
    assert np.all(capped.values <= free.values + 1e-12)
    assert capped.actions.sum(axis=2).max() == 1
    singles = [
        AmericanOption(o).allocate(paths[:, :, b : b + 1]).values
        for b, o in enumerate(basket.contracts)
    ]
    assert free.values == pytest.approx(np.sum(singles, axis=0), abs=1e-9)


# --- Without a binding cap the options are separate --------------------------------------------


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_value_without_a_binding_cap(correlation: float) -> None:
    basket = OptionBasket("A", correlation=correlation)
    assert exact_value(basket) == pytest.approx(13.508, abs=5e-4)
    assert exact_value(basket) == separate_value(basket)
    with pytest.raises(NotApplicableError, match="with a cap of 2 for 4 options"):
        exact_value(OptionBasket("F", correlation=correlation))


def test_optimal_policy_without_a_binding_cap() -> None:
    basket = OptionBasket("F", cap=4, correlation=0.3)
    outcomes = follow(basket, Optimal().prepare(basket), basket.sample_paths(20_000, 1))
    assert basket.optimal_value() == mean_of(outcomes)


# --- What ranking loses: exact, on small lattices ----------------------------------------------


@dataclass(frozen=True, eq=False)
class LatticeBasket(OptionBasket):
    """Every price on a binomial lattice of its own.

    offered  'ranked' as the basket does, 'payoff': ranked by the payoff, 'all': every set
    """

    offered: str = "ranked"

    def actions(self, state: State) -> FloatArray:
        if self.offered == "ranked":
            return super().actions(state)
        payoffs = np.where(state.resource > 0, self.payoffs(state.exogenous), 0.0)
        sets = np.array(list(product([0.0, 1.0], repeat=len(payoffs))))
        if self.offered == "payoff":
            best = np.argsort(-payoffs, kind="stable")
            sets = np.array([np.isin(range(len(best)), best[:j]) for j in range(len(best) + 1)])
        possible = (sets * (payoffs <= 0)).sum(axis=1) == 0
        return np.asarray(sets[possible & (sets.sum(axis=1) <= self.most)], dtype=float)

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = [
            BinomialLattice(o.price, o.rate, o.volatility, o.step, o.dividend).successors(
                t, exogenous[b : b + 1]
            )
            for b, o in enumerate(self.contracts)
        ]
        values = product(*(values[:, 0] for values, _ in each))
        odds = product(*(odds for _, odds in each))
        return np.array(list(values)), np.prod(list(odds), axis=1)


def coarse(config: str, cap: int) -> BasketContract:
    """The first three options on five dates."""
    options = BASKETS[config].options[:3]
    return BasketContract(tuple(replace(o, step=o.maturity / 4) for o in options), cap)


@pytest.mark.parametrize("config", "ACEF")
@pytest.mark.parametrize("cap", [1, 2])
def test_what_ranking_loses(config: str, cap: int) -> None:
    """Ranked by gain over waiting at most 0.3 % of the value of all sets is lost; by payoff 0.6 %
    to 4.4 %, since options that pay more but are better kept block the others."""
    values = {
        name: Solution(LatticeBasket(coarse(config, cap), offered=name)).value
        for name in ("all", "ranked", "payoff")
    }
    lost = {name: 1 - value / values["all"] for name, value in values.items()}
    assert -1e-9 <= lost["ranked"] <= 0.003
    assert 0.006 <= lost["payoff"] <= 0.045


# --- Bounds -----------------------------------------------------------------------------------


def test_bounds_where_the_value_is_known() -> None:
    """Without a binding cap: the sum of the options' values, at any state, also far out."""
    basket = OptionBasket("F", cap=4)
    tables = basket.bound_tables(0, 0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        prices = basket.start.exogenous * np.exp(rng.normal(0, 1.5, 4))
        held = (rng.random(4) < 0.7).astype(np.float64)
        state = State(int(rng.integers(basket.horizon)), prices, held)
        lower, upper = bounds_at(basket, tables, state)
        assert lower - 1e-9 <= basket.optimal_value(state) <= upper + 1e-9


@pytest.mark.parametrize("config", "CF")
def test_bounds_with_a_binding_cap(config: str) -> None:
    """The lower one is the value of a plan of fixed dates, so the classical policy's, which is
    better, may be below it by chance only; the upper one is that of the options apart."""
    basket = OptionBasket(config)
    lower, upper = bounds_at(basket, basket.bound_tables(0, 0))
    assert separate_value(basket) <= upper <= 1.01 * separate_value(basket)
    found = estimate(basket.penalised(1000, 0).executed)
    assert lower <= found.mean + 4 * found.se <= upper
    crowd = OptionBasket(config, cap=1)
    assert bounds_at(crowd, crowd.bound_tables(0, 0))[0] < lower
    assert bounds_at(basket, np.empty(0))[0] == -np.inf


# --- Policies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, LeastSquaresEach(2000), OpenLoop(), Resolve()])
def test_policies_respect_the_cap(policy: Any) -> None:
    basket = OptionBasket("E", correlation=0.5)
    rule = (policy or basket.best_known_policy()).prepare(basket, 0)
    paths, held = basket.sample_paths(200, 1), np.ones((200, 4))
    for t in range(basket.horizon):
        chosen = rule(t, paths[:, t], held)
        assert np.all(chosen <= held)
        assert chosen.sum(axis=1).max() <= 2
        held = held - chosen


def test_rollouts_respect_the_cap_and_leave_nothing_behind() -> None:
    """At maturity and just before it, as many go as must."""
    basket = OptionBasket("F")
    kernel, rng = basket.compiled(), np.random.default_rng(0)
    prices = np.array([60.0, 10.0, 60.0, 10.0])  # all deep in the money
    offered = np.empty((kernel.most_actions, 4))
    for t, expected in ((18, 0), (19, 2), (20, 2)):
        m = kernel.actions(kernel.parameters, t, prices, np.ones(4), offered)
        i = kernel.policy(kernel.parameters, t, prices, np.ones(4), rng, offered, m)
        assert offered[i].sum() >= expected


@pytest.mark.parametrize("config", "ABCDEF")
def test_tight_bounds_bracket_the_classical_policy(config: str) -> None:
    """Out of sample below, penalised hindsight above: 1.5 % apart, and never above the sum of the
    options' values by more than what the fitted rules lose (0.1 %)."""
    basket = OptionBasket(config)
    found = basket.penalised(500, 0)
    below, above = estimate(found.executed), estimate(found.hindsight)
    assert np.all(found.hindsight >= found.executed - 1e-9)
    assert above.mean - below.mean <= 0.015 * above.mean
    assert above.mean <= 1.001 * separate_value(basket) + 4 * above.se
    if basket.most == len(basket.contracts):
        assert below.mean == pytest.approx(separate_value(basket), rel=1e-9)
        assert above.mean == pytest.approx(separate_value(basket), rel=1e-9)


# --- Options to dates: exact against the linear program and every assignment ---


def by_program(weights: FloatArray, held: FloatArray, cap: int) -> float:
    """HiGHS; the constraints are those of a transportation problem, so its optimum is integral."""
    steps, options = weights.shape
    once = np.kron(np.ones(steps), np.eye(options))
    capped = np.kron(np.eye(steps), np.ones(options))
    limits = np.concatenate([held, np.full(steps, cap)])
    rows = np.vstack([once, capped])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(-weights.ravel(), A_ub=rows, b_ub=limits, bounds=(0, 1), options=tight)
    return -float(found.fun)


def by_hand(weights: FloatArray, held: FloatArray, cap: int) -> float:
    steps, options = weights.shape
    best = 0.0
    for dates in product(range(steps + 1), repeat=options):  # the last: never
        chosen = [(t, b) for b, t in enumerate(dates) if t < steps]
        counts = np.bincount([t for t, _ in chosen], minlength=1)
        if counts.max() <= cap and all(held[b] for _, b in chosen):
            best = max(best, sum(weights[t, b] for t, b in chosen))
    return best


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_equals_the_linear_program(steps: int, options: int, cap: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # A common trend makes best dates collide; some weights are negative.
    weights = rng.normal(0.5, 1, (5, steps, options)) + 2 * rng.normal(0, 1, (5, steps, 1))
    held = (rng.random((5, options)) < 0.8).astype(np.float64)
    values, actions = assign(weights, held, cap)
    assert np.all((actions == 0) | (actions == 1))
    assert np.all(actions.sum(axis=1) <= held)
    assert np.all(actions.sum(axis=2) <= cap)
    assert (weights * actions).sum(axis=(1, 2)) == pytest.approx(values, abs=1e-12)
    for i in range(5):
        assert values[i] == pytest.approx(by_program(weights[i], held[i], cap), abs=1e-9)
        if steps <= 4:
            assert values[i] == pytest.approx(by_hand(weights[i], held[i], cap), abs=1e-9)


def test_first_of_equal_dates_and_nothing_worth_nothing() -> None:
    _, actions = assign(np.ones((1, 3, 1)), np.ones((1, 1)), 1)
    assert actions[0, :, 0].tolist() == [1.0, 0.0, 0.0]
    values, actions = assign(np.zeros((2, 3, 2)), np.ones((2, 2)), 1)
    assert values.tolist() == [0.0, 0.0]
    assert not actions.any()
