"""Tables of scenarios: what is read from them, in any domain, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.core import table as csv_blocks
from counterplan.core.validation import FloatArray
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import InfeasibleError
from counterplan.planning.description import columns_of
from counterplan.planning.evaluate import carried_out
from counterplan.tables.scenarios import (
    SCENARIOS,
    Scenario,
    open_scenarios,
    scenario_parts,
    scenarios_from_bytes,
    scenarios_to_bytes,
    write_template,
)

from ..planning.selling import random_selling

PROBLEMS: dict[str, Any] = {
    "bunkering": lambda: Bunkering("A"),
    "hybrid": lambda: HybridVehicle("A"),
    "seven modes": lambda: HybridVehicle("C", 7, "half"),
    "hidden": lambda: HybridVehicle("A", hidden=True),
    "seven hidden": lambda: HybridVehicle("A", 7, hidden=True),
    "option": lambda: AmericanOption("C"),
    "basket": lambda: OptionBasket("F"),
}


def read(path: Path, problem: Any) -> list[Scenario]:
    return list(open_scenarios(path, columns_of(problem)).scenarios())


def same(one: FloatArray | None, other: FloatArray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def assert_same(some: list[Scenario], others: list[Scenario]) -> None:
    assert [one.id for one in some] == [one.id for one in others]
    for one, other in zip(some, others, strict=True):
        for name in ("observed", "decisions", "start"):
            assert same(getattr(one, name), getattr(other, name)), (one.id, name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_template_is_a_table(name: str, tmp_path: Path) -> None:
    """It is read back, its paths are possible, and so are its decisions; Parquet says the same."""
    problem = PROBLEMS[name]()
    columns = columns_of(problem)
    path = tmp_path / "scenarios.csv"
    write_template(path, columns, seed=3)
    found = read(path, problem)
    assert len(found) == SCENARIOS
    sampled = problem.sample_paths(SCENARIOS, 3)
    for scenario, future in zip(found, sampled, strict=True):
        exogenous = columns.path(scenario.observed)
        assert exogenous == pytest.approx(future, rel=1e-9, abs=1e-12)
        state = columns.state(exogenous, scenario.start)
        assert np.array_equal(state.resource, problem.start.resource)
        assert scenario.decisions is not None
        actions = columns.actions(exogenous, state, scenario.decisions)
        carried_out(problem, exogenous, actions, state)
    table = tmp_path / "scenarios.parquet"
    pl.read_csv(path).write_parquet(table)
    assert_same(read(table, problem), found)
    parts = list(scenario_parts(iter(found), columns, 4))
    assert [len(scenarios_from_bytes(part, columns)) for part in parts] == [4, 4, 2]
    assert_same([one for part in parts for one in scenarios_from_bytes(part, columns)], found)


@settings(max_examples=40)
@given(st.data())
def test_parts_keep_everything(data: st.DataObject) -> None:
    problem = PROBLEMS[data.draw(st.sampled_from(["bunkering", "hybrid", "basket"]))]()
    columns = columns_of(problem)
    T, D = problem.horizon, len(columns.start)
    names = data.draw(
        st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=4, unique=True)
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    scenarios = [
        Scenario(
            name,
            rng.integers(0, 3, (T, len(columns.observed))).astype(float),
            rng.random((T, len(columns.decisions))) if rng.random() < 0.5 else None,
            rng.random(D) if D and rng.random() < 0.5 else None,
        )
        for name in names
    ]
    content = scenarios_to_bytes(scenarios, columns)
    assert content == scenarios_to_bytes(scenarios, columns)
    assert_same(scenarios_from_bytes(content, columns), scenarios)


def bunkering_csv(*rows: str, header: str = "scenario_id,t,price,action") -> str:
    return "\n".join([header, *rows]) + "\n"


def voyage(name: str, prices: Any = range(1000, 1007), actions: Any = None) -> list[str]:
    bought = [50, 12, 25, 30, 16, 0, 0] if actions is None else actions
    return [f"{name},{t},{p},{a}" for t, (p, a) in enumerate(zip(prices, bought, strict=True))]


class TestReading:
    def test_order_is_kept_and_columns_may_stand_anywhere(self, tmp_path: Path) -> None:
        path = tmp_path / "voyages.csv"
        rows = [f"x,{price},{t},{who}" for who in ("b", "a") for t, price in enumerate(range(1, 8))]
        path.write_text("port,price,t,voyage_id\n" + "\n".join(rows))
        table = open_scenarios(path, columns_of(Bunkering("A")))
        found = list(table.scenarios())
        assert [one.id for one in found] == ["b", "a"]
        assert found[0].observed.ravel().tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert found[0].decisions is None
        assert table.unused == ("port",)

    def test_starts(self, tmp_path: Path) -> None:
        problem = HybridVehicle("A")
        path = tmp_path / "journeys.csv"
        rows = [f"j,{t},gas,{'3,5' if t == 0 else ','}" for t in range(10)]
        rows += [f"k,{t},gas,," for t in range(10)]
        path.write_text("\n".join(["episode_id,t,mode,level_gas,level_electric", *rows]))
        first, second = read(path, problem)
        assert first.start is not None
        assert first.start.tolist() == [3.0, 5.0]
        assert second.start is None
        assert columns_of(problem).state(np.zeros((10, 3)), first.start).resource.tolist() == [3, 5]

    def test_some_scenarios_may_have_no_decisions(self, tmp_path: Path) -> None:
        path = tmp_path / "v.csv"
        path.write_text(bunkering_csv(*voyage("a"), *voyage("b", actions=[""] * 7)))
        first, second = read(path, Bunkering("A"))
        assert first.decisions is not None
        assert second.decisions is None

    def test_blocks_do_not_matter(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Scenarios that are cut by the end of a block are whole."""
        path = tmp_path / "v.csv"
        rows = [row for i in range(40) for row in voyage(f"v{i}", actions=range(7))]
        path.write_text(bunkering_csv(*rows))
        usual = read(path, Bunkering("A"))
        monkeypatch.setattr(csv_blocks, "BLOCK", 100)
        assert_same(read(path, Bunkering("A")), usual)

    def test_speeds_as_modes(self, tmp_path: Path) -> None:
        path = tmp_path / "j.csv"
        speeds = [13.4, 13.39, 20, 5, 0, 20, 20, 3, 3, 3]
        rates = [0, 0, -0.25, -0.2501, 0, -3, 1, 1, -1, 0]
        rows = [f"j,{t},{v},{a}" for t, (v, a) in enumerate(zip(speeds, rates, strict=True))]
        path.write_text("\n".join(["scenario_id,t,speed,acceleration", *rows]))
        (found,) = read(path, HybridVehicle("A"))
        assert found.observed.ravel().tolist() == [0, 1, 0, 2, 1, 2, 0, 1, 2, 1]


