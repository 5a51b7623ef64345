"""Processes of prices; their laws are compiled in `laws`.

Geometric Brownian motion (Sec. C), exactly sampled at the times 0, dt, 2 dt, ...

    S_{s+h} = S_s exp((mu - sigma^2 / 2) h + sigma W_h),    E[S_{s+h} | S_s] = S_s exp(mu h)

    'independent'  x_t = S_{t dt} of a motion of its own for every t, all from `initial`: successive
                   x_t are independent (a ship's ports, each with its own price history)
    'global'       one motion: x_{t+1} continues x_t
    'correlated'   X motions at once, each continuing, with correlated increments

The binomial lattice of Cox, Ross and Rubinstein: x_{t+1} is u x_t with probability p, else d x_t,
so E[x_{t+1} | x_t] = x_t e^{(r-q) dt}:

    u = exp(sigma sqrt(dt)),    d = 1 / u,    p = (exp((r - q) dt) - d) / (u - d)

Prices bootstrapped from a recorded table: no law assumed, only what happened before. With log
returns r_1 .. r_n of the table and `block` rows between two decisions, a step multiplies the price
by exp(r_i + ... + r_{i + block - 1}), the run of successive returns that begins at a random place:
all runs in the table are equally likely, and what happens within a run (momentum, calm and stormy
weeks) is kept. Steps are independent, so the price alone is a Markov process: it does not give away
where in the record the next run will begin. 'global': x_{t+1} continues x_t by a run of `block`
returns; 'independent': x_t is `initial` moved by a run of t * block returns of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import FileError, InputError, NotApplicableError
from counterplan.planning.processes.base import given_start, number, vector
from counterplan.planning.processes.laws import (
    BOOTSTRAP_NUMBERS,
    GBM_NUMBERS,
    LATTICE_NUMBERS,
    Continuous,
    Finite,
    draw_prices,
)

Kind: TypeAlias = Literal["independent", "global", "correlated"]
KINDS: tuple[Kind, ...] = ("independent", "global", "correlated")
# Standard deviation of a step's log price, beyond which no number of samples shows the mean.
WIDEST_STEP = 5.0
# Eigenvalues of a correlation matrix this little below zero are rounding.
EIGENVALUE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class GBM(Continuous):
    """Geometric Brownian motion, x (X,) = prices; X = 1 unless kind is 'correlated'.

    initial      price at time 0, one or (X,)
    drift        mu per unit of time, one or (X,)
    volatility   sigma, one or (X,)
    dt           time between decisions
    correlation  of the increments ('correlated' only): one number for all pairs, or (X, X)
    """

    initial: ArrayLike
    drift: ArrayLike
    volatility: ArrayLike
    dt: float
    correlation: ArrayLike = 0.0
    kind: Kind = "global"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}")
        size = max(np.size(self.initial), np.size(self.drift), np.size(self.volatility))
        if size > 1 and self.kind != "correlated":
            raise InputError(f"kind {self.kind!r} has one price; use kind='correlated' for {size}")
        for name, least in (("initial", 0.0), ("drift", -np.inf), ("volatility", 0.0)):
            values = vector(getattr(self, name), name, size)
            object.__setattr__(self, name, values)
            for value in values:
                number(value, name, least, above=name == "initial")
        object.__setattr__(self, "dt", number(self.dt, "dt", 0.0, above=True))
        _check_spread(float(np.max(self.volatility)), self.dt)
        _check_drift(float(np.abs(self.drift).max()), self.dt)
        _ = self.mixing  # checks the correlation

    @property
    def start(self) -> FloatArray:
        """(X,) the initial prices."""
        return np.array(self.initial, dtype=np.float64)

    @cached_property
    def mixing(self) -> FloatArray:
        """(X, X) B with B B' = correlation: B @ independent normals are the increments."""
        X = np.size(self.initial)
        given = np.asarray(self.correlation, dtype=np.float64)
        matrix = np.where(np.eye(X) > 0, 1.0, given) if given.ndim == 0 else given
        if matrix.shape != (X, X) or not np.allclose(matrix, matrix.T):
            raise InputError(f"correlation must be one number or a symmetric ({X}, {X}) matrix")
        if not (np.allclose(np.diag(matrix), 1.0) and (np.abs(matrix) <= 1 + 1e-12).all()):
            raise InputError("correlation must have ones on its diagonal, the rest in [-1, 1]")
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < -EIGENVALUE_TOLERANCE:
            raise InputError(
                f"correlation has a negative eigenvalue {values[0]:.3g}, so no prices can be "
                f"correlated like that; a common correlation of {X} prices is at least "
                f"{-1 / max(X - 1, 1):.3g}"
            )
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, X): futures that all begin with x_t."""
        n, steps = whole_number(n, "n", minimum=1), whole_number(steps, "steps", minimum=1)
        paths = np.empty((n, steps, len(self.start)))
        paths[:, 0] = given_start(self, start)
        draw_prices(self.kernel_parameters(t + steps), t, generator(seed), paths)
        return paths

    def _block(self, rows: int, quantiles: int) -> FloatArray:
        if quantiles and len(self.start) > 1:
            raise NotApplicableError(
                f"quantiles of {len(self.start)} prices at once are not defined; draw samples, or "
                "take a binomial lattice of one price"
            )
        times = self.dt * np.arange(1, rows + 1)
        strata = [self._strata(h, quantiles) for h in times] if quantiles else np.empty((rows, 0))
        # The mixing is symmetric: B = C C', from a root of B that exists where B is singular, too.
        values, vectors = np.linalg.eigh(self.mixing)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        upper = np.asarray(np.linalg.qr(root, mode="r"))
        return self.numbers(upper.T, upper, np.asarray(strata))

    def numbers(self, lower: FloatArray, upper: FloatArray, strata: FloatArray) -> FloatArray:
        """For compiled functions, which mix normals in place: lower @ (upper @ normals), both
        triangular, are the increments."""
        return GBM_NUMBERS.pack(
            independent=self.kind == "independent",
            dt=self.dt,
            initial=self.start,
            drift=self.drift,
            volatility=self.volatility,
            upper_mixes=not np.array_equal(upper, np.eye(len(upper))),
            lower=lower,
            upper=upper,
            strata=strata,
        )

    def _strata(self, time: float, count: int) -> FloatArray:
        """(count,) mean of S / E[S] within each of `count` equally likely ranges of S:
        count (Phi(z_{i+1} - s) - Phi(z_i - s)) with s = sigma sqrt(time), z_i = Phi^-1(i / count).
        """
        normal = NormalDist()
        spread = float(np.asarray(self.volatility)[0]) * time**0.5
        inner = [normal.cdf(normal.inv_cdf(i / count) - spread) for i in range(1, count)]
        return count * np.diff([0.0, *inner, 1.0])


def _check_spread(volatility: float, dt: float) -> None:
    if volatility * dt**0.5 > WIDEST_STEP:
        raise InputError(
            f"volatility {volatility:g} with dt = {dt:g}: prices move by a typical factor of "
            f"e^{volatility * dt**0.5:.3g} in one step, and samples say nothing about their mean; "
            "20 % a year are volatility=0.2 with dt in years"
        )


def _check_drift(drift: float, dt: float) -> None:
    if drift * dt > WIDEST_STEP:
        raise InputError(
            f"drift {drift:g} with dt = {dt:g}: prices move by a factor of e^{drift * dt:.3g} in "
            "one step; 5 % a year are drift=0.05 with dt in years"
        )


@dataclass(frozen=True)
class BinomialLattice(Finite):
    """One price, x (1,), with two successors at every step, the rise first.

    initial     price at time 0
    rate        r per unit of time
    volatility  sigma, above 0
    dt          time between steps
    dividend    yield q per unit of time
    """

    initial: float
    rate: float
    volatility: float
    dt: float
    dividend: float = 0.0

    def __post_init__(self) -> None:
        for name in ("initial", "volatility", "dt"):
            object.__setattr__(self, name, number(getattr(self, name), name, 0.0, above=True))
        _check_spread(self.volatility, self.dt)
        for name in ("rate", "dividend"):
            object.__setattr__(self, name, number(getattr(self, name), name))
        if not 0.0 <= self.probability <= 1.0:
            longest = (self.volatility / (self.rate - self.dividend)) ** 2
            raise InputError(
                f"the probability of going up would be {self.probability:.4g}: dt = {self.dt:g} is "
                f"too long for this volatility and rate; use a dt of at most {longest:.4g}"
            )

    @property
    def up(self) -> float:
        """u, the factor of a rise."""
        return float(np.exp(self.volatility * np.sqrt(self.dt)))

    @property
    def down(self) -> float:
        """d = 1 / u."""
        return 1.0 / self.up

    @property
    def probability(self) -> float:
        """p, of a rise."""
        growth = float(np.exp((self.rate - self.dividend) * self.dt))
        return (growth - self.down) / (self.up - self.down)

    @property
    def start(self) -> FloatArray:
        """(1,) the initial price."""
        return np.array([self.initial])

    def most_successors(self, quantiles: int = 0) -> int:
        """Up and down."""
        return 2

    def _block(self, rows: int, quantiles: int) -> FloatArray:
        return LATTICE_NUMBERS.pack(up=self.up, down=self.down, probability=self.probability)


@dataclass(frozen=True, eq=False)
class BootstrapPrices(Continuous):
    """One price, x (1,), that moves as the recorded one did: too many ways to list.

    prices   (n,) recorded, equally spaced, all positive: `read_prices` reads them from a table
    initial  price at t = 0 (default: the last recorded)
    block    rows of the record between two decisions
    kind     'global' or 'independent', see above
    """

    prices: ArrayLike
    initial: float | None = None
    block: int = 1
    kind: Literal["global", "independent"] = "global"

    def __post_init__(self) -> None:
        prices = vector(self.prices, "prices")
        bad = np.flatnonzero(prices <= 0)
        if bad.size:
            raise InputError(
                f"price number {int(bad[0])} is {prices[bad[0]]:g}: prices must be positive"
            )
        if self.kind not in ("global", "independent"):
            raise InputError(f"kind {self.kind!r} is not one of global, independent")
        whole_number(self.block, "block", minimum=1)
        if len(prices) <= self.block:
            raise InputError(
                f"{len(prices)} prices have no run of {self.block} returns: give more prices or a "
                "smaller block"
            )
        initial = prices[-1] if self.initial is None else self.initial
        object.__setattr__(self, "initial", number(initial, "initial", 0.0, above=True))
        object.__setattr__(self, "prices", prices)

    @cached_property
    def log_prices(self) -> FloatArray:
        """(n,) of the record."""
        return np.asarray(np.log(np.asarray(self.prices)))

    @property
    def start(self) -> FloatArray:
        """(1,) the initial price."""
        return np.array([self.initial], dtype=np.float64)

    def factors(self, t: int) -> FloatArray:
        """Sorted: what x_{t+1} may be, in units of x_t ('independent': of `initial`)."""
        length = self.block * (t + 1 if self.kind == "independent" else 1)
        if len(self.log_prices) <= length:
            raise InputError(
                f"the record of {len(self.log_prices)} prices has no run of {length} returns, "
                f"needed for t={t + 1}: use fewer steps, a smaller block or a longer record"
            )
        return np.sort(np.exp(self.log_prices[length:] - self.log_prices[:-length]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, 1) -> (n, 1). As `laws` has it, but for how whole numbers are
        drawn: compiled code has no `generator.integers`."""
        factors, x = self.factors(t), np.asarray(exogenous)
        chosen = factors[generator.integers(len(factors), size=x.shape)]
        return np.asarray((self.start if self._dated else x) * chosen)

    def _block(self, rows: int, quantiles: int) -> FloatArray:
        runs = [self.factors(t) for t in range(rows)]
        strata = [strata_of(run, quantiles) for run in runs] if quantiles else np.empty((rows, 0))
        return BOOTSTRAP_NUMBERS.pack(
            independent=self._dated,
            initial=self.start[0],
            begins=np.cumsum([0, *(len(run) for run in runs)]),
            means=[run.mean() for run in runs],
            strata=strata,
            factors=np.concatenate(runs),
        )


