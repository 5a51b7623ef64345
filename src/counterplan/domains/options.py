"""Options (Sec. G): when to exercise each, on the dates 0, dt, ..., maturity; the American option.

    x_t = prices (B,), d_t = (B,) ones while held, a_t <= d_t, sum a_t <= cap,
    r_t = e^{-r t dt} sum_b payoff_b(S_b) a_b

In hindsight options are assigned to dates, at most `cap` on a date:

    max sum_{t,b} w_tb a_tb,   sum_t a_tb <= held_b,   sum_b a_tb <= cap,   a_tb in {0, 1}

Where every option's best date is free, that is the answer; else an assignment problem with `cap`
places on every date, solved exactly. Where the cap can never bind, the options do not touch each
other, and their own optima are the optimum. The American option is B = cap = 1.

Prices grow by r - q a year on average (G.2.1 omits q), as geometric Brownian motion or on a
binomial lattice. Money is discounted by e^{-r t dt}; gamma = 0.9 a step would make exercising at
once optimal in configurations B to F.

Bounds of one option's value at date t and price S, in money of date 0:

    lower  max over dates s >= t of E[e^{-r s dt} payoff(S_s) | S_t = S]       one fixed date
    upper  the greater of exercising now and, for later dates, exercising in hindsight:
           E[max over dates s > t of e^{-r s dt} payoff(S_s) | S_t = S]

Both are convex in S: payoffs are, S_s is S times something independent of it, and neither maxima
nor means undo it. Between the nodes of a table, tangents at the nodes therefore stay below the
lower bound, and chords above the mean in the upper one: the tables are bounds at every price.
Beyond the last node that mean rises no faster for a call than E[max_s e^{-r s dt} S_s / S_t] and
falls for a put; at S = 0 it is known.

Tight bounds. What a rule earns bounds the value from below; above, by duality, it is hindsight
minus a martingale. For any martingale M_b of option b with M_0 = 0 (Rogers; Haugh and Kogan),

    V* <= E[ max over options' dates, at most cap on one, of sum_b e^{-r t dt} payoff_b - M_b ]

with equality, without a cap, where M is that of the option's optimal value (Andersen and Broadie):

    M_{t+1} - M_t = e^{-r (t+1) dt} V_{t+1}(S_{t+1}) - e^{-r t dt} C_t(S_t)

with V = max(payoff, C) and C of `option_contract`. No simulation is nested in it. The rule
exercises each option where that is best for it alone. Where that is more than `cap` at once, those
that gain most over waiting come first; and where more options would pay than the dates left can
take, the first of them go now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.option_contract import OPTIONS as CONFIGS
from counterplan.domains.option_contract import Bermudan, LatticeExercise, OptionContract
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.bounds import Penalised
from counterplan.planning.compiled import Layout, inlined, jit, play_with
from counterplan.planning.description import MONEY, Axes, Column, Columns, check_config
from counterplan.planning.model import (
    Allocation,
    HasFutures,
    Sense,
    State,
    require_held,
    require_prices,
)
from counterplan.planning.policies import KnownRule, Rule
from counterplan.planning.processes.laws import draw
from counterplan.planning.processes.prices import GBM, BinomialLattice

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

Prices: TypeAlias = Literal["gbm", "binomial"]
# Nodes of the bounds' tables, and how many deviations of the whole term they reach.
NODES = 257
REACH = 6.0
# The upper bound's nodes are raised by this many standard errors of their Monte Carlo means, so
# that one of them is too low with a probability of 0.1 %.
MARGIN = 3.0
# Fewer paths that pay give no standard error to rely on.
FEW = 100


class OptionProblem(HasFutures):
    """What one option and several have in common: B contracts with the same dates and a cap.

    contracts  B of them
    most       how many may be exercised on one date
    singles    each option as a problem of its own
    """

    sense: ClassVar[Sense] = "max"

    if TYPE_CHECKING:

        @property
        def contracts(self) -> tuple[OptionContract, ...]: ...

        @property
        def most(self) -> int: ...

        @property
        def singles(self) -> Sequence[AmericanOption]: ...

        def compiled(self, quantiles: int = 0) -> Kernel: ...

    @property
    def horizon(self) -> int:
        return self.contracts[0].dates

    @property
    def start(self) -> State:
        return State(0, self.process.start, np.ones(len(self.contracts)))

    @cached_property
    def _kernel(self) -> Kernel:
        return self.compiled()

    def actions(self, state: State) -> FloatArray:
        """(m, B) what may be exercised, nothing first."""
        require_prices(state)
        require_held(state)
        kernel = self._kernel
        rows = np.empty((kernel.most_actions, kernel.action_size))
        x, d = (np.array(part, dtype=np.float64) for part in state[1:])
        return rows[: kernel.actions(kernel.parameters, state.t, x, d, rows)]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Payoffs (n,) in money of date 0, and what is held after (n, B)."""
        wrong = (actions < 0.0) | (actions > resource)
        if wrong.any():
            i, b = (int(place) for place in np.argwhere(wrong)[0])
            which = f"option {b + 1}" if actions.shape[1] > 1 else "the option"
            raise InfeasibleError(
                f"exercising {actions[i, b]:g} of {which} at date t={t}, when {resource[i, b]:g} "
                "of it is still held: 0 holds, 1 exercises"
            )
        if self.most < len(self.contracts) and (actions.sum(axis=1) > self.most).any():
            raise InfeasibleError(
                f"exercising {actions.sum(axis=1).max():g} options at date t={t}: at most "
                f"{self.most} may be exercised on one date"
            )
        payoffs = self.payoffs(exogenous, self.contracts[0].discount(t))
        payoffs *= actions
        return reduce(np.add, payoffs.T), resource - actions

    @cached_property
    def _terms(self) -> tuple[FloatArray, ...]:
        """(B,) each: signs, strikes and the growth rates of the prices."""
        return tuple(np.array([(one.sign, one.strike, one.drift) for one in self.contracts]).T)

    def payoffs(self, prices: FloatArray, discounts: FloatArray | float = 1.0) -> FloatArray:
        """What each option pays at prices (..., B), times discounts."""
        signs, strikes, _ = self._terms
        gains = np.subtract(prices, strikes)
        gains *= signs * discounts
        return np.maximum(gains, 0.0, out=gains)

    def discounted(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, B) payoffs in money of date 0 along paths that begin at t."""
        dates = np.arange(t, t + paths.shape[1])
        return self.payoffs(paths, self.contracts[0].discount(dates)[:, np.newaxis])

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, B) what is wanted, as far as it is still held."""
        return np.where((wanted > 0.5) & (resource > 0.5), 1.0, 0.0)

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best dates of each path, the first of several; none where no payoff is positive."""
        state = state or self.start
        held = np.broadcast_to(state.resource, (len(paths), len(self.contracts)))
        method = "best date: one unit of one resource, no other bounds"
        if len(self.contracts) > 1:
            method = "assignment of options to dates: one date per option, at most `cap` on a date"
        return Allocation(*assign(self.discounted(state.t, paths), held, self.most), method)

    def replan(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, B) what the plans for expected prices exercise at once."""
        years = self.contracts[0].step * np.arange(self.horizon - t)[:, np.newaxis]
        expected = np.asarray(exogenous[:, np.newaxis] * np.exp(self._terms[2] * years))
        weights = self.discounted(t, expected)
        if self.most < len(self.contracts):
            return assign(weights, resource, self.most)[1][:, 0]
        now = (weights.argmax(axis=1) == 0) & (weights[:, 0] > 0) & (resource > 0.5)
        return np.where(now, 1.0, 0.0)

    def penalised(self, samples: int, seed: Seed) -> Penalised:
        """Both bounds on sampled paths: the rule, and hindsight, each minus the martingales."""
        paths = self.sample_paths(samples, seed)
        gains, never, waiting = self.without_luck(paths)
        rule, held = self.capped(lambda t, _: waiting[:, t]), np.ones(never.shape)
        executed = never.sum(axis=1)
        for t in range(self.horizon):
            chosen = rule(t, paths[:, t], held)
            executed += (chosen * gains[:, t]).sum(axis=1)
            held -= chosen
        best, _ = assign(gains, np.ones(never.shape), self.most)
        policy = f"{self.best_known_policy().name}, martingales as control variate"
        penalty = "hindsight (assignment) minus the martingales of the options' optimal values"
        return Penalised(executed, never.sum(axis=1) + best, policy, penalty)

    def without_luck(self, paths: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Payoffs along paths (n, T, B) less the options' martingales, in money of date 0: what
        exercising on each date gains over never exercising (n, T, B), what the latter earns (n, B),
        and what waiting is worth, in money of its date (n, T, B)."""
        dates = range(self.horizon)
        waiting = np.stack([self.waiting(t, paths[:, t]) for t in dates], axis=1)
        payoffs = self.discounted(0, paths)
        later = self.contracts[0].discount(np.arange(self.horizon))[:, np.newaxis] * waiting
        martingales = np.zeros(paths.shape)
        np.cumsum(np.maximum(payoffs, later)[:, 1:] - later[:, :-1], axis=1, out=martingales[:, 1:])
        never = -martingales[:, -1]
        return payoffs - martingales - never[:, np.newaxis], never, waiting

    def capped(self, waiting: Callable[[int, FloatArray], FloatArray]) -> Rule:
        """Each option is exercised where that pays no less than (t, prices (n, B)) -> (n, B)
        waiting is thought to be worth, at most `cap` at once."""

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            payoffs, later = self.payoffs(exogenous), waiting(t, exogenous)
            possible = (resource > 0.5) & (payoffs > 0)
            wanted = (possible & (payoffs >= later)).sum(axis=1)
            crowded = possible.sum(axis=1) - self.most * (self.horizon - 1 - t)
            wanted = np.minimum(np.maximum(wanted, crowded), self.most)
            gains = np.where(possible, payoffs - later, -np.inf)
            rank = np.argsort(np.argsort(-gains, axis=1, kind="stable"), axis=1)
            return np.where(rank < wanted[:, np.newaxis], 1.0, 0.0)

        return rule

    def best_known_policy(self) -> KnownRule:
        """What is best for each option alone, plus the cap: where it binds and nothing is exact."""
        return KnownRule("optimal for each option, capped", self.capped(self.waiting))

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n, B) what holding each option alone and then exercising it best is worth, in money of
        date t."""
        each = enumerate(self.singles)
        return np.column_stack([one.exercise.continuation(t, prices[:, b]) for b, one in each])

    def continuation(self, t: int, prices: FloatArray) -> FloatArray:
        """(n, B) the same, where the cap can never bind."""
        if self.most < len(self.contracts):
            raise NotApplicableError(
                f"with a cap of {self.most} for {len(self.contracts)} options there is no exact "
                "value; value_bounds(method='tight') brackets it"
            )
        return self.waiting(t, prices)

    def optimal_value(self, state: State | None = None) -> float:
        """In money of date 0: by quadrature to about 1e-12 of the strikes, exact on a lattice."""
        t, exogenous, resource = state or self.start
        best = np.maximum(self.payoffs(exogenous), self.continuation(t, exogenous[np.newaxis])[0])
        return float(self.contracts[0].discount(t) * (resource * best).sum())

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """Exercise (n, B) where the payoff is positive and no less than waiting is worth."""
        payoff, waiting = self.payoffs(exogenous), self.continuation(t, exogenous)
        return np.where((resource > 0.5) & (payoff > 0) & (payoff >= waiting), 1.0, 0.0)

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) by how much each action is worth less than the best one, in money of date 0."""
        now, later = self.payoffs(exogenous), self.continuation(t, exogenous)
        missed = np.maximum(now, later) - actions * now - (1.0 - actions) * later
        total = np.where(resource > 0.5, missed, 0.0).sum(axis=1)
        return np.asarray(self.contracts[0].discount(t) * total)


def assign(weights: FloatArray, held: FloatArray, cap: int) -> tuple[FloatArray, FloatArray]:
    """Values (n,) and actions (n, steps, B) for weights (n, steps, B) and held (n, B).

    What weighs nothing or less is not exercised; of equally good dates the first.
    """
    n, _, count = weights.shape
    best = np.arange(n)[:, np.newaxis], weights.argmax(axis=1), np.arange(count)
    gains = weights[best]
    chosen = (gains > 0) & (held > 0.5)
    actions = np.zeros(weights.shape)
    actions[best] = chosen
    gains *= chosen
    values = reduce(np.add, gains.T)
    if cap < weights.shape[2]:
        for i in np.flatnonzero(actions.sum(axis=2).max(axis=1) > cap):
            actions[i] = _assign_one(weights[i], held[i], cap)
            values[i] = (weights[i] * actions[i]).sum()
    return values, actions


def _assign_one(weights: FloatArray, held: FloatArray, cap: int) -> FloatArray:
    """(steps, B) for one path."""
    from scipy.optimize import linear_sum_assignment

    gains = np.maximum(weights, 0.0) * (held > 0.5)
    options, places = linear_sum_assignment(np.repeat(gains.T, cap, axis=1), maximize=True)
    actions = np.zeros(weights.shape)
    dates = places // cap
    actions[dates, options] = gains[dates, options] > 0
    return actions


def price_nodes(contract: OptionContract, count: int) -> FloatArray:
    """(count,) prices to tabulate at, evenly spaced in their logarithms."""
    reach = REACH * contract.volatility * np.sqrt(contract.maturity)
    reach += abs(contract.drift) * contract.maturity
    low, high = np.sort(np.log([contract.price, contract.strike]))
    return np.exp(np.linspace(low - reach, high + reach, count))


def fixed_dates(
    exercise: Bermudan | LatticeExercise, nodes: FloatArray, T: int
) -> tuple[FloatArray, FloatArray]:
    """(T, N, 2) value and slope at the nodes (N,), in money of now, of exercising in s dates' time,
    and of the best of the dates 0 .. s."""
    fixed = np.array([np.column_stack(exercise.fixed_date(nodes, s)) for s in range(T)])
    best = fixed.copy()
    for s in range(1, T):
        better = fixed[s, :, :1] > best[s - 1, :, :1]
        best[s] = np.where(better, fixed[s], best[s - 1])
    return fixed, best


@dataclass(frozen=True)
class AmericanOption(OptionProblem):
    """One option to exercise at the best of its dates.

    config  'A' .. 'F' of Table 11, or an OptionContract
    prices  'gbm', or 'binomial': the lattice with one step per date
    """

    config: str | OptionContract = "A"
    prices: Prices = "gbm"

    most: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.prices not in ("gbm", "binomial"):
            raise InputError(f"prices {self.prices!r} are unknown: choose 'gbm' or 'binomial'")
        if isinstance(self.process, BinomialLattice):  # finitely many successors
            object.__setattr__(self, "successors", self.process.successors)

    @cached_property
    def contract(self) -> OptionContract:
        if isinstance(self.config, OptionContract):
            return self.config
        if self.config not in CONFIGS:
            raise InputError(
                f"option config {self.config!r} is unknown: choose {', '.join(CONFIGS)}, "
                "or pass an OptionContract"
            )
        return CONFIGS[self.config]

    @property
    def contracts(self) -> tuple[OptionContract, ...]:
        return (self.contract,)

    @property
    def singles(self) -> tuple[AmericanOption, ...]:
        return (self,)

    @cached_property
    def process(self) -> GBM | BinomialLattice:
        c = self.contract
        if self.prices == "gbm":
            return GBM(c.price, c.drift, c.volatility, c.step)
        return BinomialLattice(c.price, c.rate, c.volatility, c.step, c.dividend)

    @cached_property
    def exercise(self) -> Bermudan | LatticeExercise:
        """The optimal exercise."""
        if isinstance(self.process, BinomialLattice):
            return LatticeExercise(self.contract, self.process)
        return Bermudan.solve(self.contract)

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
        functions = {"actions": actions, "step": step, "policy": policy, "bounds": bounds}
        sizes = {"most_actions": 2, "most_successors": process.most_successors(quantiles)}
        return Kernel.of(self, play, **functions, parameters=parameters, action_size=1, **sizes)

    def bound_tables(self, samples: int, seed: Seed) -> FloatArray:
        """The bounds at nodes of the price, for every date, as `BOUND_TABLES` has them."""
        c, T = self.contract, self.horizon
        samples = whole_number(samples, "samples", minimum=2)
        prices = price_nodes(c, NODES)
        first, second = np.log(prices[:2])
        fixed, best = fixed_dates(self.exercise, prices, T)
        factors = self.process.sample_paths(samples, T, seed, start=np.ones(1))[:, :, 0]
        discounts = c.discount(np.arange(T))
        found = best_dates(factors, discounts, c.sign, c.strike, prices)
        # The best of several payoffs is less than their sum: a bound where too few paths pay.
        total = np.cumsum([np.zeros(NODES), *fixed[1:, :, 0]], axis=0)
        upper = np.where(found[0] < FEW, total, _raised(found, samples))
        # A strike of 0 and a price of 1: how fast the hindsight value of a call can rise.
        steepest = _raised(best_dates(factors, discounts, 1.0, 0.0, np.ones(1)), samples)[:, 0]
        return BOUND_TABLES.pack(
            first=first,
            width=second - first,
            nodes=prices,
            steepest=discounts * (steepest[::-1] if c.sign > 0 else 0.0),
            rows=discounts[:, None, None] * best[::-1],
            upper=discounts[:, None] * upper[::-1],
        )

    def _edges(self) -> FloatArray:
        """(T,) where exercising begins to beat waiting for any fixed date, to the nodes' width."""
        c, prices = self.contract, price_nodes(self.contract, NODES)
        fixed, _ = fixed_dates(self.exercise, prices, self.horizon)
        waiting = np.maximum.accumulate(fixed[1:, :, 0])[::-1]
        payoff = c.payoff(prices)
        worth = (payoff > 0) & (payoff >= waiting)
        call, put = np.where(worth, prices, np.inf).min(axis=1), np.where(worth, prices, 0.0)
        return np.append(call if c.sign > 0 else put.max(axis=1), c.strike)

    about: ClassVar[str] = "an option: whether to exercise it now or to hold it"

    @classmethod
    def configured(cls, config: str | None = None, prices: str | None = None) -> AmericanOption:
        """The option that options of the command line ask for.

        config  row of the paper's table: A (default) to F
        prices  gbm (default) or binomial
        """
        check_config(config)
        kind: Any = prices or "gbm"
        if kind not in ("gbm", "binomial"):
            raise InputError(f"--prices {kind!r}: an option's are 'gbm' or 'binomial'; choose one")
        return cls(config or "A", kind)

    def columns(self) -> Columns:
        exercised = Column("action", "1 exercises the option, 0 holds it", "flag")
        return Columns(self, (Column("price", "the price", "price"),), (exercised,))

    def axes(self) -> Axes:
        titles = (("price",), ("exercise",), ("held",))
        choices = ("hold", "exercise")
        return Axes(*titles, step="date t", scenario="option path", choices=choices, unit=MONEY)

    def describe(self, action: FloatArray) -> str:
        return "exercise" if action[0] > 0 else "hold"

    def describe_state(self, state: State) -> str:
        return f"date {state.t + 1} of {self.horizon}, price {state.exogenous[0]:g}"


