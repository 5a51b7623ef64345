"""The American option (Sec. G): when to exercise, on the dates 0, dt, ..., maturity.

    x_t = (S_t,), d_t = (1,) while held, a_t = (1,) exercise or (0,) hold,
    r_t = e^{-r t dt} payoff(S_t) a_t

Prices grow by r - q a year on average (G.2.1 omits q), as geometric Brownian motion or on a
binomial lattice. Money is discounted by e^{-r t dt}; gamma = 0.9 a step would make exercising at
once optimal in configurations B to F.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.option_contract import (
    Bermudan,
    OptionContract,
    check_exercise,
    european_with_slope,
    lattice_values,
    option_contract,
)
from counterplan.domains.problems import check_config
from counterplan.errors import InputError
from counterplan.planning.description import Axes, Column, Columns
from counterplan.planning.model import (
    Allocation,
    HasFutures,
    Sense,
    State,
    require_held,
    require_prices,
)
from counterplan.planning.processes.prices import GBM, BinomialLattice

if TYPE_CHECKING:
    from counterplan.planning.bounds import Penalised
    from counterplan.planning.search.kernel import Kernel

Prices: TypeAlias = Literal["gbm", "binomial"]
PRICES = ("gbm", "binomial")
# Nodes of the bounds' tables, and how many deviations of the whole term they reach.
NODES = 257
REACH = 6.0
# The upper bound's nodes are raised by this many standard errors of their Monte Carlo means, so
# that one of them is too low with a probability of 0.1 %.
MARGIN = 3.0
# Fewer paths that pay give no standard error to rely on.
FEW = 100


@dataclass(frozen=True)
class AmericanOption(HasFutures):
    """One option to exercise at the best of its dates.

    config  'A' .. 'F' of Table 11, or an OptionContract
    prices  'gbm', or 'binomial': the lattice with one step per date
    """

    config: str | OptionContract = "A"
    prices: Prices = "gbm"

    def __new__(cls, config: str | OptionContract = "A", prices: Prices = "gbm") -> AmericanOption:
        """On the lattice prices have finitely many successors: a model of another type."""
        return object.__new__(LatticeOption if prices == "binomial" else cls)

    def __post_init__(self) -> None:
        if self.prices not in PRICES:
            raise InputError(f"prices {self.prices!r} are unknown: choose 'gbm' or 'binomial'")
        _ = self.contract, self.process

    @cached_property
    def contract(self) -> OptionContract:
        """Its terms."""
        return option_contract(self.config)

    @cached_property
    def process(self) -> GBM | BinomialLattice:
        """The price of the share."""
        c = self.contract
        return GBM(c.price, c.drift, c.volatility, c.step)

    @property
    def horizon(self) -> int:
        """T exercise dates, the first at once."""
        return self.contract.dates

    @property
    def sense(self) -> Sense:
        """Payoffs."""
        return "max"

    @property
    def start(self) -> State:
        """Held, at today's price."""
        return State(0, self.process.start, np.ones(1))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The next prices: (n, 1) -> (n, 1)."""
        return self.process.draw(t, exogenous, generator)

    def actions(self, state: State) -> FloatArray:
        """Hold, and exercise while held: (m, 1)."""
        require_prices(state)
        require_held(state)
        return np.array([[0.0], [1.0]]) if state.resource[0] > 0.5 else np.zeros((1, 1))

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Payoffs (n,) in money of date 0, and what is held after (n, 1)."""
        check_exercise(t, resource, actions)
        payoff = self.contract.discount(t) * self.contract.payoff(exogenous[:, 0])
        return np.asarray(actions[:, 0] * payoff), resource - actions

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best date of each path, the first of several; none where no payoff is positive."""
        state = state or self.start
        steps = paths.shape[1]
        discounts = self.contract.discount(np.arange(state.t, state.t + steps))
        payoffs = discounts * self.contract.payoff(paths[:, :, 0]) * state.resource[0]
        best = payoffs.argmax(axis=1)
        values = payoffs[np.arange(len(paths)), best]
        actions = np.zeros((len(paths), steps, 1))
        actions[np.arange(len(paths)), best, 0] = values > 0
        return Allocation(values, actions, "best date: one unit of one resource, no other bounds")

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, 1) what is wanted, as far as the option is still held."""
        return np.where((wanted > 0.5) & (resource > 0.5), 1.0, 0.0)

    def replan(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 1) exercise where, for expected prices, no later date pays more."""
        c = self.contract
        ahead = np.arange(self.horizon - t)
        expected = np.asarray(exogenous * np.exp(c.drift * c.step * ahead))
        payoffs = c.discount(ahead) * c.payoff(expected)
        best = (payoffs[:, 0] > 0) & (payoffs.argmax(axis=1) == 0)
        return np.where(best[:, np.newaxis] & (resource > 0.5), 1.0, 0.0)

    def penalised(self, samples: int, seed: Seed) -> Penalised:
        """Tight bounds on fresh paths, by Longstaff-Schwartz and its martingale."""
        from counterplan.domains.option_dual import penalised_option

        return penalised_option(self, samples, seed)

    def without_luck(self, paths: FloatArray, actions: FloatArray) -> FloatArray:
        """(n,) what actions (n, T, 1) earned, minus the martingale of the optimal value."""
        from counterplan.domains.option_dual import without_luck

        return without_luck(self, paths, actions)

    @cached_property
    def bermudan(self) -> Bermudan:
        """The optimal exercise under geometric Brownian motion."""
        return Bermudan.solve(self.contract)

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n,) the value at date t, in money of date t, of holding on and then exercising best."""
        return self.bermudan.continuation(t, prices)

    def optimal_value(self, state: State | None = None) -> float:
        """The Bermudan value in money of date 0: by quadrature to about 1e-12 of the strike."""
        t, exogenous, resource = state or self.start
        now = self.contract.payoff(exogenous)
        best = np.maximum(now, self.waiting(t, exogenous))[0]
        return float(resource[0] * self.contract.discount(t) * best)

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """Exercise (n, 1) where the payoff is positive and no less than waiting is worth."""
        payoff = self.contract.payoff(exogenous)
        worth = (payoff > 0) & (payoff >= self.waiting(t, exogenous[:, 0])[:, np.newaxis])
        return np.where((resource > 0.5) & worth, 1.0, 0.0)

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) by how much each action is worth less than the best one, in money of date 0."""
        now, later = self.contract.payoff(exogenous), self.waiting(t, exogenous[:, 0])[:, None]
        missed = np.maximum(now, later) - actions * now - (1.0 - actions) * later
        return np.asarray(self.contract.discount(t) * np.where(resource > 0.5, missed, 0.0)[:, 0])

    def fixed_date(self, prices: FloatArray, dates_to_go: int) -> tuple[FloatArray, FloatArray]:
        """(n,) the value now of exercising that many dates later, and its slope in the price."""
        return european_with_slope(self.contract, prices, dates_to_go)

    def compiled(self, quantiles: int = 0) -> Kernel:
        """The model as compiled functions; its bounds need `bound_tables`."""
        from counterplan.domains import options_compiled as own
        from counterplan.planning.search.kernel import Kernel

        c, process = self.contract, self.process
        whole_number(quantiles, "quantiles")
        discounts = c.discount(np.arange(c.dates))
        header = np.array([c.dates, c.sign, c.strike])
        block = process.kernel_parameters(c.dates, quantiles)
        lattice = isinstance(process, BinomialLattice)
        return Kernel(
            draw=own.draw,
            actions=own.actions,
            step=own.step,
            parameters=np.concatenate([header, discounts, self._edges(), block]),
            horizon=c.dates,
            exogenous=self.start.exogenous,
            resource=self.start.resource,
            action_size=1,
            most_actions=2,
            successors=own.successors,
            most_successors=2 if lattice else quantiles,
            policy=own.policy,
            bounds=own.bounds,
        )

    def bound_tables(self, samples: int, seed: Seed) -> FloatArray:
        """The bounds at nodes of the price, for every date (see `options_kernel`)."""
        from counterplan.domains.options_compiled import best_dates

        c, T = self.contract, self.horizon
        samples = whole_number(samples, "samples", minimum=2)
        prices, logs = self.nodes()
        fixed = [self.fixed_date(prices, s) for s in range(T)]
        factors = self.process.sample_paths(samples, T, seed, start=np.ones(1))[:, :, 0]
        discounts = c.discount(np.arange(T))
        found = best_dates(factors, discounts, c.sign, c.strike, prices)
        # The best of several payoffs is less than their sum: a bound where too few paths pay.
        total = np.cumsum([np.zeros(NODES), *(values for values, _ in fixed[1:])], axis=0)
        upper = np.where(found[0] < FEW, total, _raised(found, samples))
        # A strike of 0 and a price of 1: how fast the hindsight value of a call can rise.
        steepest = _raised(best_dates(factors, discounts, 1.0, 0.0, np.ones(1)), samples)
        table = np.empty((T, 1 + 3 * NODES))
        for t in range(T):
            left = T - 1 - t
            values, slopes = (np.array(rows) for rows in zip(*fixed[: left + 1], strict=True))
            best = values.argmax(axis=0)
            row = table[t, 1:].reshape(NODES, 3)
            row[:, 0], row[:, 1] = (rows[best, np.arange(NODES)] for rows in (values, slopes))
            row[:, 2] = upper[left]
            table[t, 0] = steepest[left, 0] if c.sign > 0 else 0.0
            table[t] *= discounts[t]
        return np.concatenate([[NODES, logs[0], logs[1] - logs[0]], prices, table.ravel()])

    def nodes(self, count: int = NODES) -> tuple[FloatArray, FloatArray]:
        """(count,) prices to tabulate at, and their logarithms, which are evenly spaced."""
        c = self.contract
        reach = REACH * c.volatility * np.sqrt(c.maturity) + abs(c.drift) * c.maturity
        middle = 0.5 * (np.log(c.price) + np.log(c.strike))
        apart = 0.5 * abs(np.log(c.price / c.strike))
        logs = np.linspace(middle - apart - reach, middle + apart + reach, count)
        return np.exp(logs), logs

    def _edges(self) -> FloatArray:
        """(T,) where exercising begins to beat waiting for any fixed date, to the nodes' width."""
        c, T = self.contract, self.horizon
        prices, _ = self.nodes()
        payoff = c.payoff(prices)
        waiting = np.zeros(NODES)
        edges = np.full(T, c.strike)
        for t in range(T - 2, -1, -1):
            waiting = np.maximum(waiting, self.fixed_date(prices, T - 1 - t)[0])
            worth = (payoff > 0) & (payoff >= waiting)
            if c.sign > 0:
                edges[t] = prices[worth].min(initial=np.inf)
            else:
                edges[t] = prices[worth].max(initial=0.0)
        return edges

    # --- In words -----------------------------------------------------------------------------

    about: ClassVar[str] = "an option: whether to exercise it now or to hold it"

    @classmethod
    def configured(cls, config: str | None = None, prices: str | None = None) -> AmericanOption:
        """The option that options of the command line ask for.

        config  row of the paper's table: A (default) to F
        prices  gbm (default) or binomial
        """
        check_config(config)
        kind: Any = prices or "gbm"
        if kind not in PRICES:
            raise InputError(f"--prices {kind!r}: an option's are 'gbm' or 'binomial'; choose one")
        return cls(config or "A", kind)

    def columns(self) -> Columns:
        """Tables of what happened to an option: price and action."""
        exercised = Column("action", "1 exercises the option, 0 holds it", "flag")
        return Columns(self, (Column("price", "the price", "price"),), (exercised,))

    def axes(self) -> Axes:
        """Prices, and whether the option is exercised, by date."""
        titles = (("price",), ("exercise",), ("held",))
        return Axes(*titles, step="date t", scenario="option path", choices=("hold", "exercise"))

    def describe(self, action: FloatArray) -> str:
        """Exercise or hold."""
        return "exercise" if action[0] > 0 else "hold"

    def describe_state(self, state: State) -> str:
        """The date and the price."""
        return f"date {state.t + 1} of {self.horizon}, price {state.exogenous[0]:g}"


