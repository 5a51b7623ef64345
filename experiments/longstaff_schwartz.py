"""Longstaff and Schwartz's exercise rule for one price (G.4), the paper's classical rule.

Backwards over the dates, on the paths in the money, the discounted flow of holding on is regressed
on 1, S, S^2 (Eq. G.3); exercised is where the payoff is no less than the fit. The same method as
`planning.least_squares` on an `AmericanOption`, whose fit it equals on the same paths, with the
normal equations solved as they are, in three compiled sweeps over the paths per date. Of a basket
each option is exercised where its own rule says so, as far as the cap allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.core.validation import BoolArray, FloatArray, Seed, generator, whole_number
from counterplan.domains.options import AmericanOption, OptionProblem
from counterplan.errors import NotApplicableError
from counterplan.planning.compiled import MATRIX, VECTOR
from counterplan.planning.model import Estimate, ExogenousModel, estimate
from counterplan.planning.policies import Rule

# Paths that the rules of a basket are fitted on.
FIT_PATHS = 50_000
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


@dataclass(frozen=True)
class LeastSquaresEach:
    """The classical way with a basket: each option's own fitted rule, plus the cap.

    paths  that each option's rule is fitted on
    """

    paths: int = FIT_PATHS

    name: ClassVar[str] = "least squares per option"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule, fitted on paths of this seed."""
        if not isinstance(model, OptionProblem):
            raise NotApplicableError(f"this is for options, not a {type(model).__name__}")
        rng = generator(seed)
        fits = [longstaff_schwartz(one, self.paths, rng) for one in model.singles]

        def waiting(t: int, prices: FloatArray) -> FloatArray:
            return np.column_stack([one.waiting(t, prices[:, b]) for b, one in enumerate(fits)])

        return model.capped(waiting)
