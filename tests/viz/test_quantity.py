"""Numbers are written as people read them."""

from __future__ import annotations

import pytest

from counterplan.viz.quantity import Quantity, share

from .results import CHANCE


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "0 %"), (0.004, "< 1 %"), (0.25, "25 %"), (0.998, "> 99 %"), (1.0, "100 %")],
)
def test_share_never_claims_never_or_always(probability: float, text: str) -> None:
    assert share(probability) == text


def test_percent_and_plain_numbers() -> None:
    assert CHANCE.write(0.8378) == "83.8 %"
    assert CHANCE.write(-0.0) == "0.0 %"
    assert CHANCE.write_gain(0.8378) == "+83.8 points"
    assert CHANCE.write_gain(-0.1) == "-10.0 points"
    assert CHANCE.write_range(0.0, 1.0) == "0.0 to 100.0 %"
    assert CHANCE.write_range(0.5, float("inf")) == "50.0 % to inf"
    assert Quantity().write(12.34567) == "12.35"
    assert Quantity().write(-123456.7) == "-123,457"
    assert Quantity().write(float("-inf")) == "-inf"
    assert Quantity().write_gain(float("inf")) == "+inf"
    assert Quantity().write_range(1.0, 2.5) == "1 to 2.5"
