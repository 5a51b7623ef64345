"""What no data can tell: how much of an improvement rests on luck staying the same, and on nothing
being hidden.

A changed step keeps the noise u that the observed one had. No data confirms that: models with the
same law of transitions may re-draw luck where the action is another, or turn it round. So let

    u' = rho u + sqrt(1 - rho^2) e,      e fresh from the model's law of noise

in every changed step: rho = 1 is the explanation, 0 re-draws luck, -1 flips it. The *tipping rho*
is the largest at which nothing is left of the improvement. And what was done may have been chosen
for a reason that the data does not show. Let the outcome of every changed step be off by up to
gamma standard deviations of the noise in every feature, all to the worse:

    u' = u - gamma sd * sign(dV / du)

The *tipping gamma* is the smallest at which nothing is left: the strength, in units of the noise,
that a hidden cause must have to undo the advice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from counterplan.core.episode import Episode
from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.counterfactual.continuous.claims import LEVEL, SequenceExplanation
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.setting import prepare_members
from counterplan.errors import InputError

RHOS = np.linspace(1.0, -1.0, 21)
GAMMAS = np.linspace(0.0, 5.0, 21)
# Of the noise's standard deviation: how far to look for the direction that is worse.
STEP = 1e-3


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How the improvement of an explanation depends on what cannot be known.

    rho            values of rho, from 1 down, and
    at_rho         (B, m) the mean improvement by each member of the model
    turned         (B, 2) the least and most where luck is turned in some features of changed steps
    gamma          values of gamma, from 0 up, and
    at_gamma       (B, m) the improvement in the worst direction
    raised         (B, m) and in the best one
    spread         of the claim itself, by which the intervals are wider
    tipping_rho    the largest rho at which the mean over members is no improvement; None if it is
                   one however luck is turned
    tipping_gamma  the smallest such gamma; None if none of `gamma` undoes it
    """

    rho: FloatArray
    at_rho: FloatArray
    turned: FloatArray
    gamma: FloatArray
    at_gamma: FloatArray
    raised: FloatArray
    spread: float = 0.0

    @property
    def tipping_rho(self) -> float | None:
        return _crossing(self.rho, self.at_rho.mean(axis=0))

    @property
    def tipping_gamma(self) -> float | None:
        return _crossing(self.gamma, self.at_gamma.mean(axis=0))

    @property
    def interval(self) -> Interval:
        """What the improvement may be, whatever rho is, also one of its own in each step."""
        return self._interval(np.concatenate([self.at_rho, self.turned], axis=1))

    def interval_at(self, gamma: float) -> Interval:
        """What it may be if hidden causes are at most as strong as gamma, in either direction."""
        here = np.array([np.interp(gamma, self.gamma, row) for row in self.at_gamma])
        best = [np.interp(gamma, self.gamma, row) for row in self.raised]
        return self._interval(np.column_stack([here, best]))

    def _interval(self, values: FloatArray) -> Interval:
        half = float(ndtri((1 + LEVEL) / 2)) * self.spread
        if half:
            middle = values.mean(axis=0)
            return Interval(float(middle.min()) - half, float(middle.max()) + half)
        ends = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return Interval(float(ends[0].min()), float(ends[1].max()))

    @property
    def sentence(self) -> str:
        """Both tipping points, in words."""
        rho, gamma = self.tipping_rho, self.tipping_gamma
        luck = (
            "However the luck of the changed steps is turned, an improvement is left"
            if rho is None
            else f"Nothing is left of it where luck is kept to less than {rho:.2f}"
        )
        hidden = (
            f"a hidden cause of {self.gamma[-1]:g} times the noise does not undo it"
            if gamma is None
            else f"a hidden cause {gamma:.2g} times as strong as the noise would undo it"
        )
        return f"{luck}; {hidden}."

    def __str__(self) -> str:
        return self.sentence


def sensitivity(
    scm: Any, episode: Episode, explanation: SequenceExplanation, draws: int = 200, seed: Seed = 0
) -> Sensitivity:
    """How much of an explanation of continuous states rests on what no data can tell.

    scm    the model that it is by; its members, where it has some
    draws  of fresh noise for each rho and member, half of them the opposites of the others: what
           is linear in luck has no error
    """
    found = _by_member(scm, episode, explanation, draws, seed)
    return Sensitivity(
        rho=RHOS,
        at_rho=np.stack([one.at_rho(RHOS) for one in found]),
        turned=np.stack([one.turned() for one in found]),
        gamma=GAMMAS,
        at_gamma=np.stack([one.at_gamma(1.0) for one in found]),
        raised=np.stack([one.at_gamma(-1.0) for one in found]),
        spread=explanation.spread,
    )


def tipping_points(
    scm: Any, episode: Episode, explanation: SequenceExplanation, draws: int = 200, seed: Seed = 0
) -> tuple[float | None, float | None]:
    """The tipping rho and the tipping gamma of `sensitivity` alone."""
    found = _by_member(scm, episode, explanation, draws, seed)
    means = np.mean([one.at_rho(RHOS) for one in found], axis=0)
    worst = np.mean([one.at_gamma(1.0) for one in found], axis=0)
    return _crossing(RHOS, means), _crossing(GAMMAS, worst)


