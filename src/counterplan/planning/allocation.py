"""How to spend resources along a known path: exact allocations, one compiled pass over the path.

    max  sum_t r_t a_t    s.t.    low_t <= a_t <= high_t    and one of

    knapsack   L <= sum_t a_t <= U                           (Lemmas 2.1 and 2.2)
    nested     L_t <= a_0 + ... + a_t <= U_t  at every t     (tanks, batteries, stocks)
    advantage  two resources that share a fixed quota: a1_t + a2_t = q_t, each with a stock
    transport  any mix of resources, bounds and spilling: a linear program

Knapsack: start from the lower bounds and fill the steps in the order of their reward per unit, each
to its upper bound, until the total is used up: the last step filled is *fractional* in general,
which Eq. 2.27, a choice of k full steps, leaves out. What does not pay is filled only as far as L
requires. It is the nested case in which only the last prefix is bounded, and solved as such.

Nested (the corrected Lemma 2.2: Top-K breaks such bounds): let V_t(y) be the most reward from the
first t steps that leaves the position y, what the resource has moved so far. It is concave and
piecewise linear, a list of segments sorted by slope:

    step t      y -> y + a, low <= a <= high    V becomes its sup-convolution with a segment of
                                                slope r_t and length high - low: insert it
    bounds      after_low <= y <= after_high    cut the list at both ends

What is cut at the left (the best slopes) can no longer be avoided: those units are spent at their
steps. What is cut at the right (the worst) can no longer be had. What is left after the last step
is spent where it pays. So every unit carries its own step, and the optimal actions come with the
value. The greedy of the gas-station problem (buy just enough to reach the next cheaper port, else
fill up) is the case of a tank.

After the bounds the position shifts, and what then exceeds a tank may spill over. At the left end
(a resource that is consumed) a unit that would spill is used if that pays, else lost: exact, since
having more never hurts. At the right end (a resource that is bought) a unit bought only to spill is
not bought; exact while buying costs something, and reported where it does not.

Advantage: with a2 = q - a1 the objective is sum_t f2_t q_t + sum_t (f1_t - f2_t) a1_t, a knapsack
in a1 with steps in [0, q_t] and a total in [Q - c2, c1], Q = sum_t q_t. So steps are ranked by the
*advantage* f1 - f2 of the first resource; ranking by f1 itself, as Eq. 2.26 suggests, is wrong.

Transport, solved by HiGHS:

    max  sum_t <r_t, a_t>   s.t.   low_t <= sum_i a_t,i <= high_t,   L <= sum_t,i a_t,i <= U,
         0 <= level of i after action t <= C_i,    0 <= the same after change t, less spill <= C_i

with level_i = start_i + effect_i sum a - sum spill_i + sum change_i. What spills is free to choose
in the program but not in the model; that makes no difference where more of a resource never hurts,
that is, where it is consumed. Many paths share the constraints: they are solved as one
block-diagonal program at a time, and their duals give each path its own upper bound (weak duality),
which at the optimum equals the value.

Everywhere rewards that are equal but for rounding go to the earlier step (D5): expected rewards are
sums of products, so what is equal on paper differs in its last digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.planning.model import State
from counterplan.planning.resource import ResourceProgram

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Rewards that differ by less than this share of themselves are equal.
CLOSE = 1e-12
# Up to this many steps, insertion beats the search by halves.
SHORT = 64
# What sums of bounds may miss each other by.
SLACK = 1e-9
# Why some problems with spilling have no exact allocation.
NO_METHOD = (
    "adding to the resource pays although it spills over, so the best allocation is not concave; "
    "let adding cost something, or set spill=False (planning needs no hindsight)"
)
# The numbers of a step in nested bounds: what it may spend, where the position must be after it,
# what then moves the position by itself, and where it spills over after that.
LOW, HIGH, AFTER_LOW, AFTER_HIGH, SHIFT, SPILL_LOW, SPILL_HIGH = range(7)
# Statuses of a nested allocation; from 0 up, the first step at which no action is possible.
SOLVED, NOT_CONCAVE = -1, -2
# Paths per linear program: enough to make the calls cheap, few enough for the solver's own growth.
PATHS_AT_ONCE = 64
# HiGHS's least: by default it takes rewards for equal that differ by less than 1e-7.
TOLERANCE = 1e-10


@njit(cache=True, nogil=True, inline="always")
def exceeds(one, other):  # type: ignore[no-untyped-def]
    """Whether a reward is larger than another, by more than rounding."""
    return one - other > CLOSE * abs(one)


@njit(cache=True, nogil=True)
def total_steps(bounds, least, most):  # type: ignore[no-untyped-def]
    """(T, 7) the numbers of steps with bounds (T, 2) of their own and on their total alone."""
    T = bounds.shape[0]
    steps = np.empty((T, 7))
    left = most
    for t in range(T - 1, -1, -1):
        steps[t, LOW], steps[t, HIGH] = bounds[t, 0], bounds[t, 1]
        # Later steps spend their least at least.
        steps[t, AFTER_LOW], steps[t, AFTER_HIGH] = -np.inf, left
        steps[t, SHIFT], steps[t, SPILL_LOW], steps[t, SPILL_HIGH] = 0.0, -np.inf, np.inf
        left -= bounds[t, 0]
    steps[T - 1, AFTER_LOW] = least
    return steps


def allocate_advantage(
    first: FloatArray, second: FloatArray, quotas: FloatArray, stocks: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """The best values (n,) and actions (n, T, 2).

    first, second  (n, T) rewards per unit of either resource
    quotas         (T,) what both together must spend at each step
    stocks         what there is of either
    """
    c1, c2 = stocks
    short = np.flatnonzero(np.cumsum(quotas) - (c1 + c2) > SLACK * (1.0 + c1 + c2))
    if short.size:
        raise InfeasibleError(
            f"the quotas up to step t={int(short[0])} exceed both stocks together, {c1 + c2:g}: "
            "lower the quotas or raise a stock"
        )
    bounds = np.column_stack([np.zeros_like(quotas), quotas])
    need = min(max(quotas.sum() - c2, 0.0), c1)
    steps = total_steps(bounds, need, c1)
    gains, spent = allocate_nested(first - second, steps, np.zeros(len(first)))
    return gains + second @ quotas, np.stack([spent, quotas - spent], axis=2)


# The list of segments: steps, best first, in order[head:tail]. Its functions are inlined, since a
# call that is not costs more than what it does.


@njit(cache=True, nogil=True, inline="always")
def _insert(rewards, order, head, tail, t):  # type: ignore[no-untyped-def]
    first, place = head, tail
    while place - first > SHORT:
        middle = (first + place) >> 1
        if exceeds(rewards[t], rewards[order[middle]]):
            place = middle
        else:
            first = middle + 1
    for i in range(tail, place, -1):
        order[i] = order[i - 1]
    while place > first and exceeds(rewards[t], rewards[order[place - 1]]):
        order[place] = order[place - 1]
        place -= 1
    order[place] = t


@njit(cache=True, nogil=True, inline="always")
def _take_best(rewards, order, head, tail, length, spills, units):  # type: ignore[no-untyped-def]
    """Spend the best units, or where they spill those that pay; the new head."""
    amounts, spent = units
    while length > 0.0 and head < tail:
        step = order[head]
        part = min(amounts[step], length)
        if not spills or rewards[step] > 0.0:
            spent[step] += part
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            head += 1
    return head


@njit(cache=True, nogil=True, inline="always")
def _drop_worst(rewards, order, head, tail, length, spills, amounts):  # type: ignore[no-untyped-def]
    """Forget the worst units; the new tail, -1 if one that spills would have paid."""
    while length > 0.0 and head < tail:
        step = order[tail - 1]
        part = min(amounts[step], length)
        if spills and rewards[step] > 0.0 and part > 0.0:
            return -1
        amounts[step] -= part
        length -= part
        if amounts[step] <= 0.0:
            tail -= 1
    return tail


@njit(cache=True, nogil=True, inline="always")
def _enter(row, t, lowest, highest, amounts, spent):  # type: ignore[no-untyped-def]
    """Step t with its least; where the position may be then, and whether it may be there."""
    slack = SLACK * (1.0 + abs(lowest) + abs(highest))
    lowest += row[LOW]
    highest += row[LOW]
    possible = lowest <= row[AFTER_HIGH] + slack and row[HIGH] >= row[LOW]
    # Longer than this, the rest would be cut at once; and infinite bounds stay manageable.
    amounts[t] = max(0.0, min(row[HIGH] - row[LOW], row[AFTER_HIGH] - lowest))
    spent[t] = row[LOW]
    highest += amounts[t]
    return lowest, highest, possible and highest >= row[AFTER_LOW] - slack


@njit(cache=True, nogil=True)
def nested_path(rewards, steps, start, amounts, order, spent):  # type: ignore[no-untyped-def]
    """The best actions along one path, written to `spent` (T,): the value and a status.

    rewards  (T,) per unit
    steps    (T, 7) their numbers
    start    the position before the first step
    amounts  (T,) work space
    order    (T,) work space, whole numbers
    """
    lowest = highest = start
    head = tail = 0
    for t in range(rewards.shape[0]):
        row = steps[t]
        lowest, highest, possible = _enter(row, t, lowest, highest, amounts, spent)
        if not possible:
            return 0.0, t
        _insert(rewards, order, head, tail, t)
        tail += 1
        if highest > row[AFTER_HIGH]:
            extra = highest - row[AFTER_HIGH]
            tail = _drop_worst(rewards, order, head, tail, extra, False, amounts)
            highest = max(row[AFTER_HIGH], lowest)
        if lowest < row[AFTER_LOW]:
            lack = row[AFTER_LOW] - lowest
            head = _take_best(rewards, order, head, tail, lack, False, (amounts, spent))
            lowest = min(row[AFTER_LOW], highest)
        lowest += row[SHIFT]
        highest += row[SHIFT]
        if highest > row[SPILL_HIGH]:
            extra = highest - row[SPILL_HIGH]
            tail = _drop_worst(rewards, order, head, tail, extra, True, amounts)
            if tail < 0:
                return 0.0, NOT_CONCAVE
            highest = row[SPILL_HIGH]
            lowest = min(lowest, highest)
        if lowest < row[SPILL_LOW]:
            lack = row[SPILL_LOW] - lowest
            head = _take_best(rewards, order, head, tail, lack, True, (amounts, spent))
            lowest = row[SPILL_LOW]
            highest = max(lowest, highest)
    value = 0.0
    for t in range(rewards.shape[0]):
        if rewards[t] > 0.0:
            spent[t] += amounts[t]
        value += rewards[t] * spent[t]
    return value, SOLVED


@njit(cache=True, nogil=True)
def _nested_paths(rewards, steps, starts):  # type: ignore[no-untyped-def]
    n, T = rewards.shape
    values, actions = np.empty(n), np.empty((n, T))
    statuses = np.empty(n, dtype=np.int64)
    amounts, order = np.empty(T), np.empty(T, dtype=np.int64)
    for i in range(n):
        found = nested_path(rewards[i], steps, starts[i], amounts, order, actions[i])
        values[i], statuses[i] = found
    return values, actions, statuses


def allocate_nested(
    rewards: FloatArray, steps: FloatArray, starts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and actions (n, T) for rewards (n, T), steps (T, 7) and starts (n,).

    Raises where no action is possible (naming the step), or where units would pay to be bought
    only to spill over. Each step or the position after it needs an upper bound.
    """
    values, actions, statuses = _nested_paths(
        np.ascontiguousarray(rewards), steps, np.ascontiguousarray(starts)
    )
    if (statuses == NOT_CONCAVE).any():
        raise NotApplicableError(f"no method applies: {NO_METHOD}")
    if (statuses >= 0).any():
        i = int(np.argmax(statuses >= 0))
        t = int(statuses[i])
        raise InfeasibleError(
            f"no allocation is possible at step t={t} (path {i}): the bounds of steps 0..{t} and "
            "the levels they must keep contradict each other; widen one of them"
        )
    return values, actions


