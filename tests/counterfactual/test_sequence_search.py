"""The search finds what trying every sequence finds: all kinds of models, constraints, bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import FirstOrderBound, LipschitzReward, NoBound, Tightest, oracle
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.testing import check_solver, random_sequence_problems
from counterplan.testing.continuous import MODELS, check_sequence

from .sequence_support import TrueValues, Watched, explain, random_question

# (states, actions, budget), up to the largest that brute force can take many of
SIZES = [(2, 3, 1), (4, 3, 4), (5, 4, 2), (6, 3, 3), (8, 2, 4), (8, 3, 2), (7, 4, 1)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("seed", range(36))
def test_equals_brute_force(kind: str, seed: int) -> None:
    """216 problems: every answer is replayed, checked against its constraints and brute force, and
    the bound holds on every node that the search visits."""
    horizon, n_actions, k = SIZES[seed % len(SIZES)]
    problem = random_question(kind, seed, horizon=horizon, n_actions=n_actions, k=k)
    watch = Watched(FirstOrderBound(), TrueValues(prepare_sequence(problem)))
    found = explain(problem, solver=cp.AStar(watch))
    assert found.status == "optimal"
    assert found.bound == found.value
    check_sequence(problem, k, found)
    assert watch.nodes > 0
    assert watch.lowest >= 0.0


@pytest.mark.parametrize("kind", MODELS)
def test_equals_brute_force_at_eight_states_and_four_changes(kind: str) -> None:
    problem = random_question(kind, 100, horizon=8, n_actions=3, k=4)
    check_sequence(problem, 4, explain(problem))


@pytest.mark.parametrize(
    "solver",
    [
        cp.AStar(),
        cp.AStar(batch=1, incumbent=False, rollout=False),
        cp.AStar(batch=3, memory=5),
        cp.AStar(NoBound()),
        cp.AStar(cp.AnchorHeuristic(samples=30)),
        cp.AStar(cp.AnchorHeuristic("mc-uniform", samples=30, size=20)),
        cp.AStar(cp.AnchorHeuristic("facility-location", samples=25)),
        cp.AStar(Tightest((FirstOrderBound(), cp.AnchorHeuristic(samples=20)))),
        oracle.Exhaustive(batch=7),
        cp.baselines.Greedy(),
        cp.baselines.TopK(),
        cp.baselines.Random(5),
        cp.baselines.NoisyGreedy(5),
    ],
    ids=lambda solver: str(solver)[:60],
)
def test_conforms(solver: object) -> None:
    """Frontiers, certificates, replay, constraints: what is asked of every solver."""
    check_solver(solver, random_sequence_problems(18, seed=2, horizon=5))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", MODELS)
def test_frontier_equals_single_answers_and_never_falls(kind: str) -> None:
    problem = random_question(kind, 7, horizon=6, n_actions=3, k=5)
    options = {
        "actions": problem.actions,
        "reward": problem.reward,
        "constraints": cp.Constraints(change_costs=[2, 2, 2]),
    }
    front = cp.frontier(problem.scm, problem.episode, 5, **options)
    alone = [cp.explain(problem.scm, problem.episode, k, **options).value for k in range(6)]
    assert front.values == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert (np.diff(front.values) >= 0.0).all()
    assert front.values[0] == front[0].factual_value
    assert front.values[1] == front.values[0]  # one unit pays for nothing
    assert all(one.status == "optimal" for one in front)


def test_memory_limit_turns_the_search_depth_first_and_keeps_the_optimum() -> None:
    problem = random_question("waves", 3, horizon=8, n_actions=4, k=4)
    free, tight = explain(problem), explain(problem, solver=cp.AStar(batch=4, memory=1))
    assert tight.status == "optimal"
    assert tight.value == pytest.approx(free.value, abs=1e-12)


def test_an_answer_says_which_bound_it_used() -> None:
    with_slopes = explain(random_question("neural", 0, horizon=4, n_actions=3, k=2))
    constants_only = explain(random_question("post-nonlinear", 0, horizon=4, n_actions=3, k=2))
    assert with_slopes.method == "first-order bound from slopes"
    assert constants_only.method == (
        "first-order bound from Lipschitz constants (the model states no slopes)"
    )
    problem = random_question("neural", 0, horizon=4, n_actions=3, k=2)
    anchors = explain(problem, solver=cp.AStar(cp.AnchorHeuristic(samples=3, seed=1)))
    assert anchors.method.endswith("anchors (mc-lipschitz)")
    assert explain(problem, solver=cp.AStar(NoBound())).method == "none"


def test_results_carry_the_sequence_in_physical_units() -> None:
    problem = random_question("scaled neural", 4, horizon=6, n_actions=3, k=2)
    found = explain(problem)
    episode = problem.episode
    assert found.states[0] == pytest.approx(episode.states[0])
    assert found.actions.shape == (5,)
    assert found.changes
    t, observed, alternative = found.changes[0]
    assert (observed, alternative) == (episode.actions[t], found.actions[t])
    unchanged = found.states[: t + 1]
    assert unchanged == pytest.approx(episode.states[: t + 1])
    total = float(problem.reward(found.states).sum())
    assert total == pytest.approx(found.value, rel=1e-12)
    assert found.factual_value == pytest.approx(float(problem.reward(episode.states).sum()))


def test_a_rewards_constant_counts_the_range_of_moving_features_only() -> None:
    problem = random_question("scaled neural", 4, horizon=6, n_actions=3, k=2)
    scm = problem.scm
    spread = scm.scaling.state_range.copy()
    spread[: scm.fixed] = 1e6
    wide = replace(scm, scaling=replace(scm.scaling, state_range=spread))
    reward = LipschitzReward(lambda states: states[:, -1], 2.0)
    setting = prepare_sequence(replace(problem, scm=wide, reward=reward))
    assert scm.fixed > 0
    assert setting.reward.remainder == pytest.approx(2.0 * spread[scm.fixed :].max())


def test_statistics_and_history_tell_the_search() -> None:
    problem = random_question("location-scale", 12, horizon=7, n_actions=4, k=3)
    found = explain(problem, solver=cp.AStar(batch=2))
    history = found.history
    assert found.stats["nodes_expanded"] == history[-1, 0] > 2
    assert (np.diff(history[:, 0]) > 0).all()
    assert (np.diff(history[:, 1]) >= 0).all(), "the best value never falls"
    assert (history[:, 2] >= found.value - 1e-9).all(), "no bound was ever below the optimum"


@pytest.mark.parametrize("nodes", [1, 7, 160, 18_139, 10**9])
@pytest.mark.parametrize("horizon", [1, 12, 200])
def test_branching_factor_solves_its_equation(nodes: int, horizon: int) -> None:
    from counterplan.counterfactual.continuous.astar import branching_factor

    b = branching_factor(nodes, horizon)
    assert sum(b**power for power in range(1, horizon + 1)) == pytest.approx(nodes, rel=1e-6)
