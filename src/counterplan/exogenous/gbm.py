"""Geometric Brownian motion (Sec. C), exactly sampled at the times 0, dt, 2 dt, ...

    S_{s+h} = S_s exp((mu - sigma^2 / 2) h + sigma W_h),    E[S_{s+h} | S_s] = S_s exp(mu h)

Three kinds:
    'independent'  x_t = S_{t dt} of a motion of its own for every t, all from `initial`: successive
                   x_t are independent (a ship's ports, each with its own price history)
    'global'       one motion: x_{t+1} continues x_t
    'correlated'   X motions at once, each continuing, with correlated increments
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.checks import number, vector
from counterplan.exogenous.process import GBM_CODE, given_start

Kind: TypeAlias = Literal["independent", "global", "correlated"]
KINDS: tuple[Kind, ...] = ("independent", "global", "correlated")
# Eigenvalues of a correlation matrix this little below zero are rounding.
EIGENVALUE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class GBM:
    """Geometric Brownian motion, x (X,) = prices; X = 1 unless kind is 'correlated'.

    initial      price at time 0, one or (X,)
    drift        mu per unit of time, one or (X,)
    volatility   sigma, one or (X,)
    dt           time between decisions
    correlation  of the increments ('correlated' only): one number for all pairs, or (X, X)
    """

    initial: ArrayLike
    drift: ArrayLike
    volatility: ArrayLike
    dt: float
    correlation: ArrayLike = 0.0
    kind: Kind = "global"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}")
        size = max(np.size(self.initial), np.size(self.drift), np.size(self.volatility))
        if size > 1 and self.kind != "correlated":
            raise InputError(f"kind {self.kind!r} has one price; use kind='correlated' for {size}")
        for name in ("initial", "drift", "volatility"):
            object.__setattr__(self, name, vector(getattr(self, name), name, size))
        _all_from(self.start, "initial", 0.0, above=True)
        _all_from(np.asarray(self.volatility), "volatility", 0.0)
        object.__setattr__(self, "dt", number(self.dt, "dt", 0.0, above=True))
        _ = self.mixing  # checks the correlation

    @property
    def start(self) -> FloatArray:
        """(X,) the initial prices."""
        return np.array(self.initial, dtype=np.float64)

    @cached_property
    def mixing(self) -> FloatArray:
        """(X, X) B with B B' = correlation: B @ independent normals are the increments."""
        X = np.size(self.initial)
        given = np.asarray(self.correlation, dtype=np.float64)
        matrix = np.where(np.eye(X) > 0, 1.0, given) if given.ndim == 0 else given
        if matrix.shape != (X, X) or not np.allclose(matrix, matrix.T):
            raise InputError(f"correlation must be one number or a symmetric ({X}, {X}) matrix")
        if not (np.allclose(np.diag(matrix), 1.0) and (np.abs(matrix) <= 1 + 1e-12).all()):
            raise InputError("correlation must have ones on its diagonal, the rest in [-1, 1]")
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < -EIGENVALUE_TOLERANCE:
            raise InputError(
                f"correlation has a negative eigenvalue {values[0]:.3g}, so no prices can be "
                f"correlated like that; a common correlation of {X} prices is at least "
                f"{-1 / max(X - 1, 1):.3g}"
            )
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        normal = generator.standard_normal(np.shape(exogenous))
        if self.kind == "independent":
            return self._moved(self.start, (t + 1) * self.dt, normal)
        return self._moved(exogenous, self.dt, normal)

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, X): futures that all begin with x_t."""
        n, steps = whole_number(n, "n", minimum=1), whole_number(steps, "steps", minimum=1)
        first = given_start(self, start)
        normal = generator(seed).standard_normal((n, steps - 1, len(first)))
        paths = np.empty((n, steps, len(first)))
        paths[:, 0] = first
        if self.kind == "independent":
            times = self.dt * np.arange(t + 1, t + steps, dtype=np.float64)
            paths[:, 1:] = self._moved(self.start, np.asarray(times[:, None]), normal)
        else:
            factors = self._moved(np.ones_like(first), self.dt, normal)
            paths[:, 1:] = first * np.cumprod(factors, axis=1)
        return paths

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, X): E[x_s | x_t]."""
        first = given_start(self, start)
        ahead = self.dt * np.arange(whole_number(steps, "steps", minimum=1))[:, None]
        if self.kind != "independent":
            return np.asarray(first * np.exp(np.asarray(self.drift) * ahead))
        path = np.asarray(self.start * np.exp(np.asarray(self.drift) * (t * self.dt + ahead)))
        path[0] = first
        return path

    def quantiles(self, t: int, exogenous: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Values (count, 1) and probabilities (count,): strata of equal probability."""
        self._refuse_strata()
        if self.kind == "independent":
            base, h = self.start, (t + 1) * self.dt
        else:
            base, h = np.asarray(exogenous, dtype=np.float64), self.dt
        mean = base * np.exp(np.asarray(self.drift) * h)
        values = mean * self._strata(h, count)[:, None]
        return values, np.full(count, 1.0 / count)

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The layout is in `process_kernel`."""
        if quantiles:
            self._refuse_strata()
        X, independent = len(self.start), self.kind == "independent"
        rows = (steps + 1 if independent else 1) if quantiles else 0
        times = self.dt * np.arange(1, rows + 1)
        strata = [self._strata(h, quantiles) for h in times]
        head = [GBM_CODE, float(independent), float(X), self.dt, float(quantiles)]
        numbers = [self.start, np.asarray(self.drift), np.asarray(self.volatility)]
        return np.concatenate([head, *numbers, self.mixing.ravel(), *strata])

    def most_successors(self, quantiles: int = 0) -> int:
        """The quantiles, if any: prices are continuous."""
        return quantiles

    def _moved(
        self, prices: FloatArray, time: float | FloatArray, normal: FloatArray
    ) -> FloatArray:
        """Prices after some time, given standard normals (..., X)."""
        sigma, drift = np.asarray(self.volatility), np.asarray(self.drift)
        if self.kind == "correlated":
            normal = normal @ self.mixing.T
        return np.asarray(
            prices * np.exp((drift - sigma**2 / 2) * time + sigma * np.sqrt(time) * normal)
        )

    def _strata(self, time: float, count: int) -> FloatArray:
        """(count,) mean of S / E[S] within each of `count` equally likely ranges of S:
        count (Phi(z_{i+1} - s) - Phi(z_i - s)) with s = sigma sqrt(time), z_i = Phi^-1(i / count).
        """
        whole_number(count, "quantiles", minimum=1)
        normal = NormalDist()
        spread = float(np.asarray(self.volatility)[0]) * time**0.5
        inner = [normal.cdf(normal.inv_cdf(i / count) - spread) for i in range(1, count)]
        return count * np.diff([0.0, *inner, 1.0])

    def _refuse_strata(self) -> None:
        if len(self.start) > 1:
            raise NotApplicableError(
                f"quantiles of {len(self.start)} prices at once are not defined; draw samples, or "
                "take a binomial lattice of one price"
            )


def _all_from(values: FloatArray, name: str, least: float, above: bool = False) -> None:
    for value in values:
        number(value, name, least, above)
