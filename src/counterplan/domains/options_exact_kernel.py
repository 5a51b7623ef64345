"""One step of the backward induction of `options_exact`, compiled.

A put of strike 1 in log price y. `step` = (r dt, (r - q) dt, s): its discounting, the growth of the
price and the standard deviation of log S over one date. The date after is known by its edge, below
which it is exercised, and by the weighted values of holding on at ascending nodes above the edge.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# Densities this many deviations away are left out: exp(-9.5^2 / 2) = 3e-20.
REACH = 9.5
# Edges are found to this much.
PRECISION = 1e-14


@njit(cache=True)
def _normal(z):  # type: ignore[no-untyped-def]
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@njit(cache=True)
def _held(y, step, edge, nodes, weighted):  # type: ignore[no-untyped-def]
    """The value at y of not exercising, that is of the date after."""
    discounting, growth, s = step
    mean = y + growth - 0.5 * s * s
    below = (edge - mean) / s
    exercised = _normal(below) - math.exp(y + growth) * _normal(below - s)
    kept = 0.0
    for i in range(np.searchsorted(nodes, mean - REACH * s), nodes.size):
        distance = (nodes[i] - mean) / s
        if distance > REACH:
            break
        kept += weighted[i] * math.exp(-0.5 * distance * distance)
    return math.exp(-discounting) * (exercised + kept / (s * math.sqrt(2.0 * math.pi)))


@njit(cache=True)
def held_values(y, step, edge, nodes, weighted):  # type: ignore[no-untyped-def]
    """(n,) the values of not exercising at log prices y (n,)."""
    result = np.empty(y.size)
    for i in range(y.size):
        result[i] = _held(y[i], step, edge, nodes, weighted)
    return result


@njit(cache=True)
def exercise_edge(step, edge, nodes, weighted):  # type: ignore[no-untyped-def]
    """The log price where exercising and waiting are worth the same, by bisection. There is one:
    at a price of 0 waiting is worth e^{-r dt} < 1, at the strike exercising is worth nothing."""
    low, high = -step[2], 0.0
    while -math.expm1(low) < _held(low, step, edge, nodes, weighted):
        low, high = 2.0 * low, low
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if -math.expm1(middle) >= _held(middle, step, edge, nodes, weighted):
            low = middle
        else:
            high = middle
    return low
