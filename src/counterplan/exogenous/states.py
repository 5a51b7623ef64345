"""The states that questions are about, checked before anything is done with them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel, State

# What levels may miss their bounds by.
ROUNDING = 1e-9


def checked_state(problem: ExogenousModel, state: State | None) -> State:
    """The state, or the problem's start, as arrays of the right sizes.

    A state that the problem offers no actions for is refused by the problem itself: its `actions`
    knows which levels, prices and modes there are.
    """
    start = problem.start
    if state is None:
        return _arrays(start, problem)
    found = _arrays(state, problem)
    if found.t < problem.horizon:
        problem.actions(found)
    return found


def _arrays(state: State, problem: ExogenousModel) -> State:
    start = problem.start
    try:
        t, exogenous, resource = state
    except (TypeError, ValueError):
        raise InputError(f"state must be State(t, exogenous, resource), got {state!r}") from None
    t = whole_number(t, "state t", maximum=problem.horizon)
    x = _vector(exogenous, "exogenous", np.size(start.exogenous))
    return State(t, x, _vector(resource, "resource", np.size(start.resource)))


def _vector(values: object, name: str, size: int) -> FloatArray:
    try:
        vector = np.array(values, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError):
        raise InputError(f"the state's {name} must hold numbers, got {values!r}") from None
    if vector.shape != (size,):
        raise InputError(f"the state's {name} has shape {vector.shape}, the problem's ({size},)")
    if not np.all(np.isfinite(vector)):
        raise InputError(f"the state's {name} must be finite, got {vector}")
    return vector


# What follows is asked at every decision, of a few numbers: plain Python is faster there.


def require_levels(t: int, levels: FloatArray, capacities: Iterable[float], what: str) -> None:
    """Refuse a state whose levels do not lie between 0 and their capacities."""
    for level, capacity in zip(levels.tolist(), capacities, strict=True):
        slack = ROUNDING * (1.0 + abs(level))
        if not -slack <= level <= capacity + slack:
            between = f"lie between 0 and {capacity:g}" if capacity < math.inf else "be at least 0"
            raise InputError(
                f"the state at t={t} has {what} {level:g}, which must {between}: no such state "
                "can be reached"
            )


def require_prices(state: State) -> None:
    """Refuse a state with a price that is not positive."""
    for price in state.exogenous.tolist():
        if not price > 0.0:
            raise InputError(
                f"the state at t={state.t} has a price of {price:g}: prices must be positive"
            )


def require_held(state: State) -> None:
    """Refuse a state in which an option is neither held (1) nor exercised (0)."""
    held = state.resource.tolist()
    if any(one not in (0.0, 1.0) for one in held):
        raise InputError(
            f"the state at t={state.t} holds {held}: give 1 for each option still held and 0 for "
            "the others"
        )
