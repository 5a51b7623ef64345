"""The demo: the three systems on built-in data, each as a run of a cohort with its report.

    discrete    deaths of the ICU-Sepsis model: which decisions would have given a chance?
    continuous  simulated sepsis stays: which doses would have lowered the SOFA scores?
    planning    simulated voyages: what did buying fuel by a plan made in port one cost?

Patients, stays and voyages are sampled; everything that follows is what the commands `fit`,
`explain`, `plan` and `report` do with a user's own tables. The same arguments give the same files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterplan.cohort.reading import open_run
from counterplan.core.validation import whole_number
from counterplan.errors import FileError
from counterplan.experiments.demo_continuous import run_stays
from counterplan.experiments.demo_discrete import run_deaths
from counterplan.experiments.demo_planning import run_voyages
from counterplan.files.atomic import atomic_file, check_target
from counterplan.viz.page import Panel
from counterplan.viz.report.build import report
from counterplan.viz.report.options import ReportOptions
from counterplan.viz.style import png_bytes

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
