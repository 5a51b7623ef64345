"""The exact solvers, telling how far they are as they go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplan.core.limits import Limits
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.astar import AStar
from counterplan.counterfactual.backward_pass import BackwardPass, Setting, outcome_bounds, solve
from counterplan.counterfactual.best_first import Outcome, Search, UpperBound
from counterplan.counterfactual.budget_dp import BudgetDP
from counterplan.counterfactual.laws import CounterfactualLaw, RowIds
from counterplan.counterfactual.open_nodes import Nodes
from counterplan.counterfactual.policy_table import PolicyTable
from counterplan.counterfactual.sequence_setting import SequenceSetting

# Told after every batch: nodes expanded (or rows computed), the best value, and what nothing can
# exceed.
Watch = Callable[[int, float, float], None]


def unwatched(nodes: int, value: float, bound: float) -> None:
    """Nobody wants to know."""


# --- Continuous problems --------------------------------------------------------------------------


class WatchedSearch(Search):
    """A search that tells how far it is; whoever watches may raise to end it."""

    def __init__(self, solver: WatchedAStar, setting: SequenceSetting, bound: UpperBound) -> None:
        super().__init__(setting, bound, solver.batch, solver.memory, solver.rollout)
        self._watch = solver.watch

    def _expand(self, t: int, nodes: Nodes, found: Outcome, limits: Limits) -> None:
        super()._expand(t, nodes, found, limits)
        self._watch(found.expanded, found.value, found.bound)


@dataclass(frozen=True)
class WatchedAStar(AStar):
    """`AStar`, watched: the answer is the same."""

    watch: Watch = unwatched

    def _search(self, setting: SequenceSetting, bound: UpperBound) -> Search:
        return WatchedSearch(self, setting, bound)


# --- Discrete problems ----------------------------------------------------------------------------


@dataclass(eq=False)
class WatchedLaw:
    """A law that tells, before each step of a backward pass, what the steps behind it have shown:
    stopped there the pass would already have an answer."""

    law: CounterfactualLaw
    setting: Setting
    watch: Watch
    computed: int = 0

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.law.row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        reached, bound = outcome_bounds(self.setting, BackwardPass(t + 1, values, self.computed))
        self.watch(self.computed, float(reached[-1]), float(bound[-1]))
        self.computed += len(rows)
        return self.law.expect(t, rows, values)


@dataclass(frozen=True)
class WatchedBudgetDP(BudgetDP):
    """`BudgetDP`, watched: the answer is the same."""

    watch: Watch = unwatched

    def _solved(
        self, setting: Setting, law: CounterfactualLaw, limits: Limits
    ) -> tuple[BackwardPass, PolicyTable]:
        return solve(setting, WatchedLaw(law, setting, self.watch), limits)
