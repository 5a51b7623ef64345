"""Problems and states that a question is about, checked before anything is done with them."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel, State


def checked_problem(problem: ExogenousModel) -> ExogenousModel:
    """The problem, if it has all that a planner needs."""
    if not isinstance(problem, ExogenousModel):
        raise InputError(
            f"{type(problem).__name__} is not a problem to plan for: it needs horizon, sense, "
            "start, draw, actions and step (see ExogenousModel)"
        )
    return problem


def checked_state(problem: ExogenousModel, state: State | None) -> State:
    """The state, or the problem's start, as arrays of the right sizes."""
    start = problem.start
    if state is None:
        state = start
    try:
        t, exogenous, resource = state
    except (TypeError, ValueError):
        raise InputError(f"state must be State(t, exogenous, resource), got {state!r}") from None
    t = whole_number(t, "state t", maximum=problem.horizon)
    x = _vector(exogenous, "exogenous", len(start.exogenous))
    return State(t, x, _vector(resource, "resource", len(start.resource)))


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
