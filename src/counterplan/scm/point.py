"""Causal models of continuous states whose noise can be read off what happened.

    s_{t+1} = g(s_t, a_t, u_t)        with g invertible in u:      u_t = g^{-1}(s_t, a_t, s_{t+1})

So the posterior of the noise is a point (Eq. 5 of the 2023 paper) and the counterfactual is
deterministic: F_t(s, a) = g(s, a, u_t) (Eq. 6). A model says what it can about how fast F_t
changes with s; search bounds are built from that:

    lipschitz   ||F_t(s, a) - F_t(s', a)|| <= K_t ||s - s'||  for all actions
    slopes      F_t(s, a) - F_t(c, a) = M (s - c) with every entry of M in J +- E, near a centre c

Shipped are models from any vectorised functions, all element-wise in u:

    location-scale   s' = h(s, a) + phi(s, a) * u,   phi > 0       K_t = L_h + L_phi max_i |u_i|
    additive noise   s' = h(s, a) + u                              K_t = L_h
    post-nonlinear   s' = psi(h(s, a) + u),   psi invertible       K_t = L_psi L_h

The functions take states (n, D) and action vectors (n, d) and return the features that move,
(n, D - fixed); constants are with respect to the Euclidean norm.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.reward import (
    LinearReward,
    LipschitzReward,
    LogisticReward,
    Reward,
    SumReward,
)
from counterplan.core.shown import Shown
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.errors import InputError

Mechanism: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
# Slopes of h over a region for actions (n, d): (n, D - fixed, D) J and E, None where unknown.
MechanismSlopes: TypeAlias = Callable[["Region", FloatArray], tuple[FloatArray, FloatArray]]


def number_array(values: Any, name: str) -> FloatArray:
    """`values` in double precision, or an error that names them: texts, booleans, None and rows of
    different lengths are no numbers."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name}: its rows differ in length") from None
    if array.dtype.kind not in "iuf":
        shown = repr(values)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        raise InputError(f"{name} must be numbers, got {' '.join(shown.split())}")
    return np.asarray(array, dtype=np.float64)


