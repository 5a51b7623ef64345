"""Bounds on the value of an `ExogenousMDP`'s states, compiled; all to be maximised.

Below, the plan that is optimal for the expected rewards, executed: with a linear reward and a
deterministic resource it earns on average just what it plans. Above, the hindsight optimum of a few
sampled futures, the mean of which is at least the value. Several resources are bounded from above
by what their pooled stock could earn at the best of their rewards; two with a fixed quota are
solved exactly.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.allocation.knapsack_kernel import knapsack_path
from counterplan.allocation.nested_columns import AFTER_HIGH, AFTER_LOW, SHIFT, SOLVED
from counterplan.allocation.nested_kernel import nested_path
from counterplan.domains.exogenous_mdp_numbers import (
    BLOCK,
    BUDGETED,
    BY_ADVANTAGE,
    BY_NESTED,
    BY_POOL,
    EFFECT,
    HIGH,
    LEAST,
    LOW,
    MOST,
    NESTED,
    RESOURCES,
    SOLVER,
    STEPS,
    cell,
    change,
    moved,
    rate,
)
from counterplan.exogenous.process_kernel import process_draw, process_mean
from counterplan.planning.kernel import BOUNDS

FUTURES = 8


@njit(cache=True)
def _nested_value(parameters, t, d, rates):  # type: ignore[no-untyped-def]
    """One resource: the optimum, and whether it was found."""
    T = int(parameters[STEPS])
    steps = np.empty((T - t, 7))
    start = parameters[EFFECT] * d[0]
    zero = start
    for s in range(t, T):
        for column in range(7):
            steps[s - t, column] = cell(parameters, s, NESTED + column)
        if s + 1 < T:
            zero += steps[s - t, SHIFT]
    if parameters[BUDGETED] > 0 and parameters[SOLVER] == BY_NESTED:
        last = steps[T - t - 1]
        last[AFTER_LOW] = max(last[AFTER_LOW], zero + parameters[LEAST] - d[1])
        last[AFTER_HIGH] = min(last[AFTER_HIGH], zero + parameters[MOST] - d[1])
    queue = np.empty((2, T - t), dtype=np.int64)
    amounts, spent = np.empty(T - t), np.empty(T - t)
    value, status = nested_path(rates, steps, start, amounts, queue, spent)
    return value, status == SOLVED


@njit(cache=True)
def _advantage_value(parameters, t, d, rates):  # type: ignore[no-untyped-def]
    """Two stocks with fixed quotas: the optimum."""
    T = int(parameters[STEPS])
    limits, gains = np.zeros((T - t, 2)), np.empty(T - t)
    base = total = 0.0
    for s in range(T - t):
        quota = cell(parameters, t + s, LOW)
        limits[s, 1] = quota
        gains[s] = rates[0, s] - rates[1, s]
        base += rates[1, s] * quota
        total += quota
    budget = np.array([min(max(total - d[1], 0.0), d[0]), d[0]])
    order = np.empty(T - t, dtype=np.int64)
    return base + knapsack_path(gains, limits, budget, order, np.empty(T - t))


@njit(cache=True)
def _pool_value(parameters, t, d, rates, spent):  # type: ignore[no-untyped-def]
    """Several stocks, taken as one at the best of their rates; writes the totals (T - t,)."""
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
    return knapsack_path(best, limits, budget, np.empty(T - t, dtype=np.int64), spent)


@njit(cache=True)
def _divided_value(parameters, t, d, rates):  # type: ignore[no-untyped-def]
    """The pool's totals, divided in time order, each from the best resource that is left."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    spent = np.empty(T - t)
    _pool_value(parameters, t, d, rates, spent)
    levels = d[:A].copy()
    value = 0.0
    for s in range(T - t):
        wanted = spent[s]
        taken = np.zeros(A)
        for i in np.argsort(-rates[:, s]):
            taken[i] = min(wanted, levels[i])
            wanted -= taken[i]
            value += rates[i, s] * taken[i]
        for i in range(A):
            levels[i] = moved(parameters, t + s, i, levels[i], taken[i])
    return value


@njit(cache=True)
def _best_value(parameters, t, d, rates):  # type: ignore[no-untyped-def]
    """At least the most that rates (A, T - t) allow."""
    solver = parameters[SOLVER]
    if solver == BY_ADVANTAGE:
        return _advantage_value(parameters, t, d, rates)
    if solver == BY_POOL:
        return _pool_value(parameters, t, d, rates, np.empty(rates.shape[1]))
    value, solved = _nested_value(parameters, t, d, rates[0])
    return value if solved else np.inf


@njit(cache=True)
def _plan_value(parameters, t, d, rates):  # type: ignore[no-untyped-def]
    """What a feasible plan earns at rates (A, T - t)."""
    solver = parameters[SOLVER]
    if solver == BY_ADVANTAGE:
        return _advantage_value(parameters, t, d, rates)
    if solver == BY_POOL:
        return _divided_value(parameters, t, d, rates)
    value, solved = _nested_value(parameters, t, d, rates[0])
    # Without its budget it may not be feasible.
    return value if solved and solver == BY_NESTED else -np.inf


@njit(BOUNDS, cache=True)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """The executed plan for expected rewards below, hindsight of sampled futures above."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    if t >= T:
        out[0] = out[1] = 0.0
        return
    block = parameters[int(parameters[BLOCK]) :]
    rates = np.empty((A, T - t))
    here, following = x.copy(), np.empty_like(x)
    for s in range(t, T):
        for i in range(A):
            rates[i, s - t] = rate(parameters, i, here)
        if s + 1 < T:
            process_mean(block, s, here, following)
            here[:] = following
    out[0] = _plan_value(parameters, t, d, rates)
    total = 0.0
    for _ in range(FUTURES):
        here[:] = x
        for s in range(t, T):
            for i in range(A):
                rates[i, s - t] = rate(parameters, i, here)
            if s + 1 < T:
                process_draw(block, s, here, generator, following)
                here[:] = following
        total += _best_value(parameters, t, d, rates)
    out[1] = max(out[0], total / FUTURES)
