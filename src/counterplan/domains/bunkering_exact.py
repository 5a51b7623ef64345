"""The optimal cost of a voyage without foresight, by dynamic programming over the tank's levels.

Let W_t(x) be the least expected cost from port t on, arriving with level x, before its price P is
known, and let the ship buy up to one of the levels y, or nothing (y = x):

    W_t(x) = E_P min_y [ P (y - x) + K 1{y > x} + W_{t+1}(y - l_t) ],    W_T = 0

**Levels.** Between two levels of the list below the cost to go is concave in the level after buying
(linear where buying has no fixed cost), so a best purchase ends on one of them: l_t + ... + l_j,
just enough to reach port j + 1, for every j that the tank allows, and the full tank where it does
not reach the end. The least and the most of them (Lemma 2.1) need not hold what is best, since
bounds on every level are bounds on prefix sums.

Buying nothing is offered wherever the level covers the leg. From an order-up-to level and from
arrivals by buying nothing follow finitely many arrivals per port: the grid.

**Prices.** Under prices that are independent between ports each min is over lines in P, and its
expectation a sum over the pieces (a, b] of their lower envelope, exact up to rounding: it needs the
probability of each piece and its part of the mean. For a log-normal price of mean m and
log-deviation s

    P(P <= k) = N(z),    E[P; P <= k] = m N(z - s),    z = log(k / m) / s + s / 2

and for a recorded or discrete price they are counts and partial sums. Where instead P_{t+1} / P_t
does not depend on P_t (one price for all ports, bootstrapped returns) and K = 0, costs scale with
the price, V_t(x, P) = P v_t(x), and what is bought never depends on the price:

    v_t(x) = min_y [ (y - x) + E[P_{t+1} / P_t] v_{t+1}(y - l_t) ]

For other processes neither holds, and there is no exact value here.

The same recursion, choosing by the costs W of another law, evaluates the policy that believes it:
with every price at its mean, that is the expected-price plan, re-solved at every port.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import NotApplicableError
from counterplan.planning.level_graph import LevelGraph
from counterplan.planning.processes.base import FiniteProcess, Process
from counterplan.planning.processes.prices import GBM, BinomialLattice, BootstrapPrices

# --- Levels -----------------------------------------------------------------------------------

# Sums of legs that are equal but for rounding are one level.
SAME = 1e-9


class Levels(NamedTuple):
    """Padded tables, nan or -1 where there is nothing; the search reads them as they are.

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
    def build(cls, legs: FloatArray, capacity: float, start: float) -> Levels:
        """The levels of a ship that arrives at the first port with `start` in its tank."""
        sums = [np.cumsum(legs[t:]) for t in range(len(legs))]
        chosen = [_distinct(np.minimum(one, capacity)) for one in sums]
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

    def graph(self, fixed_cost: float) -> LevelGraph:
        """What may be bought at every port from every arrival, nothing first; costs negated."""
        arrivals = enumerate(self.arrivals[:-1])
        amounts = np.roll([self.purchases(t, row) for t, row in arrivals], 1, axis=2)
        targets = np.broadcast_to(self.target_next[:, None], amounts[:, :, 1:].shape)
        after = np.concatenate([self.stay_next[:, :, None], targets], axis=2)
        after[np.isnan(amounts)] = -1
        bought = np.nan_to_num(amounts)
        return LevelGraph(bought[..., None], -fixed_cost * (bought > 0), after)


def covers(level: FloatArray, leg: float) -> BoolArray:
    """Whether levels suffice for a leg."""
    return np.asarray(level >= leg - SAME)


def _distinct(levels: FloatArray) -> FloatArray:
    ordered = np.sort(np.maximum(levels, 0.0))
    keep = np.concatenate([[True], np.diff(ordered) > SAME])
    return np.asarray(ordered[keep])


def _position(row: FloatArray, levels: FloatArray) -> IntArray:
    return np.asarray(np.abs(row[None, :] - levels[:, None]).argmin(axis=1), dtype=np.int64)


def _padded(rows: list[FloatArray] | list[IntArray], filler: float) -> FloatArray:
    table = np.full((len(rows), max(len(row) for row in rows)), filler)
    for t, row in enumerate(rows):
        table[t, : len(row)] = row
    return table


# --- Prices -----------------------------------------------------------------------------------

Dependence: TypeAlias = Literal["independent", "multiplies", "other"]


@dataclass(frozen=True)
class IndependentPrices:
    """Each port has a price of its own.

    below  (t, prices) -> P(P_t <= price) and E[P_t; P_t <= price], elementwise
    """

    below: Callable[[int, FloatArray], tuple[FloatArray, FloatArray]]
    scaled: ClassVar[bool] = False

    def mean_of_least(
        self, t: int, slopes: FloatArray, chosen_by: FloatArray, paid: FloatArray
    ) -> FloatArray:
        """(n,) the mean of slope * P_t + paid for the line, out of m, with the least slope * P_t +
        chosen_by; all (n, m), chosen_by infinite where there is no line: over the pieces of the
        lower envelope."""
        low, high = _pieces(slopes, chosen_by)
        share_low, part_low = self.below(t, low)
        share_high, part_high = self.below(t, high)
        fuel = slopes * (part_high - part_low)
        other = _known(paid) * (share_high - share_low)
        return np.asarray(np.where(low < high, fuel + other, 0.0).sum(axis=1))


