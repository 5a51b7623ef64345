"""`PolicyWorld` compiled: the same world in flat numbers.

Parameters begin with the numbers named below; each place is that of a table's first number:

    ROW_OF    (S, A) the row of a pair
    MAY       (T, S, A) 1 where an action may be taken and does not lead to minus infinity
    REWARDS   (T, S, A)
    COSTS     (T, A)
    OBSERVED  (T,)
    ENDS      (T-1, R, 2) the first entry of a row, and the one after its last
    ENTRIES   (N, 2) the states that may follow, and the probability of all up to each
"""

from __future__ import annotations

import numpy as np
from numba import njit

from counterplan.core.validation import FloatArray
from counterplan.counterfactual.tree_worlds import SETTLED
from counterplan.planning.kernel import ACTIONS, DRAW, POLICY, STEP

S_, A_, R_, WORST, ROW_OF, MAY, REWARDS, COSTS, OBSERVED, ENDS, ENTRIES = range(11)
HEADER = 11


@njit(cache=True)
def cumulate(starts, indices, probabilities, rows, first, ends, entries):  # type: ignore[no-untyped-def]
    """Write the entries of one step's rows, those of probability 0 left out; how many there are.

    first  the number of the step's first entry
    ends   (R, 2) of the step
    """
    count = 0
    for i in range(rows.shape[0]):
        ends[rows[i], 0] = first + count
        below = 0.0
        for j in range(starts[i], starts[i + 1]):
            if probabilities[j] > 0.0:
                below += probabilities[j]
                entries[count, 0], entries[count, 1] = indices[j], below
                count += 1
        ends[rows[i], 1] = first + count
    return count


@njit(cache=True)
def _settled(parameters, t, luck, d):  # type: ignore[no-untyped-def]
    """The state: known, or the quantile of the row of what is pending."""
    state = int(d[0])
    if d[1] == SETTLED:
        return state
    pair = state * int(parameters[A_]) + int(d[1])
    row = int(parameters[int(parameters[ROW_OF]) + pair])
    ends = int(parameters[ENDS]) + 2 * ((t - 1) * int(parameters[R_]) + row)
    first, last = int(parameters[ends]), int(parameters[ends + 1]) - 1
    entries = int(parameters[ENTRIES])
    while first < last:
        middle = (first + last) // 2
        if parameters[entries + 2 * middle + 1] <= luck:
            first = middle + 1
        else:
            last = middle
    return int(parameters[entries + 2 * first])


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """Fresh luck."""
    out[0] = generator.random()


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The observed action, then those that may be taken and paid for."""
    S, A = int(parameters[S_]), int(parameters[A_])
    may = int(parameters[MAY]) + (t * S + _settled(parameters, t, x[0], d)) * A
    costs = int(parameters[COSTS]) + t * A
    observed = int(parameters[int(parameters[OBSERVED]) + t])
    out[0, 0] = observed
    m = 1
    for action in range(A):
        affordable = parameters[costs + action] <= d[2]
        if action != observed and affordable and parameters[may + action] > 0.0:
            out[m, 0] = action
            m += 1
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The reward; the action pends where it was taken."""
    S, A, chosen = int(parameters[S_]), int(parameters[A_]), int(action[0])
    state = _settled(parameters, t, x[0], d)
    left = d[2] - parameters[int(parameters[COSTS]) + t * A + chosen]
    out[0], out[1], out[2] = state, chosen, left
    reward = parameters[int(parameters[REWARDS]) + (t * S + state) * A + chosen]
    return max(reward, parameters[WORST])


@njit(POLICY, cache=True)
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """The observed action."""
    return 0


def flattened(numbers: dict[int, float], tables: dict[int, FloatArray]) -> FloatArray:
    """Parameters from numbers and tables, given by their places."""
    header = np.zeros(HEADER)
    for place, number in numbers.items():
        header[place] = number
    at = HEADER
    for place, table in tables.items():
        header[place] = at
        at += table.size
    return np.concatenate([header, *(table.ravel() for table in tables.values())])
