"""Checks of the numbers that processes are made of."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError

# Printed matrices are rounded, so their rows sum to one only about.
ROW_SUM_TOLERANCE = 1e-6


def number(value: object, name: str, least: float = -math.inf, above: bool = False) -> float:
    """A finite number from `least` up (`above`: beyond it), or an error that names it."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(found):
        raise InputError(f"{name} must be finite, got {found}")
    if above and found <= least:
        raise InputError(f"{name} must be greater than {least:g}, got {found:g}")
    if found < least:
        raise InputError(f"{name} must be at least {least:g}, got {found:g}")
    return found


def vector(values: ArrayLike, name: str, size: int | None = None) -> FloatArray:
    """Finite numbers (size,); a single number stands for all of them."""
    try:
        array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or a list of numbers, got {values!r}") from None
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{name} must be a number or a list of numbers, got shape {array.shape}")
    if size is not None and array.size == 1:
        array = np.repeat(array, size)
    if size is not None and array.size != size:
        raise InputError(f"{name} must have {size} numbers, got {array.size}")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(f"{name} number {int(bad[0])} is {array[bad[0]]}: must be finite")
    return array


def stochastic_matrix(values: ArrayLike, name: str, columns: int | None = None) -> FloatArray:
    """Rows that are distributions: (M, M), or (M, columns); scaled to sum to one exactly."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be rows of numbers of the same length") from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise InputError(f"{name} must be a table of rows, got shape {matrix.shape}")
    wanted = matrix.shape[0] if columns is None else columns
    if matrix.shape[1] != wanted:
        raise InputError(f"{name} must have {wanted} columns, got shape {matrix.shape}")
    bad = np.argwhere(~((matrix >= 0.0) & (matrix <= 1.0 + ROW_SUM_TOLERANCE)))
    if bad.size:
        row, column = (int(i) for i in bad[0])
        raise InputError(
            f"{name} row {row}, column {column} is {matrix[row, column]}: a probability lies "
            "between 0 and 1"
        )
    sums = matrix.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)
    if off.size:
        row = int(off[0])
        raise InputError(f"{name} row {row} sums to {sums[row]:.6g}: each row must sum to 1")
    return np.asarray(matrix / sums[:, None], dtype=np.float64)
