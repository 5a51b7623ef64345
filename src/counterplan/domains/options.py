"""The American option (Sec. G): when to exercise, on the dates 0, dt, ..., maturity.

    x_t = (S_t,), d_t = (1,) while held, a_t = (1,) exercise or (0,) hold,
    r_t = e^{-r t dt} payoff(S_t) a_t

Prices grow by r - q a year on average (G.2.1 omits q), as geometric Brownian motion or on a
binomial lattice. Money is discounted by e^{-r t dt}; gamma = 0.9 a step would make exercising at
once optimal in configurations B to F.

Bounds of the option's value at date t and price S, in money of date 0:

    lower  max over dates s >= t of E[e^{-r s dt} payoff(S_s) | S_t = S]       one fixed date
    upper  the greater of exercising now and, for later dates, exercising in hindsight:
           E[max over dates s > t of e^{-r s dt} payoff(S_s) | S_t = S]

Both are convex in S: payoffs are, S_s is S times something independent of it, and neither maxima
nor means undo it. Between the nodes of a table, tangents at the nodes therefore stay below the
lower bound, and chords above the mean in the upper one: the tables are bounds at every price.
Beyond the last node that mean rises no faster for a call than E[max_s e^{-r s dt} S_s / S_t] and
falls for a put; at S = 0 it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numba import njit

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
from counterplan.planning.compiled import Layout, inlined, jit
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

    sense: ClassVar[Sense] = "max"

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
    def start(self) -> State:
        """Held, at today's price."""
        return State(0, self.process.start, np.ones(1))

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

    def controlled_outcomes(self, paths: FloatArray, actions: FloatArray) -> FloatArray:
        """(n,) what actions (n, T, 1) earned, minus the martingale of the optimal value."""
        from counterplan.domains.option_dual import controlled_outcomes

        return controlled_outcomes(self, paths, actions)

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
        from counterplan.planning.search.kernel import Kernel

        c, process = self.contract, self.process
        parameters = OPTION.pack(
            sign=c.sign,
            strike=c.strike,
            discounts=c.discount(np.arange(c.dates)),
            edges=self._edges(),
            process=process.kernel_parameters(c.dates, whole_number(quantiles, "quantiles")),
        )
        return Kernel.of(
            self,
            actions=actions,
            step=step,
            policy=policy,
            bounds=bounds,
            parameters=parameters,
            action_size=1,
            most_actions=2,
            most_successors=process.most_successors(quantiles),
        )

    def bound_tables(self, samples: int, seed: Seed) -> FloatArray:
        """The bounds at nodes of the price, for every date, as `BOUND_TABLES` has them."""
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
        steepest = _raised(best_dates(factors, discounts, 1.0, 0.0, np.ones(1)), samples)[:, 0]
        rows = np.empty((T, NODES, 3))
        for t in range(T):
            left = T - 1 - t
            values, slopes = (np.array(part) for part in zip(*fixed[: left + 1], strict=True))
            best = values.argmax(axis=0), np.arange(NODES)
            rows[t] = np.column_stack([values[best], slopes[best], upper[left]])
        return BOUND_TABLES.pack(
            first=logs[0],
            width=logs[1] - logs[0],
            nodes=prices,
            steepest=discounts * (steepest[::-1] if c.sign > 0 else 0.0),
            rows=discounts[:, None, None] * rows,
        )

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


# --- Compiled: x = (price,), d = (1,) held or (0,), action = (0,) hold or (1,) exercise --------

# edges: prices beyond which waiting for any fixed date is worth less than exercising
OPTION = Layout("rest sign strike", "T", discounts="T", edges="T", process="*")
# Nodes evenly spaced in their logarithms; the steepest rise beyond the last one; for every date and
# node value and slope of the lower bound, and the mean in the upper bound.
BOUND_TABLES = Layout("first width", "T N", nodes="N", steepest="T", rows="T N 3")
option_of, tables_of = OPTION.view, BOUND_TABLES.view


@inlined
def _payoff(p, t, price):  # type: ignore[no-untyped-def]
    return p.discounts[t] * max(p.sign * (price - p.strike), 0.0)


@jit
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """Hold; exercise, once."""
    out[0, 0] = 0.0
    if d[0] < 0.5:
        return 1
    out[1, 0] = 1.0
    return 2


@jit
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The payoff in money of date 0."""
    out[0] = d[0] - action[0]
    if action[0] == 0.0:
        return 0.0
    return action[0] * _payoff(option_of(parameters), t, x[0])


@jit
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Exercise where waiting for any fixed date is worth less: the best fixed date, re-solved."""
    p = option_of(parameters)
    return 1 if p.sign * (x[0] - p.edges[t]) >= 0.0 and m > 1 else 0


@jit
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """A fixed date, and hindsight."""
    if d[0] < 0.5:
        out[0] = out[1] = 0.0
        return
    out[0], out[1] = -np.inf, np.inf
    if tables.size == 0:
        return
    p, b, price = option_of(parameters), tables_of(tables), x[0]
    rows = b.rows[t]
    i = min(max(int(np.floor((np.log(price) - b.first) / b.width)), -1), b.N - 1)
    now = _payoff(p, t, price)
    out[0] = now
    for j in range(max(i, 0), min(i + 2, b.N)):
        out[0] = max(out[0], rows[j, 0] + rows[j, 1] * (price - b.nodes[j]))
    later = 0.0
    if i == b.N - 1 and t < p.T - 1:
        later = rows[i, 2] + b.steepest[t] * (price - b.nodes[i])
    elif t < p.T - 1:
        # Down to S = 0, where a put pays its strike on the next date and a call never pays.
        low = b.nodes[i] if i >= 0 else 0.0
        below = rows[i, 2] if i >= 0 else _payoff(p, t + 1, 0.0)
        later = below + (rows[i + 1, 2] - below) * (price - low) / (b.nodes[i + 1] - low)
    out[1] = max(now, later)


@njit(cache=True)
def best_dates(factors, discounts, sign, strike, prices):  # type: ignore[no-untyped-def]
    """How often, and sums and sums of squares, (3, T, N): over the paths of factors (n, T), of the
    best discounted payoff among the dates 1 .. s, s < T, from each of the prices (N,) at date 0."""
    n, T = factors.shape
    result = np.zeros((3, T, prices.size))
    for i in range(n):
        for j in range(prices.size):
            best = 0.0
            for s in range(1, T):
                best = max(best, discounts[s] * sign * (prices[j] * factors[i, s] - strike))
                result[0, s, j] += best > 0.0
                result[1, s, j] += best
                result[2, s, j] += best * best
    return result
