"""The optimum by enumerating everything, for small problems: what planners are checked against.

    V(t, x, d) = max_a [ r_t(x, d, a) + sum_x' P(x' | x) V(t + 1, x', d') ]    expectimax
    V(t, x, d) = alpha log sum_a exp([ ... ] / alpha)                          soft: MENTS' optimum

In the model's own sense: a problem that counts costs has min (and a soft minimum) instead.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.planning.model import State, sign_of


class Optimum(NamedTuple):
    """value at the state, and (m,) values of its actions (m, A), each followed by the optimum."""

    value: float
    values: FloatArray
    actions: FloatArray


def expectimax(problem: Any, state: State | None = None, temperature: float = 0.0) -> Optimum:
    """The optimal value at a state (default: the start), or with a temperature the soft one."""
    sign = sign_of(problem)

    @cache
    def at(t: int, x: tuple[float, ...], d: tuple[float, ...]) -> Optimum:
        now = State(t, np.array(x), np.array(d))
        actions = np.asarray(problem.actions(now), dtype=np.float64)
        repeated = (np.tile(part, (len(actions), 1)) for part in now[1:])
        rewards, after = problem.step(t, *repeated, actions)
        values = np.array(rewards, dtype=np.float64)
        if t + 1 < problem.horizon:
            for y, chance in zip(*problem.successors(t, now.exogenous), strict=True):
                values += chance * np.array([at(t + 1, tuple(y), tuple(e)).value for e in after])
        highest = float(np.max(sign * values))
        if temperature > 0.0:
            excess = np.exp((sign * values - highest) / temperature)
            highest += temperature * float(np.log(np.sum(excess)))
        return Optimum(sign * highest, values, actions)

    t, x, d = problem.start if state is None else state
    return at(t, tuple(x), tuple(d))
