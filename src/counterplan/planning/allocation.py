"""How to spend resources along a known path: exact allocations, one compiled pass for each kind.

    max  sum_t r_t a_t    s.t.    low_t <= a_t <= high_t    and one of

    knapsack   L <= sum_t a_t <= U                           (Lemmas 2.1 and 2.2)
    nested     L_t <= a_0 + ... + a_t <= U_t  at every t     (tanks, batteries, stocks)
    advantage  two resources that share a fixed quota: a1_t + a2_t = q_t, each with a stock
    transport  any mix of resources, bounds and spilling: a linear program

Knapsack: start from the lower bounds and fill the steps in the order of their reward per unit, each
to its upper bound, until the total is used up: the last step filled is *fractional* in general,
which Eq. 2.27, a choice of k full steps, leaves out. What does not pay is filled only as far as L
requires. O(T log T).

Nested (the corrected Lemma 2.2: Top-K breaks such bounds): let V_t(y) be the most reward from the
first t steps that leaves the position y, what the resource has moved so far. It is concave and
piecewise linear, a list of segments sorted by slope:

    step t      y -> y + a, low <= a <= high    V becomes its sup-convolution with a segment of
                                                slope r_t and length high - low: insert it
    bounds      after_low <= y <= after_high    cut the list at both ends

What is cut at the left (the best slopes) can no longer be avoided: those units are spent at their
steps. What is cut at the right (the worst) can no longer be had. What is left after the last step
is spent where it pays. So every unit carries its own step, the optimal actions come with the value,
and each unit enters and leaves once: O(T log T) with one heap for either end; while the list is
short, keeping it sorted is faster. The greedy of the gas-station problem (buy just enough to reach
the next cheaper port, else fill up) is the case of a tank.

After the bounds the position shifts, and what then exceeds a tank may spill over. At the left end
(a resource that is consumed) a unit that would spill is used if that pays, else lost: exact, since
having more never hurts. At the right end (a resource that is bought) a unit bought only to spill is
not bought; exact while buying costs something, and reported where it does not.

Advantage: with a2 = q - a1 the objective is sum_t f2_t q_t + sum_t (f1_t - f2_t) a1_t, a knapsack
in a1 with steps in [0, q_t] and a total in [Q - c2, c1], Q = sum_t q_t. So steps are ranked by the
*advantage* f1 - f2 of the first resource; ranking by f1 itself, as Eq. 2.26 suggests, is wrong.

Everywhere rewards that are equal but for rounding go to the earlier step (D5): expected rewards are
sums of products, so what is equal on paper differs in its last digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.compiled import njit
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.model import State
from counterplan.planning.resource import ResourceProgram

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Rewards that differ by less than this share of themselves are equal.
CLOSE = 1e-12
# Up to this many steps, insertion beats the general sort, and a sorted list two heaps.
SHORT_SORT, SHORT_LIST = 64, 256
# What sums of bounds may miss each other by.
SLACK = 1e-9
# Levels that were added up may miss the capacity by rounding.
ROUNDING = 1e-12
# Why some problems with spilling have no exact allocation.
NO_METHOD = (
    "adding to the resource pays although it spills over, so the best allocation is not concave; "
    "let adding cost something, or set spill=False (planning needs no hindsight)"
)


def reward_table(values: ArrayLike, name: str) -> FloatArray:
    """(n, T) finite numbers; one path (T,) is taken as (1, T)."""
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if table.ndim != 2 or table.shape[1] == 0:
        raise InputError(f"{name} must be (paths, steps) with at least one step: {table.shape}")
    if not np.isfinite(table).all():
        i, t = (int(k) for k in np.argwhere(~np.isfinite(table))[0])
        raise InputError(f"{name} of path {i} at t={t} is {table[i, t]}: must be finite")
    return np.ascontiguousarray(table)


def bound_pairs(bounds: ArrayLike, T: int, name: str) -> FloatArray:
    """(T, 2) least and most."""
    pairs = np.asarray(bounds, dtype=np.float64)
    if pairs.shape != (T, 2):
        raise InputError(f"{name} must be ({T}, 2): least and most per step, got {pairs.shape}")
    bad = np.flatnonzero(~(pairs[:, 0] <= pairs[:, 1]))
    if bad.size:
        t = int(bad[0])
        raise InfeasibleError(
            f"{name} at t={t} are {pairs[t, 0]:g} to {pairs[t, 1]:g}: the least must not exceed "
            "the most"
        )
    return np.ascontiguousarray(pairs)


@njit(cache=True, nogil=True, inline="always")
def exceeds(one, other):  # type: ignore[no-untyped-def]
    """Whether a reward is larger than another, by more than rounding."""
    return one - other > CLOSE * abs(one)


@njit(cache=True, nogil=True)
def settled(rewards):  # type: ignore[no-untyped-def]
    """The rewards (T,), those that are equal but for rounding made equal."""
    order = np.argsort(-rewards)
    same = rewards.copy()
    for i in range(1, rewards.shape[0]):
        above = same[order[i - 1]]
        if not exceeds(above, rewards[order[i]]):
            same[order[i]] = above
    return same


# --- Knapsack and comparative advantage ---------------------------------------------------------


@njit(cache=True, nogil=True)
def rank_steps(rewards, order):  # type: ignore[no-untyped-def]
    """Write the steps to `order` (T,), best first; those that are equal but for rounding in time
    order (D5)."""
    T = rewards.shape[0]
    if T > SHORT_SORT:
        order[:] = np.argsort(-settled(rewards), kind="mergesort")
        return
    for t in range(T):
        place = t
        while place > 0 and exceeds(rewards[t], rewards[order[place - 1]]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = t


@njit(cache=True, nogil=True)
def knapsack_path(rewards, bounds, budget, order, spent):  # type: ignore[no-untyped-def]
    """The best actions along one path, written to `spent` (T,); their value.

    rewards  (T,) per unit
    bounds   (T, 2) of the steps
    budget   (2,) of the total
    order    (T,) work space
    """
    T = rewards.shape[0]
    rank_steps(rewards, order)
    total = 0.0
    for t in range(T):
        spent[t] = bounds[t, 0]
        total += bounds[t, 0]
    for i in range(T):
        t = order[i]
        # What does not pay is spent only to reach the least total.
        room = (budget[1] if rewards[t] > 0.0 else budget[0]) - total
        part = min(bounds[t, 1] - bounds[t, 0], room)
        if part > 0.0:
            spent[t] += part
            total += part
    value = 0.0
    for t in range(T):
        value += rewards[t] * spent[t]
    return value


@njit(cache=True, nogil=True)
def knapsack_paths(rewards, bounds, budget):  # type: ignore[no-untyped-def]
    """Values (n,) and actions (n, T) for rewards (n, T)."""
    n, T = rewards.shape
    values, actions = np.empty(n), np.empty((n, T))
    order = np.empty(T, dtype=np.int64)
    for i in range(n):
        values[i] = knapsack_path(rewards[i], bounds, budget, order, actions[i])
    return values, actions


def allocate_knapsack(
    rewards: ArrayLike, step_bounds: ArrayLike, budget: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T) for rewards (n, T) per unit.

    step_bounds  (T, 2) least and most of each step
    budget       least and most of the total
    """
    table = reward_table(rewards, "rewards")
    bounds = bound_pairs(step_bounds, table.shape[1], "step bounds")
    limits = np.asarray(budget, dtype=np.float64)
    if limits.shape != (2,) or not limits[0] <= limits[1]:
        raise InputError(f"budget must be (least, most) in total, got {budget!r}")
    least, most = bounds.sum(axis=0)
    slack = SLACK * (1.0 + abs(least))
    if least > limits[1] + slack or most < limits[0] - slack:
        raise InfeasibleError(
            f"the steps together spend {least:g} to {most:g}, the budget is {limits[0]:g} to "
            f"{limits[1]:g}: they do not meet; widen one of them"
        )
    if np.isinf(bounds[:, 1]).any() and np.isinf(limits[1]):
        raise InputError("neither every step nor the budget has an upper bound: give one")
    values, actions = knapsack_paths(table, bounds, limits)
    return values, actions


