"""The law of the ports' prices, as far as bunkering needs it.

What matters is how P_{t+1} depends on P_t. Independent prices make the value a function of the
level alone; prices that multiply (P_{t+1} / P_t independent of P_t) make it proportional to the
price. For other processes neither holds, and there is no exact value here.

The expected least of some lines in P needs, for each piece (a, b] of their lower envelope, its
probability and its part of the mean. For a log-normal price of mean m and log-deviation s

    P(P <= k) = N(z),    E[P; P <= k] = m N(z - s),    z = log(k / m) / s + s / 2

and for a recorded or discrete price they are counts and partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import NotApplicableError
from counterplan.planning.processes.base import Process, draw_paths
from counterplan.planning.processes.prices import GBM, BinomialLattice, BootstrapPrices

Dependence: TypeAlias = Literal["independent", "multiplies", "other"]


class PriceLaw(Protocol):
    """What the dynamic program over levels asks.

    scaled  whether costs are in units of the price before
    """

    @property
    def scaled(self) -> bool: ...

    def mean_of_least(
        self, t: int, slopes: FloatArray, chosen_by: FloatArray, paid: FloatArray
    ) -> FloatArray:
        """(n,) the mean of slope * P_t + paid for the line, out of m, with the least slope * P_t +
        chosen_by; all (n, m), chosen_by infinite where there is no line."""
        ...


class IndependentPrices:
    """Each port has a price of its own; `below` says all about it."""

    scaled: ClassVar[bool] = False

    def below(self, t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        """P(P_t <= price) and E[P_t; P_t <= price], elementwise."""
        raise NotImplementedError

    def mean_of_least(
        self, t: int, slopes: FloatArray, chosen_by: FloatArray, paid: FloatArray
    ) -> FloatArray:
        """Over the pieces of the lower envelope."""
        low, high = _pieces(slopes, chosen_by)
        share_low, part_low = self.below(t, low)
        share_high, part_high = self.below(t, high)
        fuel = slopes * (part_high - part_low)
        other = _known(paid) * (share_high - share_low)
        return np.asarray(np.where(low < high, fuel + other, 0.0).sum(axis=1))


@dataclass(frozen=True)
class LogNormalPrices(IndependentPrices):
    """means (T,) of the prices and deviations (T,) of their logarithms."""

    means: FloatArray
    deviations: FloatArray

    def below(self, t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By the normal distribution."""
        from scipy.special import ndtr

        mean, deviation = self.means[t], self.deviations[t]
        if deviation == 0.0:
            share = (mean <= price).astype(np.float64)
            return share, mean * share
        with np.errstate(divide="ignore", over="ignore"):
            z = np.log(price / mean) / deviation + deviation / 2
        return ndtr(z), mean * ndtr(z - deviation)


@dataclass(frozen=True)
class ListedPrices(IndependentPrices):
    """For each port equally likely prices, ascending."""

    values: Sequence[FloatArray]

    def below(self, t: int, price: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By counting."""
        listed = self.values[t]
        count = np.searchsorted(listed, price, side="right")
        sums = np.concatenate([[0.0], np.cumsum(listed)])
        return count / len(listed), sums[count] / len(listed)


@dataclass(frozen=True)
class ScaledPrices:
    """Prices that multiply: growth (T,) = E[P_t / P_{t-1}]."""

    growth: FloatArray
    scaled: ClassVar[bool] = True

    def mean_of_least(
        self, t: int, slopes: FloatArray, chosen_by: FloatArray, paid: FloatArray
    ) -> FloatArray:
        """Which line is the least does not depend on the price."""
        choice = (slopes + chosen_by).argmin(axis=1)[:, None]
        totals = np.take_along_axis(slopes + _known(paid), choice, axis=1)[:, 0]
        return np.asarray(self.growth[t] * totals)


@dataclass(frozen=True)
class QuantilePrices:
    """A process whose next price is one of `count` equally likely ones, with the same mean.

    process  one that knows its quantiles
    """

    process: GBM | BootstrapPrices
    count: int

    @property
    def start(self) -> FloatArray:
        """(1,) the price at t = 0."""
        return self.process.start

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, 1) -> (n, 1)."""
        values, _ = self.process.quantiles(t, np.ones(1), self.count)
        drawn = values[generator.integers(self.count, size=len(exogenous))]
        return drawn * exogenous if dependence(self.process) == "multiplies" else drawn

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (count, 1) and probabilities (count,)."""
        return self.process.quantiles(t, exogenous, self.count)

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, 1): E[x_s | x_t]."""
        return self.process.mean_path(steps, t, start)

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, 1): futures that all begin with x_t."""
        return draw_paths(self, n, steps, seed, t, start)

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """Those of the process, with `count` quantiles."""
        return self.process.kernel_parameters(steps, self.count)

    def most_successors(self, quantiles: int = 0) -> int:
        """`count`."""
        return self.count


def quantile_prices(process: Process, count: int) -> QuantilePrices:
    """The process with `count` prices at each port."""
    if not isinstance(process, GBM | BootstrapPrices):
        raise NotApplicableError(
            f"{type(process).__name__} has no quantiles; geometric Brownian motion and "
            "bootstrapped prices have"
        )
    return QuantilePrices(process, count)


def dependence(process: Process) -> Dependence:
    """How the next price depends on the present one."""
    if isinstance(process, QuantilePrices):
        return dependence(process.process)
    if isinstance(process, GBM | BootstrapPrices):
        return "independent" if process.kind == "independent" else "multiplies"
    return "multiplies" if isinstance(process, BinomialLattice) else "other"


def price_law(process: Process, T: int) -> PriceLaw:
    """The law of T ports' prices; raises where it is neither independent nor multiplies."""
    kind = dependence(process)
    if kind == "multiplies":
        growth = [process.mean_path(2, t, np.ones(1))[1, 0] for t in range(T - 1)]
        return ScaledPrices(np.array([1.0, *growth]))
    if kind == "other":
        raise NotApplicableError(
            f"prices of {type(process).__name__} are neither independent nor do they multiply, so "
            "the dynamic program over levels does not apply; value_bounds brackets the value"
        )
    if isinstance(process, GBM):
        times = process.dt * np.arange(T)
        volatility = float(np.asarray(process.volatility)[0])
        return LogNormalPrices(mean_prices(process, T), volatility * np.sqrt(times))
    if isinstance(process, BootstrapPrices):
        later = [process.start * process.factors(t) for t in range(T - 1)]
    else:
        assert isinstance(process, QuantilePrices)
        later = [process.successors(t, process.start)[0][:, 0] for t in range(T - 1)]
    return ListedPrices([process.start, *later])


def law_of_means(process: Process, T: int) -> PriceLaw:
    """As `price_law`, with every price at its mean: what the expected-price plan believes."""
    law = price_law(process, T)
    return law if law.scaled else LogNormalPrices(mean_prices(process, T), np.zeros(T))


def mean_prices(process: Process, T: int) -> FloatArray:
    """(T,) expected prices at the start."""
    return process.mean_path(T)[:, 0]


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
