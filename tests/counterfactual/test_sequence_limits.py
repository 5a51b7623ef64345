"""Stopped early, an answer is still a sequence, and its bound still holds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import NoBound, oracle
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.scm.point import IntervalSlopes
from counterplan.testing.continuous import MODELS

from .sequence_support import Loosened, TrueValues, explain, partition_problem, random_question


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("nodes", [1, 2, 5, 20])
def test_value_and_bound_enclose_the_optimum(kind: str, nodes: int) -> None:
    for seed in range(5):
        problem = random_question(kind, 200 + seed, horizon=7, n_actions=3, k=3)
        best = explain(problem).value
        solver = cp.AStar(batch=1, incumbent=False)
        found = explain(problem, limits=cp.Limits(nodes=nodes), solver=solver)
        assert found.stats["nodes_expanded"] <= nodes
        assert found.value <= best + 1e-9
        assert found.bound >= best - 1e-9
        assert found.gap == pytest.approx(found.bound - found.value)
        assert (found.status == "optimal") == (found.gap == 0.0)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("gap", [0.01, 0.3, 5.0])
def test_a_wanted_gap_is_kept_and_certified(kind: str, gap: float) -> None:
    """The bound covers what was dropped on the way too: leaves, children and waiting nodes."""
    for seed in range(12):
        problem = random_question(kind, 300 + seed, horizon=6, n_actions=3, k=2)
        best = explain(problem).value
        for solver in (cp.AStar(batch=1, incumbent=False), cp.AStar(batch=8)):
            found = explain(problem, limits=cp.Limits(gap=gap), solver=solver)
            assert found.gap <= gap
            assert found.value <= best + 1e-9
            assert found.bound >= best - 1e-9
            assert best <= found.value + gap + 1e-9
            assert (found.status == "optimal") == (found.gap == 0.0)


@pytest.mark.parametrize("seed", range(120))
def test_a_gap_covers_everything_that_was_dropped(seed: int) -> None:
    """With bounds of any unevenness: leaves, children and waiting nodes are dropped in turn."""
    size = {"horizon": 5, "n_actions": 4, "k": 1 + seed % 4}
    problem = random_question("linear", 500 + seed, **size)
    best = explain(problem).value
    for gap in (0.1, 0.5, 1.0, 2.0):
        solver = cp.AStar(Loosened(slack=4.0, seed=seed), batch=1 + seed % 2, incumbent=False)
        found = explain(problem, limits=cp.Limits(gap=gap), solver=solver)
        assert found.value <= best + 1e-9
        assert best <= found.bound + 1e-9
        assert found.gap <= gap


class Scripted:
    """A bound that promises too much of two first steps, and the truth of a third."""

    name = "scripted"
    promises = {0.0: 0.0, 0.2: 5.0, 0.5: 0.5, 0.1: 4.0}  # noqa: RUF012

    def refuses(self, setting: Any) -> str | None:
        return None

    def prepare(self, setting: Any, deadline: float = np.inf) -> Any:
        return self

    restricted = prepare

    def upper(self, t: int, used: Any, states: Any) -> Any:
        if t == 0:
            return np.full(len(states), 10.0)
        return np.array([self.promises[round(float(s), 6)] for s in states[:, 0]])


def test_a_gap_covers_waiting_nodes_that_fell_behind() -> None:
    """The first step is worth 0, 0.2, 0.5 or 0.1. Once 0.2 is found, 0.5 is within the gap of 0.4
    and dropped while it waits; the bound must still tell of it."""
    scm = cp.AdditiveNoiseSCM(lambda states, actions: actions.copy(), lipschitz=0.0)
    asked = {
        "actions": [[0.0], [0.2], [0.5], [0.1]],
        "reward": cp.LinearReward([1.0]),
        "constraints": cp.Constraints(fixed_steps=[1]),
        "solver": cp.AStar(Scripted(), batch=1, incumbent=False),  # type: ignore[arg-type]
    }
    episode = cp.Episode(np.zeros((3, 1)), [0, 0])
    assert cp.explain(scm, episode, 2, **asked).value == pytest.approx(0.5)
    found = cp.explain(scm, episode, 2, limits=cp.Limits(gap=0.4), **asked)
    assert found.value == pytest.approx(0.2)
    assert found.bound == pytest.approx(0.5)
    assert found.status == "limit"


def test_a_wanted_gap_saves_work() -> None:
    problem = random_question("location-scale", 12, horizon=8, n_actions=4, k=3)
    exact, rough = explain(problem), explain(problem, limits=cp.Limits(gap=1.0))
    assert rough.stats["nodes_expanded"] < exact.stats["nodes_expanded"]


def test_no_time_at_all_still_gives_the_greedy_answer_and_a_bound() -> None:
    problem = random_question("waves", 1, horizon=8, n_actions=4, k=4)
    best = explain(problem)
    found = explain(problem, limits=cp.Limits(seconds=1e-9))
    assert found.status == "limit"
    assert found.stats["nodes_expanded"] == 0
    assert found.value == pytest.approx(explain(problem, solver=cp.baselines.Greedy()).value)
    assert found.value <= best.value <= found.bound < math.inf


def test_without_a_bound_nothing_is_promised() -> None:
    problem = random_question("waves", 1, horizon=8, n_actions=4, k=4)
    limits = cp.Limits(nodes=3)
    for solver in (
        cp.AStar(NoBound()),
        oracle.Exhaustive(batch=1),
    ):
        found = explain(problem, limits=limits, solver=solver)
        assert found.status == "limit"
        assert found.bound == math.inf
        assert found.value >= found.factual_value


def test_time_limit_stops_a_hard_problem() -> None:
    """Half a second into a partition problem of 2^24 sequences."""
    problem = partition_problem([2 * n + 1 for n in range(23)])
    found = explain(problem, limits=cp.Limits(seconds=0.5))
    assert found.stats["seconds"] < 5.0
    assert found.value <= found.bound


def test_frontier_keeps_limits_for_each_budget() -> None:
    problem = random_question("neural", 2, horizon=7, n_actions=4, k=3)
    asked = {"actions": problem.actions, "reward": problem.reward}
    exact = cp.frontier(problem.scm, problem.episode, 3, **asked)
    stopped = cp.frontier(problem.scm, problem.episode, 3, limits=cp.Limits(nodes=1), **asked)
    assert (np.diff(stopped.values) >= 0.0).all()
    for full, part in zip(exact, stopped, strict=True):
        assert part.value <= full.value + 1e-9 <= part.bound + 2e-9


def test_a_limit_also_ends_the_preparation_of_anchors() -> None:
    """What Algorithm 1 did not reach is unbounded: the answer says that nothing is proved."""
    problem = random_question("linear", 7, horizon=6, n_actions=3, k=2)
    solver = cp.AStar(cp.AnchorHeuristic("mc-uniform", samples=50))
    found = explain(problem, limits=cp.Limits(seconds=1e-6), solver=solver)
    assert found.status == "limit"
    assert found.bound == math.inf
    assert found.value <= explain(problem).value + 1e-9


# --- While the first-order bound is prepared ---------------------------------------------------


class Counted(cp.AdditiveNoiseSCM):
    """s' = s / 2 + a + u, counting how often its slopes are asked for."""

    def __init__(self, lipschitz: float | None) -> None:
        super().__init__(lambda s, a: 0.5 * s + a, lipschitz)
        self.asked = 0

    def slopes(self, region: Any, actions: Any, noise: Any) -> IntervalSlopes:
        self.asked += 1
        jacobian = np.repeat(0.5 * np.eye(2)[None], len(actions), axis=0)
        return IntervalSlopes(jacobian, np.zeros_like(jacobian))


