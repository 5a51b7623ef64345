"""UCT in counterfactual worlds: never above the optimum, and close to it in small ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.budget_dp import prepare
from counterplan.counterfactual.policy_world import PolicyWorld
from counterplan.domains.interacting import interacting_episode
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.model import State
from counterplan.testing import check_model, check_solver, random_problems

SEARCH = cp.baselines.TreeSearch(cp.UCT(300))


@pytest.mark.parametrize("planner", [cp.UCT(40), cp.MENTS(40), cp.DENTS(40)], ids=lambda p: p.name)
def test_the_public_check(planner: Any) -> None:
    check_solver(cp.baselines.TreeSearch(planner, seed=2), seed=5)


def test_it_finds_the_pair_that_greedy_misses() -> None:
    case = interacting_episode(seed=0, horizon=12)
    asked: Any = {"actions": case.actions, "reward": case.reward}
    best = cp.explain(case.scm, case.episode, 2, **asked)
    found = cp.explain(case.scm, case.episode, 2, solver=SEARCH, **asked)
    greedy = cp.explain(case.scm, case.episode, 2, solver=cp.baselines.Greedy(), **asked)
    assert greedy.value < found.value <= best.value + 1e-9
    assert found.changes == best.changes


def test_policies_are_close_to_the_optimum_and_repeatable() -> None:
    shares = []
    for problem in random_problems(12, seed=1):
        asked: Any = {"constraints": problem.constraints}
        best = cp.explain(problem.scm, problem.episode, 2, **asked)
        found, again = (
            cp.explain(problem.scm, problem.episode, 2, solver=SEARCH, **asked) for _ in range(2)
        )
        assert found.value == again.value
        assert (found.status, found.bound) == ("heuristic", np.inf)
        if best.improvement > 1e-9:
            shares.append(found.improvement / best.improvement)
    assert np.mean(shares) > 0.9


def test_the_discrete_world_is_honest() -> None:
    """Its chance is one law and its steps are deterministic given it, as for any planning problem;
    rewards are not linear in the number of an action, so two actions at most are offered."""
    mdp = cp.TabularMDP(
        [[[0.5, 0.5], [0.1, 0.9]], [[0.3, 0.7], [0.8, 0.2]]], [[1.0, 2.0], [0.5, 0.0]]
    )
    episode = cp.Episode([0, 1, 1, 0], [0, 0, 0, 0])
    setting, law = prepare(Problem(cp.GumbelMaxSCM(mdp), episode, 2))
    world = PolicyWorld(setting, law)
    states = [world.place(t, s, c) for t in range(4) for s in range(2) for c in range(3)]
    rng = np.random.default_rng(0)
    for place in states[:-6]:
        for action in world.actions(place):
            one = place.exogenous[None], place.resource[None], action[None]
            _, pending = world.step(place.t, *one)
            row = law.rows_at(place.t, law.row_of[int(place.resource[0]), [int(action[0])]])
            dense = np.zeros(2)
            dense[row.indices] = row.probabilities
            luck = world.draw(place.t, np.zeros((2000, 1)), rng)[:, 0]
            landed = [world._settled(place.t + 1, float(u), pending[0]) for u in luck]
            # Four standard errors of a share of 2,000 draws.
            assert abs(np.mean(landed) - dense[1]) < 4 * 0.5 / np.sqrt(2000)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_the_compiled_world_is_the_same_world(seed: int) -> None:
    """The same actions, rewards and levels in every state that play leads to, and so the same
    policies; where the world is too large to be compiled, it is searched as it is."""
    problem = random_problems(1, seed)[0]
    world = PolicyWorld(*prepare(problem))
    kernel, rng = world.compiled(), np.random.default_rng(seed)
    offered, after = np.empty((kernel.most_actions, 1)), np.empty(3)
    state = world.start
    for t in range(world.horizon):
        expected = world.actions(state)
        m = kernel.actions(kernel.parameters, *state, offered)
        assert offered[:m].tolist() == expected.tolist()
        action = expected[rng.integers(m)]
        reward = kernel.step(kernel.parameters, *state, action, after)
        one = state.exogenous[None], state.resource[None], action[None]
        rewards, levels = world.step(t, *one)
        assert reward == rewards[0]
        assert after.tolist() == levels[0].tolist()
        luck = np.array([rng.choice([0.0, 0.5, np.nextafter(1.0, 0.0), rng.random()])])
        state = State(t + 1, luck, after.copy())
    small = replace(world, largest=0)
    with pytest.raises(NotApplicableError, match="the world takes more than 0 numbers"):
        small.compiled()
    decide, slowly = (cp.UCT(20).begin(one, False, seed) for one in (world, small))
    assert decide(world.start).action == slowly(small.start).action


def test_executed_plans_keep_to_the_budget() -> None:
    ship = cp.domains.Bunkering(config="A")
    path = ship.sample_path(seed=5)
    voyage = cp.Episode(path, [[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]])
    best = cp.frontier(ship, voyage)
    for found, optimum in zip(cp.frontier(ship, voyage, solver=SEARCH), best, strict=True):
        assert optimum.value - 1e-6 <= found.value <= found.factual_value  # costs
        assert len(found.changes) <= found.k
    assert found.value == pytest.approx(best[-1].value, rel=0.05)


def test_executed_plans_keep_to_the_constraints() -> None:
    """Where an earlier change makes a fixed amount impossible, the search has to do without it."""
    ship = cp.domains.Bunkering(config="A", legs=(12.0, 25.0, 30.0))
    for seed, last in itertools.product(range(4), (-1, -2)):
        voyage = cp.Episode(ship.sample_path(seed), [[50.0], [0.0], [17.0]])
        for rules in (cp.Constraints(fixed_steps=[last]), cp.Constraints(max_move=3.0)):
            best = cp.explain(ship, voyage, 2, constraints=rules)
            found = cp.explain(ship, voyage, 2, constraints=rules, solver=SEARCH)
            assert found.value >= best.value - 1e-6  # costs
            moved = np.abs(found.actions - found.observed)
            assert all(moved[int(step)] == 0.0 for step in rules.fixed_steps)
            assert rules.max_move is None or moved.max() <= 3.0 + 1e-9


class _Shelf:
    """Two units to sell at rising prices. What is not there is not on offer, but never refused."""

    horizon = 3
    sense = "max"
    start = State(0, np.array([1.0]), np.array([2.0]))

    def draw(self, t: int, exogenous: Any, generator: np.random.Generator) -> Any:
        return exogenous + 1.0

    def actions(self, state: State) -> Any:
        return np.arange(state.resource[0] + 1.0)[:, None]

    def step(self, t: int, exogenous: Any, resource: Any, actions: Any) -> Any:
        return exogenous[:, 0] * actions[:, 0], resource - actions


def test_what_is_no_longer_on_offer_is_not_kept() -> None:
    sold = cp.Episode([[1.0], [2.0], [3.0]], [[0.0], [1.0], [1.0]])
    for k in (1, 2):
        best = cp.explain(_Shelf(), sold, k)
        found = cp.explain(_Shelf(), sold, k, solver=SEARCH)
        assert found.value <= best.value
        assert best.value == cp.oracle.best_allocation(_Shelf(), sold.states, sold.actions, k).value
        assert found.levels.min() >= 0.0
    assert best.value == found.value == 6.0


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="pass an object such as UCT"):
        cp.baselines.TreeSearch(cp.UCT)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="places must be at least 1"):
        cp.baselines.TreeSearch(places=0)
    with pytest.raises(InputError, match="seed must be at least 0"):
        cp.baselines.TreeSearch(seed=-1)


def test_the_world_of_an_executed_plan_is_a_planning_problem() -> None:
    from counterplan.counterfactual.allocation_setting import prepare_allocation
    from counterplan.counterfactual.tree_worlds import AllocationWorld

    ship = cp.domains.Bunkering(config="A")
    actions = [[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]]
    episode = cp.Episode(ship.sample_path(seed=5), actions)
    # With a change for every step nothing is ever fined, and rewards stay linear.
    check_model(AllocationWorld(prepare_allocation(Problem(ship, episode, 7))))
