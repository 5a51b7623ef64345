"""The list of cases and single cases: what the run's tables and the library say, bit by bit."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.explorer.models import CaseQuery
from counterplan.runs.run import open_run

from ..viz.report.runs import ODD
from .serving import Explorer


def results(explorer: Explorer) -> pl.DataFrame:
    return open_run(explorer.service.run.folder).scan("results").collect()


def as_number(value: Any) -> float:
    return math.nan if value is None else float(value)


def test_all_lines_are_those_of_the_run(discrete: Explorer) -> None:
    found = discrete.get("cases", limit=200)
    rows = results(discrete).filter(pl.col("k") == 2).to_dicts()
    assert found["total"] == len(rows) == 31
    assert found["k"] == 2
    by_id = {row["episode_id"]: row for row in rows}
    for line in found["lines"]:
        row = by_id.pop(line["id"])
        assert line["status"] == row["status"]
        assert line["changes"] == [change["text"] for change in row["changes"]]
        for name, column in (("factual", "factual"), ("value", "value"), ("gap", "gap")):
            assert line[name] == row[column]
        assert (line["supported"], line["reason"]) == (row["supported"], row["reason"])
        assert line["outcomes"] == {"cured": row["outcome:cured"]}
    assert not by_id
    gains = [line["improvement"] for line in found["lines"][:-1]]
    assert gains == sorted(gains, reverse=True)
    assert found["lines"][-1]["status"] == "failed"


@pytest.mark.parametrize("sort", get_args(CaseQuery.model_fields["sort"].annotation))
@pytest.mark.parametrize("descending", ["true", "false"])
def test_pages_fit_together(discrete: Explorer, sort: str, descending: str) -> None:
    order = {"sort": sort, "descending": descending}
    whole = discrete.get("cases", limit=200, **order)["lines"]
    pages = [
        discrete.get("cases", limit=7, offset=start, **order)["lines"] for start in range(0, 35, 7)
    ]
    assert [line for page in pages for line in page] == whole
    column = {"id": "id", "steps": "steps", "changes": None}.get(sort, sort)
    if column is not None:
        keys = [line[column] for line in whole if line[column] is not None]
        if column != "id":
            keys = [as_number(key) for key in keys]
        assert keys == sorted(keys, reverse=descending == "true")


def test_filters(discrete: Explorer) -> None:
    rows = results(discrete).filter(pl.col("k") == 2)

    def ids(**wanted: Any) -> set[str]:
        lines = discrete.get("cases", limit=200, **wanted)["lines"]
        return {line["id"] for line in lines}

    def those(condition: pl.Expr) -> set[str]:
        return set(rows.filter(condition)["episode_id"])

    assert ids(status="failed") == {"lost-one"}
    assert ids(status=["optimal", "failed"]) == those(pl.col("episode_id") != "")
    assert ids(support="yes") == those(pl.col("supported"))
    assert ids(support="no") == those(~pl.col("supported"))
    assert ids(max_changes=1) == those(pl.col("n_changes") <= 1)
    middle = rows["improvement"].drop_nulls().median()
    assert ids(min_improvement=middle) == those(pl.col("improvement") >= middle)
    assert ids(outcome="cured=1") == those(pl.col("outcome:cured") == "1")
    assert ids(search="E1") == {f"e{n}" for n in (*range(10, 20), 1)} - {"e1"}
    changed = those(
        pl.col("changes")
        .list.eval(pl.element().struct.field("text").str.contains("-> run"))
        .list.any()
    )
    assert ids(changed="-> RUN") == changed
    assert ids(search="no such thing") == set()
    assert {line["k"] for line in [discrete.get("cases", k=1)]} == {1}


def test_texts_are_taken_as_they_are(discrete: Explorer) -> None:
    """No pattern, no query: ids with every special sign are found by themselves."""
    for name in ODD:
        lines = discrete.get("cases", search=name)["lines"]
        assert name in [line["id"] for line in lines]
        assert discrete.get("case", id=name)["id"] == name
    assert discrete.get("cases", search=".*")["total"] == 0


def test_overview(discrete: Explorer) -> None:
    rows = results(discrete).filter(pl.col("k") == 2)
    found = discrete.get("overview")
    assert found["total"] == rows.height
    assert found["statuses"] == {"optimal": 30, "failed": 1}
    assert found["supported"] == rows["supported"].sum()
    assert found["median"] == rows["improvement"].median()
    assert sum(bar["count"] for bar in found["bars"]) == rows["improvement"].drop_nulls().len()
    assert found["outcomes"] == {"cured": ["0", "1"]}
    assert discrete.get("overview", k=0)["largest"] == 0.0


@pytest.mark.parametrize("k", [0, 1, 2])
def test_a_continuous_case_is_what_explain_says(continuous: Explorer, k: int) -> None:
    cases = continuous.service.cases
    for line in continuous.get("cases", limit=200)["lines"]:
        recorded = cases.recorded(line["id"])
        episode = recorded.episode
        case = continuous.get("case", id=line["id"], k=k)
        # One call for all budgets, as the run has asked: later ones start from earlier ones.
        found = cp.frontier(
            **cases.run.explainer.problem(episode), episode=episode, k_max=min(2, len(episode))
        )
        found = found[min(k, len(episode))]
        answer = case["answer"]
        assert answer["value"] == found.value
        assert answer["factual"] == found.factual_value
        assert answer["bound"] == found.bound
        assert np.array_equal(answer["course"]["states"], found.states)
        assert answer["course"]["actions"] == [*found.actions.tolist(), None]
        assert case["observed"]["actions"] == [*found.observed.tolist(), None]
        assert np.array_equal(case["observed"]["states"], episode.states)
        assert case["times"] == recorded.times.tolist()
        assert case["fixed"] == [len(episode) - 1]
        changes = [(c["t"], c["observed"], c["alternative"]) for c in answer["changes"]]
        assert changes == [tuple(change) for change in found.changes]


def test_a_discrete_case_is_what_explain_says(discrete: Explorer) -> None:
    cases = discrete.service.cases
    episode = cases.recorded("e7").episode
    found = cp.explain(**cases.run.explainer.problem(episode), episode=episode, k=2)
    case = discrete.get("case", id="e7")
    answer = case["answer"]
    path = found.most_likely
    assert answer["value"] == found.value
    assert (answer["low"], answer["high"]) == tuple(
        cp.value_interval(cases.run.explainer.problem(episode)["scm"].mdp, episode, found)
    )
    assert [state[0] for state in answer["course"]["states"]] == path.states.tolist()
    assert answer["course"]["actions"] == path.actions.tolist()
    assert answer["course"]["changed"] == found.change_probabilities().sum(axis=1).tolist()
    assert set(case["names"][0].values()) <= {"0", "1", "2", "3"}
    assert sorted(case["order"][0]) == sorted({*path.states.tolist(), *episode.states.tolist()})
    nothing = case["budgets"][0]
    assert (nothing["k"], nothing["value"], nothing["bound"]) == (0, *[found.factual_value] * 2)


def test_a_budget_that_was_not_asked_about(discrete: Explorer) -> None:
    case = discrete.get("case", id="e7", k=3)
    assert case["answer"] is None
    assert [budget["k"] for budget in case["budgets"]] == [0, 1, 2]


def test_a_case_that_has_failed(discrete: Explorer) -> None:
    case = discrete.get("case", id="lost-one")
    assert case["answer"]["status"] == "failed"
    assert "state" in case["answer"]["reason"]
    assert case["answer"]["course"] is None


def test_what_is_not_there(discrete: Explorer, continuous: Explorer) -> None:
    for path, query in (("case", {"id": "nobody"}), ("scenario", {"id": "e7"}), ("scenarios", {})):
        found = discrete.client.get(f"/api/{path}", params=query)
        assert found.status_code == 404, found.text
        assert set(found.json()) == {"error"}
    found = discrete.client.get("/api/cases", params={"k": 7})
    assert (found.status_code, found.json()) == (
        400,
        {"error": "the run has answers for k = 0, 1, 2, not for 7"},
    )
    found = continuous.client.get("/api/cases", params={"outcome": "cured=1"})
    assert found.status_code == 400
    assert "names here: died" in found.json()["error"]


def test_about(continuous: Explorer, discrete: Explorer, voyages: Explorer) -> None:
    about = continuous.get("run")
    assert (about["kind"], about["discrete"], about["budgets"]) == ("explain", False, [0, 1, 2])
    assert [one["title"] for one in about["features"]] == ["age", "level", "pressure"]
    assert [one["fixed"] for one in about["features"]] == [True, False, False]
    assert [one["better"] for one in about["features"]] == [None, "lower", "higher"]
    assert about["doses"][0]["title"] == "dose (mg)"
    assert about["actions"] == [[0.0], [1.0], [2.0]]
    assert discrete.get("run")["names"][0] == "rest"
    assert (voyages.get("run")["kind"], voyages.get("run")["sense"]) == ("regret", "min")
