"""Search progress and convergence show the numbers of the results."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import NoBound
from counterplan.errors import InputError
from counterplan.viz import (
    convergence_figure,
    progress_figure,
)
from counterplan.viz.search import MARKERS, QUANTILE, curve, marked

from .results import FIGURES, bounds, legend, line, plans, policy, problem, sequence


def test_progress_ends_where_the_search_did() -> None:
    figure, found = FIGURES["progress"](), sequence()
    np.testing.assert_array_equal(line(figure, "best found so far"), found.history[:, [0, 1]])
    bound = line(figure, "bound: nothing is better")
    np.testing.assert_array_equal(bound, found.history[:, [0, 2]])
    assert bound[-1, 1] == pytest.approx(found.value)
    ending = f"proved optimal after {found.stats['nodes_expanded']:.0f} nodes"
    assert figure.axes[0].get_xlabel() == f"nodes expanded; {ending}"
    stopped = progress_figure(sequence(4))
    gap = line(stopped, "bound: nothing is better") - line(stopped, "best found so far")
    assert gap[-1, 1] == pytest.approx(sequence(4).gap)
    assert "stopped after 4 nodes, gap " in stopped.axes[0].get_xlabel()


@pytest.mark.parametrize("last", [1, 7, 10_000])
def test_a_few_moments_are_marked_and_always_the_last(last: int) -> None:
    for logarithmic in (False, True):
        found = marked(np.arange(1.0, last + 1.0), logarithmic)
        assert found[-1] == last - 1
        assert len(found) <= MARKERS


def test_progress_without_a_bound_shows_what_is_known() -> None:
    given = problem()
    found = cp.explain(
        given.scm, given.episode, k=1, actions=given.actions, reward=given.reward,
        solver=cp.AStar(NoBound()), limits=cp.Limits(nodes=3),
    )  # fmt: skip
    assert np.isnan(line(progress_figure(found), "bound: nothing is better")[:, 1]).all()


def test_progress_of_what_was_not_searched() -> None:
    for found in (policy(), 3.0):
        with pytest.raises(InputError, match="nothing was searched"):
            progress_figure(found)  # type: ignore[arg-type]


def test_convergence_is_the_mean_over_searches() -> None:
    figure = FIGURES["convergence"]()
    simulations, values, reach = curve(plans()["UCT"])
    by_count = {n: [p.value for p in plans()["UCT"] if p.stats["simulations"] == n]
                for n in (20.0, 80.0)}  # fmt: skip
    np.testing.assert_array_equal(simulations, [20.0, 80.0])
    np.testing.assert_allclose(values, [np.mean(by_count[n]) for n in (20.0, 80.0)])
    np.testing.assert_array_equal(line(figure, "UCT"), np.column_stack([simulations, values]))
    errors = [np.std(by_count[n], ddof=1) / np.sqrt(3) for n in (20.0, 80.0)]
    np.testing.assert_allclose(reach, QUANTILE * np.array(errors))
    expected = [QUANTILE * plan.se for plan in plans()["<b>BTS</b>"]]
    np.testing.assert_allclose(curve(plans()["<b>BTS</b>"])[2], expected)
    assert (line(figure, "lower bound: hindsight")[:, 1] == bounds().lower).all()
    assert (line(figure, "upper bound: executed open loop")[:, 1] == bounds().upper).all()
    assert figure.axes[0].get_ylabel() == "Cost; lower is better"


def test_plans_are_told_apart_by_their_planner() -> None:
    every = [plan for some in plans().values() for plan in some]
    assert legend(convergence_figure(every)) == {"UCT", "BTS"}
    for nothing in ([], {}, {"UCT": []}):
        with pytest.raises(InputError, match="no plans to draw"):
            convergence_figure(nothing)  # type: ignore[arg-type]
