"""What the parts of a tabular model must look like, with errors that name the offending place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.row_checks import CheckedRows
from counterplan.scm.rows import RowCollector, Rows

# Sums of single-precision rows miss 1 by about 1e-7: such rows are normalised, worse ones refused.
SUM_TOLERANCE = 1e-6
ROUNDING = 1e-12


def collect_rows(
    transitions: ArrayLike | Sequence[Any] | CheckedRows,
) -> tuple[Rows, NDArray[np.int32]]:
    """Distinct normalised rows, and the (S, A) table of which pair has which."""
    if isinstance(transitions, CheckedRows):
        return transitions
    matrices = _matrices(transitions)
    A = len(matrices)
    S = matrices[0].shape[0]
    collector = RowCollector()
    row_of = np.empty((S, A), dtype=np.int32)
    for action, given in enumerate(matrices):
        matrix = _stochastic(given, action, S)
        indices = matrix.indices.astype(np.int32)
        for state in range(S):
            start, end = matrix.indptr[state], matrix.indptr[state + 1]
            row_of[state, action] = collector.add(indices[start:end], matrix.data[start:end])
    return collector.rows(), row_of


def _matrices(transitions: ArrayLike | Sequence[Any]) -> Sequence[Any]:
    """One (S, S) matrix per action, from either input form."""
    if isinstance(transitions, list | tuple) and any(hasattr(m, "tocsr") for m in transitions):
        for action, matrix in enumerate(transitions):
            if not hasattr(matrix, "tocsr"):
                raise InputError(
                    f"transitions of action {action} are a {type(matrix).__name__}, others are "
                    "sparse: give one scipy.sparse (S, S) matrix for each action"
                )
        return transitions
    try:
        dense = np.asarray(transitions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "transitions must be an (S, A, S) array or a list of A scipy.sparse (S, S) matrices"
        ) from None
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise InputError(f"transitions have shape {dense.shape}, expected (S, A, S)")
    return [dense[:, action, :] for action in range(dense.shape[1])]


def _stochastic(given: Any, action: int, n_states: int) -> Any:
    """`given` as a CSR matrix whose rows sum to 1, or an error that says which does not."""
    from scipy.sparse import csr_array

    if getattr(given, "shape", None) != (n_states, n_states) or n_states == 0:
        raise InputError(
            f"transitions of action {action}: expected an ({n_states}, {n_states}) matrix, got "
            f"{getattr(given, 'shape', type(given).__name__)}"
        )
    matrix = csr_array(given, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    state_of = np.repeat(np.arange(n_states), np.diff(matrix.indptr))
    bad = np.flatnonzero(~(matrix.data >= 0.0) | np.isinf(matrix.data))
    if bad.size:
        entry = int(bad[0])
        raise InputError(
            f"transitions: P(state {matrix.indices[entry]} | state {state_of[entry]}, action "
            f"{action}) is {matrix.data[entry]}: probabilities must be finite and not negative"
        )
    sums = np.bincount(state_of, weights=matrix.data, minlength=n_states)
    wrong = np.flatnonzero(np.abs(sums - 1.0) > SUM_TOLERANCE)
    if wrong.size:
        state = int(wrong[0])
        more = f" (and {wrong.size - 1} more states of this action)" if wrong.size > 1 else ""
        raise InputError(
            f"transitions of state {state}, action {action} sum to {sums[state]:.9g}, not 1{more}: "
            "normalise the rows"
        )
    matrix.data /= sums[state_of]
    return matrix


def check_rewards(values: ArrayLike, shape: tuple[int, int]) -> FloatArray:
    """(S, A) numbers, -inf for pairs that must not occur."""
    rewards = numbers(values, "rewards")
    if rewards.shape != shape:
        raise InputError(
            f"rewards have shape {rewards.shape}, but the transitions have (S, A) = {shape}"
        )
    bad = np.argwhere(np.isnan(rewards) | (rewards == np.inf))
    if bad.size:
        state, action = (int(i) for i in bad[0])
        raise InputError(
            f"reward of state {state}, action {action} is {rewards[state, action]}: rewards are "
            "finite numbers, or -inf for pairs that must not occur"
        )
    return rewards


def check_final_rewards(values: ArrayLike | None, n_states: int) -> FloatArray | None:
    """(S,) numbers, or None."""
    if values is None:
        return None
    rewards = numbers(values, "final_rewards")
    if rewards.shape != (n_states,):
        raise InputError(f"final_rewards have shape {rewards.shape}, expected ({n_states},)")
    bad = np.flatnonzero(np.isnan(rewards) | (rewards == np.inf))
    if bad.size:
        raise InputError(f"final reward of state {bad[0]} is {rewards[bad[0]]}: must be a number")
    return rewards


def check_mask(values: ArrayLike | None, shape: tuple[int, int]) -> BoolArray | None:
    """(S, A) booleans, or None."""
    if values is None:
        return None
    mask = np.array(values)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise InputError(
            f"admissible must be booleans of shape {shape}, got {mask.dtype} {mask.shape}"
        )
    return mask


def check_visits(values: ArrayLike | None, shape: tuple[int, int]) -> IntArray | None:
    """(S, A) counts, or None."""
    if values is None:
        return None
    visits = np.array(values)
    if visits.shape != shape or visits.dtype != np.int64 or not (visits >= 0).all():
        raise InputError(
            f"visits must be whole numbers from 0 up of shape {shape}, got {visits.dtype} "
            f"{visits.shape}"
        )
    return visits


def check_distribution(values: ArrayLike | None, n_states: int) -> FloatArray | None:
    """(S,) probabilities, normalised, or None."""
    if values is None:
        return None
    initial = numbers(values, "initial")
    if initial.shape != (n_states,):
        raise InputError(f"initial has shape {initial.shape}, expected ({n_states},)")
    if not (initial >= 0).all() or abs(initial.sum() - 1.0) > SUM_TOLERANCE:
        raise InputError(
            f"initial is not a distribution: smallest entry {initial.min()}, sum {initial.sum()}; "
            "normalise it"
        )
    # What is normalised already stays as it is, so that a stored model is loaded bit for bit.
    total = initial.sum()
    return initial if abs(total - 1.0) <= ROUNDING else np.asarray(initial / total)


def check_labels(values: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    """One name for each, or None."""
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{what} labels must be a list of names, got {values!r}")
    labels = tuple(str(value) for value in values)
    if len(labels) != count:
        raise InputError(f"{len(labels)} {what} labels given for {count} {what}s")
    if len(set(labels)) < count:
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InputError(f"two {what}s have the label {twice!r}: give each its own")
    return labels


def check_index(value: object, count: int, what: str) -> None:
    """Raise unless the value is one of a model's states or actions."""
    if not isinstance(value, int | np.integer) or not 0 <= value < count:
        raise InputError(f"unknown {what} {value}: the model has {what}s 0..{count - 1}")


def numbers(values: ArrayLike, name: str) -> FloatArray:
    """`values` as a new array of floats, or an error that names it."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers") from None
