"""Exercise rules: the fast Longstaff-Schwartz against others, and bounds by martingales."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.core.validation import FloatArray
from counterplan.domains.option_contract import OPTIONS
from counterplan.domains.option_rules import (
    LongstaffSchwartz,
    Martingale,
    at_prices,
    lognormal_means,
    longstaff_schwartz,
    penalised_options,
)
from counterplan.domains.options import AmericanOption
from counterplan.errors import InputError
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.model import estimate
from counterplan.planning.policies import follow


def by_hand(option: AmericanOption, prices: FloatArray) -> tuple[float, FloatArray]:
    """The textbook procedure on prices (n, T): the value, and the fits (T, 3) in powers of S."""
    c = option.contract
    fits = np.full((c.dates, 3), np.nan)
    flows = c.payoff(prices[:, -1])
    for t in range(c.dates - 2, 0, -1):
        flows = flows * c.discount(1)
        payoff = c.payoff(prices[:, t])
        inside = payoff > 0
        if inside.sum() < 4:
            continue
        columns = np.vander(prices[inside, t], 3, increasing=True)
        fits[t] = np.linalg.lstsq(columns, flows[inside], rcond=None)[0]
        better = payoff[inside] >= columns @ fits[t]
        flows[np.flatnonzero(inside)[better]] = payoff[inside][better]
    value = float((flows * c.discount(1)).mean())
    return max(value, float(c.payoff(prices[0, 0]))), fits


@pytest.mark.parametrize("config", "ABCDEF")
def test_equals_the_textbook(config: str) -> None:
    option = AmericanOption(config)
    prices = option.sample_paths(4000, 7)[:, :, 0]
    value, fits = by_hand(option, prices)
    found = longstaff_schwartz(option, 4000, 7)
    assert found.in_sample.mean == pytest.approx(value, abs=1e-9)
    grid = option.contract.price * np.array([0.8, 1.0, 1.2])
    for t in range(1, option.horizon - 1):
        expected = np.vander(grid, 3, increasing=True) @ fits[t]
        if np.isfinite(expected).all():
            # Normal equations square the condition number; it is about 1e3 here.
            assert found.waiting(t, grid) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("config", "BC")
def test_equals_the_general_regression(config: str) -> None:
    """Same paths, same rule, same value: `LeastSquares` on an option is Longstaff-Schwartz."""
    option = AmericanOption(config)
    fast, general = longstaff_schwartz(option, 5000, 3), LeastSquares(5000).fit(option, 3)
    assert fast.in_sample.mean == pytest.approx(general.in_sample.mean, abs=1e-9)
    assert fast.in_sample.se == pytest.approx(general.in_sample.se, abs=1e-9)
    prices = option.sample_paths(2000, 4)
    for t in range(option.horizon):
        chosen = general.act(t, prices[:, t], np.ones((2000, 1)))[:, 0]
        assert (chosen == fast.exercises(t, prices[:, t, 0])).mean() >= 0.999


def test_out_of_sample_is_the_rule_played() -> None:
    option = AmericanOption("C")
    fit = longstaff_schwartz(option, 5000, 3)
    paths = option.sample_paths(3000, 8)

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        return np.where(fit.exercises(t, exogenous) & (resource > 0), 1.0, 0.0)

    outcomes = follow(option, rule, paths)
    assert fit.out_of_sample(3000, 8).mean == pytest.approx(outcomes.mean(), abs=1e-12)


def test_on_the_lattice() -> None:
    """4 standard errors of 20,000 paths, and what quadratic fits lose: half a percent."""
    option = AmericanOption("C", "binomial")
    fit = longstaff_schwartz(option, 20_000, 0)
    out = fit.out_of_sample(20_000, 1)
    assert out.mean == pytest.approx(option.optimal_value(), abs=4 * out.se + 0.03)


def test_at_the_edges() -> None:
    """Exercised at once there is no error; too few paths in the money hold."""
    now = longstaff_schwartz(AmericanOption("D"), 5000, 0)
    assert now.in_sample == now.out_of_sample(100, 0) == (4.0, 0.0)
    fit = longstaff_schwartz(AmericanOption("C"), 2, 0)
    assert np.isnan(fit.coefficients[:, 0]).all()
    assert not fit.exercises(3, np.array([20.0]))[0]
    with pytest.raises(InputError, match="paths must be at least 2, got 1"):
        longstaff_schwartz(AmericanOption("C"), 1)


# --- Martingales: mean zero exactly, and bounds that hold on enumerated paths -----------------


@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 4.0), st.floats(-0.1, 0.1), st.floats(0.02, 0.3), st.integers(0, 9999))
def test_means_of_straight_lines(price: float, drift: float, s: float, seed: int) -> None:
    """Against one fine trapezoid rule: kinks cost it h^2 = 1e-8 of slopes up to 1 / 0.07."""
    logs = np.linspace(-2.0, 2.0, 60)
    nodes, values = np.exp(logs), np.random.default_rng(seed).uniform(0, 1, 60)
    grid = (float(logs[0]), float(logs[1] - logs[0]), nodes)
    z = np.linspace(-9.5, 9.5, 190_001)
    then = price * np.exp(drift - s * s / 2 + s * z)
    place = np.clip(np.searchsorted(nodes, then) - 1, 0, 58)
    slope = np.diff(values) / np.diff(nodes)
    lines = values[place] + slope[place] * (then - nodes[place])
    expected = np.trapezoid(lines * np.exp(-z * z / 2), z) / np.sqrt(2 * np.pi)
    prices = np.array([price])
    assert lognormal_means(prices, drift, s, grid, values) == pytest.approx(expected, abs=1e-6)
    found = at_prices(prices, grid, values)
    assert found == pytest.approx(np.interp(price, nodes, values), abs=1e-12)


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
@pytest.mark.parametrize("paths", [10, 5000])
def test_bounds_hold_exactly_on_the_lattice(config: str, paths: int) -> None:
    """However bad the rule (10 paths): nothing is sampled, so this holds to rounding."""
    contract = OPTIONS[config]
    option = AmericanOption(replace(contract, step=contract.maturity / 8), "binomial")
    rule = longstaff_schwartz(option, paths, 0)
    prices, odds = every_path(option)
    along = Martingale(option, rule.exercises).along(prices)
    assert odds @ along == pytest.approx(np.zeros(option.horizon), abs=1e-9)
    gains = payoffs_along(option, prices) - along
    assert odds @ gains.max(axis=1) >= option.optimal_value() - 1e-9
    assert odds @ executed(rule, prices, gains) <= option.optimal_value() + 1e-9


def payoffs_along(option: AmericanOption, prices: FloatArray) -> FloatArray:
    return np.asarray(option.discounted(0, prices[:, :, None])[:, :, 0])


def executed(rule: LongstaffSchwartz, prices: FloatArray, gains: FloatArray) -> FloatArray:
    stops = np.column_stack([rule.exercises(t, prices[:, t]) for t in range(prices.shape[1])])
    stops[:, -1] = True
    return gains[np.arange(len(gains)), stops.argmax(axis=1)]


def test_control_variate_keeps_the_mean() -> None:
    """The same rule on the same paths, with and without the martingale: one mean, 4 standard
    errors of the difference, and a hundredth of the variance."""
    option = AmericanOption("C")
    rule = longstaff_schwartz(option, 20_000, 0)
    prices = option.sample_paths(20_000, 1)[:, :, 0]
    payoffs = payoffs_along(option, prices)
    gains = payoffs - Martingale(option, rule.exercises).along(prices)
    difference = estimate(executed(rule, prices, gains) - executed(rule, prices, payoffs))
    assert abs(difference.mean) <= 4 * difference.se
    assert executed(rule, prices, gains).var() < 0.01 * executed(rule, prices, payoffs).var()


@pytest.mark.parametrize("config", "ABCDEF")
def test_both_bounds_are_close(config: str) -> None:
    """Within 1 % of the value on both sides, 4 standard errors allowed."""
    option = AmericanOption(config)
    found = penalised_options(option, 2000, 3)
    value, slack = option.optimal_value(), 0.01 * option.optimal_value()
    below, above = estimate(found.executed), estimate(found.hindsight)
    assert -slack <= below.mean - value <= 4 * below.se + 1e-9
    # Rare paths carry the last digits of the upper bound: more than the standard error shows.
    assert -4 * above.se - 1e-5 * value <= above.mean - value <= slack
