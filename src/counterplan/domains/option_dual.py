"""Upper bounds of options by duality: hindsight, minus a martingale.

For any martingale M with M_0 = 0 (Rogers; Haugh and Kogan),

    V* <= E[ max_t  e^{-r t dt} payoff(S_t) - M_t ]

with equality where M is that of the optimal value. Andersen and Broadie take it from a fitted rule:

    M_{t+1} - M_t = e^{-r (t+1) dt} ( V_{t+1}(S_{t+1}) - E[V_{t+1}(S_{t+1}) | S_t] )

V is here the value of the Longstaff-Schwartz rule, on a grid of prices with straight lines between:

    V_t(S) = e^{-r dt} E[V_{t+1} | S],  or payoff(S) if the rule exercises and that is more

(the rule is mended where it exercises too early; where too late, it stays). Means of straight lines
under a lognormal step are sums of Black-Scholes prices, on the lattice sums of two terms. So the
increments have mean zero exactly, whatever the grid and the rule: the bound is valid, and no
simulation is nested in it. What grid and rule leave undone only makes it wider.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numba import njit

from counterplan.core.validation import BoolArray, FloatArray, Seed, generator
from counterplan.domains.longstaff_schwartz import longstaff_schwartz
from counterplan.domains.option_contract import normal_below
from counterplan.planning.bounds import Penalised
from counterplan.planning.processes.prices import BinomialLattice

if TYPE_CHECKING:
    from counterplan.domains.options import AmericanOption

# --- Means of straight lines between nodes under a lognormal step, compiled --------------------

# A normal beyond this many deviations is as good as certain: 1 - Phi(9) = 1e-19.
CERTAIN = 9.0


@njit(cache=True)
def at_price(price, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """The straight lines through (nodes, values), the outer ones prolonged, at a price.

    The nodes are evenly spaced in their logarithms: the first is `first`, they are `width` apart.
    """
    i = int((math.log(price) - first) / width)
    i = min(max(i, 0), nodes.size - 2)
    slope = (values[i + 1] - values[i]) / (nodes[i + 1] - nodes[i])
    return values[i] + slope * (price - nodes[i])


@njit(cache=True)
def lognormal_mean(price, step, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """E[f(S')] exactly, f the straight lines and S' = price e^{drift} lognormal(-s^2/2, s).

    step = (drift, s). f is its first line and, at each node, a call times the change of slope:
    f(S) = line_0(S) + sum_j (slope_j - slope_{j-1}) (S - node_j)^+, so its mean is a sum of
    Black-Scholes prices; those deep in or out of the money are straight lines themselves.
    """
    drift, s = step
    forward = price * math.exp(drift)
    center = (math.log(forward) - first) / width
    reach = CERTAIN * s / width + 1.0
    low = min(max(int(center - reach), 0), nodes.size - 2)
    high = min(int(center + reach) + 2, nodes.size - 1)
    # Nodes up to `low` are passed with certainty: what remains of them is the line from there on.
    slope = (values[low + 1] - values[low]) / (nodes[low + 1] - nodes[low])
    total = values[low] + slope * (forward - nodes[low])
    for j in range(low + 1, high):
        after = (values[j + 1] - values[j]) / (nodes[j + 1] - nodes[j])
        d = (center - j) * width / s + 0.5 * s
        total += (after - slope) * (forward * normal_below(d) - nodes[j] * normal_below(d - s))
        slope = after
    return total


@njit(cache=True)
def lognormal_means(prices, step, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """`lognormal_mean` of each price (n,)."""
    result = np.empty(prices.size)
    for i in range(prices.size):
        result[i] = lognormal_mean(prices[i], step, first, width, nodes, values)
    return result


@njit(cache=True)
def at_prices(prices, first, width, nodes, values):  # type: ignore[no-untyped-def]
    """`at_price` of each price (n,)."""
    result = np.empty(prices.size)
    for i in range(prices.size):
        result[i] = at_price(prices[i], first, width, nodes, values)
    return result


# --- Martingales and the bounds they give -----------------------------------------------------

# Nodes per standard deviation of one step, and how many deviations of the whole term they reach.
DENSITY = 6
REACH = 8.0
# Paths that the rule is fitted on.
FIT_PATHS = 50_000

EXECUTED = "Longstaff-Schwartz out of sample, its martingale as control variate"
PENALTY = "hindsight minus the martingale of the Longstaff-Schwartz rule"


class ExerciseRule(Protocol):
    """When to exercise an option."""

    @property
    def option(self) -> AmericanOption: ...

    def exercises(self, t: int, prices: FloatArray) -> BoolArray:
        """Where, among prices (n,) at date t."""
        ...


@dataclass(frozen=True)
class OptimalRule:
    """Exercise where it is optimal."""

    option: AmericanOption

    def exercises(self, t: int, prices: FloatArray) -> BoolArray:
        """Where, among prices (n,) at date t."""
        held = np.ones((len(prices), 1))
        return np.asarray(self.option.optimal_actions(t, prices[:, np.newaxis], held)[:, 0] > 0)


@dataclass(frozen=True)
class OptionMartingale:
    """The martingale of a rule's value.

    values  (T, G) of the rule at the nodes, in money of each date
    nodes   (G,) prices, evenly spaced in their logarithms
    first   logarithm of the first node
    width   distance of the nodes' logarithms
    """

    rule: ExerciseRule
    values: FloatArray
    nodes: FloatArray
    first: float
    width: float

    @classmethod
    def of(cls, rule: ExerciseRule) -> OptionMartingale:
        """The rule's value, backwards over the dates."""
        contract = rule.option.contract
        deviation = contract.volatility * np.sqrt(contract.step)
        width = deviation / DENSITY
        reach = REACH * contract.volatility * np.sqrt(contract.maturity)
        reach += abs(contract.drift) * contract.maturity + abs(
            np.log(contract.price / contract.strike)
        )
        # The payoff bends at the strike, a lattice's prices lie around the first: that is a node.
        lattice = isinstance(rule.option.process, BinomialLattice)
        middle = np.log(contract.price if lattice else contract.strike)
        half = int(np.ceil(reach / width))
        logs = middle + width * np.arange(-half, half + 1)
        nodes = np.exp(logs)
        values = np.empty((contract.dates, nodes.size))
        values[-1] = contract.payoff(nodes)
        made = cls(rule, values, nodes, float(logs[0]), float(width))
        for t in range(contract.dates - 2, -1, -1):
            held = contract.discount(1) * made._mean(t + 1, nodes)
            values[t] = np.where(rule.exercises(t, nodes), contract.payoff(nodes), 0.0)
            np.maximum(values[t], held, out=values[t])
        return made

    def along(self, prices: FloatArray) -> FloatArray:
        """(n, T) the martingale along prices (n, T), in money of date 0."""
        result = np.zeros(prices.shape)
        grid = self.first, self.width, self.nodes
        for t in range(1, prices.shape[1]):
            before, now = (np.ascontiguousarray(prices[:, s]) for s in (t - 1, t))
            surprise = at_prices(now, *grid, self.values[t]) - self._mean(t, before)
            result[:, t] = result[:, t - 1] + self.rule.option.contract.discount(t) * surprise
        return result

    def _mean(self, t: int, prices: FloatArray) -> FloatArray:
        """E[V_t(S_t) | S_{t-1}] for prices (n,) of date t - 1."""
        contract, process = self.rule.option.contract, self.rule.option.process
        grid = self.first, self.width, self.nodes
        if isinstance(process, BinomialLattice):
            up, down = (
                at_prices(factor * prices, *grid, self.values[t])
                for factor in (process.up, process.down)
            )
            return np.asarray(process.probability * up + (1 - process.probability) * down)
        step = contract.drift * contract.step, contract.volatility * np.sqrt(contract.step)
        return np.asarray(lognormal_means(prices, step, *grid, self.values[t]))


def penalised_option(option: AmericanOption, samples: int, seed: Seed) -> Penalised:
    """Both bounds on fresh paths: the fitted rule, and hindsight, each minus its martingale."""
    rng = generator(seed)
    rule = longstaff_schwartz(option, FIT_PATHS, rng)
    prices = option.sample_paths(samples, rng)[:, :, 0]
    gains = penalised_payoffs(OptionMartingale.of(rule), prices)
    exercised = np.column_stack([rule.exercises(t, prices[:, t]) for t in range(gains.shape[1])])
    exercised[:, -1] = True
    executed = gains[np.arange(samples), exercised.argmax(axis=1)]
    return Penalised(executed, gains.max(axis=1), EXECUTED, PENALTY)


def penalised_payoffs(martingale: OptionMartingale, prices: FloatArray) -> FloatArray:
    """(n, T) e^{-r t dt} payoff(S_t) - M_t along prices (n, T)."""
    contract = martingale.rule.option.contract
    payoffs = contract.discount(np.arange(contract.dates)) * contract.payoff(prices)
    return np.asarray(payoffs - martingale.along(prices))


def controlled_outcomes(
    option: AmericanOption, paths: FloatArray, actions: FloatArray
) -> FloatArray:
    """(n,) what actions (n, T, 1) earned along paths (n, T, 1), minus the martingale of the optimal
    value: the same mean for whoever does not know the future, and hardly any variance. The
    optimal policy earns V* on every path, up to the grid; what is missing was decided badly.
    """
    martingale = OptionMartingale.of(OptimalRule(option))
    gains = penalised_payoffs(martingale, paths[:, :, 0])
    unexercised = -martingale.along(paths[:, :, 0])[:, -1]
    exercised = actions[:, :, 0]
    held_on = 1.0 - exercised.sum(axis=1)
    return np.asarray((exercised * gains).sum(axis=1) + held_on * unexercised)
