"""An `ExogenousMDP` compiled: the functions of `planning.kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.planning.allocation import knapsack_path
from counterplan.planning.model import State
from counterplan.planning.nested import (
    AFTER_HIGH,
    AFTER_LOW,
    SHIFT,
    SOLVED,
    SPILL_HIGH,
    SPILL_LOW,
    nested_path,
    resource_steps,
)
from counterplan.planning.processes.base import CompiledProcess
from counterplan.planning.processes.laws import process_draw, process_mean, process_successors
from counterplan.planning.resource import TOLERANCE, ResourceProgram
from counterplan.planning.search.kernel import ACTIONS, BOUNDS, DRAW, STEP, SUCCESSORS, Kernel

if TYPE_CHECKING:
    from counterplan.domains.exogenous_mdp import ExogenousMDP

# ----------------------------------------------------------------------------------------------
# An `ExogenousMDP` as one flat array, and how compiled functions read it.
#
# `parameters` begins with HEAD numbers (the names below), then come the (T, COLUMNS) table of the
# steps, the changes (T, A), the capacities (A,), the reward matrix phi (A, X), and last the
# process's own block (see `exogenous.process_kernel`).

HEAD = 13
BLOCK, STEPS, RESOURCES, SIZE, EFFECT, BUDGETED, LEAST, MOST, SIGN = range(9)
CHOICE, LEVELS, OFFERED, SOLVER = range(9, HEAD)
# A step's row: its bounds, where the level must be after it, the sums of later bounds, and the
# seven numbers of `nested_kernel`.
LOW, HIGH, LOWEST, HIGHEST, LATER_LOW, LATER_HIGH, NESTED = range(7)
COLUMNS = NESTED + 7
EXTREME, GRID, ORDER_UP_TO = range(3)
# How the plan for expected rewards is found.
BY_NESTED, BY_ADVANTAGE, BY_POOL = range(3)


@njit(cache=True)
def cell(parameters, t, column):  # type: ignore[no-untyped-def]
    """One number of a step's row."""
    return parameters[HEAD + t * COLUMNS + column]


@njit(cache=True)
def change(parameters, t, i):  # type: ignore[no-untyped-def]
    """What resource i gains after step t whatever is done."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    return parameters[HEAD + T * COLUMNS + t * A + i]


@njit(cache=True)
def capacity(parameters, i):  # type: ignore[no-untyped-def]
    """Of resource i."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    return parameters[HEAD + T * (COLUMNS + A) + i]


@njit(cache=True)
def rate(parameters, i, x):  # type: ignore[no-untyped-def]
    """Reward per unit of resource i, to be maximised."""
    T, A, X = int(parameters[STEPS]), int(parameters[RESOURCES]), int(parameters[SIZE])
    row = HEAD + T * (COLUMNS + A) + A + i * X
    total = 0.0
    for j in range(X):
        total += parameters[row + j] * x[j]
    return parameters[SIGN] * total


@njit(cache=True)
def moved(parameters, t, i, level, amount):  # type: ignore[no-untyped-def]
    """The level of resource i after an action and the change of step t."""
    after = max(level + parameters[EFFECT] * amount, 0.0) + change(parameters, t, i)
    return max(min(after, capacity(parameters, i)), 0.0)


# ----------------------------------------------------------------------------------------------
# Which of the feasible actions a planner may choose from.
#
# 'extreme'      the least and the most that may be spent (Lemma 2.1); with several resources for
#                each of them, taken first from one resource and then from the others in turn
# n              a grid of n totals; with two resources the least and the most total, each divided
#                in n ways
# 'order-up-to'  for a stock that is added to: the least, up to each level that just reaches a
#                later step, and full. These contain the optimum where the extremes do not

ActionSet: TypeAlias = Literal["extreme", "order-up-to"] | int | Callable[[State], ArrayLike]
# Actions closer than this are the same.
SAME = 1e-12


def check_action_set(action_set: ActionSet, program: ResourceProgram) -> None:
    """Raise if these actions make no sense for these resources."""
    A = len(program.resources)
    if callable(action_set) or action_set == "extreme":
        return
    if action_set == "order-up-to":
        if A > 1 or program.resources[0].effect < 0:
            raise InputError(
                "action_set 'order-up-to' is for one resource that is added to (effect=+1); use "
                "'extreme' or a number of levels"
            )
    elif isinstance(action_set, str):
        raise InputError(
            f"action_set {action_set!r} is not 'extreme', 'order-up-to', a number of levels or a "
            "function"
        )
    else:
        whole_number(action_set, "action_set (levels of the grid)", minimum=2)
        if A > 2:
            raise InputError(f"a grid divides between two resources, not {A}; use 'extreme'")


