"""The published averages of the 2021 paper, on the realizations of its authors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.validation import FloatArray
from experiments.discrete_synthetic import draw_realizations, outcomes, relative_difference
from experiments.figure import Item, Options, in_parallel
from experiments.published import PublishedSampling, published_episode, published_process
from experiments.statistics import average


def untracked(items: Iterable[Item], total: int, what: str) -> Iterable[Item]:
    return items


def explained(alpha: float, per_instance: int, options: Options, instances: int = 10) -> FloatArray:
    """(n, K + 1) expected outcomes of the first realizations of the first instances."""
    chosen = [
        realization
        for realization in draw_realizations(alpha, options)
        if realization.instance <= instances and int(realization.episode.id or 0) < per_instance
    ]
    return np.array(in_parallel(partial(outcomes, options=options), chosen, untracked, ""))


def test_all_500_realizations_with_the_exact_kernel() -> None:
    values = explained(0.4, 50, Options())
    assert values.shape == (500, 11)
    assert values[:, 0].mean() == pytest.approx(225.816, abs=1e-9)  # published: 225.8
    result = average(relative_difference(values))
    # Published with d = 1,000: 2.75 +- .13 and 8.22 +- .34. These are the same realizations, so
    # only the error of the sampled kernel stands between: well within the published intervals.
    for k, published, half in ((1, 2.75, 0.13), (5, 8.22, 0.34)):
        assert abs(result.mean[k] - published) < half / 2
        assert result.high[k] - result.mean[k] == pytest.approx(half, abs=0.01)
    # The optimum of a sampled kernel is biased upwards.
    assert result.mean[1] < 2.75
    assert result.mean[5] < 8.22


def test_realizations_with_the_noise_of_the_authors() -> None:
    values = explained(0.4, 4, Options(sampled=True), instances=1)
    # From the run over all 500 realizations that gives the published averages to the last digit,
    # 2.75 % (k = 1) and 8.22 % (k = 5), in minutes: `python -m experiments discrete-fig1 --sampled`
    expected = [
        [256.0, 257.1063491022225, 265.9539156990194],
        [213.0, 219.121, 236.0866019824774],
        [247.0, 248.8408489870291, 253.4781503862256],
        [235.0, 241.6696899432826, 252.09823684809805],
    ]
    np.testing.assert_allclose(values[:, [0, 1, 5]], expected, rtol=1e-12)


def test_processes_are_of_the_family() -> None:
    process = published_process(0.4, 1)
    rows = np.stack([process.mdp.row(s, a) for s in range(20) for a in range(10)])
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    # One weight is 1 and the others are at most 0.4.
    runner_up, likeliest = np.sort(rows, axis=1)[:, -2:].T
    assert (runner_up / likeliest <= 0.4).all()
    other = published_process(0.4, 2)
    assert not np.array_equal(process.mdp.rows.probabilities, other.mdp.rows.probabilities)


def test_episodes_follow_the_policy_but_for_some_noise() -> None:
    process = published_process(0.4, 3)
    episodes = [published_episode(process, number) for number in range(50)]
    chosen = np.array([process.policy[np.arange(20), one.states] for one in episodes])
    actions = np.array([one.actions for one in episodes])
    # 1,000 actions, each another one with probability 0.05: four standard errors are 0.028.
    assert np.mean(actions != chosen) == pytest.approx(0.05, abs=0.028)


def test_sampling_estimates_the_exact_kernel() -> None:
    process = published_process(0.4, 1)
    sampled = PublishedSampling(process.mdp, 1000)
    exact = cp.GumbelMaxSCM(process.mdp)
    observed = (3, 2, 7)
    rows = [(s, a) for s in range(20) for a in range(10)]
    estimate = np.array([sampled.counterfactual_row(*observed, s, a) for s, a in rows])
    truth = np.array([exact.counterfactual_row(*observed, s, a) for s, a in rows])
    np.testing.assert_allclose(estimate.sum(axis=1), 1.0)
    # 4,000 shares of 1,000 draws: the largest of their errors stays below 4.5 standard errors
    # (p < 0.03 for independent ones; one extra draw of slack for tiny probabilities).
    error = np.sqrt(truth * (1.0 - truth) / 1000)
    assert (np.abs(estimate - truth) <= 4.5 * error + 0.002).all()
    np.testing.assert_array_equal(sampled.counterfactual_row(*observed, 3, 2), np.eye(20)[7])
