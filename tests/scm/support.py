"""Pairs of rows to test the kernel with, and two derivations of it that share nothing with it.

Both start from the definition. With X_j ~ Exp(1) independent, the factual winner is the smallest
X_j / p_j and the counterfactual one the smallest X_j / q_j (the same noise, other rates). For
i != o, over the region x_o / p_o < x_i / p_i, x_i / q_i < x_o / q_o,

    p_o P(i) = integral of exp(-x_o - x_i - sum_{j != o, i} max(p_j x_o / p_o, q_j x_i / q_i)).

Substituting x_i = r x_o and integrating over x_o leaves one integral over r,

    p_o P(i) = integral_{p_i/p_o}^{q_i/q_o} dr / (1 + r + sum_j max(p_j/p_o, q_j r/q_i))^2
    p_o P(o) = 1 / (1 + sum_{j != o} max(p_j/p_o, q_j/q_o)).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.integrate import dblquad

from counterplan import GumbelMaxSCM, TabularMDP

# Zeros, ties and sizes that differ by hundreds of orders of magnitude are drawn often.
WEIGHTS = st.one_of(
    st.just(0.0),
    st.sampled_from([1.0, 2.0, 3.0, 1e-17, 1e-300]),
    st.floats(1e-6, 1.0),
)


@st.composite
def rows(draw: Any, size: int) -> np.ndarray:
    weights = np.array(draw(st.lists(WEIGHTS, min_size=size, max_size=size)))
    if weights.max() < 1e-6:
        weights[draw(st.integers(0, size - 1))] = 1.0
    return weights / weights.sum()


@st.composite
def questions(draw: Any, largest: int = 7) -> tuple[np.ndarray, int, np.ndarray]:
    """(p, o, q): a factual row, what was observed, a counterfactual row."""
    size = draw(st.integers(1, largest))
    p, q = draw(rows(size)), draw(rows(size))
    return p, draw(st.sampled_from(np.flatnonzero(p).tolist())), q


def model_of(p: np.ndarray, q: np.ndarray) -> GumbelMaxSCM:
    """Action 0 has the row p in every state, action 1 the row q."""
    transitions = np.broadcast_to(np.stack([p, q]), (len(p), 2, len(p)))
    return GumbelMaxSCM(TabularMDP(transitions, np.zeros((len(p), 2))))


def kernel(p: np.ndarray, o: int, q: np.ndarray) -> np.ndarray:
    return model_of(p, q).counterfactual_row(0, 0, o, 0, 1)


def fractions_of(row: np.ndarray) -> list[Fraction]:
    """The floats as they are, scaled to sum to exactly 1."""
    exact = [Fraction(float(x)) for x in row]
    return [x / sum(exact) for x in exact]


def exact_kernel(p: list[Fraction], o: int, q: list[Fraction]) -> list[Fraction]:
    """The one-dimensional integral in rational arithmetic, piece by piece."""
    n = len(p)
    result = [Fraction(0)] * n
    if q[o] > 0:
        others = sum(max(p[j] / p[o], q[j] / q[o]) for j in range(n) if j != o)
        result[o] = 1 / (1 + others) / p[o]
    for i in range(n):
        if i != o and q[i] > 0:
            result[i] = _integral(p, o, q, i) / p[o]
    return result


def _integral(p: list[Fraction], o: int, q: list[Fraction], i: int) -> Fraction:
    others = [j for j in range(len(p)) if j not in (o, i)]

    def denominator(r: Fraction) -> Fraction:
        return 1 + r + sum(max(p[j] / p[o], q[j] * r / q[i]) for j in others)

    low = p[i] / p[o]
    high = q[i] / q[o] if q[o] > 0 else None
    if high is not None and low >= high:
        return Fraction(0)
    corners = [p[j] * q[i] / (p[o] * q[j]) for j in others if q[j] > 0]
    inside = sorted(c for c in set(corners) if low < c and (high is None or c < high))
    points = [low, *inside] + ([high] if high is not None else [])
    total = Fraction(0)
    for u, v in pairwise(points):
        total += (v - u) / (denominator(u) * denominator(v))
    if high is None:
        # Beyond the last corner every q_j r / q_i with q_j > 0 is the larger of the two.
        slope = 1 + sum(q[j] for j in others) / q[i]
        total += 1 / (slope * denominator(points[-1]))
    return total


def quadrature(p: np.ndarray, o: int, q: np.ndarray, i: int) -> float:
    """P(i) for i != o by integrating the definition over x_o and x_i numerically."""
    others = [j for j in range(len(p)) if j not in (o, i)]

    def density(x_i: float, x_o: float) -> float:
        waits = sum(max(p[j] * x_o / p[o], q[j] * x_i / q[i]) for j in others)
        return math.exp(-x_o - x_i - waits)

    def high(x_o: float) -> float:
        if q[o] == 0.0:
            return 60.0
        return max(x_o * p[i] / p[o], min(60.0, x_o * q[i] / q[o]))

    value, _ = dblquad(
        density, 0.0, 60.0, lambda x_o: x_o * p[i] / p[o], high, epsabs=1e-8, epsrel=1e-8
    )
    return value / p[o]
