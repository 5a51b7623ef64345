"""Episodes survive the form in which cohorts are stored."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan import Episode
from counterplan.tables.parts import Recorded, episodes_from_bytes, episodes_to_bytes


@pytest.mark.parametrize("actions", [[1, 0, 2], [1, 0]])
def test_features_and_numbered_actions(actions: list[int]) -> None:
    states = np.arange(6.0).reshape(3, 2)
    one = Recorded(Episode(states, actions, id="a"), np.array([0.0, 4.0, 8.0]), 2, (("died", "1"),))
    two = Recorded(Episode(states[:2], [1, 1], id="b"), np.array([0.0, 4.0]), 0, (("died", "0"),))
    found = episodes_from_bytes(episodes_to_bytes([one, two], ["x", "y"]))
    assert [record.episode for record in found] == [one.episode, two.episode]
    assert [record.filled for record in found] == [2, 0]
    assert [record.outcomes for record in found] == [one.outcomes, two.outcomes]
    assert np.array_equal(found[0].times, one.times)


def test_components_may_be_called_like_features() -> None:
    states, doses = np.ones((2, 1)), np.array([[0.5, 2.0]])
    one = Recorded(Episode(states, doses, id="a"), np.zeros(2))
    found = episodes_from_bytes(episodes_to_bytes([one], ["iv"], ["iv", "vaso"]))
    assert found[0].episode == one.episode


def test_discrete() -> None:
    one = Recorded(Episode([0, 3, 1], [1, 1, 0], id="7"), np.arange(3.0))
    again = episodes_from_bytes(episodes_to_bytes([one]))
    assert again[0].episode == one.episode
    assert episodes_to_bytes(again) == episodes_to_bytes([one])
