"""Vectorised draws against the probabilities they are drawn from."""

from __future__ import annotations

import numpy as np

from counterplan.domains.sampling import TransitionSampler, draw_actions
from counterplan.scm.tabular import TabularMDP

TRANSITIONS = np.array(
    [
        [[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]],
        [[0.2, 0.3, 0.5], [0.0, 0.0, 1.0]],
        [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]],
    ]
)
DRAWS = 20_000
# Five standard deviations of a frequency with probability 1/2.
TOLERANCE = 5 * 0.5 / np.sqrt(DRAWS)


def test_next_states_have_the_models_frequencies() -> None:
    sampler = TransitionSampler(TabularMDP(TRANSITIONS, np.zeros((3, 2))))
    rng = np.random.default_rng(0)
    for state in range(3):
        for action in range(2):
            drawn = sampler.draw(np.full(DRAWS, state), np.full(DRAWS, action), rng)
            frequencies = np.bincount(drawn, minlength=3) / DRAWS
            expected = TRANSITIONS[state, action]
            np.testing.assert_allclose(frequencies, expected, atol=TOLERANCE)
            assert (frequencies[expected == 0] == 0).all()


def test_mixed_pairs_are_drawn_from_their_own_rows() -> None:
    sampler = TransitionSampler(TabularMDP(TRANSITIONS, np.zeros((3, 2))))
    states, actions = np.array([0, 1, 2] * 50), np.ones(150, dtype=np.int64)
    drawn = sampler.draw(states, actions, np.random.default_rng(1))
    np.testing.assert_array_equal(drawn, [0, 2, 1] * 50)


def test_actions_have_the_policys_frequencies() -> None:
    policy = np.array([[0.0, 0.7, 0.3], [1.0, 0.0, 0.0]])
    rng = np.random.default_rng(2)
    drawn = draw_actions(policy, np.zeros(DRAWS, dtype=np.int64), rng)
    frequencies = np.bincount(drawn, minlength=3) / DRAWS
    np.testing.assert_allclose(frequencies, policy[0], atol=TOLERANCE)
    assert frequencies[0] == 0
    assert (draw_actions(policy, np.ones(100, dtype=np.int64), rng) == 0).all()
