"""`plan`: one decision of a planning problem, or with a table of scenarios what plans lost."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli.support import (
    PlainHelp,
    SharedOptions,
    argument,
    check_where,
    cluster,
    command,
    note,
    option,
    output,
    print_json,
    print_table,
    read_option,
    refuse,
    tracked,
    whole_number,
    workers,
)
from counterplan.cli.support import number as finite_number
from counterplan.core.validation import FloatArray, counted
from counterplan.domains.problems import (
    SHIPPED,
    ProblemChoice,
    ProblemOption,
    is_problem,
    load_problem,
    options_of,
    problem_names,
)
from counterplan.errors import CounterplanError, InputError

if TYPE_CHECKING:
    from counterplan.planning.description import Column, Columns
    from counterplan.planning.model import State
    from counterplan.planning.search.planners import Planner
    from counterplan.runs.scenario import Summary
    from counterplan.runs.task import TaskSpec
    from counterplan.tables.scenarios import ScenarioFile

# Of a planner for a decision, unless --simulations says otherwise.
SIMULATIONS = 1000
# As in `planning.search.planners`, which takes too long to load for a help text.
MOST_SIMULATIONS = 10**8


class PlannerName(StrEnum):
    """Which tree search decides."""

    UCT = "uct"
    MENTS = "ments"
    BTS = "bts"
    DENTS = "dents"


@dataclass(frozen=True, kw_only=True)
class PlanOptions(SharedOptions):
    """Options of `counterplan plan`; a problem adds its own."""

    domain: str = argument(
        f"{', '.join(SHIPPED)}, the name of an installed one, a problem.py, or module:Class. "
        "`counterplan plan DOMAIN --help` lists its options.",
        "DOMAIN",
    )
    # Filled in by the command itself from what it does not know and the problem may.
    problem_options: dict[str, Any] = option("", "{}", parse=json.loads, hidden=True)
    planner: PlannerName | None = option("Which tree search decides (uct if not given).")
    simulations: int | None = option(
        f"How many futures to simulate ({SIMULATIONS} if not given).",
        parse=whole_number(1, MOST_SIMULATIONS),
        metavar="N",
    )
    clip: bool = option(
        "Keep simulated values within bounds on the optimum, if there are any.",
        True,
        "--clip/--no-clip",
    )
    step: int = option(
        "How many decisions have been made before.", 0, parse=whole_number(), metavar="N"
    )
    k: int | None = option(
        "With a table: also what at most so many changed decisions would have brought.",
        parse=whole_number(),
        metavar="N",
    )
    scenarios: Path | None = option(
        "Judge executed plans instead: a table (.csv or .parquet) with a row for each decision: "
        "scenario_id, t, what was seen, and what was done.",
        metavar="PATH",
    )
    output: Path | None = output("With --scenarios: folder of the run.")
    workers: int | None = workers()
    cluster: str | None = cluster()
    scenarios_template: Path | None = option(
        "Write a table of sampled scenarios (.csv) with the columns that --scenarios takes, and "
        "stop.",
        metavar="PATH",
    )


# --- The options of a problem: its own, and what the columns of its tables are called ----------


class PlanCommand(PlainHelp):
    """`plan` with the options of the problem that is named, which are kept as texts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes = {
            flag: not getattr(one, "is_flag", False)
            for one in self.get_params(ctx)
            for flag in (*one.opts, *one.secondary_opts)
            if flag.startswith("-")
        }
        name = _first_problem(args, takes)
        ctx.meta[DOMAIN] = name
        flags = {} if name is None else _flags(options_of(load_problem(name)))
        own, given = _split(args, takes, flags)
        return super().parse_args(ctx, [*own, "--problem-options", json.dumps(given)])

    def get_help(self, ctx: Any) -> str:
        """Also the options of the problem that is named."""
        text, name = super().get_help(ctx), ctx.meta.get(DOMAIN)
        if name is None:
            return text
        formatter = ctx.make_formatter()
        with formatter.section(f"Options of {name}"):
            formatter.write_dl(_helped(load_problem(name)))
        return f"{text}\n\n{formatter.getvalue().rstrip()}"


DOMAIN = "counterplan.domain"


def _first_problem(args: Sequence[str], takes: Mapping[str, bool]) -> str | None:
    """The first argument that names a problem and is not an option's value."""
    is_value = False
    for text in args:
        if not is_value and not text.startswith("-") and is_problem(text):
            return text
        is_value = takes.get(text, False)
    return None


