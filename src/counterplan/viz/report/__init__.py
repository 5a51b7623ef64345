"""The report of a run: one self-contained page with its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterplan.core.files import atomic_file, check_target, suffix_of
from counterplan.core.shown import takes
from counterplan.errors import FileError
from counterplan.runs.run import Run
from counterplan.runs.task import EXPLAIN, REGRET
from counterplan.viz.report.page import Report, ReportOptions

FORMATS = (".html", ".htm")


@takes(ReportOptions)
def write_report(run: Run, path: str | Path, **options: Any) -> Report:
    """The page as a file, written whole or not at all, of a run whose files are what they were."""
    suffix_of(path, FORMATS, "reports")
    check_target(path)
    run.verify()
    made = report(run, ReportOptions(**options))
    with atomic_file(path) as file:
        file.write(made.html.encode())
    return made


def report(run: Run, options: ReportOptions) -> Report:
    """The page about a run of explanations or of executed plans."""
    if run.kind == EXPLAIN:
        from counterplan.viz.report.explain import explain_report

        with run.decoding():
            return explain_report(run, options)
    if run.kind == REGRET:
        from counterplan.viz.report.regret import regret_report

        with run.decoding():
            return regret_report(run, options)
    raise FileError(
        f"{run.folder}: is a run of {run.kind!r}, of which there is no report; give one of "
        "`counterplan explain -o OUT` or `counterplan plan --scenarios FILE -o OUT`"
    )
