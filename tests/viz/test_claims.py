"""Claims say what rows of results say, in words, numbers and pictures, and none is called
established that is not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.errors import InputError
from counterplan.runs.run import claim_ends
from counterplan.scm.training import LEVELS, calibration
from counterplan.viz import (
    Claim,
    Quantity,
    calibration_figure,
    cohort_figure,
    doubt_figure,
    frontier_figure,
    interval_figure,
    sensitivity_figure,
)
from counterplan.viz.claims import MOST_DRAWN
from counterplan.viz.quantity import claim_of

from .results import (
    CHANCE,
    FIGURES,
    INTERVALS,
    discrete,
    ensemble,
    legend,
    line,
    sensitivity,
    sequence,
)

BOUND = "bound: nothing is better"
ENDS = st.floats(-1e3, 1e3) | st.none()


@given(st.floats(-1e3, 1e3), ENDS, ENDS, ENDS, ENDS, ENDS)
def test_a_row_and_a_table_have_the_same_claim(
    factual: float, low: Any, high: Any, sure: Any, least: Any, most: Any
) -> None:
    row = {
        "improvement": 1.0, "factual": factual, "improvement_low": low, "improvement_high": high,
        "guaranteed": sure, "interval_low": least, "interval_high": most, "harm": None,
    }  # fmt: skip
    claim = claim_of(row)
    frame = pl.DataFrame([row], schema=dict.fromkeys(row, pl.Float64))
    ends = frame.select(*(end.alias(name) for name, end in zip("ab", claim_ends(), strict=True)))
    assert claim.low == ends["a"].item()
    if sure is None:
        assert low is None or claim[1:3] == (low, high)
    elif claim.low is not None:
        assert claim.is_causal
    assert claim.is_established == (claim.low is not None and claim.low > 1e-9)


@pytest.mark.parametrize(
    ("claim", "verdict", "interval", "words"),
    [
        (Claim(2.0, 1.0, 3.0, 0.0), "established", "+1 to +3", "better by +1 to +3 (90 %); worse"),
        (Claim(2.0, -1.0, 3.0, 0.2), "not established", "-1 to +3", "with a probability of 20 %"),
        (Claim(2.0, 0.0, 3.0, 0.0), "not established", "0 to +3", "so there may be none"),
        (Claim(2.0), "not established", "", "how far the model may be off is not known"),
        (Claim(0.0, 0.0, 0.0), "no change", "0 to 0", "Nothing is claimed"),
        (Claim(2.0, 1.0, None, None, True), "established", "+1 or more", "at least 6 instead of 5"),
        (Claim(2.0, -1.0, 3.0, None, True), "not established", "-1 to +3", "brings -1"),
    ],
)
def test_words(claim: Claim, verdict: str, interval: str, words: str) -> None:
    assert claim.verdict == verdict
    assert claim.interval(Quantity()) == interval
    sentence = claim.sentence(Quantity(), 5.0)
    assert words in sentence
    assert sentence.lower().startswith(verdict) or verdict == "no change"


def test_cases_stand_by_their_lower_end_and_are_told_apart_by_their_markers() -> None:
    claims = [Claim(5.0), Claim(1.0, 0.5, 2.0), Claim(4.0, -1.0, 9.0), Claim(0.0, 0.0, 0.0)]
    figure = cohort_figure(claims)
    assert legend(figure) == {"established: 1", "not established: 2", "no change: 1"}
    np.testing.assert_array_equal(line(figure, "established: 1"), [(1.0, 0.0)])
    np.testing.assert_array_equal(line(figure, "not established: 2"), [(4.0, 2.0), (5.0, 3.0)])
    bars = [one.get_segments()[0][:, 0].tolist() for one in figure.axes[0].collections]
    assert [0.5, 2.0] in bars
    assert [-1.0, 9.0] in bars
    markers = {one.get_marker() for one in figure.axes[0].lines if ":" in str(one.get_label())}
    assert len(markers) == 3


def test_of_many_cases_some_are_drawn_and_all_are_counted() -> None:
    many = [Claim(float(n), n - 100.0, n + 1.0) for n in range(3 * MOST_DRAWN)]
    figure = cohort_figure([*many, Claim(np.inf)])
    assert {"established: 619", "not established: 101"} == legend(figure)
    assert figure.axes[0].get_ylabel() == "cases by lower end, one in 3 (1 infinite, left out)"
    assert sum(len(one.get_xdata()) for one in figure.axes[0].lines[:2]) == MOST_DRAWN


def test_a_table_of_results() -> None:
    frame = pl.DataFrame(
        {"improvement": [1.0, None, 3.0], "k": [2, 2, 2], "status": ["optimal", "failed", "limit"]}
    )
    for table in (frame, frame.lazy(), frame.to_dicts()):
        assert legend(cohort_figure(table)) == {"not established: 2"}
    for wrong, words in (
        (frame.with_columns(k=pl.Series([1, 2, 2])), "several k"),
        ([], "no cases to draw"),
    ):
        with pytest.raises(InputError, match=words):
            cohort_figure(wrong)


def test_values_ranges_and_what_was_observed() -> None:
    figure, frontier = FIGURES["frontier"](), discrete()[1]
    np.testing.assert_allclose(
        line(figure, "best explanation; search complete"), [*enumerate(frontier.values)]
    )
    np.testing.assert_allclose(line(figure, "guaranteed in every model")[:, 1], [0.0, 1.0, 2.0])
    assert (line(figure, "observed")[:, 1] == frontier[0].factual_value).all()
    (bars,) = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 1] for bar in bars.get_segments()], INTERVALS)
    assert figure.axes[0].get_ylabel() == "Outcome"
    assert "range over causal models" in legend(figure)
    assert BOUND not in legend(figure)
    assert frontier_figure(frontier, quantity=CHANCE).axes[0].get_ylim() == (-0.03, 1.03)


def test_a_stopped_search_has_a_gap() -> None:
    figure, stopped = FIGURES["frontier with a gap"](), sequence(4)
    assert line(figure, BOUND)[0, 1] == stopped.bound
    assert line(figure, "best explanation")[0, 1] == stopped.value
    assert stopped.bound > stopped.value
    assert figure.axes[0].get_xticks().tolist() == [2], "budgets are whole numbers"


def test_infinite_bounds_and_values_are_not_drawn() -> None:
    known, lost = replace(sequence(4), bound=math.inf), replace(sequence(4), value=-math.inf)
    figure = frontier_figure([known, lost])
    assert np.isnan(line(figure, "best explanation")[:, 1]).tolist() == [False, True]
    assert BOUND not in legend(figure)


def test_rows_of_a_run_give_the_same() -> None:
    frontier = discrete()[1]
    frame = pl.DataFrame(
        {
            "episode_id": "a",
            "k": one.k,
            "factual": one.factual_value,
            "value": one.value,
            "bound": one.bound,
            "status": one.status.value,
            "guaranteed": INTERVALS[one.k].low,
            "interval_high": INTERVALS[one.k].high,
        }
        for one in frontier
    )
    figure, direct = frontier_figure(frame.reverse()), FIGURES["frontier"]()
    for name in ("observed", "best explanation; search complete"):
        np.testing.assert_array_equal(line(figure, name), line(direct, name))
    for bars, same in zip(figure.axes[0].collections, direct.axes[0].collections, strict=True):
        np.testing.assert_array_equal(bars.get_segments(), same.get_segments())
    without = frontier_figure(frame.with_columns(guaranteed=None))
    assert "range over causal models" not in legend(without)
    for wrong, words in (
        ([], "no explanations to draw"),
        (frame.with_columns(status=pl.lit("failed")), "no explanations to draw"),
        (pl.concat([frame, frame.with_columns(episode_id=pl.lit("b"))]), "several episodes"),
        (frame.drop("bound"), "no column 'bound'"),
    ):
        with pytest.raises(InputError, match=words):
            frontier_figure(wrong)


def test_assumptions_are_nested_bars() -> None:
    figure = FIGURES["interval"]()
    np.testing.assert_allclose(line(figure, "expected by Gumbel-Max"), [(0.8, 0), (0.6, 1)])
    np.testing.assert_allclose(line(figure, "guaranteed"), [(0.5, 0)])
    every, stable, monotone = figure.axes[0].collections
    np.testing.assert_allclose([bar[:, 0] for bar in every.get_segments()], [(0.2, 1), (0.6, 0.7)])
    np.testing.assert_allclose([bar[:, 0] for bar in stable.get_segments()], [(0.4, 0.9)])
    np.testing.assert_allclose([bar[:, 0] for bar in monotone.get_segments()], [(0.5, 0.8)])
    widths = [float(np.max(one.get_linewidths())) for one in (every, stable, monotone)]
    assert widths == sorted(widths, reverse=True), "inner bars are seen on outer ones"
    low, high = figure.axes[0].get_ylim()
    assert low > high, "the first case is on top"


def test_intervals_of_a_run() -> None:
    frame = pl.DataFrame(
        {"episode_id": ["a", "b"], "value": [0.5, 0.1], "interval_low": [0.1, None],
         "interval_high": [0.9, None]}
    )  # fmt: skip
    figure = interval_figure(frame)
    np.testing.assert_allclose(line(figure, "expected by Gumbel-Max"), [(0.5, 0)])
    (bars,) = figure.axes[0].collections
    np.testing.assert_allclose(bars.get_segments()[0][:, 0], (0.1, 0.9))
    with pytest.raises(InputError, match="no cases to draw"):
        interval_figure(frame.filter(pl.col("interval_low").is_null()))
    with pytest.raises(InputError, match="no rows to draw"):
        interval_figure([])


def test_a_point_for_each_doubt() -> None:
    mdp, frontier = discrete()
    episode = frontier[-1].episode
    found = {doubt: cp.explain(mdp, episode, k=2, doubt=doubt) for doubt in (0.0, 0.5, 1.0)}
    figure = doubt_figure(found, chosen=0.5)
    expected = [(one.guaranteed, one.value) for one in found.values()]
    np.testing.assert_array_equal(line(figure, "a plan for each doubt"), expected)
    np.testing.assert_array_equal(line(figure, "doubt 0.5"), expected[1:2])
    with pytest.raises(InputError, match="no finite values"):
        doubt_figure({})


def test_sensitivity_shows_its_curves_and_where_they_end() -> None:
    found = sensitivity()
    figure = sensitivity_figure(found)
    for axes, places, values, tipping in zip(
        figure.axes,
        (found.rho, found.gamma),
        (found.at_rho, found.at_gamma),
        (found.tipping_rho, found.tipping_gamma),
        strict=True,
    ):
        curve = next(one for one in axes.lines if len(one.get_xdata()) == len(places))
        np.testing.assert_array_equal(curve.get_xdata(), places)
        np.testing.assert_allclose(curve.get_ydata(), values.mean(axis=0))
        marked = [one.get_xdata()[0] for one in axes.lines if one.get_linestyle() == ":"]
        assert marked == ([] if tipping is None else [tipping])


def test_bands_hold_nine_in_ten_members() -> None:
    figure, found = FIGURES["trajectory of many models"](), ensemble()[1]
    low, high = np.quantile(found.member_states[:, :, 0], [0.05, 0.95], axis=0, method="nearest")
    (band,) = figure.axes[0].collections
    vertices = band.get_paths()[0].vertices
    assert {*low, *high} <= {*vertices[:, 1]}
    assert "9 in 10 models" in legend(figure)


def test_calibration_of_a_right_and_of_an_overconfident_model() -> None:
    rng = np.random.default_rng(0)
    errors = rng.standard_normal((20_000, 2))
    right, sure = calibration(errors), calibration(3.0 * errors)
    # Three standard errors of a share among 20,000.
    assert np.abs(np.array(right["below"]) - LEVELS).max() < 3 * 0.5 / np.sqrt(20_000)
    assert np.all(np.array(sure["below"])[:, 0] > 0.2), "more lies below what it calls 5 %"
    figure = calibration_figure({"calibration": right})
    np.testing.assert_allclose(line(figure, "all features")[:, 1], np.mean(right["below"], axis=0))
    learned = ensemble()[0].about["training"]["calibration"]
    np.testing.assert_allclose(
        line(calibration_figure(ensemble()[0]), "all features")[:, 0], LEVELS
    )
    assert np.shape(learned["below"]) == (2, len(LEVELS))


@pytest.mark.parametrize("record", [{}, {"calibration": {"levels": [0.5], "below": 3, "steps": 2}}])
def test_a_model_without_a_record_has_no_calibration(record: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no record of how it predicts"):
        calibration_figure(record)
