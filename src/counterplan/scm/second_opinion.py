"""How far a smooth model may be off, beyond what its own posterior says.

A posterior holds for its form: units, hyper-parameters at their maximum, noise added to features as
they are measured. What that misses is found by asking again, on the two halves A and B of the
episodes (or of some of them):

    widen_i^2 = mean (h_A,i - h_B,i)^2 / mean (v_A,i + v_B,i)

h: what the halves say, v: their posterior variances. Were these right, it would be 1; members are
drawn so much farther from the mean. It is asked of locations, at states with actions of others, and
of what random alternatives would have done to whole episodes, where errors of steps add up; the
larger holds. And with another form, in which noise is added to

    z = YeoJohnson(feature),   its power chosen so that z is nearly normal,

learned from A as well. What random alternatives (some actions replaced) would have done to a
feature of the episodes in B, summed over the steps, is e_i by the one and e'_i by the other form:

    form_i^2 = w_i mean (e'_i - e_i)^2 / mean e_i^2

w_i is the weight of the other form in the mixture of both that makes B most likely (stacking):
near 0 where data speak for the form as it is. An effect that is e'_i with probability w_i and else
e_i is off by w_i (e'_i - e_i)^2 in the mean square. A claim is then as uncertain as if the effect
on feature i were off by a share form_i of itself (`counterfactual.continuous.claims`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from scipy.special import boxcox1p, inv_boxcox1p

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.point import Scaling
from counterplan.scm.transitions import Transitions

if TYPE_CHECKING:
    from counterplan.scm.smooth import SmoothSCM

# Episodes in each half at most, and at least to tell anything.
MOST, LEAST = 1_000, 10
# Draws that tell a variance, and rows and episodes at which halves are compared.
DRAWS, COMPARED, FOLLOWED = 16, 1_000, 300
# Changed actions of an alternative.
CHANGES = 2
# Powers of Yeo and Johnson.
POWERS = np.linspace(-1.0, 3.0, 33)
# Steps of the fixed point for the mixture's weight.
STEPS = 100
# Of squared differences the largest, which stand for courses that run away, count as this quantile.
TRIMMED = 0.98
# Where halves are too small to learn from: wide.
UNKNOWN = 2.0, 0.5


def second_opinion(
    learn: Callable[[Transitions, int, Scaling], SmoothSCM],
    transitions: Transitions,
    scaling: Scaling,
    fixed: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """(O,) `widen` and `form`; `learn` gives a model of some transitions with so many members, in
    such units."""
    given = transitions.plausible()
    unknown = np.tile(UNKNOWN, (given.before.shape[1] - fixed, 1)).T
    halves = np.array_split(given.shuffled(rng)[: 2 * MOST], 2)
    if min(map(len, halves)) < LEAST:
        return unknown[0], unknown[1]
    ours, theirs = map(given.of_episodes, halves)
    try:
        first, second = (learn(part, DRAWS, scaling) for part in (ours, theirs))
        warp = Warp.of(ours, fixed)
        bent = warp.transitions(ours)
        other = learn(bent, 0, warp.scaling(scaling, bent))
    except InputError:  # too little in a half, or a feature that does not move there
        return unknown[0], unknown[1]
    return _widening(first, second, given, rng), _form(first, other, warp, theirs, rng)


def _widening(
    first: SmoothSCM, second: SmoothSCM, every: Transitions, rng: np.random.Generator
) -> FloatArray:
    rows, others = (rng.permutation(len(every))[:COMPARED] for _ in range(2))
    actions, states = first._encoded(every.actions[others], every.before[rows])
    courses = alternatives(every.of_episodes(every.shuffled(rng)[:FOLLOWED]), rng)
    asked: list[Callable[[SmoothSCM], FloatArray]] = [lambda one: one.location(states, actions)]
    if courses:
        asked.append(lambda one: effects(one, courses, None))
    found = np.ones(every.before.shape[1] - first.fixed)
    for question in asked:
        apart = _trimmed((question(first) - question(second)) ** 2)
        drawn = [
            np.var([question(one) for one in model.members], axis=0, ddof=1)
            for model in (first, second)
        ]
        expected = np.maximum(_trimmed(np.sum(drawn, axis=0)), 1e-300)
        found = np.maximum(found, np.sqrt(apart / expected))
    return found


def _trimmed(squares: FloatArray) -> FloatArray:
    """(O,) the mean; the largest count as the quantile."""
    return np.asarray(np.minimum(squares, np.quantile(squares, TRIMMED, axis=0)).mean(axis=0))


def _form(
    plain: SmoothSCM, other: SmoothSCM, warp: Warp, judged: Transitions, rng: np.random.Generator
) -> FloatArray:
    bent = warp.transitions(judged)
    ours = log_densities(plain, judged)
    weight = stacked(ours, log_densities(other, bent) + warp.log_slopes(judged.after))
    courses = alternatives(judged, rng)
    if not courses:
        return np.full(len(weight), UNKNOWN[1])
    same = effects(plain, courses, None)
    size = np.maximum((same**2).mean(axis=0), 1e-300)
    share = np.sqrt(_trimmed((effects(other, courses, warp) - same) ** 2) / size)
    return np.asarray(np.minimum(np.sqrt(weight) * share, 1.0))


@dataclass(frozen=True, eq=False)
class Warp:
    """Features that move, standardised and raised to powers by Yeo and Johnson.

    middle, size, power  (O,)
    low, high            (O,) of z: what is decoded stays between
    """

    fixed: int
    middle: FloatArray
    size: FloatArray
    power: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, data: Transitions, fixed: int) -> Self:
        values = np.concatenate([data.before, data.after])[:, fixed:]
        middle, size = np.median(values, axis=0), values.std(axis=0)
        x = (values - middle) / size
        # The power under which a feature is most likely normal.
        worth = [
            -0.5 * len(x) * np.log(np.maximum(_bent(x, power).var(axis=0), 1e-300))
            + (power - 1.0) * (np.sign(x) * np.log1p(np.abs(x))).sum(axis=0)
            for power in POWERS
        ]
        power = POWERS[np.argmax(worth, axis=0)]
        low, high = x.min(axis=0), x.max(axis=0)
        ends = [_bent(one, power) for one in (1.5 * low - 0.5 * high, 1.5 * high - 0.5 * low)]
        return cls(fixed, middle, size, power, *ends)

    def encode(self, states: FloatArray) -> FloatArray:
        bent = _bent((states[:, self.fixed :] - self.middle) / self.size, self.power)
        return np.concatenate([states[:, : self.fixed], bent], axis=1)

    def decode(self, states: FloatArray) -> FloatArray:
        z = np.clip(states[:, self.fixed :], self.low, self.high)
        up, down = (inv_boxcox1p(np.maximum(s * z, 0.0), p) for s, p in self._sides)
        x = np.where(z >= 0.0, up, -down)
        return np.concatenate([states[:, : self.fixed], x * self.size + self.middle], axis=1)

    @property
    def _sides(self) -> tuple[tuple[float, FloatArray], tuple[float, FloatArray]]:
        return (1.0, self.power), (-1.0, 2.0 - self.power)

    def log_slopes(self, states: FloatArray) -> FloatArray:
        """(n, O) of dz / d feature."""
        x = (states[:, self.fixed :] - self.middle) / self.size
        return np.asarray((self.power - 1.0) * np.sign(x) * np.log1p(np.abs(x)) - np.log(self.size))

    def transitions(self, data: Transitions) -> Transitions:
        return replace(data, before=self.encode(data.before), after=self.encode(data.after))

    def scaling(self, scaling: Scaling, bent: Transitions) -> Scaling:
        """Of features in this form."""
        offset, spread = np.array(scaling.state_offset), np.array(scaling.state_range)
        moving = np.concatenate([bent.before, bent.after])[:, self.fixed :]
        low, high = moving.min(axis=0), moving.max(axis=0)
        offset[self.fixed :], spread[self.fixed :] = (low + high) / 2, high - low
        return replace(scaling, state_offset=offset, state_range=spread)


def _bent(x: FloatArray, power: FloatArray | float) -> FloatArray:
    """Yeo and Johnson's transformation."""
    up, down = boxcox1p(np.maximum(x, 0.0), power), boxcox1p(np.maximum(-x, 0.0), 2.0 - power)
    return np.where(x >= 0.0, up, -down)


