"""The hybrid vehicle's configurations (Tables 7 and 9).

Modes come in order: those in which gas is efficient, as many in which electricity is, and braking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import BoolArray, FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.checks import stochastic_matrix

Rule: TypeAlias = Literal["optimal", "greedy", "gas-first", "electric-first"]
RULES: tuple[Rule, ...] = ("optimal", "greedy", "gas-first", "electric-first")


class Road(NamedTuple):
    """What the dynamic programs over the tanks read.

    matrix   (S, S) of the modes
    mileage  (S, 2)
    brakes   (S,)
    """

    matrix: FloatArray
    mileage: FloatArray
    brakes: BoolArray
    horizon: int
    quota: int
    recharge: int
    capacity: int


@dataclass(frozen=True, eq=False)
class HybridConfig:
    """One row of a table, or your own.

    mileage   (M, 2) mean mileage of a unit of gas and of electricity in each mode, braking last
    matrix    (M, M) how modes follow each other
    horizon   T decisions
    quota     Delta_a, units used in every step that does not brake
    recharge  |Delta_d|, units that braking adds to the battery
    """

    mileage: ArrayLike
    matrix: ArrayLike
    horizon: int
    quota: int
    recharge: int

    def __post_init__(self) -> None:
        try:
            mileage = np.asarray(self.mileage, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("mileage must be rows of two numbers, gas and electric") from None
        if mileage.ndim != 2 or mileage.shape[1] != 2 or len(mileage) < 2:
            raise InputError(
                "mileage must be a row of two numbers, gas and electric, for each mode, braking "
                f"last; got shape {mileage.shape}"
            )
        if not np.isfinite(mileage).all():
            raise InputError("mileage must be finite")
        matrix = stochastic_matrix(self.matrix, "mode matrix")
        if len(matrix) != len(mileage):
            raise InputError(f"{len(mileage)} modes have a mileage, {len(matrix)} a matrix row")
        object.__setattr__(self, "mileage", mileage)
        object.__setattr__(self, "matrix", matrix)
        whole_number(self.horizon, "horizon", minimum=1)
        whole_number(self.quota, "quota", minimum=1)
        whole_number(self.recharge, "recharge")

    @property
    def modes(self) -> int:
        """M, with braking."""
        return len(self.rates)

    @property
    def rates(self) -> FloatArray:
        """(M, 2) the mileage."""
        return np.asarray(self.mileage, dtype=np.float64)

    @property
    def start_mode(self) -> int:
        """The first gas-efficient mode if its gas mileage exceeds the first electric-efficient
        mode's electric mileage, else that mode."""
        electric = (self.modes - 1) // 2
        return 0 if self.rates[0, 0] > self.rates[electric, 1] else electric


T1 = ((0.3, 0.5, 0.2), (0.1, 0.7, 0.2), (0.3, 0.3, 0.4))
T2 = ((0.4, 0.4, 0.2),) * 3
# Printed twice, as T1 and as T2, with the same entries.
T7 = (
    (0.45, 0.20, 0.10, 0.10, 0.05, 0.05, 0.05),
    (0.20, 0.45, 0.10, 0.05, 0.10, 0.05, 0.05),
    (0.10, 0.20, 0.45, 0.05, 0.05, 0.10, 0.05),
    (0.10, 0.05, 0.05, 0.45, 0.20, 0.10, 0.05),
    (0.05, 0.10, 0.05, 0.20, 0.45, 0.10, 0.05),
    (0.05, 0.05, 0.10, 0.10, 0.20, 0.45, 0.05),
    (0.20, 0.20, 0.10, 0.20, 0.20, 0.10, 0.00),
)

THREE_MODES = {
    "A": HybridConfig([[10, 8], [8, 9], [8, 8]], T1, 10, 4, 2),
    "B": HybridConfig([[5, 2], [2, 5], [2, 2]], T1, 10, 4, 2),
    "C": HybridConfig([[6, 3], [3, 7], [3, 3]], T1, 15, 5, 3),
    "D": HybridConfig([[4, 2], [2, 6], [2, 2]], T2, 20, 3, 1),
    "E": HybridConfig([[8, 3], [3, 5], [3, 3]], T2, 12, 6, 4),
    "F": HybridConfig([[30, 10], [10, 40], [10, 10]], T2, 16, 5, 5),
}


def _seven(gas: tuple[int, ...], electric: tuple[int, ...], other: int) -> list[list[int]]:
    """Mileage of three gas-efficient and three electric-efficient modes, and of braking."""
    return [*([g, other] for g in gas), *([other, e] for e in electric), [other, other]]


SEVEN_MODES = {
    "A": HybridConfig(_seven((10, 11, 12), (9, 10, 11), 8), T7, 10, 4, 2),
    "B": HybridConfig(_seven((5, 6, 7), (3, 4, 5), 2), T7, 10, 4, 2),
    "C": HybridConfig(_seven((10, 15, 20), (15, 10, 5), 4), T7, 15, 5, 3),
    "D": HybridConfig(_seven((22, 26, 32), (15, 16, 17), 4), T7, 20, 3, 1),
    "E": HybridConfig(_seven((1, 3, 6), (6, 9, 12), 1), T7, 12, 6, 4),
    "F": HybridConfig(_seven((30, 40, 50), (15, 20, 30), 10), T7, 16, 5, 5),
}
