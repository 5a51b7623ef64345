"""The fast Longstaff-Schwartz against the textbook and the general regression."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.domains.options import AmericanOption
from counterplan.errors import InputError
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.policies import follow
from experiments.longstaff_schwartz import longstaff_schwartz


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