def many_amounts(lipschitz: float | None) -> Problem:
    """12 doses whose costs add up to thousands of different amounts."""
    rng = np.random.default_rng(0)
    return Problem(
        Counted(lipschitz),
        cp.Episode(rng.normal(size=(10, 2)), np.zeros(9, dtype=int)),
        3000,
        cp.Constraints(change_costs=rng.integers(1, 1000, size=12)),
        actions=rng.normal(size=(12, 2)),
        reward=cp.LinearReward([1.0, -0.5]),
    )


def test_slopes_are_asked_for_a_bounded_number_of_times() -> None:
    problem = many_amounts(0.5)
    found = explain(problem, limits=cp.Limits(nodes=1))
    assert 9 < problem.scm.asked <= 9 * 32
    assert found.bound < math.inf
    assert found.method == "first-order bound from slopes"


def test_amounts_are_told_apart_exactly_where_there_are_few() -> None:
    """One level for each change made, as long as an episode may reasonably be."""
    problem = random_question("linear", 1, horizon=40, n_actions=3, k=39)
    levels = prepare_sequence(replace(problem, constraints=cp.Constraints())).levels
    assert levels.first.tolist() == levels.last.tolist() == list(range(40))
    costs = cp.Constraints(change_costs=[3, 10**9, 5 * 10**9])
    few = prepare_sequence(replace(problem, k=10**10, constraints=costs)).levels
    assert len(few.first) == 32
    assert few.first[0] == 0
    assert few.last[-1] == 10**10
    assert (few.first[1:] == few.last[:-1] + 1).all()


def test_after_the_deadline_constants_stand_in_for_slopes() -> None:
    problem = many_amounts(0.5)
    found = explain(problem, limits=cp.Limits(seconds=1e-9))
    assert problem.scm.asked == 1
    assert found.status == "limit"
    assert found.value <= found.bound < math.inf
    assert found.method == (
        "first-order bound from slopes, later Lipschitz constants for lack of time"
    )


def test_after_the_deadline_nothing_is_promised_without_constants() -> None:
    problem = many_amounts(None)
    found = explain(problem, limits=cp.Limits(seconds=1e-9))
    assert problem.scm.asked <= 2  # whether there are slopes at all, and the first step
    assert found.status == "limit"
    assert found.bound == math.inf
    assert found.method == "first-order bound, not finished in time"
    small = replace(problem, k=600, limits=cp.Limits(seconds=1e-9))
    fronts = cp.AStar().frontier(small)
    assert all(one.bound == math.inf for one in fronts if one.status == "limit")


@pytest.mark.parametrize("kind", MODELS)
def test_a_late_bound_still_holds(kind: str) -> None:
    for seed in range(4):
        problem = random_question(kind, 250 + seed, horizon=6, n_actions=3, k=3)
        setting = prepare_sequence(problem)
        late, truth = FirstOrder(setting, deadline=-math.inf), TrueValues(setting)
        for t, level in enumerate(truth.levels):
            upper = late.upper(t, level.used, level.states)
            assert (upper >= level.value - 1e-13).all()
