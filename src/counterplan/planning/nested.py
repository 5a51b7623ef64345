"""The best allocation where cumulative totals are bounded at every step: tanks, batteries, stocks.

One resource whose level must stay within bounds at every step bounds the prefix sums of what is
spent (the corrected Lemma 2.2: Top-K breaks such bounds):

    max  sum_t r_t a_t    s.t.    low_t <= a_t <= high_t,    L_t <= a_0 + ... + a_t <= U_t

These sets form a generalised polymatroid, so the best unit first, as far as all bounds allow, is
exact. `nested_kernel` does it in one pass, O(T log T); the greedy of the gas-station problem (buy
just enough to reach the next cheaper port, else fill up) is the case of a tank.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplan.core.validation import BoolArray, FloatArray
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.allocation import bound_pairs, exceeds, reward_table, settled
from counterplan.planning.model import State
from counterplan.planning.resource import ResourceProgram

# ----------------------------------------------------------------------------------------------
# The numbers of a step that the compiled allocation reads, and what it reports.
#
# LOW, HIGH              what the step may spend
# AFTER_LOW, AFTER_HIGH  where the position must be after it
# SHIFT                  what then moves the position by itself
# SPILL_LOW, SPILL_HIGH  where the position spills over after that

LOW, HIGH, AFTER_LOW, AFTER_HIGH, SHIFT, SPILL_LOW, SPILL_HIGH = range(7)
# Statuses; from 0 up, the first step at which no action is possible.
SOLVED = -1
NOT_CONCAVE = -2
TOLERANCE = 1e-9


# ----------------------------------------------------------------------------------------------
# The pass of `nested_kernel` for long paths: one heap for either end of the list, O(T log T).


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
def _cut(rewards, heap, size, sign, length, amounts, spent):  # type: ignore[no-untyped-def]
    """Take `length` units off one end, those at the left to be spent; the heap's new size."""
    while length > 0.0 and size > 0:
        step = heap[0]
        part = min(amounts[step], length)
        if sign > 0:
            spent[step] += part
        amounts[step] -= part
        length -= part
        # Emptied segments leave the other heap when they reach its top.
        if amounts[step] <= 0.0:
            size = _pop(rewards, heap, size, sign)
    return size


@njit(cache=True, nogil=True)
def _spill(rewards, heap, size, sign, length, amounts, spent):  # type: ignore[no-untyped-def]
    """As `_cut` where the units spill: they are spent only where that pays. The new size, -1 if
    units at the right paid, so that the optimum is not concave any more."""
    while length > 0.0 and size > 0:
        step = heap[0]
        part = min(amounts[step], length)
        if rewards[step] > 0.0 and part > 0.0:
            if sign < 0:
                return -1
            spent[step] += part
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            size = _pop(rewards, heap, size, sign)
    return size


@njit(cache=True, nogil=True)
def heap_path(earned, steps, start, amounts, queue, spent):  # type: ignore[no-untyped-def]
    """As `nested_path`, for the rewards `earned`."""
    best, worst = queue[0], queue[1]
    rewards = settled(earned)
    lowest = highest = start
    n_best = n_worst = 0
    for t in range(rewards.shape[0]):
        row = steps[t]
        slack = TOLERANCE * (1.0 + abs(lowest) + abs(highest))
        lowest += row[LOW]
        highest += row[LOW]
        if lowest > row[AFTER_HIGH] + slack or row[HIGH] < row[LOW]:
            return 0.0, t
        amounts[t] = max(0.0, min(row[HIGH] - row[LOW], row[AFTER_HIGH] - lowest))
        spent[t] = row[LOW]
        highest += amounts[t]
        if highest < row[AFTER_LOW] - slack:
            return 0.0, t
        n_best = _push(rewards, best, n_best, t, 1)
        n_worst = _push(rewards, worst, n_worst, t, -1)
        if highest > row[AFTER_HIGH]:
            extra = highest - row[AFTER_HIGH]
            n_worst = _cut(rewards, worst, n_worst, -1, extra, amounts, spent)
            highest = max(row[AFTER_HIGH], lowest)
        if lowest < row[AFTER_LOW]:
            lack = row[AFTER_LOW] - lowest
            n_best = _cut(rewards, best, n_best, 1, lack, amounts, spent)
            lowest = min(row[AFTER_LOW], highest)
        lowest += row[SHIFT]
        highest += row[SHIFT]
        if highest > row[SPILL_HIGH]:
            extra = highest - row[SPILL_HIGH]
            n_worst = _spill(rewards, worst, n_worst, -1, extra, amounts, spent)
            if n_worst < 0:
                return 0.0, NOT_CONCAVE
            highest = row[SPILL_HIGH]
            lowest = min(lowest, highest)
        if lowest < row[SPILL_LOW]:
            lack = row[SPILL_LOW] - lowest
            n_best = _spill(rewards, best, n_best, 1, lack, amounts, spent)
            lowest = row[SPILL_LOW]
            highest = max(lowest, highest)
    return spend_what_pays(earned, amounts, spent), SOLVED


