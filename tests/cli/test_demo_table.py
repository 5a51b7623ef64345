"""The demo's table fits the terminal it is printed in."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from counterplan.cli.demo import MOST_ROWS, DemoResult, print_demo

CHANGE = "at 40 h: fluids 1 -> 3, vasopressor 0 -> 1 (100%)"


def row(number: int) -> dict[str, Any]:
    return {
        "patient": f"patient [red]{number:02d}",
        "steps": 20,
        "value": 0.838,
        "improvement": 0.838,
        "interval_low": 0.0,
        "interval_high": 1.0,
        "changes": [CHANGE],
    }


def printed(table: list[dict[str, Any]], width: int) -> str:
    result = DemoResult(
        Path("demo[1]/run"),
        (Path("demo[1]/report.html"), Path("demo[1]/stays/report.html")),
        (Path("demo[1]/figures/cohort.png"),),
        table,
        {
            "patients": 400, "deaths": 80, "improvable": 54, "holds_in_every_model": 20, "k": 3,
            "stays": 48, "stays_mean_improvement": 5.83,
            "voyages": 10, "voyages_executed": 1.69e6, "voyages_planned": 1.44e6,
        },
    )  # fmt: skip
    file = io.StringIO()
    print_demo(result, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 150])
def test_nothing_is_cut_off(width: int) -> None:
    text = printed([row(number) for number in range(20)], width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for words in (
        "patient [red]00",
        "83.8%",
        "+83.8 points",
        "0% to 100%",
        CHANGE,
        "20 of them in every",
    ):
        assert words in text
    for words in ("demo[1]/report.html", "demo[1]/stays/report.html", "demo[1]/figures, 1 PNG"):
        assert words in text
    assert "counterplan serve demo[1]/run" in text
    assert "or of demo[1]/stays/run" in text
    assert "lower by 5.8 on average" in text
    assert "1,690,000" in text
    assert text.count("│ patient") == MOST_ROWS


def test_nobody_died() -> None:
    text = printed([], 80)
    assert "┃" not in text
    assert "demo[1]/report.html" in text
    assert "serve" not in text


def test_the_command_works_where_no_environment_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/counterplan", "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert ".venv/bin/counterplan serve demo[1]/run" in printed([row(0)], 80)
