"""The law of the counterfactual process: P_{tau,t}(s' | s, a) of Eq. 3, one step at a time.

A dynamic program asks a law for expected values, a forward pass for rows; neither ever holds the
(T, S, A, S) array. Pairs that share a row of the MDP share a counterfactual row, so everything is
indexed by the ids in `row_of`.

The exact, the sampled and a user's own law are distributions. `ExtremeLaw` is what any causal model
of the MDP allows: knowing only that (s_t, a_t), with row p, led to o, the counterfactual row of
another pair with row q can be any c with

    sum_i c_i = 1,      0 <= c_i <= min(1, q_i / p_o)

(the mass q_i - c_i p_o left for the other factual outcomes must not be negative; it then sums to
1 - p_o, so the rest can be coupled in any way). Counterfactual stability further sets c_i = 0 for
every i != o with q_o / p_o >= q_i / p_i. Monotone models are stable, and to have seen o makes o no
less likely, and no other outcome of the factual row more likely: c_o >= q_o, and c_i <= q_i for
i != o with p_i > 0 (which Gumbel-Max is not: docs/findings.md). The smallest expectation of h fills
the states from the lowest h up to their caps; the largest, from the highest down.

Rows that are known to lie between l and u only (`RowSets`) allow c = x / p_o with

    sum x = p_o,   sum y = 1 - p_o,   x, y >= 0,   l <= x + y <= u

that is, x <= u, and beyond l at most p_o - max(0, sum l - (1 - p_o)) in all: the same filling with
that one more limit. A smaller p_o allows more, so its lower limit is the extreme. Stability and
monotonicity then rule out what every row of the sets rules out. Every step has rows of its own
here; where steps share one, what holds for all of them at once lies inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit
from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.gumbel import (
    GumbelMaxSCM,
    expected_values,
    kernel_rows,
    row_expectations,
    sort_pairs,
    starts_before,
    winner_shares,
)
from counterplan.scm.tabular import SUM_TOLERANCE, Rows, TabularMDP, numbers

if TYPE_CHECKING:
    from counterplan.scm.row_sets import RowSets

RowIds = NDArray[np.int32]


@runtime_checkable
class DiscreteSCM(Protocol):
    """A causal model of a tabular MDP: all that a user's own must offer."""

    @property
    def mdp(self) -> TabularMDP: ...

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> FloatArray:
        """(S,) distribution of the next state after (s, a), knowing what (s_obs, a_obs) led to."""
        ...


class Expectation(Protocol):
    """Expected values one step ahead."""

    @property
    def row_of(self) -> NDArray[np.int32]:
        """(S, A) id of the counterfactual row of a pair."""
        ...

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        """(rows, C): for each row id in `rows`, its expectation of each column of values (S, C).
        Values may be -inf, never +inf or nan; where no row leads, they may be anything."""
        ...


class CounterfactualLaw(Expectation, Protocol):
    """A single distribution per pair, so that paths can be followed forward."""

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        """The counterfactual rows of these ids at step t, in this order; entries may be zero."""
        ...


@dataclass(frozen=True, eq=False)
class _TabularLaw:
    """An episode of an MDP, whose pairs share counterfactual rows as they share rows."""

    mdp: TabularMDP
    episode: Episode

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.mdp.row_of

    def _observed(self, t: int) -> tuple[FloatArray, int]:
        """The row of the pair observed at step t, and the state that followed."""
        states, actions = self.episode.states, self.episode.actions
        known = self.__dict__.get("_known")
        if known is None or known[0] != t:
            known = t, self.mdp.row(states[t], actions[t]), int(states[t + 1])
            self.__dict__["_known"] = known  # a step is asked about in parts
        return known[1], known[2]


@dataclass(frozen=True, eq=False)
class ExactLaw(_TabularLaw):
    """The Gumbel-Max model's, in closed form (`scm.gumbel`)."""

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        table = self.mdp.rows.arrays
        return np.asarray(expected_values(*self._observed(t), *table, rows, values))

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        return Rows(*kernel_rows(*self._observed(t), *self.mdp.rows.arrays, rows))


@dataclass(frozen=True, eq=False)
class SampledLaw(_TabularLaw):
    """The paper's estimate (Eq. 5): the winners' shares among `samples` posterior noise vectors,
    the same vectors for all pairs of a step."""

    samples: int
    seed: int

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        states, action = self.episode.states, self.episode.actions[t]
        # One generator per step: a second visit of the step sees the same noise.
        rng = np.random.default_rng([self.seed, t])
        scm = GumbelMaxSCM(self.mdp)
        noise = scm.sample_noise(states[t], action, states[t + 1], self.samples, rng)
        indptr, indices, probabilities = self.mdp.rows.arrays
        return Rows(*winner_shares(noise, indptr, indices, np.log(probabilities), rows))

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        return expect_by_rows(self, t, rows, values)


