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


def test_k_is_for_tables(run: Run) -> None:
    result = run("plan", "bunkering", "--k", "2")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --k is for runs over a table")


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


def test_text(run: Run) -> None:
    rows = [*voyage("dear"), *voyage("calm", (1000, 900, 800, 700, 600, 500, 400))]
    rows += [row.replace("0,12", "0,13") for row in voyage("full")]
    write(*(f"{row},Oslo" for row in rows), header=f"{HEADER},port")
    result = run("plan", "bunkering", "--scenarios", "v.csv")
    assert result.exit_code == 0
    assert result.stderr == "v.csv: not used: 'port'\n"
    lines = result.stdout.splitlines()
    write(*voyage("dear"))
    alone = run("plan", "bunkering", "--scenarios", "v.csv").stdout
    assert alone.splitlines()[0].strip() == "1 scenario; lower is better"
    assert lines[0].strip() == "2 scenarios; lower is better"
    assert "paid" in lines[2]
    assert lines[4].split()[0] == "dear"
    assert "t=3: buy 30 units; better buy nothing" in lines[4]
    assert "failed: full: buying 13 at port t=1 with 38 in the tank" in result.stdout
    assert "without foresight: optimal" in result.stdout
    assert lines[-1].endswith("in expectation, by the decisions as they were made")


def test_many_are_cut(run: Run) -> None:
    write(*(row for i in range(23) for row in voyage(f"v{i:02d}")))
    result = run("plan", "bunkering", "--scenarios", "v.csv")
    assert "the 20 that lost most of 23 scenarios" in result.stdout
    assert "v19" in result.stdout
    assert "v20" not in result.stdout
    assert len(judged(run, "bunkering", "--scenarios", "v.csv")["worst"]) == 23


def test_without_decisions(run: Run) -> None:
    write(*(",".join(row.split(",")[:3]) for row in voyage("a")), header="voyage_id,t,price")
    result = run("plan", "bunkering", "--scenarios", "v.csv")
    assert result.exit_code == 0
    assert "no decisions are given, so there is nothing to regret" in result.stdout
    assert "hindsight" in result.stdout
    assert "paid" not in result.stdout


def test_some_without_decisions(run: Run) -> None:
    """Where all that was decided is judged by its expected loss, luck is not shown."""
    open_row = [",".join([*row.split(",")[:3], ""]) for row in voyage("b")]
    write(*voyage("a"), *open_row)
    result = run("plan", "bunkering", "--scenarios", "v.csv")
    assert result.exit_code == 0
    assert "lost" in result.stdout
    assert "vs policy" not in result.stdout


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


# --- Mistakes ---------------------------------------------------------------------------------


def changed(place: int, column: int, text: str) -> Callable[[], object]:
    """A good table with one entry replaced."""

    def make() -> None:
        rows = [row.split(",") for row in [*voyage("a"), *voyage("b")]]
        rows[place][column] = text
        write(*(",".join(row) for row in rows))

    return make


def journeys(*rows: str, header: str = "scenario_id,t,mode,action") -> Callable[[], object]:
    """Ten steps of a hybrid vehicle, some of them replaced."""
    usual = [f"j,{t},gas,2" for t in range(10)]
    return lambda: write(*(rows + tuple(usual[len(rows) :])), header=header)


def options(*rows: str, header: str = "scenario_id,t,price,action") -> Callable[[], object]:
    usual = [f"o,{t},40,0" for t in range(11)]
    return lambda: write(*(rows + tuple(usual[len(rows) :])), header=header)


def cut(frame: pl.DataFrame) -> None:
    frame.write_parquet("v.parquet")
    Path("v.parquet").write_bytes(Path("v.parquet").read_bytes()[:-9])


def basket(price_1: object, header: str = "price_1,price_2,price_3") -> Callable[[], object]:
    rows = [f"b,{t},{price_1 if t == 4 else 40},12,8" for t in range(51)]
    return lambda: write(*rows, header=f"scenario_id,t,{header}")