def plain_steps(step_bounds: FloatArray) -> FloatArray:
    """(T, 7) the numbers of steps with nothing but bounds (T, 2) on the step itself."""
    steps = np.empty((len(step_bounds), 7))
    steps[:, : HIGH + 1] = step_bounds
    steps[:, AFTER_LOW:] = -np.inf, np.inf, 0.0, -np.inf, np.inf
    return steps


# A resource program of one resource in the terms of nested bounds. The position y counts what
# actions have moved: y = level where an action adds, y = -level where it consumes, so that an
# action always moves y up.


def nested_start(program: ResourceProgram, state: State) -> float:
    """The position before the state's step."""
    return float(program.resources[0].effect * state.resource[0])


def resource_steps(program: ResourceProgram) -> FloatArray:
    """(T, 7) the numbers of each step for one resource, without the budget."""
    resource = program.resources[0]
    steps = plain_steps(program.step_bounds)
    change, capacity = program.changes[:, 0], resource.capacity
    bottom = np.maximum(0.0, -change)
    top = np.minimum(capacity, capacity - (0.0 if resource.spill else change))
    steps[:, SHIFT] = resource.effect * change
    if resource.effect > 0:
        steps[:, AFTER_LOW], steps[:, AFTER_HIGH] = bottom, top
        steps[:, SPILL_HIGH] = capacity if resource.spill else math.inf
    else:
        steps[:, AFTER_LOW], steps[:, AFTER_HIGH] = -top, -bottom
        steps[:, SPILL_LOW] = -capacity if resource.spill else -math.inf
    return steps


