"""The two inner loops of the anchor bound, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Anchors handled together: their coordinates stay in the fastest cache.
BLOCK = 256


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz", "nnan"})
def lowest_cones(
    states: Any, first: Any, last: Any, anchors: Any, values: Any, steepness: float
) -> Any:
    """(n, levels) min over anchors of value + steepness * distance, for the levels first..last of
    each state (n, M); anchors (blocks, M, BLOCK), values (blocks, levels, BLOCK)."""
    n, M = states.shape
    result = np.full((n, values.shape[1]), np.inf)
    cone = np.empty(BLOCK)
    for block in range(anchors.shape[0]):
        for i in range(n):
            cone[:] = 0.0
            for m in range(M):
                coordinate, x = anchors[block, m], states[i, m]
                for j in range(BLOCK):
                    away = coordinate[j] - x
                    cone[j] += away * away
            for j in range(BLOCK):
                cone[j] = steepness * np.sqrt(cone[j])
            for level in range(first[i], last[i] + 1):
                value, lowest = values[block, level], np.inf
                for j in range(BLOCK):
                    height = value[j] + cone[j]
                    lowest = height if height < lowest else lowest
                result[i, level] = min(result[i, level], lowest)
    return result


@njit(cache=True, nogil=True)
def farthest_points(states: Any, start: int, count: int) -> Any:
    """Indices of `count` of the states (n, M): each the farthest from all those before it."""
    n, M = states.shape
    chosen = np.empty(count, dtype=np.int64)
    nearest = np.full(n, np.inf)
    chosen[0] = start
    for i in range(count):
        for j in range(n):
            distance = 0.0
            for m in range(M):
                distance += (states[j, m] - states[chosen[i], m]) ** 2
            nearest[j] = min(nearest[j], distance)
        if i + 1 < count:
            chosen[i + 1] = np.argmax(nearest)
    return chosen
