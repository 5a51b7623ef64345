"""What a long figure has finished so far, so that the same command goes on where it was stopped.

A file of JSON lines next to the output. Its first line says what the cells were computed with; a
file of other settings is started anew, and a last line that was cut off is left out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from counterplan.errors import FileError
from experiments.figure import Track, in_parallel

Key = TypeVar("Key", bound=Hashable)


class Parts:
    """Finished cells by key (a list of numbers and texts), kept in a file if there is a path."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path, self._lock = path, threading.Lock()
        self._header = json.dumps(dict(settings), sort_keys=True)
        self._cells: dict[str, dict[str, Any]] = {}
        if path is not None:
            self._restore(path)

    def __len__(self) -> int:
        return len(self._cells)

    def get(self, key: Sequence[Any]) -> dict[str, Any] | None:
        """The cell, None if it is not finished."""
        return self._cells.get(json.dumps(list(key)))

    def put(self, key: Sequence[Any], cell: Mapping[str, Any]) -> None:
        """Keep a finished cell."""
        name = json.dumps(list(key))
        line = json.dumps([name, dict(cell)], allow_nan=False)
        with self._lock:
            self._cells[name] = dict(cell)
            if self._path is not None:
                self._write(self._path, line, "a")

    def _restore(self, path: Path) -> None:
        lines = _lines(path)
        whole = bool(lines) and lines[0] == self._header
        for line in lines[1:] if whole else ():
            try:
                name, cell = json.loads(line)
            except ValueError:
                break
            self._cells[name] = cell
        # Written anew: what was cut off must not run into the next line.
        kept = [json.dumps([name, cell]) for name, cell in self._cells.items()]
        self._write(path, "\n".join([self._header, *kept]), "w")

    @staticmethod
    def _write(path: Path, text: str, mode: str) -> None:
        try:
            with path.open(mode, encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as problem:
            raise FileError(f"{path}: cannot be written: {problem.strerror}") from None


def finish(
    work: Callable[[Key], dict[str, Any]],
    keys: Sequence[Key],
    parts: Parts,
    name: Callable[[Key], Sequence[Any]],
    progress: tuple[Track, str],
) -> dict[Key, dict[str, Any]]:
    """The cell of every key: taken from the parts, or computed and kept there."""

    def one(key: Key) -> dict[str, Any]:
        found = parts.get(name(key))
        if found is None:
            parts.put(name(key), work(key))
            found = parts.get(name(key))
        assert found is not None
        return found

    track, what = progress
    distinct = list(dict.fromkeys(keys))
    return dict(zip(distinct, in_parallel(one, distinct, track, what), strict=True))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise FileError(f"{path}: cannot be read: {reason}; remove it to start anew") from None
