"""What continuous states are worth, and what an episode of them earns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import LARGEST, FloatArray
from counterplan.errors import InputError


@runtime_checkable
class Reward(Protocol):
    """R(s), summed over all states of an episode; see `EpisodeReward` for more.

    gradient   (D,) c and
    remainder  r >= 0 with R(s) - R(s') <= c . (s - s') + r ||s - s'|| for all s, s'
    """

    def __call__(self, states: FloatArray) -> FloatArray:
        """(n,) rewards of states (n, D)."""
        ...

    def gradient(self, n_features: int) -> FloatArray: ...

    @property
    def remainder(self) -> float: ...

    def rescaled(self, offset: FloatArray, spread: FloatArray, fixed: int = 0) -> Reward:
        """The same reward of states given as (s - offset) / spread, the first `fixed` features of
        which are the same in all states to be compared."""
        ...


@dataclass(frozen=True, eq=False, init=False)
class LinearReward:
    """R(s) = weights . s + constant.

    covariance  (1 + D, 1 + D) of the constant and the weights, where they were learned: intervals
                of claims take it in
    """

    weights: FloatArray
    constant: float
    covariance: FloatArray | None

    def __init__(
        self,
        weights: ArrayLike | Sequence[float],
        constant: float = 0.0,
        covariance: FloatArray | None = None,
    ) -> None:
        number = _number(constant, "the constant of a reward", -LARGEST)
        object.__setattr__(self, "weights", _one_each(weights, "weight", -LARGEST))
        object.__setattr__(self, "constant", number)
        object.__setattr__(self, "covariance", covariance)

    def __call__(self, states: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(states @ self.weights + self.constant)
        return _finite(values, states, ": state it in larger units")

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

    def rescaled(self, offset: FloatArray, spread: FloatArray, fixed: int = 0) -> LinearReward:
        """The same reward of scaled states."""
        self.gradient(len(offset))
        known = self.covariance
        if known is not None:
            turn = np.diag(np.append(1.0, spread))
            turn[0, 1:] = offset
            known = turn @ known @ turn.T
        constant = self.constant + float(self.weights @ offset)
        return LinearReward(self.weights * spread, constant, known)

    def variance(self, states: FloatArray, others: FloatArray) -> float:
        """Of R(s) - R(s'), states (1, D), since the weights are not known better."""
        return self.variance_along(np.append(0.0, states - others))

    def variance_along(self, direction: FloatArray) -> float:
        """Of a sum of constant and weights (1 + D,)."""
        if self.covariance is None:
            return 0.0
        return max(float(direction @ self.covariance @ direction), 0.0)


@dataclass(frozen=True, eq=False)
class LipschitzReward:
    """Any vectorised function (n, D) -> (n,) with a Lipschitz constant.

    lipschitz  with respect to the Euclidean norm of all features; or one for each feature, (D,), 0
               where the reward does not depend on it, which is the better choice where features
               have different units
    """

    function: Callable[[FloatArray], FloatArray]
    lipschitz: float | Sequence[float] | FloatArray

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(
                "a Lipschitz reward needs a function from states (n, D) to rewards (n,), got "
                f"{type(self.function).__name__}"
            )
        given = self.lipschitz
        if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
            object.__setattr__(self, "lipschitz", _one_each(given, "Lipschitz constant", 0.0))
        else:
            _number(given, "a Lipschitz constant", 0.0)

    def __call__(self, states: FloatArray) -> FloatArray:
        values = np.asarray(self.function(states), dtype=np.float64)
        if values.shape != (len(states),):
            raise InputError(f"the reward has shape {values.shape}, expected ({len(states)},)")
        return _finite(values, states)

    def gradient(self, n_features: int) -> FloatArray:
        """Unknown: zero, and all is left to the remainder."""
        if np.shape(self.lipschitz) not in ((), (n_features,)):
            raise InputError(
                f"the reward has {np.size(self.lipschitz)} Lipschitz constants, but states have "
                f"{n_features} features"
            )
        return np.zeros(n_features)

    @property
    def remainder(self) -> float:
        """The constant with respect to the norm: of those of the features their own norm."""
        return float(np.linalg.norm(self.lipschitz))

    def rescaled(self, offset: FloatArray, spread: FloatArray, fixed: int = 0) -> LipschitzReward:
        """The same reward of scaled states; only what moves counts for its constant."""
        self.gradient(len(offset))
        function = self.function
        steeper = np.where(np.arange(len(spread)) < fixed, 0.0, spread) * self.lipschitz
        return LipschitzReward(
            lambda states: function(states * spread + offset),
            float(np.max(steeper)) if np.ndim(self.lipschitz) == 0 else steeper,
        )


@dataclass(frozen=True, eq=False)
class LogisticReward:
    """R(s) = amount / (1 + exp(-x)), x = linear(s): an amount times the probability to get it.

    Over x the slope lies between 0 and amount / 4: half of that is the gradient, and the remainder
    as much again.

    moving  how many features, the last ones, differ between states to be compared; None for all
    """

    linear: LinearReward
    amount: float = 1.0
    moving: int | None = None

    def __call__(self, states: FloatArray) -> FloatArray:
        # tanh neither overflows nor loses small probabilities to more than rounding.
        return np.asarray(self.amount * (0.5 + 0.5 * np.tanh(0.5 * self.linear(states))))

    def gradient(self, n_features: int) -> FloatArray:
        """An eighth of the weights."""
        return self.amount / 8.0 * self.linear.gradient(n_features)

    @property
    def remainder(self) -> float:
        """What the slope can differ from that."""
        moving = self.linear.weights[-self.moving :] if self.moving else self.linear.weights
        return abs(self.amount) / 8.0 * float(np.linalg.norm(moving)) * (1.0 + 1e-12)

    def rescaled(self, offset: FloatArray, spread: FloatArray, fixed: int = 0) -> LogisticReward:
        """The same reward of scaled states."""
        linear = self.linear.rescaled(offset, spread, fixed)
        return LogisticReward(linear, self.amount, len(offset) - fixed)

    def variance(self, states: FloatArray, others: FloatArray) -> float:
        """Of R(s) - R(s'), states (1, D), since the weights are not known better: to first order in
        them."""
        here, there = (
            0.25 / np.cosh(0.5 * np.clip(self.linear(x), -700.0, 700.0)) ** 2 * np.append(1.0, x)
            for x in (states, others)
        )
        return self.amount**2 * self.linear.variance_along(here - there)


@dataclass(frozen=True, eq=False)
class SumReward:
    """Several rewards of the same states, added up."""

    parts: tuple[Reward, ...]

    def __call__(self, states: FloatArray) -> FloatArray:
        return np.asarray(sum(part(states) for part in self.parts))

    def gradient(self, n_features: int) -> FloatArray:
        """The gradients, added up."""
        return np.asarray(sum(part.gradient(n_features) for part in self.parts))

    @property
    def remainder(self) -> float:
        """The remainders, added up."""
        return sum(part.remainder for part in self.parts)

    def rescaled(self, offset: FloatArray, spread: FloatArray, fixed: int = 0) -> SumReward:
        """The same reward of scaled states."""
        return SumReward(tuple(part.rescaled(offset, spread, fixed) for part in self.parts))

    def variance(self, states: FloatArray, others: FloatArray) -> float:
        """Of R(s) - R(s'): the variances, added up."""
        return sum(reward_variance(part, states, others) for part in self.parts)


@dataclass(frozen=True, eq=False)
class EpisodeReward:
    """What an episode earns: sum_t R(s_t) + F(s_{T-1}) + sum_t r(t, a_t).

    state    R, of every state
    final    the parts of F, of the last state on top: what is known or counts only at the end
    actions  r, (N,) or by step (T-1, N): what an action earns or, below 0, costs; None for nothing
    """

    state: Reward
    final: Sequence[Reward] = ()
    actions: ArrayLike | None = field(default=None, repr=False)

    @property
    def last(self) -> Reward:
        """R + F."""
        return SumReward((self.state, *self.final)) if self.final else self.state

    def of_actions(self, decisions: int, n_actions: int) -> FloatArray:
        """(T-1, N) what each action earns."""
        given = np.zeros(n_actions) if self.actions is None else self.actions
        try:
            found = np.broadcast_to(np.asarray(given, np.float64), (decisions, n_actions))
        except (TypeError, ValueError):
            raise InputError(
                f"what actions earn has shape {np.shape(given)}: give a number for each of "
                f"{n_actions} actions, or for each of {decisions} steps and action"
            ) from None
        if not (np.abs(found) <= LARGEST).all():
            raise InputError(f"what actions earn must be numbers up to {LARGEST:g}")
        return found

    def by_step(self, states: FloatArray, earned: FloatArray) -> FloatArray:
        """(T,) what each step of states (T, D) earns, where its actions earn (T-1,)."""
        return np.append(self.state(states[:-1]) + earned, self.last(states[-1:]))


def reward_variance(reward: Reward, states: FloatArray, others: FloatArray) -> float:
    """Of R(s) - R(s'), states (1, D), by how well the reward is known; 0 where it is a given."""
    known: Callable[[FloatArray, FloatArray], float] | None = getattr(reward, "variance", None)
    return 0.0 if known is None else known(states, others)


def _finite(values: FloatArray, states: FloatArray, advice: str = "") -> FloatArray:
    if not np.isfinite(values).all():
        state = states[int(np.flatnonzero(~np.isfinite(values))[0])]
        raise InputError(f"the reward is not finite for state {state.tolist()}{advice}")
    return values


def _one_each(values: ArrayLike, name: str, least: float) -> FloatArray:
    """One number for each feature, from `least` to LARGEST."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(())
    if array.ndim != 1:
        raise InputError(f"a reward needs one {name} for each feature: a plain list of numbers")
    bad = np.flatnonzero(~((array >= least) & (array <= LARGEST)))
    if bad.size:
        raise InputError(
            f"the reward's {name} of feature {bad[0]} is {array[bad[0]]}: expected a number from "
            f"{least:g} to {LARGEST:g}"
        )
    return array


def _number(value: object, name: str, least: float) -> float:
    if not isinstance(value, Real) or not least <= float(value) <= LARGEST:
        raise InputError(f"{name} is {value!r}: expected a number from {least:g} to {LARGEST:g}")
    return float(value)