def read_prices(path: str | Path, columns: Sequence[str] = ("Date", "Price")) -> FloatArray:
    """(n,) prices of a CSV table, with a column of dates (YYYY-MM-DD) and one of prices, in the
    order of their dates; mistakes name row and column."""
    import polars as pl

    from counterplan.core.table import open_table_file

    if len(columns) != 2:
        raise InputError(f"columns must name a date and a price column, got {tuple(columns)!r}")
    date, price = columns
    table = open_table_file(path, "a table of prices", formats=()).read([date, price])
    days = table.texts[date].str.to_date("%Y-%m-%d", strict=False)
    table.report(days.is_null().to_numpy(), date, "is not a date; write it as 2024-12-31")
    first_of_day = days.is_first_distinct() | days.is_null()
    table.report(~first_of_day.to_numpy(), date, "occurs twice; keep one row for each date")
    prices = table.numbers(price, may_miss=False)
    table.report(prices <= 0, price, "is not positive; correct it: log returns need prices above 0")
    table.mistakes.refuse()
    if len(prices) < 2:
        raise FileError(f"{path}: has one row; add more: a return needs two prices")
    return np.asarray(prices[days.cast(pl.Int32).arg_sort().to_numpy()], dtype=np.float64)


def strata_of(factors: FloatArray, count: int) -> FloatArray:
    """(count,) means of `count` equally likely parts of sorted, equally likely factors; a factor on
    a border counts to either side in part, so that the mean is exact."""
    places = np.linspace(0.0, 1.0, len(factors) + 1)
    area = np.concatenate([[0.0], np.cumsum(factors)]) / len(factors)
    borders = np.interp(np.linspace(0.0, 1.0, count + 1), places, area)
    return np.asarray(count * np.diff(borders))
