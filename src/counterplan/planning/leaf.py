"""The value of a state seen for the first time (Algorithms 1 and 2, lines 6-20).

rollout  play on to the end by the model's policy, chance drawn afresh
bounded  the middle of the model's bounds on V*, or the finite one of them
clipped  with probability alpha_c a rollout moved into those bounds, v' = min(max(v, lower), upper),
         and no more: the algorithms as they stand
weighed  likewise lower + trust (v' - lower), since the lower bound has no noise; and the bounds
         stay with the node (`search`)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from counterplan.planning.compiled import CLIP, LEAF, MODEL_HANDLE, TRUST, borrowed
from counterplan.planning.jit import inlined, jit
from counterplan.planning.kernel import GENERATOR, VECTOR, uniform_policy


@inlined
def copy(source, target):  # type: ignore[no-untyped-def]
    """Number by number: a slice would ask for memory in between."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@jit(LEAF)
def rollout(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The return of one simulated future."""
    parameters, actions = model.parameters, model.room_actions
    now, then = model.room_exogenous[0], model.room_exogenous[1]
    level, left = model.room_resource[0], model.room_resource[1]
    copy(x, now)
    copy(d, level)
    total = 0.0
    while True:
        m = model.actions(parameters, t, now, level, actions)
        a = model.policy(parameters, t, now, level, generator, actions, m) if m > 1 else 0
        total += model.step(parameters, t, now, level, actions[a], left)
        t += 1
        if t == model.horizon:
            return total
        model.draw(parameters, t - 1, now, generator, then)
        now, then = then, now
        level, left = left, level


@jit(LEAF)
def bounded(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The middle of the bounds."""
    limits = model.room_bounds
    model.bounds(model.parameters, model.tables, t, x, d, generator, limits)
    if np.isinf(limits[0]):
        return limits[1]
    if np.isinf(limits[1]):
        return limits[0]
    return 0.5 * (limits[0] + limits[1])


@inlined
def within(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """A rollout, if it is to be clipped moved into the bounds, which are left in their room."""
    value = rollout(model, settings, t, x, d, generator)
    if settings[CLIP] < 1.0 and generator.random() >= settings[CLIP]:
        return value
    limits = model.room_bounds
    model.bounds(model.parameters, model.tables, t, x, d, generator, limits)
    return min(max(value, limits[0]), limits[1])


@jit(LEAF)
def clipped(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """A rollout within the bounds, which are forgotten again."""
    value = within(model, settings, t, x, d, generator)
    model.room_bounds[0], model.room_bounds[1] = -np.inf, np.inf
    return value


@jit(LEAF)
def weighed(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The lower bound, and a rollout within the bounds as far as it is trusted."""
    value, low = within(model, settings, t, x, d, generator), model.room_bounds[0]
    return value if np.isinf(low) else low + settings[TRUST] * (value - low)


@njit(
    types.float64(MODEL_HANDLE, types.int64, VECTOR, VECTOR, types.int64, GENERATOR),
    cache=True,
)
def pilot(model, start, x, d, plays, generator):  # type: ignore[no-untyped-def]
    """The standard deviation of the returns of random play from a state."""
    model, generator = model.value, borrowed(generator)
    parameters, actions = model.parameters, model.room_actions
    mean, squares = 0.0, 0.0
    for i in range(plays):
        now, then = model.room_exogenous[0], model.room_exogenous[1]
        level, left = model.room_resource[0], model.room_resource[1]
        copy(x, now)
        copy(d, level)
        total = 0.0
        for t in range(start, model.horizon):
            m = model.actions(parameters, t, now, level, actions)
            a = uniform_policy(parameters, t, now, level, generator, actions, m)
            total += model.step(parameters, t, now, level, actions[a], left)
            level, left = left, level
            if t + 1 < model.horizon:
                model.draw(parameters, t, now, generator, then)
                now, then = then, now
        away = total - mean
        mean += away / (i + 1)
        squares += away * (total - mean)
    return np.sqrt(squares / max(plays - 1, 1))


def named(leaf: Any, clip: bool) -> Any:
    """The leaf part that a planner's option stands for."""
    if callable(leaf):
        return leaf
    if leaf == "bounds":
        return bounded
    if not clip:
        return rollout
    return clipped if leaf == "clipped" else weighed
