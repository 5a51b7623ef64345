"""A small resource program with prices drawn anew every day: what executed plans are tried on.

    x = (p_1, .., p_A) in {1, .., 9}^A,    r = <x, a>,    levels and bounds of a ResourceProgram

Actions on offer: the least and the most, of the first resource as far as it goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.exogenous.model import Sense, State
from counterplan.exogenous.resource import Resource, ResourceProgram


@dataclass(frozen=True, eq=False)
class Spending:
    """program: what may be spent; prices at the start are 5."""

    program: ResourceProgram
    sense: Sense = "max"

    @property
    def horizon(self) -> int:
        return self.program.horizon

    @property
    def start(self) -> State:
        return State(0, np.full(len(self.program.resources), 5.0), self.program.start)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        return generator.integers(1, 10, size=exogenous.shape).astype(np.float64)

    def actions(self, state: State) -> FloatArray:
        room = self.program.room(state.t, state.resource[None])
        totals = np.unique([room.low[0], room.high[0]])
        A = len(self.program.resources)
        if A == 1:
            return totals[:, None]
        first = np.minimum(totals, state.resource[0])
        return np.column_stack([first, totals - first])

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return (exogenous * actions).sum(axis=1), self.program.levels_after(t, resource, actions)

    def unit_rewards(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, A) to be maximised."""
        return paths if self.sense == "max" else -paths


def random_spending(seed: Seed = 0, horizon: int = 4) -> Spending:
    """A stock to sell, a tank to fill, or two stocks that share a quota: any of them."""
    rng = generator(seed)
    T, kind = horizon, int(rng.integers(3))
    if kind == 0:
        bounds = np.column_stack([np.zeros(T), rng.integers(1, 4, size=T)])
        return Spending(ResourceProgram((Resource(float(rng.integers(2, 6))),), bounds))
    if kind == 1:
        needs = rng.integers(1, 4, size=T).astype(np.float64)
        tank = Resource(0.0, 6.0, +1, -needs)
        return Spending(ResourceProgram((tank,), np.tile([0.0, 6.0], (T, 1))), "min")
    quota = np.full((T, 2), 2.0)
    return Spending(ResourceProgram((Resource(float(T)), Resource(float(T))), quota))
