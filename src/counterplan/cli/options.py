"""What each command takes; the command line is built from these fields."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from counterplan.domains.problems import SHIPPED, load_problem

# More than any array can hold; larger numbers are slips of the keyboard.
LARGEST = 2**31 - 1
# Of a planner for a decision, unless --simulations says otherwise.
SIMULATIONS = 1000
# Limits of the library, which takes long to load: of `runs.cohort`, `planning.search.planners` and
# `cli.demo`.
MOST_WORKERS = 1024
MOST_SIMULATIONS = 10**8
MOST_PATIENTS = 100_000


def whole_number_option(name: str, help: str, minimum: int = 0, maximum: int = LARGEST) -> Any:
    """An option that takes a whole number; a bad one is an error that shows it."""

    def parse(text: str) -> int:
        return parse_whole_number(text, name, minimum, maximum)

    return typer.Option(name, help=help, parser=parse, metavar="N")


def parse_whole_number(text: str, name: str, minimum: int = 0, maximum: int = LARGEST) -> int:
    """A whole number within bounds."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not minimum <= number <= maximum:
        wanted = f"a whole number from {minimum} to {maximum}"
        raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint=name)
    return number


def number_from_zero(name: str) -> Callable[[str], float]:
    """What reads such a number for an option."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0.0 <= number < math.inf:
            wanted = "a finite number" if number == math.inf else "a number from 0 up"
            raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint=name)
        return number

    return parse


def parse_number(text: str, name: str | None = None) -> float:
    """A finite number, of an option where that is named."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    hint: Any = {} if name is None else {"param_hint": f"'{name}'"}
    if math.isinf(number):
        raise typer.BadParameter(f"{text!r} is not a finite number; give a smaller one", **hint)
    if math.isnan(number):
        raise typer.BadParameter(f"{text!r} is not a number", **hint)
    return number


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """What every command takes."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; messages go to stderr.")
    ] = False
    seed: Annotated[
        int, whole_number_option("--seed", "Seed of whatever the command draws at random.")
    ] = 0


def _trust(name: str | None) -> str | None:
    if name is not None:
        load_problem(name)
    return name


TrustedProblem = Annotated[
    str | None,
    typer.Option(
        "--problem",
        callback=_trust,
        metavar="DOMAIN",
        help="For runs of `plan` with a problem.py or module:Class: that you trust this code.",
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(help="Folder of a run of `explain` or `plan`.", metavar="OUT")
]
WhichBudget = Annotated[
    int | None, whole_number_option("--k", "Which number of changes (the largest of the run).")
]
Workers = Annotated[
    int | None,
    whole_number_option(
        "--workers",
        "With a folder: how many processes (one for each core if not given).",
        minimum=1,
        maximum=MOST_WORKERS,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="With a folder: address of a Dask scheduler to run on, such as tcp://127.0.0.1:8786.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DemoOptions(SharedOptions):
    """Options of `counterplan demo`."""

    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="PATH", help="Folder for runs, reports and figures."
        ),
    ] = Path("demo")
    patients: Annotated[
        int,
        whole_number_option(
            "--patients", "How many patients to sample.", minimum=1, maximum=MOST_PATIENTS
        ),
    ] = 400
    k: Annotated[int, whole_number_option("--k", "How many actions may change at most.")] = 3


class PlannerName(StrEnum):
    """Which tree search decides."""

    UCT = "uct"
    MENTS = "ments"
    BTS = "bts"
    DENTS = "dents"


@dataclass(frozen=True, kw_only=True)
class PlanOptions(SharedOptions):
    """Options of `counterplan plan`."""

    domain: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(SHIPPED)}, the name of an installed one, a problem.py, or "
            "module:Class. `counterplan plan DOMAIN --help` lists its options.",
            metavar="DOMAIN",
        ),
    ]
    # Filled in by the command itself from what it does not know and the problem may.
    problem_options: Annotated[Any, typer.Option(parser=json.loads, hidden=True)] = "{}"
    planner: Annotated[
        PlannerName | None, typer.Option(help="Which tree search decides (uct if not given).")
    ] = None
    simulations: Annotated[
        int | None,
        whole_number_option(
            "--simulations",
            f"How many futures to simulate ({SIMULATIONS} if not given).",
            minimum=1,
            maximum=MOST_SIMULATIONS,
        ),
    ] = None
    clip: Annotated[
        bool,
        typer.Option(help="Keep simulated values within bounds on the optimum, if there are any."),
    ] = True
    step: Annotated[
        int, whole_number_option("--step", "How many decisions have been made before.")
    ] = 0
    k: Annotated[
        int | None,
        whole_number_option(
            "--k", "With a table: also what at most so many changed decisions would have brought."
        ),
    ] = None
    scenarios: Annotated[
        Path | None,
        typer.Option(
            help="Judge executed plans instead: a table (.csv or .parquet) with a row for each "
            "decision: scenario_id, t, what was seen, and what was done.",
            metavar="PATH",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="With --scenarios: folder of the run."),
    ] = None
    workers: Workers = None
    cluster: Cluster = None
    scenarios_template: Annotated[
        Path | None,
        typer.Option(
            help="Write a table of sampled scenarios (.csv) with the columns that --scenarios "
            "takes, and stop.",
            metavar="PATH",
        ),
    ] = None
