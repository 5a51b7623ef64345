"""An explanation that is one sequence of actions, where the counterfactual is certain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterplan.core.result import Change, Explanation
from counterplan.core.validation import FloatArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceExplanation(Explanation):
    """The alternative actions and where they lead.

    actions   (T-1,) indices into the set of actions
    observed  (T-1,) those that were taken
    states    (T, D) the counterfactual states, in the units of the episode
    history   (m, 3) nodes expanded, best value and bound as the search went on, from its first
              moment to its end; none where nothing was searched
    """

    actions: IntArray
    observed: IntArray
    states: FloatArray
    history: FloatArray

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Where the sequence differs from what was done."""
        return tuple(
            Change(int(t), int(self.observed[t]), int(self.actions[t]))
            for t in np.flatnonzero(self.actions != self.observed)
        )