@njit(cache=True, nogil=True)
def spend_what_pays(rewards, amounts, spent):  # type: ignore[no-untyped-def]
    """Spend what may still be spent where it pays; the value of it all."""
    value = 0.0
    for t in range(rewards.shape[0]):
        if rewards[t] > 0.0:
            spent[t] += amounts[t]
        value += rewards[t] * spent[t]
    return value


# ----------------------------------------------------------------------------------------------
# Allocation under nested cumulative bounds, compiled: one pass over the steps.
#
# Let V_t(y) be the most reward from the first t steps that leaves the position (what the resource
# has moved so far) at y. It is concave and piecewise linear, a list of segments sorted by slope:
#
#     step t      y -> y + a, low <= a <= high    V becomes its sup-convolution with a segment of
#                                                 slope r_t and length high - low: insert it
#     bounds      after_low <= y <= after_high    cut the list at both ends
#
# What is cut at the left (the best slopes) can no longer be avoided: those units are spent at their
# steps. What is cut at the right (the worst slopes) can no longer be had: those units are not
# spent. What is left after the last step is spent where it pays. So every unit carries its own
# step, the optimal actions come with the value, and each unit enters and leaves once: O(T log T)
# with one heap for either end (`nested_heaps`); while the list is short, keeping it sorted is
# faster. Among slopes that are equal but for rounding (`ties`) the earlier step comes first (D5).
#
# After the bounds the position shifts, and what then exceeds a tank may spill over. At the left end
# (a resource that is consumed) a unit that would spill is used if that pays, else lost: exact,
# since having more never hurts. At the right end (a resource that is bought) a unit bought only to
# spill is not bought; exact while buying costs something, and reported where it does not.

# Up to this many steps a sorted list is faster than two heaps, whatever is inserted where.
SHORT = 256


# The list: steps, best first, in order[head:tail]. These are inlined, since a call that is not
# costs more than what it does.


@njit(cache=True, nogil=True, inline="always")
def _insert(rewards, order, head, tail, t):  # type: ignore[no-untyped-def]
    place = tail
    while place > head and exceeds(rewards[t], rewards[order[place - 1]]):
        order[place] = order[place - 1]
        place -= 1
    order[place] = t


@njit(cache=True, nogil=True, inline="always")
def _cut_left(order, head, tail, length, amounts, spent):  # type: ignore[no-untyped-def]
    """Spend the best units; the new head."""
    while length > 0.0 and head < tail:
        step = order[head]
        part = min(amounts[step], length)
        spent[step] += part
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            head += 1
    return head


@njit(cache=True, nogil=True, inline="always")
def _cut_right(order, head, tail, length, amounts):  # type: ignore[no-untyped-def]
    """Forget the worst units; the new tail."""
    while length > 0.0 and head < tail:
        step = order[tail - 1]
        part = min(amounts[step], length)
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            tail -= 1
    return tail


@njit(cache=True, nogil=True, inline="always")
def _spill_left(rewards, order, head, tail, length, amounts, spent):  # type: ignore[no-untyped-def]
    """Spend the best units where that pays, and lose them where not; the new head."""
    while length > 0.0 and head < tail:
        step = order[head]
        part = min(amounts[step], length)
        if rewards[step] > 0.0:
            spent[step] += part
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            head += 1
    return head


