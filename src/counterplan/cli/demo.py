"""The demo: the three systems on built-in data, each as a run of a cohort with its report.

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

from counterplan.cli.run_progress import run_display
from counterplan.core.episode import Episode
from counterplan.core.files import atomic_file, check_target
from counterplan.core.validation import counted, whole_number
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_sepsis import DEATH, LEVELS, IcuSepsis
from counterplan.domains.problems import ProblemChoice
from counterplan.domains.sepsis import write_cohort
from counterplan.errors import FileError
from counterplan.planning.description import columns_of
from counterplan.runs.cohort import PART_SIZE, RunSettings, run_cohort
from counterplan.runs.explain import explain_table
from counterplan.runs.run import RESULTS, CaseQuery, open_run
from counterplan.runs.scenario import regret_spec
from counterplan.runs.store import sha256
from counterplan.tables.layout import MEANS, SCHEMA
from counterplan.tables.models import save_model
from counterplan.tables.scenarios import open_scenarios, scenario_parts, write_template
from counterplan.tables.schema import Column, Schema
from counterplan.tables.stays import CohortSettings, fit_cohort
from counterplan.viz.report import report
from counterplan.viz.report.explain import NOTES, OUTCOME, SEVERITY
from counterplan.viz.report.page import Panel, ReportOptions
from counterplan.viz.style import png_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# ----------------------------------------------------------------------------------------------
# The demo's third part: voyages whose fuel was bought by a plan made in the first port.

VOYAGES_TABLE = "voyages.csv"
PLANNER, SIMULATIONS = "uct", 1_000


def run_voyages(folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """Sample voyages, and judge the decisions of the plan for expected prices into `out`."""
    question = ProblemChoice("bunkering")
    columns = columns_of(question.make())
    path = folder / VOYAGES_TABLE
    path.unlink(missing_ok=True)  # of an earlier demo
    write_template(path, columns, seed)
    table = open_scenarios(path, columns)
    spec = regret_spec(question, PLANNER, SIMULATIONS, True, seed)
    searched = {name: spec.description.get(name) for name in ("planner", "simulations", "clip")}
    settings = RunSettings(
        arguments={**spec.description["problem"], **searched},
        hashes={"input": sha256(path.read_bytes())},
        seed=seed,
    )
    parts = scenario_parts(table.scenarios(), table.columns, PART_SIZE)
    with run_display() as progress:
        run_cohort(spec, parts, out, settings, progress)
    results = open_run(out).scan("results").collect()
    totals = {name: float(results[name].sum()) for name in ("executed", "planned", "hindsight")}
    return {"voyages": results.height, **{f"voyages_{name}": totals[name] for name in totals}}


# ----------------------------------------------------------------------------------------------
# The demo's second part: simulated sepsis stays, a neural model of them, and better doses.

TRAINING, TABLE, MODEL = "training.csv", "stays.csv", "model.safetensors"
# Large enough for the model to fit better than a linear one, small enough to learn in seconds.
LEARNED_FROM, HIDDEN, EPOCHS = 300, 64, 200
EXPLAINED = 60
K = 2
SOURCES = (
    "The stays are simulated by an invented mechanism: no record of a real person is shown, and "
    "nothing can be concluded for medical practice.",
)
# Of each search; the same as with `counterplan explain -o`.
NODES = 20_000


def run_stays(folder: Path, out: Path, seed: int) -> dict[str, Any]:
    """Learn a model from simulated stays, and explain others into `out`."""
    write_cohort(folder / TRAINING, patients=LEARNED_FROM, seed=seed)
    write_cohort(folder / TABLE, patients=EXPLAINED, seed=seed + 1)
    model, _ = fit_cohort(folder / TRAINING, CohortSettings(HIDDEN, EPOCHS, seed=seed))
    replace(model, about={**model.about, NOTES: list(SOURCES)}).save(folder / MODEL)
    options = {"nodes": NODES, "seed": seed}
    with run_display() as progress:
        explain_table(
            folder / TABLE, folder / MODEL, range(K + 1), out, progress=progress, **options
        )
    import polars as pl

    results = open_run(out).scan(RESULTS).filter(pl.col("k") == K)
    found = results.select(pl.len(), pl.col("improvement").mean()).collect().row(0)
    return {"stays": int(found[0]), "stays_mean_improvement": float(found[1])}


# ----------------------------------------------------------------------------------------------
# The demo's first part: deaths of the ICU-Sepsis model, explained.

ICU_TABLE, ICU_MODEL = "deaths.csv", "icu-sepsis.safetensors"
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


def run_deaths(
    folder: Path, out: Path, asked: tuple[int, int, int]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Sample patients, write model and table of those who died into `folder`, explain them into
    `out`; the improvable ones, ranked, and counts. `asked`: patients, seed, k."""
    patients, seed, k = asked
    model = icu_sepsis.load()
    episodes = model.sample_episodes(patients, seed)
    deaths = [episode for episode in episodes if model.died(episode)]
    in_treatment = sum(int(episode.states[-1]) < DEATH for episode in episodes)
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
    save_model(model.mdp.with_data(None, about(model)), folder / ICU_MODEL)
    _write_table(folder / ICU_TABLE, model, deaths)
    options = {"robust": True, "seed": seed}
    with run_display() as progress:
        explain_table(
            folder / ICU_TABLE, folder / ICU_MODEL, range(k + 1), out, progress=progress, **options
        )
    return _found(out, k, counts)


