"""Stopped early, the answer is still a policy with its value, and the bound still holds."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import oracle
from counterplan.errors import InfeasibleError

from .support import close, random_instance


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_value_and_bound_enclose_the_optimum(seed: int, nodes: int) -> None:
    problem = random_instance(seed)
    ask = (problem.mdp, problem.episode, problem.k)
    limits = cp.Limits(nodes=nodes)
    try:
        best = cp.explain(*ask, constraints=problem.constraints).value
    except InfeasibleError:
        best = -math.inf
    try:
        found = cp.explain(*ask, constraints=problem.constraints, limits=limits)
    except InfeasibleError:
        assert best == -math.inf
        return
    assert found.value <= best + 1e-12
    assert found.bound >= best - 1e-12
    assert found.stats["nodes_expanded"] <= nodes
    assert close(oracle.policy_value(problem.mdp, found), found.value, 1e-9)
    assert close(found.outcome_mean, found.value, 1e-9)
    assert found.gap >= 0.0
    if found.status == "optimal":
        assert close(found.value, best, 1e-12)


def long_problem() -> tuple[cp.TabularMDP, cp.Episode]:
    rng = np.random.default_rng(1)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(5), size=(5, 3)), rng.random((5, 3)))
    return mdp, cp.Episode(rng.integers(5, size=12), rng.integers(3, size=12))


def test_no_time_at_all() -> None:
    mdp, episode = long_problem()
    best = cp.explain(mdp, episode, 3)
    found = cp.explain(mdp, episode, 3, limits=cp.Limits(seconds=1e-9))
    assert found.status == "limit"
    assert found.stats["nodes_expanded"] == 0
    # Only the last step was solved: keep everything before.
    assert found.factual_value <= found.value <= best.value <= found.bound
    assert all(change.t == 11 for change in found.changes)
    assert found.gap == found.bound - found.value > 0.0


@pytest.mark.parametrize("nodes", [14, 15, 44, 45, 150])
def test_a_step_is_solved_whole_or_not_at_all(nodes: int) -> None:
    mdp, episode = long_problem()
    found = cp.explain(mdp, episode, 3, limits=cp.Limits(nodes=nodes))
    assert found.status == "limit"
    # 15 distinct rows for each step.
    assert found.stats["nodes_expanded"] == nodes // 15 * 15


def test_enough_nodes_are_no_limit() -> None:
    mdp, episode = long_problem()
    found = cp.explain(mdp, episode, 3, limits=cp.Limits(nodes=11 * 15))
    assert found.status == "optimal"
    assert found.value == cp.explain(mdp, episode, 3).value


def test_more_steps_never_hurt_and_never_loosen_the_bound() -> None:
    mdp, episode = long_problem()
    found = [cp.explain(mdp, episode, 3, limits=cp.Limits(nodes=15 * n)) for n in range(1, 12)]
    values, bounds = [x.value for x in found], [x.bound for x in found]
    assert all(b >= a - 1e-12 for a, b in pairwise(values))
    assert all(b <= a + 1e-12 for a, b in pairwise(bounds))


def test_a_gap_that_is_good_enough_stops_the_pass() -> None:
    mdp, episode = long_problem()
    tightest = cp.explain(mdp, episode, 3, limits=cp.Limits(nodes=15 * 10)).gap
    found = cp.explain(mdp, episode, 3, limits=cp.Limits(gap=tightest + 1e-6))
    assert found.status == "limit"
    assert 0.0 < found.gap <= tightest + 1e-6
    assert cp.explain(mdp, episode, 3, limits=cp.Limits(gap=1e-6)).status == "optimal"


def test_stopping_before_a_barred_step_is_not_called_infeasible() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), [[-np.inf, 1.0], [0.0, 1.0]])
    episode = cp.Episode([0, 1, 0], [0, 0, 1])
    found = cp.explain(mdp, episode, 2, limits=cp.Limits(nodes=1))
    assert found.value == found.factual_value == -math.inf
    assert found.bound >= cp.explain(mdp, episode, 2).value == 3.0
    assert found.gap == math.inf


def test_a_gap_limit_meets_minus_infinity_quietly() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[-np.inf, 1.0]])
    limits = cp.Limits(gap=0.5)
    found = cp.frontier(mdp, cp.Episode([0, 0, 0], [0, 0, 0]), 3, limits=limits)
    assert found[3].value == 3.0
    constraints = cp.Constraints(forbidden=[(0, 1)])
    with pytest.raises(InfeasibleError):
        cp.explain(mdp, cp.Episode([0, 0], [1, 1]), 2, limits=limits, constraints=constraints)
