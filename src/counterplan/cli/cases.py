"""`cases`: the review list of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from counterplan.cli.explain import print_explanations
from counterplan.cli.support import (
    SharedOptions,
    argument,
    command,
    note,
    number,
    option,
    output,
    print_json,
    which_budget,
    whole_number,
)
from counterplan.core.validation import counted
from counterplan.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from counterplan.runs.run import CaseQuery, Run

FORMATS = (".csv", ".parquet")
SHOWN = 20


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

    run: Path = argument("Folder that `counterplan explain -o` wrote.", "OUT")
    k: int | None = which_budget()
    min_improvement: float | None = option(
        "At least so much better.", parse=number(), metavar="NUMBER"
    )
    status: list[StatusName] | None = option(
        "Only optimal, limit, heuristic or failed; repeat for more (all but failed).",
        metavar="STATUS",
    )
    supported: bool = option("Only where there is data under the explanation.", False)
    max_changes: int | None = option(
        "Only with at most so many changes.", parse=whole_number(), metavar="N"
    )
    outcome: list[str] | None = option(
        "Only where the table says so, such as died=1; repeat for more.", metavar="NAME=VALUE"
    )
    changed_action: str | None = option(
        "Only with a change to this action, or of this part of actions.", metavar="NAME"
    )
    by: OrderName = option(
        "Order: the largest first, but the lowest observed outcome.", OrderName.IMPROVEMENT
    )
    limit: int | None = option(
        "How many at most (20; all into a file).", parse=whole_number(1), metavar="N"
    )
    output: Path | None = output("File for the list: .csv or .parquet.")


@command
def cases(options: CasesOptions) -> None:
    """List the cases of a run, the most improvable first.

    Filters and order apply to what `counterplan explain EPISODES --model MODEL -o OUT` has found so
    far; the list goes to the terminal, or into a file with -o.
    """
    from counterplan.core.files import check_target, suffix_of
    from counterplan.runs.answer import records
    from counterplan.runs.run import open_run

    if options.output is not None:
        suffix_of(options.output, FORMATS, "review lists")
        if Path(os.path.realpath(options.run)) in check_target(options.output).parents:
            raise InputError(f"{options.output}: lies in the folder of the run; choose another")
    query = _query(options)
    run = open_run(options.run)
    terms = run.terms
    run.verify()
    found = run.cases(query)
    rows = found.to_dicts() if options.output is None or options.as_json else []
    listed = records(rows, terms.unit)
    if options.output is not None:
        _write(options.output, found)
    if options.as_json:
        k = run.budgets[-1] if query.k is None else query.k
        print_json({"run": str(options.run), "k": k, "by": query.by, "cases": listed})
    elif options.output is None:
        _print(options, run, listed)
    else:
        note(f"Wrote {options.output}: {found.height:,} cases.")
    _warn_if_incomplete(run)


def _query(options: CasesOptions) -> CaseQuery:
    from counterplan.runs.run import CaseQuery

    outcomes = []
    for text in options.outcome or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--outcome {text!r}: write it as NAME=VALUE, such as died=1")
        outcomes.append((name.strip(), value.strip()))
    into_terminal = options.output is None and not options.as_json
    return CaseQuery(
        k=options.k,
        min_improvement=options.min_improvement,
        statuses=tuple(one.value for one in options.status or ()),
        supported=options.supported,
        max_changes=options.max_changes,
        outcomes=tuple(outcomes),
        changed_action=options.changed_action,
        by=options.by.value,
        limit=SHOWN if options.limit is None and into_terminal else options.limit,
    )


def _print(options: CasesOptions, run: Run, cases: list[dict[str, object]]) -> None:

    terms = run.terms
    k = run.budgets[-1] if options.k is None else options.k
    many = counted(len(cases), terms.noun)
    heading = f"{many} of {options.run}, k = {k}, by {options.by.value}, according to the model"
    print_explanations(cases, heading, terms.noun)


def _write(path: Path, found: pl.DataFrame) -> None:
    import polars as pl

    from counterplan.core.files import atomic_file

    with atomic_file(path) as file:
        if path.suffix.lower() == ".parquet":
            found.write_parquet(file)
        else:
            texts = pl.element().struct.field("text")
            changes = pl.col("changes").list.eval(texts).list.join("; ")
            found.with_columns(changes.alias("changes")).write_csv(file)


def _warn_if_incomplete(run: Run) -> None:
    done, parts = len(run.done), run.manifest.parts
    if not run.manifest.complete or done < parts:
        note(
            f"{run.folder}: the run is not complete: {done} of {parts} parts are done; run the "
            "same command again to continue it"
        )
