"""The Gumbel-Max structural causal model of a tabular MDP (Oberst & Sontag 2019; the 2021 paper).

    S_{t+1} = argmax_s  log P(s | S_t, A_t) + U_{t,s},      U_{t,s} ~ Gumbel(0, 1)         (Eq. 4)

Observed: in (s_t, a_t), with next-state row p, the state o followed. Asked: where would (s, a),
with row q, have led under the same noise? With E_i = exp(-(log p_i + U_i)), Eq. 4 is a race of
independent exponential clocks of rates p_i that the smallest wins. Knowing that o won, o rang at
M ~ Exp(1), and by memorylessness any other i rings at M + Exp(p_i). Under q every clock is the same
noise run at another rate, E'_i = E_i p_i / q_i: in units of M, o rings at w_o and each other i
*starts* at w_i and then rings at rate q_i M, where

    w_i  = p_i / q_i                                  (infinite where q_i = 0)
    D(u) = 1 + sum_{j != o} max(0, q_j u - p_j)
    P(i) = q_i  integral_{w_i}^{w_o} du / D(u)^2      for i != o with w_i < w_o, else 0
    P(o) = 1 / D(w_o)                                 (0 where q_o = 0)

D is piecewise linear with corners at the w_i, and over a segment [u, v] on which it grows from D_u
to D_v the integral is (v - u) / (D_u D_v), or 1 / (B D_u) for v = infinity with B the sum of the
rates started by then. All terms are positive and D >= 1, so nothing cancels: entries are exact to
rounding. One sort of the started clocks, one sweep forward for D, one back for the tails:
O(m log m) for a row with m non-zeros.

The paper's Monte Carlo estimate (Eq. 5) is here for comparison: it draws the posterior noise
top-down with truncated Gumbels and counts the winners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterplan.core.compiled import entry, fetch_ahead, within
from counterplan.core.episode import Episode
from counterplan.core.shown import Drawn
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.errors import InputError
from counterplan.scm.tabular import Rows, TabularMDP, index_of

# Up to this many entries, insertion beats the general sort and allocates nothing.
SHORT = 32
# More are sorted in runs of so many.
RUN = 8
# Ratios p_i / q_i that are equal but for rounding must count as equal: the probability they would
# leave is far below any error bound, but a value of -inf behind it is not.
CLEARLY_LESS = 1.0 - 1e-14
# Values of which there are more do not stay in the processor's cache: they are fetched so many rows
# before they are needed.
CACHED, AHEAD = 50_000, 3
# Rows are kept by observed transition (see `KeptRows`) where all of a table are not more than so
# many numbers, up to so many in all: 32 MB.
SMALL_TABLE, MOST_KEPT = 10_000, 4_000_000
# Columns that are summed together; a processor multiplies one more at once, which is of ones.
TOGETHER = 3
# States are marked by their last bits: few enough that the marks stay in the fastest cache.
MARKS = 4096


@within
def starts_before(factual: float, probability: float, finish: float) -> bool:
    """Whether a clock of these two rates starts before the time at which o rings."""
    return factual < finish * CLEARLY_LESS * probability


@within
def _start_clocks(
    factual: Any, outcome: int, indices: Any, probabilities: Any, scratch: Any, result: Any
) -> tuple[float, Any, int, float]:
    """Write when clocks start, and which they are, and q_i of those that start at once; the rate of
    these, how many others start, the entry of o (-1 if it has none) and when o rings."""
    starts, entries = scratch[0][0], scratch[1]
    # Clocks that the observed row does not have start at once, and need no sorting. Most are such,
    # or most are not, but in no order: selected without branches, they are not guessed wrong.
    rate, rivals, at_entry, finish = 0.0, np.uint64(0), -1, np.inf
    for j in range(indices.shape[0]):
        # States are no places from the end; a number that may not be read would be a branch.
        rival, probability = factual[np.uint32(indices[j])], probabilities[j]
        at_once = rival == 0.0
        own = probability if at_once else 0.0
        rate += own
        result[j] = own
        entries[rivals] = j
        rivals += np.uint64(not at_once)
        at_entry = j if indices[j] == outcome else at_entry
    at_entry = at_entry if factual[outcome] > 0.0 else -1
    if at_entry >= 0:
        finish = factual[outcome] / probabilities[at_entry]
    started = np.uint64(0)
    for position in range(rivals):
        j = entries[position]
        rival, probability = factual[np.uint32(indices[j])], probabilities[j]
        starts[started], entries[started] = rival / probability, j
        started += np.uint64((j != at_entry) & starts_before(rival, probability, finish))
    return rate, np.int64(started), at_entry, finish


@within
def _segment(start: float, end: float, rate: float, density: float) -> tuple[float, float]:
    """The integral of 1 / D^2 from start to end, and D there; infinity has no D."""
    if end == np.inf:
        return (1.0 / (rate * density) if rate > 0.0 else 0.0), density
    after = density + rate * (end - start)
    return ((end - start) / after) / density, after


@within
def kernel_row(
    factual: Any, outcome: int, indices: Any, probabilities: Any, scratch: Any, result: Any
) -> None:
    """Write P(i) for the entries of one sparse row q.

    factual        (S,) the observed pair's row p, dense
    outcome        the observed next state o, p_o > 0
    indices        (m,) next states with q_i > 0
    probabilities  (m,) their q_i
    scratch        work space: (2, >= m) numbers, and (>= m,) whole numbers
    result         (>= m,) P(i) at the same positions as `indices`; 0 for states not reached
    """
    (starts, segments), entries = scratch
    rate, started, at_entry, finish = _start_clocks(
        factual, outcome, indices, probabilities, scratch, result
    )
    sort_pairs(starts[:started], entries[:started])

    # Forward: D at each start, and the integral over the segment that ends there.
    density, start = 1.0, 0.0
    for position in range(started):
        end = starts[position]
        segments[position], density = _segment(start, end, rate, density)
        rate += probabilities[entries[position]]
        start = end
    integral, density = _segment(start, finish, rate, density)

    # Backward: the integral from each start to the finish.
    for position in range(started - 1, -1, -1):
        before = segments[position]
        segments[position] = integral
        integral += before
    for j in range(indices.shape[0]):
        result[j] *= integral
    for position in range(started):
        j = entries[position]
        result[j] = probabilities[j] * segments[position]
    if at_entry >= 0 and finish < np.inf:
        result[at_entry] = 1.0 / density


@within
def find_entry(indices: Any, state: int) -> int:
    """Where a state stands among the rising ones of a row, -1 if it does not."""
    low, high = 0, indices.shape[0]
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < state:
            low = middle + 1
        else:
            high = middle
    return low if low < indices.shape[0] and indices[low] == state else -1


@within
def sort_pairs(keys: Any, companions: Any) -> None:
    """Sort keys ascending in place, the companions with them; equal ones stay in their order.

    Few are sorted by insertion, of more short runs, which are merged: NumPy's own sort and fancy
    indices take seconds to compile.
    """
    n = keys.shape[0]
    run = n if n <= SHORT else RUN
    for start in range(0, n, max(run, 1)):
        for i in range(start + 1, min(start + run, n)):
            key, companion = keys[i], companions[i]
            j = i - 1
            while j >= start and keys[j] > key:
                keys[j + 1] = keys[j]
                companions[j + 1] = companions[j]
                j -= 1
            keys[j + 1] = key
            companions[j + 1] = companion
    if n <= SHORT:
        return
    other_keys, other_companions = np.empty(n), np.empty(n, dtype=np.int64)
    while run < n:
        for start in range(0, n, 2 * run):
            middle, end = min(start + run, n), min(start + 2 * run, n)
            one, two, place = start, middle, start
            while one < middle and two < end:
                # Which is next is not to be guessed: both are read, and one is taken.
                key, other, mine, others = keys[one], keys[two], companions[one], companions[two]
                is_first = key <= other
                other_keys[place] = key if is_first else other
                other_companions[place] = mine if is_first else others
                one += int(is_first)
                two += int(not is_first)
                place += 1
            rest = one if one < middle else two  # of one of them
            for more in range(end - place):
                other_keys[place + more] = keys[rest + more]
                other_companions[place + more] = companions[rest + more]
        for place in range(n):
            keys[place], companions[place] = other_keys[place], other_companions[place]
        run *= 2


@within
def sort_spread(keys: Any, companions: Any) -> None:
    """The same for many keys that are spread out: dealt into as many heaps, and these sorted."""
    n, low, high, are_numbers = keys.shape[0], np.inf, -np.inf, True
    for key in keys:
        low, high, are_numbers = min(low, key), max(high, key), are_numbers and key == key
    scale = (n - 1) / (high - low) if high > low else 0.0
    # Neither all alike nor some infinite; of states that nothing leads to values may be anything.
    is_spread = are_numbers and 0.0 < scale < np.inf
    ends, dealt, others = np.zeros(n + 1, dtype=np.int64), keys.copy(), companions.copy()
    for key in dealt:
        ends[np.int64((key - low) * scale) + 1 if is_spread else 1] += 1
    for heap in range(n):
        ends[heap + 1] += ends[heap]
    for i in range(n):
        place = np.int64((dealt[i] - low) * scale) if is_spread else 0
        keys[ends[place]], companions[ends[place]] = dealt[i], others[i]
        ends[place] += 1
    for heap in range(n):
        begin = ends[heap - 1] if heap else 0
        if ends[heap] > begin + 1:
            sort_pairs(keys[begin : ends[heap]], companions[begin : ends[heap]])


@within
def expected_values(
    factual: Any, marks: Any, observed: Any, table: Any, rows: Any, values: Any, wanted: Any
) -> Any:
    """(rows, columns) expectations of the first columns of values (S, C) under the counterfactual
    rows of the ids in `rows`.

    Each kernel row is formed, used for all columns at once, and dropped. Entries of probability
    zero are skipped, so that a value of -inf behind them never makes 0 * -inf = nan. What was
    observed says nothing about a row that has none of the states of the observed one: there
    P(i) = q_i.

    marks     (MARKS,) of all states of the observed row
    observed  the observed next state, and the counterfactual rows where they are kept (see
              `KeptRows`), else nothing
    wanted    how many rows, the first, ask for how many columns, and for how many the others do
    """
    indptr, indices, probabilities = table
    (outcome, kept), (many, columns, fewer) = observed, wanted
    result = np.empty((rows.shape[0], columns))
    if kept.shape[0] and values.size <= CACHED:
        _sum_kept(kept, rows, values, result)
        return result
    widest = 0
    for row in rows:
        widest = max(widest, indptr[row + 1] - indptr[row])
    scratch = np.empty((2, widest)), np.empty(widest, dtype=np.int64)
    kernel = np.empty(widest)
    is_large = values.size > CACHED
    for number in range(rows.shape[0] if fewer else many):
        start, end = indptr[rows[number]], indptr[rows[number] + 1]
        if is_large and number + AHEAD < rows.shape[0]:
            soon = rows[number + AHEAD]
            for j in range(indptr[soon], indptr[soon + 1]):
                fetch_ahead(values, np.intp(indices[j]))
        targets, q, rate, told = indices[start:end], probabilities[start:end], 0.0, not is_large
        for j in range(end - start if is_large else 0):
            if marks[targets[j] % MARKS]:
                told = True
                break
            rate += q[j]
        count = columns if number < many else fewer
        if told:
            kernel_row(factual, outcome, targets, q, scratch, kernel)
            _accumulate(targets, kernel, 1.0, values, result[number, :count])
        else:
            _accumulate(targets, q, 1.0 / rate, values, result[number, :count])
    return result


@within
def quick_values(observed: Any, table: Any, rows: Any, values: Any, wanted: Any) -> Any:
    """Nearly what `expected_values` gives of long rows where values are finite, to choose by:
    summed in another order, so that the last digit may differ.

    Clocks that run at the same time gain the same integral, so with H the sum of their q_j h_j

        E = sum over segments of H integral du / D(u)^2  +  h_o / D(w_o)

    and only those need a place of their own that the observed row has, too; most have not.

    observed  the observed pair's row p, dense, and o
    """
    (factual, outcome), (indptr, indices, probabilities) = observed, table
    many, columns, fewer = wanted
    # Values of the states that p does not have, and behind each few columns one of ones.
    alone = np.zeros((-(-columns // TOGETHER), values.shape[0], TOGETHER + 1))
    is_rival = np.zeros(values.shape[0], dtype=np.uint8)
    for state in range(values.shape[0]):
        is_rival[state] = factual[state] > 0.0
        for column in range(0 if is_rival[state] else columns):
            alone[column // TOGETHER, state, column % TOGETHER] = values[state, column]
            alone[column // TOGETHER, state, TOGETHER] = 1.0
    size = 0
    for row in rows:
        size = max(size, indptr[row + 1] - indptr[row])
    line, rivals = (np.empty(size), np.empty(size, np.int64)), np.empty(size + 1, np.int64)
    result = np.empty((rows.shape[0], columns))
    for number in range(rows.shape[0] if fewer else many):
        row, count = rows[number], columns if number < many else fewer
        for first in range(0, count, TOGETHER):
            n: Any = np.uint64(0)
            a = b = c = rate = 0.0
            block = first // TOGETHER
            for j in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
                target, own = np.uint32(indices[j]), probabilities[j]
                rivals[n] = j
                n += np.uint64(is_rival[target])
                a += own * alone[block, target, 0]
                b += own * alone[block, target, 1]
                c += own * alone[block, target, 2]
                rate += own * alone[block, target, 3]
            some = first, min(first + 1, count - 1), min(first + 2, count - 1)
            started = _line_up(observed, table, rivals, n, line)
            sums = _swept(outcome, table, (line, started), (a, b, c, rate), values, some)
            for place in range(2, -1, -1):  # beyond the last column stands nothing that counts
                result[number, some[place]] = sums[place]
    return result


@within
def _swept(outcome: int, table: Any, started: Any, sums: Any, values: Any, columns: Any) -> Any:
    """E of three columns, from the sums of the clocks that start at once, and their rate."""
    (_, indices, probabilities), ((starts, entries), (n, finish)) = table, started
    (a, b, c, rate), (first, second, third) = sums, columns
    density, start, total_a, total_b, total_c = 1.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        end, own, state = starts[i], probabilities[entries[i]], np.uint32(indices[entries[i]])
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
    return (
        total_a + weight * a + last * values[outcome, first],
        total_b + weight * b + last * values[outcome, second],
        total_c + weight * c + last * values[outcome, third],
    )


@within
def _line_up(observed: Any, table: Any, rivals: Any, n: Any, line: Any) -> tuple[int, float]:
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


@within
def _sum_kept(kept: Any, rows: Any, values: Any, result: Any) -> None:
    """Write the expectations of the first columns of values under some rows of those that are kept,
    state by state, all rows side by side: what each adds up is in the order of its states."""
    n_states, n_rows, columns = values.shape[0], kept.shape[0] // values.shape[0], result.shape[1]
    total = np.zeros((columns, n_rows))
    for state in range(n_states):
        weights = kept[state * n_rows : (state + 1) * n_rows]
        for c in range(columns):
            value, sums = values[state, c], total[c]
            if np.isfinite(value):
                for row in range(n_rows):
                    sums[row] += weights[row] * value
            else:
                for row in range(n_rows):
                    sums[row] += weights[row] * value if weights[row] > 0.0 else 0.0
    for number in range(rows.shape[0]):
        for c in range(columns):
            result[number, c] = total[c, rows[number]]


@entry
def kernel_rows(
    factual: Any, outcome: int, indptr: Any, indices: Any, probabilities: Any, rows: Any
) -> tuple[Any, Any, Any]:
    """The counterfactual rows of the ids in `rows`, as (indptr, indices, probabilities)."""
    starts, targets = _gather(indptr, indices, rows)
    kernel = np.empty(targets.shape[0])
    widest = 0
    for position in range(rows.shape[0]):
        widest = max(widest, starts[position + 1] - starts[position])
    scratch = np.empty((2, widest)), np.empty(widest, dtype=np.int64)
    for position in range(rows.shape[0]):
        begin, finish = starts[position], starts[position + 1]
        start, end = indptr[rows[position]], indptr[rows[position] + 1]
        kernel_row(
            factual,
            outcome,
            indices[start:end],
            probabilities[start:end],
            scratch,
            kernel[begin:finish],
        )
    return starts, targets, kernel


@entry
def winner_shares(
    noise: Any, indptr: Any, indices: Any, log_probabilities: Any, rows: Any
) -> tuple[Any, Any, Any]:
    """How often each state wins argmax_i log q_i + u_i over noise (d, S), for the ids in `rows`."""
    starts, targets = _gather(indptr, indices, rows)
    shares = np.zeros(targets.shape[0])
    for position in range(rows.shape[0]):
        start, end = indptr[rows[position]], indptr[rows[position] + 1]
        for sample in range(noise.shape[0]):
            best = -np.inf
            winner = 0
            for j in range(start, end):
                score = log_probabilities[j] + noise[sample, indices[j]]
                if score > best:
                    best = score
                    winner = j - start
            shares[starts[position] + winner] += 1.0
    return starts, targets, shares / noise.shape[0]


@entry
def row_expectations(indptr: Any, indices: Any, probabilities: Any, values: Any) -> Any:
    """(R, C) expectations of values (S, C) under given rows, safe for values of -inf."""
    result = np.zeros((indptr.shape[0] - 1, values.shape[1]))
    for row in range(result.shape[0]):
        start, end = indptr[row], indptr[row + 1]
        _accumulate(indices[start:end], probabilities[start:end], 1.0, values, result[row])
    return result


@within
def _accumulate(indices: Any, weights: Any, factor: float, values: Any, total: Any) -> None:
    """Write sum_j factor weights[j] values[indices[j]], without what has no weight. Four columns or
    fewer are summed in registers, two at a time; more of them side by side, so that the loads of a
    row do not wait for each other."""
    columns, is_summed = total.shape[0], total.shape[0] <= 4
    for first in range(0, columns if is_summed else 0, 2):
        second = min(first + 1, columns - 1)  # beyond the last column it is summed again
        s0 = s1 = 0.0
        for j in range(indices.shape[0]):
            weight, row = weights[j] * factor, values[np.uint32(indices[j])]
            s0 += weight * row[first]
            s1 += weight * row[second]
        total[first], total[second] = s0, s1
        # No number: nothing times a value of -inf.
        is_summed = is_summed and s0 == s0 and s1 == s1
    if not is_summed:
        total[:] = 0.0
        for j in range(indices.shape[0]):
            weight, row = weights[j] * factor, values[indices[j]]
            if weight > 0.0:
                for c in range(columns):
                    total[c] += weight * row[c]


@within
def _gather(indptr: Any, indices: Any, rows: Any) -> tuple[Any, Any]:
    """Where each of the chosen rows will start, and their next states one after another."""
    starts = np.zeros(rows.shape[0] + 1, dtype=np.int64)
    for position in range(rows.shape[0]):
        starts[position + 1] = (
            starts[position] + indptr[rows[position] + 1] - indptr[rows[position]]
        )
    targets = np.empty(starts[-1], dtype=np.int32)
    for position in range(rows.shape[0]):
        start, end = indptr[rows[position]], indptr[rows[position] + 1]
        targets[starts[position] : starts[position + 1]] = indices[start:end]
    return starts, targets


class KeptRows:
    """The counterfactual rows of a small table by observed transition: episodes of one process
    observe the same ones over and over. The first that are met are kept, until memory is full.

    Threads may share it: what is kept stays as it is, and is known once it is there.
    """

    def __init__(self, mdp: TabularMDP) -> None:
        entries, cells = len(mdp.rows.indices), mdp.n_states * len(mdp.rows)
        slots = MOST_KEPT // cells if cells <= SMALL_TABLE else 0
        # A transition is an entry of the table: of the observed row, at what followed.
        self._slot_of, self._free = np.full(entries if slots else 0, -1), iter(range(slots))
        self._table = np.empty((max(slots, 1), cells if slots else 0))
        self._asked: tuple[Episode | None, Any, IntArray] = None, None, np.empty(0, dtype=np.int64)

    @classmethod
    def of(cls, mdp: TabularMDP) -> KeptRows:
        """Those of a table, whatever its rewards."""
        known = mdp.rows.__dict__
        if "_kept" not in known:
            known["_kept"] = cls(mdp)
        found: KeptRows = known["_kept"]
        return found

    def along(self, mdp: TabularMDP, episode: Episode) -> tuple[IntArray, FloatArray]:
        """(T,) where those of each step are, -1 where they are not kept, and (n, S R) all that are:
        of each state how likely every row leads there."""
        asked, of_pairs, slots = self._asked  # several laws ask about an episode
        if asked is not episode or of_pairs is not mdp.row_of:
            slots = np.full(len(episode), -1)
            entries = mdp.entries_of(episode) if len(self._slot_of) else self._slot_of
            if len(entries) == len(episode) - 1:  # all are possible
                slots[:-1] = self._slot_of[entries]
                for t in np.flatnonzero(slots[:-1] < 0).tolist():
                    slots[t] = self._keep(mdp, episode, t, entries[t])
            self._asked = episode, mdp.row_of, slots
        return slots, self._table

    def _keep(self, mdp: TabularMDP, episode: Episode, t: int, entry: int) -> int:
        slot = self._slot_of[entry] if self._slot_of[entry] >= 0 else next(self._free, -1)
        if slot >= 0 > self._slot_of[entry]:
            states, rows = episode.states, mdp.rows
            factual = rows.dense(mdp.row_of[states[t], episode.actions[t]], mdp.n_states)
            every, table = np.arange(len(rows)), np.zeros((mdp.n_states, len(rows)))
            _, targets, found = kernel_rows(factual, states[t + 1], *rows.arrays, every)
            table[targets, np.repeat(every, np.diff(rows.indptr))] = found
            self._table[slot] = table.ravel()
            self._slot_of[entry] = slot
        return int(slot)


@dataclass(frozen=True, eq=False)
class GumbelMaxSCM(Drawn):
    """A tabular MDP read as a causal model."""

    mdp: TabularMDP

    def __post_init__(self) -> None:
        if not isinstance(self.mdp, TabularMDP):
            raise InputError(
                f"GumbelMaxSCM needs a TabularMDP, got {type(self.mdp).__name__}: "
                "wrap the arrays first, TabularMDP(transitions, rewards)"
            )

    def _facts(self) -> dict[str, object]:
        return {"states": self.mdp.n_states, "actions": self.mdp.n_actions}

    def counterfactual_row(
        self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int
    ) -> FloatArray:
        """P(next state | (s, a), knowing that (s_obs, a_obs) led to s_next_obs), exact, (S,)."""
        factual = self._factual_row(s_obs, a_obs, s_next_obs)
        self.mdp.row(s, a)
        rows = kernel_rows(factual, s_next_obs, *self.mdp.rows.arrays, self.mdp.row_of[s, [a]])
        return Rows(*rows).dense(0, self.mdp.n_states)

    def sample_noise(
        self, s_obs: int, a_obs: int, s_next_obs: int, samples: int, seed: Seed = 0
    ) -> FloatArray:
        """(samples, S) draws of U given that (s_obs, a_obs) led to s_next_obs.

        The winner's log p_o + U_o is Gumbel(0); every other is a Gumbel(log p_i) truncated there.
        A state with p_i = 0 could not win whatever its noise, so that keeps its prior.
        """
        whole_number(samples, "samples", minimum=1)
        p = self._factual_row(s_obs, a_obs, s_next_obs)
        rng = generator(seed)
        n_states = self.mdp.n_states
        noise = rng.gumbel(size=(samples, n_states))
        possible = p > 0.0
        log_p = np.log(p[possible])
        top = rng.gumbel(size=(samples, 1))
        truncated = -np.logaddexp(-top, -noise[:, possible] - log_p)
        noise[:, possible] = truncated - log_p
        noise[:, s_next_obs] = top[:, 0] - np.log(p[s_next_obs])
        return noise

    def sampled_row(
        self,
        s_obs: int,
        a_obs: int,
        s_next_obs: int,
        s: int,
        a: int,
        *,
        samples: int = 1000,
        seed: Seed = 0,
    ) -> FloatArray:
        """The paper's estimate of `counterfactual_row` (Eq. 5), (S,)."""
        noise = self.sample_noise(s_obs, a_obs, s_next_obs, samples, seed)
        with np.errstate(divide="ignore"):
            log_q = np.log(self.mdp.row(s, a))
        winners = np.argmax(log_q + noise, axis=1)
        return np.bincount(winners, minlength=self.mdp.n_states) / samples

    def _factual_row(self, state: int, action: int, after: int) -> FloatArray:
        row = self.mdp.row(state, action)
        index_of(after, self.mdp.n_states, "state")
        if row[after] == 0.0:
            raise InputError(
                f"the observed transition (state {state}, action {action} -> state {after}) has "
                "probability zero in the model, so it has no posterior; check the data or "
                "estimate the model with a prior"
            )
        return row


def table_of(mdp: TabularMDP | GumbelMaxSCM) -> TabularMDP:
    """The table of probabilities that is asked about."""
    if isinstance(mdp, GumbelMaxSCM):
        return mdp.mdp
    if isinstance(mdp, TabularMDP):
        return mdp
    # A bijective model and an executed plan have the noise itself, so there is no range.
    raise InputError(
        f"expected a TabularMDP, got {type(mdp).__name__}: only tables of probabilities leave open "
        "what would have happened; elsewhere explain gives the one value"
    )
