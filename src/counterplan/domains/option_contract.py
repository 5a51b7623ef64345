"""One option: what it pays, when it may be exercised, and the configurations of Tables 11 and 13.

    payoff(S) = (S - K)^+ for a call, (K - S)^+ for a put;  dates 0, dt, ..., maturity

A payoff at date t counts e^{-r t dt} of itself, the value of money at date 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.errors import InfeasibleError, InputError
from counterplan.exogenous.checks import number

Kind: TypeAlias = Literal["call", "put"]
KINDS = ("call", "put")


@dataclass(frozen=True)
class OptionContract:
    """An option on one share.

    price       S_0, of the share at date 0
    strike      K
    maturity    years to the last exercise date
    rate        r, the riskless rate per year
    volatility  sigma per square root of a year
    step        dt, years between exercise dates
    dividend    q, the dividend yield per year
    kind        'call' (the right to buy at K) or 'put' (to sell)
    """

    price: float
    strike: float
    maturity: float
    rate: float
    volatility: float
    step: float
    dividend: float = 0.0
    kind: Kind = "call"

    def __post_init__(self) -> None:
        for name in ("price", "strike", "maturity", "volatility", "step"):
            self._check(name, above=True)
        # With negative rates there may be two exercise boundaries; everything here relies on one.
        for name in ("rate", "dividend"):
            self._check(name)
        if self.kind not in KINDS:
            raise InputError(f"option kind {self.kind!r} is unknown: choose 'call' or 'put'")
        steps = self.maturity / self.step
        if round(steps) < 1 or not math.isclose(steps, round(steps), rel_tol=1e-9):
            raise InputError(
                f"option maturity {self.maturity} is not a whole number of steps of {self.step}: "
                "the last exercise date is the maturity"
            )

    def _check(self, name: str, above: bool = False) -> None:
        value = number(getattr(self, name), f"option {name}", 0.0, above)
        object.__setattr__(self, name, value)

    @property
    def dates(self) -> int:
        """T: how many exercise dates, today's and the maturity included."""
        return round(self.maturity / self.step) + 1

    @property
    def sign(self) -> float:
        """+1 for a call, -1 for a put."""
        return 1.0 if self.kind == "call" else -1.0

    @property
    def drift(self) -> float:
        """r - q, what the share's mean price grows by per year."""
        return self.rate - self.dividend

    def discount(self, dates: FloatArray | IntArray | int) -> FloatArray:
        """e^{-r t dt} of dates t."""
        return np.exp(-self.rate * self.step * np.asarray(dates, dtype=np.float64))

    def payoff(self, prices: FloatArray) -> FloatArray:
        """What exercising pays at these prices, not discounted."""
        return np.maximum(self.sign * (prices - self.strike), 0.0)


def check_exercise(t: int, held: FloatArray, actions: FloatArray) -> None:
    """Raise if more is exercised (n, B) than is still held (n, B)."""
    wrong = (actions < 0.0) | (actions > held)
    if wrong.any():
        i, b = (int(place) for place in np.argwhere(wrong)[0])
        which = f"option {b + 1}" if actions.shape[1] > 1 else "the option"
        raise InfeasibleError(
            f"exercising {actions[i, b]:g} of {which} at date t={t}, when {held[i, b]:g} of it is "
            "still held: 0 holds, 1 exercises"
        )


@dataclass(frozen=True)
class BasketContract:
    """Several options with the same dates, and how many may be exercised on one date.

    options  B of them; maturity, rate and step are those of the basket
    cap      the paper's upper bound Delta_a per date, at maturity too
    """

    options: tuple[OptionContract, ...]
    cap: int

    def __post_init__(self) -> None:
        if not self.options:
            raise InputError("a basket needs at least one option")
        for name in ("maturity", "rate", "step"):
            values = {getattr(option, name) for option in self.options}
            if len(values) > 1:
                listed = ", ".join(f"{value:g}" for value in sorted(values))
                raise InputError(f"the options of a basket must share one {name}, got {listed}")
        whole_number(self.cap, "cap", minimum=1)