@dataclass(frozen=True, eq=False)
class RowwiseLaw:
    """A user's own causal model, asked for one row at a time."""

    scm: DiscreteSCM
    episode: Episode

    @property
    def row_of(self) -> NDArray[np.int32]:
        # The row may depend on the pair in ways the MDP does not show: every pair has its own id.
        shape = self.scm.mdp.row_of.shape
        return np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        states, actions = self.episode.states, self.episode.actions
        observed = (int(states[t]), int(actions[t]), int(states[t + 1]))
        pairs = [divmod(int(row), self.scm.mdp.n_actions) for row in rows]
        dense = [self._checked_row(observed, pair) for pair in pairs]
        indices = [np.flatnonzero(row) for row in dense]
        return Rows(
            indptr=np.concatenate([[0], np.cumsum([len(i) for i in indices])]).astype(np.int64),
            indices=np.concatenate(indices).astype(np.int32),
            probabilities=np.concatenate([row[i] for row, i in zip(dense, indices, strict=True)]),
        )

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        return expect_by_rows(self, t, rows, values)

    def _checked_row(self, observed: tuple[int, int, int], pair: tuple[int, int]) -> FloatArray:
        """A row that is no distribution would become a wrong value that looks like any other."""
        row = numbers(self.scm.counterfactual_row(*observed, *pair), "a counterfactual row")
        if row.shape != (self.scm.mdp.n_states,):
            problem = f"has shape {row.shape}, expected ({self.scm.mdp.n_states},)"
        elif not (row >= 0.0).all() or abs(row.sum() - 1.0) > SUM_TOLERANCE:
            problem = f"is no distribution: smallest entry {row.min()}, sum {row.sum():.9g}"
        else:
            return row
        raise InputError(
            f"{type(self.scm).__name__}: the counterfactual row of (state {pair[0]}, action "
            f"{pair[1]}) after (state {observed[0]}, action {observed[1]} -> state {observed[2]}) "
            f"{problem}; check the model with testing.check_scm"
        )


def law_of(scm: DiscreteSCM, episode: Episode) -> CounterfactualLaw:
    """The exact law of a causal model, given an episode."""
    if isinstance(scm, GumbelMaxSCM):
        return ExactLaw(scm.mdp, episode)
    return RowwiseLaw(scm, episode)


