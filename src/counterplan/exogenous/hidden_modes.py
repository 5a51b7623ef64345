"""Hidden modes: only what they emit is seen, and a belief about the mode is kept (Eq. F.4-F.6).

    b'(m') = P(o | m') sum_m P(m' | m) b(m) / P(o | b),    P(o | b) = sum_m' P(o | m') (b P)(m')

x = (observation (O,), belief (M,)) is a Markov process that no action touches: b holds all that the
observations say about the present mode. For a hybrid vehicle the observation is a mileage (gas,
electric) around the mode's mean. Two laws of it:

    HiddenModes          finitely many observations, so the belief tree is finite and exact
    GaussianHiddenModes  normal around each mode's mean

At t = 0 nothing has been observed: the belief is the prior, the observation its mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.checks import stochastic_matrix
from counterplan.exogenous.process import GAUSSIAN_CODE, HIDDEN_CODE, draw_paths, given_start


class _Beliefs(ABC):
    """What both laws share, given `transitions` (M, M), `prior` (M,) and `mode_means` (M, O)."""

    transitions: FloatArray
    prior: FloatArray
    mode_means: FloatArray

    @property
    def start(self) -> FloatArray:
        """(O + M,) the prior and the mean observation."""
        return np.concatenate([self.prior @ self.mode_means, self.prior])

    def beliefs(self, exogenous: FloatArray) -> FloatArray:
        """(..., M) the beliefs in (..., O + M)."""
        return np.asarray(exogenous)[..., self.mode_means.shape[1] :]

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, O + M): futures that all begin with x_t."""
        return draw_paths(self, n, steps, seed, t, start)

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, O + M): E[x_s | x_t]; the mean belief is the distribution of the mode."""
        first = given_start(self, start)
        path = np.empty((whole_number(steps, "steps", minimum=1), len(first)))
        path[0] = first
        belief = self.beliefs(first)
        for s in range(1, steps):
            belief = belief @ self.transitions
            path[s] = np.concatenate([belief @ self.mode_means, belief])
        return path

    @abstractmethod
    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, O + M) -> (n, O + M)."""

    def _next_modes(
        self, exogenous: FloatArray, generator: np.random.Generator
    ) -> tuple[FloatArray, IntArray]:
        """The distribution (n, M) of the next mode, and a mode drawn from it (n,)."""
        predicted = self.beliefs(exogenous) @ self.transitions
        return predicted, _pick(predicted, generator)


