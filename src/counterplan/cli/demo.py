"""`demo`: the three systems on built-in data, each as a run of a cohort with its report.

    discrete    deaths of the ICU-Sepsis model: which decisions would have given a chance?
    continuous  simulated sepsis stays: which doses would have lowered the SOFA scores?
    planning    simulated voyages: what did buying fuel by a plan made in port one cost?

Patients, stays and voyages are sampled; everything that follows is what the commands `fit`,
`explain`, `plan` and `report` do with a user's own tables. The same arguments give the same files.
"""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import typer

from counterplan.cli import support as cli
from counterplan.errors import FileError, counted

if TYPE_CHECKING:
    from counterplan.core.episode import Episode
    from counterplan.domains.icu_sepsis import IcuSepsis
    from counterplan.viz.report.page import Panel

PROGRAM = "counterplan"
RUN, REPORT, FIGURES = "run", "report.html", "figures"
STAYS, VOYAGES = "stays", "voyages"
# Where the run of each system lies.
PLACES = {"discrete": "", "continuous": STAYS, "planning": VOYAGES}
CLOSE_LOOKS = 5
# The report lists every death.
MOST_PATIENTS = 100_000
# Rows of the table that fit a screen; the report holds all of them.
MOST_ROWS = 10
# What is told of each death: columns of the results.
SHOWN = (
    "steps", "factual", "value", "improvement", "guaranteed", "established", "doubt", "bound",
    "gap", "status", "interval_low", "interval_high",
)  # fmt: skip

LEARNED_FROM, EXPLAINED, STAYS_K = 300, 10, 2
# Of each search: enough to prove most of them optimal; the others have a certified gap.
NODES = 400
STAYS_SOURCES = (
    "The stays are simulated by an invented mechanism: no record of a real person is shown, and "
    "nothing can be concluded for medical practice.",
)
# Hours between two decisions about a patient.
HOURS = 4.0
ICU_SOURCES = (
    "ICU-Sepsis version 2 (package icu-sepsis 2.0.1, MIT licence), built from MIMIC-III. "
    "K. Choudhary, D. Gupta, P. S. Thomas: ICU-Sepsis: A Benchmark MDP Built from Real Medical "
    "Data, Reinforcement Learning Conference, 2024. It is a benchmark, and its authors ask not to "
    "draw conclusions for medical practice from it.",
    "The patients are simulated: no record of a real person is shown. At each step of four hours "
    "a patient is in one of 713 states (groups of similar patients), and gets one of five levels "
    "each of intravenous fluids and vasopressors, 0 for none and 4 for most.",
    "The outcome is 0 % for a death, 100 % for a discharge, and for whoever would still be in "
    "treatment when the observed patient died, the chance of surviving from there under usual "
    "care. Only treatments that clinicians chose often enough in a state are considered there.",
)
# Improvements below this are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class DemoOptions(cli.SharedOptions):
    """Options of `counterplan demo`."""

    output: Path = cli.output("Folder for runs, reports and figures.", Path("demo"))
    patients: int = cli.option(
        "How many patients to sample.", 400, parse=cli.whole_number(1, MOST_PATIENTS)
    )
    k: int = cli.option("How many actions may change at most.", 3)


@cli.command()
def demo(options: DemoOptions) -> None:
    """Show all three systems on built-in data.

    Samples sepsis patients under usual care from the ICU-Sepsis model that comes with the package
    and finds what should have been done differently for those who died; learns a model that knows
    how sure it is from simulated stays and finds better doses for others; samples voyages and
    judges the fuel that was bought. Each is a run of a cohort, with a report to open in a browser
    and figures.
    """
    result = run_demo(options.output, options.patients, options.seed, options.k)
    if options.as_json:
        cli.print_json(result)
    else:
        print_demo(result)


