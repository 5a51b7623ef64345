"""The closed form against the race itself: in rational arithmetic, and by numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from .support import exact_kernel, fractions_of, kernel, model_of, quadrature, questions


@given(questions())
def test_agrees_with_rational_arithmetic(question: tuple[np.ndarray, int, np.ndarray]) -> None:
    p, o, q = question
    mdp = model_of(p, q).mdp
    exact = exact_kernel(fractions_of(mdp.row(0, 0)), o, fractions_of(mdp.row(0, 1)))
    assert sum(exact) == 1
    assert kernel(p, o, q) == pytest.approx([float(x) for x in exact], abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_rational_arithmetic_on_long_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(50), size=2)
    p[rng.random(50) < 0.2] = 0.0
    q[rng.random(50) < 0.2] = 0.0
    o = int(np.argmax(p))
    mdp = model_of(p / p.sum(), q / q.sum()).mdp
    exact = exact_kernel(fractions_of(mdp.row(0, 0)), o, fractions_of(mdp.row(0, 1)))
    row = kernel(mdp.row(0, 0), o, mdp.row(0, 1))
    assert row == pytest.approx([float(x) for x in exact], abs=1e-12)


@pytest.mark.parametrize(
    ("p", "o", "q"),
    [
        ([0.5, 0.3, 0.2], 0, [0.2, 0.5, 0.3]),
        ([0.1, 0.9], 0, [0.05, 0.95]),
        ([0.6, 0.4, 0.0], 1, [0.3, 0.0, 0.7]),  # q_o = 0 and a state that p never reached
        ([0.3, 0.3, 0.4], 2, [0.4, 0.4, 0.2]),  # tied starts
        ([0.25, 0.25, 0.25, 0.25], 3, [0.4, 0.3, 0.2, 0.1]),
    ],
)
def test_agrees_with_numerical_integration_of_the_race(
    p: list[float], o: int, q: list[float]
) -> None:
    row = kernel(np.array(p), o, np.array(q))
    for i in range(len(p)):
        if i != o and q[i] > 0.0:
            # The integrator stops at 1e-8 and its integrand has kinks.
            assert row[i] == pytest.approx(quadrature(np.array(p), o, np.array(q), i), abs=1e-6)
