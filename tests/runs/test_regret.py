"""The task that judges executed plans: the same as `regret`, part by part, without peeking."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.problems import ProblemChoice
from counterplan.errors import InputError
from counterplan.planning.description import axes_of
from counterplan.planning.evaluate import evaluate
from counterplan.planning.model import State
from counterplan.planning.policies import Resolve, futures
from counterplan.planning.processes.prices import BootstrapPrices
from counterplan.planning.regret import regret
from counterplan.planning.search.planners import UCT
from counterplan.runs import regret as regret_task
from counterplan.runs.regret import RegretTask, open_task, regret_spec, scenario_seed, summarised
from counterplan.runs.task import PartResult
from counterplan.runs.task import open_task as open_any
from counterplan.tables.scenarios import Scenario, scenarios_to_bytes

BOUGHT = np.array([[50.0], [12], [25], [30], [16], [0], [0]])


def task_of(domain: str, planner: str | None = None, seed: int = 0, **asked: Any) -> RegretTask:
    return open_task(regret_spec(ProblemChoice(domain, asked), planner, 60, True, seed))


def solved(task: RegretTask, scenarios: list[Scenario]) -> tuple[pl.DataFrame, pl.DataFrame]:
    found = task.solve(scenarios_to_bytes(scenarios, task.columns))
    return frames(found)


def frames(found: PartResult) -> tuple[pl.DataFrame, pl.DataFrame]:
    results, decisions = (
        pl.read_parquet(io.BytesIO(found.tables[name])) for name in ("results", "decisions")
    )
    return results, decisions


def voyages(count: int, seed: int = 0) -> list[Scenario]:
    paths = Bunkering("A").sample_paths(count, seed)
    return [Scenario(f"v{i}", path, BOUGHT) for i, path in enumerate(paths)]


def test_it_says_what_the_library_says() -> None:
    ship, scenarios = Bunkering("A"), voyages(3)
    results, decisions = solved(task_of("bunkering"), scenarios)
    for scenario, row in zip(scenarios, results.iter_rows(named=True), strict=True):
        found = regret(ship, scenario.observed, BOUGHT)
        assert row["scenario_id"] == scenario.id
        assert (row["steps"], row["sense"], row["policy"]) == (7, "min", "optimal")
        assert row["executed"] == found.executed
        assert row["hindsight"] == found.hindsight
        assert row["without_foresight"] == found.without_foresight
        assert row["open_loop"] == found.executed  # it is what was executed
        assert row["regret_hindsight"] == found.regret_hindsight
        assert row["regret_policy"] == found.regret_policy
        assert row["expected_regret"] == found.expected_regret
        assert (row["status"], row["reason"], row["planned"]) == ("optimal", None, None)
        steps = decisions.filter(pl.col("scenario_id") == scenario.id)
        assert steps["t"].to_list() == list(range(7))
        assert steps["price"].to_list() == scenario.observed.ravel().tolist()
        assert steps["executed"].to_list() == BOUGHT.ravel().tolist()
        assert steps["executed_level"].to_list() == found.levels[:-1, 0].tolist()
        assert steps["hindsight"].to_list() == found.hindsight_actions.ravel().tolist()
        assert steps["policy"].to_list() == found.policy_actions.ravel().tolist()
        assert steps["advised"].to_list() == found.advised.ravel().tolist()
        assert found.expected_losses is not None
        assert steps["expected_loss"].to_list() == found.expected_losses.tolist()
        worst = int(found.expected_losses.argmax())
        if found.expected_losses[worst]:
            assert row["costliest"].startswith(f"t={worst}: buy {BOUGHT[worst, 0]:g} units; better")
        else:
            assert row["costliest"] is None


@pytest.mark.parametrize(
    ("domain", "asked", "status"),
    [
        ("hybrid", {}, "optimal"),
        ("hybrid", {"modes": 7, "capacity": "half", "config": "B"}, "optimal"),
        ("options", {"config": "C"}, "optimal"),
        ("options", {"config": "D", "prices": "binomial"}, "optimal"),
        ("basket", {"config": "A"}, "optimal"),
        ("basket", {"config": "F", "correlation": 0.3}, "heuristic"),
    ],
)
def test_every_domain(domain: str, asked: dict[str, Any], status: str) -> None:
    """Hindsight's own decisions have nothing to regret with foresight; parts have their names."""
    task = task_of(domain, **asked)
    problem: Any = task.problem
    path = problem.sample_path(1)
    known = problem.allocate(path[None]).actions[0]
    written = task.columns.written(path, known)
    seen, decided = np.split(written, [len(task.columns.observed)], axis=1)
    results, decisions = solved(task, [Scenario("one", seen, decided), Scenario("two", seen)])
    row, other = results.iter_rows(named=True)
    assert row["regret_hindsight"] == pytest.approx(0.0, abs=1e-9)
    assert (row["expected_regret"] is None) == (status == "heuristic")
    assert (row["status"], other["status"]) == (status, status)
    assert other["reason"] == "no decisions are given"
    assert other["executed"] is other["regret_policy"] is other["expected_regret"] is None
    assert other["hindsight"] == row["hindsight"]
    for ending in axes_of(task.problem).action_keys:
        for name in ("executed", "hindsight", "policy", "open_loop", "advised"):
            assert decisions[f"{name}{ending}"][0] is not None
            assert decisions[f"planned{ending}"][0] is None
    for entry in task.columns.observed:
        assert decisions[entry.name].dtype == (pl.String if entry.names else pl.Float64)


