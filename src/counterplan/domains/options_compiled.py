"""An American option, compiled: what the search calls, and the tables of its bounds.

x = (price,), d = (1,) held or (0,), action = (0,) hold or (1,) exercise. `parameters`: T, sign (+1
call, -1 put), strike; discounts e^{-r t dt} (T,); prices (T,) beyond which waiting for any fixed
date is worth less than exercising; the process (see `process_kernel`).

Bounds of the option's value at date t and price S, in money of date 0:

    lower  max over dates s >= t of E[e^{-r s dt} payoff(S_s) | S_t = S]       one fixed date
    upper  the greater of exercising now and, for later dates, exercising in hindsight:
           E[max over dates s > t of e^{-r s dt} payoff(S_s) | S_t = S]

Both are convex in S: payoffs are, S_s is S times something independent of it, and neither maxima
nor means undo it. Between the nodes of a table, tangents at the nodes therefore stay below the
lower bound, and chords above the mean in the upper one: the tables are bounds at every price.
Beyond the last node that mean rises no faster for a call than E[max_s e^{-r s dt} S_s / S_t] and
falls for a put; at S = 0 it is known.

`tables`: N, log of the first node, the nodes' distance in log S; the nodes (N,); for every date the
steepest rise beyond the last node, and (value, slope) of the lower bound and the mean in the
upper bound at the N nodes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.planning.compiled import inlined, jit
from counterplan.planning.processes.base import LATTICE_CODE
from counterplan.planning.processes.laws import process_successors
from counterplan.planning.search.kernel import (
    ACTIONS,
    BOUNDS,
    DRAW,
    POLICY,
    STEP,
    SUCCESSORS,
)

T_, SIGN, STRIKE = range(3)
HEADER = 3
TABLE_HEADER = 3


@inlined
def _payoff(parameters, t, price):  # type: ignore[no-untyped-def]
    return parameters[HEADER + t] * max(parameters[SIGN] * (price - parameters[STRIKE]), 0.0)


@jit(DRAW)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """The next price: `process_draw`, without its choice among all processes."""
    at = HEADER + 2 * int(parameters[T_])
    if parameters[at] == LATTICE_CODE:
        rises = generator.random() < parameters[at + 3]
        out[0] = x[0] * (parameters[at + 1] if rises else parameters[at + 2])
        return
    time, numbers = parameters[at + 3], at + GBM_HEAD
    drift, volatility = parameters[numbers + 1], parameters[numbers + 2]
    out[0] = gbm_price(x[0], drift, volatility, time, generator.standard_normal())


@njit(SUCCESSORS, cache=True)  # not `jit`: processes slice their numbers
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """The next prices where there are finitely many."""
    block = parameters[HEADER + 2 * int(parameters[T_]) :]
    return process_successors(block, t, x, states, probabilities)


@jit(ACTIONS)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """Hold; exercise, once."""
    out[0, 0] = 0.0
    if d[0] < 0.5:
        return 1
    out[1, 0] = 1.0
    return 2


@jit(STEP)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The payoff in money of date 0."""
    out[0] = d[0] - action[0]
    if action[0] == 0.0:
        return 0.0
    return action[0] * _payoff(parameters, t, x[0])


@jit(POLICY)
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Exercise where waiting for any fixed date is worth less: the best fixed date, re-solved."""
    edge = parameters[HEADER + int(parameters[T_]) + t]
    beyond = parameters[SIGN] * (x[0] - edge) >= 0.0
    return 1 if beyond and m > 1 else 0


@inlined
def _between(parameters, tables, t, price, out):  # type: ignore[no-untyped-def]
    # Places in the flat table instead of slices of it: a slice costs as much as all the rest.
    N, nodes = int(tables[0]), TABLE_HEADER
    steepest = nodes + N + t * (1 + 3 * N)
    rows = steepest + 1
    i = min(max(int(np.floor((np.log(price) - tables[1]) / tables[2])), -1), N - 1)
    lower = _payoff(parameters, t, price)
    for j in range(max(i, 0), min(i + 2, N)):
        row = rows + 3 * j
        lower = max(lower, tables[row] + tables[row + 1] * (price - tables[nodes + j]))
    out[0] = lower
    if t == int(parameters[T_]) - 1:
        later = 0.0
    elif i == N - 1:
        later = tables[rows + 3 * i + 2] + tables[steepest] * (price - tables[nodes + i])
    else:
        # Down to S = 0, where a put pays its strike on the next date and a call never pays.
        low = tables[nodes + i] if i >= 0 else 0.0
        below = tables[rows + 3 * i + 2] if i >= 0 else _payoff(parameters, t + 1, 0.0)
        above = tables[rows + 3 * (i + 1) + 2]
        later = below + (above - below) * (price - low) / (tables[nodes + i + 1] - low)
    out[1] = max(_payoff(parameters, t, price), later)


@jit(BOUNDS)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """A fixed date, and hindsight."""
    if d[0] < 0.5:
        out[0] = out[1] = 0.0
        return
    out[0], out[1] = -np.inf, np.inf
    if tables.size > 0:
        _between(parameters, tables, t, x[0], out)


@njit(cache=True)
def best_dates(factors, discounts, sign, strike, prices):  # type: ignore[no-untyped-def]
    """How often, and sums and sums of squares, (3, T, N): over the paths of factors (n, T), of the
    best discounted payoff among the dates 1 .. s, s < T, from each of the prices (N,) at date 0."""
    n, T = factors.shape
    result = np.zeros((3, T, prices.size))
    for i in range(n):
        for j in range(prices.size):
            best = 0.0
            for s in range(1, T):
                best = max(best, discounts[s] * sign * (prices[j] * factors[i, s] - strike))
                result[0, s, j] += best > 0.0
                result[1, s, j] += best
                result[2, s, j] += best * best
    return result
