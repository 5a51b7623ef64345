"""A plain Python model run as compiled code, where that gives what the plain one gives.

Only models that say `numba = True` are compiled (`translator`): numba's numbers are not Python's
everywhere (whole numbers have 64 bits, 2**-1 of whole numbers is whole), and no comparison reaches
every state. A compiled method is used only if it gives what the plain one gives along walks through
the problem: equal to rounding, draws from the same place in the same stream included. What cannot
be compiled is called back (`interpreted`), and why is said in a sentence. Where compiled code
raises, the plain method is asked again: the answer, or the error, is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types
from numba.experimental import structref

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.planning.compiled import GENERATOR, MATRIX, VECTOR
from counterplan.planning.lattice_value import nearby, read_at
from counterplan.planning.model import ExogenousModel, State, sign_of
from counterplan.planning.search.interpreted import (
    CALLED,
    MOST_ACTIONS,
    MOST_SUCCESSORS,
    Interpreter,
)
from counterplan.planning.search.kernel import SIGNATURES, Kernel
from counterplan.planning.search.translator import Path, Translator, at, marked, why

# Walks through the problem that compiled methods are compared on, and by how much numbers that were
# added up in another order may differ.
WALKS, ROUNDING, AT_ONCE = 12, 1e-9, 5
# Translations kept of a class.
KEPT = 8
DRAWS = MATRIX(types.int64, MATRIX, GENERATOR)
ROWS = types.Tuple([VECTOR, MATRIX])(types.int64, MATRIX, MATRIX, MATRIX)  # type: ignore[no-untyped-call]


# --- A method as a function of the kernel -------------------------------------------------------

# Whoever runs these asks the plain method where they raise: it says what is wrong.
_WRONG = "the compiled model gave numbers that are not finite, or of another shape"


def _draw(own, sign):  # type: ignore[no-untyped-def]
    def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
        following = own(None, t, x.copy().reshape(1, x.size), generator)
        if following.shape != (1, out.size) or not np.all(np.isfinite(following)):
            raise InputError(_WRONG)
        for i in range(out.size):
            out[i] = following[0, i]

    return draw


def _successors(own, sign):  # type: ignore[no-untyped-def]
    def successors(parameters, t, x, states, chances):  # type: ignore[no-untyped-def]
        values, probabilities = own(None, t, x.copy())
        M = probabilities.shape[0]
        if not 1 <= M <= MOST_SUCCESSORS or values.shape != (M, states.shape[1]):
            raise InputError(_WRONG)
        total = 0.0
        for i in range(M):
            if not probabilities[i] >= 0.0:
                raise InputError(_WRONG)
            total += probabilities[i]
            chances[i] = probabilities[i]
            for j in range(states.shape[1]):
                states[i, j] = values[i, j]
        if not abs(total - 1.0) <= 1e-9 or not np.all(np.isfinite(values)):
            raise InputError(_WRONG)
        return M

    return successors


def _actions(own, sign):  # type: ignore[no-untyped-def]
    def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
        found = own(None, State(t, x.copy(), d.copy()))
        m, A = found.shape
        if not 1 <= m <= MOST_ACTIONS or out.shape[1] != A or not np.all(np.isfinite(found)):
            raise InputError(_WRONG)
        for i in range(m):
            for j in range(A):
                out[i, j] = found[i, j]
        return m

    return actions


def _step(own, sign):  # type: ignore[no-untyped-def]
    def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
        given = x.copy().reshape(1, x.size), d.copy().reshape(1, d.size)
        rewards, after = own(None, t, given[0], given[1], action.copy().reshape(1, action.size))
        if rewards.shape != (1,) or after.shape != (1, out.size) or not np.isfinite(rewards[0]):
            raise InputError(_WRONG)
        for i in range(out.size):
            if not np.isfinite(after[0, i]):
                raise InputError(_WRONG)
            out[i] = after[0, i]
        return sign * rewards[0]

    return step


def _rows(own, sign):  # type: ignore[no-untyped-def]
    def rows(t, x, d, actions):  # type: ignore[no-untyped-def]
        n, D = d.shape
        rewards, after = own(None, t, x, d.copy(), actions)
        if rewards.shape != (n,) or after.shape != (n, D):
            raise InputError(_WRONG)
        earned, left = np.empty(n), np.empty((n, D))
        for i in range(n):
            earned[i] = sign * rewards[i]
            for j in range(D):
                left[i, j] = after[i, j]
        return earned, left

    return rows


def _draws(own, sign):  # type: ignore[no-untyped-def]
    def draws(t, x, generator):  # type: ignore[no-untyped-def]
        following, found = own(None, t, x, generator), np.empty(x.shape)
        if following.shape != x.shape:
            raise InputError(_WRONG)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                found[i, j] = following[i, j]
        return found

    return draws


def _policy(own, sign):  # type: ignore[no-untyped-def]
    def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
        index = int(own(None, State(t, x.copy(), d.copy())))
        if not 0 <= index < m:
            raise InputError(_WRONG)
        return index

    return policy


def _bounds(own, sign):  # type: ignore[no-untyped-def]
    def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
        lower, upper = own(None, State(t, x.copy(), d.copy()))
        if not lower <= upper:
            raise InputError(_WRONG)
        out[0], out[1] = (lower, upper) if sign > 0.0 else (-upper, -lower)

    return bounds


# A kernel's function -> the model's method, and what makes the one of the other.
_OF: dict[str, tuple[str, Any]] = {
    "actions": ("actions", _actions),
    "step": ("step", _step),
    "draw": ("draw", _draw),
    "successors": ("successors", _successors),
    "policy": ("rollout", _policy),
    "bounds": ("bounds", _bounds),
}
# Likewise of functions of many states at once: the model's method, the signature, the maker.
_OF_MANY: dict[str, tuple[str, Any, Any]] = {
    "rows": ("step", ROWS, _rows),
    "draws": ("draw", DRAWS, _draws),
}


@dataclass(frozen=True)
class Translation:
    """What could be compiled of a model.

    functions  of its kernel, by name
    many       what futures are played by, where all of it could be
    reasons    method -> why it stays plain Python
    is_same    whether all numbers that were compared agreed to the last bit
    """

    functions: Mapping[str, Any]
    many: Any
    reasons: Mapping[str, str]
    is_same: bool
    read: tuple[tuple[Path, object], ...]

    def fits(self, model: Any) -> bool:
        """Whether it is this model's: what was read of the first one stands there, too."""
        try:
            return all(marked(at(path, model)) == before for path, before in self.read)
        except (AttributeError, KeyError):
            return False

    def futures(self, model: Any, n: int, rng: np.random.Generator, state: State) -> FloatArray:
        """(n, T - t, X) as `policies.futures`, to the last bit where draws are."""
        t, first, _ = state
        return np.asarray(draw_futures(self.many, n, t, model.horizon - t, first, rng))

    def followed(
        self, model: Any, lattice: Any, paths: FloatArray, state: State, action: FloatArray
    ) -> FloatArray:
        """(n,) totals of an action and then the best by a lattice's value, along paths."""
        t, _, resource = state
        given = np.ascontiguousarray(paths), resource.copy(), np.array(action, dtype=np.float64)
        totals = follow_lattice(self.many, lattice.tables, t, *given)
        return np.asarray(sign_of(model) * totals + 0.0)

    @property
    def words(self) -> str:
        """Of how the model is run."""
        if not self.reasons:
            return "model compiled"
        why = "; ".join(f"{name} is not: {reason}" for name, reason in self.reasons.items())
        return f"model {'compiled' if self.functions else 'in plain Python'}, but {why}"


