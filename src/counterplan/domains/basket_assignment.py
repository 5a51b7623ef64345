"""Options to dates, at most `cap` on a date: the hindsight of a basket.

    max sum_{t,b} w_tb a_tb,   sum_t a_tb <= held_b,   sum_b a_tb <= cap,   a_tb in {0, 1}

Where every option's best date is free, that is the answer; else an assignment problem with `cap`
places on every date, solved exactly.
"""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray


def assign(weights: FloatArray, held: FloatArray, cap: int) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and actions (n, steps, B) for weights (n, steps, B) and held (n, B).

    What weighs nothing or less is not exercised; of equally good dates the first.
    """
    paths = np.arange(len(weights))[:, np.newaxis]
    options = np.arange(weights.shape[2])
    dates = weights.argmax(axis=1)
    chosen = (weights[paths, dates, options] > 0) & (held > 0.5)
    actions = np.zeros(weights.shape)
    actions[paths, dates, options] = chosen
    for i in np.flatnonzero(actions.sum(axis=2).max(axis=1) > cap):
        actions[i] = _assign_one(weights[i], held[i], cap)
    return (weights * actions).sum(axis=(1, 2)), actions


def _assign_one(weights: FloatArray, held: FloatArray, cap: int) -> FloatArray:
    """(steps, B) for one path."""
    from scipy.optimize import linear_sum_assignment

    gains = np.maximum(weights, 0.0) * (held > 0.5)
    options, places = linear_sum_assignment(np.repeat(gains.T, cap, axis=1), maximize=True)
    actions = np.zeros(weights.shape)
    dates = places // cap
    actions[dates, options] = gains[dates, options] > 0
    return actions
