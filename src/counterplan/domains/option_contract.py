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
from typing import Literal, TypeAlias, cast

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.errors import InputError
from counterplan.planning.processes.base import number
from counterplan.planning.processes.prices import BinomialLattice

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
        # With negative rates there may be two exercise boundaries; everything here relies on one.
        for name in ("price", "strike", "maturity", "volatility", "step", "rate", "dividend"):
            above = name not in ("rate", "dividend")
            value = number(getattr(self, name), f"option {name}", 0.0, above)
            object.__setattr__(self, name, value)
        if self.kind not in KINDS:
            raise InputError(f"option kind {self.kind!r} is unknown: choose 'call' or 'put'")
        steps = self.maturity / self.step
        if round(steps) < 1 or not math.isclose(steps, round(steps), rel_tol=1e-9):
            raise InputError(
                f"option maturity {self.maturity} is not a whole number of steps of {self.step}: "
                "the last exercise date is the maturity"
            )

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

# Table 13: maturity, r, dt, the cap, and the options' S_0, K, sigma, q and kind.
_TABLE_13 = {
    "A": (1.0, 0.08, 0.02, 3, "40 36 .2 0 call, 12 10 .25 .03 call, 8 5 .2 0 call"),
    "B": (
        *(1.5, 0.06, 0.05, 3),
        "25 20 .3 .02 call, 30 28 .35 .01 put, 15 16 .25 .04 call, 20 18 .4 .03 put",
    ),
    "C": (1.3, 0.06, 0.05, 2, "26 24 .27 .02 call, 15 16 .3 .03 put, 38 35 .25 .015 call"),
    "D": (
        *(1.5, 0.05, 0.025, 3),
        "40 42 .25 .01 call, 35 36 .3 .015 put, 50 48 .28 .02 call, 45 47 .26 .01 put, "
        "60 58 .27 .015 call",
    ),
    "E": (
        *(1.4, 0.065, 0.04, 2),
        "18 20 .26 .015 put, 27 25 .32 .02 call, 22 24 .29 .025 put, 31 30 .33 .01 call",
    ),
    "F": (
        *(1.0, 0.05, 0.05, 2),
        "40 35 .2 .01 call, 25 28 .25 .02 put, 30 25 .3 .01 call, 20 22 .22 .015 put",
    ),
}


def _basket(maturity: float, rate: float, step: float, cap: int, rows: str) -> BasketContract:
    options = []
    for row in rows.split(","):
        *numbers, kind = row.split()
        price, strike, volatility, dividend = map(float, numbers)
        terms = (price, strike, maturity, rate, volatility, step, dividend)
        options.append(OptionContract(*terms, cast(Kind, kind)))
    return BasketContract(tuple(options), cap)


BASKETS = {key: _basket(*row) for key, row in _TABLE_13.items()}


# --- One step of the backward induction -------------------------------------------------------

# A put of strike 1 in log price y. `step` = (r dt, (r - q) dt, s): its discounting, the growth of
# the price and the standard deviation of log S over one date. The date after is known by its edge,
# below which it is exercised, and by the weighted values of holding on at ascending nodes above
# the edge.
Step: TypeAlias = tuple[float, float, float]

# Densities this many deviations away are left out: exp(-9.5^2 / 2) = 3e-20.
REACH = 9.5
# Edges are found to this much.
PRECISION = 1e-14
# Log prices that are looked at together, near each other.
CHUNK = 256


def held_values(
    y: FloatArray, step: Step, edge: float, nodes: FloatArray, weighted: FloatArray
) -> FloatArray:
    """(n,) the values of not exercising at log prices y (n,), that is of the date after."""
    from scipy.special import ndtr

    discounting, growth, s = step
    mean, kept = y + growth - 0.5 * s * s, np.zeros(y.size)
    below = (edge - mean) / s
    exercised = ndtr(below) - np.exp(y + growth) * ndtr(below - s)
    order = np.argsort(mean)
    for rows in (order[i : i + CHUNK] for i in range(0, y.size, CHUNK)):
        ends = mean[rows[[0, -1]]] + np.array([-REACH, REACH]) * s
        near = slice(*np.searchsorted(nodes, ends).tolist())
        distance = (nodes[near] - mean[rows, np.newaxis]) / s
        kept[rows] = np.exp(-0.5 * distance**2) @ weighted[near]
    total = exercised + kept / (s * math.sqrt(2.0 * math.pi))
    return np.asarray(math.exp(-discounting) * total)


def exercise_edge(step: Step, edge: float, nodes: FloatArray, weighted: FloatArray) -> float:
    """The log price where exercising and waiting are worth the same. There is one: at a price of 0
    waiting is worth e^{-r dt} < 1, at the strike exercising is worth nothing."""
    from scipy.optimize import brentq

    def gain(y: float) -> float:
        return -math.expm1(y) - float(held_values(np.array([y]), step, edge, nodes, weighted)[0])

    low, high = -step[2], 0.0
    while gain(low) < 0.0:
        low, high = 2.0 * low, low
    return float(brentq(gain, low, high, xtol=PRECISION))


# --- What an option is worth ------------------------------------------------------------------

