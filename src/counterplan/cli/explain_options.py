"""What `explain` and `cases` take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from counterplan.cli.options import (
    LARGEST,
    Cluster,
    SharedOptions,
    WhichBudget,
    Workers,
    number_from_zero,
    whole_number_option,
)

# For the search of one stay where the answer goes to the terminal or into one file.
COHORT_SECONDS = 60.0
# Where it goes into a folder, nodes are counted instead: the same answer every time. So many take
# about a minute on the longest stays of the MIMIC-III demo (43 steps, 200 hidden units), and 2 to
# 20 seconds on 20 steps.
COHORT_NODES = 20_000


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        wanted = "a finite number" if seconds == math.inf else "a positive number"
        raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint="--seconds")
    return seconds


def _parse_budgets(text: str) -> tuple[int, ...]:
    found = []
    for part in str(text).split(","):
        number = int(part) if part.strip().isdecimal() and len(part) <= len(str(LARGEST)) else -1
        if not 0 <= number <= LARGEST:
            wanted = f"a whole number from 0 to {LARGEST}"
            raise typer.BadParameter(f"{part!r} is not {wanted}", param_hint="--k")
        found.append(number)
    return tuple(sorted(set(found)))


def _parse_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise typer.BadParameter(f"{text!r} is not a number", param_hint="--min-improvement")
    return number


class SolverName(StrEnum):
    """How to look for an explanation."""

    EXACT = "exact"
    GREEDY = "greedy"
    NOISY_GREEDY = "noisy-greedy"
    TOP_K = "top-k"
    RANDOM = "random"
    UCT = "uct"


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(SharedOptions):
    """Options of `counterplan explain`."""

    episodes: Annotated[
        Path, typer.Argument(help="Table of episodes: .csv, .parquet or .json.", metavar="EPISODES")
    ]
    model: Annotated[
        Path,
        typer.Option(
            "--model", "-m", metavar="PATH", help="Model file: .safetensors, or .json by hand."
        ),
    ]
    k: Annotated[
        Any,
        typer.Option(
            "--k",
            parser=_parse_budgets,
            metavar="N",
            help="How many actions may change at most; several numbers with commas between.",
        ),
    ] = "3"
    all_k: Annotated[
        bool, typer.Option("--all-k", help="Every number of changes from 0 to that of --k.")
    ] = False
    episode: Annotated[
        list[str] | None,
        typer.Option(help="Explain only this episode; repeat for more.", metavar="ID"),
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="What the columns of the table mean (.toml), if not as the model remembers.",
        ),
    ] = None
    robust: Annotated[
        bool,
        typer.Option(
            "--robust",
            help="Add the lowest and highest value over every causal model that fits the data.",
        ),
    ] = False
    seconds: Annotated[
        float | None,
        typer.Option(
            parser=_parse_seconds,
            metavar="S",
            help="Stop after so many seconds for each episode, with a bound on the optimum "
            f"(continuous states: {COHORT_SECONDS:g} if not given). With a folder for the results "
            "the same command may then give other answers.",
        ),
    ] = None
    nodes: Annotated[
        int | None,
        whole_number_option(
            "--nodes",
            "Likewise after so many nodes (discrete: rows of the model; continuous states with a "
            f"folder for the results: {COHORT_NODES:,} if neither is given).",
            minimum=1,
        ),
    ] = None
    gap: Annotated[
        float,
        typer.Option(
            parser=number_from_zero("--gap"),
            metavar="NUMBER",
            help="Stop once the optimum can be better by at most this.",
        ),
    ] = 0.0
    max_move: Annotated[
        float | None,
        typer.Option(
            parser=number_from_zero("--max-move"),
            metavar="LEVELS",
            help="Neural models: by how much a dose may differ from the one given, in the units "
            "of the schema's levels; cohort tables: by how many levels.",
        ),
    ] = None
    solver: Annotated[
        SolverName, typer.Option(help="The exact optimum, or a simple method to compare with.")
    ] = SolverName.EXACT
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File for the results (.json or .csv), or a folder: then all results and "
            "trajectories are kept as Parquet, and the same command continues a run that was "
            "stopped.",
        ),
    ] = None
    workers: Workers = None
    cluster: Cluster = None


class OrderName(StrEnum):
    """By what cases are ranked."""

    IMPROVEMENT = "improvement"
    RELATIVE = "relative"
    GAP = "gap"
    FACTUAL = "factual"


class StatusName(StrEnum):
    """What became of a search."""

    OPTIMAL = "optimal"
    LIMIT = "limit"
    HEURISTIC = "heuristic"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class CasesOptions(SharedOptions):
    """Options of `counterplan cases`."""

    run: Annotated[
        Path, typer.Argument(help="Folder that `counterplan explain -o` wrote.", metavar="OUT")
    ]
    k: WhichBudget = None
    min_improvement: Annotated[
        float | None,
        typer.Option(parser=_parse_number, metavar="NUMBER", help="At least so much better."),
    ] = None
    status: Annotated[
        list[StatusName] | None,
        typer.Option(
            help="Only optimal, limit, heuristic or failed; repeat for more (all but failed).",
            metavar="STATUS",
        ),
    ] = None
    supported: Annotated[
        bool, typer.Option("--supported", help="Only where there is data under the explanation.")
    ] = False
    max_changes: Annotated[
        int | None, whole_number_option("--max-changes", "Only with at most so many changes.")
    ] = None
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            help="Only where the table says so, such as died=1; repeat for more.",
            metavar="NAME=VALUE",
        ),
    ] = None
    changed_action: Annotated[
        str | None,
        typer.Option(
            help="Only with a change to this action, or of this part of actions.", metavar="NAME"
        ),
    ] = None
    by: Annotated[
        OrderName,
        typer.Option(help="Order: the largest first, but the lowest observed outcome."),
    ] = OrderName.IMPROVEMENT
    limit: Annotated[
        int | None,
        whole_number_option("--limit", "How many at most (20; all into a file).", minimum=1),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="File for the list: .csv or .parquet."),
    ] = None
