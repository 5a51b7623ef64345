"""Random voyages small enough to solve by listing everything."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.planning.processes.base import draw_paths
from counterplan.planning.processes.prices import GBM, BootstrapPrices


class Quantiles:
    """A process whose next price is one of `count` equally likely ones, with the same mean."""

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.quantiles(t, exogenous, self.count)  # type: ignore[attr-defined,no-any-return]

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        places = generator.integers(self.count, size=len(exogenous))  # type: ignore[attr-defined]
        return np.array(
            [self.successors(t, x)[0][i] for x, i in zip(exogenous, places, strict=True)]
        )

    def sample_paths(self, n: int, steps: int, seed: Any = 0, t: int = 0, start: Any = None) -> Any:
        return draw_paths(self, n, steps, seed, t, start)  # type: ignore[arg-type]

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        return super().kernel_parameters(steps, self.count)  # type: ignore[misc,no-any-return]

    def most_successors(self, quantiles: int = 0) -> int:
        return self.count  # type: ignore[attr-defined,no-any-return]


@dataclass(frozen=True, eq=False)
class QuantileGBM(Quantiles, GBM):
    count: int = 1


@dataclass(frozen=True, eq=False)
class QuantileBootstrap(Quantiles, BootstrapPrices):
    count: int = 1


def discretised(problem: Bunkering, count: int) -> Bunkering:
    """The same voyage with `count` equally likely prices at each port: small enough to list."""
    kind: Any = QuantileGBM if isinstance(problem.process, GBM) else QuantileBootstrap
    given = {one.name: getattr(problem.process, one.name) for one in fields(problem.process)}
    return replace(problem, prices=kind(**given, count=count))


@st.composite
def voyages(draw: st.DrawFn, most_ports: int = 4, fixed: bool = True) -> Bunkering:
    """Whole or fractional legs, any tank that covers them, independent or global prices."""
    unit = draw(st.sampled_from([1.0, 0.37]))
    count = draw(st.integers(1, most_ports))
    legs = [unit * draw(st.integers(0, 20)) for _ in range(count)]
    capacity = max(legs) + unit * draw(st.integers(0, 30)) + 0.1
    kind = draw(st.sampled_from(["independent", "global"]))
    volatility = draw(st.floats(0.0, 1.5))
    drift = draw(st.floats(-1.0, 1.0))
    fixed_cost = draw(st.sampled_from([0.0, 3.0, 40.0])) if fixed else 0.0
    prices = GBM(10.0, drift, volatility, 0.5, kind=kind)
    return Bunkering(prices=prices, legs=legs, capacity=capacity, fixed_cost=fixed_cost)


def visited(
    problem: Bunkering, episodes: int, seed: int
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """States (t, x (n, 1), d (n, 1)) met by random play."""
    rng = np.random.default_rng(seed)
    paths = problem.sample_paths(episodes, rng)
    levels = np.zeros((episodes, 1))
    states = []
    for t in range(problem.horizon):
        x = np.ascontiguousarray(paths[:, t])
        states.append((t, x, levels))
        amounts = problem.levels.purchases(t, levels[:, 0])
        scores = np.where(np.isnan(amounts), -1.0, rng.random(amounts.shape))
        chosen = amounts[np.arange(episodes), scores.argmax(axis=1)][:, None]
        levels = problem.step(t, x, levels, chosen)[1]
    return states
