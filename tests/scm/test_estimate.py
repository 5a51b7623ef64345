"""Models from episodes: counts, priors and posterior means, and a prior out of the counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan import Episode, TabularMDP
from counterplan.errors import InputError
from counterplan.scm import Pooled, count_transitions, estimate_mdp, neighbour_prior
from counterplan.testing import random_episode

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
        (
            {"prior": "much"},
            "prior must be an array of numbers, or 'pooled' to learn it; it is 'much'",
        ),
        ({"prior": Pooled({9: 1})}, "unknown state 9"),
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


# --- A prior out of the counts: how rows scatter, what others say of a row, and ends ---


def learned(truth: TabularMDP, n: int, steps: int) -> TabularMDP:
    rng = np.random.default_rng(1)
    episodes = [random_episode(rng, truth, steps) for _ in range(n)]
    counts = count_transitions(episodes, truth.n_states, truth.n_actions)
    return estimate_mdp(counts, truth.rewards, prior="pooled")


def strengths(model: TabularMDP) -> np.ndarray:
    """(S, A) pseudo-counts of the prior."""
    assert model.mass is not None
    assert model.counts is not None
    seen = np.zeros(model.row_of.shape)
    np.add.at(seen, tuple(model.counts[:, :2].T), model.counts[:, 3])
    return model.mass - seen


@pytest.mark.parametrize("strength", [2.0, 20.0])
def test_the_strength_is_that_by_which_rows_scatter(strength: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(strength * rng.dirichlet(np.ones(6)), size=(6, 4))
    model = learned(TabularMDP(rows, np.zeros((6, 4))), 200, 20)
    # Within a factor of three: 24 rows tell no more.
    assert strength / 3 < np.median(strengths(model)) < 3 * strength


def test_a_row_that_stands_alone_does_not_prove_that_rows_are_alike() -> None:
    # One action a state: nothing tells how rows of a state differ, and much how states do.
    rng = np.random.default_rng(0)
    truth = TabularMDP(rng.dirichlet(np.full(40, 0.1), size=(40, 1)), np.zeros((40, 1)))
    model = learned(truth, 50, 20)
    assert strengths(model).max() < 40


def test_rows_are_distributions_near_their_counts_and_sparse() -> None:
    rng = np.random.default_rng(0)
    truth = TabularMDP(rng.dirichlet(np.full(60, 0.05), size=(60, 3)), np.zeros((60, 3)))
    few, many = learned(truth, 10, 20), learned(truth, 4000, 20)
    for model in (few, many):
        sums = np.add.reduceat(model.rows.probabilities, model.rows.indptr[:-1])
        assert sums == pytest.approx(1.0, abs=1e-12)
        assert (model.rows.probabilities > 0.0).all()
    errors = [
        np.mean([np.abs(m.row(s, a) - truth.row(s, a)).sum() for s in range(60) for a in range(3)])
        for m in (few, many)
    ]
    assert errors[1] < 0.2 * errors[0]


def test_what_follows_ends_is_known_and_tells_nothing_about_others() -> None:
    counts = count_transitions([Episode([0, 1, 2], [0, 0, 0])] * 5, 4, 2)
    model = estimate_mdp(counts, 0.0, prior=Pooled({1: 2, 2: 2}))
    assert model.row(1, 0).tolist() == model.row(2, 1).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert model.row(0, 1)[2] == 0.0  # only ends lead there
    assert model.row(0, 0)[1] > 0.5


def test_nothing_but_single_steps() -> None:
    model = estimate_mdp(count_transitions([Episode([0], [1])], 3, 2), 0.0, prior="pooled")
    assert model.row(0, 0) == pytest.approx(1 / 3)
