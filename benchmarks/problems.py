"""The problems that are timed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

import counterplan as cp
from counterplan.domains.icu_sepsis import IcuSepsis
from experiments import synthetic

HORIZON = 20
BUDGET = 10
ALPHA = 0.4


def dense_transitions(mdp: cp.TabularMDP) -> Any:
    """(S, A, S)."""
    pairs = [[mdp.row(s, a) for a in range(mdp.n_actions)] for s in range(mdp.n_states)]
    return np.array(pairs)


def long_stays(icu: IcuSepsis, count: int) -> list[cp.Episode]:
    """Sampled patients who are still in treatment, or leave it, in the twentieth state."""
    sampled = icu.sample_episodes(100 * count, seed=0, horizon=HORIZON)
    return [episode for episode in sampled if len(episode) == HORIZON][:count]


def all_actions(mdp: cp.TabularMDP) -> cp.TabularMDP:
    """The model without its mask, so that every action may be chosen in every state."""
    return _rebuilt(mdp, _matrices(mdp))


def unshared_rows(mdp: cp.TabularMDP, seed: int = 0) -> cp.TabularMDP:
    """The model without its mask and with a row of its own for every pair.

    Inadmissible actions share one row in each state, which the solver makes use of. A relative
    change of 1e-6 makes the rows distinct and leaves the sizes as they were.
    """
    rng = np.random.default_rng(seed)
    changed = []
    for matrix in _matrices(mdp):
        matrix.data *= 1.0 + 1e-6 * rng.random(matrix.nnz)
        matrix.data /= np.repeat(matrix.sum(axis=1), np.diff(matrix.indptr))
        changed.append(matrix)
    return _rebuilt(mdp, changed)


def sparse_process(
    n_states: int, n_actions: int, nonzeros: int, seed: int = 0
) -> tuple[cp.TabularMDP, cp.Episode]:
    """A random process whose rows have exactly `nonzeros` entries, and an episode of it."""
    rng = np.random.default_rng(seed)
    matrices = []
    for _ in range(n_actions):
        targets = [np.sort(rng.choice(n_states, nonzeros, replace=False)) for _ in range(n_states)]
        weights = rng.random((n_states, nonzeros)) + 1e-3
        entries = (weights / weights.sum(axis=1, keepdims=True)).ravel()
        starts = np.arange(n_states + 1) * nonzeros
        shape = (n_states, n_states)
        matrices.append(csr_array((entries, np.concatenate(targets), starts), shape=shape))
    mdp = cp.TabularMDP(matrices, rng.random((n_states, n_actions)))
    return mdp, _random_walk(mdp, rng)


def first_frontier(mdp: cp.TabularMDP, episode: cp.Episode, k: int) -> Any:
    """A frontier as of a table that was never asked about: rows that earlier questions kept are
    dropped, which on the same episode again are nearly all of the work."""
    vars(mdp.rows).pop("_kept", None)
    return cp.frontier(mdp, episode, k_max=k)


def synthetic_problem(n_states: int, horizon: int) -> tuple[cp.TabularMDP, cp.Episode]:
    """The paper's family with ten actions, rows without zeros."""
    process = synthetic.synthetic_process(ALPHA, seed=0, n_states=n_states, horizon=horizon)
    return process.mdp, process.sample_episodes(1, seed=1)[0]


def _matrices(mdp: cp.TabularMDP) -> list[Any]:
    rows = mdp.rows
    table = csr_array(
        (rows.probabilities, rows.indices, rows.indptr), shape=(len(rows), mdp.n_states)
    )
    return [table[mdp.row_of[:, action]] for action in range(mdp.n_actions)]


def _rebuilt(mdp: cp.TabularMDP, matrices: list[Any]) -> cp.TabularMDP:
    return cp.TabularMDP(
        matrices, mdp.rewards, initial=mdp.initial, final_rewards=mdp.final_rewards
    )


def _random_walk(mdp: cp.TabularMDP, rng: np.random.Generator) -> cp.Episode:
    actions = rng.integers(mdp.n_actions, size=HORIZON)
    states = [int(rng.integers(mdp.n_states))]
    for action in actions[:-1]:
        indices, probabilities = mdp.rows.slice(mdp.row_of[states[-1], action])
        states.append(int(rng.choice(indices, p=probabilities)))
    return cp.Episode(states, actions)
