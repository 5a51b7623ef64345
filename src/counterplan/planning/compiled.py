"""What compiled functions share: how they are compiled, and named views of flat numbers.

A model hands its numbers to compiled code as one flat array, so that all models have the same type
and one search, compiled once, serves them all. A `Layout` states which numbers these are:

    VOYAGE = Layout("rest fixed_cost", "T K", legs="T", targets="T K", process="*")
    flat = VOYAGE.pack(fixed_cost=0.0, legs=legs, targets=targets, process=block)
    voyage = VOYAGE.view              # in compiled code: v = voyage(flat); v.targets[t, k]

The sizes are read off the shapes when packing. A view costs nothing but the places that are used.
"""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.options import DefaultOptions
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
)
from numba.np.arrayobj import populate_array
from numpy.typing import ArrayLike

from counterplan.core.compiled import Within, njit
from counterplan.core.validation import FloatArray

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
_LONG = ir.IntType(64)
GENERATOR = nb.typeof(np.random.default_rng(0))  # type: ignore[no-untyped-call]

# Compiled functions here make no arrays, only look at those that Python made before. Without
# numba's counting of owners (`_nrt=False`, an option of its own library code) a search takes two
# thirds of the time. A numba that no longer knows the option is only slower.
_OPTIONS: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

jit: Any = partial(njit, cache=True, **_OPTIONS)
# For functions that only compiled code calls: without what lets Python and C call them, and without
# machine code of their own.
inner: Any = partial(
    njit, **_OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=Within
)
# For functions that Python calls and hands many arrays to.
outer: Any = partial(njit, cache=True, no_cfunc_wrapper=True)
# Small functions with many arrays: passing those on would cost more than the work.
inlined: Any = inner(forceinline=True)


class Held(types.Type):
    """A named tuple that a function holds in its own memory, passed on by where that is: handed
    over as a value, each of its fields would be spelt out at every use, which takes most of the
    time to compile."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(name=f"Held({kind})")


def _held_model(manager: Any, held: Any) -> Any:
    return models.PrimitiveModel(manager, held, ir.IntType(8).as_pointer())  # type: ignore[no-untyped-call]


register_model(Held)(_held_model)


@infer_getattr
class _HeldFields(AttributeTemplate):
    key = Held

    def generic_resolve(self, held: Any, name: str) -> Any:  # type: ignore[override]
        return held.kind[held.kind.fields.index(name)] if name in held.kind.fields else None


@lower_getattr_generic(Held)  # type: ignore[no-untyped-call, untyped-decorator]
def _field(context: Any, builder: Any, held: Any, at: Any, name: str) -> Any:
    whole, place = context.get_value_type(held.kind), held.kind.fields.index(name)
    at = builder.gep(at, [_LONG(whole.get_element_offset(context.target_data, place))])
    return builder.load(builder.bitcast(at, whole.elements[place].as_pointer()))


def _borrowed(context: Any, value: Any) -> Any:
    """An array or generator without a share in its ownership, or a named tuple of arrays, held:
    whoever calls keeps them alive. Counting owners is an atomic operation for every row looked at,
    and took most of a search's time."""

    def alone(context: Any, builder: Any, kind: Any, owned: Any) -> Any:
        view = cgutils.create_struct_proxy(kind)(context, builder, value=owned)  # type: ignore[no-untyped-call]
        view.meminfo = cgutils.get_null_value(view.meminfo.type)  # type: ignore[no-untyped-call]
        if isinstance(kind, types.Array):
            view.parent = cgutils.get_null_value(view.parent.type)  # type: ignore[no-untyped-call]
        return view._getvalue()

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not isinstance(value, types.NamedTuple):
            return alone(context, builder, value, arguments[0])
        whole = arguments[0]
        for i, kind in enumerate(value.types):
            if isinstance(kind, types.Array):
                part = alone(context, builder, kind, builder.extract_value(whole, i))
                whole = builder.insert_value(whole, part, i)
        at = cgutils.alloca_once_value(builder, whole)  # type: ignore[no-untyped-call]
        return builder.bitcast(at, ir.IntType(8).as_pointer())

    return (Held(value) if isinstance(value, types.NamedTuple) else value)(value), code


