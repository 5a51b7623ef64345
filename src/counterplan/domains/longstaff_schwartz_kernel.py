"""Longstaff-Schwartz on one price, compiled: three sweeps over the paths per date."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from counterplan.planning.kernel import MATRIX, VECTOR

# Fewer paths in the money give no regression: the option is held.
LEAST_PATHS = 4


@njit(cache=True)
def _solved(matrix, right):  # type: ignore[no-untyped-def]
    """The solution of a positive definite 3 x 3 system by Cholesky; nan where it is singular."""
    root = np.zeros((3, 3))
    for i in range(3):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= root[i, k] * root[j, k]
            if i == j:
                if total <= 1e-13 * matrix[i, i]:
                    return np.full(3, np.nan)
                root[i, i] = np.sqrt(total)
            else:
                root[i, j] = total / root[j, j]
    solution = right.copy()
    for i in range(3):
        for k in range(i):
            solution[i] -= root[i, k] * solution[k]
        solution[i] /= root[i, i]
    for i in range(2, -1, -1):
        for k in range(i + 1, 3):
            solution[i] -= root[k, i] * solution[k]
        solution[i] /= root[i, i]
    return solution


@njit(cache=True)
def _regressed(moneyness, flows, sign):  # type: ignore[no-untyped-def]
    """The coefficients of 1, u, u^2 that fit the flows best on the paths in the money.

    u = (m - mean) / deviation would condition the equations; shifting by the mean is enough here,
    and the coefficients are then those of powers of m - mean, whose mean is returned, too.
    """
    n = moneyness.size
    count, mean = 0, 0.0
    for i in range(n):
        inside = sign * moneyness[i] > 0.0
        count += inside
        mean += moneyness[i] if inside else 0.0
    if count < LEAST_PATHS:
        return np.full(3, np.nan), 0.0
    mean /= count
    m2 = m3 = m4 = f0 = f1 = f2 = 0.0
    for i in range(n):
        inside = 1.0 if sign * moneyness[i] > 0.0 else 0.0
        u = inside * (moneyness[i] - mean)
        flow = inside * flows[i]
        square = u * u
        m2 += square
        m3 += square * u
        m4 += square * square
        f0 += flow
        f1 += flow * u
        f2 += flow * square
    scale = np.sqrt(m2 / count)
    if scale == 0.0:
        return np.full(3, np.nan), 0.0
    powers = np.array([1.0, scale, scale * scale])
    matrix = np.array([[count, 0.0, m2], [0.0, m2, m3], [m2, m3, m4]])
    matrix /= np.outer(powers, powers)
    return _solved(matrix, np.array([f0, f1, f2]) / powers) / powers, mean


_FITTED = types.UniTuple(MATRIX, 2)  # type: ignore[no-untyped-call]


@njit(_FITTED(MATRIX, types.float64, types.float64), cache=True)
def backward(moneyness, sign, discount):  # type: ignore[no-untyped-def]
    """Coefficients (T, 4): those of powers of m - mean, and the mean, nan where nothing is
    regressed; and the flows (1, n) of date 1 on, in units of the strike and of date 0.

    moneyness (T, n) is S / K - 1; discount is e^{-r dt}.
    """
    T, n = moneyness.shape
    coefficients = np.full((T, 4), np.nan)
    flows = np.empty((1, n))
    flow = flows[0]
    for i in range(n):
        flow[i] = max(sign * moneyness[T - 1, i], 0.0)
    for t in range(T - 2, 0, -1):
        for i in range(n):
            flow[i] *= discount
        fit, mean = _regressed(moneyness[t], flow, sign)
        coefficients[t, :3] = fit
        coefficients[t, 3] = mean
        for i in range(n):
            payoff = sign * moneyness[t, i]
            u = moneyness[t, i] - mean
            # A comparison with nan is false: where nothing was fitted, the option is held.
            if payoff > 0.0 and payoff >= fit[0] + u * (fit[1] + u * fit[2]):
                flow[i] = payoff
    for i in range(n):
        flow[i] *= discount
    return coefficients, flows


@njit(VECTOR(MATRIX, MATRIX, types.float64, types.float64), cache=True)
def forward(moneyness, coefficients, sign, discount):  # type: ignore[no-untyped-def]
    """(n,) what the fitted rule earns from date 1 on, in units of the strike and of date 0."""
    T, n = moneyness.shape
    result = np.zeros(n)
    held = np.ones(n, dtype=np.bool_)
    factor = 1.0
    for t in range(1, T):
        factor *= discount
        b0, b1, b2, mean = coefficients[t]
        last = t == T - 1
        for i in range(n):
            payoff = sign * moneyness[t, i]
            u = moneyness[t, i] - mean
            if held[i] and payoff > 0.0 and (last or payoff >= b0 + u * (b1 + u * b2)):
                held[i] = False
                result[i] = factor * payoff
    return result
