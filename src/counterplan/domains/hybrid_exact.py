"""The hybrid vehicle's configurations (Tables 7 and 9), and dynamic programs over its tanks.

With n = min(Delta_a, g + b) units to use in a step that does not brake, capacity c of either tank
and mileage f of mode m (Sec. F, which leaves open that the battery is capped at every step):

    V_t(m, g, b) = max_{a <= n} [ f_gas a + f_electric (n - a) + E V_{t+1}(m', g - a, b - n + a) ]
    V_t(m, g, b) = E V_{t+1}(m', g, min(c, b + |Delta_d|))                   where m brakes
    V_T = 0

Both are a graph of levels (`planning.level_graph`). Taking a fixed a instead of the best one
evaluates a policy, exactly; knowing the modes to come gives hindsight. One realised path has two
resources, but no ranking solves it: what braking adds is lost where the battery is full, so how
much there is to spend depends on how it was spent (Top-K and comparative advantage need it fixed),
and units must be used even where they earn least. So hindsight is the same recursion along the
path. Where braking is only a probability p_t (an expected path), the linear program of expected
amounts: at most (1 - p_t) Delta_a units are used at the mileage of driving modes, p_t |Delta_d| are
gained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import BoolArray, FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.planning.allocation import allocate_transport
from counterplan.planning.level_graph import LevelGraph, hindsight
from counterplan.planning.model import Allocation
from counterplan.planning.processes.base import stochastic_matrix
from counterplan.planning.resource import Resource, ResourceProgram

# Modes come in order: those in which gas is efficient, as many in which electricity is, and
# braking.


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
    def rates(self) -> FloatArray:
        """(M, 2) the mileage."""
        return np.asarray(self.mileage, dtype=np.float64)

    @property
    def modes(self) -> int:
        """M, with braking."""
        return len(self.rates)

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


def tank_graph(road: Road) -> LevelGraph:
    """What may be done with tanks of c + 1 levels each, (gas, battery) being number gas (c + 1) +
    battery: kind 0 drives, every split of the quota, most gas first; kind 1 brakes."""
    c, gas = road.capacity, np.arange(road.quota, -1, -1)
    levels = np.stack(np.divmod(np.arange((c + 1) ** 2), c + 1), axis=1)
    used = np.minimum(road.quota, levels.sum(axis=1))[:, None]
    driving = np.stack([np.broadcast_to(gas, (len(levels), len(gas))), used - gas], axis=2)
    left = levels[:, None] - driving
    possible = ((driving >= 0) & (left >= 0)).all(axis=2)
    charged, number = levels + np.array([0, road.recharge]), np.array([c + 1, 1])
    after = np.full((2, *possible.shape), -1)
    after[0] = np.where(possible, left @ number, -1)
    after[1, :, 0] = np.minimum(charged, c) @ number
    actions = np.zeros((2, *driving.shape))
    actions[0] = driving
    return LevelGraph(actions, np.zeros(after.shape), after)


# --- Hindsight, for any path ------------------------------------------------------------------

# A probability this small is rounding.
SMALLEST = 1e-9


def allocate(road: Road, beliefs: FloatArray, tanks: FloatArray) -> Allocation:
    """The best use of tanks (2,) along n paths of distributions of the mode, (n, T, S)."""
    braking = np.asarray(beliefs @ road.brakes)
    driving = np.maximum(1.0 - braking, SMALLEST)[:, :, None]
    rates = (beliefs * ~road.brakes) @ road.mileage / driving
    uncertain = ((braking > SMALLEST) & (braking < 1.0 - SMALLEST)).any(axis=1)
    known = ~uncertain
    values, actions = np.empty(len(rates)), np.empty(rates.shape)
    methods = []
    if known.any():
        gas, battery = np.rint(tanks).astype(np.int64)
        kinds, start = (braking[known] > 0.5).astype(np.int64), gas * (road.capacity + 1) + battery
        values[known], actions[known] = hindsight(tank_graph(road), kinds, rates[known], start)
        methods.append("dynamic program along the path: what braking adds depends on what was used")
    for i in np.flatnonzero(uncertain):
        values[i], actions[i] = _expected(road, rates[i], braking[i], tanks)
    if uncertain.any():
        methods.append("linear program of expected amounts: a plug-in value")
    return Allocation(values, actions, "; ".join(methods))


def _expected(
    road: Road, rates: FloatArray, braking: FloatArray, tanks: FloatArray
) -> tuple[float, FloatArray]:
    """Value and actions (T, 2) of one expected path; rates are those of driving modes alone."""
    if road.capacity == 0:
        return 0.0, np.zeros_like(rates)
    capacity = float(road.capacity)
    gas = Resource(float(tanks[0]), capacity, spill=True)
    battery = Resource(float(tanks[1]), capacity, change=road.recharge * braking, spill=True)
    most = road.quota * (1.0 - braking)
    program = ResourceProgram((gas, battery), np.column_stack([np.zeros_like(most), most]))
    found = allocate_transport(rates[None], program)
    return float(found.values[0]), found.actions[0]
