"""What is said about one sequence of actions, and how far a claimed improvement may be off.

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

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtr, stdtrit

from counterplan.core.problem import Problem
from counterplan.core.result import Change, Explanation, Interval
from counterplan.core.reward import SumReward, reward_variance
from counterplan.core.validation import FloatArray, IntArray, Seed
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.support import Inside, Support, sequence_support

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What an interval is meant to hold.
LEVEL = 0.9
# Scales that differ by less are called the same.
TOLERATED = 1.1


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceExplanation(Explanation):
    """The alternative actions and where they lead.

    Of a model with members `value` and `bound`, which the search is about, are means over their
    worst share; `improvement` is the mean over all of them, with its `interval` and the probability
    of `harm`.

    actions        (T-1,) indices into the set of actions
    observed       (T-1,) those that were taken
    states         (T, D) the counterfactual states, in the units of the episode
    history        (m, 3) nodes expanded, best value and bound as the search went on, from its first
                   moment to its end; none where nothing was searched
    outcomes       (B,) what each model says
    member_states  (B, T, D) where each member says it leads, of which `states` is the mean; None of
                   one model alone
    spread         standard deviation of the claimed improvement
    inner          (T, D) the states in the model's own units
    inside         what tells how far they leave the data, None if nothing does
    """

    actions: IntArray
    observed: IntArray
    states: FloatArray
    history: FloatArray
    outcomes: FloatArray
    spread: float
    member_states: FloatArray | None = field(repr=False)
    problem: Problem = field(repr=False)
    inner: FloatArray = field(repr=False)
    inside: Inside | None = field(repr=False)

    def plot(self, *, feature: str | int | None = None, seed: Seed = 0) -> Figure:
        """A feature over time, observed and with the changes.

        feature  its name or number; if not given the first that says what is better
        seed     of the samples that show how far chance may lead
        """
        return self._drawn(feature=feature, seed=seed)

    @property
    def indices(self) -> IntArray:
        """(T-1,) the actions as indices into those of `problem`."""
        return self.actions

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Where the sequence differs from what was done."""
        return tuple(
            Change(int(t), int(self.observed[t]), int(self.actions[t]))
            for t in np.flatnonzero(self.actions != self.observed)
        )

    @cached_property
    def support(self) -> Support:
        """How far the alternative leaves the data, where the model knows its data."""
        return sequence_support(self.inside, self.inner, self.changes)

    @property
    def improvement(self) -> float:
        """The mean over all models (`value` is that over the worst share of them); nothing where
        nothing changes, whatever rounding says."""
        return float(self.outcomes.mean() - self.factual_value) if self.changes else 0.0

    @cached_property
    def interval(self) -> Interval | None:
        """Of the improvement: meant to hold what is true in nine of ten cases."""
        if self.member_states is None:
            return None
        half = float(stdtrit(self._freedom, (1 + LEVEL) / 2)) * self.spread
        return Interval(self.improvement - half, self.improvement + half)

    @property
    def harm(self) -> float | None:
        """How likely it is worse than what was done."""
        if self.member_states is None:
            return None
        if not self.spread:
            return float(self.improvement < 0.0)
        return float(stdtr(self._freedom, -self.improvement / self.spread))

    @property
    def _freedom(self) -> int:
        return max(len(self.outcomes) - 1, 1)


def claim_spread(model: Member | None, actions: IntArray, outcomes: FloatArray) -> float:
    """Of the improvement that is the mean of members' outcomes (B,), of a model that says how far
    it may be off, or None."""
    count = len(outcomes)
    between = outcomes.var(ddof=1) * (1 + 1 / count) if count > 1 else 0.0
    return float(np.sqrt(between + (0.0 if model is None else _unseen_variance(model, actions))))


def _unseen_variance(model: Member, actions: IntArray) -> float:
    """What a claim is off by that no member shows."""
    scm: Any = model.scm
    form = scm.form
    course = model.trajectories(actions[None])
    value = model.earned(course, actions[None])
    off = np.repeat(course, len(form), axis=0)
    for i, share in enumerate(form):
        place = scm.fixed + i
        off[i, :, place] += share * (course[0, :, place] - model.states[:, place])
    by_form = model.earned(off, np.repeat(actions[None], len(form), axis=0)) - value
    noises = _other_luck(model, actions, course[0])
    by_luck = model.under(actions, noises) - value if len(noises) else np.zeros(0)
    # Each number is changed either way: near the end of a range one of the two does nothing.
    square = float((by_form**2).sum() + (by_luck**2).sum() / 2.0)
    return square + _worth_variance(model, course[0])


def _worth_variance(model: Member, course: FloatArray) -> float:
    """What is not known of the worth of states, all steps together, and of the end."""
    every, seen = (states.sum(axis=0, keepdims=True) for states in (course, model.states))
    found = reward_variance(model.reward, every, seen)
    if model.last is model.reward:
        return found
    assert isinstance(model.last, SumReward)  # of the reward, and what counts at the end besides
    ends = SumReward(model.last.parts[1:])
    return found + ends.variance(course[-1:], model.states[-1:])


def _other_luck(model: Member, actions: IntArray, course: FloatArray) -> FloatArray:
    """(2 n, T-1, U) the noise with one number changed in each, up or down by its standard
    deviation."""
    scm: Any = model.scm
    variance, found = (scm.noise_cholesky**2).sum(axis=1), []
    for t in np.flatnonzero(actions != model.observed):
        both = model.vectors[t, [model.observed[t], actions[t]]]
        scales = scm._scale(np.repeat(course[t : t + 1], 2, axis=0), both)
        rho = np.minimum(TOLERATED * scales.min(axis=0) / scales.max(axis=0), 1.0)
        square = (1.0 - rho) ** 2 * model.noise[t] ** 2 + (1.0 - rho**2) * variance
        for i in np.flatnonzero(square):
            for side in (1.0, -1.0):
                noise = model.noise.copy()
                noise[t, i] += side * np.sqrt(square[i])
                found.append(noise)
    return np.array(found)
