"""Tabular models: what they hold and how their rows are stored."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from counterplan import Episode, TabularMDP
from counterplan.errors import InputError

P = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)
R = np.array([[1.0, 2.0], [3.0, -np.inf], [0.5, 0.25]])


def test_rows_and_probabilities_are_what_was_given() -> None:
    mdp = TabularMDP(P, R)
    assert (mdp.n_states, mdp.n_actions) == (3, 2)
    for s in range(3):
        for a in range(2):
            assert np.array_equal(mdp.row(s, a), P[s, a])
            for after in range(3):
                assert mdp.probability(s, a, after) == P[s, a, after]


def test_equal_rows_are_stored_once() -> None:
    mdp = TabularMDP(P, R)
    assert len(mdp.rows) == 3
    assert mdp.row_of[0, 0] == mdp.row_of[1, 1]
    assert mdp.row_of[0, 1] == mdp.row_of[2, 0] == mdp.row_of[2, 1]
    assert len(mdp.rows.probabilities) == 2 + 1 + 3
    assert (mdp.rows.probabilities > 0.0).all()


def test_a_list_of_sparse_matrices_gives_the_same_model() -> None:
    # Explicit zeros, duplicates and unsorted indices are all legal in sparse formats.
    data, columns = [0.25, 0.5, 0.25, 0.5, 0.3, 0.2, 1.0, 0.0], [1, 0, 1, 2, 1, 0, 2, 0]
    first = csr_array((data, columns, [0, 3, 6, 8]), shape=(3, 3))
    sparse = TabularMDP([first, csr_array(P[:, 1])], R)
    dense = TabularMDP(P, R)
    assert np.array_equal(sparse.row_of, dense.row_of)
    assert np.array_equal(sparse.rows.indptr, dense.rows.indptr)
    assert np.array_equal(sparse.rows.indices, dense.rows.indices)
    assert np.array_equal(sparse.rows.probabilities, dense.rows.probabilities)


def test_the_callers_sparse_matrices_stay_as_they_are() -> None:
    given = csr_array(([0.5, 0.5, 0.0, 1.0], ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2))
    stored = given.nnz
    TabularMDP([given], np.zeros((2, 1)))
    assert given.nnz == stored


def test_single_precision_rows_are_normalised() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random((50, 2, 50)).astype(np.float32)
    rows = weights / weights.sum(axis=2, keepdims=True)
    mdp = TabularMDP(rows, np.zeros((50, 2), dtype=np.float32))
    sums = [mdp.row(s, a).sum() for s in range(50) for a in range(2)]
    assert np.abs(np.array(sums) - 1.0).max() <= 1e-15
    assert mdp.row(3, 1) == pytest.approx(rows[3, 1], abs=1e-7)


def test_final_rewards_count_in_the_last_step_only() -> None:
    mdp = TabularMDP(P, R, final_rewards=[10.0, 20.0, 30.0])
    assert np.array_equal(mdp.rewards_at(0, 3), R)
    assert np.array_equal(mdp.rewards_at(2, 3), R + np.array([[10.0], [20.0], [30.0]]))
    assert np.array_equal(mdp.rewards_at(0, 1)[2], [30.5, 30.25])
    assert np.array_equal(TabularMDP(P, R).rewards_at(2, 3), R)


def test_outcome_sums_the_rewards_along_an_episode() -> None:
    episode = Episode([0, 1, 2], [0, 0, 1])
    assert TabularMDP(P, R).outcome(episode) == 1.0 + 3.0 + 0.25
    assert TabularMDP(P, R, final_rewards=[0, 0, 5]).outcome(episode) == 9.25
    assert TabularMDP(P, R).outcome(Episode([1], [1])) == -np.inf


def test_names() -> None:
    mdp = TabularMDP(P, R, state_labels=["a", "b", "c"], action_labels=("x", "y"))
    assert (mdp.state_name(2), mdp.action_name(0)) == ("c", "x")
    assert mdp.state_labels == ("a", "b", "c")
    plain = TabularMDP(P, R)
    assert (plain.state_name(2), plain.action_name(0)) == ("2", "0")


def test_initial_distribution_is_normalised() -> None:
    mdp = TabularMDP(P, R, initial=[0.5, 0.25, 0.25 + 1e-8])
    assert mdp.initial is not None
    assert mdp.initial.sum() == pytest.approx(1.0, abs=1e-15)


def test_one_state_and_one_action_are_a_model() -> None:
    mdp = TabularMDP([[[1.0]]], [[2.0]])
    assert mdp.row(0, 0).tolist() == [1.0]


def test_does_not_keep_the_callers_arrays() -> None:
    rewards, admissible = R.copy(), np.ones((3, 2), dtype=bool)
    mdp = TabularMDP(P, rewards, admissible=admissible)
    rewards[0, 0], admissible[0, 0] = 99.0, False
    assert mdp.rewards[0, 0] == 1.0
    assert mdp.admissible is not None
    assert mdp.admissible[0, 0]


def test_episodes_are_checked_step_by_step() -> None:
    mdp = TabularMDP(P, R)
    mdp.check_episode(Episode([0, 1, 2, 2], [0, 0, 0, 1]))
    mdp.check_episode(Episode([2], [0]))
    message = (
        r"episode '9': the transition at t=1 \(state 1, action 1 -> state 2\) has probability zero"
    )
    with pytest.raises(InputError, match=message):
        mdp.check_episode(Episode([0, 1, 2], [0, 1, 0], id="9"))
