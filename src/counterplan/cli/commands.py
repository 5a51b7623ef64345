"""All commands, their help, and the program: parse, call, print."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

import counterplan
from counterplan.cli.cases import cases
from counterplan.cli.explain import explain
from counterplan.cli.fit import fit
from counterplan.cli.options import DemoOptions, PlanOptions
from counterplan.cli.plan import PlanCommand
from counterplan.cli.report import ReportCommandOptions, write_report
from counterplan.cli.schema import schema
from counterplan.cli.serve import ServeOptions, serve_run
from counterplan.cli.support import OneLineErrors, PlainHelp, command, print_json

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
            _end_at_once(INTERRUPTED)
        raise


def _end_at_once(code: int) -> None:
    """Without Python's own end, in which an interrupted computation of jax may crash."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


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


@app.command(cls=PlainHelp)
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


for _command in (schema, fit, explain, cases):
    app.command(cls=PlainHelp)(_command)


@app.command(cls=PlainHelp)
@command
def serve(options: ServeOptions) -> None:
    """Open a run in the browser, edit it and ask again.

    Pick cases, change actions by hand, forbid some and solve anew. For runs of `counterplan explain
    EPISODES --model MODEL -o OUT` and of `counterplan plan DOMAIN --scenarios FILE -o OUT`. The
    page is for this machine only, unless --host says otherwise; then everyone who asks needs a
    token, which is part of the address that is printed.
    """
    serve_run(options)


@app.command(cls=PlainHelp)
@command
def report(options: ReportCommandOptions) -> None:
    """Write a run as one page to open, search, print and send.

    The page needs nothing from elsewhere: a summary, how all cases are distributed, a table that
    can be searched and sorted, a section with figures for each of the top cases, the model's fit
    and assumptions, how to read it, and what it does not claim. Print it, or save it as PDF, with
    the browser.
    """
    write_report(options)


@app.command(cls=PlanCommand)
@command
def plan(options: PlanOptions) -> None:
    """Say what to do next, or what executed plans lost.

    The problems that come with the package are those of the 2025 paper; one of your own is a Python
    file. A tree search simulates futures from the state asked about (the start, unless --step and
    what is seen and held by then say otherwise); next to its estimates stand bounds on the optimum,
    from hindsight and from a plan executed blindly, and the optimum itself where it can be
    computed.

    With --scenarios a table of what happened and what was done is judged instead: what each plan
    lost against hindsight, against the best policy without foresight, and in expectation. A planner
    decides along if --planner or --simulations is given. With -o the results go to a folder; a run
    that was stopped continues when the same command is given again.
    """
    from counterplan.cli.plan import answer

    answer(options)
