"""Options to dates: exact against the linear program and every assignment."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from counterplan.core.validation import FloatArray
from counterplan.domains.basket import assign


def by_program(weights: FloatArray, held: FloatArray, cap: int) -> float:
    """HiGHS; the constraints are those of a transportation problem, so its optimum is integral."""
    steps, options = weights.shape
    once = np.kron(np.ones(steps), np.eye(options))
    capped = np.kron(np.eye(steps), np.ones(options))
    limits = np.concatenate([held, np.full(steps, cap)])
    rows = np.vstack([once, capped])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(-weights.ravel(), A_ub=rows, b_ub=limits, bounds=(0, 1), options=tight)
    return -float(found.fun)


def by_hand(weights: FloatArray, held: FloatArray, cap: int) -> float:
    steps, options = weights.shape
    best = 0.0
    for dates in product(range(steps + 1), repeat=options):  # the last: never
        chosen = [(t, b) for b, t in enumerate(dates) if t < steps]
        counts = np.bincount([t for t, _ in chosen], minlength=1)
        if counts.max() <= cap and all(held[b] for _, b in chosen):
            best = max(best, sum(weights[t, b] for t, b in chosen))
    return best


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_equals_the_linear_program(steps: int, options: int, cap: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # A common trend makes best dates collide; some weights are negative.
    weights = rng.normal(0.5, 1, (5, steps, options)) + 2 * rng.normal(0, 1, (5, steps, 1))
    held = (rng.random((5, options)) < 0.8).astype(np.float64)
    values, actions = assign(weights, held, cap)
    assert np.all((actions == 0) | (actions == 1))
    assert np.all(actions.sum(axis=1) <= held)
    assert np.all(actions.sum(axis=2) <= cap)
    assert (weights * actions).sum(axis=(1, 2)) == pytest.approx(values, abs=1e-12)
    for i in range(5):
        assert values[i] == pytest.approx(by_program(weights[i], held[i], cap), abs=1e-9)
        if steps <= 4:
            assert values[i] == pytest.approx(by_hand(weights[i], held[i], cap), abs=1e-9)


def test_first_of_equal_dates() -> None:
    _, actions = assign(np.ones((1, 3, 1)), np.ones((1, 1)), 1)
    assert actions[0, :, 0].tolist() == [1.0, 0.0, 0.0]


def test_nothing_worth_anything() -> None:
    values, actions = assign(np.zeros((2, 3, 2)), np.ones((2, 2)), 1)
    assert values.tolist() == [0.0, 0.0]
    assert not actions.any()
