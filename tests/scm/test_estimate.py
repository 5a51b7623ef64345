"""Models from episodes: counts, priors and posterior means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan import Episode
from counterplan.errors import InputError
from counterplan.scm import count_transitions, estimate_mdp, neighbour_prior

EPISODES = [Episode([0, 1, 1], [0, 1, 0]), Episode([0, 1, 2], [0, 1, 1]), Episode([2], [0])]


def test_counts_by_hand() -> None:
    counts = count_transitions(EPISODES, 3, 2)
    expected = np.zeros((3, 2, 3), dtype=int)
    expected[0, 0, 1] = 2
    expected[1, 1, 1] = 1
    expected[1, 1, 2] = 1
    assert np.array_equal(counts.transitions, expected)
    assert counts.visits.tolist() == [[2, 0], [1, 2], [1, 1]]
    assert counts.starts.tolist() == [2, 0, 1]
    assert counts.observed.tolist() == [[True, False], [True, True], [True, True]]


def test_posterior_mean_by_hand() -> None:
    mdp = estimate_mdp(count_transitions(EPISODES, 3, 2), np.zeros((3, 2)), prior=0.5)
    # (alpha + count) / sum: (0.5, 2.5, 0.5) / 3.5 and (0.5, 1.5, 1.5) / 3.5
    assert mdp.row(0, 0) == pytest.approx([1 / 7, 5 / 7, 1 / 7], abs=1e-15)
    assert mdp.row(1, 1) == pytest.approx([1 / 7, 3 / 7, 3 / 7], abs=1e-15)
    assert mdp.row(2, 0) == pytest.approx([1 / 3] * 3, abs=1e-15)
    assert mdp.initial == pytest.approx([2 / 3, 0.0, 1 / 3])


@pytest.mark.parametrize("seed", range(10))
def test_posterior_mean_equals_the_mean_of_posterior_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    episodes = [Episode(rng.integers(3, size=8), rng.integers(2, size=8)) for _ in range(3)]
    counts = count_transitions(episodes, 3, 2)
    prior = rng.uniform(0.1, 2.0, size=(3, 2, 3))
    mdp = estimate_mdp(counts, np.zeros((3, 2)), prior=prior)
    draws = rng.dirichlet(prior[0, 1] + counts.transitions[0, 1], size=4_000)
    # Five standard errors of the mean, estimated from the draws.
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - mdp.row(0, 1)) <= 5.0 * error + 1e-6).all()


def test_neighbour_prior_by_hand() -> None:
    assert neighbour_prior(4).tolist() == [
        [1.0, 1.0, 0.01, 0.01],
        [1.0, 1.0, 1.0, 0.01],
        [0.01, 1.0, 1.0, 1.0],
        [0.01, 0.01, 1.0, 1.0],
    ]
    assert neighbour_prior(3, near=2.0, far=0.0)[0].tolist() == [2.0, 2.0, 0.0]
    with pytest.raises(InputError, match=r"n_states must be a whole number, got 2\.5"):
        neighbour_prior(2.5)  # type: ignore[arg-type]


def test_an_ordered_prior_applies_to_every_action() -> None:
    mdp = estimate_mdp(count_transitions(EPISODES, 3, 2), 0.0, prior=neighbour_prior(3))
    assert mdp.row(0, 0) == pytest.approx(np.array([1.0, 3.0, 0.01]) / 4.01, abs=1e-15)
    assert mdp.row(0, 1) == pytest.approx(np.array([1.0, 1.0, 0.01]) / 2.01, abs=1e-15)


def test_unobserved_pairs_can_be_barred() -> None:
    counts = count_transitions(EPISODES, 3, 2)
    rewards = np.arange(6.0).reshape(3, 2)
    barred = estimate_mdp(counts, rewards, bar_unobserved=True).rewards
    assert barred[0, 1] == -np.inf
    assert np.isfinite(np.delete(barred.ravel(), 1)).all()
    assert np.array_equal(estimate_mdp(counts, rewards).rewards, rewards)
    assert np.isfinite(rewards).all()


def test_rewards_spread_over_states_and_actions() -> None:
    counts = count_transitions(EPISODES, 3, 2)
    assert (estimate_mdp(counts, 2.0).rewards == 2.0).all()
    assert estimate_mdp(counts, [1.0, 2.0]).rewards[2].tolist() == [1.0, 2.0]
    assert estimate_mdp(counts, [[1.0], [2.0], [3.0]]).rewards[2].tolist() == [3.0, 3.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"prior": 0.0},
            "no transition from state 0 under action 1 was observed and the prior gives it none",
        ),
        ({"prior": -1.0}, "prior: pseudo-counts must be finite and not negative"),
        ({"prior": np.nan}, "prior: pseudo-counts must be finite and not negative"),
        ({"prior": np.ones((2, 2))}, "prior has shape (2, 2), expected one number, (3, 3) or"),
        ({"prior": "much"}, "prior must be an array of numbers"),
        ({"rewards": np.zeros(3)}, "rewards have shape (3,), expected (3, 2) or one that spreads"),
        ({"rewards": "high"}, "rewards must be an array of numbers"),
        ({"rewards": np.nan}, "reward of state 0, action 0 is nan"),
    ],
)
def test_refuses_what_gives_no_model(options: dict[str, Any], message: str) -> None:
    counts = count_transitions(EPISODES, 3, 2)
    with pytest.raises(InputError) as caught:
        estimate_mdp(counts, **{"rewards": 0.0, **options})
    assert str(caught.value).startswith(message)


def test_counts_need_episodes_that_fit() -> None:
    with pytest.raises(InputError, match="no episodes given"):
        count_transitions([], 3, 2)
    with pytest.raises(InputError, match=r"unknown state 2 at t=2: .* has states 0\.\.1"):
        count_transitions(EPISODES, 2, 2)
    with pytest.raises(InputError, match="n_states must be at least 1, got 0"):
        count_transitions(EPISODES, 0, 2)
