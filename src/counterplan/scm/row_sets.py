"""Sets that the rows of a tabular model lie in: what its data leaves open.

    l_i <= P(i | s, a) <= u_i      for every pair (s, a) and next state i of its row

    credible   the Dirichlet posterior of the row: entry i has the marginal Beta(a_i, A - a_i) with
               a_i = prior + count and A their sum
    pac        Clopper-Pearson limits of the counts alone: whatever the true rows are, all of them
               lie in their sets with probability 1 - delta over the data
    gamma      q_i / Gamma <= P(i) <= Gamma q_i: a hidden cause may make any outcome so much less or
               more likely
    box        your own

Levels are simultaneous: the chance of missing is divided evenly among all limits of the rows that
were seen. What the model rules out stays impossible: a next state without probability (no data and
no prior) is in no set. A set holds a single row where nothing is open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.estimate import Evidence
from counterplan.scm.tabular import ROUNDING, TabularMDP, numbers


@dataclass(frozen=True, eq=False)
class RowSets:
    """Limits of every probability of a model's rows.

    row_of   (S, A) which set belongs to a pair
    indptr   (R + 1,) where each set starts in
    indices  (nnz,) next states, and
    lower    (nnz,) the limits of their probabilities
    upper
    words    what the sets are, for people
    """

    row_of: NDArray[np.int32]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    lower: FloatArray
    upper: FloatArray
    words: str = "your own limits"

    def __repr__(self) -> str:
        return f"RowSets(rows={len(self.indptr) - 1:,}, words={self.words!r})"

    def __post_init__(self) -> None:
        for bad in np.flatnonzero(~((self.lower >= 0.0) & (self.lower <= self.upper))):
            row = int(np.searchsorted(self.indptr, bad, side="right")) - 1
            raise InputError(
                f"row sets: P(state {self.indices[bad]} | {self._pair(row)}) lies between "
                f"{self.lower[bad]} and {self.upper[bad]}: limits go up, from 0"
            )
        for name, limits, side in (("lower", self.lower, 1.0), ("upper", self.upper, -1.0)):
            sums = np.add.reduceat(limits, self.indptr[:-1])
            for off in np.flatnonzero(side * (sums - 1.0) > 1e-9):
                raise InputError(
                    f"row sets: the {name} limits of {self._pair(int(off))} sum to "
                    f"{sums[off]:.9g}, so no distribution lies between them"
                )

    def _pair(self, row: int) -> str:
        state, action = np.argwhere(self.row_of == row)[0]
        return f"state {state}, action {action}"

    @classmethod
    def credible(cls, mdp: TabularMDP, level: float = 0.95) -> Self:
        """Every probability lies in its set with posterior probability `level`, all at once."""
        from scipy.stats import beta

        known = Evidence.of(mdp, "RowSets.credible")
        miss = _miss(1.0 - _share(level, "level"), known)
        rest = known.totals(known.posterior) - known.posterior
        with np.errstate(invalid="ignore"):
            lower = beta.ppf(miss, known.posterior, rest)
            upper = beta.isf(miss, known.posterior, rest)
        return cls._around(known, lower, upper, f"{level:.0%} credible sets")

    @classmethod
    def pac(cls, mdp: TabularMDP, delta: float = 0.05) -> Self:
        """All true rows lie in their sets with probability 1 - delta, whatever they are."""
        from scipy.stats import beta

        known = Evidence.of(mdp, "RowSets.pac")
        miss = _miss(_share(delta, "delta"), known)
        seen, rest = known.counts, known.totals(known.counts) - known.counts
        lower = np.where(seen > 0, beta.ppf(miss, np.maximum(seen, 1e-9), rest + 1), 0.0)
        upper = np.where(rest > 0, beta.isf(miss, seen + 1, np.maximum(rest, 1e-9)), 1.0)
        words = f"rows within their counts' limits, all with probability {1.0 - delta:.0%}"
        return cls._around(known, lower, upper, words)

    @classmethod
    def gamma(cls, mdp: TabularMDP, gamma: float) -> Self:
        """Hidden causes make an outcome up to `gamma` times as likely, or as unlikely."""
        indptr, indices, q = mdp.rows.arrays
        return cls(mdp.row_of, indptr, indices, q, q, "known rows").widened(gamma)

    def widened(self, gamma: float) -> Self:
        """The same sets where hidden causes may add a factor of up to `gamma`."""
        factor = float(numbers(gamma, "gamma"))
        if not 1.0 <= factor < np.inf:
            raise InputError(f"gamma is {gamma}: expected a number from 1 up")
        words = f"hidden causes up to a factor of {factor:g}"
        if self.words != "known rows":
            words = f"{self.words}, {words}"
        upper = np.minimum(1.0, factor * self.upper)
        return replace(self, lower=self.lower / factor, upper=upper, words=words)

    @classmethod
    def box(cls, mdp: TabularMDP, lower: ArrayLike, upper: ArrayLike) -> Self:
        """Limits (S, A, S) of your own; they count where the model's own rows have entries."""
        S, A = mdp.row_of.shape
        limits = [
            numbers(given, f"{name} limits") for given, name in ((lower, "lower"), (upper, "upper"))
        ]
        for array in limits:
            if array.shape != (S, A, S):
                raise InputError(f"row sets: limits have shape {array.shape}, expected {(S, A, S)}")
        ids = mdp.row_of.ravel()
        sizes = np.diff(mdp.rows.indptr)[ids]
        indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        places = np.concatenate([np.arange(*mdp.rows.indptr[row : row + 2]) for row in ids])
        indices, pairs = mdp.rows.indices[places], np.repeat(np.arange(S * A), sizes)
        low, high = (array.reshape(S * A, S)[pairs, indices] for array in limits)
        row_of = np.arange(S * A, dtype=np.int32).reshape(S, A)
        return cls(row_of, indptr, indices, low, high)

    @classmethod
    def _around(cls, known: Evidence, lower: Any, upper: Any, words: str) -> Self:
        """Limits that hold the model's own rows too."""
        # A state that is the only one is certain: its marginal has no other to share with.
        own = known.mean.rows.probabilities
        alone = own >= 1.0 - ROUNDING
        low = np.where(alone, 1.0, np.fmin(lower, own))
        high = np.where(alone, 1.0, np.fmax(upper, own))
        return cls(known.row_of, known.indptr, known.indices, low, high, words)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """As compiled functions take them."""
        return self.indptr, self.indices, self.lower, self.upper

    def dense(self, state: int, action: int) -> FloatArray:
        """(2, S) the least and largest probabilities of a pair's next states."""
        row = self.row_of[state, action]
        part = slice(self.indptr[row], self.indptr[row + 1])
        result = np.zeros((2, len(self.row_of)))
        result[:, self.indices[part]] = self.lower[part], self.upper[part]
        return result

    def check(self, mdp: TabularMDP) -> None:
        """Raise unless the sets are those of such a model."""
        if self.row_of.shape != mdp.row_of.shape:
            raise InputError(
                f"the row sets are for (S, A) = {self.row_of.shape}, but the model has "
                f"{mdp.row_of.shape}"
            )


def _miss(chance: float, known: Evidence) -> float:
    """The chance of missing that each limit of a row with data gets."""
    return chance / max(1, 2 * int((known.totals(known.counts) > 0).sum()))


def _share(value: float, name: str) -> float:
    number = float(numbers(value, name))
    if not 0.0 < number < 1.0:
        raise InputError(f"{name} is {value}: expected a number between 0 and 1")
    return number