def log_normal_prices(means: FloatArray, deviations: FloatArray) -> IndependentPrices:
    """Of means (T,) of the prices and deviations (T,) of their logarithms."""
    from scipy.special import ndtr

    def below(t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, deviation = means[t], deviations[t]
        if deviation == 0.0:
            share = (mean <= price).astype(np.float64)
            return share, mean * share
        with np.errstate(divide="ignore", over="ignore"):
            z = np.log(price / mean) / deviation + deviation / 2
        return ndtr(z), mean * ndtr(z - deviation)

    return IndependentPrices(below)


def listed_prices(values: Sequence[FloatArray]) -> IndependentPrices:
    """Of equally likely prices for each port, ascending."""
    sums = [np.concatenate([[0.0], np.cumsum(listed)]) for listed in values]

    def below(t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        count = np.searchsorted(values[t], price, side="right")
        return count / len(values[t]), sums[t][count] / len(values[t])

    return IndependentPrices(below)


@dataclass(frozen=True)
class ScaledPrices:
    """Prices that multiply: growth (T,) = E[P_t / P_{t-1}]; costs are in units of the last one."""

    growth: FloatArray
    scaled: ClassVar[bool] = True

    def mean_of_least(
        self, t: int, slopes: FloatArray, chosen_by: FloatArray, paid: FloatArray
    ) -> FloatArray:
        """Likewise; which line is the least does not depend on the price."""
        choice = (slopes + chosen_by).argmin(axis=1)[:, None]
        totals = np.take_along_axis(slopes + _known(paid), choice, axis=1)[:, 0]
        return np.asarray(self.growth[t] * totals)


PriceLaw: TypeAlias = IndependentPrices | ScaledPrices


def dependence(process: Process) -> Dependence:
    """How the next price depends on the present one."""
    if isinstance(process, GBM | BootstrapPrices):
        return "independent" if process.kind == "independent" else "multiplies"
    return "multiplies" if isinstance(process, BinomialLattice) else "other"


def price_law(process: Process, T: int, certain: bool = False) -> PriceLaw:
    """The law of T ports' prices; raises where it is neither independent nor multiplies.

    certain  with every independent price at its mean: what the expected-price plan believes
    """
    kind = dependence(process)
    if kind == "multiplies":
        growth = [process.mean_path(2, t, np.ones(1))[1, 0] for t in range(T - 1)]
        return ScaledPrices(np.array([1.0, *growth]))
    if kind == "other":
        raise NotApplicableError(
            f"prices of {type(process).__name__} are neither independent nor do they multiply, so "
            "the dynamic program over levels does not apply; value_bounds brackets the value"
        )
    means = process.mean_path(T)[:, 0]
    if certain:
        return log_normal_prices(means, np.zeros(T))
    start, times = process.start, range(T - 1)
    if isinstance(process, FiniteProcess):
        return listed_prices([start, *(process.successors(t, start)[0][:, 0] for t in times)])
    if isinstance(process, BootstrapPrices):
        return listed_prices([start, *(start * process.factors(t) for t in times)])
    assert isinstance(process, GBM)
    volatility = float(np.asarray(process.volatility)[0])
    return log_normal_prices(means, volatility * np.sqrt(process.dt * np.arange(T)))


def mean_paths(process: Process, t: int, price: FloatArray, steps: int) -> FloatArray:
    """(n, steps): E[P_s | P_t] for prices (n,) at t."""
    kind = dependence(process)
    if kind == "multiplies":
        return np.outer(price, process.mean_path(steps, t, np.ones(1))[:, 0])
    if kind == "independent":
        paths = np.tile(process.mean_path(steps, t)[:, 0], (len(price), 1))
        paths[:, 0] = price
        return paths
    distinct, row = np.unique(price, return_inverse=True)
    return np.array([process.mean_path(steps, t, np.array([one]))[:, 0] for one in distinct])[row]


def _known(paid: FloatArray) -> FloatArray:
    return np.where(np.isfinite(paid), paid, 0.0)


def _pieces(slopes: FloatArray, intercepts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The prices (low, high] at which each line (n, m) is the least; low >= high: never.

    Every price lies in one piece: crossings that rounding puts in the wrong order would leave gaps,
    so a piece ends where the next flatter one begins, and the steepest begins at 0.
    """
    offered = np.isfinite(intercepts)
    known = _known(intercepts)
    steeper = slopes[:, None, :] - slopes[:, :, None]
    dearer = known[:, :, None] - known[:, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = dearer / steeper
    against = offered[:, :, None] & offered[:, None, :]
    low = np.where(against & (steeper > 0), crossing, 0.0).max(axis=2)
    high = np.where(against & (steeper < 0), crossing, np.inf).min(axis=2)
    used = offered & (low < high)
    begins = np.where(used, low, np.inf)
    following = np.where(steeper < 0, begins[:, None, :], np.inf).min(axis=2)
    first = ~(used[:, None, :] & (steeper > 0)).any(axis=2)
    return np.where(used & first, 0.0, begins), np.where(used, following, 0.0)


# --- The dynamic program ------------------------------------------------------------------------


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

    def on_grid(self) -> FloatArray:
        """(T + 1, N) W at every arrival, 0 where there is none."""
        return np.nan_to_num([self.before(t, row) for t, row in enumerate(self.levels.arrivals)])
