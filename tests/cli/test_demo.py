"""The demo end to end: its files, its numbers, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import counterplan as cp
from counterplan.cli import demo
from counterplan.cli.demo import MOST_ROWS, print_demo, run_demo
from counterplan.domains import icu_sepsis
from counterplan.domains.icu_sepsis import IcuSepsis
from counterplan.errors import CounterplanError
from counterplan.runs.run import open_run

from .test_json import compare

pytestmark = pytest.mark.slow  # three runs with their reports, twice
PATIENTS, SEED, K = 60, 0, 2
Result = dict[str, Any]
Printed = Callable[[list[dict[str, Any]]], str]


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """A model that is learned in a moment, and few figures."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LEARNED_FROM": 30, "EXPLAINED": 6, "NODES": 20}.items():
            patch.setattr(demo, name, value)
        patch.setattr(demo, "CLOSE_LOOKS", 1)
        yield


@pytest.fixture(scope="module")
def model() -> IcuSepsis:
    return icu_sepsis.load()


@pytest.fixture(scope="module")
def deaths(model: IcuSepsis) -> dict[str | None, cp.Episode]:
    episodes = model.sample_episodes(PATIENTS, SEED)
    return {episode.id: episode for episode in episodes if model.died(episode)}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return run_demo(out, patients=PATIENTS, seed=SEED, k=K)


