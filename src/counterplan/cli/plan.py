"""`plan`: one decision of a planning problem, with what its value lies between.

With a table of scenarios (`plan_scenarios`): what executed plans lost.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli.options import SIMULATIONS, PlannerName, PlanOptions
from counterplan.cli.support import check_where, note, print_json, print_table, refuse, tracked
from counterplan.core.validation import counted
from counterplan.errors import InputError

if TYPE_CHECKING:
    from counterplan.planning.search.planners import Planner
    from counterplan.runs.regret import Summary
    from counterplan.runs.task import TaskSpec
    from counterplan.tables.plan_question import PlanQuestion
    from counterplan.tables.scenarios import ScenarioFile, ScenarioForm

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


def judge(options: PlanOptions, question: PlanQuestion) -> None:
    """Judge every scenario of a table, and print those that lost most."""
    from counterplan.runs.regret import Summary
    from counterplan.tables.plan_question import problem_of
    from counterplan.tables.scenarios import form_of, open_scenarios

    _refuse_states(options)
    form = form_of(problem_of(question))
    if options.scenarios_template is not None:
        _write_template(options, form)
        return
    assert options.scenarios is not None
    table = open_scenarios(options.scenarios, form)
    if options.k is not None and not table.decided:
        column = form.decided[0].column
        raise InputError(
            f"--k is about decisions that were made, but {options.scenarios} has no column "
            f"{column!r}: add it, or leave --k out"
        )
    spec = _spec(options, question)
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


def _refuse_states(options: PlanOptions) -> None:
    given = {
        "--step": bool(options.step),
        "--price": options.price is not None,
        "--mode": options.mode is not None,
        "--level": options.level is not None,
    }
    refuse(given, "is for a single decision: leave it out with a table")
    in_folder = options.output is not None or options.scenarios_template is not None
    why = None if in_folder else "is for runs in a folder: give -o, or leave it out"
    check_where(options.workers, options.cluster, why)
    if options.output is not None and options.output.suffix.lower() in FILES:
        raise InputError(f"-o {options.output}: names a file; give the folder of a run")


def _write_template(options: PlanOptions, form: ScenarioForm) -> None:
    from counterplan.tables.scenarios import SCENARIOS, write_template

    assert options.scenarios_template is not None
    given = {"--scenarios": options.scenarios is not None, "-o": options.output is not None}
    refuse(given, "does not go with --scenarios-template: leave one out")
    write_template(options.scenarios_template, form, options.seed)
    if options.as_json:
        print_json({"template": str(options.scenarios_template), "scenarios": SCENARIOS})
    else:
        typer.echo(f"{options.scenarios_template}: {SCENARIOS} sampled scenarios to replace")


def _spec(options: PlanOptions, question: PlanQuestion) -> TaskSpec:
    from counterplan.runs.regret import regret_spec

    is_planned = options.planner is not None or options.simulations is not None
    planner = (options.planner or PlannerName.UCT).value if is_planned else None
    simulations = options.simulations or SIMULATIONS
    return regret_spec(question, planner, simulations, options.clip, options.seed, options.k)


def _rows(options: PlanOptions, table: ScenarioFile, spec: TaskSpec) -> Iterator[dict[str, Any]]:
    """The results, one scenario after the other."""
    if options.output is None:
        yield from _judged_here(table, spec)
    else:
        yield from _judged_in_folder(options, table, spec)


def _judged_here(table: ScenarioFile, spec: TaskSpec) -> Iterator[dict[str, Any]]:
    from counterplan.runs.regret import open_task, result_row

    scenarios = list(table.scenarios())
    task = open_task(spec)
    for scenario in tracked(scenarios, "judging"):
        yield result_row(task.form, task.judge(scenario))


def _judged_in_folder(
    options: PlanOptions, table: ScenarioFile, spec: TaskSpec
) -> Iterator[dict[str, Any]]:
    import polars as pl

    from counterplan.runs.cohort import PART_SIZE, RunSettings, run_cohort
    from counterplan.runs.manifest import sha256
    from counterplan.runs.run import open_run
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
    summary = run_cohort(
        spec,
        lambda: scenario_parts(table.scenarios(), table.form, PART_SIZE),
        options.output,
        settings,
    )
    run = open_run(summary.out)
    for index in run.done:
        content = run.layout.table("results", index).read_bytes()
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
    from counterplan.runs.explain import changes_in_words

    if name == "changes" and row["value"] is not None:
        return "\n".join(changes_in_words(row)) or "none"
    value = None if name == "changes" else row[name]
    return value if isinstance(value, str) else number(value)


# ----------------------------------------------------------------------------------------------


def answer(options: PlanOptions) -> None:
    """Plan in the state asked about, and print what was found."""
    if options.scenarios is not None or options.scenarios_template is not None:
        judge(options, question_of(options))
        return
    from counterplan.planning.search.planners import plan
    from counterplan.tables.plan_question import bounds_at, plan_record, problem_of, state_of

    given = {"-o": options.output is not None, "--k": options.k is not None}
    why = "is for runs over a table: give --scenarios, or leave it out"
    refuse(given, why)
    check_where(options.workers, options.cluster, why)
    question = question_of(options)
    problem = problem_of(question)
    state = state_of(question, problem)
    found = plan(problem, state, _planner(options), options.clip, options.seed)
    bounds = bounds_at(problem, state, options.seed)
    asked = {
        "domain": options.domain,
        "config": None if options.prices_csv else options.config or "A",
        "planner": found.planner,
        "clip": options.clip,
        "seed": options.seed,
    }
    record = {**asked, **plan_record(problem, state, found, bounds)}
    if options.as_json:
        print_json(record)
    else:
        _print(record)


def question_of(options: PlanOptions) -> PlanQuestion:
    """The problem and the state asked about."""
    from counterplan.tables.plan_question import PlanQuestion as Question

    return Question(
        domain=options.domain,
        config=options.config,
        prices=options.prices,
        prices_csv=options.prices_csv,
        drive_cycle=options.drive_cycle,
        modes=options.modes,
        capacity=options.capacity,
        hidden=options.hidden,
        correlation=options.correlation,
        step=options.step,
        price=options.price,
        mode=options.mode,
        level=options.level,
    )


def _planner(options: PlanOptions) -> Planner:
    from counterplan.planning.search.planners import PLANNERS

    chosen = PLANNERS[options.planner or PlannerName.UCT]
    return chosen(simulations=options.simulations or SIMULATIONS)


def _print(record: dict[str, Any]) -> None:
    bounds, stats = record["bounds"], record["stats"]
    name = f"{record['domain']} {record['config'] or 'with recorded prices'}"
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
