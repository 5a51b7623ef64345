"""`explain` into a folder and `cases`, as users start them: killed, resumed, refused, listed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import counterplan as cp
from counterplan.runs.run import ranked
from counterplan.scm import count_transitions
from counterplan.tables import read_episodes

from .conftest import Run
from .test_process import PROGRAM, start

EPISODES, PART, STATES = 220, 50, 30


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """cohort.csv, model.safetensors learned from it, and `whole`, a run with two workers."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(STATES, 0.2), size=(STATES, 4))
    frames = []
    for number in range(EPISODES):
        T = int(rng.integers(2, 9))
        states, actions = [int(rng.integers(STATES))], rng.integers(0, 4, T)
        for action in actions[:-1]:
            states.append(int(rng.choice(STATES, p=rows[states[-1], action])))
        frame = {"episode_id": f"e{number}", "t": np.arange(T), "state": states, "action": actions}
        frames.append(pl.DataFrame({**frame, "reward": np.sqrt(states)}))
    pl.concat(frames).write_csv(folder / "cohort.csv")
    fitted = start("fit", "cohort.csv", "-o", "model.safetensors", cwd=folder)
    assert fitted.returncode == 0, fitted.stderr
    finished = start(*command("whole"), "--workers", "2", cwd=folder)
    assert finished.returncode == 0, finished.stderr
    (folder / "whole.txt").write_text(finished.stdout + finished.stderr)
    return folder


