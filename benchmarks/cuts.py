"""Dual dynamic programming: a chain of four reservoirs over 120 months, and against a scenario tree.

    python -m benchmarks.cuts

A chain of reservoirs serves a demand beside thermal plants whose fuel price is a Markov chain;
inflows are seasonal and drawn anew each month.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.planning.model import State
from counterplan.planning.stages import Stage, closest_flows

FUEL = np.array([0.7, 1.0, 1.6])
STAYING = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])


@dataclass(eq=False)
class Reservoirs:
    """D reservoirs in a chain, T months; x is the fuel price and the inflow of each reservoir.

    Flows: released from each through its turbine, spilled from each, burnt in three plants, lost.
    """

    D: int = 4
    horizon: int = 120
    inflows: int = 8
    sense: str = "min"

    def __post_init__(self) -> None:
        rng = np.random.default_rng(11)
        D, T = self.D, self.horizon
        self.levels = np.full(D, 60.0)
        base = np.array([9.0, 5.0, 4.0, 3.0])[:D]
        season = 1.0 + 0.6 * np.sin(2.0 * np.pi * np.arange(T) / 12.0)
        luck = np.exp(0.5 * rng.standard_normal((T, self.inflows, 1)) - 0.125)
        own = np.exp(0.3 * rng.standard_normal((T, self.inflows, D)) - 0.045)
        self.rain = base * season[:, None, None] * luck * own
        self.demand = 80.0 * (1.0 + 0.15 * np.cos(2.0 * np.pi * np.arange(T) / 12.0))
        start = np.concatenate([[FUEL[1]], self.rain[0].mean(axis=0)])
        self.start = State(0, start, self.levels)

    def stage(self, t: int) -> Stage:
        D = self.D
        A = 2 * D + 4
        effect = np.zeros((D, A))
        effect[:, :D] = effect[:, D : 2 * D] = -np.eye(D) + np.eye(D, k=-1)
        rows = np.zeros((1, A))
        rows[0, :D] = np.array([1.0, 0.9, 0.8, 0.7])[:D]  # power per unit of water
        rows[0, 2 * D :] = 1.0
        price, price_x = np.zeros(A), np.zeros((A, 1 + D))
        price[D : 2 * D] = 0.01
        price_x[2 * D : 2 * D + 3, 0] = [8.0, 20.0, 45.0]
        price[-1] = 200.0
        last = t + 1 == self.horizon
        return Stage.of(
            effect,
            1 + D,
            inflow_x=np.hstack([np.zeros((D, 1)), np.eye(D)]),
            most_level=[120.0, 60.0, 60.0, 40.0][:D],
            rows=rows,
            low=[self.demand[t]],
            high=[np.inf],
            most=[20.0] * D + [np.inf] * D + [15.0, 15.0, 20.0, np.inf],
            price=price,
            price_x=price_x,
            hold=[-6.0, -4.0, -3.0, -2.0][:D] if last else [0.0] * D,
        )

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        row = STAYING[int(np.argmin(np.abs(FUEL - exogenous[0])))]
        likely = np.flatnonzero(row)
        n = self.inflows
        prices = np.repeat(FUEL[likely], n)[:, None]
        rain = np.tile(self.rain[t + 1], (len(likely), 1))
        return np.hstack([prices, rain]), np.repeat(row[likely] / n, n)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        drawn = []
        for x in exogenous:
            values, chances = self.successors(t, x)
            drawn.append(values[generator.choice(len(values), p=chances)])
        return np.array(drawn)

    def actions(self, state: State) -> FloatArray:
        return self.feasible(
            state.t, state.exogenous[None], state.resource[None], np.zeros((1, 2 * self.D + 4))
        )

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        rows = zip(exogenous, resource, wanted, strict=True)
        return np.array([closest_flows(self.stage(t), *row) for row in rows])

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        return self.stage(t).after(exogenous, resource, actions)
