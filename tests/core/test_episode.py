"""Episodes: what is accepted, and what is refused with the step named."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan import Episode
from counterplan.errors import InputError


def test_holds_integer_arrays_that_cannot_be_written() -> None:
    episode = Episode(states=[2, 0, 1], actions=(0.0, 1.0, 1.0), id="7")
    assert episode.states.tolist() == [2, 0, 1]
    assert episode.actions.dtype == np.int64
    assert len(episode) == 3
    with pytest.raises(ValueError, match="read-only"):
        episode.states[0] = 5


def test_does_not_keep_the_callers_array() -> None:
    states = np.array([0, 1])
    episode = Episode(states, [0, 0])
    states[0] = 9
    assert episode.states.tolist() == [0, 1]


def test_features_with_one_action_less_or_as_vectors() -> None:
    assert Episode([[0.5, 1.0], [1.0, 2.0]], [3]).actions.tolist() == [3]
    assert Episode([[0.5], [1.0]], [[0.1, 0.2], [0.3, 0.4]]).actions.shape == (2, 2)


def test_a_single_step_is_an_episode() -> None:
    assert len(Episode([0], [3])) == 1


def test_equal_content_is_equal_and_hashes_alike() -> None:
    one, other = Episode([0, 1], [1, 0], "a"), Episode(np.array([0, 1]), [1, 0], "a")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Episode([0, 1], [1, 0], "b")
    assert one != Episode([0, 1], [1, 1], "a")
    assert one != "a"


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([], [], "episode 'x' is empty: it needs at least one state and one action"),
        ([0, 1], [0], "episode 'x' has 2 states but 1 actions: give one action for each state"),
        ([0, -1], [0, 0], "episode 'x': state at t=1 is -1: expected a whole number from 0 up"),
        ([0, 1], [0, 0.5], "episode 'x': action at t=1 is 0.5: expected a whole number from 0 up"),
        ([0, np.nan], [0, 0], "episode 'x': state at t=1 is nan: expected a whole number from"),
        ([np.inf], [0], "episode 'x': state at t=0 is inf: expected a whole number from 0 up"),
        ([1e300], [0], "episode 'x': state at t=0 is 1e+300: expected a whole number from 0 up"),
        (
            [0.5, 0.7],
            [0, 0],
            "episode 'x': state at t=0 is 0.5: expected a whole number from 0 up; "
            "measurements form a table, (T, 1) for one",
        ),
        (["low"], [0], "episode 'x': state must hold whole numbers, got values of type <U3"),
        ([True], [0], "episode 'x': state must hold whole numbers, got values of type bool"),
        ([1j], [0], "episode 'x': state must hold whole numbers, got values of type complex128"),
        ([[[0]]], [0], "episode 'x': state must have one dimension (steps), got shape (1, 1, 1)"),
        ([[0], [0, 1]], [0], "episode 'x': state table must hold numbers, T rows of the same"),
        ([[0.0], [np.nan]], [0], "episode 'x': state at t=1, column 0 is nan: must be finite"),
        ([[0.0]], [[np.inf]], "episode 'x': action at t=0, column 0 is inf: must be finite"),
        ([[], []], [0], "episode 'x': state table has no columns"),
        ([[0.0]] * 3, [0], "episode 'x' has 3 states but 1 actions: give one action for each"),
        ([0, 1], [[0.0], [1.0]], "episode 'x': discrete states take discrete actions, not"),
    ],
)
def test_refuses_what_is_no_episode(states: object, actions: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Episode(states, actions, id="x")  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_a_number_beyond_64_bits_does_not_wrap_around() -> None:
    with pytest.raises(InputError, match="at t=0 is 9223372036854775808"):
        Episode(np.array([2**63], dtype=np.uint64), [0])


def test_unknown_states_and_actions_are_named_with_their_step() -> None:
    episode = Episode([0, 3, 4], [0, 1, 2])
    episode.check_range(5, 3)
    with pytest.raises(InputError, match=r"the episode: unknown state 3 at t=1: .* states 0\.\.2"):
        episode.check_range(3, 3)
    with pytest.raises(InputError, match=r"unknown action 2 at t=2: the model has actions 0\.\.1"):
        episode.check_range(5, 2)
