"""Two resources that share a fixed quota at every step: comparative advantage.

    max  sum_t f1_t a1_t + f2_t a2_t   s.t.   a1_t + a2_t = q_t,  sum_t a1_t <= c1, sum_t a2_t <= c2

With a2 = q - a1 the objective is sum_t f2_t q_t + sum_t (f1_t - f2_t) a1_t: a fractional knapsack
in a1, with steps in [0, q_t] and a total in [Q - c2, c1], Q = sum_t q_t. So steps are ranked by the
*advantage* f1 - f2 of the first resource; ranking by f1 itself, as Eq. 2.26 suggests, is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplan.allocation.arrays import reward_table
from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError


def allocate_advantage(
    first: ArrayLike, second: ArrayLike, quotas: ArrayLike, stocks: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T, 2).

    first, second  (n, T) rewards per unit of either resource
    quotas         (T,) what both together must spend at each step
    stocks         what there is of either
    """
    from counterplan.allocation.knapsack_kernel import knapsack_paths

    f1, f2 = reward_table(first, "first rewards"), reward_table(second, "second rewards")
    if f1.shape != f2.shape:
        raise InputError(f"the two rewards must have one shape, got {f1.shape} and {f2.shape}")
    quota = np.asarray(quotas, dtype=np.float64)
    if quota.shape != f1.shape[1:] or not (np.isfinite(quota) & (quota >= 0)).all():
        raise InputError(f"quotas must be {f1.shape[1]} numbers from 0 up, one per step")
    c1, c2 = (float(stock) for stock in stocks)
    left = np.cumsum(quota) - (c1 + c2)
    short = np.flatnonzero(left > 1e-9 * (1.0 + c1 + c2))
    if short.size:
        raise InfeasibleError(
            f"the quotas up to step t={int(short[0])} exceed both stocks together, {c1 + c2:g}: "
            "lower the quotas or raise a stock"
        )
    bounds = np.column_stack([np.zeros_like(quota), quota])
    need = min(max(quota.sum() - c2, 0.0), c1)
    gains, spent = knapsack_paths(f1 - f2, bounds, np.array([need, c1]))
    return gains + f2 @ quota, np.stack([spent, quota - spent], axis=2)
