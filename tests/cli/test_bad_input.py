"""Every mistake: exit code 2, one line on stderr that names the place, nothing written."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save

from .conftest import MODEL, Run

EXPLAIN = ("explain", "ward.csv", "--model", "model.json")
FIT = ("fit", "ward.csv", "-o", "fitted.safetensors")
HEADER = "episode_id,t,state,action,reward\n"


@dataclass(frozen=True)
class Mistake:
    """A command on a ward in which some files differ, and what its error line must say."""

    arguments: tuple[str, ...]
    says: tuple[str, ...]
    files: dict[str, bytes | str | None] = field(default_factory=dict)


def model(**changes: Any) -> dict[str, bytes | str | None]:
    return {"model.json": json.dumps(MODEL | changes)}


def with_model(*says: str, **changes: Any) -> Mistake:
    return Mistake(EXPLAIN, ("error: model.json", *says), model(**changes))


def with_episodes(text: str | bytes, *says: str, arguments: tuple[str, ...] = EXPLAIN) -> Mistake:
    return Mistake(arguments, ("error: ward.csv", *says), {"ward.csv": text})


def with_arguments(*arguments: str, says: str) -> Mistake:
    return Mistake(arguments, (says,))


def parquet(**columns: list[Any]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


def changed_rows(row: list[float]) -> list[Any]:
    """The model's transitions with another row for state 1, action 0."""
    return [MODEL["transitions"][0], [row, MODEL["transitions"][1][1]]]


