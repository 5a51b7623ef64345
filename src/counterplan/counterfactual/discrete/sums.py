"""Expectations to choose by: the long rows of a table all at once, summed in any order.

A pass that chooses asks for nearly all rows of a table at every step, each time knowing another
transition, from a pair of row p to o. What the chosen policy is worth is then summed entry by entry
(`laws.expectations`); of what is computed here the last digit may be another.

The lowest expectation of h over all causal models fills the states by rising h,

    min E = 1 / p_o  sum_i x_i h_i,      x_i = min(q_i, what is left of p_o),

state by state, all rows side by side, until few are not full: these go on one by one. Under the
Gumbel-Max model (see `scm.gumbel`) clocks that run by u are alike: over a segment of D they all
gain the same integral. With w_1 <= w_2 <= ... the starts of those that p has too, w_0 = 0, and the
last segment ending at w_o,

    E = sum_n H_n integral_{w_n}^{w_{n+1}} du / D(u)^2  +  h_o / D(w_o)

    H_0 = sum_{p_i = 0} q_i h_i,      H_n = H_{n-1} + q_n h_n

so that most entries of a row are multiplied and added, and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.core.compiled import within
from counterplan.scm.gumbel import accumulate, kernel_row, starts_before

# Of a row less than this is what rounding left over.
ROUNDING = 1e-14
# What is left of a row of which nothing has been filled yet.
EMPTY = 2.0
# Rows are filled side by side until but one in so many is full.
FEW = 100
# Columns that are summed together; a processor multiplies one more at once, which is of ones.
TOGETHER = 3


@within
def lowest(least: float, table: Any, turned: Any, asked: Any, values: Any, ranked: Any) -> Any:
    """(rows, columns) the lowest expectations of the first columns of values (S, C), to the last
    digit what `laws.extreme_values` gives.

    least   p_o
    table   rows (indptr, indices, q), and turned, by state, see `tabular.turned_rows`
    asked   ids of rows; how many of them, the first, ask for how many columns, and for how many
            the others do
    ranked  (columns, n) by rising values the states that rows lead to
    """
    (begins, owners, probabilities), (rows, (many, columns, fewer)) = turned, asked
    n_rows = table[0].shape[0] - 1
    # What is left of each row, its sum, and its first and last value.
    left, cells, open_ones = np.zeros(n_rows), np.empty((n_rows, 3)), np.empty(n_rows, np.uint32)
    result, rank = np.empty((rows.shape[0], columns)), np.full(values.shape[0], -1)
    for c in range(columns):
        count, line, passed = rows.shape[0] if c < fewer else many, ranked[c], 0
        unfilled = count
        for i in range(count):
            left[rows[i]], cells[rows[i], 0] = EMPTY, 0.0
        while passed < line.shape[0] and unfilled > count // FEW:
            state = line[passed]
            passed += 1
            # Which rows are open is not to be guessed: they are picked out without a branch.
            n_open, value = np.uint64(0), values[state, c]
            for x in range(np.uint64(begins[state]), np.uint64(begins[state + 1])):
                open_ones[n_open] = x
                n_open += np.uint64(left[np.uint32(owners[x])] > ROUNDING)
            for x in open_ones[:n_open]:
                row = np.uint32(owners[x])
                rest = _pour(row, probabilities[x] / least, value, left[row], cells)
                left[row] = rest
                unfilled -= np.int64(rest <= ROUNDING)
        for i in range(line.shape[0] if unfilled else 0):
            rank[line[i]] = i
        for i in range(count):
            row = rows[i]
            if left[row] > ROUNDING:
                _fill_on(row, least, table, values, c, (rank, passed), left, cells)
            total, first, last = cells[row, 0], cells[row, 1], cells[row, 2]
            if left[row] > 0.0:
                total += left[row] * last
            # A mean lies between what it is a mean of, whatever rounding says.
            result[i, c] = min(max(total, min(first, last)), max(first, last))
            left[row] = 0.0
    return result


@within
def _pour(row: Any, cap: float, value: float, rest: float, cells: Any) -> float:
    """Fill a row, of which there is a rest, with an outcome, up to its largest c_i; what is left."""
    cells[row, 1] = value if rest == EMPTY else cells[row, 1]
    cells[row, 2] = value
    rest = min(rest, 1.0)
    share = min(rest, cap)
    cells[row, 0] += share * value
    return rest - share


@within
def _fill_on(
    row: int, least: float, table: Any, values: Any, c: int, place: Any, left: Any, cells: Any
) -> None:
    """Fill one row from a place in the line on, by taking again and again the first of its states
    that are left."""
    (indptr, indices, q), (rank, passed) = table, place
    while left[row] > ROUNDING:
        at, entry = rank.shape[0], -1
        for j in range(indptr[row], indptr[row + 1]):
            if passed <= rank[indices[j]] < at:
                at, entry = rank[indices[j]], j
        if entry < 0:  # rows add up to nearly one
            break
        left[row] = _pour(row, q[entry] / least, values[indices[entry], c], left[row], cells)
        passed = at + 1


@within
def means(observed: Any, table: Any, asked: Any, values: Any) -> Any:
    """(rows, columns) expectations of the first columns of values (S, C) under the Gumbel-Max
    model; the rest as above.

    observed  p, dense, and o
    """
    (factual, outcome), (indptr, indices, q) = observed, table
    rows, (many, columns, fewer) = asked
    # Values of the states that p does not have, and behind each few columns one of ones.
    alone = np.zeros((-(-columns // TOGETHER), values.shape[0], TOGETHER + 1))
    is_rival = np.zeros(values.shape[0], dtype=np.uint8)
    for state in range(values.shape[0]):
        is_rival[state] = factual[state] > 0.0
        for c in range(0 if is_rival[state] else columns):
            alone[c // TOGETHER, state, c % TOGETHER] = values[state, c]
            alone[c // TOGETHER, state, TOGETHER] = 1.0
    size = 0
    for row in rows:
        size = max(size, indptr[row + 1] - indptr[row])
    starts, entries, rivals = np.empty(size), np.empty(size, np.int64), np.empty(size + 1, np.int64)
    work = np.empty((2, size)), np.empty(size, dtype=np.int64)
    kernel, result = np.empty(size), np.empty((rows.shape[0], columns))
    for number in range(rows.shape[0] if fewer else many):
        row, count = rows[number], columns if number < many else fewer
        for first in range(0, count, TOGETHER):
            n, block = np.uint64(0), first // TOGETHER
            a = b = c = rate = 0.0
            for j in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                state, own = np.uint32(indices[j]), q[j]
                rivals[n] = j
                n += np.uint64(is_rival[state])
                a += own * alone[block, state, 0]
                b += own * alone[block, state, 1]
                c += own * alone[block, state, 2]
                rate += own * alone[block, state, 3]
            n_started, finish = _line_up(observed, table, rivals, n, (starts, entries))
            second, third = min(first + 1, count - 1), min(first + 2, count - 1)
            density, start, total_a, total_b, total_c = 1.0, 0.0, 0.0, 0.0, 0.0
            for i in range(n_started):
                end, own, state = starts[i], q[entries[i]], np.uint32(indices[entries[i]])
                after = density + rate * (end - start)
                weight = (end - start) / (density * after)
                total_a += weight * a
                total_b += weight * b
                total_c += weight * c
                a += own * values[state, first]
                b += own * values[state, second]
                c += own * values[state, third]
                rate += own
                density, start = after, end
            weight, last = 1.0 / (rate * density) if rate > 0.0 else 0.0, 0.0
            if finish < np.inf:
                after = density + rate * (finish - start)
                weight, last = (finish - start) / (density * after), 1.0 / after
            total_a += weight * a + last * values[outcome, first]
            total_b += weight * b + last * values[outcome, second]
            total_c += weight * c + last * values[outcome, third]
            result[number, third], result[number, second] = total_c, total_b
            result[number, first] = total_a
            # No number: nothing times a value of -inf.
            if not np.isfinite(total_a + total_b + total_c):
                part = slice(indptr[row], indptr[row + 1])
                kernel_row(factual, outcome, indices[part], q[part], work, kernel)
                some = slice(first, third + 1)
                accumulate(indices[part], kernel, 1.0, values[:, some], result[number, some])
    return result


@within
def _line_up(observed: Any, table: Any, rivals: Any, n: int, line: Any) -> tuple[int, float]:
    """Sort the clocks that p has too by when they start, those that do before o rings; how many
    these are, and when o rings."""
    (factual, outcome), (_, indices, q), (starts, entries) = observed, table, line
    n_started, finish = 0, np.inf
    for i in range(n):
        finish = factual[outcome] / q[rivals[i]] if indices[rivals[i]] == outcome else finish
    for i in range(n):
        j = rivals[i]
        rival, own = factual[np.uint32(indices[j])], q[j]
        if indices[j] != outcome and starts_before(rival, own, finish):
            start, place = rival / own, n_started
            while place > 0 and starts[place - 1] > start:
                starts[place], entries[place] = starts[place - 1], entries[place - 1]
                place -= 1
            starts[place], entries[place] = start, j
            n_started += 1
    return n_started, finish
