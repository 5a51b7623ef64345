"""Reports of executed plans, for every problem."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from counterplan.errors import InputError
from counterplan.runs.regret import lost
from counterplan.runs.run import Run
from counterplan.viz.quantity import Quantity
from counterplan.viz.report import report
from counterplan.viz.report.page import Pseudonyms, ReportOptions

from ..reader import read
from .runs import ODD, regret_run

WRITE = Quantity().write


def test_the_numbers_of_the_run(voyages: Run) -> None:
    made = report(voyages, ReportOptions(cases=2))
    reader = read(made.html)
    results = voyages.scan("results").collect().to_dicts()
    judged = [row for row in results if row["status"] != "failed"]
    rows = reader.data["ranking-data"]["rows"]
    assert {row[1] for row in rows} == {row["scenario_id"] for row in judged}
    losses = [row[-2][0] for row in rows]
    assert losses == sorted(losses, reverse=True)
    assert f"{WRITE(sum(row['executed'] for row in judged))}" in reader.text
    worst = max(judged, key=lambda row: row["expected_regret"])
    written = f"{WRITE(worst['expected_regret'])} money units"
    assert f"The decisions lost {written} in expectation." in reader.text
    assert "buy nothing" in reader.text
    # Ports are counted from 1 in words, and from 0 in the figure and the table.
    assert any(f"t={t}: port {t + 1} of 8" in reader.text for t in range(3))
    for words in ("What did the decisions cost?", "The policy is the optimum without foresight",
                  "All decisions in numbers", "Planner UCT"):  # fmt: skip
        assert words in reader.text, words
    assert {"case-1", "case-2"} <= set(reader.places)


def test_failures_and_names(voyages: Run) -> None:
    made = report(voyages, ReportOptions(cases=1))
    reader = read(made.html)
    assert "1 scenario could not be judged." in reader.text
    assert "too-much: " in reader.text
    assert "<script>alert" not in made.html
    for name in ODD:
        assert name in read(report(voyages, ReportOptions(case=name)).html).text
    alone = read(report(voyages, ReportOptions(case="too-much")).html).text
    assert "Could not be judged: " in alone
    names = Pseudonyms(b"a key of sixteen bytes")
    hidden = report(voyages, ReportOptions(pseudonyms=names, cases=1))
    for name in (*ODD, "too-much"):
        assert name not in hidden.html
        assert name not in read(hidden.html).text


def test_a_policy_that_is_only_the_best_known_is_called_so(
    voyages: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        "what the best policy without foresight"
        in read(report(voyages, ReportOptions(cases=1)).html).text
    )
    found = voyages.results().with_columns(status=pl.lit("heuristic"), policy=pl.lit("lattice"))
    monkeypatch.setattr(voyages, "results", lambda: found)
    text = read(report(voyages, ReportOptions(cases=1)).html).text
    assert "what the best policy known would have brought" in text
    assert "best policy without foresight" not in text.lower()


def test_mistakes(voyages: Run) -> None:
    with pytest.raises(InputError, match="has no scenario 'nobody'; check it"):
        report(voyages, ReportOptions(case="nobody"))
    with pytest.raises(InputError, match="executed plans, which have no --k: leave it out"):
        report(voyages, ReportOptions(k=3))


def test_few_changes_are_shown_where_they_were_asked_for(voyages: Run, tmp_path: Path) -> None:
    assert "changed decisions" not in read(report(voyages, ReportOptions()).html).text
    text = read(report(regret_run(tmp_path, planner=None, k=2), ReportOptions()).html).text
    assert "In hindsight, with at most 2 changed decisions" in text
    assert "instead of" in text


@pytest.mark.parametrize("domain", ["hybrid", "options", "basket"])
def test_every_problem_has_a_report(tmp_path: Path, domain: str) -> None:
    run = regret_run(tmp_path, domain, planner=None)
    made = report(run, ReportOptions(cases=2))
    text = read(made.html).text
    assert "earned in total" in text
    assert f"Values are in {'miles' if domain == 'hybrid' else 'money units'}." in text
    assert "Planner" not in text
    # A sentence stands for a histogram of losses that are all zero.
    rows = run.scan("results").filter(status="optimal").collect().to_dicts()
    is_lossless = max(abs(lost(row)) for row in rows) < 1e-9
    assert is_lossless == (domain != "hybrid")
    assert ("Nothing was lost in any of" in text) == is_lossless
    assert len(made.panels) == 3 - is_lossless
