"""Random storages, and an oracle that shares no code with the model: the linear program of a tree
of what may happen, written from the words of the statement."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from counterplan.core.validation import FloatArray
from counterplan.domains.storage import Demand, Flow, Limit, Storage, Store
from counterplan.planning.processes import MarkovModes

# (number of the node before or -1, t, x, probability)
Node = tuple[int, int, FloatArray, float]


def chain(path: FloatArray) -> list[Node]:
    """A path that is known."""
    return [(t - 1, t, x, 1.0) for t, x in enumerate(path)]


def tree(model: Any) -> list[Node]:
    """Everything that may happen."""
    found: list[Node] = [(-1, 0, model.start.exogenous, 1.0)]
    now = [0]
    for t in range(model.horizon - 1):
        following = []
        for i in now:
            for x, chance in zip(*model.successors(t, found[i][2]), strict=True):
                following.append(len(found))
                found.append((i, t + 1, x, found[i][3] * chance))
        now = following
    return found


def rate(value: Any, t: int, x: FloatArray, names: list[str]) -> float:
    one = value[t] if isinstance(value, list | tuple | np.ndarray) else value
    scope = dict(zip(names, x.tolist(), strict=True))
    return float(eval(one, {}, scope)) if isinstance(one, str) else float(one)


class Oracle:
    """Rows and columns are written down one by one."""

    def __init__(self, model: Storage, nodes: list[Node]) -> None:
        self.model, self.nodes = model, nodes
        self.names = [one.partition(" (")[0] for one in model.names]
        self.columns: dict[Any, int] = {}
        self.bounds: list[tuple[float, float | None]] = []
        self.cost: list[float] = []
        self.equal: list[tuple[dict[int, float], float]] = []
        self.most: list[tuple[dict[int, float], float]] = []
        for i in range(len(nodes)):
            self.add_node(i)

    def column(self, key: Any, low: float, high: float, reward: float) -> int:
        self.columns[key] = len(self.cost)
        self.bounds.append((low, None if math.isinf(high) else high))
        self.cost.append(-reward)
        return self.columns[key]

    def add_node(self, i: int) -> None:
        before, t, x, chance = self.nodes[i]
        last, m = t == self.model.horizon - 1, self.model
        said = lambda value: rate(value, t, x, self.names)  # noqa: E731
        into: dict[str, dict[int, float]] = {}
        for flow in m.flows:
            whole = {}
            arrives = said(flow.efficiency)
            base = said(flow.earns) * arrives - said(flow.pays)
            for s, (amount, extra) in enumerate(flow.segments or [(math.inf, 0.0)]):
                j = self.column((i, flow.name, s), 0.0, amount, chance * (base - extra))
                whole[j] = 1.0
                if flow.out_of:
                    into.setdefault(flow.out_of, {})[j] = -1.0
                if flow.into:
                    into.setdefault(flow.into, {})[j] = arrives
            if flow.most is not None:
                self.most.append((whole, said(flow.most)))
            least = flow.least if np.ndim(flow.least) == 0 else flow.least[t]
            self.most.append((dict.fromkeys(whole, -1.0), -float(least)))
            if flow.ramp is not None:
                down, up = flow.ramp
                parent = {
                    j: -1.0 for key, j in self.columns.items() if key[:2] == (before, flow.name)
                }
                shift = flow.before if before < 0 else 0.0
                self.most.append(({**whole, **parent}, up + shift))
                self.most.append(({j: -w for j, w in {**whole, **parent}.items()}, down - shift))
        for limit in m.limits:
            row = {j: limit.flows[key[1]] for key, j in self.columns.items()
                   if key[0] == i and key[1] in limit.flows}  # fmt: skip
            self.most.append((row, said(limit.most)))
        for demand in m.demands:
            row = into.get(demand.name, {})
            if demand.lost_at is not None:
                row[self.column((i, "lost", demand.name), 0.0, math.inf,
                                -chance * said(demand.lost_at))] = 1.0  # fmt: skip
            self.equal.append((row, said(demand.amount)))
        for store in m.storages:
            row = into.get(store.name, {})
            worth = chance * store.end_value if last else 0.0
            low = max(store.least, store.end_least if last else 0.0)
            level = self.column((i, "level", store.name), low, store.capacity, worth)
            row[level] = -1.0
            if store.spill:
                row[self.column((i, "spill", store.name), 0.0, math.inf, 0.0)] = -1.0
            inflow = said(store.inflow)
            if before < 0:
                inflow += store.keep * store.start
            else:
                row[self.columns[before, "level", store.name]] = store.keep
            self.equal.append((row, -inflow))

    def keep(self, actions: dict[int, FloatArray], slack: float) -> None:
        """Hold the numbers of an action at some steps of a chain."""
        for t, action in actions.items():
            own = [(key, j) for key, j in self.columns.items() if key[0] == t and key[1] != "level"]
            for (_, j), value in zip(own, action.tolist(), strict=True):
                self.bounds[j] = (max(value - slack, 0.0), value + slack)

    def solve(self) -> float | None:
        """The optimum, in the model's sense; None where nothing is possible."""

        def dense(rows: list[tuple[dict[int, float], float]]) -> Any:
            matrix = np.zeros((len(rows), len(self.cost)))
            for i, (row, _) in enumerate(rows):
                for j, weight in row.items():
                    matrix[i, j] = weight
            return matrix, np.array([right for _, right in rows])

        solved = linprog(self.cost, *dense(self.most), *dense(self.equal), bounds=self.bounds)
        if solved.status == 2:
            return None
        assert solved.status == 0, solved.message
        return float(-solved.fun if self.model.sense == "max" else solved.fun)


