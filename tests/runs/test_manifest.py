"""What is written down about a run, read back."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterplan.errors import FileError, InputError
from counterplan.runs.store import Manifest, json_value, read_manifest, task_record
from counterplan.runs.task import TaskSpec

MANIFEST = Manifest(
    task=task_record(TaskSpec("explain", {"k": 3}, {"model": b"weights"})),
    arguments={"k": 3, "solver": "exact"},
    hashes={"model": "0" * 64},
    seed=4,
    part_size=50,
    repeatable=True,
    parts=3,
    inputs_sha256="1" * 64,
)


def test_read_back(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(MANIFEST.to_bytes())
    assert read_manifest(path) == MANIFEST
    keys = list(json.loads(path.read_text()))
    assert keys == sorted(keys)


def test_what_is_described_stays_in_its_order(tmp_path: Path) -> None:
    """The columns of a schema stand for the features of a model, one by one."""
    columns = {"sofa": {"role": "state"}, "pressure": {"role": "state"}, "age": {"role": "fixed"}}
    task = task_record(TaskSpec("explain", {"schema": {"columns": columns}}))
    path = tmp_path / "manifest.json"
    path.write_bytes(replace(MANIFEST, task=task).to_bytes())
    read = read_manifest(path).task["description"]["schema"]["columns"]
    assert list(read) == ["sofa", "pressure", "age"]


def test_files_are_in_it_by_their_checksums_only() -> None:
    assert b"weights" not in MANIFEST.to_bytes()
    assert len(MANIFEST.task["files"]["model"]) == 64


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(st.sampled_from(sorted(json.loads(MANIFEST.to_bytes()))), JSON)
def test_whatever_is_in_an_entry(name: str, value: Any) -> None:
    """It is read, or refused with one line."""
    document = json.loads(MANIFEST.to_bytes()) | {name: value}
    _is_read_or_refused(json.dumps(document).encode())


@given(st.binary(max_size=100) | st.integers(0, 400).map(lambda size: MANIFEST.to_bytes()[:size]))
def test_whatever_is_in_the_file(content: bytes) -> None:
    _is_read_or_refused(content)


def _is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.json"
        path.write_bytes(content)
        try:
            said = f"{path}: {read_manifest(path)}"
        except FileError as problem:
            said = str(problem)
    assert said.startswith(str(path))
    assert "\n" not in said


@pytest.mark.parametrize("value", [{"k": float("nan")}, {"k": {1, 2}}, {"k": b"bytes"}])
def test_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises(InputError, match="the arguments cannot be stored as JSON"):
        json_value(value, "the arguments")
