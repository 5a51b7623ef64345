"""The best allocation where cumulative totals are bounded at every step: tanks, batteries, stocks.

One resource whose level must stay within bounds at every step bounds the prefix sums of what is
spent (the corrected Lemma 2.2: Top-K breaks such bounds):

    max  sum_t r_t a_t    s.t.    low_t <= a_t <= high_t,    L_t <= a_0 + ... + a_t <= U_t

These sets form a generalised polymatroid, so the best unit first, as far as all bounds allow, is
exact. `nested_kernel` does it in one pass, O(T log T); the greedy of the gas-station problem (buy
just enough to reach the next cheaper port, else fill up) is the case of a tank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from counterplan.allocation import nested_columns
from counterplan.allocation.arrays import bound_pairs, reward_table
from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError, NotApplicableError

# Levels that were added up may miss the capacity by rounding.
ROUNDING = 1e-12
# Why some problems with spilling have no exact allocation.
NO_METHOD = (
    "adding to the resource pays although it spills over, so the best allocation is not concave; "
    "let adding cost something, or set spill=False (planning needs no hindsight)"
)


def allocate_nested(
    rewards: ArrayLike, step_bounds: ArrayLike, prefix_bounds: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T) for rewards (n, T) per unit.

    step_bounds    (T, 2) least and most of each step
    prefix_bounds  (T, 2) least and most of what is spent up to and with each step; may be infinite
    """
    table = reward_table(rewards, "rewards")
    T = table.shape[1]
    steps = plain_steps(bound_pairs(step_bounds, T, "step bounds"))
    steps[:, 2:4] = bound_pairs(prefix_bounds, T, "prefix bounds")
    return solve_nested(table, steps, np.zeros(len(table)))


def allocate_tank(
    prices: ArrayLike, needs: ArrayLike, capacity: float, start: float | ArrayLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    """The least costs (n,) and the purchases (n, T) that supply every leg.

    prices    (n, T) of a unit at each stop, revealed all at once; one path (T,) is taken as (1, T)
    needs     (T,) used between a stop and the next: the level after buying is in [need, capacity]
    capacity  of the tank
    start     level on arrival at the first stop, one or (n,)
    """
    table = reward_table(prices, "prices")
    n, T = table.shape
    need = np.asarray(needs, dtype=np.float64)
    if need.shape != (T,):
        raise InputError(f"needs must have {T} numbers, one per stop, got shape {need.shape}")
    bad = np.flatnonzero(~((need >= 0) & (need <= capacity)))
    if bad.size:
        t = int(bad[0])
        raise InfeasibleError(
            f"leg t={t} needs {need[t]:g}, but the capacity is {capacity:g}: every need must lie "
            "between 0 and the capacity; take a larger tank"
        )
    starts = np.broadcast_to(np.asarray(start, dtype=np.float64), (n,))
    slack = ROUNDING * capacity
    if not ((starts >= -slack) & (starts <= capacity + slack)).all():
        raise InputError(f"the start level must lie between 0 and the capacity {capacity:g}")
    starts = np.clip(starts, 0.0, capacity)
    steps = plain_steps(np.column_stack([np.zeros(T), np.full(T, np.inf)]))
    steps[:, 2], steps[:, 3], steps[:, 4] = need, capacity, -need
    values, purchases = solve_nested(-table, steps, starts)
    return -values, purchases


def plain_steps(step_bounds: FloatArray) -> FloatArray:
    """(T, 7) the kernel's numbers of each step with nothing but bounds (T, 2) on the step itself:
    low, high, bounds on the position after it, shift, bounds where the position spills over."""
    steps = np.empty((len(step_bounds), 7))
    steps[:, :2] = step_bounds
    steps[:, 2:] = -np.inf, np.inf, 0.0, -np.inf, np.inf
    return steps


def solve_nested(
    rewards: FloatArray, steps: FloatArray, starts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and actions (n, T) for rewards (n, T), the kernel's steps (T, 7) and starts (n,).

    Raises where no action is possible (naming the step), or where units would pay to be bought
    only to spill over.
    """
    from counterplan.allocation.nested_kernel import nested_paths

    if np.isinf(np.minimum(steps[:, 1], steps[:, 3])).any():
        t = int(np.argmax(np.isinf(np.minimum(steps[:, 1], steps[:, 3]))))
        raise InputError(f"step t={t} has no upper bound, neither its own nor on the prefix")
    values, actions, statuses = nested_paths(
        np.ascontiguousarray(rewards), steps, np.ascontiguousarray(starts)
    )
    if (statuses == nested_columns.NOT_CONCAVE).any():
        raise NotApplicableError(f"no method applies: {NO_METHOD}")
    if (statuses >= 0).any():
        i = int(np.argmax(statuses >= 0))
        t = int(statuses[i])
        raise InfeasibleError(
            f"no allocation is possible at step t={t} (path {i}): the bounds of steps 0..{t} and "
            "the levels they must keep contradict each other; widen one of them"
        )
    return values, actions
