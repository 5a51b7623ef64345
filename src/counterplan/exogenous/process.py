"""Exogenous processes: what no action touches (Eq. 2.3).

A process knows nothing of horizons, resources and rewards: it gives x_{t+1} from x_t. X numbers
describe x_t; n states are handled at once. `kernel_parameters` is the process as one flat array for
the compiled functions of `process_kernel`, which do the same.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError

# The first of a process's kernel parameters: which of the compiled processes it is.
GBM_CODE = 1.0
LATTICE_CODE = 2.0
MODES_CODE = 3.0
HIDDEN_CODE = 4.0
GAUSSIAN_CODE = 5.0
BOOTSTRAP_CODE = 6.0


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


@runtime_checkable
class CompiledProcess(Protocol):
    """The process as numbers for `process_kernel`."""

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """Flat: its kind (see `process_kernel`), then its numbers; good for times 0 .. steps."""
        ...

    def most_successors(self, quantiles: int = 0) -> int:
        """No x_t has more (0: continuous)."""
        ...


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


def given_start(process: Process, start: FloatArray | None) -> FloatArray:
    """The x_t to begin with, (X,)."""
    if start is None:
        return process.start
    first = np.atleast_1d(np.asarray(start, dtype=np.float64))
    if first.shape != process.start.shape:
        raise InputError(f"start must have shape {process.start.shape}, got {first.shape}")
    return first
