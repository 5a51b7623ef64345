"""Scenarios: what the run and the library say about them, and a planner's advice on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.explorer.scenarios import Scenarios
from counterplan.planning.bounds import value_bounds
from counterplan.planning.model import State
from counterplan.planning.regret import regret
from counterplan.runs.run import open_run

from ..viz.report.runs import ODD, regret_run
from .serving import Explorer


def advise(**asked: Any) -> dict[str, Any]:
    return {"kind": "advise", **asked}


def test_lines_are_those_of_the_run(voyages: Explorer) -> None:
    rows = open_run(voyages.service.run.folder).scan("results").collect().to_dicts()
    found = voyages.get("scenarios")
    assert found["total"] == len(rows) == 6
    by_id = {row["scenario_id"]: row for row in rows}
    for line in found["lines"]:
        row = by_id[line["id"]]
        for column in ("executed", "expected_regret", "without_foresight", "hindsight"):
            assert line[column] == row[column]
    losses = [line["expected_regret"] for line in found["lines"][:-1]]
    assert losses == sorted(losses, reverse=True)
    assert voyages.get("scenarios", status="failed")["lines"][0]["id"] == "too-much"
    assert voyages.get("scenarios", min_expected_regret=losses[1])["total"] == 2
    assert voyages.get("scenarios", search="PLAIN")["total"] == 1
    assert voyages.get("overview")["statuses"] == {"failed": 1, "optimal": 5}


def test_a_scenario_is_what_regret_says(voyages: Explorer) -> None:
    run = voyages.service.run
    for name in (*ODD, "plain"):
        scenario, found = run.scenario(name), voyages.get("scenario", id=name)
        assert scenario.decisions is not None
        told = regret(run.problem, scenario.observed, scenario.decisions)
        tracks = {track["player"]: track for track in found["tracks"]}
        assert set(tracks) == {"executed", "policy", "open_loop", "planned", "hindsight"}
        assert tracks["executed"]["value"] == told.executed
        assert tracks["executed"]["levels"] == told.levels.tolist()
        assert tracks["policy"]["actions"] == told.policy_actions.tolist()
        assert tracks["hindsight"]["actions"] == told.hindsight_actions.tolist()
        assert told.expected_losses is not None
        assert found["expected_losses"] == told.expected_losses.tolist()
        assert found["seen"][0]["values"] == scenario.observed[:, 0].tolist()
        for track in tracks.values():
            assert np.isclose(sum(track["rewards"]), track["value"], rtol=1e-12)
            assert len(track["levels"]) == found["horizon"] + 1


def test_one_that_was_not_possible(voyages: Explorer) -> None:
    found = voyages.get("scenario", id="too-much")
    assert found["line"]["status"] == "failed"
    assert found["line"]["reason"]
    assert "executed" not in [track["player"] for track in found["tracks"]]


@pytest.mark.parametrize("t", [0, 3, 6])
def test_advice_is_what_plan_says(voyages: Explorer, t: int) -> None:
    run = voyages.service.run
    scenario = run.scenario("plain")
    job = voyages.finished(advise(id="plain", t=t, planner="bts", simulations=50))
    found = job["advice"]
    told = regret(run.problem, scenario.observed, scenario.decisions)  # type: ignore[arg-type]
    state = State(t, scenario.observed[t], told.levels[t])
    plan = cp.plan(run.problem, state, cp.BTS(50), seed=0)
    bounds = value_bounds(run.problem, 10_000, 0, state=state)
    assert (found["action"], found["value"]) == (plan.action.tolist(), plan.value)
    assert (found["lower"], found["upper"]) == (bounds.lower, bounds.upper)
    assert found["exact"] == pytest.approx(cp.exact_value(run.problem, state), rel=1e-12)
    assert sum(choice["simulations"] for choice in found["choices"]) == plan.visits.sum()


def test_questions_about_nothing(voyages: Explorer) -> None:
    for asked, status in (
        (advise(id="plain", t=7), 400),
        (advise(id="too-much", t=0), 400),
        (advise(id="nobody", t=0), 404),
        ({"kind": "solve", "id": "plain", "k": 1}, 404),
    ):
        found = voyages.client.post("/api/jobs", json=asked)
        assert (found.status_code, set(found.json())) == (status, {"error"}), found.text
    assert voyages.client.get("/api/cases").status_code == 404


@pytest.mark.parametrize("domain", ["hybrid", "options", "basket"])
def test_every_domain(domain: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = open_run(regret_run(tmp_path_factory.mktemp(domain), domain, None).folder)
    view = Scenarios(run)
    assert view.about()["values_in"] == ("miles" if domain == "hybrid" else "money units")
    found = view.scenario("plain")
    assert len(found["states"]) == found["horizon"]
    for track in found["tracks"]:
        assert np.isclose(sum(map(float, track["rewards"])), track["value"], rtol=1e-9, atol=1e-12)
        assert len(track["words"]) == found["horizon"]
    assert view.answer(advise(id="plain", t=1, simulations=20), lambda _: None)["choices"]


def test_a_policy_that_is_only_the_best_known_is_called_so(
    voyages_out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Scenarios(open_run(voyages_out))

    def titles() -> list[str]:
        tracks = view.scenario("plain")["tracks"]
        return [track["title"] for track in tracks if track["player"] == "policy"]

    assert titles() == ["Best without foresight"]
    rows = view.rows
    heuristic = {"status": "heuristic"}
    monkeypatch.setattr(view, "rows", lambda *which: [row | heuristic for row in rows(*which)])
    assert titles() == ["Best policy known"]


def test_losses_that_are_not_known_in_expectation(
    voyages_out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not known is not called nothing: scenarios are compared with the policy then."""
    view = Scenarios(open_run(voyages_out))
    assert view.overview(None)["of"] == "in expectation"
    known = view.results().collect()
    without = known.with_columns(expected_regret=None, costliest=None).lazy()
    monkeypatch.setattr(view, "results", lambda: without)
    found = view.overview(None)
    assert found["of"] == "against the best policy known, luck included"
    assert found["largest"] == known["regret_policy"].max()