def _split(
    args: Sequence[str], takes: Mapping[str, bool], flags: Mapping[str, ProblemOption]
) -> tuple[list[str], dict[str, str | bool]]:
    """What the command itself takes, and what the problem does, by flag."""
    own: list[str] = []
    given: dict[str, str | bool] = {}
    rest = list(args)
    while rest:
        text = rest.pop(0)
        flag, has_value, value = text.partition("=")
        if not text.startswith("--") or text == "--" or flag in takes:
            own.append(text)
            if takes.get(text) and rest:
                own.append(rest.pop(0))
        elif flag in flags and flags[flag].kind is bool:
            given[flag] = True
        elif has_value or rest:
            given[flag] = value if has_value else rest.pop(0)
        else:
            raise InputError(f"{flag} needs a value (see counterplan plan --help)")
    return own, given


def _flags(options: Mapping[str, ProblemOption]) -> dict[str, ProblemOption]:
    return {option.flag: option for option in options.values()}


def _helped(problem: type) -> list[tuple[str, str]]:
    """What the help says of each option."""
    rows = [
        (f"{one.flag} {one.metavar}".rstrip(), _sentence(one.help))
        for one in options_of(problem).values()
    ]
    for flag, columns in _state_flags(_usual(problem)).items():
        several = ", with commas between" if len(columns) > 1 else ""
        which = ", ".join(columns[0].names) or columns[0].meaning
        rows.append((f"{flag} VALUE", f"Now: {which}{several}."))
    return rows


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _usual(problem: type) -> Columns | None:
    """The columns of a problem's usual configuration, if it has one."""
    from counterplan.domains.problems import maker_of
    from counterplan.planning.description import columns_of

    try:
        return columns_of(maker_of(problem)())
    except (CounterplanError, TypeError):
        return None


def _state_flags(columns: Columns | None) -> dict[str, tuple[Column, ...]]:
    """What is seen and held at a step, by the flag that says it: one for several that begin alike,
    such as --price for price_1 and price_2."""
    found: dict[str, tuple[Column, ...]] = {}
    for some in () if columns is None else (columns.observed, columns.start):
        words = {column.name.rpartition("_")[0] or column.name for column in some}
        if len(words) == 1:
            found[f"--{words.pop()}"] = some
        else:
            found |= {f"--{column.name.replace('_', '-')}": (column,) for column in some}
    return found


def _problem(options: PlanOptions) -> ProblemChoice:
    """The problem with its own options; those of no problem, or of another, are refused."""
    flags = _flags(options_of(load_problem(options.domain)))
    typed = {
        flags[flag].name: _typed(flags[flag], text)
        for flag, text in options.problem_options.items()
        if flag in flags
    }
    for flag in options.problem_options:
        if flag not in flags and flag not in _state_flags(_usual(load_problem(options.domain))):
            _refuse_flag(flag, options.domain)
    return ProblemChoice(options.domain, typed)


def _typed(own: ProblemOption, text: str | bool) -> Any:
    if isinstance(text, bool):
        return text
    if own.kind is int:
        return read_option(whole_number(), own.flag, text)
    if own.kind is float:
        return read_option(finite_number(), own.flag, text)
    return Path(text) if own.kind is Path else text


def _refuse_flag(flag: str, domain: str) -> None:
    owners = []
    for name in problem_names():
        problem = load_problem(name)
        if flag in {**_flags(options_of(problem)), **_state_flags(_usual(problem))}:
            owners.append(name)
    if owners:
        raise InputError(f"{flag} is for {' and '.join(owners)}, not for {domain}: leave it out")
    raise InputError(f"no such option: {flag} (see counterplan plan {domain} --help)")


def _state(options: PlanOptions, columns: Columns) -> State:
    """The state asked about: the problem's start, with what was said put in its place."""
    from counterplan.planning.model import State

    start, horizon = columns.problem.start, columns.problem.horizon
    if not 0 <= options.step < horizon:
        raise InputError(
            f"--step {options.step}: decisions are made at steps 0 to {horizon - 1}; "
            "choose one of these"
        )
    observed = _said(options, columns, columns.observed)
    if options.step > 0 and observed is None:
        needed = next(iter(_state_flags(columns)))
        raise InputError(f"--step {options.step} needs {needed}: give what is seen by then")
    exogenous = start.exogenous if observed is None else columns.exogenous(observed)
    level = _said(options, columns, columns.start)
    return State(options.step, exogenous, start.resource if level is None else level)