MISTAKES = {
    # The model
    "row does not sum to 1": with_model(
        "transitions of state 1, action 0 sum to 1.1, not 1", transitions=changed_rows([0.6, 0.5])
    ),
    "negative probability": with_model(
        "P(state 1 | state 1, action 0) is -0.5", transitions=changed_rows([1.5, -0.5])
    ),
    "probability nan": with_model(
        "P(state 0 | state 1, action 0) is nan", transitions=changed_rows([float("nan"), 1.0])
    ),
    "ragged transitions": with_model(
        "transitions[1][0]: has 3 entries; expected 2", transitions=changed_rows([0.5, 0.3, 0.2])
    ),
    "rewards of another shape": with_model(
        "rewards: has 3 entries; expected 2", rewards=[[0, 0], [1, 1], [2, 2]]
    ),
    "reward nan": with_model(
        "reward of state 0, action 1 is nan", rewards=[[0, float("nan")], [1, 1]]
    ),
    "too many labels": with_model("state_labels: has 3 entries", state_labels=["a", "b", "c"]),
    "initial no distribution": with_model("initial is not a distribution", initial=[0.5, 0.4]),
    "misspelt key": with_model("unknown key 'reward'", reward=[[0, 0], [1, 1]]),
    "model malformed": Mistake(
        EXPLAIN,
        ("model.json", "line 2, column 1", "is not JSON"),
        {"model.json": '{"transitions":\n}'},
    ),
    "model empty": Mistake(EXPLAIN, ("model.json: is empty",), {"model.json": ""}),
    "model missing": Mistake(EXPLAIN, ("model.json: no such file",), {"model.json": None}),
    "model of unknown kind": with_arguments(
        "explain", "ward.csv", "--model", "model.pkl", says="model.pkl: has the extension '.pkl'"
    ),
    "model truncated": Mistake(
        ("explain", "ward.csv", "--model", "m.safetensors"),
        ("m.safetensors: is damaged or no safetensors file",),
        {"m.safetensors": save({"a": np.zeros(3)})[:-4]},
    ),
    "model foreign": Mistake(
        ("explain", "ward.csv", "--model", "m.safetensors"),
        ("m.safetensors: is a safetensors file, but not a model",),
        {"m.safetensors": save({"a": np.zeros(3)})},
    ),
    "model is a folder": with_arguments(
        "explain", "ward.csv", "--model", "folder.json", says="folder.json: is a folder"
    ),
    # The episodes
    "unknown state": with_episodes(
        HEADER + "a,0,5,0,0\n", "row 2, column 'state': '5' is no state"
    ),
    "unknown action": with_episodes(HEADER + "a,0,0,7,0\n", "column 'action': '7' is no action"),
    "unknown label": with_episodes(
        HEADER + "a,0,sick,0,0\n", "'sick' is no state of the model; use one of 'ill', 'well'"
    ),
    "empty table": with_episodes("", "is empty"),
    "no rows": with_episodes(HEADER, "has no rows"),
    "no column": with_episodes("episode_id,t,state\na,0,0\n", "no column 'action'"),
    "malformed table": with_episodes(HEADER + "a,0,0,0,0,0\n", "row 2: has 6 fields"),
    "open quote": with_episodes(HEADER + '"a,0,0,0,0\n', "row 2: is not CSV"),
    "not UTF-8": with_episodes(b"episode_id,t,state,action\n\xff,0,0,0\n", "line 2: is not text"),
    "empty cell": with_episodes(HEADER + "a,0,,0,0\n", "row 2, column 'state': is empty"),
    "negative state": with_episodes(HEADER + "a,0,-1,0,0\n", "row 2, column 'state': '-1'"),
    "t missing": with_episodes(HEADER + "a,0,0,0,0\na,2,0,0,0\n", "row 3", "add the missing t=1"),
    "t twice": with_episodes(HEADER + "a,0,0,0,0\na,0,0,0,0\n", "row 3, column 't': '0' is a step"),
    "episodes malformed": Mistake(
        ("explain", "ward.json", "--model", "model.json"),
        ("ward.json, line 1, column 14: is not JSON",),
        {"ward.json": '{"episodes": }'},
    ),
    "unequal lengths": Mistake(
        ("explain", "ward.json", "--model", "model.json"),
        ("ward.json, episodes[0]: has 2 states but 1 actions",),
        {"ward.json": '[{"states": [0, 1], "actions": [0]}]'},
    ),
    "empty episode": Mistake(
        ("explain", "ward.json", "--model", "model.json"),
        ('ward.json, episodes[0]: "states" is empty; an episode needs at least one step',),
        {"ward.json": '[{"states": [], "actions": []}]'},
    ),
    "Parquet damaged": Mistake(
        ("explain", "ward.parquet", "--model", "model.json"),
        ("ward.parquet: is cut off",),
        {"ward.parquet": b"PAR1....PAR1"},
    ),
    "Parquet of lists": Mistake(
        ("explain", "ward.parquet", "--model", "model.json"),
        ("ward.parquet", "column 'state'"),
        {"ward.parquet": parquet(episode_id=["a"], t=[0], state=[[0]], action=[0])},
    ),
    "episodes missing": with_arguments(
        "explain", "absent.csv", "--model", "model.json", says="absent.csv: no such file"
    ),
    "episodes of unknown kind": with_arguments(
        "explain", "ward.xlsx", "--model", "model.json", says="ward.xlsx: has the extension '.xlsx'"
    ),
    "episode unknown": with_arguments(
        *EXPLAIN, "--episode", "zoe", says="ward.csv: has no episode 'zoe'; the first of its 3 are"
    ),
    "impossible transition": Mistake(
        EXPLAIN,
        (
            "error: ward.csv: episode 'ann': the transition at t=1 (state 0, action 0 -> state 1) "
            "has probability zero in the model",
        ),
        model(transitions=[[[1.0, 0.0], [0.3, 0.7]], MODEL["transitions"][1]]),
    ),
    # The question
    "k negative": with_arguments(*EXPLAIN, "--k", "-1", says="--k: '-1' is not a whole number"),
    "k not whole": with_arguments(*EXPLAIN, "--k", "2.5", says="--k: '2.5' is not a whole number"),
    "k no number": with_arguments(*EXPLAIN, "--k", "few", says="--k: 'few' is not a whole number"),
    "k absurd": with_arguments(*EXPLAIN, "--k", "9" * 30, says="is not a whole number from 0 to"),
    "k missing": with_arguments(*EXPLAIN, "--k", says="'--k' requires an argument"),
    "seed negative": with_arguments(*EXPLAIN, "--seed", "-1", says="--seed: '-1' is not a whole"),
    "solver unknown": with_arguments(
        *EXPLAIN, "--solver", "oracle", says="'oracle' is not one of 'exact', 'greedy'"
    ),
    "barred whatever is done": Mistake(
        EXPLAIN,
        ("error: ward.csv: episode 'ann': no policy with k=3 avoids a barred pair", "at t=0"),
        model(rewards=[["-inf", "-inf"], [1, 1]]),
    ),
    "barred and no budget": Mistake(
        (*EXPLAIN, "--k", "0"),
        ("error: ward.csv: episode 'ann': no policy with k=0 avoids a barred pair",),
        model(rewards=[["-inf", 0], [1, 1]]),
    ),
    # The output
    "output of unknown kind": with_arguments(
        *EXPLAIN, "-o", "out.xlsx", says="out.xlsx: has the extension '.xlsx', but files of expl"
    ),
    "output nowhere": with_arguments(
        *EXPLAIN, "-o", "absent/out.csv", says="absent/out.csv: cannot be written: the folder does"
    ),
    "output is a folder": with_arguments(
        *EXPLAIN, "-o", "folder.json", says="folder.json: cannot be written: it is a folder"
    ),
    "output is the input": with_arguments(
        *EXPLAIN, "-o", "./ward.csv", says="ward.csv: is read by this command"
    ),
    "output is the model": with_arguments(
        *EXPLAIN, "-o", "model.json", says="model.json: is read by this command"
    ),
    # Fitting
    "fit without rewards": with_episodes(
        "episode_id,t,state,action\na,0,0,0\n", "has no rewards", arguments=FIT
    ),
    "fit with different rewards": with_episodes(
        HEADER + "a,0,0,0,1\na,1,0,0,2\n",
        "row 3: state 0, action 0 earned 2, but 1 in row 2",
        arguments=FIT,
    ),
    "fit with a bad reward": with_episodes(
        HEADER + "a,0,0,0,much\n", "row 2, column 'reward': 'much'", arguments=FIT
    ),
    "fit with labels in the table": with_episodes(
        HEADER + "a,0,ill,0,1\n", "'ill' is not a whole number; number the states", arguments=FIT
    ),
    "fit too large": with_episodes(
        HEADER + "a,0,2000000000,0,1\n", "make a model too large for memory", arguments=FIT
    ),
    "fit with two priors": with_arguments(
        *FIT, "--prior", "1", "--neighbour-prior", says="--prior and --neighbour-prior exclude"
    ),
    "prior negative": with_arguments(*FIT, "--prior", "-1", says="--prior: '-1' is not a number"),
    "prior no number": with_arguments(
        *FIT, "--prior", "nan", says="--prior: 'nan' is not a number"
    ),
    "prior zero": with_arguments(*FIT, "--prior", "0", says="use a positive prior"),
    "labels empty": with_arguments(
        *FIT, "--state-labels", "ill,,well", says="--state-labels 'ill,,well': a name is empty"
    ),
    "labels twice": with_arguments(
        *FIT, "--action-labels", "rest,rest", says="--action-labels 'rest,rest': a name occurs tw"
    ),
    "too few labels": with_arguments(
        *FIT, "--state-labels", "ill", says="row 4, column 'state': '1' is no state of the model"
    ),
    "model output of unknown kind": with_arguments(
        "fit", "ward.csv", "-o", "model.json", says="model.json: has the extension '.json', but mod"
    ),
    "model output nowhere": with_arguments(
        "fit", "ward.csv", "-o", "absent/m.safetensors", says="the folder does not exist"
    ),
    # The demo
    "no patients": with_arguments("demo", "--patients", "0", says="--patients: '0' is not a whole"),
    "demo into a file": with_arguments("demo", "-o", "ward.csv", says="ward.csv: is not a folder"),
    # The command line itself
    "command unknown": with_arguments("explian", says="No such command 'explian'"),
    "option unknown": with_arguments(*EXPLAIN, "--kk", "3", says="No such option: --kk"),
    "model not given": with_arguments("explain", "ward.csv", says="Missing option '--model'"),
    "episodes not given": with_arguments("fit", "-o", "m.safetensors", says="Missing argument"),
    "one argument too many": with_arguments(*EXPLAIN, "more.csv", says="unexpected extra argument"),
}


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def assert_refused(code: int, stdout: str, stderr: str, mistake: Mistake) -> None:
    assert code == 2
    assert stdout == ""
    assert stderr.endswith("\n")
    assert len(stderr.splitlines()) == 1, stderr
    assert stderr.startswith("error: ")
    assert "Traceback" not in stderr
    for phrase in mistake.says:
        assert phrase in stderr


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(ward: Path, run: Run, name: str) -> None:
    mistake = MISTAKES[name]
    (ward / "folder.json").mkdir()
    for file, content in mistake.files.items():
        if content is None:
            (ward / file).unlink()
        else:
            (ward / file).write_bytes(content.encode() if isinstance(content, str) else content)
    before = contents(ward)
    result = run(*mistake.arguments)
    assert_refused(result.exit_code, result.stdout, result.stderr, mistake)
    assert contents(ward) == before
