"""Every case is counted once; the tail holds the most improvable ones."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import InputError
from counterplan.viz.cohort import cohort_data

from ..results import CHANCE


@given(
    st.lists(st.floats(-1.0, 1e6) | st.just(float("inf")), min_size=1, max_size=60),
    st.floats(0.0, 1.0) | st.none(),
)
def test_every_case_is_counted_once(gains: list[float], tail: float | None) -> None:
    data = cohort_data(gains, tail=tail)
    counted = data.none + data.infinite + data.body.sum() + data.tail.sum()
    assert counted == len(gains)
    assert data.edges[-1] >= max((gain for gain in gains if np.isfinite(gain)), default=0.0)


def test_the_tail_is_the_share_asked_for() -> None:
    gains = np.arange(1.0, 101.0)
    data = cohort_data(gains, tail=0.1)
    assert (data.tail.sum(), data.body.sum(), data.threshold) == (10, 90, 91.0)
    assert data.tail_name == "top 10 cases: +91 or more"
    assert not cohort_data(gains, tail=None).has_tail
    assert cohort_data(gains, tail=1.0).body.sum() == 0


def test_cases_without_improvement_are_never_the_tail() -> None:
    data = cohort_data([0.0, 0.0, 0.0, 0.4], tail=0.9, quantity=CHANCE)
    assert (data.none, data.tail.sum(), data.body.sum()) == (3, 1, 0)
    assert not cohort_data([0.0, -1.0]).has_tail
    assert data.ticks[0] == (data.apart, "none")
    assert data.apart + data.width / 2 < 0.0


def test_numbers_beside_the_axis_are_round() -> None:
    texts = [text for _, text in cohort_data([21.27, 0.0]).ticks]
    assert texts == ["none", "0", "5", "10", "15", "20", "25"]
    texts = [text for _, text in cohort_data([0.3], quantity=CHANCE).ticks]
    assert texts == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]


def test_what_is_guaranteed_is_counted_apart() -> None:
    data = cohort_data([0.0, 0.5, 0.9], guaranteed=[0.0, 0.0, 0.3], quantity=CHANCE)
    assert data.sure is not None
    assert (data.sure.sum(), data.unsure) == (1, 2)


def test_a_table_of_results() -> None:
    frame = pl.DataFrame(
        {"improvement": [1.0, None, 3.0], "k": [2, 2, 2], "status": ["optimal", "failed", "limit"]}
    )
    for table in (frame, frame.lazy(), frame.to_dicts()):
        data = cohort_data(table, tail=None)
        assert data.body.sum() == 2
    with pytest.raises(InputError, match="several k"):
        cohort_data(frame.with_columns(k=pl.Series([1, 2, 2])))


def test_bad_input() -> None:
    with pytest.raises(InputError, match="no cases to draw"):
        cohort_data([])
    with pytest.raises(InputError, match="tail must be a share"):
        cohort_data([1.0], tail=2.0)
