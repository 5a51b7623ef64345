"""Hidden modes: the belief grid against listing every belief, and what the policy earns."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import T1, HybridConfig, HybridVehicle
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.exact_value import exact_value
from counterplan.planning.policies import follow
from experiments.belief_iteration import BeliefIteration, SimplexGrid
from tests.domains.planning_support import mean_of, vehicles


@settings(max_examples=25)
@given(vehicles(hidden=True))
def test_grid_values_bound_the_optimum(problem: HybridVehicle) -> None:
    """From above, and closer on a grid that contains the coarser one."""
    exact = exact_value(problem)
    coarse, fine = (BeliefIteration(r).solve(problem).value() for r in (2, 64))
    assert exact <= fine + 1e-9
    assert fine <= coarse + 1e-9
    assert fine == pytest.approx(exact, rel=0.02, abs=1e-9)


@settings(max_examples=20)
@given(vehicles(hidden=True))
def test_perfect_sight_is_the_observed_problem(problem: HybridVehicle) -> None:
    sharp = HybridVehicle(problem.config, capacity=problem.capacity, hidden=True, accuracy=1.0)
    seen = HybridVehicle(problem.config, capacity=problem.capacity)
    assert BeliefIteration(1).solve(sharp).value() == pytest.approx(seen.optimal_value(), abs=1e-9)


def test_policy_earns_the_optimum() -> None:
    config = HybridConfig([[10, 4], [3, 9], [8, 8]], T1, 6, 3, 2)
    problem = HybridVehicle(config, capacity=5, hidden=True)
    paths = problem.sample_paths(20_000, seed=1)
    played = follow(problem, BeliefIteration().prepare(problem), paths)
    assert exact_value(problem) == mean_of(played)
    as_if_seen = follow(problem, problem.best_known_policy().prepare(problem), paths)
    assert as_if_seen.mean() == pytest.approx(played.mean(), rel=4e-3)
    listed = follow(problem, problem.optimal_actions, paths[:2000])
    assert listed.mean() == pytest.approx(played[:2000].mean(), rel=2e-3)


def test_seven_modes() -> None:
    problem = HybridVehicle("E", 7, 12, hidden=True)
    solved = BeliefIteration(3).solve(problem)
    paths = problem.sample_paths(400, seed=2)
    played = follow(problem, solved.actions, paths)
    error = played.std() / len(played) ** 0.5
    assert played.mean() - 4 * error <= solved.value()
    assert solved.value() <= HybridVehicle("E", 7, 12).optimal_value()


def test_what_does_not_apply_says_why() -> None:
    with pytest.raises(NotApplicableError, match="modes are observed"):
        BeliefIteration().solve(HybridVehicle())
    with pytest.raises(NotApplicableError, match="not of Bunkering"):
        BeliefIteration().prepare(Bunkering())
    with pytest.raises(InputError, match="more than 20,000: use a lower resolution"):
        BeliefIteration(60).solve(HybridVehicle("A", 7, hidden=True))


# --- Distributions as mixtures of grid points ---

SIZES = st.tuples(st.integers(1, 5), st.integers(1, 6))


@given(SIZES)
def test_all_points_once_and_each_is_itself(sizes: tuple[int, int]) -> None:
    n, r = sizes
    grid = SimplexGrid(n, r)
    points = grid.points
    assert points.shape == (comb(r + n - 1, n - 1), n)
    assert len(np.unique(points, axis=0)) == len(points)
    assert np.allclose(points.sum(axis=1), 1.0)
    weights = np.array([grid.mixture(point) for point in points])
    assert np.allclose(weights, np.eye(len(points)))


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