def test_a_planner_that_is_averse_to_risk_says_so_and_plays_it() -> None:
    """Of the hybrid vehicle all is exact: the planner plays the nested optimum."""
    car = cp.domains.HybridVehicle("A")
    path = car.sample_path(seed=3)
    spec = regret_spec(ProblemChoice("hybrid", {}), "uct", 60, True, 0, None, "0.5,0.25")
    assert spec.description["risk"] == "0.5,0.25"
    task = open_task(spec)
    seen = task.columns.written(path, car.allocate(path[None]).actions[0])[:, :1]
    results, _ = solved(task, [Scenario("a", seen)])
    row = results.row(0, named=True)
    assert row["planner"] == "UCT for 0.5 mean + 0.5 the mean over the worst 25 %, at every step"
    advisor, state, total = cp.Advisor(car, risk=(0.5, 0.25), keep=False), car.start, 0.0
    for t, x in enumerate(path):
        state = State(t, x, state.resource)
        action = advisor.advise(state).action[None]
        reward, after = car.step(t, x[None], state.resource[None], action)
        total, state = total + float(reward[0]), State(t, x, after[0])
    assert row["planned"] == pytest.approx(total, rel=1e-12)
    with pytest.raises(InputError, match="risk: the share"):
        regret_spec(ProblemChoice("hybrid", {}), "uct", 60, True, 0, None, "0.5,2")


def test_hidden_modes() -> None:
    task = task_of("hybrid", hidden=True)
    seen = np.array([[0.0], [1], [1], [2], [0], [1], [0], [1], [1], [2]])
    electric = np.zeros((10, 1))
    results, decisions = solved(task, [Scenario("a", seen, electric), Scenario("b", seen)])
    row, other = results.iter_rows(named=True)
    assert row["status"] == "failed"  # the gas does not last
    assert "at t=2 with [ 2. 10.] in the tanks" in row["reason"]
    assert row["hindsight"] == other["hindsight"] >= other["without_foresight"] > 0
    assert (other["policy"], other["status"]) == ("optimal", "optimal")
    assert decisions["mode"].to_list()[:4] == ["gas", "electric", "electric", "braking"]


def test_failures_are_recorded_with_step_and_reason() -> None:
    """And do not touch the others; what does not depend on the decisions is still there."""
    good, bad, empty = voyages(3)
    bad = Scenario("bad", bad.observed, BOUGHT + np.eye(7)[:, 2:3])
    empty = Scenario("empty", empty.observed, np.zeros((7, 1)), np.array([11.0]))
    task = task_of("bunkering")
    found = task.solve(scenarios_to_bytes([good, bad, empty], task.columns))
    results, decisions = frames(found)
    alone, _ = solved(task, [good])
    assert results[0].equals(alone[0])
    assert results["status"].to_list() == ["optimal", "failed", "failed"]
    assert "buying 26 at port t=2 with 25 in the tank" in results["reason"][1]
    assert "at port t=0 with 11 in the tank" in results["reason"][2]
    assert results["executed"].to_list()[1:] == [None, None]
    assert all(value > 0 for value in results["hindsight"])
    assert found.summary["failed"] == 2
    assert found.summary["episodes"] == 3
    assert found.summary["expected_regret"] == results["expected_regret"].sum()
    assert decisions["executed"][7:].null_count() == 14


