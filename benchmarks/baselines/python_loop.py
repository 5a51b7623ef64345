"""The 2021 paper's procedure as plain loops: one sample, one pair, one state at a time.

Our own re-implementation from the paper's text. Eq. 5 estimates a counterfactual row by

    P_{tau,t}(s' | s, a) ~ 1/d sum_j 1[s' = argmax_i log P(i | s, a) + u_ji]

with u_j from the noise posterior, drawn top-down: the winner's log p_o + u_o is Gumbel(0), every
other log p_i + u_i is a Gumbel(log p_i) truncated there. Then Algorithm 2, line by line.

Logarithms are taken once and the argmax is NumPy's, which is kinder than the text asks for.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterplan import Episode


def sample_kernel(
    transitions: Any, episode: Episode, samples: int, rng: np.random.Generator
) -> Any:
    """(T - 1, S, A, S) estimated counterfactual rows from `samples` draws of the noise."""
    n_states, n_actions, _ = transitions.shape
    with np.errstate(divide="ignore"):
        log_p = np.log(transitions)
    kernel = np.zeros((len(episode) - 1, n_states, n_actions, n_states))
    for t in range(len(episode) - 1):
        observed = log_p[episode.states[t], episode.actions[t]]
        for _ in range(samples):
            noise = posterior_noise(observed, int(episode.states[t + 1]), rng)
            for s in range(n_states):
                for a in range(n_actions):
                    winner = np.argmax(log_p[s, a] + noise)
                    kernel[t, s, a, winner] += 1
    return kernel / samples


def posterior_noise(log_p: Any, outcome: int, rng: np.random.Generator) -> Any:
    """(S,) one draw of the noise, given that `outcome` won under log_p."""
    noise = np.empty(len(log_p))
    top = rng.gumbel()
    for i in range(len(log_p)):
        if i == outcome:
            noise[i] = top - log_p[i]
        elif log_p[i] == -math.inf:
            noise[i] = rng.gumbel()
        else:
            free = log_p[i] + rng.gumbel()
            noise[i] = -math.log(math.exp(-top) + math.exp(-free)) - log_p[i]
    return noise


def solve(kernel: Any, rewards: Any, episode: Episode, k: int) -> tuple[Any, Any]:
    """Algorithm 2: (k + 1,) values h(s_0, T, c) and the policy (T, S, k + 1) by changes left."""
    n_states, n_actions = rewards.shape
    T = len(episode)
    h = np.zeros((n_states, T + 1, k + 1))
    policy = np.zeros((T, n_states, k + 1), dtype=int)
    for r in range(1, T + 1):
        t = T - r
        for c in range(k + 1):
            for s in range(n_states):
                best, choice = None, None
                for a in [episode.actions[t], *range(n_actions)]:
                    left = c if a == episode.actions[t] else c - 1
                    if left < 0:
                        continue
                    reward = rewards[s, a]
                    if r > 1:
                        for after in range(n_states):
                            reward += kernel[t, s, a, after] * h[after, r - 1, left]
                    if best is None or reward > best:
                        best, choice = reward, a
                h[s, r, c] = best
                policy[t, s, c] = choice
    return h[episode.states[0], T], policy
