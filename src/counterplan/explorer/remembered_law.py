"""Counterfactual rows of discrete models, kept for the next question about the same episode.

Nearly all the work of evaluating a plan goes into the rows of the actions it takes and into
expectations under them. It shares the rows with the plan before at every step that was not edited,
and the expectations behind the last edit. Both are kept while there is room, those used last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray
from counterplan.counterfactual.laws import CounterfactualLaw, RowIds
from counterplan.explorer.kept import Memo
from counterplan.scm.rows import Rows


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows, by their ids in rising order."""

    ids: RowIds
    rows: Rows

    @property
    def nbytes(self) -> int:
        rows = self.rows
        arrays = (self.ids, rows.indptr, rows.indices, rows.probabilities)
        return sum(array.nbytes for array in arrays)

    def taken(self, ids: RowIds) -> Rows | None:
        """The rows of these ids, None if one of them is not here."""
        if np.array_equal(ids, self.ids):
            return self.rows
        places = np.searchsorted(self.ids, ids)
        if (places == len(self.ids)).any() or (self.ids[places] != ids).any():
            return None
        starts, ends = self.rows.indptr[places], self.rows.indptr[places + 1]
        indptr = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int64)
        entries = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], ends - starts)
        return Rows(indptr, self.rows.indices[entries], self.rows.probabilities[entries])


@dataclass(frozen=True, eq=False)
class RememberedLaw:
    """A law whose rows and expectations about one episode are kept.

    episode  its name
    first    the step of the episode that is called 0 here: to ask about the rest of it alone
    """

    law: CounterfactualLaw
    episode: str | None
    memo: Memo
    first: int = 0

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.law.row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        from counterplan.scm.gumbel_kernel import row_expectations

        place = (self.episode, self.first + t, rows.tobytes(), values.shape, values.tobytes())
        for known in self.memo.find(place):
            return np.asarray(known)
        found = self.rows_at(t, rows)
        result = np.zeros((int(self.row_of.max()) + 1, values.shape[1]))
        result[rows] = row_expectations(found.indptr, found.indices, found.probabilities, values)
        self.memo.keep(place, result)
        return result

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        place = (self.episode, self.first + t)
        for block in self.memo.find(place):
            if (known := block.taken(rows)) is not None:
                return cast(Rows, known)
        found = self.law.rows_at(self.first + t, rows)
        self.memo.keep(place, Block(rows, found))
        return found
