"""Simple sequences to compare the optimum with (those of the 2023 paper's experiments).

greedy   round by round the best single change on top of those made
top-k    the best single changes of the observed sequence, made together
random   random changes
"""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import IntArray
from counterplan.counterfactual.sequence_setting import SequenceSetting
from counterplan.counterfactual.single_changes import affordable, single_change_values


def greedy_sequence(
    setting: SequenceSetting,
    start: IntArray | None = None,
    rng: np.random.Generator | None = None,
    probability: float = 1.0,
) -> IntArray:
    """At most k rounds, each with the best affordable single change (taken with a probability)."""
    best = (setting.observed if start is None else start).copy()
    value = float(setting.outcomes(best[None])[0])
    for _ in range(setting.k):
        if rng is not None and rng.random() >= probability:
            continue
        gains = np.where(affordable(setting, best), single_change_values(setting, best), -np.inf)
        t, action = (int(i) for i in np.unravel_index(np.argmax(gains), gains.shape))
        if not gains[t, action] > value + setting.negligible(value):
            break
        best[t], value = action, float(gains[t, action])
    return best


def top_k_sequence(setting: SequenceSetting) -> IntArray:
    """The most valuable single changes, one for each step, as many as the budget allows."""
    result = setting.observed.copy()
    values = np.where(affordable(setting, result), single_change_values(setting, result), -np.inf)
    factual = float(setting.outcomes(result[None])[0])
    worthwhile = factual + setting.negligible(factual)
    order = np.argsort(-values.max(axis=1), kind="stable")
    left = setting.k
    for t in order:
        action = int(np.argmax(values[t]))
        cost = int(setting.costs_at(int(t))[action])
        if values[t, action] > worthwhile and 0 < cost <= left:
            result[t], left = action, left - cost
    return result


def random_sequence(setting: SequenceSetting, rng: np.random.Generator) -> IntArray:
    """Random steps in random order, each set to a random affordable action, until k is spent."""
    result = setting.observed.copy()
    for t in rng.permutation(len(result)):
        options = np.flatnonzero(affordable(setting, result)[t])
        others = options[options != setting.observed[t]]
        if len(others):
            result[t] = rng.choice(others)
    return result
