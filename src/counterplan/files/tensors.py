"""Files of named arrays that are loaded bit for bit as they were saved, or not at all.

A safetensors file with one metadata entry "counterplan": JSON with the format's name and version,
the format's own entries (labels, records, ...), and a SHA-256 of entries and arrays. Nothing in
such a file is code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import FileError, InputError
from counterplan.files.atomic import atomic_file
from counterplan.files.contents import check_readable, suffix_of

SUFFIX = ".safetensors"
METADATA = "counterplan"
WHAT = "a model saved by counterplan"


@dataclass(frozen=True)
class TensorFormat:
    """What files of one kind hold.

    required, optional  names of arrays and their types, as safetensors calls these
    entries             names of the entries in the metadata, besides name, version and checksum
    """

    name: str
    version: int
    required: Mapping[str, str]
    entries: tuple[str, ...]
    optional: Mapping[str, str] = field(default_factory=dict)

    @property
    def arrays(self) -> dict[str, str]:
        """Names and types of all arrays."""
        return {**self.required, **self.optional}


@dataclass(frozen=True, eq=False)
class Tensors:
    """The contents of a file, as its checksum vouches for them."""

    format: TensorFormat
    arrays: dict[str, NDArray[Any]]
    entries: dict[str, Any]


def write_tensors(path: str | Path, tensors: Tensors) -> None:
    """Write a .safetensors file, whole or not at all; the same contents give the same bytes."""
    from safetensors.numpy import save

    suffix_of(path, (SUFFIX,), "saved models")
    form = tensors.format
    stored = {name: np.ascontiguousarray(array) for name, array in tensors.arrays.items()}
    entries = {name: tensors.entries[name] for name in form.entries}
    try:
        sha256 = digest(form, stored, entries)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{path}: cannot be written: {problem}; keep to plain values") from None
    about = {"format": form.name, "version": form.version, "sha256": sha256, **entries}
    with atomic_file(path) as file:
        file.write(save(stored, metadata={METADATA: json.dumps(about)}))


def read_tensors(path: str | Path, formats: tuple[TensorFormat, ...]) -> Tensors:
    """The contents of a file in one of the formats."""
    from safetensors import SafetensorError, safe_open

    check_readable(path, WHAT)
    try:
        with safe_open(path, framework="numpy") as file:
            form, about = _about(path, file.metadata(), formats)
            names = [name for name in file.keys() if name in form.arrays]  # noqa: SIM118
            _check_types(path, form, {name: file.get_slice(name).get_dtype() for name in names})
            arrays = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as problem:
        reason = str(problem).splitlines()[0]
        raise FileError(
            f"{path}: is damaged or no safetensors file: {reason}; save the model anew"
        ) from None
    entries = {name: about[name] for name in form.entries}
    if about["sha256"] != digest(form, arrays, entries):
        raise FileError(f"{path}: is damaged: its checksum does not match; save the model anew")
    return Tensors(form, arrays, entries)


def digest(
    form: TensorFormat, arrays: Mapping[str, NDArray[Any]], entries: Mapping[str, Any]
) -> str:
    """The checksum of a file's contents."""
    text = json.dumps([entries[name] for name in form.entries], allow_nan=False)
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        checksum.update(f"{name} {arrays[name].shape}".encode())
        checksum.update(arrays[name].tobytes())
    return checksum.hexdigest()


def _about(
    path: str | Path, metadata: Mapping[str, str] | None, formats: tuple[TensorFormat, ...]
) -> tuple[TensorFormat, dict[str, Any]]:
    try:
        about = json.loads((metadata or {})[METADATA], parse_constant=_no_constant)
    except (KeyError, ValueError, RecursionError):
        about = None
    known = {form.name: form for form in formats}
    name = about.get("format") if isinstance(about, dict) else None
    if not isinstance(about, dict) or not isinstance(name, str) or name not in known:
        if isinstance(name, str) and name.startswith(f"{METADATA} "):
            expected = " or ".join(known)
            raise FileError(f"{path}: holds a {name}, expected a {expected}; give another file")
        raise FileError(f"{path}: is a safetensors file, but not {WHAT}; use `counterplan fit`")
    form = known[name]
    if about.get("version") != form.version:
        raise FileError(
            f"{path}: has version {about.get('version')!r} of the model format, but this program "
            f"reads version {form.version}; save the model anew or update counterplan"
        )
    if set(about) != {"format", "version", "sha256", *form.entries}:
        raise FileError(f"{path}: is damaged: its metadata is not complete; save the model anew")
    return form, about


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a model file may hold")


def _check_types(path: str | Path, form: TensorFormat, found: Mapping[str, str]) -> None:
    absent = [name for name in form.required if name not in found]
    if absent:
        raise FileError(f"{path}: the array {absent[0]!r} is missing; save the model anew")
    for name, expected in form.arrays.items():
        if name in found and found[name] != expected:
            raise FileError(
                f"{path}: the array {name!r} has type {found[name]}, expected {expected}; "
                "save the model anew"
            )
