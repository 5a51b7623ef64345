"""The hybrid vehicle, compiled: what the search calls.

x = (what is seen (O,), belief about the mode (S,)); O = 0 where the mode is observed: the belief is
its indicator. d = (gas, battery), action = (gas, electric), all whole units. `parameters` holds,
flat and in this order: where the process of x begins (process_part), T, S, capacity, quota,
recharge, O; mileage (S, 2); which modes brake (S,); the process.

Bounds look one action ahead. `tables` holds 1 + K tables (T, S, c + 1, c + 1) of expected values
after step t, given its mode and the tanks after it: the mean of hindsight, then K policies':

    max_a [ r_t(a) + sum_s b_s B_t(s, gas', battery') ]    B above; below, the best of K such sums
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from counterplan.core.validation import FloatArray, whole_number
from counterplan.domains.hybrid_exact import Road
from counterplan.planning.search.kernel import ACTIONS, BOUNDS, POLICY, STEP, draw, successors

if TYPE_CHECKING:
    from counterplan.domains.hybrid import HybridVehicle

T_, S_, CAPACITY, QUOTA, RECHARGE, SEEN = range(1, 7)
HEADER = 7


def pack(road: Road, seen: int, process: FloatArray) -> FloatArray:
    """The kernel's parameters."""
    modes = np.concatenate([np.ravel(road.mileage), road.brakes.astype(np.float64)])
    sizes = [road.horizon, len(road.matrix), road.capacity, road.quota, road.recharge, seen]
    return np.concatenate([[HEADER + len(modes)], sizes, modes, process]).astype(np.float64)


@njit(cache=True)
def _rates(parameters, x):  # type: ignore[no-untyped-def]
    """Expected mileage of gas and of electricity, and whether the vehicle brakes."""
    S, seen = int(parameters[S_]), int(parameters[SEEN])
    gas, electric, braking = 0.0, 0.0, 0.0
    for s in range(S):
        belief = x[seen + s]
        if belief > 0.0:
            gas += belief * parameters[HEADER + 2 * s]
            electric += belief * parameters[HEADER + 2 * s + 1]
            braking += belief * parameters[HEADER + 2 * S + s]
    return gas, electric, braking > 0.5


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """Every split of the quota, most gas first; nothing when braking."""
    _, _, braking = _rates(parameters, x)
    if braking:
        out[0, 0] = 0.0
        out[0, 1] = 0.0
        return 1
    used = min(parameters[QUOTA], d[0] + d[1])
    gas = min(used, d[0])
    m = 0
    while gas >= 0.0 and used - gas <= d[1]:
        out[m, 0] = gas
        out[m, 1] = used - gas
        gas -= 1.0
        m += 1
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Drive, or recharge."""
    gas, electric, braking = _rates(parameters, x)
    out[0] = d[0] - action[0]
    out[1] = d[1] - action[1]
    if braking:
        out[1] = min(parameters[CAPACITY], out[1] + parameters[RECHARGE])
        return 0.0
    return gas * action[0] + electric * action[1]


@njit(POLICY, cache=True)
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Greedy: the more efficient fuel as far as it goes."""
    gas, electric, _ = _rates(parameters, x)
    return 0 if gas >= electric else m - 1


@njit(cache=True)
def _ahead(parameters, tables, k, t, x, first, cell):  # type: ignore[no-untyped-def]
    """The k-th table's expected value after step t; modes before `first` are impossible."""
    T, S, seen = int(parameters[T_]), int(parameters[S_]), int(parameters[SEEN])
    size = (int(parameters[CAPACITY]) + 1) ** 2
    place = ((k * T + t) * S + first) * size + cell
    if x[seen + first] == 1.0:
        return tables[place]
    total = 0.0
    for s in range(first, S):
        if x[seen + s] > 0.0:
            total += x[seen + s] * tables[place]
        place += size
    return total


