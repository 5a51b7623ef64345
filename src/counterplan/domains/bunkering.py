"""Maritime bunkering (Sec. E): how much fuel to buy at each port of a fixed route.

At port t = 0 .. T-1 the price P_t is revealed and an amount a_t is bought; leg t then uses l_t:

    cost_t = P_t a_t + K 1{a_t > 0},    d_{t+1} = d_t + a_t - l_t,    l_t <= d_t + a_t <= capacity

The tank starts empty and what is left at the end is lost. Prices (Table 3) follow geometric
Brownian motion: 'independent', one of its own for each port, or 'global', one for all. Arrival
penalties (E.1a) are constants here, since no speed is chosen, and left out.

The optimal cost without foresight is a dynamic program over the tank's levels. Let W_t(x) be the
least expected cost from port t on, arriving with level x, before its price P is known, and let the
ship buy up to one of the levels y, or nothing (y = x):

    W_t(x) = E_P min_y [ P (y - x) + K 1{y > x} + W_{t+1}(y - l_t) ],    W_T = 0

**Levels.** Between two levels of the list below the cost to go is concave in the level after buying
(linear where buying has no fixed cost), so a best purchase ends on one of them: l_t + ... + l_j,
just enough to reach port j + 1, for every j that the tank allows, and the full tank where it does
not reach the end. From these, and from buying nothing wherever the level covers the leg, follow
finitely many arrivals per port: the grid.

**Prices.** Where they are independent each min is over lines in P, and its expectation a sum over
the pieces of their lower envelope: it needs the probability of each piece and its part of the mean.
For a log-normal price of mean m and log-deviation s

    P(P <= k) = N(z),    E[P; P <= k] = m N(z - s),    z = log(k / m) / s + s / 2

and for a recorded or discrete price they are counts and partial sums. Where instead P_{t+1} / P_t
does not depend on P_t (one price for all ports, bootstrapped returns) and K = 0, costs scale with
the price, V_t(x, P) = P v_t(x), and what is bought never depends on it: planning has no value.

    v_t(x) = min_y [ (y - x) + E[P_{t+1} / P_t] v_{t+1}(y - l_t) ]

For other processes there is no exact value here. The same recursion, choosing by the costs W of
another law, evaluates the policy that believes it: with every price at its mean, that is the
expected-price plan, re-solved at every port.

**Bounds** for clipping look one purchase ahead, with B a bound on the expected cost to go for every
arrival of the grid; between two arrivals the one that keeps it valid (costs never rise with the
level). Above it is the cost of the expected-price plan, executed; below, the mean hindsight cost:
the exact cost of re-solving that plan, less the mean of its regret on the same sampled paths, with
most of the noise gone; MARGIN standard errors allow for the rest. Where prices multiply, B has two
parts, proportional to the price before and constant, since K does not scale: below, K times the
fewest purchases that suffice, above, K for every port left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, IntArray, Seed, whole_number
from counterplan.errors import FileError, InfeasibleError, InputError, NotApplicableError
from counterplan.planning.compiled import Layout, inlined, jit, play_with
from counterplan.planning.description import (
    MONEY,
    Axes,
    Column,
    Columns,
    check_config,
    positive_number,
)
from counterplan.planning.level_graph import LevelGraph, hindsight, mean_regrets, path_values
from counterplan.planning.model import (
    Allocation,
    HasFutures,
    Sense,
    State,
    require_levels,
    require_prices,
)
from counterplan.planning.processes.base import FiniteProcess, Process, number, vector
from counterplan.planning.processes.laws import Shipped, draw
from counterplan.planning.processes.prices import GBM, BinomialLattice, BootstrapPrices, read_prices
from counterplan.planning.resource import Resource, ResourceProgram

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# Table 3: initial price, volatility, drift.
CONFIGS = {
    "A": (1000.0, 0.9, 1.0),
    "B": (1000.0, 0.5, 1.0),
    "C": (100.0, 0.9, 1.0),
    "D": (1000.0, 0.5, 0.5),
    "E": (1000.0, 0.9, 0.5),
    "F": (100.0, 0.9, 0.5),
}
# Table 5 along the route 1 -> 2 -> ... -> 8.
LEGS = (12.0, 25.0, 30.0, 19.0, 9.0, 21.0, 17.0)
# Standard errors that sampled bounds are lowered by.
MARGIN = 3.0
# Sums of legs that are equal but for rounding are one level.
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Bunkering(HasFutures):
    """A voyage; costs are to be minimised.

    config      row of Table 3, 'A' to 'F'; without effect where `prices` is a process
    prices      'independent', 'global', or a process with one positive price
    dt          time between two ports
    legs        (T,) fuel each leg uses
    capacity    of the tank
    fixed_cost  K of every purchase
    """

    config: str = "A"
    prices: Literal["independent", "global"] | Process = "independent"
    dt: float = 1 / 7
    legs: Sequence[float] | FloatArray = LEGS
    capacity: float = 50.0
    fixed_cost: float = 0.0

    # There where nothing is paid but a price per unit.
    program: ResourceProgram = field(init=False, repr=False)

    sense: ClassVar[Sense] = "min"

    def __post_init__(self) -> None:
        legs = vector(np.asarray(self.legs), "legs")
        object.__setattr__(self, "legs", legs)
        object.__setattr__(self, "capacity", number(self.capacity, "capacity", 0.0, above=True))
        object.__setattr__(self, "fixed_cost", number(self.fixed_cost, "fixed_cost", 0.0))
        bad = np.flatnonzero((legs < 0) | (legs > self.capacity))
        if bad.size:
            t = int(bad[0])
            raise InfeasibleError(
                f"leg t={t} needs {legs[t]:g}, but the capacity is {self.capacity:g}: every leg "
                "must lie between 0 and the capacity; take a larger tank"
            )
        start = self.process.start
        if start.shape != (1,) or not start[0] > 0:
            raise InputError(
                f"prices must be a process of one positive price, but it starts at {start}"
            )
        # What the voyage can do is an attribute that it has.
        if isinstance(self.process, FiniteProcess):
            object.__setattr__(self, "successors", self.process.successors)
        if self.fixed_cost == 0.0:
            bounds = np.tile([0.0, self.capacity], (len(legs), 1))
            tank = Resource(0.0, self.capacity, +1, -legs)
            object.__setattr__(self, "program", ResourceProgram((tank,), bounds))

    @cached_property
    def process(self) -> Process:
        if isinstance(self.prices, Process):
            return self.prices
        if not isinstance(self.prices, str):
            raise InputError(f"prices {self.prices!r} is not 'independent', 'global' or a process")
        if self.config not in CONFIGS:
            raise InputError(f"config {self.config!r} is not one of {', '.join(CONFIGS)}")
        if self.prices not in ("independent", "global"):
            raise InputError(
                f"prices {self.prices!r} is not one of independent, global; or pass a process"
            )
        initial, volatility, drift = CONFIGS[self.config]
        return GBM(initial, drift, volatility, self.dt, kind=self.prices)

    @property
    def horizon(self) -> int:
        return len(self.legs)

    @property
    def start(self) -> State:
        return State(0, self.process.start, np.zeros(1))

    @cached_property
    def levels(self) -> Levels:
        """What may be bought, and the arrivals that follow."""
        return self._levels_from(0, 0.0)

    def actions(self, state: State) -> FloatArray:
        """(m, 1) the amounts on offer: nothing first, then ascending."""
        require_prices(state)
        require_levels(state.t, state.resource, (self.capacity,), "a level of")
        rows = np.empty((self.levels.targets.shape[1] + 1, 1))
        x, d = (np.array(part, dtype=np.float64, ndmin=1) for part in state[1:])
        return rows[: actions(self._numbers, state.t, x, d, rows)]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Costs (n,) and the levels (n, 1) after the leg."""
        level = resource + actions
        leg = np.asarray(self.legs)[t]
        wrong = (actions < 0) | (level > self.capacity + SAME) | (level < leg - SAME)
        if wrong.any():
            i = int(np.argmax(wrong.any(axis=1)))
            raise InfeasibleError(
                f"buying {actions[i, 0]:g} at port t={t} with {resource[i, 0]:g} in the tank: the "
                f"level must end between the leg's {leg:g} and the capacity {self.capacity:g}"
            )
        fixed = self.fixed_cost * (actions[:, 0] > 0)
        return exogenous[:, 0] * actions[:, 0] + fixed, np.maximum(level - leg, 0.0)

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, 1) the amounts closest to those wanted that the tank and the leg allow."""
        least = np.maximum(np.asarray(self.legs)[t] - resource, 0.0)
        return np.asarray(np.clip(wanted, least, self.capacity - resource))

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """What should have been bought along (n, T - t, 1) prices."""
        at = self.start if state is None else state
        levels = np.full(len(paths), float(np.atleast_1d(at.resource)[0]))
        costs, amounts = self._least_costs(at.t, np.asarray(paths)[:, :, 0], levels)
        method = "nested cumulative bounds: the tank bounds every prefix of what is bought"
        if self.fixed_cost > 0:
            method = "dynamic program over order-up-to levels: fixed costs bar a greedy"
        return Allocation(costs, amounts[:, :, None], method)

    def unit_rewards(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, 1) what a unit earns along paths (n, steps, 1): its price, negated."""
        return -paths

    def replan(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 1) the first purchases of the plans that are optimal for expected prices."""
        expected = mean_paths(self.process, t, exogenous[:, 0], self.horizon - t)
        return self._least_costs(t, expected, resource[:, 0])[1][:, :1]

    def _least_costs(
        self, t: int, prices: FloatArray, levels: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Costs (n,) and purchases (n, T - t) for prices (n, T - t) and levels (n,) at t."""
        from counterplan.planning.allocation import allocate_nested, resource_steps

        legs = np.asarray(self.legs)[t:]
        if prices.shape[1:] != legs.shape:
            raise InputError(
                f"paths must have {len(legs)} prices, for t={t} .. {self.horizon - 1}, got "
                f"{prices.shape[1]}"
            )
        if self.fixed_cost == 0.0:
            steps = resource_steps(self.program)[t:]
            values, bought = allocate_nested(-prices, steps, np.clip(levels, 0.0, self.capacity))
            return -values, bought
        costs, amounts = np.empty(len(prices)), np.empty(prices.shape)
        for level in np.unique(levels):
            rows = np.flatnonzero(levels == level)
            graph = self._levels_from(t, float(level)).graph(self.fixed_cost)
            ports = np.tile(np.arange(len(legs)), (len(rows), 1))
            values, bought = hindsight(graph, ports, -prices[rows, :, None], 0)
            costs[rows], amounts[rows] = -values, bought[:, :, 0]
        return costs, amounts

    def _levels_from(self, t: int, level: float) -> Levels:
        return Levels.build(np.asarray(self.legs)[t:], self.capacity, level)

    def optimal_value(self, state: State | None = None) -> float:
        """The least expected cost without foresight."""
        at = self.start if state is None else state
        costs = self._optimum.best(at.t, np.asarray(at.exogenous), np.asarray(at.resource))[1]
        return float(costs[0])

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 1) the purchases that attain it."""
        return self._optimum.best(t, exogenous[:, 0], resource[:, 0])[0][:, None]

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) by how much each action's expected cost exceeds that of the best one; summed along
        an episode, a policy's cost above the optimum without the futures' noise."""
        optimum, price = self._optimum, exogenous[:, 0]
        costs, after = self.step(t, exogenous, resource, actions)
        unit = price if optimum.law.scaled else np.ones_like(price)
        ahead = unit * optimum.before(t + 1, after[:, 0])
        return np.asarray(costs + ahead - optimum.best(t, price, resource[:, 0])[1])

    @cached_property
    def _optimum(self) -> VoyageValue:
        law = price_law(self.process, self.horizon)
        if law.scaled and self.fixed_cost > 0:
            raise NotApplicableError(
                "with a fixed cost, costs do not scale with a price that multiplies, so the "
                "dynamic program over levels does not apply; value_bounds brackets the value"
            )
        return VoyageValue.solve(self.levels, self.fixed_cost, law)

    def compiled(self, quantiles: int = 0) -> Kernel:
        """For the search; `quantiles` equally likely prices at each port, 0: continuous."""
        from counterplan.planning.search.kernel import Kernel

        whole_number(quantiles, "quantiles")
        if not isinstance(self.process, Shipped):
            raise NotApplicableError(
                f"{type(self.process).__name__} is not compiled; plan without compiling, which is "
                "slower"
            )
        block = self.process.kernel_parameters(self.horizon, quantiles)
        functions = {"actions": actions, "step": step, "policy": policy, "bounds": bounds}
        most = self.process.most_successors(quantiles)
        sizes = {"most_actions": self.levels.targets.shape[1] + 1, "most_successors": most}
        parameters = np.concatenate([self._numbers, block])
        return Kernel.of(self, play, **functions, parameters=parameters, action_size=1, **sizes)

    @cached_property
    def _numbers(self) -> FloatArray:
        """What compiled functions read, but for the process at its end."""
        levels, kind = self.levels, dependence(self.process)
        plan = np.zeros_like(levels.arrivals) if kind == "other" else self._plan.on_grid()
        numbers = {"fixed_cost": self.fixed_cost, "scaled": kind == "multiplies"}
        return VOYAGE.pack(**levels._asdict(), **numbers, plan=plan, process=[])

    def bound_tables(self, samples: int = 2_000, seed: Seed = 0) -> FloatArray:
        """Bounds on the cost to go from every arrival, as `BOUND_TABLES` has them."""
        whole_number(samples, "samples", minimum=2)
        kind = dependence(self.process)
        if kind == "other":
            raise NotApplicableError(
                f"prices of {type(self.process).__name__} are neither independent nor do they "
                "multiply, so bounds by level alone do not hold; plan without clipping"
            )
        levels, T, scaled, plan = self.levels, self.horizon, kind == "multiplies", self._plan
        resolved = VoyageValue.solve(levels, plan.fixed_cost, price_law(self.process, T), plan)
        expected = plan.on_grid()
        prices, ports = self.sample_paths(samples, seed), np.arange(T)
        units = np.ones((samples, T + 1))
        if scaled:
            units[:, 1:] = prices[:, :, 0]
        each = np.tile(ports, (samples, 1)), -prices, units
        graph, groups = levels.graph(plan.fixed_cost), np.zeros((samples, T), dtype=np.int64)
        regret, error, _ = mean_regrets(graph, each, -expected, groups, 1)
        surplus = np.zeros_like(expected)
        surplus[:T] = (regret + MARGIN * error)[:, 0]
        fewest, left = np.zeros_like(expected), np.zeros((T + 1, 1))
        if scaled and self.fixed_cost > 0:
            choices, free = np.empty(fewest.shape, np.int64), np.zeros((T, 1))
            path_values(levels.graph(1.0), ports, free, np.ones(T), fewest, fewest, choices)
            left = np.arange(T, -1.0, -1.0)[:, None]
        return BOUND_TABLES.pack(
            below=resolved.on_grid() - surplus,
            below_fixed=self.fixed_cost * np.abs(fewest),
            above=expected,
            above_fixed=np.broadcast_to(self.fixed_cost * left, expected.shape),
        )

    @cached_property
    def _plan(self) -> VoyageValue:
        """The expected-price plan; where prices multiply, for the fuel alone."""
        law = price_law(self.process, self.horizon, certain=True)
        return VoyageValue.solve(self.levels, 0.0 if law.scaled else self.fixed_cost, law)

    about: ClassVar[str] = (
        "fuel for a ship: how much to buy at each port, prices being known on arrival"
    )

    @property
    def label(self) -> str | None:
        """The configuration that prices are from, None where they are another process."""
        return self.config if isinstance(self.prices, str) else None

    @classmethod
    def configured(
        cls,
        config: str | None = None,
        prices: str | None = None,
        prices_csv: Path | None = None,
        capacity: str | None = None,
        legs: str | None = None,
        ports: str | None = None,
    ) -> Bunkering:
        """The voyage that options of the command line ask for.

        config      row of the paper's table: A (default) to F
        prices      independent ports (default) or one global price
        prices_csv  recorded prices (.csv with Date and Price) instead of a configuration's; between
                    two ports they move as between two rows
        capacity    of the tank
        legs        fuel that each leg uses, with commas between: 12,25,30
        ports       each port's price, or prices that are equally likely with / between:
                    600,540/580,620
        """
        kind: Any = prices or "independent"
        if kind not in ("independent", "global"):
            raise InputError(
                f"--prices {kind!r}: bunkering's are 'independent' or 'global'; choose one"
            )
        check_config(config)
        size = cls.capacity if capacity is None else positive_number(capacity, "a number")
        used = _amounts(legs, "--legs") if legs is not None else LEGS
        if ports is not None:
            if config is not None or prices is not None or prices_csv is not None:
                raise InputError("--ports brings its own prices: leave out other options of prices")
            return cls(prices=PortPrices.read(ports, len(used)), legs=used, capacity=size)
        if prices_csv is None:
            return cls(config or "A", kind, legs=used, capacity=size)
        if config is not None:
            raise InputError("--config names prices, and --prices-csv brings its own: give one")
        record = BootstrapPrices(read_prices(prices_csv), kind=kind)
        problem = cls(prices=record, legs=used, capacity=size)
        try:
            for t in range(problem.horizon):
                record.factors(t)
        except InputError:
            raise FileError(
                f"{prices_csv}: has {len(record.log_prices)} prices, but {problem.horizon} ports "
                f"need {problem.horizon + 1} at least; add rows"
            ) from None
        return problem

    def columns(self) -> Columns:
        return Columns(
            self,
            (Column("price", "the price", "price"),),
            (Column("action", "the units bought, 0 for none", "amount"),),
            (Column("level", "what is in the tank", "amount", most=self.capacity),),
        )

    def axes(self) -> Axes:
        titles = (("price",), ("units bought",), ("units in the tank",))
        return Axes(*titles, step="port t", scenario="voyage", unit=MONEY)

    def describe(self, action: FloatArray) -> str:
        return f"buy {action[0]:g} units" if action[0] > 0 else "buy nothing"

    def describe_state(self, state: State) -> str:
        t, (price,), (level,) = state
        return f"port {t + 1} of {self.horizon + 1}, price {price:g}, {level:g} units in the tank"


