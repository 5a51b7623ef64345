"""Random voyages and vehicles small enough to solve by listing everything, and what tests of
planning problems share."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridConfig, HybridVehicle
from counterplan.planning.model import State
from counterplan.planning.processes.base import draw_paths
from counterplan.planning.processes.prices import GBM, BootstrapPrices


def bounds_at(problem: Any, tables: FloatArray, state: State | None = None) -> tuple[float, float]:
    """The kernel's bounds on the value in a state, in the problem's own sense."""
    kernel, out = problem.compiled(), np.empty(2)
    at = problem.start if state is None else state
    kernel.bounds(kernel.parameters, tables, *at, np.random.default_rng(0), out)
    low, high = (float(one) for one in out)
    return (low, high) if problem.sense == "max" else (-high, -low)


def best_sequence(problem: Any, path: FloatArray, t: int = 0, resource: Any = None) -> float:
    """The best total along a path (T, X), by trying every sequence of offered actions."""
    if t == problem.horizon:
        return 0.0
    d = problem.start.resource if resource is None else resource
    totals = []
    for action in problem.actions(State(t, path[t], d)):
        reward, after = problem.step(t, path[t][None], d[None], action[None])
        totals.append(float(reward[0]) + best_sequence(problem, path, t + 1, after[0]))
    return max(totals) if problem.sense == "max" else min(totals)


def mean_of(values: FloatArray, slack: float = 0.0) -> Any:
    """What the mean of independent samples may be: 4 standard errors, one in 16,000 by chance."""
    return pytest.approx(values.mean(), abs=4 * values.std() / len(values) ** 0.5 + slack)


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


@st.composite
def vehicles(draw: st.DrawFn, horizon: int = 4, hidden: bool = False) -> HybridVehicle:
    """Three modes, any mileage and matrix, small tanks."""
    mileage = [[draw(st.integers(0, 9)) for _ in range(2)] for _ in range(3)]
    rows = [[draw(st.integers(0, 4)) for _ in range(3)] for _ in range(3)]
    matrix = np.array(rows, dtype=float)
    matrix[:, 1] += matrix.sum(axis=1) == 0
    matrix /= matrix.sum(axis=1, keepdims=True)
    config = HybridConfig(
        mileage,
        matrix,
        draw(st.integers(1, horizon)),
        draw(st.integers(1, 4)),
        draw(st.integers(0, 3)),
    )
    capacity = draw(st.integers(0, 6))
    return HybridVehicle(
        config, capacity=capacity, hidden=hidden, accuracy=draw(st.floats(0.0, 1.0))
    )