@dataclass(frozen=True, eq=False)
class HiddenModes(_Beliefs):
    """Hidden modes with finitely many observations.

    matrix         (M, M) of the modes
    values         (K, O) what may be observed
    probabilities  (M, K) how likely each mode emits each of them
    initial        (M,) the belief at t = 0, or the number of the mode it begins in
    """

    matrix: ArrayLike
    values: ArrayLike
    probabilities: ArrayLike
    initial: ArrayLike = 0

    def __post_init__(self) -> None:
        values = _table(self.values, "values")
        transitions = stochastic_matrix(self.matrix, "mode matrix")
        chances = stochastic_matrix(self.probabilities, "emission matrix", columns=len(values))
        M = len(transitions)
        if len(chances) != M:
            raise InputError(
                f"the emission matrix has {len(chances)} rows, but there are {M} modes"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "probabilities", chances)
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "prior", _belief(self.initial, M))
        object.__setattr__(self, "mode_means", chances @ values)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, O + M) -> (n, O + M)."""
        predicted, modes = self._next_modes(np.asarray(exogenous), generator)
        observed = _pick(np.asarray(self.probabilities)[modes], generator)
        return self._after(predicted, observed)

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Each observation with the belief after it, and its probability (Eq. F.5)."""
        predicted = self.beliefs(exogenous) @ self.transitions
        chances = predicted @ np.asarray(self.probabilities)
        possible = np.flatnonzero(chances)
        rows = np.repeat(predicted[None], len(possible), axis=0)
        return self._after(rows, possible), chances[possible]

    def _after(self, predicted: FloatArray, observed: IntArray) -> FloatArray:
        weights = predicted * np.asarray(self.probabilities).T[observed]
        beliefs = weights / weights.sum(axis=1, keepdims=True)
        return np.hstack([np.asarray(self.values)[observed], beliefs])

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The layout is in `process_kernel`; the support is finite as it is."""
        K, width = np.shape(self.values)
        tables = (self.transitions, self.values, self.probabilities)
        head = [HIDDEN_CODE, float(len(self.transitions)), float(width), float(K)]
        return np.concatenate([head, *(np.ravel(table) for table in tables)])

    def most_successors(self, quantiles: int = 0) -> int:
        """One for each observation."""
        return len(np.asarray(self.values))


@dataclass(frozen=True, eq=False)
class GaussianHiddenModes(_Beliefs):
    """Hidden modes with normal observations around each mode's mean.

    matrix   (M, M) of the modes
    means    (M, O)
    spread   standard deviation, above 0: one, or (M, O)
    initial  (M,) the belief at t = 0, or the number of the mode it begins in
    """

    matrix: ArrayLike
    means: ArrayLike
    spread: ArrayLike
    initial: ArrayLike = 0

    def __post_init__(self) -> None:
        transitions = stochastic_matrix(self.matrix, "mode matrix")
        means = _table(self.means, "means")
        M = len(transitions)
        if len(means) != M:
            raise InputError(f"means must have {M} rows, one per mode, got {len(means)}")
        spread = np.asarray(self.spread, dtype=np.float64)
        if spread.ndim not in (0, 2) or (spread.ndim == 2 and spread.shape != means.shape):
            raise InputError(f"spread must be one number or {means.shape}, got {spread.shape}")
        if not ((spread > 0) & np.isfinite(spread)).all():
            raise InputError("spread must be greater than 0: without noise the mode is observed")
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "spread", np.broadcast_to(spread, means.shape).copy())
        object.__setattr__(self, "mode_means", means)
        object.__setattr__(self, "prior", _belief(self.initial, M))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, O + M) -> (n, O + M)."""
        predicted, modes = self._next_modes(np.asarray(exogenous), generator)
        spread = np.asarray(self.spread)
        normal = generator.standard_normal((len(modes), spread.shape[1]))
        observed = self.mode_means[modes] + spread[modes] * normal
        z = (observed[:, None, :] - self.mode_means) / spread
        with np.errstate(divide="ignore"):
            logs = np.log(predicted) - (0.5 * z**2 + np.log(spread)).sum(axis=2)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.hstack([observed, weights / weights.sum(axis=1, keepdims=True)])

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The layout is in `process_kernel`."""
        if quantiles:
            raise NotApplicableError(
                "quantiles of a belief are not defined; draw samples, or use HiddenModes, whose "
                "observations are finitely many"
            )
        tables = (self.transitions, self.mode_means, self.spread)
        head = [GAUSSIAN_CODE, float(len(self.transitions)), float(self.mode_means.shape[1]), 0.0]
        return np.concatenate([head, *(np.ravel(table) for table in tables)])

    def most_successors(self, quantiles: int = 0) -> int:
        """Observations are continuous."""
        return 0


def _pick(rows: FloatArray, generator: np.random.Generator) -> IntArray:
    """(n,) an index drawn from each row (n, M)."""
    uniform = generator.random((len(rows), 1))
    return np.asarray((np.cumsum(rows, axis=1)[:, :-1] <= uniform).sum(axis=1), dtype=np.int64)


def _table(values: ArrayLike, name: str) -> FloatArray:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be rows of numbers of the same length") from None
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all():
        raise InputError(f"{name} must be a table of finite numbers, one row for each")
    return table


def _belief(initial: ArrayLike, M: int) -> FloatArray:
    if np.ndim(initial) == 0:
        return np.asarray(np.eye(M)[whole_number(initial, "initial mode", maximum=M - 1)])
    rows = stochastic_matrix(np.atleast_2d(np.asarray(initial)), "initial belief", columns=M)
    return np.asarray(rows[0])
