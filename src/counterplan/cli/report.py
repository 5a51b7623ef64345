"""`report`: a run as one page that can be opened, searched, printed and sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from counterplan.cli import support as cli
from counterplan.errors import InputError

if TYPE_CHECKING:
    from counterplan.runs.run import Run

CASES = 10
# Each has figures of about 200 kilobytes: more would be no file to send.
MOST_CASES = 1_000
# Bytes from which on a file is called large.
LARGE = 10_000_000
ACTOR = "actor"


@dataclass(frozen=True, kw_only=True)
class ReportCommandOptions(cli.SharedOptions):
    """Options of `counterplan report`."""

    run: Path = cli.run_folder()
    problem: str | None = cli.trusted_problem()
    output: Path = cli.output("File for the page: .html.", Path("report.html"))
    cases: int | None = cli.option(
        f"How many cases to look at closely, the top first ({CASES} if not given).",
        parse=cli.whole_number(0, MOST_CASES),
    )
    case: str | None = cli.option("A report of this case alone.", metavar="ID")
    k: int | None = cli.which_budget()
    pseudonyms: bool = cli.option(
        "Replace ids by pseudonyms; the key is random and kept nowhere.", False
    )
    pseudonym_key: Path | None = cli.option(
        "Pseudonyms by the key in this file: the same in every report made with it."
    )
    actors: Path | None = cli.option(
        "The table again, or another one with the same episodes and times: a column of it names "
        "who decided at each step, and cases tell what each contributed (discrete models)."
    )
    actor_column: str | None = cli.option(
        f"The column of --actors that names them ({ACTOR} if not given).", metavar="COLUMN"
    )


@cli.command()
def report(options: ReportCommandOptions) -> None:
    """Write a run as one page to open, search, print and send.

    The page needs nothing from elsewhere: a summary, how all cases are distributed, a table that
    can be searched and sorted, a section with figures for each of the top cases, the model's fit
    and assumptions, how to read it, and what it does not claim. Print it, or save it as PDF, with
    the browser.
    """
    from counterplan.runs.run import open_run
    from counterplan.viz.report import write_report
    from counterplan.viz.report.page import Pseudonyms, pseudonyms

    _refuse(options)
    is_named = not options.pseudonyms and options.pseudonym_key is None
    names = Pseudonyms() if is_named else pseudonyms(options.pseudonym_key)
    run = open_run(options.run)
    looks = CASES if options.cases is None else options.cases
    told = None if options.actors is None else partial(_actors, run, options)
    asked = {"k": options.k, "cases": looks, "case": options.case}
    made = write_report(run, options.output, **asked, pseudonyms=names, actors=told)
    size = options.output.stat().st_size
    if options.as_json:
        sizes = {"bytes": size, "figures": len(made.panels)}
        cli.print_json({"report": str(options.output), **sizes})
        return
    cli.note(f"Wrote {options.output} ({size / 1e6:.1f} MB). Open it in a browser.")
    if size > LARGE:
        cli.note("It is large: fewer --cases make it smaller.")


def _actors(
    run: Run, options: ReportCommandOptions, ids: Sequence[str]
) -> dict[str, Sequence[str]]:
    """Who decided at each step of some cases."""
    import polars as pl

    from counterplan.core.table import open_table_file

    table, column = options.actors, options.actor_column or ACTOR
    layout = getattr(run.explainer, "layout", None)
    names = ("episode_id", "t") if layout is None else (layout.schema.episode, layout.schema.time)
    file = open_table_file(table)
    file.check_columns([column], "name the one that tells who decided with --actor-column")
    block = file.read([*names, column])
    block.mistakes.refuse()
    frame = block.texts.filter(pl.col(names[0]).is_in(list(ids)))
    times = frame[names[1]].cast(pl.Float64, strict=False)
    order = frame[names[1]] if times.null_count() else times
    frame = frame.with_columns(order.alias(names[1])).sort(names[1], maintain_order=True)
    found: dict[str, Sequence[str]] = dict.fromkeys(ids, ())
    found |= {
        str(one[0]): tuple(part[column].replace("", "unknown"))
        for one, part in frame.partition_by(names[0], as_dict=True).items()
    }
    for name, recorded in run.episodes(ids).items():
        if len(found[name]) != len(recorded.episode):
            raise InputError(
                f"{table}: has {len(found[name])} rows of episode {name!r}, which has "
                f"{len(recorded.episode)} steps: --actors needs one row for each step"
            )
    return found


def _refuse(options: ReportCommandOptions) -> None:
    if options.actor_column is not None and options.actors is None:
        raise InputError("--actor-column is a column of --actors: give the table too")
    if options.case is not None and options.cases is not None:
        raise InputError("--case is for one case, --cases for the top ones: give one of them")
    if options.pseudonyms and options.pseudonym_key is not None:
        raise InputError(
            "--pseudonyms draws a key at random, --pseudonym-key reads one: give one of them"
        )
    if options.output.suffix.lower() == ".pdf":
        raise InputError(
            f"{options.output}: reports are pages for a browser: write .html and print it to PDF "
            "in the browser"
        )