NODES_PER_PANEL = 12
# Gauss-Legendre panels are this many one-step standard deviations wide ...
PANEL_WIDTH = 3.0
# ... and end this many standard deviations of the whole term above the strike.
RANGE_WIDTH = 9.0
# Interest on the strike that is lost in the rounding.
NEGLIGIBLE = 1e-13


def european(
    option: OptionContract, prices: FloatArray, dates_to_go: int
) -> tuple[FloatArray, FloatArray]:
    """The value now of exercising in `dates_to_go` dates' time (Black-Scholes; the payoff for 0),
    and its derivative in the price; at the kink of a payoff, a slope that supports."""
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

    dates  for each date the edge b_t (exercised is beyond strike * e^{b_t} for a put, e^{-b_t} for
           a call), the nodes above it, and there C_t times their weights
    """

    option: OptionContract
    dates: tuple[tuple[float, FloatArray, FloatArray], ...]

    @classmethod
    def solve(cls, option: OptionContract) -> Bermudan:
        """Backward induction over the dates."""
        step, left = _unit_put(option), option.dates - 1
        later = (0.0, np.empty(0), np.empty(0))  # at maturity nothing is left above the strike
        dates = [later]
        # Exercising early gains the interest on the strike at most.
        if step[0] * left <= NEGLIGIBLE:
            return cls(option, ((-np.inf, *later[1:]),) * left + (later,))
        for _ in range(left):
            edge = exercise_edge(step, *later)
            nodes, lengths = _quadrature(edge, step, left)
            later = edge, nodes, lengths * held_values(nodes, step, *later)
            dates.insert(0, later)
        return cls(option, tuple(dates))

    def continuation(self, t: int, prices: FloatArray) -> FloatArray:
        """C_t: the value at date t, in money of date t, of not exercising then."""
        option = self.option
        prices = np.asarray(prices, dtype=np.float64)
        if t >= option.dates - 1:
            return np.zeros(prices.shape)
        if np.isinf(self.dates[0][0]):
            return self.fixed_date(prices, option.dates - 1 - t)[0]
        scale = prices if option.sign > 0 else option.strike
        y = option.sign * np.log(option.strike / prices)
        held = held_values(y.ravel(), _unit_put(option), *self.dates[t + 1])
        return np.asarray(scale * held.reshape(y.shape))

    def fixed_date(self, prices: FloatArray, dates_to_go: int) -> tuple[FloatArray, FloatArray]:
        """(n,) the value now of exercising that many dates later, and its slope in the price."""
        return european(self.option, prices, dates_to_go)


def _unit_put(option: OptionContract) -> Step:
    """The `step` of the put of strike 1 that stands for the option."""
    rate, dividend = option.rate, option.dividend
    if option.sign > 0:
        rate, dividend = dividend, rate
    deviation = option.volatility * math.sqrt(option.step)
    return rate * option.step, (rate - dividend) * option.step, deviation


def _quadrature(edge: float, step: Step, left: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and lengths of composite Gauss-Legendre from the edge up."""
    _, growth, deviation = step
    highest = RANGE_WIDTH * deviation * np.sqrt(left) + abs(growth) * left
    panels = int(np.ceil((highest - edge) / (PANEL_WIDTH * deviation)))
    points, lengths = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    borders = np.linspace(edge, highest, panels + 1)
    half = np.diff(borders)[:, np.newaxis] / 2
    middles = (borders[:-1, np.newaxis] + borders[1:, np.newaxis]) / 2
    return (middles + half * points).ravel(), (half * lengths).ravel()


@dataclass(frozen=True)
class LatticeExercise:
    """The optimal exercise on the binomial lattice that starts from any price: exact."""

    option: OptionContract
    process: BinomialLattice

    def continuation(self, t: int, prices: FloatArray) -> FloatArray:
        """C_t: the value at date t, in money of date t, of not exercising then."""
        option, p = self.option, self.process.probability
        prices = np.asarray(prices, dtype=np.float64)
        waiting = np.zeros((len(prices), 1))
        values = self._payoffs(prices, option.dates - 1 - t)
        for left in range(option.dates - 2 - t, -1, -1):
            waiting = option.discount(1) * (p * values[:, 1:] + (1 - p) * values[:, :-1])
            values = np.maximum(self._payoffs(prices, left), waiting)
        return np.asarray(waiting[:, 0])

    def fixed_date(self, prices: FloatArray, dates_to_go: int) -> tuple[FloatArray, FloatArray]:
        """(n,) the value now of exercising that many dates later, and a slope that supports it."""
        p, option = self.process.probability, self.option
        rises = range(dates_to_go + 1)
        odds = [math.comb(dates_to_go, k) * p**k * (1 - p) ** (dates_to_go - k) for k in rises]
        weights = np.array(odds) * option.discount(dates_to_go)
        payoff = self._payoffs(prices, dates_to_go)
        slopes = option.sign * ((payoff > 0) @ (weights * self._factors(dates_to_go)))
        return payoff @ weights, np.asarray(slopes, dtype=np.float64)

    def _payoffs(self, prices: FloatArray, steps: int) -> FloatArray:
        """(n, steps + 1) after as many steps, by the number of rises."""
        return self.option.payoff(prices[:, np.newaxis] * self._factors(steps))

    def _factors(self, steps: int) -> FloatArray:
        return np.asarray(self.process.up ** (2.0 * np.arange(steps + 1) - steps))
