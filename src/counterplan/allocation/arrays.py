"""What all allocation solvers are given: rewards per path and step, bounds per step."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError


def reward_table(values: ArrayLike, name: str) -> FloatArray:
    """(n, T) finite numbers; one path (T,) is taken as (1, T)."""
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if table.ndim != 2 or table.shape[1] == 0:
        raise InputError(f"{name} must be (paths, steps) with at least one step: {table.shape}")
    if not np.isfinite(table).all():
        i, t = (int(k) for k in np.argwhere(~np.isfinite(table))[0])
        raise InputError(f"{name} of path {i} at t={t} is {table[i, t]}: must be finite")
    return np.ascontiguousarray(table)


def bound_pairs(bounds: ArrayLike, T: int, name: str) -> FloatArray:
    """(T, 2) least and most."""
    pairs = np.asarray(bounds, dtype=np.float64)
    if pairs.shape != (T, 2):
        raise InputError(f"{name} must be ({T}, 2): least and most per step, got {pairs.shape}")
    bad = np.flatnonzero(~(pairs[:, 0] <= pairs[:, 1]))
    if bad.size:
        t = int(bad[0])
        raise InfeasibleError(
            f"{name} at t={t} are {pairs[t, 0]:g} to {pairs[t, 1]:g}: the least must not exceed "
            "the most"
        )
    return np.ascontiguousarray(pairs)
