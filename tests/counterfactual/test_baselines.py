"""Baselines of discrete and continuous problems."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import oracle
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.errors import InputError
from counterplan.scm import PointSCM
from counterplan.testing.continuous import MODELS

from .sequence_support import Floats, explain, random_question
from .support import Instance, close, random_instance

# --- Baselines: exact values of simple policies, never above the optimum ---

SEEDS = st.integers(0, 2**32 - 1)
BASELINES = [
    cp.baselines.Greedy(),
    cp.baselines.Random(),
    cp.baselines.NoisyGreedy(),
    cp.baselines.NoisyGreedy(probability=0.2),
]


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(BASELINES))
def test_values_are_exact_and_never_above_the_optimum(seed: int, solver: Any) -> None:
    problem = random_instance(seed)
    found = problem.explain(solver=solver)
    assert close(found.value, oracle.policy_value(problem.mdp, found), 1e-9)
    assert found.value <= problem.best + 1e-9
    assert (found.status, found.bound) == ("heuristic", math.inf)
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
    found, rules = problem.explain(solver=cp.baselines.Greedy()), problem.rules

    def worth(t: int, s: int, a: int) -> float:
        reward = mdp.rewards_at(t, T)[s, a]
        if t == T - 1:
            return float(reward)
        observed = (int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1]))
        row = scm.counterfactual_row(*observed, s, a)
        return float(reward + row @ mdp.rewards_at(t + 1, T)[:, episode.actions[t + 1]])

    for t, s, left in product(range(T), range(mdp.n_states), range(min(problem.k, 3) + 1)):
        if s not in found.process.setting.reached[t]:
            continue
        kept = int(episode.actions[t])
        may = rules.alternatives[t] & (rules.costs <= left)
        if mdp.admissible is not None:
            may &= mdp.admissible[s]
        may[kept] = True
        chosen = found.policy(t, s, problem.k - left)
        assert may[chosen]
        best = max(worth(t, s, int(a)) for a in np.flatnonzero(may))
        assert worth(t, s, chosen) == pytest.approx(best, abs=1e-9)
        if worth(t, s, kept) >= best - 1e-13:
            assert chosen == kept


def test_random_spreads_over_what_may_be_done() -> None:
    mdp = cp.TabularMDP(
        np.ones((1, 4, 1)), [[0.0, 1.0, 2.0, 3.0]], admissible=[[False, True, True, True]]
    )
    constraints = cp.Constraints(change_costs={2: 2}, allowed=[True, True, True, False])
    found = Instance(mdp, cp.Episode([0, 0], [0, 0]), 2, constraints).explain(
        solver=cp.baselines.Random()
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


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_probabilities_lie_between_0_and_1(probability: float) -> None:
    with pytest.raises(InputError, match="probability must lie between 0 and 1, got"):
        cp.baselines.NoisyGreedy(probability=probability)


# --- Greedy, top-k and random: where they are right, and where only the search is ---


@pytest.mark.parametrize("seed", range(25))
def test_linear_dynamics_are_additive(seed: int) -> None:
    """Gains of separate changes add up, so the best k single changes are the optimum."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 5))
    problem = replace(
        random_question("linear", seed, horizon=int(rng.integers(3, 8)), n_actions=3, k=k),
        constraints=cp.Constraints(),
        reward=cp.LinearReward(rng.normal(size=4)),
    )
    best = explain(problem)
    for solver in (cp.baselines.Greedy(), cp.baselines.TopK()):
        assert explain(problem, solver=solver).value == pytest.approx(best.value, abs=1e-9)
    assert best.stats["nodes_expanded"] <= len(problem.episode) * (k + 1) * 3


class Gated(PointSCM):
    """A first dose (action 1) opens a door for one step; only behind it does the second (action 2)
    pay off. Each alone does harm."""

    def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
        return after - self._moved(states, actions)

    def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        return self._moved(states, actions) + noise

    def _moved(self, states: Floats, actions: Floats) -> Floats:
        dose, door = actions[:, 0], states[:, 1]
        health = 0.9 * states[:, 0] + np.where(dose == 2.0, 2.0 * np.clip(door, 0, 1) - 0.5, 0.0)
        health -= np.where(dose == 1.0, 0.3, 0.0)
        return np.column_stack([health, np.where(dose == 1.0, 1.0, 0.0)])

    def lipschitz(self, noise: Floats) -> Floats:
        return np.full(len(noise), np.hypot(0.9, 2.0) * (1.0 + 1e-12))


def test_interacting_changes_need_the_search() -> None:
    episode = cp.Episode(np.zeros((6, 2)), np.zeros(5, dtype=int))
    problem = Problem(
        Gated(), episode, 2, actions=[[0.0], [1.0], [2.0]], reward=cp.LinearReward([1.0, 0.0])
    )
    best = explain(problem)
    assert [(c.t, c.alternative) for c in best.changes] == [(0, 1), (1, 2)]
    for solver in (cp.baselines.Greedy(), cp.baselines.TopK()):
        poor = explain(problem, solver=solver)
        assert poor.changes == ()
        assert poor.value == 0.0 < best.value
        assert (poor.status, poor.bound) == ("heuristic", np.inf)
    # Any strategy of anchors finds it as well, with proof.
    for strategy in ("mc-lipschitz", "mc-uniform", "facility-location"):
        solver = cp.AStar(cp.AnchorHeuristic(strategy, samples=20))
        assert explain(problem, solver=solver).value == pytest.approx(best.value)


@pytest.mark.parametrize("kind", MODELS)
def test_single_changes_are_worth_what_replay_says(kind: str) -> None:
    problem = random_question(kind, 11, horizon=5, n_actions=3, k=2)
    setting = prepare_sequence(problem)
    base = np.random.default_rng(0).integers(3, size=4)
    values = setting.single_change_values(base)
    world = oracle.SequenceWorld(problem)
    for t, action in product(range(4), range(3)):
        sequence = base.copy()
        sequence[t] = action
        assert values[t, action] == pytest.approx(world.value_of(sequence), rel=1e-9, abs=1e-9)


def test_affordable_counts_what_is_already_spent() -> None:
    problem = random_question("linear", 2, horizon=4, n_actions=3, k=3)
    setting = prepare_sequence(replace(problem, constraints=cp.Constraints(change_costs=[2, 2, 2])))
    base = setting.observed.copy()
    assert setting.affordable(base).all()
    base[0] = (base[0] + 1) % 3
    possible = setting.affordable(base)
    assert possible[0].all(), "the change made may still become another"
    assert possible.sum() == 3 + 2, "and the other steps can only stay"


def test_random_spends_the_budget_and_follows_its_seed() -> None:
    problem = replace(
        random_question("neural", 1, horizon=8, n_actions=4, k=3), constraints=cp.Constraints()
    )
    drawn = [explain(problem, solver=cp.baselines.Random(seed)).actions for seed in range(5)]
    again = explain(problem, solver=cp.baselines.Random(0)).actions
    assert np.array_equal(drawn[0], again)
    assert any(not np.array_equal(drawn[0], other) for other in drawn[1:])
    assert all((one != problem.episode.actions).sum() == 3 for one in drawn)
