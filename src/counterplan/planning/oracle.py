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
from counterplan.planning.model import (
    ExogenousModel,
    FiniteSupport,
    State,
    checked_state,
    sign_of,
)


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
    search = _Search(problem, temperature, {})
    actions, values = search.choices(checked_state(problem, state))
    return Optimum(search.combined(values), values, actions)


@dataclass(frozen=True)
class _Search:
    problem: FiniteModel
    temperature: float
    known: dict[tuple[int, bytes, bytes], float]

    def combined(self, values: FloatArray) -> float:
        sign = sign_of(self.problem)
        highest = float(np.max(sign * values))
        if self.temperature == 0.0:
            return sign * highest
        excess = np.exp((sign * values - highest) / self.temperature)
        return sign * (highest + self.temperature * float(np.log(np.sum(excess))))

    def choices(self, state: State) -> tuple[FloatArray, FloatArray]:
        """The actions (m, A) of a state and their values (m,)."""
        problem = self.problem
        actions = np.asarray(problem.actions(state), dtype=np.float64)
        m = len(actions)
        x, d = np.tile(state.exogenous, (m, 1)), np.tile(state.resource, (m, 1))
        rewards, resources = problem.step(state.t, x, d, actions)
        values = np.array(rewards, dtype=np.float64)
        if state.t + 1 < problem.horizon:
            following, probabilities = problem.successors(state.t, state.exogenous)
            for a in range(m):
                for after, probability in zip(following, probabilities, strict=True):
                    values[a] += probability * self.value(State(state.t + 1, after, resources[a]))
        return actions, values

    def value(self, state: State) -> float:
        key = (state.t, state.exogenous.tobytes(), state.resource.tobytes())
        if key not in self.known:
            self.known[key] = self.combined(self.choices(state)[1])
        return self.known[key]
