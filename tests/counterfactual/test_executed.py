"""Executed plans explained: exact against brute force, limits, constraints, and bad questions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import BudgetAllocation, BudgetDP
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning import State
from counterplan.planning.evaluate import carried_out
from counterplan.planning.policies import played
from counterplan.testing import check_solver, random_allocation_problems

SHIP = cp.domains.Bunkering(config="A")
PATH = SHIP.sample_path(seed=5)
BOUGHT = np.array([[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]])
VOYAGE = cp.Episode(PATH, BOUGHT)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equal_to_brute_force(seed: int) -> None:
    check_solver(BudgetAllocation(), random_allocation_problems(3, seed))


def test_levels_may_be_stated() -> None:
    levels = np.array([0.0, 38.0, 25.0, 20.0, 31.0, 38.0, 17.0])[:, None]
    stated = cp.Episode(np.hstack([PATH, levels]), BOUGHT)
    for k in (2, None):
        assert cp.explain(SHIP, stated, k).value == cp.explain(SHIP, VOYAGE, k).value
    wrong = np.hstack([PATH, levels])
    wrong[3, 1] = 21.0
    with pytest.raises(InputError, match=r"lead to \[20.0\] at step 3, but the states say"):
        cp.explain(SHIP, cp.Episode(wrong, BOUGHT), 1)


def test_a_plan_may_begin_later() -> None:
    """What is left of a voyage, from the third port on with 25 in the tank."""
    states = np.hstack([PATH, [[0.0], [38.0], [25.0], [20.0], [31.0], [38.0], [17.0]]])
    late = cp.explain(SHIP, cp.Episode(states[2:], BOUGHT[2:]), k=None)
    known = cp.regret(SHIP, PATH[2:], BOUGHT[2:], state=State(2, PATH[2], np.array([25.0])))
    assert late.value == pytest.approx(known.hindsight, rel=1e-9)
    with pytest.raises(InputError, match="one that begins later needs its levels, too"):
        cp.explain(SHIP, cp.Episode(PATH[2:], BOUGHT[2:]), 1)


def test_constraints() -> None:
    free = cp.explain(SHIP, VOYAGE, 2)
    assert [change.t for change in free.changes] == [0, 2]
    fixed = cp.explain(SHIP, VOYAGE, 2, constraints=cp.Constraints(fixed_steps=[0, -1]))
    assert 0.0 < fixed.improvement < free.improvement
    assert not {0, 6} & {change.t for change in fixed.changes}
    near = cp.explain(SHIP, VOYAGE, 2, constraints=cp.Constraints(max_move=10.0))
    assert 0.0 < near.improvement < free.improvement
    assert np.abs(near.actions - BOUGHT).max() == pytest.approx(10.0)
    with pytest.raises(InputError, match="change_costs names actions by number"):
        cp.explain(SHIP, VOYAGE, 2, constraints=cp.Constraints(change_costs=[1, 2]))


def test_limits_leave_a_certified_gap() -> None:
    """Stopped after the first relaxation, it knows a bound that the optimum keeps."""
    best = cp.explain(SHIP, VOYAGE, 3)
    stopped = cp.explain(SHIP, VOYAGE, 3, limits=cp.Limits(nodes=1))
    assert stopped.status == "limit"
    assert stopped.bound <= best.value <= stopped.value  # costs
    assert stopped.gap == pytest.approx(stopped.value - stopped.bound)
    rough = cp.explain(SHIP, VOYAGE, 3, limits=cp.Limits(gap=1e6))
    assert best.value <= rough.value <= best.value + 1e6
    car = cp.domains.HybridVehicle("A")
    path = car.sample_path(seed=0)
    best = cp.hindsight(car, path)
    used = cp.policies.OpenLoop().prepare(car)
    drive = cp.Episode(path, played(car, used, path, car.start).actions)
    late = cp.explain(car, drive, 3, limits=cp.Limits(seconds=1e-9))
    assert (late.status, late.bound, late.changes) == ("limit", best.value, ())
    assert late.gap > 0.0
    known = cp.explain(car, cp.Episode(path, best.actions), 3, limits=cp.Limits(seconds=1e-9))
    assert (known.status, known.changes) == ("optimal", ())


def test_without_a_budget_nothing_changes_for_nothing() -> None:
    """Another hindsight of the same value is no reason for a change."""
    car = cp.domains.HybridVehicle("A")
    path = car.sample_path(seed=1)
    best = cp.hindsight(car, path)
    swapped = _swapped(car, path, best.actions)
    assert not np.array_equal(swapped, best.actions)
    found = cp.explain(car, cp.Episode(path, swapped), None)
    assert (found.improvement, found.changes, found.status) == (0.0, (), "optimal")


def _swapped(problem: Any, path: Any, actions: Any) -> Any:
    """The decisions with those of two steps exchanged, so that nothing is lost."""
    for one, other in itertools.combinations(range(len(path)), 2):
        swapped = actions.copy()
        swapped[[one, other]] = swapped[[other, one]]
        if (swapped == actions).all():
            continue
        try:
            done = carried_out(problem, path, swapped, problem.start)
        except InfeasibleError:
            continue
        if done.value == carried_out(problem, path, actions, problem.start).value:
            return swapped
    return actions


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (PATH[:, [0, 0, 0]], BOUGHT, "7 states of 3 numbers"),
        (PATH, BOUGHT[:-1], "6 actions"),
        ([0, 1, 2], [0, 0, 0], "a Bunkering is a planning problem, but the episode has discrete"),
        (PATH, BOUGHT[:, [0, 0]], r"the actions must be \(7, 1\)"),
    ],
)
def test_episodes_that_do_not_fit(states: Any, actions: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cp.explain(SHIP, cp.Episode(states, actions), 1)


def test_a_problem_that_lacks_a_method_is_told_which_it_needs() -> None:
    class Half:
        horizon = 7
        sense = "min"
        start = SHIP.start

    with pytest.raises(InputError, match="a planning problem with horizon, sense, start, draw"):
        cp.explain(Half(), VOYAGE, 1)


def test_what_was_not_possible_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="buying 60 at port t=0"):
        cp.explain(SHIP, cp.Episode(PATH, BOUGHT + 10.0), 1)
    with pytest.raises(InputError, match="reward= is for continuous states: a planning problem"):
        cp.explain(SHIP, VOYAGE, 1, reward=cp.LinearReward([1.0]))


def test_solvers_of_other_problems_refuse() -> None:
    mdp = cp.TabularMDP([[[1.0]]], [[0.0]])
    with pytest.raises(NotApplicableError, match="a TabularMDP is no planning problem"):
        cp.explain(mdp, cp.Episode([0], [0]), 1, solver=BudgetAllocation())
    for solver in (BudgetDP(), cp.AStar(), cp.baselines.Greedy()):
        with pytest.raises(NotApplicableError, match="a Bunkering "):
            cp.explain(SHIP, VOYAGE, 1, solver=solver)


def test_what_no_method_solves_says_so() -> None:
    cistern = cp.ExogenousMDP(
        cp.processes.GBM(5.0, 0.0, 1.0, 1.0),
        [[1.0]],
        cp.Resource(0.0, 6.0, +1, [3, -4, 2], spill=True),
        [(0.0, 6.0)] * 3,
        sense="min",
    )
    episode = cp.Episode([[5.0], [4.0], [6.0]], [[1.0], [1.0], [0.0]])
    with pytest.raises(NotApplicableError, match=r"no exact method applies: .*; set spill=False"):
        cp.explain(cistern, episode, 1)


@pytest.mark.parametrize("seed", range(4))
def test_what_spills_over_against_every_whole_amount(seed: int) -> None:
    """A basin that rain fills: bounds are whole numbers, so the best amounts are, too."""
    rng = np.random.default_rng(seed)
    basin = cp.ExogenousMDP(
        cp.processes.GBM(5.0, 0.0, 1.0, 1.0),
        [[1.0]],
        cp.Resource(2.0, 4.0, -1, 2.0, spill=True),
        [(0.0, 3.0)] * 4,
    )
    path = rng.uniform(1.0, 9.0, size=(4, 1))
    done = np.array([[0.0], [1.0], [2.0], [1.0]])
    best = [-math.inf] * 5
    for amounts in itertools.product(range(4), repeat=4):
        actions = np.array(amounts, dtype=np.float64)[:, None]
        try:
            value = carried_out(basin, path, actions, basin.start).value
        except InfeasibleError:
            continue
        changed = int((actions != done).sum())
        best[changed:] = [max(one, value) for one in best[changed:]]
    front = cp.frontier(basin, cp.Episode(path, done), 4)
    assert front.values == pytest.approx(best, rel=1e-9)
    assert best[1] > best[0]
