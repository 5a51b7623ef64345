"""An `ExogenousMDP` compiled: the functions of `planning.kernel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from counterplan.allocation.program import resource_steps
from counterplan.core.validation import FloatArray
from counterplan.domains.action_sets import SAME, most_actions
from counterplan.domains.exogenous_mdp_bounds import bounds
from counterplan.domains.exogenous_mdp_numbers import (
    BLOCK,
    BUDGETED,
    BY_ADVANTAGE,
    BY_NESTED,
    BY_NESTED_ABOVE,
    BY_POOL,
    CHOICE,
    EFFECT,
    EXTREME,
    GRID,
    HEAD,
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
    SIGN,
    SIZE,
    SOLVER,
    STEPS,
    cell,
    change,
    moved,
    rate,
)
from counterplan.exogenous.process import CompiledProcess
from counterplan.exogenous.process_kernel import process_draw, process_successors
from counterplan.exogenous.resource import TOLERANCE
from counterplan.planning.kernel import ACTIONS, DRAW, STEP, SUCCESSORS, Kernel

if TYPE_CHECKING:
    from counterplan.domains.exogenous_mdp import ExogenousMDP


def kernel(model: ExogenousMDP, quantiles: int) -> Kernel:
    """The compiled model."""
    program, process = model.program, model.process
    assert isinstance(process, CompiledProcess)
    block = process.kernel_parameters(model.horizon, quantiles)
    capacities = [float(one.capacity) for one in program.resources]
    tables = [_step_table(model), program.changes, np.array(capacities), model.phi]
    body = np.concatenate([np.ravel(table) for table in tables])
    head = _head(model)
    head[BLOCK] = HEAD + len(body)
    start = model.start
    return Kernel(
        draw=draw,
        actions=actions,
        step=step,
        parameters=np.concatenate([head, body, block]),
        horizon=model.horizon,
        exogenous=start.exogenous,
        resource=start.resource,
        action_size=len(program.resources),
        most_actions=most_actions(model.action_set, program),
        successors=successors,
        most_successors=process.most_successors(quantiles),
        bounds=bounds,
    )


def _step_table(model: ExogenousMDP) -> FloatArray:
    """(T, COLUMNS)."""
    program = model.program
    table = np.hstack([program.step_bounds, program.after, program.later])
    return np.hstack([table, resource_steps(program)])


def _head(model: ExogenousMDP) -> FloatArray:
    program, chosen = model.program, model.action_set
    codes = {"extreme": EXTREME, "order-up-to": ORDER_UP_TO}
    head = np.zeros(HEAD)
    head[STEPS], head[RESOURCES] = program.horizon, len(program.resources)
    head[SIZE] = len(model.process.start)
    head[EFFECT], head[BUDGETED] = program.resources[0].effect, program.has_budget
    head[LEAST], head[MOST] = program.budget
    head[SIGN] = 1.0 if model.sense == "max" else -1.0
    head[CHOICE] = codes[chosen] if isinstance(chosen, str) else GRID
    head[LEVELS] = chosen if isinstance(chosen, int) else 0
    if len(program.resources) == 1:
        spills = program.resources[0].spill and program.has_budget
        head[SOLVER] = BY_NESTED_ABOVE if spills else BY_NESTED
    else:
        quota = (program.step_bounds[:, 0] == program.step_bounds[:, 1]).all()
        two = len(program.resources) == 2 and program.plain_stocks
        head[SOLVER] = BY_ADVANTAGE if two and quota else BY_POOL
    return head


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """x_{t+1}."""
    process_draw(parameters[int(parameters[BLOCK]) :], t, x, generator, out)


@njit(SUCCESSORS, cache=True)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """Values and probabilities of x_{t+1}."""
    return process_successors(parameters[int(parameters[BLOCK]) :], t, x, states, probabilities)


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The reward and the next resource."""
    A = int(parameters[RESOURCES])
    reward = total = 0.0
    for i in range(A):
        reward += rate(parameters, i, x) * action[i]
        total += action[i]
        out[i] = moved(parameters, t, i, d[i], action[i])
    if parameters[BUDGETED] > 0:
        out[A] = d[A] + total
    return reward


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
        low = max(high, 0.0)
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
