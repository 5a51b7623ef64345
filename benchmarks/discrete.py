"""All benchmarks of the discrete part: `python -m benchmarks.discrete` in the repository's root.

Exits with 1 if the compared methods disagree; a missed target is shown, not an error, as seconds
depend on the machine.
"""

from __future__ import annotations

import os
import sys

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


def main() -> int:
    # Libraries read these when they are loaded, so nothing that needs NumPy is imported before.
    os.environ.update(ONE_THREAD)
    from rich.console import Console

    from benchmarks.comparison import compare
    from benchmarks.growth import measure_growth
    from benchmarks.report import Report
    from benchmarks.sepsis import measure_sepsis
    from benchmarks.startup import measure_startup

    load = os.getloadavg()[0]
    progress = Console(stderr=True)
    with progress.status("the paper's problem, three ways (about half a minute)"):
        comparison, agreement = compare()
    with progress.status("ICU-Sepsis"):
        sepsis = measure_sepsis()
    with progress.status("growth"):
        growth = measure_growth()
    with progress.status("start-up"):
        startup = measure_startup()
    sections = {
        "The paper's problem: n = 20, m = 10, T = 20, every k = 0..10": comparison,
        "ICU-Sepsis: T = 20, every k = 0..10": sepsis,
        "Start-up, each in a fresh process": startup,
    }
    report = Report(sections, agreement, growth, load=(load, os.getloadavg()[0]))
    report.print()
    report.write()
    return 0 if agreement.holds else 1


if __name__ == "__main__":
    sys.exit(main())
