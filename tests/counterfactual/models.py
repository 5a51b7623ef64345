"""Causal models that are not Gumbel-Max, as users would write them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan import TabularMDP


@dataclass(frozen=True, eq=False)
class IndependentSCM:
    """Every pair has noise of its own: what was observed says nothing about other pairs."""

    mdp: TabularMDP

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> np.ndarray:
        if (s, a) == (s_obs, a_obs):
            return np.eye(self.mdp.n_states)[s_next_obs]
        return self.mdp.row(s, a)


@dataclass(frozen=True, eq=False)
class QuantileSCM:
    """One uniform number decides all: the next state is its quantile, so order is preserved."""

    mdp: TabularMDP

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> np.ndarray:
        p = np.concatenate([[0.0], np.cumsum(self.mdp.row(s_obs, a_obs))])
        q = np.concatenate([[0.0], np.cumsum(self.mdp.row(s, a))])
        low, high = p[s_next_obs], p[s_next_obs + 1]
        overlap = np.minimum(q[1:], high) - np.maximum(q[:-1], low)
        row = np.maximum(overlap, 0.0)
        return row / row.sum()


class MechanismSCM:
    """next state = table[s, a, u] for finitely many noises u: any causal model in small.

    The MDP follows from the mechanism, and counterfactuals from conditioning on the noises that
    explain what was observed.
    """

    def __init__(self, rng: np.random.Generator, shape: tuple[int, int], noises: int = 5) -> None:
        S, A = shape
        self.table = rng.integers(S, size=(S, A, noises))
        self.weights = rng.dirichlet(np.ones(noises))
        transitions = np.zeros((S, A, S))
        for u, weight in enumerate(self.weights):
            for s in range(S):
                transitions[s, range(A), self.table[s, :, u]] += weight
        self.mdp = TabularMDP(transitions, rng.normal(size=shape))

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> np.ndarray:
        weights = self.weights * (self.table[s_obs, a_obs] == s_next_obs)
        row = np.bincount(self.table[s, a], weights=weights, minlength=self.mdp.n_states)
        return row / row.sum()