def expect_by_rows(law: CounterfactualLaw, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
    """The expectations of a law that only knows its rows."""
    return np.asarray(row_expectations(*law.rows_at(t, rows).arrays, values))


# Mass below this is what rounding left over, not something to place in a state worth -inf.
ROUNDING = 1e-14


# What causal models are assumed to be, as compiled functions take it.
ASSUMPTIONS = {"none": 0, "stable": 1, "monotone": 2}
STABLE, MONOTONE = 1, 2
# A probability of zero at least allows everything; the smallest number there is stands for it, so
# that no other probability is taken for it.
LEAST = 5e-324


@njit(cache=True, nogil=True)
def caps_of_row(
    factual: Any, outcome: int, entries: Any, assume: int, within: Any, beyond: Any
) -> float:
    """Write the largest c_i of the entries of one row into `within`, and how much more of it counts
    against the limit for all into `beyond`; the least c_o is returned, and left out of both."""
    indices, lower, upper = entries
    finish, least = np.inf, max(factual[0, outcome], LEAST)
    for j in range(indices.shape[0]):
        if indices[j] == outcome and lower[j] > 0.0:
            finish = factual[1, outcome] / lower[j]
    kept = 0.0
    for j in range(indices.shape[0]):
        i = indices[j]
        within[j] = beyond[j] = 0.0
        if i != outcome and assume >= STABLE and not starts_before(factual[0, i], upper[j], finish):
            continue  # q_o / p_o >= q_i / p_i, decided as the Gumbel-Max kernel decides it
        within[j], beyond[j] = lower[j] / least, (upper[j] - lower[j]) / least
        if assume == MONOTONE and i == outcome:
            kept = lower[j]
            within[j] -= kept
        elif assume == MONOTONE and factual[1, i] > 0.0:
            within[j] = min(within[j], upper[j])
            beyond[j] = min(beyond[j], upper[j] - within[j])
    return kept


@njit(cache=True, nogil=True)
def extreme_values(
    factual: Any, outcome: int, table: Any, rows: Any, values: Any, sign: float, assume: int
) -> Any:
    """(rows, C) extreme expectations of values (S, C) for the row ids in `rows`.

    factual  (2, S) the least and the largest probability of each outcome of the observed pair
    table    indptr, indices, and the least and the largest probabilities
    sign     1 for the lowest, -1 for the highest expectation
    """
    indptr, indices, lower, upper = table
    columns = values.shape[1]
    result = np.zeros((rows.shape[0], columns))
    widest = 0
    for row in rows:
        widest = max(widest, indptr[row + 1] - indptr[row])
    within, beyond = np.empty(widest), np.empty(widest)
    keys, order = np.empty(widest), np.empty(widest)
    least = max(factual[0, outcome], LEAST)
    for number in range(rows.shape[0]):
        part = slice(indptr[rows[number]], indptr[rows[number] + 1])
        entries = indices[part], lower[part], upper[part]
        size = entries[0].shape[0]
        kept = caps_of_row(factual, outcome, entries, assume, within, beyond)
        # The rest of the row must hold what the lower limits ask for.
        limit = 1.0 - max(0.0, lower[part].sum() - (1.0 - least)) / least
        for c in range(columns):
            for j in range(size):
                keys[j], order[j] = sign * values[entries[0][j], c], j
            sort_pairs(keys[:size], order[:size])
            left, extra, last = 1.0 - kept, limit, outcome if kept > 0.0 else -1
            total = kept * values[outcome, c] if kept > 0.0 else 0.0
            lowest = highest = values[outcome, c] if kept > 0.0 else np.nan
            for position in range(size):
                j = int(order[position])
                share = min(left, within[j])
                more = min(left - share, beyond[j], extra)
                if share + more > 0.0:
                    last = entries[0][j]
                    value = values[last, c]
                    total += (share + more) * value
                    left -= share + more
                    extra -= more
                    # A comparison with nan is never true.
                    lowest = lowest if lowest <= value else value
                    highest = highest if highest >= value else value
                    if left <= ROUNDING:
                        break
            if left > 0.0 and last >= 0:
                total += left * values[last, c]
            # A mean lies between what it is a mean of, whatever rounding says.
            result[number, c] = min(max(total, lowest), highest)
    return result


@dataclass(frozen=True, eq=False)
class ExtremeLaw(_TabularLaw):
    """The lowest (or highest) expectation over all causal models that fit the MDP.

    assume   none, or only models with counterfactual stability (stable), or monotone ones
    highest  take the highest instead of the lowest
    sets     over all rows in these sets too, None where the MDP's own are known
    """

    assume: str = "none"
    highest: bool = False
    sets: RowSets | None = None

    def __post_init__(self) -> None:
        if self.assume not in ASSUMPTIONS:
            raise InputError(f"assume is {self.assume!r}: expected one of {', '.join(ASSUMPTIONS)}")
        if self.sets is not None:
            self.sets.check(self.mdp)

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.mdp.row_of if self.sets is None else self.sets.row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        state, action = self.episode.states[t], self.episode.actions[t]
        if self.sets is None:
            indptr, indices, both = self.mdp.rows.arrays
            table, factual = (indptr, indices, both, both), np.tile(self._observed(t)[0], (2, 1))
        else:
            table, factual = self.sets.arrays, self.sets.dense(state, action)
        outcome = int(self.episode.states[t + 1])
        assume = ASSUMPTIONS[self.assume]
        sign = -1.0 if self.highest else 1.0
        return np.asarray(extreme_values(factual, outcome, table, rows, values, sign, assume))


@dataclass(frozen=True, eq=False)
class DoubtfulLaw:
    """A causal model that is believed with weight 1 - doubt at every step, its worst alternative
    with the rest: E = (1 - doubt) E_model + doubt min E."""

    believed: Expectation
    worst: ExtremeLaw
    doubt: float

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.worst.row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        own, places = np.unique(self._believed_rows[rows], return_inverse=True)
        expected = self.believed.expect(t, own, values)[places]
        worst = self.worst.expect(t, rows, values)
        if self.doubt == 1.0:  # nothing times an infinite loss is no number
            return worst
        return np.asarray(self.doubt * worst + (1.0 - self.doubt) * expected)

    @cached_property
    def _believed_rows(self) -> RowIds:
        """The row of the model that pairs with a row of the sets have in common."""
        own = np.empty(int(self.row_of.max()) + 1, dtype=np.int32)
        own[self.row_of] = self.believed.row_of
        return own
