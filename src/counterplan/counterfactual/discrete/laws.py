"""The law of the counterfactual process: P_{tau,t}(s' | s, a) of Eq. 3, one step at a time.

A dynamic program asks a law for expected values, a forward pass for rows; neither ever holds the
(T, S, A, S) array. Pairs that share a row of the MDP share a counterfactual row, so everything is
indexed by the ids in `row_of`.

Under a causal model the law is a distribution: the Gumbel-Max model's in closed form, sampled, or
a user's own. Without one it is what any causal model of the MDP allows: knowing only that
(s_t, a_t), with row p, led to o, the counterfactual row of another pair with row q can be any c
with

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

Between both lies doubt: E = (1 - doubt) E_model + doubt min E, at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import alone, within
from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.gumbel import (
    MARKS,
    GumbelMaxSCM,
    KeptRows,
    expected_values,
    find_entry,
    kernel_rows,
    quick_values,
    row_expectations,
    sort_pairs,
    sort_spread,
    starts_before,
    winner_shares,
)
from counterplan.scm.tabular import NOT_TURNED, SUM_TOLERANCE, Rows, TabularMDP, numbers

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


# Mass below this is what rounding left over, not something to place in a state worth -inf.
ROUNDING = 1e-14
# What causal models are assumed to be, as compiled functions take it.
ASSUMPTIONS = {"none": 0, "stable": 1, "monotone": 2}
STABLE, MONOTONE = 1, 2
# A probability of zero at least allows everything; the smallest number there is stands for it, so
# that no other probability is taken for it.
LEAST = 5e-324
# One order of all states is worth making where rows have together so many entries for each state,
# and a row has one in so many of them; and worth following until but one row in so many is full.
LONG, SKIPPED, FEW = 8, 32, 100
# What is left of a row of which nothing has been filled yet.
EMPTY = 2.0


@within
def caps_of_entry(factual: Any, is_outcome: bool, limits: Any, finish: float, assume: int) -> Any:
    """The largest c_i of one entry, and how much more of it counts against the limit for all; the
    least c_o is left out of both.

    factual  the least and the largest p_i, and the least p_o
    limits   the least and the largest q_i
    finish   the largest p_o / q_o
    """
    lower, upper = limits
    if assume >= STABLE and not is_outcome and not starts_before(factual[0], upper, finish):
        return 0.0, 0.0  # q_o / p_o >= q_i / p_i, decided as the Gumbel-Max kernel decides it
    within, beyond = lower / factual[2], (upper - lower) / factual[2]
    if assume == MONOTONE and is_outcome:
        within -= lower
    elif assume == MONOTONE and factual[1] > 0.0:
        within = min(within, upper)
        beyond = min(beyond, upper - within)
    return within, beyond


@within
def rank_states(law: Any, rows: Any, values: Any, states: Any, columns: int) -> Any:
    """(columns, n) some states, those that rows lead to, by rising values (S, C) (falling, for the
    highest expectation); empty where it does not pay.

    A row is filled from one end, and full after about p_o of its outcomes: so many long rows share
    one order of all states. Short ones are sorted one by one.
    """
    indptr, (doubt, sign, _, _) = law[1][0], law[5]
    entries, n = 0, states.shape[0]
    for row in rows:
        entries += indptr[row + 1] - indptr[row]
    long = entries >= LONG * n and SKIPPED * entries >= n * rows.shape[0]
    if doubt == 0.0 or not long:
        return np.empty((0, 0), dtype=np.int64)
    # Of equals the first: from rising states.
    among, keys = np.zeros(values.shape[0], dtype=np.bool_), np.empty(n)
    for state in states:
        among[state] = True
    result = np.empty((columns, n), dtype=np.int64)
    for c in range(columns):
        count = 0
        for state in range(values.shape[0]):
            if among[state]:
                keys[count], result[c, count] = sign * values[state, c], state
                count += 1
        sort_spread(keys, result[c])
    return result


@within
def known_lowest(
    least: float, table: Any, turned: Any, asked: Any, values: Any, ranked: Any
) -> Any:
    """What `extreme_values` gives where rows are known and nothing is assumed, to the last digit:
    many rows are filled side by side, state by state in order, until but few are not full.

    least   p_o
    turned  the rows by state, see `tabular.turned_rows`
    asked   ids of rows, and which columns, see `gumbel.expected_values`
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
                rest = _poured(row, probabilities[x] / least, value, left[row], cells)
                left[row] = rest
                unfilled -= np.int64(rest <= ROUNDING)
        for i in range(line.shape[0] if unfilled else 0):
            rank[line[i]] = i
        for i in range(count):
            row = rows[i]
            if left[row] > ROUNDING:
                _fill_on(row, least, table, values[:, c], (rank, passed), (left, cells))
            total, first, last = cells[row, 0], cells[row, 1], cells[row, 2]
            if left[row] > 0.0:
                total += left[row] * last
            # A mean lies between what it is a mean of, whatever rounding says.
            result[i, c] = min(max(total, min(first, last)), max(first, last))
            left[row] = 0.0
    return result


