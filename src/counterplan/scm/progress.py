"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(what: str, total: int, wanted: bool) -> Iterator[Callable[[str], None]]:
    """Gives a function to call after each of `total` parts, with a few words on how it went."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    shown = wanted and console.is_terminal
    with Progress(console=console, disable=not shown, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda text: progress.update(task, advance=1, description=f"{what}, {text}")