_translations: WeakKeyDictionary[type, list[Translation]] = WeakKeyDictionary()


def known_translation(model: ExogenousModel) -> Translation | None:
    """What was compiled before, if it is this model's."""
    return next((one for one in _translations.get(type(model), []) if one.fits(model)), None)


def translation(model: ExogenousModel) -> Translation:
    """What can be compiled of a model; compiled once."""
    found = known_translation(model)
    if found is None:
        found = _compared(model, *_compiled(model))
        kept = _translations.setdefault(type(model), [])
        kept.append(found)
        del kept[:-KEPT]
    return found


class OwnModel:
    """How a session runs a model in plain Python.

    One that says so (`numba = True`) is compiled when so many simulations are made in all that
    compiling them pays, or when it was compiled before and no bit differed.
    """

    def __init__(self, plain: Kernel, pays_from: int) -> None:
        self.kernel = self._plain = plain
        self._model, self._pays_from, self._simulated = plain.model.model, pays_from, 0
        self._found: Translation | None = None
        self._distrusted = ""
        # A shipped problem that is not compiled has its reasons.
        self._is_ours = type(self._model).__module__.partition(".")[0] == "counterplan"
        self._may = getattr(self._model, "numba", False) is True and not self._is_ours

    @property
    def is_compiled(self) -> bool:
        """Whether any of it is."""
        return self.kernel is not self._plain

    @property
    def translation(self) -> Translation | None:
        """What is compiled, if it is used."""
        return self._found if self.is_compiled else None

    @property
    def words(self) -> str:
        """How it is run."""
        if self._is_ours:
            return ""
        if self._distrusted or self._found is None:
            return f"model in plain Python{self._distrusted}"
        return self._found.words

    def renewed(self, simulations: int) -> bool:
        """Whether another kernel is to be used for the next simulations."""
        before, self._simulated = self.kernel, self._simulated + simulations
        if self._found is not None and not self._found.fits(self._model):
            self._found, self.kernel = None, self._plain  # it was changed
        if self._found is None and not self._distrusted and self._may:
            known = known_translation(self._model)
            if self._simulated >= self._pays_from:
                self._found = translation(self._model)
            elif known is not None and known.is_same:
                self._found = known
            if self._found is not None and self._found.functions:
                called = {name: getattr(self._plain, name) for name in self._found.functions}
                ours = {name: one for name, one in called.items() if one is CALLED[name]}
                made: Any = {name: self._found.functions[name] for name in ours}
                self.kernel = replace(self._plain, **made)
        return self.kernel is not before

    def distrust(self, error: Exception) -> None:
        """Stay with plain Python, which says what is wrong."""
        self.kernel = self._plain
        self._distrusted = f" (compiled it raised {type(error).__name__})"


