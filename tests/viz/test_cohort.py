"""Every case is counted once; the tail holds the most improvable ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InputError
from counterplan.viz import Quantity, cohort_figure
from counterplan.viz.cohort import Histogram, histogram

from .results import CHANCE, FIGURES, GAINS, heights, legend


def counts(gains: Any, tail: float | None = 0.1) -> Histogram:
    return histogram(np.asarray(gains, dtype=np.float64), tail)


def ticks(gains: list[float], quantity: Quantity | None = None) -> list[str]:
    axes = cohort_figure(gains, quantity=quantity).axes[0]
    return [label.get_text() for label in axes.get_xticklabels()]


@given(
    st.lists(st.floats(-1.0, 1e6) | st.just(float("inf")), min_size=1, max_size=60),
    st.floats(0.0, 1.0) | st.none(),
)
def test_every_case_is_counted_once(gains: list[float], tail: float | None) -> None:
    found = counts(gains, tail)
    assert found.none + found.infinite + found.body.sum() + found.tail.sum() == len(gains)
    assert found.edges[-1] >= max((gain for gain in gains if np.isfinite(gain)), default=0.0)


def test_the_tail_is_the_share_asked_for() -> None:
    gains = np.arange(1.0, 101.0)
    found = counts(gains, 0.1)
    assert (found.tail.sum(), found.body.sum(), found.threshold) == (10, 90, 91.0)
    assert "top 10 cases: +91 or more" in legend(cohort_figure(gains, tail=0.1))
    assert not counts(gains, None).tail.any()
    assert counts(gains, 1.0).body.sum() == 0


def test_cases_without_improvement_are_never_the_tail() -> None:
    found = counts([0.0, 0.0, 0.0, 0.4], 0.9)
    assert (found.none, found.tail.sum(), found.body.sum()) == (3, 1, 0)
    assert not counts([0.0, -1.0]).tail.any()


def test_numbers_beside_the_axis_are_round() -> None:
    assert ticks([21.27, 0.0]) == ["none", "0", "5", "10", "15", "20", "25"]
    assert ticks([0.3], CHANCE) == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]


def test_bars_and_outlines() -> None:
    figure, found = FIGURES["cohort"](), counts(GAINS)
    bars = heights(figure)
    np.testing.assert_array_equal(bars["no change helps"], [found.none])
    np.testing.assert_array_equal(bars["best explanation"], found.body)
    (name,) = (label for label in bars if label.startswith("top "))
    np.testing.assert_array_equal(bars[name], found.tail)
    apart, first = figure.axes[0].containers[0][0], figure.axes[0].containers[1][0]
    assert apart.get_x() + apart.get_width() < first.get_x(), "none is not a little"
    outlines = [
        patch.get_data().values.sum()
        for patch in figure.axes[0].patches
        if hasattr(patch, "get_data")
    ]
    unsure = sum(gain <= 0.0 for gain in GAINS)
    assert outlines == [unsure, len(GAINS) - unsure]


@pytest.mark.parametrize(("gains", "name"), [([0.0, 0.0], "no change helps"), ([1.0], "top")])
def test_the_legend_names_only_what_is_drawn(gains: list[float], name: str) -> None:
    (shown,) = legend(cohort_figure(gains))
    assert shown.startswith(name)


def test_a_table_of_results() -> None:
    frame = pl.DataFrame(
        {"improvement": [1.0, None, 3.0], "k": [2, 2, 2], "status": ["optimal", "failed", "limit"]}
    )
    for table in (frame, frame.lazy(), frame.to_dicts()):
        assert heights(cohort_figure(table, tail=None))["best explanation"].sum() == 2
    with pytest.raises(InputError, match="several k"):
        cohort_figure(frame.with_columns(k=pl.Series([1, 2, 2])))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="no cases to draw"):
        cohort_figure([])
    with pytest.raises(InputError, match="tail must be a share"):
        cohort_figure([1.0], tail=2.0)