def _said(options: PlanOptions, columns: Columns, some: Sequence[Column]) -> FloatArray | None:
    """(n,) the numbers of some columns as options give them, None if none is given."""
    import numpy as np

    numbers: list[float] = []
    groups = {flag: own for flag, own in _state_flags(columns).items() if own[0] in some}
    given = {flag: str(options.problem_options.get(flag, "")) for flag in groups}
    if not any(given.values()):
        return None
    for flag, own in groups.items():
        texts = given[flag].split(",")
        if len(texts) != len(own):
            wanted = "one number" if len(own) == 1 else f"{len(own)} numbers with commas between"
            raise InputError(f"{flag}: {len(texts)} numbers given; expected {wanted}")
        numbers += [_entry(flag, text, column) for text, column in zip(texts, own, strict=True)]
    return np.array(numbers) + 0.0  # no minus in front of a zero


def _entry(flag: str, text: str, column: Column) -> float:
    import numpy as np

    if column.names:
        if text not in column.names:
            raise InputError(f"{flag} {text!r} {column.problem}")
        return float(column.names.index(text))
    found: float = read_option(finite_number(), flag, text)
    if not column.accepts(np.array([found]))[0]:
        raise InputError(f"{flag} {found:g} {column.problem}")
    return found


# ----------------------------------------------------------------------------------------------
# Numbers as `plan` prints them.


def number(value: float | None) -> str:
    """Six significant digits, no exponents for sizes that people read."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def error(value: float | None) -> str:
    """Three significant digits; rounding errors are no errors."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1e3 else f"{value if value > 1e-9 else 0:.3g}"


# ----------------------------------------------------------------------------------------------
# `plan --scenarios`: what executed plans lost, ranked, in this process or as a run in a folder.

# Scenarios that the terminal shows.
SHOWN = 20
FILES = (".csv", ".json", ".parquet")


def judge(options: PlanOptions, problem: ProblemChoice) -> None:
    """Judge every scenario of a table, and print those that lost most."""
    from counterplan.planning.description import columns_of
    from counterplan.runs.scenario import Summary
    from counterplan.tables.scenarios import open_scenarios

    columns = columns_of(problem.make())
    _refuse_states(options, columns)
    if options.scenarios_template is not None:
        _write_template(options, columns)
        return
    assert options.scenarios is not None
    table = open_scenarios(options.scenarios, columns)
    if options.k is not None and not table.has_decisions:
        column = columns.decisions[0].name
        raise InputError(
            f"--k is about decisions that were made, but {options.scenarios} has no column "
            f"{column!r}: add it, or leave --k out"
        )
    spec = _spec(options, problem)
    # A program can read them all; people want those that matter.
    summary = Summary(math.inf if options.as_json and options.output is None else SHOWN)
    for row in _rows(options, table, spec):
        summary.add(row)
    if table.unused:
        note(f"{options.scenarios}: not used: {', '.join(map(repr, table.unused[:8]))}")
    if options.as_json:
        print_json(summary.record(options.output))
    else:
        _print_scenarios(summary, options)


def _refuse_states(options: PlanOptions, columns: Columns) -> None:
    given = {flag: flag in options.problem_options for flag in _state_flags(columns)}
    given = {"--step": bool(options.step), **given}
    refuse(given, "is for a single decision: leave it out with a table")
    in_folder = options.output is not None or options.scenarios_template is not None
    why = None if in_folder else "is for runs in a folder: give -o, or leave it out"
    check_where(options.workers, options.cluster, why)
    if options.output is not None and options.output.suffix.lower() in FILES:
        raise InputError(f"-o {options.output}: names a file; give the folder of a run")


def _write_template(options: PlanOptions, columns: Columns) -> None:
    from counterplan.tables.scenarios import SCENARIOS, write_template

    assert options.scenarios_template is not None
    given = {"--scenarios": options.scenarios is not None, "-o": options.output is not None}
    refuse(given, "does not go with --scenarios-template: leave one out")
    write_template(options.scenarios_template, columns, options.seed)
    if options.as_json:
        print_json({"template": str(options.scenarios_template), "scenarios": SCENARIOS})
    else:
        typer.echo(f"{options.scenarios_template}: {SCENARIOS} sampled scenarios to replace")


