"""The paper's NP-hard family (Theorem 4): the search decides the partition problem."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import NoBound, oracle
from counterplan.testing import check_scm

from .sequence_support import explain, has_partition, partition_problem

YES = [[1, 1], [3, 1, 1, 2, 2, 1], [4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7], [8, 7, 6, 5, 4, 2, 2, 2]]
NO = [[1], [1, 2, 4], [3, 3, 3, 5], [2, 2, 2, 2, 2], [1, 1, 1, 1, 20], [6, 10, 15, 2, 1, 1, 48]]


@pytest.mark.parametrize("sloped", [False, True])
@pytest.mark.parametrize("numbers", YES + NO, ids=str)
def test_decides_partition(numbers: list[int], sloped: bool) -> None:
    assert has_partition(numbers) == (numbers in YES)
    problem = partition_problem(numbers, sloped)
    found = explain(problem)
    assert found.status == "optimal"
    assert (found.value == 0.0) == (numbers in YES)
    kept = sum(n for n, a in zip(numbers, found.actions, strict=True) if a == 0)
    assert found.value == -abs(kept - sum(numbers) / 2)


@pytest.mark.parametrize("seed", range(25))
def test_random_instances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [int(n) for n in rng.integers(1, 40, size=int(rng.integers(3, 10)))]
    problem = partition_problem(numbers, sloped=bool(seed % 2))
    best = oracle.best_sequence(
        problem.scm, problem.episode, problem.k, actions=problem.actions, reward=problem.reward
    )
    found = explain(problem)
    assert found.value == pytest.approx(best.value, abs=1e-9)
    assert (found.value == 0.0) == has_partition(numbers)


@pytest.mark.parametrize(
    "solver",
    [
        cp.AStar(NoBound()),
        cp.AStar(cp.AnchorHeuristic(samples=50)),
        cp.AStar(cp.AnchorHeuristic("facility-location", samples=20)),
        oracle.Exhaustive(),
    ],
    ids=lambda solver: type(getattr(solver, "heuristic", solver)).__name__,
)
def test_other_bounds_decide_it_too(solver: object) -> None:
    for numbers in ([3, 1, 1, 2, 2, 1], [6, 10, 15, 2, 1, 1, 48], [5, 5, 4, 3, 2, 1]):
        assert (explain(partition_problem(numbers), solver=solver).value == 0.0) == has_partition(
            numbers
        )


@pytest.mark.parametrize("sloped", [False, True])
def test_the_model_conforms(sloped: bool) -> None:
    problem = partition_problem([3, 1, 4, 1, 5], sloped)
    check_scm(problem.scm, episodes=[problem.episode], actions=problem.actions)


def test_the_papers_constant_of_the_reward_is_too_small() -> None:
    """Where only one term counts, the reward falls by sqrt(1 + (sum/2)^2) per unit of distance."""
    problem = partition_problem([3, 5, 4])
    half = 6.0
    direction = np.array([1.0, -half]) / np.hypot(1.0, half)
    start = np.array([20.0, 0.0])
    values = problem.reward(np.stack([start, start + direction]))
    slope = values[0] - values[1]
    assert slope == pytest.approx(np.hypot(1.0, half))
    assert slope > 2.0 * np.sqrt(1.0 + half)
    assert slope <= problem.reward.remainder