@pytest.fixture
def here(ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with the table, the model and the run."""
    shutil.copytree(ready, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "work"


def command(out: str, *more: str) -> tuple[str, ...]:
    return ("explain", "cohort.csv", "--model", "model.safetensors", "--k", "1,2", "-o", out, *more)


def contents(out: str) -> dict[str, bytes]:
    paths = (path for path in Path(out).rglob("*") if path.is_file())
    return {str(path.relative_to(out)): path.read_bytes() for path in paths}


def results(out: str) -> pl.DataFrame:
    return pl.read_parquet(f"{out}/results/*.parquet")


def test_every_row_is_what_the_library_says(here: Path) -> None:
    found = results("whole")
    mdp = cp.load_model("model.safetensors")
    episodes = read_episodes("cohort.csv")
    assert found["episode_id"].to_list() == [e.id for e in episodes for _ in (1, 2)]
    assert found["k"].to_list() == [1, 2] * EPISODES
    for episode in episodes[::7]:
        front = cp.frontier(mdp, episode, 2, doubt=0.2)
        rows = found.filter(pl.col("episode_id") == episode.id)
        assert rows["value"].to_list() == [front[1].value, front[2].value]
        assert rows["factual"].to_list() == [front[0].value] * 2
    manifest = json.loads(Path("whole/manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["repeatable"]
    assert manifest["arguments"] == {"k": "1,2", "solver": "exact"}
    assert set(manifest["hashes"]) == {"model", "input"}
    assert len(list(Path("whole/results").iterdir())) == -(-EPISODES // PART)


def test_what_a_run_prints_at_its_end(here: Path) -> None:
    text = Path("whole.txt").read_text()
    words = " ".join(text.split())
    assert f"The surest improvements of {EPISODES} episodes, k = 2, exact" in words
    assert f"Searches for {EPISODES} episodes: {EPISODES} proved optimal." in words
    last = results("whole").filter(pl.col("k") == 2)
    assert f"Improvements established: {last['established'].sum()}." in words
    assert "Chosen with doubt 0.2" in words
    assert text.endswith("Wrote whole. Next: counterplan cases whole\n")
    assert ranked(last.lazy()).collect()["episode_id"][0] in text


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.slow  # is started and killed again and again
def test_killed_and_resumed_it_ends_with_the_same_bytes(here: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command("out", "--workers", "1")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 100
    while not Path("out/done/00000.json").exists():
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    running.send_signal(signal.SIGKILL)
    running.wait()
    done = len(list(Path("out/done").glob("*.json")))
    assert 1 <= done < -(-EPISODES // PART)
    half = start("cases", "out")
    assert half.returncode == 0
    assert f"the run is not complete: {done} of 5 parts are done" in half.stderr
    finished = start(*command("out"), "--workers", "1", "--json")
    assert finished.returncode == 0, finished.stderr
    summary = json.loads(finished.stdout)
    assert (summary["parts"], summary["resumed"]) == (5, done)
    assert summary["episodes"] == summary["optimal"] == EPISODES
    assert len(summary["top"]) == 10
    assert contents("out") == contents("whole")


def test_the_same_question_again_is_answered_at_once(here: Path, run: Run) -> None:
    before = contents("whole")
    result = run(*command("whole"), "--json")
    assert json.loads(result.stdout)["resumed"] == 5
    assert contents("whole") == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--k", "3"), "--k 1,2 there, --k 3 now"),
        (("--robust",), "no --robust there, --robust now"),
        (("--seed", "1"), "--seed 0 there, --seed 1 now"),
        (("--solver", "greedy"), "--solver exact there, --solver greedy now"),
        (("--episode", "e3"), "no --episode there"),
        (("--model", "other.json"), "model with checksum"),
    ],
)
def test_other_questions_are_refused(
    here: Path, run: Run, more: tuple[str, ...], says: str
) -> None:
    shape = (STATES, 4)
    model = {"transitions": np.full((*shape, STATES), 1 / STATES).tolist()}
    Path("other.json").write_text(json.dumps(model | {"rewards": np.zeros(shape).tolist()}))
    before = contents("whole")
    result = run(*command("whole"), *more)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: whole: holds a run of another question: ")
    assert says in line
    assert contents("whole") == before


def test_cases_as_table_json_and_files(here: Path, run: Run) -> None:
    rows = results("whole").filter(pl.col("k") == 2, pl.col("improvement") >= 1.0)
    rows = ranked(rows.lazy()).collect()
    assert not rows["guaranteed"].equals(rows.sort("guaranteed", descending=True)["guaranteed"])
    asked = ("cases", "whole", "--min-improvement", "1")
    shown = run(*asked, "--limit", "4")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("4 episodes of whole, k = 2, by what is sure")
    listed = [line.split()[0] for line in lines if line.strip().startswith("e")]
    assert [name for name in listed if name != "episode"] == rows["episode_id"][:4].to_list()
    document = json.loads(run(*asked, "--json").stdout)
    assert [case["episode_id"] for case in document["cases"]] == rows["episode_id"].to_list()
    assert [case["value"] for case in document["cases"]] == rows["value"].to_list()
    assert document["k"] == 2
    result = run(*asked, "-o", "list.csv")
    assert result.stderr == f"Wrote list.csv: {rows.height} cases.\n"
    table = pd.read_csv("list.csv")
    assert table["episode_id"].tolist() == rows["episode_id"].to_list()
    assert table["value"].tolist() == pytest.approx(rows["value"].to_list())
    texts = ["; ".join(change["text"] for change in one) for one in rows["changes"]]
    assert table["changes"].tolist() == texts
    run(*asked, "-o", "list.parquet", "--limit", "5")
    assert pl.read_parquet("list.parquet").equals(rows.head(5))


def test_one_file_and_a_folder_say_the_same(here: Path, run: Run) -> None:
    """What is printed comes from the same place as what is stored."""
    asked = ("explain", "cohort.csv", "-m", "model.safetensors", "--k", "1,2")
    some = [f"--episode=e{number}" for number in (3, 8, 9)]
    printed = json.loads(run(*asked, *some, "--json").stdout)
    assert printed["k"] == [1, 2]
    stored = json.loads(run("cases", "whole", "--k", "1", "--json").stdout)["cases"]
    by_name: dict[str, Any] = {case["episode_id"]: case for case in stored}
    for record in printed["explanations"]:
        if record["k"] == 1:
            assert record == by_name[record["episode_id"]]
    assert len(printed["explanations"]) == 6


def test_some_episodes_into_a_folder(here: Path, run: Run) -> None:
    result = run(*command("some"), "--episode", "e7", "--episode", "e2", "--workers", "1")
    assert result.exit_code == 0, result.stderr
    expected = results("whole").filter(pl.col("episode_id").is_in(["e2", "e7"]))
    assert results("some").equals(expected)


def test_models_that_keep_nothing_of_their_data(here: Path, run: Run) -> None:
    assert run("fit", "cohort.csv", "-o", "bare.safetensors", "--no-support").exit_code == 0
    known, bare = (cp.load_model(f"{name}.safetensors") for name in ("model", "bare"))
    assert isinstance(known, cp.TabularMDP)
    assert isinstance(bare, cp.TabularMDP)
    assert bare.visits is None
    assert known.visits is not None
    counts = count_transitions(read_episodes("cohort.csv"), *known.visits.shape)
    assert (known.visits == counts.visits).all()
    asked = ("explain", "cohort.csv", "--episode", "e3", "--k", "1", "--json")
    told, silent = (
        json.loads(run(*asked, "-m", f"{name}.safetensors").stdout)["explanations"][0]
        for name in ("model", "bare")
    )
    assert {"supported", "unseen_probability", "new_actions"} <= set(told)
    assert not {"supported", "unseen_probability", "new_actions"} & set(silent)
    assert told["value"] == silent["value"]


def test_limits_in_seconds_are_told(here: Path, run: Run) -> None:
    result = run(*command("timed"), "--seconds", "100", "--episode", "e1", "--workers", "1")
    assert "another run of the same question may give other answers" in result.stderr
    assert not json.loads(Path("timed/manifest.json").read_text())["repeatable"]


def test_a_table_with_a_schema_and_outcomes(here: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for number in range(60):
        mood, length = int(rng.integers(0, 3)), int(rng.integers(2, 6))
        for t in range(length):
            drug, talk = (int(choice) for choice in rng.integers(0, 2, 2))
            last = t == length - 1
            given = (None, None) if last else (("no", "yes")[drug], talk)
            rows.append((f"w{number}", 6 * t, mood, *given, ("no", "yes")[number % 2]))
            mood = int(np.clip(mood + (rng.random() < 0.6 * drug) - (rng.random() < 0.3), 0, 2))
    names = ["who", "hour", "mood", "drug", "talk", "cured"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv("ward.csv")
    Path("ward.toml").write_text(
        '[table]\nepisode = "who"\ntime = "hour"\nstep = 6\nincrement = 6\nunit = "h"\n'
        '[columns.mood]\nrole = "state"\nlevels = [0, 1, 2]\nbetter = "higher"\n'
        '[columns.drug]\nrole = "action"\nlabels = ["no", "yes"]\n'
        '[columns.talk]\nrole = "action"\nlevels = [0, 1]\n'
        '[columns.cured]\nrole = "outcome"\n'
    )
    fitted = run("fit", "ward.csv", "--schema", "ward.toml", "-o", "ward.safetensors")
    assert fitted.exit_code == 0, fitted.stderr
    asked = ("explain", "ward.csv", "--model", "ward.safetensors", "--k", "2", "--all-k")
    result = run(*asked, "-o", "ward", "--workers", "1")
    assert result.exit_code == 0, result.stderr
    assert "60 episodes, " in result.stderr
    found = results("ward")
    assert found["k"].to_list() == [0, 1, 2] * 60
    nothing = found.filter(pl.col("k") == 0)
    assert nothing["value"].to_list() == nothing["factual"].to_list()
    assert "schema" in json.loads(Path("ward/manifest.json").read_text())["hashes"]
    listed = json.loads(run("cases", "ward", "--outcome", "cured=yes", "--json").stdout)["cases"]
    assert len(listed) == 30
    assert {case["outcome:cured"] for case in listed} == {"yes"}
    text = listed[0]["changes"][0]["text"]
    assert text.startswith("at ")
    assert " h: " in text
    some = run("cases", "ward", "--changed-action", "talk", "--limit", "99", "--json").stdout
    assert 0 < len(json.loads(some)["cases"]) < 60
    # The schema may be given anew, and then has to be the same.
    again = run(*asked, "--schema", "ward.toml", "-o", "ward", "--json")
    assert json.loads(again.stdout)["resumed"] == 2
    Path("ward.toml").write_text(Path("ward.toml").read_text().replace('"h"', '"d"'))
    other = run(*asked, "--schema", "ward.toml", "-o", "ward")
    assert other.exit_code == 2
    assert "schema with checksum" in other.stderr
