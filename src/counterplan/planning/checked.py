"""Problems and states that a question is about, checked before anything is done with them."""

from __future__ import annotations

import numpy as np

from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel
from counterplan.exogenous.states import checked_state

__all__ = ["checked_problem", "checked_state", "is_number"]


def checked_problem(problem: ExogenousModel) -> ExogenousModel:
    """The problem, if it has all that a planner needs."""
    if not isinstance(problem, ExogenousModel):
        raise InputError(
            f"{type(problem).__name__} is not a problem to plan for: it needs horizon, sense, "
            "start, draw, actions and step (see ExogenousModel)"
        )
    return problem


def is_number(value: object) -> bool:
    """Whether it is one number, whatever its value."""
    return isinstance(value, int | float | np.integer | np.floating | np.bool_)