# --- Levels -----------------------------------------------------------------------------------


class Levels(NamedTuple):
    """Padded tables, nan or -1 where there is nothing; the search reads them as they are.

    legs         (T,) need of each leg
    capacity     of the tank
    targets      (T, K) levels after buying, ascending
    arrivals     (T + 1, N) levels before buying, ascending; the last row: after the last leg
    target_next  (T, K) where in the next row of `arrivals` each target leads
    """

    legs: FloatArray
    capacity: float
    targets: FloatArray
    arrivals: FloatArray
    target_next: IntArray

    @classmethod
    def build(cls, legs: FloatArray, capacity: float, start: float) -> Levels:
        """The levels of a ship that arrives at the first port with `start` in its tank."""
        sums = [np.cumsum(legs[t:]) for t in range(len(legs))]
        chosen = [_distinct(np.minimum(one, capacity)) for one in sums]
        reached = [np.array([start])]
        for t, leg in enumerate(legs):
            stays = reached[t][covers(reached[t], leg)]
            reached.append(_distinct(np.concatenate([chosen[t], stays]) - leg))
        following = [_nearest(reached[t + 1], y - legs[t]) for t, y in enumerate(chosen)]
        tables = _padded(chosen, np.nan), _padded(reached, np.nan), _padded(following, -1)
        return cls(legs, capacity, *tables[:2], tables[2].astype(np.int64))

    def purchases(self, t: int, level: FloatArray) -> FloatArray:
        """(n, K + 1) what each target asks for at levels (n,), then 0; nan where not offered."""
        amounts = self.targets[t] - level[:, None]
        amounts[amounts <= SAME] = np.nan
        nothing = np.where(covers(level, self.legs[t]), 0.0, np.nan)
        return np.column_stack([amounts, nothing])

    def graph(self, fixed_cost: float) -> LevelGraph:
        """What may be bought at every port from every arrival, nothing first; costs negated."""
        arrivals = enumerate(self.arrivals[:-1])
        amounts = np.roll([self.purchases(t, row) for t, row in arrivals], 1, axis=2)
        after = np.full(amounts.shape, -1)
        for t, offered in enumerate(~np.isnan(amounts)):
            left = (self.arrivals[t][:, None] + amounts[t] - self.legs[t])[offered]
            after[t, offered] = _nearest(self.arrivals[t + 1], left)
        bought = np.nan_to_num(amounts)
        return LevelGraph(bought[..., None], -fixed_cost * (bought > 0), after)