def allocate_advantage(
    first: ArrayLike, second: ArrayLike, quotas: ArrayLike, stocks: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T, 2).

    first, second  (n, T) rewards per unit of either resource
    quotas         (T,) what both together must spend at each step
    stocks         what there is of either
    """
    f1, f2 = reward_table(first, "first rewards"), reward_table(second, "second rewards")
    if f1.shape != f2.shape:
        raise InputError(f"the two rewards must have one shape, got {f1.shape} and {f2.shape}")
    quota = np.asarray(quotas, dtype=np.float64)
    if quota.shape != f1.shape[1:] or not (np.isfinite(quota) & (quota >= 0)).all():
        raise InputError(f"quotas must be {f1.shape[1]} numbers from 0 up, one per step")
    c1, c2 = (float(stock) for stock in stocks)
    left = np.cumsum(quota) - (c1 + c2)
    short = np.flatnonzero(left > SLACK * (1.0 + c1 + c2))
    if short.size:
        raise InfeasibleError(
            f"the quotas up to step t={int(short[0])} exceed both stocks together, {c1 + c2:g}: "
            "lower the quotas or raise a stock"
        )
    bounds = np.column_stack([np.zeros_like(quota), quota])
    need = min(max(quota.sum() - c2, 0.0), c1)
    gains, spent = knapsack_paths(f1 - f2, bounds, np.array([need, c1]))
    return gains + f2 @ quota, np.stack([spent, quota - spent], axis=2)


# --- Nested bounds, compiled --------------------------------------------------------------------
#
# The numbers of a step:
# LOW, HIGH              what it may spend
# AFTER_LOW, AFTER_HIGH  where the position must be after it
# SHIFT                  what then moves the position by itself
# SPILL_LOW, SPILL_HIGH  where the position spills over after that

LOW, HIGH, AFTER_LOW, AFTER_HIGH, SHIFT, SPILL_LOW, SPILL_HIGH = range(7)
# Statuses; from 0 up, the first step at which no action is possible.
SOLVED, NOT_CONCAVE = -1, -2


# The sorted list: steps, best first, in order[head:tail]. These are inlined, since a call that is
# not costs more than what it does.


@njit(cache=True, nogil=True, inline="always")
def _insert(rewards, order, head, tail, t):  # type: ignore[no-untyped-def]
    place = tail
    while place > head and exceeds(rewards[t], rewards[order[place - 1]]):
        order[place] = order[place - 1]
        place -= 1
    order[place] = t


@njit(cache=True, nogil=True, inline="always")
def _take_best(rewards, order, head, tail, length, spills, units):  # type: ignore[no-untyped-def]
    """Spend the best units, or where they spill those that pay; the new head."""
    amounts, spent = units
    while length > 0.0 and head < tail:
        step = order[head]
        part = min(amounts[step], length)
        if not spills or rewards[step] > 0.0:
            spent[step] += part
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            head += 1
    return head


@njit(cache=True, nogil=True, inline="always")
def _drop_worst(rewards, order, head, tail, length, spills, amounts):  # type: ignore[no-untyped-def]
    """Forget the worst units; the new tail, -1 if one that spills would have paid."""
    while length > 0.0 and head < tail:
        step = order[tail - 1]
        part = min(amounts[step], length)
        if spills and rewards[step] > 0.0 and part > 0.0:
            return -1
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            tail -= 1
    return tail


@njit(cache=True, nogil=True, inline="always")
def _enter(row, t, lowest, highest, amounts, spent):  # type: ignore[no-untyped-def]
    """Step t with its least; where the position may be then, and whether it may be there."""
    slack = SLACK * (1.0 + abs(lowest) + abs(highest))
    lowest += row[LOW]
    highest += row[LOW]
    possible = lowest <= row[AFTER_HIGH] + slack and row[HIGH] >= row[LOW]
    # Longer than this, the rest would be cut at once; and infinite bounds stay manageable.
    amounts[t] = max(0.0, min(row[HIGH] - row[LOW], row[AFTER_HIGH] - lowest))
    spent[t] = row[LOW]
    highest += amounts[t]
    return lowest, highest, possible and highest >= row[AFTER_LOW] - slack


@njit(cache=True, nogil=True)
def _list_path(rewards, steps, start, amounts, order, spent):  # type: ignore[no-untyped-def]
    lowest = highest = start
    head = tail = 0
    for t in range(rewards.shape[0]):
        row = steps[t]
        lowest, highest, possible = _enter(row, t, lowest, highest, amounts, spent)
        if not possible:
            return 0.0, t
        _insert(rewards, order, head, tail, t)
        tail += 1
        if highest > row[AFTER_HIGH]:
            extra = highest - row[AFTER_HIGH]
            tail = _drop_worst(rewards, order, head, tail, extra, False, amounts)
            highest = max(row[AFTER_HIGH], lowest)
        if lowest < row[AFTER_LOW]:
            lack = row[AFTER_LOW] - lowest
            head = _take_best(rewards, order, head, tail, lack, False, (amounts, spent))
            lowest = min(row[AFTER_LOW], highest)
        lowest += row[SHIFT]
        highest += row[SHIFT]
        if highest > row[SPILL_HIGH]:
            extra = highest - row[SPILL_HIGH]
            tail = _drop_worst(rewards, order, head, tail, extra, True, amounts)
            if tail < 0:
                return 0.0, NOT_CONCAVE
            highest = row[SPILL_HIGH]
            lowest = min(lowest, highest)
        if lowest < row[SPILL_LOW]:
            lack = row[SPILL_LOW] - lowest
            head = _take_best(rewards, order, head, tail, lack, True, (amounts, spent))
            lowest = row[SPILL_LOW]
            highest = max(lowest, highest)
    return _spend_what_pays(rewards, amounts, spent), SOLVED


@njit(cache=True, nogil=True)
def _spend_what_pays(rewards, amounts, spent):  # type: ignore[no-untyped-def]
    """Spend what may still be spent where it pays; the value of it all."""
    value = 0.0
    for t in range(rewards.shape[0]):
        if rewards[t] > 0.0:
            spent[t] += amounts[t]
        value += rewards[t] * spent[t]
    return value


# The same for long paths: one heap for either end of the list.


@njit(cache=True, nogil=True)
def _before(rewards, i, j, sign):  # type: ignore[no-untyped-def]
    """Whether step i leaves its heap before j: sign 1 best first, -1 worst first."""
    if rewards[i] != rewards[j]:
        return (rewards[i] > rewards[j]) == (sign > 0)
    return (i < j) == (sign > 0)


@njit(cache=True, nogil=True)
def _push(rewards, heap, size, item, sign):  # type: ignore[no-untyped-def]
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if not _before(rewards, item, heap[parent], sign):
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = item
    return size + 1


@njit(cache=True, nogil=True)
def _pop(rewards, heap, size, sign):  # type: ignore[no-untyped-def]
    size -= 1
    item = heap[size]
    hole = 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and _before(rewards, heap[child + 1], heap[child], sign):
            child += 1
        if not _before(rewards, heap[child], item, sign):
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = item
    return size


@njit(cache=True, nogil=True)
def _take(rewards, heap, size, sign, length, spills, units):  # type: ignore[no-untyped-def]
    """Take units off one end: spend the best (sign 1), forget the worst (-1); where they spill, as
    above. The heap's new size."""
    amounts, spent = units
    while length > 0.0 and size > 0:
        step = heap[0]
        part = min(amounts[step], length)
        pays = rewards[step] > 0.0 and part > 0.0
        if sign < 0 and spills and pays:
            return -1
        if sign > 0 and (pays or not spills):
            spent[step] += part
        amounts[step] -= part
        length -= part
        # Emptied segments leave the other heap when they reach its top.
        if amounts[step] <= 0.0:
            size = _pop(rewards, heap, size, sign)
    return size


