"""`plan`: one decision of a planning problem, or with a table of scenarios what plans lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from counterplan.cli import support as cli
from counterplan.domains.problems import (
    SHIPPED,
    ProblemChoice,
    ProblemOption,
    is_problem,
    load_problem,
    maker_of,
    options_of,
    problem_names,
    stated,
)
from counterplan.errors import CounterplanError, InputError, NotApplicableError, counted

if TYPE_CHECKING:
    import polars as pl

    from counterplan.core.validation import FloatArray
    from counterplan.planning.description import Column, Columns
    from counterplan.planning.model import State
    from counterplan.runs.task import TaskSpec
    from counterplan.tables.scenarios import ScenarioFile

log = logging.getLogger(__name__)
# Of a planner for a decision, unless --simulations says otherwise.
SIMULATIONS = 1000
# As in `planning.search.planners`, which takes too long to load for a help text.
MOST_SIMULATIONS = 10**8
# Futures that bounds on the optimum are means over.
SAMPLES = 10_000
# Scenarios that the terminal shows.
SHOWN = 20
FILES = (".csv", ".json", ".parquet")
DOMAIN = "counterplan.domain"


def _risk(text: str) -> str:
    """Reads a share, or the mean's weight and a share."""
    try:
        numbers = [float(one) for one in text.split(",")]
    except ValueError:
        numbers = []
    is_one = len(numbers) in (1, 2) and 0.0 < numbers[-1] <= 1.0 and 0.0 <= numbers[0] <= 1.0
    if not is_one:
        raise ValueError("is no share from 0 to 1 such as 0.25, nor a weight and a share: 0.5,0.25")
    return text


@dataclass(frozen=True, kw_only=True)
class PlanOptions(cli.SharedOptions):
    """Options of `counterplan plan`; a problem adds its own."""

    domain: str = cli.argument(
        f"{', '.join(SHIPPED)}, the name of an installed one, a problem.toml that states one of "
        "storages, a problem.py, or module:Class. "
        "`counterplan plan DOMAIN --help` lists its options.",
        "DOMAIN",
    )
    # Filled in by the command itself from what it does not know and the problem may.
    problem_options: dict[str, Any] = cli.option("", "{}", parse=json.loads, hidden=True)
    planner: Literal["uct", "ments", "bts", "dents"] | None = cli.option(
        "Which tree search decides (uct if not given)."
    )
    simulations: int | None = cli.option(
        f"How many futures to simulate ({SIMULATIONS} if not given).",
        parse=cli.whole_number(1, MOST_SIMULATIONS),
    )
    clip: bool = cli.option(
        "Keep simulated values within bounds on the optimum, if there are any.",
        True,
        "--clip/--no-clip",
    )
    risk: str | None = cli.option(
        "What is ahead counts by its worst share at every step, such as 0.25 (1: the mean), or the "
        "mean's weight and a share, such as 0.5,0.25.",
        parse=_risk,
        metavar="SHARE",
    )
    step: int = cli.option("How many decisions have been made before.", 0)
    k: int | None = cli.option(
        "With a table: also what at most so many changed decisions would have brought."
    )
    scenarios: Path | None = cli.option(
        "Judge executed plans instead: a table (.csv or .parquet) with a row for each decision: "
        "scenario_id, t, what was seen, and what was done."
    )
    output: Path | None = cli.output("With --scenarios: folder of the run.")
    workers: int | None = cli.workers()
    cluster: str | None = cli.cluster()
    scenarios_template: Path | None = cli.option(
        "Write a table of sampled scenarios (.csv) with the columns that --scenarios takes, and "
        "stop."
    )


# --- The options of a problem: its own, and what the columns of its tables are called ----------


