"""Methods of a plain Python model, as they stand, compiled by numba.

numba compiles functions of numbers and arrays, not methods of objects. But a problem does not
change while it is planned: `self` is known, and so is every attribute that is read of it. Before
types are inferred, each method is evaluated in part:

    self.power, self.tariff.peak     the number (text, array, tuple) that it is now
    self.season(t), helper(t)        a compiled function, translated likewise
    np.stack([a, b])                 np.stack((a, b)), the form that numba knows; dtype=float
                                     likewise

What was read is kept as a path with a mark of what stood there: compiled code serves every problem
of that class whose paths hold the same, and no other.

Where numba would go on and Python would raise, it is made to raise (indices, divisors, functions of
`math` outside of where they are defined, whole numbers of what is none) or the method is refused:
`.flat`, whose indices numba does not check, and variables that some way through a method leaves
without a value; likewise what it rounds or sorts in another way. `why` says what stands in the way,
and on which line of whose file.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from inspect import unwrap
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core import analysis as _analysis
from numba.core import ir as _ir
from numba.core import ir_utils as _ir_utils
from numba.core import postproc
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher
from numba.core.untyped_passes import InlineClosureLikes, IRProcessing

import counterplan
from counterplan.core.compiled import Within, njit

analysis: Any = _analysis
ir: Any = _ir
ir_utils: Any = _ir_utils
STABLE = "argsort(kind='mergesort')"
# Numbers of a list that are spelt out.
SPELT_OUT = 32
# What stands in these folders is not the user's.
OURS, NUMBAS = (os.path.dirname(str(one.__file__)) for one in (counterplan, numba))
PLACE = r'File "([^"]+)", line (\d+)'
_STACKING = (np.stack, np.hstack, np.vstack, np.dstack, np.column_stack, np.concatenate)
_NUMBERS = {float: np.float64, int: np.int64, bool: np.bool_}
_UNKNOWN = object()
# Of what is read: from the problem or from the names around a function, and the way there.
Path = tuple[Any, ...]


def _defined(function: Any) -> Any:
    """A function of `math` that raises, as Python's does, where it has no finite number for one."""

    def checked(x):  # type: ignore[no-untyped-def]
        found = function(x)
        if (np.isnan(found) and not np.isnan(x)) or (np.isinf(found) and np.isfinite(x)):
            raise ValueError("math domain error")
        return found

    return njit(checked)


def _defined_of_two(function: Any) -> Any:
    """Likewise of two arguments."""

    def checked(x, y):  # type: ignore[no-untyped-def]
        found, is_number = function(x, y), not (np.isnan(x) or np.isnan(y))
        is_finite = np.isfinite(x) and np.isfinite(y)
        if (np.isnan(found) and is_number) or (np.isinf(found) and is_finite):
            raise ValueError("math domain error")
        return found

    return njit(checked)


def _whole(function: Any) -> Any:
    """A function that makes a whole number, which raises where 64 bits do not hold it."""

    def checked(x):  # type: ignore[no-untyped-def]
        if not -(2.0**63) <= x < 2.0**63:
            raise OverflowError("cannot convert float to integer")
        return function(x)

    return njit(checked)


_OF_ONE = "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos sinh cosh acosh atanh gamma"
# What Python raises in and numba does not, by how many arguments it has.
_RAISING: dict[tuple[Any, int], Any] = {
    **{(one, 1): _defined(one) for one in (getattr(math, name) for name in _OF_ONE.split())},
    **{(one, 2): _defined_of_two(one) for one in (math.pow, math.fmod)},
    **{(one, 1): _whole(one) for one in (int, round, math.floor, math.ceil, math.trunc)},
}


class UntranslatableError(Exception):
    """What is said of a method that stays plain Python; where it was met, if that is known."""

    def __init__(self, said: str, loc: Any = None) -> None:
        super().__init__(said if loc is None else f'{said} File "{loc.filename}", line {loc.line}')