@njit(cache=True, nogil=True, inline="always")
def _spill_right(rewards, order, head, tail, length, amounts):  # type: ignore[no-untyped-def]
    """Forget the worst units; the new tail, -1 if one of them would have paid."""
    while length > 0.0 and head < tail:
        step = order[tail - 1]
        part = min(amounts[step], length)
        if rewards[step] > 0.0 and part > 0.0:
            return -1
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            tail -= 1
    return tail


@njit(cache=True, nogil=True)
def _list_path(rewards, steps, start, amounts, order, spent):  # type: ignore[no-untyped-def]
    lowest = highest = start
    head = tail = 0
    for t in range(rewards.shape[0]):
        row = steps[t]
        slack = TOLERANCE * (1.0 + abs(lowest) + abs(highest))
        lowest += row[LOW]
        highest += row[LOW]
        if lowest > row[AFTER_HIGH] + slack or row[HIGH] < row[LOW]:
            return 0.0, t
        # Longer than this, the rest would be cut at once; and infinite bounds stay manageable.
        amounts[t] = max(0.0, min(row[HIGH] - row[LOW], row[AFTER_HIGH] - lowest))
        spent[t] = row[LOW]
        highest += amounts[t]
        if highest < row[AFTER_LOW] - slack:
            return 0.0, t
        _insert(rewards, order, head, tail, t)
        tail += 1
        if highest > row[AFTER_HIGH]:
            tail = _cut_right(order, head, tail, highest - row[AFTER_HIGH], amounts)
            highest = max(row[AFTER_HIGH], lowest)
        if lowest < row[AFTER_LOW]:
            head = _cut_left(order, head, tail, row[AFTER_LOW] - lowest, amounts, spent)
            lowest = min(row[AFTER_LOW], highest)
        lowest += row[SHIFT]
        highest += row[SHIFT]
        if highest > row[SPILL_HIGH]:
            extra = highest - row[SPILL_HIGH]
            tail = _spill_right(rewards, order, head, tail, extra, amounts)
            if tail < 0:
                return 0.0, NOT_CONCAVE
            highest = row[SPILL_HIGH]
            lowest = min(lowest, highest)
        if lowest < row[SPILL_LOW]:
            lack = row[SPILL_LOW] - lowest
            head = _spill_left(rewards, order, head, tail, lack, amounts, spent)
            lowest = row[SPILL_LOW]
            highest = max(lowest, highest)
    return spend_what_pays(rewards, amounts, spent), SOLVED


@njit(cache=True, nogil=True)
def nested_path(rewards, steps, start, amounts, queue, spent):  # type: ignore[no-untyped-def]
    """The best actions along one path, written to `spent` (T,): the value and a status.

    rewards  (T,) per unit
    steps    (T, 7) see `nested_columns`
    start    the position before the first step
    amounts  (T,) work space
    queue    (2, T) work space, whole numbers
    """
    if rewards.shape[0] <= SHORT:
        return _list_path(rewards, steps, start, amounts, queue[0], spent)
    return heap_path(rewards, steps, start, amounts, queue, spent)


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


# ----------------------------------------------------------------------------------------------

# Levels that were added up may miss the capacity by rounding.
ROUNDING = 1e-12
# Why some problems with spilling have no exact allocation.
NO_METHOD = (
    "adding to the resource pays although it spills over, so the best allocation is not concave; "
    "let adding cost something, or set spill=False (planning needs no hindsight)"
)


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


# ----------------------------------------------------------------------------------------------
# A resource program of one resource in the terms of the allocation solvers.
#
# The solvers count the *position* y, what actions have moved so far: y = level where an action
# adds, y = -level where it consumes, so that an action always moves y up.


def nested_start(program: ResourceProgram, state: State) -> float:
    """The position before the state's step."""
    return float(program.resources[0].effect * state.resource[0])


def resource_steps(program: ResourceProgram) -> FloatArray:
    """(T, 7) the numbers of `nested_kernel` for one resource, without the budget."""
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