class PlanCommand(cli.PlainHelp):
    """`plan` with the options of the problem that is named, which are kept as texts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes = {
            flag: not getattr(one, "is_flag", False)
            for one in self.get_params(ctx)
            for flag in (*one.opts, *one.secondary_opts)
            if flag.startswith("-")
        }
        # The first argument that names a problem and is not an option's value.
        values = [False, *(takes.get(text, False) for text in args)]
        named = (text for text, is_value in zip(args, values, strict=False) if not is_value)
        name = next((one for one in named if not one.startswith("-") and is_problem(one)), None)
        ctx.meta[DOMAIN] = name
        flags = {} if name is None else _flags(load_problem(name))
        own, texts = _split(args, takes, flags)
        return super().parse_args(ctx, [*own, "--problem-options", json.dumps(texts)])

    def get_help(self, ctx: Any) -> str:
        """Also the options of the problem that is named."""
        text, name = super().get_help(ctx), ctx.meta.get(DOMAIN)
        if name is None:
            return text
        formatter = ctx.make_formatter()
        with formatter.section(f"Options of {name}"):
            formatter.write_dl(_help_rows(name))
        return f"{text}\n\n{formatter.getvalue().rstrip()}"


def _split(
    args: Sequence[str], takes: Mapping[str, bool], flags: Mapping[str, ProblemOption]
) -> tuple[list[str], dict[str, str | bool]]:
    """What the command itself takes, and what the problem does, by flag."""
    own: list[str] = []
    taken: dict[str, str | bool] = {}
    rest = list(args)
    while rest:
        text = rest.pop(0)
        flag, has_value, value = text.partition("=")
        if not text.startswith("--") or text == "--" or flag in takes:
            own.append(text)
            if takes.get(text) and rest:
                own.append(rest.pop(0))
        elif flag in flags and flags[flag].kind is bool:
            taken[flag] = True
        elif has_value or rest:
            taken[flag] = value if has_value else rest.pop(0)
        else:
            raise InputError(f"{flag} needs a value (see counterplan plan --help)")
    return own, taken


def _flags(problem: type) -> dict[str, ProblemOption]:
    return {one.flag: one for one in options_of(problem).values()}


def _help_rows(name: str) -> list[tuple[str, str]]:
    problem, given = load_problem(name), stated(name)
    rows = [
        (f"{one.flag} {one.metavar}".rstrip(), one.help and f"{one.help[0].upper()}{one.help[1:]}.")
        for one in options_of(problem).values()
    ]
    for flag, columns in _usual_state_flags(problem, given if given.options else None).items():
        several = ", with commas between" if len(columns) > 1 else ""
        which = ", ".join(columns[0].names) or columns[0].meaning
        rows.append((f"{flag} VALUE", f"Now: {which}{several}."))
    return rows


def _usual_state_flags(
    problem: type, choice: ProblemChoice | None = None
) -> dict[str, tuple[Column, ...]]:
    """Those of a problem's usual configuration, if it has one; or of the one that is chosen."""
    from counterplan.planning.description import columns_of

    if choice is not None:
        return _state_flags(columns_of(choice.make()))
    try:
        return _state_flags(columns_of(maker_of(problem)()))
    except (CounterplanError, TypeError):
        return {}


def _state_flags(columns: Columns) -> dict[str, tuple[Column, ...]]:
    """What is seen and held at a step, by the flag that says it: one for several that begin alike,
    such as --price for price_1 and price_2."""
    found: dict[str, tuple[Column, ...]] = {}
    for some in (columns.observed, columns.start):
        stems = {column.name.rpartition("_")[0] or column.name for column in some}
        if len(stems) == 1:
            found[f"--{stems.pop()}"] = some
        else:
            found |= {f"--{column.name.replace('_', '-')}": (column,) for column in some}
    return found


def _chosen(options: PlanOptions) -> ProblemChoice:
    """The problem with its own options; those of no problem, or of another, are refused."""
    given, domain = stated(options.domain), options.domain
    problem = load_problem(given.domain)
    flags, typed, rest = _flags(problem), dict[str, Any](), list[str]()
    for flag, text in options.problem_options.items():
        if flag in flags:
            typed[flags[flag].name] = _typed(flags[flag], text)
        else:
            rest.append(flag)
    choice = ProblemChoice(given.domain, {**given.options, **typed})
    states = _usual_state_flags(problem, choice if given.options else None) if rest else {}
    for flag in rest:
        if flag not in states:
            others = {name: load_problem(name) for name in problem_names()}
            known = {name: _flags(one) | _usual_state_flags(one) for name, one in others.items()}
            owners = " and ".join(name for name, taken in known.items() if flag in taken)
            if not owners:
                raise InputError(f"no such option: {flag} (see counterplan plan {domain} --help)")
            raise InputError(f"{flag} is for {owners}, not for {domain}: leave it out")
    return choice


