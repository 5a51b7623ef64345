"""Bunkering, compiled: what the search calls, and one backward pass per price path.

x = (price,), d = (level,), action = (amount,). Values are costs negated. `parameters` holds, flat
and in this order: where the price process begins (process_part), T, K, N, fixed cost, scaled; legs
(T,); targets (T, K) and where they lead (T, K); arrivals (T + 1, N); the expected-price plan's cost
from each of them on (T + 1, N); the process. `scaled` is 1 where prices multiply: then costs to go
are in units of the price before.

Bounds at (t, P, x) look one purchase ahead, which keeps them valid and makes them much tighter:

    min_y [ P (y - x) + K 1{y > x} + B_{t+1}(y - l_t) ]    B a bound on the expected cost to go

`tables` holds two parts, proportional and constant, of each of two bounds B (T + 1, N): hindsight
below, an executed policy above. Between two arrivals of the grid B is taken at the one that keeps
it valid (costs never rise with the level).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.bunkering_exact import SAME, Levels, VoyageValue
from counterplan.domains.bunkering_prices import dependence, law_of_means, price_law
from counterplan.errors import NotApplicableError
from counterplan.planning.search.kernel import ACTIONS, BOUNDS, POLICY, STEP, draw, successors

if TYPE_CHECKING:
    from counterplan.domains.bunkering import Bunkering

T_, K_, N_, FIXED, SCALED = range(1, 6)
HEADER = 6


def pack(
    levels: Levels, fixed_cost: float, scaled: bool, plan: FloatArray, process: FloatArray
) -> FloatArray:
    """The kernel's parameters."""
    T, K = levels.targets.shape
    tables = [levels.legs, levels.targets, levels.target_next, levels.arrivals, plan]
    numbers = np.concatenate([np.ravel(table) for table in tables])
    begin = HEADER + len(numbers)
    header = np.array([begin, T, K, levels.arrivals.shape[1], fixed_cost, scaled])
    return np.concatenate([header, numbers, process])


