"""What cannot be learned from is refused in one clear line, before any training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.core.episode import Episode
from counterplan.errors import InputError
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.point import Scaling
from counterplan.scm.training import Training
from counterplan.scm.transitions import Transitions

from .neural_support import LINEAR

EPISODES = LINEAR.episodes(30, 0)


def refusal(episodes: Any = EPISODES, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        NeuralSCM.fit(episodes, **{"fixed": 1, "epochs": 1, "hidden": 4, **options})
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def changed(column: int, value: Any, table: str = "states") -> list[Episode]:
    """The episodes with one column replaced."""
    result = []
    for episode in EPISODES:
        tables = {"states": np.array(episode.states), "actions": np.array(episode.actions)}
        tables[table][:, column] = value
        result.append(Episode(**tables, id=episode.id))
    return result


def test_mixed_lengths_are_fine() -> None:
    episodes = [
        Episode(e.states[:n], e.actions[: n - 1])
        for e, n in zip(EPISODES, (2, 5, 9, 3) * 7, strict=False)
    ]
    single = Episode(EPISODES[0].states[:1], EPISODES[0].actions[:1])
    data = Transitions.collect([*episodes, single])
    assert len(data) == (1 + 4 + 8 + 2) * 7
    assert data.n_episodes == 28
    second = data.of_episodes(np.array([1]))
    np.testing.assert_array_equal(second.before, EPISODES[1].states[:4])
    np.testing.assert_array_equal(second.after, EPISODES[1].states[1:5])
    np.testing.assert_array_equal(second.actions, EPISODES[1].actions[:4])


def test_nan_is_refused_by_place() -> None:
    states = np.array(EPISODES[0].states)
    states[3, 2] = np.nan
    with pytest.raises(InputError, match=r"episode 'x': state at t=3, column 2 is nan"):
        Episode(states, EPISODES[0].actions, id="x")


def test_what_is_no_list_of_episodes() -> None:
    message = refusal(EPISODES[0])
    assert message == "expected a list of episodes, got one: pass [episode] for episode '0'"
    assert "expected a list of episodes, got int" in refusal(3)
    assert "expected a list of episodes, got ndarray" in refusal([EPISODES[0].states])


def test_discrete_episodes() -> None:
    assert "its states are indices" in refusal([Episode([0, 1], [0, 0])])


def test_indices_without_vectors() -> None:
    indexed = Episode(EPISODES[0].states, np.zeros(8, dtype=int), id="x")
    assert "episode 'x': its actions are indices: pass the vectors" in refusal([indexed])


def test_unknown_action() -> None:
    indexed = Episode(EPISODES[0].states, np.full(8, 2), id="x")
    with pytest.raises(InputError, match=r"action 2 at t=0 is not in the set: it has .* 0..1"):
        Transitions.collect([indexed], np.array([[0.0], [1.0]]))


def test_wrong_width() -> None:
    narrow = Episode(EPISODES[0].states[:, :2], EPISODES[0].actions, id="narrow")
    message = refusal([*EPISODES, narrow])
    assert "episode 'narrow' has 2 features, but episode '0' has 3" in message
    wide = Episode(EPISODES[0].states, np.zeros((8, 2)), id="wide")
    assert "episode 'wide' has 2 action components" in refusal([*EPISODES, wide])


def test_too_few() -> None:
    assert "0 episodes without a single transition" in refusal([])
    free = [Episode(EPISODES[0].states[:, 1:], EPISODES[0].actions)]
    assert "one episode cannot be split" in refusal(free, fixed=0)
    assert "8 transitions to train on are too few for 3 features" in refusal(EPISODES[:2])


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        (changed(1, 7.0), "feature 1 has the value 7.0 in every transition"),
        (changed(0, 7.0), "feature 0 has the value 7.0 in every transition"),
        (changed(0, 1.0, "actions"), "action component 0 has the value 1.0 in every transition"),
    ],
)
def test_constant_column(episodes: list[Episode], message: str) -> None:
    assert message in refusal(episodes)


def test_a_fixed_feature_may_be_constant_if_its_range_is_given() -> None:
    scaling = Scaling(np.zeros(3), np.ones(3), np.zeros(1), np.ones(1))
    settings = Training(scaling=scaling, progress=False)
    scm = NeuralSCM.fit(changed(0, 7.0), fixed=1, epochs=1, hidden=4, training=settings)
    assert (scm.fixed, scm.scaling) == (1, scaling)


def test_fixed_or_not() -> None:
    names = {"features": ["age", "x", "y"]}
    data = Transitions.collect(EPISODES, **names)
    assert "feature 0 (age) never changes within an episode" in refusal(data, fixed=0)
    message = refusal(data, fixed=2)
    assert "feature 1 (x) is declared fixed but goes from" in message
    assert "in episode number 0" in message
    assert "fixed is 3, but states have 3 features" in refusal(data, fixed=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"lipschitz": 1.0}, "lipschitz must be two constants"),
        ({"lipschitz": (1.0, 0.0)}, "that of the scale must be a positive number, got 0.0"),
        ({"lipschitz": (float("nan"), 1.0)}, "lipschitz of the location must be a positive number"),
        ({"fixed": -1}, "fixed must be at least 0"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_requests(options: dict[str, Any], message: str) -> None:
    assert message in refusal(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"validation": 1.0}, "validation must be a share"),
        ({"validation": -0.1}, "validation must be a positive number, got -0.1"),
        ({"validation": "some"}, "validation must be a positive number, got 'some'"),
        ({"patience": 0}, "patience must be at least 1"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Training(**options)


def test_scaling_of_another_width() -> None:
    scaling = Scaling(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1))
    message = refusal(training=Training(scaling=scaling))
    assert "state_offset must be 3 finite numbers" in message


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((["a"], [1.0], [0.0], [1.0]), "scaling: state_offset must be numbers, got ['a']"),
        (([0.0], None, [0.0], [1.0]), "scaling: state_range must be numbers, got None"),
        (([0.0], [1.0], 0.0, [1.0]), "scaling: action_offset must be a list of numbers"),
        (([0.0], [1.0], [0.0], [[1.0]]), "scaling: action_range must be a list of numbers"),
        (([0.0], [0.0], [0.0], [1.0]), "scaling: the range of state column 0 is 0.0"),
    ],
)
def test_scaling_of_another_kind(parts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Scaling(*parts)
    assert message in str(caught.value)


def test_scaling_takes_lists() -> None:
    scaling = Scaling([1, 2], [2, 4], [0], [1])  # type: ignore[arg-type]
    assert scaling.encode_states(np.array([[3.0, 0.0]])).tolist() == [[1.0, -0.5]]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "2 features given, but the data has 3 columns"),
        (["a", "b", "a"], "the name 'a' occurs twice"),
        ("abc", "features must be a list of names"),
    ],
)
def test_bad_names(names: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Transitions.collect(EPISODES, features=names)
