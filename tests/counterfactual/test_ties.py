"""Ties keep the observed action; among alternatives the lowest wins."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp


def alike(rewards: list[float]) -> cp.TabularMDP:
    """Two states; actions differ in nothing but their reward."""
    return cp.TabularMDP(np.full((2, len(rewards), 2), 0.5), [rewards, rewards])


@pytest.mark.parametrize("observed", [0, 1, 2])
def test_equal_actions_are_never_exchanged(observed: int) -> None:
    episode = cp.Episode([0, 1, 1, 0], [observed] * 4)
    found = cp.explain(alike([2.0, 2.0, 2.0]), episode, 3)
    assert found.changes == ()
    assert found.value == found.factual_value == 8.0
    assert {found.policy(t, s, u) for t in range(4) for s in range(2) for u in range(4)} == {
        observed
    }
    assert not found.change_probabilities().any()


def test_the_lowest_of_equal_alternatives_is_taken() -> None:
    found = cp.explain(alike([1.0, 3.0, 3.0, 2.0]), cp.Episode([0], [3]), 1)
    assert found.changes == ((0, 3, 1),)


def test_a_gain_of_rounding_size_is_no_gain() -> None:
    # 0.1 + 0.2 exceeds 0.3 by rounding alone.
    found = cp.explain(alike([0.3, 0.1 + 0.2]), cp.Episode([0], [0]), 1)
    assert found.changes == ()
    assert found.value == 0.3


def test_a_real_gain_is_taken_however_small_beside_the_tie_rule() -> None:
    found = cp.explain(alike([0.3, 0.3 + 1e-9]), cp.Episode([0], [0]), 1)
    assert found.changes == ((0, 0, 1),)


def test_ties_between_steps_do_not_waste_budget() -> None:
    # One change gains 1 at either step; with a budget of one, exactly one step is changed.
    found = cp.explain(alike([0.0, 1.0]), cp.Episode([0, 0], [0, 0]), 1)
    assert found.value == pytest.approx(1.0, abs=1e-12)
    assert found.changes_distribution() == pytest.approx([0.0, 1.0, 0.0], abs=1e-12)


def test_the_policy_of_every_state_keeps_ties_not_only_the_observed_one() -> None:
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.ones(3), size=3)
    transitions = np.stack([rows, rows], axis=1)  # both actions lead the same way
    rewards = np.repeat(rng.normal(size=(3, 1)), 2, axis=1)
    found = cp.explain(cp.TabularMDP(transitions, rewards), cp.Episode([0, 1, 2], [1, 0, 1]), 2)
    for t, observed in enumerate([1, 0, 1]):
        assert [found.policy(t, s, 0) for s in range(3)] == [observed] * 3
