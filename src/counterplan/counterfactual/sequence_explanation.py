"""An explanation that is one sequence of actions, where the counterfactual is certain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np

from counterplan.core.result import Change, Explanation, Status
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.sequence_setting import SequenceSetting


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


def unproved(
    setting: SequenceSetting, k: int, actions: IntArray, method: str, **stats: float
) -> SequenceExplanation:
    """Actions that were not searched for, and where they lead: nothing is known of better ones."""
    states = setting.trajectories(actions[np.newaxis])[0]
    return SequenceExplanation(
        episode=setting.episode,
        k=k,
        value=float(setting.reward(states).sum()),
        factual_value=float(setting.reward(setting.states).sum()),
        bound=math.inf,
        status=Status.HEURISTIC,
        stats=MappingProxyType(stats),
        method=method,
        actions=actions,
        observed=setting.observed,
        states=setting.in_episode_units(states),
        history=np.empty((0, 3)),
    )
