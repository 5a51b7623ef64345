"""Tabular models from episodes: counts with a Dirichlet prior, which may be learned from them too.

With a Dirichlet(alpha_i1, ..., alpha_in) prior on P(. | s_i, a) and c_j observed transitions to
s_j, the posterior is Dirichlet(alpha_i + c) and its mean is known:

    P(s_j | s_i, a) = (alpha_ij + c_j) / sum_l (alpha_il + c_l)

The 2021 paper averages 100,000 posterior samples to approximate this number.

How strong a prior to take, and around what, the counts themselves can tell (`Pooled`). Rows of a
state scatter around a mean of the state, and this one around what is to be expected of a state
where nothing is known, half of it anywhere and half of it nearby:

    P(. | s, a) ~ Dirichlet(m_1 g_s),     g_s ~ Dirichlet(m_0 b_s),     b_s = (g + l_s) / 2

with g how often each state follows any other, and l_s where two or three observed transitions from
s lead: what was not yet seen to follow a state is seldom far from it. What others say about the row
of (s, a): a row b of the state with n_b counts tells as much of g_s as w_b n_b draws of it,
w_b = m_1 / (n_b + m_1). Then g_s has mass and mean

    N = m_0 + sum_{b != a} w_b n_b,     h = (m_0 b_s + sum_{b != a} w_b c_b) / N

and the row the mean h, with the variance of both scatters together, which is that of

    P(. | s, a) ~ Dirichlet(M h + c_a),     M = m_1 N / (N + m_1 + 1)

A row's own counts are in its posterior once, and not in h: otherwise a state with one action would
seem to prove that rows of a state are alike. The strengths m_0 and m_1 are the weakest under which
the counts of each row, given what others say of it, are about as likely as they can be
(Dirichlet-multinomial); m_0 far above m_1 says that the rows of a state have nothing in common.
Where there are many states, b_s is a sample of itself, so that rows stay sparse: draws of a row
with little data have few next states anyhow.

What was seen can be split: next states of a pair are drawn independently, so each may go to one of
two halves by a coin, and what the halves say is independent given the rows. One of them can judge
what the other chose, which overrates nothing (`Evidence.halves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.validation import BoolArray, FloatArray, IntArray, whole_number
from counterplan.errors import InputError
from counterplan.scm.tabular import Rows, TabularMDP, distinct_rows, index_of, numbers

# Pseudo-counts in all that are tried for a level of the pooled prior.
STRENGTHS = np.geomspace(0.3, 1000.0, 9)
# Log-likelihood that a strength may fall short of the best: half the 90 % quantile of chi-squared.
DOUBTFUL = 1.35
# The share of b_s that may be anywhere; the rest is near.
FAR = 0.5
# Next states that stand for all others where there are more of them than this.
ATOMS = 32
# No parameter of a posterior is below this: what can happen still can.
LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class TransitionCounts:
    """What a set of episodes shows.

    transitions  (S, A, S) how often each transition was observed
    visits       (S, A) how often each pair was observed, last steps included
    starts       (S,) how often an episode began in each state
    """

    transitions: NDArray[np.int64]
    visits: NDArray[np.int64]
    starts: NDArray[np.int64]

    @cached_property
    def seen(self) -> IntArray:
        """(m, 4) each transition that occurred: state, action, next state, and how often."""
        flat = np.flatnonzero(self.transitions)
        places = np.unravel_index(flat, self.transitions.shape)
        return np.column_stack([*places, self.transitions.ravel()[flat]])

    @property
    def observed(self) -> BoolArray:
        """(S, A) pairs seen at least once."""
        return self.visits > 0


def count_transitions(
    episodes: Iterable[Episode], n_states: int, n_actions: int
) -> TransitionCounts:
    """Count every step and transition of the episodes."""
    whole_number(n_states, "n_states", minimum=1)
    whole_number(n_actions, "n_actions", minimum=1)
    pairs, steps, first = [], [], []
    for episode in listed_episodes(episodes):
        episode.check_range(n_states, n_actions)
        pairs.append(episode.states * n_actions + episode.actions)
        steps.append(pairs[-1][:-1] * n_states + episode.states[1:])
        first.append(episode.states[0])
    if not first:
        raise InputError("no episodes given: a model needs at least one to be estimated")
    shape, size = (n_states, n_actions), n_states * n_actions
    return TransitionCounts(
        np.bincount(np.concatenate(steps), minlength=size * n_states).reshape(*shape, n_states),
        np.bincount(np.concatenate(pairs), minlength=size).reshape(shape),
        np.bincount(first, minlength=n_states),
    )


def neighbour_prior(n_states: int, near: float = 1.0, far: float = 0.01) -> FloatArray:
    """The paper's prior for ordered states, (S, S): `near` for j in {i-1, i, i+1}, else `far`."""
    whole_number(n_states, "n_states", minimum=1)
    distance = np.abs(np.subtract.outer(np.arange(n_states), np.arange(n_states)))
    return np.where(distance <= 1, near, far)


