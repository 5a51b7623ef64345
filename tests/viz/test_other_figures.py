"""Intervals, explanations, search progress and convergence show the numbers of the results."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.core.result import Change, Interval
from counterplan.counterfactual import NoBound
from counterplan.errors import InputError
from counterplan.viz import (
    IntervalRow,
    convergence_figure,
    explanations_figure,
    interval_figure,
    progress_figure,
)
from counterplan.viz.convergence import QUANTILE, curve
from counterplan.viz.explanations import DistinctExplanation, distinct_explanations
from counterplan.viz.progress import MARKERS, marked

from .results import FIGURES, bounds, legend, line, plans, policy, problem, sequence, texts


def test_intervals() -> None:
    figure = FIGURES["interval"]()
    np.testing.assert_allclose(line(figure, "best explanation"), [(0.8, 0), (0.6, 1)])
    np.testing.assert_allclose(line(figure, "guaranteed in every model"), [(0.5, 0)])
    every, stable = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 0] for bar in every.get_segments()], [(0.2, 1), (0.6, 0.7)])
    np.testing.assert_allclose([bar[:, 0] for bar in stable.get_segments()], [(0.4, 0.9)])
    low, high = figure.axes[0].get_ylim()
    assert low > high, "the first case is on top"


def test_intervals_of_a_run() -> None:
    frame = pl.DataFrame(
        {"episode_id": ["a", "b"], "value": [0.5, 0.1], "interval_low": [0.1, None],
         "interval_high": [0.9, None]}
    )  # fmt: skip
    figure, direct = (
        interval_figure(given) for given in (frame, [IntervalRow("a", 0.5, Interval(0.1, 0.9))])
    )
    for one in (figure, direct):
        np.testing.assert_allclose(line(one, "best explanation"), [(0.5, 0)])
        (bars,) = one.axes[0].collections
        np.testing.assert_allclose(bars.get_segments()[0][:, 0], (0.1, 0.9))
    for nothing in ([], frame.filter(pl.col("interval_low").is_null())):
        with pytest.raises(InputError, match="no cases to draw"):
            interval_figure(nothing)
    with pytest.raises(InputError, match="cannot draw a float"):
        interval_figure([0.5])  # type: ignore[list-item]


def test_explanations_are_those_that_are_sampled() -> None:
    figure = explanations_figure(policy(), most=3)
    sampled = policy().sample(1_000, seed=0)
    distinct = [one for one in distinct_explanations(sampled, policy().episode)[:3] if one.changes]
    steps = sorted({change.t for one in distinct for change in one.changes})
    axes, name = figure.axes[0], policy().process.setting.mdp.action_name
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"step {t}" for t in steps]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == [*(f"explanation {n + 1}" for n in range(len(distinct))), "observed"]
    cells = {text.get_position(): text.get_text().replace("\\$", "$") for text in axes.texts}
    expected = {
        (steps.index(change.t), row): name(change.alternative)
        for row, one in enumerate(distinct)
        for change in one.changes
    }
    observed = {
        (column, len(distinct)): name(int(policy().episode.actions[t]))
        for column, t in enumerate(steps)
    }
    assert cells.items() >= {**expected, **observed}.items()
    assert len(cells) == len(expected) + len(observed) + 2 * (len(distinct) + 1)
    assert any(text.endswith(" %") for text in texts(figure))
    with pytest.raises(InputError, match="no explanation changes anything"):
        explanations_figure([DistinctExplanation((), 1.0, 0.0)], policy().episode)
    with pytest.raises(InputError, match="say which episode"):
        explanations_figure([DistinctExplanation((Change(0, 0, 1),), 1.0, 0.0)])


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
