"""Rows of a table that learn from each other: a Dirichlet prior out of the counts themselves.

Rows of a state scatter around a mean of the state, and this one around what is to be expected of a
state where nothing is known, half of it anywhere and half of it nearby:

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm.tabular import Rows

if TYPE_CHECKING:
    from counterplan.scm.estimate import TransitionCounts

# Pseudo-counts in all that are tried for a level of the pooled prior.
STRENGTHS = np.geomspace(0.3, 1000.0, 9)
# Log-likelihood that a strength may fall short of the best: half the 90 % quantile of chi-squared.
DOUBTFUL = 1.35
# The share of b_s that may be anywhere; the rest is near.
FAR = 0.5
# Next states that stand for all others where there are more of them than this.
ATOMS = 32


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
    places = np.argwhere(counts.transitions)
    # What follows ends says nothing about what follows other states.
    places = places[~np.isin(places[:, 0], list(known))]
    number: Any = counts.transitions[tuple(places.T)].astype(np.float64)
    state, action, after = places.T
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
