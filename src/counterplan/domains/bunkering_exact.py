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
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.domains.bunkering_prices import PriceLaw

# ----------------------------------------------------------------------------------------------
# Levels worth ordering up to, and every level a ship can arrive with.
#
# Let l_t be the need of leg t. Between two levels of the first list below the cost to go is concave
# in the level after buying (linear where buying has no fixed cost), so a best purchase ends on one:
#
#     order-up-to   l_t + ... + l_j, just enough to reach port j + 1, for every j that the tank
#                   allows, and the full tank where it does not reach the end
#     extreme       the least and the most of them: the two values of Lemma 2.1, which need not hold
#                   what is best, since bounds on every level are bounds on prefix sums
#
# Buying nothing is offered wherever the level covers the leg. From an order-up-to level and from
# arrivals by buying nothing follow finitely many arrivals per port: the grid.

ActionSet: TypeAlias = Literal["order-up-to", "extreme"]
# Sums of legs that are equal but for rounding are one level.
SAME = 1e-9


class Levels(NamedTuple):
    """Padded tables, nan or -1 where there is nothing; compiled functions read them as they are.

    legs         (T,) need of each leg
    capacity     of the tank
    targets      (T, K) levels after buying, ascending
    arrivals     (T + 1, N) levels before buying, ascending; the last row: after the last leg
    target_next  (T, K) where in the next row of `arrivals` each target leads
    stay_next    (T, N) where buying nothing leads, -1 where the level does not cover the leg
    """

    legs: FloatArray
    capacity: float
    targets: FloatArray
    arrivals: FloatArray
    target_next: IntArray
    stay_next: IntArray

    @classmethod
    def build(cls, legs: FloatArray, capacity: float, start: float, actions: ActionSet) -> Levels:
        """The levels of a ship that arrives at the first port with `start` in its tank."""
        chosen = [_targets(legs[t:], capacity, actions) for t in range(len(legs))]
        reached = [np.array([start])]
        for t, leg in enumerate(legs):
            stays = reached[t][covers(reached[t], leg)]
            reached.append(_distinct(np.concatenate([chosen[t], stays]) - leg))
        target_next = [_position(reached[t + 1], y - legs[t]) for t, y in enumerate(chosen)]
        stay_next = [
            np.where(covers(x, legs[t]), _position(reached[t + 1], x - legs[t]), -1)
            for t, x in enumerate(reached[:-1])
        ]
        return cls(
            legs,
            capacity,
            _padded(chosen, np.nan),
            _padded(reached, np.nan),
            _padded(target_next, -1).astype(np.int64),
            _padded(stay_next, -1).astype(np.int64),
        )

    def purchases(self, t: int, level: FloatArray) -> FloatArray:
        """(n, K + 1) what each target asks for at levels (n,), then 0; nan where not offered."""
        amounts = self.targets[t] - level[:, None]
        amounts[amounts <= SAME] = np.nan
        nothing = np.where(covers(level, self.legs[t]), 0.0, np.nan)
        return np.column_stack([amounts, nothing])


def covers(level: FloatArray, leg: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether levels suffice for a leg."""
    return np.asarray(level >= leg - SAME)


def _targets(legs: FloatArray, capacity: float, actions: ActionSet) -> FloatArray:
    sums = np.cumsum(legs)
    useful = _distinct(np.minimum(sums, capacity))
    return useful if actions == "order-up-to" else _distinct(useful[[0, -1]])


def _distinct(levels: FloatArray) -> FloatArray:
    ordered = np.sort(np.maximum(levels, 0.0))
    keep = np.concatenate([[True], np.diff(ordered) > SAME])
    return np.asarray(ordered[keep])


def _position(row: FloatArray, levels: FloatArray) -> IntArray:
    nearest = np.abs(row[None, :] - levels[:, None]).argmin(axis=1)
    return np.asarray(nearest, dtype=np.int64)


def _padded(rows: list[FloatArray] | list[IntArray], filler: float) -> FloatArray:
    table = np.full((len(rows), max(len(row) for row in rows)), filler)
    for t, row in enumerate(rows):
        table[t, : len(row)] = row
    return table


# ----------------------------------------------------------------------------------------------


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
