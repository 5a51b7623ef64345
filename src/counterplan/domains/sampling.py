"""Vectorised draws from tabular processes, shared by the domains that sample episodes."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm.tabular import TabularMDP


class TransitionSampler:
    """Draws next states for many (state, action) pairs at once.

    All rows share one cumulative sum: a uniform number, shifted to where its row starts, is looked
    up by bisection, so that a draw costs O(log nnz) whatever the number of states.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        self._row_of = mdp.row_of
        self._rows = mdp.rows
        self._cumulative = np.concatenate([[0.0], np.cumsum(mdp.rows.probabilities)])

    def draw(self, states: IntArray, actions: IntArray, rng: np.random.Generator) -> IntArray:
        """One next state for each pair."""
        rows = self._row_of[states, actions]
        start, end = self._rows.indptr[rows], self._rows.indptr[rows + 1]
        target = self._cumulative[start] + rng.random(len(rows))
        position = np.searchsorted(self._cumulative, target, side="right") - 1
        # Rounding of the shared sum may push a draw just over the end of its row.
        position = np.clip(position, start, end - 1)
        return self._rows.indices[position].astype(np.int64)


def draw_actions(policy: FloatArray, states: IntArray, rng: np.random.Generator) -> IntArray:
    """One action for each state from a stochastic policy of shape (S, A)."""
    cumulative = np.cumsum(policy[states], axis=1)
    threshold = rng.random(len(states)) * cumulative[:, -1]
    actions: IntArray = (cumulative > threshold[:, None]).argmax(axis=1)
    return actions
