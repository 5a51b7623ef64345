"""Averages with their intervals, and counting unique explanations."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from experiments.statistics import average, count_unique


def test_average_and_its_interval() -> None:
    result = average([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]])
    # Variance of (1, 2, 6) is 7; the interval is 1.96 standard errors to either side.
    half = 1.95996398454 * np.sqrt(7 / 3)
    np.testing.assert_allclose(result.mean, [3.0, 5.0])
    np.testing.assert_allclose(result.low, [3.0 - half, 5.0], rtol=1e-6)
    np.testing.assert_allclose(result.high, [3.0 + half, 5.0], rtol=1e-6)
    assert result.rows()[0] == {
        "k": 0, "mean": 3.0, "low": result.low[0], "high": result.high[0], "n": 3,
    }  # fmt: skip


def test_intervals_cover_as_often_as_they_say() -> None:
    draws = np.random.default_rng(0).exponential(size=(200, 2000))
    result = average(draws)
    covered = np.mean((result.low <= 1.0) & (result.high >= 1.0))
    # 2,000 intervals: the share's standard error is 0.005; the skew of n = 200 costs up to 0.01.
    assert covered == pytest.approx(0.95, abs=0.025)


def test_unique_explanations_are_other_sequences_of_actions() -> None:
    # Action 1 in state 0 leads to state 1 or 2 by a coin's toss; in both, action 1 pays.
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 0] = 1.0
    transitions[0, 1] = [0.0, 0.5, 0.5]
    transitions[1:, :, 0] = 1.0
    rewards = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 3.0]])
    mdp = cp.TabularMDP(transitions, rewards)
    optimal = cp.frontier(mdp, cp.Episode([0, 0], [0, 0]), 2)
    counts = count_unique(optimal, 200, np.random.default_rng(0))
    # k = 2 changes the second action only where that pays: two sequences.
    np.testing.assert_array_equal(counts, [0, 1, 2])