NESTED = pl.DataFrame({"scenario_id": ["a"] * 7, "t": range(7), "price": [[1.0]] * 7})
WHOLE = pl.DataFrame({"scenario_id": ["a"] * 7, "t": range(7), "price": [5.0] * 7})
TABLES: dict[str, tuple[str, Callable[[], object], str]] = {
    # The file.
    "no file": ("bunkering", lambda: None, "v.csv: no such file"),
    "a folder": ("bunkering", lambda: Path("v.csv").mkdir(), "v.csv: is a folder"),
    "empty": ("bunkering", lambda: Path("v.csv").write_text(""), "v.csv: is empty"),
    "blank": ("bunkering", lambda: Path("v.csv").write_text("\n \n"), "v.csv"),
    "header only": ("bunkering", lambda: write(), "v.csv: has no rows"),
    "not UTF-8": (
        "bunkering",
        lambda: Path("v.csv").write_bytes(b"scenario_id,t,price\n\xff,0,1\n"),
        "row 2: is not text in UTF-8",
    ),
    "UTF-16": (
        "bunkering",
        lambda: Path("v.csv").write_bytes("\n".join([HEADER, *voyage("a")]).encode("utf-16")),
        "is text in UTF-16",
    ),
    "binary": ("bunkering", lambda: Path("v.csv").write_bytes(b"a,b\n\0\0\0,1\n"), "v.csv"),
    "too many fields": (
        "bunkering",
        lambda: write(*voyage("a")[:6], "a,6,900,0,1"),
        "row 8: has 5 fields, but the header has 4",
    ),
    "open quote": ("bunkering", changed(1, 0, '"a'), "a quote"),
    "semicolons": (
        "bunkering",
        lambda: write(
            *(row.replace(",", ";") for row in voyage("a")), header="scenario_id;t;price"
        ),
        "no column 'scenario_id'",
    ),
    # The header.
    "no id": ("bunkering", lambda: write("0,5", header="t,price"), "no column 'scenario_id'"),
    "two ids": (
        "bunkering",
        lambda: write("a,a,0,5", header="scenario_id,voyage_id,t,price"),
        "has both 'scenario_id' and 'voyage_id'",
    ),
    "no t": ("bunkering", lambda: write("a,5", header="scenario_id,price"), "no column 't'"),
    "no price": (
        "bunkering",
        lambda: write("a,0,5", header="scenario_id,t,Price"),
        "no column 'price': found 'scenario_id', 't', 'Price'; name the columns",
    ),
    "two prices": (
        "bunkering",
        lambda: write("a,0,5,6", header="scenario_id,t,price,price"),
        "two columns are named 'price'",
    ),
    "prices of another problem": ("bunkering", basket(40), "no column 'price'"),
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
    "one of two levels": (
        "hybrid",
        lambda: write("a,0,gas,3", header="scenario_id,t,mode,level_gas"),
        "has 'level_gas' but no column 'level_electric'; give all or none",
    ),
    "one of three prices": ("basket", basket(40, "price_1,price_2,p3"), "no column 'price_3'"),
    # Entries.
    "id empty": ("bunkering", changed(3, 0, ""), "row 5, column 'scenario_id': is empty"),
    "id too long": ("bunkering", lambda: write(*voyage("x" * 300)), "longer than 200 characters"),
    "t empty": ("bunkering", changed(3, 1, ""), "row 5, column 't': is empty"),
    "t a word": ("bunkering", changed(3, 1, "three"), "row 5, column 't': 'three' is not a fin"),
    "t a fraction": ("bunkering", changed(3, 1, "3.5"), "'3.5' is not a whole number"),
    "t negative": ("bunkering", changed(0, 1, "-1"), "'-1' is not a whole number"),
    "t twice": ("bunkering", changed(3, 1, "2"), "row 5, column 't': 2 where 3 is expected"),
    "t from one": (
        "bunkering",
        lambda: write(*(f"a,{t},5,0" for t in range(1, 8))),
        "row 2, column 't': 1 where 0 is expected; number the decisions of 'a' 0 to 6, in order",
    ),
    "price empty": ("bunkering", changed(3, 2, ""), "row 5, column 'price': is empty; fill it in"),
    "price a word": ("bunkering", changed(3, 2, "dear"), "'dear' is not a finite number"),
    "price zero": ("bunkering", changed(3, 2, "0"), "row 5, column 'price': '0' is not a price"),
    "price negative": ("bunkering", changed(3, 2, "-9"), "'-9' is not a price"),
    "price not finite": ("bunkering", changed(3, 2, "inf"), "'inf' is not a finite number"),
    "price absurd": ("bunkering", changed(3, 2, "1e13"), "above 0 and at most 1e+12"),
    "price of the basket": ("basket", basket(-4), "row 6, column 'price_1': '-4' is not a price"),
    "bought less than nothing": (
        "bunkering",
        changed(3, 3, "-1"),
        "'-1' is below 0; give",
    ),
    "bought a word": ("bunkering", changed(3, 3, "all"), "'all' is not a finite number"),
    "bought left out once": (
        "bunkering",
        changed(3, 3, ""),
        "row 5, column 'action': is empty, but",
    ),
    "mode unknown": ("hybrid", journeys("j,0,Gas,2"), "'Gas' is not one of gas, electric, braking"),
    "mode of seven": ("hybrid", journeys("j,0,gas1,2"), "'gas1' is not one of gas, electric"),
    "speed negative": (
        "hybrid",
        lambda: write(
            *(f"j,{t},-3,0" for t in range(10)), header="scenario_id,t,speed,acceleration"
        ),
        "'-3' is below 0; give the mean speed",
    ),
    "half a unit": ("hybrid", journeys("j,0,gas,1.5"), "'1.5' is not a whole number of units"),
    "exercised twice as much": ("options", options("o,0,40,2"), "'2' is neither 0 nor 1"),
    "level over the tank": (
        "bunkering",
        lambda: write(
            *(f"{row},{60 if ',0,' in row[:5] else ''}" for row in voyage("a")),
            header=f"{HEADER},level",
        ),
        "row 2, column 'level': '60' does not fit",
    ),
    "level later on": (
        "bunkering",
        lambda: write(*(f"{row},5" for row in voyage("a")), header=f"{HEADER},level"),
        "row 3, column 'level': '5' is not for later rows",
    ),
    "half a level": (
        "hybrid",
        journeys(
            "j,0,gas,2,3,",
            *(f"j,{t},gas,2,," for t in range(1, 10)),
            header="scenario_id,t,mode,action,level_gas,level_electric",
        ),
        "column 'level_electric': is empty, but another level",
    ),
    # Scenarios.
    "too short": (
        "bunkering",
        lambda: write(*voyage("a")[:6]),
        "row 7, column 't': 'a' has 6 decisions, but this problem has 7, t = 0 to 6",
    ),
    "too long": ("bunkering", lambda: write(*voyage("a"), "a,7,9,0"), "'a' has 8 decisions"),
    "another horizon": (
        "options",
        lambda: write(*(f"a,{t},40" for t in range(7)), header="scenario_id,t,price"),
        "problem has 11, t = 0 to 10",
    ),
    "in two places": (
        "bunkering",
        lambda: write(*voyage("a"), *voyage("b"), *voyage("a")),
        "row 16, column 'scenario_id': 'a' continues here what began in row 2",
    ),
}
PARQUET: dict[str, tuple[Callable[[], object], str]] = {
    "no Parquet": (lambda: Path("v.parquet").write_text(HEADER), "v.parquet: is no Parquet table"),
    "cut off": (lambda: cut(WHOLE), "v.parquet: is cut off"),
    "lists": (lambda: NESTED.write_parquet("v.parquet"), "column 'price': holds List"),
    "nulls": (
        lambda: WHOLE.with_columns(price=None).write_parquet("v.parquet"),
        "row 1, column 'price': is empty",
    ),
    "another kind": (lambda: write(name="v.parquet"), "v.parquet"),
}
ARGUMENTS: dict[tuple[str, ...], str] = {
    ("--scenarios", "v.txt"): "v.txt: has the extension '.txt'",
    ("--scenarios", "v.csv", "--step", "2"): "--step is for a single decision",
    ("--scenarios", "v.csv", "--price", "9"): "--price is for a single decision",
    ("--scenarios", "v.csv", "--level", "9"): "--level is for a single decision",
    ("--scenarios", "v.csv", "--workers", "2"): "--workers is for runs in a folder: give -o",
    ("--scenarios", "v.csv", "--cluster", "tcp://x:1"): "--cluster is for runs in a folder",
    ("--scenarios", "v.csv", "-o", "r.csv"): "-o r.csv: names a file; give the folder of a run",
    ("--scenarios", "v.csv", "-o", "no/where"): "no/where",
    ("--scenarios", "v.csv", "-o", "v.csv/x"): "v.csv/x",
    ("--scenarios", "v.csv", "-o", "o", "--workers", "0"): "'0' is not a whole number from 1",
    ("--scenarios", "v.csv", "-o", "o", "--workers", "2", "--cluster", "a"): "give one of them",
    ("--scenarios", "v.csv", "--modes", "7"): "--modes is for hybrid, not for bunkering",
    ("--scenarios", "v.csv", "--config", "Z"): "--config 'Z' is not one of",
    ("--scenarios", "v.csv", "--prices-csv", "x.csv"): "x.csv: no such file",
    ("--scenarios", "v.csv", "--scenarios-template", "x.csv"): "does not go with",
    ("--scenarios-template", "x.json"): "templates end in .csv",
    ("--scenarios-template", "no/x.csv"): "the folder does not exist",
    ("-o", "out"): "-o is for runs over a table: give --scenarios",
    ("--workers", "2"): "--workers is for runs over a table",
    ("--cluster", "tcp://x:1"): "--cluster is for runs over a table",
}


