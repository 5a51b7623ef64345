"""Reports of explanations: the library's numbers, escaped, complete, without names on request."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from markupsafe import escape

import counterplan as cp
from counterplan.errors import FileError, InputError
from counterplan.runs.question import Question
from counterplan.runs.run import CaseQuery, Run, open_run
from counterplan.tables import SchemaLayout
from counterplan.viz.quantity import Quantity, claim_of
from counterplan.viz.report import report
from counterplan.viz.report.page import Pseudonyms, Report, ReportOptions

from ...runs.models import discrete_episodes, small_mdp
from ..reader import read
from .runs import LABEL, ODD, explain_run, named

WRITE = Quantity().write


@pytest.fixture(scope="module", params=["policies", "sequences"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def made(run: Run) -> Report:
    return report(run, ReportOptions(cases=2))


def test_all_parts_are_there(made: Report) -> None:
    reader = read(made.html)
    for words in (
        "In short", "What was asked", "by what is vouched for", "The top 2, closely", "The search",
        "The model and its assumptions", "What it takes for granted", "How to read this",
        "What this does not claim", "SHA-256 of the input", "Read with care", "Changes that recur",
        "numpy", "proved optimal", "The course in numbers",
    ):  # fmt: skip
        assert words in reader.text, words
    assert {"case-1", "case-2"} <= set(reader.places)
    assert len(made.panels) >= 1 + 2 * 2


def test_the_table_holds_the_numbers_of_the_run(run: Run, made: Report) -> None:
    data = read(made.html).data["ranking-data"]
    titles = [title for title, _, _ in data["headings"]]
    ranked = run.cases(CaseQuery()).to_dicts()
    assert len(data["rows"]) == len(ranked)
    for row, cells in zip(ranked, data["rows"], strict=True):
        found = dict(zip(["place", *titles], cells, strict=True))
        assert cells[1] == row["episode_id"]
        expected = "Expected" if run.terms.is_discrete else "Improvement"
        assert found["Observed"][0] == pytest.approx(row["factual"], rel=1e-8)
        assert found[expected][0] == pytest.approx(row["improvement"], rel=1e-8)
        if run.terms.is_discrete:
            sure = row["guaranteed"] - row["factual"]
            assert found["Guaranteed"][0] == pytest.approx(sure, rel=1e-8, abs=1e-12)
        assert found["Claim"] == claim_of(row).verdict
        assert found["Changes"] == [one["text"].replace("->", "→") for one in row["changes"]]
    assert [row[0] for row in data["rows"]][:3] == ["case-1", "case-2", ""]


def test_cases_show_the_numbers_of_the_library(run: Run, made: Report) -> None:
    text = read(made.html).text
    for row in run.cases(CaseQuery(limit=2)).to_dicts():
        value, gap = WRITE(row["value"]), "0" if row["gap"] == 0 else f"+{WRITE(row['gap'])}"
        bound = WRITE(row["bound"])
        assert f"Value {value}, bound {bound}, gap {gap}." in text
        assert f"{WRITE(row['factual'])} observed, {value}" in text
        assert claim_of(row).sentence(Quantity(), row["factual"]) in text


def test_names_and_labels_are_texts_not_markup(run: Run, made: Report) -> None:
    assert "<script>alert" not in made.html
    assert "<img src=x" not in made.html
    assert "<b>walk" not in made.html
    rows = read(made.html).data["ranking-data"]["rows"]
    assert set(ODD) <= {row[1] for row in rows}
    for name in ODD:
        single = report(run, ReportOptions(case=name)).html
        assert escape(name) in single
        assert name in read(single).text
    if run.manifest.task.description["model_suffix"] and "walk" in json.dumps(rows):
        assert LABEL in json.dumps(rows, ensure_ascii=False)


def test_a_failure_is_told_with_its_reason_and_ranges_where_they_were_asked_for(
    run: Run, made: Report
) -> None:
    text = read(made.html).text
    is_discrete = run.terms.is_discrete
    for words in ("Range, every causal model", "Range, stable ones", "Range, monotone ones",
                  "Guaranteed in every causal model",
                  "in that state", "Better than observed, probability",
                  "1 episode could not be explained.", "lost-one: "):  # fmt: skip
        assert (words in text) == is_discrete, words
    assert ("of the 50 nearest" in text) != is_discrete
    if is_discrete:
        alone = read(report(run, ReportOptions(case="lost-one")).html).text
        assert "Could not be explained: " in alone
        assert "state" in alone
    else:
        assert "causal model" not in text.split("In numbers")[1].split("The search")[0]


def test_a_model_with_members_has_intervals_bands_and_what_no_data_tells(members: Run) -> None:
    made = report(members, ReportOptions(cases=1))
    text, (row,) = read(made.html).text, members.cases(CaseQuery(limit=1)).to_dicts()
    claim = claim_of(row)
    assert (claim.low, claim.harm) == (row["improvement_low"], row["harm"])
    for words in (claim.interval(Quantity()), claim.sentence(Quantity(), row["factual"]),
                  "And no data can tell: ", "with an established improvement",
                  "the worst 25 % of the models", "the band holds 9 in 10"):  # fmt: skip
        assert words in text.replace("\u00a0", " "), words
    kinds = {panel.kind for panel in made.panels}
    assert {"cohort", "calibration", "sensitivity", "first trajectory"} <= kinds
    expected = WRITE(row["factual"] + row["improvement"])
    assert f"{WRITE(row['factual'])} observed, {expected} expected" in text
    sure = sum(claim_of(one).is_established for one in members.cases(CaseQuery()).to_dicts())
    assert (
        f"<dt>with an established improvement, by at most 2 changes</dt><dd>{sure}</dd>"
        in made.html
    )


def test_where_nothing_can_be_better_a_sentence_stands_for_the_figure(tmp_path: Path) -> None:
    mdp = small_mdp()
    run = explain_run(tmp_path, mdp, discrete_episodes(mdp, 4), Question((0,)))
    made = report(run, ReportOptions(cases=0))
    assert "No changes improve any of 4 episodes: there is no spread" in read(made.html).text
    assert "cohort" not in {panel.kind for panel in made.panels}


def test_an_optimal_search_never_stands_alone(run: Run, made: Report) -> None:
    """Wherever a page says that a search was proved optimal, it says how sure the claim is."""
    text = read(made.html).text
    for section in text.split("What would have been done differently")[1:]:
        told = section.split("The course in numbers")[0]
        if "Proved optimal" in told:
            assert "established" in told or "no change" in told


def test_the_same_run_gives_the_same_bytes(run: Run, made: Report) -> None:
    assert report(run, ReportOptions(cases=2)).html == made.html


def test_one_case_alone(run: Run) -> None:
    row = run.cases(CaseQuery(limit=2)).to_dicts()[1]
    made = report(run, ReportOptions(case=row["episode_id"]))
    reader = read(made.html)
    assert reader.data == {}
    assert reader.scripts == []
    assert f"{WRITE(row['factual'])} observed, {WRITE(row['value'])} expected" in reader.text
    assert "The model and its assumptions" in reader.text
    with pytest.raises(InputError, match=r"has no .* 'nobody'; check it"):
        report(run, ReportOptions(case="nobody"))


def test_another_budget(run: Run) -> None:
    made = read(report(run, ReportOptions(k=1, cases=1)).html)
    assert "by at most 1 change" in made.text
    ranked = run.cases(CaseQuery(k=1)).to_dicts()
    assert [row[1] for row in made.data["ranking-data"]["rows"]] == [
        row["episode_id"] for row in ranked
    ]
    with pytest.raises(InputError, match=r"was run for k = 0, 1, 2, not for 7; choose one"):
        report(run, ReportOptions(k=7))


def test_no_id_is_left_under_pseudonyms(tmp_path: Path) -> None:
    mdp = small_mdp()
    ids = [f"person-{number:03d}-xyz" for number in range(12)]
    episodes = list(map(named, discrete_episodes(mdp, 12), ids))
    lost = named(episodes[0], "lost-person-abc")
    lost = lost._replace(episode=cp.Episode([0, 9], [0, 0], id="lost-person-abc"))
    lost = lost._replace(times=lost.times[:1].repeat(2))
    run = explain_run(tmp_path, mdp, [*episodes, lost], Question((0, 1), robust=True))
    names = Pseudonyms(b"a key of at least sixteen bytes")
    for options in (
        ReportOptions(pseudonyms=names, cases=2),
        *(ReportOptions(pseudonyms=names, case=name) for name in (ids[0], "lost-person-abc")),
    ):
        made = report(run, options)
        for name in (*ids, "lost-person-abc"):
            assert name not in made.html
            assert name.encode().hex() not in made.html
        assert "person" not in read(made.html).text.replace("personal", "")
    assert names.shown(ids[0]) in report(run, ReportOptions(pseudonyms=names, cases=0)).html


def test_a_run_under_way_is_reported_as_far_as_it_is(policies: Run, tmp_path: Path) -> None:
    out = shutil.copytree(policies.folder, tmp_path / "out")
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))
    (out / "done" / "00001.json").unlink()
    text = read(report(open_run(out), ReportOptions(cases=1)).html).text
    assert "The run is not complete: 1 of 2 parts are done" in text
    assert "20episodes explained" in text.replace("\n", "") or "20" in text


def test_a_run_whose_model_is_gone(policies: Run, tmp_path: Path) -> None:
    out = shutil.copytree(policies.folder, tmp_path / "out")
    (out / "files" / "model.safetensors").unlink()
    with pytest.raises(FileError, match=r"model\.safetensors: is missing; run the same command"):
        report(open_run(out), ReportOptions())


def test_a_run_of_something_else(policies: Run, tmp_path: Path) -> None:
    out = shutil.copytree(policies.folder, tmp_path / "out")
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"kind": "explain"', '"kind": "own.task"'))
    with pytest.raises(FileError, match=r"is a run of 'own\.task', of which there is no report"):
        report(open_run(out), ReportOptions())


def test_infinite_outcomes_are_written_not_drawn(tmp_path: Path) -> None:
    mdp = small_mdp()
    rewards = mdp.rewards.copy()
    rewards[0, 0] = -float("inf")
    rows = [[mdp.row(s, a) for a in range(3)] for s in range(4)]
    barred = cp.TabularMDP(rows, rewards, action_labels=["rest", "walk", "run"])
    episodes = discrete_episodes(mdp, 20)
    run = explain_run(tmp_path, barred, episodes, Question((0, 4), robust=True))
    found = run.cases(CaseQuery(k=4))
    infinite = found.filter(pl.col("factual") == -float("inf"))["episode_id"].to_list()
    assert 0 < len(infinite) < found.height
    made = report(run, ReportOptions(cases=2))
    assert "-inf observed" in read(report(run, ReportOptions(case=infinite[0])).html).text
    cells = [row[6] for row in read(made.html).data["ranking-data"]["rows"]]
    assert [1e300, "+inf"] in cells


def test_what_was_left_out_of_the_table_is_told(sequences: Run) -> None:
    noted = replace(sequences.manifest, notes=("48 stays kept, 12 dropped (12 with <b>gaps</b>).",))
    made = report(Run(sequences.folder, noted), ReportOptions(cases=0))
    assert "What was read: 48 stays kept, 12 dropped (12 with <b>gaps</b>)." in read(made.html).text


def test_levels_are_not_taken_for_amounts(sequences: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "Doses of dose are levels"
    assert words not in read(report(sequences, ReportOptions(cases=0)).html).text
    monkeypatch.setattr(SchemaLayout, "dose_unit", "level")
    assert words in read(report(sequences, ReportOptions(cases=0)).html).text


@pytest.mark.slow  # a thousand episodes
def test_a_thousand_episodes_stay_under_ten_megabytes(tmp_path: Path) -> None:
    mdp = small_mdp()
    run = explain_run(tmp_path, mdp, discrete_episodes(mdp, 1000), Question((2,)))
    made, bare = (report(run, ReportOptions(cases=cases)) for cases in (2, 0))
    two, none = (len(one.html.encode()) for one in (made, bare))
    assert none + 10 * (two - none) / 2 < 10_000_000, "with as many cases as there are usually"
    rows = read(made.html).data["ranking-data"]["rows"]
    assert len(rows) == 1000
    # Without its figures the page is small: what grows with the cohort are rows of the table.
    assert len(str(rows)) < 1_000_000
