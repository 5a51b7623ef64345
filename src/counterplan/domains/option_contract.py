"""One option: its contract, the configurations of Tables 11 and 13, and what it is worth.

    payoff(S) = (S - K)^+ for a call, (K - S)^+ for a put;  dates 0, dt, ..., maturity

A payoff at date t counts e^{-r t dt} of itself, the value of money at date 0. With a fixed date the
value is Black and Scholes's. The choice among the dates t = 0 .. T-1 is valued by backward
induction, at strike 1 and in y = log S:

    C_t(y) = e^{-r dt} E[ V_{t+1}(y') | y ],  V_t = max(1 - e^y, C_t),  C_{T-1} = 0       (put)

For r > 0 and q >= 0 exercising is optimal exactly below one price e^{b_t}; with b = b_{t+1}

    C_t(y) = e^{-r dt} ( int_{-inf}^{b} (1 - e^z) n(z; y) dz + int_{b}^{inf} C_{t+1}(z) n(z; y) dz )

the first integral in closed form, the second, over an analytic function, by composite
Gauss-Legendre. The nodes are where C_{t+1} was computed, so nothing is interpolated. The range ends
nine standard deviations of the whole term above the strike. The error is then that of
floating-point sums: with three times the nodes and half as much range again, values stay the same
to 1e-13 of the strike.

Calls follow by symmetry: call(S, K; r, q) = put(K, S; q, r). With r = 0 (a put) or q = 0 (a call)
waiting never costs anything, and the value is the European one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.processes.base import number

Kind: TypeAlias = Literal["call", "put"]
KINDS = ("call", "put")


@dataclass(frozen=True)
class OptionContract:
    """An option on one share.

    price       S_0, of the share at date 0
    strike      K
    maturity    years to the last exercise date
    rate        r, the riskless rate per year
    volatility  sigma per square root of a year
    step        dt, years between exercise dates
    dividend    q, the dividend yield per year
    kind        'call' (the right to buy at K) or 'put' (to sell)
    """

    price: float
    strike: float
    maturity: float
    rate: float
    volatility: float
    step: float
    dividend: float = 0.0
    kind: Kind = "call"

    def __post_init__(self) -> None:
        for name in ("price", "strike", "maturity", "volatility", "step"):
            self._check(name, above=True)
        # With negative rates there may be two exercise boundaries; everything here relies on one.
        for name in ("rate", "dividend"):
            self._check(name)
        if self.kind not in KINDS:
            raise InputError(f"option kind {self.kind!r} is unknown: choose 'call' or 'put'")
        steps = self.maturity / self.step
        if round(steps) < 1 or not math.isclose(steps, round(steps), rel_tol=1e-9):
            raise InputError(
                f"option maturity {self.maturity} is not a whole number of steps of {self.step}: "
                "the last exercise date is the maturity"
            )

    def _check(self, name: str, above: bool = False) -> None:
        value = number(getattr(self, name), f"option {name}", 0.0, above)
        object.__setattr__(self, name, value)

    @property
    def dates(self) -> int:
        """T: how many exercise dates, today's and the maturity included."""
        return round(self.maturity / self.step) + 1

    @property
    def sign(self) -> float:
        """+1 for a call, -1 for a put."""
        return 1.0 if self.kind == "call" else -1.0

    @property
    def drift(self) -> float:
        """r - q, what the share's mean price grows by per year."""
        return self.rate - self.dividend

    def discount(self, dates: FloatArray | IntArray | int) -> FloatArray:
        """e^{-r t dt} of dates t."""
        return np.exp(-self.rate * self.step * np.asarray(dates, dtype=np.float64))

    def payoff(self, prices: FloatArray) -> FloatArray:
        """What exercising pays at these prices, not discounted."""
        return np.maximum(self.sign * (prices - self.strike), 0.0)


def check_exercise(t: int, held: FloatArray, actions: FloatArray) -> None:
    """Raise if more is exercised (n, B) than is still held (n, B)."""
    wrong = (actions < 0.0) | (actions > held)
    if wrong.any():
        i, b = (int(place) for place in np.argwhere(wrong)[0])
        which = f"option {b + 1}" if actions.shape[1] > 1 else "the option"
        raise InfeasibleError(
            f"exercising {actions[i, b]:g} of {which} at date t={t}, when {held[i, b]:g} of it is "
            "still held: 0 holds, 1 exercises"
        )