def _raised(found: FloatArray, n: int) -> FloatArray:
    """Means and `MARGIN` standard errors, from sums and sums of squares over n paths."""
    means = found[1] / n
    variance = np.maximum(found[2] / n - means**2, 0.0) * n / (n - 1)
    return np.asarray(means + MARGIN * np.sqrt(variance / n))


# --- Compiled: x = (price,), d = (1,) held or (0,), action = (0,) hold or (1,) exercise --------

# edges: prices beyond which waiting for any fixed date is worth less than exercising
OPTION = Layout("rest sign strike", "T", discounts="T", edges="T", process="*")
# Nodes evenly spaced in their logarithms; the steepest rise beyond the last one; for every date and
# node value and slope of the lower bound, and the mean in the upper one.
BOUND_TABLES = Layout("first width", "T N", nodes="N", steepest="T", rows="T N 2", upper="T N")
option_of, tables_of = OPTION.view, BOUND_TABLES.view


@inlined
def node_below(first, width, count, price):  # type: ignore[no-untyped-def]
    """The last node at or below the price; -1 below them all."""
    return min(max(int(np.floor((np.log(price) - first) / width)), -1), count - 1)


@inlined
def highest_tangent(least, rows, nodes, i, price):  # type: ignore[no-untyped-def]
    """The highest tangent by rows (value, slope) at the nodes around the price, or `least`."""
    best = least
    for j in range(max(i, 0), min(i + 2, nodes.size)):
        best = max(best, rows[j, 0] + rows[j, 1] * (price - nodes[j]))
    return best


@inlined
def chord(values, nodes, i, price, at_zero, steepest):  # type: ignore[no-untyped-def]
    """The straight line between the values (N,) at the nodes around the price; from its value at a
    price of 0 below them, and beyond them no steeper than `steepest`."""
    if i == nodes.size - 1:
        return values[i] + steepest * (price - nodes[i])
    low, below = (nodes[i], values[i]) if i >= 0 else (0.0, at_zero)
    return below + (values[i + 1] - below) * (price - low) / (nodes[i + 1] - low)


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
def play(parameters, t, x, d, generator, room):  # type: ignore[no-untyped-def]
    """A rollout, all in one."""
    state = parameters, t, x, d
    return play_with(draw, actions, step, policy, state, generator, room)


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
    i = node_below(b.first, b.width, b.N, price)
    now = _payoff(p, t, price)
    out[0], out[1] = highest_tangent(now, b.rows[t], b.nodes, i, price), now
    if t < p.T - 1:
        # At S = 0 a put pays its strike on the next date and a call never pays.
        at_zero = _payoff(p, t + 1, 0.0)
        out[1] = max(now, chord(b.upper[t], b.nodes, i, price, at_zero, b.steepest[t]))


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