@within
def _poured(row: Any, cap: float, value: float, rest: float, cells: Any) -> float:
    """Fill a row, of which there is a rest, with an outcome, up to its largest c_i; the rest."""
    cells[row, 1] = value if rest == EMPTY else cells[row, 1]
    cells[row, 2] = value
    rest = min(rest, 1.0)
    share = min(rest, cap)
    cells[row, 0] += share * value
    return rest - share


@within
def _fill_on(row: int, least: float, table: Any, values: Any, place: Any, filled: Any) -> None:
    """Fill one row from a place in the line on, by taking again and again the first of its states
    that are left."""
    (indptr, indices, q, _), (rank, passed), (left, cells) = table, place, filled
    while left[row] > ROUNDING:
        at, entry = rank.shape[0], -1
        for j in range(indptr[row], indptr[row + 1]):
            if passed <= rank[indices[j]] < at:
                at, entry = rank[indices[j]], j
        if entry < 0:  # rows add up to nearly one
            break
        left[row] = _poured(row, q[entry] / least, values[indices[entry]], left[row], cells)
        passed = at + 1


@within
def _filled(
    row: Any, values: Any, line: Any, entry_of: Any, caps: Any, limit: float, kept: float
) -> float:
    """The expectation of values (S,) under a row that is filled in the order of a line.

    line   entries; or states, where entry_of (S,) tells which entry they are, -1 for none
    caps   factual, the least p_o, the largest p_o / q_o, the entry of o, and what is assumed
    limit  for all that lies beyond the lower limits, and `kept` the least c_o
    """
    targets, low, high = row
    factual, least, finish, at, assume = caps
    left, extra, last, total = 1.0 - kept, limit, -1, 0.0
    lowest = highest = np.nan
    if kept > 0.0:
        last = targets[at]
        lowest = highest = values[last]
        total = kept * values[last]
    for position in range(line.shape[0]):
        j = line[position]
        j = entry_of[j] if entry_of.shape[0] else j
        if j < 0:
            continue
        i = targets[j]
        own = factual[0, i], factual[1, i], least
        within, beyond = caps_of_entry(own, j == at, (low[j], high[j]), finish, assume)
        share = min(left, within)
        more = min(left - share, beyond, extra)
        if share + more > 0.0:
            last, value = i, values[i]
            total += (share + more) * value
            left -= share + more
            extra -= more
            # A comparison with nan is never true.
            lowest = lowest if lowest <= value else value
            highest = highest if highest >= value else value
            if left <= ROUNDING:
                break
    if left > 0.0 and last >= 0:
        total += left * values[last]
    # A mean lies between what it is a mean of, whatever rounding says.
    return min(max(total, lowest), highest)


