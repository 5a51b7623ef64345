"""What all commands share: options as dataclasses, errors in one line, tables, JSON, progress."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from counterplan.cli.options import SharedOptions
from counterplan.errors import CounterplanError, FileError, InputError, MistakesError

Options = TypeVar("Options", bound=SharedOptions)
Item = TypeVar("Item")

BAD_INPUT = 2
STOPPED = "stopped; nothing was written"


def command(run: Callable[[Options], None]) -> Callable[..., None]:
    """A function of a dataclass as one of that dataclass's fields, which become the options."""
    (options_class,) = (kind for name, kind in get_type_hints(run).items() if name != "return")
    hints = get_type_hints(options_class, include_extras=True)
    shared = {field.name for field in fields(SharedOptions)}
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(options_class).parameters.items()
    ]

    def call(**values: Any) -> None:
        options = options_class(**values)
        before = _written(options)
        try:
            run(options)
        except KeyboardInterrupt as stop:
            # A run in a folder has told already.
            if not getattr(stop, "__notes__", None):
                note(_stopped(options, before))
            raise

    call.__name__, call.__doc__ = run.__name__, run.__doc__
    # Own options come before those that every command has.
    ordered = sorted(parameters, key=lambda parameter: parameter.name in shared)
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return call


def _written(options: SharedOptions) -> list[tuple[Path, int | None]]:
    """The files and folders that a command may write, and when each was written last."""
    named = (getattr(options, name, None) for name in ("output", "scenarios_template"))
    paths = [path for path in named if path is not None]
    return [(path, path.stat().st_mtime_ns if os.path.exists(path) else None) for path in paths]


def _stopped(options: SharedOptions, before: list[tuple[Path, int | None]]) -> str:
    """What to tell whoever stopped a command."""
    now = _written(options)
    if any(path.is_dir() for path, _ in now):
        return "stopped; the same command continues"
    new = [str(path) for path, written in now if (path, written) not in before]
    return f"stopped; {', '.join(new)} was written before" if new else STOPPED


def first_given(given: Mapping[str, bool]) -> str | None:
    """The first option that was given."""
    return next((name for name, is_given in given.items() if is_given), None)


def refuse(given: Mapping[str, bool], why: str) -> None:
    """Raise if one was given, saying why it does not fit."""
    if wrong := first_given(given):
        raise InputError(f"{wrong} {why}")


def check_where(workers: int | None, cluster: str | None, elsewhere: str | None = None) -> None:
    """Raise if both or, where `elsewhere` says why nothing runs there, either was given."""
    if elsewhere is not None:
        refuse({"--workers": workers is not None, "--cluster": cluster is not None}, elsewhere)
    if workers is not None and cluster is not None:
        raise InputError("--workers is for this machine, --cluster for others: give one of them")


class OneLineErrors(TyperGroup):
    """Commands whose mistakes in use or input end in one line on stderr and exit code 2; all those
    of a table or schema are told at once, one line each."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given or ["--help"], *rest, **extra | {"standalone_mode": False})
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()  # whoever read it has enough
            sys.exit(1)
        except Exception as problem:
            line = _one_line(problem)
            if line is None:
                raise
            if isinstance(problem, OSError):
                _discard_output()
            lines = str(problem).splitlines() if isinstance(problem, MistakesError) else [line]
            print("\n".join(f"error: {text}" for text in lines), file=sys.stderr)
            sys.exit(BAD_INPUT)
        sys.exit(code or 0)


class PlainHelp(TyperCommand):
    """Help that calls an argument EPISODES, not {EPISODES} or EPISODES <path>."""

    def get_help(self, ctx: Any) -> str:
        text = re.sub(r"^(  [A-Z]+) <\S+>", r"\1", super().get_help(ctx), flags=re.MULTILINE)
        return re.sub(r"\{([A-Z]+)\}", r"\1", text)


def _discard_output() -> None:
    """What stdout still holds must not fail again when the program ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(problem: Exception) -> str | None:
    """What to tell the user, None if the program itself is at fault."""
    if isinstance(problem, CounterplanError):
        text = str(problem)
    elif isinstance(problem, OSError):
        place = f"{problem.filename}: " if problem.filename else ""
        text = f"{place}{problem.strerror or problem}{'; check the path' if place else ''}"
    elif isinstance(problem, MemoryError):
        advice = "use a smaller model, or fewer episodes or simulations"
        text = f"not enough memory: {problem}; {advice}"
    elif hasattr(problem, "format_message"):  # a mistake in the command line itself
        context = getattr(problem, "ctx", None)
        command = "counterplan" if context is None else context.command_path
        hint = f" (see {command} --help)"
        text = problem.format_message().replace("Value error, ", "").rstrip(".") + hint
    else:
        return None
    return " ".join(text.splitlines())


def keep_inputs(output: Path, inputs: Iterable[Path | None]) -> None:
    """Raise if a file that is read would be written."""
    if not output.exists():
        return
    for path in inputs:
        if path is not None and path.exists() and output.samefile(path):
            raise FileError(f"{output}: is read by this command; choose another name for results")


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def print_table(title: str, columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> None:
    """A table on stdout; `columns` maps each heading to its alignment."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading, alignment in columns.items():
        table.add_column(heading, justify=alignment)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def note(text: str) -> None:
    """A message to the person at the terminal, on stderr."""
    typer.echo(text, err=True)


def tracked(items: Sequence[Item], what: str) -> Iterable[Item]:
    """The items, with a progress bar on stderr if that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(
        items, description=what, console=console, transient=True, disable=not console.is_terminal
    )
