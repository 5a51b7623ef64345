"""Whole policies on observed episodes, and what actors contributed, against listing everything."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import counterplan as cp
from counterplan.counterfactual.contributions import contributions
from counterplan.errors import InputError
from counterplan.testing import random_episode, random_transitions

SEEDS = st.integers(0, 2**32 - 1)


def world(seed: int, steps: int | None = None) -> tuple[cp.TabularMDP, cp.Episode, np.ndarray]:
    """A random problem, and a policy (S, A): sure of itself, or not."""
    rng = np.random.default_rng(seed)
    n, a = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    final = rng.normal(size=n) if rng.random() < 0.5 else None
    mdp = cp.TabularMDP(random_transitions(rng, n, a), rng.normal(size=(n, a)), final_rewards=final)
    episode = random_episode(rng, mdp, steps or int(rng.integers(1, 6)))
    sure = np.eye(a)[rng.integers(a, size=n)]
    return mdp, episode, sure if rng.random() < 0.5 else rng.dirichlet(np.ones(a), size=n)


def listed(
    mdp: cp.TabularMDP, episode: cp.Episode, policy: np.ndarray, steps: Collection[int]
) -> float:
    """v: the policy at some steps, what was done at the others, by recursion over paths."""
    T, scm = len(episode), cp.GumbelMaxSCM(mdp)

    def worth(t: int, s: int) -> float:
        kept = int(episode.actions[t])
        total = 0.0
        for a in np.flatnonzero(policy[s]) if t in steps else [kept]:
            ahead = float(mdp.rewards_at(t, T)[s, a])
            if t < T - 1:
                o = int(episode.states[t]), kept, int(episode.states[t + 1])
                row = scm.counterfactual_row(*o, s, int(a))
                ahead += sum(row[i] * worth(t + 1, i) for i in np.flatnonzero(row))
            total += (policy[s, a] if t in steps else 1.0) * ahead
        return total

    return worth(0, int(episode.states[0]))


@settings(max_examples=40)
@given(SEEDS)
def test_values_by_patient_equal_the_list_of_all_paths(seed: int) -> None:
    mdp, episode, policy = world(seed)
    other = random_episode(np.random.default_rng(seed + 1), mdp, 3)
    found = cp.policy_value(mdp, [episode, other], policy)
    for n, one in enumerate((episode, other)):
        expected = listed(mdp, one, policy, range(len(one)))
        assert found.counterfactual[n] == pytest.approx(expected, abs=1e-9)
        assert found.observed[n] == pytest.approx(mdp.outcome(one), abs=1e-12)
        low, high = found.intervals[n]
        assert low - 1e-9 <= expected <= high + 1e-9
    assert found.value.value == pytest.approx(found.counterfactual.mean())
    assert found.better + found.worse <= 1.0
    assert [row["gain"] for row in found.table()] == sorted(found.gains, reverse=True)


@settings(max_examples=25)
@given(SEEDS)
def test_the_population_under_hidden_causes_equals_linear_programs(seed: int) -> None:
    mdp, episode, policy = world(seed)
    gamma, T = 1.0 + np.random.default_rng(seed).random(), len(episode)

    def extreme(t: int, s: int, sign: float) -> float:
        total = 0.0
        for a in np.flatnonzero(policy[s]):
            ahead = float(mdp.rewards_at(t, T)[s, a])
            if t < T - 1:
                q = mdp.row(s, int(a))
                worths = np.array([extreme(t + 1, i, sign) for i in range(mdp.n_states)])
                limits = [(one / gamma, min(1.0, gamma * one)) for one in q]
                ones = np.ones((1, len(q)))
                program = linprog(sign * worths, A_eq=ones, b_eq=[1.0], bounds=limits)
                ahead += sign * float(program.fun)
            total += policy[s, a] * ahead
        return total

    found = cp.policy_value(mdp, [episode], policy)
    start = int(episode.states[0])
    if T <= 3:
        ends = extreme(0, start, 1.0), extreme(0, start, -1.0)
        assert found.population(gamma) == pytest.approx(ends, abs=1e-8)
    one, wide = found.population(1.0), found.population(gamma)
    assert one == pytest.approx((found.model, found.model), abs=1e-9)
    assert wide.low <= found.model + 1e-9
    assert found.model <= wide.high + 1e-9


def test_the_tipping_factor_is_where_the_lower_end_meets_what_was_observed() -> None:
    rewards = np.array([[0.0, 0.0], [1.0, 1.0]])
    rows = np.array([[[0.5, 0.5], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]]])
    mdp = cp.TabularMDP(rows, rewards)
    # Half of the patients get well by action 0; by action 1 it would be 0.8, or 0.8 / Gamma at
    # least, as long as the other outcome may have the rest: 1 - 0.2 Gamma, until Gamma = 2.5.
    episodes = [cp.Episode([0, n % 2], [0, 0]) for n in range(100)]
    found = cp.policy_value(mdp, episodes, [1, 1])
    assert found.model == pytest.approx(0.8)
    assert found.tipping_gamma == pytest.approx(2.5, abs=2e-3)
    assert cp.policy_value(mdp, episodes, [0, 0]).tipping_gamma == 1.0
    # The same data: action 1 was never taken, so there is nothing to weigh.
    assert math.isnan(found.importance.value)
    assert found.importance.effective == 0.0
    mixed = cp.policy_value(mdp, episodes, [[0.5, 0.5]] * 2, behaviour=[[0.5, 0.5]] * 2)
    assert mixed.importance.value == pytest.approx(found.observed.mean())
    assert mixed.importance.effective == pytest.approx(100)


@settings(max_examples=25)
@given(SEEDS)
def test_shares_of_steps_and_actors_equal_enumeration(seed: int) -> None:
    mdp, episode, policy = world(seed)
    T = len(episode)
    actors = ["ann" if t % 3 else "bob" for t in range(T)]
    found = contributions(mdp, episode, actors, policy)
    every = range(T)
    worth = {
        frozenset(chosen): listed(mdp, episode, policy, set(chosen))
        for size in range(T + 1)
        for chosen in itertools.combinations(every, size)
    }
    for t in every:
        share = 0.0
        for size in range(T):
            weight = math.factorial(size) * math.factorial(T - 1 - size) / math.factorial(T)
            for others in itertools.combinations([s for s in every if s != t], size):
                rest = frozenset(others)
                share += weight * (worth[rest | {t}] - worth[rest])
        assert found.steps[t] == pytest.approx(share, abs=1e-9)
    for actor in set(actors):
        own = frozenset(t for t in every if actors[t] == actor)
        assert found.total[actor] == pytest.approx(worth[own] - worth[frozenset()], abs=1e-9)
    gained = found.expected - found.observed
    assert sum(found.shares.values()) == pytest.approx(gained, abs=1e-9)
    assert sum(row["steps"] for row in found.table()) == T


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, e: cp.policy_value(m, [], [0] * 3), "no episodes given"),
        (
            lambda m, e: cp.policy_value(m, [e], [0, 0]),
            r"policy has shape \(2,\): expected actions",
        ),
        (lambda m, e: cp.policy_value(m, [e], [0, 5, 0]), r"unknown action 5"),
        (lambda m, e: cp.policy_value(m, [e], [[0.5, 0.6]] * 3), "of state 0 is no distribution"),
        (lambda m, e: cp.policy_value(3, [e], [0] * 3), "expected a TabularMDP, got int"),
        (lambda m, e: contributions(m, e, ["a"], [0] * 3), "1 actors for 3 steps"),
    ],
)
def test_mistakes(call: object, message: str) -> None:
    rng = np.random.default_rng(0)
    mdp = cp.TabularMDP(random_transitions(rng, 3, 2), np.zeros((3, 2)))
    with pytest.raises(InputError, match=message):
        call(mdp, random_episode(rng, mdp, 3))  # type: ignore[operator]
