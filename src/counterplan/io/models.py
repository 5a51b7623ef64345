"""Model files: safetensors as `save_model` writes them, or JSON written by hand.

A tabular model is stored with the distinct rows in compressed form, a neural one with its weights;
both as `counterplan.files.tensors` describes. A file says itself which of the two it holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counterplan.errors import FileError, InputError
from counterplan.files.contents import suffix_of
from counterplan.files.tensors import (
    SUFFIX,
    TensorFormat,
    Tensors,
    read_tensors,
    write_tensors,
)
from counterplan.io.model_json import model_from_json
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.neural_file import NEURAL, neural_from_tensors
from counterplan.scm.rows import Rows
from counterplan.scm.tabular import TabularMDP

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
    optional={"admissible": "BOOL", "initial": "F64", "final_rewards": "F64"},
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
    write_tensors(path, Tensors(TABULAR, arrays, {name: getattr(model, name) for name in LABELS}))


def load_model(path: str | Path) -> TabularMDP | NeuralSCM:
    """The model in a .safetensors file saved before, or in a .json file written by hand."""
    if suffix_of(path, (SUFFIX, ".json"), "model files") == ".json":
        return model_from_json(path)
    tensors = read_tensors(path, (TABULAR, NEURAL))
    if tensors.format is NEURAL:
        return neural_from_tensors(path, tensors)
    return _tabular(path, tensors)


def _tabular(path: str | Path, tensors: Tensors) -> TabularMDP:
    for name, given in tensors.entries.items():
        if given is not None and not (isinstance(given, list) and set(map(type, given)) == {str}):
            raise FileError(f"{path}: {name} are not a list of texts; save the model anew")
    arrays = dict(tensors.arrays)
    rows = Rows(*(arrays.pop(name) for name in ROWS))
    try:
        return TabularMDP.from_rows(rows, **arrays, **tensors.entries)
    except InputError as problem:
        raise FileError(f"{path}: {problem}; save the model anew") from None
