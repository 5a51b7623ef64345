"""`counterplan plan --scenarios`: tables judged here and in folders, and every mistake in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counterplan.core.episode import Episode
from counterplan.counterfactual.explain import explain
from counterplan.domains.bunkering import Bunkering
from counterplan.planning.regret import regret

from .conftest import Run

BOUGHT = (50, 12, 25, 30, 16, 0, 0)
HEADER = "scenario_id,t,price,action"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")


def voyage(name: str, prices: Any = (1000, 900, 1500, 2500, 1200, 800, 900)) -> list[str]:
    rows = zip(prices, BOUGHT, strict=True)
    return [f"{name},{t},{price},{bought}" for t, (price, bought) in enumerate(rows)]


def write(*rows: str, header: str = HEADER, name: str = "v.csv") -> Path:
    path = Path(name)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def judged(run: Run, *arguments: str) -> dict[str, Any]:
    result = run("plan", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_few_changes_are_those_of_the_library(run: Run) -> None:
    """`--k` says what `explain` does, here, in a folder, in words; without it no such column."""
    prices = Bunkering("A").sample_paths(2, 1)[:, :, 0].round(4)
    failing = [f"bad,{t},1000,0" for t in range(7)]
    write(*failing, *(row for i, some in enumerate(prices) for row in voyage(f"v{i}", some)))
    arguments = ("bunkering", "--scenarios", "v.csv")
    record = judged(run, *arguments, "--k", "2")
    for row in record["worst"]:
        path = prices[int(row["scenario_id"][1:])][:, None]
        best = explain(Bunkering("A"), Episode(path, [[some] for some in BOUGHT]), 2)
        assert row["value"] == pytest.approx(best.value)
        assert row["improvement"] == pytest.approx(best.improvement)
        told = [(one["t"], one["observed"], one["alternative"]) for one in row["changes"]]
        assert told == [(one.t, list(one.observed), list(one.alternative)) for one in best.changes]
        assert all("instead of" in one["text"] for one in row["changes"])
        assert told
    assert record["failures"][0]["k"] == 2
    assert record["failures"][0]["changes"] == []
    assert judged(run, *arguments, "--k", "2", "-o", "out")["worst"] == record["worst"]
    assert "instead of" in run("plan", *arguments, "--k", "2").stdout
    assert "improvement" not in judged(run, *arguments)["worst"][0]


def test_it_says_what_the_library_says(run: Run) -> None:
    """Ranked by what decisions lost in expectation, with the totals of all."""
    prices = Bunkering("A").sample_paths(5, 1)[:, :, 0].round(4)
    write(*(row for i, some in enumerate(prices) for row in voyage(f"v{i}", some)))
    record = judged(run, "bunkering", "--scenarios", "v.csv")
    found = {f"v{i}": regret(Bunkering("A"), some, BOUGHT) for i, some in enumerate(prices)}
    ranked = sorted(found, key=lambda name: -(found[name].expected_regret or 0.0))
    assert [row["scenario_id"] for row in record["worst"]] == ranked
    assert (record["scenarios"], record["executed"], record["failed"]) == (5, 5, 0)
    totals = record["totals"]
    assert totals["executed"] == pytest.approx(sum(one.executed for one in found.values()))
    assert totals["hindsight"] == pytest.approx(sum(one.hindsight for one in found.values()))
    assert totals["without_foresight"] == pytest.approx(
        sum(one.without_foresight for one in found.values())
    )
    lost = sum(one.expected_regret or 0.0 for one in found.values())
    assert totals["expected_regret"] == pytest.approx(lost)
    assert "planned" not in totals
    other = judged(run, "bunkering", "--scenarios", "v.csv", "--prices", "global")
    assert other["totals"]["executed"] == pytest.approx(totals["executed"])
    assert other["totals"]["expected_regret"] == 0.0  # whatever the price, that is the best


def test_many_are_cut(run: Run) -> None:
    write(*(row for i in range(23) for row in voyage(f"v{i:02d}")))
    result = run("plan", "bunkering", "--scenarios", "v.csv")
    assert "the 20 that lost most of 23 scenarios" in result.stdout
    assert "v19" in result.stdout
    assert "v20" not in result.stdout
    assert len(judged(run, "bunkering", "--scenarios", "v.csv")["worst"]) == 23


def test_where_nothing_is_exact(run: Run) -> None:
    """A basket whose cap binds: told by what the best policy known earned more."""
    run("plan", "basket", "--config", "F", "--scenarios-template", "b.csv")
    result = run("plan", "basket", "--config", "F", "--scenarios", "b.csv")
    assert "vs policy" in result.stdout
    assert "lost" not in result.stdout
    assert "without foresight: optimal for each option, capped" in result.stdout


def test_a_planner_may_decide_along(run: Run) -> None:
    write(*voyage("a"), *voyage("b"))
    asked = ("bunkering", "--scenarios", "v.csv", "--simulations", "30")
    record = judged(run, *asked)
    assert {row["planner"] for row in record["worst"]} == {"UCT"}
    planned = [row["planned"] for row in record["worst"]]
    assert record["totals"]["planned"] == pytest.approx(sum(planned))
    assert all(
        value >= row["hindsight"] for value, row in zip(planned, record["worst"], strict=True)
    )
    assert judged(run, *asked) == record
    shown = run("plan", *asked).stdout
    assert "planned" in shown
    assert ": UCT" in shown


@pytest.mark.parametrize("domain", ["bunkering", "hybrid", "options", "basket"])
def test_templates_are_read_back(run: Run, domain: str) -> None:
    result = run("plan", domain, "--scenarios-template", "t.csv", "--seed", "1")
    assert result.exit_code == 0
    assert result.stdout == "t.csv: 10 sampled scenarios to replace\n"
    record = judged(run, domain, "--scenarios", "t.csv")
    assert (record["scenarios"], record["executed"], record["failed"]) == (10, 10, 0)
    again = run("plan", domain, "--scenarios-template", "t.csv")
    assert again.exit_code == 2
    assert "t.csv: exists already" in again.stderr


class TestFolders:
    """Real worker processes."""

    def test_a_run_can_be_asked_again(self, run: Run) -> None:
        prices = Bunkering("A").sample_paths(52, 2)[:, :, 0].round(3)
        write(*(row for i, some in enumerate(prices) for row in voyage(f"v{i}", some)))
        asked = ("bunkering", "--scenarios", "v.csv", "--config", "B")
        here = judged(run, *asked)
        record = judged(run, *asked, "-o", "two", "--workers", "2")
        assert record["out"] == "two"
        assert record["totals"] == pytest.approx(here["totals"])
        assert record["worst"] == here["worst"][:20]
        files = contents(Path("two"))
        names = {name.split("/")[0] for name in files}
        assert {"manifest.json", "episodes", "results", "decisions", "done"} <= names
        results = pl.read_parquet("two/results/*.parquet")
        assert results["scenario_id"].to_list() == [f"v{i}" for i in range(52)]
        assert pl.read_parquet("two/decisions/*.parquet").height == 7 * 52
        manifest = json.loads(files["manifest.json"])
        assert manifest["complete"]
        assert manifest["arguments"]["config"] == "B"
        # Lost parts are made anew, by another number of workers: the same bytes.
        for name in ("done/00001.json", "results/part-00001.parquet"):
            (Path("two") / name).unlink()
        again = judged(run, *asked, "-o", "two", "--workers", "1")
        assert again == record
        assert contents(Path("two")) == files
        other = run("plan", *asked[:-1], "C", "-o", "two")
        assert other.exit_code == 2
        assert "--config B there, --config C now" in other.stderr
        assert contents(Path("two")) == files

    def test_a_folder_whose_name_looks_like_a_pattern(self, run: Run) -> None:
        write(*voyage("a"))
        out = ("--scenarios", "v.csv", "-o", "out[1]", "--workers", "1")
        result = run("plan", "bunkering", *out)
        assert result.exit_code == 0, result.output
        assert "1 scenario;" in result.stdout

    def test_a_bad_table_leaves_nothing(self, run: Run) -> None:
        write(*voyage("a"), *voyage("b")[:-1])
        result = run("plan", "bunkering", "--scenarios", "v.csv", "-o", "out", "--workers", "1")
        assert result.exit_code == 2
        assert "'b' has 6 decisions" in result.stderr
        assert {path.name for path in Path().iterdir()} == {"v.csv"}


# --- Mistakes that tests/corpus has not: columns of other problems, and options ----------------


def steps(*rows: str, usual: str, count: int, header: str) -> Callable[[], object]:
    """A table of one scenario, its first rows replaced."""
    rest = [usual.format(t=t) for t in range(len(rows), count)]
    return lambda: write(*rows, *rest, header=header)


def journey(*rows: str, header: str = "scenario_id,t,mode,action") -> Callable[[], object]:
    usual = "j,{t},gas,2" + "," * (header.count(",") - 3)
    return steps(*rows, usual=usual, count=10, header=header)


def ship(level: str, later: str = "") -> Callable[[], object]:
    rows = [f"{row},{later if t else level}" for t, row in enumerate(voyage("a"))]
    return lambda: write(*rows, header=f"{HEADER},level")


def basket(price: str, header: str = "price_1,price_2,price_3") -> Callable[[], object]:
    rows = [f"b,{t},{price if t == 4 else 40},12,8" for t in range(51)]
    return lambda: write(*rows, header=f"scenario_id,t,{header}")


LEVELS = "scenario_id,t,mode,action,level_gas,level_electric"
TABLES: dict[str, tuple[str, Callable[[], object], str]] = {
    "no mode": ("hybrid", lambda: write("a,0", header="scenario_id,t"), "(or speed and acc"),
    "mode and speed": (
        "hybrid",
        lambda: write("a,0,gas,3", header="scenario_id,t,mode,speed"),
        "has 'mode' and also 'speed'",
    ),
    "speed alone": (
        "hybrid",
        lambda: write("a,0,3", header="scenario_id,t,speed"),
        "no column 'acceleration'",
    ),
    "speeds of seven modes": (
        "hybrid --modes 7",
        lambda: write("a,0,3,0", header="scenario_id,t,speed,acceleration"),
        "no column 'mode': found",
    ),
    "one of two levels": (
        "hybrid",
        lambda: write("a,0,gas,3", header="scenario_id,t,mode,level_gas"),
        "has 'level_gas' but no column 'level_electric'; give all or none",
    ),
    "one of three prices": ("basket", basket("40", "price_1,price_2,p3"), "no column 'price_3'"),
    "id too long": ("bunkering", lambda: write(*voyage("x" * 300)), "longer than 200 characters"),
    "t negative": ("bunkering", lambda: write("a,-1,5,0"), "'-1' is not a whole number"),
    "price absurd": ("bunkering", lambda: write("a,0,1e13,0"), "above 0 and at most 1e+12"),
    "price of the basket": ("basket", basket("-4"), "row 6, column 'price_1': '-4' is not a price"),
    "mode unknown": (
        "hybrid",
        journey("j,0,coal,2"),
        "'coal' is not one of gas, electric, braking",
    ),
    "speed negative": (
        "hybrid",
        steps(usual="j,{t},-3,0", count=10, header="scenario_id,t,speed,acceleration"),
        "'-3' is below 0; give the mean speed",
    ),
    "half a unit": ("hybrid", journey("j,0,gas,1.5"), "'1.5' is not a whole number of units"),
    "exercised twice as much": (
        "options",
        steps("o,0,40,2", usual="o,{t},40,0", count=11, header=HEADER),
        "'2' is neither 0 nor 1",
    ),
    "level over the tank": ("bunkering", ship("60"), "row 2, column 'level': '60' does not fit"),
    "level later on": ("bunkering", ship("5", "5"), "row 3, column 'level': '5' is not for later"),
    "half a level": (
        "hybrid",
        journey("j,0,gas,2,3,", header=LEVELS),
        "column 'level_electric': is empty, but another level",
    ),
}
ARGUMENTS: dict[str, str] = {
    "--scenarios v.csv --price 9": "--price is for a single decision",
    "--scenarios v.csv --cluster tcp://x:1": "--cluster is for runs in a folder",
    "--scenarios v.csv -o no/where": "no/where",
    "--scenarios v.csv -o v.csv/x": "v.csv/x",
    "--scenarios v.csv -o o --workers 2 --cluster a": "give one of them",
    "--scenarios-template no/x.csv": "the folder does not exist",
    "--workers 2": "--workers is for runs over a table",
    "--k 2": "--k is for runs over a table",
}


def refused(run: Run, words: str, *arguments: str) -> None:
    """Exit code 2, clear lines that name the place, nothing printed or written."""
    before = sorted(Path().rglob("*"))
    result = run("plan", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert 1 <= len(lines) <= 4
    assert all(line.startswith("error: ") for line in lines)
    assert words in result.stderr
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("name", TABLES)
def test_bad_tables(run: Run, name: str) -> None:
    domain, make, words = TABLES[name]
    make()
    refused(run, words, *domain.split(), "--scenarios", "v.csv")


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_bad_arguments(run: Run, arguments: str) -> None:
    write(*voyage("a"))
    refused(run, ARGUMENTS[arguments], "bunkering", *arguments.split())
