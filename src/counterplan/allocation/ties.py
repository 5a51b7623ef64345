"""Rewards that are equal but for rounding, compiled: ties go to the earlier step (D5).

Expected rewards are sums of products, so what is equal on paper differs in its last digits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Rewards that differ by less than this share of themselves are equal.
CLOSE = 1e-12


@njit(cache=True, nogil=True, inline="always")
def exceeds(one, other):  # type: ignore[no-untyped-def]
    """Whether a reward is larger than another, by more than rounding."""
    return one - other > CLOSE * abs(one)


@njit(cache=True, nogil=True)
def settled(rewards):  # type: ignore[no-untyped-def]
    """The rewards (T,), those that are equal but for rounding made equal."""
    order = np.argsort(-rewards)
    same = rewards.copy()
    for i in range(1, rewards.shape[0]):
        above = same[order[i - 1]]
        if not exceeds(above, rewards[order[i]]):
            same[order[i]] = above
    return same
