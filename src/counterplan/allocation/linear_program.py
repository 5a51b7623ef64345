"""Any mix of resources, bounds and spilling: a linear program through scipy's HiGHS.

    max  sum_t <r_t, a_t>   s.t.   low_t <= sum_i a_t,i <= high_t,   L <= sum_t,i a_t,i <= U,
         0 <= level of i after action t <= C_i,    0 <= the same after change t, less spill <= C_i

with level_i = start_i + effect_i sum a - sum spill_i + sum change_i. A transportation problem where
resources are plain stocks. What spills is free to choose in the program but not in the model; that
makes no difference where more of a resource never hurts, that is, where it is consumed.

Many paths share the constraints: they are solved as one block-diagonal program at a time, and their
duals give each path its own upper bound (weak duality), which at the optimum equals the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.exogenous.resource import ResourceProgram

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

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
