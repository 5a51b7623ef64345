"""The inner loops of regression over a resource grid, compiled once for every model.

A grid is (G, D) resource levels in ascending order (first number first). A value at a level that
is not on the grid is taken by straight line between its neighbours if D = 1; with D > 1 only levels
on the grid have values. Rewards are to be maximised, as in every kernel.

The model comes as its functions `actions` and `step` and its `numbers`: the parameters, and room
for one state's actions (most_actions, A).
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from counterplan.planning.kernel import ACTIONS, MATRIX, STEP, SUCCESSORS, VECTOR

_ACTIONS, _STEP = types.FunctionType(ACTIONS), types.FunctionType(STEP)
_NUMBERS = types.Tuple([VECTOR, MATRIX])  # type: ignore[no-untyped-call]
_GRIDS = types.UniTuple(MATRIX, 2)  # type: ignore[no-untyped-call]
_MODEL = (_ACTIONS, _STEP, _NUMBERS, types.int64, MATRIX)

# Levels closer than this are the same.
TOLERANCE = 1e-7


@njit(cache=True)
def _compared(level, d):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: level before, at, or after d."""
    for k in range(d.size):
        if level[k] < d[k] - TOLERANCE:
            return -1
        if level[k] > d[k] + TOLERANCE:
            return 1
    return 0


@njit(cache=True)
def _first_not_before(levels, count, d):  # type: ignore[no-untyped-def]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _compared(levels[middle], d) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _located(levels, d):  # type: ignore[no-untyped-def]
    """(j, w): a function at d is (1 - w) f[j] + w f[j + 1]; j = -1 where d is off the grid."""
    size = levels.shape[0]
    j = _first_not_before(levels, size, d)
    if j < size and _compared(levels[j], d) == 0:
        return j, 0.0
    if d.size > 1 or j == 0 or j == size:
        return -1, 0.0
    low, high = levels[j - 1, 0], levels[j, 0]
    return j - 1, (d[0] - low) / (high - low)


@njit(types.int64(*_MODEL, MATRIX, MATRIX), cache=True)
def reachable(actions, step, numbers, t, states, levels, found):  # type: ignore[no-untyped-def]
    """How many levels follow date t's `levels` (G, D) under any of the states (m, X) and any
    action; they are written to `found` in ascending order. -1: more than `found` has rows; its
    first and last row are then the lowest and the highest."""
    count = 0
    crowded = False
    parameters, room = numbers
    d = np.empty(levels.shape[1])
    for i in range(states.shape[0]):
        for g in range(levels.shape[0]):
            m = actions(parameters, t, states[i], levels[g], room)
            for a in range(m):
                step(parameters, t, states[i], levels[g], room[a], d)
                j = _first_not_before(found, count, d)
                if j < count and _compared(found[j], d) == 0:
                    continue
                if count == found.shape[0]:
                    crowded = True
                    if j == 0 or j == count:
                        found[min(j, count - 1)] = d
                    continue
                for k in range(count, j, -1):
                    found[k] = found[k - 1]
                found[j] = d
                count += 1
    return -1 if crowded else count


_CHOICE = types.Tuple([MATRIX, MATRIX, types.int64[:, ::1], MATRIX, types.boolean])  # type: ignore[no-untyped-call]


@njit(_CHOICE(*_MODEL, _GRIDS, MATRIX), cache=True)
def choose(actions, step, numbers, t, states, grids, waiting):  # type: ignore[no-untyped-def]
    """The best action at date t in every state (m, X) at every level of grids[0] (G, D), given what
    having a level of the date after, grids[1] (H, D), is worth: `waiting` (m, H).

    Returns the values (m, G), the rewards now (m, G), where the best actions lead: places (m, G)
    in grids[1] and the weights (m, G) of the place after; and whether all led onto that grid.
    """
    levels, later = grids
    shape = (states.shape[0], levels.shape[0])
    values, rewards = np.full(shape, -np.inf), np.zeros(shape)
    places, weights = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    parameters, room = numbers
    d = np.empty(levels.shape[1])
    closed = True
    for i in range(shape[0]):
        for g in range(shape[1]):
            m = actions(parameters, t, states[i], levels[g], room)
            for a in range(m):
                reward = step(parameters, t, states[i], levels[g], room[a], d)
                j, w = _located(later, d)
                if j < 0:
                    closed = False
                    continue
                closed &= w == 0.0
                value = reward + waiting[i, j]
                if w > 0.0:
                    value += w * (waiting[i, j + 1] - waiting[i, j])
                if value > values[i, g]:
                    values[i, g], rewards[i, g] = value, reward
                    places[i, g], weights[i, g] = j, w
    return values, rewards, places, weights, closed


_AHEAD = types.Tuple([types.int64[::1], MATRIX])  # type: ignore[no-untyped-call]