def _another(context: Any, held: Any) -> Any:
    """A copy to show to others: nobody else knows where the first one is, so the compiler can keep
    it out of memory."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(held.kind).as_pointer()
        whole = builder.load(builder.bitcast(arguments[0], kind))
        at = cgutils.alloca_once_value(builder, whole)  # type: ignore[no-untyped-call]
        return builder.bitcast(at, arguments[0].type)

    return held(held), code


borrowed: Any = intrinsic(_borrowed)
another: Any = intrinsic(_another)


def _half(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Where in a row of a table its column of half the width is."""
    view = context.make_array(signature.args[0])(context, builder, arguments[0])
    wide = builder.mul(builder.extract_value(view.shape, 1), arguments[1])
    row = builder.bitcast(builder.gep(view.data, [wide]), ir.IntType(32).as_pointer())
    return builder.gep(row, [arguments[2]])


def _whole(typing: Any, table: Any, row: Any, column: Any) -> Any:
    """A whole number from 0 to 2^32 - 1 in a table of floats: two of them in each column."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_half(context, builder, signature, arguments)), _LONG)

    return types.int64(table, types.intp, types.intp), code


def _set_whole(typing: Any, table: Any, row: Any, column: Any, value: Any) -> Any:
    """Write it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.trunc(arguments[3], ir.IntType(32))
        builder.store(number, _half(context, builder, signature, arguments))
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, types.int64), code


whole: Any = intrinsic(_whole)
set_whole: Any = intrinsic(_set_whole)


@inlined
def copy(source, target):  # type: ignore[no-untyped-def]
    """Number by number: a slice would ask for memory in between."""
    for i in range(source.shape[0]):
        target[i] = source[i]


def _play_with(draw, choices, step, policy, state, generator, room):  # type: ignore[no-untyped-def]
    """The return of one simulated future from a state (parameters, t, x, d), by a policy or random
    actions, by a model's functions (`search.kernel`). The room is the horizon, whether actions are
    random, and where to put actions, two x and two d."""
    parameters, t, x, d = state
    T, is_random, offered, exogenous, resource = room
    now, then, level, left = exogenous[0], exogenous[1], resource[0], resource[1]
    copy(x, now)
    copy(d, level)
    total = 0.0
    while True:
        m = choices(parameters, t, now, level, offered)
        a = 0
        if is_random:
            a = int(generator.random() * m)
        elif m > 1:
            a = policy(parameters, t, now, level, generator, offered, m)
        total += step(parameters, t, now, level, offered[a], left)
        t += 1
        if t == T:
            return total
        draw(parameters, t - 1, now, generator, then)
        now, then = then, now
        level, left = left, level


# Not cached by itself: functions as arguments have no name that another program would know.
play_with: Any = inner(forceinline=True)(_play_with)


