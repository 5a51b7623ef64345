"""Things kept for the next question: a number of them, or as many as there is room for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

# Bytes.
ROOM = 128 * 2**20

Kept = TypeVar("Kept")


class Recent(Generic[Kept]):
    """The last few things that were made; threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Kept | None:
        """What is kept under a key, None if nothing is."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Hashable, made: Kept) -> Kept:
        """Keep something, and forget what was not asked for longest."""
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return made

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What is kept under a key, made if there is nothing."""
        found = self.find(key)
        return self.keep(key, make()) if found is None else found


class Memo:
    """Things with `nbytes`, in lists by where they belong, up to `room` bytes; threads may share
    it."""

    def __init__(self, room: int = ROOM) -> None:
        self._room, self._used = room, 0
        self._kept: OrderedDict[Hashable, list[Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that are kept."""
        return self._used

    def find(self, place: Hashable) -> list[Any]:
        """What is kept at a place."""
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
            return list(self._kept.get(place, ()))

    def keep(self, place: Hashable, made: Any) -> None:
        """Keep one more thing at a place, and forget places that were not asked for longest."""
        if made.nbytes > self._room:
            return
        with self._lock:
            self._kept.setdefault(place, []).append(made)
            self._kept.move_to_end(place)
            self._used += made.nbytes
            while self._used > self._room:
                _, gone = self._kept.popitem(last=False)
                self._used -= sum(one.nbytes for one in gone)
