"""Brute force over sequences of actions, for small continuous problems.

Plain Python that asks the model's own `infer` and `step` and nothing else, in the units of the
episode: every sequence with at most k changes is followed to its end. Costs grow exponentially.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints, ResolvedConstraints
from counterplan.core.episode import Episode
from counterplan.core.reward import Reward
from counterplan.core.validation import FloatArray
from counterplan.scm.point import PointSCM, action_indices, action_vectors


class BestSequence(NamedTuple):
    """The outcome of the best sequence, and its actions."""

    value: float
    actions: tuple[int, ...]


class SequenceWorld:
    """One problem, written as directly as possible."""

    def __init__(
        self,
        scm: PointSCM,
        episode: Episode,
        actions: ArrayLike,
        reward: Reward,
        constraints: Constraints | None = None,
    ) -> None:
        self.scm, self.reward = scm, reward
        self.states = episode.states
        self.decisions = len(episode) - 1
        self.vectors = action_vectors(np.asarray(actions, dtype=np.float64), self.decisions)
        self.observed = [int(a) for a in action_indices(episode, self.vectors)]
        taken = np.array([self.vectors[t][a] for t, a in enumerate(self.observed)])
        taken = taken.reshape(self.decisions, self.vectors.shape[2])
        self.noise = scm.infer(self.states[:-1], taken, self.states[1:])
        self.rules: ResolvedConstraints = (constraints or Constraints()).resolve_sequence(
            self.vectors, np.array(self.observed, dtype=np.int64)
        )

    def price(self, t: int, action: int) -> int:
        """What taking an action at step t costs."""
        return 0 if action == self.observed[t] else int(self.rules.costs[action])

    def options(self, t: int, left: int) -> list[int]:
        """Actions that may be taken, the observed one first."""
        found = [self.observed[t]]
        for action in range(self.vectors.shape[1]):
            affordable = self.price(t, action) <= left
            if action != self.observed[t] and self.rules.alternatives[t, action] and affordable:
                found.append(action)
        return found

    def after(self, t: int, state: FloatArray, action: int) -> FloatArray:
        """Where an action leads."""
        one = state[None], self.vectors[t, action][None], self.noise[t][None]
        return np.asarray(self.scm.step(*one)[0])

    def best_from(self, t: int, state: FloatArray, left: int) -> BestSequence:
        """The most that can be earned from a state on, with `left` of the budget."""
        here = float(self.reward(state[None])[0])
        if t == self.decisions:
            return BestSequence(here, ())
        best = BestSequence(-math.inf, ())
        for action in self.options(t, left):
            rest = self.best_from(t + 1, self.after(t, state, action), left - self.price(t, action))
            if here + rest.value > best.value:
                best = BestSequence(here + rest.value, (action, *rest.actions))
        return best

    def value_of(self, sequence: ArrayLike) -> float:
        """What one sequence (T-1,) of actions earns."""
        state, total = self.states[0], 0.0
        for t, action in enumerate(np.asarray(sequence)):
            total += float(self.reward(state[None])[0])
            state = self.after(t, state, int(action))
        return total + float(self.reward(state[None])[0])


def best_sequence(
    scm: PointSCM,
    episode: Episode,
    k: int,
    *,
    actions: ArrayLike,
    reward: Reward,
    constraints: Constraints | None = None,
) -> BestSequence:
    """The best sequence by following every one that the budget and the constraints allow."""
    world = SequenceWorld(scm, episode, actions, reward, constraints)
    return world.best_from(0, world.states[0], k)


def sequence_value(
    scm: PointSCM,
    episode: Episode,
    sequence: ArrayLike,
    *,
    actions: ArrayLike,
    reward: Reward,
) -> float:
    """What one sequence (T-1,) of actions earns."""
    return SequenceWorld(scm, episode, actions, reward).value_of(sequence)
