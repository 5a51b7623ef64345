"""A frontier figure shows the numbers of the explanations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from counterplan.errors import InputError
from counterplan.viz import frontier_figure

from .results import CHANCE, FIGURES, INTERVALS, discrete, legend, line, sequence

BOUND = "bound: nothing is better"


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
    failed = frame.with_columns(status=pl.lit("failed"))
    with pytest.raises(InputError, match="no explanations to draw"):
        frontier_figure(failed)
    with pytest.raises(InputError, match="several episodes"):
        frontier_figure(pl.concat([frame, frame.with_columns(episode_id=pl.lit("b"))]))
    with pytest.raises(InputError, match="no column 'bound'"):
        frontier_figure(frame.drop("bound"))
    with pytest.raises(InputError, match="no explanations to draw"):
        frontier_figure([])


def test_budgets_are_whole_numbers() -> None:
    assert frontier_figure([sequence(4)]).axes[0].get_xticks().tolist() == [2]
