"""The data of a frontier figure are the numbers of the explanations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from counterplan.errors import InputError
from counterplan.viz.frontier import frontier_data

from ..results import CHANCE, INTERVALS, discrete, sequence


def test_values_bounds_and_what_was_observed() -> None:
    frontier = discrete()[1]
    data = frontier_data(frontier, intervals=INTERVALS, guaranteed=[0, 1, 2], quantity=CHANCE)
    np.testing.assert_array_equal(data.budgets, [0, 1, 2])
    np.testing.assert_array_equal(data.values, frontier.values)
    np.testing.assert_array_equal(data.bounds, [one.bound for one in frontier])
    assert data.observed == frontier[0].factual_value
    np.testing.assert_array_equal(data.intervals, INTERVALS)
    np.testing.assert_array_equal(data.guaranteed, [0.0, 1.0, 2.0])
    assert data.proved
    assert not data.has_gap
    assert data.quantity is CHANCE


def test_a_stopped_search_has_a_gap() -> None:
    stopped = sequence(4)
    data = frontier_data([stopped])
    assert data.has_gap
    assert not data.proved
    assert data.bounds[0] - data.values[0] == pytest.approx(stopped.gap)


def test_infinite_bounds_and_values_are_not_drawn() -> None:
    known, lost = replace(sequence(4), bound=math.inf), replace(sequence(4), value=-math.inf)
    data = frontier_data([known, lost])
    assert np.isnan(data.bounds[0])
    assert np.isnan(data.values[1])
    assert data.has_gap is False


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
            "interval_low": INTERVALS[one.k].low,
            "interval_high": INTERVALS[one.k].high,
        }
        for one in frontier
    )
    data, direct = frontier_data(frame.reverse()), frontier_data(frontier, intervals=INTERVALS)
    for name in ("budgets", "values", "bounds", "intervals", "observed", "proved"):
        np.testing.assert_array_equal(getattr(data, name), getattr(direct, name))
    assert frontier_data(frame.with_columns(interval_low=None)).intervals is None
    failed = frame.with_columns(status=pl.lit("failed"))
    with pytest.raises(InputError, match="no explanations to draw"):
        frontier_data(failed)
    with pytest.raises(InputError, match="several episodes"):
        frontier_data(pl.concat([frame, frame.with_columns(episode_id=pl.lit("b"))]))
    with pytest.raises(InputError, match="no column 'bound'"):
        frontier_data(frame.drop("bound"))


def test_nothing_to_draw() -> None:
    with pytest.raises(InputError, match="no explanations to draw"):
        frontier_data([])
