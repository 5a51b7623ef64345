"""Runs as review lists and reports read them."""

from __future__ import annotations

import shutil
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
from counterplan.runs.question import Question
from counterplan.runs.run import CaseQuery, Run, Terms, open_run
from counterplan.runs.task import TaskSpec
from counterplan.tables.parts import Recorded, episodes_to_bytes

from .models import (
    continuous_episodes,
    discrete_episodes,
    part_of,
    small_mdp,
    small_scm,
    spec_of,
)


def recorded(name: str, steps: int) -> Recorded:
    episode = Episode(np.arange(steps) % 3, np.zeros(steps, dtype=np.int64), id=name)
    return Recorded(episode, np.arange(steps) * 4.0)


GROUPS = [[("ann", 3), ("bob", 1)], [("eve", 2)], [("kim", 5), ("lea", 4)]]


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "out"
    parts = [episodes_to_bytes([recorded(*one) for one in group]) for group in GROUPS]
    settings = RunSettings({"k": 3}, {"input": "0" * 64}, seed=7, workers=1, part_size=2)
    spec = TaskSpec("own_tasks.counting", {"unit": "h"}, {"model.json": b"{}", "notes": b"seen"})
    run_cohort(spec, parts, out, settings)
    return out


@pytest.fixture
def out(tmp_path: Path, complete: Path) -> Path:
    return shutil.copytree(complete, tmp_path / "out")


def test_results_in_order(out: Path) -> None:
    run = open_run(out)
    table = run.scan("results").collect()
    assert table.rows() == [("ann", 3), ("bob", 1), ("eve", 2), ("kim", 5), ("lea", 4)]
    assert (run.manifest.arguments, run.manifest.seed, run.manifest.parts) == ({"k": 3}, 7, 3)
    assert run.manifest.complete
    run.verify()


@pytest.mark.parametrize("name", ["out[1]", "k=9", "runs*"])
def test_folders_whose_names_look_like_patterns(tmp_path: Path, complete: Path, name: str) -> None:
    run = open_run(shutil.copytree(complete, tmp_path / name))
    table = run.scan("results").collect()
    assert table.equals(open_run(complete).scan("results").collect())


def test_several_episodes(out: Path) -> None:
    run = open_run(out)
    found = run.episodes(["lea", "ann", "lea", "kim"])
    assert "array" not in repr(found["lea"])
    assert repr(found["lea"].episode) in repr(found["lea"])
    assert {name: one.episode for name, one in found.items()} == {
        name: recorded(name, steps).episode for name, steps in [("ann", 3), ("kim", 5), ("lea", 4)]
    }
    assert run.episodes([]) == {}
    with pytest.raises(InputError, match="the run has no episode 'zoe'"):
        run.episodes(["ann", "zoe", "tom"])


def test_damaged_input_is_told(out: Path) -> None:
    path = out / "episodes" / "part-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    run = open_run(out)
    assert run.episode("ann").episode == recorded("ann", 3).episode
    with pytest.raises(FileError, match=r"episodes/part-00001\.parquet: is damaged"):
        run.episode("eve")


def test_files_of_the_task(out: Path) -> None:
    run = open_run(out)
    assert run.file("model.json") == b"{}"
    assert run.file("notes") == b"seen"
    with pytest.raises(FileError, match="out: is a run without a file 'schema'"):
        run.file("schema")
    assert (run.kind, run.manifest.task.description) == ("own_tasks.counting", {"unit": "h"})
    (out / "files" / "notes").write_bytes(b"forged")
    with pytest.raises(FileError, match="files/notes: is damaged"):
        run.file("notes")
    (out / "files" / "notes").unlink()
    with pytest.raises(FileError, match="files/notes: is missing; run the same command again"):
        run.file("notes")


@pytest.mark.parametrize("name", ["../model", "a/b", "", ".hidden", "model.", "Model", "a.b.c"])
def test_names_of_files_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    spec = TaskSpec("own_tasks.counting", {}, {name: b""})
    with pytest.raises(InputError, match="cannot have a file called"):
        run_cohort(spec, [b""], tmp_path / "out", RunSettings(workers=1))
    assert list(tmp_path.iterdir()) == []


