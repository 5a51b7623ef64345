"""Models of linear stages under a Markov chain with a few values, and their scenario trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from counterplan.core.validation import FloatArray
from counterplan.planning.model import Allocation, State
from counterplan.planning.stages import Stage, allocate_stages, closest_flows


@dataclass(eq=False)
class Staged:
    """values[t] (M_t, X) are what x_t may be, chances[t] (M_t, M_{t+1}) what follows; M_0 = 1."""

    stages: Sequence[Stage]
    values: Sequence[FloatArray]
    chances: Sequence[FloatArray]
    levels: FloatArray
    sense: Any = "max"
    independent: tuple[int, ...] = field(default=())

    @property
    def horizon(self) -> int:
        return len(self.stages)

    @property
    def start(self) -> State:
        return State(0, self.values[0][0], self.levels)

    def stage(self, t: int) -> Stage:
        return self.stages[t]

    def node(self, t: int, x: FloatArray) -> int:
        return int(np.argmin(np.abs(self.values[t] - x).sum(axis=1)))

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        chances = self.chances[t][self.node(t, exogenous)]
        likely = chances > 0.0
        return self.values[t + 1][likely], chances[likely]

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        drawn = []
        for x in exogenous:
            values, chances = self.successors(t, x)
            drawn.append(values[generator.choice(len(values), p=chances)])
        return np.array(drawn)

    def actions(self, state: State) -> FloatArray:
        nothing = np.zeros(len(self.stages[0].least))
        found = closest_flows(self.stages[state.t], state.exogenous, state.resource, nothing)
        return found[None]

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        rows = zip(exogenous, resource, wanted, strict=True)
        return np.array([closest_flows(self.stages[t], *row) for row in rows])

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        assert self.stages[t].misses(exogenous, resource, actions).max() < 1e-6
        return self.stages[t].after(exogenous, resource, actions)

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        return allocate_stages(self, paths, state)


def tree_value(model: Staged, risk: tuple[float, float] = (1.0, 1.0)) -> float:
    """The best expected total, or with (w, share) the best nested w mean + (1 - w) CVaR: one linear
    program over the tree of all that may happen.

    Columns of a node: y, d', what it costs from here on v, a quantile q of that of its children,
    and by how much its own exceeds its parent's quantile, e:

        v = now + sum_c p_c ( w v_c + (1 - w) e_c / share ) + (1 - w) q,    e_c >= v_c - q, e_c >= 0
    """
    D, A = model.stages[0].effect.shape
    sign = 1.0 if model.sense == "max" else -1.0
    weight, share = risk
    columns, rows, sides, bounds = A + D + 3, list[dict[int, float]](), [], []
    V, Q, over = A + D, A + D + 1, A + D + 2

    def add(t: int, node: int, before: int | None) -> int:
        stage, x, first = model.stages[t], model.values[t][node], len(bounds)
        bounds.extend(zip(stage.least, stage.most, strict=True))
        bounds.extend(zip(stage.least_level, stage.most_level, strict=True))
        bounds.extend([(-np.inf, np.inf), (-np.inf, np.inf), (0.0, np.inf)])
        drift = stage.inflow + stage.inflow_x @ x
        moved = stage.rows_x @ x
        for flows, after, levels, low, high in (
            (-stage.effect, np.eye(D), -stage.keep, drift, drift),
            (stage.rows, 0.0 * stage.rows_d, stage.rows_d, stage.low - moved, stage.high - moved),
        ):
            known = levels @ model.levels if before is None else np.zeros(len(low))
            for i in range(len(low)):
                row = {first + j: one for j, one in enumerate([*flows[i], *after[i]])}
                if before is not None:
                    row |= {before + A + j: one for j, one in enumerate(levels[i])}
                rows.append(row)
                sides.append((low[i] - known[i], high[i] - known[i]))
        worth = -sign * np.concatenate([stage.prices(x[None])[0], stage.hold])
        total = {first + V: 1.0} | {first + j: -one for j, one in enumerate(worth)}
        chances = model.chances[t][node] if t + 1 < model.horizon else ()
        for following, p in enumerate(chances):
            if p > 0.0:
                child = add(t + 1, following, first)
                total |= {child + V: -p * weight, child + over: -p * (1.0 - weight) / share}
                total[first + Q] = -(1.0 - weight)
                rows.append({child + over: 1.0, child + V: -1.0, first + Q: 1.0})
                sides.append((0.0, np.inf))
        rows.append(total)
        sides.append((0.0, 0.0))
        return first

    add(0, 0, None)
    places = [(i, j) for i, row in enumerate(rows) for j in row]
    numbers = [one for row in rows for one in row.values()]
    shape = (len(rows), len(bounds))
    matrix = csr_matrix((numbers, tuple(np.array(places).T)), shape=shape)
    cost = np.zeros(len(bounds))
    cost[V] = 1.0
    assert len(bounds) % columns == 0
    constraint = LinearConstraint(matrix, *np.array(sides).T)
    found = milp(cost, constraints=constraint, bounds=Bounds(*np.array(bounds).T))
    assert found.status == 0, found.message
    return -sign * float(found.fun)


def random_staged(seed: int, sense: str = "max", steps: int = 4, nodes: int = 3) -> Staged:
    """A chain of storages that are filled, emptied into the next, or sold from at a Markov price;
    inflows are random, and missing demand is paid for."""
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 4))
    A = 2 * D + 2  # sell from each, spill from each into the next, buy for the first, lose demand
    sign = 1.0 if sense == "max" else -1.0
    stages = []
    for _ in range(steps):
        effect = np.zeros((D, A))
        effect[:, :D] = -np.eye(D)
        effect[:, D : 2 * D] = -np.eye(D) + np.eye(D, k=-1)
        effect[0, 2 * D] = rng.uniform(0.7, 1.0)
        rows = np.zeros((2, A))
        rows[0, :D] = rows[0, A - 1] = 1.0  # demand: sold and lost
        rows[1, :D] = 1.0
        price, price_x = np.zeros(A), np.zeros((A, 2))
        price_x[:D, 0] = sign * rng.uniform(0.5, 1.0, D)
        price_x[2 * D, 0] = -sign * 1.1
        price[A - 1] = -sign * rng.uniform(5.0, 9.0)
        price[D : 2 * D] = -sign * 0.1
        stages.append(
            Stage.of(
                effect,
                2,
                keep=np.diag(rng.uniform(0.8, 1.0, D)),
                inflow_x=np.column_stack([np.zeros(D), rng.uniform(0.0, 1.0, D)]),
                most_level=rng.uniform(4.0, 10.0, D),
                rows=rows,
                low=[rng.uniform(0.0, 3.0), -np.inf],
                high=[np.inf, 6.0],
                most=np.concatenate([rng.uniform(1.0, 4.0, D), np.full(D, 50.0), [3.0, 50.0]]),
                price=price,
                price_x=price_x,
                hold=sign * rng.uniform(0.0, 2.0, D),
            )
        )
    prices = [rng.uniform(1.0, 6.0, nodes) for _ in range(steps)]
    inflows = [rng.uniform(0.0, 3.0, 2) for _ in range(steps)]
    values, chances = [np.array([[prices[0][0], inflows[0][0]]])], []
    for t in range(1, steps):
        values.append(np.array([(p, f) for p in prices[t] for f in inflows[t]]))
        chain = rng.dirichlet(np.ones(nodes), size=1 if t == 1 else nodes)
        row = np.kron(chain, [[0.5, 0.5]])
        chances.append(row if t == 1 else np.repeat(row, 2, axis=0))
    return Staged(stages, values, chances, rng.uniform(1.0, 3.0, D), sense)
