"""Bars hold the probabilities of all outcomes, split at the observed one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.viz import Quantity, outcome_figure
from counterplan.viz.outcomes import SAMPLES

from .results import CHANCE, COST, discrete, heights, line, policy, ship


def better(outcomes: Any, *given: Any, **options: Any) -> float:
    """The height of the bars that are better."""
    bars = heights(outcome_figure(outcomes, *given, **options))
    (label,) = (label for label in bars if label.startswith("better than observed: "))
    assert sum(one.sum() for one in bars.values()) <= 1.0 + 1e-9
    return float(bars[label].sum())


def test_a_policy_with_an_exact_distribution() -> None:
    figure, exact = outcome_figure(policy()), policy().outcome_distribution()
    axes, bars = figure.axes[0], heights(figure)
    assert axes.get_ylabel() == "probability"
    assert (line(figure, "observed")[:, 0] == policy().factual_value).all()
    np.testing.assert_allclose(line(figure, "expected")[:, 0], policy().value)
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axes.containers[0]]
    np.testing.assert_allclose(middles, exact.values)
    np.testing.assert_allclose(sum(bars.values()), exact.probabilities)
    assert better(policy()) == pytest.approx(policy().probability_better().value)


def test_a_policy_without_one_is_sampled() -> None:
    mdp, frontier = discrete()
    rewards = np.random.default_rng(0).normal(size=mdp.rewards.shape)
    odd = cp.TabularMDP(np.array([[mdp.row(s, a) for a in range(3)] for s in range(4)]), rewards)
    found = cp.explain(odd, frontier[0].episode, k=2)
    figure = outcome_figure(found)
    assert figure.axes[0].get_ylabel() == "share of samples"
    samples = found.sample(SAMPLES, seed=0).outcomes
    assert better(found) == pytest.approx((samples > found.factual_value).mean())
    assert sum(one.sum() for one in heights(figure).values()) == pytest.approx(1.0)


def test_costs_are_better_where_they_are_lower() -> None:
    played = cp.evaluate(ship(), cp.policies.Greedy(), episodes=40, seed=0)
    paid = float(np.median(played.outcomes))
    for quantity in (None, COST):
        assert better(played, paid, quantity=quantity) == pytest.approx(
            (played.outcomes < paid).mean()
        )
    assert (line(outcome_figure(played, paid), "expected")[:, 0] == played.mean).all()


def test_a_single_outcome_is_a_narrow_bar() -> None:
    (bar,) = outcome_figure([0.8, 0.8], 0.0).axes[0].patches
    assert (bar.get_height(), bar.get_width() > 0.01) == (1.0, True)
    axes = outcome_figure([0.0], 0.0, quantity=CHANCE).axes[0]
    assert axes.patches[0].get_width() <= 0.05
    assert axes.get_xlim() == (-0.03, 1.03)


def test_outcomes_that_are_barred_are_left_out() -> None:
    assert better([-np.inf, 1.0], 0.0, probabilities=[0.25, 0.75]) == pytest.approx(0.75)


def test_numbers_beside_axes_are_written_in_full() -> None:
    axis = outcome_figure([0.1, 0.2], 0.0, quantity=CHANCE).axes[0].xaxis
    labels = axis.get_major_formatter().format_ticks([0.0, 0.025, 0.07, 0.175, 1.0])
    assert labels == ["0 %", "2.5 %", "7 %", "17.5 %", "100 %"]
    axis = outcome_figure([1e5, -2e5], 0.0, quantity=Quantity()).axes[0].xaxis
    assert axis.get_major_formatter().format_ticks([-2e5, 1e5]) == ["−200,000", "100,000"]


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
        outcome_figure(outcomes, observed)
