"""What each command takes; the command line is built from these fields."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

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
        try:
            number = int(text)
        except ValueError:
            number = -1
        if not minimum <= number <= maximum:
            wanted = f"a whole number from {minimum} to {maximum}"
            raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint=name)
        return number

    return typer.Option(name, help=help, parser=parse, metavar="N")


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


def _parse_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isinf(number):
        raise typer.BadParameter(f"{text!r} is not a finite number; give a smaller one")
    if math.isnan(number):
        raise typer.BadParameter(f"{text!r} is not a number")
    return number


def _parse_numbers(text: str) -> tuple[float, ...]:
    return tuple(_parse_number(part) for part in text.split(","))


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """What every command takes."""

    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON; messages go to stderr.")
    ] = False
    seed: Annotated[
        int, whole_number_option("--seed", "Seed of whatever the command draws at random.")
    ] = 0


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
        str, typer.Argument(help="bunkering, hybrid, options or basket.", metavar="DOMAIN")
    ]
    config: Annotated[
        str | None,
        typer.Option(help="Row of the paper's table: A (default) to F.", metavar="LETTER"),
    ] = None
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
        bool, typer.Option(help="Keep simulated values within bounds on the optimum.")
    ] = True
    prices: Annotated[
        str | None,
        typer.Option(
            help="Bunkering: independent ports (default) or one global price; options: gbm "
            "(default) or binomial.",
            metavar="KIND",
        ),
    ] = None
    prices_csv: Annotated[
        Path | None,
        typer.Option(
            help="Bunkering: recorded prices (.csv with Date and Price) instead of a "
            "configuration's; between two ports they move as between two rows.",
            metavar="PATH",
        ),
    ] = None
    drive_cycle: Annotated[
        Path | None,
        typer.Option(
            help="Hybrid: recorded speeds (.csv with cycSecs and cycMps) to take modes from.",
            metavar="PATH",
        ),
    ] = None
    modes: Annotated[
        int | None, whole_number_option("--modes", "Hybrid: 3 (default) or 7 modes.")
    ] = None
    capacity: Annotated[
        str | None,
        typer.Option(
            help="Hybrid: tight (default), half, or a number of units; bunkering: a number.",
            metavar="SIZE",
        ),
    ] = None
    hidden: Annotated[bool, typer.Option("--hidden", help="Hybrid: driving modes are hidden.")] = (
        False
    )
    correlation: Annotated[
        float | None,
        typer.Option(
            parser=_parse_number, help="Basket: of every two prices (0).", metavar="NUMBER"
        ),
    ] = None
    step: Annotated[
        int, whole_number_option("--step", "How many decisions have been made before.")
    ] = 0
    price: Annotated[
        Any,
        typer.Option(
            parser=_parse_numbers,
            help="The price now; basket: one for each option, with commas between.",
            metavar="NUMBERS",
        ),
    ] = None
    mode: Annotated[
        str | None,
        typer.Option(
            help="Hybrid: the mode now: gas, electric or braking; of seven, gas1 to gas3, "
            "electric1 to electric3 or braking.",
            metavar="NAME",
        ),
    ] = None
    level: Annotated[
        Any,
        typer.Option(
            parser=_parse_numbers,
            help="What is left: units in the tank; hybrid: gas,electric; basket: 1 for each option "
            "still held, 0 for the others.",
            metavar="NUMBERS",
        ),
    ] = None
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
            "decision: scenario_id, t, price (hybrid: mode), and action, what was done.",
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
