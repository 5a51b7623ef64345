"""Causal models of continuous states whose noise can be read off what happened.

    s_{t+1} = g(s_t, a_t, u_t)        with g invertible in u:      u_t = g^{-1}(s_t, a_t, s_{t+1})

So the posterior of the noise is a point (Eq. 5 of the 2023 paper) and the counterfactual is
deterministic: F_t(s, a) = g(s, a, u_t) (Eq. 6). A model says what it can about how fast F_t
changes with s; search bounds are built from that:

    lipschitz   ||F_t(s, a) - F_t(s', a)|| <= K_t ||s - s'||  for all actions
    slopes      F_t(s, a) - F_t(c, a) = M (s - c) with every entry of M in J +- E, near a centre c
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.scaling import Scaling


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


class PointSCM(ABC):
    """A causal model with point abduction: subclass it with `infer` and `step`."""

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

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        """(n,) constants K of the step under each noise vector (n, U), or None if unknown."""
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
    transitions, N = vectors.shape[:2]
    given = episode.actions[:transitions]
    if given.ndim == 1:
        unknown = np.flatnonzero(given >= N)
        if unknown.size:
            t = int(unknown[0])
            raise InputError(
                f"{episode.name}: action {given[t]} at t={t} is not in the set: it has the "
                f"actions 0..{N - 1}"
            )
        return given
    if given.shape[1] != vectors.shape[2]:
        raise InputError(
            f"{episode.name}: actions have {given.shape[1]} components, the set's have "
            f"{vectors.shape[2]}"
        )
    distance = (np.abs(vectors - given[:, None, :]) / _tolerance(vectors)).max(axis=2)
    indices: NDArray[np.int64] = distance.argmin(axis=1)
    missing = np.flatnonzero(distance[np.arange(transitions), indices] > 1.0)
    if missing.size:
        t = int(missing[0])
        raise InputError(
            f"{episode.name}: the action {given[t].tolist()} at t={t} is not in the set; the "
            f"nearest is {vectors[t, indices[t]].tolist()}"
        )
    return indices
