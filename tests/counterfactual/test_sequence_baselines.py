"""Greedy, top-k and random: where they are right, and where only the search is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import oracle
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.scm import PointSCM
from counterplan.testing.continuous import MODELS

from .sequence_support import Floats, explain, random_question


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
        assert poor.status == "heuristic"
        assert poor.bound == np.inf
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
    for t in range(4):
        for action in range(3):
            sequence = base.copy()
            sequence[t] = action
            expected = oracle.sequence_value(
                problem.scm,
                problem.episode,
                sequence,
                actions=problem.actions,
                reward=problem.reward,
            )
            assert values[t, action] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_affordable_counts_what_is_already_spent() -> None:
    problem = random_question("linear", 2, horizon=4, n_actions=3, k=3)
    setting = prepare_sequence(replace(problem, constraints=cp.Constraints(change_costs=[2, 2, 2])))
    base = setting.observed.copy()
    assert setting.affordable(base).all()
    base[0] = (base[0] + 1) % 3
    possible = setting.affordable(base)
    assert possible[0].all(), "the change made may still become another"
    assert possible.sum() == 3 + 2, "and the other steps can only stay"


@pytest.mark.parametrize("kind", MODELS)
def test_no_baseline_beats_the_search(kind: str) -> None:
    for seed in range(4):
        problem = random_question(kind, 400 + seed, horizon=6, n_actions=3, k=2)
        best = explain(problem).value
        for solver in (
            cp.baselines.Greedy(),
            cp.baselines.TopK(),
            cp.baselines.Random(seed),
            cp.baselines.NoisyGreedy(seed),
        ):
            found = explain(problem, solver=solver)
            assert found.value <= best + 1e-9
            assert found.method == type(solver).__name__


def test_random_spends_the_budget_and_follows_its_seed() -> None:
    problem = replace(
        random_question("neural", 1, horizon=8, n_actions=4, k=3), constraints=cp.Constraints()
    )
    drawn = [explain(problem, solver=cp.baselines.Random(seed)).actions for seed in range(5)]
    again = explain(problem, solver=cp.baselines.Random(0)).actions
    assert np.array_equal(drawn[0], again)
    assert any(not np.array_equal(drawn[0], other) for other in drawn[1:])
    assert all((one != problem.episode.actions).sum() == 3 for one in drawn)
