"""Runs as review lists and reports read them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from counterplan.core.episode import Episode
from counterplan.errors import FileError, InputError
from counterplan.runs.cohort import RunSettings, run_cohort
from counterplan.runs.run import open_run
from counterplan.runs.task import TaskSpec
from counterplan.tables.parts import Recorded, episodes_to_bytes


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


@pytest.mark.parametrize(("name", "steps"), [("ann", 3), ("eve", 2), ("lea", 4)])
def test_one_episode(out: Path, name: str, steps: int) -> None:
    found = open_run(out).episode(name)
    assert found.episode == recorded(name, steps).episode
    assert found.times.tolist() == recorded(name, steps).times.tolist()


def test_several_episodes(out: Path) -> None:
    run = open_run(out)
    found = run.episodes(["lea", "ann", "lea", "kim"])
    assert {name: one.episode for name, one in found.items()} == {
        name: recorded(name, steps).episode for name, steps in [("ann", 3), ("kim", 5), ("lea", 4)]
    }
    assert run.episodes([]) == {}
    with pytest.raises(InputError, match="out: has no episode 'tom'; check its name"):
        run.episodes(["ann", "zoe", "tom"])


def test_damaged_input_is_told(out: Path) -> None:
    path = out / "episodes" / "part-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    run = open_run(out)
    assert run.episode("ann").episode == recorded("ann", 3).episode
    with pytest.raises(FileError, match=r"episodes/part-00001\.parquet: is damaged"):
        run.episode("lea")


def test_files_of_the_task(out: Path) -> None:
    run = open_run(out)
    assert run.file("model") == run.file("model.json") == b"{}"
    assert run.file("notes") == b"seen"
    with pytest.raises(FileError, match="out: is a run without a file 'schema'"):
        run.file("schema")
    assert run.spec().files == {"model.json": b"{}", "notes": b"seen"}
    assert (run.spec().kind, run.spec().description) == ("own_tasks.counting", {"unit": "h"})
    (out / "files" / "notes").write_bytes(b"forged")
    with pytest.raises(FileError, match="files/notes: is damaged"):
        run.file("notes")
    (out / "files" / "notes").unlink()
    with pytest.raises(FileError, match="files/notes: is missing; run the same command again"):
        run.spec()


@pytest.mark.parametrize("name", ["../model", "a/b", "", ".hidden", "model.", "Model", "a.b.c"])
def test_names_of_files_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    spec = TaskSpec("own_tasks.counting", {}, {name: b""})
    with pytest.raises(InputError, match="cannot have a file called"):
        run_cohort(spec, [b""], tmp_path / "out", RunSettings(workers=1))
    assert list(tmp_path.iterdir()) == []


def test_no_such_episode(out: Path) -> None:
    with pytest.raises(InputError, match="out: has no episode 'zoe'; check its name"):
        open_run(out).episode("zoe")


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
        run.scan("results")


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
