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

    def take(self, rows: NDArray[np.bool_] | IntArray | slice) -> Nodes:
        """Some of the nodes; a slice is not copied."""
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
    """Open nodes of one step; the most promising are taken first.

    They lie in runs, each sorted best first. Runs of similar size are merged, so that a node is
    copied O(log n) times however many are open, and taking the best looks at the runs' heads only.
    """

    def __init__(self) -> None:
        self._runs: list[Nodes] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def largest(self) -> float:
        """The most that any open node promises."""
        return max((float(run.promise[0]) for run in self._runs), default=-math.inf)

    def push(self, nodes: Nodes) -> None:
        """Add nodes."""
        if len(nodes) == 0:
            return
        self._runs.append(_best_first(nodes))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(_best_first(_joined([before, last])))

    def pop(self, count: int, above: float) -> tuple[Nodes, float]:
        """Up to `count` of the most promising nodes; those not above the threshold are dropped,
        and the largest promise among these is told."""
        enough = [int(np.count_nonzero(run.promise > above)) for run in self._runs]
        dropped = max(
            (float(r.promise[n]) for r, n in zip(self._runs, enough, strict=True) if n < len(r)),
            default=-math.inf,
        )
        heads = [run.promise[: min(n, count)] for run, n in zip(self._runs, enough, strict=True)]
        owner = np.repeat(np.arange(len(heads)), [len(head) for head in heads])
        # Stable, so that what is taken of a run is its beginning, also among equals.
        order = np.argsort(-np.concatenate(heads), kind="stable")[:count]
        used = np.bincount(owner[order], minlength=len(heads))
        parts = [run.take(slice(0, n)) for run, n in zip(self._runs, used, strict=True)]
        rests = [
            _compact(run.take(slice(first, last)))
            for run, first, last in zip(self._runs, used, enough, strict=True)
        ]
        self._runs = [rest for rest in rests if len(rest)]
        return _joined(parts), dropped


def _best_first(nodes: Nodes) -> Nodes:
    return nodes.take(np.argsort(-nodes.promise, kind="stable"))


def _compact(nodes: Nodes) -> Nodes:
    """The same nodes; copied where they would keep a much larger array alive."""
    held = nodes.used.base
    if held is not None and len(held) > 2 * len(nodes):
        return nodes.take(np.arange(len(nodes)))
    return nodes


def _joined(batches: list[Nodes]) -> Nodes:
    if len(batches) == 1:
        return batches[0]
    return Nodes(
        *(
            np.concatenate([getattr(batch, name) for batch in batches])
            for name in ("states", "used", "earned", "promise", "actions")
        )
    )
