"""Dual dynamic programming: four reservoirs over 120 months, and against one scenario tree program.

    python -m benchmarks.cuts [most minutes of the processor, default 30]

A chain of reservoirs serves a demand beside thermal plants whose fuel price is a Markov chain;
inflows are seasonal and drawn anew each month. Times are of the processor, one core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import block_array, coo_array, csr_matrix, eye_array, kron

import counterplan as cp
from counterplan.core.limits import Progress
from counterplan.core.validation import FloatArray
from counterplan.planning.lattice import Lattice
from counterplan.planning.model import State
from counterplan.planning.stages import Program, Stage, closest_flows

RESULTS = Path(__file__).parent / "results" / "cuts.md"

# Prices of fuel and how they follow each other: known, or a Markov chain.
FUEL = {1: np.array([1.0]), 3: np.array([0.7, 1.0, 1.6])}
STAYING = {1: np.ones((1, 1)), 3: np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.3, 0.7]])}


@dataclass(eq=False)
class Reservoirs:
    """D reservoirs in a chain, T months; x is the fuel price and the inflow of each reservoir.

    Flows: released from each through its turbine, spilled from each, burnt in three plants, lost.
    """

    D: int = 4
    horizon: int = 120
    inflows: int = 5
    prices: int = 3
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
        start = np.concatenate([[1.0], self.rain[0].mean(axis=0)])
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
        fuel = FUEL[self.prices]
        row = STAYING[self.prices][int(np.argmin(np.abs(fuel - exogenous[0])))]
        likely = np.flatnonzero(row)
        n = self.inflows
        prices = np.repeat(fuel[likely], n)[:, None]
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


def scenario_tree(model: Any) -> Program:
    """Every history a column block of its own: what a plain solver is given."""
    lattice, D = Lattice.of(model), model.start.resource.size
    nodes, chance, parents = np.zeros(1, dtype=int), np.ones(1), np.zeros(0, dtype=int)
    blocks, costs, lows, highs, least, most = [], [], [], [], [], []
    for t in range(model.horizon):
        stage, x, n = model.stage(t), lattice.values[t][nodes], len(nodes)
        m, A = stage.rows.shape
        held = np.tile(model.start.resource if t == 0 else np.zeros(D), (n, 1))
        drift = stage.inflow + x @ stage.inflow_x.T + held @ stage.keep.T
        moved = x @ stage.rows_x.T + held @ stage.rows_d.T
        own = np.block([[-stage.effect, np.eye(D)], [stage.rows, np.zeros((m, D))]])
        row: list[Any] = [None] * model.horizon
        row[t] = kron(eye_array(n), own)
        if t > 0:
            before = np.hstack([np.zeros((D + m, A)), np.vstack([-stage.keep, stage.rows_d])])
            shape = (n, blocks[-1][t - 1].shape[1] // (A + D))
            family = coo_array((np.ones(n), (np.arange(n), parents)), shape=shape)
            row[t - 1] = kron(family, before)
        blocks.append(row)
        worth = np.hstack([stage.prices(x), np.tile(stage.hold, (n, 1))])
        costs.append((chance[:, None] * worth).ravel())
        lows.append(np.hstack([drift, stage.low - moved]).ravel())
        highs.append(np.hstack([drift, stage.high - moved]).ravel())
        least.append(np.tile(np.append(stage.least, stage.least_level), n))
        most.append(np.tile(np.append(stage.most, stage.most_level), n))
        if t + 1 < model.horizon:
            rows = lattice.chances[t][nodes]
            parents, following = np.nonzero(rows)
            chance, nodes = chance[parents] * rows[parents, following], following
    sides = (np.concatenate(one) for one in (lows, highs, least, most))
    return Program(np.concatenate(costs), csr_matrix(block_array(blocks)), *sides)


def against_tree() -> Iterator[str]:
    """Both on problems that one program can hold."""
    yield "| months | columns | tree: cost | s | cuts: bound | policy | rounds | s | tree / cuts |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for months in (4, 5, 6):
        model = Reservoirs(horizon=months, inflows=3)
        began = time.process_time()
        program = scenario_tree(model)
        cost = float(program.cost @ program.solve())
        middle = time.process_time()
        found = cp.policies.Cuts(gap=1e-4).solve(model)
        ended = time.process_time()
        yield (
            f"| {months} | {len(program.cost):,} | {cost:.2f} | {middle - began:.1f} | "
            f"{found.bound:.2f} | {found.value:.2f} | {found.iterations} | {ended - middle:.1f} | "
            f"{(middle - began) / (ended - middle):.1f} |"
        )
        assert abs(found.bound - cost) < 2e-4 * cost


def chain(prices: int, seconds: float) -> Iterator[str]:
    """Four reservoirs, 120 months, until the gap is 1 % or the time is over."""
    yield "| rounds | bound | policy | gap | s |"
    yield "|---:|---:|---:|---:|---:|"
    began, lines, known = time.process_time(), list[str](), None

    def told(progress: Progress) -> bool:
        nonlocal known
        now = time.process_time() - began
        if progress.value != known:
            known = progress.value
            gap = known / progress.bound - 1.0
            row = (
                f"| {progress.done} | {progress.bound:.0f} | {known:.0f} | {gap:.2%} | {now:.0f} |"
            )
            lines.append(row)
            print(row, flush=True)
        return now < seconds

    found = cp.policies.Cuts(gap=0.01, iterations=10_000).solve(
        Reservoirs(prices=prices), progress=told
    )
    now = time.process_time() - began
    yield from lines
    yield (
        f"| {found.iterations} | {found.bound:.0f} | {found.value:.0f} ± {found.se:.0f} | "
        f"{found.relative_gap:.2%} | {now:.0f} |"
    )


def main() -> None:
    seconds = 60.0 * float(sys.argv[1] if len(sys.argv) > 1 else 30.0)
    page = ["# Against one program over the scenario tree", "", *against_tree(), ""]
    print("\n".join(page), flush=True)
    for prices, what in ((1, "inflows drawn anew"), (3, "and a Markov price of fuel")):
        page += [f"# Four reservoirs over 120 months, {what}", "", *chain(prices, seconds), ""]
    RESULTS.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
