"""The command line: `commands` says what there is, and each command has a module of its own."""

from counterplan.cli.commands import app, main

__all__ = ["app", "main"]