class Layout:
    """The order of a model's numbers in a flat array: single numbers, sizes, then arrays.

    numbers  names of single numbers, NAME=VALUE where it is always the same; 'rest': where the last
             array begins, filled in by itself
    sizes    names of whole numbers that shapes are made of
    arrays   name -> shape, in names of sizes, whole numbers and NAME+1; last, '*': all that is left
    view     in compiled code, flat array -> named tuple of all these
    shapes   name -> names of sizes
    """

    def __init__(self, numbers: str = "", sizes: str = "", **arrays: str) -> None:
        given = [one.partition("=") for one in numbers.split()]
        self._constants = {name: float(value) for name, _, value in given if value}
        self._numbers, self._sizes = [name for name, _, _ in given], sizes.split()
        self._arrays = self.shapes = {name: shape.split() for name, shape in arrays.items()}
        fields = [*self._numbers, *self._sizes, *self._arrays]
        self._places = {name: i for i, name in enumerate(fields)}
        kinds = [
            *[types.float64] * len(self._numbers),
            *[types.int64] * len(self._sizes),
            *[types.Array(types.float64, len(shape), "C") for shape in self._arrays.values()],
        ]
        found = namedtuple("Numbers", fields)  # type: ignore[misc]
        self._type = types.NamedTuple(kinds, found)  # type: ignore[no-untyped-call]
        self.view: Any = intrinsic(self._view)

    def pack(self, **values: ArrayLike) -> FloatArray:
        """The flat array of these numbers; sizes that no shape tells are given, too."""
        arrays = {name: np.asarray(values[name], np.float64) for name in self._arrays}
        sizes = {name: int(values[name]) for name in self._sizes if name in values}  # type: ignore[arg-type]
        for name, shape in self._arrays.items():
            for symbol, size in zip(shape, arrays[name].shape, strict=True):
                base, _, more = symbol.partition("+")
                if base in self._sizes:
                    sizes.setdefault(base, size - int(more or 0))
        ends = len(self._places) + np.cumsum([0, *(array.size for array in arrays.values())])
        values = {**self._constants, "rest": int(ends[-2]) if arrays else 0, **values}
        head = [float(values[name]) for name in self._numbers]  # type: ignore[arg-type]
        # Whole numbers keep their bits: compiled code need not convert them.
        whole = np.array([*(sizes[name] for name in self._sizes), *ends[:-1]], dtype=np.int64)
        body = (array.ravel() for array in arrays.values())
        return np.concatenate([head, whole.view(np.float64), *body])

    def _view(self, context: Any, flat: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            given = cgutils.create_struct_proxy(flat)(context, builder, value=arguments[0])  # type: ignore[no-untyped-call]
            whole = context.get_value_type(types.intp)
            bits = builder.bitcast(given.data, whole.as_pointer())
            fields: list[Any] = []
            for name, place in self._places.items():
                is_whole = name not in self._numbers
                at = cgutils.gep(builder, bits if is_whole else given.data, place)  # type: ignore[no-untyped-call]
                fields.append(builder.load(at))
            for name, symbols in self._arrays.items():
                begin = fields[self._places[name]]
                left = builder.sub(builder.extract_value(given.shape, 0), begin)
                shape = [
                    left if one == "*" else self._size(builder, fields, one) for one in symbols
                ]
                kind = self._type.types[self._places[name]]
                data = builder.gep(given.data, [begin])
                fields[self._places[name]] = _array(context, builder, kind, data, shape)
            return context.make_tuple(builder, self._type, fields)

        return self._type(flat), code

    def _size(self, builder: Any, fields: list[Any], symbol: str) -> Any:
        """A size, one more than it, or a whole number itself."""
        base, _, more = symbol.partition("+")
        whole = fields[self._places[self._sizes[0]]].type
        if base.isdigit():
            return whole(int(base))
        return builder.add(fields[self._places[base]], whole(int(more or 0)))


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """An array in place, owned by nobody."""
    view = context.make_array(kind)(context, builder)
    item = context.get_constant(types.intp, 8)
    strides = [item]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(view, data, shape, strides, item, meminfo=None)  # type: ignore[no-untyped-call]
    return view._getvalue()


# Actions closer than this are the same.
SAME = 1e-12


@jit
def offer(actions, m, ordered):  # type: ignore[no-untyped-def]
    """How many actions there are with row m, which is dropped if it is among them already. From row
    `ordered` on they are in order, so of those only the last can be the same."""
    i = 0
    while i < m:
        if i >= ordered:
            i = m - 1
        same = True
        for j in range(actions.shape[1]):
            if abs(actions[m, j] - actions[i, j]) > SAME * (1.0 + abs(actions[i, j])):
                same = False
                break
        if same:
            return m
        i += 1
    return m + 1
