"""Which action a simulation follows.

UCB (Eq. 3.1), with c counted in units of the spread (highest minus lowest) of the returns met at
this depth, so that it means the same in any currency; an untried action goes first:

    argmax_a  Q(s, a) + c spread sqrt(log N(s) / N(s, a))

E2W (Eq. 3.6 with the exponential that the paper lost), an action at random:

    (1 - lambda) softmax(Q / alpha) + lambda / |A|,    lambda = min(1, epsilon |A| / log(N(s) + 1))
"""

from __future__ import annotations

import numpy as np

from counterplan.planning.compiled import EPSILON, EXPLORATION, SCALE, SELECT
from counterplan.planning.jit import jit
from counterplan.planning.tree import VALUE, VISITS, WEIGHT


@jit(SELECT)
def ucb(settings, spread, node, edges, generator):  # type: ignore[no-untyped-def]
    """The highest upper confidence bound."""
    unit = settings[SCALE] if settings[SCALE] > 0.0 else spread
    width = settings[EXPLORATION] * unit * np.sqrt(np.log(node[VISITS]))
    best, highest = 0, -np.inf
    for a in range(edges.shape[0]):
        visits = edges[a, VISITS]
        if visits == 0.0:
            return a
        bound = edges[a, VALUE] + width / np.sqrt(visits)
        if bound > highest:
            best, highest = a, bound
    return best


@jit(SELECT)
def boltzmann(settings, spread, node, edges, generator):  # type: ignore[no-untyped-def]
    """An action by the weights that the backup left at the edges, mixed with the uniform law."""
    m = edges.shape[0]
    mixed = settings[EPSILON] * m / np.log(node[VISITS] + 1.0)
    u = generator.random()
    if u < mixed or node[VISITS] <= 1.0:
        return int(generator.random() * m)
    total = 0.0
    for a in range(m):
        total += edges[a, WEIGHT]
    u = (u - mixed) / (1.0 - mixed) * total
    for a in range(m):
        u -= edges[a, WEIGHT]
        if u < 0.0:
            return a
    return m - 1
