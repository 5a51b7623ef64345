"""The 2021 paper's synthetic decision processes (section 5).

For each state s and action a one next state s*, chosen uniformly, has weight 1 and all others have
weights w ~ U[0, alpha]:

    P(s' | s, a) = w_s' / sum of w,    R(s, a) = s,    s_0 uniform

so alpha in [0, 1] sets how uncertain the process is. The observed episodes follow the policy that
is optimal over the horizon T,

    V_t(s) = max_a R(s, a) + sum_s' P(s' | s, a) V_{t+1}(s'),    V_T = 0

(ties go to the lowest action), replaced at each step with a small probability by another action.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.domains.icu_sepsis import TransitionSampler
from counterplan.errors import InputError
from counterplan.scm.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class SyntheticProcess:
    """One instance of the family.

    mdp     the process
    policy  (T, S) the optimal action at each step and state
    """

    mdp: TabularMDP
    policy: IntArray

    def sample_episodes(self, n: int, seed: Seed, noise: float = 0.05) -> tuple[Episode, ...]:
        """n episodes of the policy, each action replaced by another with probability `noise`."""
        n = whole_number(n, "n", minimum=1)
        if not 0.0 <= noise <= 1.0:
            raise InputError(f"noise is a probability between 0 and 1, got {noise!r}")
        rng = generator(seed)
        horizon, n_states = self.policy.shape
        sampler = TransitionSampler(self.mdp)
        states = np.empty((n, horizon), dtype=np.int64)
        actions = np.empty((n, horizon), dtype=np.int64)
        current = rng.integers(n_states, size=n)
        for t in range(horizon):
            states[:, t] = current
            actions[:, t] = self._perturbed(self.policy[t, current], noise, rng)
            if t < horizon - 1:
                current = sampler.draw(current, actions[:, t], rng)
        return tuple(
            Episode(states[i], actions[i], id=f"realization {i + 1:04d}") for i in range(n)
        )

    def _perturbed(self, chosen: IntArray, noise: float, rng: np.random.Generator) -> IntArray:
        n_actions = self.mdp.n_actions
        if n_actions == 1:
            return chosen
        # A shift by 1..A-1 reaches every other action equally often and never the same one.
        other = (chosen + rng.integers(1, n_actions, size=len(chosen))) % n_actions
        return np.where(rng.random(len(chosen)) < noise, other, chosen)


def synthetic_process(
    alpha: float, seed: Seed, n_states: int = 20, n_actions: int = 10, horizon: int = 20
) -> SyntheticProcess:
    """A random instance with uncertainty `alpha` between 0 (deterministic) and 1."""
    if not 0.0 <= alpha <= 1.0:
        raise InputError(f"alpha must lie between 0 (no uncertainty) and 1, got {alpha!r}")
    S = whole_number(n_states, "n_states", minimum=1)
    A = whole_number(n_actions, "n_actions", minimum=1)
    T = whole_number(horizon, "horizon", minimum=1)
    rng = generator(seed)
    weights = rng.uniform(0.0, alpha, size=(S, A, S))
    np.put_along_axis(weights, rng.integers(S, size=(S, A, 1)), 1.0, axis=2)
    transitions = weights / weights.sum(axis=2, keepdims=True)
    rewards = np.repeat(np.arange(S, dtype=np.float64)[:, None], A, axis=1)
    mdp = TabularMDP(transitions, rewards, initial=np.full(S, 1.0 / S))
    return SyntheticProcess(mdp, optimal_policy(transitions, rewards, T))


def optimal_policy(transitions: FloatArray, rewards: FloatArray, horizon: int) -> IntArray:
    """(T, S) by backward induction; argmax takes the lowest of equally good actions."""
    policy = np.empty((horizon, len(rewards)), dtype=np.int64)
    value = np.zeros(len(rewards))
    for t in reversed(range(horizon)):
        action_values = rewards + transitions @ value
        policy[t] = action_values.argmax(axis=1)
        value = action_values.max(axis=1)
    return policy