def _compiled(model: Any) -> tuple[Translator, dict[str, Any], dict[str, str]]:
    """Functions by name, the rows of a step among them, and why others are not."""
    functions, reasons, sign = dict[str, Any](), dict[str, str](), sign_of(model)
    translator = Translator(model)
    translator.note((None, "sense"), model.sense)
    for name, (method, make) in _OF.items():
        if not hasattr(model, method):
            continue
        try:
            own = translator.method(method)
            made = {name: njit(SIGNATURES[name], boundscheck=True)(make(own, sign))}
            for more, (of, signature, make_many) in _OF_MANY.items():
                if of == method:
                    made[more] = njit(signature, boundscheck=True)(make_many(own, sign))
            functions |= made
        except Exception as error:  # whatever a compiler says to code that it was not made for
            reasons[method] = why(error, getattr(model, method))
    return translator, functions, reasons


def _compared(
    model: Any, translator: Translator, functions: dict[str, Any], reasons: dict[str, str]
) -> Translation:
    """The functions that give what the plain methods give along walks through the problem."""
    plain, chance, is_same = Interpreter(model), np.random.default_rng(0), True
    for _ in range(WALKS if functions else 0):
        x, d = (np.array(one, dtype=np.float64, ndmin=1) for one in model.start[1:])
        for t in range(model.horizon):
            at_place = _Place(plain, t, x, d, int(chance.integers(2**32)))
            for name in functions:
                said, is_exact = at_place.compared(name, functions[name])
                is_same &= is_exact
                if said:
                    reasons[_method(name)] = said
            functions = {key: one for key, one in functions.items() if _method(key) not in reasons}
            x, d = at_place.following
    many, rows, draws = None, functions.pop("rows", None), functions.pop("draws", None)
    if rows is not None and draws is not None and "actions" in functions:
        many = many_of(functions["actions"], rows, draws)
    read_there = tuple(translator.read.values())
    translator.forget()
    return Translation(functions, many, reasons, is_same, read_there)


def _method(name: str) -> str:
    """The model's method that a function stands for."""
    return _OF_MANY[name][0] if name in _OF_MANY else _OF[name][0]


class _Place:
    """A state on a walk, with what the plain methods say there."""

    def __init__(self, plain: Interpreter, t: int, x: FloatArray, d: FloatArray, seed: int) -> None:
        self.plain, self.t, self.x, self.d, self._seed = plain, t, x, d, seed
        self.offered = plain.offered(State(t, x.copy(), d.copy()))
        self.action = self.offered[seed % len(self.offered)]
        self.following = x, np.empty_like(d)
        plain.step(t, x, d, self.action, self.following[1])
        if t + 1 < plain.model.horizon:
            self.following = np.empty_like(x), self.following[1]
            plain.draw(t, x, np.random.default_rng(seed), self.following[0])

    def compared(self, name: str, made: Any) -> tuple[str, bool]:
        """Why a function cannot stand for the plain method, if so; whether not one bit differs."""
        if name in ("draw", "draws", "successors") and self.t + 1 == self.plain.model.horizon:
            return "", True
        wanted = self._answer(name, lambda *given: getattr(self.plain, name)(*given), False)
        try:
            found = self._answer(name, made, True)
        except Exception as error:  # where Python has an answer
            return f"compiled it raises {type(error).__name__} at t={self.t}", True
        shapes = [np.shape(one) for one in wanted] == [np.shape(one) for one in found]
        pairs = list(zip(wanted, found, strict=True))
        if not shapes or not all(np.allclose(a, b, ROUNDING, ROUNDING) for a, b in pairs):
            return f"compiled it gives other numbers at t={self.t}", True
        return "", all(np.array_equal(a, b) for a, b in pairs)

    def _answer(self, name: str, ask: Any, compiled: bool) -> list[Any]:
        """The numbers that a function gives here."""
        t, x, d, none = self.t, self.x, self.d, np.empty(0)
        first, rng = (none,) if compiled else (), np.random.default_rng(self._seed)
        m, D = len(self.offered), d.size
        if name == "rows":
            given = np.tile(x, (m, 1)), np.tile(d, (m, 1)), self.offered.copy()
            rewards, after = ask(t, *given) if compiled else self.plain.model.step(t, *given)
            return [rewards if compiled else self.plain.sign * np.asarray(rewards), after]
        if name == "draws":
            many = np.tile(x, (AT_ONCE, 1))
            drawn = (ask if compiled else self.plain.model.draw)(t, many, rng)
            return [drawn, rng.random()]
        if name == "draw":
            out = np.empty_like(x)
            ask(*first, t, x, rng, out)
            return [out, rng.random()]  # and at the same place in the stream
        if name == "successors":
            states, chances = np.zeros((MOST_SUCCESSORS, x.size)), np.zeros(MOST_SUCCESSORS)
            M = ask(*first, t, x, states, chances)
            return [states[:M], chances[:M]]
        if name == "actions":
            room = np.zeros((MOST_ACTIONS, self.offered.shape[1]))
            return [room[: ask(*first, t, x, d, room)]]
        if name == "policy":
            more = (rng, self.offered) if compiled else ()
            return [ask(*first, t, x, d, *more, m)]
        if name == "bounds":
            out = np.empty(2)
            ask(*(none, none, t, x, d, rng, out) if compiled else (t, x, d, out))
            return [out]
        out = np.empty(D)
        return [ask(*first, t, x, d, self.action, out), out]