def _typed(own: ProblemOption, text: str | bool) -> Any:
    if isinstance(text, bool) or own.kind is str:
        return text
    if own.kind is Path:
        return Path(text)
    return cli.read_option(cli.whole_number() if own.kind is int else cli.number(), own.flag, text)


def _state(options: PlanOptions, columns: Columns) -> State:
    """The state asked about: the problem's start, with what was said put in its place."""
    from counterplan.planning.model import State

    start, horizon = columns.problem.start, columns.problem.horizon
    if not 0 <= options.step < horizon:
        raise InputError(
            f"--step {options.step}: decisions are made at steps 0 to {horizon - 1}; "
            "choose one of these"
        )
    observed, level = (_said(options, columns, some) for some in (columns.observed, columns.start))
    if options.step > 0 and observed is None:
        needed = next(iter(_state_flags(columns)))
        raise InputError(f"--step {options.step} needs {needed}: give what is seen by then")
    exogenous = start.exogenous if observed is None else columns.exogenous(observed)
    return State(options.step, exogenous, start.resource if level is None else level)


def _said(options: PlanOptions, columns: Columns, some: Sequence[Column]) -> FloatArray | None:
    """(n,) the numbers of some columns as options give them, None if none is given."""
    import numpy as np

    groups = {flag: own for flag, own in _state_flags(columns).items() if own[0] in some}
    said = {flag: str(options.problem_options.get(flag, "")) for flag in groups}
    if not any(said.values()):
        return None
    numbers: list[float] = []
    for flag, own in groups.items():
        texts = said[flag].split(",")
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
    found: float = cli.read_option(cli.number(), flag, text)
    if not column.accepts(np.array([found]))[0]:
        raise InputError(f"{flag} {found:g} {column.problem}")
    return found


@cli.command(PlanCommand)
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
    if options.scenarios is not None or options.scenarios_template is not None:
        _judge(options, _chosen(options))
        return
    why = "is for runs over a table: give --scenarios, or leave it out"
    cli.refuse(cli.given(options, "output", "k"), why)
    cli.check_where(options, why)
    _decide(options, _chosen(options))


# --- One decision -----------------------------------------------------------------------------


def _decide(options: PlanOptions, choice: ProblemChoice) -> None:
    from counterplan.planning.bounds import value_bounds
    from counterplan.planning.description import columns_of, label, plan_record
    from counterplan.planning.search.planners import PLANNERS
    from counterplan.planning.search.planners import plan as search

    problem = choice.make()
    state = _state(options, columns_of(problem))
    planner = PLANNERS[options.planner or "uct"](options.simulations or SIMULATIONS)
    clip = None if options.clip else False  # None: where the problem has bounds
    risk: Any = 1.0
    if options.risk is not None:
        from counterplan.planning.risk import Risk

        risk = Risk.read(options.risk)
    with cli.episode_bar() as progress:
        found = search(
            problem, state, planner, clip=clip, seed=options.seed, risk=risk, progress=progress
        )
    counts = found.stats["simulations"], found.stats["seconds"]
    log.info("planned by %s: %s, %d simulations in %.3g s", found.planner, found.status, *counts)
    bounds = None
    with suppress(NotApplicableError):  # of an own model nothing but its steps need be known
        bounds = value_bounds(problem, SAMPLES, options.seed, state=state)
    record = {
        "domain": options.domain,
        "config": label(problem),
        "planner": found.planner,
        "clip": bool(found.stats["clip"]),
        "risk": options.risk,
        "seed": options.seed,
        **plan_record(problem, state, found, bounds),
    }
    if options.risk is not None:  # unlike `value`
        record["optimum_of"] = "the mean"
    if options.as_json:
        cli.print_json(record)
        return
    files = [name for name, one in choice.options.items() if isinstance(one, Path)]
    files = [name for name in files if name != "file"]
    recorded = [f"with recorded {name.partition('_')[0]}" for name in files]
    _print_decision(record, f"{options.domain} {label(problem) or ' '.join(recorded)}".strip())


