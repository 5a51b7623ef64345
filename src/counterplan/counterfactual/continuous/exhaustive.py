"""Every sequence with at most k changes, many at a time: what a search has to beat.

The sequences form a tree by their beginnings. It is walked depth first in batches, so that memory
stays bounded: all children of a batch are one call to the model, and those that can afford no more
changes are followed to the end together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterplan.core.problem import Problem, Watch
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import IntArray, whole_number
from counterplan.counterfactual.continuous.astar import Nodes
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    SequenceSetting,
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
        return self._explained(problem, [problem.k])[0]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """All budgets from one walk through the sequences of the largest."""
        return self._explained(problem, range(problem.k + 1))

    def _explained(self, problem: Problem, budgets: Sequence[int]) -> list[SequenceExplanation]:
        watch, setting = (
            Watch("search", problem.limits, problem.progress),
            prepare_sequence(problem),
        )
        factual = float(setting.reward(setting.states).sum())
        # By amount spent: the best sequence, and what it earns.
        best: dict[int, tuple[float, IntArray]] = {0: (factual, setting.observed)}
        transitions, expanded, waiting = 0, 0, list[tuple[int, Nodes]]()
        if setting.horizon > 1:
            root = Nodes.root(setting.states[0], setting.horizon - 1, setting.n_actions)
            waiting.append((0, root))
        while waiting and not watch.must_stop(expanded, max(one for one, _ in best.values())):
            t, nodes = waiting.pop()
            if len(nodes) > self.batch:
                waiting.append((t, nodes.take(np.arange(self.batch, len(nodes)))))
                nodes = nodes.take(np.arange(self.batch))
            children = nodes.expanded(setting, t)
            final = children.used + int(setting.costs.min()) > setting.k
            if t + 1 == setting.horizon - 1:
                final[:] = True
            ended, others = children.take(final), children.take(~final)
            expanded += len(nodes)
            transitions += len(children) + len(ended) * (setting.horizon - 2 - t)
            if len(ended):
                values = ended.earned + setting.follow_observed(t + 1, ended.states)
            for used in np.unique(ended.used).tolist():
                rows = np.flatnonzero(ended.used == used)
                row = int(rows[np.argmax(values[rows])])
                if used not in best or values[row] > best[used][0]:
                    best[used] = float(values[row]), ended.sequence(row, setting.observed)
            if len(others):
                waiting.append((t + 1, others))
        counts = {"nodes_expanded": float(expanded), "transitions": float(transitions)}
        stats = {"seconds": watch.seconds, **counts}
        status = Status.LIMIT if waiting else Status.OPTIMAL
        return [
            setting.explanation(k, _within(setting, best, k), math.inf, status, "exhaustive", stats)
            for k in budgets
        ]


def _within(
    setting: SequenceSetting, best: Mapping[int, tuple[float, IntArray]], k: int
) -> IntArray:
    """The best sequence within a budget; a tie keeps what costs less."""
    value, sequence = best[0]
    for used, (reached, found) in sorted(best.items()):
        if used <= k and reached > value + setting.negligible(value):
            value, sequence = reached, found
    return sequence