def about(model: IcuSepsis) -> dict[str, Any]:
    """What the model tells of itself: columns, what the outcome is, how ill patients are."""
    levels = tuple(float(level) for level in range(LEVELS))
    columns = (
        Column("state", "state", labels=tuple(model.mdp.state_labels or ())),
        Column("fluids", "action", levels=levels),
        Column("vasopressor", "action", levels=levels),
    )
    schema = Schema(columns, episode="patient", step=HOURS, unit="h", kind="discrete")
    scores = [float(score) if s < DEATH else None for s, score in enumerate(model.sofa)]
    return {
        SCHEMA: schema.as_dict(),
        MEANS: {},
        OUTCOME: {"name": "survival probability", "percent": True},
        NOTES: list(ICU_SOURCES),
        SEVERITY: {"name": "SOFA", "unit": "points", "better": "lower", "values": scores},
    }


def _write_table(path: Path, model: IcuSepsis, deaths: Sequence[Episode]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["patient", "t", "state", "fluids", "vasopressor"])
    for death in deaths:
        for t, (state, action) in enumerate(zip(death.states, death.actions, strict=True)):
            doses = divmod(int(action), LEVELS)
            writer.writerow([death.id, t, model.mdp.state_name(int(state)), *doses])
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())


def _found(
    out: Path, k: int, counts: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import polars as pl

    run = open_run(out)
    ranked = run.cases(CaseQuery(k=k, min_improvement=ROUNDING)).to_dicts()
    means = run.scan(RESULTS).group_by("k").agg(pl.col("value").mean()).sort("k").collect()
    table = [
        {
            "patient": row["episode_id"],
            **{name: row[name] for name in ("steps", "factual", "value", "improvement")},
            **{name: row[name] for name in ("bound", "gap", "status")},
            **{name: row[name] for name in ("interval_low", "interval_high")},
            "changes": [change["text"] for change in row["changes"]],
        }
        for row in ranked
    ]
    holds = sum(row["interval_low"] > row["factual"] + ROUNDING for row in ranked)
    summary = {
        **counts,
        "improvable": len(table),
        "holds_in_every_model": holds,
        "mean_value_by_k": means["value"].to_list(),
    }
    return table, summary


# ----------------------------------------------------------------------------------------------

RUN, REPORT, FIGURES = "run", "report.html", "figures"
STAYS, VOYAGES = "stays", "voyages"
CLOSE_LOOKS = 5
FIRST = "case-1-"
# The report lists every death.
MOST_PATIENTS = 100_000


@dataclass(frozen=True)
class DemoResult:
    """What the demo wrote and found.

    run      folder of the run that explains the deaths
    reports  the pages, that of the deaths first
    figures  their figures as PNG files
    table    one row for each death that could have been improved, the most improvable first
    summary  counts and means
    """

    run: Path
    reports: tuple[Path, ...]
    figures: tuple[Path, ...]
    table: list[dict[str, Any]]
    summary: dict[str, Any]


def run_demo(out: Path, patients: int = 400, seed: int = 0, k: int = 3) -> DemoResult:
    """Make all three runs and their reports in the folder `out`."""
    started = time.perf_counter()
    patients = whole_number(patients, "patients", 1, MOST_PATIENTS)
    seed, k = whole_number(seed, "seed"), whole_number(k, "k")
    folder = _prepare_folder(Path(out))
    table, summary = run_deaths(folder, folder / RUN, (patients, seed, k))
    summary |= run_stays(folder / STAYS, folder / STAYS / RUN, seed)
    summary |= run_voyages(folder / VOYAGES, folder / VOYAGES / RUN, seed)
    reports: list[Path] = []
    figures: list[Path] = []
    for kind, place in (("discrete", ""), ("continuous", STAYS), ("planning", VOYAGES)):
        if not (folder / place / RUN).exists():  # nobody died
            continue
        made = report(open_run(folder / place / RUN), ReportOptions(cases=CLOSE_LOOKS))
        figures += _write_figures(folder / FIGURES, kind, made.panels)
        _write(folder / place / REPORT, made.html.encode())
        reports.append(folder / place / REPORT)
    _remove_outdated(folder / FIGURES, figures)
    summary["seconds"] = round(time.perf_counter() - started, 1)
    return DemoResult(folder / RUN, tuple(reports), tuple(figures), table, summary)


def _prepare_folder(out: Path) -> Path:
    """The output folder, made if need be; refused before any work if it cannot be written."""
    try:
        for name in (FIGURES, STAYS, VOYAGES):
            (out / name).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileError(f"{out}: is not a folder, or lies in a file; give a folder") from None
    except OSError as problem:
        raise FileError(f"{out}: cannot be made: {problem.strerror}; give another") from None
    for name in (REPORT, f"{STAYS}/{REPORT}", f"{VOYAGES}/{REPORT}", f"{FIGURES}/cohort.png"):
        check_target(out / name)
    return out


def _write_figures(folder: Path, kind: str, panels: Sequence[Panel]) -> list[Path]:
    """Those about all cases and about the first; the reports have them all."""
    chosen = [
        one for one in panels if not one.name.startswith("case-") or one.name.startswith(FIRST)
    ]
    paths = [folder / f"{kind}-{panel.name}.png" for panel in chosen]
    for path, panel in zip(paths, chosen, strict=True):
        _write(path, png_bytes(panel.figure))
    return paths


def _remove_outdated(folder: Path, figures: Sequence[Path]) -> None:
    """Figures of cases that an earlier demo had in this folder and this one has not."""
    for kind in ("discrete", "continuous", "planning"):
        for path in folder.glob(f"{kind}-*.png"):
            if path not in figures:
                path.unlink()


def _write(path: Path, content: bytes) -> None:
    with atomic_file(path) as file:
        file.write(content)


# ----------------------------------------------------------------------------------------------
# What the demo prints.

PROGRAM = "counterplan"
# Rows of the table that fit a screen; the report holds all of them.
MOST_ROWS = 10
# Columns of a terminal from which on the table has room for the changes.
WIDE = 120


def print_demo(result: DemoResult, console: Console | None = None) -> None:
    """The best cases as a table, then what the three parts found and where everything is."""
    from rich.console import Console
    from rich.markup import escape

    console = console or Console()
    summary = result.summary
    if result.table:
        wide = console.width >= WIDE
        console.print(_demo_table(result.table[:MOST_ROWS], summary["k"], wide=wide))
        if not wide:
            first = result.table[0]
            console.print(f"Changes for {escape(first['patient'])}:")
            for change in first["changes"]:
                console.print(f"  {escape(change)}")
    for line in _sentences(summary):
        console.print(line)
    console.print("Open in a browser:")
    for path in result.reports:
        console.print(f"  [bold]{escape(str(path))}[/bold]", soft_wrap=True)
    if result.figures:
        folder = escape(str(result.figures[0].parent))
        console.print(f"Figures: {folder}, {len(result.figures)} PNG files.", soft_wrap=True)
    if result.table:
        command = escape(f"{program()} serve {result.run}")
        console.print(f"Ask what-if questions: {command}", soft_wrap=True)
        others = [str(path.parent / result.run.name) for path in result.reports[1:]]
        if others:
            console.print(f"  or of {escape(' and '.join(others))}", soft_wrap=True)


def program() -> str:
    """How this program is called from here: by its path where it is none of the shell's commands,
    as in an environment that is not activated."""
    called = Path(sys.argv[0])
    if called.stem != PROGRAM or which(PROGRAM) is not None:
        return PROGRAM
    return str(called)


def _sentences(summary: Mapping[str, Any]) -> list[str]:
    """A line for each of the three systems."""
    lines = [
        f"{counted(summary['patients'], 'patient')} sampled, {summary['deaths']} died; with at "
        f"most {counted(summary['k'], 'change')} {summary['improvable']} could have been improved, "
        f"{summary['holds_in_every_model']} of them in every causal model that fits the data."
    ]
    if "stays" in summary:
        lines.append(
            f"{counted(summary['stays'], 'stay')} explained by a neural model: summed SOFA lower "
            f"by {summary['stays_mean_improvement']:.1f} on average."
        )
    if "voyages" in summary:
        paid, planned = summary["voyages_executed"], summary["voyages_planned"]
        lines.append(
            f"{counted(summary['voyages'], 'voyage')} judged: fuel by a plan made once cost "
            f"{paid:,.0f}, by a planner that looks again in every port {planned:,.0f}."
        )
    return lines


def _demo_table(rows: Sequence[Mapping[str, Any]], k: int, *, wide: bool) -> Table:
    from rich.markup import escape
    from rich.table import Table

    title = f"Deaths, ranked by what at most {counted(k, 'change')} would have brought"
    table = Table(title=title)
    table.add_column("patient", no_wrap=True)
    for heading in ("steps", "survival", "improvement", "every model"):
        table.add_column(heading, justify="right", no_wrap=True)
    if wide:
        table.add_column("changes", no_wrap=True)
    for row in rows:
        cells = [
            escape(row["patient"]),
            str(row["steps"]),
            f"{row['value']:.1%}",
            f"{100 * row['improvement']:+.1f} points",
            f"{row['interval_low']:.0%} to {row['interval_high']:.0%}",
        ]
        table.add_row(*cells, *([escape("\n".join(row["changes"]))] if wide else []))
    return table
