"""Pairs that must not occur never turn into nan, whatever is asked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp

from .support import random_instance

INF = math.inf


@settings(max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(
        [None, cp.baselines.Greedy(), cp.baselines.Random(), cp.baselines.NoisyGreedy()]
    ),
)
def test_nothing_is_ever_nan(seed: int, solver: Any) -> None:
    problem = random_instance(seed)
    ask = (problem.mdp, problem.episode, problem.k)
    try:
        found = cp.explain(*ask, constraints=problem.constraints, solver=solver)
    except cp.errors.InfeasibleError:
        return
    certified = found.probability_better()
    numbers = [
        *(found.value, found.factual_value, found.bound, found.gap),
        *(found.improvement, found.relative_improvement),
        *(found.outcome_mean, found.outcome_variance, found.most_likely.probability),
        *(certified.value, certified.low, certified.high),
        *found.change_probabilities().ravel(),
        *found.changes_distribution(),
        *found.sample(20).outcomes,
    ]
    for stability in (False, True):
        interval = cp.value_interval(problem.mdp, problem.episode, found, stability)
        numbers += [interval.low, interval.high, interval.width]
        assert interval.low <= interval.high
    assert not np.isnan(numbers).any()
    assert INF not in (found.value, found.factual_value, found.outcome_mean)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_robust_answers_are_never_nan(seed: int) -> None:
    problem = random_instance(seed)
    try:
        found = cp.robust_explain(
            problem.mdp, problem.episode, problem.k, constraints=problem.constraints
        )
    except cp.errors.InfeasibleError:
        return
    assert not np.isnan([found.value, found.outcome_mean, found.outcome_variance]).any()


def risky() -> tuple[cp.TabularMDP, cp.Episode]:
    """Changing the first action earns more, but may lead to state 2, which is barred."""
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0] = [0.5, 0.5, 0.0]
    transitions[:, 1] = [0.0, 0.5, 0.5]
    rewards = np.array([[0.0, 9.0], [0.0, 9.0], [-INF, -INF]])
    return cp.TabularMDP(transitions, rewards), cp.Episode([0, 1], [0, 0])


def test_a_chance_of_minus_infinity_is_never_worth_it() -> None:
    mdp, episode = risky()
    found = cp.explain(mdp, episode, 2)
    assert found.changes == ((1, 0, 1),)
    assert found.value == 9.0


def test_an_outcome_of_minus_infinity_is_reported_as_such() -> None:
    mdp, episode = risky()
    found = cp.explain(mdp, episode, 2, solver=cp.baselines.Random())
    # Change at t = 0 with probability 1/2; w_2 = 0, w_1 = 1, w_o = 1: P(2) = 1/2 * 1 / (3/2) = 1/3.
    values, probabilities = found.outcome_distribution()
    assert values.tolist() == [-INF, 0.0, 9.0, 18.0]
    assert probabilities == pytest.approx([1 / 6, 1 / 4, 1 / 4 + 1 / 6, 1 / 6], abs=1e-12)
    assert found.value == found.outcome_mean == -INF
    assert found.outcome_variance == INF
    assert found.probability_better().value == pytest.approx(7 / 12, abs=1e-12)
    assert found.improvement == found.relative_improvement == -INF
    assert (found.sample(600).outcomes == -INF).mean() == pytest.approx(1 / 6, abs=0.08)


def test_avoiding_a_barred_observation_beats_it_for_certain() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[-INF, -3.0]])
    found = cp.explain(mdp, cp.Episode([0, 0], [0, 0]), 2)
    assert (found.value, found.factual_value) == (-6.0, -INF)
    assert found.probability_better().value == 1.0
    assert found.improvement == found.relative_improvement == INF


def test_a_forbidden_observation_still_counts_as_what_was_earned() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[5.0, 3.0]])
    found = cp.explain(mdp, cp.Episode([0], [0]), 1, constraints=cp.Constraints(forbidden=[(0, 0)]))
    assert (found.value, found.factual_value) == (3.0, 5.0)
    assert found.probability_better().value == 0.0


def test_steps_on_which_everything_is_barred() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), final_rewards=[-INF, -INF])
    found = cp.explain(mdp, cp.Episode([0, 1], [0, 0]), 1, solver=cp.baselines.Random())
    assert found.probability_better().value == 0.0
    values, probabilities = found.outcome_distribution()
    assert values.tolist() == [-INF]
    assert probabilities == pytest.approx([1.0], abs=1e-12)


def test_everything_is_forbidden() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.eye(2))
    rules = cp.Constraints(forbidden=np.ones((2, 2), dtype=bool))
    episode = cp.Episode([0, 1], [0, 0])
    found = cp.explain(mdp, episode, 1, constraints=rules, solver=cp.baselines.Random())
    assert found.probability_better().value == 0.0


def test_ratios_tied_but_for_rounding_do_not_leak_into_barred_states() -> None:
    # States 1 to 3 gain nothing on each other, so from an observed 1 only state 0 is new.
    rng = np.random.default_rng(0)
    rewards = np.zeros((4, 2))
    rewards[0, 1], rewards[2:] = 5.0, -INF
    for _ in range(100):
        counts = rng.integers(0, 9, size=4) + 0.01
        more = counts + np.array([3.0, 0.0, 0.0, 0.0])
        rows = np.stack([counts / counts.sum(), more / more.sum()])
        mdp = cp.TabularMDP(np.broadcast_to(rows, (4, 2, 4)), rewards)
        found = cp.explain(mdp, cp.Episode([0, 1, 0], [0, 0, 0]), 2)
        assert found.value > found.factual_value + 5.0
        stable = cp.value_interval(mdp, found.episode, found, stability=True)
        assert stable.low > -INF


def test_the_highest_outcome_does_not_pay_for_rounding() -> None:
    # The finite states can take all mass exactly, so the highest outcome is finite.
    for share in np.linspace(0.01, 0.69, 50):
        rows = np.array([[0.7, 0.3, 0.0, 0.0], [share, 0.7 - share, 0.3, 0.0]])
        rewards = np.zeros((4, 2))
        rewards[2] = -INF
        mdp = cp.TabularMDP(np.broadcast_to(rows, (4, 2, 4)), rewards)
        episode = cp.Episode([0, 0], [0, 0])
        found = cp.explain(mdp, episode, 1, solver=cp.baselines.Random())
        assert cp.value_interval(mdp, episode, found) == (-INF, 0.0)