def _spec(options: PlanOptions, problem: ProblemChoice) -> TaskSpec:
    from counterplan.runs.scenario import regret_spec

    is_planned = options.planner is not None or options.simulations is not None
    planner = (options.planner or PlannerName.UCT).value if is_planned else None
    simulations = options.simulations or SIMULATIONS
    return regret_spec(problem, planner, simulations, options.clip, options.seed, options.k)


def _rows(options: PlanOptions, table: ScenarioFile, spec: TaskSpec) -> Iterator[dict[str, Any]]:
    """The results, one scenario after the other."""
    if options.output is None:
        yield from _judged_here(table, spec)
    else:
        yield from _judged_in_folder(options, table, spec)


def _judged_here(table: ScenarioFile, spec: TaskSpec) -> Iterator[dict[str, Any]]:
    from counterplan.runs.regret import open_task

    scenarios = list(table.scenarios())
    task = open_task(spec)
    for scenario in tracked(scenarios, "judging"):
        yield task.judge(scenario).row()


def _judged_in_folder(
    options: PlanOptions, table: ScenarioFile, spec: TaskSpec
) -> Iterator[dict[str, Any]]:
    import polars as pl

    from counterplan.cli.run_progress import run_display
    from counterplan.runs.cohort import PART_SIZE, RunSettings, run_cohort
    from counterplan.runs.run import open_run
    from counterplan.runs.store import sha256
    from counterplan.tables.scenarios import scenario_parts

    assert options.scenarios is not None
    assert options.output is not None
    searched = {name: spec.description.get(name) for name in ("planner", "simulations", "clip")}
    if options.k is not None:
        searched["k"] = options.k
    settings = RunSettings(
        arguments={**spec.description["problem"], **searched},
        hashes={
            "input": _hash_of(options.scenarios),
            **{name: sha256(content) for name, content in spec.files.items()},
        },
        seed=options.seed,
        workers=options.workers,
        cluster=options.cluster,
    )
    parts = scenario_parts(table.scenarios(), table.columns, PART_SIZE)
    with run_display() as progress:
        summary = run_cohort(spec, parts, options.output, settings, progress)
    run = open_run(summary.out)
    for index in run.done:
        content = run.table("results", index).read_bytes()
        yield from pl.read_parquet(io.BytesIO(content)).iter_rows(named=True)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- What comes out ---------------------------------------------------------------------------


def _print_scenarios(summary: Summary, options: PlanOptions) -> None:
    paid = "paid" if summary.sense == "min" else "earned"
    columns = {
        "scenario": ("left", "scenario_id"),
        paid: ("right", "executed"),
        "hindsight": ("right", "hindsight"),
        "policy": ("right", "without_foresight"),
        "planned": ("right", "planned"),
        "vs policy": ("right", "regret_policy"),
        "lost": ("right", "expected_regret"),
        "costliest decision": ("left", "costliest"),
    }
    if options.k is not None:
        # There is no room for both: what should have been done takes the place of what was lost.
        columns = {name: columns[name] for name in ("scenario", paid, "hindsight")}
        columns[f"k = {options.k}"] = ("right", "value")
        columns["changes"] = ("left", "changes")
    worst = summary.worst
    # Where the expected loss is known, luck need not be shown.
    unknown = any(row["executed"] is not None and row["expected_regret"] is None for row in worst)
    shown = {
        heading: (alignment, name)
        for heading, (alignment, name) in columns.items()
        if any(row.get(name) is not None for row in worst) and (unknown or name != "regret_policy")
    }
    if worst:
        heads = {heading: alignment for heading, (alignment, _) in shown.items()}
        rows = [[_shown(row, name) for _, name in shown.values()] for row in worst]
        print_table(_title(summary), heads, rows)
    for row in summary.failures:
        typer.echo(f"failed: {' '.join(row['scenario_id'].split())}: {row['reason']}")
    if summary.failed > len(summary.failures):
        typer.echo(f"failed: {summary.failed - len(summary.failures):,} more")
    _print_totals(summary, paid, worst)
    if options.output is not None:
        typer.echo(f"all results: {options.output / 'results'}, {options.output / 'decisions'}")


def _title(summary: Summary) -> str:
    count = summary.scenarios - summary.failed
    some = f"the {len(summary.worst)} that lost most of " if count > SHOWN else ""
    better = "lower" if summary.sense == "min" else "higher"
    return f"{some}{counted(count, 'scenario')}; {better} is better"


