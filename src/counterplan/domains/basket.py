"""A basket of options (G.5): each is exercised at most once, at most `cap` of them on a date.

    x_t = prices (B,), d_t = (B,) ones while held, a_t <= d_t, sum a_t <= cap,
    r_t = e^{-r t dt} sum_b payoff_b(S_b) a_b

Prices are correlated geometric Brownian motions. The cap binds at maturity, too. Without it the
options would not touch each other: the sum of their values bounds the basket's from above for any
correlation, and is its value where cap >= B.

Of the 2^B sets the j best are offered, j = 0 .. cap, ranked by what exercising gains over waiting
with that option alone: without a cap the optimum is among them. The payoff itself, by which Lemma
2.1 would rank, never lets an option go before another that pays more now but is better kept.

Bounds for clipping. Between nodes, what waiting with one option alone is worth is interpolated by
straight lines: it is convex in the price (see `options`), so that is never too low, and the sum of
max(payoff, waiting) over the options held bounds the basket's value from above, whatever cap and
correlation. The lower bound is the best found plan of fixed dates: each option takes its best date
that is not full yet, valued by Black-Scholes with tangents at the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.option_contract import BASKETS, BasketContract, OptionContract
from counterplan.domains.options import (
    AmericanOption,
    OptionProblem,
    chord,
    fixed_dates,
    highest_tangent,
    node_below,
    price_nodes,
)
from counterplan.errors import InputError
from counterplan.planning.compiled import Layout, inlined, jit, play_with
from counterplan.planning.description import MONEY, Axes, Column, Columns, check_config
from counterplan.planning.model import State
from counterplan.planning.processes.laws import draw
from counterplan.planning.processes.prices import GBM

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# Nodes of each option's tables.
NODES = 129
# More than any option can be worth.
CROWDING = 1e12


@dataclass(frozen=True, eq=False)
class OptionBasket(OptionProblem):
    """Options to exercise, each at its best date, not too many on one.

    config       'A' .. 'F' of Table 13, or a BasketContract
    correlation  of the prices' increments: one number for all pairs, or (B, B)
    cap          how many may be exercised on one date (default: the config's)
    """

    config: str | BasketContract = "A"
    correlation: float | Sequence[Sequence[float]] | FloatArray = 0.0
    cap: int | None = None

    def __post_init__(self) -> None:
        cap = self.basket.cap if self.cap is None else self.cap
        object.__setattr__(self, "cap", whole_number(cap, "cap", minimum=1))
        _ = self.process  # checks the correlation

    @cached_property
    def basket(self) -> BasketContract:
        if isinstance(self.config, BasketContract):
            return self.config
        if self.config not in BASKETS:
            raise InputError(
                f"basket config {self.config!r} is unknown: choose {', '.join(BASKETS)}, "
                "or pass a BasketContract"
            )
        return BASKETS[self.config]

    @property
    def contracts(self) -> tuple[OptionContract, ...]:
        return self.basket.options

    @cached_property
    def singles(self) -> tuple[AmericanOption, ...]:
        return tuple(AmericanOption(contract) for contract in self.contracts)

    @property
    def most(self) -> int:
        assert self.cap is not None
        return self.cap

    @cached_property
    def process(self) -> GBM:
        terms = np.array([(one.price, one.drift, one.volatility) for one in self.contracts])
        step, correlation = self.contracts[0].step, self.correlation
        return GBM(terms[:, 0], terms[:, 1], terms[:, 2], step, correlation, "correlated")

    @cached_property
    def _nodes(self) -> FloatArray:
        """(B, N) prices, evenly spaced in their logarithms."""
        return np.array([price_nodes(contract, NODES) for contract in self.contracts])

    @cached_property
    def _waiting(self) -> FloatArray:
        """(B, T, N) the values of holding each option alone."""
        each, dates = zip(self.singles, self._nodes, strict=True), range(self.horizon)
        return np.array([[one.exercise.continuation(t, row) for t in dates] for one, row in each])

    def compiled(self, quantiles: int = 0) -> Kernel:
        """The model as compiled functions."""
        from counterplan.planning.search.kernel import Kernel

        X, logs = len(self.contracts), np.log(self._nodes)
        parameters = BASKET.pack(
            cap=self.most,
            signs=self._terms[0],
            strikes=self._terms[1],
            first=logs[:, 0],
            width=logs[:, 1] - logs[:, 0],
            discounts=self.contracts[0].discount(np.arange(self.horizon)),
            nodes=self._nodes,
            waiting=self._waiting,
            factors=self._factors(whole_number(quantiles, "quantiles")),
            process=self._process_numbers(),
        )
        functions = {"actions": actions, "step": step, "policy": policy, "bounds": bounds}
        # One row more than there are ranked actions: the kernel keeps its scores there.
        most = min(self.most, X) + 2
        sizes = {"action_size": X, "most_actions": most, "most_successors": quantiles}
        return Kernel.of(
            self, play, **functions, successors=successors, parameters=parameters, **sizes
        )

    def _process_numbers(self) -> FloatArray:
        """The process, mixed by a triangular root of its correlation alone."""
        root = np.asarray(np.linalg.qr(self.process.mixing.T, mode="r")).T
        return self.process.numbers(root, np.eye(len(root)), np.empty((1, 0)))

    def _factors(self, count: int) -> FloatArray:
        """(count, B) equally likely factors of the prices over one step, with the right means."""
        from scipy.special import ndtri
        from scipy.stats.qmc import Sobol

        X = len(self.contracts)
        if count == 0:
            return np.empty((0, X))
        exponent = int(np.ceil(np.log2(count)))
        points = Sobol(X, seed=0).random_base2(exponent)[:count]
        normal = ndtri(np.clip(points, 1e-12, 1 - 1e-12)) @ self.process.mixing.T
        deviations = np.array([o.volatility for o in self.contracts]) * np.sqrt(
            self.contracts[0].step
        )
        growth = np.exp([option.drift * option.step for option in self.contracts])
        factors = np.exp(deviations * normal)
        return np.asarray(growth * factors / factors.mean(axis=0))

    def bound_tables(self, samples: int, seed: Seed) -> FloatArray:
        """Values of fixed dates and their slopes at the nodes; exact, so nothing is sampled."""
        each = zip(self.singles, self._nodes, strict=True)
        tables = [fixed_dates(one.exercise, nodes, self.horizon) for one, nodes in each]
        fixed, best = (np.array(part) for part in zip(*tables, strict=True))
        return BOUND_TABLES.pack(fixed=fixed.swapaxes(1, 2), best=best)

    about: ClassVar[str] = "a basket of options: which to exercise now and which to hold"

    @classmethod
    def configured(
        cls, config: str | None = None, correlation: float | None = None
    ) -> OptionBasket:
        """The basket that options of the command line ask for.

        config       row of the paper's table: A (default) to F
        correlation  of every two prices (0)
        """
        check_config(config)
        try:
            return cls(config or "A", correlation or 0.0)
        except InputError as problem:
            given = f"--correlation {correlation or 0.0:g}"
            raise InputError(f"{given}: {problem}; give another") from None

    def columns(self) -> Columns:
        numbers = range(1, len(self.contracts) + 1)
        held, exercised = "1 if the option is held, 0 if not", "1 exercises this option, 0 holds it"
        return Columns(
            self,
            tuple(Column(f"price_{b}", "the price", "price") for b in numbers),
            tuple(Column(f"action_{b}", exercised, "flag") for b in numbers),
            tuple(Column(f"level_{b}", held, "flag") for b in numbers),
        )

    def axes(self) -> Axes:
        numbers = range(1, len(self.contracts) + 1)
        prices, options, held = (
            tuple(text.format(b) for b in numbers)
            for text in ("price {}", "option {}", "option {} held")
        )
        choices = ("hold", "exercise")
        return Axes(prices, options, held, (), "date t", "basket", choices, unit=MONEY)

    def describe(self, action: FloatArray) -> str:
        chosen = [f"option {b + 1}" for b in np.flatnonzero(action > 0)]
        return f"exercise {' and '.join(chosen)}" if chosen else "hold all"

    def describe_state(self, state: State) -> str:
        prices = ", ".join(f"{price:g}" for price in state.exogenous)
        held = ", ".join(str(b + 1) for b in np.flatnonzero(state.resource > 0))
        date = f"date {state.t + 1} of {self.horizon}"
        return f"{date}, prices {prices}, options held: {held or 'none'}"


# --- Compiled: x = prices (X,), d = (X,) ones where held, action = (X,) ones where exercised ---

# Nodes evenly spaced in their logarithms, from `first` on, `width` apart; waiting with one option
# alone, in money of its date; M equally likely factors of x over one step.
BASKET = Layout(
    "rest cap",
    "X T N M",
    **dict.fromkeys(("signs", "strikes", "first", "width"), "X"),
    discounts="T",
    nodes="X N",
    waiting="X T N",
    factors="M X",
    process="*",
)
# In money of now: (value, slope) at the nodes of exercising in s dates' time, and of the best of
# the dates 0 .. s.
BOUND_TABLES = Layout("", "X T N", fixed="X N T 2", best="X T N 2")
basket_of, tables_of = BASKET.view, BOUND_TABLES.view


@inlined
def _payoff(p, b, price):  # type: ignore[no-untyped-def]
    return max(p.signs[b] * (price - p.strikes[b]), 0.0)


@jit
def worth_of_waiting(parameters, t, b, price):  # type: ignore[no-untyped-def]
    """What holding option b alone is worth at date t, in money of date t; never too low."""
    p = basket_of(parameters)
    if t == p.T - 1:
        return 0.0
    # A call's value rises no faster than the price, a put's falls; at a price of 0 a put pays its
    # strike on the next date, a call never pays.
    call = p.signs[b] > 0
    at_zero = 0.0 if call else p.discounts[1] / p.discounts[0] * p.strikes[b]
    i = node_below(p.first[b], p.width[b], p.N, price)
    return chord(p.waiting[b, t], p.nodes[b], i, price, at_zero, 1.0 if call else 0.0)


@jit
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """The next prices where they were replaced by finitely many."""
    p = basket_of(parameters)
    for i in range(p.M):
        probabilities[i] = 1.0 / p.M
        for b in range(p.X):
            states[i, b] = x[b] * p.factors[i, b]
    return p.M


@jit
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The j options of the best scores, j = 0 .. cap.

    The score is what exercising gains over waiting with that option alone. The last row of `out`,
    which is never an action, holds the scores.
    """
    p = basket_of(parameters)
    scores, count = out.shape[0] - 1, 0
    for b in range(p.X):
        payoff = _payoff(p, b, x[b])
        out[0, b] = 0.0
        out[scores, b] = -np.inf
        if d[b] > 0.5 and payoff > 0.0:
            count += 1
            out[scores, b] = payoff - worth_of_waiting(parameters, t, b, x[b])
    most = min(count, int(p.cap))
    for j in range(most):
        best = 0
        for b in range(p.X):
            out[j + 1, b] = out[j, b]
            if out[scores, b] > out[scores, best]:
                best = b
        out[j + 1, best] = 1.0
        out[scores, best] = -np.inf
    return most + 1


@jit
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The payoffs in money of date 0."""
    p = basket_of(parameters)
    total = 0.0
    for b in range(p.X):
        out[b] = d[b] - action[b]
        if action[b] > 0.0:
            total += action[b] * _payoff(p, b, x[b])
    return p.discounts[t] * total


@jit
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Exercise what gains over waiting alone, and as many as would not fit on the dates left."""
    p = basket_of(parameters)
    crowd = -int(p.cap) * (p.T - 1 - t)
    for b in range(p.X):
        crowd += d[b] > 0.5 and _payoff(p, b, x[b]) > 0.0
    best, most = 0, -np.inf
    for i in range(m):
        size, gain = 0, 0.0
        for b in range(p.X):
            if offered[i, b] > 0.5:
                size += 1
                gain += _payoff(p, b, x[b]) - worth_of_waiting(parameters, t, b, x[b])
        # Too few by one is worse than any loss, so that crowding comes first.
        gain -= CROWDING * max(crowd - size, 0)
        if gain > most:
            best, most = i, gain
    return best


@jit
def play(parameters, t, x, d, generator, room):  # type: ignore[no-untyped-def]
    """A rollout, all in one."""
    state = parameters, t, x, d
    return play_with(draw, actions, step, policy, state, generator, room)


@inlined
def _best_free(p, known, b, price, taken):  # type: ignore[no-untyped-def]
    """The value of the best date for option b that is not full; it is marked in `taken`."""
    i = node_below(p.first[b], p.width[b], p.N, price)
    best, date = 0.0, 0
    if taken[0] < p.cap:
        best = _payoff(p, b, price)
    for j in range(max(i, 0), min(i + 2, p.N)):
        rows, away = known.fixed[b, j], price - p.nodes[b, j]
        for ahead in range(1, taken.size):
            value = rows[ahead, 0] + rows[ahead, 1] * away
            if value > best and taken[ahead] < p.cap:
                best, date = value, ahead
    taken[date] += 1
    return best


@njit(cache=True)  # not `jit`: it makes an array
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """Fixed dates below, each option without the others above."""
    p = basket_of(parameters)
    held, upper, lower = 0.0, 0.0, 0.0
    for b in range(p.X):
        held += d[b]
        if d[b] > 0.5:
            payoff = _payoff(p, b, x[b])
            upper += max(payoff, worth_of_waiting(parameters, t, b, x[b]))
    out[0], out[1] = -np.inf, p.discounts[t] * upper
    if tables.size == 0:
        return
    known = tables_of(tables)
    taken = np.zeros(p.T - t if held > p.cap else 0, dtype=np.int64)
    for b in range(p.X):
        if d[b] > 0.5 and held <= p.cap:
            i, rows = node_below(p.first[b], p.width[b], p.N, x[b]), known.best[b, p.T - 1 - t]
            lower += highest_tangent(_payoff(p, b, x[b]), rows, p.nodes[b], i, x[b])
        elif d[b] > 0.5:
            lower += _best_free(p, known, b, x[b], taken)
    out[0] = p.discounts[t] * lower
