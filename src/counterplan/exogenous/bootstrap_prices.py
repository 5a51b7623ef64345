"""Prices bootstrapped from a recorded table: no law assumed, only what happened before.

With log returns r_1 .. r_n of the table and `block` rows between two decisions, a step multiplies
the price by exp(r_i + ... + r_{i + block - 1}), the run of successive returns that begins at a
random place: all runs in the table are equally likely, and what happens within a run (momentum,
calm and stormy weeks) is kept. Steps are independent, so the price alone is a Markov process: it
does not give away where in the record the next run will begin.

    'global'       one price: x_{t+1} continues x_t by a run of `block` returns
    'independent'  x_t is `initial` moved by a run of t * block returns of its own
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.errors import FileError, InputError
from counterplan.exogenous.checks import number, vector
from counterplan.exogenous.process import BOOTSTRAP_CODE, draw_paths, given_start
from counterplan.files.number_table import read_number_table


@dataclass(frozen=True, eq=False)
class BootstrapPrices:
    """One price, x (1,), that moves as the recorded one did.

    prices   (n,) recorded, equally spaced, all positive
    initial  price at t = 0 (default: the last recorded)
    block    rows of the record between two decisions
    kind     'global' or 'independent', see above
    """

    prices: ArrayLike
    initial: float | None = None
    block: int = 1
    kind: Literal["global", "independent"] = "global"
    _runs: dict[int, FloatArray] = field(default_factory=dict, repr=False)

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

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        columns: Sequence[str] = ("Date", "Price"),
        initial: float | None = None,
        block: int = 1,
        kind: Literal["global", "independent"] = "global",
    ) -> BootstrapPrices:
        """Read a table with a date (YYYY-MM-DD) and a price column; rows in any order.

        columns  their two names
        """
        return cls(read_prices(path, columns), initial, block, kind)

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
        if length not in self._runs:
            runs = np.exp(self.log_prices[length:] - self.log_prices[:-length])
            self._runs[length] = np.sort(runs)
        return self._runs[length]

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, 1) -> (n, 1)."""
        factors = self.factors(t)
        drawn = factors[generator.integers(len(factors), size=np.shape(exogenous))]
        return np.asarray(self._base(np.asarray(exogenous)) * drawn)

    def quantiles(self, t: int, exogenous: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """Values (count, 1) and probabilities (count,): strata of equal probability."""
        values = self._base(np.asarray(exogenous)) * _strata(self.factors(t), count)[:, None]
        return values, np.full(count, 1.0 / count)

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, 1): futures that all begin with x_t."""
        return draw_paths(self, n, steps, seed, t, start)

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, 1): E[x_s | x_t]."""
        path = np.empty((whole_number(steps, "steps", minimum=1), 1))
        path[0] = given_start(self, start)
        for s in range(1, steps):
            path[s] = self._base(path[s - 1]) * self.factors(t + s - 1).mean()
        return path

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The layout is in `process_kernel`."""
        rows = [self.factors(t) for t in range(steps if self.kind == "independent" else 1)]
        strata = [_strata(row, quantiles) for row in rows if quantiles]
        code, independent = BOOTSTRAP_CODE, float(self.kind == "independent")
        head = [code, independent, self.start[0], float(quantiles), float(len(rows))]
        before = len(head) + 2 * len(rows) + 1 + quantiles * len(rows)
        begins = before + np.cumsum([0, *(len(row) for row in rows)])
        means = [row.mean() for row in rows]
        return np.concatenate([head, begins, means, *strata, *rows])

    def most_successors(self, quantiles: int = 0) -> int:
        """The quantiles, if any: single runs are too many to list."""
        return quantiles

    def _base(self, exogenous: FloatArray) -> FloatArray:
        return self.start if self.kind == "independent" else exogenous


def read_prices(path: str | Path, columns: Sequence[str] = ("Date", "Price")) -> FloatArray:
    """(n,) prices of a CSV table in the order of their dates; mistakes name row and column."""
    import polars as pl

    if len(columns) != 2:
        raise InputError(f"columns must name a date and a price column, got {tuple(columns)!r}")
    date, price = columns
    table = read_number_table(path, [date, price])
    days = table.texts[date].str.to_date("%Y-%m-%d", strict=False)
    table.report(days.is_null().to_numpy(), date, "is not a date; write it as 2024-12-31")
    first_of_day = days.is_first_distinct() | days.is_null()
    table.report(~first_of_day.to_numpy(), date, "occurs twice; keep one row for each date")
    prices = table.numbers(price)
    table.report(prices <= 0, price, "is not positive; correct it: log returns need prices above 0")
    table.refuse_mistakes()
    if len(prices) < 2:
        raise FileError(f"{path}: has one row; add more: a return needs two prices")
    return np.asarray(prices[days.cast(pl.Int32).arg_sort().to_numpy()], dtype=np.float64)


def _strata(factors: FloatArray, count: int) -> FloatArray:
    """(count,) means of `count` equally likely parts of sorted, equally likely factors; a factor on
    a border counts to either side in part, so that the mean is exact."""
    whole_number(count, "quantiles", minimum=1)
    places = np.linspace(0.0, 1.0, len(factors) + 1)
    area = np.concatenate([[0.0], np.cumsum(factors)]) / len(factors)
    borders = np.interp(np.linspace(0.0, 1.0, count + 1), places, area)
    return np.asarray(count * np.diff(borders))