def log_densities(model: SmoothSCM, data: Transitions) -> FloatArray:
    """(n, O) of each feature that moves, but for a constant."""
    assert model.scaling is not None
    sigma = np.sqrt((model.noise_cholesky**2).sum(axis=1))
    white = model.infer(data.before, data.actions, data.after) / sigma
    actions, states = model._encoded(data.actions, data.before)
    spread = sigma * model._spread(states, actions) * model.scaling.state_range[model.fixed :]
    return np.asarray(-0.5 * white**2 - np.log(spread))


def stacked(ours: FloatArray, theirs: FloatArray) -> FloatArray:
    """(O,) the weight of the second in the most likely mixture, from log densities (n, O)."""
    odds = np.exp(np.clip(theirs - ours, -700.0, 700.0))
    weight = np.full(ours.shape[1], 0.5)
    for _ in range(STEPS):
        weight = (weight * odds / (1.0 - weight + weight * odds)).mean(axis=0)
    return weight


class Course(NamedTuple):
    """An episode's states (T, D), what was done (T-1, d), and something else."""

    states: FloatArray
    actions: FloatArray
    others: FloatArray


def alternatives(data: Transitions, rng: np.random.Generator) -> list[Course]:
    """One for each episode without gaps: some of its actions replaced by those of other rows."""
    found = []
    for episode in np.unique(data.episode):
        rows = np.flatnonzero(data.episode == episode)
        if not np.array_equal(data.after[rows[:-1]], data.before[rows[1:]]):
            continue
        states = np.concatenate([data.before[rows], data.after[rows[-1:]]])
        others = data.actions[rows].copy()
        steps = rng.choice(len(rows), size=min(CHANGES, len(rows)), replace=False)
        others[steps] = data.actions[rng.integers(len(data), size=len(steps))]
        found.append(Course(states, data.actions[rows], others))
    return found


def effects(model: SmoothSCM, courses: list[Course], warp: Warp | None) -> FloatArray:
    """(n, O) by how much alternatives change each feature, summed over the steps; a model of warped
    features is asked in its own."""
    fixed, ways = model.fixed, (lambda x: x, lambda x: x)
    encode, decode = ways if warp is None else (warp.encode, warp.decode)
    total = np.zeros((len(courses), courses[0].states.shape[1] - fixed))
    every = [encode(one.states) for one in courses]
    noises = [
        model.infer(states[:-1], one.actions, states[1:])
        for states, one in zip(every, courses, strict=True)
    ]
    current = np.stack([states[0] for states in every])
    for t in range(max(len(one.others) for one in courses)):
        live = [i for i, one in enumerate(courses) if t < len(one.others)]
        actions = np.stack([courses[i].others[t] for i in live])
        noise = np.stack([noises[i][t] for i in live])
        current[live] = model.step(current[live], actions, noise)
        observed = np.stack([courses[i].states[t + 1, fixed:] for i in live])
        total[live] += decode(current[live])[:, fixed:] - observed
    return total