def _by_member(
    scm: Any, episode: Episode, explanation: SequenceExplanation, draws: int, seed: Seed
) -> list[_Doubted]:
    """An explanation by every member of its model."""
    if not isinstance(explanation, SequenceExplanation):
        raise InputError(
            "sensitivity is about continuous states; where states are discrete, value_interval "
            "gives the range over all causal models"
        )
    problem = explanation.problem
    if explanation.episode is not episode and not np.array_equal(
        explanation.episode.states, episode.states
    ):
        raise InputError(f"the explanation belongs to another episode than {episode.name}")
    count, rng = whole_number(draws, "draws", minimum=1), generator(seed)
    if problem.scm is not scm or problem.episode is not episode:
        problem = replace(problem, scm=scm, episode=episode)
    members = prepare_members(problem)
    shape = len(members), (count + 1) // 2, len(episode) - 1, _moving(members[0].scm)
    pairs = zip(members, rng.standard_normal(shape), strict=True)
    return [_Doubted(one, explanation.indices, np.concatenate([x, -x])) for one, x in pairs]


def _moving(scm: Any) -> int:
    factor = getattr(scm, "noise_cholesky", None)
    if factor is None:
        raise InputError(
            f"a {type(scm).__name__} states no law of its noise, which sensitivity needs: give it "
            "`noise_cholesky`, the lower triangular factor of the noise's covariance"
        )
    return len(factor)


class _Doubted:
    """What a sequence of actions brings by one model, where its luck is another; nothing where
    nothing is changed."""

    def __init__(self, model: Member, actions: IntArray, fresh: FloatArray) -> None:
        """`fresh`: draws (n, T-1, U) of standard normal numbers."""
        self._model, self._actions, self._noise = model, actions, model.noise
        self._changed = np.flatnonzero(actions != model.observed)
        factor = np.asarray(model.scm.noise_cholesky)  # type: ignore[attr-defined]
        self._observed = float(model.earned(model.states[None], model.observed[None])[0])
        self._deviation, self._drawn = np.sqrt((factor**2).sum(axis=1)), fresh @ factor.T

    def at_rho(self, rhos: FloatArray) -> FloatArray:
        """(m,) the mean improvement by each rho."""
        if not self._changed.size:
            return np.zeros(len(rhos))
        noise, changed, many = self._noise, self._changed, len(self._drawn)
        # Where nothing is drawn, at both ends, all draws are the same one.
        counts = np.where(np.abs(rhos) < 1.0, many, 1)
        luck = [
            r * noise[changed] + np.sqrt(max(0.0, 1.0 - r**2)) * self._drawn[:count, changed]
            for r, count in zip(rhos, counts, strict=True)
        ]
        mixed = np.repeat(noise[None], counts.sum(), axis=0)
        mixed[:, changed] = np.concatenate(luck)
        every = np.repeat(self._improvement(mixed), np.repeat(many // counts, counts))
        return np.asarray(every.reshape(len(rhos), -1).mean(axis=1))

    def turned(self) -> FloatArray:
        """(2,) with all luck turned round that lowers the improvement, and all that raises it, each
        by itself."""
        if not self._changed.size:
            return np.zeros(2)
        same, flipped = self._one_by_one(self._noise, -self._noise)
        raises, turned = flipped > same, np.repeat(self._noise[None], 2, axis=0)
        turned[:, self._changed] *= np.where(np.stack([raises, ~raises]), 1.0, -1.0)
        return self._improvement(turned)

    def at_gamma(self, side: float) -> FloatArray:
        """(m,) by each gamma, against it (1) or in its favour (-1); what is worse, or better, may
        be found at a smaller shift already."""
        if not self._changed.size:
            return np.zeros(len(GAMMAS))
        found = self._improvement(self._noise + side * GAMMAS[:, None, None] * self._worse)
        worst = np.minimum.accumulate if side > 0.0 else np.maximum.accumulate
        return np.asarray(worst(found))

    @cached_property
    def _worse(self) -> FloatArray:
        """(T-1, U) one standard deviation of each changed step's noise, the way that is worse."""
        up, down = self._shifted(STEP)
        if (up == down).any():  # a small shift does nothing where a range holds what it moves
            far = self._shifted(GAMMAS[-1])
            up, down = (
                np.where(up == down, other, near)
                for near, other in zip((up, down), far, strict=True)
            )
        worse = np.zeros_like(self._noise)
        worse[self._changed] = np.where(up > down, -self._deviation, self._deviation)
        return worse

    def _shifted(self, by: float) -> FloatArray:
        """(2, changed, U) with one number of a changed step moved up or down."""
        both = (self._noise + side * by * self._deviation for side in (1.0, -1.0))
        return self._one_by_one(*both)

    def _one_by_one(self, *others: FloatArray) -> FloatArray:
        """(others, changed, U) the improvements where one number of a changed step is that of each
        of the others."""
        changed, width = self._changed, len(self._deviation)
        size = len(changed) * width
        steps, numbers = np.repeat(changed, width), np.tile(np.arange(width), len(changed))
        every = np.repeat(self._noise[None], len(others) * size, axis=0)
        for i, other in enumerate(others):
            every[i * size + np.arange(size), steps, numbers] = other[steps, numbers]
        return self._improvement(every).reshape(len(others), len(changed), -1)

    def _improvement(self, noises: FloatArray) -> FloatArray:
        """(n,) under noises (n, T-1, U)."""
        return self._model.under(self._actions, noises) - self._observed


def _crossing(places: FloatArray, values: FloatArray) -> float | None:
    """Where values first fall to nothing, by a straight line between places; None if nowhere."""
    gone = np.flatnonzero(values <= 0.0)
    if not gone.size:
        return None
    after = int(gone[0])
    if after == 0:
        return float(places[0])
    above, below = values[after - 1], values[after]
    share = above / (above - below)
    return float(places[after - 1] + share * (places[after] - places[after - 1]))