def estimate_mdp(
    counts: TransitionCounts,
    rewards: ArrayLike,
    *,
    prior: float | str | Pooled | ArrayLike = 1.0,
    bar_unobserved: bool = False,
    admissible: ArrayLike | None = None,
    state_labels: Sequence[str] | None = None,
    action_labels: Sequence[str] | None = None,
) -> TabularMDP:
    """The posterior-mean model, which keeps the counts.

    prior           one pseudo-count for all transitions, or (S, S) or (S, A, S) of them; "pooled",
                    or `Pooled` with what is known of ends, learns from the counts how rows scatter
    bar_unobserved  give pairs that were never seen the reward -inf, as in the paper
    admissible      (S, A) alternatives that may be chosen, None for all
    """
    S, A = counts.visits.shape
    given = numbers(rewards, "rewards")
    try:
        table = np.broadcast_to(given, (S, A)).copy()
    except ValueError:
        raise InputError(
            f"rewards have shape {given.shape}, expected ({S}, {A}) or one that spreads to it: one "
            "number, one per action, or one per state as a column"
        ) from None
    if bar_unobserved:
        table[~counts.observed] = -np.inf
    transitions, mass = _posterior(counts, prior)
    model = TabularMDP(
        transitions,
        table,
        initial=counts.starts / counts.starts.sum(),
        admissible=admissible,
        state_labels=state_labels,
        action_labels=action_labels,
    )
    return model.with_data(counts=counts.seen, mass=mass)


def _posterior(counts: TransitionCounts, prior: Any) -> tuple[Any, Any]:
    """Rows as a model takes them, and the (S, A) mass of their posteriors."""
    S, A = counts.visits.shape
    if isinstance(prior, str) and prior != "pooled":
        raise InputError(
            f"prior must be an array of numbers, or 'pooled' to learn it; it is {prior!r}"
        )
    if isinstance(prior, str | Pooled):
        known = {} if isinstance(prior, str) else prior.known
        ends = {index_of(s, S, "state"): index_of(j, S, "state") for s, j in known.items()}
        rows, row_of, masses = pooled_rows(counts, ends)
        return (rows, row_of), masses[row_of]
    weights = counts.transitions + _prior(prior, S, A)
    sums = weights.sum(axis=2, keepdims=True)
    for state, action in np.argwhere(sums[:, :, 0] == 0.0):
        raise InputError(
            f"no transition from state {state} under action {action} was observed and the prior "
            "gives it none: use a positive prior"
        )
    return weights / sums, sums[:, :, 0]


