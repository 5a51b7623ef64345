"""The fractional knapsack equals the linear program; a choice of k full steps does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.allocation import SHORT_SORT, allocate_knapsack

from .support import EXACT, Floats, Steps, best_value, bounded_steps, close


def program_value(rewards: Floats, bounds: Floats, budget: tuple[float, float]) -> float:
    rows = np.vstack([np.ones(len(rewards)), -np.ones(len(rewards))])
    value = best_value(rewards, rows, np.array([budget[1], -budget[0]]), bounds)
    assert value is not None
    return value


@given(bounded_steps(), st.integers(0, 8), st.integers(0, 8))
def test_equals_the_linear_program(steps: Steps, below: int, above: int) -> None:
    total = steps.inside.sum()
    budget = (max(0.0, total - below / 2), total + above / 2)
    values, actions = allocate_knapsack(steps.rewards, steps.bounds, budget)
    assert close(values[0], program_value(steps.rewards, steps.bounds, budget))
    assert close(values[0], float(steps.rewards @ actions[0]))
    assert (actions[0] >= steps.bounds[:, 0]).all()
    assert (actions[0] <= steps.bounds[:, 1] + EXACT).all()
    assert budget[0] - EXACT <= actions[0].sum() <= budget[1] + EXACT


def test_many_paths_at_once_equal_one_at_a_time() -> None:
    rng = np.random.default_rng(1)
    rewards, bounds = rng.normal(size=(50, 7)), np.tile([0.5, 2.0], (7, 1))
    values, actions = allocate_knapsack(rewards, bounds, (4.0, 7.3))
    for i in range(50):
        value, action = allocate_knapsack(rewards[i], bounds, (4.0, 7.3))
        assert value[0] == values[i]
        assert (action[0] == actions[i]).all()


@pytest.mark.parametrize("T", [SHORT_SORT, SHORT_SORT + 1, 4 * SHORT_SORT])
def test_long_paths_are_ranked_alike(T: int) -> None:
    rewards = np.random.default_rng(2).integers(-4, 5, T).astype(float)
    bounds = np.tile([0.0, 1.0], (T, 1))
    values, actions = allocate_knapsack(rewards, bounds, (0.0, T / 3))
    assert close(values[0], program_value(rewards, bounds, (0.0, T / 3)))
    order = np.argsort(-rewards, kind="stable")
    assert (np.diff(actions[0][order]) <= 0).all()


def test_ties_go_to_the_earlier_step() -> None:
    _, actions = allocate_knapsack([2.0, 5.0, 2.0, 2.0], [(0, 3)] * 4, (0, 7))
    assert actions[0].tolist() == [3, 3, 1, 0]


def test_what_does_not_pay_is_spent_only_for_the_least_total() -> None:
    _, actions = allocate_knapsack([-1.0, 0.0, 4.0, -3.0], [(0, 3)] * 4, (5, 9))
    assert actions[0].tolist() == [0, 2, 3, 0]


def whole_steps_only(rewards: Floats, bounds: Floats, budget: tuple[float, float]) -> float:
    """Eq. 2.27: k steps at their most, the others at their least, for the best feasible k."""
    order = np.argsort(-rewards, kind="stable")
    best = -np.inf
    for k in range(len(rewards) + 1):
        action = bounds[:, 0].copy()
        action[order[:k]] = bounds[order[:k], 1]
        if budget[0] <= action.sum() <= budget[1]:
            best = max(best, float(rewards @ action))
    return best


def test_the_last_step_is_fractional() -> None:
    """Eq. 2.27 fills k whole steps; here 5 units fit in and it spends 3 of them."""
    rewards, bounds = np.array([4.0, 3.0]), np.array([(0.0, 3.0), (0.0, 3.0)])
    assert whole_steps_only(rewards, bounds, (0, 5)) == 12
    assert allocate_knapsack(rewards, bounds, (0, 5))[0][0] == 18


def test_whole_steps_are_wrong_on_many_random_instances() -> None:
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(100):
        T = int(rng.integers(2, 8))
        rewards, bounds = rng.random(T), np.column_stack([np.zeros(T), rng.random(T) * 4])
        budget = (0.0, float(rng.random() * bounds[:, 1].sum()))
        exact = allocate_knapsack(rewards, bounds, budget)[0][0]
        assert close(exact, program_value(rewards, bounds, budget))
        wrong += whole_steps_only(rewards, bounds, budget) < exact - EXACT
    assert wrong > 25


def test_no_integral_choice_is_better() -> None:
    """Brute force over whole units."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        rewards = rng.integers(-3, 6, 4).astype(float)
        choices = [c for c in itertools.product(range(3), repeat=4) if 2 <= sum(c) <= 5]
        best = max(float(rewards @ c) for c in choices)
        assert allocate_knapsack(rewards, [(0, 2)] * 4, (2, 5))[0][0] == best


@pytest.mark.parametrize(
    ("bounds", "budget", "kind", "words"),
    [
        ([(2, 1)], (0, 5), InfeasibleError, "step bounds at t=0 are 2 to 1"),
        ([(0, 1)], (2, 5), InfeasibleError, "spend 0 to 1, the budget is 2 to 5"),
        ([(3, 4)], (0, 2), InfeasibleError, "spend 3 to 4, the budget is 0 to 2"),
        ([(0, 1)], (3, 2), InputError, "budget must be"),
        ([(0, np.inf)], (0, np.inf), InputError, "has an upper bound"),
        ([(0, 1), (0, 1)], (0, 1), InputError, r"step bounds must be \(1, 2\)"),
    ],
)
def test_bad_bounds(
    bounds: list[tuple[float, float]], budget: tuple[float, float], kind: type, words: str
) -> None:
    with pytest.raises(kind, match=words):
        allocate_knapsack([[1.0]], bounds, budget)


def test_bad_rewards() -> None:
    with pytest.raises(InputError, match="rewards of path 1 at t=0 is nan"):
        allocate_knapsack([[1.0], [np.nan]], [(0, 1)], (0, 1))
    with pytest.raises(InputError, match="at least one step"):
        allocate_knapsack(np.empty((3, 0)), np.empty((0, 2)), (0, 1))