@njit(cache=True, nogil=True)
def _heap_path(earned, steps, start, amounts, queue, spent):  # type: ignore[no-untyped-def]
    """As `_list_path`, with one heap for either end."""
    best, worst = queue[0], queue[1]
    rewards = settled(earned)
    lowest = highest = start
    n_best = n_worst = 0
    for t in range(rewards.shape[0]):
        row = steps[t]
        lowest, highest, possible = _enter(row, t, lowest, highest, amounts, spent)
        if not possible:
            return 0.0, t
        n_best = _push(rewards, best, n_best, t, 1)
        n_worst = _push(rewards, worst, n_worst, t, -1)
        if highest > row[AFTER_HIGH]:
            extra = highest - row[AFTER_HIGH]
            n_worst = _take(rewards, worst, n_worst, -1, extra, False, (amounts, spent))
            highest = max(row[AFTER_HIGH], lowest)
        if lowest < row[AFTER_LOW]:
            lack = row[AFTER_LOW] - lowest
            n_best = _take(rewards, best, n_best, 1, lack, False, (amounts, spent))
            lowest = min(row[AFTER_LOW], highest)
        lowest += row[SHIFT]
        highest += row[SHIFT]
        if highest > row[SPILL_HIGH]:
            extra = highest - row[SPILL_HIGH]
            n_worst = _take(rewards, worst, n_worst, -1, extra, True, (amounts, spent))
            if n_worst < 0:
                return 0.0, NOT_CONCAVE
            highest = row[SPILL_HIGH]
            lowest = min(lowest, highest)
        if lowest < row[SPILL_LOW]:
            lack = row[SPILL_LOW] - lowest
            n_best = _take(rewards, best, n_best, 1, lack, True, (amounts, spent))
            lowest = row[SPILL_LOW]
            highest = max(lowest, highest)
    return _spend_what_pays(earned, amounts, spent), SOLVED


