"""Tabular models from episodes: counts with a Dirichlet prior.

With a Dirichlet(alpha_i1, ..., alpha_in) prior on P(. | s_i, a) and c_j observed transitions to
s_j, the posterior is Dirichlet(alpha_i + c) and its mean is known:

    P(s_j | s_i, a) = (alpha_ij + c_j) / sum_l (alpha_il + c_l)

The 2021 paper averages 100,000 posterior samples to approximate this number. How strong a prior to
take, and around what, the data itself can tell (`scm.pooled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.episode import Episode, listed_episodes
from counterplan.core.validation import BoolArray, FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.scm.pooled import Pooled, pooled_rows
from counterplan.scm.tabular import Rows, TabularMDP, index_of, numbers


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


def posterior_draws(
    mdp: TabularMDP, count: int, seed: int = 0, pairs: BoolArray | None = None
) -> Iterator[TabularMDP]:
    """Models whose rows are drawn from the Dirichlet posteriors of a model's rows; pairs with the
    same evidence share a draw. The rows of all others than `pairs` (S, A) stay as they are."""
    from counterplan.scm.row_sets import by_evidence

    row_of, table = by_evidence(mdp, "risk=")
    sizes = np.diff(table.indptr)
    needed = np.ones(len(sizes), dtype=np.bool_)
    if pairs is not None:
        needed = np.bincount(row_of[pairs], minlength=len(sizes)) > 0
    places = np.flatnonzero(np.repeat(needed, sizes))
    starts = np.concatenate([[0], np.cumsum(sizes[needed])[:-1]])
    rng, posterior = np.random.default_rng(seed), table.posterior[places]
    for _ in range(whole_number(count, "count", minimum=1)):
        # Far below any probability that matters, yet never zero: what can happen still can.
        drawn = np.maximum(rng.standard_gamma(posterior), 1e-280)
        drawn /= np.repeat(np.add.reduceat(drawn, starts), sizes[needed])
        probabilities = table.probabilities.copy()
        probabilities[places] = drawn
        yield mdp.with_rows(Rows(table.indptr, table.indices, probabilities), row_of)


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
    places = np.argwhere(counts.transitions)
    seen = np.column_stack([places, counts.transitions[tuple(places.T)]])
    return model.with_data(counts=seen, mass=mass)


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