def covers(level: FloatArray, leg: float) -> BoolArray:
    """Whether levels suffice for a leg."""
    return np.asarray(level >= leg - SAME)


def _distinct(levels: FloatArray) -> FloatArray:
    ordered = np.sort(np.maximum(levels, 0.0))
    keep = np.concatenate([[True], np.diff(ordered) > SAME])
    return np.asarray(ordered[keep])


def _nearest(row: FloatArray, levels: FloatArray) -> IntArray:
    """(n,) where in an ascending row, nan at its end, levels (n,) are."""
    return np.asarray(np.nanargmin(np.abs(row - levels[:, None]), axis=1), dtype=np.int64)


def _padded(rows: list[FloatArray] | list[IntArray], filler: float) -> FloatArray:
    table = np.full((len(rows), max(len(row) for row in rows)), filler)
    for t, row in enumerate(rows):
        table[t, : len(row)] = row
    return table


# --- Prices -----------------------------------------------------------------------------------


def _amounts(text: str, flag: str) -> list[float]:
    """Numbers with commas between."""
    try:
        return [number(one, flag, 0.0) for one in text.split(",")]
    except InputError:
        raise InputError(f"{flag} {text!r}: give numbers with commas between: 12,25,30") from None


@dataclass(frozen=True, eq=False)
class PortPrices(BootstrapPrices):
    """Every port has prices of its own, of which one is met, all equally likely.

    ports  of each port its prices, the first port's being known
    """

    ports: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def read(cls, text: str, count: int) -> PortPrices:
        """From texts such as 600,540/580,620."""
        ports = tuple(tuple(_amounts(one.replace("/", ","), "--ports")) for one in text.split(","))
        if len(ports) != count or len(ports[0]) != 1:
            raise InputError(
                f"--ports has prices of {len(ports)} ports: there are {count} legs, each from a "
                "port, and the first one's price is known: give one price for it"
            )
        known = np.array([np.mean(one) for one in ports])
        return cls(np.append(known, known[-1]), ports[0][0], kind="independent", ports=ports)

    def factors(self, t: int) -> FloatArray:
        """Sorted: what x_{t+1} may be, in units of `initial`."""
        prices = self.ports[min(t + 1, len(self.ports) - 1)]
        return np.sort(np.array(prices)) / float(self.start[0])


