"""What a continuous state is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError


class Reward(Protocol):
    """R(s), summed over all states of an episode.

    gradient   (D,) c and
    remainder  r >= 0 with R(s) - R(s') <= c . (s - s') + r ||s - s'|| for all s, s'
    """

    def __call__(self, states: FloatArray) -> FloatArray:
        """(n,) rewards of states (n, D)."""
        ...

    def gradient(self, n_features: int) -> FloatArray: ...

    @property
    def remainder(self) -> float: ...

    def rescaled(self, offset: FloatArray, spread: FloatArray) -> Reward:
        """The same reward of states given as (s - offset) / spread."""
        ...


@dataclass(frozen=True, eq=False, init=False)
class LinearReward:
    """R(s) = weights . s + constant."""

    weights: FloatArray
    constant: float

    def __init__(self, weights: ArrayLike | Sequence[float], constant: float = 0.0) -> None:
        array = np.asarray(weights, dtype=np.float64)
        if array.ndim != 1 or not np.isfinite(array).all():
            raise InputError("a linear reward needs one finite weight for each feature")
        object.__setattr__(self, "weights", array)
        object.__setattr__(self, "constant", float(constant))

    def __call__(self, states: FloatArray) -> FloatArray:
        return np.asarray(states @ self.weights + self.constant)

    def gradient(self, n_features: int) -> FloatArray:
        """The weights."""
        if len(self.weights) != n_features:
            raise InputError(
                f"the reward has {len(self.weights)} weights, but states have {n_features} features"
            )
        return self.weights

    @property
    def remainder(self) -> float:
        """Nothing: the gradient says it all."""
        return 0.0

    def rescaled(self, offset: FloatArray, spread: FloatArray) -> LinearReward:
        """The same reward of scaled states."""
        self.gradient(len(offset))
        return LinearReward(self.weights * spread, self.constant + float(self.weights @ offset))


@dataclass(frozen=True, eq=False)
class LipschitzReward:
    """Any vectorised function (n, D) -> (n,) with a Lipschitz constant."""

    function: Callable[[FloatArray], FloatArray]
    lipschitz: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.lipschitz < math.inf:
            raise InputError(f"a Lipschitz constant is finite and not negative: {self.lipschitz}")

    def __call__(self, states: FloatArray) -> FloatArray:
        values = np.asarray(self.function(states), dtype=np.float64)
        if values.shape != (len(states),):
            raise InputError(f"the reward has shape {values.shape}, expected ({len(states)},)")
        if not np.isfinite(values).all():
            state = states[int(np.flatnonzero(~np.isfinite(values))[0])]
            raise InputError(f"the reward is not finite for state {state.tolist()}")
        return values

    def gradient(self, n_features: int) -> FloatArray:
        """Unknown: zero, and all is left to the remainder."""
        return np.zeros(n_features)

    @property
    def remainder(self) -> float:
        """The Lipschitz constant."""
        return self.lipschitz

    def rescaled(self, offset: FloatArray, spread: FloatArray) -> LipschitzReward:
        """The same reward of scaled states."""
        function = self.function
        return LipschitzReward(
            lambda states: function(states * spread + offset),
            self.lipschitz * float(np.max(spread)),
        )
