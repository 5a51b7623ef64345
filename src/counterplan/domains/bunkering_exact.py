"""The optimal cost of a voyage without foresight, by dynamic programming over the tank's levels.

Let W_t(x) be the least expected cost from port t on, arriving with level x, before its price P is
known, and let the ship buy up to one of the levels y (bunkering_levels), or nothing (y = x):

    W_t(x) = E_P min_y [ P (y - x) + K 1{y > x} + W_{t+1}(y - l_t) ],    W_T = 0

Under prices that are independent between ports each min is over lines in P, and its expectation a
sum over the pieces of their lower envelope (bunkering_prices), exact up to rounding. Where instead
P_{t+1} / P_t does not depend on P_t (one price for all ports, bootstrapped returns) and K = 0,
costs scale with the price, V_t(x, P) = P v_t(x), and what is bought never depends on the price:

    v_t(x) = min_y [ (y - x) + E[P_{t+1} / P_t] v_{t+1}(y - l_t) ]

The same recursion, choosing by the costs W of another law, evaluates the policy that believes it:
with every price at its mean, that is the expected-price plan, re-solved at every port.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering_levels import Levels
from counterplan.domains.bunkering_prices import PriceLaw


@dataclass(frozen=True)
class VoyageValue:
    """Expected costs to go, optimal or of a policy.

    levels      what may be bought
    fixed_cost  K, per purchase
    law         of the prices; where they scale, costs are in units of the price before
    belief      None: the optimum; else the costs by which purchases are chosen
    ahead       (T, K) expected cost from each target on, after its leg
    """

    levels: Levels
    fixed_cost: float
    law: PriceLaw
    belief: VoyageValue | None
    ahead: FloatArray

    @classmethod
    def solve(
        cls, levels: Levels, fixed_cost: float, law: PriceLaw, belief: VoyageValue | None = None
    ) -> VoyageValue:
        """Backward over the ports."""
        ahead = np.zeros_like(levels.targets)
        value = cls(levels, fixed_cost, law, belief, ahead)
        for t in reversed(range(len(levels.legs))):
            ahead[t] = value.before(t + 1, levels.targets[t] - levels.legs[t])
        return value

    def before(self, t: int, level: FloatArray) -> FloatArray:
        """W_t at levels (n,) anywhere between empty and full; nan at nan."""
        if t == len(self.levels.legs):
            return np.where(np.isnan(level), np.nan, 0.0)
        amounts, costs = self.offers(t, level)
        chosen_by = costs if self.belief is None else self.belief.offers(t, level)[1]
        means = self.law.mean_of_least(t, amounts, chosen_by, costs)
        return np.where(np.isnan(level), np.nan, means)

    def offers(self, t: int, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What may be bought at levels (n,), and the expected cost beside that of the fuel,
        infinite where not offered; (n, K + 1), buying nothing last."""
        amounts = self.levels.purchases(t, level)
        rest = np.where(np.isnan(amounts[:, -1]), np.nan, level - self.levels.legs[t])
        costs = np.empty_like(amounts)
        costs[:, :-1] = self.ahead[t] + self.fixed_cost
        costs[:, -1] = self.before(t + 1, np.maximum(rest, 0.0))
        costs[np.isnan(amounts)] = np.inf
        return np.nan_to_num(amounts), costs

    def best(self, t: int, price: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best purchases (n,) and their costs to go at prices (n,) and levels (n,)."""
        distinct, row = np.unique(level, return_inverse=True)
        amounts, costs = self.offers(t, distinct)
        unit = price if self.law.scaled else np.ones_like(price)
        totals = price[:, None] * amounts[row] + unit[:, None] * costs[row]
        choice = totals.argmin(axis=1)
        picked = np.arange(len(level))
        return amounts[row][picked, choice], totals[picked, choice]
