"""Best-first search for the best action sequence with at most k changes.

A node is a state reached at step t with l units of the budget spent. Its promise is

    f = (rewards earned before t) + U(s, l, t),        never more than its parent's

where U is any admissible bound (Eq. 10 of the 2023 paper with an upper bound for the value). The
search expands the most promising nodes, many of one step at a time: all children of a batch are
one call to the model. A child whose promise does not beat the best sequence known is dropped; one
whose budget is spent is followed to the end at once. When nothing open promises more than the best
sequence known, that sequence is optimal; stopped earlier, the largest open promise certifies how
much better the optimum can be. What is better by rounding only is not better: ties keep what was
done.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from counterplan.core.limits import Limits
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.history import History
from counterplan.counterfactual.open_nodes import Nodes, Pool
from counterplan.counterfactual.sequence_setting import SequenceSetting


class UpperBound(Protocol):
    """An admissible bound, prepared for one problem."""

    @property
    def name(self) -> str: ...

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) no sequence earns more from step t on, states (n, D) included, with `used` spent."""
        ...

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        """The bound of the same problem with a smaller budget."""
        ...


@dataclass(eq=False)
class Outcome:
    """What a search found: the best sequence (T-1,), its value, a bound on any, and counts."""

    sequence: IntArray
    value: float
    bound: float = math.inf
    complete: bool = False
    expanded: int = 0
    added: int = 0
    history: History = field(default_factory=History)


class Search:
    """One run; `batch` nodes are expanded at a time, about `memory` are kept open, and with
    `rollout` spent budgets are followed to the end at once. Without it every child counts as added,
    as in a textbook search, which drops none."""

    def __init__(
        self,
        setting: SequenceSetting,
        bound: UpperBound,
        batch: int = 256,
        memory: int = 2_000_000,
        rollout: bool = True,
    ) -> None:
        self._setting, self._bound = setting, bound
        self._batch, self._memory, self._rollout = batch, memory, rollout
        self._pools = [Pool() for _ in range(setting.horizon)]
        # The largest promise that was dropped: never more than the wanted gap above the value.
        self._dropped = -math.inf

    def run(self, start: IntArray, limits: Limits, started: float | None = None) -> Outcome:
        """Search, knowing that the sequence `start` is possible; the time that limits count from
        is now, or when preparations `started`."""
        setting = self._setting
        deadline = (time.perf_counter() if started is None else started) + limits.seconds
        found = Outcome(start, float(setting.outcomes(start[None])[0]))
        self._open_root(found, limits)
        while True:
            t, promise = self._most_promising()
            found.bound = max(found.value, promise, self._dropped)
            found.history.add(found.expanded, found.value, found.bound)
            enough = self._worthwhile(found, limits)
            if promise <= enough:
                found.complete = True
                return found
            out_of_nodes = limits.nodes is not None and found.expanded >= limits.nodes
            if out_of_nodes or time.perf_counter() > deadline:
                return found
            room = self._batch
            if limits.nodes is not None:
                room = min(room, limits.nodes - found.expanded)
            nodes, dropped = self._pools[t].pop(room, enough)
            self._dropped = max(self._dropped, dropped)
            found.expanded += len(nodes)
            self._expand(t, nodes, found, limits)

    def _worthwhile(self, found: Outcome, limits: Limits) -> float:
        """What a sequence has to exceed to be of interest."""
        return found.value + max(limits.gap, self._setting.negligible(found.value))

    def _open_root(self, found: Outcome, limits: Limits) -> None:
        setting = self._setting
        if setting.horizon == 1:
            return
        root = Nodes.root(setting.states[0], setting.horizon - 1, setting.n_actions)
        promise = self._bound.upper(0, root.used, root.states)
        self._keep(0, root, promise, found, limits)

    def _most_promising(self) -> tuple[int, float]:
        """The step whose open nodes promise most; the latest with open nodes if memory is short,
        since depth-first order soon empties it."""
        promises = [pool.largest for pool in self._pools]
        best = int(np.argmax(promises))
        if sum(len(pool) for pool in self._pools) > self._memory:
            latest = max(t for t, pool in enumerate(self._pools) if len(pool))
            return latest, promises[best]
        return best, promises[best]

    def _expand(self, t: int, nodes: Nodes, found: Outcome, limits: Limits) -> None:
        setting = self._setting
        if len(nodes) == 0:
            return
        earned = nodes.earned + setting.reward(nodes.states)
        after = setting.replay.children(t, nodes.states)
        spent = nodes.used[:, None] + setting.costs_at(t)[None, :]
        parent, action = np.nonzero(setting.allowed[t] & (spent <= setting.k))
        children = nodes.children(parent, t, action, setting.observed[t])
        children = children.moved(after[parent, action], spent[parent, action], earned[parent])
        if not self._rollout:
            found.added += len(children)
        if t + 1 == setting.horizon - 1:
            self._finish(children, children.earned + setting.reward(children.states), found)
            return
        promise = children.earned + self._bound.upper(t + 1, children.used, children.states)
        promise = np.minimum(promise, nodes.promise[parent])
        self._keep(t + 1, children, promise, found, limits)

    def _keep(
        self, t: int, nodes: Nodes, promise: FloatArray, found: Outcome, limits: Limits
    ) -> None:
        """Open nodes that promise enough; follow those whose budget is spent to their end."""
        setting = self._setting
        worth = promise > self._worthwhile(found, limits)
        spent = (nodes.used + int(setting.costs.min()) > setting.k) & self._rollout
        final = worth & spent
        if final.any():
            leaves = nodes.take(final)
            self._finish(leaves, leaves.earned + setting.follow_observed(t, leaves.states), found)
            worth &= promise > self._worthwhile(found, limits)
        missed = promise[~worth & ~final]
        if missed.size:
            self._dropped = max(self._dropped, float(missed.max()))
        stay = worth & ~spent
        if self._rollout:
            found.added += int(np.count_nonzero(stay))
        self._pools[t].push(nodes.take(stay).with_promise(promise[stay]))

    def _finish(self, nodes: Nodes, values: FloatArray, found: Outcome) -> None:
        """Whole sequences: keep the best."""
        best = int(np.argmax(values))
        if values[best] > found.value + self._setting.negligible(found.value):
            found.value = float(values[best])
            found.sequence = nodes.sequence(best, self._setting.observed)
