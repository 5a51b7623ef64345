"""A thousand episodes make a file that can be sent."""

from __future__ import annotations

from pathlib import Path

from counterplan.runs.question import Question
from counterplan.viz.report import report
from counterplan.viz.report.page import ReportOptions

from ...runs.subjects import discrete_episodes, small_mdp
from ..reader import read
from .runs import explain_run


def test_a_thousand_episodes_stay_under_ten_megabytes(tmp_path: Path) -> None:
    mdp = small_mdp()
    run = explain_run(tmp_path, mdp, discrete_episodes(mdp, 1000), Question((2,)))
    made = report(run, ReportOptions())
    assert len(made.html.encode()) < 10_000_000
    rows = read(made.html).data["ranking-data"]["rows"]
    assert len(rows) == 1000
    # Without its figures the page is small: what grows with the cohort are rows of the table.
    assert len(str(rows)) < 1_000_000