@njit(cache=True)
def _sizes(parameters):  # type: ignore[no-untyped-def]
    return int(parameters[T_]), int(parameters[K_]), int(parameters[N_])


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """Nothing where the level covers the leg, then every amount that ends on a higher target."""
    T, K, _ = _sizes(parameters)
    m = 0
    if d[0] >= parameters[HEADER + t] - SAME:
        out[0, 0] = 0.0
        m = 1
    at = HEADER + T + t * K
    for k in range(K):
        amount = parameters[at + k] - d[0]
        if amount > SAME:  # also false for the padding
            out[m, 0] = amount
            m += 1
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Pay, and sail the leg."""
    out[0] = max(0.0, d[0] + action[0] - parameters[HEADER + t])
    fixed = parameters[FIXED] if action[0] > 0.0 else 0.0
    return -(x[0] * action[0] + fixed)


@njit(cache=True)
def _place(row, level):  # type: ignore[no-untyped-def]
    """The last place in an ascending row (nan at its end) whose entry is not above the level."""
    place = 0
    while place + 1 < row.size and row[place + 1] <= level + SAME:
        place += 1
    return place


@njit(POLICY, cache=True)
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """Re-solve the plan that is optimal for expected prices; its first purchase."""
    T, K, N = _sizes(parameters)
    at = HEADER + T + 2 * T * K + (t + 1) * N
    arrivals = parameters[at : at + N]
    plan = parameters[at + (T + 1) * N : at + (T + 2) * N]
    factor = x[0] if parameters[SCALED] else 1.0
    best, least = 0, np.inf
    for i in range(m):
        amount = offered[i, 0]
        ahead = plan[_place(arrivals, d[0] + amount - parameters[HEADER + t])]
        cost = x[0] * amount + factor * ahead + (parameters[FIXED] if amount > 0.0 else 0.0)
        if cost < least:
            best, least = i, cost
    return best


@njit(BOUNDS, cache=True)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """One purchase, then hindsight (above) and an executed policy (below)."""
    out[0], out[1] = -np.inf, np.inf
    if tables.size == 0:
        return
    T, K, N = _sizes(parameters)
    size = (T + 1) * N
    at = (t + 1) * N
    factor = x[0] if parameters[SCALED] else 1.0
    low, high = np.inf, np.inf
    first = HEADER + T + t * K
    for k in range(K):
        amount = parameters[first + k] - d[0]
        if amount > SAME:
            cell = at + int(parameters[first + T * K + k])
            now = x[0] * amount + parameters[FIXED]
            low = min(low, now + factor * tables[cell] + tables[size + cell])
            high = min(high, now + factor * tables[2 * size + cell] + tables[3 * size + cell])
    rest = d[0] - parameters[HEADER + t]
    if rest >= -SAME:
        row = HEADER + T + 2 * T * K + at
        arrivals = parameters[row : row + N]
        below = _place(arrivals, rest)
        above = below
        if arrivals[below] < rest - SAME and below + 1 < N and arrivals[below + 1] > rest:
            above = below + 1
        if arrivals[above] >= rest - SAME:
            low = min(low, factor * tables[at + above] + tables[size + at + above])
        else:
            low = 0.0  # fuller than any arrival of the grid
        cell = 2 * size + at + below
        high = min(high, factor * tables[cell] + tables[size + cell])
    out[0], out[1] = -high, -low


@njit(cache=True)
def backward(prices, levels, fixed_cost, values, choices):  # type: ignore[no-untyped-def]
    """The least cost (T + 1, N) from every arrival on, all prices (T,) known, and where each best
    purchase leads: its target, or -1 for buying nothing (T, N)."""
    T, K = levels.targets.shape
    N = levels.arrivals.shape[1]
    values[T, :] = 0.0
    for t in range(T - 1, -1, -1):
        for g in range(N):
            level = levels.arrivals[t, g]
            stay = levels.stay_next[t, g]
            least, choice = (values[t + 1, stay] if stay >= 0 else np.inf), -1
            for k in range(K):
                amount = levels.targets[t, k] - level
                if amount > SAME:
                    cost = prices[t] * amount + fixed_cost
                    cost += values[t + 1, levels.target_next[t, k]]
                    if cost < least:
                        least, choice = cost, k
            values[t, g] = least
            choices[t, g] = choice


@njit(cache=True)
def _resolved(prices, levels, fixed_cost, scaled, plan, costs):  # type: ignore[no-untyped-def]
    """The cost (T + 1, N) from every arrival on, along prices (T,), of re-solving the plan whose
    expected costs are `plan` (T + 1, N) at every port."""
    T, K = levels.targets.shape
    costs[T, :] = 0.0
    for t in range(T - 1, -1, -1):
        unit = prices[t] if scaled else 1.0
        for i in range(levels.arrivals.shape[1]):
            stay = levels.stay_next[t, i]
            least = unit * plan[t + 1, stay] if stay >= 0 else np.inf
            paid = costs[t + 1, stay] if stay >= 0 else np.inf
            for k in range(K):
                amount = levels.targets[t, k] - levels.arrivals[t, i]
                if amount > SAME:
                    after = levels.target_next[t, k]
                    now = prices[t] * amount + fixed_cost
                    if now + unit * plan[t + 1, after] < least:
                        least = now + unit * plan[t + 1, after]
                        paid = now + costs[t + 1, after]
            costs[t, i] = paid


@njit(cache=True)
def mean_regrets(prices, levels, fixed_cost, scaled, plan):  # type: ignore[no-untyped-def]
    """By how much, on average over paths (n, T), re-solving costs more than hindsight from every
    arrival on, (T + 1, N), and the standard error; `scaled`: in units of the price before."""
    n, T = prices.shape
    shape = levels.arrivals.shape
    mean, squares = np.zeros(shape), np.zeros(shape)
    values, costs = np.empty(shape), np.empty(shape)
    choices = np.empty(shape, dtype=np.int64)
    for i in range(n):
        backward(prices[i], levels, fixed_cost, values, choices)
        _resolved(prices[i], levels, fixed_cost, scaled, plan, costs)
        for t in range(1, T):
            unit = prices[i, t - 1] if scaled else 1.0
            for k in range(shape[1]):
                if np.isnan(levels.arrivals[t, k]):
                    continue
                regret = (costs[t, k] - values[t, k]) / unit
                gap = regret - mean[t, k]
                mean[t, k] += gap / (i + 1)
                squares[t, k] += gap * (regret - mean[t, k])
    return mean, np.sqrt(squares / (n - 1) / n)


@njit(cache=True)
def grid_hindsight(prices, levels, fixed_cost):  # type: ignore[no-untyped-def]
    """Least costs (n,) and purchases (n, T) along paths (n, T), from the grid's first arrival."""
    n, T = prices.shape
    N = levels.arrivals.shape[1]
    costs, amounts = np.empty(n), np.zeros((n, T))
    values, choices = np.empty((T + 1, N)), np.empty((T, N), dtype=np.int64)
    for i in range(n):
        backward(prices[i], levels, fixed_cost, values, choices)
        at = 0
        costs[i] = values[0, at]
        for t in range(T):
            k = choices[t, at]
            if k >= 0:
                amounts[i, t] = levels.targets[t, k] - levels.arrivals[t, at]
                at = levels.target_next[t, k]
            else:
                at = levels.stay_next[t, at]
    return costs, amounts


