"""Means of straight lines between nodes under a lognormal step, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# A normal beyond this many deviations is as good as certain: 1 - Phi(9) = 1e-19.
CERTAIN = 9.0


@njit(cache=True)
def _normal(z):  # type: ignore[no-untyped-def]
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@njit(cache=True)
def at_price(price, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """The straight lines through (nodes, values), the outer ones prolonged, at a price.

    The nodes are evenly spaced in their logarithms: the first is `first`, they are `width` apart.
    """
    i = int((math.log(price) - first) / width)
    i = min(max(i, 0), nodes.size - 2)
    slope = (values[i + 1] - values[i]) / (nodes[i + 1] - nodes[i])
    return values[i] + slope * (price - nodes[i])


@njit(cache=True)
def lognormal_mean(price, step, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """E[f(S')] exactly, f the straight lines and S' = price e^{drift} lognormal(-s^2/2, s).

    step = (drift, s). f is its first line and, at each node, a call times the change of slope:
    f(S) = line_0(S) + sum_j (slope_j - slope_{j-1}) (S - node_j)^+, so its mean is a sum of
    Black-Scholes prices; those deep in or out of the money are straight lines themselves.
    """
    drift, s = step
    forward = price * math.exp(drift)
    center = (math.log(forward) - first) / width
    reach = CERTAIN * s / width + 1.0
    low = min(max(int(center - reach), 0), nodes.size - 2)
    high = min(int(center + reach) + 2, nodes.size - 1)
    # Nodes up to `low` are passed with certainty: what remains of them is the line from there on.
    slope = (values[low + 1] - values[low]) / (nodes[low + 1] - nodes[low])
    total = values[low] + slope * (forward - nodes[low])
    for j in range(low + 1, high):
        after = (values[j + 1] - values[j]) / (nodes[j + 1] - nodes[j])
        d = (center - j) * width / s + 0.5 * s
        total += (after - slope) * (forward * _normal(d) - nodes[j] * _normal(d - s))
        slope = after
    return total


@njit(cache=True)
def lognormal_means(prices, step, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """`lognormal_mean` of each price (n,)."""
    result = np.empty(prices.size)
    for i in range(prices.size):
        result[i] = lognormal_mean(prices[i], step, first, width, nodes, values)
    return result


@njit(cache=True)
def at_prices(prices, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """`at_price` of each price (n,)."""
    result = np.empty(prices.size)
    for i in range(prices.size):
        result[i] = at_price(prices[i], first, width, nodes, values)
    return result