class Translator:
    """Compiles functions of one problem, and notes what it read."""

    def __init__(self, model: Any) -> None:
        # By where a path begins: what stands there, the path, and a mark.
        self.model, self.read = model, dict[Any, tuple[Path, object]]()
        self._made: dict[tuple[Any, int], Any] = {}

    def method(self, name: str) -> Any:
        """A method of the problem, compiled; its first argument counts for nothing."""
        found = getattr(self.model, name)
        self.note((None, name), found)
        if isinstance(found, MethodType):
            return self.function(found.__func__, found.__self__, (None, name))
        if not isinstance(found, FunctionType):
            raise UntranslatableError(f"it is {type(found).__name__}, not a Python function")
        plain = self.function(found, _UNKNOWN, (None, name))

        def without(nothing, *given):  # type: ignore[no-untyped-def]
            return plain(*given)

        return njit(without)

    def function(self, function: Any, owner: Any, path: Path) -> Any:
        """A function compiled when it is called; of a method the owner is known."""
        function = unwrap(function)  # those of ours tell their arguments first
        key = function, id(owner)
        if key not in self._made:
            parts = (function.__code__, function.__globals__, function.__name__)
            copy: Any = FunctionType(*parts, function.__defaults__, function.__closure__)
            copy.__kwdefaults__, copy.__module__ = function.__kwdefaults__, function.__module__
            copy.translation = self, owner, path[:-1] if owner is not _UNKNOWN else path
            options: Any = {
                "boundscheck": True,
                "error_model": "python",
                "no_cpython_wrapper": True,
                "no_cfunc_wrapper": True,
            }
            self._made[key] = njit(pipeline_class=_Translating, **options)(copy)
        return self._made[key]

    def note(self, path: Path, value: Any) -> None:
        """That this was read there."""
        self.read[id(path[0]), *path[1:]] = path, marked(value)

    def forget(self) -> None:
        """Let go of the problem."""
        for one in self._made.values():
            one.py_func.translation = None
        self.model, self._made = None, {}


def marked(value: Any) -> object:
    """What tells that something read is no longer what it was; the same for equal problems."""
    if isinstance(value, MethodType):
        return marked(value.__func__)
    if isinstance(value, FunctionType):
        value = unwrap(value)
        cells = [one.cell_contents for one in value.__closure__ or ()]
        given = (*cells, *(value.__defaults__ or ()))
        return value.__code__, tuple(_held(one) for one in given)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, tuple | list):
        return type(value), tuple(map(marked, value))
    return (type(value), repr(value)) if is_constant(value) else type(value)


def _held(value: Any) -> object:
    """The mark of what a function holds: of lists, arrays and functions what they are now."""
    is_marked = isinstance(value, list | tuple | np.ndarray | FunctionType | MethodType)
    return marked(value) if is_marked or is_constant(value) else id(value)


def is_constant(value: Any) -> bool:
    """Whether numba takes it as it is."""
    if isinstance(value, tuple):
        return all(is_constant(one) for one in value)
    return value is None or isinstance(value, bool | int | float | str | np.ndarray | np.generic)


def _may_change(value: Any) -> bool:
    """Whether what a module holds is a user's to change."""
    own = isinstance(value, FunctionType) and not value.__module__.startswith("numpy")
    return own or isinstance(value, list) or is_constant(value)


def _constant(value: Any) -> Any:
    """Likewise of a list that nobody changes."""
    if isinstance(value, list) and all(is_constant(one) for one in value):
        numbers = [isinstance(one, int | float) for one in value]
        return np.array(value) if all(numbers) and len(value) > SPELT_OUT else tuple(value)
    return value


def at(path: Path, model: Any) -> Any:
    """What stands at a path now."""
    found = model if path[0] is None else path[0]
    for name in path[1:]:
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    return found