@dataclass(frozen=True)
class BasketContract:
    """Several options with the same dates, and how many may be exercised on one date.

    options  B of them; maturity, rate and step are those of the basket
    cap      the paper's upper bound Delta_a per date, at maturity too
    """

    options: tuple[OptionContract, ...]
    cap: int

    def __post_init__(self) -> None:
        if not self.options:
            raise InputError("a basket needs at least one option")
        for name in ("maturity", "rate", "step"):
            values = {getattr(option, name) for option in self.options}
            if len(values) > 1:
                listed = ", ".join(f"{value:g}" for value in sorted(values))
                raise InputError(f"the options of a basket must share one {name}, got {listed}")
        whole_number(self.cap, "cap", minimum=1)


# Table 11.
OPTIONS = {
    "A": OptionContract(40, 36, 1.0, 0.10, 0.20, 0.10, 0.00, "call"),
    "B": OptionContract(12, 10, 1.5, 0.08, 0.25, 0.10, 0.03, "call"),
    "C": OptionContract(36, 40, 0.5, 0.05, 0.30, 0.05, 0.05, "put"),
    "D": OptionContract(10, 14, 1.0, 0.12, 0.35, 0.05, 0.05, "put"),
    "E": OptionContract(8, 5, 1.5, 0.07, 0.20, 0.10, 0.00, "call"),
    "F": OptionContract(5, 8, 1.0, 0.10, 0.40, 0.10, 0.05, "put"),
}

# Table 13: the options' (S_0, K, sigma, q, kind), then maturity, r, dt and the cap.
_Row: TypeAlias = tuple[float, float, float, float, Kind]
_TABLE_13: dict[str, tuple[tuple[_Row, ...], float, float, float, int]] = {
    "A": (
        ((40, 36, 0.20, 0.0, "call"), (12, 10, 0.25, 0.03, "call"), (8, 5, 0.20, 0.0, "call")),
        *(1.0, 0.08, 0.02, 3),
    ),
    "B": (
        (
            (25, 20, 0.30, 0.02, "call"),
            (30, 28, 0.35, 0.01, "put"),
            (15, 16, 0.25, 0.04, "call"),
            (20, 18, 0.40, 0.03, "put"),
        ),
        *(1.5, 0.06, 0.05, 3),
    ),
    "C": (
        (
            (26, 24, 0.27, 0.02, "call"),
            (15, 16, 0.30, 0.03, "put"),
            (38, 35, 0.25, 0.015, "call"),
        ),
        *(1.3, 0.06, 0.05, 2),
    ),
    "D": (
        (
            (40, 42, 0.25, 0.01, "call"),
            (35, 36, 0.30, 0.015, "put"),
            (50, 48, 0.28, 0.02, "call"),
            (45, 47, 0.26, 0.01, "put"),
            (60, 58, 0.27, 0.015, "call"),
        ),
        *(1.5, 0.05, 0.025, 3),
    ),
    "E": (
        (
            (18, 20, 0.26, 0.015, "put"),
            (27, 25, 0.32, 0.02, "call"),
            (22, 24, 0.29, 0.025, "put"),
            (31, 30, 0.33, 0.01, "call"),
        ),
        *(1.4, 0.065, 0.04, 2),
    ),
    "F": (
        (
            (40, 35, 0.20, 0.01, "call"),
            (25, 28, 0.25, 0.02, "put"),
            (30, 25, 0.30, 0.01, "call"),
            (20, 22, 0.22, 0.015, "put"),
        ),
        *(1.0, 0.05, 0.05, 2),
    ),
}


def _table_13() -> dict[str, BasketContract]:
    return {
        key: BasketContract(
            tuple(
                OptionContract(price, strike, maturity, rate, volatility, step, dividend, kind)
                for price, strike, volatility, dividend, kind in rows
            ),
            cap,
        )
        for key, (rows, maturity, rate, step, cap) in _TABLE_13.items()
    }


BASKETS = _table_13()


def option_contract(config: str | OptionContract) -> OptionContract:
    """The contract itself, or the configuration of Table 11 that a letter names."""
    if isinstance(config, OptionContract):
        return config
    if config not in OPTIONS:
        raise InputError(
            f"option config {config!r} is unknown: choose {', '.join(OPTIONS)}, "
            "or pass an OptionContract"
        )
    return OPTIONS[config]


def basket_contract(config: str | BasketContract) -> BasketContract:
    """The basket itself, or the configuration of Table 13 that a letter names."""
    if isinstance(config, BasketContract):
        return config
    if config not in BASKETS:
        raise InputError(
            f"basket config {config!r} is unknown: choose {', '.join(BASKETS)}, "
            "or pass a BasketContract"
        )
    return BASKETS[config]


