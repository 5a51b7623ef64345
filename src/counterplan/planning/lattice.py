"""What may happen, as a Markov chain with few values at every time.

    x_t in values[t] (M_t, X),    P(values[t+1][j] | values[t][i]) = chances[t][i, j]

Where a model lists its successors and few values can be reached, the chain is the model's own and
exact. Any other is made from sampled futures: at each time they are divided into M cells (k-means,
scaled by their spread), a node is its cell's mean, and transitions are counted. The mean of every
x_t is kept; spread within a cell is lost.

Numbers of x that are drawn anew at every step, whatever came before (`independent`), get cells of
their own, whose chances are the same from everywhere: nodes are then all pairs of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.exact_value import listed
from counterplan.planning.model import ExogenousModel, FiniteSupport, State
from counterplan.planning.policies import futures

# More nodes at a time than this are not listed, but sampled.
MOST_LISTED = 400
# Futures that cells are made from (transitions are counted along all), and rounds of k-means.
CELL_PATHS, ROUNDS = 2_000, 20


@dataclass(frozen=True, eq=False)
class Lattice:
    """A Markov chain of T times.

    values   T tables (M_t, X); M of the first is 1
    chances  T - 1 matrices (M_t, M_{t+1})
    exact    whether it is the model's own law
    """

    values: tuple[FloatArray, ...]
    chances: tuple[FloatArray, ...]
    exact: bool

    @classmethod
    def of(
        cls,
        model: ExogenousModel,
        nodes: int = 20,
        paths: int = 20_000,
        seed: Seed = 0,
        state: State | None = None,
        independent: Sequence[int] | None = None,
    ) -> Lattice:
        """The chain from a state on (default: the start).

        nodes        cells at each time, and of the independent numbers, where there is no list
        independent  which numbers of x are drawn anew at every step; default: the model's own
                     attribute of this name, or none
        """
        at = model.start if state is None else state
        own = _listed(model, at) if isinstance(model, FiniteSupport) else None
        if own is not None:
            return own
        nodes = whole_number(nodes, "nodes", minimum=1)
        X = at.exogenous.size
        given = getattr(model, "independent", ()) if independent is None else independent
        fresh = sorted({whole_number(one, "independent", maximum=X - 1) for one in given})
        markov = [i for i in range(X) if i not in fresh]
        rng = generator(seed)
        sampled = futures(model, whole_number(paths, "paths", minimum=nodes), rng, at)
        chains = [_counted(sampled[:, :, markov], nodes, True)] if markov else []
        chains += [_counted(sampled[:, :, fresh], nodes, False)] if fresh else []
        values, chances = chains[0]
        if len(chains) == 2:
            values, chances = _paired(chains[0], chains[1], markov + fresh)
        return cls(tuple(values), tuple(chances), exact=False)

    @property
    def horizon(self) -> int:
        return len(self.values)

    def nearest(self, t: int, exogenous: FloatArray) -> IntArray:
        """(n,) the nodes closest to (n, X), measured by the nodes' spread."""
        nodes = self.values[t]
        scale = nodes.std(axis=0) + 1e-12 * (1.0 + np.abs(nodes).max(axis=0))
        return _closest(exogenous / scale, nodes / scale)

    def sample(self, n: int, seed: Seed = 0) -> IntArray:
        """(n, T) nodes of futures."""
        rng, found = generator(seed), np.zeros((n, self.horizon), dtype=np.int64)
        for t, chances in enumerate(self.chances):
            bounds = np.cumsum(chances, axis=1)[found[:, t]]
            drawn = (bounds < rng.random(n)[:, None]).sum(axis=1)
            found[:, t + 1] = np.minimum(drawn, chances.shape[1] - 1)
        return found


def _listed(model: ExogenousModel, at: State) -> Lattice | None:
    """All that may happen, None where that is too much."""
    try:
        values, chances = listed(model, at.t, at.exogenous, model.horizon, MOST_LISTED)
    except NotApplicableError:
        return None
    return Lattice(tuple(values), tuple(one.toarray() for one in chances), exact=True)


def _counted(
    paths: FloatArray, nodes: int, markov: bool
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Cells of paths (n, T, X) at each time, and how often each follows each."""
    values, chances, before = list[FloatArray](), list[FloatArray](), np.zeros(0, dtype=np.int64)
    for t in range(paths.shape[1]):
        now = paths[:, t]
        cells = _cells(now, nodes)
        M = int(cells.max()) + 1
        counts = np.bincount(cells, minlength=M)
        sums = [np.bincount(cells, weights=column, minlength=M) for column in now.T]
        values.append(np.stack(sums, axis=1) / counts[:, None])
        if t > 0 and markov:
            pairs = np.zeros((len(values[-2]), M))
            np.add.at(pairs, (before, cells), 1.0)
            chances.append(pairs / pairs.sum(axis=1, keepdims=True))
        elif t > 0:
            chances.append(np.tile(counts / len(now), (len(values[-2]), 1)))
        before = cells
    return values, chances


def _cells(points: FloatArray, nodes: int) -> IntArray:
    """(n,) the cell of each point (n, X), none of them empty."""
    distinct = np.unique(points[:CELL_PATHS], axis=0)
    if not np.isfinite(points).all():
        raise InputError("sampled futures hold numbers that are not finite")
    scale = points.std(axis=0)
    scaled = points / np.where(scale > 0.0, scale, 1.0)
    some = scaled[:CELL_PATHS]
    if len(distinct) <= nodes:
        centres = np.unique(some, axis=0)
    else:
        # Begin with equally many points per cell along the direction of most spread.
        direction = np.linalg.svd(some - some.mean(axis=0), full_matrices=False)[2][0]
        order = np.argsort(some @ direction, kind="stable")
        centres = np.array([some[part].mean(axis=0) for part in np.array_split(order, nodes)])
        for _ in range(ROUNDS):
            nearest = _closest(some, centres)
            kept = np.unique(nearest)
            centres = np.array([some[nearest == i].mean(axis=0) for i in kept])
    return np.unique(_closest(scaled, centres), return_inverse=True)[1].astype(np.int64).ravel()


def _closest(points: FloatArray, centres: FloatArray) -> IntArray:
    squares = (centres**2).sum(axis=1) - 2.0 * points @ centres.T
    return np.asarray(np.argmin(squares, axis=1), dtype=np.int64)


def _paired(
    first: tuple[list[FloatArray], list[FloatArray]],
    second: tuple[list[FloatArray], list[FloatArray]],
    columns: list[int],
) -> tuple[list[FloatArray], list[FloatArray]]:
    """All pairs of nodes of two chains that do not influence each other."""
    order = np.argsort(columns)
    values = [
        np.hstack([np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))])[:, order]
        for a, b in zip(first[0], second[0], strict=True)
    ]
    pairs = zip(first[1], second[1], strict=True)
    return values, [np.asarray(np.kron(a, b), dtype=np.float64) for a, b in pairs]
