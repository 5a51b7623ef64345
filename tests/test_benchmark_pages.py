"""The tables of docs/benchmarks.md say what the benchmarks have written.

The paragraph before a table names the files of benchmarks/results that it comes from. Each of its
numbers must be one of theirs, rounded, in the same unit or in one a thousand times as large.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
# Below this heading tables hold measurements; above it, names of commands.
FIRST = "## Against the published methods"


def numbers(text: str) -> list[Decimal]:
    return [Decimal(found.replace(",", "")) for found in NUMBER.findall(text)]


def tables(text: str) -> Iterator[tuple[str, str]]:
    """Each table, with the paragraph before it; tables in a row share one."""
    before = ""
    for block in text.split("\n\n"):
        if block.startswith("|"):
            yield before, block
        else:
            before = block


def is_rounded(shown: Decimal, measured: Decimal) -> bool:
    last_digit = Decimal(1).scaleb(int(shown.as_tuple().exponent))
    return any(abs(shown - x) <= last_digit / 2 for x in (measured, measured / 1000))


def missing(table: str, sources: list[str]) -> list[Decimal]:
    """Numbers of a table that none of the texts has."""
    measured = [number for source in sources for number in numbers(source)]
    return [
        shown
        for shown in numbers(table)
        if not any(is_rounded(shown, number) for number in measured)
    ]


MEASURED = list(tables(PAGE.read_text(encoding="utf-8").partition(FIRST)[2]))


@pytest.mark.parametrize(("before", "table"), MEASURED, ids=[t.split("\n")[0] for _, t in MEASURED])
def test_every_number_was_measured(before: str, table: str) -> None:
    names = re.findall(r"`(\w+\.md)`", before)
    assert names, "say before the table which files of benchmarks/results it comes from"
    sources = [(RESULTS / name).read_text(encoding="utf-8") for name in names]
    assert missing(table, sources) == []


def test_the_page_has_tables() -> None:
    assert len(MEASURED) >= 5


def test_another_number_is_found() -> None:
    written = "| 20 | 4.76 ms | 0.199 s | 1,653 |"
    assert missing("| 20 | 0.0048 | 0.20 | 1,653 |", [written]) == []
    assert missing("| 20 | 0.0047 | 0.21 | 1,650 |", [written]) == numbers("0.0047 0.21 1650")