# --- One step of the backward induction, compiled ---------------------------------------------
#
# A put of strike 1 in log price y. `step` = (r dt, (r - q) dt, s): its discounting, the growth of
# the price and the standard deviation of log S over one date. The date after is known by its edge,
# below which it is exercised, and by the weighted values of holding on at ascending nodes above
# the edge.

# Densities this many deviations away are left out: exp(-9.5^2 / 2) = 3e-20.
REACH = 9.5
# Edges are found to this much.
PRECISION = 1e-14


@njit(cache=True)
def normal_below(z):  # type: ignore[no-untyped-def]
    """P(a standard normal <= z)."""
    return 0.5 * math.erfc(-z * 0.7071067811865476)


@njit(cache=True)
def _held(y, step, edge, nodes, weighted):  # type: ignore[no-untyped-def]
    """The value at y of not exercising, that is of the date after."""
    discounting, growth, s = step
    mean = y + growth - 0.5 * s * s
    below = (edge - mean) / s
    exercised = normal_below(below) - math.exp(y + growth) * normal_below(below - s)
    kept = 0.0
    for i in range(np.searchsorted(nodes, mean - REACH * s), nodes.size):
        distance = (nodes[i] - mean) / s
        if distance > REACH:
            break
        kept += weighted[i] * math.exp(-0.5 * distance * distance)
    return math.exp(-discounting) * (exercised + kept / (s * math.sqrt(2.0 * math.pi)))


@njit(cache=True)
def held_values(y, step, edge, nodes, weighted):  # type: ignore[no-untyped-def]
    """(n,) the values of not exercising at log prices y (n,)."""
    result = np.empty(y.size)
    for i in range(y.size):
        result[i] = _held(y[i], step, edge, nodes, weighted)
    return result


@njit(cache=True)
def exercise_edge(step, edge, nodes, weighted):  # type: ignore[no-untyped-def]
    """The log price where exercising and waiting are worth the same, by bisection. There is one:
    at a price of 0 waiting is worth e^{-r dt} < 1, at the strike exercising is worth nothing."""
    low, high = -step[2], 0.0
    while -math.expm1(low) < _held(low, step, edge, nodes, weighted):
        low, high = 2.0 * low, low
    while high - low > PRECISION:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if -math.expm1(middle) >= _held(middle, step, edge, nodes, weighted):
            low = middle
        else:
            high = middle
    return low


# --- What an option is worth ------------------------------------------------------------------

NODES_PER_PANEL = 12
# Gauss-Legendre panels are this many one-step standard deviations wide ...
PANEL_WIDTH = 3.0
# ... and end this many standard deviations of the whole term above the strike.
RANGE_WIDTH = 9.0
# Interest on the strike that is lost in the rounding.
NEGLIGIBLE = 1e-13


def european(option: OptionContract, prices: FloatArray, dates_to_go: int) -> FloatArray:
    """The value now of exercising in `dates_to_go` dates' time: Black-Scholes; the payoff for 0."""
    return european_with_slope(option, prices, dates_to_go)[0]


def european_with_slope(
    option: OptionContract, prices: FloatArray, dates_to_go: int
) -> tuple[FloatArray, FloatArray]:
    """The value and its derivative in the price; at the kink of a payoff, a slope that supports."""
    from scipy.special import ndtr

    prices = np.asarray(prices, dtype=np.float64)
    sign, strike = option.sign, option.strike
    if dates_to_go == 0:
        payoff = option.payoff(prices)
        return payoff, np.where(payoff > 0, sign, 0.0)
    years = dates_to_go * option.step
    deviation = option.volatility * np.sqrt(years)
    with np.errstate(divide="ignore"):
        high = (np.log(prices / strike) + option.drift * years) / deviation + deviation / 2
    slope = sign * np.exp(-option.dividend * years) * ndtr(sign * high)
    cash = strike * np.exp(-option.rate * years) * ndtr(sign * (high - deviation))
    return prices * slope - sign * cash, slope


