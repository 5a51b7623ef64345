"""What all commands share: options as fields of a dataclass, errors in one line, tables, JSON.

A command is a function of one dataclass. Its fields are the options:

    @dataclass(frozen=True, kw_only=True)
    class Options(SharedOptions):
        k: int = option("How many actions may change.", 3)
        robust: bool = option("Add the range over causal models.", False)

    @command()
    def explain(options: Options) -> None:
        "The help text."

A field becomes the option --name-of-the-field unless other names are given; numbers are whole ones
from 0 up, or finite ones, unless `parse` says otherwise.
"""

from __future__ import annotations

import inspect
import json
import logging
import math
import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from counterplan.errors import (
    CertificateError,
    CounterplanError,
    FileError,
    InputError,
    MistakesError,
)

if TYPE_CHECKING:
    from rich.console import Console

    from counterplan.core.limits import Progress, ProgressCallback
    from counterplan.runs.cohort import RunProgress

Parse = Callable[[str], Any]

BAD_INPUT = 2
# More than any array can hold; larger numbers are slips of the keyboard.
LARGEST = 2**31 - 1
# As in `runs.cohort`, which takes too long to load for a help text.
MOST_WORKERS = 1024
# Seconds between two lines about how far a run is, and the width of its bar.
LINE_SECONDS, BAR_WIDTH = 60.0, 20

# --- Options ----------------------------------------------------------------------------------


def option(
    help: str, default: Any = None, *names: str, parse: Parse | None = None, **more: Any
) -> Any:
    """A field that is an option; `parse` reads its text and raises a ValueError that goes on after
    the text, such as "is not a number"."""
    made = {"names": names, "parse": parse, "help": help, **more}
    return field(default=default, metadata=made)


def argument(help: str, metavar: str) -> Any:
    """A field that is given by its place."""
    return field(metadata={"argument": True, "help": help, "metavar": metavar})


def output(help: str, default: Any = None) -> Any:
    """The field -o."""
    return option(help, default, "--output", "-o")


def whole_number(minimum: int = 0, maximum: int = LARGEST) -> Parse:
    """Reads a whole number."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if not minimum <= number <= maximum:
            raise ValueError(f"is not a whole number from {minimum} to {maximum}")
        return number

    return parse


def number(accepts: Callable[[float], bool] = lambda _: True, wanted: str = "a number") -> Parse:
    """Reads a finite number."""

    def parse(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not (math.isfinite(found) and accepts(found)):
            raise ValueError(f"is not {'a finite number' if math.isinf(found) else wanted}")
        return found

    return parse


from_zero = number(lambda found: found >= 0.0, "a number from 0 up")
# How options of some kinds are read and called unless they say otherwise.
KINDS: dict[Any, tuple[Parse | None, str]] = {
    Path: (None, "PATH"),
    int: (whole_number(), "N"),
    float: (number(), "NUMBER"),
}


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """What every command takes."""

    as_json: bool = option("Print the result as JSON; messages go to stderr.", False, "--json")
    seed: int = option("Seed of whatever the command draws at random.", 0)
    log: Literal["error", "warning", "info", "debug"] | None = option(
        "Tell on stderr what is read, fitted, solved, tried again and written, a line for each "
        "event from this level up (debug also has each episode); nothing if not given."
    )


@dataclass(frozen=True, kw_only=True)
class TableOptions(SharedOptions):
    """What commands take that read a table of episodes."""

    episodes: Path = argument(
        "Table of episodes: .csv, .tsv (also .gz), .parquet or a folder of such files, .arrow, "
        ".xlsx, .sqlite or .duckdb with --query, or .json.",
        "EPISODES",
    )
    sep: str | None = option(
        "What separates fields, if not as recognised: ';' or tab.", metavar="SIGN"
    )
    decimal: str | None = option(
        "What sets off decimals, if not as recognised: '.' or ','.", metavar="SIGN"
    )
    encoding: str | None = option("Of text, if not as recognised, such as latin-1.", metavar="NAME")
    query: str | None = option("One SELECT, whose rows are the table.", metavar="SQL")

    @property
    def table(self) -> Path:
        """The table, with what is said of it."""
        from counterplan.core.table import TablePath

        names = ("sep", "decimal", "encoding", "query")
        return TablePath(self.episodes, **{name: getattr(self, name) for name in names})


def run_folder() -> Any:
    """The argument OUT of commands that show a run."""
    return argument("Folder of a run of `explain` or `plan`.", "OUT")


def which_budget() -> Any:
    """The option --k of commands that show a run."""
    return option("Which number of changes (the largest of the run).")


def trusted_problem() -> Any:
    """The option --problem of commands that open a run of `plan`: loading it is what is asked."""

    def trust(name: str | None) -> str | None:
        from counterplan.domains.problems import load_problem

        if name is not None:
            load_problem(name)
        return name

    return option(
        "For runs of `plan` with a problem.py or module:Class: that you trust this code.",
        callback=trust,
        metavar="DOMAIN",
    )


def workers() -> Any:
    """The option --workers of commands that make a run."""
    text = "With a folder: how many processes (one for each core if not given)."
    return option(text, parse=whole_number(1, MOST_WORKERS))


def cluster() -> Any:
    """The option --cluster of commands that make a run."""
    return option(
        "With a folder: address of a Dask scheduler to run on, such as tcp://127.0.0.1:8786.",
        metavar="ADDRESS",
    )


class PlainHelp(TyperCommand):
    """Help that calls an argument EPISODES, not {EPISODES} or EPISODES <path>."""

    def get_help(self, ctx: Any) -> str:
        text = re.sub(r"^(  [A-Z]+) <\S+>", r"\1", super().get_help(ctx), flags=re.MULTILINE)
        return re.sub(r"\{([A-Z]+)\}", r"\1", text)


def command(cls: type[PlainHelp] = PlainHelp) -> Callable[[Callable[[Any], None]], Any]:
    """A function of a dataclass as the command whose options are that dataclass's fields."""

    def made(run: Callable[[Any], None]) -> Any:
        (kind,) = (hint for name, hint in get_type_hints(run).items() if name != "return")
        hints = get_type_hints(kind)
        shared = {one.name for one in fields(SharedOptions)}
        # Own options come before those that every command has.
        ordered = sorted(fields(kind), key=lambda one: one.name in shared)

        def call(**values: Any) -> None:
            options = kind(**values)
            before = _written(options)
            try:
                with _logged(options.log):
                    run(options)
            except KeyboardInterrupt as stop:
                # A run in a folder has told already.
                if not getattr(stop, "__notes__", None):
                    note(_stopped(options, before))
                raise

        call.__name__, call.__doc__ = run.__name__, run.__doc__
        parameters = [_parameter(one, hints[one.name]) for one in ordered]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        program = typer.Typer(add_completion=False, rich_markup_mode=None)
        program.command(cls=cls)(call)
        return typer.main.get_command(program)

    return made


