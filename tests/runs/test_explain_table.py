"""Explaining a table from Python: the same as the library one by one, and as the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import counterplan as cp
from counterplan.cli import main
from counterplan.core.limits import Progress
from counterplan.errors import FileError, InputError
from counterplan.runs.run import Run
from counterplan.tables.models import save_model
from counterplan.tables.parts import Recorded
from counterplan.tables.schema import schema_from_dict

from .conftest import contents
from .subjects import (
    ACTIONS,
    FEATURES,
    SCHEMA,
    continuous_episodes,
    discrete_episodes,
    explained,
    small_mdp,
    small_scm,
)


def discrete_frame(mdp: cp.TabularMDP, count: int = 6) -> pl.DataFrame:
    rows = [
        {"episode_id": one.episode.id, "t": t, "state": int(s), "action": mdp.action_name(int(a))}
        for one in discrete_episodes(mdp, count)
        for t, (s, a) in enumerate(zip(one.episode.states, one.episode.actions, strict=True))
    ]
    return pl.DataFrame(rows)


def continuous_frame(episodes: list[Recorded]) -> pl.DataFrame:
    rows = []
    for one in episodes:
        actions = [*one.episode.actions.tolist(), [None] * len(ACTIONS)]
        for t, (state, action) in enumerate(zip(one.episode.states, actions, strict=True)):
            row = dict(zip(FEATURES, state.tolist(), strict=True))
            row |= dict(zip(ACTIONS, action, strict=True))
            rows.append({"episode_id": one.episode.id, "t": t, **row, "died": "1"})
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A discrete model with a table of its episodes."""
    folder = tmp_path_factory.mktemp("files")
    save_model(small_mdp(), folder / "model.safetensors")
    discrete_frame(small_mdp()).write_csv(folder / "table.csv")
    return folder


def test_answers_are_those_of_the_library(files: Path) -> None:
    mdp = small_mdp()
    frame = discrete_frame(mdp)
    sources: list[Any] = [frame, pd.DataFrame(frame.to_dict(as_series=False)), files / "table.csv"]
    for table in sources:
        for model in (mdp, files / "model.safetensors"):
            found = cp.explain_table(table, model, k=2)
            for answer, recorded in zip(found, discrete_episodes(mdp, 6), strict=True):
                alone = cp.explain(mdp, recorded.episode, 2)
                assert (answer.episode_id, answer.value) == (recorded.episode.id, alone.value)
                assert [(c.t, c.observed, c.alternative) for c in answer.changes] == list(
                    alone.changes
                )
                assert answer.explanation is not None


def test_a_run_holds_the_same_rows(files: Path, tmp_path: Path) -> None:
    arguments = (str(files / "table.csv"), str(files / "model.safetensors"), (0, 2))
    found = cp.explain_table(*arguments, robust=True)
    run = cp.explain_table(*arguments, folder=tmp_path / "out", robust=True, workers=1)
    assert isinstance(run, Run)
    assert run.manifest.complete
    assert run.results().collect().to_dicts() == [answer.row() for answer in found]


def test_the_command_line_continues_such_a_run(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the other way round: it is the same question."""
    table, model, out = files / "table.csv", files / "model.safetensors", tmp_path / "out"
    cp.explain_table(table, model, 1, out, gap=0.5, seed=3, episodes=["e1", "e2"], workers=1)
    before = contents(out)
    for part in (out / "done").iterdir():
        part.unlink()
    command = f"explain {table} -m {model} --k 1 -o {out} --gap 0.5 --seed 3 --workers 1"
    monkeypatch.setattr("sys.argv", ["counterplan", *command.split(), *["--episode", "e1"],
                                     *["--episode", "e2"]])  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert contents(out) == before
    with pytest.raises(InputError, match="--seed 3 there, --seed 0 now"):
        cp.explain_table(table, model, 1, out, gap=0.5, episodes=["e1", "e2"], workers=1)


def test_frames_of_vectors(tmp_path: Path) -> None:
    """By the model's own schema or one that is given; searches are limited in seconds, runs in
    nodes."""
    scm = small_scm()
    episodes = continuous_episodes(scm, 4)
    table = continuous_frame(episodes)
    for schema in (None, schema_from_dict(SCHEMA)):
        found = cp.explain_table(table, scm, schema=schema)
        for answer, recorded in zip(found, episodes, strict=True):
            expected = explained(scm, recorded.episode, 2)
            assert answer.value == pytest.approx(expected.value, abs=1e-9)
    run = cp.explain_table(table, scm, folder=tmp_path / "out", workers=1)
    assert (run.question.nodes, run.question.seconds) == (20_000, None)
    assert run.results().collect()["value"].to_list() == [answer.value for answer in found]
    assert run.outcomes == ["died"]


def test_progress_may_stop_it(files: Path) -> None:
    reached: list[Progress] = []

    def watch(progress: Progress) -> bool:
        reached.append(progress)
        return progress.done < 3

    found = cp.explain_table(files / "table.csv", files / "model.safetensors", progress=watch)
    assert [one.episode_id for one in found] == ["e0", "e1", "e2"]
    assert [(one.done, one.total) for one in reached] == [(1, 6), (2, 6), (3, 6)]


def test_what_does_not_fit(files: Path, tmp_path: Path) -> None:
    mdp = small_mdp()
    with pytest.raises(FileError, match=r"absent\.csv: no such file"):
        cp.explain_table(tmp_path / "absent.csv", mdp)
    bad = discrete_frame(mdp).with_columns(action=pl.lit("swim"))
    with pytest.raises(InputError, match=r"the table.*'swim'"):
        cp.explain_table(bad, mdp)
    with pytest.raises(InputError, match="the table: has no episode 'zoe'"):
        cp.explain_table(discrete_frame(mdp), mdp, episodes=["zoe"])
    bare = replace(small_scm(), about={})
    with pytest.raises(InputError, match="the model: remembers no schema: give one"):
        cp.explain_table(discrete_frame(mdp), bare)