MOST_CATEGORIES = 10_000
# What stands in the column of a category, beside zeros in those of the others: two categories are
# as far apart as the ends of a column of numbers.
ONE = math.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class Scaling:
    """How a model's own units follow from physical ones.

    A column of numbers becomes (value - offset) / range. A column of n categories 0..n-1, which
    have no order, becomes n columns, all 0 but the category's own: none lies between others.

    state_offset, state_range    (D,)
    action_offset, action_range  (d,)
    state_categories             (D,) n, or 0 for numbers; what moves is always numbers
    action_categories            (d,) likewise
    """

    state_offset: FloatArray
    state_range: FloatArray
    action_offset: FloatArray
    action_range: FloatArray
    state_categories: IntArray | None = None
    action_categories: IntArray | None = None

    def __post_init__(self) -> None:
        for name in ("state_offset", "state_range", "action_offset", "action_range"):
            array = number_array(getattr(self, name), f"scaling: {name}")
            if array.ndim != 1:
                wanted = "a list of numbers, one for each column"
                raise InputError(f"scaling: {name} must be {wanted}; got shape {array.shape}")
            object.__setattr__(self, name, array)
            bad = np.flatnonzero(~((array > 0.0) & (array < np.inf)))
            if name.endswith("range") and bad.size:
                what = f"the range of {name.removesuffix('_range')} column {bad[0]}"
                raise InputError(
                    f"scaling: {what} is {array[bad[0]]}: a column needs at least two different "
                    "finite values"
                )
        for name in ("state", "action"):
            given = getattr(self, f"{name}_categories")
            count = len(getattr(self, f"{name}_range"))
            array = np.zeros(count) if given is None else number_array(given, f"{name}_categories")
            if array.shape != (count,) or not np.isin(array, [0, *range(2, MOST_CATEGORIES)]).all():
                raise InputError(
                    f"scaling: {name}_categories must be {count} whole numbers, 0 for numbers or "
                    "from 2 up"
                )
            object.__setattr__(self, f"{name}_categories", array.astype(np.int64))

    def check(self, n_features: int, n_components: int) -> None:
        """Raise unless it is made for so many features and action components."""
        for name, count in (("state", n_features), ("action", n_components)):
            for part in ("offset", "range"):
                array = getattr(self, f"{name}_{part}")
                if array.shape != (count,) or not np.isfinite(array).all():
                    raise InputError(
                        f"scaling: {name}_{part} must be {count} finite numbers, one for each "
                        f"{name} column; got shape {array.shape}"
                    )

    @property
    def widths(self) -> tuple[int, int]:
        """How many columns states and action vectors have in physical units."""
        return len(self.state_range), len(self.action_range)

    def encoded_widths(self, fixed: int) -> tuple[int, int, int]:
        """How many columns states, action vectors and the first `fixed` features have in the
        model's units."""
        states, actions = (np.maximum(one, 1) for one in self._categories)
        return int(states.sum()), int(actions.sum()), fixed + int((states[:fixed] - 1).sum())

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers."""
        return not any(one.any() for one in self._categories)

    def encode_states(self, states: FloatArray) -> FloatArray:
        """From physical units to the model's."""
        scaled = (states - self.state_offset) / self.state_range
        return _encoded(states, scaled, self._categories[0])

    def decode_states(self, states: FloatArray) -> FloatArray:
        """From the model's units to physical ones."""
        categories = self._categories[0]
        if not categories.any():
            return states * self.state_range + self.state_offset
        parts = np.split(states, np.cumsum(np.maximum(categories, 1))[:-1], axis=-1)
        columns = [
            part.argmax(axis=-1) if count else part[..., 0] * spread + offset
            for part, count, spread, offset in zip(
                parts, categories, self.state_range, self.state_offset, strict=True
            )
        ]
        return np.stack(columns, axis=-1)

    def encode_actions(self, actions: FloatArray) -> FloatArray:
        """Action vectors from physical units to the model's."""
        scaled = (actions - self.action_offset) / self.action_range
        return _encoded(actions, scaled, self._categories[1])

    def of_differences(self, doses: FloatArray) -> FloatArray:
        """Differences of action vectors in the model's units, a category's in all its columns."""
        columns = np.repeat(np.arange(doses.shape[-1]), np.maximum(self._categories[1], 1))
        return np.asarray((doses / self.action_range)[..., columns])

    def encode_reward(self, reward: Reward, fixed: int) -> Reward:
        """The same reward of states in the model's units, which share their first `fixed` features:
        all that are categories."""
        if isinstance(reward, SumReward):
            return SumReward(tuple(self.encode_reward(part, fixed) for part in reward.parts))
        rescaled = reward.rescaled(self.state_offset, self.state_range, fixed)
        categories = self._categories[0]
        if not categories.any():
            return rescaled
        if isinstance(rescaled, LinearReward):
            from scipy.linalg import block_diag

            # Of a category the column of each says what it is worth.
            columns = [
                (np.arange(count) - offset)[None] / (spread * ONE) if count else np.ones((1, 1))
                for count, offset, spread in zip(
                    categories, self.state_offset, self.state_range, strict=True
                )
            ]
            turn, known = block_diag(np.ones((1, 1)), *columns), rescaled.covariance
            weights = rescaled.weights @ turn[1:, 1:]
            known = None if known is None else turn.T @ known @ turn
            return LinearReward(weights, rescaled.constant, known)
        if isinstance(reward, LogisticReward) and isinstance(rescaled, LogisticReward):
            linear = self.encode_reward(reward.linear, fixed)
            assert isinstance(linear, LinearReward)
            return replace(rescaled, linear=linear)
        slope = rescaled.gradient(len(categories))[fixed:]
        steepest = float(np.linalg.norm(slope)) + rescaled.remainder
        return LipschitzReward(lambda states: reward(self.decode_states(states)), steepest)

    @property
    def _categories(self) -> tuple[IntArray, IntArray]:
        assert self.state_categories is not None
        assert self.action_categories is not None
        return self.state_categories, self.action_categories