def _print_decision(record: dict[str, Any], name: str) -> None:
    bounds, stats = record["bounds"], record["stats"]
    typer.echo(f"{name}: {record['state']['words']}")
    typer.echo(f"-> {record['words']}")
    columns = {"action": "left", "value": "right", "se": "right", "simulations": "right"}
    rows = [
        [one["words"], _number(one["value"]), _error(one["se"]), str(one["simulations"])]
        for one in record["choices"]
    ]
    count, seconds = stats["simulations"], stats["seconds"]
    stands_on, done = record["basis"] or record["planner"], "planned"
    if count:
        done = f"{count:,.0f} simulations"
        if record["status"] == "followed":
            stands_on = f"followed, nothing searched does surely better: {stands_on}"
        clipped = "clipped" if record["clip"] else "not clipped"
        cli.print_table(f"{record['planner']}, {clipped}; {_better(record)}", columns, rows)
    else:  # solved, not searched: no action was tried
        typer.echo(_better(record))
    lines = [("planned", record["value"], record["se"], stands_on)]
    for what, name in (("at least", "lower"), ("at most", "upper")) if bounds else ():
        lines.append((what, bounds[name], bounds[f"{name}_se"], bounds[f"{name}_method"]))
    if record["risk"] is not None:  # bounds and optimum are those of the mean
        lines[1:] = [(*line[:3], f"the mean; {line[3]}") for line in lines[1:]]
    unit = f" {record['unit']}".rstrip()
    for what, value, se, method in lines:
        cli.print_text(f"{what:9}{_number(value)}{unit} (se {_error(se)}): {method}", indent=9)
    if record["exact"] is not None:
        mean = "the mean; " if record["risk"] is not None else ""
        typer.echo(f"{'exactly':9}{_number(record['exact'])}{unit}: {mean}dynamic programming")
    sampled = f"bounds from {bounds['samples']:,} sampled futures; " if bounds else ""
    took = f"{1000 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:,.1f} s"
    typer.echo(f"{done} in {took}; {sampled}seed {record['seed']}")


def _better(found: Mapping[str, Any]) -> str:
    """What values are, and which of them one wants."""
    unit = f"{found['unit']}, " if found["unit"] else ""
    return f"{unit}{'lower' if found['sense'] == 'min' else 'higher'} is better"


def _number(value: float | None) -> str:
    """Six significant digits, no exponents for sizes that people read."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def _error(value: float | None) -> str:
    """Three significant digits; rounding errors are no errors."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1e3 else f"{value if value > 1e-9 else 0:.3g}"


# --- What executed plans lost, ranked: in this process, or as a run in a folder -----------------


def _judge(options: PlanOptions, problem: ProblemChoice) -> None:
    """Judge every scenario of a table, and print those that lost most."""
    from counterplan.planning.description import axes_of, columns_of
    from counterplan.runs.regret import regret_spec, summarised
    from counterplan.tables.scenarios import open_scenarios

    made = problem.make()
    columns = columns_of(made)
    _refuse_for_tables(options, columns)
    if options.scenarios_template is not None:
        _write_template(options, options.scenarios_template, columns)
        return
    assert options.scenarios is not None
    table = open_scenarios(options.scenarios, columns)
    if options.k is not None and not table.has_decisions:
        raise InputError(
            f"--k is about decisions that were made, but {options.scenarios} has no column "
            f"{columns.decisions[0].name!r}: add it, or leave --k out"
        )
    said = (options.planner, options.simulations, options.risk)
    is_planned = any(one is not None for one in said)
    planner = options.planner or "uct" if is_planned else None
    simulations = options.simulations or SIMULATIONS
    more = options.k, options.risk
    spec = regret_spec(problem, planner, simulations, options.clip, options.seed, *more)
    # A program can read them all; people want those that matter.
    most = None if options.as_json and options.output is None else SHOWN
    summary = summarised(_results(options, table, spec), most) | {"unit": axes_of(made).unit}
    if table.unused:
        cli.note(f"{options.scenarios}: not used: {', '.join(map(repr, table.unused[:8]))}")
    if options.as_json:
        out = None if options.output is None else str(options.output)
        cli.print_json({"out": out, **summary})
    else:
        _print_scenarios(summary, options)