class LatticeOption(AmericanOption):
    """An option on the binomial lattice: `AmericanOption(config, prices='binomial')`."""

    @cached_property
    def process(self) -> BinomialLattice:
        """The price of the share."""
        c = self.contract
        return BinomialLattice(c.price, c.rate, c.volatility, c.step, c.dividend)

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Up and down: values (2, 1) and probabilities (2,)."""
        return self.process.successors(t, exogenous)

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n,) the value of holding on, exact on the lattice that starts from each price."""
        process = self.process
        return lattice_values(self.contract, t, prices, process.up, process.probability)[1]

    def fixed_date(self, prices: FloatArray, dates_to_go: int) -> tuple[FloatArray, FloatArray]:
        """(n,) the value now of exercising that many dates later, and a slope that supports it."""
        process, c = self.process, self.contract
        rises = np.arange(dates_to_go + 1)
        factors = process.up ** (2.0 * rises - dates_to_go)
        odds = _binomial(dates_to_go, process.probability) * c.discount(dates_to_go)
        payoff = c.payoff(prices[:, np.newaxis] * factors)
        slopes = c.sign * ((payoff > 0) @ (odds * factors))
        return payoff @ odds, np.asarray(slopes, dtype=np.float64)


def _binomial(n: int, p: float) -> FloatArray:
    """(n + 1,) the probabilities of 0 .. n rises."""
    odds: Any = np.ones(1)
    for _ in range(n):
        odds = np.convolve(odds, [1.0 - p, p])
    return np.asarray(odds)


def _raised(found: FloatArray, n: int) -> FloatArray:
    """Means and `MARGIN` standard errors, from sums and sums of squares over n paths."""
    means = found[1] / n
    variance = np.maximum(found[2] / n - means**2, 0.0) * n / (n - 1)
    return np.asarray(means + MARGIN * np.sqrt(variance / n))
