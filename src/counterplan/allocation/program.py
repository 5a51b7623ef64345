"""A resource program of one resource in the terms of the allocation solvers.

The solvers count the *position* y, what actions have moved so far: y = level where an action adds,
y = -level where it consumes, so that an action always moves y up.
"""

from __future__ import annotations

import math

import numpy as np

from counterplan.allocation.nested import plain_steps
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.exogenous.model import State
from counterplan.exogenous.resource import ResourceProgram


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
