"""Following a policy forward through the counterfactual process, compiled.

A node is (state, budget left). Each function moves what is known about the nodes of step t along
one step: the policy's actions (S, C, M) with weights (S, C, M), their costs (A,), and the
counterfactual rows of the pairs in use, compressed as (indptr, indices, probabilities) with
`position` (R,) telling where a row id stands among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from counterplan.counterfactual.lattice import LOST


@njit(cache=True, nogil=True)
def push_moments(
    nodes: tuple[Any, Any, Any], policy: tuple[Any, Any], costs: Any, rewards: Any, law: Any
) -> tuple[Any, Any, Any]:
    """Mass, mean and weighted squared deviation of the reward so far, (S, C) each, one step on.

    Streams of reward that meet in a node are merged by the pairwise update of Chan et al., so the
    variance never comes out of a difference of large numbers.
    """
    mass, mean, spread = nodes
    actions, weights = policy
    row_of, position, indptr, indices, probabilities = law
    n_states, columns = mass.shape
    new_mass = np.zeros((n_states, columns))
    new_mean = np.zeros((n_states, columns))
    new_spread = np.zeros((n_states, columns))
    for s in range(n_states):
        for c in range(columns):
            if mass[s, c] == 0.0:
                continue
            for m in range(actions.shape[2]):
                a = actions[s, c, m]
                share = mass[s, c] * weights[s, c, m]
                if share == 0.0:
                    continue
                left = c - costs[a]
                total = mean[s, c] + rewards[s, a]
                variance = spread[s, c] / mass[s, c]
                row = position[row_of[s, a]]
                for j in range(indptr[row], indptr[row + 1]):
                    weight = share * probabilities[j]
                    if weight > 0.0:
                        i = indices[j]
                        merged = new_mass[i, left] + weight
                        shift = total - new_mean[i, left]
                        part = weight / merged
                        new_spread[i, left] += weight * variance
                        new_spread[i, left] += new_mass[i, left] * part * shift * shift
                        new_mean[i, left] += part * shift
                        new_mass[i, left] = merged
    return new_mass, new_mean, new_spread


@njit(cache=True, nogil=True)
def push_sums(
    mass: Any, policy: tuple[Any, Any], costs: Any, increments: Any, law: Any, window: Any
) -> tuple[Any, float]:
    """Distribution of a sum of whole-numbered increments (S, A), (S, C, G) -> (S, C, G').

    window  the sum that the first column stands for before, and the least and largest sum kept
            after; sums beyond these are counted as them

    An increment of LOST stands for minus infinity; the mass that meets it is returned apart.
    """
    actions, weights = policy
    row_of, position, indptr, indices, probabilities = law
    n_states, columns, sums = mass.shape
    before, low, high = window
    result = np.zeros((n_states, columns, high - low + 1))
    lost = 0.0
    for s in range(n_states):
        for c in range(columns):
            here = mass[s, c].sum()
            if here == 0.0:
                continue
            for m in range(actions.shape[2]):
                weight = weights[s, c, m]
                if weight == 0.0:
                    continue
                a = actions[s, c, m]
                increment = increments[s, a]
                if increment == LOST:
                    lost += weight * here
                    continue
                left = c - costs[a]
                row = position[row_of[s, a]]
                for j in range(indptr[row], indptr[row + 1]):
                    factor = weight * probabilities[j]
                    if factor > 0.0:
                        target = result[indices[j], left]
                        for g in range(sums):
                            place = min(max(before + g + increment, low), high) - low
                            target[place] += factor * mass[s, c, g]
    return result, lost


@njit(cache=True, nogil=True)
def push_most_likely(
    score: Any, policy: tuple[Any, Any], costs: Any, law: Any
) -> tuple[Any, Any, Any]:
    """Log probability of the likeliest path into each node (S, C), with the node (s * C + c) it
    comes from and the action taken there."""
    actions, weights = policy
    row_of, position, indptr, indices, probabilities = law
    n_states, columns = score.shape
    new_score = np.full((n_states, columns), -np.inf)
    source = np.full((n_states, columns), -1, dtype=np.int64)
    taken = np.full((n_states, columns), -1, dtype=np.int32)
    for s in range(n_states):
        for c in range(columns):
            if score[s, c] == -np.inf:
                continue
            for m in range(actions.shape[2]):
                if weights[s, c, m] == 0.0:
                    continue
                a = actions[s, c, m]
                left = c - costs[a]
                row = position[row_of[s, a]]
                for j in range(indptr[row], indptr[row + 1]):
                    probability = weights[s, c, m] * probabilities[j]
                    if probability > 0.0:
                        candidate = score[s, c] + np.log(probability)
                        if candidate > new_score[indices[j], left]:
                            new_score[indices[j], left] = candidate
                            source[indices[j], left] = s * columns + c
                            taken[indices[j], left] = a
    return new_score, source, taken


@njit(cache=True, nogil=True)
def draw_actions(states: Any, left: Any, policy: tuple[Any, Any], uniforms: Any) -> Any:
    """(n,) one action for each realization."""
    actions, weights = policy
    result = np.empty(states.shape[0], dtype=np.int32)
    for n in range(states.shape[0]):
        options = weights[states[n], left[n]]
        choice = _draw(options, uniforms[n])
        result[n] = actions[states[n], left[n], choice]
    return result


@njit(cache=True, nogil=True)
def draw_states(states: Any, actions: Any, law: Any, uniforms: Any) -> Any:
    """(n,) the next state of each realization."""
    row_of, position, indptr, indices, probabilities = law
    result = np.empty(states.shape[0], dtype=np.int64)
    for n in range(states.shape[0]):
        row = position[row_of[states[n], actions[n]]]
        start, end = indptr[row], indptr[row + 1]
        result[n] = indices[start + _draw(probabilities[start:end], uniforms[n])]
    return result


@njit(cache=True, nogil=True)
def _draw(probabilities: Any, uniform: float) -> int:
    """Inverse of the cumulative sum; never an entry of probability zero."""
    total = 0.0
    choice = 0
    for j in range(probabilities.shape[0]):
        if probabilities[j] > 0.0:
            choice = j
            total += probabilities[j]
            if uniform < total:
                break
    return choice
