"""UCT in counterfactual worlds: never above the optimum, and close to it in small ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import oracle
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import evaluate
from counterplan.domains.interacting import interacting_episode
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import State
from counterplan.testing import check_model, check_solver, random_problems
from experiments import tree_search
from experiments.tree_search import AllocationWorld, PolicyWorld, TreeSearch, planned_table

SEARCH = TreeSearch(cp.UCT(300))


@pytest.mark.slow
@pytest.mark.parametrize("planner", [cp.UCT(30), cp.BTS(30), cp.MENTS(40)], ids=str)
def test_the_public_check(planner: Any) -> None:
    check_solver(TreeSearch(planner, seed=2), seed=5)


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
    """States follow the counterfactual law, whatever the luck was drawn for. (Rewards are not
    linear in the number of an action, so `check_model` does not apply.)"""
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
            luck = world.draw(place.t, np.zeros((2000, 1)), rng)
            then = np.repeat(pending, 2000, axis=0), np.zeros((2000, 1))
            landed = world.step(place.t + 1, luck, *then)[1][:, 0]
            # Four standard errors of a share of 2,000 draws.
            assert abs(np.mean(landed) - dense[1]) < 4 * 0.5 / np.sqrt(2000)


def _barred(problem: Problem, rng: np.random.Generator) -> Problem:
    """The problem with some pairs of reward minus infinity."""
    mdp = problem.scm.mdp
    rewards = np.where(rng.random(mdp.rewards.shape) < 0.2, -np.inf, mdp.rewards)
    parts = {"admissible": mdp.admissible, "final_rewards": mdp.final_rewards}
    barred = cp.TabularMDP((mdp.rows, mdp.row_of), rewards, **parts)
    return replace(problem, scm=cp.GumbelMaxSCM(barred))


class _Careless:
    """A planner that takes what is offered last."""

    name = "careless"

    def begin(self, problem: Any, clip: Any = None, seed: Any = 0) -> Any:
        return lambda state: SimpleNamespace(action=problem.actions(state)[-1])


CARELESS = TreeSearch(_Careless())


def test_nothing_worse_than_what_was_done_is_proposed() -> None:
    worse = 0
    for problem in random_problems(20, seed=3):
        asked: Any = {"constraints": problem.constraints, "solver": CARELESS}
        setting, law = prepare(problem)
        table = planned_table(setting, law, _Careless(), 0, 50)
        worse += int((evaluate(setting, law, table) < setting.mdp.outcome(problem.episode)).sum())
        for found in cp.frontier(problem.scm, problem.episode, problem.k, **asked):
            assert found.improvement >= 0.0
            replayed = oracle.policy_value(problem.scm, found)
            assert replayed == pytest.approx(found.value, abs=1e-9)
    assert worse > 10
    case = interacting_episode(seed=0, horizon=12)
    asked = {"actions": case.actions, "reward": case.reward, "solver": CARELESS}
    sequences = cp.frontier(case.scm, case.episode, 4, **asked)
    ship = cp.domains.Bunkering(config="A", legs=(12.0, 25.0, 30.0))
    voyage = cp.Episode(ship.sample_path(0), [[12.0], [25.0], [30.0]])
    for found in (*sequences, *cp.frontier(ship, voyage, 3, solver=CARELESS)):
        assert found.improvement >= 0.0


def test_fines_do_not_drown_what_decisions_differ_by() -> None:
    """Where pairs are forbidden, a search that explored in proportion to a huge fine ended in one
    of them, whatever its simulations."""
    rows = [
        [[1 / 3, 2 / 3, 0, 0], [0.4, 0, 0.4, 0.2]],
        [[2 / 3, 0, 0, 1 / 3], [0.25, 0.5, 0.25, 0]],
        [[0.25, 0.25, 0.5, 0], [0.2, 0.4, 0, 0.4]],
        [[0, 0, 1, 0], [1 / 6, 1 / 6, 1 / 3, 1 / 3]],
    ]
    mdp = cp.TabularMDP(rows, [[0, 2], [2, 1], [2, -2], [-2, 1]])
    episode = cp.Episode([2, 2, 1, 0, 2], [0, 0, 1, 1, 0])
    allowed = [[True, True], [False, True], [True, True], [True, False], [True, True]]
    rules = cp.Constraints(forbidden=[(1, 0), (3, 0)], change_costs=[3, 3], allowed=allowed)
    setting, law = prepare(Problem(cp.GumbelMaxSCM(mdp), episode, 4, rules))
    world = PolicyWorld(setting, law)
    best = cp.explain(mdp, episode, 4, constraints=rules)
    for t in range(2):
        decided = cp.UCT(3000).begin(world, False, 0)(world.place(t, 2, 4))
        assert decided.action == best.policy(t, 2, 0)


def test_the_likeliest_places_are_searched_first() -> None:
    """A change leads to one of three states, where another would pay: with two places a step, it
    is made in the likelier two."""
    stay = np.eye(4)
    rows = [[stay[0], [0, 0.1, 0.3, 0.6]], *([stay[s], stay[s]] for s in (1, 2, 3))]
    mdp = cp.TabularMDP(rows, [[0.0, 1.0], [0.5, 5.0], [0.5, 5.0], [0.5, 5.0]])
    values = [
        cp.explain(mdp, cp.Episode([0, 0], [0, 0]), 2, solver=solver).value
        for solver in (TreeSearch(places=2), SEARCH)
    ]
    assert values == pytest.approx([1.0 + 0.9 * 5.0 + 0.1 * 0.5, 6.0])


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_the_world_is_as_the_problem_says(seed: int) -> None:
    """In every state that play leads to: the state is the quantile of its row, what is offered may
    be taken and paid for, and rewards and budgets are the setting's."""
    rng = np.random.default_rng(seed)
    setting, law = prepare(_barred(random_problems(1, seed)[0], rng))
    world = PolicyWorld(setting, law)
    at, state = int(setting.episode.states[0]), world.start
    for t in range(world.horizon):
        observed, left = int(setting.episode.actions[t]), state.resource[2]
        rewards = setting.rewards_at(t)[at]
        may = setting.takeable_at(t)[at] & np.isfinite(rewards) & (setting.costs_at(t) <= left)
        may[observed] = False
        offered = world.actions(state)
        assert offered[:, 0].tolist() == [observed, *np.flatnonzero(may)]
        action = offered[rng.integers(len(offered))]
        one = state.exogenous[None], state.resource[None], action[None]
        (reward,), (after,) = world.step(t, *one)
        assert reward == max(rewards[int(action[0])], world.worst)
        cost = setting.costs_at(t)[int(action[0])]
        assert after.tolist() == [at, action[0], left - cost]
        luck = float(rng.choice([0.0, 0.5, np.nextafter(1.0, 0.0), rng.random()]))
        if t + 1 < world.horizon:
            states, odds = world.row(t, at, int(action[0]))
            at = int(states[np.searchsorted(np.cumsum(odds)[:-1], luck, side="right")])
        state = State(t + 1, np.array([luck]), after)


def test_worlds_too_large_to_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_search, "LARGEST_WORLD", 10)
    problem = random_problems(1, 0)[0]
    with pytest.raises(NotApplicableError, match="more than 10 numbers; leave the solver out"):
        SEARCH.solve(problem)


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
        assert best.value == oracle.best_allocation(_Shelf(), sold.states, sold.actions, k).value
        assert found.levels.min() >= 0.0
    assert best.value == found.value == 6.0


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="pass an object such as UCT"):
        TreeSearch(cp.UCT)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="places must be at least 1"):
        TreeSearch(places=0)
    with pytest.raises(InputError, match="seed must be at least 0"):
        TreeSearch(seed=-1)


def test_the_world_of_an_executed_plan_is_a_planning_problem() -> None:
    from counterplan.counterfactual.executed.setting import prepare_allocation

    ship = cp.domains.Bunkering(config="A")
    actions = [[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]]
    episode = cp.Episode(ship.sample_path(seed=5), actions)
    # With a change for every step nothing is ever fined, and rewards stay linear.
    check_model(AllocationWorld(prepare_allocation(Problem(ship, episode, 7))))
