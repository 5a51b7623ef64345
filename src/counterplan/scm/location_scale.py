"""Location-scale models and their relatives, from any vectorised functions.

    location-scale   s' = h(s, a) + phi(s, a) * u,   phi > 0          K_t = L_h + L_phi max_i |u_i|
    additive noise   s' = h(s, a) + u                                  K_t = L_h
    post-nonlinear   s' = psi(h(s, a) + u),   psi invertible           K_t = L_psi L_h

all element-wise in u. The functions take states (n, D) and action vectors (n, d) and return the
features that move, (n, D - fixed); constants are with respect to the Euclidean norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.scm.point import ElementwiseSCM, IntervalSlopes, Region, Slopes

Mechanism: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
# Slopes of h over a region for actions (n, d): (n, D - fixed, D) J and E, None where unknown.
MechanismSlopes: TypeAlias = Callable[[Region, FloatArray], tuple[FloatArray, FloatArray]]


class LocationScaleSCM(ElementwiseSCM):
    """s' = location(s, a) + scale(s, a) * u."""

    def __init__(
        self,
        location: Mechanism,
        scale: Mechanism,
        lipschitz: tuple[float, float] | None = None,
        fixed: int = 0,
    ) -> None:
        """`lipschitz`: constants of location and scale; `fixed`: leading features that stay."""
        self.location = location
        self.scale = scale
        self.constants = _constants(lipschitz, ("location", "scale"))
        self.fixed = whole_number(fixed, "fixed")

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        moving = after[:, self.fixed :]
        return (moving - self._location(states, actions)) / self._scale(states, actions)

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        moved = self._location(states, actions) + self._scale(states, actions) * noise
        return np.concatenate([states[:, : self.fixed], moved], axis=1)

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        if self.constants is None:
            return None
        return np.asarray(self.constants[0] + self.constants[1] * np.abs(noise).max(axis=1))

    def _location(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        return _moving(self.location(states, actions), states, self.fixed, "location")

    def _scale(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        scale = _moving(self.scale(states, actions), states, self.fixed, "scale")
        if not (scale > 0.0).all():
            row, column = (int(i) for i in np.argwhere(~(scale > 0.0))[0])
            raise InputError(
                f"the scale of feature {column + self.fixed} is {scale[row, column]} for state "
                f"{states[row].tolist()}: a scale must be positive, e.g. through softplus"
            )
        return scale


class AdditiveNoiseSCM(LocationScaleSCM):
    """s' = location(s, a) + u."""

    def __init__(
        self,
        location: Mechanism,
        lipschitz: float | None = None,
        fixed: int = 0,
        slopes: MechanismSlopes | None = None,
    ) -> None:
        """`slopes`: entrywise slopes of the location over a region, for the first-order bound."""
        super().__init__(
            location,
            lambda states, actions: np.ones((len(states), states.shape[1] - self.fixed)),
            None if lipschitz is None else (_constant(lipschitz, "location"), 0.0),
            fixed,
        )
        self._slopes = slopes

    def slopes(self, region: Region, actions: FloatArray, noise: FloatArray) -> Slopes | None:
        if self._slopes is None:
            return None
        return _whole(self._slopes(region, actions), self.fixed, len(region.centre))


class PostNonlinearSCM(ElementwiseSCM):
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
        self.location = location
        self.link = link
        self.inverse = inverse
        self.constants = _constants(lipschitz, ("location", "link"))
        self.fixed = whole_number(fixed, "fixed")

    def infer(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> FloatArray:
        before_link = np.asarray(self.inverse(after[:, self.fixed :]))
        if not np.isfinite(before_link).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(before_link))[0])
            raise InputError(
                f"feature {column + self.fixed} is {after[row, column + self.fixed]}, which the "
                "link never takes: its inverse is not finite there"
            )
        return before_link - _moving(self.location(states, actions), states, self.fixed, "location")

    def step(self, states: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
        location = _moving(self.location(states, actions), states, self.fixed, "location")
        return np.concatenate([states[:, : self.fixed], self.link(location + noise)], axis=1)

    def lipschitz(self, noise: FloatArray) -> FloatArray | None:
        if self.constants is None:
            return None
        return np.full(len(noise), self.constants[0] * self.constants[1])


def _constants(
    values: tuple[float, float] | None, parts: tuple[str, str]
) -> tuple[float, float] | None:
    """The constants of two parts of a model, checked."""
    if values is None:
        return None
    try:
        first, second = values
    except (TypeError, ValueError):
        raise InputError(
            f"lipschitz must be two constants, of {parts[0]} and {parts[1]}, or None; got "
            f"{values!r}"
        ) from None
    return _constant(first, parts[0]), _constant(second, parts[1])


def _constant(value: object, part: str) -> float:
    if isinstance(value, Real) and 0.0 <= float(value) < math.inf:
        return float(value)
    raise InputError(
        f"the Lipschitz constant of the {part} must be a number, finite and not negative; got "
        f"{value!r}"
    )


def _moving(values: FloatArray, states: FloatArray, fixed: int, name: str) -> FloatArray:
    """What a mechanism returned, checked to be one finite number for each moving feature."""
    array = np.asarray(values, dtype=np.float64)
    expected = (len(states), states.shape[1] - fixed)
    if array.shape != expected:
        raise InputError(f"{name} returned shape {array.shape}, expected {expected}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise InputError(f"{name} is not finite for state {states[row].tolist()}")
    return array


def _whole(slopes: tuple[FloatArray, FloatArray], fixed: int, n_features: int) -> IntervalSlopes:
    """Slopes of all features from those of the moving ones; fixed ones keep theirs at identity."""
    jacobian, deviation = (np.asarray(part, dtype=np.float64) for part in slopes)
    n = len(jacobian)
    for part, name in ((jacobian, "slopes"), (deviation, "deviations of the slopes")):
        expected = (n, n_features - fixed, n_features)
        if part.shape != expected or not np.isfinite(part).all():
            raise InputError(f"{name} must be finite and of shape {expected}, got {part.shape}")
    if not (deviation >= 0.0).all():
        raise InputError("deviations of the slopes must not be negative")
    top = np.broadcast_to(np.eye(fixed, n_features), (n, fixed, n_features))
    return IntervalSlopes(
        np.concatenate([top, jacobian], axis=1),
        np.concatenate([np.zeros_like(top), deviation], axis=1),
    )
