"""The same sampling procedure, vectorised in NumPy as well as we could.

All samples of a step are drawn at once, and each pair's winners come from one (d, S) array: going
pair by pair keeps that array in the cache, which on the machine of results/discrete.md was faster
than the single (d, S A, S) array, than chunks of it, and than a running maximum over states. The
dynamic program is one matrix product per step, for all budgets together.
"""

from __future__ import annotations

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
    pairs = log_p.reshape(-1, n_states)
    kernel = np.empty((len(episode) - 1, n_states * n_actions, n_states))
    for t in range(len(episode) - 1):
        observed = log_p[episode.states[t], episode.actions[t]]
        noise = posterior_noise(observed, int(episode.states[t + 1]), samples, rng)
        for pair in range(len(pairs)):
            winners = (pairs[pair] + noise).argmax(axis=1)
            kernel[t, pair] = np.bincount(winners, minlength=n_states)
    return (kernel / samples).reshape(-1, n_states, n_actions, n_states)


def posterior_noise(log_p: Any, outcome: int, samples: int, rng: np.random.Generator) -> Any:
    """(samples, S) draws of the noise, given that `outcome` won under log_p."""
    noise = rng.gumbel(size=(samples, len(log_p)))
    top = rng.gumbel(size=samples)
    possible = np.isfinite(log_p)
    free = noise[:, possible] + log_p[possible]
    noise[:, possible] = -np.log(np.exp(-top[:, None]) + np.exp(-free)) - log_p[possible]
    noise[:, outcome] = top - log_p[outcome]
    return noise


def solve(kernel: Any, rewards: Any, episode: Episode, k: int) -> tuple[Any, Any]:
    """(k + 1,) values for every budget and the policy (T, S, k + 1) by changes left."""
    T, states = len(episode), np.arange(len(rewards))[:, None]
    policy = np.empty((T, len(rewards), k + 1), dtype=int)
    h = np.zeros((len(rewards), k + 1))
    for t in reversed(range(T)):
        worths = _worths(kernel, rewards, episode, t, h)
        observed = int(episode.actions[t])
        best = worths.argmax(axis=1)
        keep = worths[states, best, np.arange(k + 1)] <= worths[:, observed]
        policy[t] = np.where(keep, observed, best)
        h = worths[states, policy[t], np.arange(k + 1)]
    return h[episode.states[0]], policy


def evaluate(kernel: Any, rewards: Any, episode: Episode, policy: Any) -> Any:
    """(k + 1,) what a given policy is worth under a kernel."""
    states, budgets = np.arange(len(rewards))[:, None], np.arange(policy.shape[2])
    h = np.zeros((len(rewards), policy.shape[2]))
    for t in reversed(range(len(episode))):
        h = _worths(kernel, rewards, episode, t, h)[states, policy[t], budgets]
    return h[episode.states[0]]


def _worths(kernel: Any, rewards: Any, episode: Episode, t: int, h: Any) -> Any:
    """(S, A, k + 1) of taking each action at step t; a change moves one column down."""
    ahead = kernel[t] @ h if t < len(episode) - 1 else np.zeros((*rewards.shape, h.shape[1]))
    worths = np.full(ahead.shape, -np.inf)
    worths[:, :, 1:] = rewards[:, :, None] + ahead[:, :, :-1]
    observed = episode.actions[t]
    worths[:, observed] = rewards[:, observed, None] + ahead[:, observed]
    return worths
