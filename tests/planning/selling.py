"""A problem small enough to enumerate, and hard enough to tell planners apart.

Some units are sold (or, in sense 'min', bought) over T days at a price that jumps among a few. At
most `daily` units a day, `stock` in all, and at least `least` by the end:

    x = (i,) the price's number,  d = (left,),  a = (units,),  r = prices[i] a

Its compiled functions read `parameters`: T, M, stock, daily, least; prices (M,), negative where
they are paid; matrix (M, M).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.errors import InfeasibleError
from counterplan.planning.model import Sense, State
from counterplan.planning.search.kernel import ACTIONS, DRAW, STEP, SUCCESSORS, Kernel

T_, M_, STOCK, DAILY, LEAST = range(5)
PRICES = 5


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """The next price's number."""
    M = int(parameters[M_])
    row = PRICES + M + int(x[0]) * M
    u, cumulative, i = generator.random(), parameters[row], 0
    while i < M - 1 and u >= cumulative:
        i += 1
        cumulative += parameters[row + i]
    out[0] = i


@njit(SUCCESSORS, cache=True)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """All prices."""
    M = int(parameters[M_])
    for i in range(M):
        states[i, 0] = i
        probabilities[i] = parameters[PRICES + M + int(x[0]) * M + i]
    return M


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """From the fewest units that can still be made up for to the most."""
    later = parameters[DAILY] * (parameters[T_] - 1.0 - t)
    fewest = max(0.0, d[0] - (parameters[STOCK] - parameters[LEAST]) - later)
    m = int(min(parameters[DAILY], d[0]) - fewest) + 1
    for i in range(m):
        out[i, 0] = fewest + i
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Units at today's price."""
    out[0] = d[0] - action[0]
    return parameters[PRICES + int(x[0])] * action[0]


@dataclass(frozen=True, eq=False)
class Selling:
    """prices (M,), matrix (M, M) of their transitions."""

    prices: FloatArray
    matrix: FloatArray
    horizon: int = 4
    stock: int = 3
    daily: int = 2
    least: int = 1
    sense: Sense = "max"

    @property
    def start(self) -> State:
        return State(0, np.zeros(1), np.array([float(self.stock)]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        cumulative = np.cumsum(self.matrix, axis=1)[exogenous[:, 0].astype(np.int64)]
        above = generator.random(len(exogenous))[:, None] >= cumulative[:, :-1]
        numbers: FloatArray = np.sum(above, axis=1, keepdims=True, dtype=np.float64)
        return numbers

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        numbers = np.arange(len(self.prices), dtype=np.float64)
        return numbers[:, None], self.matrix[int(exogenous[0])]

    def actions(self, state: State) -> FloatArray:
        fewest, most = self._room(state.t, state.resource)
        whole = np.arange(np.ceil(fewest[0]), np.floor(most[0]) + 1.0)
        # A stock that is no whole number may leave none.
        return (whole if len(whole) else fewest)[:, None]

    def _room(self, t: int, left: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The fewest and the most units, for stocks (n,)."""
        later = self.daily * (self.horizon - 1 - t)
        fewest = np.maximum(0.0, left - (self.stock - self.least) - later)
        return fewest, np.minimum(float(self.daily), left)

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        fewest, most = self._room(t, resource[:, 0])
        if ((actions[:, 0] < fewest - 1e-9) | (actions[:, 0] > most + 1e-9)).any():
            raise InfeasibleError(
                f"{actions[:, 0].tolist()} units at t={t} of {resource[:, 0].tolist()} left: from "
                f"{fewest.tolist()} to {most.tolist()} may be taken"
            )
        price = self.prices[exogenous[:, 0].astype(np.int64)]
        return price * actions[:, 0], resource - actions

    def compiled(self, quantiles: int = 0) -> Kernel:
        sizes = [self.horizon, len(self.prices), self.stock, self.daily, self.least]
        sign = -1.0 if self.sense == "min" else 1.0
        return Kernel(
            draw=draw,
            actions=actions,
            step=step,
            parameters=np.concatenate([sizes, sign * self.prices, self.matrix.ravel()]),
            horizon=self.horizon,
            exogenous=self.start.exogenous,
            resource=self.start.resource,
            action_size=1,
            most_actions=self.daily + 1,
            successors=successors,
            most_successors=len(self.prices),
        )


def random_selling(seed: Seed = 0, sense: Sense = "max", horizon: int = 4) -> Selling:
    """A random instance: three prices, any transitions."""
    rng = generator(seed)
    prices = rng.uniform(1.0, 10.0, size=3)
    return Selling(prices, rng.dirichlet(np.ones(3), size=3), horizon=horizon, sense=sense)
