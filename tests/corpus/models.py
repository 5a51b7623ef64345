"""Model files: safetensors, and JSON by hand."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from counterplan.tables.models import TABULAR

from .case import Case
from .changes import (
    Change,
    Swap,
    absurd,
    changed,
    cut,
    flip,
    folder,
    gone,
    head,
    link,
    pipe,
    put,
    renamed,
    tensors,
)
from .conftest import MODEL

DISCRETE, NEURAL = "ward.safetensors", "sepsis.safetensors"
DAMAGED = ": is damaged or no safetensors file: .*; save the model anew"
FOREIGN = ": is a safetensors file, but not a model saved by counterplan; use `counterplan fit`"


def tabular(change: Change | Swap, says: str) -> Case:
    """The file of the discrete model, and what is said of it."""
    command = f"explain ward.csv -m {DISCRETE}"
    return Case(command, rf"^error: ward\.safetensors{says}", changed(DISCRETE, change))


def whole(content: bytes, says: str = DAMAGED) -> Case:
    """Other contents for all of it."""
    return tabular(put(DISCRETE, content), says)


def headed(text: str, says: str = DAMAGED, rest: bytes = b"", length: int | None = None) -> Case:
    """Any text for the header of it."""
    return tabular(head(DISCRETE, text, rest, length), says)


def one(shape: object, end: int, says: str = DAMAGED) -> Case:
    """A file of eight bytes that are an array of some shape."""
    about = {"dtype": "F64", "shape": shape, "data_offsets": [0, end]}
    return headed(json.dumps({"a": about}), says, bytes(8))


def metadata(text: str, says: str) -> Case:
    """A file without arrays and with any text for what it says of itself."""
    return headed(json.dumps({"__metadata__": {"counterplan": text}}), says)


def neural(change: Change, says: str) -> Case:
    """The file of the neural model."""
    return Case(f"explain cohort.csv -m {NEURAL}", rf"^error: sepsis\.safetensors{says}", change)


def hand(says: str, content: Change | str | None = None, **changes: object) -> Case:
    """The model by hand: other contents, or other entries."""
    text = json.dumps(MODEL | changes) if content is None else content
    made = put("model.json", text) if isinstance(text, str) else text
    return Case("explain ward.csv -m model.json", rf"^error: model\.json{says}", made)


def unfit(says: str, **changes: object) -> Case:
    """A model by hand that cannot have led to the first episode."""
    says = rf"^error: ward\.csv: episode 'ann': {says}"
    return Case(
        "explain ward.csv -m model.json", says, put("model.json", json.dumps(MODEL | changes))
    )


def file_of(array: str) -> str:
    """The model that has such an array."""
    return DISCRETE if array in TABULAR.arrays else NEURAL


def edited(array: str, edit: Callable[[dict[str, Any]], object], says: str) -> Case:
    """One of the two models with other arrays; all that helps is to save it anew."""
    change = tensors(file_of(array), lambda arrays, about: edit(arrays))
    return (tabular if file_of(array) == DISCRETE else neural)(change, f"{says}.*; save")


def first(array: str, value: float, says: str) -> Case:
    """The first number of an array is another."""

    def edit(arrays: dict[str, Any]) -> None:
        arrays[array] = arrays[array].copy()
        arrays[array].flat[0] = value

    return edited(array, edit, says)


def array(array: str, shape: tuple[int, ...], says: str, dtype: type = np.float64) -> Case:
    """An array of zeros of another shape or type."""
    return edited(array, lambda arrays: arrays.update({array: np.zeros(shape, dtype)}), says)


def without(array: str, says: str) -> Case:
    """One array less."""
    return edited(array, lambda arrays: arrays.pop(array), says)


def about(name: str, **changes: object) -> Change:
    """Other entries in what a file says of itself."""
    return tensors(name, lambda arrays, about: about.update(changes))


def archive(kind: str) -> bytes:
    """A zip or tar whose only member would land outside the folder."""
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr("../../escaped.txt", "here")
    else:
        with tarfile.open(fileobj=file, mode="w:gz") as tar:
            member = tarfile.TarInfo("../../escaped.txt")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"here"))
    return file.getvalue()


class Trap:
    """What a pickle could do to whoever loads it."""

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return exec, ("open('escaped.txt', 'w').write('here')",)


INFINITE = ('\\"state_labels\\": null', '\\"state_labels\\":9e999')
CASES = {
    # --- the file -----------------------------------------------------------------------------
    "model missing": tabular(gone(DISCRETE), ": no such file; check the path"),
    "model a folder": tabular(folder(DISCRETE), ": is a folder; give a file with a model"),
    "model a pipe": tabular(pipe(DISCRETE), ": is a pipe or a device; give a file with a model"),
    "model a device": tabular(link(DISCRETE, "/dev/zero"), ": is a pipe or a device; give a file"),
    "model of a terabyte": tabular(absurd(DISCRETE, 2**40), ": has 1,0.* more than .*; expected a"),
    "model empty": whole(b"", ": is empty; expected a model"),
    "model a pickle": whole(pickle.dumps(Trap())),
    "model a zip": whole(archive("zip")),
    "model a tar": whole(archive("tar")),
    "model a table": tabular(renamed("ward.parquet", DISCRETE), DAMAGED),
    "model by the name of a pickle": Case(
        "explain ward.csv -m m.pkl", r"m\.pkl: has the extension '\.pkl', but model .*; rename or c"
    ),
    "model by the name of PyTorch": Case(
        "explain ward.csv -m m.pt", r"m\.pt: has the extension '\.pt', but model files .*; rename"
    ),
    "model by the name of an archive": Case(
        "explain ward.csv -m m.zip", r"m\.zip: has the extension '\.zip', but model files .*; ren"
    ),
    "model cut off": tabular(cut(DISCRETE, -4), DAMAGED),
    "model cut in its header": tabular(cut(DISCRETE, 100), DAMAGED),
    "model of seven bytes": tabular(cut(DISCRETE, 7), DAMAGED),
    "model with a bit turned": tabular(
        flip(DISCRETE, place=0.99), ": is damaged: its checksum does not match; save the model anew"
    ),
    # --- the header ---------------------------------------------------------------------------
    "header longer than the file": headed("{}", length=2**40),
    "header of 2^63 bytes": headed("{}", length=2**63),
    "header of no bytes": headed("", rest=b"abc"),
    "header no JSON": headed("{no}"),
    "header a list": headed("[1]"),
    "header nested too deeply": headed('{"a":' * 50_000),
    "shape of 2^80": one([2**40, 2**40], 8),
    "shape negative": one([-1], 8),
    "shape larger than its bytes": one([99], 8),
    "shape beyond the end": one([99], 792),
    "tensors of somebody else": one([1], 8, FOREIGN),
    "metadata no JSON": metadata("{", FOREIGN),
    "metadata nested too deeply": metadata("[" * 90_000, FOREIGN),
    "metadata with infinity": tabular(INFINITE, ": is damaged: its checksum does not match; save"),
    "version 99": tabular(about(DISCRETE, version=99), ": has version 99 of .*; save .* or update"),
    "version a text": tabular(about(DISCRETE, version="1"), ": has version '1' of the model .*; s"),
    "format of the future": tabular(
        about(DISCRETE, format="counterplan dream"),
        ": holds a counterplan dream, expected .*; give",
    ),
    "metadata with more": tabular(about(DISCRETE, more=1), ": is damaged: its metadata is .*; sav"),
    # --- a discrete model ---------------------------------------------------------------------
    "no rewards": without("rewards", ": the array 'rewards' is missing"),
    "rewards in single precision": array(
        "rewards", (2, 2), ": .*'rewards' has type F32,", dtype=np.float32
    ),
    "rewards of three states": array(
        "rewards", (3, 2), r": rewards have shape \(3, 2\), but .*\(2, 2\)"
    ),
    "reward nan": first("rewards", np.nan, ": reward of state 0, action 0 is nan"),
    "probability nan": first(
        "probabilities", np.nan, r": .*P\(state 0 \| state 0, action 0\) is nan"
    ),
    "probability of seven": first(
        "probabilities", 7, r": .*P\(state 0 \| state 0, action 0\) is 7.0"
    ),
    "row that is not there": first("row_of", 9, ": row_of names row 9 for state 0, action 0, but"),
    "next state that is not there": first(
        "indices", 9, ": rows: next state 9 is not one of .*0..1"
    ),
    "rows that begin after the first": first(
        "indptr", 5, ": rows: indptr must run from 0 to the 8 entries"
    ),
    "visits negative": first("visits", -1, ": visits must be whole numbers from 0 up"),
    "labels numbers": tabular(
        about(DISCRETE, state_labels=[1, 2]), ": state_labels are not a list of texts; save"
    ),
    "labels too few": tabular(
        about(DISCRETE, state_labels=["ill"]), ": 1 state labels given for 2 states; save"
    ),
    "schema within damaged": tabular(
        about(DISCRETE, about={"schema": {"columns": 3}}),
        ": the schema .*, columns: is a .*; write",
    ),
    "schema within another": tabular(
        about(
            DISCRETE,
            about={
                "schema": {
                    "columns": {"s": {"role": "state"}, "a": {"role": "action", "levels": [0, 1]}}
                }
            },
        ),
        ": holds a model of discrete states, but those of the schema are continuous; give",
    ),
    "means within damaged": tabular(
        about(DISCRETE, about={"means": {"x": "y"}}),
        ": the means of columns .* damaged: fit it anew",
    ),
    # --- a neural model -----------------------------------------------------------------------
    "weight nan": first("location_state", np.nan, ": location: state weights are not .* finite"),
    "weight infinite": first("scale_output", np.inf, ": scale: output weights are not all finite"),
    "noise nan": first("noise_cholesky", np.nan, ": noise_cholesky must be .* finite entries,"),
    "noise of nothing": first("noise_cholesky", 0, ": noise_cholesky has a zero on its diagonal"),
    "weights of another shape": array(
        "location_state", (3, 99), r": location: state weights have shape \(3, 99\),"
    ),
    "weights of no size": array(
        "location_state", (0, 12), r": location: state weights have shape \(0, 12\)"
    ),
    "weights of five dimensions": array(
        "location_bias", (1, 1, 1, 1, 4), r": location: bias weights have shape \(1, 1"
    ),
    "half a scaling": without("state_range", ": of the scaling only state_offset, .* are there"),
    "range of nothing": first("state_range", 0, ": scaling: the range of state column 0 is 0.0"),
    "seen states too few": array(
        "seen_states", (4, 12), ": seen: 4 states but .* actions", dtype=np.float32
    ),
    "a billion fixed columns": neural(
        about(NEURAL, fixed=10**9),
        ": .*1000000000 features are fixed, but states have 12: .*; save",
    ),
    "fixed columns a word": neural(
        about(NEURAL, fixed="three"), ": fixed must be a whole number, got 'three'.*; save"
    ),
    "about a list": neural(about(NEURAL, about=[1]), ": about is not a mapping; save the model an"),
    "about nothing": neural(about(NEURAL, about={}), ": does not say which doses make .*; use `co"),
    "doses that fall": neural(
        about(NEURAL, about={"dose_edges": {"vasopressor": [3, 2, 1], "fluids": [1, 2, 3]}}),
        ": its dose levels are damaged: edges of vasopressor doses must be three rising .*; fit it",
    ),
    # --- JSON by hand -------------------------------------------------------------------------
    "hand missing": hand(": no such file; check the path", gone("model.json")),
    "hand of 64 GB": hand(": has 68,.* more than .*; expected", absurd("model.json", 2**36)),
    "hand empty": hand(": is empty; expected a model", ""),
    "hand no JSON": hand(", line 2, column 1: is not JSON: .*; correct", '{"transitions":\n}'),
    "hand a list": hand(": holds no object; expected a model as JSON", "[]"),
    "hand nested too deeply": hand(": is nested too deeply; expect", '{"rewards": ' + "[" * 99_999),
    "hand without rewards": hand(": has no 'rewards'; expected", '{"transitions": [[[1.0]]]}'),
    "hand with a key unknown": hand(": unknown key 'reward'; known are transitions", reward=1),
    "hand with a sum of 1.1": hand(
        ": transitions of state 0, action 0 sum to 1.1, not 1: normalise",
        transitions=[[[0.9, 0.2], [0.3, 0.7]], MODEL["transitions"][1]],
    ),
    "hand with a negative": hand(
        r": transitions: P\(state 1 \| state 0, action 0\) is -0\.1: .*must be",
        transitions=[[[1.1, -0.1], [0.3, 0.7]], MODEL["transitions"][1]],
    ),
    "hand with a short row": hand(
        r", transitions\[0\]\[0\]: has 1 entries; expected 2",
        transitions=[[[1.0], [0.3, 0.7]], MODEL["transitions"][1]],
    ),
    "hand with a word": hand(r", rewards\[1\]\[0\]: is 'much'; exp", rewards=[[0, 0], ["much", 1]]),
    "hand with 10^400": hand(
        r", rewards\[1\]\[0\]: is 10+\.\.\. .*; expected a number below",
        rewards=[[0, 0], [10**400, 1]],
    ),
    "hand with labels for three": hand(
        ", state_labels: has 3 entries; expected 2", state_labels=["a", "b", "c"]
    ),
    "hand with half a start": hand(": initial is not a distribution: .*; norm", initial=[0.5, 0.1]),
    # --- Models that the episodes do not fit --------------------------------------------------
    "a step that cannot be": unfit(
        r"the transition at t=1 \(state 0, action 1 -> state 1\) has probability zero in the model",
        transitions=[[[0.8, 0.2], [1.0, 0.0]], MODEL["transitions"][1]],
    ),
    "barred whatever is done": unfit(
        "no policy with k=3 avoids a barred pair.* at t=0", rewards=[["-inf", "-inf"], [1, 1]]
    ),
}