def _refuse_for_tables(options: PlanOptions, columns: Columns) -> None:
    states = {flag: flag in options.problem_options for flag in _state_flags(columns)}
    cli.refuse(
        cli.given(options, "step") | states,
        "is for a single decision: leave it out with a table",
    )
    in_folder = options.output is not None or options.scenarios_template is not None
    why = None if in_folder else "is for runs in a folder: give -o, or leave it out"
    cli.check_where(options, why)
    if options.output is not None and options.output.suffix.lower() in FILES:
        raise InputError(f"-o {options.output}: names a file; give the folder of a run")


def _write_template(options: PlanOptions, path: Path, columns: Columns) -> None:
    from counterplan.tables.scenarios import SCENARIOS, write_template

    both = cli.given(options, "scenarios", "output")
    cli.refuse(both, "does not go with --scenarios-template: leave one out")
    write_template(path, columns, options.seed)
    if options.as_json:
        cli.print_json({"template": str(path), "scenarios": SCENARIOS})
    else:
        typer.echo(f"{path}: {SCENARIOS} sampled scenarios to replace")


def _results(options: PlanOptions, table: ScenarioFile, spec: TaskSpec) -> pl.LazyFrame:
    """What each scenario lost, judged in this process or as a run in a folder."""
    from counterplan.core.limits import Progress
    from counterplan.runs.regret import open_task, run_scenarios

    if options.output is None:
        scenarios, task, found = list(table.scenarios()), open_task(spec), []
        with cli.episode_bar() as progress:
            for scenario in scenarios:
                found.append(task.judge(scenario))
                progress(Progress("judging", len(found), len(scenarios)))
        return task.results(found).lazy()
    places = {"workers": options.workers, "cluster": options.cluster}
    with cli.run_display() as progress:
        return run_scenarios(table, spec, options.output, progress, **places).results()


def _print_scenarios(summary: Mapping[str, Any], options: PlanOptions) -> None:
    worst, failures = summary["worst"], summary["failures"]
    paid = "paid" if summary["sense"] == "min" else "earned"
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
    # Where the expected loss is known, chance need not be shown.
    unknown = any(row["executed"] is not None and row["expected_regret"] is None for row in worst)
    shown = {
        heading: (alignment, name)
        for heading, (alignment, name) in columns.items()
        if any(row.get(name) is not None for row in worst) and (unknown or name != "regret_policy")
    }
    if worst:
        count = summary["scenarios"] - summary["failed"]
        some = f"the {len(worst)} that lost most of " if count > SHOWN else ""
        heads = {heading: alignment for heading, (alignment, _) in shown.items()}
        rows = [[_cell(row, name) for _, name in shown.values()] for row in worst]
        cli.print_table(f"{some}{counted(count, 'scenario')}; {_better(summary)}", heads, rows)
    for row in failures:
        typer.echo(
            cli.printable(f"failed: {' '.join(row['scenario_id'].split())}: {row['reason']}")
        )
    if summary["failed"] > len(failures):
        typer.echo(f"failed: {summary['failed'] - len(failures):,} more")
    _print_totals(summary, paid)
    if options.output is not None:
        typer.echo(f"all results: {options.output / 'results'}, {options.output / 'decisions'}")


def _print_totals(summary: Mapping[str, Any], paid: str) -> None:
    worst, totals = summary["worst"], summary["totals"]
    policies = sorted({row["policy"] for row in worst})
    lines = {
        paid: ("executed", "as executed"),
        "hindsight": ("hindsight", "had the future been known"),
        "policy": ("without_foresight", f"without foresight: {', '.join(policies)}"),
        "open loop": ("open_loop", "the plan for expected values, made once"),
        "planned": ("planned", " ".join({row["planner"] or "" for row in worst})),
        "lost": ("expected_regret", "in expectation, by the decisions as they were made"),
    }
    if worst and not summary["executed"]:
        typer.echo("no decisions are given, so there is nothing to regret")
    for what, (name, meaning) in lines.items():
        if name in totals:
            total = f"{_number(totals[name])} {summary['unit']}".rstrip()
            cli.print_text(f"{what:10}{total}: {meaning}", indent=10)


def _cell(row: dict[str, Any], name: str) -> str:
    from counterplan.runs.answer import changes_in_words

    if name == "changes":
        return "-" if row["value"] is None else "\n".join(changes_in_words(row)) or "none"
    return row[name] if isinstance(row[name], str) else _number(row[name])
