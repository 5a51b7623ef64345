"""numba's compiler, with a cache that notices when anything compiled into a function has changed.

numba keeps machine code beside the file of a function and trusts it while that one file is as it
was. But functions and constants of other files are compiled into it: after an update that touches
only these, old code would go on giving old numbers without a word. Here code is kept under the
contents of its own file and of every file it may draw on.

Where nothing beside the package or in the user's cache folder can be written (a container), code is
kept in a temporary folder as long as the program and its workers run.

The clock of limits stands still while anything is compiled.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numba import config, njit
from numba.core import caching, event

from counterplan.core.limits import pause_clock

__all__ = ["njit", "plain"]

_PACKAGE = __name__.partition(".")[0]
_IMPLEMENTATION: Any = getattr(caching, "CacheImpl", None) or caching._CacheImpl  # type: ignore[attr-defined]
_PLACES: list[Any] = list(_IMPLEMENTATION._locator_classes)


def plain(array: Any) -> Any:
    """An array as compiled functions take it, contiguous and writable: for any other layout they
    would be compiled anew, which takes seconds."""
    return np.require(array, requirements=["C", "W"])


@cache
def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _origin(value: object) -> dict[str, Any] | None:
    """The names among which a compiled function, an intrinsic or a module of ours was written."""
    if isinstance(value, ModuleType):
        return vars(value) if value.__name__.partition(".")[0] == _PACKAGE else None
    if not type(value).__module__.startswith("numba."):
        return None
    function = getattr(value, "py_func", None) or getattr(value, "_defn", None)
    return getattr(getattr(function, "__func__", function), "__globals__", None)


def ingredients(names: dict[str, Any]) -> dict[str, str]:
    """What functions of a module may be compiled from: module -> its file's digest, its constants.

    names   the module's names. Imports stand first, so that what comes from elsewhere is there when
            its first function is compiled
    """
    found: dict[str, str] = {}
    ahead = [names]
    while ahead:
        at = ahead.pop()
        if at["__name__"] in found or not Path(at.get("__file__") or "").is_file():
            continue
        constants = sorted(
            (name, repr(value))
            for name, value in at.items()
            if name.isupper() and isinstance(value, bool | int | float | str | tuple)
        )
        found[at["__name__"]] = f"{_digest(at['__file__'])} {constants}"
        ahead += [origin for value in list(at.values()) if (origin := _origin(value)) is not None]
    return found


@cache
def _stamp(module: str) -> str | None:
    """The ingredients of a loaded module's functions, if anything of ours is among them."""
    found = ingredients(vars(sys.modules[module]))
    if not any(name.partition(".")[0] == _PACKAGE for name in found):
        return None
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


class _Stamped(caching._CacheLocator):
    """The place that numba finds for a function's code, stamped with all that goes into it."""

    def __init__(self, place: Any, stamp: str) -> None:
        self._place, self._stamp = place, stamp

    def get_cache_path(self) -> str:
        return str(self._place.get_cache_path())

    def get_disambiguator(self) -> str:
        return str(self._place.get_disambiguator())

    def get_source_stamp(self) -> tuple[object, str]:
        return self._place.get_source_stamp(), self._stamp

    @classmethod
    def from_function(cls, function: Any, file: str) -> _Stamped | None:
        stamp = _stamp(function.__module__) if function.__module__ in sys.modules else None
        if stamp is None:
            return None
        place = _place(function, file)
        if place is None:
            _use_temporary_folder()
            place = _place(function, file)
        return place and cls(place, stamp)


def _place(function: Any, file: str) -> Any:
    found = (place.from_function(function, file) for place in _PLACES)
    return next((place for place in found if place is not None), None)


def _use_temporary_folder() -> None:
    folder = tempfile.mkdtemp(prefix="counterplan-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder  # worker processes inherit it
    config.CACHE_DIR = folder  # type: ignore[attr-defined]


_IMPLEMENTATION._locator_classes = [_Stamped, *_PLACES]


class _Pause(event.Listener):
    """Stops the clock of limits while the compiler works; functions call for others, so only the
    outermost counts."""

    def __init__(self) -> None:
        self._depth, self._since = 0, 0.0

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            pause_clock(time.perf_counter() - self._since)


event.register("numba:compile", _Pause())  # type: ignore[no-untyped-call]