def _prior(prior: float | ArrayLike, S: int, A: int) -> FloatArray:
    array = numbers(prior, "prior")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError("prior: pseudo-counts must be finite and not negative")
    if array.shape not in ((), (S, S), (S, A, S)):
        raise InputError(
            f"prior has shape {array.shape}, expected one number, ({S}, {S}) or ({S}, {A}, {S})"
        )
    return np.broadcast_to(array[:, None] if array.ndim == 2 else array, (S, A, S))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Posteriors of a model's rows; pairs with the same evidence share one.

    row_of           (S, A) which of them a pair has
    indptr, indices  where each starts, and its next states, as in `Rows`
    posterior        (nnz,) parameters of Dirichlet distributions: prior pseudo-counts and counts
    counts           (nnz,) how much of them was seen
    """

    mdp: TabularMDP
    row_of: NDArray[np.int32]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    posterior: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, mdp: TabularMDP, what: str) -> Self:
        """Of a model that was estimated from counts."""
        if mdp.counts is None or mdp.mass is None:
            raise InputError(
                f"{what}: the model does not know the counts that it was estimated from; fit "
                "it to episodes, or use RowSets.gamma or RowSets.box"
            )
        S, A = mdp.row_of.shape
        counts = mdp.counts[np.lexsort(mdp.counts.T[2::-1])]
        state, action, after, number = counts.T
        # Which of all that was seen after a pair, 0 for nothing.
        pairs, starts = np.unique(state * A + action, return_index=True)
        data = np.zeros(S * A)
        if len(pairs):
            ends = np.append(starts, len(counts)).astype(np.int64)
            data[pairs] = 1 + distinct_rows(Rows(ends, after.astype(np.int32), number * 1.0))[1]
        keys = np.column_stack([mdp.row_of.ravel(), mdp.mass.ravel(), data])
        _, first, row_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        rows, row_of = (
            mdp.rows.take(mdp.row_of.ravel()[first].astype(np.int64)),
            row_of.reshape(S, A),
        )
        sizes, seen = np.diff(rows.indptr), np.zeros(len(rows.indices))
        entries = np.repeat(np.arange(len(rows)), sizes) * S + rows.indices
        wanted = row_of[state, action] * S + after
        at = np.minimum(np.searchsorted(entries, wanted), len(entries) - 1)
        # A count where a row has no entry (data that contradicts a known end) says nothing.
        told = entries[at] == wanted
        seen[at[told]] = number[told]
        posterior = rows.probabilities * np.repeat(keys[first, 1], sizes)
        return cls(mdp, row_of.astype(np.int32), rows.indptr, rows.indices, posterior, seen)

    def totals(self, values: FloatArray) -> FloatArray:
        """(nnz,) their sum over the row of each entry."""
        return np.repeat(np.add.reduceat(values, self.indptr[:-1]), np.diff(self.indptr))

    def halves(self, episode: Episode, seed: int = 0) -> tuple[Self, Self]:
        """The same from two halves of what was seen, drawn by a coin; what one episode shows is
        known to both."""
        own = np.zeros(len(self.counts))
        for s, a, after in zip(episode.states, episode.actions, episode.states[1:], strict=False):
            start, end = self.indptr[self.row_of[s, a] : self.row_of[s, a] + 2]
            own[start + np.searchsorted(self.indices[start:end], after)] += 1.0
        known = self.posterior - self.counts + np.minimum(own, self.counts)
        rest = np.maximum(self.counts - own, 0.0)
        one = np.random.default_rng(seed).binomial(rest.astype(np.int64), 0.5)
        first, second = (
            replace(self, posterior=np.maximum(known + part, LEAST)) for part in (one, rest - one)
        )
        return first, second

    @cached_property
    def mean(self) -> TabularMDP:
        """The model of the posteriors' means."""
        shares = self.posterior / self.totals(self.posterior)
        return self.mdp.with_rows(Rows(self.indptr, self.indices, shares), self.row_of)

    def draws(
        self, count: int, seed: int = 0, pairs: BoolArray | None = None
    ) -> Iterator[TabularMDP]:
        """Models whose rows are drawn; those of others than `pairs` (S, A) stay at their means."""
        sizes, means = np.diff(self.indptr), self.mean.rows.probabilities
        needed = np.ones(len(sizes), dtype=np.bool_)
        if pairs is not None:
            needed = np.bincount(self.row_of[pairs], minlength=len(sizes)) > 0
        places = np.flatnonzero(np.repeat(needed, sizes))
        starts = np.concatenate([[0], np.cumsum(sizes[needed])[:-1]])
        rng, posterior = np.random.default_rng(seed), self.posterior[places]
        for _ in range(whole_number(count, "count", minimum=1)):
            # Far below any probability that matters, yet never zero.
            drawn = np.maximum(rng.standard_gamma(posterior), 1e-280)
            drawn /= np.repeat(np.add.reduceat(drawn, starts), sizes[needed])
            probabilities = means.copy()
            probabilities[places] = drawn
            yield self.mdp.with_rows(Rows(self.indptr, self.indices, probabilities), self.row_of)


