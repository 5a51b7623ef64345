"""Model files: safetensors as `save_model` writes them, or JSON written by hand.

A tabular model is stored with the distinct rows in compressed form, a neural one with its weights;
both as `counterplan.core.tensors` describes. A file says itself which of the two it holds.

A model written by hand as JSON:

    {"transitions": [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]],
     "rewards": [[0, 1], [2, "-inf"]]}

transitions[s][a][s'] are probabilities and rewards[s][a] numbers, where null or "-inf" stands for
-inf, a pair that must not occur. Optional are "admissible" (S x A of true or false), "initial" (S
probabilities), "final_rewards" (S), "state_labels" (S texts) and "action_labels" (A texts).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from counterplan.core.files import LARGEST_FILE, LARGEST_JSON, parse_json, read_bytes, suffix_of
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
    from counterplan.scm.neural import NeuralSCM

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
    if not isinstance(model, TabularMDP):
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
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    if TABULAR.name.encode() in header:
        return _tabular(path, tensors_from_bytes(path, content, (TABULAR,)))
    # Here, since neural models load a compiler.
    from counterplan.scm.neural import NEURAL, NeuralSCM

    return NeuralSCM.from_tensors(path, tensors_from_bytes(path, content, (TABULAR, NEURAL)))


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


# --- JSON written by hand ---------------------------------------------------------------------

WHAT = 'a model as JSON with "transitions" (S x A x S) and "rewards" (S x A)'
REQUIRED = ("transitions", "rewards")


def model_from_json(path: str | Path, content: bytes) -> TabularMDP:
    """The model in the contents of a JSON file."""
    given = parse_json(path, content, WHAT)
    if not isinstance(given, dict):
        raise FileError(f"{path}: holds no object; expected {WHAT}")
    absent = [name for name in REQUIRED if name not in given]
    if absent:
        raise FileError(f"{path}: has no {absent[0]!r}; expected {WHAT}")
    n_states, n_actions = _size(path, given["transitions"])
    pairs, states, actions = (n_states, n_actions), (n_states,), (n_actions,)
    expected: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
        "transitions": ((n_states, n_actions, n_states), _number),
        "rewards": (pairs, _reward),
        "admissible": (pairs, _flag),
        "initial": (states, _number),
        "final_rewards": (states, _reward),
        "state_labels": (states, _label),
        "action_labels": (actions, _label),
    }
    unknown = [name for name in given if name not in expected]
    if unknown:
        raise FileError(f"{path}: unknown key {unknown[0]!r}; known are {', '.join(expected)}")
    parts = {
        name: _nested(_Place(path, name), given[name], shape, entry)
        for name, (shape, entry) in expected.items()
        if given.get(name) is not None
    }
    try:
        return TabularMDP(**parts)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None


class _Place:
    """Where in the file a value stands."""

    def __init__(self, path: str | Path, name: str, indices: tuple[int, ...] = ()) -> None:
        self._path, self._name, self._indices = path, name, indices

    def inside(self, index: int) -> _Place:
        return _Place(self._path, self._name, (*self._indices, index))

    def reject(self, problem: str) -> NoReturn:
        indices = "".join(f"[{index}]" for index in self._indices)
        raise FileError(f"{self._path}, {self._name}{indices}: {problem}")


def _size(path: str | Path, transitions: Any) -> tuple[int, int]:
    """Numbers of states and actions, from the outer lists of the transitions."""
    place = _Place(path, "transitions")
    if not isinstance(transitions, list) or not transitions:
        place.reject("expected a list with one entry for each state")
    if not isinstance(transitions[0], list) or not transitions[0]:
        place.inside(0).reject("expected a list with one entry for each action")
    return len(transitions), len(transitions[0])


def _nested(
    place: _Place, value: Any, shape: tuple[int, ...], entry: Callable[[Any], Any]
) -> list[Any]:
    """Lists within lists of the given shape, each innermost value as `entry` reads it."""
    if not isinstance(value, list):
        place.reject(f"is {_shown(value)}; expected a list of {shape[0]} entries")
    if len(value) != shape[0]:
        place.reject(f"has {len(value)} entries; expected {shape[0]}")
    if len(shape) > 1:
        inner = shape[1:]
        return [_nested(place.inside(i), item, inner, entry) for i, item in enumerate(value)]
    read = []
    for i, item in enumerate(value):
        try:
            read.append(entry(item))
        except TypeError as problem:
            place.inside(i).reject(f"is {_shown(item)}; expected {problem}")
    return read


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    try:
        return float(value)
    except OverflowError:
        raise TypeError("a number below 1e308") from None


def _reward(value: Any) -> float:
    if value is None or value == "-inf":
        return -math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError('a number, or null or "-inf" for -inf')
    return _number(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _label(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError("a text that is not empty")
    return value
