"""Prices that remember where they were: the law that `fit` estimates, compiled in `laws`.

Of S prices x, y = x or y = log x, and m_t is where they would be without chance:

    y_{t+1} = m_{t+1} + phi (y_t - m_t) + e_{t+1}        (element by element)

    phi = 1   a random walk, of logs geometric Brownian motion: m_t = drift t + profile
    phi < 1   mean reversion (Ornstein-Uhlenbeck at its steps): m_t = mean + profile

The profile is a sum of effects of the hour, weekday and month that a `Clock` shows at t; effects of
one season sum to zero. Shocks e are normal, correlated over the prices; or normal with mean and
covariance of a hidden regime, one of two, that follows a Markov chain; or drawn from recorded ones,
all equally likely. A step tells something about the regime, so with regimes x = (prices, chance
that the second one reigns): a Markov process that no action touches, as for `HiddenModes`.

Means are exact for any number k of steps. With w = phi^(k - 1), the weight of the first of k shocks
on the last price, and P the chain's matrix, they are exp(m_s + phi^k (y_t - m_t)) A_k in logs,

    A_k(r) = sum_r' P(r, r') E[exp(w e) | r'] A_{k-1}(r'),   A_0 = 1,

and the same with sums in place of products and exponentials where y = x.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.dates import DAY
from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.processes.base import given_start, number, stochastic_matrix, vector
from counterplan.planning.processes.laws import PRICES_NUMBERS, Continuous
from counterplan.planning.processes.prices import WIDEST_STEP, strata_of

# Blocks of numbers are good for this many times at least, and then for twice as many.
FEWEST_ROWS = 32
HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
# Name of a season and which of its numbers occur.
Season = tuple[str, tuple[int, ...]]


def season_of(name: str, seconds: FloatArray) -> FloatArray:
    """(n,) the hour, weekday (0: Monday) or month (0: January) at seconds since 1970."""
    if name == "month":
        return np.asarray(month_numbers(seconds) % 12)
    days = seconds // DAY
    return np.asarray(seconds // 3600 % 24 if name == "hour" else (days + 3) % 7)


def month_numbers(seconds: FloatArray) -> FloatArray:
    """(n,) months since 1970."""
    days = np.asarray(seconds // DAY, dtype="timedelta64[D]") + np.datetime64("1970-01-01")
    return np.asarray(days.astype("datetime64[M]").astype(np.int64), dtype=np.float64)


@dataclass(frozen=True)
class Clock:
    """When the times t = 0, 1, ... are.

    start  of t = 0, in seconds since 1970
    step   between two times, in the unit; 0 where nothing is known
    unit   's', 'months' or 'business days', Monday to Friday
    """

    start: float = 0.0
    step: float = 0.0
    unit: Literal["s", "months", "business days"] = "s"

    def stamps(self, t: IntArray) -> FloatArray:
        """(n,) seconds since 1970; of months their beginning."""
        if self.unit == "months":
            months = (month_numbers(np.array([self.start])) + t * self.step).astype("datetime64[M]")
            return months.astype("datetime64[s]").astype(np.int64).astype(np.float64)
        if self.unit == "business days":
            day = np.datetime64(int(self.start // DAY), "D")
            days = np.busday_offset(day, (t * self.step).astype(np.int64), roll="backward")
            return np.asarray(days.astype(np.int64) * DAY + self.start % DAY)
        return np.asarray(self.start + self.step * t, dtype=np.float64)


def design(first: FloatArray, stamps: FloatArray, seasons: tuple[Season, ...]) -> FloatArray:
    """(n, F) what a profile multiplies: the first column, then for each season whether its number
    is each but the last of those that occur, minus whether it is the last."""
    columns = [first[:, None]]
    for name, numbers in seasons:
        found = season_of(name, stamps)[:, None] == np.array(numbers)
        columns.append(found[:, :-1] * 1.0 - found[:, -1:])
    return np.hstack(columns)


@dataclass(frozen=True, eq=False)
class Autoregression(Continuous):
    """Prices x (S,), followed by the chance of the second regime if there are regimes.

    initial     (S,) at t = 0
    phi         (S,) how much of a deviation is left after a step, 1: all
    profile     (F, S) the mean, or the drift where all phi are 1; then effects of the seasons
    covariance  of the shocks: (S, S), or (2, S, S) of two regimes
    logs        whether y is log x; prices are then positive
    shift       (2, S) mean shocks of the regimes
    chances     (2, 2) of the next regime, by the present one
    belief      chance of the second regime at t = 0
    shocks      (N, S) recorded ones, if they are drawn from these
    seasons     of the profile: names and numbers that occur
    clock       when t = 0, 1, ... are
    """

    initial: ArrayLike
    phi: ArrayLike
    profile: ArrayLike
    covariance: ArrayLike
    logs: bool = False
    shift: ArrayLike = 0.0
    chances: ArrayLike = ((1.0,),)
    belief: float = 0.0
    shocks: ArrayLike = ()
    seasons: tuple[Season, ...] = ()
    clock: Clock = Clock()

    def __repr__(self) -> str:
        """Without its arrays."""
        kind = f"series={np.size(self.phi)}, logs={self.logs}, regimes={np.shape(self.chances)[0]}"
        return f"{type(self).__name__}({kind})"

    def __post_init__(self) -> None:
        initial = vector(self.initial, "initial")
        S = len(initial)
        if self.logs and (initial <= 0).any():
            raise InputError(f"initial is {initial.min():g}: prices with logs must be positive")
        chances = stochastic_matrix(self.chances, "chances")
        K = len(chances)
        covariance = np.array(self.covariance, dtype=np.float64)
        covariance = covariance.reshape(-1, S, S) if covariance.size == K * S * S else covariance
        if K > 2 or covariance.shape != (K, S, S):
            raise InputError(
                f"covariance must be ({S}, {S}), or (2, {S}, {S}) with chances (2, 2) of two "
                f"regimes; got {covariance.shape} and {chances.shape}"
            )
        try:
            np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise InputError("covariance must be symmetric and positive definite") from None
        profile = np.array(self.profile, dtype=np.float64)
        rows = 1 + sum(len(numbers) - 1 for _, numbers in self.seasons)
        if profile.size != rows * S:
            raise InputError(f"profile must be ({rows}, {S}), got shape {profile.shape}")
        number(self.belief, "belief", 0.0)
        made = {"initial": initial, "phi": vector(self.phi, "phi", S), "chances": chances}
        made |= {"covariance": covariance, "profile": profile.reshape(rows, S)}
        made["shift"] = np.array(np.broadcast_to(np.asarray(self.shift, dtype=np.float64), (K, S)))
        made["shocks"] = np.asarray(self.shocks, dtype=np.float64).reshape(-1, S)
        for name, value in made.items():
            if not np.isfinite(value).all():
                raise InputError(f"{name} must be finite numbers")
            object.__setattr__(self, name, value)
        widest = float(np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)).max())
        if self.logs and widest > WIDEST_STEP:
            raise InputError(
                f"covariance: prices move by a typical factor of e^{widest:.3g} in one step, and "
                "samples say nothing about their mean; 20 % are a variance of 0.04 with logs"
            )
        if np.abs(made["phi"]).max() > 1.0:
            raise InputError(
                f"phi is {np.abs(made['phi']).max():g}: deviations that grow from step to step "
                "leave any bounds; give at most 1"
            )

    @property
    def series(self) -> int:
        """S, how many numbers of x are prices."""
        return len(np.asarray(self.initial))

    @property
    def regimes(self) -> int:
        """1 or 2."""
        return len(np.asarray(self.chances))

    @property
    def start(self) -> FloatArray:
        """(S,) or (S + 1,) where it begins."""
        return np.append(self.initial, [self.belief] * (self.regimes - 1))

    @property
    def walks(self) -> bool:
        """Whether nothing pulls prices back."""
        return bool((np.asarray(self.phi) == 1.0).all())

    @property
    def _dated(self) -> bool:
        return True

    def means(self, t: IntArray) -> FloatArray:
        """(n, S) m_t."""
        first = t.astype(np.float64) if self.walks else np.ones(len(t))
        return np.asarray(
            design(first, self.clock.stamps(t), self.seasons) @ np.asarray(self.profile)
        )

    def observe(self, t: int, exogenous: ArrayLike, prices: ArrayLike) -> FloatArray:
        """x_{t+1} (X,) from x_t once its prices (S,) are known: with the belief after them."""
        S, seen = self.series, vector(prices, "prices", self.series)
        if self.regimes == 1:
            return seen
        x = given_start(self, np.asarray(exogenous, dtype=np.float64))
        now, after = (np.log(x[:S]), np.log(seen)) if self.logs else (x[:S], seen)
        m = self.means(np.array([t, t + 1]))
        shock = after - m[1] - np.asarray(self.phi) * (now - m[0])
        density = np.exp(log_densities(shock[None], self.shift, self.covariance))[0]
        predicted = np.array([1 - x[S], x[S]]) @ np.asarray(self.chances) * density
        chance = predicted[1] / predicted.sum() if predicted.sum() > 0 else x[S]
        return np.append(seen, chance)

    def bands(
        self, steps: int, level: float = 0.9, start: FloatArray | None = None, seed: Seed = 0
    ) -> FloatArray:
        """(2, steps, S) between which each price lies with probability `level`, from 4,000 paths
        that begin at t = 0."""
        paths = self.sample_paths(4000, steps, seed, 0, start)[:, :, : self.series]
        return np.asarray(np.quantile(paths, [0.5 - level / 2, 0.5 + level / 2], axis=0))

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, X): futures that all begin with x_t; S prices have the belief of t = 0."""
        self.kernel_parameters(t + whole_number(steps, "steps", minimum=1))
        return super().sample_paths(n, steps, seed, t, self._completed(start))

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, X): E[x_s | x_t]."""
        return super().mean_path(steps, t, self._completed(start))

    def _completed(self, start: FloatArray | None) -> FloatArray | None:
        if start is None or np.size(start) != self.series or self.regimes == 1:
            return start
        return np.append(start, self.belief)

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The process as flat numbers for compiled functions, good for more than `steps` times."""
        rows = max(FEWEST_ROWS, 1 << (steps - 1).bit_length())
        return super().kernel_parameters(rows, quantiles)

    def most_successors(self, quantiles: int = 0) -> int:
        """The quantiles of each regime, if any."""
        return quantiles * self.regimes

    def _block(self, rows: int, quantiles: int) -> FloatArray:
        if quantiles and self.series > 1:
            raise NotApplicableError(
                f"quantiles of {self.series} prices at once are not defined; draw samples"
            )
        root = np.linalg.cholesky(np.asarray(self.covariance))
        return PRICES_NUMBERS.pack(
            logs=self.logs,
            phi=self.phi,
            means=self.means(np.arange(rows + 1)),
            ahead=self._ahead(rows),
            shift=self.shift,
            root=root,
            inverse=np.linalg.inv(root),
            log_determinant=np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1),
            chances=self.chances,
            strata=[self._strata(k, quantiles) for k in range(self.regimes)],
            shocks=self.shocks,
        )

    def _ahead(self, rows: int) -> FloatArray:
        """(rows + 1, S, K) A_k."""
        P, shocks = np.asarray(self.chances), np.asarray(self.shocks)
        shift = np.asarray(self.shift).T
        if len(shocks):  # drawn in place of the regimes' own, whatever their mean is
            shift = np.broadcast_to(shocks.mean(axis=0)[:, None], shift.shape)
        variance = np.diagonal(np.asarray(self.covariance), axis1=1, axis2=2).T
        weights = np.asarray(self.phi)[:, None] ** np.arange(rows)
        found = np.full((rows + 1, *shift.shape), 1.0 if self.logs else 0.0)
        same = bool(len(shocks) and self.walks)  # then every factor is the first
        for k in range(rows):
            w = weights[:, k, None]
            if not self.logs:
                found[k + 1] = (w * shift + found[k]) @ P.T
                continue
            if not len(shocks):
                factor = np.exp(w * shift + w * w * variance / 2)
            elif k == 0 or not same:
                factor = np.exp(w.T * shocks).mean(axis=0)[:, None]
            found[k + 1] = (factor * found[k]) @ P.T
        return found

    def _strata(self, k: int, count: int) -> FloatArray:
        """(count,) shocks of one price in regime k that stand for equally likely ranges: their
        means, in logs the logs of mean factors."""
        if not count:
            return np.empty(0)
        shocks = np.sort(np.asarray(self.shocks)[:, 0])
        normal, mean = NormalDist(), float(np.asarray(self.shift)[k, 0])
        sigma = float(np.asarray(self.covariance)[k, 0, 0]) ** 0.5
        edges = [normal.inv_cdf(i / count) for i in range(1, count)]
        if len(shocks):
            found = strata_of(np.exp(shocks) if self.logs else shocks, count)
        elif self.logs:
            inner = [normal.cdf(edge - sigma) for edge in edges]
            found = np.exp(mean + sigma**2 / 2) * count * np.diff([0.0, *inner, 1.0])
        else:
            inner = [normal.pdf(edge) for edge in edges]
            found = mean - sigma * count * np.diff([0.0, *inner, 0.0])
        return np.asarray(np.log(found) if self.logs else found)


def log_densities(shocks: FloatArray, shift: ArrayLike, covariance: ArrayLike) -> FloatArray:
    """(n, K) of normal shocks (n, S), by regime."""
    root = np.linalg.cholesky(np.asarray(covariance))
    z = np.linalg.solve(root, (shocks[:, None] - np.asarray(shift)).transpose(1, 2, 0))
    scale = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(-0.5 * (z**2).sum(axis=1).T - scale - shocks.shape[1] * HALF_LOG_2PI)
