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

from counterplan.core.files import atomic_file, read_bytes, suffix_of
from counterplan.errors import FileError, InputError

SUFFIX = ".safetensors"
METADATA = "counterplan"
WHAT = "a model saved by counterplan"
# What safetensors calls the types of arrays.
TYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}


@dataclass(frozen=True)
class TensorFormat:
    """What files of one kind hold.

    required, optional  names of arrays and their types, as safetensors calls these
    entries             names of the entries in the metadata, besides name, version and checksum
    optional_entries    those that a file may lack
    """

    name: str
    version: int
    required: Mapping[str, str]
    entries: tuple[str, ...]
    optional: Mapping[str, str] = field(default_factory=dict)
    optional_entries: tuple[str, ...] = ()

    @property
    def arrays(self) -> dict[str, str]:
        """Names and types of all arrays."""
        return {**self.required, **self.optional}

    def known(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        """The format's own among given entries, in its order; all that a file must have."""
        given = [name for name in self.optional_entries if name in entries]
        return {name: entries[name] for name in (*self.entries, *given)}


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
    entries = form.known(tensors.entries)
    try:
        sha256 = digest(form, stored, entries)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{path}: cannot be written: {problem}; keep to plain values") from None
    about = {"format": form.name, "version": form.version, "sha256": sha256, **entries}
    with atomic_file(path) as file:
        file.write(save(stored, metadata={METADATA: json.dumps(about)}))


def read_tensors(path: str | Path, formats: tuple[TensorFormat, ...]) -> Tensors:
    """The contents of a file in one of the formats."""
    return tensors_from_bytes(path, read_bytes(path, WHAT), formats)


def tensors_from_bytes(
    path: str | Path, content: bytes, formats: tuple[TensorFormat, ...]
) -> Tensors:
    """The contents of such a file in memory; messages call it `path`."""
    from safetensors import SafetensorError, deserialize

    try:
        stored = dict(deserialize(content))  # type: ignore[no-untyped-call]
    except SafetensorError as problem:
        reason = str(problem).splitlines()[0][:200]
        raise FileError(
            f"{path}: is damaged or no safetensors file: {reason}; save the model anew"
        ) from None
    form, about = _about(path, content, formats)
    arrays = {}
    for name, expected in form.arrays.items():
        if name not in stored:
            if name in form.required:
                raise FileError(f"{path}: the array {name!r} is missing; save the model anew")
            continue
        part = stored[name]
        if part["dtype"] != expected:
            raise FileError(
                f"{path}: the array {name!r} has type {part['dtype']}, expected {expected}; "
                "save the model anew"
            )
        arrays[name] = np.frombuffer(part["data"], TYPES[expected]).reshape(part["shape"])
    entries = form.known(about)
    try:
        agrees = about["sha256"] == digest(form, arrays, entries)
    except (ValueError, RecursionError):  # infinity, or lists within lists: nothing that was saved
        agrees = False
    if not agrees:
        raise FileError(f"{path}: is damaged: its checksum does not match; save the model anew")
    return Tensors(form, arrays, entries)


def digest(
    form: TensorFormat, arrays: Mapping[str, NDArray[Any]], entries: Mapping[str, Any]
) -> str:
    """The checksum of a file's contents."""
    text = json.dumps(list(form.known(entries).values()), allow_nan=False)
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        checksum.update(f"{name} {arrays[name].shape}".encode())
        checksum.update(arrays[name].tobytes())
    return checksum.hexdigest()


def _about(
    path: str | Path, content: bytes, formats: tuple[TensorFormat, ...]
) -> tuple[TensorFormat, dict[str, Any]]:
    """What stands beside the arrays in the header, whose form has been checked."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    try:
        about = json.loads(metadata[METADATA])
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
    required = {"format", "version", "sha256", *form.entries}
    if not required <= set(about) <= required | set(form.optional_entries):
        raise FileError(f"{path}: is damaged: its metadata is not complete; save the model anew")
    return form, about
