"""The optimum by enumerating everything, for small problems: what planners are checked against.

    V(t, x, d) = max_a [ r_t(x, d, a) + sum_x' P(x' | x) V(t + 1, x', d') ]    expectimax
    V(t, x, d) = alpha log sum_a exp([ ... ] / alpha)                          soft: MENTS' optimum

In the model's own sense: a problem that counts costs has min (and a soft minimum) instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import ExogenousModel, FiniteSupport, State, checked_state


class FiniteModel(ExogenousModel, FiniteSupport, Protocol):
    """A model whose chance has finite support."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """value at the state, and (m,) values of its actions (m, A), each followed by the optimum."""

    value: float
    values: FloatArray
    actions: FloatArray


def expectimax(
    problem: FiniteModel, state: State | None = None, temperature: float = 0.0
) -> Optimum:
    """The optimal value at a state (default: the start), or with a temperature the soft one."""
    if not isinstance(problem, FiniteSupport):
        raise NotApplicableError(
            f"{type(problem).__name__} has no finite support (no method successors): "
            "there is nothing to enumerate; sample it with evaluate"
        )
    if temperature < 0.0:
        raise InputError(f"temperature must be at least 0, got {temperature}")
    place = checked_state(problem, state)
    known: dict[tuple[int, bytes, bytes], float] = {}
    actions, values = _action_values(problem, place, temperature, known)
    return Optimum(_combined(problem, values, temperature), values, actions)


def _combined(problem: FiniteModel, values: FloatArray, temperature: float) -> float:
    sign = -1.0 if problem.sense == "min" else 1.0
    highest = float(np.max(sign * values))
    if temperature == 0.0:
        return sign * highest
    excess = np.exp((sign * values - highest) / temperature)
    return sign * (highest + temperature * float(np.log(np.sum(excess))))


def _action_values(
    problem: FiniteModel,
    state: State,
    temperature: float,
    known: dict[tuple[int, bytes, bytes], float],
) -> tuple[FloatArray, FloatArray]:
    """The actions (m, A) of a state and their values (m,)."""
    actions = np.asarray(problem.actions(state), dtype=np.float64)
    m = len(actions)
    x, d = np.tile(state.exogenous, (m, 1)), np.tile(state.resource, (m, 1))
    rewards, resources = problem.step(state.t, x, d, actions)
    values = np.array(rewards, dtype=np.float64)
    if state.t + 1 < problem.horizon:
        following, probabilities = problem.successors(state.t, state.exogenous)
        for a in range(m):
            for after, probability in zip(following, probabilities, strict=True):
                then = State(state.t + 1, after, resources[a])
                values[a] += probability * _value(problem, then, temperature, known)
    return actions, values


def _value(
    problem: FiniteModel,
    state: State,
    temperature: float,
    known: dict[tuple[int, bytes, bytes], float],
) -> float:
    key = (state.t, state.exogenous.tobytes(), state.resource.tobytes())
    if key not in known:
        _, values = _action_values(problem, state, temperature, known)
        known[key] = _combined(problem, values, temperature)
    return known[key]
