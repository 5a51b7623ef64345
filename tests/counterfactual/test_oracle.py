"""Brute force against brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import NoBound, oracle
from counterplan.counterfactual.oracle import best_policy_value, brute_force, row_vertices
from counterplan.errors import NotApplicableError
from counterplan.testing.continuous import MODELS

from .sequence_support import explain, random_question

# --- Brute force itself, on problems whose answer is plain ---

# State 0 succeeds or fails with equal chance; success was observed. Changing reaches state 2 with
# probability 2/3 (see the kernel's tests), which pays 6.
TRANSITIONS = np.zeros((3, 2, 3))
TRANSITIONS[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
TRANSITIONS[1:, :] = np.eye(3)[1:, None, :]
MDP = cp.TabularMDP(TRANSITIONS, [[0.0, 0.5], [1.0, 1.25], [6.0, 6.0]])
EPISODE = cp.Episode([0, 1], [0, 0])


@pytest.mark.parametrize("solve", [brute_force, best_policy_value])
def test_by_hand(solve: object) -> None:
    assert callable(solve)
    assert solve(MDP, EPISODE, 0) == 1.0
    # 0.5 for changing the first action, then 6 with probability 2/3 (else 0 for keeping).
    assert solve(MDP, EPISODE, 1) == pytest.approx(0.5 + 4.0, abs=1e-12)
    # After a failure the second change earns 0.5.
    assert solve(MDP, EPISODE, 2) == pytest.approx(0.5 + 4.0 + 0.5 / 3, abs=1e-12)
    fixed = cp.Constraints(fixed_steps=[0])
    assert solve(MDP, EPISODE, 2, fixed) == 1.25
    costly = cp.Constraints(change_costs=[1, 2])
    assert solve(MDP, EPISODE, 1, costly) == 1.0
    assert solve(MDP, EPISODE, 3, costly) == pytest.approx(4.5, abs=1e-12)
    assert solve(MDP, EPISODE, 1, cp.Constraints(forbidden=[(0, 1)])) == 1.25
    assert solve(MDP, EPISODE, 1, cp.Constraints(allowed={1: []})) == pytest.approx(4.5)


def test_policy_value_by_hand() -> None:
    found = cp.explain(MDP, EPISODE, 1)
    assert oracle.policy_value(MDP, found) == pytest.approx(4.5, abs=1e-12)


def test_vertices_by_hand() -> None:
    # p_o = 1/2, q = (1/2, 0, 1/2): caps (1, 0, 1), so the whole segment between two states.
    found = row_vertices(MDP, EPISODE, 0, (0, 1))
    assert sorted({tuple(row.tolist()) for row in found}) == [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0)]
    assert [row.tolist() for row in row_vertices(MDP, EPISODE, 0, (0, 0))] == [[0.0, 1.0, 0.0]]


def test_enumerations_that_would_not_end_are_refused() -> None:
    rng = np.random.default_rng(0)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(4), size=(4, 4)), np.zeros((4, 4)))
    episode = cp.Episode([0] * 6, [0] * 6)
    with pytest.raises(NotApplicableError, match="too many policies to enumerate"):
        best_policy_value(mdp, episode, 3)


# --- The brute forces of continuous problems, against each other and against plain enumeration ---


def by_product(problem: Problem) -> float:
    """The best of all N^(T-1) sequences that the rules allow."""
    episode, vectors = problem.episode, np.asarray(problem.actions)
    if vectors.ndim == 2:
        vectors = np.repeat(vectors[None], len(episode) - 1, axis=0)
    rules = problem.constraints.resolve_sequence(vectors, episode.actions)
    best = -np.inf
    for sequence in product(range(vectors.shape[1]), repeat=len(episode) - 1):
        changed = [t for t, a in enumerate(sequence) if a != episode.actions[t]]
        spent = sum(int(rules.costs[sequence[t]]) for t in changed)
        if spent > problem.k or not all(rules.alternatives[t, sequence[t]] for t in changed):
            continue
        value = oracle.sequence_value(
            problem.scm, episode, sequence, actions=problem.actions, reward=problem.reward
        )
        best = max(best, value)
    return best


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_three_brute_forces_agree(kind: str, seed: int) -> None:
    problem = random_question(kind, seed, horizon=5, n_actions=3, k=2)
    found = oracle.best_sequence(
        problem.scm,
        problem.episode,
        problem.k,
        actions=problem.actions,
        reward=problem.reward,
        constraints=problem.constraints,
    )
    assert found.value == pytest.approx(by_product(problem), rel=1e-12)
    batched = explain(problem, solver=oracle.Exhaustive(batch=5))
    assert batched.value == pytest.approx(found.value, rel=1e-9, abs=1e-9)
    assert batched.status == "optimal"
    assert batched.bound == batched.value


def test_every_sequence_is_tried_once() -> None:
    """Leaves of the tree: sum over c <= k of C(T-1, c) (N-1)^c sequences."""
    problem = random_question("linear", 0, horizon=5, n_actions=3, k=2)
    free = replace(problem, constraints=cp.Constraints())
    found = explain(free, solver=oracle.Exhaustive(batch=2, rollout=False))
    # Two changes after t leave a path to the end each, so transitions can be counted by hand.
    by_step = [1, 3, 9, 19, 33]
    assert found.stats["nodes_added"] == sum(by_step[1:])


def test_exhaustive_refuses_discrete_problems() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    with pytest.raises(NotApplicableError, match="a discrete problem asks for a policy"):
        cp.explain(mdp, cp.Episode([0, 1], [0, 0]), 1, solver=oracle.Exhaustive())


def test_one_state_alone() -> None:
    problem = random_question("linear", 0, horizon=1, n_actions=3, k=2)
    for solver in (
        cp.AStar(),
        oracle.Exhaustive(),
        cp.baselines.TopK(),
        cp.AStar(NoBound()),
    ):
        found = explain(problem, solver=solver)
        assert found.value == found.factual_value == pytest.approx(by_product(problem))
        assert found.changes == ()
        assert found.actions.shape == (0,)
