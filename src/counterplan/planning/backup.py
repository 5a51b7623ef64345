"""The value of a decision node from those of its edges.

    mean     V = (V_leaf + sum_a N(a) Q(a)) / N                       UCT: the mean return (Eq. 3.2)
    soft     V = alpha log sum_a exp(Q(a) / alpha)                    MENTS (Eq. 3.5)
    highest  V = max_a Q(a)                                           BTS
    entropy  as `highest`; H = sum_a pi(a) (H(a) - log pi(a))         DENTS

`soft`, `highest` and `entropy` leave at the edges the weights that `selection.boltzmann` draws by.
"""

from __future__ import annotations

import numpy as np

from counterplan.planning.compiled import BACKUP, ENTROPY_WEIGHT, TEMPERATURE
from counterplan.planning.jit import inlined, jit
from counterplan.planning.tree import ENTROPY, LEAF, VALUE, VISITS, WEIGHT


@jit(BACKUP)
def mean(settings, node, edges):  # type: ignore[no-untyped-def]
    """The mean of all returns, the leaf's first."""
    total = node[LEAF]
    for a in range(edges.shape[0]):
        total += edges[a, VISITS] * edges[a, VALUE]
    node[VALUE] = total / node[VISITS]


@inlined
def known(node, edges, a):  # type: ignore[no-untyped-def]
    """The value of an action; of one not yet tried, the leaf's."""
    return edges[a, VALUE] if edges[a, VISITS] > 0.0 else node[LEAF]


@inlined
def weigh(node, edges, temperature, entropy_weight):  # type: ignore[no-untyped-def]
    """Set WEIGHT to exp((Q + entropy_weight H - highest) / temperature); highest and their sum."""
    highest = -np.inf
    for a in range(edges.shape[0]):
        edges[a, WEIGHT] = known(node, edges, a) + entropy_weight * edges[a, ENTROPY]
        highest = max(highest, edges[a, WEIGHT])
    total = 0.0
    for a in range(edges.shape[0]):
        edges[a, WEIGHT] = np.exp((edges[a, WEIGHT] - highest) / temperature)
        total += edges[a, WEIGHT]
    return highest, total


@inlined
def best(node, edges):  # type: ignore[no-untyped-def]
    """The highest value among the actions tried."""
    highest = -np.inf
    for a in range(edges.shape[0]):
        if edges[a, VISITS] > 0.0:
            highest = max(highest, edges[a, VALUE])
    return highest


@jit(BACKUP)
def soft(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value with the entropy of the best Boltzmann policy."""
    highest, total = weigh(node, edges, settings[TEMPERATURE], 0.0)
    node[VALUE] = highest + settings[TEMPERATURE] * np.log(total)


@jit(BACKUP)
def highest(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value of the best action, explored by Boltzmann weights."""
    weigh(node, edges, settings[TEMPERATURE], 0.0)
    node[VALUE] = best(node, edges)


@jit(BACKUP)
def entropy(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value of the best action; entropy counts in the weights, less and less."""
    decayed = settings[ENTROPY_WEIGHT] / np.log(np.e + node[VISITS])
    _, total = weigh(node, edges, settings[TEMPERATURE], decayed)
    node[VALUE] = best(node, edges)
    node[ENTROPY] = 0.0
    for a in range(edges.shape[0]):
        share = edges[a, WEIGHT] / total
        if share > 0.0:
            node[ENTROPY] += share * (edges[a, ENTROPY] - np.log(share))
