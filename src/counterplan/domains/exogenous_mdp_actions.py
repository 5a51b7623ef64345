"""The actions that an `ExogenousMDP` offers, compiled: the twin of `action_sets`."""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.domains.action_sets import SAME
from counterplan.domains.exogenous_mdp_numbers import (
    BUDGETED,
    CHOICE,
    EFFECT,
    EXTREME,
    GRID,
    HIGH,
    HIGHEST,
    LATER_HIGH,
    LATER_LOW,
    LEAST,
    LEVELS,
    LOW,
    LOWEST,
    MOST,
    ORDER_UP_TO,
    RESOURCES,
    STEPS,
    cell,
    change,
)
from counterplan.exogenous.resource import TOLERANCE
from counterplan.planning.kernel import ACTIONS


@njit(cache=True)
def _room(parameters, t, d):  # type: ignore[no-untyped-def]
    """The least and the most that may be spent, as `ResourceProgram.room`."""
    A = int(parameters[RESOURCES])
    level = 0.0
    for i in range(A):
        level += d[i]
    low, high = cell(parameters, t, LOW), cell(parameters, t, HIGH)
    lowest, highest = cell(parameters, t, LOWEST), cell(parameters, t, HIGHEST)
    if parameters[EFFECT] > 0:
        low, high = max(low, lowest - level), min(high, highest - level)
    else:
        low, high = max(low, level - highest), min(high, level - lowest)
    if parameters[BUDGETED] > 0:
        low = max(low, parameters[LEAST] - d[A] - cell(parameters, t, LATER_HIGH))
        high = min(high, parameters[MOST] - d[A] - cell(parameters, t, LATER_LOW))
    if high < low <= high + TOLERANCE * (1.0 + abs(high)):
        low = high = max(high, 0.0)
    return low, high


@njit(cache=True)
def _offer(actions, m):  # type: ignore[no-untyped-def]
    """How many actions there are with row m, which is dropped if it is among them already."""
    for i in range(m):
        same = True
        for j in range(actions.shape[1]):
            if abs(actions[m, j] - actions[i, j]) > SAME * (1.0 + abs(actions[i, j])):
                same = False
        if same:
            return m
    return m + 1


@njit(cache=True)
def _take_first(first, total, d, action):  # type: ignore[no-untyped-def]
    """Take a total from one resource, then from the others in turn."""
    A = action.shape[0]
    action[first] = min(max(total, 0.0), d[first])
    total -= action[first]
    for i in range(A):
        if i != first:
            action[i] = min(max(total, 0.0), d[i])
            total -= action[i]


@njit(cache=True)
def _offer_divided(parameters, total, d, out, m):  # type: ignore[no-untyped-def]
    """The ways to divide a total between several resources; how many actions there are then."""
    A, levels = int(parameters[RESOURCES]), int(parameters[LEVELS])
    if parameters[CHOICE] == EXTREME:
        for first in range(A):
            _take_first(first, total, d, out[m])
            m = _offer(out, m)
        return m
    one, other = np.empty(2), np.empty(2)
    _take_first(0, total, d, one)
    _take_first(1, total, d, other)
    for k in range(levels):
        weight = k / (levels - 1)
        for i in range(2):
            out[m, i] = one[i] + weight * (other[i] - one[i])
        m = _offer(out, m)
    return m


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The actions of the set, each once, the least first."""
    A, choice, levels = int(parameters[RESOURCES]), parameters[CHOICE], int(parameters[LEVELS])
    low, high = _room(parameters, t, d)
    m = 0
    if A > 1:
        for total in (low, high):
            m = _offer_divided(parameters, total, d, out, m)
        return m
    if choice == GRID:
        for i in range(levels):
            out[m, 0] = low + (high - low) * i / (levels - 1) if i < levels - 1 else high
            m = _offer(out, m)
        return m
    out[0, 0] = low
    m = 1
    if choice == ORDER_UP_TO:
        reach = -d[0]
        for s in range(t, int(parameters[STEPS])):
            reach -= change(parameters, s, 0)
            out[m, 0] = min(max(reach, low), high)
            m = _offer(out, m)
    out[m, 0] = high
    return _offer(out, m)