FUNCTIONS: dict[str, Any] = {
    "draw": draw,
    "successors": successors,
    "actions": actions,
    "step": step,
    "policy": policy,
    "bounds": bounds,
}


# ----------------------------------------------------------------------------------------------
# Tables of bounds on the expected cost to go, for every port and every arrival of the grid.
#
#     below   the mean hindsight cost over sampled futures
#     above   the cost of a policy: the plan that is optimal for expected prices, executed, whose
#     cost
#             is its plug-in cost (the levels are deterministic and costs linear), or that plan
#             re-solved at every port; both exact, no samples
#
# Sampled is only what re-solving costs more than hindsight on the same path: its exact expected
# cost, less the mean of that regret, is the mean hindsight cost with most of the noise gone, and
# never above the cost of the policy. What noise is left is allowed for by MARGIN standard errors.
#
# Prices that multiply: all costs in units of the price before. A fixed cost does not scale, so
# bounds are kept in two parts, proportional to that price and constant; below, the constant part
# is K times the fewest purchases that suffice, above, K for every port left.

MARGIN = 3.0


def plan_costs(problem: Bunkering) -> FloatArray:
    """(T + 1, N) cost of the expected-price plan from every arrival on, before its price is known;
    0 where prices are neither independent nor multiply."""
    if dependence(problem.process) == "other":
        return np.zeros_like(problem.levels.arrivals)
    return _on_grid(_plan(problem))


def bound_tables(problem: Bunkering, samples: int, seed: Seed) -> FloatArray:
    """Four tables (T + 1, N): below and above, each proportional and constant; flat."""

    whole_number(samples, "samples", minimum=2)
    kind = dependence(problem.process)
    if kind == "other":
        raise NotApplicableError(
            f"prices of {type(problem.process).__name__} are neither independent nor do they "
            "multiply, so bounds by level alone do not hold; plan without clipping"
        )
    levels, T, scaled = problem.levels, problem.horizon, kind == "multiplies"
    plan = _plan(problem)
    resolved = VoyageValue.solve(levels, plan.fixed_cost, price_law(problem.process, T), plan)
    expected = _on_grid(plan)
    paths = np.ascontiguousarray(problem.sample_paths(samples, seed)[:, :, 0])
    regret, error = mean_regrets(paths, levels, plan.fixed_cost, scaled, expected)
    below = _on_grid(resolved) - regret - MARGIN * error
    above = expected if problem.executed == "open-loop" else _on_grid(resolved)
    constant_below = constant_above = np.zeros_like(below)
    if scaled and problem.fixed_cost > 0:
        constant_below = problem.fixed_cost * _fewest_purchases(levels)
        left = np.arange(T, -1.0, -1.0)[:, None]
        constant_above = np.broadcast_to(problem.fixed_cost * left, below.shape)
    tables = [below, constant_below, above, constant_above]
    return np.concatenate([table.ravel() for table in tables])


def _fewest_purchases(levels: Levels) -> FloatArray:
    """(T + 1, N) how often at least fuel must be bought from every arrival on."""

    counts = np.empty(levels.arrivals.shape)
    backward(np.zeros(len(levels.legs)), levels, 1.0, counts, np.empty(counts.shape, np.int64))
    return counts


def _plan(problem: Bunkering) -> VoyageValue:
    """The expected-price plan; where prices multiply, for the fuel alone."""
    law = law_of_means(problem.process, problem.horizon)
    return VoyageValue.solve(problem.levels, 0.0 if law.scaled else problem.fixed_cost, law)


def _on_grid(value: VoyageValue) -> FloatArray:
    arrivals = value.levels.arrivals
    return np.nan_to_num([value.before(t, row) for t, row in enumerate(arrivals)])
