"""A basket of options, compiled: what the search calls.

x = prices (X,), one per option, d = (X,) ones where held, action = (X,) ones where exercised.

`parameters`: X, T, cap, which actions, N, M; signs, strikes, logarithms of the first nodes and the
nodes' distances in log price, (X,) each; discounts (T,); nodes (X, N); what waiting with one option
alone is worth, in money of its date, (X, T, N); the process's drifts and volatilities (X,), its
time step and a triangular root of its correlation (X, X); M equally likely factors of x (M, X).

Between nodes, waiting is interpolated by straight lines: it is convex in the price (see
`options_kernel`), so that is never too low, and the sum of max(payoff, waiting) over the options
held bounds the basket's value from above, whatever cap and correlation.

The lower bound is the best found plan of fixed dates: each option takes its best date that is not
full yet, valued by Black-Scholes with tangents at the nodes. `tables`, in money of now: (value,
slope) at the nodes of exercising in s dates' time, (X, N, T, 2), and of the best of the dates 0 ..
s, (X, T, N, 2).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.planning.compiled import inlined, jit
from counterplan.planning.processes.laws import gbm_price
from counterplan.planning.search.kernel import (
    ACTIONS,
    BOUNDS,
    DRAW,
    POLICY,
    STEP,
    SUCCESSORS,
)

RANKED, BY_PAYOFF, ALL = 0, 1, 2

X_, T_, CAP, CHOICE, N_, M_ = range(6)
HEADER = 6
# More than any option can be worth.
CROWDING = 1e12


@inlined
def _discounts(parameters):  # type: ignore[no-untyped-def]
    return HEADER + 4 * int(parameters[X_])


@inlined
def _nodes(parameters):  # type: ignore[no-untyped-def]
    return _discounts(parameters) + int(parameters[T_])


@inlined
def _waiting(parameters):  # type: ignore[no-untyped-def]
    return _nodes(parameters) + int(parameters[X_]) * int(parameters[N_])


@inlined
def _process(parameters):  # type: ignore[no-untyped-def]
    X, T, N = int(parameters[X_]), int(parameters[T_]), int(parameters[N_])
    return _waiting(parameters) + X * T * N


@inlined
def _payoff(parameters, b, price):  # type: ignore[no-untyped-def]
    X = int(parameters[X_])
    return max(parameters[HEADER + b] * (price - parameters[HEADER + X + b]), 0.0)


@jit()
def _node_below(parameters, b, price):  # type: ignore[no-untyped-def]
    """The last node at or below the price; -1 below them all."""
    X, N = int(parameters[X_]), int(parameters[N_])
    first, width = parameters[HEADER + 2 * X + b], parameters[HEADER + 3 * X + b]
    return min(max(int(np.floor((np.log(price) - first) / width)), -1), N - 1)


@jit()
def worth_of_waiting(parameters, t, b, price):  # type: ignore[no-untyped-def]
    """What holding option b alone is worth at date t, in money of date t; never too low."""
    X, T, N = int(parameters[X_]), int(parameters[T_]), int(parameters[N_])
    if t == T - 1:
        return 0.0
    nodes = _nodes(parameters) + b * N
    values = _waiting(parameters) + (b * T + t) * N
    i = _node_below(parameters, b, price)
    call = parameters[HEADER + b] > 0
    if i == N - 1:  # a call's value rises no faster than the price, a put's falls
        return parameters[values + i] + (price - parameters[nodes + i] if call else 0.0)
    if i < 0:  # at a price of 0 a put pays its strike on the next date, a call never pays
        discounts = _discounts(parameters)
        next_date = parameters[discounts + 1] / parameters[discounts]
        low, below = 0.0, 0.0 if call else next_date * parameters[HEADER + X + b]
    else:
        low, below = parameters[nodes + i], parameters[values + i]
    share = (price - low) / (parameters[nodes + i + 1] - low)
    return below + share * (parameters[values + i + 1] - below)


@jit(DRAW)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """The next prices. The root of the correlation is triangular: from the last price on, each
    can replace its own normal, which those before it do not need."""
    X = int(parameters[X_])
    drifts = _process(parameters)
    volatilities = drifts + X
    time, root = volatilities + X, volatilities + X + 1
    for b in range(X):
        out[b] = generator.standard_normal()
    for b in range(X - 1, -1, -1):
        normal = 0.0
        for k in range(b + 1):
            normal += parameters[root + b * X + k] * out[k]
        drift, volatility = parameters[drifts + b], parameters[volatilities + b]
        out[b] = gbm_price(x[b], drift, volatility, parameters[time], normal)


@jit(SUCCESSORS)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """The next prices where they were replaced by finitely many."""
    X, M = int(parameters[X_]), int(parameters[M_])
    at = _process(parameters) + 2 * X + 1 + X * X
    for i in range(M):
        probabilities[i] = 1.0 / M
        for b in range(X):
            states[i, b] = x[b] * parameters[at + i * X + b]
    return M


@jit()
def _subsets(parameters, d, out):  # type: ignore[no-untyped-def]
    """Every set of at most `cap` of the options held, none first."""
    X, cap = int(parameters[X_]), int(parameters[CAP])
    m = 0
    for code in range(1 << X):
        size, possible = 0, True
        for b in range(X):
            chosen = (code >> b) & 1
            size += chosen
            possible &= chosen == 0 or d[b] > 0.5
            out[m, b] = chosen
        if possible and size <= cap:
            m += 1
    return m


@jit(ACTIONS)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The j options of the best scores, j = 0 .. cap; or every set.

    The score is what exercising gains over waiting with that option alone, or the payoff. The last
    row of `out`, which is never an action, holds the scores.
    """
    if parameters[CHOICE] == ALL:
        return _subsets(parameters, d, out)
    X, scores = int(parameters[X_]), out.shape[0] - 1
    count = 0
    for b in range(X):
        payoff = _payoff(parameters, b, x[b])
        out[0, b] = 0.0
        out[scores, b] = -np.inf
        if d[b] > 0.5 and payoff > 0.0:
            count += 1
            gain = payoff
            if parameters[CHOICE] == RANKED:
                gain -= worth_of_waiting(parameters, t, b, x[b])
            out[scores, b] = gain
    most = min(count, int(parameters[CAP]))
    for j in range(most):
        best = 0
        for b in range(X):
            out[j + 1, b] = out[j, b]
            if out[scores, b] > out[scores, best]:
                best = b
        out[j + 1, best] = 1.0
        out[scores, best] = -np.inf
    return most + 1