def _parameter(one: Field[Any], hint: Any) -> inspect.Parameter:
    more = dict(one.metadata)
    kind = inspect.Parameter.KEYWORD_ONLY
    if more.pop("argument", False):
        positional: Any = Annotated[hint, typer.Argument(**more)]
        return inspect.Parameter(one.name, kind, annotation=positional)
    default = inspect.Parameter.empty if one.default is MISSING else one.default
    names = more.pop("names") or (_flag(one.name),)
    parse, metavar = KINDS.get((get_args(hint) or (hint,))[0], (None, None))
    more["metavar"] = more.get("metavar", metavar)
    parse = more.pop("parse") or parse
    if parse is not None:
        hint, more["parser"] = Any, partial(read_option, parse, names[0])
    named: Any = Annotated[hint, typer.Option(*names, **more)]
    return inspect.Parameter(one.name, kind, annotation=named, default=default)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def read_option(parse: Parse, name: str, text: str) -> Any:
    """What the text of an option stands for."""
    try:
        return parse(text)
    except ValueError as problem:
        shown = problem.args[1] if len(problem.args) > 1 else text
        raise typer.BadParameter(f"{shown!r} {problem.args[0]}", param_hint=name) from None


def _written(options: SharedOptions) -> dict[Path, int | None]:
    """The files and folders that a command may write, and when each was written last."""
    named = (getattr(options, name, None) for name in ("output", "scenarios_template"))
    paths = [path for path in named if path is not None]
    return {path: path.stat().st_mtime_ns if os.path.exists(path) else None for path in paths}


def _stopped(options: SharedOptions, before: dict[Path, int | None]) -> str:
    """What to tell whoever stopped a command."""
    now = _written(options)
    if any(path.is_dir() for path in now):
        return "stopped; the same command continues"
    new = [str(path) for path in now if now[path] != before[path]]
    return f"stopped; {', '.join(new) + ' was written before' if new else 'nothing was written'}"


# --- Options that do not go together ----------------------------------------------------------


