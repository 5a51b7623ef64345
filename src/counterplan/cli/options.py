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
# Of the networks of a model; `scm.training` says the same, but takes long to load.
MOST_UNITS = 10_000
# Likewise `runs.run`, `planning.search.planners` and `cli.demo`.
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


def _parse_lipschitz(text: str) -> tuple[float, float]:
    try:
        location, scale = (float(part) for part in text.split(","))
    except ValueError:
        location = scale = math.nan
    if not (0.0 < location < math.inf and 0.0 < scale < math.inf):
        wanted = "two positive numbers L_h,L_phi such as 1.0,0.1"
        raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint="--lipschitz")
    return location, scale


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


@dataclass(frozen=True, kw_only=True)
class FitOptions(SharedOptions):
    """Options of `counterplan fit`."""

    episodes: Annotated[
        Path, typer.Argument(help="Table of episodes: .csv, .parquet or .json.", metavar="EPISODES")
    ]
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="PATH", help="Model file to write: .safetensors."),
    ]
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="What the columns of the table mean (.toml); `counterplan schema` drafts one.",
        ),
    ] = None
    prior: Annotated[
        float | None,
        typer.Option(
            parser=number_from_zero("--prior"),
            metavar="NUMBER",
            help="Tabular models: pseudo-count of every transition (1 if not given).",
        ),
    ] = None
    neighbour_prior: Annotated[
        bool,
        typer.Option(
            "--neighbour-prior",
            help="Tabular models with states in a natural order: pseudo-count 1 for staying or "
            "moving to a neighbour, 0.01 for all other transitions.",
        ),
    ] = False
    bar_unobserved: Annotated[
        bool,
        typer.Option(
            "--bar-unobserved/--value-unobserved",
            help="Pairs of state and action that never occur: bar them (reward -inf), so that no "
            "explanation rests on them, or let them earn the state's mean reward.",
        ),
    ] = True
    mean_rewards: Annotated[
        bool,
        typer.Option(
            "--mean-rewards",
            help="Where the same state and action earned different rewards, take the mean instead "
            "of stopping with an error.",
        ),
    ] = False
    state_labels: Annotated[
        str | None,
        typer.Option(help="Names of the states 0, 1, ... separated by commas.", metavar="NAMES"),
    ] = None
    action_labels: Annotated[
        str | None,
        typer.Option(help="Names of the actions 0, 1, ... separated by commas.", metavar="NAMES"),
    ] = None
    hidden: Annotated[
        int | None,
        whole_number_option(
            "--hidden",
            "Neural models: units of each network (200).",
            minimum=1,
            maximum=MOST_UNITS,
        ),
    ] = None
    epochs: Annotated[
        int | None,
        whole_number_option("--epochs", "Neural models: epochs at most (100).", minimum=1),
    ] = None
    lipschitz: Annotated[
        Any,
        typer.Option(
            parser=_parse_lipschitz,
            metavar="L_H,L_PHI",
            help="Neural models: Lipschitz constants of the location and scale networks (1.0,0.1); "
            "tighter ones make `explain` faster, looser ones fit better.",
        ),
    ] = None
    unconstrained: Annotated[
        bool,
        typer.Option("--unconstrained", help="Neural models: networks without such constants."),
    ] = False
    support: Annotated[
        bool,
        typer.Option(
            "--support/--no-support",
            help="Keep some of the data in the model (scaled states and actions, or counts), so "
            "that `explain` can tell how far it leaves them. Models to be passed on may do better "
            "without.",
        ),
    ] = True


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
