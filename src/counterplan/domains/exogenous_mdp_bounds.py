"""A lower bound on the value of an `ExogenousMDP`'s states, compiled; to be maximised.

The plan that is optimal for expected rewards, executed: at every step the offered action that is
closest to what was planned, or to that and what earlier steps left undone, whichever earns more.
Neither the plan nor the offered actions depend on what chance brings, and the reward is linear in
it, so what the plan earns at the expected rewards is what it earns on average: a bound on the best
that offered actions reach, without any error. Several resources are planned as one pool and divided
in time order, which need not be the best plan; two with a fixed quota are planned exactly.

There is no bound above: hindsight is one only in the mean over futures (`value_bounds` gives it
with its standard error), and a mean over a few of them lies below the value as often as not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.allocation.knapsack_kernel import knapsack_path
from counterplan.allocation.nested_columns import (
    AFTER_HIGH,
    AFTER_LOW,
    SHIFT,
    SOLVED,
    SPILL_HIGH,
    SPILL_LOW,
)
from counterplan.allocation.nested_kernel import nested_path
from counterplan.domains.exogenous_mdp_actions import actions
from counterplan.domains.exogenous_mdp_numbers import (
    BLOCK,
    BUDGETED,
    BY_ADVANTAGE,
    BY_NESTED,
    EFFECT,
    HIGH,
    LEAST,
    LOW,
    MOST,
    NESTED,
    OFFERED,
    RESOURCES,
    SOLVER,
    STEPS,
    cell,
    change,
    moved,
    rate,
)
from counterplan.exogenous.process_kernel import process_mean
from counterplan.planning.kernel import BOUNDS


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
