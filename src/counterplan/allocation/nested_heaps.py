"""The pass of `nested_kernel` for long paths: one heap for either end of the list, O(T log T)."""

from __future__ import annotations

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
from counterplan.allocation.ties import settled


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
