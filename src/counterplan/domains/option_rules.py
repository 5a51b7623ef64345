"""Tight bounds of options by martingales, and the rule for a basket whose cap binds.

What a rule earns bounds the value from below; above, by duality, it is hindsight minus a
martingale. For any martingale M with M_0 = 0 (Rogers; Haugh and Kogan),

    V* <= E[ max_t  e^{-r t dt} payoff(S_t) - M_t ]

with equality where M is that of the optimal value (Andersen and Broadie):

    M_{t+1} - M_t = e^{-r (t+1) dt} ( V_{t+1}(S_{t+1}) - E[V_{t+1}(S_{t+1}) | S_t] )

V is here the optimal value on a grid of prices with straight lines between:

    V_t(S) = max( payoff(S), e^{-r dt} E[V_{t+1} | S] )

Means of straight lines under a lognormal step are sums of Black-Scholes prices, on the lattice sums
of two terms. So the increments have mean zero exactly, whatever the grid: the bound is valid, and
no simulation is nested in it. What the grid leaves undone only makes it wider.

Of several options each is exercised where that is best for it alone. Where that is more than `cap`
at once, those that gain most over waiting come first; and where more options would pay than the
dates left can take, the first of them go now. Hindsight assigns options to dates, each option less
its own martingale M_b:

    V* <= E[ max over options' dates, at most cap on one, of sum_b e^{-r t dt} payoff_b - M_b ]

which allows for the cap and is at most the sum of the options' separate bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, Seed
from counterplan.domains.option_contract import normal_below
from counterplan.domains.options import AmericanOption, OptionProblem, assign
from counterplan.errors import NotApplicableError
from counterplan.planning.bounds import Penalised
from counterplan.planning.model import ExogenousModel
from counterplan.planning.policies import Rule
from counterplan.planning.processes.prices import BinomialLattice

# Nodes per standard deviation of one step, and how many deviations of the whole term they reach.
DENSITY = 6
REACH = 8.0
# A normal beyond this many deviations is as good as certain: 1 - Phi(9) = 1e-19.
CERTAIN = 9.0

# --- Means of straight lines between nodes under a lognormal step, compiled --------------------

# grid = (first, width, nodes): evenly spaced in their logarithms, `width` apart from `first` on.


@njit(cache=True)
def at_prices(prices, grid, values):  # type: ignore[no-untyped-def]
    """The straight lines through (nodes, values), the outer ones prolonged, at prices (n,)."""
    first, width, nodes = grid
    result = np.empty(prices.size)
    for k in range(prices.size):
        i = min(max(int((math.log(prices[k]) - first) / width), 0), nodes.size - 2)
        slope = (values[i + 1] - values[i]) / (nodes[i + 1] - nodes[i])
        result[k] = values[i] + slope * (prices[k] - nodes[i])
    return result


@njit(cache=True)
def lognormal_means(prices, drift, s, grid, values):  # type: ignore[no-untyped-def]
    """(n,) E[f(S')] exactly, f the straight lines and S' = price e^{drift} lognormal(-s^2/2, s).

    f is its first line and, at each node, a call times the change of slope: f(S) = line_0(S) +
    sum_j (slope_j - slope_{j-1}) (S - node_j)^+, so its mean is a sum of Black-Scholes prices;
    those deep in or out of the money are straight lines themselves.
    """
    first, width, nodes = grid
    result = np.empty(prices.size)
    reach = CERTAIN * s / width + 1.0
    for k in range(prices.size):
        forward = prices[k] * math.exp(drift)
        center = (math.log(forward) - first) / width
        low = min(max(int(center - reach), 0), nodes.size - 2)
        high = min(int(center + reach) + 2, nodes.size - 1)
        # Nodes up to `low` are passed with certainty: what remains is the line from there on.
        slope = (values[low + 1] - values[low]) / (nodes[low + 1] - nodes[low])
        total = values[low] + slope * (forward - nodes[low])
        for j in range(low + 1, high):
            after = (values[j + 1] - values[j]) / (nodes[j + 1] - nodes[j])
            d = (center - j) * width / s + 0.5 * s
            total += (after - slope) * (forward * normal_below(d) - nodes[j] * normal_below(d - s))
            slope = after
        result[k] = total
    return result


# --- Martingales ------------------------------------------------------------------------------


class Martingale:
    """The martingale of an option's optimal value.

    values  (T, G) at the nodes (G,), in money of each date
    """

    def __init__(self, option: AmericanOption) -> None:
        self.option, contract = option, option.contract
        width = contract.volatility * math.sqrt(contract.step) / DENSITY
        reach = REACH * contract.volatility * math.sqrt(contract.maturity)
        reach += abs(contract.drift) * contract.maturity
        reach += abs(math.log(contract.price / contract.strike))
        # The payoff bends at the strike, a lattice's prices lie around the first: that is a node.
        lattice = isinstance(option.process, BinomialLattice)
        middle = math.log(contract.price if lattice else contract.strike)
        half = math.ceil(reach / width)
        logs = middle + width * np.arange(-half, half + 1)
        nodes = np.exp(logs)
        self.grid = float(logs[0]), width, nodes
        payoff = contract.payoff(nodes)
        self.values = np.tile(payoff, (contract.dates, 1))
        for t in range(contract.dates - 2, -1, -1):
            self.values[t] = np.maximum(payoff, contract.discount(1) * self._mean(t + 1, nodes))

    def along(self, prices: FloatArray) -> FloatArray:
        """(n, T) the martingale along prices (n, T), in money of date 0."""
        increments = np.zeros(prices.shape)
        for t in range(1, prices.shape[1]):
            before, now = (np.ascontiguousarray(prices[:, s]) for s in (t - 1, t))
            surprise = at_prices(now, self.grid, self.values[t]) - self._mean(t, before)
            increments[:, t] = self.option.contract.discount(t) * surprise
        return np.asarray(increments.cumsum(axis=1))

    def _mean(self, t: int, prices: FloatArray) -> FloatArray:
        """E[V_t(S_t) | S_{t-1}] for prices (n,) of date t - 1."""
        contract, process, values = self.option.contract, self.option.process, self.values[t]
        if isinstance(process, BinomialLattice):
            up = at_prices(process.up * prices, self.grid, values)
            down = at_prices(process.down * prices, self.grid, values)
            return np.asarray(process.probability * up + (1 - process.probability) * down)
        step = contract.drift * contract.step, contract.volatility * math.sqrt(contract.step)
        return np.asarray(lognormal_means(prices, *step, self.grid, values))


def penalised_gains(problem: OptionProblem, paths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Payoffs along paths (n, T, B) less the options' martingales, in money of date 0: what
    exercising on each date gains over never exercising (n, T, B), and what the latter earns (n, B).
    """
    each = [Martingale(one).along(paths[:, :, b]) for b, one in enumerate(problem.singles)]
    martingales = np.stack(each, axis=2)
    never = -martingales[:, -1]
    return problem.discounted(0, paths) - martingales - never[:, np.newaxis], never


# --- Rules with a cap, and the bounds they give -----------------------------------------------


class KnowsWaiting(Protocol):
    """An option that is exercised where that pays no less than waiting is thought to be worth."""

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n,) the value at date t, in money of date t, of not exercising then."""
        ...


def capped(problem: OptionProblem, options: Sequence[KnowsWaiting]) -> Rule:
    """The options' own rules, at most `cap` at once."""

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        payoffs = problem.payoffs(exogenous)
        each = [option.waiting(t, exogenous[:, b]) for b, option in enumerate(options)]
        waiting = np.column_stack(each)
        possible = (resource > 0.5) & (payoffs > 0)
        wanted = (possible & (payoffs >= waiting)).sum(axis=1)
        crowded = possible.sum(axis=1) - problem.most * (problem.horizon - 1 - t)
        wanted = np.minimum(np.maximum(wanted, crowded), problem.most)
        gains = np.where(possible, payoffs - waiting, -np.inf)
        rank = np.argsort(np.argsort(-gains, axis=1, kind="stable"), axis=1)
        return np.where(rank < wanted[:, np.newaxis], 1.0, 0.0)

    return rule


@dataclass(frozen=True)
class PerOption:
    """What is best for each option alone, plus the cap."""

    name: ClassVar[str] = "optimal for each option, capped"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule; nothing is drawn."""
        if not isinstance(model, OptionProblem):
            raise NotApplicableError(
                f"PerOption is for options, not a {type(model).__name__}: use LeastSquares"
            )
        return capped(model, model.singles)


def penalised_options(problem: OptionProblem, samples: int, seed: Seed) -> Penalised:
    """Both bounds on sampled paths: the rule, and hindsight, each minus the martingales."""
    paths = problem.sample_paths(samples, seed)
    gains, never = penalised_gains(problem, paths)
    rule, held = capped(problem, problem.singles), np.ones(never.shape)
    executed = never.sum(axis=1)
    for t in range(problem.horizon):
        chosen = rule(t, paths[:, t], held)
        executed += (chosen * gains[:, t]).sum(axis=1)
        held -= chosen
    best, _ = assign(gains, np.ones(never.shape), problem.most)
    policy = f"{PerOption.name}, martingales as control variate"
    penalty = "hindsight (assignment) minus the martingales of the options' optimal values"
    return Penalised(executed, never.sum(axis=1) + best, policy, penalty)