def refused(run: Run, words: str, *arguments: str) -> None:
    """Exit code 2, clear lines that name the place, nothing printed or written."""
    before = sorted(Path().rglob("*"))
    result = run("plan", *arguments)
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert 1 <= len(lines) <= 4
    assert all(line.startswith("error: ") for line in lines)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("name", TABLES)
def test_bad_tables(run: Run, name: str) -> None:
    domain, make, words = TABLES[name]
    make()
    refused(run, words, domain, "--scenarios", "v.csv")


@pytest.mark.parametrize("name", ["no price", "price zero", "too short", "open quote"])
def test_bad_tables_for_a_folder(run: Run, name: str) -> None:
    domain, make, words = TABLES[name]
    make()
    refused(run, words, domain, "--scenarios", "v.csv", "-o", "out", "--workers", "1")


@pytest.mark.parametrize("name", PARQUET)
def test_bad_parquet(run: Run, name: str) -> None:
    make, words = PARQUET[name]
    make()
    refused(run, words, "bunkering", "--scenarios", "v.parquet")


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_bad_arguments(run: Run, arguments: tuple[str, ...]) -> None:
    write(*voyage("a"))
    Path("v.txt").write_text("x")
    refused(run, ARGUMENTS[arguments], "bunkering", *arguments)


def test_seven_modes_have_no_speeds(run: Run) -> None:
    write("a,0,3,0", header="scenario_id,t,speed,acceleration")
    refused(run, "no column 'mode': found", "hybrid", "--modes", "7", "--scenarios", "v.csv")


def test_the_corpus_is_large() -> None:
    assert len(TABLES) + len(PARQUET) + len(ARGUMENTS) >= 70