def _print_totals(summary: Summary, paid: str, worst: list[dict[str, Any]]) -> None:
    totals = summary.totals
    policies = sorted({row["policy"] for row in worst})
    lines = {
        paid: ("executed", "as executed"),
        "hindsight": ("hindsight", "had the future been known"),
        "policy": ("without_foresight", f"without foresight: {', '.join(policies)}"),
        "open loop": ("open_loop", "the plan for expected values, made once"),
        "planned": ("planned", " ".join({row["planner"] or "" for row in worst})),
        "lost": ("expected_regret", "in expectation, by the decisions as they were made"),
    }
    if worst and not summary.executed:
        typer.echo("no decisions are given, so there is nothing to regret")
    for what, (name, words) in lines.items():
        if name in totals:
            typer.echo(f"{what:10}{number(totals[name])}: {words}")


def _shown(row: dict[str, Any], name: str) -> str:
    from counterplan.runs.answer import changes_in_words

    if name == "changes" and row["value"] is not None:
        return "\n".join(changes_in_words(row)) or "none"
    value = None if name == "changes" else row[name]
    return value if isinstance(value, str) else number(value)


# ----------------------------------------------------------------------------------------------


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
    from counterplan.planning.bounds import value_bounds
    from counterplan.planning.description import columns_of, label, plan_record
    from counterplan.planning.search.planners import plan as search

    if options.scenarios is not None or options.scenarios_template is not None:
        judge(options, _problem(options))
        return
    given = {"-o": options.output is not None, "--k": options.k is not None}
    why = "is for runs over a table: give --scenarios, or leave it out"
    refuse(given, why)
    check_where(options.workers, options.cluster, why)
    choice = _problem(options)
    problem = choice.make()
    state = _state(options, columns_of(problem))
    clip = None if options.clip else False  # None: where the problem has bounds
    found = search(problem, state, _planner(options), clip, options.seed)
    bounds = value_bounds(problem, SAMPLES, options.seed, state=state)
    asked = {
        "domain": options.domain,
        "config": label(problem),
        "planner": found.planner,
        "clip": bool(found.stats["clip"]),
        "seed": options.seed,
    }
    record = {**asked, **plan_record(problem, state, found, bounds)}
    if options.as_json:
        print_json(record)
    else:
        files = [name for name, value in choice.options.items() if isinstance(value, Path)]
        recorded = [f"with recorded {name.partition('_')[0]}" for name in files]
        _print(record, " ".join([options.domain, label(problem) or " ".join(recorded)]).strip())


# Futures that bounds on the optimum are means over.
SAMPLES = 10_000


def _planner(options: PlanOptions) -> Planner:
    from counterplan.planning.search.planners import PLANNERS

    chosen = PLANNERS[options.planner or PlannerName.UCT]
    return chosen(simulations=options.simulations or SIMULATIONS)


def _print(record: dict[str, Any], name: str) -> None:
    bounds, stats = record["bounds"], record["stats"]
    typer.echo(f"{name}: {record['state']['words']}")
    typer.echo(f"-> {record['words']}")
    columns = {"action": "left", "value": "right", "se": "right", "simulations": "right"}
    rows = [
        [
            choice["words"],
            number(choice["value"]),
            error(choice["se"]),
            str(choice["simulations"]),
        ]
        for choice in record["choices"]
    ]
    clipped = "clipped" if record["clip"] else "not clipped"
    better = "lower" if record["sense"] == "min" else "higher"
    print_table(f"{record['planner']}, {clipped}; {better} is better", columns, rows)
    lines = [
        ("planned", record["value"], record["se"], record["planner"]),
        ("at least", bounds["lower"], bounds["lower_se"], bounds["lower_method"]),
        ("at most", bounds["upper"], bounds["upper_se"], bounds["upper_method"]),
    ]
    for what, value, se, method in lines:
        typer.echo(f"{what:9}{number(value)} (se {error(se)}): {method}")
    if record["exact"] is not None:
        typer.echo(f"{'exactly':9}{number(record['exact'])}: dynamic programming")
    typer.echo(
        f"{stats['simulations']:,.0f} simulations in {1000 * stats['seconds']:.3g} ms; bounds from "
        f"{bounds['samples']:,} sampled futures; seed {record['seed']}"
    )
