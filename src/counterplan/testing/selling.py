"""A problem small enough to enumerate, and hard enough to tell planners apart.

Some units are sold (or, in sense 'min', bought) over T days at a price that jumps among a few.
At most `daily` units a day, `stock` in all, and at least `least` by the end:

    x = (i,) the price's number,  d = (left,),  a = (units,),  r = prices[i] a

Waiting for a better price is worth something, and knowing the future much more: a planner that
peeks is found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.errors import InfeasibleError
from counterplan.exogenous.model import Sense, State

if TYPE_CHECKING:
    from counterplan.planning.kernel import Kernel


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
        from counterplan.planning.kernel import Kernel
        from counterplan.testing import selling_kernel as own

        sizes = [self.horizon, len(self.prices), self.stock, self.daily, self.least]
        sign = -1.0 if self.sense == "min" else 1.0
        return Kernel(
            draw=own.draw,
            actions=own.actions,
            step=own.step,
            parameters=np.concatenate([sizes, sign * self.prices, self.matrix.ravel()]),
            horizon=self.horizon,
            exogenous=self.start.exogenous,
            resource=self.start.resource,
            action_size=1,
            most_actions=self.daily + 1,
            successors=own.successors,
            most_successors=len(self.prices),
        )


def random_selling(seed: Seed = 0, sense: Sense = "max", horizon: int = 4) -> Selling:
    """A random instance: three prices, any transitions."""
    rng = generator(seed)
    prices = rng.uniform(1.0, 10.0, size=3)
    return Selling(prices, rng.dirichlet(np.ones(3), size=3), horizon=horizon, sense=sense)
