"""One run at a time in a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterplan.errors import FileError


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for; it ends with the process, however that ends."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as problem:
        raise FileError(f"{path}: cannot be opened: {problem.strerror}; check the folder") from None
    try:
        _take(handle, path)
        yield
    finally:
        os.close(handle)


def _take(handle: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed the file between our opening and locking it.
            is_there = path.exists() and os.path.samestat(os.fstat(handle), path.stat())
            if not is_there:
                raise BlockingIOError
    except (BlockingIOError, PermissionError):
        raise FileError(
            f"{path.parent}: another run is at work there; wait for it or choose another folder"
        ) from None
    except OSError as problem:
        raise FileError(f"{path}: cannot be locked: {problem.strerror}; use a local disk") from None
