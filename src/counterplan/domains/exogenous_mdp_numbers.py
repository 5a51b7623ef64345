"""An `ExogenousMDP` as one flat array, and how compiled functions read it.

`parameters` begins with HEAD numbers (the names below), then come the (T, COLUMNS) table of the
steps, the changes (T, A), the capacities (A,), the reward matrix phi (A, X), and last the process's
own block (see `exogenous.process_kernel`).
"""

from __future__ import annotations

from numba import njit

HEAD = 13
BLOCK, STEPS, RESOURCES, SIZE, EFFECT, BUDGETED, LEAST, MOST, SIGN = range(9)
CHOICE, LEVELS, OFFERED, SOLVER = range(9, HEAD)
# A step's row: its bounds, where the level must be after it, the sums of later bounds, and the
# seven numbers of `nested_kernel`.
LOW, HIGH, LOWEST, HIGHEST, LATER_LOW, LATER_HIGH, NESTED = range(7)
COLUMNS = NESTED + 7
EXTREME, GRID, ORDER_UP_TO = range(3)
# How the plan for expected rewards is found.
BY_NESTED, BY_ADVANTAGE, BY_POOL = range(3)


@njit(cache=True)
def cell(parameters, t, column):  # type: ignore[no-untyped-def]
    """One number of a step's row."""
    return parameters[HEAD + t * COLUMNS + column]


@njit(cache=True)
def change(parameters, t, i):  # type: ignore[no-untyped-def]
    """What resource i gains after step t whatever is done."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    return parameters[HEAD + T * COLUMNS + t * A + i]


@njit(cache=True)
def capacity(parameters, i):  # type: ignore[no-untyped-def]
    """Of resource i."""
    T, A = int(parameters[STEPS]), int(parameters[RESOURCES])
    return parameters[HEAD + T * (COLUMNS + A) + i]


@njit(cache=True)
def rate(parameters, i, x):  # type: ignore[no-untyped-def]
    """Reward per unit of resource i, to be maximised."""
    T, A, X = int(parameters[STEPS]), int(parameters[RESOURCES]), int(parameters[SIZE])
    row = HEAD + T * (COLUMNS + A) + A + i * X
    total = 0.0
    for j in range(X):
        total += parameters[row + j] * x[j]
    return parameters[SIGN] * total


@njit(cache=True)
def moved(parameters, t, i, level, amount):  # type: ignore[no-untyped-def]
    """The level of resource i after an action and the change of step t."""
    after = max(level + parameters[EFFECT] * amount, 0.0) + change(parameters, t, i)
    return max(min(after, capacity(parameters, i)), 0.0)
