"""Bounds of options by martingales: mean zero exactly, and valid on every path of a lattice."""

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
    Martingale,
    at_prices,
    lognormal_means,
    penalised_options,
)
from counterplan.domains.options import AmericanOption
from counterplan.planning.model import estimate


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
def test_bounds_hold_exactly_on_the_lattice(config: str) -> None:
    """Nothing is sampled, so this holds to rounding."""
    contract = OPTIONS[config]
    option = AmericanOption(replace(contract, step=contract.maturity / 8), "binomial")
    prices, odds = every_path(option)
    along = Martingale(option).along(prices)
    assert odds @ along == pytest.approx(np.zeros(option.horizon), abs=1e-9)
    gains = payoffs_along(option, prices) - along
    assert odds @ gains.max(axis=1) >= option.optimal_value() - 1e-9
    assert odds @ executed(option, prices, gains) <= option.optimal_value() + 1e-9


def payoffs_along(option: AmericanOption, prices: FloatArray) -> FloatArray:
    return np.asarray(option.discounted(0, prices[:, :, None])[:, :, 0])


def executed(option: AmericanOption, prices: FloatArray, gains: FloatArray) -> FloatArray:
    """(n,) by the option's own rule, its last date at the latest."""
    held, dates = np.ones((len(prices), 1)), range(prices.shape[1])
    stops = np.hstack([option.optimal_actions(t, prices[:, t : t + 1], held) for t in dates])
    stops[:, -1] = 1.0
    return gains[np.arange(len(gains)), stops.argmax(axis=1)]


def test_control_variate_keeps_the_mean() -> None:
    """The same rule on the same paths, with and without the martingale: one mean, 4 standard
    errors of the difference, and a hundredth of the variance."""
    option = AmericanOption("C")
    prices = option.sample_paths(20_000, 1)[:, :, 0]
    payoffs = payoffs_along(option, prices)
    gains = payoffs - Martingale(option).along(prices)
    difference = estimate(executed(option, prices, gains) - executed(option, prices, payoffs))
    assert abs(difference.mean) <= 4 * difference.se
    assert executed(option, prices, gains).var() < 0.01 * executed(option, prices, payoffs).var()


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
