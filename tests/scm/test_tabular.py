"""Tabular models: what they hold, and what is refused, with the place named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array

from counterplan import Episode, TabularMDP
from counterplan.errors import InputError

# --- Tabular models: what they hold and how their rows are stored ---

P = np.array(
    [
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
        [[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]],
    ]
)
R = np.array([[1.0, 2.0], [3.0, -np.inf], [0.5, 0.25]])


def test_rows_are_what_was_given_and_equal_ones_are_stored_once() -> None:
    mdp = TabularMDP(P, R)
    assert (mdp.n_states, mdp.n_actions) == (3, 2)
    for s, a in np.ndindex(3, 2):
        assert np.array_equal(mdp.row(s, a), P[s, a])
        assert [mdp.probability(s, a, after) for after in range(3)] == P[s, a].tolist()
    assert len(mdp.rows) == 3
    assert mdp.row_of[0, 0] == mdp.row_of[1, 1]
    assert mdp.row_of[0, 1] == mdp.row_of[2, 0] == mdp.row_of[2, 1]
    assert len(mdp.rows.probabilities) == 2 + 1 + 3
    assert (mdp.rows.probabilities > 0.0).all()
    assert TabularMDP([[[1.0]]], [[2.0]]).row(0, 0).tolist() == [1.0]


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


def test_does_not_keep_or_change_the_callers_arrays() -> None:
    rewards, admissible = R.copy(), np.ones((3, 2), dtype=bool)
    mdp = TabularMDP(P, rewards, admissible=admissible)
    rewards[0, 0], admissible[0, 0] = 99.0, False
    assert mdp.rewards[0, 0] == 1.0
    assert mdp.admissible is not None
    assert mdp.admissible[0, 0]
    given = csr_array(([0.5, 0.5, 0.0, 1.0], ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2))
    stored = given.nnz
    TabularMDP([given], np.zeros((2, 1)))
    assert given.nnz == stored


def test_episodes_are_checked_step_by_step() -> None:
    mdp = TabularMDP(P, R)
    mdp.check_episode(Episode([0, 1, 2, 2], [0, 0, 0, 1]))
    mdp.check_episode(Episode([2], [0]))
    message = (
        r"episode '9': the transition at t=1 \(state 1, action 1 -> state 2\) has probability zero"
    )
    with pytest.raises(InputError, match=message):
        mdp.check_episode(Episode([0, 1, 2], [0, 1, 0], id="9"))


# --- Models that cannot be right: one line that names the place ---

GOOD = np.full((3, 2, 3), 1.0 / 3.0)
REWARDS = np.zeros((3, 2))


def changed(place: tuple[int, ...], value: float) -> np.ndarray:
    result = GOOD.copy()
    result[place] = value
    return result


def emptied(*place: Any) -> np.ndarray:
    result = GOOD.copy()
    result[place] = 0.0
    return result


NOT_SQUARE = [(3, 2, 4), (3, 3), (3,), (0, 2, 0), (2, 0, 2)]
NO_ARRAY = ["text", [["a"]], None, object(), csr_array(np.eye(2)), [[1], 2]]
NO_CHANCE = [(-0.1, "-0.1"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]
LARGER = changed((2, 1, 0), 0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        # Sums may miss one by single precision and no more.
        (LARGER, "transitions of state 2, action 1 sum to 1.16666667, not 1: normalise the rows"),
        (changed((2, 1, 0), 1.0 / 3.0 + 2e-6),
         "transitions of state 2, action 1 sum to 1.000002, not 1: normalise the rows"),
        (emptied(slice(1, 3), 0, 0),
         "transitions of state 1, action 0 sum to 0.666666667, not 1 (and 1 more states of this "
         "action): normalise the rows"),
        (emptied(0, 1), "transitions of state 0, action 1 sum to 0, not 1"),
        *((matrices, f"transitions: P(state 2 | state 1, action 0) is {shown}: probabilities must "
           "be finite and not negative")
          for value, shown in NO_CHANCE
          for matrices in (changed((1, 0, 2), value),
                           [csr_array(changed((1, 0, 2), value)[:, a]) for a in range(2)])),
        *((np.zeros(shape), f"transitions have shape {shape}, expected (S, A, S)")
          for shape in NOT_SQUARE),
        *((one, "transitions ") for one in NO_ARRAY),
        ([eye_array(3), eye_array(2)],
         "transitions of action 1: expected an (3, 3) matrix, got (2, 2)"),
        ([csr_array((3, 2)), eye_array(3)],
         "transitions of action 0: expected an (3, 3) matrix, got (3, 2)"),
        ([np.eye(3).tolist(), eye_array(3)],
         "transitions of action 0 are a list, others are sparse: give one scipy.sparse (S, S) "
         "matrix for each action"),
    ],
)  # fmt: skip
def test_transitions_that_cannot_be_right(given: Any, message: str) -> None:
    assert refusal(transitions=given).startswith(message)


def refusal(**parts: Any) -> str:
    with pytest.raises(InputError) as caught:
        TabularMDP(**{"transitions": GOOD, "rewards": REWARDS, **parts})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sums_may_miss_one_by_single_precision() -> None:
    TabularMDP(changed((2, 1, 0), 1.0 / 3.0 + 5e-7), REWARDS)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("rewards", np.zeros((2, 3)), "rewards have shape (2, 3), but the transitions ask for (3,"),
        ("rewards", np.zeros(3), "rewards have shape (3,), but the transitions ask for (3, 2)"),
        ("rewards", [["a", "b"]] * 3, "rewards must be an array of numbers"),
        ("rewards", [[0, 0], [0, np.nan], [0, 0]], "reward of state 1, action 1 is nan: rewards "),
        ("rewards", [[0, 0], [0, 0], [np.inf, 0]], "reward of state 2, action 0 is inf: rewards "),
        ("admissible", np.ones((2, 3), dtype=bool), "admissible must be booleans of shape (3, 2),"),
        ("admissible", np.ones((3, 2)), "admissible must be booleans of shape (3, 2), got float64"),
        ("initial", [0.5, 0.5], "initial has shape (2,), but the transitions ask for (3,)"),
        ("initial", [0.5, 0.6, 0.0], "initial is not a distribution: smallest entry 0.0, sum 1.1"),
        ("initial", [1.5, -0.5, 0.0], "initial is not a distribution: smallest entry -0.5"),
        ("initial", [np.nan, 0.5, 0.5], "initial is not a distribution"),
        ("final_rewards", [1.0], "final_rewards have shape (1,), but the transitions ask for (3,)"),
        ("final_rewards", [0, np.nan, 0], "final reward of state 1 is nan: rewards are numbers"),
        ("final_rewards", [0, 0, np.inf], "final reward of state 2 is inf: rewards are numbers"),
        ("final_rewards", ["x", "y", "z"], "final_rewards must be an array of numbers"),
        ("state_labels", ["a"], "1 state labels given for 3 states"),
        ("state_labels", 5, "state labels must be a list of names, got 5"),
        ("state_labels", ["a", "b", "a"], "two states have the label 'a'"),
        ("action_labels", ["a", "b", "c"], "3 action labels given for 2 actions"),
    ],
)
def test_other_parts_that_cannot_be_right(part: str, value: Any, message: str) -> None:
    assert refusal(**{part: value}).startswith(message)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((3, 0, 0), "unknown state 3: the model has states 0..2"),
        ((-1, 0, 0), "unknown state -1: the model has states 0..2"),
        ((0.5, 0, 0), "unknown state 0.5: the model has states 0..2"),
        ((0, 2, 0), "unknown action 2: the model has actions 0..1"),
        ((0, 0, 3), "unknown state 3: the model has states 0..2"),
        ((0, 0, -1), "unknown state -1: the model has states 0..2"),
    ],
)
def test_places_outside_the_model(place: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        TabularMDP(GOOD, REWARDS).probability(*place)
    assert str(caught.value) == message