@dataclass(frozen=True)
class Pooled:
    """A prior that is learned from the counts.

    known  states and the one that surely follows each, such as ends
    """

    known: Mapping[int, int] = field(default_factory=dict)


def pooled_rows(
    counts: TransitionCounts, known: Mapping[int, int]
) -> tuple[Rows, NDArray[np.int32], FloatArray]:
    """The posteriors' means, the (S, A) table of which pair has which, and their mass (R,); rows of
    pairs that were never seen are the first S. States in `known` surely lead to the one given."""
    S, A = counts.visits.shape
    # What follows ends says nothing about what follows other states.
    state, action, after, times = counts.seen[~np.isin(counts.seen[:, 0], list(known))].T
    number: Any = times.astype(np.float64)
    overall = _base(np.bincount(after, number, minlength=S), list(known.values()))
    pair, pairs = _numbered(state * A + action)
    n, owner = np.bincount(pair, number), pairs // A
    # What follows a state under any action.
    entry, seen = _numbered(state * S + after)
    walks, share_of_walks = _walks(seen, np.bincount(entry, number), S)
    elsewhere = FAR * overall[after] + (1.0 - FAR) * _looked_up(walks, share_of_walks, seen)[entry]

    def shared(m_0: float, m_1: float) -> tuple[Any, Any, Any]:
        """w (pairs,), sum of w_b c_b (entries,), and m_0 + sum of w_b n_b (S,)."""
        w = m_1 / (n + m_1)
        said = np.bincount(entry, w[pair] * number, minlength=len(seen))
        return w, said, m_0 + np.bincount(owner, w * n, minlength=S)

    def fits(m_0: float, m_1: float) -> float:
        w, said, every = shared(m_0, m_1)
        N = every[owner] - w * n
        told = m_0 * elsewhere + np.maximum(said[entry] - w[pair] * number, 0.0)
        part = m_1 / (N + m_1 + 1.0)
        return _likely(number, part[pair] * told, pair, part * N)

    m_0, m_1 = _weakest(fits)
    w, said, every = shared(m_0, m_1)
    # What each state may lead to: what was seen, and a sample of everything.
    atoms, share = _atoms(overall)
    atoms = np.concatenate([atoms, walks])
    share = np.concatenate([FAR * share, (1.0 - FAR) * share_of_walks])
    sure = np.array([one * S + then for one, then in known.items()], dtype=np.int64)
    learned = ~np.isin(atoms // S, list(known)) & (share > 0.0)
    atoms, share = np.append(atoms[learned], sure), np.append(share[learned], np.ones(len(sure)))
    place, support = _numbered(np.concatenate([seen, atoms]))
    known_part = np.bincount(place[: len(seen)], said, minlength=len(support))
    rest = np.bincount(place[len(seen) :], share, minlength=len(support))
    starts = np.searchsorted(support, np.arange(S + 1) * S)
    # Rows of all states without data of their own, then those of the pairs that were seen.
    sizes = np.diff(starts)[states := np.concatenate([np.arange(S), owner])]
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    at = np.arange(indptr[-1]) + np.repeat(starts[states] - indptr[:-1], sizes)
    own = np.zeros(indptr[-1])
    own[indptr[S + pair] + place[: len(seen)][entry] - starts[state]] = number
    w, n = (np.concatenate([np.zeros(S), one]) for one in (w, n))
    N = every[states] - w * n
    told = m_0 * rest[at] + np.maximum(known_part[at] - np.repeat(w, sizes) * own, 0.0)
    posterior = np.repeat(m_1 / (N + m_1 + 1.0), sizes) * told + own
    mass = np.add.reduceat(posterior, indptr[:-1])
    row_of = np.repeat(np.arange(S, dtype=np.int32)[:, None], A, axis=1)
    row_of.flat[pairs] = S + np.arange(len(pairs), dtype=np.int32)
    means = posterior / np.repeat(mass, sizes)
    return Rows(indptr, (support % S).astype(np.int32)[at], means), row_of, mass


def _numbered(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Which of the distinct keys each is, and these."""
    distinct, which = np.unique(keys, return_inverse=True)
    return which, distinct


def _base(arrivals: Any, only_after_ends: Sequence[int]) -> FloatArray:
    """(S,) how often each state follows; states never arrived at share what the singletons tell
    about unseen ones (Good and Turing)."""
    unseen = arrivals == 0.0
    unseen[only_after_ends] = False
    result = arrivals / max(1.0, arrivals.sum())
    if unseen.any():
        missing = (np.sum(arrivals == 1.0) + 1.0) / (arrivals.sum() + 2.0)
        result = np.where(unseen, missing / unseen.sum(), (1.0 - missing) * result)
    return np.asarray(result / result.sum())


def _atoms(overall: FloatArray) -> tuple[IntArray, FloatArray]:
    """Keys state * S + next state, and shares, that stand for `overall` in each state."""
    S = len(overall)
    if S <= ATOMS:
        return np.arange(S * S), np.tile(overall, S)
    # A systematic sample, shifted from state to state by the golden ratio.
    shift = np.arange(S)[:, None] * 0.6180339887498949 % 1.0
    points = (np.arange(ATOMS) + shift) / ATOMS
    after = np.minimum(np.searchsorted(np.cumsum(overall), points, side="right"), S - 1)
    return (np.arange(S)[:, None] * S + after).ravel(), np.full(S * ATOMS, 1.0 / ATOMS)


def _walks(seen: IntArray, number: Any, S: int) -> tuple[IntArray, FloatArray]:
    """The same for what is near a state: where walks of two or three observed transitions from it
    end (in the state itself where none was). The first leaves the state, so that its own counts are
    not told twice."""
    if not len(seen):
        return seen, np.zeros(0)
    rng = np.random.default_rng(0)
    starts = np.searchsorted(seen, np.arange(S + 1) * S)
    away = np.where(seen // S == seen % S, 0.0, number)
    sums, left = (np.concatenate([[0.0], np.cumsum(one)]) for one in (number, away))

    def step(states: IntArray, sums: FloatArray) -> IntArray:
        low, high = sums[starts[states]], sums[starts[states + 1]]
        drawn = low + rng.uniform(size=states.shape) * (high - low)
        at = np.clip(np.searchsorted(sums, drawn, side="right") - 1, 0, len(seen) - 1)
        return np.where(high > low, seen[at] % S, states)

    every = np.repeat(np.arange(S), ATOMS)
    found = step(step(every, left), sums)
    found = np.where(np.arange(len(every)) % 2, step(found, sums), found)
    which, keys = _numbered(every * S + found)
    return keys, np.bincount(which) / ATOMS


def _looked_up(keys: IntArray, values: FloatArray, asked: IntArray) -> FloatArray:
    """The values of some keys, 0 for those that are not among the sorted ones."""
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[at] == asked, values[at], 0.0)


def _likely(number: FloatArray, prior: FloatArray, row: IntArray, mass: FloatArray) -> float:
    """The log-likelihood of counts whose rows are drawn from Dirichlet(prior) with these masses."""
    from scipy.special import gammaln

    totals = np.bincount(row, number, minlength=len(mass))
    found = np.sum(gammaln(mass) - gammaln(mass + totals))
    return float(found + np.sum(gammaln(prior + number) - gammaln(prior)))


def _weakest(fits: Callable[[float, float], float]) -> tuple[float, float]:
    """The strengths that leave most open among those that the counts do not speak against: too
    strong a prior makes claims too sure."""
    both = [(m_0, m_1) for m_0 in STRENGTHS for m_1 in STRENGTHS]
    found = np.array([fits(*one) for one in both])
    likely = [one for one, fit in zip(both, found, strict=True) if fit >= found.max() - DOUBTFUL]
    return min(likely, key=lambda one: one[0] * one[1] / (one[0] + one[1] + 1.0))
