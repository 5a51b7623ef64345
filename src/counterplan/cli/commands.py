"""The program: all commands, each from a module of its own."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import counterplan
from counterplan.cli.cases import cases
from counterplan.cli.explain import explain
from counterplan.cli.fit import fit
from counterplan.cli.plan import PlanCommand, plan
from counterplan.cli.report import report
from counterplan.cli.schema import schema
from counterplan.cli.serve import serve
from counterplan.cli.support import (
    OneLineErrors,
    PlainHelp,
    SharedOptions,
    command,
    option,
    output,
    print_json,
    whole_number,
)

# As in `cli.demo`, which takes too long to load for a help text.
MOST_PATIENTS = 100_000
# The exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Given what happened, what should have been done? Given what may happen, what to do now?"
    "\n\nFinds the few actions of an episode which, had they been others and all chance the same, "
    "would have led to the best outcome, with a proof; plans for an uncertain future, with bounds.",
    epilog="Start with: counterplan demo\n\nWith a table of your own: schema, fit, explain -o OUT; "
    "then cases OUT, report OUT or serve OUT. Each command has --help, --json and --seed.",
)


def main() -> None:
    """Run the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a letter of some label shows its code instead.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except SystemExit as stop:
        if stop.code == INTERRUPTED and "jax" in sys.modules:
            # Without Python's own end, in which an interrupted computation of jax may crash.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterplan {counterplan.__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print version."),
    ] = False,
) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class DemoOptions(SharedOptions):
    """Options of `counterplan demo`."""

    output: Path = output("Folder for runs, reports and figures.", Path("demo"))
    patients: int = option(
        "How many patients to sample.", 400, parse=whole_number(1, MOST_PATIENTS), metavar="N"
    )
    k: int = option("How many actions may change at most.", 3, parse=whole_number(), metavar="N")


@command
def demo(options: DemoOptions) -> None:
    """Show all three systems on built-in data.

    Samples sepsis patients under usual care from the ICU-Sepsis model that comes with the package
    and finds what should have been done differently for those who died; learns a neural model from
    simulated stays and finds better doses for others; samples voyages and judges the fuel that was
    bought. Each is a run of a cohort, with a report to open in a browser and figures.
    """
    from counterplan.cli.demo import print_demo, run_demo

    result = run_demo(options.output, options.patients, options.seed, options.k)
    if options.as_json:
        files = {
            "run": str(result.run),
            "reports": [str(path) for path in result.reports],
            "figures": [str(path) for path in result.figures],
        }
        print_json({**files, "summary": result.summary, "deaths": result.table})
    else:
        print_demo(result)


for _one in (demo, schema, fit, explain, cases, serve, report):
    app.command(cls=PlainHelp)(_one)
app.command(cls=PlanCommand)(plan)
