"""What a malformed input is, and what must come of it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Of a table or schema at most twenty mistakes are spelled out, and one line counts them all.
MOST_LINES = 21
LONGEST_LINE = 600
# Between two mistakes of which each has its line.
THEN = r"[\s\S]*\n[\s\S]*"
# What must never reach a user: insides of the program and of the libraries below it.
INSIDES = re.compile(
    r"Traceback|panicked|PanicException|RUST_BACKTRACE|\.rs:\d|polars_|site-packages|"
    r'File ".*\.py"|<class|object at 0x|NoneType|set_int_max_str_digits|recursion depth'
)
# Every message says what to do, in one of these words.
ADVICE = re.compile(
    r"\b(add|ask|bin|check|choose|convert|copy|correct|create|delete|did you mean|empty|exchange|"
    r"expected|fill|fit|give|keep|leave|list|must|name|normalise|number|pass|put|raise|remove|"
    r"rename|run|save|say|see|separate|shorten|sort|split|start|store|train|update|use|wait|write|"
    # or by naming what there is to choose from
    r"is for|is none of|is not one of|known are|the first of its|there are|goes up to)\b"
)


@dataclass(frozen=True)
class Case:
    """A command on a folder with one thing wrong in it.

    command  as typed, without the program's name
    says     regular expression: the place (file, row, column, key, option) and what to do about it;
             ", 3 'sofa': " is short for ", row 3, column 'sofa': "
    change   makes the mistake, in the current folder
    """

    command: str
    says: str
    change: Callable[[], object] = lambda: None


def contents(folder: Path) -> dict[str, str]:
    """Everything in a folder: kinds, times of change, and what files hold."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        if path.is_symlink():
            what = f"link to {os.readlink(path)}"
        elif not path.is_file():
            what = "folder" if path.is_dir() else "pipe"
        # Files as large as the absurd ones here are all hole.
        elif about.st_size > 2**24 or not os.access(path, os.R_OK):
            what = f"{about.st_size} bytes"
        else:
            what = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = f"{what} {about.st_mode:o} {about.st_mtime_ns}"
    return found


def assert_refused(code: int, stdout: str, stderr: str, case: Case) -> None:
    """Exit code 2, and a few clear lines on stderr that name the place and the way out."""
    assert code == 2, stderr or stdout
    assert stdout == ""
    assert stderr.endswith("\n")
    lines = stderr.splitlines()
    assert 1 <= len(lines) <= MOST_LINES, stderr
    for line in lines:
        assert line.startswith("error: "), stderr
        assert len(line) <= LONGEST_LINE, line
        assert line.isprintable(), line
        assert not INSIDES.search(line), line
    assert ADVICE.search(stderr), stderr
    says = re.sub(r", (\d+) ('\w+'): ", r", row \1, column \2: ", case.says)
    assert re.search(says, stderr, re.MULTILINE), stderr