def nested_steps(program: ResourceProgram, state: State) -> FloatArray:
    """(T - t, 7) the same from the state on, with the budget that is left."""
    steps = resource_steps(program)[state.t :]
    if program.has_budget:
        # Without spilling, the position after an action tells the total so far; later steps spend
        # their least at least.
        zero = nested_start(program, state) + np.cumsum(steps[:, SHIFT]) - steps[:, SHIFT]
        low, high = (limit - state.resource[1] for limit in program.budget)
        most = zero + high - program.later[state.t :, 0]
        steps[:, AFTER_HIGH] = np.minimum(steps[:, AFTER_HIGH], most)
        steps[-1, AFTER_LOW] = max(steps[-1, AFTER_LOW], zero[-1] + low)
    return steps


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
    constraints = level_constraints(program, t, levels)
    parts = [
        _solve_block(rewards[i : i + PATHS_AT_ONCE], *constraints)
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
    tolerances = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    options: Any = dict.fromkeys(tolerances, TOLERANCE)
    solved = linprog(
        objective.ravel(),
        A_ub=blocks,
        b_ub=np.tile(limits, n),
        bounds=(0, None),
        method="highs",
        options=options,
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
    so_far = np.tril(np.ones((steps, steps)))
    totals = np.zeros((steps, steps * (A + len(spilling))))
    totals[:, : steps * A] = np.kron(np.eye(steps), np.ones(A))
    rows, limits = [totals], [bounds]
    if program.has_budget:
        rows.append(totals.sum(axis=0, keepdims=True))
        limits.append(np.array([program.budget]) - resource[A])
    for i, one in enumerate(program.resources):
        before, after = np.zeros_like(totals), np.zeros_like(totals)
        before[:, i : steps * A : A] = after[:, i : steps * A : A] = one.effect * so_far
        if one.spill:
            first = steps * (A + spilling.index(i))
            # A spill follows the change of its step, so it counts from the next action on.
            before[:, first : first + steps] = np.eye(steps) - so_far
            after[:, first : first + steps] = -so_far
        flown = np.cumsum(changes[:, i])
        for row, gained in ((before, flown - changes[:, i]), (after, flown)):
            rows.append(row)
            # In this order of terms: which of several optima HiGHS finds hangs on the last digits.
            limits.append(np.array([0.0, one.capacity]) - resource[i] - gained[:, np.newaxis])
    lows, highs = np.vstack(limits).T
    return csr_matrix(np.vstack(rows)), lows, highs
