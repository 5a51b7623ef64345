"""The hybrid vehicle's configurations (Tables 7 and 9), and dynamic programs over its tanks.

With n = min(Delta_a, g + b) units to use in a step that does not brake, capacity c of either tank
and mileage f of mode m (Sec. F, which leaves open that the battery is capped at every step):

    V_t(m, g, b) = max_{a <= n} [ f_gas a + f_electric (n - a) + E V_{t+1}(m', g - a, b - n + a) ]
    V_t(m, g, b) = E V_{t+1}(m', g, min(c, b + |Delta_d|))                   where m brakes
    V_T = 0

Taking a fixed a instead of the best one evaluates a policy, exactly; knowing the modes to come
gives hindsight. One realised path has two resources, but no ranking solves it: what braking adds is
lost where the battery is full, so how much there is to spend depends on how it was spent (Top-K and
comparative advantage need it fixed), and units must be used even where they earn least. So
hindsight is the same recursion along the path. Without braking on the path the quota and
what is left are fixed: then comparative advantage f_gas - f_electric applies, and is used. Where
braking is only a probability p_t (an expected path), the linear program of expected amounts: at
most (1 - p_t) Delta_a units are used at the mileage of driving modes, p_t |Delta_d| are gained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.compiled import njit
from counterplan.core.validation import BoolArray, FloatArray, whole_number
from counterplan.errors import InputError
from counterplan.planning.allocation import allocate_advantage, allocate_transport
from counterplan.planning.model import Allocation
from counterplan.planning.processes.base import stochastic_matrix
from counterplan.planning.resource import Resource, ResourceProgram

# Modes come in order: those in which gas is efficient, as many in which electricity is, and
# braking.
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


# --- Dynamic programs -------------------------------------------------------------------------

# Places of the rules in RULES.
OPTIMAL, GREEDY, GAS_FIRST, ELECTRIC_FIRST = range(4)


@njit(cache=True)
def best_use(road, rates, braking, rule, tanks, ahead):  # type: ignore[no-untyped-def]
    """The best amounts of gas (the most of equals) and of electricity that a rule may take, and
    their value with what remains worth `ahead` (c + 1, c + 1)."""
    gas, battery = tanks
    if braking:
        return 0, 0, ahead[gas, min(road.capacity, battery + road.recharge)]
    used = min(road.quota, gas + battery)
    least, most = max(0, used - battery), min(used, gas)
    if rule == GAS_FIRST or (rule == GREEDY and rates[0] >= rates[1]):
        least = most
    elif rule != OPTIMAL:
        most = least
    choice, best = most, -np.inf
    for a in range(most, least - 1, -1):
        value = rates[0] * a + rates[1] * (used - a) + ahead[gas - a, battery - used + a]
        if value > best:
            choice, best = a, value
    return choice, used - choice, best


@njit(cache=True)
def _step_back(road, s, rule, ahead, values):  # type: ignore[no-untyped-def]
    """values (c + 1, c + 1) before a step in mode s, given those after it."""
    rates, braking = road.mileage[s], road.brakes[s]
    for gas in range(road.capacity + 1):
        for battery in range(road.capacity + 1):
            used = best_use(road, rates, braking, rule, (gas, battery), ahead)
            values[gas, battery] = used[2]


@njit(cache=True)
def expected_ahead(matrix, values):  # type: ignore[no-untyped-def]
    """(S, c + 1, c + 1) the mean of values over the next mode, by the present one."""
    ahead = np.zeros(values.shape)
    for s in range(matrix.shape[0]):
        for k in range(matrix.shape[0]):
            if matrix[s, k] > 0.0:
                ahead[s] += matrix[s, k] * values[k]
    return ahead


@njit(cache=True)
def rule_values(road, rule):  # type: ignore[no-untyped-def]
    """(T + 1, S, c + 1, c + 1) the value of a rule, by its place in RULES."""
    S, c = road.matrix.shape[0], road.capacity
    values = np.zeros((road.horizon + 1, S, c + 1, c + 1))
    for t in range(road.horizon - 1, -1, -1):
        ahead = expected_ahead(road.matrix, values[t + 1])
        for s in range(S):
            _step_back(road, s, rule, ahead[s], values[t, s])
    return values


@njit(cache=True)
def sum_regrets(road, modes):  # type: ignore[no-untyped-def]
    """By how much hindsight earns more than greedy from each step and mode on, summed over paths of
    modes (n, T), (T, S, c + 1, c + 1); the sums of squares; and how many paths pass, (T, S)."""
    n, T = modes.shape
    S, c = road.matrix.shape[0], road.capacity
    sums, squares = np.zeros((T, S, c + 1, c + 1)), np.zeros((T, S, c + 1, c + 1))
    counts = np.zeros((T, S))
    best, greedy = np.zeros((T + 1, c + 1, c + 1)), np.zeros((T + 1, c + 1, c + 1))
    for i in range(n):
        for t in range(T - 1, -1, -1):
            s = modes[i, t]
            _step_back(road, s, OPTIMAL, best[t + 1], best[t])
            _step_back(road, s, GREEDY, greedy[t + 1], greedy[t])
            counts[t, s] += 1.0
            for gas in range(c + 1):
                for battery in range(c + 1):
                    regret = best[t, gas, battery] - greedy[t, gas, battery]
                    sums[t, s, gas, battery] += regret
                    squares[t, s, gas, battery] += regret * regret
    return sums, squares, counts


@njit(cache=True)
def _reach(road, brakes, start, reached):  # type: ignore[no-untyped-def]
    """Mark the tanks (T + 1, c + 1, c + 1) that can be reached along a path from `start`."""
    reached[:] = False
    reached[0, start[0], start[1]] = True
    for t in range(brakes.size):
        for gas, battery in np.argwhere(reached[t]):
            if brakes[t]:
                reached[t + 1, gas, min(road.capacity, battery + road.recharge)] = True
                continue
            used = min(road.quota, gas + battery)
            for a in range(max(0, used - battery), min(used, gas) + 1):
                reached[t + 1, gas - a, battery - used + a] = True


@njit(cache=True)
def path_hindsight(road, rates, brakes, start):  # type: ignore[no-untyped-def]
    """Values (n,) and actions (n, T, 2) along paths of mileage (n, T, 2) and braking (n, T), from
    tanks (2,)."""
    n, T = brakes.shape
    c = road.capacity
    values, actions = np.empty(n), np.zeros((n, T, 2))
    table = np.zeros((T + 1, c + 1, c + 1))
    reached = np.zeros((T + 1, c + 1, c + 1), dtype=np.bool_)
    for i in range(n):
        _reach(road, brakes[i], start, reached)
        for t in range(T - 1, -1, -1):
            for gas in range(c + 1):
                for battery in range(c + 1):
                    if reached[t, gas, battery]:
                        tanks, braking = (gas, battery), brakes[i, t]
                        used = best_use(road, rates[i, t], braking, OPTIMAL, tanks, table[t + 1])
                        table[t, gas, battery] = used[2]
        gas, battery = start[0], start[1]
        values[i] = table[0, gas, battery]
        for t in range(T):
            tanks, braking = (gas, battery), brakes[i, t]
            a, e, _ = best_use(road, rates[i, t], braking, OPTIMAL, tanks, table[t + 1])
            actions[i, t, 0], actions[i, t, 1] = a, e
            gas, battery = gas - a, battery - e
            if braking:
                battery = min(c, battery + road.recharge)
    return values, actions


@njit(cache=True)
def best_splits(road, rates, brakes, tanks, ahead):  # type: ignore[no-untyped-def]
    """(n, 2) the best actions for mileage (n, 2), braking (n,) and tanks (n, 2), with what remains
    worth ahead (n, c + 1, c + 1)."""
    actions = np.zeros((brakes.size, 2))
    for i in range(brakes.size):
        full = int(tanks[i, 0] + 0.5), int(tanks[i, 1] + 0.5)
        a, e, _ = best_use(road, rates[i], brakes[i], OPTIMAL, full, ahead[i])
        actions[i, 0], actions[i, 1] = a, e
    return actions


# --- Hindsight, for any path ------------------------------------------------------------------

# A probability this small is rounding.
SMALLEST = 1e-9


def allocate(road: Road, beliefs: FloatArray, tanks: FloatArray) -> Allocation:
    """The best use of tanks (2,) along n paths of distributions of the mode, (n, T, S)."""
    braking = np.asarray(beliefs @ road.brakes)
    driving = np.maximum(1.0 - braking, SMALLEST)[:, :, None]
    rates = (beliefs * ~road.brakes) @ road.mileage / driving
    uncertain = ((braking > SMALLEST) & (braking < 1.0 - SMALLEST)).any(axis=1)
    calm = ~uncertain & (braking <= SMALLEST).all(axis=1)
    rest = ~uncertain & ~calm
    values, actions = np.empty(len(rates)), np.empty(rates.shape)
    methods = []
    if calm.any():
        values[calm], actions[calm] = _without_braking(road, rates[calm], tanks)
        methods.append("comparative advantage where nothing brakes: quotas and stocks are fixed")
    if rest.any():
        start = np.rint(tanks).astype(np.int64)
        values[rest], actions[rest] = path_hindsight(road, rates[rest], braking[rest] > 0.5, start)
        methods.append("dynamic program along the path: what braking adds depends on what was used")
    for i in np.flatnonzero(uncertain):
        values[i], actions[i] = _expected(road, rates[i], braking[i], tanks)
    if uncertain.any():
        methods.append("linear program of expected amounts: a plug-in value")
    return Allocation(values, actions, "; ".join(methods))


def _without_braking(
    road: Road, rates: FloatArray, tanks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    quotas = np.clip(tanks.sum() - road.quota * np.arange(rates.shape[1]), 0.0, road.quota)
    stocks = float(tanks[0]), float(tanks[1])
    return allocate_advantage(rates[:, :, 0], rates[:, :, 1], quotas, stocks)


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