class _Evaluated:
    """A function's intermediate representation with all that is known put in."""

    def __init__(self, function: Any, representation: Any) -> None:
        self.translator, self.owner, self.path = function.translation
        self.names, self.ir = function.__globals__, representation
        blocks = representation.blocks.values()
        self.assigned = [one for b in blocks for one in b.body if isinstance(one, ir.Assign)]
        self.known, self.paths = dict[str, Any](), dict[str, Path]()

    def run(self) -> None:
        """Find what is known, then put it in."""
        times = Counter(one.target.name for one in self.assigned)
        once = [one for one in self.assigned if times[one.target.name] == 1]
        before = -1
        while before < len(self.known):
            before = len(self.known)
            for one in once:
                if one.target.name not in self.known:
                    self._learn(one.target.name, one.value)
        methods = {one.target.name for one in once if self._put_in(one)}
        for block in self.ir.blocks.values():
            block.body = [more for one in block.body for more in self._called(one, block, methods)]
        self.ir._definitions = ir_utils.build_definitions(self.ir.blocks)

    def _learn(self, name: str, value: Any) -> None:
        """What a variable is, if that is known."""
        if isinstance(value, ir.Arg) and value.index == 0 and self.owner is not _UNKNOWN:
            self.known[name], self.paths[name] = self.owner, self.path
        elif isinstance(value, ir.Var) and value.name in self.known:
            self.known[name] = self.known[value.name]
            self.paths[name] = self.paths[value.name]
        elif isinstance(value, ir.Global | ir.FreeVar):
            path = (self.names, value.name) if isinstance(value, ir.Global) else (value.value,)
            self.known[name], self.paths[name] = value.value, path
            if not isinstance(value.value, ModuleType | type) and value.name in self.names:
                self.translator.note(path, value.value)
        elif (
            isinstance(value, ir.Expr) and value.op == "getattr" and value.value.name in self.known
        ):
            of = self.known[value.value.name]
            if is_constant(of) or not hasattr(of, value.attr):
                return
            self.known[name] = getattr(of, value.attr)
            self.paths[name] = (*self.paths[value.value.name], value.attr)
            if not isinstance(of, ModuleType) or _may_change(self.known[name]):
                self.translator.note(self.paths[name], self.known[name])

    def _put_in(self, one: Any) -> bool:
        """Replace what computes a known value by the value; whether it is a method."""
        name, loc = one.target.name, one.loc
        if name not in self.known or isinstance(one.value, ir.Arg | ir.Var):
            return False
        value, path = _constant(self.known[name]), self.paths[name]
        is_own = isinstance(one.value, ir.Expr) and not isinstance(
            self.known[one.value.value.name], ModuleType
        )
        if isinstance(value, MethodType) and isinstance(value.__func__, FunctionType):
            made = self.translator.function(value.__func__, value.__self__, path)
            one.value = ir.Global(name, made, loc)
            return True
        if isinstance(value, FunctionType) and not value.__module__.startswith("numpy"):
            one.value = ir.Global(name, self.translator.function(value, _UNKNOWN, path), loc)
        elif is_own and (is_constant(value) or isinstance(value, CPUDispatcher | np.ufunc)):
            one.value = ir.Global(name, value, loc)
        elif is_own and isinstance(value, dict | set):
            root = ["self"] if path[0] is None else []
            raise UntranslatableError(
                f"{'.'.join([*root, *map(str, path[1:])])} is a {type(value).__name__}", loc
            )
        elif is_own and not callable(value):
            one.value = ir.Const(None, loc)  # an object: what matters is what is read of it
        elif value is not self.known[name]:
            one.value = ir.Global(name, value, loc)
        return False

    def _called(self, one: Any, block: Any, methods: set[str]) -> list[Any]:
        """A statement, calls in the form that numba knows."""
        call = getattr(one, "value", None)
        if not (isinstance(one, ir.Assign) and isinstance(call, ir.Expr) and call.op == "call"):
            return [one]
        function = self.known.get(call.func.name)
        if call.args and any(function is known for known in _STACKING):
            self._as_tuple(call.args[0].name)
        for given in (*call.args, *(other for _, other in call.kws)):
            kind = self.known.get(given.name)
            if isinstance(kind, type) and kind in _NUMBERS:
                for made in self.assigned:
                    if made.target.name == given.name:
                        made.value = ir.Global(given.name, _NUMBERS[kind], made.loc)
        if isinstance(function, BuiltinFunctionType | type) and not call.kws:
            raising = _RAISING.get((function, len(call.args)))
            if raising is not None and call.vararg is None:
                call.func = ir.Var(block.scope, f"$raising.{one.target.name}", one.loc)
                return [ir.Assign(ir.Global("raising", raising, one.loc), call.func, one.loc), one]
        if call.func.name not in methods:
            return [one]
        nothing = ir.Var(block.scope, f"$self.{one.target.name}", one.loc)
        call.args = [nothing, *call.args]
        return [ir.Assign(ir.Const(None, one.loc), nothing, one.loc), one]

    def _as_tuple(self, name: str) -> None:
        """A list that is made for one call only, as a tuple."""
        made = [one for one in self.assigned if one.target.name == name]
        is_one = len(made) == 1 and isinstance(made[0].value, ir.Expr) and name.startswith("$")
        if is_one and made[0].value.op == "build_list":
            made[0].value = ir.Expr.build_tuple(made[0].value.items, made[0].loc)


