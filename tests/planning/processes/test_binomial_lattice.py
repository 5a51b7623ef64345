"""The binomial lattice: its factors, and its limit."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from counterplan.errors import InputError
from counterplan.planning.processes.prices import BinomialLattice


def test_by_hand() -> None:
    lattice = BinomialLattice(100.0, 0.05, 0.2, 0.25, dividend=0.01)
    up = math.exp(0.1)
    p = (math.exp(0.01) - 1 / up) / (up - 1 / up)
    values, chances = lattice.successors(0, np.array([100.0]))
    assert values.ravel() == pytest.approx([100 * up, 100 / up])
    assert chances == pytest.approx([p, 1 - p])
    assert lattice.mean_path(3).ravel() == pytest.approx(
        [100, 100 * math.exp(0.01), 100 * math.exp(0.02)]
    )


def test_european_call_converges_to_black_scholes() -> None:
    """A European call by backward induction through `successors`."""
    steps, strike, rate, sigma = 200, 105.0, 0.05, 0.3
    lattice = BinomialLattice(100.0, rate, sigma, 1.0 / steps)
    prices = 100.0 * lattice.up ** np.arange(steps, -steps - 1, -2)
    values = np.maximum(prices - strike, 0.0)
    p = lattice.probability
    for _ in range(steps):
        values = math.exp(-rate / steps) * (p * values[:-1] + (1 - p) * values[1:])
    d1 = (math.log(100 / strike) + rate + sigma**2 / 2) / sigma
    normal = NormalDist().cdf
    exact = 100 * normal(d1) - strike * math.exp(-rate) * normal(d1 - sigma)
    # The lattice's error is of the order of the price over the number of steps.
    assert values[0] == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((100.0, 0.5, 0.1, 1.0), "probability of going up .* use a dt of at most 0.04"),
        ((100.0, -0.5, 0.1, 1.0), "use a dt of at most 0.04"),
        ((100.0, 0.05, 0.0, 1.0), "volatility must be greater than 0"),
        ((100.0, 0.05, -0.2, 1.0), "volatility must be greater than 0, got -0.2"),
        ((100.0, 0.05, 0.2, -1.0), "dt must be greater than 0"),
        ((0.0, 0.05, 0.2, 1.0), "initial must be greater than 0"),
        ((100.0, math.inf, 0.2, 1.0), "rate must be finite"),
        ((None, 0.1, 0.2, 1.0), "initial must be a number, got None"),
    ],
)
def test_bad_numbers(arguments: tuple[float, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        BinomialLattice(*arguments)


def test_the_advised_dt_is_accepted() -> None:
    assert BinomialLattice(100.0, 0.5, 0.1, 0.04).probability == pytest.approx(1.0)