def test_a_fault_of_the_program_costs_one_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    task, (good, bad) = task_of("bunkering"), voyages(2)
    found = regret_task.proved_hindsight

    def failing(problem: Any, path: Any, state: Any) -> Any:
        if np.array_equal(path, bad.observed):
            raise np.linalg.LinAlgError("did not converge")
        return found(problem, path, state)

    monkeypatch.setattr(regret_task, "proved_hindsight", failing)
    results, _ = solved(task, [good, bad])
    assert results["status"].to_list() == ["optimal", "failed"]
    assert results["reason"][1] == "LinAlgError: did not converge"


def test_a_path_that_cannot_be() -> None:
    task = task_of("hybrid", hidden=True, modes=7)
    results, decisions = solved(task, [Scenario("x", np.full((10, 1), 6.0))])
    row = results.row(0, named=True)
    assert row["status"] == "failed"
    assert "'braking' at t=1 cannot follow" in row["reason"]
    assert row["hindsight"] is None
    assert decisions["mode"].to_list() == ["braking"] * 10


def test_a_part_that_could_not_be_judged() -> None:
    """Its scenarios are there, with the reason; the tables have the same columns."""
    task, scenarios = task_of("bunkering"), voyages(2)
    part = scenarios_to_bytes(scenarios, task.columns)
    lost, usual = frames(task.failed(part, "its process was killed")), frames(task.solve(part))
    assert lost[0]["reason"].to_list() == ["its process was killed"] * 2
    assert [one.schema for one in lost] == [one.schema for one in usual]


def test_start_levels() -> None:
    """A full tank at the start saves what it holds."""
    (scenario,) = voyages(1)
    full = Scenario("full", scenario.observed, np.r_[[[0.0]], BOUGHT[1:]], np.array([50.0]))
    results, decisions = solved(task_of("bunkering"), [scenario, full])
    first, second = results.iter_rows(named=True)
    saved = 50.0 * scenario.observed[0, 0]
    assert first["executed"] - second["executed"] == pytest.approx(saved)
    assert first["hindsight"] - second["hindsight"] == pytest.approx(saved)
    assert decisions["policy_level"][7] == 50.0


class TestPlanners:
    task = property(lambda self: task_of("bunkering", "uct", 5))

    def test_no_player_sees_the_future(self) -> None:
        """Other prices from a step on change nothing before it, for anyone who decides."""
        (scenario,) = voyages(1, seed=4)
        other = voyages(2, seed=9)[1].observed
        task = self.task
        whole = solved(task, [scenario])[1]
        players = ["policy", "open_loop", "planned"]
        differs = set()
        for step in range(1, 7):
            seen = np.r_[scenario.observed[:step], other[step:]]
            changed = solved(task, [Scenario(scenario.id, seen, BOUGHT)])[1]
            for name in players:
                assert changed[name][:step].equals(whole[name][:step])
                if not changed[name][step:].equals(whole[name][step:]):
                    differs.add(name)
            assert changed["advised"][:step].equals(whole["advised"][:step])
            assert changed["expected_loss"][:step].equals(whole["expected_loss"][:step])
        assert differs == {"policy", "planned"}  # who looks at prices answers to them

    def test_chance_depends_on_seed_and_name_only(self) -> None:
        """Not on the other scenarios of the part, nor on their order."""
        some = voyages(4)
        task = self.task
        forwards = solved(task, some)[0]
        backwards = solved(task, some[::-1])[0].reverse()
        assert forwards.equals(backwards)
        assert solved(task_of("bunkering", "uct", 5), some[1:2])[0].equals(forwards[1:2])
        seeds = {scenario_seed(seed, name) for seed in (0, 1) for name in ("v1", "v2")}
        assert len(seeds) == 4

    def test_it_is_the_planner_of_the_library(self) -> None:
        """Along the same path with the same chance."""
        ship = Bunkering("A")
        (scenario,) = voyages(1)
        steps = solved(self.task, [scenario])[1]
        decide = UCT(60).begin(ship, True, scenario_seed(5, "v0"))
        first = decide(ship.start).action
        assert steps["planned"][0] == first[0]
        results = solved(self.task, [scenario])[0]
        assert results["planner"][0] == "UCT"
        assert results["planned"][0] >= results["hindsight"][0]


