"""Distinct probability rows in compressed form.

Different (state, action) pairs often share one row: absorbing states, estimates without data,
inadmissible actions. What depends on a row alone is computed once for each distinct one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Rows:
    """Row r holds probabilities[indptr[r]:indptr[r + 1]] at the states indices[same range].

    indptr         (R + 1,) where each row starts
    indices        (nnz,) next states, ascending within a row
    probabilities  (nnz,) positive
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    probabilities: FloatArray

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def slice(self, row: int) -> tuple[NDArray[np.int32], FloatArray]:
        start, end = self.indptr[row], self.indptr[row + 1]
        return self.indices[start:end], self.probabilities[start:end]

    def dense(self, row: int, n_states: int) -> FloatArray:
        indices, probabilities = self.slice(row)
        vector = np.zeros(n_states)
        vector[indices] = probabilities
        return vector


class RowCollector:
    """Gathers rows one by one and keeps each distinct one once."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._indices: list[NDArray[np.int32]] = []
        self._probabilities: list[FloatArray] = []

    def add(self, indices: NDArray[np.int32], probabilities: FloatArray) -> int:
        """The id of this row, new or known."""
        key = indices.tobytes() + probabilities.tobytes()
        row = self._ids.setdefault(key, len(self._ids))
        if row == len(self._indices):
            self._indices.append(indices)
            self._probabilities.append(probabilities)
        return row

    def rows(self) -> Rows:
        lengths = [len(indices) for indices in self._indices]
        return Rows(
            indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            indices=np.concatenate(self._indices),
            probabilities=np.concatenate(self._probabilities),
        )
