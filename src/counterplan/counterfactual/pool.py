"""Open nodes of a search, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray, IntArray

KEPT = -1


@dataclass(frozen=True, eq=False)
class Nodes:
    """n nodes of one step.

    states   (n, D)
    used     (n,) budget spent
    earned   (n,) rewards of the states before
    promise  (n,) the most that any sequence through the node can earn
    actions  (n, T-1) what was changed on the way, KEPT where nothing was; in few bytes
    """

    states: FloatArray
    used: IntArray
    earned: FloatArray
    promise: FloatArray
    actions: NDArray[np.signedinteger]

    @classmethod
    def root(cls, state: FloatArray, decisions: int, n_actions: int) -> Nodes:
        """The first state, nothing changed."""
        return cls(
            state[None].copy(),
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
            np.full(1, math.inf),
            np.full((1, decisions), KEPT, dtype=np.min_scalar_type(-n_actions)),
        )

    def __len__(self) -> int:
        return len(self.used)

    def take(self, rows: NDArray[np.bool_] | IntArray) -> Nodes:
        """Some of the nodes."""
        return Nodes(
            self.states[rows],
            self.used[rows],
            self.earned[rows],
            self.promise[rows],
            self.actions[rows],
        )

    def children(self, parent: IntArray, t: int, action: IntArray, observed: int) -> Nodes:
        """Copies of the parents with the action of step t noted."""
        made = self.take(parent)
        made.actions[:, t] = np.where(action == observed, KEPT, action)
        return made

    def moved(self, states: FloatArray, used: IntArray, earned: FloatArray) -> Nodes:
        """The same histories, one step on."""
        return replace(self, states=states, used=used, earned=earned)

    def with_promise(self, promise: FloatArray) -> Nodes:
        """The same nodes with their promise."""
        return replace(self, promise=promise)

    def sequence(self, row: int, observed: IntArray) -> IntArray:
        """The whole action sequence of a node that changes nothing any more."""
        changed = self.actions[row]
        return np.where(changed == KEPT, observed, changed).astype(np.int64)


class Pool:
    """Open nodes of one step, in batches as they came; the most promising are taken first."""

    def __init__(self) -> None:
        self._batches: list[Nodes] = []
        self.largest = -math.inf

    def __len__(self) -> int:
        return sum(len(batch) for batch in self._batches)

    def push(self, nodes: Nodes) -> None:
        """Add nodes."""
        if len(nodes):
            self._batches.append(nodes)
            self.largest = max(self.largest, float(nodes.promise.max()))

    def pop(self, count: int, above: float) -> tuple[Nodes, float]:
        """Up to `count` of the most promising nodes; those not above the threshold are dropped,
        and the largest promise among these is told."""
        everything = _joined(self._batches)
        enough = everything.promise > above
        dropped = float(everything.promise[~enough].max(initial=-math.inf))
        everything = everything.take(enough)
        if len(everything) > count:
            order = np.argpartition(-everything.promise, count)
            taken, left = everything.take(order[:count]), everything.take(order[count:])
        else:
            taken, left = everything, everything.take(np.zeros(len(everything), dtype=np.bool_))
        self._batches = []
        self.largest = -math.inf
        self.push(left)
        return taken, dropped


def _joined(batches: list[Nodes]) -> Nodes:
    if len(batches) == 1:
        return batches[0]
    return Nodes(
        *(
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in ("states", "used", "earned", "promise", "actions")
        )
    )
