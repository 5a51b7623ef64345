"""What should have been done, had the future been known: the exact allocation for realised paths.

    'advantage'  two plain stocks that share a fixed quota at every step: comparative advantage
    'nested'     one resource with levels bounded at every step: nested cumulative bounds, of which
                 the fractional knapsack (only the steps and the total are bounded) is a case
    'lp'         several resources, budgets with spilling, and all of these but one that is added to
                 and spills over: linear program (HiGHS)
    'model'      the model's own `allocate`
    'auto'       the first of these that applies; a model that is no resource program: its own

Models with a solver of their own may be resource programs all the same (bunkering without fixed
costs): then the general methods apply, too. None is exact where adding to a resource pays although
it spills over: units are then worth adding only to be lost, and the optimum is not concave.

The mean of the value over sampled futures bounds V* from above (a cost: from below); it does not
converge to V*, which knows no future (the paper's Thm. 1 equates the two).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.allocation import (
    NO_METHOD,
    allocate_advantage,
    allocate_nested,
    allocate_transport,
    nested_start,
    nested_steps,
    refuses_transport,
)
from counterplan.planning.model import (
    Allocation,
    ExogenousModel,
    HasHindsight,
    State,
    checked_state,
    sign_of,
)
from counterplan.planning.policies import follow
from counterplan.planning.resource import ResourceProgram

Method: TypeAlias = Literal["auto", "advantage", "nested", "lp", "model"]
METHODS = get_args(Method)
REASONS = {
    "advantage": "two stocks share a fixed quota at every step",
    "nested": "one resource whose level is bounded at every step",
    "lp": "the bounds form a linear program",
}


@runtime_checkable
class IsResourceProgram(Protocol):
    """A model that is nothing but rewards per unit and a resource program."""

    @property
    def program(self) -> ResourceProgram: ...

    def unit_rewards(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, A) to be maximised, for paths (n, steps, X) that begin at t."""
        ...


@dataclass(frozen=True)
class Certificate:
    """Why a hindsight value is right.

    replayed  the value that the model gives when the actions are replayed along the path
    bound     no allocation is better than this, by the dual solution of the linear program; None
              where the problem is not known as one
    """

    replayed: float
    bound: float | None


@dataclass(frozen=True)
class Hindsight:
    """The optimum for one realised path.

    value        in the model's sense: the most reward, or the least cost
    actions      (steps, A)
    method       which solver, and why it applies
    certificate  what the value can be checked against
    """

    value: float
    actions: FloatArray
    method: str
    certificate: Certificate

    def __repr__(self) -> str:
        return f"Hindsight(value={self.value:.6g}, steps={len(self.actions)})"


def hindsight(
    problem: ExogenousModel, path: ArrayLike, method: Method = "auto", state: State | None = None
) -> Hindsight:
    """The exact allocation for a realised path (T - t, X) from a state (default: the start)."""
    if state is not None and state[0] == problem.horizon:
        raise InputError(
            f"the state is at t={state[0]}, the end: there is nothing left to allocate"
        )
    exogenous, now = checked_path(problem, path, state)
    found = allocate(problem, exogenous[None], method, now)
    value, actions = float(found.values[0]), found.actions[0]
    replayed = follow(problem, lambda t, x, d: actions[[t - now.t]], exogenous[None], now)
    certificate = Certificate(float(replayed[0]), _bound(problem, exogenous, now))
    return Hindsight(value, actions, found.method, certificate)


def _bound(problem: ExogenousModel, path: FloatArray, state: State) -> float | None:
    """By the dual solution of the linear program, where the problem is one."""
    if not isinstance(problem, IsResourceProgram) or refuses_transport(problem.program):
        return None
    rewards = problem.unit_rewards(state.t, path[None])
    dual = allocate_transport(rewards, problem.program, state.t, state.resource).bounds[0]
    return sign_of(problem) * float(dual)


def allocate(
    problem: ExogenousModel, paths: FloatArray, method: Method = "auto", state: State | None = None
) -> Allocation:
    """The exact allocations for many paths (n, T - t, X) at once, from one state."""
    if method not in METHODS:
        raise InputError(f"method {method!r} is not one of {', '.join(METHODS)}")
    now = problem.start if state is None else state
    own = method not in REASONS and isinstance(problem, HasHindsight)
    if isinstance(problem, IsResourceProgram) and not own:
        return by_program(problem, paths, method, now, sign_of(problem))
    return _by_model(problem, paths, method, now)


