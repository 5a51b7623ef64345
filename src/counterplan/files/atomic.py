"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from counterplan.errors import FileError


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` once the block has ended well.

    Until then it is a hidden file in the same folder; if anything fails it is removed, and what
    stood under `path` before stays as it was.
    """
    target = check_target(path)
    temporary = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise _cannot_write(path, problem) from None


def check_target(path: str | Path) -> Path:
    """Where a file of this name will lie (links followed), or an error if it cannot be written.

    Call it before long work whose result goes there.
    """
    try:
        target = Path(path).resolve()
        folder = target.parent
        if not folder.is_dir():
            if folder.exists():
                raise FileError(f"{path}: cannot be written: its folder is a file; choose another")
            raise FileError(
                f"{path}: cannot be written: the folder does not exist; create it first"
            )
        # Taking the place of a device such as /dev/null would destroy it.
        if target.exists() and not target.is_file():
            what = "a folder" if target.is_dir() else "not a regular file"
            raise FileError(f"{path}: cannot be written: it is {what}; give a file name")
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    except RuntimeError:  # how Python before 3.13 tells of links that point at each other
        raise FileError(f"{path}: cannot be written: it is a circle of links; remove it") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(
            f"{path}: cannot be written: no permission to write in its folder; choose another"
        )
    return target


def _cannot_write(path: str | Path, problem: OSError) -> FileError:
    reason = problem.strerror or type(problem).__name__
    advice = "; make room" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return FileError(f"{path}: cannot be written: {reason}; nothing was left behind{advice}")
