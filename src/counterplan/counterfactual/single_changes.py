"""What every single change of a sequence would bring, all of them side by side."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.sequence_setting import SequenceSetting


def single_change_values(setting: SequenceSetting, base: IntArray) -> FloatArray:
    """(T-1, N) the outcome of `base` (T-1,) with the action of step t replaced by a."""
    T, N = setting.horizon, setting.n_actions
    current = setting.states[:1]
    earned = 0.0
    waiting = np.empty((0, setting.states.shape[1]))
    totals = np.empty(0)
    for t in range(T - 1):
        if len(waiting):  # those that changed earlier follow the base from here on
            totals = totals + setting.reward(waiting)
            waiting = setting.replay.follow(t, waiting, np.full(len(waiting), base[t]))
        earned += float(setting.reward(current)[0])
        after = setting.replay.children(t, current)[0]
        waiting = np.concatenate([waiting, after])
        totals = np.concatenate([totals, np.full(N, earned)])
        current = after[base[t]][None]
    return np.asarray((totals + setting.reward(waiting)).reshape(T - 1, N))


def affordable(setting: SequenceSetting, base: IntArray) -> BoolArray:
    """(T-1, N) whether step t of `base` may be set to a within the budget."""
    steps = np.arange(len(base))
    prices = [setting.costs_at(t) for t in range(len(base))]
    price = np.array(prices, dtype=np.int64).reshape(len(base), setting.n_actions)
    spent = price[steps, base]
    return np.asarray(setting.allowed & (spent.sum() - spent[:, None] + price <= setting.k))
