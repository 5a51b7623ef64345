"""Distributions as mixtures of grid points."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.domains.hybrid_belief import SimplexGrid

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 6))


@given(SIZES)
def test_all_points_once(sizes: tuple[int, int]) -> None:
    n, r = sizes
    points = SimplexGrid(n, r).points
    assert points.shape == (comb(r + n - 1, n - 1), n)
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.allclose(points.sum(axis=1), 1.0)


@given(SIZES, st.integers(0, 2**32))
def test_mixtures_give_back_the_distribution(sizes: tuple[int, int], seed: int) -> None:
    n, r = sizes
    grid, rng = SimplexGrid(n, r), np.random.default_rng(seed)
    distribution = rng.dirichlet(np.full(n, 0.4))
    weights = grid.mixture(distribution)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)
    assert np.count_nonzero(weights) <= n
    assert np.allclose(weights @ grid.points, distribution, atol=1e-7)
    # Convex functions are not underestimated, and close points are used.
    convex = (grid.points**2).sum(axis=1)
    assert weights @ convex >= (distribution**2).sum() - 1e-7
    used = grid.points[weights > 0]
    assert (np.abs(used - distribution).max(axis=0) <= 1 / r + 1e-9).all()


@given(SIZES)
def test_grid_points_are_themselves(sizes: tuple[int, int]) -> None:
    grid = SimplexGrid(*sizes)
    weights = np.array([grid.mixture(point) for point in grid.points])
    assert np.allclose(weights, np.eye(len(grid.points)))
