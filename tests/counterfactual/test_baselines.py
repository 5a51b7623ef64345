"""Baselines: exact values of simple policies, never above the optimum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import PolicyExplanation, oracle
from counterplan.errors import InputError

from .support import Instance, close, random_instance

SEEDS = st.integers(0, 2**32 - 1)
BASELINES = [
    cp.baselines.Greedy(),
    cp.baselines.Random(),
    cp.baselines.NoisyGreedy(),
    cp.baselines.NoisyGreedy(probability=0.2),
]


def ask(problem: Instance, solver: Any) -> PolicyExplanation:
    return cp.explain(
        problem.mdp,
        problem.episode,
        problem.k,
        constraints=problem.constraints,
        solver=solver,
    )


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(BASELINES))
def test_values_are_exact_and_never_above_the_optimum(seed: int, solver: Any) -> None:
    problem = random_instance(seed)
    found = ask(problem, solver)
    assert close(found.value, oracle.policy_value(problem.mdp, found), 1e-9)
    best = oracle.brute_force(problem.mdp, problem.episode, problem.k, problem.constraints)
    assert found.value <= best + 1e-9
    assert found.status == "heuristic"
    assert found.bound == math.inf
    assert found.method == type(solver).__name__


@given(SEEDS, st.sampled_from(BASELINES))
def test_a_frontier_of_a_baseline_starts_with_what_was_observed(seed: int, solver: Any) -> None:
    problem = random_instance(seed, barred=False)
    front = cp.frontier(
        problem.mdp, problem.episode, 3, constraints=problem.constraints, solver=solver
    )
    assert front[0].value == front[0].factual_value
    for k in range(4):
        replayed = oracle.policy_value(problem.mdp, front[k])
        assert front[k].value == pytest.approx(replayed, abs=1e-9)


@settings(max_examples=100)
@given(SEEDS)
def test_greedy_follows_equation_13(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    mdp, episode, T = problem.mdp, problem.episode, len(problem.episode)
    scm = cp.GumbelMaxSCM(mdp)
    found = ask(problem, cp.baselines.Greedy())
    rules = problem.constraints.resolve(T, mdp.n_states, mdp.n_actions)

    def worth(t: int, s: int, a: int) -> float:
        reward = mdp.rewards_at(t, T)[s, a]
        if t == T - 1:
            return float(reward)
        observed = (int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1]))
        row = scm.counterfactual_row(*observed, s, a)
        return float(reward + row @ mdp.rewards_at(t + 1, T)[:, episode.actions[t + 1]])

    for t in range(T):
        kept = int(episode.actions[t])
        for s in range(mdp.n_states):
            for left in range(min(problem.k, 3) + 1):
                options = [kept] + [
                    a
                    for a in range(mdp.n_actions)
                    if a != kept
                    and rules.alternatives[t, a]
                    and rules.costs[a] <= left
                    and (mdp.admissible is None or mdp.admissible[s, a])
                ]
                chosen = found.policy(t, s, problem.k - left)
                assert chosen in options
                best = max(worth(t, s, a) for a in options)
                assert worth(t, s, chosen) == pytest.approx(best, abs=1e-9)
                if worth(t, s, kept) >= best - 1e-13:
                    assert chosen == kept


def test_greedy_misses_what_lies_two_steps_ahead() -> None:
    # States 0 -> 1 -> 2 under action 1; only state 2 pays. Greedy sees one step and stays.
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0] = np.eye(3)
    transitions[:, 1] = np.eye(3)[[1, 2, 2]]
    mdp = cp.TabularMDP(transitions, [[0.1, 0.0], [0.1, 0.0], [9.0, 9.0]])
    episode = cp.Episode([0, 0, 0], [0, 0, 0])
    greedy = cp.explain(mdp, episode, 2, solver=cp.baselines.Greedy())
    assert greedy.changes == ()
    assert greedy.value == greedy.factual_value
    assert cp.explain(mdp, episode, 2).value == 9.0
    # One step from the prize it takes it.
    assert greedy.policy(1, 1, 0) == 1


def test_random_spreads_over_what_may_be_done() -> None:
    mdp = cp.TabularMDP(
        np.ones((1, 4, 1)), [[0.0, 1.0, 2.0, 3.0]], admissible=[[False, True, True, True]]
    )
    constraints = cp.Constraints(change_costs={2: 2}, allowed=[True, True, True, False])
    found = cp.explain(
        mdp,
        cp.Episode([0, 0], [0, 0]),
        2,
        constraints=constraints,
        solver=cp.baselines.Random(),
    )
    assert found.action_probabilities(0, 0, 0) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0])
    assert found.action_probabilities(1, 0, 1).tolist() == [0.5, 0.5, 0.0, 0.0]
    assert found.action_probabilities(1, 0, 2).tolist() == [1.0, 0.0, 0.0, 0.0]
    # Keep (then 1 on average), change to 1 (then 1/2), change to 2 (then nothing).
    assert found.value == pytest.approx((1.0 + 1.5 + 2.0) / 3, abs=1e-12)


def test_noisy_greedy_is_greedy_now_and_then() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]])
    episode = cp.Episode([0, 0], [0, 0])

    def value(probability: float, k: int) -> float:
        solver = cp.baselines.NoisyGreedy(probability=probability)
        return float(cp.explain(mdp, episode, k, solver=solver).value)

    assert value(0.25, 2) == pytest.approx(0.5, abs=1e-12)
    assert value(0.25, 1) == pytest.approx(0.25 + 0.75 * 0.25, abs=1e-12)
    assert value(0.0, 2) == 0.0
    assert value(1.0, 2) == cp.explain(mdp, episode, 2, solver=cp.baselines.Greedy()).value == 2.0


def test_noisy_greedy_has_one_choice_where_greedy_keeps() -> None:
    # At the second step greedy keeps too: that is certain, not two chances of one half.
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]])
    solver = cp.baselines.NoisyGreedy(probability=0.4)
    found = cp.explain(mdp, cp.Episode([0, 0], [0, 1]), 1, solver=solver)
    assert found.most_likely.probability == pytest.approx(0.6, abs=1e-12)
    assert found.action_probabilities(1, 0, 0).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_probabilities_lie_between_0_and_1(probability: float) -> None:
    with pytest.raises(InputError, match="probability must lie between 0 and 1, got"):
        cp.baselines.NoisyGreedy(probability=probability)
