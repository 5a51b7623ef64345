"""Models that cannot be right: one line that names the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array

from counterplan import TabularMDP
from counterplan.errors import InputError

GOOD = np.full((3, 2, 3), 1.0 / 3.0)
REWARDS = np.zeros((3, 2))


def changed(place: tuple[int, ...], value: float) -> np.ndarray:
    result = GOOD.copy()
    result[place] = value
    return result


def refusal(transitions: Any = GOOD, rewards: Any = REWARDS, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        TabularMDP(transitions, rewards, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_row_that_does_not_sum_to_one_is_named_with_its_sum() -> None:
    assert refusal(changed((2, 1, 0), 0.5)) == (
        "transitions of state 2, action 1 sum to 1.16666667, not 1: normalise the rows"
    )


def test_sums_may_miss_one_by_single_precision_and_no_more() -> None:
    TabularMDP(changed((2, 1, 0), 1.0 / 3.0 + 5e-7), REWARDS)
    assert refusal(changed((2, 1, 0), 1.0 / 3.0 + 2e-6)) == (
        "transitions of state 2, action 1 sum to 1.000002, not 1: normalise the rows"
    )


def test_further_wrong_rows_are_counted() -> None:
    wrong = GOOD.copy()
    wrong[1:, 0, 0] = 0.0
    assert refusal(wrong) == (
        "transitions of state 1, action 0 sum to 0.666666667, not 1 (and 1 more states of this "
        "action): normalise the rows"
    )


def test_an_empty_row_sums_to_zero() -> None:
    empty = GOOD.copy()
    empty[0, 1] = 0.0
    assert refusal(empty).startswith("transitions of state 0, action 1 sum to 0, not 1")


@pytest.mark.parametrize(
    ("value", "shown"), [(-0.1, "-0.1"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]
)
def test_an_entry_that_is_no_probability_is_named(value: float, shown: str) -> None:
    expected = (
        f"transitions: P(state 2 | state 1, action 0) is {shown}: probabilities must be finite "
        "and not negative"
    )
    assert refusal(changed((1, 0, 2), value)) == expected
    assert refusal([csr_array(changed((1, 0, 2), value)[:, a]) for a in range(2)]) == expected


@pytest.mark.parametrize("shape", [(3, 2, 4), (3, 3), (3,), (0, 2, 0), (2, 0, 2)])
def test_shapes_that_are_not_states_actions_states(shape: tuple[int, ...]) -> None:
    assert refusal(np.zeros(shape)) == f"transitions have shape {shape}, expected (S, A, S)"


def test_sparse_matrices_of_different_shapes() -> None:
    assert refusal([eye_array(3), eye_array(2)]) == (
        "transitions of action 1: expected an (3, 3) matrix, got (2, 2)"
    )
    assert refusal([csr_array((3, 2)), eye_array(3)]).startswith(
        "transitions of action 0: expected an (3, 3) matrix, got (3, 2)"
    )


@pytest.mark.parametrize("given", ["text", [["a"]], None, object(), csr_array(np.eye(2)), [[1], 2]])
def test_what_is_no_array_at_all(given: Any) -> None:
    assert refusal(given).startswith("transitions ")


def test_dense_and_sparse_matrices_do_not_mix() -> None:
    assert refusal([np.eye(3).tolist(), eye_array(3)]) == (
        "transitions of action 0 are a list, others are sparse: give one scipy.sparse (S, S) "
        "matrix for each action"
    )


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (np.zeros((2, 3)), "rewards have shape (2, 3), but the transitions have (S, A) = (3, 2)"),
        (np.zeros(3), "rewards have shape (3,), but the transitions have (S, A) = (3, 2)"),
        ([["a", "b"]] * 3, "rewards must be an array of numbers"),
        ([[0, 0], [0, np.nan], [0, 0]], "reward of state 1, action 1 is nan: rewards are finite"),
        ([[0, 0], [0, 0], [np.inf, 0]], "reward of state 2, action 0 is inf: rewards are finite"),
    ],
)
def test_rewards(rewards: Any, message: str) -> None:
    assert refusal(rewards=rewards).startswith(message)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("admissible", np.ones((2, 3), dtype=bool), "admissible must be booleans of shape (3, 2),"),
        ("admissible", np.ones((3, 2)), "admissible must be booleans of shape (3, 2), got float64"),
        ("initial", [0.5, 0.5], "initial has shape (2,), expected (3,)"),
        ("initial", [0.5, 0.6, 0.0], "initial is not a distribution: smallest entry 0.0, sum 1.1"),
        ("initial", [1.5, -0.5, 0.0], "initial is not a distribution: smallest entry -0.5"),
        ("initial", [np.nan, 0.5, 0.5], "initial is not a distribution"),
        ("final_rewards", [1.0], "final_rewards have shape (1,), expected (3,)"),
        ("final_rewards", [0, np.nan, 0], "final reward of state 1 is nan: must be a number"),
        ("final_rewards", [0, 0, np.inf], "final reward of state 2 is inf: must be a number"),
        ("final_rewards", ["x", "y", "z"], "final_rewards must be an array of numbers"),
        ("state_labels", ["a"], "1 state labels given for 3 states"),
        ("state_labels", 5, "state labels must be a list of names, got 5"),
        ("state_labels", ["a", "b", "a"], "two states have the label 'a'"),
        ("action_labels", ["a", "b", "c"], "3 action labels given for 2 actions"),
    ],
)
def test_optional_parts(option: str, value: Any, message: str) -> None:
    assert refusal(**{option: value}).startswith(message)


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
