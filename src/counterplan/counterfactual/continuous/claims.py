"""How far a claimed improvement may be off: the spread of a claim about one sequence of actions.

    spread^2 = var_b V_b + sum_i (V(x + form_i (x_i - s_i)) - V(x))^2
                         + sum_ti (V(u + d_ti) - V(u))^2 + var (R(x) - R(s))

The first part is between members, each with its own idea of the noise. The others are by the model
itself, x being where it says the sequence leads and s the states observed: the effect on feature i
is off by a share form_i of itself (`scm.second_opinion`); and where another action is taken luck
need not be the same. An action whose outcomes are spread otherwise has luck of its own: with rho
the ratio of the smaller to the larger scale (those that differ by less than a tolerance, which a
scale linear in its inputs may miss, are called the same)

    u' = rho u + sqrt(1 - rho^2) e,      d^2 = (1 - rho)^2 u^2 + (1 - rho^2) var e

is the second moment of u' - u. Last comes what states and the end are worth, where that was learned
and is not known better than its weights. Claims have Student's law with one degree of freedom less
than there are members.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.core.reward import SumReward, reward_variance
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.setting import SequenceSetting

# Scales that differ by less are called the same.
TOLERATED = 1.1


def outcomes_under(setting: SequenceSetting, actions: IntArray, noises: FloatArray) -> FloatArray:
    """(n,) what the actions earn under noises (n, T-1, U)."""
    n, states = len(noises), [np.repeat(setting.states[:1], len(noises), axis=0)]
    every = np.repeat(np.asarray(actions)[None], n, axis=0)
    if hasattr(setting.replay, "under"):
        return setting.earned(setting.replay.under(0, states[0], every, noises), every)
    for t, action in enumerate(actions):
        vectors = np.broadcast_to(setting.vectors[t, action], (n, setting.vectors.shape[2]))
        states.append(setting.scm.step(states[-1], vectors, noises[:, t]))
    return setting.earned(np.stack(states, axis=1), every)


def unseen_variance(setting: SequenceSetting, actions: IntArray) -> float:
    """What a claim is off by that no member shows, of a model that says how far it may be off."""
    scm: Any = setting.scm
    form = scm.form
    course = setting.trajectories(actions[None])
    value = setting.earned(course, actions[None])
    off = np.repeat(course, len(form), axis=0)
    for i, share in enumerate(form):
        place = scm.fixed + i
        off[i, :, place] += share * (course[0, :, place] - setting.states[:, place])
    by_form = setting.earned(off, np.repeat(actions[None], len(form), axis=0)) - value
    noises = _other_luck(setting, actions, course[0])
    by_luck = outcomes_under(setting, actions, noises) - value if len(noises) else np.zeros(0)
    return float((by_form**2).sum() + (by_luck**2).sum()) + _worth_variance(setting, course[0])


def _worth_variance(setting: SequenceSetting, course: FloatArray) -> float:
    """What is not known of the worth of states, all steps together, and of the end."""
    every, seen = (states.sum(axis=0, keepdims=True) for states in (course, setting.states))
    found = reward_variance(setting.reward, every, seen)
    if setting.last is setting.reward:
        return found
    assert isinstance(setting.last, SumReward)  # of the reward, and what counts at the end besides
    ends = SumReward(setting.last.parts[1:])
    return found + ends.variance(course[-1:], setting.states[-1:])


def _other_luck(setting: SequenceSetting, actions: IntArray, course: FloatArray) -> FloatArray:
    """(n, T-1, U) the noise with one number changed, by its standard deviation, in each."""
    scm: Any = setting.scm
    variance, found = (scm.noise_cholesky**2).sum(axis=1), []
    for t in np.flatnonzero(actions != setting.observed):
        both = setting.vectors[t, [setting.observed[t], actions[t]]]
        scales = scm._scale(np.repeat(course[t : t + 1], 2, axis=0), both)
        rho = np.minimum(TOLERATED * scales.min(axis=0) / scales.max(axis=0), 1.0)
        square = (1.0 - rho) ** 2 * setting.noise[t] ** 2 + (1.0 - rho**2) * variance
        for i in np.flatnonzero(square):
            noise = setting.noise.copy()
            noise[t, i] += np.sqrt(square[i])
            found.append(noise)
    return np.array(found)
