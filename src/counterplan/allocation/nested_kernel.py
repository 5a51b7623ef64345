"""Allocation under nested cumulative bounds, compiled: one pass over the steps.

Let V_t(y) be the most reward from the first t steps that leaves the position (what the resource has
moved so far) at y. It is concave and piecewise linear, a list of segments sorted by slope:

    step t      y -> y + a, low <= a <= high    V becomes its sup-convolution with a segment of
                                                slope r_t and length high - low: insert it
    bounds      after_low <= y <= after_high    cut the list at both ends

What is cut at the left (the best slopes) can no longer be avoided: those units are spent at their
steps. What is cut at the right (the worst slopes) can no longer be had: those units are not spent.
What is left after the last step is spent where it pays. So every unit carries its own step, the
optimal actions come with the value, and each unit enters and leaves once: O(T log T) with one heap
for either end (`nested_heaps`); while the list is short, keeping it sorted is faster. Among slopes
that are equal but for rounding (`ties`) the earlier step comes first (D5).

After the bounds the position shifts, and what then exceeds a tank may spill over. At the left end
(a resource that is consumed) a unit that would spill is used if that pays, else lost: exact, since
having more never hurts. At the right end (a resource that is bought) a unit bought only to spill is
not bought; exact while buying costs something, and reported where it does not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.allocation.nested_columns import (
    AFTER_HIGH,
    AFTER_LOW,
    HIGH,
    LOW,
    NOT_CONCAVE,
    SHIFT,
    SOLVED,
    SPILL_HIGH,
    SPILL_LOW,
    TOLERANCE,
)
from counterplan.allocation.nested_heaps import heap_path, spend_what_pays
from counterplan.allocation.ties import exceeds

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