@njit(cache=True, nogil=True)
def nested_path(rewards, steps, start, amounts, queue, spent):  # type: ignore[no-untyped-def]
    """The best actions along one path, written to `spent` (T,): the value and a status.

    rewards  (T,) per unit
    steps    (T, 7) their numbers
    start    the position before the first step
    amounts  (T,) work space
    queue    (2, T) work space, whole numbers
    """
    if rewards.shape[0] <= SHORT_LIST:
        return _list_path(rewards, steps, start, amounts, queue[0], spent)
    return _heap_path(rewards, steps, start, amounts, queue, spent)


@njit(cache=True, nogil=True)
def nested_paths(rewards, steps, starts):  # type: ignore[no-untyped-def]
    """Values (n,), actions (n, T) and statuses (n,) for rewards (n, T), steps (T, 7) and the
    positions (n,) before the first step."""
    n, T = rewards.shape
    values, actions = np.empty(n), np.empty((n, T))
    statuses = np.empty(n, dtype=np.int64)
    amounts, queue = np.empty(T), np.empty((2, T), dtype=np.int64)
    for i in range(n):
        values[i], statuses[i] = nested_path(
            rewards[i], steps, starts[i], amounts, queue, actions[i]
        )
    return values, actions, statuses


def allocate_nested(
    rewards: ArrayLike, step_bounds: ArrayLike, prefix_bounds: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T) for rewards (n, T) per unit.

    step_bounds    (T, 2) least and most of each step
    prefix_bounds  (T, 2) least and most of what is spent up to and with each step; may be infinite
    """
    table = reward_table(rewards, "rewards")
    T = table.shape[1]
    steps = plain_steps(bound_pairs(step_bounds, T, "step bounds"))
    steps[:, 2:4] = bound_pairs(prefix_bounds, T, "prefix bounds")
    return solve_nested(table, steps, np.zeros(len(table)))


def allocate_tank(
    prices: ArrayLike, needs: ArrayLike, capacity: float, start: float | ArrayLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    """The least costs (n,) and the purchases (n, T) that supply every leg.

    prices    (n, T) of a unit at each stop, revealed all at once; one path (T,) is taken as (1, T)
    needs     (T,) used between a stop and the next: the level after buying is in [need, capacity]
    capacity  of the tank
    start     level on arrival at the first stop, one or (n,)
    """
    table = reward_table(prices, "prices")
    n, T = table.shape
    need = np.asarray(needs, dtype=np.float64)
    if need.shape != (T,):
        raise InputError(f"needs must have {T} numbers, one per stop, got shape {need.shape}")
    bad = np.flatnonzero(~((need >= 0) & (need <= capacity)))
    if bad.size:
        t = int(bad[0])
        raise InfeasibleError(
            f"leg t={t} needs {need[t]:g}, but the capacity is {capacity:g}: every need must lie "
            "between 0 and the capacity; take a larger tank"
        )
    starts = np.broadcast_to(np.asarray(start, dtype=np.float64), (n,))
    slack = ROUNDING * capacity
    if not ((starts >= -slack) & (starts <= capacity + slack)).all():
        raise InputError(f"the start level must lie between 0 and the capacity {capacity:g}")
    starts = np.clip(starts, 0.0, capacity)
    steps = plain_steps(np.column_stack([np.zeros(T), np.full(T, np.inf)]))
    steps[:, 2], steps[:, 3], steps[:, 4] = need, capacity, -need
    values, purchases = solve_nested(-table, steps, starts)
    return -values, purchases


def plain_steps(step_bounds: FloatArray) -> FloatArray:
    """(T, 7) the kernel's numbers of each step with nothing but bounds (T, 2) on the step itself:
    low, high, bounds on the position after it, shift, bounds where the position spills over."""
    steps = np.empty((len(step_bounds), 7))
    steps[:, :2] = step_bounds
    steps[:, 2:] = -np.inf, np.inf, 0.0, -np.inf, np.inf
    return steps


def solve_nested(
    rewards: FloatArray, steps: FloatArray, starts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and actions (n, T) for rewards (n, T), the kernel's steps (T, 7) and starts (n,).

    Raises where no action is possible (naming the step), or where units would pay to be bought
    only to spill over.
    """
    if np.isinf(np.minimum(steps[:, 1], steps[:, 3])).any():
        t = int(np.argmax(np.isinf(np.minimum(steps[:, 1], steps[:, 3]))))
        raise InputError(f"step t={t} has no upper bound, neither its own nor on the prefix")
    values, actions, statuses = nested_paths(
        np.ascontiguousarray(rewards), steps, np.ascontiguousarray(starts)
    )
    if (statuses == NOT_CONCAVE).any():
        raise NotApplicableError(f"no method applies: {NO_METHOD}")
    if (statuses >= 0).any():
        i = int(np.argmax(statuses >= 0))
        t = int(statuses[i])
        raise InfeasibleError(
            f"no allocation is possible at step t={t} (path {i}): the bounds of steps 0..{t} and "
            "the levels they must keep contradict each other; widen one of them"
        )
    return values, actions