# --- Many futures at once ---------------------------------------------------------------------


@structref.register
class _ManyType(types.StructRef):
    """The type of what Python holds of the functions that futures are played by."""


class _Many(structref.StructRefProxy):
    """These functions, to pass on: handing them over one by one takes longer than the futures."""


structref.define_boxing(_ManyType, _Many)  # type: ignore[no-untyped-call]
_FIELDS = [types.FunctionType(one) for one in (SIGNATURES["actions"], ROWS, DRAWS)]
MANY = _ManyType(list(zip(("actions", "rows", "draws"), _FIELDS, strict=True)))  # type: ignore[no-untyped-call]
_PATHS = types.float64[:, :, ::1]
new: Any = structref.new


@njit(MANY(*_FIELDS), cache=True)
def many_of(actions, rows, draws):  # type: ignore[no-untyped-def]
    """All of them."""
    made = new(MANY)
    made.actions, made.rows, made.draws = actions, rows, draws
    return made


@njit(_PATHS(MANY, *[types.int64] * 3, VECTOR, GENERATOR), cache=True)
def draw_futures(own, n, t, steps, first, generator):  # type: ignore[no-untyped-def]
    """(n, steps, X) futures that begin with x_t."""
    paths, x = np.empty((n, steps, first.size)), np.empty((n, first.size))
    x[:] = first
    for s in range(steps):
        if s > 0:
            x = own.draws(t + s - 1, x, generator)
        paths[:, s] = x
    return paths


@njit(VECTOR(MANY, VECTOR, types.int64, _PATHS, VECTOR, VECTOR), cache=True)
def follow_lattice(own, tables, t, paths, level, action):  # type: ignore[no-untyped-def]
    """(n,) what an action and then the best by the value on a lattice earn along paths (n, steps,
    X), to be maximised; as `policies.follow` of `LatticeValue.actions`, to the last bit."""
    n, steps, X = paths.shape
    D, A = level.size, action.size
    levels, totals = np.empty((n, D)), np.zeros(n)
    offered, ends = np.empty((MOST_ACTIONS, A)), np.zeros(n + 1, np.int64)
    x, d, chosen = np.empty((4 * n, X)), np.empty((4 * n, D)), np.empty((4 * n, A))
    for s in range(steps):
        size = 0
        for i in range(n):
            here = levels[i] if s > 0 else level
            m = own.actions(tables, t + s, paths[i, s], here, offered) if s > 0 else 1
            while size + m > len(x):
                x, d = np.concatenate((x, x)), np.concatenate((d, d))
                chosen = np.concatenate((chosen, chosen))
            for k in range(m):
                x[size] = paths[i, s]
                d[size] = here
                chosen[size] = offered[k] if s > 0 else action
                size += 1
            ends[i + 1] = size
        rewards, after = own.rows(t + s, x[:size], d[:size], chosen[:size])
        for i in range(n):
            best, highest = ends[i], -np.inf
            if ends[i + 1] - best > 1:
                near = nearby(tables, t + s, paths[i, s])
                for row in range(ends[i], ends[i + 1]):
                    total = rewards[row] + read_at(tables, t + s, near, after[row], True)
                    if total > highest:
                        best, highest = row, total
            totals[i] += rewards[best]
            for j in range(D):
                levels[i, j] = after[best, j]
    return totals
