"""The exact solver against brute force, and what must hold for every optimum."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import oracle
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.testing import random_transitions

from .support import close, finite_horizon_value, random_instance

SEEDS = st.integers(0, 2**32 - 1)
EXACT = 1e-9


@settings(max_examples=400)
@given(SEEDS)
def test_equals_brute_force(seed: int) -> None:
    problem = random_instance(seed)
    ask = (problem.mdp, problem.episode, problem.k)
    best = oracle.brute_force(*ask, problem.constraints)
    if best == -math.inf:
        with pytest.raises(InfeasibleError):
            cp.explain(*ask, constraints=problem.constraints)
        return
    found = cp.explain(*ask, constraints=problem.constraints)
    assert found.value == pytest.approx(best, abs=EXACT)
    assert found.bound == found.value
    assert found.status == "optimal"
    assert found.gap == 0.0
    # Following the policy through every history gives back its value.
    replayed = oracle.policy_value(problem.mdp, found)
    assert replayed == pytest.approx(found.value, abs=EXACT)


@given(SEEDS)
def test_equals_the_best_of_all_policies(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    ask = (problem.mdp, problem.episode, min(problem.k, 2))
    with mock.patch.object(oracle, "LARGEST_ENUMERATION", 2_000):
        try:
            best = oracle.best_policy_value(*ask, problem.constraints)
        except NotApplicableError:
            reject()
    found = cp.explain(*ask, constraints=problem.constraints)
    assert found.value == pytest.approx(best, abs=EXACT)


@given(SEEDS)
def test_one_pass_answers_every_budget(seed: int) -> None:
    problem = random_instance(seed)
    try:
        front = cp.frontier(problem.mdp, problem.episode, 4, constraints=problem.constraints)
    except InfeasibleError:
        return
    for k in range(5):
        best = oracle.brute_force(problem.mdp, problem.episode, k, problem.constraints)
        assert front[k].k == k
        assert close(front[k].value, best, EXACT)
        replayed = oracle.policy_value(problem.mdp, front[k])
        assert close(replayed, best, EXACT)
        assert k == 0 or front[k].value >= front[k - 1].value - 1e-12


@given(SEEDS)
def test_no_budget_gives_exactly_what_was_observed(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    found = cp.explain(problem.mdp, problem.episode, 0, constraints=problem.constraints)
    assert found.value == found.factual_value == problem.mdp.outcome(problem.episode)
    assert found.improvement == found.relative_improvement == 0.0
    assert found.changes == ()
    assert found.most_likely.probability == pytest.approx(1.0, abs=1e-12)
    assert found.most_likely.states.tolist() == problem.episode.states.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_without_information_it_is_plain_dynamic_programming(seed: int) -> None:
    # The observed action leads from each state to the next for certain, so what was observed says
    # nothing about the noise: every counterfactual row is the model's own.
    rng = np.random.default_rng(seed)
    S, A, T = 4, 3, 5
    transitions = random_transitions(rng, S, A)
    transitions[:, 0] = np.roll(np.eye(S), 1, axis=1)
    mdp = cp.TabularMDP(transitions, rng.normal(size=(S, A)), final_rewards=rng.normal(size=S))
    episode = cp.Episode(np.arange(T) % S, np.zeros(T, dtype=int))
    value = cp.explain(mdp, episode, T).value
    assert value == pytest.approx(finite_horizon_value(mdp, 0, T), abs=EXACT)
    assert cp.explain(mdp, episode, 10 * T).value == value


def test_what_was_observed_changes_the_answer() -> None:
    # Walking succeeds half the time and did, so staying (state 0) had poor noise: jumping, which
    # would also fail half the time, fails in one case of three. By hand: w_0 = 1, w_2 = 0,
    # D(1) = 3/2, P(0) = 1/2 * 1 / (1 * 3/2) = 1/3.
    transitions = np.zeros((3, 2, 3))
    transitions[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    transitions[1:, :] = np.eye(3)[1:, None, :]
    mdp = cp.TabularMDP(transitions, [[0.0, 0.0], [1.0, 1.0], [6.0, 6.0]])
    found = cp.explain(mdp, cp.Episode([0, 1], [0, 0]), 1)
    assert found.value == pytest.approx(4.0, abs=1e-12)
    assert found.changes == ((0, 0, 1),)
    assert found.improvement == pytest.approx(3.0, abs=1e-12)


def test_length_one_episodes_choose_the_best_reward() -> None:
    mdp = cp.TabularMDP(np.ones((1, 3, 1)), [[1.0, 4.0, 2.0]], final_rewards=[10.0])
    found = cp.explain(mdp, cp.Episode([0], [0]), 1)
    assert (found.value, found.factual_value) == (14.0, 11.0)
    assert found.changes == ((0, 0, 1),)
    assert found.outcome_variance == 0.0
    assert found.changes_distribution().tolist() == [0.0, 1.0]
    assert found.outcome_distribution().values.tolist() == [14.0]


@pytest.mark.parametrize("k", [4, 7, 10**9, np.int64(5)])
def test_budgets_beyond_the_episode_cost_nothing(k: int) -> None:
    problem = random_instance(12, barred=False)
    T = len(problem.episode)
    assert T <= 4
    most = cp.explain(problem.mdp, problem.episode, 4)
    found = cp.explain(problem.mdp, problem.episode, k)
    assert found.k == k
    assert found.value == most.value
    assert found.process.setting.k <= T
    assert found.policy(0, int(problem.episode.states[0]), 0) == most.policy(
        0, int(problem.episode.states[0]), 0
    )
    # With all but nothing used, no more than the rest can be spent.
    assert found.policy(0, 0, int(k)) == problem.episode.actions[0]


def test_stats_count_the_rows_evaluated() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    found = cp.explain(mdp, cp.Episode([0, 1, 0, 1], [0, 0, 1, 1]), 1)
    # One distinct row, three transitions.
    assert found.stats["nodes_expanded"] == 3
    assert found.stats["seconds"] >= 0.0
    assert found.method == "dynamic programming"
