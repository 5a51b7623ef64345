"""Geometric Brownian motion against its known law."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from counterplan.errors import InputError
from counterplan.planning.processes.prices import GBM

SAMPLES = 40_000


@pytest.mark.parametrize("kind", ["independent", "global"])
def test_logarithms_are_normal(kind: Any) -> None:
    """log x_t ~ N(log S + (mu - sigma^2 / 2) t dt, sigma^2 t dt)."""
    process = GBM(1000.0, 1.0, 0.9, 1 / 7, kind=kind)
    logs = np.log(process.sample_paths(SAMPLES, 7, seed=1)[:, :, 0] / 1000.0)
    times = np.arange(7) / 7
    # Five standard errors: of a mean s / sqrt(n), of a standard deviation s / sqrt(2 n).
    spread = 0.9 * np.sqrt(times)
    assert (np.abs(logs.mean(axis=0) - 0.595 * times) <= 5 * spread / SAMPLES**0.5 + 1e-12).all()
    assert (np.abs(logs.std(axis=0) - spread) <= 5 * spread / (2 * SAMPLES) ** 0.5 + 1e-12).all()


def test_independent_prices_are_independent_and_global_ones_are_not() -> None:
    logs = {}
    for kind in ("independent", "global"):
        process = GBM(1.0, 0.0, 0.9, 1 / 7, kind=kind)  # type: ignore[arg-type]
        logs[kind] = np.log(process.sample_paths(SAMPLES, 4, seed=2)[:, 1:, 0])
    # The correlation of W_1 and W_2 of one motion is sqrt(1 / 2); five errors of an estimate.
    allowed = 5 / SAMPLES**0.5
    correlation = np.corrcoef(logs["independent"].T)
    assert (np.abs(correlation - np.eye(3)) <= allowed).all()
    assert abs(np.corrcoef(logs["global"].T)[0, 1] - math.sqrt(0.5)) <= allowed


def test_increments_are_correlated_as_asked() -> None:
    given = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]])
    process = GBM([1.0, 2.0, 3.0], 0.0, 0.2, 0.5, given, "correlated")
    steps = np.diff(np.log(process.sample_paths(SAMPLES, 3, seed=3)), axis=1)
    for s in range(2):
        assert (np.abs(np.corrcoef(steps[:, s].T) - given) <= 5 / SAMPLES**0.5).all()
    assert process.mixing @ process.mixing.T == pytest.approx(given)


def test_a_common_correlation() -> None:
    process = GBM([1.0, 1.0, 1.0], 0.0, 0.2, 0.5, -0.5, "correlated")
    assert process.mixing @ process.mixing.T == pytest.approx(np.where(np.eye(3), 1.0, -0.5))
    together = GBM([1.0, 1.0], 0.0, 0.2, 0.5, 1.0, "correlated").sample_paths(5, 3, seed=0)
    assert together[:, :, 0] == pytest.approx(together[:, :, 1])


def test_no_volatility_is_no_chance() -> None:
    process = GBM(10.0, 0.5, 0.0, 1.0)
    assert process.sample_paths(3, 3, seed=0) == pytest.approx(
        np.tile(process.mean_path(3), (3, 1, 1))
    )
    assert process.quantiles(0, process.start, 4)[0] == pytest.approx(10 * math.exp(0.5))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"volatility": -0.1}, "volatility must be at least 0, got -0.1"),
        ({"dt": -0.1}, "dt must be greater than 0, got -0.1"),
        ({"dt": 0}, "dt must be greater than 0, got 0"),
        ({"initial": 0}, "initial must be greater than 0, got 0"),
        ({"initial": [1.0, -2.0], "kind": "correlated"}, "initial must be greater than 0, got -2"),
        ({"drift": math.nan}, "drift number 0 is nan: must be finite"),
        ({"drift": "up"}, "drift must be a number or a list of numbers"),
        ({"kind": "local"}, "kind 'local' is not one of independent, global, correlated"),
        ({"initial": [1.0, 2.0]}, "kind 'global' has one price; use kind='correlated' for 2"),
        (
            {"initial": [1.0, 2.0], "drift": [1.0, 2.0, 3.0], "kind": "correlated"},
            "initial must have 3 numbers, got 2",
        ),
        (
            {"initial": [1.0] * 3, "correlation": -0.6, "kind": "correlated"},
            "negative eigenvalue .*; a common correlation of 3 prices is at least -0.5",
        ),
        (
            {"initial": [1.0, 1.0], "correlation": [[1.0, 0.2], [0.1, 1.0]], "kind": "correlated"},
            "correlation must be one number or a symmetric",
        ),
        (
            {"initial": [1.0, 1.0], "correlation": 1.5, "kind": "correlated"},
            "ones on its diagonal, the rest in",
        ),
        ({"volatility": 100.0}, r"a typical factor of e\^31\.6 in one step.*volatility=0\.2"),
    ],
)
def test_bad_numbers(changes: dict[str, Any], words: str) -> None:
    plain: dict[str, Any] = {"initial": 1.0, "drift": 0.1, "volatility": 0.2, "dt": 0.1}
    with pytest.raises(InputError, match=words):
        GBM(**(plain | changes))