def given(options: SharedOptions, *names: str) -> dict[str, bool]:
    """Whether each of some options is other than if it were left out, by its flag."""
    own = {one.name: one for one in fields(options)}
    flags = {name: (own[name].metadata["names"] or (_flag(name),))[-1] for name in names}
    return {
        flags[name].rpartition("/")[2]: getattr(options, name) != own[name].default
        for name in names
    }


def refuse(given: Mapping[str, bool], why: str) -> None:
    """Raises if one was given, saying why it does not fit."""
    wrong = next((name for name, is_given in given.items() if is_given), None)
    if wrong is not None:
        raise InputError(f"{wrong} {why}")


def check_where(options: SharedOptions, elsewhere: str | None = None) -> None:
    """Raises if workers and cluster or, where `elsewhere` says why nothing runs there, either was
    given."""
    where = given(options, "workers", "cluster")
    if elsewhere is not None:
        refuse(where, elsewhere)
    if all(where.values()):
        raise InputError("--workers is for this machine, --cluster for others: give one of them")


def keep_inputs(output: Path, inputs: Iterable[Path | None]) -> None:
    """Raises if a file that is read would be written."""
    for path in inputs if output.exists() else ():
        if path is not None and path.exists() and output.samefile(path):
            raise FileError(f"{output}: is read by this command; choose another name for results")


# --- Errors -----------------------------------------------------------------------------------


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
        except CertificateError as problem:
            print(f"error: {problem}; a fault of counterplan: no answer", file=sys.stderr)
            sys.exit(1)
        except Exception as problem:
            line = _one_line(problem)
            if line is None:
                raise
            if isinstance(problem, OSError):
                _discard_output()
            lines = str(problem).splitlines() if isinstance(problem, MistakesError) else [line]
            print("\n".join(f"error: {printable(text)}" for text in lines), file=sys.stderr)
            sys.exit(BAD_INPUT)
        sys.exit(code or 0)


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


# --- What is told of the work ---------------------------------------------------------------------


class _Line(logging.Formatter):
    """One line for each event, whatever the names in it hold."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\\n")


@contextmanager
def _logged(level: str | None) -> Iterator[None]:
    """Events of this level and above go to stderr."""
    if level is None:
        yield
        return
    logger, handler = logging.getLogger("counterplan"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(level.upper())
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


# --- What is printed --------------------------------------------------------------------------


def printable(text: str) -> str:
    """With signs that steer a terminal, or turn its text round, written out: names come from
    tables that others made."""
    return "".join(
        sign.encode("unicode_escape").decode() if _steers(sign) else sign for sign in text
    )


def _steers(sign: str) -> bool:
    return sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cf", "Cs")


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
        table.add_row(*map(printable, row))
    Console(markup=False, highlight=False).print(table)


def fits(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> bool:
    """Whether these columns of a table find room side by side."""
    from rich.console import Console

    every = [dict(zip(columns, columns, strict=True)), *rows]
    sizes = [max(len(line) for row in every for line in row[name].split("\n")) for name in columns]
    return sum(sizes) + 3 * len(sizes) - 1 <= Console().width


def print_text(text: str, lines: int | None = None, indent: int = 0) -> None:
    """A text on stdout, folded to the terminal's width, and cut after so many lines."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    folded = textwrap.wrap(
        printable(text), console.width, max_lines=lines, placeholder=" …",
        subsequent_indent=" " * indent,
    )  # fmt: skip
    console.print("\n".join(folded), soft_wrap=True)


def note(text: str) -> None:
    """A message to the person at the terminal, on stderr."""
    typer.echo(printable(text), err=True)


# --- How far long work has come: on stderr, and only there -------------------------------------


@contextmanager
def run_display(console: Console | None = None) -> Iterator[Callable[[Progress], None]]:
    """What `run_cohort(progress=...)` calls, shown while this lasts: on a terminal a bar with what
    has come out so far; otherwise a line every minute."""
    from rich import progress as rich
    from rich.console import Console

    from counterplan.runs.cohort import SOLVING, RunProgress

    console = console or Console(stderr=True, markup=False, highlight=False)
    columns = (rich.BarColumn(BAR_WIDTH), rich.TextColumn("{task.description}", markup=False))
    is_terminal, last_line = console.is_terminal, 0.0
    with rich.Progress(
        *columns, console=console, transient=True, redirect_stdout=False, disable=not is_terminal
    ) as bar:
        task = bar.add_task("reading", total=None)

        def show(reached: Progress) -> None:
            nonlocal last_line
            lines = [f"reading: {reached.done:,} parts"]
            if isinstance(reached, RunProgress) and reached.what == SOLVING:
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
