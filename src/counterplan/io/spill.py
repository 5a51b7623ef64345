"""Rows of numbers that do not fit in memory: kept on disk, given back some episodes at a time.

The file has no name, so that nothing is left behind however the program ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Self

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import FileError

# Episodes that are held in memory at a time.
EPISODES = 500


class Spill:
    """Rows whose first number is that of their episode, 0, 1, ... in order of appearance."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._file = tempfile.TemporaryFile(prefix="counterplan-")  # noqa: SIM115 (see close)
        # Where the rows of each bucket of episodes lie: byte and length.
        self._places: list[list[tuple[int, int]]] = []

    def add(self, rows: FloatArray) -> None:
        """Keep some more rows."""
        bucket = (rows[:, 0] // EPISODES).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        numbers, starts = np.unique(bucket[order], return_index=True)
        for number, part in zip(numbers, np.split(rows[order], starts[1:]), strict=True):
            while len(self._places) <= number:
                self._places.append([])
            content = np.ascontiguousarray(part).tobytes()
            self._places[number].append((self._write(content), len(content)))

    def _write(self, content: bytes) -> int:
        try:
            place = self._file.seek(0, os.SEEK_END)
            self._file.write(content)
            self._file.flush()
        except OSError as problem:
            raise FileError(
                f"{tempfile.gettempdir()}: cannot hold the rows of the table while they are "
                f"sorted: {problem.strerror}; free some space, or name another folder in TMPDIR"
            ) from None
        return place

    def buckets(self) -> Iterator[FloatArray]:
        """The rows of some episodes at a time, in the order of episodes."""
        for places in self._places:
            parts = []
            for place, length in places:
                self._file.seek(place)
                parts.append(self._file.read(length))
            yield np.frombuffer(b"".join(parts)).reshape(-1, self._width)

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()
