"""How far a run has come, for the person who waits: on stderr, and only there.

On a terminal a bar with what has come out so far; otherwise a line every minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from counterplan.runs.store import add

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINE_SECONDS = 60.0
BAR_WIDTH = 60


class Progress:
    """Counts what is done and shows it."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, console: Console | None = None
    ) -> None:
        from rich.console import Console

        self._clock = clock
        self._console = console or Console(stderr=True, markup=False, highlight=False)
        self._parts = self._done = self._new = self._read = 0
        self._episodes = 0.0
        self._totals: dict[str, float] = {}
        self._started = self._told = clock()

    def shown(self) -> AbstractContextManager[Any]:
        """The bar, while the context lasts."""
        if not self._console.is_terminal:
            return nullcontext()
        from rich.live import Live

        return Live(
            get_renderable=self._render,
            console=self._console,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def reading(self, parts: Iterable[bytes] | Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        """The parts, counted as they are read; nothing is done for them before."""
        for part in parts() if callable(parts) else parts:
            self._read += 1
            yield part

    def begin(self, parts: int, done: int, totals: Mapping[str, float]) -> None:
        """Solving begins; some parts may be done from before."""
        self._parts, self._done, self._totals = parts, done, dict(totals)
        self._started = self._told = self._clock()

    def add(self, summary: Mapping[str, float]) -> None:
        """Another part is done."""
        self._done, self._new = self._done + 1, self._new + 1
        self._episodes += summary.get("episodes", 0.0)
        add(self._totals, summary)
        now = self._clock()
        if not self._console.is_terminal and now - self._told >= LINE_SECONDS:
            self._told = now
            self.note(f"{self._counts()}; {self._outcome()}".rstrip("; "))

    def note(self, text: str) -> None:
        """A line to the person who waits."""
        self._console.print(text, soft_wrap=True)

    def _render(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if not self._parts:
            return Text(f"reading: {self._read:,} parts" if self._read else "reading")
        rows = Table.grid()
        rows.add_row(ProgressBar(total=self._parts, completed=self._done, width=BAR_WIDTH))
        for text in filter(None, (self._counts(), self._outcome())):
            rows.add_row(Text(text))
        return rows

    def _counts(self) -> str:
        text = f"{self._done:,} of {self._parts:,} parts"
        episodes = self._totals.get("episodes")
        if episodes is not None:
            text += f", {episodes:,.0f} episodes"
        seconds = self._clock() - self._started
        if self._new and seconds > 0:
            if self._episodes:
                text += f", {self._episodes / seconds:,.3g} per second"
            left = (self._parts - self._done) * seconds / self._new
            text += f", {duration(left)} left"
        return text

    def _outcome(self) -> str:
        """What has come out so far."""
        found, totals = [], self._totals
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
