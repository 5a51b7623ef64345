"""Model files: safetensors as `save_model` writes them, or JSON written by hand.

A tabular model is stored with the distinct rows in compressed form, a neural one with its weights;
both as `counterplan.files.tensors` describes. A file says itself which of the two it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterplan.errors import FileError, InputError
from counterplan.files.contents import LARGEST_FILE, LARGEST_JSON, read_bytes, suffix_of
from counterplan.files.tensors import (
    SUFFIX,
    TensorFormat,
    Tensors,
    tensors_from_bytes,
    write_tensors,
)
from counterplan.io.model_json import model_from_json
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.neural_file import NEURAL, neural_from_tensors
from counterplan.scm.rows import Rows
from counterplan.scm.tabular import TabularMDP

FORMATS = (SUFFIX, ".json")
LABELS = ("state_labels", "action_labels")
TABULAR = TensorFormat(
    name="counterplan tabular model",
    version=1,
    required={
        "indptr": "I64",
        "indices": "I32",
        "probabilities": "F64",
        "row_of": "I32",
        "rewards": "F64",
    },
    entries=LABELS,
    optional={"admissible": "BOOL", "initial": "F64", "final_rewards": "F64", "visits": "I64"},
    optional_entries=("about",),
)
ROWS = ("indptr", "indices", "probabilities")


def save_model(model: TabularMDP | NeuralSCM, path: str | Path) -> None:
    """Write a model to a .safetensors file."""
    if isinstance(model, NeuralSCM):
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


def load_model(path: str | Path) -> TabularMDP | NeuralSCM:
    """The model in a .safetensors file saved before, or in a .json file written by hand."""
    return model_from_bytes(path, model_bytes(path))


def model_bytes(path: str | Path) -> bytes:
    """The contents of a model file."""
    is_json = suffix_of(path, FORMATS, "model files") == ".json"
    return read_bytes(path, "a model", LARGEST_JSON if is_json else LARGEST_FILE)


def model_from_bytes(path: str | Path, content: bytes) -> TabularMDP | NeuralSCM:
    """The model in the contents of such a file; its name says which kind it is."""
    if suffix_of(path, FORMATS, "model files") == ".json":
        return model_from_json(path, content)
    tensors = tensors_from_bytes(path, content, (TABULAR, NEURAL))
    if tensors.format is NEURAL:
        return neural_from_tensors(path, tensors, NeuralSCM)
    return _tabular(path, tensors)


def _tabular(path: str | Path, tensors: Tensors) -> TabularMDP:
    entries = dict(tensors.entries)
    about = entries.pop("about", {})
    if not isinstance(about, dict):
        raise FileError(f"{path}: about is not a mapping; save the model anew")
    for name, given in entries.items():
        if given is not None and not (isinstance(given, list) and set(map(type, given)) == {str}):
            raise FileError(f"{path}: {name} are not a list of texts; save the model anew")
    arrays = dict(tensors.arrays)
    visits = arrays.pop("visits", None)
    rows = Rows(*(arrays.pop(name) for name in ROWS))
    try:
        return TabularMDP.from_rows(rows, **arrays, **entries).with_data(visits, about)
    except InputError as problem:
        raise FileError(f"{path}: {problem}; save the model anew") from None