def _encoded(values: FloatArray, scaled: FloatArray, categories: IntArray) -> FloatArray:
    """Columns of numbers as they are scaled, each of categories as a column for every category."""
    if not categories.any():
        return scaled
    parts = []
    for column, count in enumerate(categories):
        if count == 0:
            parts.append(scaled[..., column : column + 1])
            continue
        is_it = values[..., column : column + 1] == np.arange(count)
        if not is_it.any(axis=-1).all():
            wrong = values[..., column][~is_it.any(axis=-1)][0]
            raise InputError(f"column {column} holds {wrong:g}: its categories are 0..{count - 1}")
        parts.append(np.where(is_it, ONE, 0.0))
    return np.concatenate(parts, axis=-1)


@dataclass(frozen=True, eq=False)
class Region:
    """The states within `radius` of `centre` that also differ from it by at most `box`.

    centre  (D,) a state
    radius  Euclidean distance
    box     (D,) largest difference in each feature
    """

    centre: FloatArray
    radius: float
    box: FloatArray


class Regions(NamedTuple):
    """L regions around one centre, and n pairs of a region and an action.

    radius         (L,)
    box            (L, D)
    level, action  (n,) which of them
    """

    centre: FloatArray
    radius: FloatArray
    box: FloatArray
    level: IntArray
    action: IntArray

    @classmethod
    def only(cls, region: Region, n: int) -> Regions:
        """One region, with n actions."""
        every = np.arange(n)
        radius = np.array([region.radius])
        return cls(region.centre, radius, region.box[None], np.zeros_like(every), every)

    def moved(self, slopes: FloatArray) -> FloatArray:
        """(n, O) the most that slopes (n, O, D) of certain sizes come to."""
        return np.asarray((slopes @ self.box[self.level, :, None])[:, :, 0])


class Slopes(Protocol):
    """How F_t(., a) changes over a region, for n actions.

    jacobian   (n, D, D) J
    deviation  (n, D, D) E >= 0: the true slopes are entrywise within J +- E
    """

    @property
    def jacobian(self) -> FloatArray: ...

    @property
    def deviation(self) -> FloatArray: ...

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n, D) v with |x . (F(s, a) - F(c, a) - J (s - c))| <= v . |s - c| for the directions x,
        one for each action, (n, D)."""
        ...


@dataclass(frozen=True, eq=False)
class IntervalSlopes:
    """Slopes known entry by entry."""

    jacobian: FloatArray
    deviation: FloatArray

    def remainder(self, directions: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ni,nij->nj", np.abs(directions), self.deviation))


class Replay(Protocol):
    """The counterfactual dynamics of one episode: F_t(s, a) for the actions 0..N-1 of each step."""

    def children(self, t: int, states: FloatArray) -> FloatArray:
        """(n, N, D) the next states after every action, from states (n, D) at step t."""
        ...

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, D) the next states after one given action each, (n,)."""
        ...


class PointSCM(Shown, ABC):
    """A causal model with point abduction: subclass it with `infer` and `step`."""

    def _facts(self) -> dict[str, object]:
        return {}

    #: the first `fixed` features never change (demographics)
    fixed: int = 0

    @abstractmethod
    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        """The noise (n, U) of n transitions: states (n, D), action vectors (n, d), after (n, D)."""

    @abstractmethod
    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        """The next states (n, D)."""

    def internal(self) -> tuple[PointSCM, Scaling | None]:
        """The model in its own units, and the scaling that leads there if these are not its own."""
        return self, None

    def admitting(self, states: FloatArray) -> PointSCM:
        """The model for an episode with these states (T, D), whatever limits it has."""
        return self

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        """(n,) constants K of the step under each noise vector (n, U), or None if unknown."""
        return None

    def action_lipschitz(self, noise: FloatArray) -> FloatArray | None:
        """(n,) the same with respect to the action vector."""
        return None

    def slopes(self, region: Region, actions: FloatArray, noise: FloatArray) -> Slopes | None:
        """Slopes over a region for action vectors (n, d) under one noise vector, or None."""
        return None

    def replay(self, vectors: FloatArray, noise: FloatArray, start: FloatArray) -> Replay:
        """The dynamics of an episode with action vectors (T-1, N, d), noise (T-1, U) and the first
        state `start` (D,)."""
        return BatchReplay(self, vectors, noise)

    def abduct(self, episode: Episode, actions: FloatArray | None = None) -> FloatArray:
        """(T-1, U) the noise of an episode; `actions` are the vectors that its action indices
        stand for, (N, d) or (T-1, N, d)."""
        taken = taken_vectors(episode, actions)
        return self.infer(episode.states[:-1], taken, episode.states[1:])


