"""One resource, bounded steps, one total: the fractional knapsack (Lemmas 2.1 and 2.2).

    max  sum_t r_t a_t    s.t.    low_t <= a_t <= high_t,    L <= sum_t a_t <= U

Start from the lower bounds and fill the steps in the order of their reward per unit, each to its
upper bound, until the total is used up: the last step filled is *fractional* in general, which
Eq. 2.27, a choice of k full steps, leaves out. Steps that do not pay are filled only as far as L
requires. O(T log T). Ties go to the earlier step (D5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.resource import ResourceProgram

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# ----------------------------------------------------------------------------------------------
# What all allocation solvers are given: rewards per path and step, bounds per step.


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


# ----------------------------------------------------------------------------------------------
# Any mix of resources, bounds and spilling: a linear program through scipy's HiGHS.
#
#     max  sum_t <r_t, a_t>   s.t.   low_t <= sum_i a_t,i <= high_t,   L <= sum_t,i a_t,i <= U,
#          0 <= level of i after action t <= C_i,    0 <= the same after change t, less spill <= C_i
#
# with level_i = start_i + effect_i sum a - sum spill_i + sum change_i. A transportation problem
# where resources are plain stocks. What spills is free to choose in the program but not in the
# model; that makes no difference where more of a resource never hurts, that is, where it is
# consumed.
#
# Many paths share the constraints: they are solved as one block-diagonal program at a time, and
# their duals give each path its own upper bound (weak duality), which at the optimum equals the
# value.

# Paths per program: enough to make the calls cheap, few enough for the solver's own growth.
PATHS_AT_ONCE = 64
# HiGHS's least: by default it takes rewards for equal that differ by less than 1e-7.
TOLERANCE = 1e-10


class Transport(NamedTuple):
    """The optimum along each of n paths.

    values   (n,)
    actions  (n, steps, A)
    bounds   (n,) the dual solutions' upper bounds
    """

    values: FloatArray
    actions: FloatArray
    bounds: FloatArray


def allocate_transport(
    rewards: FloatArray, program: ResourceProgram, t: int = 0, resource: FloatArray | None = None
) -> Transport:
    """The best actions for rewards (n, T - t, A) per unit, from the resource (D,) before step t."""
    levels = program.start if resource is None else np.asarray(resource, dtype=np.float64)
    refusal = refuses_transport(program)
    if refusal is not None:
        raise NotApplicableError(f"method 'lp' does not apply: {refusal}")
    matrix, lows, highs = level_constraints(program, t, levels)
    parts = [
        _solve_block(rewards[i : i + PATHS_AT_ONCE], matrix, lows, highs)
        for i in range(0, len(rewards), PATHS_AT_ONCE)
    ]
    return Transport(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def refuses_transport(program: ResourceProgram) -> str | None:
    """Why the linear program is not exact, if it is not."""
    if program.resources[0].effect > 0 and program.resources[0].spill:
        return "it could let a resource spill that is added to, to make room for more"
    return None


def _solve_block(
    rewards: FloatArray, matrix: csr_matrix, lows: FloatArray, highs: FloatArray
) -> Transport:
    """Solve some paths as one block-diagonal program."""
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, vstack

    n, steps, A = rewards.shape
    spills = matrix.shape[1] - steps * A
    objective = np.hstack([-rewards.reshape(n, -1), np.zeros((n, spills))])
    upper, lower = np.isfinite(highs), np.isfinite(lows)
    one = vstack([matrix[upper], -matrix[lower]], format="csr")
    limits = np.concatenate([highs[upper], -lows[lower]])
    blocks: Any = block_diag([one] * n, format="csr")
    solved = linprog(
        objective.ravel(),
        A_ub=blocks,
        b_ub=np.tile(limits, n),
        bounds=(0, None),
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if solved.status == 2:
        raise InfeasibleError(
            "no allocation meets all bounds from this state on; check its resource levels"
        )
    if solved.status != 0 or solved.x is None:
        raise NotApplicableError(f"HiGHS found no optimum: {solved.message}")
    actions = np.maximum(solved.x.reshape(n, -1)[:, : steps * A], 0.0).reshape(n, steps, A)
    # Every variable is bounded by 0 from below only, so the rows' duals alone make the bound.
    duals = -solved.ineqlin.marginals.reshape(n, -1) @ limits
    return Transport((rewards * actions).sum(axis=(1, 2)), actions, duals)


def level_constraints(
    program: ResourceProgram, t: int, resource: FloatArray
) -> tuple[csr_matrix, FloatArray, FloatArray]:
    """Rows over the actions (steps, A), then the spills of each resource that spills, and their
    lower and upper limits."""
    from scipy.sparse import csr_matrix

    steps, A = program.horizon - t, len(program.resources)
    bounds, changes = program.step_bounds[t:], program.changes[t:]
    spilling = [i for i, one in enumerate(program.resources) if one.spill]
    columns = steps * (A + len(spilling))
    totals = np.zeros((steps, columns))
    for s in range(steps):
        totals[s, s * A : (s + 1) * A] = 1.0
    rows, lows, highs = [totals], [bounds[:, 0]], [bounds[:, 1]]
    if program.has_budget:
        rows.append(totals.sum(axis=0, keepdims=True))
        lows.append(np.array([program.budget[0] - resource[A]]))
        highs.append(np.array([program.budget[1] - resource[A]]))
    for i, one in enumerate(program.resources):
        moved, spilled = np.zeros((steps, columns)), np.zeros((steps, columns))
        for s in range(steps):
            moved[s:, s * A + i] = one.effect
            if one.spill:
                spilled[s:, steps * (A + spilling.index(i)) + s] = -1.0
        # A spill follows the change of its step, so it counts from the next action on.
        before = np.vstack([np.zeros((1, columns)), spilled[:-1]])
        flown = np.cumsum(changes[:, i])
        for row, gained in ((moved + before, flown - changes[:, i]), (moved + spilled, flown)):
            rows.append(row)
            lows.append(-resource[i] - gained)
            highs.append(one.capacity - resource[i] - gained)
    return csr_matrix(np.vstack(rows)), np.concatenate(lows), np.concatenate(highs)


# ----------------------------------------------------------------------------------------------
# Rewards that are equal but for rounding, compiled: ties go to the earlier step (D5).
#
# Expected rewards are sums of products, so what is equal on paper differs in its last digits.

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


# ----------------------------------------------------------------------------------------------
# The fractional knapsack, compiled: rank the steps, then fill them in that order.

# Up to this many steps, insertion beats the general sort.
SHORT = 64


@njit(cache=True, nogil=True)
def rank_steps(rewards, order):  # type: ignore[no-untyped-def]
    """Write the steps to `order` (T,), best first; those that are equal but for rounding in time
    order (D5)."""
    T = rewards.shape[0]
    if T > SHORT:
        order[:] = np.argsort(-settled(rewards), kind="mergesort")
        return
    for t in range(T):
        place = t
        while place > 0 and exceeds(rewards[t], rewards[order[place - 1]]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = t


@njit(cache=True, nogil=True)
def knapsack_path(rewards, bounds, budget, order, spent):  # type: ignore[no-untyped-def]
    """The best actions along one path, written to `spent` (T,); their value.

    rewards  (T,) per unit
    bounds   (T, 2) of the steps
    budget   (2,) of the total
    order    (T,) work space
    """
    T = rewards.shape[0]
    rank_steps(rewards, order)
    total = 0.0
    for t in range(T):
        spent[t] = bounds[t, 0]
        total += bounds[t, 0]
    for i in range(T):
        t = order[i]
        # What does not pay is spent only to reach the least total.
        room = (budget[1] if rewards[t] > 0.0 else budget[0]) - total
        part = min(bounds[t, 1] - bounds[t, 0], room)
        if part > 0.0:
            spent[t] += part
            total += part
    value = 0.0
    for t in range(T):
        value += rewards[t] * spent[t]
    return value


@njit(cache=True, nogil=True)
def knapsack_paths(rewards, bounds, budget):  # type: ignore[no-untyped-def]
    """Values (n,) and actions (n, T) for rewards (n, T)."""
    n, T = rewards.shape
    values, actions = np.empty(n), np.empty((n, T))
    order = np.empty(T, dtype=np.int64)
    for i in range(n):
        values[i] = knapsack_path(rewards[i], bounds, budget, order, actions[i])
    return values, actions


# ----------------------------------------------------------------------------------------------


def allocate_knapsack(
    rewards: ArrayLike, step_bounds: ArrayLike, budget: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T) for rewards (n, T) per unit.

    step_bounds  (T, 2) least and most of each step
    budget       least and most of the total
    """

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


# ----------------------------------------------------------------------------------------------
# Two resources that share a fixed quota at every step: comparative advantage.
#
#     max  sum_t f1_t a1_t + f2_t a2_t   s.t.   a1_t + a2_t = q_t,  sum_t a1_t <= c1, sum_t a2_t <=
#     c2
#
# With a2 = q - a1 the objective is sum_t f2_t q_t + sum_t (f1_t - f2_t) a1_t: a fractional knapsack
# in a1, with steps in [0, q_t] and a total in [Q - c2, c1], Q = sum_t q_t. So steps are ranked by
# the *advantage* f1 - f2 of the first resource; ranking by f1 itself, as Eq. 2.26 suggests, is
# wrong.


def allocate_advantage(
    first: ArrayLike, second: ArrayLike, quotas: ArrayLike, stocks: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T, 2).

    first, second  (n, T) rewards per unit of either resource
    quotas         (T,) what both together must spend at each step
    stocks         what there is of either
    """

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
