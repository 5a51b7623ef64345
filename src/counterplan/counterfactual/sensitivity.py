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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from counterplan.core.episode import Episode
from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.counterfactual.continuous.claims import outcomes_under
from counterplan.counterfactual.continuous.ensemble import LEVEL, members_of
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    SequenceSetting,
    prepare_sequence,
)
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
        best = 2.0 * self.at_gamma[:, 0] - here
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
    draws  of fresh noise for each rho
    """
    if not isinstance(explanation, SequenceExplanation):
        raise InputError(
            "sensitivity is about continuous states; where states are discrete, value_interval "
            "gives the range over all causal models"
        )
    if explanation.episode is not episode and not np.array_equal(
        explanation.episode.states, episode.states
    ):
        raise InputError(f"the explanation belongs to another episode than {episode.name}")
    count, rng = whole_number(draws, "draws", minimum=1), generator(seed)
    problem = replace(explanation.problem, scm=scm, episode=episode, risk=None)
    members = members_of(problem) if getattr(scm, "members", ()) else (scm,)
    fresh = rng.standard_normal((count, len(episode) - 1, _moving(members[0])))
    found = []
    for member in members:
        setting = prepare_sequence(replace(problem, scm=member))
        found.append(_by_member(setting, explanation.actions, fresh))
    at_rho, turned, at_gamma = (np.stack(parts) for parts in zip(*found, strict=True))
    spread = float(getattr(explanation, "spread", 0.0))
    return Sensitivity(RHOS, at_rho, turned, GAMMAS, at_gamma, spread)


def _moving(scm: Any) -> int:
    factor = getattr(scm, "noise_cholesky", None)
    if factor is None:
        raise InputError(
            f"a {type(scm).__name__} states no law of its noise, which sensitivity needs: give it "
            "`noise_cholesky`, the lower triangular factor of the noise's covariance"
        )
    return len(factor)


def _by_member(
    setting: SequenceSetting, actions: Any, fresh: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(m,) the improvements by one model: by rho, with luck turned in some steps, by gamma."""
    factor = np.asarray(setting.scm.noise_cholesky)  # type: ignore[attr-defined]
    changed = np.flatnonzero(actions != setting.observed)
    observed = float(setting.earned(setting.states[None], setting.observed[None])[0])
    noise, deviation = setting.noise, np.sqrt((factor**2).sum(axis=1))

    def improvement(noises: FloatArray) -> FloatArray:
        return outcomes_under(setting, actions, noises) - observed

    drawn, mixed = fresh @ factor.T, []
    for rho in RHOS:
        one = np.repeat(noise[None], len(drawn), axis=0)
        luck = rho * noise[changed] + np.sqrt(max(0.0, 1.0 - rho**2)) * drawn[:, changed]
        one[:, changed] = luck
        mixed.append(one)
    by_rho = improvement(np.concatenate(mixed)).reshape(len(RHOS), -1).mean(axis=1)
    turned = improvement(_turned(improvement, noise, changed))
    worse = _worse(improvement, noise, changed, deviation)
    shifted = noise + GAMMAS[:, None, None] * worse
    # What is worse may be found at a smaller shift already.
    return by_rho, turned, np.minimum.accumulate(improvement(shifted))


def _turned(
    improvement: Callable[[FloatArray], FloatArray], noise: FloatArray, changed: Any
) -> FloatArray:
    """(2, T-1, U) the noise with all that lowers, and all that raises the improvement turned round,
    of each changed step and feature by itself."""
    places = [(t, i) for t in changed for i in range(noise.shape[1])]
    each = np.repeat(noise[None], 1 + len(places), axis=0)
    for row, (t, i) in enumerate(places, 1):
        each[row, t, i] *= -1.0
    gains = improvement(each)
    both = np.repeat(noise[None], 2, axis=0)
    for (t, i), gain in zip(places, gains[1:] - gains[0], strict=True):
        both[int(gain > 0.0), t, i] *= -1.0
    return both


def _worse(
    improvement: Callable[[FloatArray], FloatArray],
    noise: FloatArray,
    changed: Any,
    deviation: FloatArray,
) -> FloatArray:
    """(T-1, U) one standard deviation of each changed step's noise, the way that is worse."""
    result = np.zeros_like(noise)
    places = [(t, i) for t in changed for i in range(len(deviation))]
    if not places:
        return result
    moved = np.repeat(noise[None], 2 * len(places), axis=0)
    for row, (t, i) in enumerate(places):
        moved[2 * row, t, i] += STEP * deviation[i]
        moved[2 * row + 1, t, i] -= STEP * deviation[i]
    up, down = improvement(moved).reshape(-1, 2).T
    for (t, i), rises in zip(places, up > down, strict=True):
        result[t, i] = -deviation[i] if rises else deviation[i]
    return result


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