@dataclass(frozen=True)
class PriceLaw:
    """Each port has a price of its own; or prices multiply, and costs are in units of the last one.

    below   (t, prices) -> P(P_t <= price) and E[P_t; P_t <= price], elementwise
    growth  (T,) E[P_t / P_{t-1}] where prices multiply: P_t itself is then 1, for certain
    """

    below: Callable[[int, FloatArray], tuple[FloatArray, FloatArray]]
    growth: FloatArray | None = None

    @property
    def scaled(self) -> bool:
        """Whether prices multiply."""
        return self.growth is not None

    def mean_of_least(
        self, t: int, slopes: FloatArray, chosen_by: FloatArray, paid: FloatArray
    ) -> FloatArray:
        """(n,) the mean of slope * P_t + paid for the line, out of m, with the least slope * P_t +
        chosen_by; all (n, m), chosen_by infinite where there is no line: over the pieces of the
        lower envelope."""
        low, high = _pieces(slopes, chosen_by)
        share_low, part_low = self.below(t, low)
        share_high, part_high = self.below(t, high)
        fuel = slopes * (part_high - part_low)
        other = _known(paid) * (share_high - share_low)
        means = np.asarray(np.where(low < high, fuel + other, 0.0).sum(axis=1))
        return means if self.growth is None else self.growth[t] * means


