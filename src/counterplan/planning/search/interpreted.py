"""A plain Python model as a kernel: its methods are called back from the compiled search.

Slower by two orders of magnitude than a compiled model, and just as correct: any object with the
methods of `ExogenousModel` can be planned for. Three more methods are used where it has them:

    successors(t, exogenous) -> values (M, X), probabilities (M,)    finite support
    bounds(state) -> lower, upper                                    on the value, in its own sense
    rollout(state) -> i                                              which action a rollout takes

The functions here are compiled once for all models: `parameters` holds the number under which the
model is registered.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numba import objmode

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.planning.model import (
    ExogenousModel,
    FiniteSupport,
    State,
    following,
    numbers,
    offered,
    sign_of,
    stepped,
)
from counterplan.planning.search.kernel import (
    ACTIONS,
    BOUNDS,
    DRAW,
    POLICY,
    STEP,
    SUCCESSORS,
    Kernel,
    no_bounds,
    no_successors,
    uniform_policy,
)

# The most actions of a state, and successors of an x_t, that memory is kept for.
MOST_ACTIONS = 1024
MOST_SUCCESSORS = 1024


class Interpreter:
    """Calls a model's methods on single states and checks what comes back."""

    def __init__(self, model: Any) -> None:
        self.model, self.sign = model, sign_of(model)
        self.action_size = self.offered(model.start).shape[1]

    def offered(self, state: State) -> FloatArray:
        """The actions (m, A) of a state."""
        actions = offered(self.model, state)
        if len(actions) > MOST_ACTIONS:
            raise InputError(
                f"{len(actions)} actions at t={state.t}: a search takes {MOST_ACTIONS} at most"
            )
        return actions

    def draw(self, t: int, x: FloatArray, generator: np.random.Generator, out: FloatArray) -> None:
        drawn = self.model.draw(t, x[None].copy(), generator)
        out[:] = numbers(drawn, f"draw at t={t}", (1, out.size))[0]

    def successors(self, t: int, x: FloatArray, states: FloatArray, chances: FloatArray) -> int:
        values, probabilities = following(self.model, t, x)
        M = len(probabilities)
        if M > MOST_SUCCESSORS:
            raise InputError(f"successors at t={t}: {M} values, expected 1 to {MOST_SUCCESSORS}")
        states[:M], chances[:M] = values, probabilities
        return M

    def actions(self, t: int, x: FloatArray, d: FloatArray, out: FloatArray) -> int:
        actions = self.offered(State(t, x, d))
        m = len(actions)
        out[:m] = numbers(actions, f"actions at t={t}", (m, out.shape[1]))
        return m

    def step(
        self, t: int, x: FloatArray, d: FloatArray, action: FloatArray, out: FloatArray
    ) -> float:
        rewards, after = stepped(self.model, t, x[None], d[None], action[None])
        out[:] = after[0]
        return self.sign * float(rewards[0])

    def policy(self, t: int, x: FloatArray, d: FloatArray, m: int) -> int:
        index = int(self.model.rollout(State(t, x.copy(), d.copy())))
        if not 0 <= index < m:
            raise InputError(f"rollout at t={t} chose action {index} of {m}")
        return index

    def bounds(self, t: int, x: FloatArray, d: FloatArray, out: FloatArray) -> None:
        lower, upper = (float(one) for one in self.model.bounds(State(t, x.copy(), d.copy())))
        if not lower <= upper:
            raise InputError(f"bounds at t={t}: lower {lower} exceeds upper {upper}")
        out[:] = (lower, upper) if self.sign > 0.0 else (-upper, -lower)


# Compiled functions know a model by its number; entries go when the model's kernel does.
_numbers = count()
_registered: WeakValueDictionary[int, Interpreter] = WeakValueDictionary()


def interpret(model: ExogenousModel) -> Kernel:
    """A kernel whose functions call the model's methods; it keeps the model alive."""
    interpreter = Interpreter(model)
    number = next(_numbers)
    _registered[number] = interpreter
    finite = isinstance(model, FiniteSupport)
    return Kernel(
        draw=_draw,
        actions=_actions,
        step=_step,
        parameters=np.array([float(number)]),
        horizon=model.horizon,
        exogenous=np.array(model.start.exogenous, dtype=np.float64),
        resource=np.array(model.start.resource, dtype=np.float64),
        action_size=interpreter.action_size,
        most_actions=MOST_ACTIONS,
        successors=_successors if finite else no_successors,
        most_successors=MOST_SUCCESSORS if finite else 0,
        policy=_policy if hasattr(model, "rollout") else uniform_policy,
        bounds=_bounds if hasattr(model, "bounds") else no_bounds,
        model=interpreter,
    )


def _model(parameters: FloatArray) -> Interpreter:
    return _registered[int(parameters[0])]


@njit(DRAW, cache=True)
def _draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    with objmode():
        _model(parameters).draw(t, x, generator, out)


@njit(SUCCESSORS, cache=True)
def _successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    with objmode(M="int64"):
        M = _model(parameters).successors(t, x, states, probabilities)
    return M  # noqa: RET504


@njit(ACTIONS, cache=True)
def _actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    with objmode(m="int64"):
        m = _model(parameters).actions(t, x, d, out)
    return m  # noqa: RET504


@njit(STEP, cache=True)
def _step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    with objmode(reward="float64"):
        reward = _model(parameters).step(t, x, d, action, out)
    return reward  # noqa: RET504


@njit(POLICY, cache=True)
def _policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    with objmode(i="int64"):
        i = _model(parameters).policy(t, x, d, m)
    return i  # noqa: RET504


@njit(BOUNDS, cache=True)
def _bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    with objmode():
        _model(parameters).bounds(t, x, d, out)


# The functions that call back, by name.
CALLED = {
    "draw": _draw,
    "successors": _successors,
    "actions": _actions,
    "step": _step,
    "policy": _policy,
    "bounds": _bounds,
}
