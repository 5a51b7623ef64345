"""Model files: safetensors as `save_model` writes them, or JSON written by hand.

A safetensors file holds the arrays of a TabularMDP, the distinct rows in compressed form, and one
metadata entry "counterplan": JSON with the format's name and version, the labels, and a SHA-256 of
arrays and labels. A model is loaded bit for bit as it was saved, or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import FileError, InputError
from counterplan.io.atomic import atomic_file
from counterplan.io.files import check_readable, suffix_of
from counterplan.io.model_json import model_from_json
from counterplan.scm.rows import Rows
from counterplan.scm.tabular import TabularMDP

NATIVE = ".safetensors"
FORMAT = "counterplan tabular model"
VERSION = 1
METADATA = "counterplan"
WHAT = "a model saved by counterplan"
# Types of the arrays in the names of safetensors.
REQUIRED = {
    "indptr": "I64",
    "indices": "I32",
    "probabilities": "F64",
    "row_of": "I32",
    "rewards": "F64",
}
OPTIONAL = {"admissible": "BOOL", "initial": "F64", "final_rewards": "F64"}
LABELS = ("state_labels", "action_labels")
ENTRIES = {"format", "version", "sha256", *LABELS}


def save_model(mdp: TabularMDP, path: str | Path) -> None:
    """Write a model to a .safetensors file."""
    from safetensors.numpy import save

    suffix_of(path, (NATIVE,), "saved models")
    arrays = {name: getattr(mdp.rows, name) for name in ("indptr", "indices", "probabilities")}
    arrays |= {"row_of": mdp.row_of, "rewards": mdp.rewards}
    arrays |= {name: value for name in OPTIONAL if (value := getattr(mdp, name)) is not None}
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    labels = {name: getattr(mdp, name) for name in LABELS}
    about = {"format": FORMAT, "version": VERSION, "sha256": _digest(stored, labels), **labels}
    with atomic_file(path) as file:
        file.write(save(stored, metadata={METADATA: json.dumps(about)}))


def load_model(path: str | Path) -> TabularMDP:
    """The model in a .safetensors file saved before, or in a .json file written by hand."""
    if suffix_of(path, (NATIVE, ".json"), "model files") == ".json":
        return model_from_json(path)
    arrays, labels = _read_native(path)
    rows = Rows(*(arrays.pop(name) for name in ("indptr", "indices", "probabilities")))
    try:
        return TabularMDP.from_rows(rows, **arrays, **labels)
    except InputError as problem:
        raise FileError(f"{path}: {problem}; save the model anew") from None


def _read_native(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Arrays and labels, as the file's checksum vouches for them."""
    from safetensors import SafetensorError, safe_open

    check_readable(path, WHAT)
    try:
        with safe_open(path, framework="numpy") as file:
            about = _about(path, file.metadata())
            names = [name for name in file.keys() if name in REQUIRED | OPTIONAL]  # noqa: SIM118
            _check_types(path, {name: file.get_slice(name).get_dtype() for name in names})
            arrays = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(
            f"{path}: is damaged or no safetensors file: {reason}; save the model anew"
        ) from None
    labels = {name: about[name] for name in LABELS}
    for name, given in labels.items():
        if given is not None and not (isinstance(given, list) and set(map(type, given)) == {str}):
            raise FileError(f"{path}: {name} are not a list of texts; save the model anew")
    if about["sha256"] != _digest(arrays, labels):
        raise FileError(f"{path}: is damaged: its checksum does not match; save the model anew")
    return arrays, labels


def _about(path: str | Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        about = json.loads((metadata or {})[METADATA])
    except (KeyError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise FileError(f"{path}: is a safetensors file, but not {WHAT}; use `counterplan fit`")
    if about.get("version") != VERSION:
        raise FileError(
            f"{path}: has version {about.get('version')!r} of the model format, but this program "
            f"reads version {VERSION}; save the model anew or update counterplan"
        )
    if set(about) != ENTRIES:
        raise FileError(f"{path}: is damaged: its metadata is not complete; save the model anew")
    return about


def _check_types(path: str | Path, found: Mapping[str, str]) -> None:
    absent = [name for name in REQUIRED if name not in found]
    if absent:
        raise FileError(f"{path}: the array {absent[0]!r} is missing; save the model anew")
    for name, expected in (REQUIRED | OPTIONAL).items():
        if name in found and found[name] != expected:
            raise FileError(
                f"{path}: the array {name!r} has type {found[name]}, expected {expected}; "
                "save the model anew"
            )


def _digest(arrays: Mapping[str, NDArray[Any]], labels: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps([labels[name] for name in LABELS]).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
