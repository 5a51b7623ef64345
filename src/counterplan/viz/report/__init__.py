"""The report of a run: one self-contained page with its figures."""

from __future__ import annotations

from counterplan.errors import FileError
from counterplan.runs.run import Run
from counterplan.runs.task import EXPLAIN, REGRET
from counterplan.viz.report.page import Report, ReportOptions


def report(run: Run, options: ReportOptions) -> Report:
    """The page about a run of explanations or of executed plans."""
    if run.kind == EXPLAIN:
        from counterplan.viz.report.explain import explain_report

        return explain_report(run, options)
    if run.kind == REGRET:
        from counterplan.viz.report.regret import regret_report

        return regret_report(run, options)
    raise FileError(
        f"{run.folder}: is a run of {run.kind!r}, of which there is no report; give one of "
        "`counterplan explain -o OUT` or `counterplan plan --scenarios FILE -o OUT`"
    )
