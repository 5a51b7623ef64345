"""How far a run has come, for the person who waits: on stderr, and only there.

On a terminal a bar with what has come out so far; otherwise a line every minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterplan.core.problem import Progress
from counterplan.runs.cohort import SOLVING, RunProgress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINE_SECONDS = 60.0
BAR_WIDTH = 60


class RunDisplay:
    """Shows the progress that it is called with."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reached = RunProgress("reading", 0)
        self._last_line = 0.0

    def __call__(self, progress: Progress) -> None:
        assert isinstance(progress, RunProgress)
        self._reached = progress
        is_due = progress.seconds - self._last_line >= LINE_SECONDS
        if is_due and not self._console.is_terminal:
            self._last_line = progress.seconds
            text = f"{counts_text(progress)}; {outcome_text(progress)}".rstrip("; ")
            self._console.print(text, soft_wrap=True)

    def render(self) -> RenderableType:
        """The bar with what has come out so far."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        reached = self._reached
        if reached.what != SOLVING:
            return Text(f"reading: {reached.done:,} parts" if reached.done else "reading")
        rows = Table.grid()
        rows.add_row(ProgressBar(total=reached.total, completed=reached.done, width=BAR_WIDTH))
        for text in filter(None, (counts_text(reached), outcome_text(reached))):
            rows.add_row(Text(text))
        return rows


@contextmanager
def run_display(console: Console | None = None) -> Iterator[RunDisplay]:
    """A display for `run_cohort(progress=...)`, shown while the context lasts."""
    from rich.console import Console
    from rich.live import Live

    console = console or Console(stderr=True, markup=False, highlight=False)
    display = RunDisplay(console)
    if not console.is_terminal:
        yield display
        return
    with Live(
        get_renderable=display.render,
        console=console,
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=True,  # so that what is said meanwhile stands above the bar
    ):
        yield display


def counts_text(reached: RunProgress) -> str:
    """How many parts and episodes are done, how fast, and how long the rest takes."""
    total, new = reached.total or 0, reached.done - reached.resumed
    text = f"{reached.done:,} of {total:,} parts"
    episodes = reached.totals.get("episodes")
    if episodes is not None:
        text += f", {episodes:,.0f} episodes"
    if new and reached.seconds > 0:
        if reached.episodes:
            text += f", {reached.episodes / reached.seconds:,.3g} per second"
        text += f", {duration((total - reached.done) * reached.seconds / new)} left"
    return text


def outcome_text(reached: RunProgress) -> str:
    """What has come out so far."""
    found, totals = [], reached.totals
    solved = totals.get("episodes", 0.0) - totals.get("failed", 0.0)
    if "failed" in totals:
        found.append(f"{totals['failed']:,.0f} failed")
    if solved > 0 and "optimal" in totals:
        found.append(f"{totals['optimal'] / solved:.1%} proved optimal")
    if solved > 0 and "improvement" in totals:
        found.append(f"mean improvement {totals['improvement'] / solved:.4g}")
    return ", ".join(found)


def duration(seconds: float) -> str:
    """A time to wait in words."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
