"""The report of any run."""

from __future__ import annotations

from counterplan.errors import FileError
from counterplan.runs.run import Run
from counterplan.runs.task import EXPLAIN, REGRET
from counterplan.viz.report.source import Report, ReportOptions


def report(run: Run, options: ReportOptions) -> Report:
    """One self-contained page about a run, with its figures."""
    kind = run.manifest.task["kind"]
    if kind == EXPLAIN:
        from counterplan.viz.report.explain import explain_report

        return explain_report(run, options)

    if kind == REGRET:
        from counterplan.viz.report.regret import regret_report

        return regret_report(run, options)
    raise FileError(
        f"{run.layout.out}: is a run of {kind!r}, of which there is no report; give one of "
        "`counterplan explain -o OUT` or `counterplan plan --scenarios FILE -o OUT`"
    )
