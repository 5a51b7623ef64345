"""What was done along one realised path, and what came of it.

    d_{t+1} = step_t(x_t, d_t, a_t),    value = sum_t r_t

Whoever decides is asked with x_t and d_t, never with what came later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplan.allocation.hindsight import IsResourceProgram
from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError
from counterplan.exogenous.model import ExogenousModel, MakesFeasible, State
from counterplan.exogenous.resource import ResourceProgram
from counterplan.planning.checked import checked_state
from counterplan.planning.policy import Rule

# What bounds may be missed by, in units of the amount: rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Journey:
    """Decisions and where they led.

    value    what they earned (or cost) in all
    actions  (steps, A)
    levels   (steps + 1, D) the resource before each of them, and at the end
    """

    value: float
    actions: FloatArray
    levels: FloatArray


def checked_path(
    problem: ExogenousModel, path: ArrayLike, state: State | None = None
) -> tuple[FloatArray, State]:
    """A realised path (T - t, X) and the state it begins in: x_t is the path's first row.

    state  says t and the resource (default: the start's); its own x_t is not used
    """
    at = checked_state(problem, state)
    try:
        found = np.array(path, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the path must hold numbers, a row for each step") from None
    wanted = (problem.horizon - at.t, len(at.exogenous))
    if found.ndim == 1 and wanted[1] == 1:
        found = found[:, np.newaxis]
    if found.shape != wanted or len(found) == 0:
        raise InputError(
            f"the path must be {wanted}: x_{at.t} .. x_{problem.horizon - 1}, got {found.shape}"
        )
    if not np.isfinite(found).all():
        s = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise InputError(f"the path at t={at.t + s} is {found[s].tolist()}: must be finite")
    return found, State(at.t, found[0], at.resource)


def carried_out(
    problem: ExogenousModel, path: FloatArray, actions: ArrayLike, state: State
) -> Journey:
    """Given decisions (steps, A), checked one by one: the first impossible one is named."""
    size = problem.actions(state).shape[1]
    try:
        wanted = np.array(actions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the actions must hold numbers, a row for each step") from None
    if wanted.ndim == 1 and size == 1:
        wanted = wanted[:, np.newaxis]
    if wanted.shape != (len(path), size):
        raise InputError(
            f"the actions must be {(len(path), size)}, a row for each step of the path, "
            f"got {wanted.shape}"
        )

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        action = wanted[t - state.t]
        refuse_action(problem, State(t, exogenous[0], resource[0]), action)
        return np.asarray(action[np.newaxis])

    return played(problem, rule, path, state)


def played(problem: ExogenousModel, rule: Rule, path: FloatArray, state: State) -> Journey:
    """What a rule does along a path that begins in a state."""
    resource = np.array(state.resource, dtype=np.float64)[np.newaxis]
    levels, actions, total = [resource[0]], [], 0.0
    for s in range(len(path)):
        now = path[s : s + 1]
        action = np.asarray(rule(state.t + s, now.copy(), resource.copy()), dtype=np.float64)
        reward, resource = problem.step(state.t + s, now, resource, action)
        total += float(reward[0])
        actions.append(action[0])
        levels.append(resource[0])
    return Journey(total, np.array(actions), np.array(levels))


def refuse_action(problem: ExogenousModel, state: State, action: FloatArray) -> None:
    """Raise where an action is not possible."""
    if not np.isfinite(action).all():
        raise InputError(f"the action at t={state.t} is {action.tolist()}: must be finite")
    if isinstance(problem, IsResourceProgram):
        _check_program(problem.program, state, action)
    one = state.exogenous[np.newaxis], state.resource[np.newaxis], action[np.newaxis]
    problem.step(state.t, *one)
    if isinstance(problem, MakesFeasible):
        closest = problem.feasible(state.t, *one)[0]
        if np.abs(closest - action).max() > ROUNDING * (1.0 + np.abs(action).max()):
            raise InfeasibleError(
                f"{action.tolist()} at t={state.t} with {state.resource.tolist()} is not possible; "
                f"{closest.tolist()} is, and closest to it"
            )


def _check_program(program: ResourceProgram, state: State, action: FloatArray) -> None:
    room = program.room(state.t, state.resource[np.newaxis])
    low, high, total = float(room.low[0]), float(room.high[0]), float(action.sum())
    slack = ROUNDING * (1.0 + abs(total))
    levels = state.resource[: len(action)]
    is_taken = program.plain_stocks or len(action) > 1
    is_short = is_taken and (action > levels + slack).any()
    if (action < 0.0).any() or not low - slack <= total <= high + slack or is_short:
        raise InfeasibleError(
            f"{action.tolist()} at t={state.t} with {levels.tolist()}: between {low:g} and "
            f"{high:g} may be spent in all, nothing negative and no more than there is"
        )