# --- A resource program of one resource in the terms of nested bounds ---------------------------
#
# The position y counts what actions have moved: y = level where an action adds, y = -level where it
# consumes, so that an action always moves y up.


def nested_start(program: ResourceProgram, state: State) -> float:
    """The position before the state's step."""
    return float(program.resources[0].effect * state.resource[0])


def resource_steps(program: ResourceProgram) -> FloatArray:
    """(T, 7) the numbers of each step for one resource, without the budget."""
    resource = program.resources[0]
    steps = plain_steps(program.step_bounds)
    change, capacity = program.changes[:, 0], resource.capacity
    bottom = np.maximum(0.0, -change)
    top = np.full(len(steps), capacity)
    if not resource.spill:
        top = np.minimum(top, capacity - change)
    if resource.effect > 0:
        steps[:, 2], steps[:, 3], steps[:, 4] = bottom, top, change
        steps[:, 6] = capacity if resource.spill else math.inf
    else:
        steps[:, 2], steps[:, 3], steps[:, 4] = -top, -bottom, -change
        steps[:, 5] = -capacity if resource.spill else -math.inf
    return steps


def nested_steps(program: ResourceProgram, state: State) -> FloatArray:
    """(T - t, 7) the same from the state on, with the budget that is left."""
    steps = resource_steps(program)[state.t :]
    if program.has_budget:
        # Without spilling, the position after the last action tells the total.
        zero = nested_start(program, state) + steps[:-1, 4].sum()
        low, high = (limit - state.resource[1] for limit in program.budget)
        steps[-1, 2] = max(steps[-1, 2], zero + low)
        steps[-1, 3] = min(steps[-1, 3], zero + high)
    return steps


