"""The demo's table fits the terminal it is printed in."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from counterplan.viz.terminal import MOST_ROWS, print_demo

CHANGE = "step 10: fluids 1, vasopressor 0 -> fluids 3, vasopressor 0 (100 %)"


def row(number: int) -> dict[str, Any]:
    return {
        "patient": f"patient [red]{number:02d}",
        "steps": 20,
        "value": 0.838,
        "improvement": 0.838,
        "improvable": True,
        "interval_low": 0.0,
        "interval_high": 1.0,
        "guaranteed_value": 0.706,
        "changes": [CHANGE],
    }


@dataclass(frozen=True)
class Output:
    table: list[dict[str, Any]]
    page: Path = Path("demo[1]/index.html")
    summary: dict[str, Any] = field(
        default_factory=lambda: {
            "patients": 400, "deaths": 80, "improvable": 54, "guaranteed": 39, "k": 3,
        }
    )  # fmt: skip


def printed(output: Output, width: int) -> str:
    file = io.StringIO()
    print_demo(output, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 150])
def test_nothing_is_cut_off(width: int) -> None:
    text = printed(Output([row(number) for number in range(20)]), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for words in ("patient [red]00", "83.8%", "0% to 100%", "70.6%", CHANGE, "demo[1]/index.html"):
        assert words in text
    assert text.count("│ patient") == MOST_ROWS
    assert "5 more" in text


def test_nobody_died() -> None:
    text = printed(Output([]), 80)
    assert "┃" not in text
    assert "demo[1]/index.html" in text