@within
def extreme_values(factual: Any, outcome: int, table: Any, rows: Any, values: Any, how: Any) -> Any:
    """(rows, columns) extreme expectations of the first columns of values (S, C) for the row ids in
    `rows`.

    factual  (2, S) the least and the largest probability of each outcome of the observed pair
    table    indptr, indices, and the least and the largest probabilities
    how      1 for the lowest or -1 for the highest expectation, what is assumed, the states in
             order (see `rank_states`), and how many columns (see `gumbel.expected_values`)
    """
    indptr, indices, lower, upper = table
    sign, assume, ranked, (many, columns, fewer) = how
    n_states, shared = values.shape[0], ranked.shape[0] > 0
    result = np.zeros((rows.shape[0], columns))
    widest = 0
    for row in rows:
        widest = max(widest, indptr[row + 1] - indptr[row])
    keys, order = np.empty(widest), np.empty(widest, dtype=np.int64)
    entry_of = np.full(n_states if shared else 0, -1, dtype=np.int64)
    least = max(factual[0, outcome], LEAST)
    for number in range(rows.shape[0]):
        part = slice(indptr[rows[number]], indptr[rows[number] + 1])
        targets, low, high = indices[part], lower[part], upper[part]
        size, at, finish, kept = targets.shape[0], find_entry(targets, outcome), np.inf, 0.0
        if at >= 0 and low[at] > 0.0:
            finish = factual[1, outcome] / low[at]
            kept = low[at] if assume == MONOTONE else 0.0
        asked = 0.0
        for j in range(size):  # in order, as plain Python and compiled code both do it
            asked += low[j]
        # The rest of the row must hold what the lower limits ask for. Added to 1 a rare outcome
        # would lose its digits.
        limit = max(0.0, 1.0 - max(0.0, (asked - 1.0) + least) / least)
        for j in range(size if shared else 0):
            entry_of[targets[j]] = j
        for c in range(columns if number < many else fewer):
            if not shared:
                for j in range(size):
                    keys[j], order[j] = sign * values[targets[j], c], j
                sort_pairs(keys[:size], order[:size])
            line = ranked[c] if shared else order[:size]
            caps = factual, least, finish, at, assume
            result[number, c] = _filled(
                (targets, low, high), values[:, c], line, entry_of, caps, limit, kept
            )
        for j in range(size if shared else 0):
            entry_of[targets[j]] = -1
    return result


@within
def put_factual(law: Any, state: int, action: int, factual: Any, there: bool) -> None:
    """Write what is known of the row of an observed pair into what holds zeros, (3, S): as it is
    believed to be, the least and the largest it may be; and marks of its states, see
    `gumbel.expected_values`. Or take it away again."""
    (starts, targets, p), (indptr, indices, lower, upper), _, row_of, own, _, _ = law
    rows, marks = factual
    row = row_of[state, action]
    for j in range(indptr[row], indptr[row + 1]):
        rows[1, indices[j]] = lower[j] if there else 0.0
        rows[2, indices[j]] = upper[j] if there else 0.0
    row = own[row] if own.shape[0] else row
    for j in range(starts[row], starts[row + 1]):
        rows[0, targets[j]] = p[j] if there else 0.0
        marks[targets[j] % MARKS] = there


@within
def expectations(law: Any, observed: Any, rows: Any, values: Any, ranked: Any, wanted: Any) -> Any:
    """(rows, columns) expectations of the first columns of values (S, C) for the row ids in `rows`.

    law       the believed rows (indptr, indices, probabilities); those of the limits (indptr,
              indices, lower, upper), and these turned (see `known_lowest`) where they are long and
              known, else empty; (S, A) which of the latter a pair has; which of the former each
              of them has, empty where they are the same; (doubt, sign, assume, quick); and what is
              kept of the believed rows, see `KeptRows.along`
    observed  what is known of the observed pair, see `put_factual`, what it led to, and where what
              is kept of it is
    ranked    see `rank_states`
    wanted    which columns, see `gumbel.expected_values`
    """
    believed, limits, turned, _, own, (doubt, sign, assume, quick), (_, kept) = law
    (known, marks), outcome, slot = observed
    many, columns, fewer = wanted
    worst, is_long = np.empty((0, 0)), ranked.shape[0] > 0 and turned[0].shape[0] > 0
    if is_long:
        asked = rows, wanted
        worst = known_lowest(known[1, outcome], limits, turned, asked, values, ranked)
    elif doubt > 0.0:
        how = sign, assume, ranked, wanted
        worst = extreme_values(known[1:], outcome, limits, rows, values, how)
    if doubt == 1.0:  # nothing times an infinite loss is no number
        return worst
    ids = rows
    if own.shape[0]:
        ids = np.empty(rows.shape[0], dtype=np.int32)
        for i in range(rows.shape[0]):
            ids[i] = own[rows[i]]
    led = outcome, kept[max(slot, 0), : kept.shape[1] if slot >= 0 else 0]
    is_quick = quick and is_long and led[1].shape[0] == 0
    for c in range(columns if is_quick else 0):  # nothing times -inf is no number
        ends = values[ranked[c, 0], c], values[ranked[c, -1], c]
        is_quick = is_quick and np.isfinite(ends[0]) and np.isfinite(ends[1])
    if is_quick:
        expected = quick_values((known[0], outcome), believed, rows, values, wanted)
    else:
        expected = expected_values(known[0], marks, led, believed, ids, values, wanted)
    if doubt == 0.0:
        return expected
    for i in range(rows.shape[0]):
        for c in range(columns if i < many else fewer):
            expected[i, c] = doubt * worst[i, c] + (1.0 - doubt) * expected[i, c]
    return expected


