"""Information relaxation: exact on enumerated paths, valid by sampling elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import NotApplicableError
from counterplan.planning import bounds as information_relaxation
from counterplan.planning.bounds import penalised, penalised_by
from counterplan.planning.least_squares import LeastSquares, Regression
from counterplan.planning.model import State, estimate
from counterplan.planning.oracle import expectimax

from .selling import Selling, random_selling

SENSES = [("max", 1.0), ("min", -1.0)]


def every_path(model: Selling) -> tuple[FloatArray, FloatArray]:
    """(n, T, 1) all paths, and their probabilities."""
    numbers = range(len(model.prices))
    paths = [(0, *rest) for rest in product(numbers, repeat=model.horizon - 1)]
    odds = [np.prod([model.matrix[a, b] for a, b in pairwise(p)]) for p in paths]
    return np.array(paths, dtype=np.float64)[:, :, None], np.array(odds)


def enumerated(
    monkeypatch: pytest.MonkeyPatch, fit: Regression
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Executed and hindsight on all paths, and the paths' probabilities."""
    paths, odds = every_path(fit.model)  # type: ignore[arg-type]
    monkeypatch.setattr(information_relaxation, "futures", lambda *arguments: paths)
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
    from counterplan.planning.policies import follow

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


def test_bunkering_is_tight() -> None:
    """Continuous prices, means by fresh draws: V* lies between, 4 standard errors allowed, and the
    gap is 1 % where plain bounds leave 30 %."""
    model = Bunkering("A")
    found = penalised(model, 500, 0)
    below, above = estimate(found.hindsight), estimate(found.executed)
    value = model.optimal_value()
    assert below.mean - 4 * below.se <= value <= above.mean + 4 * above.se
    assert above.mean - below.mean <= 0.01 * value


def test_fewer_draws_are_valid_too() -> None:
    model = Bunkering("B")
    fit = LeastSquares(2000).fit(model, 0)
    value = model.optimal_value()
    for draws in (1, 4):
        found = penalised_by(fit, 500, 1, draws)
        below, above = estimate(found.hindsight), estimate(found.executed)
        assert below.mean - 4 * below.se <= value <= above.mean + 4 * above.se


def test_hybrid_is_tight() -> None:
    model = HybridVehicle("C", modes=7, capacity="half")
    found = penalised(model, 500, 0)
    below, above = estimate(found.executed), estimate(found.hindsight)
    value = model.optimal_value()
    assert below.mean - 4 * below.se <= value <= above.mean + 4 * above.se
    assert above.mean - below.mean <= 0.002 * value


def test_general_penalties_on_an_option() -> None:
    """Valid, though the option's own are tighter."""
    model = AmericanOption("C", "binomial")
    found = penalised_by(LeastSquares(5000).fit(model, 0), 1000, 1)
    below, above = estimate(found.executed), estimate(found.hindsight)
    value = model.optimal_value()
    assert below.mean - 4 * below.se <= value <= above.mean + 4 * above.se


def test_levels_off_the_grid_are_refused() -> None:
    fit = replace(LeastSquares(50).fit(random_selling(0), 0), closed=False)
    with pytest.raises(NotApplicableError, match="level of the resource grid"):
        penalised_by(fit, 10)
