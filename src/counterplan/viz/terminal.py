"""Results in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from counterplan.viz.words import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Rows of a table that fit a screen; the files hold all of them.
MOST_ROWS = 15
# Columns of a terminal from which on the table has room for the changes.
WIDE = 150


class DemoOutput(Protocol):
    """What the demo leaves behind (see `experiments.demo.DemoResult`)."""

    @property
    def page(self) -> Path: ...
    @property
    def table(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def summary(self) -> Mapping[str, Any]: ...


def print_demo(result: DemoOutput, console: Console | None = None) -> None:
    """The best cases as a table, then the key numbers and where the page is."""
    from rich.console import Console
    from rich.markup import escape

    console = console or Console()
    summary = result.summary
    improvable = [row for row in result.table if row["improvable"]]
    if improvable:
        table = _demo_table(improvable[:MOST_ROWS], summary["k"], wide=console.width >= WIDE)
        console.print(table)
        console.print(
            "range: survival in every causal model that fits the data; guaranteed: the least that "
            "the most careful choice of changes reaches in all of them."
        )
        if console.width < WIDE:
            console.print(f"Most probable changes for {escape(improvable[0]['patient'])}:")
            for change in improvable[0]["changes"]:
                console.print(f"  {escape(change)}")
    console.print(
        f"{counted(summary['patients'], 'patient')} sampled, {summary['deaths']} died; with at "
        f"most {counted(summary['k'], 'change')} {summary['improvable']} could have been improved, "
        f"{summary['guaranteed']} of them in every causal model that fits the data."
    )
    more = len(improvable) - MOST_ROWS
    if more > 0:
        console.print(f"The page and cases.csv show {more} more.")
    console.print(f"Open [bold]{escape(str(result.page))}[/bold] in a browser.", soft_wrap=True)


def _demo_table(rows: Sequence[Mapping[str, Any]], k: int, *, wide: bool) -> Table:
    from rich.markup import escape
    from rich.table import Table

    title = f"Deaths, ranked by what at most {counted(k, 'change')} would have brought"
    table = Table(title=title)
    table.add_column("patient", no_wrap=True)
    for heading in ("steps", "survival", "improvement", "range", "guaranteed"):
        table.add_column(heading, justify="right", no_wrap=True)
    if wide:
        table.add_column("most probable changes", no_wrap=True)
    for row in rows:
        low, high = row["interval_low"], row["interval_high"]
        cells = [
            escape(row["patient"]),
            str(row["steps"]),
            f"{row['value']:.1%}",
            f"{row['improvement']:+.1%}",
            f"{low:.0%} to {high:.0%}",
            f"{row['guaranteed_value']:.1%}",
        ]
        table.add_row(*cells, *([escape("\n".join(row["changes"]))] if wide else []))
    return table
