"""One resource, bounded steps, one total: the fractional knapsack (Lemmas 2.1 and 2.2).

    max  sum_t r_t a_t    s.t.    low_t <= a_t <= high_t,    L <= sum_t a_t <= U

Start from the lower bounds and fill the steps in the order of their reward per unit, each to its
upper bound, until the total is used up: the last step filled is *fractional* in general, which
Eq. 2.27, a choice of k full steps, leaves out. Steps that do not pay are filled only as far as L
requires. O(T log T). Ties go to the earlier step (D5).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplan.allocation.arrays import bound_pairs, reward_table
from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError


def allocate_knapsack(
    rewards: ArrayLike, step_bounds: ArrayLike, budget: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T) for rewards (n, T) per unit.

    step_bounds  (T, 2) least and most of each step
    budget       least and most of the total
    """
    from counterplan.allocation.knapsack_kernel import knapsack_paths

    table = reward_table(rewards, "rewards")
    bounds = bound_pairs(step_bounds, table.shape[1], "step bounds")
    limits = np.asarray(budget, dtype=np.float64)
    if limits.shape != (2,) or not limits[0] <= limits[1]:
        raise InputError(f"budget must be (least, most) in total, got {budget!r}")
    least, most = bounds.sum(axis=0)
    # What the sums may differ by through rounding.
    slack = 1e-9 * (1.0 + abs(least))
    if least > limits[1] + slack or most < limits[0] - slack:
        raise InfeasibleError(
            f"the steps together spend {least:g} to {most:g}, the budget is {limits[0]:g} to "
            f"{limits[1]:g}: they do not meet; widen one of them"
        )
    if np.isinf(bounds[:, 1]).any() and np.isinf(limits[1]):
        raise InputError("neither every step nor the budget has an upper bound: give one")
    values, actions = knapsack_paths(table, bounds, limits)
    return values, actions
