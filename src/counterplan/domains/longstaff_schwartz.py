"""Longstaff and Schwartz's price of an American option (G.4), for one price and fast.

Backwards over the dates, on the paths in the money, the discounted flow of holding on is regressed
on 1, S, S^2 (Eq. G.3); exercised is where the payoff is no less than the fit. The same method as
`planning.least_squares` on an `AmericanOption`, whose fit it equals on the same paths, with the
three-by-three equations solved as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, Seed, whole_number
from counterplan.planning.estimate import Estimate, estimate

if TYPE_CHECKING:
    from counterplan.domains.options import AmericanOption


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
        from counterplan.domains.longstaff_schwartz_kernel import forward

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
    from counterplan.domains.longstaff_schwartz_kernel import backward

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