@pytest.fixture
def _deaths_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part alone."""
    monkeypatch.setattr(demo, "run_stays", lambda *_: {})
    monkeypatch.setattr(demo, "run_voyages", lambda *_: {})


def test_its_json_is_as_the_page_says(result: Result) -> None:
    plain = json.loads(json.dumps(result, allow_nan=False))
    assert plain == result
    compare("demo", [plain])


def test_improvable_deaths_are_ranked(result: Result, deaths: dict[str | None, cp.Episode]) -> None:
    assert {row["patient"] for row in result["deaths"]} <= set(deaths)
    gains = [row["guaranteed"] - row["factual"] for row in result["deaths"]]
    established = [row["established"] for row in result["deaths"]]
    assert established == [gain > 1e-9 for gain in gains] == sorted(established, reverse=True)
    count = sum(established)
    assert gains[:count] == sorted(gains[:count], reverse=True)
    assert gains[0] > 0.1
    assert min(row["improvement"] for row in result["deaths"]) > 0.0
    summary = result["summary"]
    assert (summary["patients"], summary["deaths"]) == (PATIENTS, len(deaths))
    assert summary["improvable"] == len(gains)
    assert summary["holds_in_every_model"] == count
    low, high = (summary[f"stays_mean_improvement_{end}"] for end in ("low", "high"))
    assert low < summary["stays_mean_improvement"] < high
    assert sum(summary[key] for key in ("deaths", "discharged", "still_in_treatment")) == PATIENTS
    assert len(summary["mean_value_by_k"]) == K + 1


def test_numbers_are_those_of_the_library(
    result: Result, deaths: dict[str | None, cp.Episode], model: IcuSepsis
) -> None:
    for row in (result["deaths"][0], result["deaths"][2]):
        episode = deaths[row["patient"]]
        explanation = cp.explain(model.mdp, episode, k=K, doubt=0.2)
        assert row["value"] == pytest.approx(explanation.value, abs=1e-12)
        assert row["factual"] == 0.0
        assert (row["gap"], row["status"]) == (0.0, "optimal")
        low, high = cp.value_interval(model.mdp, episode, explanation)
        assert row["guaranteed"] == pytest.approx(low)
        assert (row["interval_low"], row["interval_high"]) == pytest.approx((low, high))


def test_three_runs_with_their_reports(result: Result) -> None:
    folder = Path(result["run"]).parent
    places = [folder / "run", folder / "stays" / "run", folder / "voyages" / "run"]
    assert [open_run(place).manifest.task.kind for place in places] == [
        "explain", "explain", "regret",
    ]  # fmt: skip
    for place in places:
        open_run(place).verify()
    assert [Path(path).parent for path in result["reports"]] == [place.parent for place in places]
    page = Path(result["reports"][0]).read_text(encoding="utf-8")
    for row in result["deaths"]:
        assert row["patient"] in page
    assert f"{100 * result['deaths'][0]['value']:.1f}\N{NO-BREAK SPACE}%" in page
    for words in ("MIMIC-III", "Choudhary", "MIT", "No hidden confounding", "SOFA (points)"):
        assert words in page, words


def test_figures_of_all_three_systems(result: Result) -> None:
    names = {Path(path).name for path in result["figures"]}
    assert {
        "discrete-cohort.png", "discrete-robustness.png", "discrete-case-1-frontier.png",
        "continuous-case-1-sofa.png", "planning-case-1-path.png",
    } <= names  # fmt: skip
    assert {path.name for path in (Path(result["run"]).parent / "figures").iterdir()} == names
    for figure in result["figures"]:
        assert Path(figure).read_bytes().startswith(b"\x89PNG")


def test_terminal_says_where_everything_is(
    result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    print_demo(result)
    told = capsys.readouterr().out
    for path in (*result["reports"], result["run"]):
        assert path in told


def test_the_same_again_changes_nothing(result: Result) -> None:
    folder = Path(result["run"]).parent
    (folder / "figures" / "discrete-case-1-old.png").write_bytes(b"old")
    (folder / "figures" / "mine.png").write_bytes(b"mine")
    written = (*result["reports"], *result["figures"])
    before = {path: Path(path).read_bytes() for path in written}
    again = run_demo(folder, patients=PATIENTS, seed=SEED, k=K)
    assert again["deaths"] == result["deaths"]
    assert {
        path: Path(path).read_bytes() for path in (*again["reports"], *again["figures"])
    } == before
    assert not (folder / "figures" / "discrete-case-1-old.png").exists()
    assert (folder / "figures" / "mine.png").read_bytes() == b"mine"
    (folder / "figures" / "mine.png").unlink()


@pytest.mark.usefixtures("_deaths_only")
def test_nobody_died(tmp_path: Path) -> None:
    result = run_demo(tmp_path, patients=1)
    assert (result["summary"]["improvable"], result["reports"], result["figures"]) == (0, [], [])
    print_demo(result)


@pytest.mark.usefixtures("_deaths_only")
def test_nothing_to_change(tmp_path: Path) -> None:
    result = run_demo(tmp_path, patients=12, k=0)
    assert result["summary"]["improvable"] == 0
    assert "What this does not claim" in Path(result["reports"][0]).read_text(encoding="utf-8")
    print_demo(result)


@pytest.mark.parametrize("below", ["", "deeper"])
def test_output_that_is_a_file(tmp_path: Path, below: str) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(CounterplanError, match=r"taken.*give a folder"):
        run_demo(taken / below, patients=5)
    assert taken.read_text() == "mine"


def test_a_report_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(CounterplanError, match=r"report\.html: cannot be written"):
        run_demo(tmp_path, patients=5)


# --- The table fits the terminal it is printed in ---------------------------------------------

CHANGE = "at 40 h: fluids 1 -> 3, vasopressor 0 -> 1 (100%)"


def row(number: int) -> dict[str, Any]:
    return {
        "patient": f"patient [red]{number:02d}",
        "steps": 20,
        "value": 0.838,
        "improvement": 0.838,
        "guaranteed": 0.35,
        "interval_low": 0.0,
        "interval_high": 1.0,
        "changes": [CHANGE],
    }


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    monkeypatch.setenv("COLUMNS", "80")
    return lambda table: (print_table_of(table), capsys.readouterr().out)[1]


def print_table_of(table: list[dict[str, Any]]) -> None:
    result = {
        "run": "demo[1]/run",
        "reports": ["demo[1]/report.html", "demo[1]/stays/report.html"],
        "figures": ["demo[1]/figures/cohort.png"],
        "deaths": table,
        "summary": {
            "patients": 400, "deaths": 80, "improvable": 54, "holds_in_every_model": 20, "k": 3,
            "stays": 48, "stays_mean_improvement": 5.83, "stays_established": 41,
            "stays_mean_improvement_low": 4.12, "stays_mean_improvement_high": 7.5,
            "voyages": 10, "voyages_executed": 1.69e6, "voyages_planned": 1.44e6,
        },
    }  # fmt: skip
    print_demo(result)


def test_nothing_is_cut_off(printed: Printed) -> None:
    text = printed([row(number) for number in range(20)])
    table = text.partition("Changes for")[0]
    assert max(len(line) for line in table.splitlines()) <= 80
    assert "…" not in text
    for words in (
        "patient [red]00",
        "83.8%",
        "+83.8 points",
        "35.0%",
        "0% to 100%",
        CHANGE,
        "20 of them established",
    ):
        assert words in text
    for words in ("demo[1]/report.html", "demo[1]/stays/report.html", "demo[1]/figures, 1 PNG"):
        assert words in text
    assert "counterplan serve demo[1]/run" in text
    assert "(or demo[1]/stays/run)" in text
    assert "lower by 5.8 on average (90 % intervals: 4.1 to 7.5)" in " ".join(text.split())
    assert "1,690,000" in text
    assert table.count(" patient [red]") == MOST_ROWS


def test_no_table_where_nobody_died(printed: Printed) -> None:
    text = printed([])
    assert "guaranteed" not in text
    assert "demo[1]/report.html" in text
    assert "serve" not in text


def test_the_command_works_where_no_environment_is_active(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/counterplan", "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert ".venv/bin/counterplan serve demo[1]/run" in printed([row(0)])
