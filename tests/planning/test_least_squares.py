"""Regression Monte Carlo on problems whose optimum is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import NotApplicableError
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.model import State
from counterplan.planning.processes.prices import GBM
from counterplan.planning.resource import Resource
from tests.planning.expectimax import expectimax

from .selling import Selling, random_selling


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("seed", range(4))
def test_acts_optimally_on_small_problems(sense: str, seed: int) -> None:
    """With few values of x the fit is the mean for each: it converges to the optimum. Where an
    action loses more than noise can hide (5 % of a price of at most 10), it is not taken."""
    model = random_selling(seed, sense=sense)  # type: ignore[arg-type]
    fit = LeastSquares(20_000).fit(model, seed)
    assert fit.closed
    sign = 1.0 if sense == "max" else -1.0
    for t in range(model.horizon):
        for level in fit.grids[t]:
            for number in range(3 if t else 1):  # the first price is known
                state = State(t, np.array([float(number)]), level)
                best = expectimax(model, state)
                chosen = fit.act(t, state.exogenous[None], level[None])[0]
                taken = best.values[np.flatnonzero((best.actions == chosen).all(axis=1))[0]]
                assert sign * (best.value - taken) <= 0.5


@pytest.mark.parametrize("sense", ["max", "min"])
def test_values_in_and_out_of_sample(sense: str) -> None:
    """Within 4 standard errors of the optimum (one in 16,000 by chance), in the model's sense."""
    model = random_selling(11, sense=sense)  # type: ignore[arg-type]
    fit = LeastSquares(20_000).fit(model, 0)
    value = expectimax(model).value
    for found in (fit.in_sample, fit.out_of_sample(20_000, 1)):
        assert found.mean == pytest.approx(value, abs=4 * found.se)


def test_grid_is_what_can_be_reached() -> None:
    model = Selling(np.array([1.0, 2.0, 3.0]), np.full((3, 3), 1 / 3), stock=3, daily=2)
    fit = LeastSquares(200).fit(model, 0)
    assert [grid[:, 0].tolist() for grid in fit.grids[:3]] == [[3], [1, 2, 3], [0, 1, 2, 3]]


def test_independent_prices_have_constant_continuations() -> None:
    """Bunkering with a price of its own at every port: prices say nothing of later ones, so BIC
    must drop the basis for almost all levels (each is kept by chance with probability 1e-4)."""
    fit = LeastSquares(5000).fit(Bunkering("A"), 0)
    dropped = [np.all(one.coefficients[1:] == 0.0, axis=0) for one in fit.fits[1:-1]]
    assert np.concatenate(dropped).mean() > 0.95


@pytest.mark.parametrize(("model", "near"), [(Bunkering("A"), 0.01), (HybridVehicle("A"), 0.0)])
def test_nearly_optimal(model: Any, near: float) -> None:
    """Bunkering within 1 % of V*, which open loop misses by 17 %."""
    found = LeastSquares(5000).fit(model, 0).out_of_sample(20_000, 1)
    assert found.mean == pytest.approx(model.optimal_value(), rel=near, abs=4 * found.se)


def test_own_basis() -> None:
    def cubic(states: FloatArray) -> FloatArray:
        return np.column_stack([np.ones(len(states)), states, states**2, states**3])

    option = AmericanOption("C")
    found = LeastSquares(10_000, basis=cubic).fit(option, 0).out_of_sample(20_000, 1)
    assert found.mean == pytest.approx(option.optimal_value(), abs=4 * found.se + 0.02)


def test_levels_between_those_of_a_thinned_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many levels can be reached the grid is thinned, values between its levels are
    read off straight lines, and the policy is still feasible and good."""
    monkeypatch.setattr("counterplan.planning.least_squares.MOST_LEVELS", 16)
    monkeypatch.setattr("counterplan.planning.least_squares.THINNED", 9)
    model = ExogenousMDP(
        process=GBM(10.0, 0.0, 0.3, dt=1.0),
        reward=[[1.0]],
        resources=Resource(start=20.0, capacity=50.0),
        step_bounds=[(0.0, 10.0)] * 4,
        action_set=7,
    )
    fit = LeastSquares(2000).fit(model, 0)
    assert not fit.closed
    assert len(fit.grids[-1]) == 9
    found = fit.out_of_sample(2000, 1)
    # A martingale price: whatever is sold when, 20 units are worth 200 on average.
    assert found.mean == pytest.approx(200.0, abs=4 * found.se)


def test_too_many_levels_of_two_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterplan.planning.least_squares.MOST_LEVELS", 16)
    with pytest.raises(NotApplicableError, match="more than 16 resource levels"):
        LeastSquares(50).fit(HybridVehicle("A"), 0)
