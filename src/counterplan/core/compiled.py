"""numba's compiler, with a cache that notices when anything compiled into a function has changed.

numba keeps machine code beside the file of a function and trusts it while that one file is as it
was. But functions and constants of other files are compiled into it: after an update that touches
only these, old code would go on giving old numbers without a word. Here code is kept under the
contents of its own file and of every file it may draw on.

Where nothing beside the package or in the user's cache folder can be written (a container), code is
kept in a temporary folder as long as the program and its workers run.

The clock of limits stands still while anything is compiled.

A small question is answered sooner than compiled: `call` runs a function as plain Python where no
machine code of it is kept, as long as the work is small, and gives the same numbers.

Two thirds of the time to compile are numba's own, in Python. Three habits of it are mended here,
which together take a sixth of that time: every sum and every element of an array is looked up among
dozens of meanings of `+` and `[]`, each time anew; options that are the same are compared one by
one; and the garbage collector goes again and again through all that a compiler has to keep.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, overload

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, njit
from numba.core import caching, cgutils, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.targetconfig import TargetConfig
from numba.core.types.functions import BaseFunction
from numba.extending import intrinsic

from counterplan.core.limits import TEMPORARY, pause_clock

__all__ = [
    "Within",
    "alone",
    "call",
    "entry",
    "fetch_ahead",
    "fetch_line",
    "njit",
    "plain",
    "within",
]

Function = TypeVar("Function", bound=Callable[..., Any])
_PACKAGE = __name__.partition(".")[0]
_IMPLEMENTATION: Any = getattr(caching, "CacheImpl", None) or caching._CacheImpl  # type: ignore[attr-defined]
# Seconds of compiling before it is told of.
PATIENCE = 1.0
_PLACES: list[Any] = list(_IMPLEMENTATION._locator_classes)


def plain(array: Any) -> Any:
    """An array as compiled functions take it, contiguous and writable: for any other layout they
    would be compiled anew, which takes seconds."""
    if isinstance(array, np.ndarray) and array.flags.carray:  # to require it is slow
        return array
    return np.require(array, requirements=["C", "W"])


def _fetching(lines: int) -> Any:
    def fetch(typing: Any, array: Any, row: Any) -> tuple[Any, Any]:
        """Ask for the first cache lines of a row of a table that will be read soon: rows that lie
        anywhere in a large table are waited for all at once, not one by one."""

        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, byte, whole = signature.args[0], ir.IntType(8).as_pointer(), ir.IntType(32)
            table = context.make_array(kind)(context, builder, args[0])
            start = [args[1], *[context.get_constant(types.intp, 0)] * (kind.ndim - 1)]
            at = cgutils.get_item_pointer(context, builder, kind, table, start)  # type: ignore[no-untyped-call]
            at = builder.bitcast(at, byte)
            takes = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
            call = cgutils.get_or_insert_function(builder.module, takes, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
            for line in range(lines):
                place = builder.gep(at, [context.get_constant(types.intp, 64 * line)])
                builder.call(call, [place, whole(0), whole(3), whole(1)])
            return context.get_dummy_value()

        return types.void(array, types.intp), code

    return intrinsic(fetch)


fetch_line: Any = _fetching(1)
fetch_ahead: Any = _fetching(2)


class _Ingredient(JITCodeLibrary):
    """Code that is only ever compiled into other code: what calls it optimises both together, and
    makes the machine code."""

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """No machine code here has a place for it."""

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def _optimize_final_module(self) -> None:
        """Left to what calls it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class Within(Compiler):
    """The compiler of functions that only compiled code calls (`pipeline_class`). They are not
    cached, since nothing but what calls them is ever loaded."""

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = _Ingredient(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        return super().define_pipelines()  # type: ignore[no-untyped-call]


_entry: Any = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
_within: Any = partial(
    njit, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=Within
)


def entry(function: Function) -> Function:
    """Compile a function that Python calls."""
    return _entry(function)  # type: ignore[no-any-return]


@overload
def within(function: Function) -> Function: ...
@overload
def within(**options: Any) -> Callable[[Function], Function]: ...
def within(function: Any = None, **options: Any) -> Any:
    """Compile a function that only compiled code calls; a call from Python ends the program."""
    return _within(function, **options) if function else partial(_within, **options)


def alone(function: Any) -> Any:
    """A function of the latter kind for Python, compiled when it is called."""
    return _entry(getattr(function, "py_func", function))  # without a compiler it is plain


# Module -> its names, with plain functions in place of compiled ones.
_INTERPRETED: dict[str, dict[str, Any]] = {}
_INTERPRETING = threading.RLock()


def _interpreted(value: Any) -> Any:
    """What plain Python takes for a compiled function; anything else as it is."""
    if value is fetch_ahead or value is fetch_line:
        return lambda table, row: None
    function = getattr(value, "py_func", None)
    if function is None:
        return value
    module = function.__module__
    with _INTERPRETING:  # no other thread is to find names that are still compiled
        if module not in _INTERPRETED:
            names = _INTERPRETED[module] = dict(function.__globals__)
            names.update((name, _interpreted(one)) for name, one in function.__globals__.items())
        return FunctionType(function.__code__, _INTERPRETED[module], function.__name__)


def _is_kept(function: Any, given: Any) -> bool:
    """Whether machine code for these arguments is kept; it is loaded then."""
    kept = function._cache
    if not kept._cache_file._load_index():
        return False
    kinds = tuple(function.typeof_pyval(one) for one in given)
    found = kept.load_overload(kinds, function.targetctx)
    if found is not None:
        function._cache_hits[kinds] += 1
        function.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
        function.add_overload(found)
    return found is not None


# Steps of inner loops that plain Python may take, two or three millionths of a second each, before
# a function is compiled: a third of what that takes, so it is never far from the better of both.
SMALL = 1_000_000
# Of which a call takes so many, however little it has to do.
CALL = 1_000
_steps: dict[str, float] = {}


def _is_small(function: Any, steps: float) -> bool:
    """Whether so many steps are left of what may be plain, in this process and those before it. Who
    asks more has it compiled, and begins anew when that code is out of date."""
    notes = Path(function._cache.cache_path) / f"{function.__name__}.steps"
    before = _steps.get(str(notes), 0.0)
    with suppress(OSError, ValueError):
        before = max(before, float(notes.read_text(encoding="ascii")))
    after = before + steps + CALL
    is_small = after <= SMALL
    _steps[str(notes)] = after = after if is_small else 0.0
    with suppress(OSError):
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_text(str(after), encoding="ascii")
    return is_small


def call(function: Any, steps: Callable[[], float], *given: Any) -> Any:
    """Call a function that was made by `entry`: compiled if its code is kept or the work is not
    small, as plain Python else.

    steps  about how many it takes, which is asked where no code is at hand
    """
    is_at_hand = getattr(function, "overloads", True)  # without a compiler it is plain
    if is_at_hand or _is_kept(function, given) or not _is_small(function, steps()):
        return function(*given)
    with np.errstate(all="ignore"):  # compiled code says nothing of these
        return _interpreted(function)(*given)


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
    folder = os.environ.get(TEMPORARY, "")
    if not folder:  # that of the program which this is a worker of: it outlives its workers
        folder = tempfile.mkdtemp(prefix="counterplan-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder  # worker processes inherit it
    config.CACHE_DIR = folder  # type: ignore[attr-defined]


_IMPLEMENTATION._locator_classes = [_Stamped, *_PLACES]


def _saved_if_possible(file: Any, *given: Any) -> None:
    """On a full disk code is compiled anew the next time, which is no reason not to run it now."""
    with suppress(OSError):
        _save(file, *given)


_save: Any = caching.IndexDataCacheFile.save
caching.IndexDataCacheFile.save = _saved_if_possible  # type: ignore[method-assign]


def _is_same(options: Any, others: object) -> Any:
    """Whether two sets of options are equal; most are set alike, which is quickly seen."""
    if isinstance(others, TargetConfig) and options._values == others._values:
        return True
    return _compared(options, others)


def _hash_of_names(options: Any) -> int:
    """numba's own hash of a set of options, which is that of their names alone."""
    return _hash_of(tuple(options.options))


@cache
def _hash_of(names: tuple[str, ...]) -> int:
    return hash(tuple(sorted(names)))


def _is_lasting(kind: Any) -> bool:
    """Whether a kind of value is all there is to know of it, now and later."""
    if isinstance(kind, types.BaseTuple):
        return all(_is_lasting(one) for one in kind)  # type: ignore[attr-defined]
    lasting = types.Number, types.Boolean, types.Array, types.SliceType, types.NoneType
    return isinstance(kind, lasting)


def _meaning(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """What a function of numbers and arrays means, looked up once. One that is itself compiled for
    these is not kept: it depends on the options of what calls it."""
    if kws or not all(map(_is_lasting, args)):
        return _looked_up(function, context, args, kws)
    known = vars(function).setdefault("_known_meanings", {})
    found = known.get((context, args))
    if found is None:
        found = _looked_up(function, context, args, kws)
        if found is not None and function.get_impl_key(found) is function.typing_key:
            known[context, args] = found
    return found


_compared: Any = TargetConfig.__eq__
_looked_up: Any = BaseFunction.get_call_type
TargetConfig.__eq__ = _is_same  # type: ignore[method-assign]
TargetConfig.__hash__ = _hash_of_names  # type: ignore[method-assign]
BaseFunction.get_call_type = _meaning  # type: ignore[method-assign, assignment]


class _Pause(event.Listener):
    """Stops the clock of limits and the garbage collector while the compiler works, and says so
    after a second; functions call for others, so only the outermost counts."""

    def __init__(self) -> None:
        self._depth, self._since, self._total, self._has_told = 0, 0.0, 0.0, False
        self._collects = False
        self._status: Any = None

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._since, self._collects = time.perf_counter(), gc.isenabled()
            gc.disable()
        self._depth += 1
        self._tell()

    def on_end(self, event: Any) -> None:
        self._tell()
        self._depth -= 1
        if self._depth == 0:
            if self._collects:
                gc.enable()
            taken = time.perf_counter() - self._since
            self._total += taken
            pause_clock(taken)
            if self._status is not None:  # the next function is told of again
                self._status.stop()
                self._status, self._has_told = None, False

    def _tell(self) -> None:
        """Say so to whoever sits there and waits, a terminal for as long as it takes, a notebook
        once: programs that read stderr for errors are not to find it. What cached code needs is
        never told of."""
        if self._has_told or self._total + time.perf_counter() - self._since <= PATIENCE:
            return
        self._has_told = True
        words = "counterplan: compiling, once; the code is kept for the next time"
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(words)
            self._status.start()
        elif hasattr(sys, "ps1") or "ipykernel" in sys.modules:
            print(words, file=sys.stderr)


event.register("numba:compile", _Pause())  # type: ignore[no-untyped-call]
