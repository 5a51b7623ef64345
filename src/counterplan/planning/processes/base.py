"""Exogenous processes: what no action touches (Eq. 2.3).

A process knows nothing of horizons, resources and rewards: it gives x_{t+1} from x_t. X numbers
describe x_t; n states are handled at once. Here are the protocols, and the checks of the numbers
that processes are made of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import LARGEST, FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError


@runtime_checkable
class Process(Protocol):
    """What `ExogenousMDP` needs; plain NumPy is enough.

    start  (X,) the value at t = 0
    """

    @property
    def start(self) -> FloatArray: ...

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        ...

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, X): E[x_s | x_t] for s = t, t+1, ...; x_t is `start` (default: the process's)."""
        ...

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, X): futures that all begin with x_t."""
        ...


@runtime_checkable
class FiniteProcess(Protocol):
    """x_{t+1} takes finitely many values."""

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (M, X) and probabilities (M,) of x_{t+1} given one x_t (X,)."""
        ...


@runtime_checkable
class HasQuantiles(Protocol):
    """A continuous x_{t+1} can be replaced by equally likely values with the same mean."""

    def quantiles(self, t: int, exogenous: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Values (count, X) and probabilities (count,): the conditional means of `count` equally
        likely strata, so that the mean is exact (the variance is a little too small)."""
        ...


# Futures behind what is expected of a process that can only be drawn from.
EXPECTED_BY = 4_000


def draw_paths(
    process: Process, n: int, steps: int, seed: Seed, t: int, start: FloatArray | None
) -> FloatArray:
    """Futures of any process, one step at a time."""
    rng = generator(seed)
    first = given_start(process, start)
    n, steps = whole_number(n, "n", minimum=1), whole_number(steps, "steps", minimum=1)
    paths = np.empty((n, steps, len(first)))
    paths[:, 0] = first
    for s in range(1, steps):
        paths[:, s] = process.draw(t + s - 1, paths[:, s - 1], rng)
    return paths


@dataclass(frozen=True, eq=False)
class Drawn:
    """A process of which only `start` and `draw` are known: futures are drawn step by step, and
    what is expected is the mean of many, always the same ones. Plans are made for it; nothing
    that is called a bound rests on it."""

    own: Any

    @property
    def start(self) -> FloatArray:
        return vector(self.own.start, "start")

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        found = np.asarray(self.own.draw(t, exogenous.copy(), generator), dtype=np.float64)
        if found.shape != exogenous.shape or not np.isfinite(found).all():
            what = "numbers that are not finite" if found.shape == exogenous.shape else found.shape
            raise InputError(
                f"draw of {type(self.own).__name__} gives {what} at t={t}: it must give what "
                f"follows each row of x, finite numbers of the same shape, {exogenous.shape}"
            )
        return found

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        return np.asarray(self.sample_paths(EXPECTED_BY, steps, 0, t, start).mean(axis=0))

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        return draw_paths(self, n, steps, seed, t, start)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "own":
            raise AttributeError(name)
        return getattr(self.own, name)  # its successors, if it lists them


def given_start(process: Process, start: FloatArray | None) -> FloatArray:
    """The x_t to begin with, (X,)."""
    if start is None:
        return process.start
    first = np.atleast_1d(np.asarray(start, dtype=np.float64))
    if first.shape != process.start.shape:
        raise InputError(f"start must have shape {process.start.shape}, got {first.shape}")
    return first


# Printed matrices are rounded, so their rows sum to one only about.
ROW_SUM_TOLERANCE = 1e-6


def number(value: object, name: str, least: float = -math.inf, above: bool = False) -> float:
    """A number from `least` up (`above`: beyond it) and not beyond LARGEST, or an error that names
    it."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(found):
        raise InputError(f"{name} must be finite, got {found}")
    if abs(found) > LARGEST:
        raise InputError(f"{name} is {found:g}, too far from 0: {LARGEST:g} at most")
    if found < least or (above and found == least):
        what = "greater than" if above else "at least"
        raise InputError(f"{name} must be {what} {least:g}, got {found:g}")
    return found


def vector(values: ArrayLike, name: str, size: int | None = None) -> FloatArray:
    """Finite numbers (size,); a single number stands for all of them."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or a list of numbers, got {values!r}") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a number or a list of numbers, got shape {array.shape}")
    if size is not None and array.size not in (1, size):
        raise InputError(f"{name} must have {size} numbers, got {array.size}")
    if size is not None:
        array = np.array(np.broadcast_to(array, size))
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(f"{name} number {int(bad[0])} is {array[bad[0]]}: must be finite")
    return array


def stochastic_matrix(values: ArrayLike, name: str, columns: int | None = None) -> FloatArray:
    """Rows that are distributions: (M, M), or (M, columns); scaled to sum to one exactly."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be rows of numbers of the same length") from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{name} must be a table of rows, got shape {matrix.shape}")
    wanted = matrix.shape[0] if columns is None else columns
    if matrix.shape[1] != wanted:
        raise InputError(f"{name} must have {wanted} columns, got shape {matrix.shape}")
    bad = np.argwhere(~((matrix >= 0.0) & (matrix <= 1.0 + ROW_SUM_TOLERANCE)))
    if bad.size:
        row, column = (int(i) for i in bad[0])
        raise InputError(
            f"{name} row {row}, column {column} is {matrix[row, column]}: a probability lies "
            "between 0 and 1"
        )
    sums = matrix.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
    if off.size:
        row = int(off[0])
        raise InputError(f"{name} row {row} sums to {sums[row]:.6g}: each row must sum to 1")
    return np.asarray(matrix / sums[:, None], dtype=np.float64)