def modes(rng: np.random.Generator, size: int = 3) -> MarkovModes:
    return MarkovModes(rng.dirichlet(np.ones(size), size=size), indicators=True)


def priced(rng: np.random.Generator, size: int = 3) -> str:
    """A price for each of the modes a, b, c."""
    values = rng.uniform(5.0, 80.0, size)
    return " + ".join(f"{one:.3f} * {name}" for one, name in zip(values, "abc", strict=False))


def random_battery(rng: np.random.Generator, horizon: int = 4, **given: Any) -> Storage:
    """One storage with losses, leakage, dearer segments, an inflow, a demand that may be lost, in
    either sense: any of them."""
    yes = lambda chance=0.5: rng.random() < chance  # noqa: E731
    price = priced(rng)
    flows = [
        Flow("charge", into="battery", most=rng.uniform(1, 4), efficiency=rng.uniform(0.7, 1.0),
             pays=price),
        Flow("discharge", out_of="battery", most=list(rng.uniform(1, 4, horizon)),
             efficiency=rng.uniform(0.7, 1.0), earns=price,
             segments=[(1.0, 0.5), (1.0, 3.0), (2.0, 9.0)] if yes() else ()),
    ]  # fmt: skip
    demands = []
    if yes():
        lost = None if yes(0.3) else priced(rng)
        amount = list(rng.uniform(0, 2, horizon)) if lost is None or yes() else "1 * a + 2.5 * c"
        demands.append(Demand("town", amount, lost))
        flows.append(Flow("supply", out_of="battery", into="town", efficiency=0.9))
        if lost is None or yes():
            most = {} if lost is None else {"most": 0.7}
            flows.append(Flow("import", into="town", pays=40.0, efficiency=0.95, **most))
    spill = yes()
    inflow: Any = "0.5 * a + 2 * b" if spill and yes() else (list(rng.uniform(0, 1.5, horizon))
                                                            if spill else 0.0)  # fmt: skip
    store = Store("battery", capacity=rng.uniform(3, 8), start=rng.uniform(0, 3), inflow=inflow,
                  keep=1.0 if yes() else rng.uniform(0.9, 1.0), spill=spill,
                  end_value=rng.uniform(0, 40) if yes() else 0.0)  # fmt: skip
    sense = given.pop("sense", None) or ("min" if yes(0.3) else "max")
    return Storage(
        modes(rng), horizon, store, flows, demands, sense, names=("a", "b", "c"), **given
    )


def chain_of_reservoirs(rng: np.random.Generator, horizon: int = 4) -> Storage:
    """Two reservoirs: water of the upper one drives a turbine and arrives in the lower."""
    price = priced(rng)
    return Storage(
        modes(rng),
        horizon,
        [
            Store("upper", capacity=6, start=3, inflow="a + 2 * b", spill=True, end_value=4),
            Store("lower", capacity=4, start=1, inflow=0.3, spill=True, end_value=2, keep=0.98),
        ],
        [
            Flow("upper turbine", out_of="upper", into="lower", most=2, earns=price),
            Flow("gate", out_of="upper", into="lower", most=5),
            Flow("lower turbine", out_of="lower", most=2.5, earns=price,
                 segments=[(1.5, 0.0), (1.0, 6.0)]),
            Flow("pump", out_of="lower", into="upper", most=1, pays=price, efficiency=0.7),
        ],
        names=("a", "b", "c"),
    )  # fmt: skip


