"""Bars hold the probabilities of all outcomes, split at the observed one."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.viz.outcomes import SAMPLES, outcome_data

from ..results import COST, discrete, policy, ship


def test_a_policy_with_an_exact_distribution() -> None:
    data, exact = outcome_data(policy()), policy().outcome_distribution()
    assert not data.sampled
    assert data.observed == policy().factual_value
    assert data.mean == pytest.approx(policy().value)
    np.testing.assert_allclose(data.left + data.width / 2, exact.values)
    np.testing.assert_allclose(data.better + data.rest, exact.probabilities)
    assert data.probability_better == pytest.approx(policy().probability_better().value)


def test_a_policy_without_one_is_sampled() -> None:
    mdp, frontier = discrete()
    rewards = np.random.default_rng(0).normal(size=mdp.rewards.shape)
    odd = cp.TabularMDP(np.array([[mdp.row(s, a) for a in range(3)] for s in range(4)]), rewards)
    found = cp.explain(odd, frontier[0].episode, k=2)
    data = outcome_data(found)
    assert data.sampled
    samples = found.sample(SAMPLES, seed=0).outcomes
    assert data.probability_better == pytest.approx((samples > found.factual_value).mean())
    assert (data.better + data.rest).sum() == pytest.approx(1.0)


def test_costs_are_better_where_they_are_lower() -> None:
    played = cp.evaluate(ship(), cp.policies.Greedy(), episodes=40, seed=0)
    paid = float(np.median(played.outcomes))
    for quantity in (None, COST):
        data = outcome_data(played, paid, quantity=quantity)
        assert data.probability_better == pytest.approx((played.outcomes < paid).mean())
        assert data.mean == played.mean


@pytest.mark.parametrize("n", [7, 400])
def test_samples_equal_to_the_observed_one_are_not_better(n: int) -> None:
    outcomes = np.concatenate([np.zeros(n), 0.5 + np.linspace(0.0, 0.4, 3 * n)])
    data = outcome_data(outcomes, 0.0)
    assert data.better.sum() == pytest.approx(0.75)
    assert data.rest.sum() == pytest.approx(0.25)


def test_a_single_outcome_is_visible() -> None:
    data = outcome_data([0.8, 0.8], 0.0)
    assert data.width > 0.01
    np.testing.assert_allclose(data.better, [1.0])


def test_outcomes_that_are_barred_are_left_out() -> None:
    data = outcome_data([-np.inf, 1.0], 0.0, probabilities=[0.25, 0.75])
    assert data.better.sum() == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("outcomes", "observed", "words"),
    [
        ([], 0.0, "no outcomes to draw"),
        ([1.0], None, "say what was observed"),
        ([-np.inf], 0.0, "no outcome is finite"),
    ],
)
def test_bad_input(outcomes: list[float], observed: float | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        outcome_data(outcomes, observed)
