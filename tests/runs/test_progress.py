"""What is shown of a run: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from counterplan.runs.progress import Progress, duration

from .conftest import run_parts

SUMMARY = {"episodes": 50.0, "failed": 2.0, "optimal": 36.0, "improvement": 12.0}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def progress(is_terminal: bool) -> tuple[Progress, Clock, io.StringIO]:
    clock, text = Clock(), io.StringIO()
    console = Console(file=text, force_terminal=is_terminal, width=100, color_system=None)
    return Progress(clock, console), clock, text


def test_a_line_every_minute() -> None:
    shown, clock, text = progress(False)
    with shown.shown():
        assert list(shown.reading([b"one"])) == [b"one"]
        shown.begin(10, 2, {"episodes": 100.0, "failed": 0.0, "optimal": 100.0, "improvement": 1.0})
        for _ in range(4):
            clock.now += 20.0
            shown.add(SUMMARY)
    assert text.getvalue() == (
        "5 of 10 parts, 250 episodes, 2.5 per second, 2 min left; "
        "6 failed, 85.2% proved optimal, mean improvement 0.1516\n"
    )


def test_a_bar_on_a_terminal() -> None:
    shown, clock, text = progress(True)
    with shown.shown() as live:
        shown.begin(10, 0, {})
        clock.now += 600.0
        shown.add(SUMMARY)
        live.refresh()
    assert "1 of 10 parts, 50 episodes, 0.0833 per second, 90 min left" in text.getvalue()
    assert "2 failed, 75.0% proved optimal, mean improvement 0.25" in text.getvalue()
    assert "━" in text.getvalue()


def test_reading_on_a_terminal() -> None:
    shown, _, text = progress(True)
    with shown.shown() as live:
        for _ in shown.reading(lambda: [b"one", b"two"]):
            live.refresh()
    assert "reading: 2 parts" in text.getvalue()


def test_summaries_without_these_numbers() -> None:
    shown, clock, text = progress(False)
    shown.begin(2, 0, {})
    clock.now += 90.0
    shown.add({})
    assert text.getvalue() == "1 of 2 parts, 90 s left\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99.0, "99 s"), (100.0, "2 min"), (5999, "100 min"), (36000, "10.0 h")],
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_run_prints_nothing_by_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_parts(tmp_path / "out", [b"one", b"two"])
    assert capfd.readouterr() == ("", "")