@njit(MATRIX(*_MODEL, _GRIDS, _AHEAD), cache=True)
def best_values(actions, step, numbers, t, states, grids, ahead):  # type: ignore[no-untyped-def]
    """(G, n) the best values at date t on n paths that each know what a level of the date after is
    worth to them. States (m, X) are asked for their actions once, for all paths that share them.

    ahead  (m + 1,) which paths are in which state: those from firsts[i] to firsts[i + 1]; and what
           the levels of grids[1] are worth on each path, (H, n); every action must lead onto it
    """
    levels, later = grids
    firsts, waiting = ahead
    parameters, room = numbers
    d = np.empty(levels.shape[1])
    result = np.full((levels.shape[0], waiting.shape[1]), -np.inf)
    for i in range(states.shape[0]):
        for g in range(levels.shape[0]):
            m = actions(parameters, t, states[i], levels[g], room)
            for a in range(m):
                reward = step(parameters, t, states[i], levels[g], room[a], d)
                j, _ = _located(later, d)
                if j >= 0:
                    for k in range(firsts[i], firsts[i + 1]):
                        result[g, k] = max(result[g, k], reward + waiting[j, k])
    return result


@njit(MATRIX(*_MODEL, MATRIX, _GRIDS), cache=True)
def choose_actions(actions, step, numbers, t, states, resources, ahead):  # type: ignore[no-untyped-def]
    """The best actions (n, A) at date t in states (n, X) with resources (n, D).

    ahead  the levels of the date after, (H, D), and what they are worth in each state, (n, H)
    """
    later, waiting = ahead
    n = states.shape[0]
    parameters, room = numbers
    d = np.empty(later.shape[1])
    result = np.empty((n, room.shape[1]))
    for i in range(n):
        m = actions(parameters, t, states[i], resources[i], room)
        best, chosen = -np.inf, 0
        for a in range(m):
            value = step(parameters, t, states[i], resources[i], room[a], d)
            j, w = _located(later, d)
            if j >= 0:
                value += waiting[i, j]
                if w > 0.0:
                    value += w * (waiting[i, j + 1] - waiting[i, j])
            else:
                value += waiting[i].min()
            if value > best:
                best, chosen = value, a
        result[i] = room[chosen]
    return result


@njit(types.boolean[::1](*_MODEL, MATRIX), cache=True)
def at_stake(actions, step, numbers, t, states, levels):  # type: ignore[no-untyped-def]
    """(m,) whether, at some level, the actions' rewards now differ (options: in the money)."""
    result = np.zeros(states.shape[0], dtype=np.bool_)
    parameters, room = numbers
    d = np.empty(levels.shape[1])
    for i in range(states.shape[0]):
        for g in range(levels.shape[0]):
            m = actions(parameters, t, states[i], levels[g], room)
            first = step(parameters, t, states[i], levels[g], room[0], d)
            for a in range(1, m):
                reward = step(parameters, t, states[i], levels[g], room[a], d)
                if reward != first:
                    result[i] = True
                    break
            if result[i]:
                break
    return result


@njit(MATRIX(MATRIX, types.int64[::1], MATRIX, types.int64[:, ::1], MATRIX), cache=True)
def cash_flows(later, cells, rewards, places, weights):  # type: ignore[no-untyped-def]
    """(n, G) what each path earns from date t on at each level, by the actions chosen: the reward
    now and what it earns (n, H) later. Path i is in state cells[i] of the m chosen for."""
    result = np.empty((cells.size, rewards.shape[1]))
    for i in range(result.shape[0]):
        c = cells[i]
        for g in range(result.shape[1]):
            j, w = places[c, g], weights[c, g]
            flow = later[i, j]
            if w > 0.0:
                flow += w * (later[i, j + 1] - later[i, j])
            result[i, g] = rewards[c, g] + flow
    return result


_SUPPORT = types.Tuple([MATRIX, VECTOR, types.int64[::1]])  # type: ignore[no-untyped-call]


@njit(
    _SUPPORT(types.FunctionType(SUCCESSORS), VECTOR, types.int64, MATRIX, types.int64), cache=True
)
def supports(successors, parameters, t, states, most):  # type: ignore[no-untyped-def]
    """All successors of states (m, X): values (M, X), probabilities (M,) and the state that each
    follows (M,); none where the support is not finite."""
    m, X = states.shape
    room, odds = np.empty((most, X)), np.empty(most)
    values, probabilities = np.empty((m * most, X)), np.empty(m * most)
    parents = np.empty(m * most, dtype=np.int64)
    count = 0
    for i in range(m):
        found = successors(parameters, t, states[i], room, odds)
        for k in range(found):
            values[count], probabilities[count], parents[count] = room[k], odds[k], i
            count += 1
    return values[:count].copy(), probabilities[:count].copy(), parents[:count].copy()
