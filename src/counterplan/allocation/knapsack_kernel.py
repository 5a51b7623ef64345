"""The fractional knapsack, compiled: rank the steps, then fill them in that order."""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.allocation.ties import exceeds, settled

# Up to this many steps, insertion beats the general sort.
SHORT = 64


@njit(cache=True, nogil=True)
def rank_steps(rewards, order):  # type: ignore[no-untyped-def]
    """Write the steps to `order` (T,), best first; those that are equal but for rounding in time
    order (D5)."""
    T = rewards.shape[0]
    if T > SHORT:
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