# Table 11.
OPTIONS = {
    "A": OptionContract(40, 36, 1.0, 0.10, 0.20, 0.10, 0.00, "call"),
    "B": OptionContract(12, 10, 1.5, 0.08, 0.25, 0.10, 0.03, "call"),
    "C": OptionContract(36, 40, 0.5, 0.05, 0.30, 0.05, 0.05, "put"),
    "D": OptionContract(10, 14, 1.0, 0.12, 0.35, 0.05, 0.05, "put"),
    "E": OptionContract(8, 5, 1.5, 0.07, 0.20, 0.10, 0.00, "call"),
    "F": OptionContract(5, 8, 1.0, 0.10, 0.40, 0.10, 0.05, "put"),
}

# Table 13: the options' (S_0, K, sigma, q, kind), then maturity, r, dt and the cap.
_Row: TypeAlias = tuple[float, float, float, float, Kind]
_TABLE_13: dict[str, tuple[tuple[_Row, ...], float, float, float, int]] = {
    "A": (
        ((40, 36, 0.20, 0.0, "call"), (12, 10, 0.25, 0.03, "call"), (8, 5, 0.20, 0.0, "call")),
        *(1.0, 0.08, 0.02, 3),
    ),
    "B": (
        (
            (25, 20, 0.30, 0.02, "call"),
            (30, 28, 0.35, 0.01, "put"),
            (15, 16, 0.25, 0.04, "call"),
            (20, 18, 0.40, 0.03, "put"),
        ),
        *(1.5, 0.06, 0.05, 3),
    ),
    "C": (
        (
            (26, 24, 0.27, 0.02, "call"),
            (15, 16, 0.30, 0.03, "put"),
            (38, 35, 0.25, 0.015, "call"),
        ),
        *(1.3, 0.06, 0.05, 2),
    ),
    "D": (
        (
            (40, 42, 0.25, 0.01, "call"),
            (35, 36, 0.30, 0.015, "put"),
            (50, 48, 0.28, 0.02, "call"),
            (45, 47, 0.26, 0.01, "put"),
            (60, 58, 0.27, 0.015, "call"),
        ),
        *(1.5, 0.05, 0.025, 3),
    ),
    "E": (
        (
            (18, 20, 0.26, 0.015, "put"),
            (27, 25, 0.32, 0.02, "call"),
            (22, 24, 0.29, 0.025, "put"),
            (31, 30, 0.33, 0.01, "call"),
        ),
        *(1.4, 0.065, 0.04, 2),
    ),
    "F": (
        (
            (40, 35, 0.20, 0.01, "call"),
            (25, 28, 0.25, 0.02, "put"),
            (30, 25, 0.30, 0.01, "call"),
            (20, 22, 0.22, 0.015, "put"),
        ),
        *(1.0, 0.05, 0.05, 2),
    ),
}


def _table_13() -> dict[str, BasketContract]:
    return {
        key: BasketContract(
            tuple(
                OptionContract(price, strike, maturity, rate, volatility, step, dividend, kind)
                for price, strike, volatility, dividend, kind in rows
            ),
            cap,
        )
        for key, (rows, maturity, rate, step, cap) in _TABLE_13.items()
    }


BASKETS = _table_13()


def option_contract(config: str | OptionContract) -> OptionContract:
    """The contract itself, or the configuration of Table 11 that a letter names."""
    if isinstance(config, OptionContract):
        return config
    if config not in OPTIONS:
        raise InputError(
            f"option config {config!r} is unknown: choose {', '.join(OPTIONS)}, "
            "or pass an OptionContract"
        )
    return OPTIONS[config]


def basket_contract(config: str | BasketContract) -> BasketContract:
    """The basket itself, or the configuration of Table 13 that a letter names."""
    if isinstance(config, BasketContract):
        return config
    if config not in BASKETS:
        raise InputError(
            f"basket config {config!r} is unknown: choose {', '.join(BASKETS)}, "
            "or pass a BasketContract"
        )
    return BASKETS[config]
