"""Policies over (step, state, budget left), as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray


@dataclass(frozen=True, eq=False)
class PolicyTable:
    """What to do at step t in state s with budget c left.

    One table serves every k: with `used` spent of k the budget left is c = k - used.

    actions  (T, S, C, M) actions, in order of preference where there are several
    weights  (T, S, C, M) their probabilities, or None if the first is certain (then M = 1)
    """

    actions: NDArray[np.int32]
    weights: FloatArray | None = None

    def at(self, t: int, k: int) -> tuple[NDArray[np.int32], FloatArray]:
        """Actions and weights of step t, (S, k + 1, M) each."""
        actions = self.actions[t, :, : k + 1]
        if self.weights is None:
            return actions, np.ones(actions.shape)
        return actions, self.weights[t, :, : k + 1]

    def action(self, t: int, state: int, left: int) -> int:
        """The most probable action."""
        if self.weights is None:
            return int(self.actions[t, state, left, 0])
        return int(self.actions[t, state, left, np.argmax(self.weights[t, state, left])])

    def probabilities(self, t: int, state: int, left: int, n_actions: int) -> FloatArray:
        """(A,) how likely each action is."""
        result = np.zeros(n_actions)
        weights = np.ones(1) if self.weights is None else self.weights[t, state, left]
        np.add.at(result, self.actions[t, state, left], weights)
        return result


def keep_observed(episode: Episode, n_states: int, k: int) -> PolicyTable:
    """The policy that changes nothing."""
    actions = np.empty((len(episode), n_states, k + 1, 1), dtype=np.int32)
    actions[:] = episode.actions[:, None, None, None]
    return PolicyTable(actions)
