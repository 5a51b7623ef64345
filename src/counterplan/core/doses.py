"""Actions that are doses: any real numbers within limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.validation import LARGEST, BoolArray, FloatArray, IntArray, whole_number
from counterplan.errors import InputError

Amounts: TypeAlias = float | Sequence[float | None] | FloatArray
# Doses this close to a limit, as a share of the range, keep it.
ROUNDING = 1e-9
FROM_0 = ("step", "same")


class Room(NamedTuple):
    """The doses of one episode and where they may be, (T-1, d) each; what is not chosen has no
    room. Of each component (d,) how far apart consecutive doses may be, the largest sum, what a
    unit earns, and how far apart doses are the same to data, infinite for what is not chosen."""

    observed: FloatArray
    low: FloatArray
    high: FloatArray
    step: FloatArray
    total: FloatArray
    worth: FloatArray
    same: FloatArray

    @property
    def may_change(self) -> BoolArray:
        """(T-1,) at which steps there is anything to choose."""
        other = (self.low != self.observed) | (self.high != self.observed)
        return np.asarray((self.low <= self.high).all(axis=1) & other.any(axis=1))

    @property
    def is_coupled(self) -> bool:
        """Whether the dose of one step limits those of others."""
        return bool(np.isfinite(self.step).any() or np.isfinite(self.total).any())

    def rounded(self, doses: FloatArray) -> FloatArray:
        """Courses (n, T-1, d), none of whose changed doses is outside."""
        changed = (doses != self.observed).any(axis=2, keepdims=True)
        return np.where(changed, np.clip(doses, self.low, self.high), doses)

    def narrowed(
        self, low: FloatArray, high: FloatArray, changed: BoolArray, kept: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Boxes (T-1, d) of the steps that change without what limits rule out, as others are
        kept, or between low and high; empty where nothing is left."""
        known, slack = (changed | kept)[:, None], self._slack
        low, high = low.copy(), high.copy()
        least = np.where(changed[:, None], low, np.where(kept[:, None], self.observed, -np.inf))
        most = np.where(changed[:, None], high, np.where(kept[:, None], self.observed, np.inf))
        step = self.step + slack
        for one, other in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            low[one] = np.where(known[other], np.maximum(low[one], least[other] - step), low[one])
            high[one] = np.where(known[other], np.minimum(high[one], most[other] + step), high[one])
        if known.all():
            total = np.maximum(self.total, self.observed.sum(axis=0)) + slack
            high = np.minimum(high, total - least.sum(axis=0) + least)
        return low, high

    def rows(
        self, middle: FloatArray, owner: IntArray, place: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """A (m, n) and b (m,) with A x <= b for doses x (n,) of steps and components, beside those
        in the middle (T-1, d)."""
        found, limits = [], []
        total = np.maximum(self.total, self.observed.sum(axis=0)) - middle.sum(axis=0)
        for c in np.unique(place):
            if np.isfinite(self.total[c]):
                found.append((place == c) * 1.0)
                limits.append(total[c])
            steps = np.sort(owner[place == c])
            for t in steps[:-1][np.diff(steps) == 1] if np.isfinite(self.step[c]) else ():
                row = ((owner == t + 1) * 1.0 - (owner == t)) * (place == c)
                apart = middle[t + 1, c] - middle[t, c]
                found += [row, -row]
                limits += [self.step[c] - apart, self.step[c] + apart]
        shape = (len(limits), len(owner))
        return np.reshape(found, shape), np.reshape(limits, len(limits)) + 2 * self._slack.max()

    @property
    def _slack(self) -> FloatArray:
        return np.asarray(ROUNDING * (1.0 + np.abs(self.high).max(axis=0, initial=0.0)))

    def admits(self, doses: FloatArray) -> BoolArray:
        """(n,) whether courses (n, T-1, d) keep to step and total, but for what was observed."""
        changed = (doses != self.observed).any(axis=2)
        slack = self._slack
        moved = np.abs(np.diff(doses, axis=1)) > self.step + slack
        either = changed[:, 1:] | changed[:, :-1]
        over = doses.sum(axis=1) > np.maximum(self.total, self.observed.sum(axis=0)) + slack
        apart = (moved & either[:, :, None]).any(axis=(1, 2))
        return np.asarray(~(apart | over.any(axis=1)))


@dataclass(frozen=True, eq=False)
class Doses:
    """What may be given instead: any dose from `low` to `high`.

    low, high  a number for each component of the action vectors, (d,), or by step, (T-1, d); None
               or nan for a component that is not chosen but stays as it was
    step       the most by which a dose may differ from the one before and the one after it (that of
               the last row, too), where one of the two is changed: a number, or one for each
               component
    total      the most that the doses of an episode may add up to, by component; where more was
               given, that much
    worth      what a unit of each component earns or, below 0, costs (0)
    levels     of a grid over each component, on which the search starts (5)
    same       how far apart doses are the same to data that they have to stay inside: a number, or
               one for each component; half a level if not given
    """

    low: Amounts
    high: Amounts
    step: Amounts | None = None
    total: Amounts | None = None
    worth: Amounts | None = None
    levels: int = 5
    same: Amounts | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high", "step", "total", "worth", "same"):
            given = getattr(self, name)
            if given is not None or name in ("low", "high"):
                object.__setattr__(self, name, _numbers(given, name))
        whole_number(self.levels, "doses: levels", minimum=2, maximum=1_000)

    def room(self, episode: Episode, constraints: Constraints) -> Room:
        """Where the doses of an episode may be."""
        steps = len(episode) - 1
        if episode.actions.ndim != 2:
            raise InputError(
                f"{episode.name}: its actions are indices of a list, but Doses has no list: give "
                "the doses themselves, actions of shape (T-1, d)"
            )
        observed = np.asarray(episode.actions[:steps], dtype=np.float64)
        low, high = (self._by_step(name, observed) for name in ("low", "high"))
        kept = np.isnan(low)
        if (np.isnan(high) != kept).any():
            raise InputError("doses: a component without low has no high either, and vice versa")
        bad = np.argwhere(~kept & ~(low <= high))
        if bad.size:
            t, i = bad[0]
            raise InputError(
                f"doses: low {low[t, i]:g} is above high {high[t, i]:g} in component {i}"
            )
        limit = constraints.dose_limits(observed.shape)
        low, high = (np.where(kept, observed, end) for end in (low, high))
        low, high = np.maximum(low, observed - limit), np.minimum(high, observed + limit)
        d = observed.shape[1]
        step, total = (self._each(name, d) for name in ("step", "total"))
        for last in episode.actions[steps:]:  # stays as it was, so what comes before it is near
            low[-1:] = np.where(kept[-1:], low[-1:], np.maximum(low[-1:], last - step))
            high[-1:] = np.where(kept[-1:], high[-1:], np.minimum(high[-1:], last + step))
        half = (high - low).max(axis=0, initial=0.0) / (2 * (self.levels - 1))
        same = np.where(
            half > 0.0, self._each("same", d) if self.same is not None else half, np.inf
        )
        return Room(observed, low, high, step, total, self._each("worth", d, 0.0), same)

    def _by_step(self, name: str, observed: FloatArray) -> FloatArray:
        given: Any = getattr(self, name)
        if given.ndim > 2 or given.shape not in ((), observed.shape[1:], observed.shape):
            raise InputError(
                f"doses: {name} has shape {given.shape}, but actions have {observed.shape[1]} "
                f"components in {len(observed)} steps: give one number each"
            )
        return np.array(np.broadcast_to(given, observed.shape))

    def _each(self, name: str, d: int, usual: float = np.inf) -> FloatArray:
        given: Any = getattr(self, name)
        if given is None:
            return np.full(d, usual)
        if given.shape not in ((), (d,)) or (name in FROM_0 and (given < 0.0).any()):
            least = " from 0 up" if name in FROM_0 else ""
            raise InputError(f"doses: {name} must be one number{least}, or {d} of them")
        return np.where(np.isnan(given), usual, np.broadcast_to(given, (d,)))


def _numbers(given: Any, name: str) -> FloatArray:
    try:
        array = np.asarray(given, dtype=np.float64)  # None becomes nan
    except (TypeError, ValueError):
        raise InputError(f"doses: {name} is {given!r}: expected numbers") from None
    if (np.abs(array) > LARGEST).any() and name in ("low", "high", "worth"):
        raise InputError(f"doses: {name} must lie within {LARGEST:g} of 0: a search needs an end")
    return array
