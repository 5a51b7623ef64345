"""Maritime bunkering (Sec. E): how much fuel to buy at each port of a fixed route.

At port t = 0 .. T-1 the price P_t is revealed and an amount a_t is bought; leg t then uses l_t:

    cost_t = P_t a_t + K 1{a_t > 0},    d_{t+1} = d_t + a_t - l_t,    l_t <= d_t + a_t <= capacity

The tank starts empty and what is left at the end is lost. Prices (Table 3) follow geometric
Brownian motion in one of two ways: 'independent', where each port has a motion of its own from the
initial price, or 'global', one motion for all ports. Under 'global' costs scale with the price, so
the best amounts never depend on it and planning has no value (bunkering_exact). Arrival penalties
(E.1a) are constants here, since no speed is chosen, and left out.

Bounds for clipping (bunkering_kernel): the mean hindsight cost below, an executed policy above,
both after one purchase. The executed plan for expected prices is the paper's; re-solving it at
every port (executed='re-solve') is ours and tighter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.bunkering_exact import SAME, ActionSet, Levels, VoyageValue
from counterplan.domains.bunkering_prices import (
    QuantilePrices,
    dependence,
    mean_paths,
    price_law,
    quantile_prices,
)
from counterplan.domains.problems import check_config, positive_number
from counterplan.errors import FileError, InfeasibleError, InputError, NotApplicableError
from counterplan.planning.description import Axes, Column, Columns
from counterplan.planning.model import (
    Allocation,
    HasFutures,
    Sense,
    State,
    require_levels,
    require_prices,
)
from counterplan.planning.processes.base import CompiledProcess, Process, number, vector
from counterplan.planning.processes.prices import GBM, BootstrapPrices
from counterplan.planning.resource import Resource

if TYPE_CHECKING:
    from counterplan.domains.exogenous_mdp import ExogenousMDP
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


@dataclass(frozen=True, eq=False)
class Bunkering(HasFutures):
    """A voyage; costs are to be minimised.

    config      row of Table 3, 'A' to 'F'; without effect where `prices` is a process
    prices      'independent', 'global', or a process with one positive price
    dt          time between two ports
    legs        (T,) fuel each leg uses
    capacity    of the tank
    fixed_cost  K of every purchase
    action_set  'order-up-to', or 'extreme': the two amounts of Lemma 2.1
    executed    the policy whose cost bounds from above: 'open-loop' or 're-solve'
    """

    config: str = "A"
    prices: Literal["independent", "global"] | Process = "independent"
    dt: float = 1 / 7
    legs: Sequence[float] | FloatArray = LEGS
    capacity: float = 50.0
    fixed_cost: float = 0.0
    action_set: ActionSet = "order-up-to"
    executed: Literal["open-loop", "re-solve"] = "open-loop"

    def __post_init__(self) -> None:
        legs = vector(np.asarray(self.legs), "legs")
        object.__setattr__(self, "legs", legs)
        object.__setattr__(self, "capacity", number(self.capacity, "capacity", 0.0, above=True))
        object.__setattr__(self, "fixed_cost", number(self.fixed_cost, "fixed_cost", 0.0))
        for name, accepted in CHOICES.items():
            if getattr(self, name) not in accepted:
                raise InputError(
                    f"{name} {getattr(self, name)!r} is not one of {', '.join(accepted)}"
                )
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

    # --- The model ----------------------------------------------------------------------------

    @cached_property
    def process(self) -> Process:
        """The prices."""
        if not isinstance(self.prices, str):
            if not isinstance(self.prices, Process):
                raise InputError(
                    f"prices {self.prices!r} is not 'independent', 'global' or a process"
                )
            return self.prices
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
        """T, one decision per leg."""
        return len(self.legs)

    @property
    def sense(self) -> Sense:
        """Costs."""
        return "min"

    @property
    def start(self) -> State:
        """The first port, tank empty."""
        return State(0, self.process.start, np.zeros(1))

    @cached_property
    def levels(self) -> Levels:
        """What may be bought, and the arrivals that follow."""
        return self._levels_from(0, 0.0)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The next port's prices, (n, 1) -> (n, 1)."""
        return self.process.draw(t, exogenous, generator)

    def actions(self, state: State) -> FloatArray:
        """(m, 1) the amounts on offer: nothing first, then ascending."""
        require_prices(state)
        require_levels(state.t, state.resource, (self.capacity,), "a level of")
        amounts = self.levels.purchases(state.t, np.atleast_1d(state.resource))[0]
        return np.sort(amounts[~np.isnan(amounts)])[:, None]

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

    # --- Whole futures ------------------------------------------------------------------------

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """What should have been bought along (n, T - t, 1) prices."""
        at = self.start if state is None else state
        levels = np.full(len(paths), float(np.atleast_1d(at.resource)[0]))
        costs, amounts = self._least_costs(at.t, np.asarray(paths)[:, :, 0], levels)
        return Allocation(costs, amounts[:, :, None], self._method)

    def as_program(self) -> ExogenousMDP:
        """The voyage as a resource program: nothing but prices per unit and a tank."""
        from counterplan.domains.exogenous_mdp import ExogenousMDP

        if not self._nested:
            why = "a fixed cost" if self.fixed_cost else f"action_set={self.action_set!r}"
            raise NotApplicableError(
                f"bunkering with {why} is no resource program (not every amount, or not at a price "
                "per unit alone); use method 'model'"
            )
        tank = Resource(0.0, self.capacity, +1, -np.asarray(self.legs))
        bounds = np.tile([0.0, self.capacity], (self.horizon, 1))
        return ExogenousMDP(self.process, [[1.0]], tank, bounds, sense="min")

    def replan(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 1) the first purchases of the plans that are optimal for expected prices."""
        expected = mean_paths(self.process, t, exogenous[:, 0], self.horizon - t)
        return self._least_costs(t, expected, resource[:, 0])[1][:, :1]

    @property
    def _method(self) -> str:
        if self._nested:
            return "nested cumulative bounds: the tank bounds every prefix of what is bought"
        return "dynamic program over order-up-to levels: fixed costs or an action set bar a greedy"

    @property
    def _nested(self) -> bool:
        return self.fixed_cost == 0.0 and self.action_set == "order-up-to"

    def _least_costs(
        self, t: int, prices: FloatArray, levels: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Costs (n,) and purchases (n, T - t) for prices (n, T - t) and levels (n,) at t."""
        from counterplan.planning.nested import allocate_tank

        legs = np.asarray(self.legs)[t:]
        if prices.shape[1:] != legs.shape:
            raise InputError(
                f"paths must have {len(legs)} prices, for t={t} .. {self.horizon - 1}, got "
                f"{prices.shape[1]}"
            )
        if self._nested:
            return allocate_tank(prices, legs, self.capacity, levels)
        from counterplan.domains.bunkering_compiled import grid_hindsight

        costs, amounts = np.empty(len(prices)), np.empty(prices.shape)
        for level in np.unique(levels):
            rows = np.flatnonzero(levels == level)
            grid = self._levels_from(t, float(level))
            costs[rows], amounts[rows] = grid_hindsight(prices[rows], grid, self.fixed_cost)
        return costs, amounts

    def _levels_from(self, t: int, level: float) -> Levels:
        return Levels.build(np.asarray(self.legs)[t:], self.capacity, level, self.action_set)

    # --- Exact values -------------------------------------------------------------------------

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
        """(n,) by how much each action's expected cost exceeds that of the best one.

        Summed along an episode its mean is the cost of a policy above the optimum, with the noise
        of the futures taken out.
        """
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

    # --- Compiled -----------------------------------------------------------------------------

    def compiled(self, quantiles: int = 0) -> Kernel:
        """For the search; `quantiles` equally likely prices at each port, 0: continuous."""
        from counterplan.domains.bunkering_compiled import FUNCTIONS, pack, plan_costs
        from counterplan.planning.search.kernel import Kernel

        whole_number(quantiles, "quantiles")
        if not isinstance(self.process, CompiledProcess):
            raise NotApplicableError(
                f"{type(self.process).__name__} is not compiled (it has no kernel_parameters); "
                "plan without compiling, which is slower"
            )
        block = self.process.kernel_parameters(self.horizon, quantiles)
        scaled = dependence(self.process) == "multiplies"
        return Kernel(
            **FUNCTIONS,
            parameters=pack(self.levels, self.fixed_cost, scaled, plan_costs(self), block),
            horizon=self.horizon,
            exogenous=self.start.exogenous,
            resource=self.start.resource,
            action_size=1,
            most_actions=self.levels.targets.shape[1] + 1,
            most_successors=self.process.most_successors(quantiles),
        )

    def bound_tables(self, samples: int = 2_000, seed: Seed = 0) -> FloatArray:
        """Bounds on the cost to go from every arrival; layout: bunkering_kernel."""
        from counterplan.domains.bunkering_compiled import bound_tables

        return bound_tables(self, samples, seed)

    def discretised(self, quantiles: int) -> DiscreteBunkering:
        """The same voyage with `quantiles` equally likely prices at each port."""
        whole_number(quantiles, "quantiles", minimum=1)
        return DiscreteBunkering(
            self.config,
            quantile_prices(self.process, quantiles),
            self.dt,
            self.legs,
            self.capacity,
            self.fixed_cost,
            self.action_set,
            self.executed,
        )

    # --- In words -----------------------------------------------------------------------------

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
    ) -> Bunkering:
        """The voyage that options of the command line ask for.

        config      row of the paper's table: A (default) to F
        prices      independent ports (default) or one global price
        prices_csv  recorded prices (.csv with Date and Price) instead of a configuration's; between
                    two ports they move as between two rows
        capacity    of the tank
        """
        kind: Any = prices or "independent"
        if kind not in ("independent", "global"):
            raise InputError(
                f"--prices {kind!r}: bunkering's are 'independent' or 'global'; choose one"
            )
        check_config(config)
        size = cls.capacity if capacity is None else positive_number(capacity, "a number")
        if prices_csv is None:
            return cls(config or "A", kind, capacity=size)
        if config is not None:
            raise InputError("--config names prices, and --prices-csv brings its own: give one")
        record = BootstrapPrices.from_csv(prices_csv, kind=kind)
        problem = cls(prices=record, capacity=size)
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
        """Tables of voyages: price, action and level."""
        return Columns(
            self,
            (Column("price", "the price", "price"),),
            (Column("action", "the units bought, 0 for none", "amount"),),
            (Column("level", "what is in the tank", "amount", most=self.capacity),),
        )

    def axes(self) -> Axes:
        """Prices, units bought and units in the tank, by port."""
        titles = (("price",), ("units bought",), ("units in the tank",))
        return Axes(*titles, step="port t", scenario="voyage")

    def describe(self, action: FloatArray) -> str:
        """What is bought."""
        return f"buy {action[0]:g} units" if action[0] > 0 else "buy nothing"

    def describe_state(self, state: State) -> str:
        """The port, its price and the tank."""
        t, (price,), (level,) = state
        return f"port {t + 1} of {self.horizon + 1}, price {price:g}, {level:g} units in the tank"


class DiscreteBunkering(Bunkering):
    """Bunkering with finitely many prices at each port."""

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The next port's prices (M, 1) and their probabilities (M,)."""
        assert isinstance(self.process, QuantilePrices)
        return self.process.successors(t, exogenous)


CHOICES = {
    "action_set": ("order-up-to", "extreme"),
    "executed": ("open-loop", "re-solve"),
}
