"""A planning problem of one's own is one file: every command and view knows it by what it says."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import counterplan as cp
from counterplan.domains.problems import TRUSTED, load_problem, options_of, problem_class
from counterplan.errors import InputError
from counterplan.planning.description import about, axes_of, columns_of, state_in_words
from counterplan.planning.model import State

from ..explorer.serving import serving
from .conftest import Run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "reservoir.py"
DOMAIN = "reservoir.py"


@pytest.fixture(autouse=True)
def _beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv(TRUSTED, "")
    shutil.copy(EXAMPLE, DOMAIN)


def test_the_command_line_knows_its_options(run: Run) -> None:
    shown = run("plan", DOMAIN, "--help").stdout
    for text in ("--inflow NUMBER", "Of a month.", "--price VALUE", "--storage VALUE"):
        assert text in shown
    asked = ("--storage", "8", "--price", "55", "--inflow=0", "--step", "3", "--simulations", "50")
    result = run("plan", *asked, DOMAIN, "--json")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    dam = load_problem(DOMAIN)(inflow=0.0)
    state = State(3, record["state"]["exogenous"], record["state"]["resource"])
    found = cp.plan(dam, state, cp.UCT(50), seed=0)
    assert record["value"] == found.value
    assert record["words"] == dam.describe(found.action)
    assert record["state"]["words"] == "month 4 of 6, price 55 EUR/MWh, stored 8 hm3"
    # What its search stands on, and is held against, is named.
    assert record["basis"] == found.basis
    assert "value on a lattice" in record["basis"]


MISTAKES = {
    ("--storage", "13"): "--storage 13 does not fit; give the water stored, 0 to 12",
    ("--price", "-1"): "--price -1 is not a price",
    ("--step", "2"): "--step 2 needs --price",
    ("--inflow", "much"): "'much' is not a number",
    ("--modes", "7"): f"--modes is for hybrid, not for {DOMAIN}",
    ("--colour", "red"): f"no such option: --colour (see counterplan plan {DOMAIN} --help)",
    ("--colour",): "--colour needs a value",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_mistakes(run: Run, arguments: tuple[str, ...]) -> None:
    result = run("plan", DOMAIN, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert MISTAKES[arguments] in result.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.py", "none.py: no such file"),
        ("broken.py", "broken.py: cannot be run: ZeroDivisionError"),
        ("empty.py", "which class is the problem? It has none with horizon"),
        (f"{DOMAIN}:Dam", "It has Reservoir; name it as reservoir.py:Class"),
        ("no.such.module:Dam", "cannot be imported"),
        ("json:Dam", "json has no 'Dam'"),
        ("json:JSONDecoder", "is not a planning problem"),
    ],
)
def test_files_that_are_no_problem(run: Run, name: str, words: str) -> None:
    Path("broken.py").write_text("1 / 0")
    Path("empty.py").write_text("")
    result = run("plan", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


def test_folders_may_be_called_anything() -> None:
    """Also as on Windows, where a path begins with a colon's letter."""
    for name in ("my.pyfiles", "C:")[: 2 if os.name == "posix" else 1]:
        Path(name).mkdir()
        shutil.copy(EXAMPLE, Path(name, "dam.py"))
        assert load_problem(f"{name}/dam.py").__name__ == "Reservoir"
        assert load_problem(f"{name}/dam.py:Reservoir").__name__ == "Reservoir"


def test_tables_figures_report_and_explorer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file through all of them; whoever opens the run must say that he trusts it."""
    # Two months are judged in a third of the time.
    short = EXAMPLE.read_text().replace("MONTHS, MOST = 6,", "MONTHS, MOST = 2,")
    domain = "dam.py"
    Path(domain).write_text(short)
    assert run("plan", domain, "--scenarios-template", "months.csv").exit_code == 0
    header, *rows = Path("months.csv").read_text().splitlines()
    assert header == "scenario_id,t,price,release"
    assert rows[0].startswith("s01,0,40,")
    some = [row for row in rows if row.startswith(("s01,", "s02,"))]
    Path("months.csv").write_text("\n".join([header, *some]) + "\n")
    result = run("plan", domain, "--scenarios", "months.csv", "-o", "run", "--workers", "1")
    assert result.exit_code == 0, result.stderr
    assert "2 scenarios; higher is better" in result.stdout

    monkeypatch.setenv(TRUSTED, "")
    refused = run("report", "run")
    assert refused.exit_code == 2
    assert "is code that this run names" in refused.stderr
    assert f"--problem {domain}" in refused.stderr
    made = run("report", "run", "-o", "page.html", "--cases", "1", "--problem", domain)
    assert made.exit_code == 0, made.stderr
    page = Path("page.html").read_text()
    for text in ("Water behind a dam", "released (hm3)", "stored (hm3)", "month t"):
        assert text in page

    dam = load_problem(domain)()
    path = dam.sample_path(seed=3)
    done = cp.hindsight(dam, path).actions
    lost = cp.regret(dam, path, done, policy=cp.policies.Resolve())
    titles = [axes.get_ylabel() for axes in cp.viz.path_figure(lost, dam, path).axes]
    assert titles[:3] == ["price (EUR/MWh)", "released (hm3)", "stored (hm3)"]

    with serving(Path("run")) as explorer:
        assert explorer.get("run")["noun"] == "half-year"
        found = explorer.get("scenario", id="s01")
        assert found["parts"] == ["released (hm3)"]
        assert found["tanks"] == ["stored (hm3)"]
        assert found["tracks"][0]["words"][0].startswith("release ")
        assert found["states"][0].startswith("month 1 of 2, price 40 EUR/MWh")


def test_what_a_problem_does_not_say_is_made_up() -> None:
    stock = cp.ExogenousMDP(
        process=cp.processes.GBM([20.0, 30.0], 0.05, 0.4, dt=1 / 12, kind="correlated"),
        reward=[[1.0, 0.0], [0.0, 1.0]],
        resources=[cp.Resource(start=30), cp.Resource(start=20)],
        step_bounds=[(0, 10)] * 4,
    )
    columns, axes = columns_of(stock), axes_of(stock)
    assert [column.name for column in columns.observed] == ["x_1", "x_2"]
    assert [column.name for column in columns.start] == ["level_1", "level_2"]
    assert axes.actions == ("action 1", "action 2")
    assert axes.action_keys == ("_1", "_2")
    words = "step 1 of 4, x 1 20, x 2 30, resource 1 30, resource 2 20"
    assert state_in_words(stock, stock.start) == words
    assert about(stock)
    assert set(options_of(problem_class("basket"))) == {"config", "correlation"}
    with pytest.raises(InputError, match="unknown domain 'boat'"):
        problem_class("boat")
