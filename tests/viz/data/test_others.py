"""Intervals, explanations, search progress and convergence: their data against the results."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.core.result import Change, Interval
from counterplan.counterfactual import NoBound
from counterplan.errors import InputError
from counterplan.viz import IntervalRow
from counterplan.viz.convergence import QUANTILE, convergence_data
from counterplan.viz.explanations import (
    DistinctExplanation,
    distinct_explanations,
    explanations_data,
)
from counterplan.viz.intervals import interval_data
from counterplan.viz.progress import progress_data

from ..results import COST, bounds, plans, policy, sequence


def test_intervals_from_rows_and_from_a_run() -> None:
    row = IntervalRow("a", 0.5, Interval(0.1, 0.9), 0.3)
    assert interval_data([row], observed=0.0).rows == (row,)
    frame = pl.DataFrame(
        {"episode_id": ["a", "b"], "value": [0.5, 0.1], "interval_low": [0.1, None],
         "interval_high": [0.9, None]}
    )  # fmt: skip
    data = interval_data(frame)
    assert data.rows == (IntervalRow("a", 0.5, Interval(0.1, 0.9)),)
    assert data.guaranteed == []
    for nothing in ([], frame.filter(pl.col("interval_low").is_null())):
        with pytest.raises(InputError, match="no cases to draw"):
            interval_data(nothing)
    with pytest.raises(InputError, match="cannot draw a float"):
        interval_data([0.5])  # type: ignore[list-item]


def test_explanations_are_those_that_are_sampled() -> None:
    data = explanations_data(policy(), most=3)
    sampled = policy().sample(1_000, seed=0)
    distinct = [one for one in distinct_explanations(sampled, policy().episode)[:3] if one.changes]
    assert len(data.rows) == len(distinct)
    name = policy().process.setting.mdp.action_name
    for row, one in zip(data.rows, distinct, strict=True):
        new = {change.t: name(change.alternative) for change in one.changes}
        assert row == tuple(new.get(t, "") for t in data.steps)
    assert data.observed == tuple(name(int(policy().episode.actions[t])) for t in data.steps)
    with pytest.raises(InputError, match="no explanation changes anything"):
        explanations_data([DistinctExplanation((), 1.0, 0.0)], policy().episode)
    changed = DistinctExplanation((Change(0, 0, 1),), 1.0, 0.0)
    with pytest.raises(InputError, match="say which episode"):
        explanations_data([changed])


def test_progress_ends_where_the_search_did() -> None:
    data, found = progress_data(sequence()), sequence()
    np.testing.assert_array_equal(data.nodes, found.history[:, 0])
    assert data.nodes[0] == 0
    assert data.values[-1] == pytest.approx(found.value)
    assert data.bounds[-1] == pytest.approx(found.bound)
    assert data.ending == f"proved optimal after {found.stats['nodes_expanded']:.0f} nodes"
    assert data.marked[-1] == len(data.nodes) - 1
    stopped = progress_data(sequence(4))
    assert stopped.bounds[-1] - stopped.values[-1] == pytest.approx(sequence(4).gap)
    assert stopped.ending.startswith("stopped after 4 nodes, gap ")


def test_progress_without_a_bound_shows_what_is_known() -> None:
    from ..results import problem

    given = problem()
    found = cp.explain(
        given.scm, given.episode, k=1, actions=given.actions, reward=given.reward,
        solver=cp.AStar(NoBound()), limits=cp.Limits(nodes=3),
    )  # fmt: skip
    assert np.isnan(progress_data(found).bounds).all()


def test_progress_of_what_was_not_searched() -> None:
    for found in (policy(), 3.0):
        with pytest.raises(InputError, match="nothing was searched"):
            progress_data(found)  # type: ignore[arg-type]


def test_convergence_is_the_mean_over_searches() -> None:
    data = convergence_data(plans(), bounds(), optimum=3.0, quantity=COST)
    curve = data.curves[0]
    by_count = {n: [p.value for p in plans()["UCT"] if p.stats["simulations"] == n]
                for n in (20.0, 80.0)}  # fmt: skip
    np.testing.assert_array_equal(curve.simulations, [20.0, 80.0])
    np.testing.assert_allclose(curve.values, [np.mean(by_count[n]) for n in (20.0, 80.0)])
    errors = [np.std(by_count[n], ddof=1) / np.sqrt(3) for n in (20.0, 80.0)]
    np.testing.assert_allclose(curve.reach, QUANTILE * np.array(errors))
    single = data.curves[1]
    expected = [QUANTILE * plan.se for plan in plans()["<b>BTS</b>"]]
    np.testing.assert_allclose(single.reach, expected)
    assert data.lower is not None
    assert data.upper is not None
    assert (data.lower.value, data.upper.value) == (bounds().lower, bounds().upper)
    assert data.lower.name == "lower bound: hindsight"
    assert data.upper.name == "upper bound: executed open loop"
    assert data.title == "Cost; lower is better"


def test_plans_are_told_apart_by_their_planner() -> None:
    every = [plan for some in plans().values() for plan in some]
    assert [curve.name for curve in convergence_data(every).curves] == ["UCT", "BTS"]
    for nothing in ([], {}, {"UCT": []}):
        with pytest.raises(InputError, match="no plans to draw"):
            convergence_data(nothing)  # type: ignore[arg-type]
