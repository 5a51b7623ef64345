"""Parquet files of others: whatever is wrong with one is one clear line, and no size is believed.

A file of a few kilobytes can hold a billion rows, or say that it does, so they are counted before
any is read.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from counterplan.errors import CounterplanError, FileError

if TYPE_CHECKING:
    import polars as pl

# ----------------------------------------------------------------------------------------------
# Files that could end or hang the program that reads them: another process reads them first.
#
# One turned bit makes the Parquet decoder of polars ask for 2^61 bytes, which ends the process, and
# the library below h5py follow a damaged text for ever. Neither can be caught, so this program
# reads such a file only once another process has done so and ended well.

# How long reading may take: to begin with, and for every ten megabytes.
SECONDS = 30.0
PACE = 10_000_000


def try_reading(function: str, path: Path) -> None:
    """Raise unless a function, such as "counterplan.core.parquet:decode", can be called with a
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


# ----------------------------------------------------------------------------------------------

MAGIC = b"PAR1"
# Entries that are read at a time.
ENTRIES = 500_000
# Entries of a file that is read whole: as texts these take some gigabytes.
MOST_ENTRIES = 200_000_000
# Rows of a file that is read a few at a time; more than ten million episodes of a hundred steps.
MOST_ROWS = 1_000_000_000


def parquet_columns(path: str | Path) -> list[str]:
    """The names of a file's columns, once its first and last bytes are right."""
    with Path(path).open("rb") as file:
        head = file.read(4)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
    _check_ends(path, head, tail, size)
    with parquet_errors(path):
        return list(scan(path).collect_schema())


def parquet_frame(path: str | Path) -> pl.DataFrame:
    """All of a file's contents, if they fit in memory."""
    columns = parquet_columns(path)
    rows = count_rows(path)
    if rows * len(columns) > MOST_ENTRIES:
        raise FileError(
            f"{path}: has {rows:,} rows of {len(columns):,} columns, more than {MOST_ENTRIES:,} "
            "entries; split it up"
        )
    try_decoding(path)
    with parquet_errors(path):
        return scan(path).collect()


def parquet_blocks(path: str | Path, wanted: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Some columns of a file, a few rows at a time."""
    # Slices hold less in memory than the batches of polars' own streaming.
    size = max(ENTRIES // len(wanted), 1)
    for start in range(0, count_rows(path), size):
        with parquet_errors(path):
            part = scan(path).select(wanted).slice(start, size).collect()
        yield part


def try_decoding(path: str | Path) -> None:
    """Raise if a file would end the program that decodes it."""
    try_reading(f"{__name__}:decode", Path(path))


def decode(path: Path) -> None:
    """Read all of a file, for nothing."""
    for _ in parquet_blocks(path, parquet_columns(path)):
        pass


def count_rows(path: str | Path) -> int:
    """How many rows a file says that it has."""
    import polars as pl

    with parquet_errors(path):
        count = int(scan(path).select(pl.len()).collect().item())
    if count > MOST_ROWS:
        raise FileError(f"{path}: has {count:,} rows, more than {MOST_ROWS:,}; split it up")
    return count


def scan(path: str | Path) -> pl.LazyFrame:
    """A file as polars reads it: that file alone, as it is."""
    import polars as pl

    return pl.scan_parquet(path, glob=False, hive_partitioning=False, low_memory=True)


@contextmanager
def parquet_errors(path: str | Path) -> Iterator[None]:
    """What polars says of a file, as one line."""
    import polars as pl

    try:
        with _muted():
            yield
    # Damage inside a page makes the decoder panic, which is no subclass of Exception.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200]
        raise FileError(
            f"{path}: is damaged or no Parquet table: {reason}; write it anew"
        ) from None


def _check_ends(path: str | Path, head: bytes, tail: bytes, size: int) -> None:
    if head != MAGIC:
        raise FileError(f"{path}: is no Parquet table (it does not begin with PAR1); write it anew")
    if tail[4:] != MAGIC or not 0 < int.from_bytes(tail[:4], "little") < size - 8:
        raise FileError(f"{path}: is cut off (it does not end with PAR1); copy or write it anew")


@contextmanager
def _muted() -> Iterator[None]:
    """Nothing on standard error: where the decoder panics it writes pages there by itself."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