def test_recorded_prices_go_along(tmp_path: Path) -> None:
    """The task that is rebuilt elsewhere has the same law, though the file is not there."""
    rng = np.random.default_rng(0)
    prices = 80.0 * np.exp(np.cumsum(0.04 * rng.standard_normal(80)))
    days = np.datetime64("2024-01-01") + np.arange(80)
    path = tmp_path / "prices.csv"
    rows = "".join(f"{day},{price}\n" for day, price in zip(days, prices, strict=True))
    path.write_text("Date,Price\n" + rows)
    table = tmp_path / "prices.parquet"
    pl.DataFrame({"Date": [str(day) for day in days], "Price": prices}).write_parquet(table)
    found = []
    for place in (path, table):
        asked = ProblemChoice("bunkering", {"prices_csv": place})
        spec = regret_spec(asked, None, 60, True, 0)
        place.unlink()
        task: Any = open_any(spec)
        found.append(solved(task, voyages(2))[0])
    assert found[0].equals(found[1])
    ship = Bunkering(prices=BootstrapPrices(prices, kind="independent"))
    expected = regret(ship, voyages(1)[0].observed, BOUGHT)
    assert found[0]["expected_regret"][0] == pytest.approx(expected.expected_regret)


def test_drive_cycles_go_along(tmp_path: Path) -> None:
    path = tmp_path / "cycle.csv"
    speeds = np.clip(10 + 12 * np.sin(np.arange(400) / 20), 0, None)
    path.write_text("cycSecs,cycMps\n" + "".join(f"{t},{v}\n" for t, v in enumerate(speeds)))
    task = task_of("hybrid", drive_cycle=path)
    results, _ = solved(task, [Scenario("j", np.zeros((10, 1)), np.zeros((10, 1)))])
    assert results["status"][0] == "failed"  # ten times gas is more than the tank holds
    assert results["without_foresight"][0] > 0


def test_mean_loss_of_a_policy_is_what_it_costs() -> None:
    """120 voyages of re-solving: the losses average to cost - V*, within 4 standard errors."""
    ship, n = Bunkering("A"), 120
    played = evaluate(ship, Resolve(), episodes=n, seed=3)
    paths = futures(ship, n, np.random.default_rng(3).spawn(2)[0])
    scenarios = [
        Scenario(str(i), path, actions)
        for i, (path, actions) in enumerate(zip(paths, played.actions, strict=True))
    ]
    results, _ = solved(task_of("bunkering"), scenarios)
    assert results["executed"].to_numpy() == pytest.approx(played.outcomes)
    luck = (results["executed"] - results["expected_regret"]).to_numpy() - ship.optimal_value()
    assert abs(luck.mean()) <= 4 * luck.std() / np.sqrt(n)


LOSSES = [1.0, 5.0, 5.0, 0.0, 5.0, None]


@pytest.mark.parametrize(
    ("losses", "most", "worst"), [(LOSSES, 3, ["1", "2", "4"]), ([1.0, None, 4.0], 2, ["2", "1"])]
)
def test_the_worst_are_kept_the_first_of_equals(
    losses: list[float | None], most: int, worst: list[str]
) -> None:
    """Where no loss is known, the policy decides."""
    found = summarised(summary_rows(losses), most)
    assert [row["scenario_id"] for row in found["worst"]] == worst
    known = [loss for loss in losses if loss is not None]
    totals = {name: 10.0 * len(losses) for name in BASE} | {"expected_regret": sum(known)}
    assert found["totals"] == totals


def test_totals_compare_like_with_like() -> None:
    """Scenarios without decisions do not count beside those that have them."""
    rows = summary_rows([1.0, 1.0, 1.0]).collect()
    undone = rows.with_columns(executed=pl.Series([None, 10.0, 10.0]))
    undone = undone.with_columns(status=pl.Series(["optimal", "optimal", "failed"]))
    assert summarised(undone.head(1).lazy(), None)["totals"]["hindsight"] == 10.0
    found = summarised(undone.lazy(), None)
    assert found["totals"]["hindsight"] == 10.0
    assert (found["scenarios"], found["executed"], found["failed"]) == (3, 1, 1)
    assert [row["scenario_id"] for row in found["failures"]] == ["2"]


BASE = ("executed", "hindsight", "without_foresight", "open_loop")


def summary_rows(losses: list[float | None]) -> pl.LazyFrame:
    rows = [
        {
            **dict.fromkeys(BASE, 10.0),
            "scenario_id": str(i),
            "sense": "min",
            "planned": None,
            "status": "optimal",
            "expected_regret": loss,
            "regret_policy": 2.5,
        }
        for i, loss in enumerate(losses)
    ]
    return pl.LazyFrame(rows, schema_overrides={"planned": pl.Float64})
