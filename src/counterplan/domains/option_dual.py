"""Tight bounds of options: fitted rules below, and above, by duality, hindsight minus a martingale.

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

Of several options each is exercised where its own rule says so. Where that is more than `cap` at
once, those that gain most over waiting come first; and where more options would pay than the dates
left can take, the first of them go now. Hindsight assigns options to dates, each option less its
own martingale M_b:

    V* <= E[ max over options' dates, at most cap on one, of sum_b e^{-r t dt} payoff_b - M_b ]

which allows for the cap and is at most the sum of the options' separate bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import BoolArray, FloatArray, Seed, generator, whole_number
from counterplan.domains.longstaff_schwartz import LongstaffSchwartz, longstaff_schwartz
from counterplan.domains.option_contract import normal_below
from counterplan.domains.options import AmericanOption, OptionProblem, assign
from counterplan.errors import NotApplicableError
from counterplan.planning.bounds import Penalised
from counterplan.planning.model import ExogenousModel
from counterplan.planning.policies import Rule
from counterplan.planning.processes.prices import BinomialLattice

# Where an option is exercised, among prices (n,) at date t.
Exercises: TypeAlias = Callable[[int, FloatArray], BoolArray]

# Nodes per standard deviation of one step, and how many deviations of the whole term they reach.
DENSITY = 6
REACH = 8.0
# Paths that the rules are fitted on.
FIT_PATHS = 50_000
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
    """The martingale of a rule's value.

    values  (T, G) of the rule at the nodes (G,), in money of each date
    """

    def __init__(self, option: AmericanOption, exercises: Exercises) -> None:
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
            held = contract.discount(1) * self._mean(t + 1, nodes)
            self.values[t] = np.maximum(np.where(exercises(t, nodes), payoff, 0.0), held)

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


def penalised_gains(
    problem: OptionProblem, rules: Sequence[Exercises], paths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Payoffs along paths (n, T, B) less the martingales of the rules, in money of date 0: what
    exercising on each date gains over never exercising (n, T, B), and what the latter earns (n, B).
    """
    each = zip(problem.singles, rules, strict=True)
    along = [Martingale(*one).along(paths[:, :, b]) for b, one in enumerate(each)]
    martingales = np.stack(along, axis=2)
    never = -martingales[:, -1]
    return problem.discounted(0, paths) - martingales - never[:, np.newaxis], never


def controlled_outcomes(
    problem: OptionProblem, paths: FloatArray, actions: FloatArray
) -> FloatArray:
    """(n,) what actions (n, T, B) earned along paths (n, T, B), minus the martingales of the
    options' own optimal values: the same mean for whoever does not know the future, and hardly any
    variance. Without a cap the optimal policy earns V* on every path, up to the grid; what is
    missing was decided badly.
    """
    gains, never = penalised_gains(problem, [one.exercises for one in problem.singles], paths)
    return np.asarray((actions * gains).sum(axis=(1, 2)) + never.sum(axis=1))


# --- Rules with a cap, and the bounds they give -----------------------------------------------


class KnowsWaiting(Protocol):
    """An option of which it is known what waiting is worth."""

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """(n,) in money of date t, at prices (n,)."""
        ...


@dataclass(frozen=True)
class PerOption:
    """The classical way with a basket: each option's own rule, plus the cap.

    paths  that each option's rule is fitted on by Longstaff-Schwartz; None: what waiting is worth
           is computed exactly, which earns a little more
    """

    paths: int | None = FIT_PATHS

    def __post_init__(self) -> None:
        if self.paths is not None:
            whole_number(self.paths, "paths", minimum=2)

    @property
    def name(self) -> str:
        exact = "optimal for each option, capped"
        return exact if self.paths is None else "least squares per option"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule; where it is fitted, on paths of this seed."""
        if not isinstance(model, OptionProblem):
            raise NotApplicableError(
                f"PerOption is for options, not a {type(model).__name__}: use LeastSquares"
            )
        return capped(model, (self.paths and fit_each(model, self.paths, seed)) or model.singles)


def fit_each(problem: OptionProblem, paths: int, seed: Seed) -> list[LongstaffSchwartz]:
    """The options' own rules."""
    rng = generator(seed)
    return [longstaff_schwartz(single, paths, rng) for single in problem.singles]


def capped(problem: OptionProblem, fits: Sequence[KnowsWaiting]) -> Rule:
    """The options' own rules, at most `cap` at once."""

    def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        payoffs = problem.payoffs(exogenous)
        waiting = np.column_stack([fit.waiting(t, exogenous[:, b]) for b, fit in enumerate(fits)])
        possible = (resource > 0.5) & (payoffs > 0)
        wanted = (possible & (payoffs >= waiting)).sum(axis=1)
        crowded = possible.sum(axis=1) - problem.most * (problem.horizon - 1 - t)
        wanted = np.minimum(np.maximum(wanted, crowded), problem.most)
        gains = np.where(possible, payoffs - waiting, -np.inf)
        rank = np.argsort(np.argsort(-gains, axis=1, kind="stable"), axis=1)
        return np.where(rank < wanted[:, np.newaxis], 1.0, 0.0)

    return rule


def penalised_options(problem: OptionProblem, samples: int, seed: Seed) -> Penalised:
    """Both bounds on fresh paths: the fitted rules, and hindsight, each minus the martingales."""
    rng = generator(seed)
    fits = fit_each(problem, FIT_PATHS, rng)
    paths = problem.sample_paths(samples, rng)
    gains, never = penalised_gains(problem, [fit.exercises for fit in fits], paths)
    rule, held = capped(problem, fits), np.ones(never.shape)
    executed = never.sum(axis=1)
    for t in range(problem.horizon):
        chosen = rule(t, paths[:, t], held)
        executed += (chosen * gains[:, t]).sum(axis=1)
        held -= chosen
    best, _ = assign(gains, np.ones(never.shape), problem.most)
    policy = "Longstaff-Schwartz out of sample, its martingale as control variate"
    penalty = "hindsight minus the martingale of the Longstaff-Schwartz rule"
    if len(problem.contracts) > 1:
        policy = "Longstaff-Schwartz per option and the cap, martingales as control variate"
        penalty = (
            "hindsight (assignment) minus the martingales of the options' Longstaff-Schwartz rules"
        )
    return Penalised(executed, never.sum(axis=1) + best, policy, penalty)
