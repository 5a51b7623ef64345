"""An explanation in amounts: what should have been spent, along the path that was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterplan.core.result import Change, Explanation
from counterplan.core.validation import FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocationExplanation(Explanation):
    """The alternative decisions and the levels they lead to.

    actions   (T, A) amounts
    observed  (T, A) those that were executed
    levels    (T + 1, D) the resource before each decision, and at the end
    """

    actions: FloatArray
    observed: FloatArray
    levels: FloatArray

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Where the decisions differ from what was done, as tuples of amounts."""
        return tuple(
            Change(int(t), tuple(self.observed[t].tolist()), tuple(self.actions[t].tolist()))
            for t in np.flatnonzero((self.actions != self.observed).any(axis=1))
        )
