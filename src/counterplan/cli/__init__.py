"""The command line: each command is a module of its name, loaded when it is used."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from counterplan import __version__
from counterplan.cli.support import OneLineErrors

COMMANDS = ("demo", "episodes", "schema", "fit", "explain", "cases", "serve", "report", "plan")
# The exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130


class Program(OneLineErrors):
    """The commands, in the order in which the help lists them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": dict.fromkeys(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"counterplan.cli.{cmd_name}"), cmd_name)


app = typer.Typer(
    cls=Program,
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
        typer.echo(f"counterplan {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print version."),
    ] = False,
) -> None:
    pass