class ElementwiseSCM(PointSCM):
    """Each feature has its own noise: s'_i = g_i(s, a, u_i) with g_i monotone in u_i. Such models
    are identifiable: those that fit the same transitions agree on every counterfactual."""


@dataclass(frozen=True, eq=False)
class BatchReplay:
    """Replay through the model's own `step`, many states at a time."""

    scm: PointSCM
    vectors: FloatArray
    noise: FloatArray

    def children(self, t: int, states: FloatArray) -> FloatArray:
        n, N = len(states), self.vectors.shape[1]
        repeated = np.repeat(states, N, axis=0)
        vectors = np.tile(self.vectors[t], (n, 1))
        return self._step(t, repeated, vectors).reshape(n, N, states.shape[1])

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        return self._step(t, states, self.vectors[t][actions])

    def _step(self, t: int, states: FloatArray, vectors: FloatArray) -> FloatArray:
        noise = np.broadcast_to(self.noise[t], (len(states), self.noise.shape[1]))
        after = np.asarray(self.scm.step(states, vectors, noise), dtype=np.float64)
        if after.shape != states.shape:
            raise InputError(f"step returned shape {after.shape} for states of {states.shape}")
        if not np.isfinite(after).all():
            row = int(np.flatnonzero(~np.isfinite(after).all(axis=1))[0])
            raise InputError(
                f"step at t={t} is not finite: {after[row].tolist()} after state "
                f"{states[row].tolist()} and action {vectors[row].tolist()}"
            )
        return after


def taken_vectors(episode: Episode, actions: FloatArray | None) -> FloatArray:
    """(T-1, d) the vectors of the actions that were taken."""
    transitions = len(episode) - 1
    if actions is None:
        if episode.actions.ndim != 2:
            raise InputError(
                f"{episode.name}: its actions are indices: pass the vectors they stand for"
            )
        return episode.actions[:transitions]
    vectors = action_vectors(actions, transitions)
    return vectors[np.arange(transitions), action_indices(episode, vectors)]