def run_demo(out: Path, patients: int = 400, seed: int = 0, k: int = 3) -> dict[str, Any]:
    """Make all three runs and their reports in a folder.

    run      folder of the run that explains the deaths
    reports  the pages, that of the deaths first
    figures  their figures as PNG files
    summary  counts and means
    deaths   one row for each death that could have been improved, by what is guaranteed
    """
    from counterplan.core.files import atomic_file
    from counterplan.runs.run import open_run
    from counterplan.viz.report import report
    from counterplan.viz.report.page import ReportOptions

    started = time.perf_counter()
    _prepare(out)
    deaths, summary = run_deaths(out, patients, seed, k)
    summary |= run_stays(out / STAYS, seed)
    summary |= run_voyages(out / VOYAGES, seed)
    reports: list[Path] = []
    figures: list[Path] = []
    for kind, place in PLACES.items():
        if not (out / place / RUN).exists():  # nobody died
            continue
        made = report(open_run(out / place / RUN), ReportOptions(cases=CLOSE_LOOKS))
        figures += _write_figures(out / FIGURES, kind, made.panels)
        reports.append(out / place / REPORT)
        with atomic_file(reports[-1]) as file:
            file.write(made.html.encode())
    for kind in PLACES:
        for path in (out / FIGURES).glob(f"{kind}-*.png"):
            if path not in figures:  # of a case that an earlier demo had
                path.unlink()
    summary["seconds"] = round(time.perf_counter() - started, 1)
    return {
        "run": str(out / RUN),
        "reports": [str(path) for path in reports],
        "figures": [str(path) for path in figures],
        "summary": summary,
        "deaths": deaths,
    }


def _prepare(out: Path) -> None:
    """Makes the folder; refused before any work if it cannot be written."""
    from counterplan.core.files import check_target

    try:
        for name in (FIGURES, STAYS, VOYAGES):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = problem.strerror
        raise FileError(
            f"{out}: is not a folder, or cannot be made: {reason}; give a folder"
        ) from None
    reports = [f"{place}/{REPORT}".lstrip("/") for place in PLACES.values()]
    for name in (*reports, f"{FIGURES}/cohort.png"):
        check_target(out / name)


def _write_figures(folder: Path, kind: str, panels: Sequence[Panel]) -> list[Path]:
    """Those about all cases and about the first; the reports have them all."""
    from counterplan.core.files import atomic_file
    from counterplan.viz.style import png_bytes

    paths = []
    for panel in panels:
        if panel.name.startswith("case-1-") or not panel.name.startswith("case-"):
            paths.append(folder / f"{kind}-{panel.name}.png")
            with atomic_file(paths[-1]) as file:
                file.write(png_bytes(panel.figure))
    return paths


# --- Deaths of the ICU-Sepsis model -----------------------------------------------------------


