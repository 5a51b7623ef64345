"""Exercise rules of options, and the bounds they give.

Longstaff and Schwartz's rule for one price (G.4): backwards over the dates, on the paths in the
money, the discounted flow of holding on is regressed on 1, S, S^2 (Eq. G.3); exercised is where the
payoff is no less than the fit. The same method as `planning.least_squares` on an `AmericanOption`,
whose fit it equals on the same paths, with the normal equations solved as they are, in three
compiled sweeps over the paths per date.

What a rule earns bounds the value from below; above, by duality, it is hindsight minus a
martingale.

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
from typing import TypeAlias

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.core.validation import BoolArray, FloatArray, Seed, generator, whole_number
from counterplan.domains.option_contract import normal_below
from counterplan.domains.options import AmericanOption, OptionProblem, assign
from counterplan.errors import NotApplicableError
from counterplan.planning.bounds import Penalised
from counterplan.planning.compiled import MATRIX, VECTOR
from counterplan.planning.model import Estimate, ExogenousModel, estimate
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

# --- Longstaff-Schwartz -----------------------------------------------------------------------

# Fewer paths in the money give no regression: the option is held.
LEAST_PATHS = 4
# What is left of u^2 beside 1 and u, as a share of it, where the equations are singular.
SINGULAR = 1e-13


@njit(cache=True)
def _regressed(moneyness, flows, sign):  # type: ignore[no-untyped-def]
    """The coefficients of 1, u, u^2 that fit the flows best on the paths in the money, and the
    shift: u = m - mean(m), which conditions the equations; nan where there is no fit."""
    n = moneyness.size
    count, mean = 0, 0.0
    for i in range(n):
        inside = sign * moneyness[i] > 0.0
        count += inside
        mean += moneyness[i] if inside else 0.0
    if count < LEAST_PATHS:
        return np.nan, np.nan, np.nan, 0.0
    mean /= count
    m2 = m3 = m4 = f0 = f1 = f2 = 0.0
    for i in range(n):
        inside = 1.0 if sign * moneyness[i] > 0.0 else 0.0
        u = inside * (moneyness[i] - mean)
        flow = inside * flows[i]
        square = u * u
        m2 += square
        m3 += square * u
        m4 += square * square
        f0 += flow
        f1 += flow * u
        f2 += flow * square
    # u^2 less its projections on 1 and u, which are orthogonal.
    left = m4 - m2 * m2 / count - m3 * m3 / m2 if m2 > 0.0 else 0.0
    if left <= SINGULAR * m4:
        return np.nan, np.nan, np.nan, 0.0
    b2 = (f2 - f0 * m2 / count - f1 * m3 / m2) / left
    return (f0 - b2 * m2) / count, (f1 - b2 * m3) / m2, b2, mean


_FITTED = types.UniTuple(MATRIX, 2)  # type: ignore[no-untyped-call]


@njit(_FITTED(MATRIX, types.float64, types.float64), cache=True)
def backward(moneyness, sign, discount):  # type: ignore[no-untyped-def]
    """Coefficients (T, 4): those of powers of m - mean, and the mean, nan where nothing is
    regressed; and the flows (1, n) of date 1 on, in units of the strike and of date 0.

    moneyness (T, n) is S / K - 1; discount is e^{-r dt}.
    """
    T, n = moneyness.shape
    coefficients = np.full((T, 4), np.nan)
    flows = np.empty((1, n))
    flow = flows[0]
    for i in range(n):
        flow[i] = max(sign * moneyness[T - 1, i], 0.0)
    for t in range(T - 2, 0, -1):
        for i in range(n):
            flow[i] *= discount
        b0, b1, b2, mean = coefficients[t] = _regressed(moneyness[t], flow, sign)
        for i in range(n):
            payoff = sign * moneyness[t, i]
            u = moneyness[t, i] - mean
            # A comparison with nan is false: where nothing was fitted, the option is held.
            if payoff > 0.0 and payoff >= b0 + u * (b1 + u * b2):
                flow[i] = payoff
    for i in range(n):
        flow[i] *= discount
    return coefficients, flows


@njit(VECTOR(MATRIX, MATRIX, types.float64, types.float64), cache=True)
def forward(moneyness, coefficients, sign, discount):  # type: ignore[no-untyped-def]
    """(n,) what the fitted rule earns from date 1 on, in units of the strike and of date 0."""
    T, n = moneyness.shape
    result = np.zeros(n)
    held = np.ones(n, dtype=np.bool_)
    factor = 1.0
    for t in range(1, T):
        factor *= discount
        b0, b1, b2, mean = coefficients[t]
        last = t == T - 1
        for i in range(n):
            payoff = sign * moneyness[t, i]
            u = moneyness[t, i] - mean
            if held[i] and payoff > 0.0 and (last or payoff >= b0 + u * (b1 + u * b2)):
                held[i] = False
                result[i] = factor * payoff
    return result


@dataclass(frozen=True)
class LongstaffSchwartz:
    """A fitted exercise rule and what it earns.

    coefficients  (T, 4) of 1, u, u^2 in units of the strike, and the shift m: u = S / K - 1 - m;
                  nan on dates without regression (the first, the last, too few paths in the money)
    today         what waiting is worth at date 0
    in_sample     the value on the paths of the fit, flattered by having been fitted to them
    """

    option: AmericanOption
    coefficients: FloatArray
    today: float
    in_sample: Estimate

    def waiting(self, t: int, prices: FloatArray) -> FloatArray:
        """The fitted value, in money of date t, of not exercising then; inf where not fitted."""
        contract = self.option.contract
        if t == 0:
            return np.full(np.shape(prices), self.today)
        if t == contract.dates - 1:
            return np.zeros(np.shape(prices))
        b0, b1, b2, mean = self.coefficients[t]
        u = prices / contract.strike - 1.0 - mean
        fitted = contract.strike * (b0 + u * (b1 + u * b2))
        return np.where(np.isnan(fitted), np.inf, fitted)

    def exercises(self, t: int, prices: FloatArray) -> BoolArray:
        """Where the rule exercises."""
        payoff = self.option.contract.payoff(prices)
        return np.asarray((payoff > 0) & (payoff >= self.waiting(t, prices)))

    def out_of_sample(self, paths: int = 100_000, seed: Seed = 1) -> Estimate:
        """The rule's value on fresh paths: an honest lower bound of the option's."""
        contract = self.option.contract
        whole_number(paths, "paths", minimum=2)
        if self.exercises(0, np.array([contract.price]))[0]:
            return Estimate(contract.sign * (contract.price - contract.strike), 0.0)
        moneyness = _moneyness(self.option, paths, seed)
        discount = float(contract.discount(1))
        flows = forward(moneyness, self.coefficients, contract.sign, discount)
        return estimate(contract.strike * flows)


def longstaff_schwartz(
    option: AmericanOption, paths: int = 100_000, seed: Seed = 0
) -> LongstaffSchwartz:
    """The rule fitted on sampled paths."""
    contract = option.contract
    whole_number(paths, "paths", minimum=2)
    moneyness = _moneyness(option, paths, seed)
    coefficients, flows = backward(moneyness, contract.sign, float(contract.discount(1)))
    waiting = estimate(contract.strike * flows[0])
    payoff = float(contract.payoff(np.array(contract.price)))
    value = Estimate(payoff, 0.0) if payoff >= waiting.mean else waiting
    return LongstaffSchwartz(option, coefficients, waiting.mean, value)


def _moneyness(option: AmericanOption, paths: int, seed: Seed) -> FloatArray:
    """(T, n) S / K - 1."""
    prices = option.sample_paths(paths, seed)[:, :, 0]
    return np.ascontiguousarray(prices.T) / option.contract.strike - 1.0


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


# --- Rules with a cap, and the bounds they give -----------------------------------------------


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


def capped(problem: OptionProblem, fits: Sequence[AmericanOption | LongstaffSchwartz]) -> Rule:
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
