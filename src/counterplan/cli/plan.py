"""`plan`: one decision of a planning problem, with what its value lies between.

With a table of scenarios (`plan_scenarios`): what executed plans lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli.options import SIMULATIONS, PlannerName, PlanOptions
from counterplan.cli.plan_words import error, number
from counterplan.cli.support import check_where, print_json, print_table, refuse

if TYPE_CHECKING:
    from counterplan.io.plan_question import Question
    from counterplan.planning.planners import Planner


def answer(options: PlanOptions) -> None:
    """Plan in the state asked about, and print what was found."""
    if options.scenarios is not None or options.scenarios_template is not None:
        from counterplan.cli.plan_scenarios import judge

        judge(options, question_of(options))
        return
    from counterplan.io.plan_answer import bounds_at, plan_record
    from counterplan.io.plan_question import problem_of, state_of
    from counterplan.planning.plan import plan

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


def question_of(options: PlanOptions) -> Question:
    """The problem and the state asked about."""
    from counterplan.io.plan_question import Question

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
    from counterplan.planning.planners import PLANNERS

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