def total_only(program: ResourceProgram, state: State) -> tuple[float, float] | None:
    """The bounds on the total that say all that the levels of one resource say, if any do.

    That is so where no choice within the steps' own bounds can break a level bound before the
    last step.
    """
    if program.resources[0].spill:
        return None
    steps, start = nested_steps(program, state), nested_start(program, state)
    shifts = start + np.cumsum(steps[:, 4]) - steps[:, 4]
    low, high = np.cumsum(steps[:, 0]), np.cumsum(steps[:, 1])
    least, most = steps[:, 2] - shifts, steps[:, 3] - shifts
    # The most that is allowed up to a step is no limit where it allows as much as in total.
    loose_low = low[:-1] >= least[:-1]
    loose_high = (high[:-1] <= most[:-1]) | _covered(most, steps[:, 0])
    if not (loose_low.all() and loose_high.all()):
        return None
    return max(float(least[-1]), 0.0), float(most[-1])


def _covered(most: FloatArray, low: FloatArray) -> BoolArray:
    """(T - 1,) whether the bound on the total implies that on each earlier prefix: later steps
    spend at least their lower bounds, so a prefix spends at most the total less these."""
    later = np.cumsum(low[::-1])[::-1][1:]
    return np.asarray(most[-1] - later <= most[:-1])


