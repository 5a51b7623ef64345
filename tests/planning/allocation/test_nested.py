"""Nested cumulative bounds equal the linear program; Top-K breaks them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.allocation import (
    SHORT_LIST,
    SOLVED,
    _heap_path,
    allocate_knapsack,
    allocate_nested,
    allocate_tank,
    nested_path,
)

from .support import EXACT, Floats, Steps, best_value, bounded_steps, close, prefix_value

LEGS = np.array([12.0, 25, 30, 19, 9, 21, 17])


@given(bounded_steps(), st.data())
def test_equals_the_linear_program(steps: Steps, data: st.DataObject) -> None:
    """With bounds around an allocation, so that there is one; some of them infinite."""
    slack = st.sampled_from([0.0, 0.5, 1.0, 4.0, np.inf])
    sums = np.cumsum(steps.inside)
    prefixes = np.array([(s - data.draw(slack), s + data.draw(slack)) for s in sums])
    values, actions = allocate_nested(steps.rewards, steps.bounds, prefixes)
    expected = prefix_value(steps.rewards, steps.bounds, prefixes)
    assert expected is not None
    assert close(values[0], expected)
    assert close(values[0], float(steps.rewards @ actions[0]))
    assert (actions[0] >= steps.bounds[:, 0] - EXACT).all()
    assert (actions[0] <= steps.bounds[:, 1] + EXACT).all()
    assert (np.cumsum(actions[0]) >= prefixes[:, 0] - EXACT).all()
    assert (np.cumsum(actions[0]) <= prefixes[:, 1] + EXACT).all()


@given(bounded_steps(longest=6), st.data())
def test_infeasible_bounds_are_found_at_their_step(steps: Steps, data: st.DataObject) -> None:
    T = len(steps.rewards)
    lows = np.array([data.draw(st.integers(0, 20)) for _ in range(T)], dtype=float)
    prefixes = np.column_stack([lows, lows + [data.draw(st.integers(0, 10)) for _ in range(T)]])
    possible = [
        prefix_value(np.zeros(t + 1), steps.bounds[: t + 1], prefixes[: t + 1]) is not None
        for t in range(T)
    ]
    if all(possible):
        values, _ = allocate_nested(steps.rewards, steps.bounds, prefixes)
        expected = prefix_value(steps.rewards, steps.bounds, prefixes)
        assert expected is not None
        assert close(values[0], expected)
    else:
        with pytest.raises(InfeasibleError, match=f"step t={possible.index(False)} "):
            allocate_nested(steps.rewards, steps.bounds, prefixes)


def test_one_bound_on_the_total_is_a_knapsack() -> None:
    rng = np.random.default_rng(6)
    rewards, steps = rng.integers(-3, 4, (40, 6)).astype(float), np.tile([0.5, 2.0], (6, 1))
    prefixes = np.tile([-np.inf, np.inf], (6, 1))
    prefixes[-1] = 4.0, 7.5
    nested, knapsack = (
        allocate_nested(rewards, steps, prefixes),
        allocate_knapsack(rewards, steps, (4.0, 7.5)),
    )
    assert nested[0] == pytest.approx(knapsack[0], abs=EXACT)
    assert nested[1] == pytest.approx(knapsack[1], abs=EXACT)


def test_long_paths() -> None:
    rng = np.random.default_rng(7)
    T = SHORT_LIST + 50
    rewards = rng.integers(-9, 10, T).astype(float)
    inside = rng.random(T) * 3
    steps = np.column_stack([np.zeros(T), np.full(T, 3.0)])
    sums = np.cumsum(inside)
    prefixes = np.column_stack([sums - rng.random(T) * 4, sums + rng.random(T) * 4])
    expected = prefix_value(rewards, steps, prefixes)
    assert expected is not None
    assert close(allocate_nested(rewards, steps, prefixes)[0][0], expected)


@given(st.data())
def test_heaps_and_list_are_the_same_pass(data: st.DataObject) -> None:
    """With shifts and spilling, feasible or not; the list is what brute force is compared with."""
    T = data.draw(st.integers(1, 9))

    def whole(low: int, high: int) -> Floats:
        return np.array([data.draw(st.integers(low, high)) for _ in range(T)], dtype=float)

    rewards, low, after_low, shift = whole(-3, 3), whole(0, 2), whole(-4, 4), whole(-3, 3)
    after_high = after_low + whole(0, 6)
    spill_low, spill_high = data.draw(
        st.sampled_from([(-np.inf, np.inf), (-2.0, np.inf), (-np.inf, 2.0)])
    )
    spills = np.full(T, spill_low), np.full(T, spill_high)
    steps = np.column_stack([low, low + whole(0, 4), after_low, after_high, shift, *spills])
    results = []
    for solve, queue in ((_heap_path, np.empty((2, T), int)), (nested_path, np.empty((2, T), int))):
        spent = np.zeros(T)
        value, status = solve(rewards, steps, 0.0, np.empty(T), queue, spent)
        results.append((value, status, spent.tolist() if status == SOLVED else None))
    assert results[0] == results[1]


# --- A tank -----------------------------------------------------------------------------------


def tank_program(prices: Floats, needs: Floats, capacity: float, start: float) -> float:
    """The least cost by a linear program in levels, written down independently."""
    T = len(prices)
    before = np.concatenate([[0.0], np.cumsum(needs)[:-1]])
    bought = np.tril(np.ones((T, T)))
    limits = np.concatenate([capacity - start + before, -(needs + before - start)])
    value = best_value(-prices, np.vstack([bought, -bought]), limits, np.tile([0, np.inf], (T, 1)))
    assert value is not None
    return -value


@given(st.data())
def test_a_tank_equals_the_linear_program(data: st.DataObject) -> None:
    T = data.draw(st.integers(1, 8))
    whole = st.integers(0, 6).map(float)
    prices = np.array([data.draw(whole) for _ in range(T)])
    needs = np.array([data.draw(whole) for _ in range(T)])
    capacity = max(1.0, needs.max()) + data.draw(whole)
    start = data.draw(st.integers(0, 4)) / 4 * capacity
    costs, purchases = allocate_tank(prices, needs, capacity, start)
    assert close(costs[0], tank_program(prices, needs, capacity, start))
    after = start + np.cumsum(purchases[0]) - np.concatenate([[0.0], np.cumsum(needs)[:-1]])
    assert (after >= needs - EXACT).all()
    assert (after <= capacity + EXACT).all()


def test_top_k_breaks_the_tank() -> None:
    """Two legs of 30, a tank of 50, prices 10 then 1: Top-K plans 150 by buying all 60 cheaply
    (and what the cheap port cannot hold at the dear one); the truth is 330."""
    prices, needs = [10.0, 1.0], [30.0, 30.0]
    # Top-K sees a budget of 60 in steps of at most 50.
    top_k, plan = allocate_knapsack(-np.array(prices), [(0, 50), (0, 50)], (60, 60))
    assert -top_k[0] == 150
    assert plan[0].tolist() == [10, 50]
    costs, purchases = allocate_tank(prices, needs, 50)
    assert costs[0] == 330
    assert purchases[0].tolist() == [30, 30]


def test_two_hundred_voyages_equal_the_linear_program() -> None:
    rng = np.random.default_rng(8)
    times = np.arange(7) / 7
    noise = rng.standard_normal((200, 7))
    prices = 1000 * np.exp((1 - 0.9**2 / 2) * times + 0.9 * np.sqrt(times) * noise)
    costs, _ = allocate_tank(prices, LEGS, 50)
    expected = [tank_program(path, LEGS, 50, 0) for path in prices]
    assert costs == pytest.approx(expected, rel=EXACT)


def test_expected_prices_of_the_note() -> None:
    """Bunkering A: the plan for the expected prices."""
    costs, purchases = allocate_tank(1000 * np.exp(np.arange(7) / 7), LEGS, 50)
    assert costs[0] == pytest.approx(171_495, abs=1)
    assert purchases[0].tolist() == [50, 12, 25, 30, 16, 0, 0]


def test_each_path_may_start_elsewhere() -> None:
    prices = np.tile([3.0, 2.0, 1.0], (3, 1))
    costs, _ = allocate_tank(prices, [4, 4, 4], 10, [0.0, 4.0, 10.0])
    assert costs.tolist() == [24, 12, 2]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (([1.0, 1.0], [30, 60], 50), InfeasibleError, "leg t=1 needs 60, but the capacity is 50"),
        (([1.0, 1.0], [30, -1], 50), InfeasibleError, "leg t=1 needs -1"),
        (([1.0, 1.0], [30], 50), InputError, "needs must have 2 numbers"),
        (([1.0, 1.0], [30, 30], 50, 51.0), InputError, "start level must lie between 0 and"),
        (([1.0, np.inf], [30, 30], 50), InputError, "prices of path 0 at t=1 is inf"),
    ],
)
def test_bad_tanks(arguments: tuple[object, ...], kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        allocate_tank(*arguments)  # type: ignore[arg-type]


def test_steps_need_an_upper_bound() -> None:
    with pytest.raises(InputError, match="step t=1 has no upper bound"):
        allocate_nested([1.0, 1.0], [(0, 1), (0, np.inf)], [(0, 9), (0, np.inf)])
