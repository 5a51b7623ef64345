"""Extreme expectations over every counterfactual row that a causal model of the MDP allows.

Knowing only that (s_t, a_t), with row p, led to o, the counterfactual row of another pair with row
q can be any c with

    sum_i c_i = 1,      0 <= c_i <= min(1, q_i / p_o)

(the mass q_i - c_i p_o left for the other factual outcomes must not be negative; it then sums to
1 - p_o, so the rest can be coupled in any way). Counterfactual stability further sets c_i = 0
for every i != o with q_o / p_o >= q_i / p_i. The smallest expectation of h fills the states from
the lowest h up to their caps; the largest, from the highest down.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from counterplan.scm.gumbel_kernel import starts_before

# Mass below this is what rounding left over, not something to place in a state worth -inf.
ROUNDING = 1e-14


@njit(cache=True, nogil=True)
def caps_of_row(
    factual: Any, outcome: int, indices: Any, probabilities: Any, stability: bool, caps: Any
) -> None:
    """Write the largest c_i of one sparse row into the dense caps (S,), zero elsewhere."""
    caps[:] = 0.0
    finish = np.inf
    for j in range(indices.shape[0]):
        if indices[j] == outcome:
            finish = factual[outcome] / probabilities[j]
    for j in range(indices.shape[0]):
        i = indices[j]
        # q_o / p_o < q_i / p_i, decided as the Gumbel-Max kernel decides it
        if not stability or i == outcome or starts_before(factual[i], probabilities[j], finish):
            caps[i] = min(1.0, probabilities[j] / factual[outcome])


@njit(cache=True, nogil=True)
def extreme_values(
    factual: Any, outcome: int, table: Any, rows: Any, values: Any, order: Any, stability: bool
) -> Any:
    """(R, C) extreme expectations of values (S, C) for the row ids in `rows`.

    order  (S, C) states in the order in which they are filled, for each column
    """
    indptr, indices, probabilities = table
    n_states, columns = values.shape
    result = np.zeros((indptr.shape[0] - 1, columns))
    caps = np.empty(n_states)
    for row in rows:
        start, end = indptr[row], indptr[row + 1]
        caps_of_row(factual, outcome, indices[start:end], probabilities[start:end], stability, caps)
        for c in range(columns):
            left = 1.0
            total = 0.0
            last = -1
            first = 0.0
            for position in range(n_states):
                i = order[position, c]
                if caps[i] > 0.0:
                    if last < 0:
                        first = values[i, c]
                    share = min(left, caps[i])
                    total += share * values[i, c]
                    left -= share
                    last = i
                    if left <= ROUNDING:
                        break
            if left > 0.0 and last >= 0:
                total += left * values[last, c]
            # A mean lies between what it is a mean of, whatever rounding says.
            least, most = min(first, values[last, c]), max(first, values[last, c])
            result[row, c] = min(max(total, least), most)
    return result