# --- The linear program: any mix of resources, bounds and spilling, through scipy's HiGHS ------
#
#     max  sum_t <r_t, a_t>   s.t.   low_t <= sum_i a_t,i <= high_t,   L <= sum_t,i a_t,i <= U,
#          0 <= level of i after action t <= C_i,    0 <= the same after change t, less spill <= C_i
#
# with level_i = start_i + effect_i sum a - sum spill_i + sum change_i. What spills is free to
# choose in the program but not in the model; that makes no difference where more of a resource
# never hurts, that is, where it is consumed. Many paths share the constraints: they are solved as
# one block-diagonal program at a time, and their duals give each path its own upper bound (weak
# duality), which at the optimum equals the value.

# Paths per program: enough to make the calls cheap, few enough for the solver's own growth.
PATHS_AT_ONCE = 64
# HiGHS's least: by default it takes rewards for equal that differ by less than 1e-7.
TOLERANCE = 1e-10


class Transport(NamedTuple):
    """The optimum along each of n paths.

    values   (n,)
    actions  (n, steps, A)
    bounds   (n,) the dual solutions' upper bounds
    """

    values: FloatArray
    actions: FloatArray
    bounds: FloatArray


def allocate_transport(
    rewards: FloatArray, program: ResourceProgram, t: int = 0, resource: FloatArray | None = None
) -> Transport:
    """The best actions for rewards (n, T - t, A) per unit, from the resource (D,) before step t."""
    levels = program.start if resource is None else np.asarray(resource, dtype=np.float64)
    refusal = refuses_transport(program)
    if refusal is not None:
        raise NotApplicableError(f"method 'lp' does not apply: {refusal}")
    matrix, lows, highs = level_constraints(program, t, levels)
    parts = [
        _solve_block(rewards[i : i + PATHS_AT_ONCE], matrix, lows, highs)
        for i in range(0, len(rewards), PATHS_AT_ONCE)
    ]
    return Transport(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def refuses_transport(program: ResourceProgram) -> str | None:
    """Why the linear program is not exact, if it is not."""
    if program.resources[0].effect > 0 and program.resources[0].spill:
        return "it could let a resource spill that is added to, to make room for more"
    return None


def _solve_block(
    rewards: FloatArray, matrix: csr_matrix, lows: FloatArray, highs: FloatArray
) -> Transport:
    """Solve some paths as one block-diagonal program."""
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, vstack

    n, steps, A = rewards.shape
    spills = matrix.shape[1] - steps * A
    objective = np.hstack([-rewards.reshape(n, -1), np.zeros((n, spills))])
    upper, lower = np.isfinite(highs), np.isfinite(lows)
    one = vstack([matrix[upper], -matrix[lower]], format="csr")
    limits = np.concatenate([highs[upper], -lows[lower]])
    blocks: Any = block_diag([one] * n, format="csr")
    solved = linprog(
        objective.ravel(),
        A_ub=blocks,
        b_ub=np.tile(limits, n),
        bounds=(0, None),
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if solved.status == 2:
        raise InfeasibleError(
            "no allocation meets all bounds from this state on; check its resource levels"
        )
    if solved.status != 0 or solved.x is None:
        raise NotApplicableError(f"HiGHS found no optimum: {solved.message}")
    actions = np.maximum(solved.x.reshape(n, -1)[:, : steps * A], 0.0).reshape(n, steps, A)
    # Every variable is bounded by 0 from below only, so the rows' duals alone make the bound.
    duals = -solved.ineqlin.marginals.reshape(n, -1) @ limits
    return Transport((rewards * actions).sum(axis=(1, 2)), actions, duals)


def level_constraints(
    program: ResourceProgram, t: int, resource: FloatArray
) -> tuple[csr_matrix, FloatArray, FloatArray]:
    """Rows over the actions (steps, A), then the spills of each resource that spills, and their
    lower and upper limits."""
    from scipy.sparse import csr_matrix

    steps, A = program.horizon - t, len(program.resources)
    bounds, changes = program.step_bounds[t:], program.changes[t:]
    spilling = [i for i, one in enumerate(program.resources) if one.spill]
    columns = steps * (A + len(spilling))
    totals = np.zeros((steps, columns))
    for s in range(steps):
        totals[s, s * A : (s + 1) * A] = 1.0
    rows, lows, highs = [totals], [bounds[:, 0]], [bounds[:, 1]]
    if program.has_budget:
        rows.append(totals.sum(axis=0, keepdims=True))
        lows.append(np.array([program.budget[0] - resource[A]]))
        highs.append(np.array([program.budget[1] - resource[A]]))
    for i, one in enumerate(program.resources):
        moved, spilled = np.zeros((steps, columns)), np.zeros((steps, columns))
        for s in range(steps):
            moved[s:, s * A + i] = one.effect
            if one.spill:
                spilled[s:, steps * (A + spilling.index(i)) + s] = -1.0
        # A spill follows the change of its step, so it counts from the next action on.
        before = np.vstack([np.zeros((1, columns)), spilled[:-1]])
        flown = np.cumsum(changes[:, i])
        for row, gained in ((moved + before, flown - changes[:, i]), (moved + spilled, flown)):
            rows.append(row)
            lows.append(-resource[i] - gained)
            highs.append(one.capacity - resource[i] - gained)
    return csr_matrix(np.vstack(rows)), np.concatenate(lows), np.concatenate(highs)