def nearest_vectors(
    given: FloatArray, vectors: FloatArray
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(n,) which of the vectors (n, N, d) is nearest to each of `given` (n, d), and whether it is
    the same but for rounding."""
    distance = (np.abs(vectors - given[:, None, :]) / _tolerance(vectors)).max(axis=2)
    nearest = distance.argmin(axis=1)
    return nearest, distance[np.arange(len(given)), nearest] <= 1.0


def _tolerance(vectors: FloatArray) -> FloatArray:
    """(d,) how far a dose may be from one of the set and still be that one: little beside what
    tells the set's doses apart, but more than rounding."""
    if len(vectors) == 0:
        return np.ones(vectors.shape[2])
    spread, largest = np.ptp(vectors, axis=(0, 1)), np.abs(vectors).max(axis=(0, 1))
    # Where all doses are 0 only 0 will do, but it is divided by.
    return np.asarray(np.maximum(1e-6 * spread + 1e-12 * largest, 1e-200))


def action_vectors(actions: FloatArray | Sequence[Sequence[float]], transitions: int) -> FloatArray:
    """(T-1, N, d) from (N, d) or (T-1, N, d), checked."""
    try:
        array = np.asarray(actions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("actions must be numbers of shape (N, d) or (T-1, N, d)") from None
    if array.ndim == 2:
        array = np.broadcast_to(array, (transitions, *array.shape))
    if array.ndim != 3 or array.shape[0] != transitions or 0 in array.shape[1:]:
        raise InputError(
            f"actions have shape {np.shape(actions)}, expected (N, d) or ({transitions}, N, d)"
        )
    if not np.isfinite(array).all():
        raise InputError("actions must be finite numbers")
    return array


def action_indices(episode: Episode, vectors: FloatArray) -> NDArray[np.int64]:
    """(T-1,) which of the vectors (T-1, N, d) was taken at each step."""
    transitions, N, d = vectors.shape
    given = episode.actions[:transitions]
    if given.ndim == 1:
        for t in np.flatnonzero(given >= N):
            problem = f"is not in the set: it has the actions 0..{N - 1}"
            raise InputError(f"{episode.name}: action {given[t]} at t={t} {problem}")
        return given
    if given.shape[1] != d:
        raise InputError(
            f"{episode.name}: actions have {given.shape[1]} components, the set's have {d}"
        )
    indices, is_listed = nearest_vectors(given, vectors)
    for t in np.flatnonzero(~is_listed):
        raise InputError(
            f"{episode.name}: the action {given[t].tolist()} at t={t} is not in the set; the "
            f"nearest is {vectors[t, indices[t]].tolist()}"
        )
    return indices


class LocationScaleSCM(ElementwiseSCM):
    """s' = location(s, a) + scale(s, a) * u."""

    location: Mechanism
    scale: Mechanism
    constants: tuple[float, float] | None

    def __init__(
        self,
        location: Mechanism,
        scale: Mechanism,
        lipschitz: tuple[float, float] | None = None,
        fixed: int = 0,
        action_lipschitz: tuple[float, float] | None = None,
    ) -> None:
        """`lipschitz`: constants of location and scale in the state, `action_lipschitz` in the
        action vector; `fixed`: leading features that stay."""
        self.location = location
        self.scale = scale
        self.constants = two_constants(lipschitz, ("location", "scale"))
        self.action_constants = two_constants(action_lipschitz, ("location", "scale"))
        self.fixed = whole_number(fixed, "fixed")

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        moving = after[:, self.fixed :]
        return (moving - self._location(states, actions)) / self._scale(states, actions)

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        moved = self._location(states, actions) + self._scale(states, actions) * noise
        return np.concatenate([states[:, : self.fixed], moved], axis=1)

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        """K = L_h + L_phi max_i |u_i|."""
        if self.constants is None:
            return None
        return np.asarray(self.constants[0] + self.constants[1] * np.abs(noise).max(axis=1))

    def action_lipschitz(self, noise: FloatArray) -> FloatArray | None:
        """As in the state."""
        known = getattr(self, "action_constants", None)
        return None if known is None else known[0] + known[1] * np.abs(noise).max(axis=1)

    def _location(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return self._moving(self.location(states, actions), states, "location")

    def _scale(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        scale = self._moving(self._spread(states, actions), states, "scale")
        if not (scale > 0.0).all():
            row, column = np.argwhere(~(scale > 0.0))[0]
            raise InputError(
                f"the scale of feature {column + self.fixed} is {scale[row, column]} for state "
                f"{states[row].tolist()}: a scale must be positive, e.g. through softplus"
            )
        return scale

    def _spread(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return self.scale(states, actions)

    def _moving(self, values: FloatArray, states: FloatArray, name: str) -> FloatArray:
        """What a mechanism returned, checked to be one finite number for each moving feature."""
        array = np.asarray(values, dtype=np.float64)
        expected = (len(states), states.shape[1] - self.fixed)
        if array.shape != expected:
            raise InputError(f"{name} returned shape {array.shape}, expected {expected}")
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0][0])
            raise InputError(f"{name} is not finite for state {states[row].tolist()}")
        return array


class AdditiveNoiseSCM(LocationScaleSCM):
    """s' = location(s, a) + u."""

    def __init__(
        self,
        location: Mechanism,
        lipschitz: float | None = None,
        fixed: int = 0,
        slopes: MechanismSlopes | None = None,
        action_lipschitz: float | None = None,
    ) -> None:
        """`slopes`: entrywise slopes of the location over a region, for the first-order bound."""
        constants, by_action = (
            None if one is None else (_constant(one, "location"), 0.0)
            for one in (lipschitz, action_lipschitz)
        )
        super().__init__(location, self._one, constants, fixed, by_action)
        self._slopes = slopes

    def _one(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return np.ones((len(states), states.shape[1] - self.fixed))

    def slopes(self, region: Region, actions: FloatArray, noise: FloatArray) -> Slopes | None:
        if self._slopes is None:
            return None
        jacobian, deviation = (np.asarray(part) for part in self._slopes(region, actions))
        expected = (len(jacobian), len(region.centre) - self.fixed, len(region.centre))
        for part, name in ((jacobian, "slopes"), (deviation, "deviations of the slopes")):
            if part.shape != expected or not np.isfinite(part).all():
                raise InputError(f"{name} must be finite and of shape {expected}, got {part.shape}")
        if not (deviation >= 0.0).all():
            raise InputError("deviations of the slopes must not be negative")
        return IntervalSlopes(
            with_fixed(jacobian, self.fixed, 1.0), with_fixed(deviation, self.fixed, 0.0)
        )


class PostNonlinearSCM(AdditiveNoiseSCM):
    """s' = link(location(s, a) + u) with an invertible link, element by element."""

    def __init__(
        self,
        location: Mechanism,
        link: Callable[[FloatArray], FloatArray],
        inverse: Callable[[FloatArray], FloatArray],
        lipschitz: tuple[float, float] | None = None,
        fixed: int = 0,
    ) -> None:
        """`lipschitz`: constants of location and link."""
        super().__init__(location, fixed=fixed)
        self.link = link
        self.inverse = inverse
        self.constants = two_constants(lipschitz, ("location", "link"))

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        before_link = np.asarray(self.inverse(after[:, self.fixed :]))
        if not np.isfinite(before_link).all():
            row, column = np.argwhere(~np.isfinite(before_link))[0]
            raise InputError(
                f"feature {column + self.fixed} is {after[row, column + self.fixed]}, which the "
                "link never takes: its inverse is not finite there"
            )
        return before_link - self._location(states, actions)

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        moved = self.link(self._location(states, actions) + noise)
        return np.concatenate([states[:, : self.fixed], moved], axis=1)

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        return None if self.constants is None else np.full(len(noise), math.prod(self.constants))


def with_fixed(moving: FloatArray, fixed: int, slope: float) -> FloatArray:
    """(n, D, D) slopes of all features from those of the moving ones, (n, D - fixed, D): a fixed
    one has this slope with respect to itself."""
    n, _, D = moving.shape
    top = np.broadcast_to(slope * np.eye(fixed, D), (n, fixed, D))
    return np.concatenate([top, moving], axis=1)


def two_constants(
    values: tuple[float, float] | None, parts: tuple[str, str], may_be_0: bool = True
) -> tuple[float, float] | None:
    """The Lipschitz constants of two parts of a model, checked."""
    if values is None:
        return None
    try:
        first, second = values
    except (TypeError, ValueError):
        wanted = f"two constants, of {parts[0]} and {parts[1]}, or None"
        raise InputError(f"lipschitz must be {wanted}; got {values!r}") from None
    return _constant(first, parts[0], may_be_0), _constant(second, parts[1], may_be_0)


def _constant(value: object, part: str, may_be_0: bool = True) -> float:
    if isinstance(value, Real) and 0.0 <= float(value) < math.inf and (value or may_be_0):
        return float(value)
    wanted = "a number, finite and not negative" if may_be_0 else "a positive number"
    raise InputError(f"the Lipschitz constant of the {part} must be {wanted}; got {value!r}")
