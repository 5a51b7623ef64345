"""What is shown of a run: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from counterplan.cli.support import duration, run_display
from counterplan.runs.cohort import READING, SOLVING, RunProgress

TOTALS = {"episodes": 250.0, "failed": 6.0, "optimal": 208.0, "improvement": 37.0}
HALF = RunProgress(SOLVING, 5, 10, seconds=60.0, resumed=2, episodes=150.0, totals=TOTALS)


def console_of(is_terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=is_terminal, width=100, color_system=None), text


def test_a_line_every_minute() -> None:
    console, text = console_of(False)
    with run_display(console) as show:
        show(RunProgress(READING, 1))
        show(RunProgress(SOLVING, 2, 10, resumed=2))
        show(RunProgress(SOLVING, 4, 10, seconds=40.0, resumed=2))
        show(HALF)
        show(RunProgress(SOLVING, 6, 10, seconds=80.0, resumed=2))
    assert text.getvalue() == (
        "5 of 10 parts, 250 episodes, 2.5 per second, 2 min left; "
        "6 failed, 85.2% proved optimal, mean improvement 0.1516\n"
    )


def test_a_bar_on_a_terminal() -> None:
    console, text = console_of(True)
    with run_display(console) as show:
        show(RunProgress(SOLVING, 0, 10))
        show(HALF)
    assert "5 of 10 parts, 250 episodes, 2.5 per second, 2 min left" in text.getvalue()
    assert "6 failed, 85.2% proved optimal, mean improvement 0.1516" in text.getvalue()
    assert "━" in text.getvalue()


def test_reading_on_a_terminal() -> None:
    console, text = console_of(True)
    with run_display(console) as show:
        show(RunProgress(READING, 2))
    assert "reading: 2 parts" in text.getvalue()


def test_summaries_without_these_numbers() -> None:
    console, text = console_of(False)
    with run_display(console) as show:
        show(RunProgress(SOLVING, 1, 2, seconds=90.0))
    assert text.getvalue() == "1 of 2 parts, 90 s left\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99.0, "99 s"), (100.0, "2 min"), (5999, "100 min"), (36000, "10.0 h")],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words
