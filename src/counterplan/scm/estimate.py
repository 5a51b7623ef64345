"""Tabular models from episodes: counts with a Dirichlet prior.

With a Dirichlet(alpha_i1, ..., alpha_in) prior on P(. | s_i, a) and c_j observed transitions to
s_j, the posterior is Dirichlet(alpha_i + c) and its mean is known:

    P(s_j | s_i, a) = (alpha_ij + c_j) / sum_l (alpha_il + c_l)

The 2021 paper averages 100,000 posterior samples to approximate this number. How strong a prior to
take, and around what, the data itself can tell (`pooled_prior`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.validation import BoolArray, FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.scm.tabular import Rows, TabularMDP, numbers


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
    transitions = np.zeros((n_states, n_actions, n_states), dtype=np.int64)
    visits = np.zeros((n_states, n_actions), dtype=np.int64)
    starts = np.zeros(n_states, dtype=np.int64)
    for episode in listed_episodes(episodes):
        episode.check_range(n_states, n_actions)
        s, a = episode.states, episode.actions
        np.add.at(transitions, (s[:-1], a[:-1], s[1:]), 1)
        np.add.at(visits, (s, a), 1)
        starts[s[0]] += 1
    if not starts.any():
        raise InputError("no episodes given: a model needs at least one to be estimated")
    return TransitionCounts(transitions, visits, starts)


def neighbour_prior(n_states: int, near: float = 1.0, far: float = 0.01) -> FloatArray:
    """The paper's prior for ordered states, (S, S): `near` for j in {i-1, i, i+1}, else `far`."""
    whole_number(n_states, "n_states", minimum=1)
    distance = np.abs(np.subtract.outer(np.arange(n_states), np.arange(n_states)))
    return np.where(distance <= 1, near, far)


# Pseudo-counts in all that are tried for a level of the pooled prior.
STRENGTHS = np.geomspace(0.3, 1000.0, 25)
# Log-likelihood that a strength may fall short of the best: half the 90 % quantile of chi-squared.
DOUBTFUL = 1.35


def pooled_prior(counts: TransitionCounts) -> FloatArray:
    """(S, S) pseudo-counts learned from the counts themselves (empirical Bayes): rows of a state
    scatter around the state's own mean, and those of states around the mean of all,

        P(. | s, a) ~ Dirichlet(m_1 g_s),     g_s = (c_s + m_0 g) / (n_s + m_0)

    with the weakest strengths m_0 and m_1 among those under which the counts are about as likely as
    they can be (Dirichlet-multinomial). Where little was seen, a row is then as uncertain as the
    rows of this table differ.
    """
    every = counts.transitions.sum(axis=(0, 1)) + 0.5
    overall = every / every.sum()
    of_state = counts.transitions.sum(axis=1).astype(np.float64)
    S, A = counts.visits.shape
    m_0 = _strength(of_state, np.broadcast_to(overall, (S, S)))
    means = (of_state + m_0 * overall) / (of_state.sum(axis=1, keepdims=True) + m_0)
    pairs, states = counts.transitions.reshape(S * A, S), np.repeat(np.arange(S), A)
    seen = pairs.sum(axis=1) > 0
    return np.asarray(_strength(pairs[seen], means, states[seen]) * means)


def _strength(
    counts: ArrayLike, means: FloatArray, group: NDArray[np.int64] | None = None
) -> float:
    """The least m among STRENGTHS under which counts (R, S) are likely drawn from rows that are
    Dirichlet(m means[group])."""
    from scipy.special import gammaln

    table = np.asarray(counts)
    totals = table.sum(axis=1)
    row, column = np.nonzero(table)
    number, mean = table[row, column], means[row if group is None else group[row], column]
    found = []
    for m in STRENGTHS:
        alike = gammaln(m) - gammaln(m + totals[totals > 0])
        found.append(alike.sum() + (gammaln(m * mean + number) - gammaln(m * mean)).sum())
    # The weakest that the counts do not speak against: too strong a prior makes claims too sure.
    return float(STRENGTHS[int(np.argmax(np.array(found) >= np.max(found) - DOUBTFUL))])


def posterior_draws(mdp: TabularMDP, count: int, seed: int = 0) -> list[TabularMDP]:
    """Models whose rows are drawn from the Dirichlet posteriors of a model's rows; pairs with the
    same evidence share a draw."""
    from counterplan.scm.row_sets import by_evidence

    row_of, table = by_evidence(mdp, "risk=")
    rng, sizes = np.random.default_rng(seed), np.diff(table.indptr)
    found = []
    for _ in range(whole_number(count, "count", minimum=1)):
        # Far below any probability that matters, yet never zero: what can happen still can.
        drawn = np.maximum(rng.standard_gamma(table.posterior), 1e-280)
        drawn /= np.repeat(np.add.reduceat(drawn, table.indptr[:-1]), sizes)
        rows = Rows(table.indptr, table.indices, drawn)
        found.append(mdp.with_rows(rows, row_of))
    return found


def estimate_mdp(
    counts: TransitionCounts,
    rewards: ArrayLike,
    *,
    prior: float | ArrayLike = 1.0,
    bar_unobserved: bool = False,
    admissible: ArrayLike | None = None,
    state_labels: Sequence[str] | None = None,
    action_labels: Sequence[str] | None = None,
) -> TabularMDP:
    """The posterior-mean model, which keeps the counts.

    prior           one pseudo-count for all transitions, or (S, S) or (S, A, S) of them
    bar_unobserved  give pairs that were never seen the reward -inf, as in the paper
    admissible      (S, A) alternatives that may be chosen, None for all
    """
    S, A = counts.visits.shape
    weights = counts.transitions + _prior(prior, S, A)
    sums = weights.sum(axis=2, keepdims=True)
    for state, action in np.argwhere(sums[:, :, 0] == 0.0):
        raise InputError(
            f"no transition from state {state} under action {action} was observed and the prior "
            "gives it none: use a positive prior"
        )
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
    model = TabularMDP(
        weights / sums,
        table,
        initial=counts.starts / counts.starts.sum(),
        admissible=admissible,
        state_labels=state_labels,
        action_labels=action_labels,
    )
    places = np.argwhere(counts.transitions)
    seen = np.column_stack([places, counts.transitions[tuple(places.T)]])
    return model.with_data(counts=seen, mass=sums[:, :, 0])


def _prior(prior: float | ArrayLike, S: int, A: int) -> FloatArray:
    array = numbers(prior, "prior")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError("prior: pseudo-counts must be finite and not negative")
    if array.shape not in ((), (S, S), (S, A, S)):
        raise InputError(
            f"prior has shape {array.shape}, expected one number, ({S}, {S}) or ({S}, {A}, {S})"
        )
    return np.broadcast_to(array[:, None] if array.ndim == 2 else array, (S, A, S))
