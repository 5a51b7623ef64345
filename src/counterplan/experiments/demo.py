"""The demo: what should have been done differently for the patients of ICU-Sepsis who died.

Patients are sampled from what clinicians do, every death is explained with at most k changes, and
the deaths are ranked by what the changes would have brought. A page, its figures and a table of all
numbers are written; the same arguments give the same files.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterplan.core.validation import whole_number
from counterplan.domains import icu_sepsis
from counterplan.errors import FileError
from counterplan.experiments.demo_cases import CaseRow, Cohort, case_row, explain_case
from counterplan.experiments.demo_page import demo_content, demo_terms
from counterplan.experiments.figure import Item, in_parallel
from counterplan.files.atomic import atomic_file, check_target
from counterplan.viz.case import ranked
from counterplan.viz.page import Panel, render
from counterplan.viz.style import png_bytes

PAGE = "index.html"
TABLE = "cases.csv"
FIGURES = "figures"


@dataclass(frozen=True)
class DemoResult:
    """What the demo wrote and found.

    page     the HTML page
    figures  its figures as PNG files
    table    one row for each death, ranked, as in cases.csv
    summary  counts and means over all patients
    """

    page: Path
    figures: tuple[Path, ...]
    table: list[dict[str, Any]]
    summary: dict[str, Any]


def run_demo(out: Path, patients: int = 400, seed: int = 0, k: int = 3) -> DemoResult:
    """Sample patients, explain the deaths, and write page, figures and table into `out`."""
    started = time.perf_counter()
    patients = whole_number(patients, "patients", minimum=1)
    seed, k = whole_number(seed, "seed"), whole_number(k, "k")
    folder = _prepare_folder(Path(out))
    model = icu_sepsis.load()
    episodes = model.sample_episodes(patients, seed)
    deaths = [episode for episode in episodes if model.died(episode)]
    cases = ranked(
        in_parallel(lambda death: explain_case(model.mdp, death, k), deaths, _track, "deaths")
    )
    cohort = Cohort(model, episodes, cases, k, seed)
    content = demo_content(cohort)
    rows = [case_row(case, model.mdp.action_name) for case in cases]
    panels = [*content.panels, *(panel for look in content.close_looks for panel in look.panels)]
    # The page comes last: it appears when everything that belongs to it is there.
    figures = tuple(_write_figure(folder / FIGURES, panel) for panel in panels)
    _remove_outdated(folder / FIGURES, figures)
    _write(folder / TABLE, _csv(rows, k))
    _write(folder / PAGE, render(content, demo_terms(model)).encode())
    summary = {**cohort.summary, "seconds": round(time.perf_counter() - started, 1)}
    return DemoResult(folder / PAGE, figures, [row._asdict() for row in rows], summary)


def _prepare_folder(out: Path) -> Path:
    """The output folder, made if need be; refused before any work if it cannot be written."""
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FileError(f"{out}: is not a folder, or lies in a file; give a folder") from None
    except OSError as problem:
        raise FileError(f"{out}: cannot be made: {problem.strerror}; give another") from None
    for name in (PAGE, TABLE, f"{FIGURES}/cohort.png"):
        check_target(out / name)
    return out


def _track(items: Iterable[Item], total: int, what: str) -> Iterable[Item]:
    """The items, with a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(
        items,
        total=total,
        description=f"Explaining {what}",
        console=console,
        disable=not console.is_terminal,
    )


def _write_figure(folder: Path, panel: Panel) -> Path:
    path = folder / f"{panel.name}.png"
    _write(path, png_bytes(panel.figure))
    return path


def _remove_outdated(folder: Path, figures: Sequence[Path]) -> None:
    """Figures of cases that an earlier demo had in this folder and this one has not."""
    for path in folder.glob("case-[1-9]-*.png"):
        if path not in figures:
            path.unlink()


def _write(path: Path, content: bytes) -> None:
    with atomic_file(path) as file:
        file.write(content)


def _csv(rows: Sequence[CaseRow], k: int) -> bytes:
    """The rows with one column for each budget, and the changes as one text."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    budgets = [f"value_k{budget}" for budget in range(k + 1)]
    writer.writerow([*CaseRow._fields[:-2], *budgets, "changes"])
    for row in rows:
        writer.writerow([*row[:-2], *row.value_by_k, "; ".join(row.changes)])
    return text.getvalue().encode()
