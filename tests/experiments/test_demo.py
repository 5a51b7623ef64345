"""The demo end to end: its files, its numbers, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import counterplan as cp
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_sepsis import IcuSepsis
from counterplan.errors import CounterplanError
from counterplan.experiments.demo import DemoResult, run_demo
from counterplan.viz.terminal import print_demo

PATIENTS, SEED, K = 60, 0, 3


@pytest.fixture(scope="module")
def model() -> IcuSepsis:
    return icu_sepsis.load()


@pytest.fixture(scope="module")
def deaths(model: IcuSepsis) -> dict[str | None, cp.Episode]:
    episodes = model.sample_episodes(PATIENTS, SEED)
    return {episode.id: episode for episode in episodes if model.died(episode)}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run_demo(out, patients=PATIENTS, seed=SEED, k=K)


def test_every_death_is_explained_and_ranked(
    result: DemoResult, deaths: dict[str | None, cp.Episode]
) -> None:
    assert {row["patient"] for row in result.table} == set(deaths)
    gains = [row["improvement"] for row in result.table]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.1
    assert result.summary["patients"] == PATIENTS
    assert result.summary["deaths"] == len(deaths)
    assert result.summary["improvable"] == sum(gain > 1e-9 for gain in gains)
    assert result.summary["guaranteed"] <= result.summary["improvable"]
    total = sum(result.summary[key] for key in ("deaths", "discharged", "still_in_treatment"))
    assert total == PATIENTS


def test_numbers_are_those_of_the_library(
    result: DemoResult, deaths: dict[str | None, cp.Episode], model: IcuSepsis
) -> None:
    for row in (result.table[0], result.table[2]):
        episode = deaths[row["patient"]]
        explanation = cp.explain(model.mdp, episode, k=K)
        assert row["value"] == pytest.approx(explanation.value, abs=1e-12)
        assert row["observed"] == 0.0
        assert (row["gap"], row["status"]) == (0.0, "optimal")
        assert row["value_by_k"] == pytest.approx(cp.frontier(model.mdp, episode, K).values)
        low, high = cp.value_interval(model.mdp, episode, explanation)
        assert (row["interval_low"], row["interval_high"]) == pytest.approx((low, high))
        stable = cp.value_interval(model.mdp, episode, explanation, stability=True)
        assert (row["stable_low"], row["stable_high"]) == pytest.approx(tuple(stable))
        robust = cp.robust_explain(model.mdp, episode, K)
        assert row["guaranteed_value"] == pytest.approx(robust.value)
        assert low <= row["value"] <= high
        alive = (explanation.sample(20_000, seed=1).outcomes > 0.0).mean()
        # Five standard errors of a share of 20,000 draws are below 0.018.
        assert row["probability_better"] == pytest.approx(alive, abs=0.018)


def test_page_shows_the_table(result: DemoResult) -> None:
    page = result.page.read_text(encoding="utf-8")
    assert "://" not in page
    assert "<script" not in page
    for row in result.table:
        assert row["patient"] in page
    best = result.table[0]
    assert f"{100 * best['value']:.1f}&nbsp;%" in page
    change = best["changes"][0].replace("->", "→").replace(" %", "&nbsp;%")
    assert change in page
    for words in ("MIMIC-III", "Choudhary", "MIT", "not medical advice", "unobserved confounding"):
        assert words in page


def test_files_are_complete(result: DemoResult) -> None:
    folder = result.page.parent
    written = {path for path in folder.rglob("*") if path.is_file()}
    assert written == {result.page, folder / "cases.csv", *result.figures}
    assert {"cohort.png", "robustness.png", "case-1-frontier.png"} <= {
        path.name for path in result.figures
    }
    for figure in result.figures:
        assert figure.read_bytes().startswith(b"\x89PNG")


def test_csv_holds_the_table(result: DemoResult) -> None:
    with (result.page.parent / "cases.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.table)
    for read, row in zip(rows, result.table, strict=True):
        assert read["patient"] == row["patient"]
        assert float(read["value"]) == row["value"]
        assert [float(read[f"value_k{k}"]) for k in range(K + 1)] == row["value_by_k"]
        assert read["changes"] == "; ".join(row["changes"])


def test_result_is_plain_json(result: DemoResult) -> None:
    text = json.dumps({"table": result.table, "summary": result.summary}, allow_nan=False)
    assert json.loads(text)["table"] == result.table


def test_terminal_says_where_the_page_is(
    result: DemoResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_demo(result)
    assert result.page.name in capsys.readouterr().out


def test_same_arguments_give_the_same_files(tmp_path: Path) -> None:
    first, second = (run_demo(tmp_path / name, patients=12, k=1) for name in ("one", "two"))
    assert first.table == second.table
    for left, right in zip(
        (first.page, *first.figures), (second.page, *second.figures), strict=True
    ):
        assert left.read_bytes() == right.read_bytes()


def test_figures_of_an_earlier_demo_do_not_stay(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "case-4-frontier.png").write_bytes(b"old")
    (folder / "mine.png").write_bytes(b"mine")
    result = run_demo(tmp_path, patients=1)
    assert result.figures == ()
    assert [path.name for path in folder.iterdir()] == ["mine.png"]


@pytest.mark.parametrize(("patients", "k"), [(1, 3), (12, 0)])
def test_nothing_to_improve(tmp_path: Path, patients: int, k: int) -> None:
    result = run_demo(tmp_path, patients=patients, k=k)
    assert result.summary["improvable"] == 0
    assert "What this does not claim" in result.page.read_text(encoding="utf-8")
    print_demo(result)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"patients": 0}, "patients must be at least 1, got 0"),
        ({"patients": 2.5}, "patients must be a whole number"),
        ({"k": -1}, "k must be at least 0, got -1"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, int], words: str) -> None:
    out = tmp_path / "out"
    with pytest.raises(CounterplanError, match=words):
        run_demo(out, **arguments)
    assert not out.exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_output_that_is_a_file(tmp_path: Path, below: str) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(CounterplanError, match=r"taken.*give a folder"):
        run_demo(taken / below, patients=5)
    assert taken.read_text() == "mine"


def test_page_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(CounterplanError, match=r"index\.html: cannot be written"):
        run_demo(tmp_path, patients=5)
