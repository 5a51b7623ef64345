"""Results in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, Protocol

from counterplan.core.validation import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NAME = "counterplan"
# Rows of a table that fit a screen; the report holds all of them.
MOST_ROWS = 10
# Columns of a terminal from which on the table has room for the changes.
WIDE = 120


class DemoOutput(Protocol):
    """What the demo leaves behind (see `experiments.demo.DemoResult`)."""

    @property
    def run(self) -> Path: ...
    @property
    def reports(self) -> Sequence[Path]: ...
    @property
    def figures(self) -> Sequence[Path]: ...
    @property
    def table(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def summary(self) -> Mapping[str, Any]: ...


def print_demo(result: DemoOutput, console: Console | None = None) -> None:
    """The best cases as a table, then what the three parts found and where everything is."""
    from rich.console import Console
    from rich.markup import escape

    console = console or Console()
    summary = result.summary
    if result.table:
        wide = console.width >= WIDE
        console.print(_demo_table(result.table[:MOST_ROWS], summary["k"], wide=wide))
        if not wide:
            first = result.table[0]
            console.print(f"Changes for {escape(first['patient'])}:")
            for change in first["changes"]:
                console.print(f"  {escape(change)}")
    for line in _found(summary):
        console.print(line)
    console.print("Open in a browser:")
    for path in result.reports:
        console.print(f"  [bold]{escape(str(path))}[/bold]", soft_wrap=True)
    if result.figures:
        folder = escape(str(result.figures[0].parent))
        console.print(f"Figures: {folder}, {len(result.figures)} PNG files.", soft_wrap=True)
    if result.table:
        command = escape(f"{program()} serve {result.run}")
        console.print(f"Ask what-if questions: {command}", soft_wrap=True)
        others = [str(path.parent / result.run.name) for path in result.reports[1:]]
        if others:
            console.print(f"  or of {escape(' and '.join(others))}", soft_wrap=True)


def program() -> str:
    """How this program is called from here: by its path where it is none of the shell's commands,
    as in an environment that is not activated."""
    called = Path(sys.argv[0])
    if called.stem != NAME or which(NAME) is not None:
        return NAME
    return str(called)


def _found(summary: Mapping[str, Any]) -> list[str]:
    """A line for each of the three systems."""
    lines = [
        f"{counted(summary['patients'], 'patient')} sampled, {summary['deaths']} died; with at "
        f"most {counted(summary['k'], 'change')} {summary['improvable']} could have been improved, "
        f"{summary['holds_in_every_model']} of them in every causal model that fits the data."
    ]
    if "stays" in summary:
        lines.append(
            f"{counted(summary['stays'], 'stay')} explained by a neural model: summed SOFA lower "
            f"by {summary['stays_mean_improvement']:.1f} on average."
        )
    if "voyages" in summary:
        paid, planned = summary["voyages_executed"], summary["voyages_planned"]
        lines.append(
            f"{counted(summary['voyages'], 'voyage')} judged: fuel by a plan made once cost "
            f"{paid:,.0f}, by a planner that looks again in every port {planned:,.0f}."
        )
    return lines


def _demo_table(rows: Sequence[Mapping[str, Any]], k: int, *, wide: bool) -> Table:
    from rich.markup import escape
    from rich.table import Table

    title = f"Deaths, ranked by what at most {counted(k, 'change')} would have brought"
    table = Table(title=title)
    table.add_column("patient", no_wrap=True)
    for heading in ("steps", "survival", "improvement", "every model"):
        table.add_column(heading, justify="right", no_wrap=True)
    if wide:
        table.add_column("changes", no_wrap=True)
    for row in rows:
        cells = [
            escape(row["patient"]),
            str(row["steps"]),
            f"{row['value']:.1%}",
            f"{100 * row['improvement']:+.1f} points",
            f"{row['interval_low']:.0%} to {row['interval_high']:.0%}",
        ]
        table.add_row(*cells, *([escape("\n".join(row["changes"]))] if wide else []))
    return table
