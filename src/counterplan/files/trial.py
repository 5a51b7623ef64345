"""Files that could end or hang the program that reads them: another process reads them first.

One turned bit makes the Parquet decoder of polars ask for 2^61 bytes, which ends the process, and
the library below h5py follow a damaged text for ever. Neither can be caught, so this program reads
such a file only once another process has done so and ended well.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

from counterplan.errors import CounterplanError, FileError

# How long reading may take: to begin with, and for every ten megabytes.
SECONDS = 30.0
PACE = 10_000_000


def try_reading(function: str, path: Path) -> None:
    """Raise unless a function, such as "counterplan.files.parquet:decode", can be called with a
    file without harm; an error that it raises on purpose is none."""
    search = [entry or os.getcwd() for entry in sys.path]
    try:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", __name__, function, os.fspath(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
            timeout=SECONDS + path.stat().st_size / PACE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FileError(f"{path}: is damaged: reading it does not end; write it anew") from None
    if finished.returncode != 0:
        raise FileError(f"{path}: is damaged: whatever reads it breaks down; write it anew")


def main() -> None:
    """Call the function that is named first with the file that is named second."""
    function, path = sys.argv[1:]
    try:
        pkgutil.resolve_name(function)(Path(path))
    except CounterplanError:
        return  # whoever asked will find out, and say so


if __name__ == "__main__":
    main()
