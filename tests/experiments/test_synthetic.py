"""The paper's synthetic family: its law, its optimal policy, its noisy episodes."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from counterplan.core.validation import IntArray
from counterplan.domains.icu_sepsis import TransitionSampler, draw_actions
from counterplan.scm.tabular import TabularMDP
from experiments.synthetic import (
    SyntheticProcess,
    synthetic_process,
)


def transitions_of(mdp: TabularMDP) -> np.ndarray:
    return np.stack([[mdp.row(s, a) for a in range(mdp.n_actions)] for s in range(mdp.n_states)])


def value_of(process: SyntheticProcess, policy: IntArray) -> np.ndarray:
    """(S,) expected outcome of a deterministic policy, step by step."""
    states = np.arange(process.mdp.n_states)
    transitions = transitions_of(process.mdp)
    value = np.zeros(len(states))
    for row in policy[::-1]:
        value = process.mdp.rewards[states, row] + transitions[states, row] @ value
    return value


@given(alpha=st.floats(0.0, 1.0), seed=st.integers(0, 10**6))
def test_weights_lie_between_zero_and_alpha(alpha: float, seed: int) -> None:
    """Relative to the largest weight, which is 1, all others are at most alpha."""
    transitions = transitions_of(synthetic_process(alpha, seed, 4, 3, 2).mdp)
    np.testing.assert_allclose(transitions.sum(axis=2), 1.0, atol=1e-12)
    weights = np.sort(transitions / transitions.max(axis=2, keepdims=True), axis=2)
    assert (weights[:, :, :-1] <= alpha + 1e-12).all()


def test_without_uncertainty_every_step_is_certain() -> None:
    transitions = transitions_of(synthetic_process(0.0, seed=3).mdp)
    assert set(np.unique(transitions)) == {0.0, 1.0}
    favourites = transitions.argmax(axis=2)
    assert len(np.unique(favourites)) == 20


def test_policy_is_optimal_among_all() -> None:
    process = synthetic_process(0.5, seed=1, n_states=2, n_actions=2, horizon=3)
    best = np.max(
        [value_of(process, np.reshape(p, (3, 2))) for p in product((0, 1), repeat=6)], axis=0
    )
    np.testing.assert_allclose(value_of(process, process.policy), best, atol=1e-12)


def test_episodes_without_noise_follow_the_policy() -> None:
    process = synthetic_process(0.4, seed=4)
    for episode in process.sample_episodes(20, seed=0, noise=0.0):
        process.mdp.check_episode(episode)
        np.testing.assert_array_equal(
            episode.actions, process.policy[np.arange(20), episode.states]
        )


def test_noise_replaces_the_action_by_another() -> None:
    process = synthetic_process(0.4, seed=4, n_actions=3)
    episodes = process.sample_episodes(1000, seed=1, noise=0.3)
    steps = np.arange(20)
    shifts = np.concatenate([(e.actions - process.policy[steps, e.states]) % 3 for e in episodes])
    frequencies = np.bincount(shifts, minlength=3) / shifts.size
    # Five standard deviations of a frequency around 1/2.
    np.testing.assert_allclose(frequencies, [0.7, 0.15, 0.15], atol=5 * 0.5 / np.sqrt(shifts.size))
    everything = process.sample_episodes(50, seed=1, noise=1.0)
    assert all((e.actions != process.policy[steps, e.states]).all() for e in everything)


def test_mean_outcome_agrees_with_the_authors_experiments() -> None:
    """Theirs: 225.8 over 10 instances; instances differ by a standard deviation of 4.5."""
    means = []
    for seed in range(10):
        process = synthetic_process(0.4, seed=seed)
        episodes = process.sample_episodes(50, seed=seed)
        means.append(np.mean([process.mdp.outcome(episode) for episode in episodes]))
    assert abs(np.mean(means) - 225.8) < 3 * 4.5 * np.sqrt(2 / 10)


# --- Vectorised draws against the probabilities they are drawn from ---

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


def test_actions_have_the_policys_frequencies() -> None:
    policy = np.array([[0.0, 0.7, 0.3], [1.0, 0.0, 0.0]])
    rng = np.random.default_rng(2)
    drawn = draw_actions(policy, np.zeros(DRAWS, dtype=np.int64), rng)
    frequencies = np.bincount(drawn, minlength=3) / DRAWS
    np.testing.assert_allclose(frequencies, policy[0], atol=TOLERANCE)
    assert frequencies[0] == 0
    assert (draw_actions(policy, np.ones(100, dtype=np.int64), rng) == 0).all()
