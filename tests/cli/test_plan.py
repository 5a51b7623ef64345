"""`counterplan plan`: what it prints, that it agrees with the library, and every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.planning.exact_value import exact_value
from counterplan.planning.model import State
from counterplan.planning.processes.prices import BootstrapPrices, read_prices
from counterplan.planning.search.planners import MENTS, UCT, plan

from .conftest import Run

FAST = ("--simulations", "60")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def asked(run: Run, *arguments: str) -> dict[str, Any]:
    result = run("plan", *arguments, *FAST, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def test_it_says_what_the_library_says(run: Run) -> None:
    record = asked(run, "bunkering", "--config", "B", "--seed", "4")
    problem = Bunkering("B")
    found = plan(problem, planner=UCT(simulations=60), clip=True, seed=4)
    assert record["action"] == found.action.tolist()
    assert record["value"] == found.value
    assert record["se"] == found.se
    assert [choice["value"] for choice in record["choices"]] == found.values.tolist()
    assert sum(choice["simulations"] for choice in record["choices"]) == 60
    assert record["exact"] == exact_value(problem)
    assert (record["sense"], record["unit"]) == ("min", "money units")
    bounds = record["bounds"]
    # Means over 10,000 futures: 5 standard errors.
    assert bounds["lower"] - 5 * bounds["lower_se"] <= record["exact"]
    assert record["exact"] <= bounds["upper"] + 5 * bounds["upper_se"]
    assert bounds["lower"] < bounds["upper"]
    assert "hindsight" in bounds["lower_method"]
    assert bounds["upper_method"] == "executed open loop"


def test_the_same_seed_gives_the_same_answer(run: Run) -> None:
    records = [asked(run, "options", "--config", "C", "--seed", seed) for seed in ("1", "1", "2")]
    for record in records:
        for name in ("seconds", "simulations_per_second"):
            del record["stats"][name]
    assert records[0] == records[1] != records[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bunkering", "--step", "6", "--price", "900", "--level", "17"), {"buy nothing"}),
        (("hybrid", "--mode", "braking"), {"use nothing"}),
        (("options", "--config", "D"), {"exercise", "hold"}),
        (
            ("basket", "--config", "A", "--step", "50", "--price", "50,9,9"),
            {"exercise option 1 and option 3", "exercise option 1", "hold all"},
        ),
    ],
)
def test_actions_in_words(run: Run, arguments: tuple[str, ...], words: set[str]) -> None:
    record = asked(run, *arguments)
    assert {choice["words"] for choice in record["choices"]} == words
    assert record["words"] in words


def test_another_state(run: Run) -> None:
    record = asked(run, "hybrid", "--step", "4", "--mode", "electric", "--level", "3,5")
    problem = HybridVehicle("A")
    state = State(4, np.array([0.0, 1.0, 0.0]), np.array([3.0, 5.0]))
    assert record["exact"] == exact_value(problem, state)
    assert record["state"]["words"] == "step 5 of 10, electric mode, 3 gas, 5 electric"
    words = {choice["words"] for choice in record["choices"]}
    assert words == {f"{gas} gas, {4 - gas} electric" for gas in range(4)}
    bounds = record["bounds"]
    assert bounds["lower"] - 5 * bounds["lower_se"] <= record["exact"]
    assert record["exact"] <= bounds["upper"] + 5 * bounds["upper_se"]


OWN = """
import numpy as np
from counterplan.planning import State

class Stock:
    horizon, sense = 6, "max"
    start = State(0, np.array([5.0]), np.array([8.0]))

    def draw(self, t, x, generator):
        return generator.integers(3, 10, x.shape).astype(float)

    def actions(self, state):
        return np.arange(0.0, 21.0 - state.resource[0])[:, None]

    def step(self, t, x, d, a):
        sold = np.minimum(d[:, 0], x[:, 0])
        left = d[:, 0] - sold
        return 6 * sold - 2.5 * a[:, 0] - 0.3 * left, (left + a[:, 0])[:, None]
