"""Model files: safetensors as `save_model` writes them, or JSON written by hand.

A tabular model is stored with the distinct rows in compressed form, a learned one of continuous
states with its weights; all as `counterplan.core.tensors` describes. A file says itself which kind
it holds.

A model written by hand as JSON:

    {"transitions": [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]],
     "rewards": [[0, 1], [2, "-inf"]]}

transitions[s][a][s'] are probabilities and rewards[s][a] numbers, where null or "-inf" stands for
-inf, a pair that must not occur. Optional are "admissible" (S x A of true or false), "initial" (S
probabilities), "final_rewards" (S), "state_labels" (S texts) and "action_labels" (A texts).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterplan.core.files import LARGEST_FILE, LARGEST_JSON, parse_json, read_bytes, suffix_of
from counterplan.core.table import shown
from counterplan.core.tensors import (
    SUFFIX,
    TensorFormat,
    Tensors,
    tensors_from_bytes,
    write_tensors,
)
from counterplan.errors import FileError, InputError
from counterplan.scm.tabular import Rows, TabularMDP

if TYPE_CHECKING:
    from counterplan.scm.learned import LearnedSCM

FORMATS = (SUFFIX, ".json")
# What a model may say about itself: what its outcome is called.
OUTCOME = "outcome"
LABELS = ("state_labels", "action_labels")
ROWS = ("indptr", "indices", "probabilities")
TABULAR = TensorFormat(
    name="counterplan tabular model",
    version=1,
    required=dict.fromkeys(("probabilities", "rewards"), "F64")
    | {"indptr": "I64", "indices": "I32", "row_of": "I32"},
    entries=LABELS,
    optional=dict.fromkeys(("initial", "final_rewards", "mass"), "F64")
    | {"admissible": "BOOL", "visits": "I64", "counts": "I64"},
    optional_entries=("about",),
)


def save_model(model: Any, path: str | Path) -> None:
    """Write a model to a .safetensors file: a learned or a tabular one, or what is built on one."""
    model = getattr(model, "mdp", model)
    if not isinstance(model, TabularMDP):
        # Here, since such models load a compiler.
        from counterplan.scm.learned import LearnedSCM

        if not isinstance(model, LearnedSCM):
            kind = type(model).__name__
            raise InputError(f"{kind} cannot be saved: give a TabularMDP, SmoothSCM or NeuralSCM")
        model.save(path)
        return
    arrays: dict[str, Any] = {name: getattr(model.rows, name) for name in ROWS}
    arrays |= {"row_of": model.row_of, "rewards": model.rewards}
    arrays |= {
        name: part for name in TABULAR.optional if (part := getattr(model, name)) is not None
    }
    entries: dict[str, Any] = {name: getattr(model, name) for name in LABELS}
    if model.about:
        entries["about"] = dict(model.about)
    write_tensors(path, Tensors(TABULAR, arrays, entries))


def load_model(path: str | Path) -> TabularMDP | LearnedSCM:
    """The model in a .safetensors file saved before, or in a .json file written by hand."""
    return model_from_bytes(path, model_bytes(path))


def outcome_of_model(model: LearnedSCM | TabularMDP) -> tuple[str, str, bool] | None:
    """How a model calls its outcome: the name, the unit, whether it is a probability; None where it
    does not say."""
    given = model.about.get(OUTCOME)
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        return None
    return given["name"], str(given.get("unit", "")), given.get("percent") is True


def model_bytes(path: str | Path) -> bytes:
    """The contents of a model file."""
    is_json = suffix_of(path, FORMATS, "model files") == ".json"
    return read_bytes(path, "a model", LARGEST_JSON if is_json else LARGEST_FILE)


def model_from_bytes(path: str | Path, content: bytes) -> TabularMDP | LearnedSCM:
    """The model in the contents of such a file; its name says which kind it is."""
    if suffix_of(path, FORMATS, "model files") == ".json":
        return _from_json(path, content)
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    if TABULAR.name.encode() not in header:
        from counterplan.scm.learned import NEURAL, NeuralSCM
        from counterplan.scm.smooth import SMOOTH, SmoothSCM

        tensors = tensors_from_bytes(path, content, (TABULAR, NEURAL, SMOOTH))
        kind = SmoothSCM if tensors.format is SMOOTH else NeuralSCM
        return kind.from_tensors(path, tensors)
    tensors = tensors_from_bytes(path, content, (TABULAR,))
    entries: dict[str, Any] = dict(tensors.entries)
    arrays: dict[str, Any] = dict(tensors.arrays)
    about = entries.pop("about", {})
    if not isinstance(about, dict):
        raise FileError(f"{path}: about is not a mapping; save the model anew")
    for name, given in entries.items():
        if given is not None and not (isinstance(given, list) and set(map(type, given)) == {str}):
            raise FileError(f"{path}: {name} are not a list of texts; save the model anew")
    data = {name: arrays.pop(name, None) for name in ("visits", "counts", "mass")}
    given = Rows(*(arrays.pop(name) for name in ROWS)), arrays.pop("row_of")
    try:
        return TabularMDP(given, **arrays, **entries).with_data(about=about, **data)
    except InputError as problem:
        raise FileError(f"{path}: {problem}; save the model anew") from None


# --- JSON written by hand ---------------------------------------------------------------------

# What entries are.
NUMBER, REWARD = "a number", 'a number, or null or "-inf" for -inf'
FLAG, LABEL = "true or false", "a text that is not empty"
WHAT = 'a model as JSON with "transitions" (S x A x S) and "rewards" (S x A)'


def _from_json(path: str | Path, content: bytes) -> TabularMDP:
    given = parse_json(path, content, WHAT)
    if not isinstance(given, dict):
        raise FileError(f"{path}: holds no object; expected {WHAT}")
    for name in ("transitions", "rewards"):
        if name not in given:
            raise FileError(f"{path}: has no {name!r}; expected {WHAT}")
    sizes, outer, where = list[int](), given["transitions"], f"{path}, transitions"
    for each in ("state", "action"):
        if not isinstance(outer, list) or not outer:
            raise FileError(f"{where}: expected a list with one entry for each {each}")
        sizes.append(len(outer))
        outer, where = outer[0], f"{where}[0]"
    S, A = sizes
    expected: dict[str, tuple[tuple[int, ...], str]] = {
        "transitions": ((S, A, S), NUMBER),
        "rewards": ((S, A), REWARD),
        "admissible": ((S, A), FLAG),
        "initial": ((S,), NUMBER),
        "final_rewards": ((S,), REWARD),
        "state_labels": ((S,), LABEL),
        "action_labels": ((A,), LABEL),
    }
    unknown = [name for name in given if name not in expected]
    if unknown:
        raise FileError(f"{path}: unknown key {unknown[0]!r}; known are {', '.join(expected)}")
    parts = {
        name: _nested(f"{path}, {name}", given[name], shape, kind)
        for name, (shape, kind) in expected.items()
        if given.get(name) is not None
    }
    try:
        return TabularMDP(**parts)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None


def _nested(where: str, value: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Lists within lists of the given shape, each innermost value of a kind."""
    if shape:
        if not isinstance(value, list):
            raise FileError(f"{where}: is {shown(value)}; expected a list of {shape[0]} entries")
        if len(value) != shape[0]:
            raise FileError(f"{where}: has {len(value)} entries; expected {shape[0]}")
        return [_nested(f"{where}[{i}]", one, shape[1:], kind) for i, one in enumerate(value)]
    if kind == REWARD and (value is None or value == "-inf"):
        return -math.inf
    is_flag = isinstance(value, bool)
    if (kind == FLAG and is_flag) or (kind == LABEL and isinstance(value, str) and value.strip()):
        return value
    if kind in (NUMBER, REWARD) and isinstance(value, int | float) and not is_flag:
        try:
            return float(value)
        except OverflowError:
            kind = "a number below 1e308"
    raise FileError(f"{where}: is {shown(value)}; expected {kind}")