def test_a_run_under_way(out: Path) -> None:
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete": true', '"complete": false'))
    (out / "done" / "00001.json").unlink()
    run = open_run(out)
    assert run.done == (0, 2)
    assert run.scan("results").collect()["episode_id"].to_list() == ["ann", "bob", "kim", "lea"]
    run.verify()
    for index in (0, 2):
        (out / "done" / f"{index:05d}.json").unlink()
    with pytest.raises(FileError, match="no part of this run is done yet"):
        open_run(out).scan("results")


def test_a_receipt_that_is_gone(out: Path) -> None:
    """Found before anything is shown of the run."""
    run = open_run(out)
    (out / "done" / "00001.json").unlink()
    for look in (run.verify, lambda: run.done):
        with pytest.raises(FileError, match=r"done/00001\.json: is missing; run the same"):
            look()


def test_a_table_that_is_gone(out: Path) -> None:
    (out / "results" / "part-00002.parquet").unlink()
    with pytest.raises(FileError, match=r"results/part-00002\.parquet: is missing; run the same"):
        open_run(out).scan("results")


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="absent: no such folder; give the folder of a run"):
        open_run(tmp_path / "absent")
    with pytest.raises(FileError, match=r"is no run of counterplan: it has no manifest\.json"):
        open_run(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file: is a file; give the folder of a run"):
        open_run(tmp_path / "file")


Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def discrete(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twenty episodes in three parts, two budgets, one failure."""
    folder = tmp_path_factory.mktemp("run")
    mdp = small_mdp()
    lost = Recorded(Episode([0, 9], [0, 0], id="lost"), np.arange(2.0), 0, (("cured", "1"),))
    episodes = [*discrete_episodes(mdp, 20), lost]
    parts = [part_of(episodes[start : start + 8]) for start in (0, 8, 16)]
    spec = spec_of(folder, mdp, Question((1, 2)))
    run_cohort(spec, parts, folder / "out", RunSettings(workers=1))
    return open_run(folder / "out")


def rows_of(run: Run, k: int = 2) -> Rows:
    return list(run.scan("results").filter(pl.col("k") == k).collect().iter_rows(named=True))


def named(rows: Rows) -> list[str]:
    return [row["episode_id"] for row in rows]


def ranked(rows: Rows, column: str, falling: bool = True) -> list[str]:
    sign = -1.0 if falling else 1.0
    return named(sorted(rows, key=lambda r: (sign * r[column], -r["improvement"], r["episode_id"])))


def surest(rows: Rows) -> list[str]:
    """By what is guaranteed; what is not established or has no data under it comes later, and what
    changes nothing last."""
    groups: dict[tuple[bool, bool], Rows] = {}
    for row in rows:
        group = not (row["established"] and row["supported"]), row["n_changes"] == 0
        groups.setdefault(group, []).append({"least": row["guaranteed"] - row["factual"], **row})
    return [name for group in sorted(groups) for name in ranked(groups[group], "least")]


def found(run: Run, **query: Any) -> list[str]:
    return run.cases(CaseQuery(**query))["episode_id"].to_list()


def test_all_but_failures_by_what_is_sure(discrete: Run) -> None:
    rows = [row for row in rows_of(discrete) if row["status"] != "failed"]
    assert len(rows) == 20
    assert len({(row["established"], row["supported"]) for row in rows}) >= 3
    assert found(discrete) == surest(rows) != ranked(rows, "improvement")
    assert found(discrete, limit=3) == surest(rows)[:3]
    third = sorted(row["improvement"] for row in rows)[-3]
    assert len(found(discrete, min_improvement=third)) == 3
    first = [row for row in rows_of(discrete, 1) if row["status"] != "failed"]
    assert found(discrete, k=1) == surest(first)


@pytest.mark.parametrize(
    ("by", "column", "falling"),
    [
        ("improvement", "improvement", True),
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
        ({"established": True}, lambda row: row["established"]),
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
    assert found(discrete, **query) == surest(expected)


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
    spec = spec_of(tmp_path, scm, Question((1,)))
    episodes = continuous_episodes(scm, 20)
    run_cohort(spec, [part_of(episodes)], tmp_path / "out", RunSettings(workers=1))
    run = open_run(tmp_path / "out")
    assert run.terms == Terms("episode", "h", False, "−level + 0.5 × pressure")
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
