"""What an option is worth: with a fixed date (Black-Scholes), and with dates to choose from.

The choice among the dates t = 0 .. T-1 by backward induction, at strike 1 and in y = log S:

    C_t(y) = e^{-r dt} E[ V_{t+1}(y') | y ],  V_t = max(1 - e^y, C_t),  C_{T-1} = 0       (put)

For r > 0 and q >= 0 exercising is optimal exactly below one price e^{b_t}, so that

    C_t(y) = e^{-r dt} ( int_{-inf}^{b} (1 - e^z) n(z; y) dz + int_{b}^{inf} C_{t+1}(z) n(z; y) dz )

with b = b_{t+1}: the first integral in closed form, the second, over an analytic function, by
composite Gauss-Legendre. The nodes are where C_{t+1} was computed, so nothing is interpolated.
The range ends nine standard deviations of the whole term above the strike. The error is then that
of floating-point sums: with three times the nodes and half as much range again, values stay the
same to 1e-13 of the strike.

Calls follow by symmetry: call(S, K; r, q) = put(K, S; q, r). With r = 0 (a put) or q = 0 (a call)
waiting never costs anything, and the value is the European one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.option_contract import OptionContract

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
        """The step as `options_exact_kernel` takes it."""
        growth = (self.rate - self.dividend) * self.step
        return self.rate * self.step, growth, self.deviation

    def continuation(
        self, y: FloatArray, edge: float, nodes: FloatArray, weighted: FloatArray
    ) -> FloatArray:
        """C_t at (n,) log prices from the edge of date t+1 and its weighted values at the nodes."""
        from counterplan.domains.options_exact_kernel import held_values

        return np.asarray(held_values(y, self.numbers, edge, nodes, weighted))

    def edge(self, edge: float, nodes: FloatArray, weighted: FloatArray) -> float:
        """b_t from the same."""
        from counterplan.domains.options_exact_kernel import exercise_edge

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