@njit(BOUNDS, cache=True)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """One action, then hindsight (above) and the best of the executed policies (below)."""
    out[0], out[1] = -np.inf, np.inf
    if tables.size == 0:
        return
    T, S, capacity = int(parameters[T_]), int(parameters[S_]), parameters[CAPACITY]
    count = tables.size // (T * S * (int(capacity) + 1) ** 2)
    gas_rate, electric_rate, braking = _rates(parameters, x)
    used = 0.0 if braking else min(parameters[QUOTA], d[0] + d[1])
    charged = parameters[RECHARGE] if braking else 0.0
    first = int(parameters[SEEN])
    while x[first] <= 0.0:
        first += 1
    first -= int(parameters[SEEN])
    gas = min(used, d[0])
    high = -np.inf
    while gas >= 0.0 and used - gas <= d[1]:
        electric = used - gas
        now = 0.0 if braking else gas_rate * gas + electric_rate * electric
        battery = min(capacity, d[1] - electric + charged)
        cell = int(d[0] - gas) * (int(capacity) + 1) + int(battery)
        high = max(high, now + _ahead(parameters, tables, 0, t, x, first, cell))
        for k in range(1, count):
            out[0] = max(out[0], now + _ahead(parameters, tables, k, t, x, first, cell))
        gas -= 1.0
    out[1] = high


FUNCTIONS: dict[str, Any] = {
    "draw": draw,
    "successors": successors,
    "actions": actions,
    "step": step,
    "policy": policy,
    "bounds": bounds,
}


# ----------------------------------------------------------------------------------------------
# Tables of bounds on the expected value after every step, by its mode and the tanks after it.
#
#     above   the mean of hindsight over sampled futures of the modes; one backward pass along a
#     path
#             values all tanks at once, from every step on
#     below   policies, evaluated exactly: open loops that use one fuel first, or greedy
#
# Sampled is only what hindsight earns more than greedy on the same path: greedy's exact value and
# the mean of that regret give the mean of hindsight with most of the noise gone; what is left is
# allowed for by MARGIN standard errors. Where modes are observed, the better of the two open loops
# may be chosen once the next mode is seen; where they are hidden, each is a bound of its own,
# linear in the belief.

MARGIN = 3.0


def bound_tables(
    problem: HybridVehicle, samples: int, generator: np.random.Generator
) -> FloatArray:
    """1 + K tables (T, S, c + 1, c + 1), flat; samples: paths, as many from every mode."""
    from counterplan.domains.hybrid_exact import sum_regrets

    S, T = len(problem.road.matrix), problem.horizon
    each = -(-whole_number(samples, "samples", minimum=2) // S)
    starts = np.eye(S)
    paths = [problem.chain.sample_paths(each, T, generator, 0, start) for start in starts]
    modes = np.concatenate([path.argmax(axis=2) for path in paths])
    above = problem.rule_values("greedy")[:T] + _raised(*sum_regrets(problem.road, modes))
    below = _executed(problem)
    # A bound that is met exactly must not be crossed by rounding.
    tables = [np.maximum.reduce([above, *below]), *below]
    return np.concatenate([_after(problem.road.matrix, table).ravel() for table in tables])


def _raised(sums: FloatArray, squares: FloatArray, counts: FloatArray) -> FloatArray:
    """Means and MARGIN standard errors; infinite where fewer than two paths passed."""
    n = np.maximum(counts, 2.0)[:, :, None, None]
    means = sums / n
    errors = np.sqrt(np.maximum(squares / n - means**2, 0.0) / (n - 1.0))
    return np.where(counts[:, :, None, None] < 2, np.inf, means + MARGIN * errors)


def _executed(problem: HybridVehicle) -> list[FloatArray]:
    """K tables (T, S, c + 1, c + 1) of policies' values before each step."""
    T = problem.horizon
    if problem.executed == "greedy":
        return [problem.rule_values("greedy")[:T]]
    orders = [problem.rule_values("gas-first")[:T], problem.rule_values("electric-first")[:T]]
    return orders if problem.hidden else [np.maximum(*orders)]


def _after(matrix: FloatArray, values: FloatArray) -> FloatArray:
    """(T, S, c + 1, c + 1) expected values after each step, given values before each."""
    from counterplan.domains.hybrid_exact import expected_ahead

    after = np.zeros_like(values)
    for t in range(len(values) - 1):
        after[t] = expected_ahead(matrix, values[t + 1])
    return after
