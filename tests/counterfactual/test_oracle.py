"""Brute force against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import NoBound, oracle
from counterplan.errors import NotApplicableError
from counterplan.testing.continuous import MODELS

from .sequence_support import explain, random_question
from .support import best_policy_value

# --- Brute force itself, on a problem whose answer is plain ---


def test_by_hand() -> None:
    """State 0 succeeds or fails with equal chance; success was observed. Changing reaches state 2
    with probability 2/3 (see the kernel's tests), which pays 6."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    transitions[1:, :] = np.eye(3)[1:, None, :]
    mdp = cp.TabularMDP(transitions, [[0.0, 0.5], [1.0, 1.25], [6.0, 6.0]])
    episode = cp.Episode([0, 1], [0, 0])
    costly, fixed = cp.Constraints(change_costs=[1, 2]), cp.Constraints(fixed_steps=[0])
    for k, rules, value in (
        (0, None, 1.0),
        # 0.5 for changing the first action, then 6 with probability 2/3 (else 0 for keeping).
        (1, None, 0.5 + 4.0),
        # After a failure the second change earns 0.5.
        (2, None, 0.5 + 4.0 + 0.5 / 3),
        (2, fixed, 1.25),
        (1, costly, 1.0),
        (3, costly, 4.5),
        (1, cp.Constraints(forbidden=[(0, 1)]), 1.25),
        (1, cp.Constraints(allowed={1: []}), 4.5),
    ):
        best = oracle.brute_force(mdp, episode, k, rules)
        assert best == pytest.approx(value, abs=1e-12)
        assert best_policy_value(mdp, episode, k, rules or cp.Constraints()) == best
    found = cp.explain(mdp, episode, 1)
    assert oracle.policy_value(mdp, found) == pytest.approx(4.5, abs=1e-12)


# --- The brute forces of continuous problems, against each other and against plain enumeration ---


def by_product(problem: Problem) -> float:
    """The best of all N^(T-1) sequences that the rules allow."""
    episode, vectors = problem.episode, np.asarray(problem.actions)
    if vectors.ndim == 2:
        vectors = np.repeat(vectors[None], len(episode) - 1, axis=0)
    rules = problem.constraints.resolve_sequence(vectors, episode.actions)
    world, best = oracle.SequenceWorld(problem), -np.inf
    for sequence in product(range(vectors.shape[1]), repeat=len(episode) - 1):
        changed = [t for t, a in enumerate(sequence) if a != episode.actions[t]]
        spent = sum(int(rules.costs[sequence[t]]) for t in changed)
        if spent > problem.k or not all(rules.alternatives[t, sequence[t]] for t in changed):
            continue
        best = max(best, world.value_of(sequence))
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


@pytest.mark.parametrize("kind", MODELS)
def test_everything_is_tried_where_that_is_cheaper(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for horizon, k in ((5, 2), (9, 1)):
        problem = random_question(kind, 3, horizon=horizon, n_actions=3, k=k)
        searched = explain(problem)
        with monkeypatch.context() as patch:
            patch.setattr("counterplan.counterfactual.continuous.astar.FEW_SEQUENCES", 200)
            tried = explain(problem)
        assert "every sequence is tried" in tried.method != searched.method
        assert tried.status == "optimal"
        assert tried.value == pytest.approx(searched.value, abs=1e-9)


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
