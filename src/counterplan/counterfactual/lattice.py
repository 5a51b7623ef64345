"""Whether numbers lie on a lattice: base + step * whole number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.validation import FloatArray

# Larger lattices would cost more memory than the answer is worth.
LARGEST_INDEX = 100_000
TOLERANCE = 1e-9
# Stands for minus infinity where numbers are counted in steps.
LOST = -(2**62)


@dataclass(frozen=True)
class Lattice:
    """The values base + step * 0, 1, 2, ..."""

    base: float
    step: float

    def index(self, values: FloatArray) -> NDArray[np.int64]:
        """Positions of the values, -1 for -inf."""
        finite = np.isfinite(values)
        positions = np.full(values.shape, -1, dtype=np.int64)
        positions[finite] = np.rint((values[finite] - self.base) / self.step).astype(np.int64)
        return positions


def find_lattice(values: ArrayLike) -> Lattice | None:
    """The coarsest lattice that holds all finite values, or None if there is no small one."""
    array = np.asarray(values, dtype=np.float64)
    distinct = np.unique(array[np.isfinite(array)])
    if distinct.size == 0:
        return Lattice(0.0, 1.0)
    base = float(distinct[0])
    gaps = distinct[1:] - base
    if gaps.size == 0:
        return Lattice(base, 1.0)
    noise = TOLERANCE * float(gaps[-1])
    step = float(gaps[0])
    for gap in gaps[1:]:
        step = _common_divisor(step, float(gap), noise)
        if gaps[-1] / step > LARGEST_INDEX:
            return None
        # Each division of Euclid's multiplies the rounding error: fit the step to the gap again.
        step = float(gap / np.rint(gap / step))
    positions = gaps / step
    if np.abs(positions - np.rint(positions)).max() > TOLERANCE * max(1.0, positions[-1]):
        return None
    return Lattice(base, step)


def _common_divisor(a: float, b: float, noise: float) -> float:
    """Euclid's algorithm, taking remainders below `noise` for zero."""
    while b > noise:
        a, b = b, a % b
        if a - b <= noise:  # a remainder just below the divisor is rounding, not a remainder
            b = 0.0
    return a