def run_deaths(
    folder: Path, patients: int, seed: int, k: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Sample patients, and explain those who died; the improvable ones, by what every causal model
    guarantees, and counts."""
    from counterplan.domains import icu_sepsis
    from counterplan.runs.explain import explain_table
    from counterplan.tables.models import save_model

    model = icu_sepsis.load()
    episodes = model.sample_episodes(patients, seed)
    deaths = [episode for episode in episodes if model.died(episode)]
    in_treatment = sum(int(episode.states[-1]) < icu_sepsis.DEATH for episode in episodes)
    counts: dict[str, Any] = {
        "patients": len(episodes),
        "deaths": len(deaths),
        "discharged": len(episodes) - len(deaths) - in_treatment,
        "still_in_treatment": in_treatment,
        "k": k,
        "seed": seed,
    }
    if not deaths:
        return [], {**counts, "improvable": 0, "holds_in_every_model": 0, "mean_value_by_k": []}
    table, model_file = folder / "deaths.csv", folder / "icu-sepsis.safetensors"
    save_model(model.mdp.with_data(None, _about(model)), model_file)
    _write_deaths(table, model, deaths)
    asked = {"robust": True, "seed": seed}
    with cli.run_display() as progress:
        explain_table(table, model_file, range(k + 1), folder / RUN, progress=progress, **asked)
    return _improvable(folder / RUN, k, counts)


def _about(model: IcuSepsis) -> dict[str, Any]:
    """What the model tells of itself: columns, what the outcome is, how ill patients are."""
    from counterplan.domains.icu_sepsis import DEATH, LEVELS
    from counterplan.tables.layout import MEANS, SCHEMA
    from counterplan.tables.schema import Column, Schema
    from counterplan.viz.report.explain import NOTES, SEVERITY

    levels = tuple(float(level) for level in range(LEVELS))
    columns = (
        Column("state", "state", labels=tuple(model.mdp.state_labels or ())),
        Column("fluids", "action", levels=levels),
        Column("vasopressor", "action", levels=levels),
    )
    schema = Schema(columns, episode="patient", step=HOURS, unit="h", kind="discrete")
    scores = [float(score) if s < DEATH else None for s, score in enumerate(model.sofa)]
    return {
        **model.mdp.about,
        SCHEMA: schema.as_dict(),
        MEANS: {},
        NOTES: list(ICU_SOURCES),
        SEVERITY: {"name": "SOFA", "unit": "points", "better": "lower", "values": scores},
    }


def _write_deaths(path: Path, model: IcuSepsis, deaths: Sequence[Episode]) -> None:
    from counterplan.core.files import atomic_file
    from counterplan.domains.icu_sepsis import LEVELS

    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["patient", "t", "state", "fluids", "vasopressor"])
    for death in deaths:
        for t, (state, action) in enumerate(zip(death.states, death.actions, strict=True)):
            doses = divmod(int(action), LEVELS)
            writer.writerow([death.id, t, model.mdp.state_name(int(state)), *doses])
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())


def _improvable(
    out: Path, k: int, counts: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import polars as pl

    from counterplan.runs.run import RESULTS, CaseQuery, open_run

    run = open_run(out)
    ranked = [
        {
            "patient": row["episode_id"],
            **{name: row[name] for name in SHOWN},
            "changes": [change["text"] for change in row["changes"]],
        }
        for row in run.cases(CaseQuery(k=k, min_improvement=ROUNDING)).iter_rows(named=True)
    ]
    means = run.scan(RESULTS).group_by("k").agg(pl.col("value").mean()).sort("k").collect()
    holds = sum(row["established"] for row in ranked)
    found = {"improvable": len(ranked), "holds_in_every_model": holds}
    return ranked, {**counts, **found, "mean_value_by_k": means["value"].to_list()}


# --- Simulated stays, a learned model of them, and better doses; voyages and what fuel cost ------


def run_stays(folder: Path, seed: int) -> dict[str, Any]:
    """Learn a model from simulated stays, and explain others."""
    import polars as pl

    from counterplan.domains.sepsis import write_cohort
    from counterplan.domains.sepsis_table import fit_cohort
    from counterplan.runs.explain import explain_table
    from counterplan.runs.run import RESULTS, open_run
    from counterplan.tables.fit import LearnerSettings
    from counterplan.viz.report.explain import NOTES

    table, model_file = folder / "stays.csv", folder / "model.safetensors"
    write_cohort(folder / "training.csv", patients=LEARNED_FROM, seed=seed)
    write_cohort(table, patients=EXPLAINED, seed=seed + 1)
    settings = LearnerSettings(learner="smooth", seed=seed)
    model: Any = fit_cohort(folder / "training.csv", settings).model
    replace(model, about={**model.about, NOTES: list(STAYS_SOURCES)}).save(model_file)
    asked = {"nodes": NODES, "seed": seed}
    budgets = range(STAYS_K + 1)
    with cli.run_display() as progress:
        explain_table(table, model_file, budgets, folder / RUN, progress=progress, **asked)
    results = open_run(folder / RUN).scan(RESULTS).filter(pl.col("k") == STAYS_K)
    names = ("improvement", "improvement_low", "improvement_high")
    found = results.select(
        pl.len().alias("stays"),
        pl.col("established").sum().alias("stays_established"),
        *(pl.col(name).mean().alias(f"stays_mean_{name}") for name in names),
    )
    return found.collect().row(0, named=True)


def run_voyages(folder: Path, seed: int) -> dict[str, Any]:
    """Sample voyages, and judge the decisions of the plan for expected prices."""
    from counterplan.domains.problems import ProblemChoice
    from counterplan.planning.description import columns_of
    from counterplan.runs.regret import regret_spec, run_scenarios
    from counterplan.tables.scenarios import open_scenarios, write_template

    problem, path = ProblemChoice("bunkering"), folder / "voyages.csv"
    columns = columns_of(problem.make())
    path.unlink(missing_ok=True)  # of an earlier demo
    write_template(path, columns, seed)
    spec = regret_spec(problem, "uct", 1_000, True, seed)
    with cli.run_display() as progress:
        run = run_scenarios(open_scenarios(path, columns), spec, folder / RUN, progress)
    results = run.scan("results").collect()
    totals = {name: float(results[name].sum()) for name in ("executed", "planned", "hindsight")}
    return {"voyages": results.height, **{f"voyages_{name}": totals[name] for name in totals}}


# --- What the demo prints ---------------------------------------------------------------------


def print_demo(result: Mapping[str, Any]) -> None:
    """The best cases as a table, then what the three parts found and where everything is."""
    summary, deaths, reports = result["summary"], result["deaths"], result["reports"]
    if deaths:
        title = f"Deaths, by what at most {counted(summary['k'], 'change')} guarantee in every "
        headings = ("steps", "guaranteed", "expected", "improvement", "every model")
        columns = {"patient": "left", **dict.fromkeys(headings, "right")}
        rows = [
            [
                row["patient"],
                str(row["steps"]),
                f"{row['guaranteed']:.1%}",
                f"{row['value']:.1%}",
                f"{100 * row['improvement']:+.1f} points",
                f"{row['interval_low']:.0%} to {row['interval_high']:.0%}",
            ]
            for row in deaths[:MOST_ROWS]
        ]
        cli.print_table(f"{title}causal model", columns, rows)
    lines = [f"Changes for {one['patient']}: {'; '.join(one['changes'])}" for one in deaths[:1]]
    lines += [*_sentences(summary), "Open in a browser:", *(f"  {path}" for path in reports)]
    if figures := result["figures"]:
        lines.append(f"Figures: {Path(figures[0]).parent}, {len(figures)} PNG files.")
    if deaths:
        # By its path where it is none of the shell's commands: no environment is active.
        called = Path(sys.argv[0])
        is_hidden = called.stem == PROGRAM and which(PROGRAM) is None
        runs = [str(Path(path).with_name(RUN)) for path in reports]
        others = f" (or {' and '.join(runs[1:])})" if runs[1:] else ""
        program = called if is_hidden else PROGRAM
        lines.append(f"Ask what-if questions: {program} serve {runs[0]}{others}")
    for line in lines:
        typer.echo(cli.printable(line))


def _sentences(summary: Mapping[str, Any]) -> list[str]:
    """A line for each of the three systems."""
    lines = [
        f"{counted(summary['patients'], 'patient')} sampled, {summary['deaths']} died; with at "
        f"most {counted(summary['k'], 'change')} {summary['improvable']} could have been improved, "
        f"{summary['holds_in_every_model']} of them established: in every causal model that fits."
    ]
    if "stays" in summary:
        lines.append(
            f"{counted(summary['stays'], 'stay')} explained by a learned model: summed SOFA lower "
            f"by {summary['stays_mean_improvement']:.1f} on average (90 % intervals: "
            f"{summary['stays_mean_improvement_low']:.1f} to "
            f"{summary['stays_mean_improvement_high']:.1f}), established for "
            f"{summary['stays_established']}."
        )
    if "voyages" in summary:
        paid, planned = summary["voyages_executed"], summary["voyages_planned"]
        lines.append(
            f"{counted(summary['voyages'], 'voyage')} judged: fuel by a plan made once cost "
            f"{paid:,.0f} money units, by a planner that looks again in every port {planned:,.0f}."
        )
    return lines
