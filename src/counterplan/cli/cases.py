"""`cases`: the review list of a run."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from counterplan.cli import support as cli
from counterplan.cli.explain import print_explanations
from counterplan.errors import InputError, counted

if TYPE_CHECKING:
    import polars as pl

    from counterplan.runs.run import CaseQuery

FORMATS = (".csv", ".parquet")
SHOWN = 20
StatusName = StrEnum("StatusName", ["OPTIMAL", "LIMIT", "HEURISTIC", "FAILED"])


@dataclass(frozen=True, kw_only=True)
class CasesOptions(cli.SharedOptions):
    """Options of `counterplan cases`."""

    run: Path = cli.argument("Folder that `counterplan explain -o` wrote.", "OUT")
    k: int | None = cli.which_budget()
    min_improvement: float | None = cli.option("At least so much better.")
    status: list[StatusName] | None = cli.option(
        "Only optimal, limit, heuristic or failed; repeat for more (all but failed).",
        metavar="STATUS",
    )
    supported: bool = cli.option("Only where there is data under the explanation.", False)
    established: bool = cli.option("Only improvements that hold whatever is left open.", False)
    max_changes: int | None = cli.option("Only with at most so many changes.")
    outcome: list[str] | None = cli.option(
        "Only where the table says so, such as died=1; repeat for more.", metavar="NAME=VALUE"
    )
    changed_action: str | None = cli.option(
        "Only with a change to this action, or of this part of actions.", metavar="NAME"
    )
    by: Literal["lower", "improvement", "relative", "gap", "factual"] = cli.option(
        "Order: by the lower end of the improvement's interval (discrete: what is guaranteed), "
        "with what is not established or has no data under it last; or by others, the largest "
        "first, but the lowest observed outcome.",
        "lower",
    )
    limit: int | None = cli.option(
        "How many at most (20; all into a file).", parse=cli.whole_number(1)
    )
    output: Path | None = cli.output("File for the list: .csv or .parquet.")


@cli.command()
def cases(options: CasesOptions) -> None:
    """List the cases of a run, the surest improvements first.

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
    noun, unit = run.terms.noun, run.terms.unit
    run.verify()
    found = run.cases(query)
    rows = found.to_dicts() if options.output is None or options.as_json else []
    listed = records(rows, unit)
    if options.output is not None:
        _write(options.output, found)
    k = run.budgets[-1] if query.k is None else query.k
    if options.as_json:
        cli.print_json({"run": str(options.run), "k": k, "by": query.by, "cases": listed})
    elif options.output is None:
        many = counted(len(listed), noun)
        by = "what is sure" if query.by == "lower" else query.by
        outcome = f", outcome: {run.terms.outcome}" if run.terms.outcome else ""
        heading = f"{many} of {options.run}, k = {k}, by {by}{outcome}, according to the model"
        print_explanations(listed, heading, noun)
    else:
        cli.note(f"Wrote {options.output}: {found.height:,} cases.")
    done, parts = len(run.done), run.manifest.parts
    if not run.manifest.complete or done < parts:
        cli.note(
            f"{run.folder}: the run is not complete: {done} of {parts} parts are done; run the "
            "same command again to continue it"
        )


def _query(options: CasesOptions) -> CaseQuery:
    from counterplan.runs.run import CaseQuery

    same = {one.name for one in fields(CaseQuery)} - {"statuses", "outcomes", "limit"}
    outcomes = []
    for text in options.outcome or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--outcome {text!r}: write it as NAME=VALUE, such as died=1")
        outcomes.append((name.strip(), value.strip()))
    into_terminal = options.output is None and not options.as_json
    return CaseQuery(
        statuses=tuple(one.value for one in options.status or ()),
        outcomes=tuple(outcomes),
        limit=SHOWN if options.limit is None and into_terminal else options.limit,
        **{name: getattr(options, name) for name in same},
    )


def _write(path: Path, found: pl.DataFrame) -> None:
    import polars as pl

    from counterplan.core.files import atomic_file
    from counterplan.tables.episodes import no_formulas

    with atomic_file(path) as file:
        if path.suffix.lower() == ".parquet":
            found.write_parquet(file)
        else:
            texts = pl.element().struct.field("text")
            nested = pl.selectors.by_dtype(pl.List)
            flat = found.with_columns(nested.list.eval(texts).list.join("; "))
            no_formulas(flat).write_csv(file)
