"""How far a run has come, for the person who waits: on stderr, and only there.

On a terminal a bar with what has come out so far; otherwise a line every minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from counterplan.core.limits import Progress, ProgressCallback
from counterplan.runs.cohort import SOLVING, RunProgress

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 60.0
BAR_WIDTH = 20


@contextmanager
def run_display(console: Console | None = None) -> Iterator[Callable[[Progress], None]]:
    """What `run_cohort(progress=...)` calls, shown while the context lasts."""
    from rich import progress as rich
    from rich.console import Console

    console = console or Console(stderr=True, markup=False, highlight=False)
    columns = (rich.BarColumn(BAR_WIDTH), rich.TextColumn("{task.description}", markup=False))
    is_terminal, last_line = console.is_terminal, 0.0
    with rich.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, disable=not is_terminal
    ) as bar:
        task = bar.add_task("reading", total=None)

        def show(reached: Progress) -> None:
            nonlocal last_line
            assert isinstance(reached, RunProgress)
            lines = [f"reading: {reached.done:,} parts"]
            if reached.what == SOLVING:
                lines = [text for text in (_counts(reached), _outcomes(reached)) if text]
            bar.update(
                task, total=reached.total, completed=reached.done, description="\n".join(lines)
            )
            if reached.seconds - last_line >= LINE_SECONDS and not is_terminal:
                last_line = reached.seconds
                console.print("; ".join(lines), soft_wrap=True)

        yield show


def _counts(reached: RunProgress) -> str:
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


def _outcomes(reached: RunProgress) -> str:
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


@contextmanager
def episode_bar() -> Iterator[ProgressCallback]:
    """A bar for work that is counted one by one, shown if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def show(reached: Progress) -> None:
            total = reached.total
            bar.update(task, completed=reached.done, total=total, description=reached.what)

        yield show
