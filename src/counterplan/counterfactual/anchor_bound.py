"""Upper bounds from a finite set of anchor states (Section 4 of the 2023 paper).

The value is Lipschitz continuous in the state (Lemma 5): with K_t the constant of the step at t and
C that of the reward

    |V(s, l, t) - V(s', l, t)| <= L_t ||s - s'||,      L_{T-1} = C,   L_t = C + L_{t+1} K_t

Algorithm 1 computes upper bounds V^ at the anchors, backward in time, and Eq. 11 extends the same
expression to every other state:

    V^(s, l, T-1) = R(s)
    V^(s, l, t)   = R(s) + max_a min_anchor { V^(anchor, l_a, t+1) + L_{t+1} ||anchor - s_a|| }

where s_a = F_t(s, a), a runs over the actions that may be taken, and l_a is what is spent after a.
Only what is left of the budget matters, and of that only which sums of costs it can pay: these are
the levels here (`Levels`), so that a smaller budget finds its values among those of a larger one.
Everything is rounded upwards.
"""

from __future__ import annotations

import math
import time
from copy import copy

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.anchor_kernel import BLOCK, lowest_cones
from counterplan.counterfactual.sequence_setting import SequenceSetting

# Every computed term is enlarged by more than its rounding.
OUTWARD = 1e-12
# Anchors whose next states are held in memory at a time.
CHUNK = 2048


def value_constants(setting: SequenceSetting) -> FloatArray:
    """(T,) the constants L_t of Lemma 5."""
    gradient = setting.reward.gradient(setting.states.shape[1])[setting.scm.fixed :]
    of_reward = float(np.linalg.norm(gradient)) + setting.reward.remainder
    constants = np.full(setting.horizon, of_reward)
    of_steps = setting.step_constants
    if of_steps is not None:
        for t in reversed(range(setting.horizon - 1)):
            constants[t] += constants[t + 1] * of_steps[t]
    return np.asarray(constants * (1.0 + OUTWARD))


class AnchorBound:
    """The bound of one problem, with values for every step, anchor (A, D) and level."""

    def __init__(
        self,
        setting: SequenceSetting,
        anchors: FloatArray,
        strategy: str,
        deadline: float = math.inf,
    ) -> None:
        self._setting = setting
        self._made_of = f"{len(anchors)} anchors ({strategy})"
        self._constants = value_constants(setting)
        self._levels = setting.levels
        # Whole blocks: the last anchor stands in for those that are missing.
        filled = np.concatenate([anchors, np.repeat(anchors[-1:], -len(anchors) % BLOCK, axis=0)])
        self._coordinates = _in_blocks(filled[:, setting.scm.fixed :].T)
        # By step: (blocks, levels, BLOCK)
        self._values = [np.empty(0)] * setting.horizon
        self._algorithm_1(filled, deadline)

    @property
    def name(self) -> str:
        """What the bound was made of."""
        return self._made_of

    def restricted(self, setting: SequenceSetting) -> AnchorBound:
        """The bound for a smaller budget: the same anchors, fewer levels."""
        smaller = copy(self)
        smaller._setting = setting
        return smaller

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) Eq. 11 for states (n, D) with `used` spent."""
        setting = self._setting
        here = setting.reward(states)
        if t == setting.horizon - 1:
            return np.asarray(here)
        left = setting.k - used[:, None] - setting.costs_at(t)[None, :]
        row, action = np.nonzero(setting.allowed[t] & (left >= 0))
        level = self._levels.of(left[row, action])
        after = setting.replay.children(t, states)[row, action]
        reached = self._lifted(t, after, level, level)[np.arange(len(level)), level]
        best = np.full(len(states), -math.inf)
        np.maximum.at(best, row, reached)
        return _up(here + best)

    def _algorithm_1(self, anchors: FloatArray, deadline: float) -> None:
        setting = self._setting
        here = setting.reward(anchors)
        values = np.repeat(here[None], len(self._levels.first), axis=0)
        self._values[-1] = _in_blocks(values)
        for t in reversed(range(setting.horizon - 1)):
            for start in range(0, len(anchors), CHUNK):
                rows = slice(start, start + CHUNK)
                in_time = time.perf_counter() < deadline
                best = self._best_step(t, anchors[rows]) if in_time else math.inf
                values[:, rows] = _up(here[rows] + best)
            self._values[t] = _in_blocks(values)

    def _best_step(self, t: int, anchors: FloatArray) -> FloatArray:
        """(levels, n) the best of all steps from anchors (n, D), by what can be paid before it."""
        setting, n, left = self._setting, len(anchors), self._levels.last
        costs = setting.costs_at(t)
        actions = np.flatnonzero(setting.allowed[t] & (costs <= left[-1]))
        after = setting.replay.children(t, anchors)[:, actions].reshape(n * len(actions), -1)
        last = np.tile(self._levels.of(left[-1] - costs[actions]), n)
        reached = self._lifted(t, after, np.zeros_like(last), last)
        reached = reached.reshape(n, len(actions), len(left))
        best = np.full((len(left), n), -math.inf)
        for i, cost in enumerate(costs[actions]):
            affordable = np.flatnonzero(left >= cost)
            afterwards = self._levels.of(left[affordable] - cost)
            best[affordable] = np.maximum(best[affordable], reached[:, i, afterwards].T)
        return best

    def _lifted(self, t: int, after: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
        """(n, levels) the anchors' values at t + 1, lifted to the states `after` (n, D)."""
        moving = np.ascontiguousarray(after[:, self._setting.scm.fixed :])
        steepness = float(self._constants[t + 1]) * (1.0 + OUTWARD)
        return np.asarray(
            lowest_cones(moving, first, last, self._coordinates, self._values[t + 1], steepness)
        )


def _in_blocks(table: FloatArray) -> FloatArray:
    """(blocks, m, BLOCK) a copy of (m, A)."""
    blocks = table.reshape(len(table), -1, BLOCK)
    return np.swapaxes(blocks, 0, 1).copy()


def _up(values: FloatArray) -> FloatArray:
    return np.asarray(values + OUTWARD * (1.0 + np.abs(values)))