class TestHiddenModes:
    columns = HybridVehicle("A", hidden=True).columns()

    def test_beliefs_follow_bayes(self) -> None:
        """By hand: gas at first, then something that looks electric."""
        law: Any = self.columns.problem.law
        seen = np.array([[0.0], [1.0], *[[2.0]] * 8])
        path = self.columns.path(seen)
        predicted = law.transitions[0]
        likely = predicted * law.probabilities[:, 1]
        assert path[1, 2:] == pytest.approx(likely / likely.sum())
        assert path[2:, 2:].tolist() == [[0.0, 0.0, 1.0]] * 8

    def test_what_cannot_be(self) -> None:
        """Of seven modes braking never follows braking."""
        columns = HybridVehicle("A", 7, hidden=True).columns()
        seen = np.array([[6.0], [6.0], *[[0.0]] * 8])
        with pytest.raises(InfeasibleError, match="'braking' at t=1 cannot follow"):
            columns.path(seen)


def test_any_problem_has_tables(tmp_path: Path) -> None:
    """One that says nothing about itself has numbered columns."""
    problem = random_selling(0)
    columns = columns_of(problem)
    names = [column.name for column in (*columns.observed, *columns.decisions, *columns.start)]
    assert names == ["x", "action", "level"]
    path = tmp_path / "s.csv"
    rows = [f"s,{t},1.5,0" for t in range(problem.horizon)]
    path.write_text("\n".join(["scenario_id,t,x,action", *rows]))
    (found,) = read(path, problem)
    assert found.observed.ravel().tolist() == [1.5] * problem.horizon
