"""Write anew what the golden tests expect: `python -m tests.golden.freeze [CASE ...]`.

Only for changes of behaviour that are meant: read the difference in git before you commit it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .commands import CASES
from .playing import play

EXPECTED = Path(__file__).parent / "expected"


def written(document: Any) -> str:
    """A document with one line for each step, so that git shows which of them changed."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(step, ensure_ascii=False, separators=(',', ':'))}"
        for name, step in document.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(names: list[str]) -> None:
    """Play cases and keep what comes of them."""
    EXPECTED.mkdir(exist_ok=True)
    for name in names or CASES:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = play(CASES[name], Path(folder))
        path = EXPECTED / f"{name}.json"
        path.write_text(written(found), "utf-8")
        seconds = time.monotonic() - begin
        print(f"{name}: {path.stat().st_size:,} bytes, {seconds:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
