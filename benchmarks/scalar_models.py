"""The three domains in plain Python numbers, for the object tree: no arrays, tables as lists.

Kinder to the baseline than the models' own NumPy methods, which cost ten times as much for a single
state. `disagreement` checks that they are the same models.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np

from benchmarks.tree_baseline import ScalarModel
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.processes.prices import GBM


class ScalarMotion:
    """A geometric Brownian motion, and its equally likely quantiles."""

    def __init__(self, process: GBM, horizon: int, quantiles: int) -> None:
        self.independent = process.kind == "independent"
        self.initial = float(process.start[0])
        self.drift, self.volatility = (
            float(np.asarray(one).ravel()[0]) for one in (process.drift, process.volatility)
        )
        self.dt = process.dt
        ones = process.start if self.independent else np.ones(1)
        self.table = [
            [float(value) for value in process.quantiles(t, ones, quantiles)[0][:, 0]]
            for t in range(horizon)
        ]

    def draw(self, t: int, x: float, rng: random.Random) -> float:
        base, h = (self.initial, (t + 1) * self.dt) if self.independent else (x, self.dt)
        s = self.volatility
        return base * math.exp((self.drift - 0.5 * s * s) * h + s * math.sqrt(h) * rng.gauss(0, 1))

    def successor(self, t: int, x: float, rng: random.Random) -> float:
        row = self.table[t]
        value = row[int(rng.random() * len(row))]
        return value if self.independent else x * value


class ScalarBunkering:
    """x the price, d the level, an action the amount bought."""

    def __init__(self, problem: Bunkering, quantiles: int) -> None:
        assert isinstance(problem.process, GBM)
        self.horizon = problem.horizon
        self.start = (float(problem.start.exogenous[0]), float(problem.start.resource[0]))
        self.legs = [float(leg) for leg in problem.levels.legs]
        self.targets = [
            [float(level) for level in row if not math.isnan(level)]
            for row in problem.levels.targets
        ]
        motion = ScalarMotion(problem.process, problem.horizon, quantiles)
        self.draw, self.successor = motion.draw, motion.successor

    def actions(self, t: int, x: float, d: float) -> list[float]:
        stay = [0.0] if d >= self.legs[t] - 1e-9 else []
        return stay + [level - d for level in self.targets[t] if level - d > 1e-9]

    def step(self, t: int, x: float, d: float, action: float) -> tuple[float, float]:
        return -x * action, max(0.0, d + action - self.legs[t])


class ScalarHybrid:
    """x the mode's number, d the tanks, an action how much of each."""

    def __init__(self, problem: HybridVehicle, quantiles: int) -> None:
        self.horizon, self.quota = problem.horizon, problem.numbers.quota
        self.recharge, self.capacity = problem.numbers.recharge, problem.units
        self.mileage = [(float(gas), float(electric)) for gas, electric in problem.mileage]
        self.brakes = [bool(one) for one in problem.brakes]
        matrix = problem.chain.probabilities
        self.cumulative = [list(accumulate(float(p) for p in row)) for row in matrix]
        gas, battery = problem.start.resource
        self.start = (int(np.argmax(problem.start.exogenous)), (int(gas), int(battery)))

    def actions(self, t: int, x: int, d: tuple[int, int]) -> list[tuple[int, int]]:
        if self.brakes[x]:
            return [(0, 0)]
        gas, battery = d
        used = min(self.quota, gas + battery)
        return [(g, used - g) for g in range(min(used, gas), max(0, used - battery) - 1, -1)]

    def step(
        self, t: int, x: int, d: tuple[int, int], action: tuple[int, int]
    ) -> tuple[float, tuple[int, int]]:
        if self.brakes[x]:
            return 0.0, (d[0], min(self.capacity, d[1] + self.recharge))
        gas, electric = self.mileage[x]
        return gas * action[0] + electric * action[1], (d[0] - action[0], d[1] - action[1])

    def draw(self, t: int, x: int, rng: random.Random) -> int:
        row = self.cumulative[x]
        return min(bisect_right(row, rng.random()), len(row) - 1)

    successor = draw


