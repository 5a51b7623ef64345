"""Files written whole or not at all, and loaded bit for bit."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

import counterplan as cp
from counterplan.core.files import atomic_file, check_target, parse_toml
from counterplan.core.tensors import METADATA, TensorFormat, Tensors, read_tensors, write_tensors
from counterplan.errors import FileError
from counterplan.tables.models import model_from_bytes

# --- Files appear whole or not at all, and what stood there before survives a failure ---


def test_writes_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "result.bin"
    with atomic_file(target) as file:
        file.write(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with atomic_file(tmp_path / "result") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "result").stat().st_mode) == 0o644


@pytest.mark.parametrize("failure", [RuntimeError("bug"), KeyboardInterrupt()])
def test_failure_keeps_the_old_file(tmp_path: Path, failure: BaseException) -> None:
    target = tmp_path / "result"
    target.write_bytes(b"old")

    def write() -> None:
        with atomic_file(target) as file:
            file.write(b"half")
            raise failure

    with pytest.raises(type(failure)):
        write()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"), atomic_file(tmp_path / "result") as file:
        file.write(b"x")
    assert list(tmp_path.iterdir()) == []


def test_follows_links(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with atomic_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_longest_name(tmp_path: Path) -> None:
    name = "x" * 255
    with atomic_file(tmp_path / name) as file:
        file.write(b"x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_refuses_what_is_no_place_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path, why in [
        (tmp_path, "it is a folder"),
        (tmp_path / "absent" / "result", "folder does not exist"),
        (tmp_path / "file" / "result", "its folder is a file"),
        (Path(os.devnull), "not a regular file"),
        (tmp_path / ("x" * 256), "File name too long"),
    ]:
        with pytest.raises(FileError, match=why):
            check_target(path)
        with pytest.raises(FileError, match=why), atomic_file(path):
            pytest.fail("must not get here")
    assert os.path.exists(os.devnull)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_refuses_a_locked_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="no permission"):
        check_target(tmp_path / "result")
    tmp_path.chmod(0o700)


# --- Files of arrays: those of earlier versions, and entries that a file may have or lack ---

FORM = TensorFormat("counterplan test", 1, {"x": "F64"}, ("name",), {"y": "F32"}, ("note",))
# A tabular model, written before models knew anything of their data.
OLD = base64.b64decode(
    "aAIAAAAAAAB7Il9fbWV0YWRhdGFfXyI6eyJjb3VudGVycGxhbiI6IntcImZvcm1hdFwiOiBcImNvdW50ZXJwbGFuIH"
    "RhYnVsYXIgbW9kZWxcIiwgXCJ2ZXJzaW9uXCI6IDEsIFwic2hhMjU2XCI6IFwiNjk4YTRiZTFmNzg3ZTlkNjc3MGQw"
    "ZDBjNjE5MmUxMzYyN2RlOGEzZjNlZjljYjdiNjRhYzI4NjM2ZmZhZTYyYVwiLCBcInN0YXRlX2xhYmVsc1wiOiBbXC"
    "JhXCIsIFwiYlwiXSwgXCJhY3Rpb25fbGFiZWxzXCI6IG51bGx9In0sImluZHB0ciI6eyJkdHlwZSI6Ikk2NCIsInNo"
    "YXBlIjpbNV0sImRhdGFfb2Zmc2V0cyI6WzAsNDBdfSwiaW5pdGlhbCI6eyJkdHlwZSI6IkY2NCIsInNoYXBlIjpbMl"
    "0sImRhdGFfb2Zmc2V0cyI6WzQwLDU2XX0sInByb2JhYmlsaXRpZXMiOnsiZHR5cGUiOiJGNjQiLCJzaGFwZSI6WzZd"
    "LCJkYXRhX29mZnNldHMiOls1NiwxMDRdfSwicmV3YXJkcyI6eyJkdHlwZSI6IkY2NCIsInNoYXBlIjpbMiwyXSwiZG"
    "F0YV9vZmZzZXRzIjpbMTA0LDEzNl19LCJpbmRpY2VzIjp7ImR0eXBlIjoiSTMyIiwic2hhcGUiOls2XSwiZGF0YV9v"
    "ZmZzZXRzIjpbMTM2LDE2MF19LCJyb3dfb2YiOnsiZHR5cGUiOiJJMzIiLCJzaGFwZSI6WzIsMl0sImRhdGFfb2Zmc2"
    "V0cyI6WzE2MCwxNzZdfX0gAAAAAAAAAAACAAAAAAAAAAMAAAAAAAAABAAAAAAAAAAGAAAAAAAAAJqZmZmZmbk/zczM"
    "zMzM7D8AAAAAAADgPwAAAAAAAOA/AAAAAAAA8D8AAAAAAADwPwAAAAAAANA/AAAAAAAA6D8AAAAAAADwPwAAAAAAAA"
    "BAAAAAAAAACEAAAAAAAADw/wAAAAABAAAAAQAAAAAAAAAAAAAAAQAAAAAAAAACAAAAAQAAAAMAAAA="
)


def test_a_file_of_an_earlier_version() -> None:
    mdp = model_from_bytes("old.safetensors", OLD)
    assert isinstance(mdp, cp.TabularMDP)
    assert mdp.rewards.tolist() == [[1.0, 2.0], [3.0, -np.inf]]
    assert mdp.row(1, 1).tolist() == [0.25, 0.75]
    assert mdp.state_labels == ("a", "b")
    assert mdp.visits is None
    assert mdp.about == {}


def test_what_a_tabular_model_knows_of_its_data(tmp_path: Path) -> None:
    mdp = model_from_bytes("old.safetensors", OLD)
    assert isinstance(mdp, cp.TabularMDP)
    path = tmp_path / "new.safetensors"
    cp.tables.save_model(mdp.with_data([[3, 0], [1, 2]], {"schema": {"a": 1}}), path)
    found = cp.load_model(path)
    assert isinstance(found, cp.TabularMDP)
    assert found.visits is not None
    assert found.visits.tolist() == [[3, 0], [1, 2]]
    assert found.about == {"schema": {"a": 1}}
    for wrong in ([[1, 2]], [[1.5, 0], [0, 0]], [[-1, 0], [0, 0]]):
        with pytest.raises(cp.errors.InputError, match="visits must be whole numbers from 0 up"):
            mdp.with_data(wrong)


@pytest.mark.parametrize("entries", [{"name": "a"}, {"name": "a", "note": [1, None]}])
def test_optional_entries(tmp_path: Path, entries: dict[str, object]) -> None:
    path = tmp_path / "m.safetensors"
    arrays = {"x": np.arange(3.0), "y": np.zeros((2, 2), dtype=np.float32)}
    write_tensors(path, Tensors(FORM, arrays, entries))
    found = read_tensors(path, (FORM,))
    assert found.entries == entries
    assert found.arrays["y"].dtype == np.float32
    assert found.arrays["x"].tolist() == [0.0, 1.0, 2.0]


def test_an_optional_entry_is_part_of_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_tensors(path, Tensors(FORM, {"x": np.zeros(1)}, {"name": "a", "note": "b"}))
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    about = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][METADATA])
    for changed, words in (
        (about | {"note": "c"}, "checksum does not match"),
        ({name: value for name, value in about.items() if name != "note"}, "checksum does not"),
        (about | {"more": 1}, "its metadata is not complete"),
    ):
        path.write_bytes(save(load(content), metadata={METADATA: json.dumps(changed)}))
        with pytest.raises(FileError, match=words):
            read_tensors(path, (FORM,))


@pytest.mark.parametrize("text", ["[{}]", "{} = 1", "x = {{{} = 1}}", "[[ 'a' . {}]]"])
def test_names_of_many_parts_are_not_taken_apart(text: str) -> None:
    """Python's reader would need minutes for them; texts with as many dots are none."""
    with pytest.raises(FileError, match=r"t.toml, line 2: a name in it has more than 32 parts"):
        parse_toml("t.toml", "\n" + text.format(".".join(["a"] * 100_000)))
    dots = "a." * 500
    assert parse_toml("t.toml", f'x = "{dots}"\na.b.c = 1')["x"] == dots
