"""The dynamic program of bunkering against listing, quadrature and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from counterplan.domains.bunkering import (
    Bunkering,
    VoyageValue,
    listed_prices,
    log_normal_prices,
    price_law,
)
from counterplan.planning.exact_value import Solution
from counterplan.planning.model import State
from counterplan.planning.policies import Resolve, follow
from counterplan.planning.processes.prices import BootstrapPrices

from .planning_support import discretised, mean_of, visited, voyages


@settings(max_examples=40)
@given(voyages(), st.integers(1, 3))
def test_equals_listing_every_state(problem: Bunkering, quantiles: int) -> None:
    discrete = discretised(problem, quantiles)
    if problem.fixed_cost > 0 and problem.process.kind == "global":
        return
    assert discrete.optimal_value() == pytest.approx(Solution(discrete).value, rel=1e-9, abs=1e-9)


@settings(max_examples=50)
@given(
    st.dictionaries(st.integers(0, 50), st.floats(0, 500), min_size=1, max_size=6),
    st.floats(0.05, 2.0),
)
def test_log_normal_means_equal_quadrature(lines: dict[int, float], spread: float) -> None:
    slopes, intercepts = np.array([*lines], dtype=float), np.array([*lines.values()])
    law = log_normal_prices(np.array([10.0]), np.array([spread]))

    def least(z: float) -> float:
        price = 10.0 * np.exp(spread * z - spread**2 / 2)
        return float((slopes * price + intercepts).min() * np.exp(-z * z / 2) / np.sqrt(2 * np.pi))

    pairs = [(i, j) for i in range(len(slopes)) for j in range(i)]
    kinks = [(intercepts[i] - intercepts[j]) / (slopes[j] - slopes[i]) for i, j in pairs]
    places = [np.log(kink / 10.0) / spread + spread / 2 for kink in kinks if kink > 0]
    edges = [-12.0, *sorted(place for place in places if abs(place) < 12), 12.0]
    expected = sum(
        quad(least, a, b, epsabs=1e-10, epsrel=1e-10)[0] for a, b in itertools.pairwise(edges)
    )
    rows = slopes[None], intercepts[None], intercepts[None]
    assert law.mean_of_least(0, *rows)[0] == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_listed_prices_are_plain_sums() -> None:
    rng = np.random.default_rng(0)
    values = np.sort(rng.random(7))
    law = listed_prices([values])
    slopes, chosen_by, paid = rng.random((3, 5, 4))
    slopes += np.arange(4)
    chosen_by -= np.arange(4)
    totals = slopes[:, None, :] * values[:, None]
    choice = (totals + chosen_by[:, None, :]).argmin(axis=2)
    expected = np.take_along_axis(totals + paid[:, None, :], choice[:, :, None], 2).mean(
        axis=(1, 2)
    )
    assert np.allclose(law.mean_of_least(0, slopes, chosen_by, paid), expected, rtol=1e-12)


@pytest.mark.parametrize("quantiles", [32, 128])
def test_finer_quantiles_approach_the_optimum_from_above(quantiles: int) -> None:
    problem = Bunkering("A")
    excess = discretised(problem, quantiles).optimal_value() / problem.optimal_value() - 1
    assert 0 < excess < 5e-3 / quantiles


@given(voyages(most_ports=3, fixed=False))
def test_any_level_between_the_grid_points(problem: Bunkering) -> None:
    """W is convex and falls with the level, on and off the grid."""
    value = VoyageValue.solve(problem.levels, 0.0, price_law(problem.process, problem.horizon))
    levels = np.linspace(0.0, problem.capacity, 25)
    for t in range(problem.horizon):
        costs = value.before(t, levels)
        slack = 1e-9 * (1 + np.abs(costs).max())
        assert (np.diff(costs) <= slack).all()
        assert (np.diff(costs, n=2) >= -slack).all()


@given(voyages())
def test_losses_are_consistent(problem: Bunkering) -> None:
    """No action beats the optimum, the optimal one loses nothing, and values are additive."""
    if problem.fixed_cost > 0 and problem.process.kind == "global":
        return
    for t, x, d in visited(problem, 3, seed=1):
        best = problem.optimal_actions(t, x, d)
        scale = 1 + np.abs(x).max() * problem.capacity
        assert np.allclose(problem.loss(t, x, d, best), 0.0, atol=1e-9 * scale)
        for i in range(len(x)):
            actions = problem.actions(State(t, x[i], d[i]))
            many = np.repeat(x[i][None], len(actions), axis=0)
            levels = np.repeat(d[i][None], len(actions), axis=0)
            losses = problem.loss(t, many, levels, actions)
            assert losses.min() == pytest.approx(0.0, abs=1e-9 * scale)


def value_of_re_solving(problem: Bunkering) -> float:
    laws = [price_law(problem.process, problem.horizon, certain=one) for one in (True, False)]
    plan = VoyageValue.solve(problem.levels, problem.fixed_cost, laws[0])
    exact = VoyageValue.solve(problem.levels, problem.fixed_cost, laws[1], plan)
    return float(exact.before(0, np.zeros(1))[0])


def test_value_of_re_solving_is_what_playing_it_costs() -> None:
    problem = Bunkering("E", fixed_cost=2_000.0)
    costs = follow(problem, Resolve().prepare(problem), problem.sample_paths(20_000, seed=3))
    assert value_of_re_solving(problem) == mean_of(costs)
    # Between the optimum and the open loop's 171,495.
    assert value_of_re_solving(Bunkering("A")) == pytest.approx(147_368, abs=0.5)
    assert Bunkering("A").optimal_value() < value_of_re_solving(Bunkering("A"))


@pytest.mark.parametrize("kind", ["independent", "global"])
def test_bootstrapped_prices(kind: str) -> None:
    """The exact value of recorded prices, against playing the optimal policy."""
    rng = np.random.default_rng(5)
    record = 50.0 * np.exp(np.cumsum(0.05 * rng.standard_normal(300)))
    problem = Bunkering(prices=BootstrapPrices(record, block=4, kind=kind))  # type: ignore[arg-type]
    costs = follow(problem, problem.optimal_actions, problem.sample_paths(20_000, seed=6))
    assert problem.optimal_value() == mean_of(costs)
    assert discretised(problem, 3).optimal_value() >= problem.optimal_value() - 1e-9