def most_actions(action_set: ActionSet, program: ResourceProgram) -> int:
    """No state offers more."""
    A = len(program.resources)
    if action_set == "extreme":
        return 2 * A
    if action_set == "order-up-to":
        return program.horizon + 2
    assert isinstance(action_set, int)
    return action_set * A


def action_rows(
    action_set: ActionSet, program: ResourceProgram, state: State, room: tuple[float, float]
) -> FloatArray:
    """(m, A) the actions of a set, each once, given the room for their totals."""
    low, high = room
    A = len(program.resources)
    levels = state.resource[:A]
    if A == 1:
        if action_set == "extreme":
            totals = np.array([low, high])
        elif action_set == "order-up-to":
            reach = np.cumsum(-program.changes[state.t :, 0]) - levels[0]
            totals = np.array([low, *np.clip(reach, low, high), high])
        else:
            assert isinstance(action_set, int)
            totals = np.linspace(low, high, action_set)
        return _distinct(totals[:, None])
    rows: list[FloatArray] = []
    for total in (low, high):
        if action_set == "extreme":
            rows += [_first_from(i, total, levels) for i in range(A)]
        else:
            assert isinstance(action_set, int)
            most, least = _first_from(0, total, levels), _first_from(1, total, levels)
            weights = np.linspace(0.0, 1.0, action_set)[:, None]
            rows += list(most + weights * (least - most))
    return _distinct(np.array(rows))


def _first_from(first: int, total: float, levels: FloatArray) -> FloatArray:
    """(A,) a total taken from one resource, then from the others in turn."""
    action = np.zeros(len(levels))
    order = [first, *(i for i in range(len(levels)) if i != first)]
    for i in order:
        action[i] = min(max(total, 0.0), levels[i])
        total -= action[i]
    return action


def _distinct(rows: FloatArray) -> FloatArray:
    """The rows in their order, each once."""
    kept: list[FloatArray] = []
    for row in rows:
        if not any((np.abs(row - one) <= SAME * (1.0 + np.abs(one))).all() for one in kept):
            kept.append(row)
    return np.array(kept)


# ----------------------------------------------------------------------------------------------
# The actions that an `ExogenousMDP` offers, compiled: the twin of `action_sets`.


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


# ----------------------------------------------------------------------------------------------
# A lower bound on the value of an `ExogenousMDP`'s states, compiled; to be maximised.
#
# The plan that is optimal for expected rewards, executed: at every step the offered action that is
# closest to what was planned, or to that and what earlier steps left undone, whichever earns more.
# Neither the plan nor the offered actions depend on what chance brings, and the reward is linear in
# it, so what the plan earns at the expected rewards is what it earns on average: a bound on the
# best that offered actions reach, without any error. Several resources are planned as one pool and
# divided in time order, which need not be the best plan; two with a fixed quota are planned
# exactly.
#
# There is no bound above: hindsight is one only in the mean over futures (`value_bounds` gives it
# with its standard error), and a mean over a few of them lies below the value as often as not.


@njit(cache=True)
def _plan_nested(parameters, t, d, rates, plan):  # type: ignore[no-untyped-def]
    """One resource, written to plan (1, T - t); whether a plan was found."""
    T = int(parameters[STEPS])
    steps = np.empty((T - t, 7))
    start = parameters[EFFECT] * d[0]
    zero = start
    for s in range(t, T):
        for column in range(7):
            steps[s - t, column] = cell(parameters, s, NESTED + column)
        if s + 1 < T:
            zero += steps[s - t, SHIFT]
    spills = np.isfinite(steps[0, SPILL_LOW]) or np.isfinite(steps[0, SPILL_HIGH])
    # With spilling the level does not tell what was spent: then the budget cuts off what is done.
    if parameters[BUDGETED] > 0 and not spills:
        last = steps[T - t - 1]
        last[AFTER_LOW] = max(last[AFTER_LOW], zero + parameters[LEAST] - d[1])
        last[AFTER_HIGH] = min(last[AFTER_HIGH], zero + parameters[MOST] - d[1])
    queue = np.empty((2, T - t), dtype=np.int64)
    status = nested_path(rates[0], steps, start, np.empty(T - t), queue, plan[0])[1]
    return status == SOLVED