# For Python, which asks for them one by one where problems are large.
extremes_alone, ranks_alone = alone(extreme_values), alone(rank_states)
factual_alone, expectations_alone = alone(put_factual), alone(expectations)


@dataclass(frozen=True, eq=False)
class Law:
    """What follows the steps of an episode: as a causal model has it, the extreme over all causal
    models that fit the MDP, or a mixture of both.

    doubt    the weight of the extreme: 0 is the model alone, 1 the extreme alone
    assume   none, or only models with counterfactual stability (stable), or monotone ones
    highest  the highest expectation is the extreme, not the lowest
    sets     over all rows in these sets too, None where the MDP's own are known
    quick    to choose by: what is expected may differ in its last digit
    source   the rows that a causal model gives some pairs at a step, None for Gumbel-Max
    """

    mdp: TabularMDP
    episode: Episode
    doubt: float = 0.0
    assume: str = "none"
    highest: bool = False
    sets: RowSets | None = None
    quick: bool = False
    source: Callable[[int, RowIds], Rows] | None = None

    def __post_init__(self) -> None:
        if self.assume not in ASSUMPTIONS:
            raise InputError(f"assume is {self.assume!r}: expected one of {', '.join(ASSUMPTIONS)}")
        if self.sets is not None:
            self.sets.check(self.mdp)

    @cached_property
    def row_of(self) -> RowIds:
        """(S, A) id of the counterfactual row of a pair: one for all that must be alike."""
        # A source may tell pairs apart that the MDP does not.
        if self.source is None:
            return self._limited
        return np.arange(self.mdp.row_of.size, dtype=np.int32).reshape(self.mdp.row_of.shape)

    @property
    def _limited(self) -> RowIds:
        return self.mdp.row_of if self.sets is None else self.sets.row_of

    @cached_property
    def compiled(self) -> tuple[Any, ...] | None:
        """As `expectations` takes it, None where the rows have a source of their own."""
        return None if self.source is not None else self._tables(self.doubt)

    def _tables(self, doubt: float) -> tuple[Any, ...]:
        indptr, indices, q = self.mdp.rows.arrays
        limits, own = (indptr, indices, q, q), np.zeros(0, dtype=np.int32)
        if self.sets is not None:
            limits, own = self.sets.arrays, np.empty(int(self._limited.max()) + 1, dtype=np.int32)
            own[self._limited] = self.mdp.row_of
        dials = (doubt, -1.0 if self.highest else 1.0, ASSUMPTIONS[self.assume], self.quick)
        known = doubt > 0.0 and self.sets is None and self.assume == "none"
        turned = self.mdp.turned if known else NOT_TURNED
        kept = KeptRows.of(self.mdp).along(self.mdp, self.episode)
        return (indptr, indices, q), limits, turned, self._limited, own, dials, kept

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        """(rows, C): for each row id in `rows`, its expectation of each column of values (S, C).
        Values may be -inf, never +inf or nan; where no row leads, they may be anything."""
        if self.compiled is not None:
            return self._expected(self.compiled, t, rows, values)
        worst = np.zeros(1)
        if self.doubt > 0.0:
            ids = self._limited.ravel()[rows]
            worst = self._expected(self._tables(1.0), t, ids, values)
        if self.doubt == 1.0:  # nothing times an infinite loss is no number
            return worst
        expected = np.asarray(row_expectations(*self.rows_at(t, rows).arrays, values))
        return self.doubt * worst + (1.0 - self.doubt) * expected if self.doubt else expected

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        """The model's rows of these ids at step t, in this order; entries may be zero."""
        if self.source is not None:
            return self.source(t, rows)
        states, actions = self.episode.states, self.episode.actions
        row, outcome = self.mdp.row_of[states[t], actions[t]], int(states[t + 1])
        factual = self.mdp.rows.dense(row, self.mdp.n_states)
        return Rows(*kernel_rows(factual, outcome, *self.mdp.rows.arrays, rows))

    def _expected(
        self, compiled: tuple[Any, ...], t: int, rows: RowIds, values: FloatArray
    ) -> FloatArray:
        states, actions = self.episode.states, self.episode.actions
        known = self.__dict__.get("_known")
        if known is None or known[0] != t:
            factual = np.zeros((3, len(values))), np.zeros(MARKS, dtype=np.bool_)
            factual_alone(compiled, states[t], actions[t], factual, True)
            known = self.__dict__["_known"] = t, factual  # a step is asked about in parts
        observed, wanted = (known[1], int(states[t + 1]), -1), (len(rows), values.shape[1], 0)
        ranked = ranks_alone(compiled, rows, values, np.arange(len(values)), values.shape[1])
        return np.asarray(expectations_alone(compiled, observed, rows, values, ranked, wanted))


