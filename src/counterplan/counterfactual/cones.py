"""The cone over a set of pieces, compiled (see `first_order_bound`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

STEPS = 60
OUTWARD = 1e-12


@njit(cache=True, nogil=True)
def covering_cone(
    constant: Any, slope: Any, steepness: Any, radius: float
) -> tuple[float, Any, float]:
    """(b, g, rho) with b + g . x + rho ||x|| above every piece for ||x|| <= radius.

    g walks from the best piece towards whichever needs most, a little less each time (the method
    of Badoiu and Clarkson for the smallest enclosing ball).
    """
    n, M = slope.shape
    peak = constant.max()
    centre = slope[np.argmax(constant)].copy()
    best = centre.copy()
    least = np.inf
    for step in range(STEPS):
        worst, need = 0, -np.inf
        for a in range(n):
            distance = 0.0
            for j in range(M):
                distance += (slope[a, j] - centre[j]) ** 2
            relief = (peak - constant[a]) / radius if radius > 0.0 else 0.0
            wanted = (np.sqrt(distance) + steepness[a]) * (1.0 + OUTWARD) + OUTWARD - relief
            if wanted > need:
                need, worst = wanted, a
        if need < least:
            least = need
            best[:] = centre
        for j in range(M):
            centre[j] += (slope[worst, j] - centre[j]) / (step + 2)
    return peak, best, max(least, 0.0)
