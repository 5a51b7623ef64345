"""What distinct rows must look like where they come from outside, such as a file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.errors import InputError
from counterplan.scm.rows import Rows

# Rows were normalised when the model was made: what is left is rounding.
SUM_TOLERANCE = 1e-9


class CheckedRows(NamedTuple):
    """Distinct rows, and the (S, A) table of which pair has which; only `check_rows` makes it."""

    rows: Rows
    row_of: NDArray[np.int32]


def check_rows(rows: Rows, row_of: ArrayLike) -> CheckedRows:
    """Raise unless the rows are distributions over the states and every pair has one."""
    table = np.asarray(row_of)
    if table.ndim != 2 or 0 in table.shape or not np.issubdtype(table.dtype, np.integer):
        raise InputError(f"row_of must hold whole numbers (S, A), got {table.dtype} {table.shape}")
    _check_layout(rows, n_states=table.shape[0])
    if table.min() < 0 or table.max() >= len(rows):
        state, action = np.argwhere((table < 0) | (table >= len(rows)))[0]
        raise InputError(
            f"row_of names row {table[state, action]} for state {state}, action {action}, but "
            f"rows are 0..{len(rows) - 1}"
        )
    checked = CheckedRows(rows, table.astype(np.int32))
    _check_probabilities(checked)
    return checked


def _check_layout(rows: Rows, n_states: int) -> None:
    indptr, indices = rows.indptr, rows.indices
    if any(array.ndim != 1 for array in (indptr, indices, rows.probabilities)):
        raise InputError("rows: indptr, indices and probabilities must have one dimension")
    if len(indices) != len(rows.probabilities):
        raise InputError(
            f"rows: {len(indices)} indices but {len(rows.probabilities)} probabilities"
        )
    if len(indptr) < 2 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise InputError(f"rows: indptr must run from 0 to the {len(indices)} entries")
    if (np.diff(indptr) < 1).any():
        raise InputError(f"rows: row {np.flatnonzero(np.diff(indptr) < 1)[0]} has no entries")
    if indices.min() < 0 or indices.max() >= n_states:
        outside = indices[(indices < 0) | (indices >= n_states)][0]
        raise InputError(f"rows: next state {outside} is not one of the states 0..{n_states - 1}")
    within = np.ones(len(indices), dtype=np.bool_)
    within[indptr[:-1]] = False
    falling = np.flatnonzero(within[1:] & (np.diff(indices) <= 0))
    if falling.size:
        row = np.searchsorted(indptr, falling[0] + 1, side="right") - 1
        raise InputError(f"rows: the next states of row {row} are not in ascending order")


def _check_probabilities(checked: CheckedRows) -> None:
    rows = checked.rows
    bad = np.flatnonzero(~((rows.probabilities > 0.0) & (rows.probabilities <= 1.0)))
    if bad.size:
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        raise InputError(
            f"transitions: P(state {rows.indices[bad[0]]} | {_pair(checked, row)}) is "
            f"{rows.probabilities[bad[0]]}: stored probabilities lie above 0 and up to 1"
        )
    sums = np.add.reduceat(rows.probabilities, rows.indptr[:-1])
    wrong = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    if wrong.size:
        raise InputError(
            f"transitions of {_pair(checked, int(wrong[0]))} sum to {sums[wrong[0]]:.9g}, not 1"
        )


def _pair(checked: CheckedRows, row: int) -> str:
    """The first pair that has the row, in words."""
    pairs = np.argwhere(checked.row_of == row)
    return f"state {pairs[0][0]}, action {pairs[0][1]}" if pairs.size else f"the unused row {row}"