def law_of(scm: DiscreteSCM, episode: Episode) -> Law:
    """The exact law of a causal model, given an episode; a user's own is asked row by row."""
    if isinstance(scm, GumbelMaxSCM):
        return Law(scm.mdp, episode)
    return Law(scm.mdp, episode, source=partial(_own_rows, scm, episode))


def sampled_law(mdp: TabularMDP, episode: Episode, samples: int, seed: int) -> Law:
    """The paper's estimate (Eq. 5): the winners' shares among `samples` posterior noise vectors,
    the same vectors for all pairs of a step."""
    scm, (indptr, indices, probabilities) = GumbelMaxSCM(mdp), mdp.rows.arrays

    def source(t: int, pairs: RowIds) -> Rows:
        # One generator per step: a second visit of the step sees the same noise.
        rng, action = np.random.default_rng([seed, t]), episode.actions[t]
        noise = scm.sample_noise(episode.states[t], action, episode.states[t + 1], samples, rng)
        rows, places = np.unique(mdp.row_of.ravel()[pairs], return_inverse=True)
        shares = winner_shares(noise, indptr, indices, np.log(probabilities), rows)
        return Rows(*shares).take(places)

    return Law(mdp, episode, source=source)


def _own_rows(scm: DiscreteSCM, episode: Episode, t: int, pairs: RowIds) -> Rows:
    states, actions = episode.states, episode.actions
    observed = (int(states[t]), int(actions[t]), int(states[t + 1]))
    places = [divmod(int(pair), scm.mdp.n_actions) for pair in pairs]
    dense = [_checked_row(scm, observed, place) for place in places]
    indices = [np.flatnonzero(row) for row in dense]
    return Rows(
        indptr=np.concatenate([[0], np.cumsum([len(i) for i in indices])]).astype(np.int64),
        indices=np.concatenate(indices).astype(np.int32),
        probabilities=np.concatenate([row[i] for row, i in zip(dense, indices, strict=True)]),
    )


def _checked_row(
    scm: DiscreteSCM, observed: tuple[int, int, int], pair: tuple[int, int]
) -> FloatArray:
    """A row that is no distribution would become a wrong value that looks like any other."""
    row = numbers(scm.counterfactual_row(*observed, *pair), "a counterfactual row")
    if row.shape != (scm.mdp.n_states,):
        problem = f"has shape {row.shape}, expected ({scm.mdp.n_states},)"
    elif not (row >= 0.0).all() or abs(row.sum() - 1.0) > SUM_TOLERANCE:
        problem = f"is no distribution: smallest entry {row.min()}, sum {row.sum():.9g}"
    else:
        return row
    raise InputError(
        f"{type(scm).__name__}: the counterfactual row of (state {pair[0]}, action "
        f"{pair[1]}) after (state {observed[0]}, action {observed[1]} -> state {observed[2]}) "
        f"{problem}; check the model with testing.check_scm"
    )
