"""The Gumbel-Max structural causal model of a tabular MDP (Oberst & Sontag 2019; the 2021 paper).

    S_{t+1} = argmax_s  log P(s | S_t, A_t) + U_{t,s},      U_{t,s} ~ Gumbel(0, 1)         (Eq. 4)

`counterfactual_row` is exact (see `gumbel_kernel`); `sampled_row` is the paper's Monte Carlo
estimate (Eq. 5), kept for comparison: it draws the posterior noise top-down with truncated
Gumbels and counts the winners.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError
from counterplan.scm.tabular import TabularMDP
from counterplan.scm.tabular_checks import check_index


@dataclass(frozen=True, eq=False)
class GumbelMaxSCM:
    """A tabular MDP read as a causal model."""

    mdp: TabularMDP

    def __post_init__(self) -> None:
        if not isinstance(self.mdp, TabularMDP):
            raise InputError(
                f"GumbelMaxSCM needs a TabularMDP, got {type(self.mdp).__name__}: "
                "wrap the arrays first, TabularMDP(transitions, rewards)"
            )

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> FloatArray:
        """P(next state | (s, a), knowing that (s_obs, a_obs) led to s_next_obs), exact, (S,)."""
        from counterplan.scm.gumbel_kernel import kernel_row

        factual = self._factual_row(s_obs, a_obs, s_next_obs)
        self.mdp.row(s, a)
        indices, probabilities = self.mdp.rows.slice(self.mdp.row_of[s, a])
        result = np.empty(len(indices))
        scratch = np.empty((3, len(indices)))
        kernel_row(factual, s_next_obs, indices, probabilities, scratch, result)
        row = np.zeros(self.mdp.n_states)
        row[indices] = result
        return row

    def sample_noise(
        self, s_obs: int, a_obs: int, s_next_obs: int, samples: int, seed: Seed = 0
    ) -> FloatArray:
        """(samples, S) draws of U given that (s_obs, a_obs) led to s_next_obs.

        The winner's log p_o + U_o is Gumbel(0); every other is a Gumbel(log p_i) truncated there.
        A state with p_i = 0 could not win whatever its noise, so that keeps its prior.
        """
        whole_number(samples, "samples", minimum=1)
        p = self._factual_row(s_obs, a_obs, s_next_obs)
        rng = generator(seed)
        n_states = self.mdp.n_states
        noise = rng.gumbel(size=(samples, n_states))
        possible = p > 0.0
        log_p = np.log(p[possible])
        top = rng.gumbel(size=(samples, 1))
        truncated = -np.logaddexp(-top, -noise[:, possible] - log_p)
        noise[:, possible] = truncated - log_p
        noise[:, s_next_obs] = top[:, 0] - np.log(p[s_next_obs])
        return noise

    def sampled_row(
        self,
        s_obs: int,
        a_obs: int,
        s_next_obs: int,
        s: int,
        a: int,
        *,
        samples: int = 1000,
        seed: Seed = 0,
    ) -> FloatArray:
        """The paper's estimate of `counterfactual_row` (Eq. 5), (S,)."""
        noise = self.sample_noise(s_obs, a_obs, s_next_obs, samples, seed)
        with np.errstate(divide="ignore"):
            log_q = np.log(self.mdp.row(s, a))
        winners = np.argmax(log_q + noise, axis=1)
        return np.bincount(winners, minlength=self.mdp.n_states) / samples

    def _factual_row(self, state: int, action: int, after: int) -> FloatArray:
        row = self.mdp.row(state, action)
        check_index(after, self.mdp.n_states, "state")
        if row[after] == 0.0:
            raise InputError(
                f"the observed transition (state {state}, action {action} -> state {after}) has "
                "probability zero in the model, so it has no posterior; check the data or "
                "estimate the model with a prior"
            )
        return row
