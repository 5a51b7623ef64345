"""Files written whole or not at all, and contents of input files with errors that name the file and
the place in it."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import secrets
import stat
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from counterplan.errors import FileError

log = logging.getLogger(__name__)
# Files that are read whole must fit in memory, JSON some ten times over: larger ones are slips.
LARGEST_FILE = 4 * 2**30
LARGEST_JSON = 2**29


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
            log.info("wrote %s", path)
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


def suffix_of(
    path: str | Path, accepted: tuple[str, ...], what: str, named: str | Path | None = None
) -> str:
    """The file's extension in lower case, one of `accepted`; `named`: as messages call it."""
    if not isinstance(path, str | PathLike):
        raise FileError(f"expected the path of a file, got {path!r}: {what} end in {accepted[0]}")
    suffix = Path(path).suffix.lower()
    if suffix not in accepted:
        known = ", ".join(accepted[:-1]) + f" or {accepted[-1]}" if accepted[1:] else accepted[0]
        ending = f"the extension {suffix!r}" if suffix else "no extension"
        raise FileError(
            f"{named or path}: has {ending}, but {what} end in {known}; rename or convert it"
        )
    return suffix


def read_bytes(path: str | Path, what: str, most: int = LARGEST_FILE) -> bytes:
    """All of a file of at most so many bytes that must exist and not be empty; `what` says what it
    should hold."""
    content = _contents(path, what, -1, most)
    log.info("read %s: %d bytes", path, len(content))
    return content


def check_readable(path: str | Path, what: str) -> None:
    """Raise unless the file can be opened and has contents."""
    _contents(path, what, 1)


def _contents(path: str | Path, what: str, count: int, most: int | None = None) -> bytes:
    """The first bytes of a file, all of them if `count` is -1."""
    try:
        about = Path(path).stat()
        # Opening a pipe would wait for whoever writes into it, and a device may never end.
        if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
            raise FileError(f"{path}: is a pipe or a device; give a file with {what}")
        if most is not None and about.st_size > most:
            raise FileError(
                f"{path}: has {about.st_size:,} bytes, more than {most:,}; expected {what}"
            )
        with Path(path).open("rb") as file:
            content = file.read(count)
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise FileError(f"{path}: is a folder; give a file with {what}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise FileError(f"{path}: cannot be read: {reason}; check the path") from None
    if not (content.strip() if count < 0 else content):
        raise FileError(f"{path}: is empty; expected {what}")
    return content


def decode(path: str | Path, content: bytes) -> str:
    """The text of a file in UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        value = problem.object[problem.start]
        raise FileError(
            f"{path}, line {line}: is not text in UTF-8 (byte 0x{value:02x}); save it as UTF-8"
        ) from None


# Of a name in TOML, such as a.b.c: Python's reader takes time with the square of them.
MOST_PARTS = 32
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
LONG_KEY = re.compile(rf"(?:^|[{{,\[])[ \t]*(?:{_PART}){{{MOST_PARTS}}}", re.MULTILINE)


def read_toml(path: str | Path, what: str, most: int) -> dict[str, Any]:
    """What a TOML file holds."""
    return parse_toml(path, decode(path, read_bytes(path, what, most)), what)


def parse_toml(path: str | Path, text: str, what: str = "TOML") -> dict[str, Any]:
    """What TOML text, of the file `path`, holds; `what` is what should be there."""
    if (long := LONG_KEY.search(text)) is not None:
        line = text.count("\n", 0, long.end()) + 1
        raise FileError(
            f"{path}, line {line}: a name in it has more than {MOST_PARTS} parts; correct the file"
        )
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as problem:
        reason = " ".join(str(problem).split())[:200]
        raise FileError(f"{path}: is not TOML: {reason}; correct the file") from None
    except RecursionError:
        raise FileError(f"{path}: is nested too deeply; expected {what}") from None
    except ValueError:  # Python reads no longer ones
        raise FileError(f"{path}: a number in it has thousands of digits; correct it") from None


def read_json(path: str | Path, what: str, most: int = LARGEST_JSON) -> Any:
    """The parsed contents of a JSON file; a key that occurs twice in an object is an error."""
    return parse_json(path, read_bytes(path, what, most), what)


def parse_json(path: str | Path, content: bytes, what: str) -> Any:
    """The same of the contents of such a file."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)[:100]
            raise FileError(
                f"{path}: the key {twice!r} occurs twice in one object; keep one of them"
            )
        return found

    text = decode(path, content)
    try:
        return json.loads(text, object_pairs_hook=unique)
    except FileError:
        raise
    except json.JSONDecodeError as problem:
        raise FileError(
            f"{path}, line {problem.lineno}, column {problem.colno}: is not JSON: {problem.msg}; "
            "correct the file"
        ) from None
    except RecursionError:
        raise FileError(f"{path}: is nested too deeply; expected {what}") from None
    except ValueError:  # Python reads no longer ones
        raise FileError(f"{path}: a number in it has thousands of digits; correct it") from None