@jit(STEP)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The payoffs in money of date 0."""
    total = 0.0
    for b in range(int(parameters[X_])):
        out[b] = d[b] - action[b]
        if action[b] > 0.0:
            total += action[b] * _payoff(parameters, b, x[b])
    return parameters[_discounts(parameters) + t] * total


@jit(POLICY)
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Exercise what gains over waiting alone, and as many as would not fit on the dates left."""
    X = int(parameters[X_])
    crowd = -int(parameters[CAP]) * (int(parameters[T_]) - 1 - t)
    for b in range(X):
        crowd += d[b] > 0.5 and _payoff(parameters, b, x[b]) > 0.0
    best, most = 0, -np.inf
    for i in range(m):
        size, gain = 0, 0.0
        for b in range(X):
            if offered[i, b] > 0.5:
                size += 1
                gain += _payoff(parameters, b, x[b]) - worth_of_waiting(parameters, t, b, x[b])
        # Too few by one is worse than any loss, so that crowding comes first.
        gain -= CROWDING * max(crowd - size, 0)
        if gain > most:
            best, most = i, gain
    return best


@jit()
def _best_date(parameters, tables, t, b, price):  # type: ignore[no-untyped-def]
    """The value of the best fixed date for option b alone."""
    X, T, N = int(parameters[X_]), int(parameters[T_]), int(parameters[N_])
    nodes = _nodes(parameters) + b * N
    row = 2 * N * ((X + b) * T + T - 1 - t)
    i = _node_below(parameters, b, price)
    best = _payoff(parameters, b, price)
    for j in range(max(i, 0), min(i + 2, N)):
        tangent = tables[row + 2 * j] + tables[row + 2 * j + 1] * (price - parameters[nodes + j])
        best = max(best, tangent)
    return best


@jit()
def _best_free(parameters, tables, b, price, taken):  # type: ignore[no-untyped-def]
    """The value of the best date for option b that is not full; it is marked in `taken`."""
    T, N, cap = int(parameters[T_]), int(parameters[N_]), int(parameters[CAP])
    nodes = _nodes(parameters) + b * N
    i = _node_below(parameters, b, price)
    best, date = 0.0, 0
    if taken[0] < cap:
        best = _payoff(parameters, b, price)
    for j in range(max(i, 0), min(i + 2, N)):
        row = 2 * T * (b * N + j)
        away = price - parameters[nodes + j]
        for ahead in range(1, taken.size):
            value = tables[row + 2 * ahead] + tables[row + 2 * ahead + 1] * away
            if value > best and taken[ahead] < cap:
                best, date = value, ahead
    taken[date] += 1
    return best


@njit(BOUNDS, cache=True)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """Fixed dates below, each option without the others above."""
    X, T = int(parameters[X_]), int(parameters[T_])
    held, upper, lower = 0.0, 0.0, 0.0
    for b in range(X):
        held += d[b]
        if d[b] > 0.5:
            payoff = _payoff(parameters, b, x[b])
            upper += max(payoff, worth_of_waiting(parameters, t, b, x[b]))
    discount = parameters[_discounts(parameters) + t]
    out[0], out[1] = -np.inf, discount * upper
    if tables.size == 0:
        return
    if held <= parameters[CAP]:
        for b in range(X):
            if d[b] > 0.5:
                lower += _best_date(parameters, tables, t, b, x[b])
    else:
        taken = np.zeros(T - t, dtype=np.int64)
        for b in range(X):
            if d[b] > 0.5:
                lower += _best_free(parameters, tables, b, x[b], taken)
    out[0] = discount * lower