def by_program(
    stated: IsResourceProgram, paths: FloatArray, method: Method, state: State, sign: float
) -> Allocation:
    """The exact allocations of a resource program."""
    rewards = stated.unit_rewards(state.t, paths)
    refused = refusals(stated.program, state)
    applicable = [name for name, refusal in refused.items() if refusal is None]
    chosen = applicable[0] if method in ("auto", "model") else method
    if refused[chosen] is not None:
        advice = f"use {' or '.join(map(repr, applicable))}"
        first = stated.program.resources[0]
        if first.effect > 0 and first.spill and (rewards > 0.0).any():
            advice = f"nor does any other: {NO_METHOD}"
        raise NotApplicableError(f"method '{chosen}' does not apply: {refused[chosen]}; {advice}")
    if chosen == "lp":
        values, actions, _ = allocate_transport(rewards, stated.program, state.t, state.resource)
    elif chosen == "advantage":
        quotas = stated.program.step_bounds[state.t :, 0]
        first, second = np.moveaxis(rewards, 2, 0)
        stocks = (float(state.resource[0]), float(state.resource[1]))
        values, actions = allocate_advantage(first, second, quotas, stocks)
    else:
        starts = np.full(len(rewards), nested_start(stated.program, state))
        steps = nested_steps(stated.program, state)
        values, spent = allocate_nested(rewards[:, :, 0], steps, starts)
        actions = spent[:, :, np.newaxis]
    return Allocation(sign * values, actions, f"{chosen}: {REASONS[chosen]}")


def step_rows(values: ArrayLike, name: str, wanted: tuple[int, int], what: str) -> FloatArray:
    """Numbers (steps, columns), a row for each step; a list for a single column."""
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the {name} must hold numbers, a row for each step") from None
    if found.ndim == 1 and wanted[1] == 1:
        found = found[:, np.newaxis]
    if found.shape != wanted or len(found) == 0:
        raise InputError(f"the {name} must be {wanted}{what}, got {found.shape}")
    return found


def checked_path(
    problem: ExogenousModel, path: ArrayLike, state: State | None = None
) -> tuple[FloatArray, State]:
    """A realised path (T - t, X) and the state it begins in: x_t is the path's first row.

    state  says t and the resource (default: the start's); its own x_t is not used
    """
    at = checked_state(problem, state)
    wanted = (problem.horizon - at.t, len(at.exogenous))
    found = step_rows(path, "path", wanted, f": x_{at.t} .. x_{problem.horizon - 1}")
    if not np.isfinite(found).all():
        s = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise InputError(f"the path at t={at.t + s} is {found[s].tolist()}: must be finite")
    return found, State(at.t, found[0], at.resource)


def _by_model(
    problem: ExogenousModel, paths: FloatArray, method: Method, state: State
) -> Allocation:
    name = type(problem).__name__
    if not isinstance(problem, HasHindsight):
        raise NotApplicableError(
            f"{name} cannot be solved in hindsight: give it an `allocate` method, or state it as "
            "an ExogenousMDP"
        )
    if method not in ("auto", "model"):
        raise NotApplicableError(
            f"method '{method}' needs a plain resource program, but {name} has a solver of its "
            "own for its structure; use 'model'"
        )
    return problem.allocate(paths, state)


def refusals(program: ResourceProgram, state: State) -> dict[str, str | None]:
    """For each method why it does not apply, None where it does; in the order of preference."""
    A, first = len(program.resources), program.resources[0]
    nested = f"it allocates one resource, there are {A}" if A > 1 else None
    if nested is None and first.spill and program.has_budget:
        nested = "with spilling, the level does not tell how much of the budget is left"
    return {
        "advantage": _refuses_advantage(program, state),
        "nested": nested,
        "lp": refuses_transport(program),
    }


def _refuses_advantage(program: ResourceProgram, state: State) -> str | None:
    if len(program.resources) != 2:
        return f"it divides a quota between two resources, there are {len(program.resources)}"
    if not program.plain_stocks:
        return "the levels change by themselves"
    low, high = program.step_bounds[state.t :].T
    if (low != high).any():
        s = int(np.argmax(low != high))
        return f"step t={state.t + s} may spend {low[s]:g} to {high[s]:g}, not a fixed quota"
    return None