def log_normal_prices(means: FloatArray, deviations: FloatArray) -> PriceLaw:
    """Of means (T,) of the prices and deviations (T,) of their logarithms."""
    from scipy.special import ndtr

    def below(t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, deviation = means[t], deviations[t]
        if deviation == 0.0:
            share = (mean <= price).astype(np.float64)
            return share, mean * share
        with np.errstate(divide="ignore", over="ignore"):
            z = np.log(price / mean) / deviation + deviation / 2
        return ndtr(z), mean * ndtr(z - deviation)

    return PriceLaw(below)


def listed_prices(values: Sequence[FloatArray]) -> PriceLaw:
    """Of equally likely prices for each port, ascending."""
    sums = [np.concatenate([[0.0], np.cumsum(listed)]) for listed in values]

    def below(t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        count = np.searchsorted(values[t], price, side="right")
        return count / len(values[t]), sums[t][count] / len(values[t])

    return PriceLaw(below)


def dependence(process: Process) -> Literal["independent", "multiplies", "other"]:
    """How the next price depends on the present one."""
    if isinstance(process, GBM | BootstrapPrices):
        return "independent" if process.kind == "independent" else "multiplies"
    return "multiplies" if isinstance(process, BinomialLattice) else "other"


def price_law(process: Process, T: int, certain: bool = False) -> PriceLaw:
    """The law of T ports' prices; raises where it is neither independent nor multiplies.

    certain  with every independent price at its mean: what the expected-price plan believes
    """
    kind = dependence(process)
    if kind == "multiplies":
        growth = [process.mean_path(2, t, np.ones(1))[1, 0] for t in range(T - 1)]
        return PriceLaw(log_normal_prices(np.ones(T), np.zeros(T)).below, np.array([1.0, *growth]))
    if kind == "other":
        raise NotApplicableError(
            f"prices of {type(process).__name__} are neither independent nor do they multiply, so "
            "the dynamic program over levels does not apply; value_bounds brackets the value"
        )
    means = process.mean_path(T)[:, 0]
    if certain:
        return log_normal_prices(means, np.zeros(T))
    start, times = process.start, range(T - 1)
    if isinstance(process, FiniteProcess):
        return listed_prices([start, *(process.successors(t, start)[0][:, 0] for t in times)])
    if isinstance(process, BootstrapPrices):
        return listed_prices([start, *(start * process.factors(t) for t in times)])
    assert isinstance(process, GBM)
    volatility = float(np.asarray(process.volatility)[0])
    return log_normal_prices(means, volatility * np.sqrt(process.dt * np.arange(T)))


def mean_paths(process: Process, t: int, price: FloatArray, steps: int) -> FloatArray:
    """(n, steps): E[P_s | P_t] for prices (n,) at t."""
    kind = dependence(process)
    if kind == "multiplies":
        return np.outer(price, process.mean_path(steps, t, np.ones(1))[:, 0])
    if kind == "independent":
        paths = np.tile(process.mean_path(steps, t)[:, 0], (len(price), 1))
        paths[:, 0] = price
        return paths
    distinct, row = np.unique(price, return_inverse=True)
    return np.array([process.mean_path(steps, t, np.array([one]))[:, 0] for one in distinct])[row]


def _known(paid: FloatArray) -> FloatArray:
    return np.where(np.isfinite(paid), paid, 0.0)


def _pieces(slopes: FloatArray, intercepts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The prices (low, high] at which each line (n, m) is the least; low >= high: never.

    Every price lies in one piece: crossings that rounding puts in the wrong order would leave gaps,
    so a piece ends where the next flatter one begins, and the steepest begins at 0.
    """
    offered = np.isfinite(intercepts)
    known = _known(intercepts)
    steeper = slopes[:, None, :] - slopes[:, :, None]
    dearer = known[:, :, None] - known[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = dearer / steeper
    against = offered[:, :, None] & offered[:, None, :]
    low = np.where(against & (steeper > 0), crossing, 0.0).max(axis=2)
    high = np.where(against & (steeper < 0), crossing, np.inf).min(axis=2)
    used = offered & (low < high)
    begins = np.where(used, low, np.inf)
    following = np.where(steeper < 0, begins[:, None, :], np.inf).min(axis=2)
    first = ~(used[:, None, :] & (steeper > 0)).any(axis=2)
    return np.where(used & first, 0.0, begins), np.where(used, following, 0.0)


# --- The dynamic program ------------------------------------------------------------------------


@dataclass(frozen=True)
class VoyageValue:
    """Expected costs to go, optimal or of a policy.

    levels      what may be bought
    fixed_cost  K, per purchase
    law         of the prices; where they scale, costs are in units of the price before
    belief      None: the optimum; else the costs by which purchases are chosen
    ahead       (T, K) expected cost from each target on, after its leg
    """

    levels: Levels
    fixed_cost: float
    law: PriceLaw
    belief: VoyageValue | None
    ahead: FloatArray

    @classmethod
    def solve(
        cls, levels: Levels, fixed_cost: float, law: PriceLaw, belief: VoyageValue | None = None
    ) -> VoyageValue:
        """Backward over the ports."""
        ahead = np.zeros_like(levels.targets)
        value = cls(levels, fixed_cost, law, belief, ahead)
        for t in reversed(range(len(levels.legs))):
            ahead[t] = value.before(t + 1, levels.targets[t] - levels.legs[t])
        return value

    def before(self, t: int, level: FloatArray) -> FloatArray:
        """W_t at levels (n,) anywhere between empty and full; nan at nan."""
        if t == len(self.levels.legs):
            return np.where(np.isnan(level), np.nan, 0.0)
        amounts, costs = self.offers(t, level)
        chosen_by = costs if self.belief is None else self.belief.offers(t, level)[1]
        means = self.law.mean_of_least(t, amounts, chosen_by, costs)
        return np.where(np.isnan(level), np.nan, means)

    def offers(self, t: int, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What may be bought at levels (n,), and the expected cost beside that of the fuel,
        infinite where not offered; (n, K + 1), buying nothing last."""
        amounts = self.levels.purchases(t, level)
        rest = np.where(np.isnan(amounts[:, -1]), np.nan, level - self.levels.legs[t])
        costs = np.empty_like(amounts)
        costs[:, :-1] = self.ahead[t] + self.fixed_cost
        costs[:, -1] = self.before(t + 1, np.maximum(rest, 0.0))
        costs[np.isnan(amounts)] = np.inf
        return np.nan_to_num(amounts), costs

    def best(self, t: int, price: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best purchases (n,) and their costs to go at prices (n,) and levels (n,)."""
        distinct, row = np.unique(level, return_inverse=True)
        amounts, costs = self.offers(t, distinct)
        unit = price if self.law.scaled else np.ones_like(price)
        totals = price[:, None] * amounts[row] + unit[:, None] * costs[row]
        choice = totals.argmin(axis=1)
        picked = np.arange(len(level))
        return amounts[row][picked, choice], totals[picked, choice]

    def on_grid(self) -> FloatArray:
        """(T + 1, N) W at every arrival, 0 where there is none."""
        return np.nan_to_num([self.before(t, row) for t, row in enumerate(self.levels.arrivals)])


# --- Compiled: x = (price,), d = (level,), action = (amount,); values are costs negated --------

# Levels as in `Levels`; plan: cost of the expected-price plan from each arrival on; scaled: 1 where
# prices multiply, so that costs to go are in units of the price before.
VOYAGE = Layout(
    "rest fixed_cost scaled",
    "T K N",
    legs="T",
    targets="T K",
    target_next="T K",
    arrivals="T+1 N",
    plan="T+1 N",
    process="*",
)
# Of each bound B the part that is proportional to the price before, and the constant one.
BOUND_TABLES = Layout(
    "", "R N", **dict.fromkeys(("below", "below_fixed", "above", "above_fixed"), "R N")
)
voyage, bound_tables = VOYAGE.view, BOUND_TABLES.view


@jit
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """Nothing where the level covers the leg, then every amount that ends on a higher target."""
    v = voyage(parameters)
    m = 0
    if d[0] >= v.legs[t] - SAME:
        out[0, 0] = 0.0
        m = 1
    for k in range(v.K):
        amount = v.targets[t, k] - d[0]
        if amount > SAME:  # also false for the padding
            out[m, 0] = amount
            m += 1
    return m


@jit
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Pay, and sail the leg."""
    v = voyage(parameters)
    out[0] = max(0.0, d[0] + action[0] - v.legs[t])
    return -(x[0] * action[0] + (v.fixed_cost if action[0] > 0.0 else 0.0))


@inlined
def _place(row, level):  # type: ignore[no-untyped-def]
    """The last place in an ascending row (nan at its end) whose entry is not above the level."""
    place = 0
    while place + 1 < row.size and row[place + 1] <= level + SAME:
        place += 1
    return place


@jit
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Re-solve the plan that is optimal for expected prices; its first purchase."""
    v = voyage(parameters)
    factor = x[0] if v.scaled else 1.0
    best, least = 0, np.inf
    for i in range(m):
        amount = offered[i, 0]
        ahead = v.plan[t + 1, _place(v.arrivals[t + 1], d[0] + amount - v.legs[t])]
        cost = x[0] * amount + factor * ahead + (v.fixed_cost if amount > 0.0 else 0.0)
        if cost < least:
            best, least = i, cost
    return best


@jit
def play(parameters, t, x, d, generator, room):  # type: ignore[no-untyped-def]
    """A rollout, all in one."""
    state = parameters, t, x, d
    return play_with(draw, actions, step, policy, state, generator, room)


@jit
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """One purchase, then hindsight (above) and an executed policy (below)."""
    out[0], out[1] = -np.inf, np.inf
    if tables.size == 0:
        return
    v, b, s = voyage(parameters), bound_tables(tables), t + 1
    factor = x[0] if v.scaled else 1.0
    low, high = np.inf, np.inf
    for k in range(v.K):
        amount = v.targets[t, k] - d[0]
        if amount > SAME:
            to = int(v.target_next[t, k])
            now = x[0] * amount + v.fixed_cost
            low = min(low, now + factor * b.below[s, to] + b.below_fixed[s, to])
            high = min(high, now + factor * b.above[s, to] + b.above_fixed[s, to])
    rest = d[0] - v.legs[t]
    if rest >= -SAME:
        arrivals = v.arrivals[s]
        below = _place(arrivals, rest)
        above = below
        if arrivals[below] < rest - SAME and below + 1 < v.N and arrivals[below + 1] > rest:
            above = below + 1
        if arrivals[above] >= rest - SAME:
            low = min(low, factor * b.below[s, above] + b.below_fixed[s, above])
        else:
            low = 0.0  # fuller than any arrival of the grid
        high = min(high, factor * b.above[s, below] + b.above_fixed[s, below])
    out[0], out[1] = -high, -low