def two_batteries(rng: np.random.Generator, horizon: int = 4, ramp: bool = False) -> Storage:
    """A fast and a slow one, sharing a demand."""
    price, cheap = priced(rng), priced(rng)
    limits: dict[str, Any] = {"ramp": 0.75} if ramp else {}
    return Storage(
        modes(rng),
        horizon,
        [Store("fast", capacity=3, start=1, keep=0.97), Store("slow", capacity=8, start=4)],
        [
            Flow("charge fast", into="fast", most=2, efficiency=0.95, pays=price),
            Flow("charge slow", into="slow", most=1, efficiency=0.85, pays=price, **limits),
            Flow("sell fast", out_of="fast", most=2, efficiency=0.95, earns=price),
            Flow("serve slow", out_of="slow", into="town", most=1.5, efficiency=0.85),
            Flow("serve fast", out_of="fast", into="town", most=2),
            Flow("shift", out_of="slow", into="fast", most=0.5, efficiency=0.9),
        ],
        Demand("town", "1 * a + 2 * b + 0.5", lost_at=cheap),
        names=("a", "b", "c"),
    )


def ramped_battery(rng: np.random.Generator, horizon: int = 5) -> Storage:
    """Round-trip losses, leakage, and a discharge that changes slowly."""
    price = priced(rng)
    return Storage(
        modes(rng),
        horizon,
        Store("battery", capacity=5, start=2.5, keep=0.99, end_value=10),
        [
            Flow("charge", into="battery", most=2, efficiency=0.9, pays=price),
            Flow("discharge", out_of="battery", most=2, efficiency=0.9, earns=price,
                 ramp=(0.8, 0.6)),
        ],
        names=("a", "b", "c"),
    )  # fmt: skip


def tight_battery(rng: np.random.Generator, horizon: int = 4) -> Storage:
    """One storage with prices of either sign and with bounds from which there is no way on: least
    levels, flows that must run, a demand that must be met, a flow that x limits."""
    yes = lambda chance=0.5: rng.random() < chance  # noqa: E731
    price = f"{priced(rng)} - 40"
    store = Store("s", capacity=rng.uniform(2, 6), start=1.5, keep=0.95 if yes() else 1.0,
                  least=0.3 if yes() else 0.0, end_least=1.5 if yes() else 0.0, spill=yes(),
                  inflow=0.2 if yes() else 0.0, end_value=5)  # fmt: skip
    flows = [
        Flow("in", into="s", most=2, least=0.3 if yes(0.3) else 0, pays=price, efficiency=0.9),
        Flow("out", out_of="s", most=list(rng.uniform(1, 3, horizon)), earns=price,
             least=0.2 if yes(0.3) else 0.0),
    ]  # fmt: skip
    demands = [Demand("d", list(rng.uniform(0.2, 1.0, horizon)))] if yes() else []
    if demands:
        flows.append(Flow("serve", out_of="s", into="d", efficiency=0.95))
        flows += [Flow("sun", into="d", most="0.8 * a + 0.1 * c")] if yes() else []
    return Storage(modes(rng), horizon, store, flows, demands, names=("a", "b", "c"))


def limited(rng: np.random.Generator, problem: Storage) -> Storage:
    """The problem with efficiencies by step and with limits that its flows share, of any weights
    and with x in them: with all flows at 0 they are kept."""
    T = problem.horizon
    flows = tuple(replace(one, efficiency=list(rng.uniform(0.6, 1.0, T))) for one in problem.flows)
    limits = []
    for k in range(int(rng.integers(1, 4))):
        some = [one.name for one in flows if rng.random() < 0.7] or [flows[0].name]
        weights = {one: rng.choice([1.0, 1.0, 0.5, 2.0, -1.0]) for one in some}
        if rng.random() < 0.3:
            weights[some[0]] = 0.0
        most: Any = rng.choice(["0.5 + 2 * a", "list", "number"])
        most = {"list": list(rng.uniform(0.2, 3.0, T)), "number": 1.2}.get(most, str(most))
        if any(weights.values()):
            limits.append(Limit(f"limit {k}", weights, most))
    return replace(problem, flows=flows, limits=tuple(limits))
