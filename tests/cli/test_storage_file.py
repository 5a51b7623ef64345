"""Problems stated in TOML: decisions, tables of scenarios, and files that cannot be right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains.problems import stated
from counterplan.domains.storage_file import read_storage
from counterplan.errors import CounterplanError
from counterplan.explorer.scenarios import Scenarios

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "battery.toml"
TEXT = EXAMPLE.read_text().replace('unit = "EUR"\n', "")


def written(folder: Path, old: str = "", new: str = "", text: str = TEXT) -> Path:
    assert old in text
    path = folder / "problem.toml"
    path.write_text(text.replace(old, new, 1) if old else text)
    return path


def test_entries_of_the_command_line_replace_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    plain = read_storage(path)
    larger = read_storage(path, horizon=6, change="battery.capacity=20, charge.most=5")
    assert (plain.horizon, larger.horizon) == (12, 6)
    assert larger.storages[0].capacity == 20.0
    assert larger.flows[0].most == 5.0
    assert cp.exact_value(plain) > 0.0


def test_limits_and_efficiencies_by_step(tmp_path: Path) -> None:
    limits = '[limits.inverter]\nflows = ["charge", "discharge"]\nmost = 1.5\n'
    limits += '[limits.net]\nflows = { discharge = 1, charge = -1 }\nmost = "0.02 * price"\n'
    shares = f"efficiency = {[0.9] * 12}"
    path = written(tmp_path, text=TEXT.replace("efficiency = 0.95", shares) + limits)
    problem = read_storage(path)
    assert [one.name for one in problem.limits] == ["inverter", "net"]
    assert cp.exact_value(problem) < cp.exact_value(read_storage(EXAMPLE))
    by_number = written(
        tmp_path, text=TEXT.replace("efficiency = 0.95", "efficiency = 0.9") + limits
    )
    assert cp.exact_value(problem) == pytest.approx(cp.exact_value(read_storage(by_number)))
    loose = read_storage(path, change="inverter.most=99, net.most=99")
    assert cp.exact_value(loose) > cp.exact_value(problem)


PROCESS = TEXT[TEXT.index("[process]") : TEXT.index("[storages")]
KINDS = {
    "gbm": 'kind = "gbm"\ninitial = 40\nvolatility = 0.5\ndt = 0.04\n',
    "lattice": 'kind = "lattice"\ninitial = 40\nvolatility = 0.5\ndt = 0.04\n',
    "mean-reversion": 'kind = "mean-reversion"\ninitial = 40\nmean = 45\nkeep = 0.8\n'
    "deviation = 0.2\nlogs = true\n",
    "two prices": 'kind = "gbm"\ninitial = [40, 3]\nvolatility = [0.5, 0.2]\ndt = 0.04\n'
    'correlation = 0.5\nnames = ["price (EUR/MWh)", "gas"]\n',
}


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_a_file_states(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, PROCESS, f"[process]\n{KINDS[kind]}\n")
    problem = stated(str(path)).make()
    assert problem.start.exogenous[0] == 40.0
    paths = problem.sample_paths(50, 0)  # type: ignore[attr-defined]
    assert np.isfinite(problem.allocate(paths).values).all()  # type: ignore[attr-defined]


def test_prices_of_a_table_replace_the_process(tmp_path: Path) -> None:
    rng, table = np.random.default_rng(0), tmp_path / "prices.csv"
    prices, level = [], 0.0
    for _ in range(400):
        level = 0.8 * level + rng.normal(0.0, 5.0)
        prices.append(f"{45.0 + level:.3f}")
    table.write_text("\n".join(["price", *prices]))
    problem = read_storage(written(tmp_path), prices=table, horizon=4)
    assert problem.start.exogenous[0] == pytest.approx(float(prices[-1]))
    assert problem.axes().observed[0] == "price"
    problem.process.save(tmp_path / "prices.safetensors")  # type: ignore[attr-defined]
    again = read_storage(written(tmp_path), prices=tmp_path / "prices.safetensors", horizon=4)
    assert np.array_equal(again.mean_path(), problem.mean_path())


# What is written in the place of what, and what must be said.
WRONG = {
    "no TOML": ("horizon = 12", "horizon = = 12", "is not TOML"),
    "a typo at the top": ("horizon = 12", "horizont = 12", "did you mean 'horizon'?"),
    "a typo in a storage": ("capacity = 10", "capcity = 10", "did you mean 'capacity'?"),
    "a typo in a flow": ("most = 2.5", "mots = 2.5", "did you mean 'most'?"),
    "a typo in the process": ("initial = 1", "inital = 1", "did you mean 'initial'?"),
    "an unknown storage": ('into = "battery"', 'into = "batery"', "did you mean 'battery'?"),
    "an unknown price": ('pays = "price"', 'pays = "prize"', "did you mean 'price'?"),
    "a price that is no sum": ('pays = "price"', 'pays = "price / 2"', "cannot be read at"),
    "an empty price": ('pays = "price"', 'pays = ""', "is empty"),
    "a negative capacity": ("capacity = 10", "capacity = -10", "greater than 0"),
    "a start above": ("start = 5", "start = 50", "exceeds the capacity"),
    "a text for a number": ("capacity = 10", 'capacity = "ten"', "give a number"),
    "a number for a text": ('into = "battery"', "into = 3", "give a text"),
    "keeping more": ("keep = 0.995", "keep = 1.5", "at most 1"),
    "no capacity": ("capacity = 10\n", "", "has no capacity"),
    "no most": ("most = 2.5\n", "", "at a step at most"),
    "a wrong length": ("most = 2.5", "most = [1, 2, 3]", "has 3 entries, but there are 12 steps"),
    "a negative flow": ("most = 2.5", "most = -1", "must lie between 0 and -1"),
    "no horizon": ("horizon = 12\n", "", "say how many steps"),
    "no steps": ("horizon = 12", "horizon = 0", "horizon must be at least 1"),
    "a wrong sense": ('sense = "max"', 'sense = "best"', "sense must be 'max' or 'min'"),
    "an unknown process": ('kind = "markov"', 'kind = "markow"', "did you mean 'markov'?"),
    "rows that do not add up": ("[0.7, 0.2, 0.1]", "[0.7, 0.2, 0.2]", "row 0 sums to"),
    "values of too few modes": ("price = [20, 45, 90]", "price = [20, 45]", "give 3 numbers"),
    "a name twice": ("[flows.charge]", "[flows.battery]", "the name of two things"),
    "a bad name": ("[flows.charge]", '[flows."3 charge"]', "is no name"),
    "a list for a table": ("[process]", "[[process]]", "write a table"),
    "spill that is no flag": ("end_value = 30", "spill = 1", "give true or false"),
    "segments that fall": ("most = 2.5", "segments = [[1, 3], [1, 2]]", "not convex"),
    "segments that are no pairs": ("most = 2.5", "segments = [1, 2]", "pairs of numbers"),
    "a demand that cannot be met": (
        "[flows.charge]",
        '[demands.town]\namount = 9\n[flows.supply]\nout_of = "battery"\ninto = "town"\nmost = 1\n'
        "[flows.charge]",
        "infeasible at step t=0 (demand 'town' of 9)",
    ),
    "a demand that x decides": (
        "[flows.charge]",
        '[demands.town]\namount = "0.1 * price"\n[flows.charge]',
        "(lost_at)",
    ),
    "a limit of nothing": (
        "[flows.charge]",
        "[limits.inverter]\nmost = 1\n[flows.charge]",
        "[limits.inverter] has no flows",
    ),
    "a limit of an unknown flow": (
        "[flows.charge]",
        "[limits.inverter]\nmost = 1\nflows = { charg = 1 }\n[flows.charge]",
        "did you mean 'charge'?",
    ),
    "an efficiency above 1": ("efficiency = 0.95", "efficiency = [0.9, 1.2]", "at most 1"),
    "another domain": ("title", 'domain = "teapot"\ntitle', "is not one of"),
    "no flows": (TEXT[TEXT.index("[flows.charge]") :], "", "there is no flow"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_clear_line(what: str, tmp_path: Path) -> None:
    old, new, said = WRONG[what]
    path = written(tmp_path, old, new)
    with pytest.raises(CounterplanError) as problem:
        stated(str(path)).make()
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)
    assert str(path) in str(problem.value)


@pytest.mark.parametrize("change", ["capacity=3", "batery.capacity=3", "battery.capacity", "a=b=c"])
def test_a_change_of_nothing_is_refused(change: str) -> None:
    with pytest.raises(CounterplanError, match="--change"):
        read_storage(EXAMPLE, change=change)


def test_a_file_states_another_domain(tmp_path: Path) -> None:
    path = written(tmp_path, text='domain = "bunkering"\ncapacity = 60\nprices = "global"\n')
    assert stated(str(path)).make().capacity == 60.0  # type: ignore[attr-defined]
    wrong = written(tmp_path, text='domain = "bunkering"\ncapasity = 60\n')
    with pytest.raises(CounterplanError, match="it has capacity"):
        stated(str(wrong))


def test_decision_scenarios_report(tmp_path: Path, run: Any) -> None:
    def done(*arguments: str, code: int = 0) -> Any:
        found = run(*arguments)
        assert found.exit_code == code, found.output
        return found

    # Lines may end as on Windows.
    (tmp_path / "battery.toml").write_bytes(f'unit = "EUR"\n{TEXT}'.replace("\n", "\r\n").encode())
    path, days = str(tmp_path / "battery.toml"), str(tmp_path / "days.csv")
    state = ["--step", "3", "--price", "90", "--battery", "4", "--simulations", "50"]
    record = json.loads(done("plan", path, "--json", *state).stdout)
    assert record["words"].startswith("discharge")
    assert record["unit"] == "EUR"
    told = done("plan", path, *state).stdout
    assert "EUR, higher is better" in told
    assert re.search(r"planned  [\d.]+ EUR \(se ", told)
    assert max(map(len, told.splitlines()[1:])) <= 80
    assert record["state"]["words"] == "hour 4 of 12, price 90, battery 4 MWh"
    assert "no mode means" in done("plan", path, "--step", "3", "--price", "91", code=2).stderr
    done("plan", path, "--scenarios-template", days)
    header = Path(days).read_text().splitlines()[0]
    assert header == "scenario_id,t,price,charge,discharge"
    folder, report = str(tmp_path / "run"), tmp_path / "report.html"
    judged = done("plan", path, "--scenarios", days, "--k", "2", "-o", folder, "--json")
    found = json.loads(judged.stdout)
    assert (found["failed"], found["unit"]) == (0, "EUR")
    assert found["totals"]["hindsight"] >= found["totals"]["executed"]
    Path(path).unlink()  # a run holds what it was made from
    done("report", folder, "-o", str(report))
    assert "battery (MWh)" in report.read_text()
    assert "Values are in EUR." in report.read_text()
    shown = Scenarios(cp.open_run(folder)).about()
    assert (shown["quantity"], shown["values_in"]) == ("EUR", "EUR")


@pytest.mark.parametrize(
    ("names", "unit", "counted_in"),
    [
        ('["price (EUR/MWh)"]', "", "EUR"),
        ('["price (EUR/MWh)"]', "kEUR", "kEUR"),
        ('["price"]', "", ""),
    ],
)
def test_what_outcomes_are_counted_in(
    names: str, unit: str, counted_in: str, tmp_path: Path
) -> None:
    process = f"[process]\n{KINDS['gbm']}names = {names}\n"
    text = TEXT.replace(PROCESS, f"{process}\n")
    path = written(tmp_path, text=f'unit = "{unit}"\n{text}')
    assert read_storage(path).axes().unit == counted_in
