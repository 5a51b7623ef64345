"""The synthetic experiments of the 2021 paper, redrawn number by number.

Its authors' public code seeds instance i = 1..10 of the process with i, realization j = 0..49 of
all instances with j, and noise vector l = 1..1000 of all steps with l, by NumPy's default_rng.
Drawing in their order gives the very episodes and estimates behind the published averages, which
can so be compared without any sampling error.

Shared streams make those averages less certain than their intervals say: the 500 realizations rest
on 50 streams, and the error of the 1,000 noise vectors is the same in all of them.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.scm.tabular import TabularMDP
from experiments.synthetic import SyntheticProcess, optimal_policy

N_STATES = 20
N_ACTIONS = 10
HORIZON = 20
NOISE = 0.05


def published_process(alpha: float, instance: int) -> SyntheticProcess:
    """Instance 1..10 of the paper for this alpha."""
    rng = np.random.default_rng(instance)
    weights = np.empty((N_ACTIONS, N_STATES, N_STATES))
    for row in weights.reshape(-1, N_STATES):
        row[:] = rng.uniform(0.0, alpha, size=N_STATES)
        row[rng.integers(N_STATES)] = 1.0
    transitions: FloatArray = (weights / weights.sum(axis=2, keepdims=True)).transpose(1, 0, 2)
    rewards = np.repeat(np.arange(N_STATES, dtype=np.float64)[:, None], N_ACTIONS, axis=1)
    policy = optimal_policy(transitions, rewards, HORIZON)
    return SyntheticProcess(TabularMDP(transitions, rewards), policy)


def published_episode(process: SyntheticProcess, realization: int) -> Episode:
    """Realization 0..49 of an instance."""
    rng = np.random.default_rng(realization)
    states, actions = np.empty(HORIZON, dtype=np.int64), np.empty(HORIZON, dtype=np.int64)
    states[0] = rng.integers(N_STATES)
    for t in range(HORIZON):
        chosen = process.policy[t, states[t]]
        actions[t] = chosen
        if rng.binomial(1, NOISE) == 1:
            while actions[t] == chosen:
                actions[t] = rng.integers(N_ACTIONS)
        if t < HORIZON - 1:
            states[t + 1] = rng.choice(N_STATES, p=process.mdp.row(states[t], actions[t]))
    return Episode(states, actions, id=str(realization))


class PublishedSampling:
    """The paper's estimate of a process's counterfactual law (Eq. 5), with the authors' noise: the
    same vectors for all steps, seeded with 1..d, or with d numbers from another `first` on."""

    def __init__(self, mdp: TabularMDP, samples: int, first: int = 1) -> None:
        self.mdp = mdp
        self._samples = samples
        self._first = first
        self._known: dict[tuple[int, int, int], FloatArray] = {}

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> FloatArray:
        """(S,) how often each state wins under the noise vectors."""
        observed = (s_obs, a_obs, s_next_obs)
        if observed not in self._known:
            self._known[observed] = self._rows(self._noise(*observed))
        row: FloatArray = self._known[observed][self.mdp.row_of[s, a]]
        return row

    def _noise(self, s_obs: int, a_obs: int, s_next_obs: int) -> FloatArray:
        """(samples, S) posterior noise: the winner's Gumbel is drawn first, the others in order."""
        gumbels = _gumbels(self._samples, self.mdp.n_states, self._first)
        log_p = np.log(self.mdp.row(s_obs, a_obs))
        noise = np.insert(gumbels[:, 1:], s_next_obs, gumbels[:, 0], axis=1)
        lost = np.arange(self.mdp.n_states) != s_next_obs
        free = np.exp(-noise[:, lost] - log_p[lost])
        noise[:, lost] = -np.log(free + np.exp(-gumbels[:, :1]))
        shifted: FloatArray = noise - log_p
        return shifted

    def _rows(self, noise: FloatArray) -> FloatArray:
        """(R, S) shares of the winners, for each distinct row of the process."""
        from counterplan.scm.gumbel import winner_shares

        table = self.mdp.rows
        ids = np.arange(len(table.indptr) - 1, dtype=np.int32)
        log_probabilities = np.log(table.probabilities)
        starts, targets, shares = winner_shares(
            noise, table.indptr, table.indices, log_probabilities, ids
        )
        rows = np.zeros((len(ids), self.mdp.n_states))
        rows[np.repeat(ids, np.diff(starts)), targets] = shares
        return rows


@cache
def _gumbels(samples: int, n_states: int, first: int) -> FloatArray:
    """(samples, S) standard Gumbels, each vector from a generator of its own."""
    seeds = range(first, first + samples)
    return np.array([np.random.default_rng(seed).gumbel(size=n_states) for seed in seeds])
