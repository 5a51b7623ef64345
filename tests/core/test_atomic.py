"""Files appear whole or not at all, and what stood there before survives a failure."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from counterplan.core.files import atomic_file, check_target
from counterplan.errors import FileError


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
