"""What a model keeps of its data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import Scaling
from counterplan.scm import support as module
from counterplan.scm.support import Seen, collect_seen, outliers

from .test_neural import model


def transitions(rng: np.random.Generator, episodes: int, length: int, D: int = 3) -> cp.Transitions:
    """Slow random walks, so that a state's own episode is nearest."""
    starts = rng.normal(size=(episodes, 1, D))
    walks = starts + 0.01 * rng.normal(size=(episodes, length, D)).cumsum(axis=1)
    before, after = walks[:, :-1].reshape(-1, D), walks[:, 1:].reshape(-1, D)
    actions = rng.integers(0, 3, size=(len(before), 2)) * 1.0
    return cp.Transitions(before, actions, after, np.repeat(np.arange(episodes), length - 1))


def nearest_of_others(states: np.ndarray, episode: np.ndarray) -> np.ndarray:
    apart = np.sqrt(((states[:, None] - states[None]) ** 2).sum(axis=2))
    apart[episode[:, None] == episode[None]] = np.inf
    return np.asarray(apart.min(axis=1))


@pytest.mark.parametrize(("episodes", "length"), [(30, 4), (3, 60), (2, 2)])
def test_distances_to_other_episodes(episodes: int, length: int) -> None:
    data = transitions(np.random.default_rng(0), episodes, length)
    scaling = Scaling([1.0, 2.0, 3.0], [2.0, 1.0, 4.0], [0.0, 1.0], [1.0, 2.0])
    found = collect_seen(data, scaling)
    states = scaling.encode_states(data.before).astype(np.float32)
    assert (found.states == states).all()
    assert (found.actions == scaling.encode_actions(data.actions).astype(np.float32)).all()
    expected = nearest_of_others(states.astype(np.float64), data.episode)
    assert found.typical == pytest.approx(np.median(expected))
    assert found.far == pytest.approx(np.quantile(expected, 0.99, method="higher"))


def test_whole_numbers_are_as_near_as_rounding_allows() -> None:
    """A score from 0 to 40: every value occurs in another episode, but what lies between two of
    them is no farther from the data than half a step."""
    rng = np.random.default_rng(0)
    episodes = [cp.Episode(rng.integers(0, 41, (8, 1)), rng.normal(size=(7, 1))) for _ in range(60)]
    scaling = Scaling([20.0], [40.0], [0.0], [1.0])
    seen = collect_seen(cp.Transitions.collect(episodes), scaling)
    assert (seen.typical, seen.far) == pytest.approx((0.5 / 40, 0.5 / 40))
    between = scaling.encode_states(np.array([[23.4], [44.0]]))
    assert (seen.nearest(between) <= seen.far).tolist() == [True, False]


def test_a_single_episode_has_no_others() -> None:
    found = collect_seen(transitions(np.random.default_rng(0), 1, 5), None)
    assert (found.typical, found.far) == (np.inf, np.inf)


def test_much_data_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 50)
    monkeypatch.setattr(module, "COMPARED", 20)
    data = transitions(np.random.default_rng(0), 40, 6)
    found, again, other = (collect_seen(data, None, seed) for seed in (1, 1, 2))
    assert len(found.states) == 50
    assert found.states.tobytes() == again.states.tobytes()
    assert found.states.tobytes() != other.states.tobytes()
    known = {row.tobytes() for row in data.before.astype(np.float32)}
    rows = [row.tobytes() for row in found.states]
    assert set(rows) <= known
    assert len(set(rows)) == 50
    states = found.states.astype(np.float64)
    pairs = zip(data.before.astype(np.float32), data.episode, strict=True)
    owner = {row.tobytes(): number for row, number in pairs}
    every = nearest_of_others(states, np.array([owner[row] for row in rows]))
    assert every.min() <= found.typical <= every.max()


TABLE = np.zeros((4, 3), dtype=np.float32)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((np.full_like(TABLE, np.nan), TABLE, 1.0, 2.0), "finite numbers"),
        ((TABLE, TABLE[:3], 1.0, 2.0), "4 states but 3 actions"),
        ((TABLE, TABLE, -1.0, 2.0), "not in order"),
        ((TABLE, TABLE, 3.0, 2.0), "not in order"),
        ((TABLE, TABLE, 1.0, np.nan), "not in order"),
        ((TABLE, TABLE, 1.0, 2.0), "seen: 3 features and 3 action components, but the model"),
    ],
)
def test_bad_data(parts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(model(), seen=Seen(*parts))


def test_outliers_are_the_farthest_beyond_a_whole_range() -> None:
    scaling = Scaling([0.0, 10.0], [2.0, 4.0], [0.0], [1.0])
    episode = cp.Episode([[0.0, 10.0], [3.1, 13.0], [-4.0, 16.1]], np.zeros((2, 1)), id="a")
    found = outliers(scaling, ["x", "y"], episode)
    assert found == [("a", 2, "x", -4.0, -1.0, 1.0), ("a", 2, "y", 16.1, 8.0, 12.0)]
    assert outliers(None, ["x", "y"], episode) == []


def test_what_was_left_out_is_an_outlier_however_near() -> None:
    scaling = Scaling([50.0, 10.0], [90.0, 4.0], [0.0], [1.0])
    episode = cp.Episode([[99.0, 10.0], [-1.0, 9.0], [4.0, 11.0]], np.zeros((2, 1)), id="a")
    assert outliers(scaling, ["x", "y"], episode) == []
    apart = np.array([[-1.0, np.nan], [np.nan, 99.0]])
    (found,) = outliers(scaling, ["x", "y"], episode, apart)
    assert found == ("a", 1, "x", -1.0, 5.0, 95.0)
    assert not found.is_far
