"""Tables whose actions are doses: from the schema to runs, reports and the explorer's questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import counterplan as cp
from counterplan.errors import CounterplanError, InputError
from counterplan.explorer import models
from counterplan.explorer.cases import Cases
from counterplan.runs.answer import open_explainer
from counterplan.runs.explain import open_cohort
from counterplan.runs.question import Question
from counterplan.runs.run import open_run
from counterplan.tables.layout import layout_of_model
from counterplan.tables.schema import read_schema, schema_toml
from counterplan.viz.labels import labels_of, moves_of

from .dose_tables import SCHEMA, T, dose_model, dose_run, stays


@pytest.fixture(scope="module")
def model() -> Any:
    return dose_model()


@pytest.fixture(scope="module")
def asked() -> pl.DataFrame:
    return stays(3, 1)


@pytest.fixture(scope="module")
def out(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dose_run(tmp_path_factory.mktemp("doses") / "out", model)


def by_name(answer: Any) -> list[dict[str, float]]:
    return [{part.name: part.alternative for part in one.parts} for one in answer.changes]


def test_a_table_is_answered_within_bounds_and_limits(model: Any, asked: pl.DataFrame) -> None:
    found = cp.explain_table(asked, model, k=2, nodes=60)
    assert [one.status for one in found] == ["limit"] * 3
    for one in found:
        assert one.value <= one.bound
        assert one.improvement_low <= one.improvement <= one.improvement_high
        assert one.supported
        doses = one.explanation.actions
        assert (doses[:, 0] <= 120.0).all()
        assert np.abs(np.diff(doses[:, 0]))[one.explanation.indices[1:] > 0].max(initial=0) <= 70.01
        assert doses[:, 1].sum() <= max(90.0, one.explanation.observed[:, 1].sum()) + 1e-6
        for change in one.changes:
            assert "propofol" in change.text
            assert "mg/h" in change.text
            assert change.observed is change.alternative is None
        # What the table says that was earned and paid is what the answer begins with.
        frame = asked.filter(stay=one.episode_id)
        told = -frame["agitation"].sum() - 0.5 * frame["price"].sum()
        assert one.factual == pytest.approx(told, abs=1e-6)


def test_what_is_paid_for_a_unit_is_learned(model: Any) -> None:
    layout = layout_of_model(model)
    assert layout is not None
    assert layout.learned.worth(layout.schema) == pytest.approx([-0.01, -0.025], abs=1e-3)
    assert "propofol 0 to 120 mg/h (up to 70 from row to row)" in layout.offer.note


def test_doses_are_no_worse_than_any_levels_that_are_inside(model: Any) -> None:
    one = open_cohort(stays(1, 5), model)
    (recorded,) = one.episodes()
    question = Question(budgets=(1,), supported=False, gap=1e-6)
    free = json.loads(json.dumps(SCHEMA))
    for column in ("propofol", "iron"):
        free["columns"][column].pop("step", None)
        free["columns"][column].pop("total", None)
    explainer: Any = open_explainer(model, {"kind": "schema", "schema": free})
    found = explainer.explain(recorded.episode, question)[0]
    line = np.stack(np.meshgrid(np.linspace(0, 120, 13), np.linspace(0, 40, 5)), -1).reshape(-1, 2)
    doses = recorded.episode.actions[: T - 1]
    problem = explainer.problem(recorded.episode)
    best = max(
        cp.replay(**problem, episode=recorded.episode, changes={t: list(given)}).value
        for t in range(len(doses))
        for given in line
    )
    assert best <= found.value + 1e-6
    assert found.gap <= 1e-6


def test_a_run_is_resumed_read_and_reported(out: Path, tmp_path: Path) -> None:
    run = open_run(out)
    row = run.results(2).collect().row(0, named=True)
    steps = run.rows_of("trajectories", [row["episode_id"]], 2)[row["episode_id"]]
    for change in row["changes"]:
        step = steps[change["t"]]
        for part in change["parts"]:
            assert step[f"counterfactual_action:{part['name']}"] == part["alternative"]
            assert part["name"] in step["counterfactual_action_label"]
    run.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert row["changes"][0]["text"].replace("->", "→") in page
    assert "propofol raised" in page


def test_questions_narrow_doses_by_ranges(model: Any, asked: pl.DataFrame) -> None:
    allow = "propofol=20..60.5 & iron=..5"
    for one in cp.explain_table(asked, model, k=1, nodes=20, allow=allow):
        for doses in by_name(one):
            assert 20.0 <= doses.get("propofol", 20.0) <= 60.5
            assert doses.get("iron", 0.0) <= 5.0
    for one in cp.explain_table(asked, model, k=2, nodes=20, max_move=5.0, keep=(0,)):
        for change in one.changes:
            assert change.t > 0
            assert all(abs(p.observed - p.alternative) <= 5.0 + 1e-6 for p in change.parts)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"forbid": "propofol=3"}, "forbid: doses are not listed; narrow them by allow"),
        ({"cost": "propofol=2"}, "cost: doses are not listed"),
        ({"allow": "morphine=1..2"}, "there are propofol, iron"),
        ({"allow": "propofol=3"}, "write the range of a dose, such as propofol=10..50"),
        ({"allow": "propofol=90..20"}, "leaves nothing to advise"),
        ({"allow": ["propofol=1..2", "iron=1..2"]}, "join them by &"),
    ],
)
def test_rules_that_are_none_of_doses_are_one_line(
    model: Any, asked: pl.DataFrame, rules: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=r"\A[^\n]*\Z") as caught:
        cp.explain_table(asked, model, k=1, **rules)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("column", "given", "said"),
    [
        (
            "iron",
            {"levels": [0, 5]},
            "columns.iron: has levels or labels, but 'propofol' is a dose",
        ),
        ("iron", {"low": 0}, "columns.iron: has no levels"),
        ("iron", {"levels": [0, 5], "step": 3}, "columns.iron.step: says nothing beside levels"),
        ("iron", {"low": 5, "high": 1}, "columns.iron.low: 5 is not below high = 1"),
        ("iron", {"low": 0, "high": 1, "total": -1}, "columns.iron.total: -1 is no number above 0"),
        ("agitation", {"levels": [0, 1]}, "columns.propofol: needs levels or labels"),
    ],
)
def test_schemas_that_cannot_be_are_told(column: str, given: dict[str, Any], said: str) -> None:
    wrong = json.loads(json.dumps(SCHEMA))
    role = wrong["columns"][column]["role"]
    wrong["columns"][column] = {"role": role, **given}
    if column == "agitation":
        wrong["columns"]["ward"]["role"] = "fixed"
    with pytest.raises(InputError) as caught:
        read_schema(wrong)
    assert said in str(caught.value)


def test_an_action_of_many_numbers_is_drafted_as_a_dose(asked: pl.DataFrame) -> None:
    frame = pl.concat(
        [
            stays(10, seed).with_columns(stay=pl.lit(f"{seed}-") + pl.col("stay"))
            for seed in range(2)
        ]
    )
    drafted = {one.name: one for one in cp.draft_schema(frame).columns}
    assert drafted["propofol"].is_dose
    assert drafted["propofol"].low == 0.0
    assert drafted["propofol"].high == frame["propofol"].max()


def test_the_explorer_replays_and_solves_doses(out: Path) -> None:
    cases = Cases(open_run(out))
    cases.warm()
    about = cases.about()
    assert [one["bounds"] for one in about["doses"]] == [(0.0, 120.0), (0.0, 40.0)]
    assert [one["decimals"] for one in about["doses"]] == [1, 2]
    case = cases.case("s0", 2)
    best, observed = case["answer"], case["observed"]
    edits = {change["t"]: change["alternative"] for change in best["changes"]}
    assert all(len(doses) == 2 for doses in edits.values())
    again = cases.what_if("s0", edits)["answer"]
    assert again["improvement"] == pytest.approx(best["improvement"], abs=1e-9)
    assert again["course"]["actions"][:-1] != observed["actions"][:-1]
    far = cases.what_if("s0", {0: [120.0, 40.0], 1: [0.0, 40.0], 2: [0.0, 40.0]})["answer"]
    assert far["support"]["supported"] is False
    assert "propofol moves by 120 mg/h from row to row: at most 70 is allowed" in far["notes"]
    assert any("iron adds up to" in note for note in far["notes"])
    asked = models.SolveQuestion(kind="solve", id="s0", k=1, ranges=[(10.0, 30.0), (0.0, 40.0)])
    solved = cases.answer(asked.model_dump(), lambda progress: None)["answer"]
    assert all(10.0 <= change["alternative"][0] <= 30.0 for change in solved["changes"])
    rests = models.RestsQuestion(
        kind="rests", id="s0", k=1, edits=[models.Edit(t=0, action=[30.0, 4.0])]
    )
    assert cases.answer(rests.model_dump(), lambda progress: None)["rho"]


@pytest.mark.parametrize(
    ("action", "said"),
    [(3, "no list of doses: propofol, iron"), ([1.0], "no list of doses"), ([500.0, 0.0], "500")],
)
def test_the_explorer_refuses_what_is_no_dose(out: Path, action: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Cases(open_run(out)).what_if("s0", {0: action})
    assert said in str(caught.value)


def test_figures_write_doses_as_they_are_measured(model: Any, asked: pl.DataFrame) -> None:
    (found,) = cp.explain_table(asked, model, k=1, nodes=30, episodes=["s0"])
    moves = moves_of(found.explanation.changes, labels_of(model))
    assert {one.what for one in moves} <= {"propofol (mg/h)", "iron (mg)"}
    assert all(round(one.after, 2) == one.after for one in moves)


def test_a_component_that_adds_nothing_is_marked(model: Any, asked: pl.DataFrame) -> None:
    found = cp.explain_table(asked, model, k=2, nodes=60)
    changes = [change for one in found for change in one.changes]
    both = [one for one in changes if len(one.parts) == 2]
    assert both
    assert all("iron: not established" in one.text for one in both)
    assert not any("propofol: not" in one.text for one in changes)


def test_other_solvers_and_formats_say_that_doses_are_not_listed(
    model: Any, asked: pl.DataFrame
) -> None:
    with pytest.raises(CounterplanError, match="listed"):
        cp.explain_table(asked, model, k=1, solver="greedy")
    schema = read_schema(SCHEMA)
    assert read_schema(schema_toml(schema)) == schema
