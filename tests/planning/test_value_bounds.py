"""Bounds on the optimal value as a user asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.bounds import ValueBounds, value_bounds
from counterplan.planning.processes.prices import GBM
from counterplan.planning.resource import Resource

from .selling import random_selling

PROBLEMS: list[Any] = [
    *(AmericanOption("B"), AmericanOption("C"), AmericanOption("D", "binomial")),
    *(Bunkering("A"), Bunkering("A", prices="global"), HybridVehicle("A"), OptionBasket("A")),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{type(p).__name__}-{p.config}")
@pytest.mark.parametrize("method", ["plain", "tight"])
def test_interval_contains_the_optimum(problem: Any, method: Any) -> None:
    """At 99.99 %, so that chance would fail one in 700 runs of this test; the seed is fixed."""
    bounds = value_bounds(problem, samples=1000, seed=1, method=method)
    low, high = bounds.interval(0.9999)
    value = problem.optimal_value()
    assert low - 1e-9 * abs(value) <= value <= high + 1e-9 * abs(value)
    assert bounds.samples == 1000
    assert bounds.lower_se >= 0.0 <= bounds.upper_se


def test_tight_is_tighter() -> None:
    for problem in (AmericanOption("C"), Bunkering("A"), HybridVehicle("A")):
        plain = value_bounds(problem, samples=500, method="plain")
        tight = value_bounds(problem, samples=500, method="tight")
        assert tight.upper - tight.lower < 0.1 * (plain.upper - plain.lower)


def test_which_side_is_hindsight() -> None:
    reward, cost = value_bounds(AmericanOption("C"), 50), value_bounds(Bunkering("A"), 50)
    assert reward.upper_method.startswith("hindsight")
    assert cost.lower_method.startswith("hindsight")
    assert reward.lower_method == cost.upper_method == "executed open loop"


def test_reference_values_of_bunkering() -> None:
    """The note's table: hindsight 126,975 and open loop 171,495, within 4 standard errors."""
    bounds = value_bounds(Bunkering("A"), samples=20_000, seed=0)
    assert bounds.lower == pytest.approx(126_975, abs=4 * bounds.lower_se)
    assert bounds.upper == pytest.approx(171_495, abs=4 * bounds.upper_se)


def test_hindsight_is_not_the_value() -> None:
    """However many samples: its interval excludes V*, which Thm. 1 would have it converge to."""
    problem = Bunkering("A")
    bounds = value_bounds(problem, samples=20_000, seed=0)
    assert bounds.lower + 10 * bounds.lower_se < problem.optimal_value()


def test_plain_bounds_share_their_futures() -> None:
    """Hindsight is never worse than the plan on the same paths, so the bounds never cross."""
    for seed in range(20):
        bounds = value_bounds(AmericanOption("A"), samples=5, seed=seed)
        assert bounds.lower <= bounds.upper + 1e-12


def test_same_seed_same_bounds() -> None:
    for method in ("plain", "tight"):
        first, second = (
            value_bounds(HybridVehicle("A"), 100, seed=4, method=method)  # type: ignore[arg-type]
            for _ in range(2)
        )
        assert first == second


def test_interval_widens_with_confidence() -> None:
    bounds = ValueBounds(1.0, 0.1, "a", 2.0, 0.2, "b", 10)
    low, high = bounds.interval(0.95)
    assert (low, high) == pytest.approx((1 - 0.196, 2 + 0.392), abs=1e-4)
    assert bounds.interval(0.99)[0] < low < high < bounds.interval(0.99)[1]
    flat = ValueBounds(4.0, 0.0, "a", 4.0, 0.0, "b", 10).interval()
    assert flat[0] < 4.0 < flat[1]  # by the rounding of a mean
    assert flat == pytest.approx((4.0, 4.0), abs=1e-11)
    for wrong in (0.0, 1.0, 95):
        with pytest.raises(InputError, match="confidence must lie between 0 and 1"):
            bounds.interval(wrong)


@pytest.mark.parametrize("method", ["plain", "tight"])
def test_own_plain_python_problem(method: Any) -> None:
    """A reward as a function is not compiled; both methods work, and agree with the same problem
    compiled."""
    plain, compiled = (
        ExogenousMDP(
            process=GBM(10.0, 0.2, 0.4, dt=0.5),
            reward=reward,
            resources=Resource(start=2.0, capacity=2.0),
            step_bounds=[(0.0, 1.0)] * 3,
        )
        for reward in (lambda t, x: x, [[1.0]])
    )
    ours, theirs = (value_bounds(p, 60, seed=0, method=method) for p in (plain, compiled))
    if method == "plain":
        assert ours.lower == pytest.approx(theirs.lower, abs=1e-9)
    # The plan is to sell late, at E[S_1] + E[S_2] = 10 (e^0.1 + e^0.2), which is optimal: prices
    # rise on average whatever has happened.
    low, high = ours.interval(0.9999)
    assert low <= 10 * (np.exp(0.1) + np.exp(0.2)) <= high


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (0, "samples must be at least 2 to have a standard error, got 0"),
        (1, "samples must be at least 2 to have a standard error, got 1"),
        (-5, "samples must be at least 0, got -5"),
        (2.5, "samples must be a whole number, got 2.5: pass an int"),
    ],
)
def test_bad_samples(samples: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        value_bounds(AmericanOption("C"), samples=samples)
    assert str(caught.value) == message


def test_unknown_method() -> None:
    with pytest.raises(InputError) as caught:
        value_bounds(AmericanOption("C"), method="wide")  # type: ignore[arg-type]
    assert str(caught.value) == "method 'wide' is unknown: choose 'plain' or 'tight'"


def test_without_a_plan_tight_still_applies() -> None:
    """No mean path, no hindsight: plain says what is missing, tight needs neither."""
    model = random_selling(0)
    with pytest.raises(NotApplicableError, match="no mean_path"):
        value_bounds(model, 10)
    assert value_bounds(model, 10, method="tight").samples == 10
