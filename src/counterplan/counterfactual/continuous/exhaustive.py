"""Every sequence with at most k changes, many at a time: what a search has to beat.

The sequences form a tree by their beginnings. It is walked depth first in batches, so that memory
stays bounded: all children of a batch are one call to the model, and those that can afford no more
changes are followed to the end together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterplan.core.limits import Watch
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.counterfactual.continuous.astar import Nodes
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    prepare_sequence,
)
from counterplan.scm.point import PointSCM


@dataclass(frozen=True)
class Exhaustive:
    """Tries every sequence; exact for any model, and slow.

    batch  how many nodes of the tree are expanded at a time
    """

    batch: int = 1024

    def refuses(self, problem: Problem) -> str | None:
        """One line on what it cannot do, or None."""
        whole_number(self.batch, "batch", minimum=1)
        if isinstance(problem.scm, PointSCM):
            return None
        return "Exhaustive tries sequences: a discrete problem asks for a policy, use BudgetDP()"

    def solve(self, problem: Problem) -> Explanation:
        """The explanation for the budget problem.k."""
        return _Walk(problem, self.batch).explained(problem.k)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """All budgets from one walk through the sequences of the largest."""
        walk = _Walk(problem, self.batch)
        return [walk.explained(k) for k in range(problem.k + 1)]


class _Walk:
    """The tree of one problem, and the best sequence found for each amount spent."""

    def __init__(self, problem: Problem, batch: int) -> None:
        self._watch = Watch("search", problem.limits, problem.progress)
        self._setting, self._batch = prepare_sequence(problem), batch
        factual = float(self._setting.reward(self._setting.states).sum())
        self._best: dict[int, tuple[float, IntArray]] = {0: (factual, self._setting.observed)}
        self._transitions = self._expanded = 0
        self._complete = self._run()

    def _run(self) -> bool:
        """Walk the whole tree; False if a limit stopped it."""
        setting = self._setting
        if setting.horizon == 1:
            return True
        waiting = [(0, Nodes.root(setting.states[0], setting.horizon - 1, setting.n_actions))]
        while waiting:
            best = max(value for value, _ in self._best.values())
            if self._watch.must_stop(self._expanded, best):
                return False
            t, nodes = waiting.pop()
            if len(nodes) > self._batch:
                waiting.append((t, nodes.take(np.arange(self._batch, len(nodes)))))
                nodes = nodes.take(np.arange(self._batch))
            children = self._expand(t, nodes)
            if len(children):
                waiting.append((t + 1, children))
        return True

    def _expand(self, t: int, nodes: Nodes) -> Nodes:
        """The children that can still change something; the others are followed to their end."""
        setting = self._setting
        children = nodes.expanded(setting, t)
        self._expanded += len(nodes)
        self._transitions += len(children)
        final = children.used + int(setting.costs.min()) > setting.k
        if t + 1 == setting.horizon - 1:
            final[:] = True
        ended = children.take(final)
        if len(ended):
            self._transitions += len(ended) * (setting.horizon - 2 - t)
            self._note(ended, ended.earned + setting.follow_observed(t + 1, ended.states))
        return children.take(~final)

    def _note(self, nodes: Nodes, values: FloatArray) -> None:
        for used in np.unique(nodes.used):
            rows = np.flatnonzero(nodes.used == used)
            row = int(rows[np.argmax(values[rows])])
            if values[row] > self._best.get(int(used), (-math.inf, None))[0]:
                sequence = nodes.sequence(row, self._setting.observed)
                self._best[int(used)] = float(values[row]), sequence

    def explained(self, k: int) -> SequenceExplanation:
        """The best sequence within a budget."""
        setting = self._setting
        best, sequence = self._best[0]
        for used, (reached, found) in sorted(self._best.items()):
            # A tie keeps what costs less.
            if used <= k and reached > best + setting.negligible(best):
                best, sequence = reached, found
        stats = {
            "seconds": self._watch.seconds,
            "nodes_expanded": float(self._expanded),
            "transitions": float(self._transitions),
        }
        status = Status.OPTIMAL if self._complete else Status.LIMIT
        return setting.explanation(k, sequence, math.inf, status, "exhaustive", stats)