class ScalarOption:
    """x the price, d whether it is held, an action whether it is exercised."""

    def __init__(self, problem: AmericanOption, quantiles: int) -> None:
        contract = problem.contract
        assert isinstance(problem.process, GBM)
        self.horizon = problem.horizon
        self.start = (float(problem.start.exogenous[0]), 1)
        self.sign = 1.0 if contract.kind == "call" else -1.0
        self.strike = contract.strike
        self.discounts = [float(contract.discount(t)) for t in range(self.horizon)]
        motion = ScalarMotion(problem.process, problem.horizon, quantiles)
        self.draw, self.successor = motion.draw, motion.successor

    def actions(self, t: int, x: float, d: int) -> list[int]:
        return [0, 1] if d else [0]

    def step(self, t: int, x: float, d: int, action: int) -> tuple[float, int]:
        if not action:
            return 0.0, d
        return self.discounts[t] * max(self.sign * (x - self.strike), 0.0), 0


class MethodModel:
    """Any problem through its own Python methods, a state at a time; x and d as tuples, so that a
    dictionary finds them."""

    def __init__(self, problem: ExogenousModel, quantiles: int) -> None:
        self.problem, self.quantiles = problem, quantiles
        self.horizon = problem.horizon
        self.sign = -1.0 if problem.sense == "min" else 1.0
        self.start = (tuple(problem.start.exogenous), tuple(problem.start.resource))
        self.known: dict[Any, tuple[list[Any], list[float]]] = {}
        self.generator = np.random.default_rng(0)

    def actions(self, t: int, x: Any, d: Any) -> list[Any]:
        return list(self.problem.actions(State(t, np.array(x), np.array(d))))

    def step(self, t: int, x: Any, d: Any, action: Any) -> tuple[float, Any]:
        rewards, after = self.problem.step(t, np.array([x]), np.array([d]), action[None])
        return self.sign * float(rewards[0]), tuple(after[0])

    def draw(self, t: int, x: Any, rng: random.Random) -> Any:
        return tuple(self.problem.draw(t, np.array([x]), self.generator)[0])

    def successor(self, t: int, x: Any, rng: random.Random) -> Any:
        if (t, x) not in self.known:
            problem: Any = self.problem
            if isinstance(problem, HybridVehicle):
                values, chances = problem.successors(t, np.array(x))
            else:
                values, chances = problem.process.quantiles(t, np.array(x), self.quantiles)
            row = [tuple(value) for value in values]
            self.known[t, x] = row, list(accumulate(float(p) for p in chances))
        row, cumulative = self.known[t, x]
        return row[min(bisect_right(cumulative, rng.random()), len(row) - 1)]


def disagreement(problem: ExogenousModel, model: ScalarModel, seed: int = 0) -> float:
    """The largest difference of offered actions, rewards and resources along random episodes."""
    rng, sign = random.Random(seed), -1.0 if problem.sense == "min" else 1.0
    worst = 0.0
    for _ in range(50):
        x, d = model.start
        for t in range(model.horizon):
            at = State(t, _exogenous(problem, x), np.array(d, dtype=np.float64).reshape(-1))
            offered = model.actions(t, x, d)
            listed = np.array(offered, dtype=np.float64).reshape(len(offered), -1)
            worst = max(worst, float(np.abs(problem.actions(at) - listed).max()))
            i = rng.randrange(len(offered))
            reward, after = model.step(t, x, d, offered[i])
            given = (at.exogenous[None], at.resource[None], listed[i][None])
            rewards, resources = problem.step(t, *given)
            worst = max(worst, abs(sign * float(rewards[0]) - reward))
            worst = max(worst, float(np.abs(resources[0] - np.array(after).reshape(-1)).max()))
            d, x = after, model.draw(t, x, rng)
    return worst


def _exogenous(problem: ExogenousModel, x: Any) -> Any:
    if isinstance(problem, HybridVehicle):
        return np.eye(len(problem.brakes))[x]
    return np.array([x])