@dataclass(frozen=True)
class Bermudan:
    """The optimal exercise of an option on its dates under geometric Brownian motion.

    option      the contract

    boundaries  (T,) prices at and beyond which exercising is optimal (put: below, call: above)
    """

    option: OptionContract
    boundaries: FloatArray
    _nodes: tuple[FloatArray, ...]
    _weights: tuple[FloatArray, ...]
    _edges: FloatArray

    @classmethod
    def solve(cls, option: OptionContract) -> Bermudan:
        """Backward induction over the dates."""
        put = _UnitPut.of(option)
        T = option.dates
        edges = np.zeros(T)
        empty = np.empty(0)
        nodes, weights = [empty] * T, [empty] * T  # at maturity nothing is left above the strike
        if put.may_exercise_early:
            for t in range(T - 2, -1, -1):
                later = edges[t + 1], nodes[t + 1], weights[t + 1]
                edges[t] = put.edge(*later)
                nodes[t], lengths = put.quadrature(edges[t])
                weights[t] = lengths * put.continuation(nodes[t], *later)
        else:
            edges[:-1] = -np.inf
        boundaries = option.strike * np.exp(-option.sign * edges)
        return cls(option, boundaries, tuple(nodes), tuple(weights), edges)

    def continuation(self, t: int, prices: FloatArray) -> FloatArray:
        """C_t: the value at date t, in money of date t, of not exercising then."""
        option = self.option
        prices = np.asarray(prices, dtype=np.float64)
        if t >= option.dates - 1:
            return np.zeros(prices.shape)
        put = _UnitPut.of(option)
        if not put.may_exercise_early:
            return european(option, prices, option.dates - 1 - t)
        scale = prices if option.sign > 0 else option.strike
        y = option.sign * np.log(option.strike / prices)
        later = self._edges[t + 1], self._nodes[t + 1], self._weights[t + 1]
        return scale * put.continuation(y.ravel(), *later).reshape(y.shape)

    def value(self, t: int, prices: FloatArray) -> FloatArray:
        """V_t, in money of date t."""
        return np.maximum(self.option.payoff(prices), self.continuation(t, prices))


@dataclass(frozen=True)
class _UnitPut:
    """A put of strike 1 in log price: the step of the backward induction."""

    rate: float
    dividend: float
    deviation: float
    step: float
    term: float

    @classmethod
    def of(cls, option: OptionContract) -> _UnitPut:
        rates = option.rate, option.dividend
        rate, dividend = rates if option.sign < 0 else rates[::-1]
        deviation = option.volatility * np.sqrt(option.step)
        return cls(rate, dividend, deviation, option.step, option.maturity)

    @property
    def may_exercise_early(self) -> bool:
        """Exercising early gains the interest on the strike at most: it must be worth something."""
        return self.rate * self.term > NEGLIGIBLE

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The step as compiled functions take it."""
        growth = (self.rate - self.dividend) * self.step
        return self.rate * self.step, growth, self.deviation

    def continuation(
        self, y: FloatArray, edge: float, nodes: FloatArray, weighted: FloatArray
    ) -> FloatArray:
        """C_t at (n,) log prices from the edge of date t+1 and its weighted values at the nodes."""
        return np.asarray(held_values(y, self.numbers, edge, nodes, weighted))

    def edge(self, edge: float, nodes: FloatArray, weighted: FloatArray) -> float:
        """b_t from the same."""
        return float(exercise_edge(self.numbers, edge, nodes, weighted))

    def quadrature(self, edge: float) -> tuple[FloatArray, FloatArray]:
        """Nodes and lengths of composite Gauss-Legendre from the edge up."""
        drift = abs(self.rate - self.dividend) * self.term
        highest = RANGE_WIDTH * self.deviation * np.sqrt(self.term / self.step) + drift
        panels = int(np.ceil((highest - edge) / (PANEL_WIDTH * self.deviation)))
        points, lengths = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
        borders = np.linspace(edge, highest, panels + 1)
        half = np.diff(borders)[:, np.newaxis] / 2
        middles = (borders[:-1, np.newaxis] + borders[1:, np.newaxis]) / 2
        return (middles + half * points).ravel(), (half * lengths).ravel()


def lattice_values(
    option: OptionContract, t: int, prices: FloatArray, up: float, probability: float
) -> tuple[FloatArray, FloatArray]:
    """Payoffs and continuation values (n,) at date t on the binomial tree that starts from each of
    (n,) prices: exact; in money of date t."""
    prices = np.asarray(prices, dtype=np.float64)
    steps = option.dates - 1 - t
    payoff = option.payoff(prices)
    if steps == 0:
        return payoff, np.zeros(prices.shape)
    discount = np.exp(-option.rate * option.step)
    values = option.payoff(prices[:, np.newaxis] * up ** (2.0 * np.arange(steps + 1) - steps))
    waiting = values
    for left in range(steps - 1, -1, -1):
        waiting = discount * (probability * values[:, 1:] + (1 - probability) * values[:, :-1])
        powers = 2.0 * np.arange(left + 1) - left
        values = np.maximum(option.payoff(prices[:, np.newaxis] * up**powers), waiting)
    return payoff, waiting[:, 0]
