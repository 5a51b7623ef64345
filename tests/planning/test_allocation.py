"""Exact allocations equal independent linear programs and brute force; the paper's rules do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.planning.allocation import (
    AFTER_HIGH,
    AFTER_LOW,
    PATHS_AT_ONCE,
    SHORT,
    allocate_advantage,
    allocate_nested,
    allocate_transport,
    plain_steps,
    refuses_transport,
    total_steps,
)
from counterplan.planning.hindsight import allocate, refusals
from counterplan.planning.model import State
from counterplan.planning.resource import Resource, ResourceProgram

from .programs import best_by_enumeration, programs

EXACT = 1e-9
# By default HiGHS takes numbers for equal that differ by less than 1e-7.
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
LEGS = np.array([12.0, 25, 30, 19, 9, 21, 17])


def program_value(rewards: FloatArray, bounds: FloatArray, prefixes: FloatArray) -> float | None:
    """The optimum under bounds on steps and on prefix sums by a linear program, written down
    independently; None if there is none."""
    lower = np.tril(np.ones((len(rewards), len(rewards))))
    rows, limits = np.vstack([lower, -lower]), np.concatenate([prefixes[:, 1], -prefixes[:, 0]])
    finite = np.isfinite(limits)
    pairs = [(low, None if np.isinf(high) else high) for low, high in bounds]
    solved = linprog(-rewards, A_ub=rows[finite], b_ub=limits[finite], bounds=pairs, options=TIGHT)
    return None if solved.status == 2 else -float(solved.fun)


def total_bounds(T: int, low: float, high: float) -> FloatArray:
    """Bounds on prefixes (T, 2) that say no more than the total."""
    prefixes = np.tile([-np.inf, np.inf], (T, 1))
    prefixes[-1] = low, high
    return prefixes


def nested(rewards: Any, bounds: Any, prefixes: Any) -> tuple[float, FloatArray]:
    steps = plain_steps(np.asarray(bounds, dtype=float))
    steps[:, AFTER_LOW : AFTER_HIGH + 1] = prefixes
    values, actions = allocate_nested(np.atleast_2d(rewards), steps, np.zeros(1))
    return float(values[0]), actions[0]


def knapsack(rewards: Any, bounds: Any, budget: tuple[float, float]) -> tuple[float, FloatArray]:
    steps = total_steps(np.asarray(bounds, dtype=float), *budget)
    values, actions = allocate_nested(np.atleast_2d(rewards), steps, np.zeros(1))
    return float(values[0]), actions[0]


def tank(prices: Any, needs: Any, capacity: float, start: float = 0.0) -> tuple[float, FloatArray]:
    ship = Bunkering(legs=needs, capacity=capacity)
    paths = np.asarray(prices, float)[None, :, None]
    found = ship.allocate(paths, State(0, paths[0, 0], np.array([start])))
    return float(found.values[0]), found.actions[0, :, 0]


def advantage(first: Any, second: Any, quotas: Any, *stocks: float) -> tuple[float, FloatArray]:
    rewards = np.atleast_2d(np.asarray(first, float)), np.atleast_2d(np.asarray(second, float))
    values, actions = allocate_advantage(*rewards, np.asarray(quotas, float), stocks)  # type: ignore[arg-type]
    return float(values[0]), actions[0]


class Steps(NamedTuple):
    """rewards (T,), step bounds (T, 2) and an allocation within them (T,)."""

    rewards: FloatArray
    bounds: FloatArray
    inside: FloatArray


# Few distinct whole numbers make ties; the others make hardly any two rewards alike. None is so
# close to another that a linear program takes it for the same.
REWARDS = st.one_of(st.integers(-3, 3).map(float), st.integers(-9999, 9999).map(lambda i: i / 64))


@st.composite
def bounded_steps(draw: st.DrawFn, longest: int = 9) -> Steps:
    T = draw(st.integers(1, longest))
    rewards = np.array([draw(REWARDS) for _ in range(T)])
    lows = np.array([draw(st.integers(0, 3)) for _ in range(T)], float)
    widths = np.array([draw(st.integers(0, 6)) for _ in range(T)], float)
    parts = np.array([draw(st.integers(0, 4)) / 4 for _ in range(T)])
    return Steps(rewards, np.column_stack([lows, lows + widths]), lows + parts * widths)


def assert_optimal(
    steps: Steps, prefixes: FloatArray, value: float, actions: FloatArray, expected: float | None
) -> None:
    assert expected is not None
    assert value == pytest.approx(expected, rel=EXACT, abs=EXACT)
    assert value == pytest.approx(float(steps.rewards @ actions), rel=EXACT, abs=EXACT)
    sums = np.cumsum(actions)
    assert (actions >= steps.bounds[:, 0] - EXACT).all()
    assert (actions <= steps.bounds[:, 1] + EXACT).all()
    assert (sums >= prefixes[:, 0] - EXACT).all()
    assert (sums <= prefixes[:, 1] + EXACT).all()


@given(bounded_steps(), st.integers(0, 8), st.integers(0, 8))
def test_a_knapsack_equals_the_linear_program(steps: Steps, below: int, above: int) -> None:
    total = steps.inside.sum()
    budget = (max(0.0, total - below / 2), total + above / 2)
    prefixes = total_bounds(len(steps.rewards), *budget)
    expected = program_value(steps.rewards, steps.bounds, prefixes)
    assert_optimal(steps, prefixes, *knapsack(steps.rewards, steps.bounds, budget), expected)
    assert_optimal(steps, prefixes, *nested(steps.rewards, steps.bounds, prefixes), expected)


@given(bounded_steps(), st.data())
def test_nested_bounds_equal_the_linear_program(steps: Steps, data: st.DataObject) -> None:
    """With bounds around an allocation, so that there is one; some of them infinite."""
    slack = st.sampled_from([0.0, 0.5, 1.0, 4.0, np.inf])
    sums = np.cumsum(steps.inside)
    prefixes = np.array([(s - data.draw(slack), s + data.draw(slack)) for s in sums])
    expected = program_value(steps.rewards, steps.bounds, prefixes)
    assert_optimal(steps, prefixes, *nested(steps.rewards, steps.bounds, prefixes), expected)


@given(bounded_steps(longest=6), st.data())
def test_infeasible_bounds_are_found_at_their_step(steps: Steps, data: st.DataObject) -> None:
    T = len(steps.rewards)
    lows = np.array([data.draw(st.integers(0, 20)) for _ in range(T)], dtype=float)
    prefixes = np.column_stack([lows, lows + [data.draw(st.integers(0, 10)) for _ in range(T)]])
    possible = [
        program_value(np.zeros(t + 1), steps.bounds[: t + 1], prefixes[: t + 1]) is not None
        for t in range(T)
    ]
    if all(possible):
        expected = program_value(steps.rewards, steps.bounds, prefixes)
        assert_optimal(steps, prefixes, *nested(steps.rewards, steps.bounds, prefixes), expected)
    else:
        with pytest.raises(InfeasibleError, match=f"step t={possible.index(False)} "):
            nested(steps.rewards, steps.bounds, prefixes)


# Around the limit from which on the kernels sort and search in another way.
@pytest.mark.parametrize("T", [SHORT, SHORT + 1, 4 * SHORT])
def test_long_paths(T: int) -> None:
    rng = np.random.default_rng(T)
    steps = Steps(rng.integers(-40, 50, T).astype(float), np.tile([0.0, 1.0], (T, 1)), np.ones(T))
    total = total_bounds(T, 0.0, T / 3)
    expected = program_value(steps.rewards, steps.bounds, total)
    order = np.argsort(-steps.rewards, kind="stable")
    for value, actions in (
        knapsack(steps.rewards, steps.bounds, (0.0, T / 3)),
        nested(steps.rewards, steps.bounds, total),
    ):
        assert_optimal(steps, total, value, actions, expected)
        assert (np.diff(actions[order]) <= 0).all()
    sums = np.cumsum(rng.random(T))
    prefixes = np.column_stack([sums - rng.random(T) * 4, sums + rng.random(T) * 40])
    expected = program_value(steps.rewards, steps.bounds, prefixes)
    assert_optimal(steps, prefixes, *nested(steps.rewards, steps.bounds, prefixes), expected)


@pytest.mark.parametrize("effect", [-1, 1])
def test_long_paths_that_flow_in_or_out(effect: int) -> None:
    """A basin that spills, a tank that is drained: nested bounds equal the linear program."""
    rng, T = np.random.default_rng(effect + 1), 4 * SHORT
    flow = -effect * rng.integers(0, 3, T)
    program = ResourceProgram(
        (Resource(200, 400, effect, flow, effect < 0),), np.tile([0.0, 2.0], (T, 1))
    )
    rewards = -effect * rng.integers(0, 90, (3, T, 1)).astype(float)
    found, expected = (solved(program, rewards, method) for method in ("nested", "lp"))
    assert found.values == pytest.approx(expected.values, rel=EXACT)
    assert_feasible(program, rewards, found.values, found.actions)


@pytest.mark.parametrize("T", [5, SHORT, SHORT + 1, 4 * SHORT])
def test_rounding_does_not_break_ties(T: int) -> None:
    """Ones that differ in their last digits, as sums of probabilities do: the earlier step comes
    first (D5). A huge penalty makes nothing else equal."""
    rewards = 1.0 + np.random.default_rng(T).integers(-2, 3, T) * np.finfo(float).eps
    assert len(set(rewards)) > 1
    bounds = np.tile([0.0, 4.0], (T, 1))
    penalised = np.linspace(1.0, 2.0, T)
    penalised[0] = -1e15
    for given_rewards, most, first in ((rewards, 10.0, [4, 4, 2]), (penalised, 1.0, [0, 0, 0])):
        _, ranked = knapsack(given_rewards, bounds, (0.0, most))
        _, listed = nested(given_rewards, bounds, np.tile([0.0, most], (T, 1)))
        assert ranked.tolist() == listed.tolist()
        assert ranked[:3].tolist() == first
    assert ranked.argmax() == T - 1


def test_what_does_not_pay_is_spent_only_for_the_least_total() -> None:
    _, actions = knapsack([-1.0, 0.0, 4.0, -3.0], [(0, 3)] * 4, (5, 9))
    assert actions.tolist() == [0, 2, 3, 0]


# --- What the paper's rules miss ----------------------------------------------------------------


def whole_steps_only(rewards: FloatArray, bounds: FloatArray, budget: tuple[float, float]) -> float:
    """Eq. 2.27: k steps at their most, the others at their least, for the best feasible k."""
    order = np.argsort(-rewards, kind="stable")
    best = -np.inf
    for k in range(len(rewards) + 1):
        action = bounds[:, 0].copy()
        action[order[:k]] = bounds[order[:k], 1]
        if budget[0] <= action.sum() <= budget[1]:
            best = max(best, float(rewards @ action))
    return best


def test_whole_steps_are_wrong() -> None:
    """Eq. 2.27 fills k whole steps; here 5 units fit in and it spends 3 of them."""
    rewards, bounds = np.array([4.0, 3.0]), np.array([(0.0, 3.0), (0.0, 3.0)])
    assert whole_steps_only(rewards, bounds, (0, 5)) == 12
    assert knapsack(rewards, bounds, (0, 5))[0] == 18
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(100):
        T = int(rng.integers(2, 8))
        rewards, bounds = rng.random(T), np.column_stack([np.zeros(T), rng.random(T) * 4])
        budget = (0.0, float(rng.random() * bounds[:, 1].sum()))
        exact = knapsack(rewards, bounds, budget)[0]
        expected = program_value(rewards, bounds, total_bounds(T, *budget))
        assert exact == pytest.approx(expected, rel=EXACT, abs=EXACT)
        wrong += whole_steps_only(rewards, bounds, budget) < exact - EXACT
    assert wrong > 25


def shared_value(first: FloatArray, second: FloatArray, quotas: FloatArray, stocks: Any) -> float:
    """By the linear program in both resources, with equalities for the quotas."""
    T = len(quotas)
    solved = linprog(
        -np.r_[first, second],
        A_ub=np.kron(np.eye(2), np.ones(T)),
        b_ub=stocks,
        A_eq=np.hstack([np.eye(T), np.eye(T)]),
        b_eq=quotas,
        options=TIGHT,
    )
    assert solved.status == 0
    return -float(solved.fun)


@given(st.data())
def test_comparative_advantage_equals_the_linear_program(data: st.DataObject) -> None:
    T = data.draw(st.integers(1, 8))
    first, second = (np.array([data.draw(REWARDS) for _ in range(T)]) for _ in range(2))
    quotas = np.array([data.draw(st.integers(0, 5)) for _ in range(T)], dtype=float)
    share, spare = data.draw(st.integers(0, 4)) / 4, data.draw(st.integers(0, 3))
    stocks = np.array([share * quotas.sum() + spare, (1 - share) * quotas.sum()])
    value, actions = advantage(first, second, quotas, *stocks)
    expected = shared_value(first, second, quotas, stocks)
    assert value == pytest.approx(expected, rel=EXACT, abs=EXACT)
    earned = float(first @ actions[:, 0] + second @ actions[:, 1])
    assert value == pytest.approx(earned, rel=EXACT, abs=EXACT)
    assert actions.sum(axis=1) == pytest.approx(quotas, abs=EXACT)
    assert (actions.sum(axis=0) <= stocks + EXACT).all()
    assert (actions >= 0).all()


def ranked_by_reward(
    first: FloatArray, second: FloatArray, quotas: FloatArray, stock: float
) -> float:
    """The first resource where its own reward is highest (Eq. 2.26), the second elsewhere."""
    spent = np.zeros_like(quotas)
    for t in np.argsort(-first, kind="stable"):
        spent[t] = min(quotas[t], stock - spent.sum())
    return float(first @ spent + second @ (quotas - spent))


def test_ranking_by_reward_is_wrong() -> None:
    """One unit of the first: it earns most at t=0, but the second does almost as well there."""
    first, second, quotas = np.array([10.0, 8.0]), np.array([9.0, 1.0]), np.ones(2)
    assert ranked_by_reward(first, second, quotas, 1.0) == 11
    value, actions = advantage(first, second, quotas, 1.0, 1.0)
    assert value == 17
    assert actions.tolist() == [[0, 1], [1, 0]]
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(100):
        T = int(rng.integers(2, 8))
        first, second = rng.random((2, T)) * 10
        exact = advantage(first, second, np.ones(T), T / 2, T / 2)[0]
        expected = shared_value(first, second, np.ones(T), [T / 2, T / 2])
        assert exact == pytest.approx(expected, rel=EXACT, abs=EXACT)
        wrong += ranked_by_reward(first, second, np.ones(T), T / 2) < exact - EXACT
    assert wrong > 25


def test_shared_quotas_that_tie_or_exceed_the_stocks() -> None:
    _, actions = advantage([3.0, 3.0, 3.0], [1.0, 1.0, 1.0], [2, 2, 2], 3.0, 9.0)
    assert actions[:, 0].tolist() == [2, 1, 0]
    with pytest.raises(InfeasibleError, match="up to step t=1 exceed both stocks together, 3"):
        advantage([1.0, 1.0], [1.0, 1.0], [2, 2], 1.0, 2.0)


def tank_value(prices: FloatArray, needs: FloatArray, capacity: float, start: float) -> float:
    """The least cost by the linear program of what is bought up to each stop."""
    before = np.concatenate([[0.0], np.cumsum(needs)[:-1]]) - start
    prefixes = np.column_stack([needs + before, capacity + before])
    value = program_value(-prices, np.tile([0, np.inf], (len(prices), 1)), prefixes)
    assert value is not None
    return -value


@given(st.data())
def test_a_tank_equals_the_linear_program(data: st.DataObject) -> None:
    T = data.draw(st.integers(1, 8))
    whole = st.integers(0, 6).map(float)
    prices, needs = (np.array([data.draw(whole) for _ in range(T)]) for _ in range(2))
    capacity = max(1.0, needs.max()) + data.draw(whole)
    start = data.draw(st.integers(0, 4)) / 4 * capacity
    cost, purchases = tank(prices, needs, capacity, start)
    expected = tank_value(prices, needs, capacity, start)
    assert cost == pytest.approx(expected, rel=EXACT, abs=EXACT)
    after = start + np.cumsum(purchases) - np.concatenate([[0.0], np.cumsum(needs)[:-1]])
    assert (after >= needs - EXACT).all()
    assert (after <= capacity + EXACT).all()


def test_top_k_breaks_the_tank() -> None:
    """Two legs of 30, a tank of 50, prices 10 then 1: Top-K plans 150 by buying all 60 cheaply
    (and what the cheap port cannot hold at the dear one); the truth is 330."""
    top_k, plan = knapsack([-10.0, -1.0], [(0, 50), (0, 50)], (60, 60))
    assert -top_k == 150
    assert plan.tolist() == [10, 50]
    cost, purchases = tank([10.0, 1.0], [30.0, 30.0], 50)
    assert cost == 330
    assert purchases.tolist() == [30, 30]


def test_two_hundred_voyages_equal_the_linear_program() -> None:
    times = np.arange(7) / 7
    noise = np.random.default_rng(8).standard_normal((200, 7))
    prices = 1000 * np.exp((1 - 0.9**2 / 2) * times + 0.9 * np.sqrt(times) * noise)
    starts = np.linspace(0.0, 50.0, 200)
    for path, start in zip(prices, starts, strict=True):
        cost, _ = tank(path, LEGS, 50, start)
        assert cost == pytest.approx(tank_value(path, LEGS, 50, start), rel=EXACT)


# --- Random resource programs: every solver equals brute force by the definition ----------------


@dataclass(frozen=True)
class Fixed:
    """A model with given rewards: x_t holds them."""

    program: ResourceProgram
    sense: str = "max"

    @property
    def start(self) -> State:
        return State(0, np.zeros(len(self.program.resources)), self.program.start)

    def unit_rewards(self, t: int, paths: FloatArray) -> FloatArray:
        return paths if self.sense == "max" else -paths


def solved(program: ResourceProgram, rewards: FloatArray, *question: Any) -> Any:
    return allocate(Fixed(program), rewards, *question)  # type: ignore[arg-type]


def random_rewards(data: st.DataObject, program: ResourceProgram, n: int = 3) -> FloatArray:
    shape = (n, program.horizon, len(program.resources))
    size = int(np.prod(shape))
    numbers = data.draw(st.lists(st.integers(-3, 4), min_size=size, max_size=size))
    rewards = np.array(numbers, dtype=float).reshape(shape)
    # What is paid for filling a tank that spills over is no linear program: refused, see below.
    return -np.abs(rewards) if refuses_transport(program) else rewards


@given(programs(), st.data())
def test_every_solver_equals_brute_force(
    program: ResourceProgram | InfeasibleError, data: st.DataObject
) -> None:
    if isinstance(program, InfeasibleError):
        assert "t=" in str(program)
        return
    rewards = random_rewards(data, program)
    expected = [best_by_enumeration(program, one) for one in rewards]
    refused = refusals(program, Fixed(program).start)
    for method, refusal in refused.items():
        if refusal is not None:
            with pytest.raises(NotApplicableError, match=f"method '{method}' does not apply"):
                solved(program, rewards, method)
            continue
        found = solved(program, rewards, method)
        assert found.method.startswith(f"{method}: ")
        assert found.values == pytest.approx(expected, abs=EXACT), method
        assert_feasible(program, rewards, found.values, found.actions)
    assert None in refused.values()
    if refused["lp"] is None:
        proved = allocate_transport(rewards, program)
        assert proved.bounds == pytest.approx(proved.values, abs=EXACT)


def assert_feasible(
    program: ResourceProgram, rewards: FloatArray, values: FloatArray, actions: FloatArray
) -> None:
    """Within all bounds, and worth what is said."""
    A = len(program.resources)
    resource = np.repeat(program.start[None], len(values), axis=0)
    for t in range(program.horizon):
        low, high = program.spendable(t, resource)
        totals = actions[:, t].sum(axis=1)
        assert (totals >= low - EXACT).all()
        assert (totals <= high + EXACT).all()
        if program.resources[0].effect < 0:
            assert (actions[:, t] <= resource[:, :A] + EXACT).all()
        resource = program.levels_after(t, resource, actions[:, t])
    assert (actions >= -EXACT).all()
    assert (rewards * actions).sum(axis=(1, 2)) == pytest.approx(values, abs=EXACT)


def test_more_paths_than_one_program_holds() -> None:
    program = ResourceProgram((Resource(3), Resource(2)), np.tile([0.0, 2.0], (4, 1)))
    rewards = np.random.default_rng(9).normal(size=(2 * PATHS_AT_ONCE + 5, 4, 2))
    found = allocate_transport(rewards, program)
    alone = [allocate_transport(one[None], program).values[0] for one in rewards[::40]]
    assert found.values[::40] == pytest.approx(alone, abs=EXACT)


def test_from_a_later_state() -> None:
    """The budget left and the level there count."""
    program = ResourceProgram((Resource(6),), np.tile([0.0, 3.0], (4, 1)), (2.0, 5.0))
    state = State(2, np.zeros(1), np.array([3.0, 3.0]))
    for method in ("nested", "lp"):
        found = solved(program, np.array([[[5.0], [4.0]]]), method, state)
        assert found.values[0] == pytest.approx(10.0, rel=EXACT)
        assert found.actions[0].ravel() == pytest.approx([2, 0])


def test_filling_a_tank_that_spills_for_pay_is_refused() -> None:
    program = ResourceProgram((Resource(0, 2, +1, 1, True),), np.tile([0.0, 2.0], (3, 1)))
    with pytest.raises(NotApplicableError, match="pays although it spills over"):
        solved(program, np.ones((1, 3, 1)))
    with pytest.raises(NotApplicableError, match=r"to make room for more$"):
        allocate_transport(np.ones((1, 3, 1)), program)


@pytest.mark.parametrize(
    ("method", "words"), [("lp", "no allocation meets all bounds"), ("nested", "step t=0")]
)
def test_an_impossible_state_is_refused(method: str, words: str) -> None:
    program = ResourceProgram((Resource(9),), np.tile([2.0, 3.0], (3, 1)))
    with pytest.raises(InfeasibleError, match=words):
        solved(program, np.ones((1, 2, 1)), method, State(1, np.zeros(1), np.zeros(1)))
