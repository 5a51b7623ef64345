"""What commands print and write, against what they printed and wrote when it was frozen.

`python -m tests.golden.freeze` freezes anew.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from .commands import CASES
from .comparing import differences, same_text
from .freeze import EXPECTED
from .playing import play

MOST_SHOWN = 25


@pytest.mark.parametrize("name", CASES)
def test_as_before(name: str, tmp_path: Path) -> None:
    expected = json.loads((EXPECTED / f"{name}.json").read_text("utf-8"))
    found = json.loads(json.dumps(play(CASES[name], tmp_path)))
    shown = list(islice(differences(expected, found), MOST_SHOWN))
    assert not shown, "\n".join(["not as before:", *shown])


def test_every_file_has_a_case() -> None:
    assert sorted(path.stem for path in EXPECTED.glob("*.json")) == sorted(CASES)


class TestTheComparisonItself:
    """A comparison that cannot fail is none."""

    @pytest.mark.parametrize(
        ("expected", "found"),
        [
            (1.0, 1.0 + 1e-6),
            (1, 2),
            (1, 1.0),
            (True, 1),
            (None, 0),
            ([1], [1, 2]),
            ({"a": 1}, {"b": 1}),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
            ("step 3: rest", "step 4: rest"),
            ("1.25 better", "1.25 worse"),
            ("1.25", "1.27"),
            ("a  b", "a b"),
            ("200005", "200006"),
        ],
    )
    def test_differences_are_found(self, expected: object, found: object) -> None:
        assert list(differences(expected, found))

    @pytest.mark.parametrize(
        ("expected", "found"),
        [
            (1.0, 1.0 + 1e-9),
            (0.0, 1e-12),
            ([1.0, {"a": "x"}], [1.0, {"a": "x"}]),
            ("1.25 of 3", "1.26 of 3"),
            ("146,102 paid", "146,101 paid"),
            ("0.25   x", "0.2499 x"),
        ],
    )
    def test_last_digits_are_not(self, expected: object, found: object) -> None:
        assert list(differences(expected, found)) == []

    def test_spaces_count_where_numbers_are_the_same(self) -> None:
        assert not same_text("1.5  a", "1.5 a")