@njit(cache=True)
def _plan_advantage(parameters, t, d, rates, plan):  # type: ignore[no-untyped-def]
    """Two stocks with fixed quotas, written to plan (2, T - t)."""
    T = int(parameters[STEPS])
    limits, gains = np.zeros((T - t, 2)), np.empty(T - t)
    total = 0.0
    for s in range(T - t):
        limits[s, 1] = cell(parameters, t + s, LOW)
        gains[s] = rates[0, s] - rates[1, s]
        total += limits[s, 1]
    budget = np.array([min(max(total - d[1], 0.0), d[0]), d[0]])
    knapsack_path(gains, limits, budget, np.empty(T - t, dtype=np.int64), plan[0])
    plan[1] = limits[:, 1] - plan[0]


@njit(cache=True)
def _plan_pool(parameters, t, d, rates, plan):  # type: ignore[no-untyped-def]
    """Several stocks, taken as one at the best of their rates, then divided in time order, each
    total from the best resource that is left: written to plan (A, T - t)."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    limits, best = np.empty((T - t, 2)), np.empty(T - t)
    stock = 0.0
    for i in range(A):
        stock += d[i]
    for s in range(T - t):
        limits[s, 0], limits[s, 1] = cell(parameters, t + s, LOW), cell(parameters, t + s, HIGH)
        best[s] = rates[:, s].max()
        if s + 1 < T - t:
            for i in range(A):
                stock += change(parameters, t + s, i)
    budget = np.array([0.0, stock])
    if parameters[BUDGETED] > 0:
        budget[0] = max(parameters[LEAST] - d[A], 0.0)
        budget[1] = min(stock, parameters[MOST] - d[A])
    totals, levels = np.empty(T - t), d[:A].copy()
    knapsack_path(best, limits, budget, np.empty(T - t, dtype=np.int64), totals)
    for s in range(T - t):
        for i in np.argsort(-rates[:, s]):
            plan[i, s] = min(totals[s], levels[i])
            totals[s] -= plan[i, s]
        for i in range(A):
            levels[i] = moved(parameters, t + s, i, levels[i], plan[i, s])


@njit(cache=True)
def _closest(offered, m, wanted, last):  # type: ignore[no-untyped-def]
    """Which of m offered actions is closest to the one wanted: the first of several, or the last,
    which spends no less."""
    chosen, least = 0, np.inf
    for k in range(m):
        away = 0.0
        for i in range(wanted.shape[0]):
            away += (offered[k, i] - wanted[i]) ** 2
        if away < least or (last and away <= least):
            chosen, least = k, away
    return chosen


@njit(cache=True)
def _executed(parameters, t, d, rates, plan, carried):  # type: ignore[no-untyped-def]
    """What a plan (A, T - t) earns at rates (A, T - t), made of offered actions.

    carried  1: what was done too little or too much so far is made up for, 0: it is not
    """
    A = int(parameters[RESOURCES])
    offered, wanted = np.empty((int(parameters[OFFERED]), A)), np.zeros(A)
    resource = d.copy()
    value = 0.0
    for s in range(plan.shape[1]):
        m = actions(parameters, t + s, d, resource, offered)
        wanted = carried * wanted + plan[:, s]
        action = offered[_closest(offered, m, wanted, carried > 0)]
        for i in range(A):
            wanted[i] -= action[i]
            value += rates[i, s] * action[i]
            resource[i] = moved(parameters, t + s, i, resource[i], action[i])
            if parameters[BUDGETED] > 0:
                resource[A] += action[i]
    return value


@njit(BOUNDS, cache=True)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """What the plan for expected rewards earns below, nothing above."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    if t >= T:
        out[0] = out[1] = 0.0
        return
    block = parameters[int(parameters[BLOCK]) :]
    rates, plan = np.empty((A, T - t)), np.empty((A, T - t))
    here, following = x.copy(), np.empty_like(x)
    for s in range(t, T):
        for i in range(A):
            rates[i, s - t] = rate(parameters, i, here)
        if s + 1 < T:
            process_mean(block, s, here, following)
            here[:] = following
    out[0], out[1] = -np.inf, np.inf
    if parameters[SOLVER] == BY_NESTED:
        if not _plan_nested(parameters, t, d, rates, plan):
            return
    elif parameters[SOLVER] == BY_ADVANTAGE:
        _plan_advantage(parameters, t, d, rates, plan)
    else:
        _plan_pool(parameters, t, d, rates, plan)
    out[0] = max(
        _executed(parameters, t, d, rates, plan, 0.0), _executed(parameters, t, d, rates, plan, 1.0)
    )


# ----------------------------------------------------------------------------------------------


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
    head[OFFERED] = most_actions(chosen, program)
    quota = (program.step_bounds[:, 0] == program.step_bounds[:, 1]).all()
    two = len(program.resources) == 2 and program.plain_stocks
    head[SOLVER] = BY_ADVANTAGE if two and quota else BY_POOL
    if len(program.resources) == 1:
        head[SOLVER] = BY_NESTED
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
