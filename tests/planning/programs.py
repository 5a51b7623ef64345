"""Random resource programs in whole numbers, and brute force on them by the definition."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from hypothesis import strategies as st

from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError
from counterplan.planning.resource import Resource, ResourceProgram


@st.composite
def programs(draw: st.DrawFn, several: bool | None = None) -> ResourceProgram | InfeasibleError:
    """A program, or why there is none."""
    T = draw(st.integers(1, 4))
    if several is None:
        several = draw(st.booleans())
    lows = [draw(st.integers(0, 1)) for _ in range(T)]
    bounds = np.array([(low, low + draw(st.integers(0, 3))) for low in lows], dtype=float)
    budget = draw(st.sampled_from([(0.0, math.inf), (0.0, 3.0), (2.0, math.inf), (2.0, 5.0)]))
    if several:
        count = draw(st.integers(2, 3))
        if draw(st.booleans()):
            resources = [Resource(draw(st.integers(0, 4))) for _ in range(count)]
        else:
            bounds[:, 0], budget = 0.0, (0.0, budget[1])
            resources = [draw(reservoirs(T)) for _ in range(count)]
    else:
        resources = [draw(single(T))]
        if resources[0].spill:
            budget = (0.0, budget[1] if resources[0].effect < 0 else math.inf)
    try:
        return ResourceProgram(tuple(resources), bounds, budget)
    except InfeasibleError as problem:
        return problem


@st.composite
def reservoirs(draw: st.DrawFn, T: int) -> Resource:
    """Consumed, with inflow that spills over."""
    capacity = draw(st.integers(1, 4))
    inflow = [draw(st.integers(0, 2)) for _ in range(T)]
    return Resource(draw(st.integers(0, capacity)), capacity, -1, inflow, spill=True)


@st.composite
def single(draw: st.DrawFn, T: int) -> Resource:
    capacity = draw(st.integers(1, 6))
    change = [draw(st.integers(-2, 2)) for _ in range(T)]
    if draw(st.booleans()):
        change = [0] * T
    start = draw(st.integers(0, capacity))
    effect = draw(st.sampled_from([-1, 1]))
    return Resource(start, capacity, effect, change, draw(st.booleans()))


def best_by_enumeration(
    program: ResourceProgram, rewards: FloatArray, first: tuple[int, ...] | None = None
) -> float:
    """The most that whole actions earn for rewards (T, A), straight from the definition; -inf if
    none are feasible. `first` fixes the first action."""
    T, A = rewards.shape
    changes = program.changes.astype(int)
    most = int(min(program.step_bounds[:, 1].max(), 8))

    @cache
    def value(t: int, levels: tuple[int, ...], spent: int) -> float:
        if t == T:
            return 0.0 if program.budget[0] <= spent <= program.budget[1] else -math.inf
        low, high = program.step_bounds[t]
        best = -math.inf
        for action in np.ndindex(*(most + 1,) * A):
            if not low <= sum(action) <= high or (t == 0 and first not in (None, action)):
                continue
            after = _after(program, t, levels, action, changes)
            if after is not None:
                later = value(t + 1, after, spent + sum(action))
                best = max(best, float(rewards[t] @ action) + later)
        return best

    return value(0, tuple(int(level) for level in program.start[:A]), 0)


def _after(
    program: ResourceProgram,
    t: int,
    levels: tuple[int, ...],
    action: tuple[int, ...],
    changes: np.ndarray[tuple[int, ...], np.dtype[np.int_]],
) -> tuple[int, ...] | None:
    """The next levels, None where one would leave its bounds."""
    following = []
    for i, resource in enumerate(program.resources):
        level = levels[i] + resource.effect * action[i]
        if not 0 <= level <= resource.capacity:
            return None
        level += int(changes[t, i])
        if resource.spill:
            level = min(level, int(resource.capacity))
        if not 0 <= level <= resource.capacity:
            return None
        following.append(level)
    return tuple(following)
