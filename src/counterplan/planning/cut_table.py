"""The value by cuts, as one flat table that compiled code reads: a bound, and the leaf of a search.

    V_t(x, d) <= min over k of  a_k + b_k . d        for the node that is closest to x

to be maximised, as everything in a kernel. The table holds T, X, D and where each time begins; then
for each time M, K, what a number of x is divided by where nodes are compared (X), the nodes (M, X)
and their cuts (M, K, 1 + D). Of the cuts of a node those count that are the lowest at some levels
that rounds came to; others are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray
from counterplan.planning.search.kernel import BOUNDS


def packed(nodes: Sequence[FloatArray], cuts: Sequence[FloatArray]) -> FloatArray:
    """The table of nodes (M, X) and cuts (M, K, 1 + D) at each time."""
    blocks, begin = [], 3 + len(nodes)
    begins = list[int]()
    for values, rows in zip(nodes, cuts, strict=True):
        scale = values.std(axis=0) + 1e-12 * (1.0 + np.abs(values).max(axis=0))
        sizes = np.array(rows.shape[:2], dtype=np.float64)
        blocks.append(np.concatenate([sizes, scale, values.ravel(), rows.ravel()]))
        begins.append(begin)
        begin += blocks[-1].size
    head = [len(nodes), nodes[0].shape[1], cuts[0].shape[2] - 1, *begins]
    return np.concatenate([np.array(head, dtype=np.float64), *blocks])


def lowest_anywhere(rows: FloatArray, points: FloatArray) -> FloatArray:
    """(M, K', 1 + D) of cuts (K, M, 1 + D): those that are lowest at some of the points (n, D)."""
    found = []
    for cuts in np.moveaxis(rows, 1, 0):
        values = cuts[:, 0] + points @ cuts[:, 1:].T
        found.append(cuts[np.unique(np.argmin(values, axis=1))])
    most = max(map(len, found))
    # Shorter lists repeat their first.
    return np.array(
        [np.vstack([one, np.repeat(one[:1], most - len(one), axis=0)]) for one in found]
    )


@njit(cache=True)
def cut_value(table, t, x, d):  # type: ignore[no-untyped-def]
    """V_t(x, d) from above."""
    X, D = int(table[1]), int(table[2])
    if t >= int(table[0]):
        return 0.0
    at = int(table[3 + t])
    M, K = int(table[at]), int(table[at + 1])
    scale = at + 2
    nodes = scale + X
    closest, least = 0, np.inf
    for j in range(M):
        distance = 0.0
        for i in range(X):
            distance += ((x[i] - table[nodes + j * X + i]) / table[scale + i]) ** 2
        if distance < least:
            closest, least = j, distance
    if M == 1 and least > 1.0:  # of where a plan starts nothing else was solved
        return np.inf
    row = nodes + M * X + closest * K * (1 + D)
    lowest = np.inf
    for _ in range(K):
        value = table[row]
        for i in range(D):
            value += table[row + 1 + i] * d[i]
        lowest = min(lowest, value)
        row += 1 + D
    return lowest


@njit(BOUNDS, cache=True)
def cut_bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """As a kernel's `bounds`: nothing below, the cuts above."""
    out[0] = -np.inf
    out[1] = cut_value(tables, t, x, d)
