"""The review list: every filter and order against the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counterplan.core.episode import Episode
from counterplan.errors import FileError, InputError
from counterplan.runs.answer import records
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.explain import explain_spec
from counterplan.runs.question import Question
from counterplan.runs.run import CaseQuery, Run, Terms, open_run
from counterplan.runs.task import TaskSpec
from counterplan.tables.models import save_model
from counterplan.tables.parts import Recorded

from .models import (
    CONTINUOUS,
    DISCRETE,
    continuous_episodes,
    discrete_episodes,
    part_of,
    small_mdp,
    small_scm,
)

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def discrete(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twenty episodes in three parts, two budgets, one failure."""
    folder = tmp_path_factory.mktemp("run")
    mdp = small_mdp()
    save_model(mdp, folder / "model.safetensors")
    lost = Recorded(Episode([0, 9], [0, 0], id="lost"), np.arange(2.0), 0, (("cured", "1"),))
    episodes = [*discrete_episodes(mdp, 20), lost]
    parts = [part_of(episodes[start : start + 8]) for start in (0, 8, 16)]
    content = (folder / "model.safetensors").read_bytes()
    spec = explain_spec(content, ".safetensors", DISCRETE, Question((1, 2)), ["cured"])
    run_cohort(spec, parts, folder / "out", RunSettings(workers=1))
    return open_run(folder / "out")


def rows_of(run: Run, k: int = 2) -> Rows:
    return list(run.scan("results").filter(pl.col("k") == k).collect().iter_rows(named=True))


def named(rows: Rows) -> list[str]:
    return [row["episode_id"] for row in rows]


def ranked(rows: Rows, column: str, falling: bool = True) -> list[str]:
    sign = -1.0 if falling else 1.0
    return named(sorted(rows, key=lambda r: (sign * r[column], -r["improvement"], r["episode_id"])))


def found(run: Run, **query: Any) -> list[str]:
    return run.cases(CaseQuery(**query))["episode_id"].to_list()


def test_all_but_failures_by_improvement(discrete: Run) -> None:
    rows = [row for row in rows_of(discrete) if row["status"] != "failed"]
    assert len(rows) == 20
    assert found(discrete) == ranked(rows, "improvement")
    assert found(discrete, limit=3) == ranked(rows, "improvement")[:3]
    third = sorted(row["improvement"] for row in rows)[-3]
    assert len(found(discrete, min_improvement=third)) == 3
    first = [row for row in rows_of(discrete, 1) if row["status"] != "failed"]
    assert found(discrete, k=1) == ranked(first, "improvement")


@pytest.mark.parametrize(
    ("by", "column", "falling"),
    [
        ("relative", "relative_improvement", True),
        ("gap", "gap", True),
        ("factual", "factual", False),
    ],
)
def test_orders(discrete: Run, by: str, column: str, falling: bool) -> None:
    rows = [row for row in rows_of(discrete) if row["status"] != "failed"]
    assert found(discrete, by=by) == ranked(rows, column, falling)


def changed(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: any(change["alternative_label"] == name for change in row["changes"])


@pytest.mark.parametrize(
    ("query", "keeps"),
    [
        ({"min_improvement": 0.5}, lambda row: row["improvement"] >= 0.5),
        ({"max_changes": 1}, lambda row: row["n_changes"] <= 1),
        ({"supported": True}, lambda row: row["supported"]),
        ({"outcomes": (("cured", "1"),)}, lambda row: row["outcome:cured"] == "1"),
        ({"changed_action": "run"}, changed("run")),
        ({"changed_action": "rest"}, changed("rest")),
        (
            {"min_improvement": 0.1, "outcomes": (("cured", "0"),), "max_changes": 2},
            lambda row: row["improvement"] >= 0.1 and row["outcome:cured"] == "0",
        ),
    ],
)
def test_filters(
    discrete: Run, query: dict[str, Any], keeps: Callable[[dict[str, Any]], bool]
) -> None:
    rows = [row for row in rows_of(discrete) if row["status"] != "failed"]
    expected = [row for row in rows if keeps(row)]
    assert 0 < len(expected) < len(rows)
    assert found(discrete, **query) == ranked(expected, "improvement")


def test_failures_are_found_by_their_status(discrete: Run) -> None:
    assert found(discrete, statuses=("failed",)) == ["lost"]
    assert set(found(discrete, statuses=("failed", "optimal"))) == set(named(rows_of(discrete)))
    assert found(discrete, statuses=("failed", "optimal"))[-1] == "lost"
    assert found(discrete, statuses=("limit",)) == []
    (record,) = records(discrete.cases(CaseQuery(statuses=("failed",))).to_dicts(), unit="")
    assert record["reason"].startswith("episode 'lost': unknown state 9")
    assert "value" not in record


def test_questions_that_the_run_has_no_answer_to(discrete: Run) -> None:
    with pytest.raises(InputError, match=r"was run for k = 1, 2, not for 3"):
        found(discrete, k=3)
    with pytest.raises(InputError, match=r"has no outcome 'died': there are cured"):
        found(discrete, outcomes=(("died", "1"),))


def test_components_of_vectors(tmp_path: Path) -> None:
    scm = small_scm()
    save_model(scm, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    spec = explain_spec(content, ".safetensors", CONTINUOUS, Question((1,)), ["died"])
    episodes = continuous_episodes(scm, 20)
    run_cohort(spec, [part_of(episodes)], tmp_path / "out", RunSettings(workers=1))
    run = open_run(tmp_path / "out")
    assert run.terms == Terms("episode", "h", is_discrete=False)
    moved = {row["episode_id"] for row in rows_of(run, 1) if row["changes"]}
    assert 0 < len(moved) < 20
    assert set(found(run, changed_action="dose")) == moved
    says = r"no action 'machine', .* there are 'dose', '0 mg'.*choose"
    with pytest.raises(InputError, match=says):
        found(run, changed_action="machine")
    assert found(run, changed_action="dose", max_changes=0) == []
    one = found(run, changed_action="2 mg")
    assert set(one) == {
        row["episode_id"]
        for row in rows_of(run, 1)
        if any(change["alternative"] == 2 for change in row["changes"])
    }


def test_a_run_of_something_else(tmp_path: Path) -> None:
    run_cohort(
        TaskSpec("own_tasks.reversing", {}, {"suffix": b"!"}),
        [b"a"],
        tmp_path / "out",
        RunSettings(workers=1),
    )
    with pytest.raises(FileError, match=r"is a run of 'own_tasks.reversing', which has no cases"):
        found(open_run(tmp_path / "out"))


def test_records_have_texts_for_what_json_cannot_say() -> None:
    row = {
        "episode_id": "a", "k": 1, "bound": np.inf, "factual": -np.inf, "value": 1.0,
        "reason": None, "outcome:status": "1", "n_changes": 1,
        "changes": [
            {
                "t": 2, "time": 8.0, "observed": 0, "alternative": 3, "observed_label": "a",
                "alternative_label": "b", "probability": None, "taken": None, "text": "words",
                "parts": [{"name": "dose", "observed": 0.0, "alternative": 1.5}],
            }
        ],
    }  # fmt: skip
    assert records([row], "h") == [
        {
            "episode_id": "a", "k": 1, "bound": "inf", "factual": "-inf", "value": 1.0,
            "outcome:status": "1",
            "changes": [
                {"t": 2, "time": 8, "hours": 8, "observed": {"dose": 0},
                 "alternative": {"dose": 1.5}, "text": "words"}
            ],
        }
    ]  # fmt: skip