def refuse_unchecked(representation: Any) -> None:
    """Refuse what numba takes without a word where Python raises."""
    blocks = representation.blocks
    flow, found = analysis.compute_cfg_from_blocks(blocks), analysis.compute_use_defs(blocks)
    every = set().union(*found.defmap.values())
    # Variables that have a value where a block begins, whichever way led there.
    given = {label: set() if label == flow.entry_point() else every for label in blocks}
    before = None
    while before != given:
        before = dict(given)
        for label in blocks:
            ways = [given[one] | found.defmap[one] for one, _ in flow.predecessors(label)]
            given[label] = set.intersection(*ways) if ways else given[label]
    names = dict[str, str]()  # of what is called
    for label, block in blocks.items():
        missing = {one for one in found.usemap[label] - given[label] if one.isidentifier()}
        for one in block.body:
            for name in missing & {var.name for var in one.list_vars()}:
                raise UntranslatableError(f"{name} is not always assigned", one.loc)
            value = getattr(one, "value", None)
            if isinstance(value, ir.Global):
                names[one.target.name] = value.name
            if not isinstance(value, ir.Expr):
                continue
            if value.op == "getattr":
                names[one.target.name] = value.attr
            called = names.get(value.func.name) if value.op == "call" else None
            if value.op == "getattr" and value.attr == "flat":
                raise UntranslatableError(".flat is not checked by numba: use .ravel()", one.loc)
            if called == "argsort" and not value.kws:
                raise UntranslatableError(f"ties have another order: use {STABLE}", one.loc)
            if called == "round" and len(value.args) == 2:
                raise UntranslatableError("round(x, n) is rounded otherwise: use np.round", one.loc)


@register_pass(mutates_CFG=False, analysis_only=False)  # type: ignore[no-untyped-call]
class _Evaluation(FunctionPass):
    """Puts in what is known."""

    _name = "counterplan_known"

    def __init__(self) -> None:
        FunctionPass.__init__(self)  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:
        if getattr(state.func_id.func, "translation", None) is None:
            return False
        refuse_unchecked(state.func_ir)
        _Evaluated(state.func_id.func, state.func_ir).run()
        postproc.PostProcessor(state.func_ir).run()  # type: ignore[no-untyped-call]
        return True


class _Translating(Within):
    """numba's compiler with this before types are inferred, and again once comprehensions are part
    of the function around them."""

    def define_pipelines(self) -> Any:
        passes = super().define_pipelines()[0]
        passes.add_pass_after(_Evaluation, IRProcessing)
        passes.add_pass_after(_Evaluation, InlineClosureLikes)
        passes.finalize()
        return [passes]


def why(error: Exception, method: Any = None) -> str:
    """What the compiler stumbled over, in a few words, and on which line of the user's."""
    whole = re.sub(r"\x1b\[[0-9;]*m", "", str(error)) or type(error).__name__
    text = re.sub(r' File "[^"]+", line \d+$', "", whole)
    for pattern, words in (
        (r"^(\S+ is a (?:dict|set))", "{}"),
        (r"Untyped global name '(\w+)'", "numba does not know {}"),
        (r"Unknown attribute '(\w+)' of type NumPyRandom", "numba has no Generator.{}"),
        (r"Use of unsupported NumPy function '([\w.]+)'", "numba has no {}"),
        (
            r"No implementation of function Function\(<[\w -]*?(?:function|ufunc) '?(\w+)",
            "numba has no {} of such arguments",
        ),
        (r"Unknown attribute '(\w+)'", "numba knows no attribute {}"),
        (r"Cannot determine Numba type of <class '([\w.]+)'>", "numba knows no {}"),
        (r"cannot determine Numba type of <class '([\w.]+)'>", "numba knows no {}"),
    ):
        found = re.search(pattern, text)
        if found:
            said = words.format(found[1])
            break
    else:
        lines = [one.strip() for one in text.splitlines() if one.strip()]
        said = next((one for one in lines if not one.startswith("Failed in")), lines[0])[:100]
        if not isinstance(error, NumbaError | UntranslatableError):
            said = f"numba gives up with {type(error).__name__}"
    places = [(os.path.abspath(one), int(n)) for one, n in re.findall(PLACE, whole)]
    own = [one for one in places if not one[0].startswith((OURS, NUMBAS))]  # the innermost first
    code = getattr(method, "__code__", None)
    own += [] if code is None else [(code.co_filename, code.co_firstlineno)]
    return f"{said} ({os.path.basename(own[0][0])}, line {own[0][1]})" if own else said
