"""Long names on several lines."""

from __future__ import annotations

import pytest

from counterplan.viz.style import MOST_LINES, in_lines


def test_a_short_name_stays_as_it_is() -> None:
    assert in_lines("SOFA (points)", 20) == ["SOFA (points)"]
    assert in_lines("", 20) == [""]


@pytest.mark.parametrize("text", ["many words " * 30, "oneword" * 40, "患者" * 60])
def test_a_long_name_fits(text: str) -> None:
    lines = in_lines(text, 24)
    assert len(lines) == MOST_LINES
    assert max(map(len, lines)) <= 24
    assert lines[-1].endswith("…")