"""


def test_own_steps_and_risk(run: Run) -> None:
    """A file with nothing but steps is planned, and says what for and on what."""
    Path("stock.py").write_text(OWN)
    found = asked(run, "stock.py", "--simulations", "20")
    assert found["basis"].startswith("value on a lattice")
    assert found["bounds"] is None
    averse = asked(run, "stock.py", "--risk", "0.2")
    assert averse["risk"] == "0.2"
    assert averse["value"] < found["value"]
    assert "worst 20 %" in averse["basis"]
    assert "on a lattice" in run("plan", "stock.py", "--risk", "0.5,0.2").output


def test_planners_and_clipping(run: Run) -> None:
    state = ("options", "--config", "C", "--step", "3", "--price", "34.5")
    record = asked(run, *state, "--planner", "ments", "--no-clip")
    at = State(3, np.array([34.5]), np.ones(1))
    found = plan(AmericanOption("C"), at, MENTS(simulations=60), clip=False)
    assert (record["planner"], record["clip"]) == ("MENTS", False)
    assert record["value"] == found.value
    for name in ("bts", "dents"):
        assert asked(run, *state, "--planner", name)["planner"] == name.upper()


def test_recorded_prices_and_speeds(run: Run) -> None:
    rng = np.random.default_rng(0)
    prices = 80.0 * np.exp(np.cumsum(0.04 * rng.standard_normal(80)))
    days = np.datetime64("2024-01-01") + np.arange(80)
    rows = "".join(f"{day},{price:.4f}\n" for day, price in zip(days, prices, strict=True))
    Path("prices.csv").write_text("Date,Price\n" + rows)
    record = asked(run, "bunkering", "--prices-csv", "prices.csv")
    assert record["config"] is None
    assert record["state"]["exogenous"] == [pytest.approx(prices[-1], abs=1e-4)]
    assert record["bounds"]["lower"] <= record["exact"] <= record["bounds"]["upper"]
    one_price = asked(run, "bunkering", "--prices-csv", "prices.csv", "--prices", "global")
    ship = Bunkering(prices=BootstrapPrices(read_prices("prices.csv"), kind="global"))
    assert one_price["exact"] == pytest.approx(exact_value(ship), rel=1e-12)
    speeds = np.clip(10 + 12 * np.sin(np.arange(400) / 20), 0, None)
    Path("cycle.csv").write_text(
        "cycSecs,cycMps\n" + "".join(f"{t},{v:.3f}\n" for t, v in enumerate(speeds))
    )
    assert asked(run, "hybrid", "--drive-cycle", "cycle.csv")["words"].endswith("electric")
    assert "with recorded prices" in run("plan", "bunkering", "--prices-csv", "prices.csv").stdout


# Those that tests/corpus has not.
MISTAKES = {
    "options --level 1": "--level is for bunkering and hybrid and basket, not for options",
    "options --prices global": "--prices 'global': an option's are 'gbm' or 'binomial'",
    "bunkering --prices gbm": "bunkering's are 'independent' or 'global'",
    "bunkering --capacity 20": "leg t=1 needs 25, but the capacity is 20",
    "hybrid --capacity lots": "--capacity 'lots': give tight, half or a number",
    "hybrid --capacity 2.5": "--capacity '2.5': fuel comes in whole units",
    "hybrid --modes 7 --drive-cycle x.csv": "--drive-cycle shows 3 modes, not 7",
    "bunkering --prices-csv x.csv --config B": "--prices-csv brings its own",
    "hybrid --step 3": "--step 3 needs --mode",
    "hybrid --level 1.5,2": "--level 1.5 does not fit; give what is left, 0 to 10",
    "basket --level 1,1": "expected 3 numbers with commas between",
    "basket --level 1,1,2": "--level 2 is neither 0 nor 1; 1 if the option is held",
    "basket --correlation x": "'x' is not a number",
    "hybrid --hidden --mode gas": "--hidden: only the start can be asked",
}


@pytest.mark.parametrize("arguments", MISTAKES)
def test_mistakes_are_told_in_one_line(run: Run, arguments: str) -> None:
    result = run("plan", *arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert MISTAKES[arguments] in result.stderr
