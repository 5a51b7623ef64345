"""Explain an episode under a causal model of your own, and check that it fits its MDP.

Here luck is one number in [0, 1] and the next state is that quantile of the row: sensible where
states are ordered and good luck is good luck whatever one does.
"""

import numpy as np

import counterplan as cp
from counterplan.testing import check_scm, random_episode, random_transitions


class QuantileSCM:
    """The next state is the u-quantile of P(. | state, action)."""

    def __init__(self, mdp: cp.TabularMDP) -> None:
        self.mdp = mdp

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> np.ndarray:
        """Where the luck that led to s_next_obs leads from (s, a)."""
        observed = self.mdp.row(s_obs, a_obs)
        high = observed[: s_next_obs + 1].sum()
        low = high - observed[s_next_obs]
        edges = np.concatenate([[0.0], np.cumsum(self.mdp.row(s, a))])
        overlap = np.clip(edges[1:], low, high) - np.clip(edges[:-1], low, high)
        return overlap / overlap.sum()


rng = np.random.default_rng(0)
rewards = np.repeat(np.arange(20.0)[:, None], 10, axis=1)  # the number of the state
mdp = cp.TabularMDP(random_transitions(rng, 20, 10), rewards)
episode = random_episode(rng, mdp, 20)
quantile = QuantileSCM(mdp)
check_scm(quantile, trials=10)

for name, scm in (("Gumbel-Max", cp.GumbelMaxSCM(mdp)), ("quantile", quantile)):
    best = cp.explain(scm, episode, k=3)
    print(f"{name:>10}: {best.factual_value:.0f} observed, {best.value:.2f} with three changes")
low, high = cp.value_interval(mdp, episode, cp.explain(mdp, episode, k=3))
print(f"any causal model of this process: {low:.2f} to {high:.2f} for the Gumbel-Max plan")
