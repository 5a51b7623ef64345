"""Bounds on V*: exact on enumerated paths, valid by sampling elsewhere, and as a user asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning import bounds as bounds_module
from counterplan.planning.bounds import (
    Penalised,
    ValueBounds,
    penalised,
    penalised_by,
    value_bounds,
)
from counterplan.planning.least_squares import LeastSquares, Regression
from counterplan.planning.model import State, estimate
from counterplan.planning.policies import follow
from counterplan.planning.processes.prices import GBM
from counterplan.planning.resource import Resource
from tests.planning.expectimax import expectimax

from .selling import random_selling
from .small_models import every_path

SENSES = [("max", 1.0), ("min", -1.0)]


def enumerated(
    monkeypatch: pytest.MonkeyPatch, fit: Regression
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Executed and hindsight on all paths, and the paths' probabilities."""
    paths, odds = every_path(fit.model)  # type: ignore[arg-type]
    monkeypatch.setattr(bounds_module, "futures", lambda *arguments: paths)
    found = penalised_by(fit, len(paths))
    return found.executed, found.hindsight, odds


@pytest.mark.parametrize(("sense", "sign"), SENSES)
@pytest.mark.parametrize("paths", [10, 2000])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_exactly(
    sense: str, sign: float, paths: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However bad the fit (10 paths): no sampling is left, so this holds to rounding."""
    model = random_selling(seed, sense=sense)  # type: ignore[arg-type]
    fit = LeastSquares(paths).fit(model, seed)
    executed, hindsight, odds = enumerated(monkeypatch, fit)
    value = sign * expectimax(model).value
    assert sign * (odds @ executed) <= value + 1e-9
    assert sign * (odds @ hindsight) >= value - 1e-9
    assert np.all(sign * hindsight >= sign * executed - 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_executed_has_the_policy_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The penalties have mean zero along any policy: they change the variance only."""
    model = random_selling(seed)
    fit = LeastSquares(30).fit(model, seed)
    executed, _, odds = enumerated(monkeypatch, fit)
    paths, _ = every_path(model)
    assert odds @ executed == pytest.approx(odds @ follow(model, fit.act, paths), abs=1e-9)


def with_exact_values(fit: Regression, waiting: Callable[[int, State], float]) -> Regression:
    fits = []
    for t, one in enumerate(fit.fits):
        centers = np.arange(3.0)[:, None]
        table = [[waiting(t, State(t + 1, x, d)) for d in fit.grids[t + 1]] for x in centers]
        fits.append(replace(one, centers=centers, coefficients=np.array(table)))
    return replace(fit, fits=tuple(fits))


@pytest.mark.parametrize(("sense", "sign"), SENSES)
@pytest.mark.parametrize("seed", range(3))
def test_optimal_penalties_close_the_gap_on_every_path(
    sense: str, sign: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strong duality: with V* itself, hindsight pays for exactly what it gains."""
    model = random_selling(seed, sense=sense)  # type: ignore[arg-type]

    def waiting(t: int, after: State) -> float:
        if after.t == model.horizon:
            return 0.0
        return sign * sum(
            p * expectimax(model, State(after.t, x, after.resource)).value
            for x, p in zip(*model.successors(t, after.exogenous), strict=True)
        )

    fit = with_exact_values(LeastSquares(50).fit(model, 0), waiting)
    executed, hindsight, odds = enumerated(monkeypatch, fit)
    value, possible = expectimax(model).value, odds > 0
    assert hindsight[possible] == pytest.approx(value, abs=1e-9)
    assert executed[possible] == pytest.approx(value, abs=1e-9)


def brackets(model: Any, found: Penalised) -> float:
    """V* lies between the two, 4 standard errors allowed; how far they are apart, of V*."""
    below, above = estimate(found.executed), estimate(found.hindsight)
    below, above = (below, above) if model.sense == "max" else (above, below)
    value = model.optimal_value()
    assert below.mean - 4 * below.se <= value <= above.mean + 4 * above.se
    return float((above.mean - below.mean) / value)


@pytest.mark.parametrize(
    ("model", "gap"),
    # Continuous prices, means by fresh draws: 1 %, where plain bounds leave 30 %.
    [(Bunkering("A"), 0.01), (HybridVehicle("C", modes=7, capacity="half"), 0.002)],
)
def test_bounds_are_tight(model: Any, gap: float) -> None:
    assert brackets(model, penalised(model, 500, 0)) <= gap


def test_general_penalties_are_valid_elsewhere_too() -> None:
    """With few draws, and on an option, though its own are tighter."""
    ship, option = Bunkering("B"), AmericanOption("C", "binomial")
    fit = LeastSquares(2000).fit(ship, 0)
    for draws in (1, 4):
        brackets(ship, penalised_by(fit, 500, 1, draws))
    brackets(option, penalised_by(LeastSquares(5000).fit(option, 0), 1000, 1))


def test_levels_off_the_grid_are_refused() -> None:
    fit = replace(LeastSquares(50).fit(random_selling(0), 0), closed=False)
    with pytest.raises(NotApplicableError, match="level of the resource grid"):
        penalised_by(fit, 10)


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


def test_reference_values_of_bunkering() -> None:
    """The note's table: hindsight 126,975 and open loop 171,495, within 4 standard errors. However
    many samples: hindsight excludes V*, which Thm. 1 would have it converge to."""
    bounds = value_bounds(Bunkering("A"), samples=20_000, seed=0)
    assert bounds.lower + 10 * bounds.lower_se < Bunkering("A").optimal_value()
    assert bounds.lower == pytest.approx(126_975, abs=4 * bounds.lower_se)
    assert bounds.upper == pytest.approx(171_495, abs=4 * bounds.upper_se)


def test_plain_bounds_share_their_futures() -> None:
    """Hindsight is never worse than the plan on the same paths, so the bounds never cross."""
    for seed in range(20):
        bounds = value_bounds(AmericanOption("A"), samples=5, seed=seed)
        assert bounds.lower <= bounds.upper + 1e-12


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


@pytest.mark.compiles
@pytest.mark.parametrize("method", ["plain", "tight"])
def test_own_plain_python_problem(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward as a function is not compiled; both methods work, and agree with the same problem
    compiled."""
    monkeypatch.setattr(bounds_module, "PLAIN_FIT_PATHS", 100)
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
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be at least 2 to have a standard error, got 0"),
        ({"samples": 1}, "samples must be at least 2 to have a standard error, got 1"),
        ({"samples": -5}, "samples must be at least 0, got -5"),
        ({"samples": 2.5}, "samples must be a whole number, got 2.5: pass an int"),
        ({"method": "wide"}, "method 'wide' is unknown: choose 'plain', 'tight' or 'cuts'"),
    ],
)
def test_bad_questions(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        value_bounds(AmericanOption("C"), **options)
    assert str(caught.value) == message


def test_without_a_plan_tight_still_applies() -> None:
    """No mean path, no hindsight: plain says what is missing, tight needs neither."""
    model = random_selling(0)
    with pytest.raises(NotApplicableError, match="no mean_path"):
        value_bounds(model, 10)
    assert value_bounds(model, 10, method="tight").samples == 10
