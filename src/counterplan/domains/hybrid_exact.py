"""Dynamic programs over the hybrid vehicle's tanks.

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
what is left are fixed: then comparative advantage f_gas - f_electric applies, and is used.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# Places of the rules in hybrid_tables.RULES; "optimal" is 0.
GREEDY, GAS_FIRST, ELECTRIC_FIRST = 1, 2, 3


@njit(cache=True)
def _range(rule, gas_rate, electric_rate, used, gas, battery):  # type: ignore[no-untyped-def]
    """The least and the most gas a rule may take."""
    least, most = max(0, used - battery), min(used, gas)
    if rule == GREEDY:
        return (most, most) if gas_rate >= electric_rate else (least, least)
    if rule == GAS_FIRST:
        return most, most
    if rule == ELECTRIC_FIRST:
        return least, least
    return least, most


@njit(cache=True)
def _step_back(road, rates, braking, rule, ahead, values):  # type: ignore[no-untyped-def]
    """values (c + 1, c + 1) before a step, given those after it."""
    c = road.capacity
    gas_rate, electric_rate = rates[0], rates[1]
    for gas in range(c + 1):
        for battery in range(c + 1):
            if braking:
                values[gas, battery] = ahead[gas, min(c, battery + road.recharge)]
                continue
            used = min(road.quota, gas + battery)
            least, most = _range(rule, gas_rate, electric_rate, used, gas, battery)
            best = -np.inf
            for a in range(least, most + 1):
                value = gas_rate * a + electric_rate * (used - a)
                value += ahead[gas - a, battery - used + a]
                best = max(best, value)
            values[gas, battery] = best


@njit(cache=True)
def expected_ahead(matrix, values):  # type: ignore[no-untyped-def]
    """(S, c + 1, c + 1) the mean of values over the next mode, by the present one."""
    S, width = matrix.shape[0], values.shape[1]
    ahead = np.zeros((S, width, width))
    for s in range(S):
        for k in range(S):
            weight = matrix[s, k]
            if weight > 0.0:
                for gas in range(width):
                    for battery in range(width):
                        ahead[s, gas, battery] += weight * values[k, gas, battery]
    return ahead


@njit(cache=True)
def rule_values(road, rule):  # type: ignore[no-untyped-def]
    """(T + 1, S, c + 1, c + 1) the value of a rule, by its place in RULES."""
    S, c = road.matrix.shape[0], road.capacity
    values = np.zeros((road.horizon + 1, S, c + 1, c + 1))
    for t in range(road.horizon - 1, -1, -1):
        ahead = expected_ahead(road.matrix, values[t + 1])
        for s in range(S):
            _step_back(road, road.mileage[s], road.brakes[s], rule, ahead[s], values[t, s])
    return values


@njit(cache=True)
def best_gas(road, rates, tanks, ahead):  # type: ignore[no-untyped-def]
    """The best amount of gas, the most of equals, with what remains worth `ahead` (c+1, c+1)."""
    gas, battery = tanks
    used = min(road.quota, gas + battery)
    choice, best = 0, -np.inf
    for a in range(min(used, gas), max(0, used - battery) - 1, -1):
        value = rates[0] * a + rates[1] * (used - a) + ahead[gas - a, battery - used + a]
        if value > best:
            choice, best = a, value
    return choice


@njit(cache=True)
def _count_regret(best, greedy, sums, squares):  # type: ignore[no-untyped-def]
    """Add up best - greedy and its square, cell by cell."""
    for gas in range(best.shape[0]):
        for battery in range(best.shape[1]):
            regret = best[gas, battery] - greedy[gas, battery]
            sums[gas, battery] += regret
            squares[gas, battery] += regret * regret


@njit(cache=True)
def sum_regrets(road, modes):  # type: ignore[no-untyped-def]
    """By how much hindsight earns more than greedy from each step and mode on, summed over paths of
    modes (n, T), (T, S, c + 1, c + 1); the sums of squares; and how many paths pass, (T, S)."""
    n, T = modes.shape
    S, c = road.matrix.shape[0], road.capacity
    sums, squares = np.zeros((T, S, c + 1, c + 1)), np.zeros((T, S, c + 1, c + 1))
    counts = np.zeros((T, S))
    best, greedy = np.zeros((2, c + 1, c + 1)), np.zeros((2, c + 1, c + 1))
    for i in range(n):
        best[T % 2] = 0.0
        greedy[T % 2] = 0.0
        for t in range(T - 1, -1, -1):
            s, now, then = modes[i, t], t % 2, (t + 1) % 2
            _step_back(road, road.mileage[s], road.brakes[s], 0, best[then], best[now])
            _step_back(road, road.mileage[s], road.brakes[s], GREEDY, greedy[then], greedy[now])
            _count_regret(best[now], greedy[now], sums[t, s], squares[t, s])
            counts[t, s] += 1.0
    return sums, squares, counts


@njit(cache=True)
def _reach(road, brakes, start, reached):  # type: ignore[no-untyped-def]
    """Mark the tanks (T + 1, c + 1, c + 1) that can be reached along a path from `start`."""
    c = road.capacity
    reached[:] = False
    reached[0, start[0], start[1]] = True
    for t in range(brakes.size):
        for gas in range(c + 1):
            for battery in range(c + 1):
                if not reached[t, gas, battery]:
                    continue
                if brakes[t]:
                    reached[t + 1, gas, min(c, battery + road.recharge)] = True
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
                        table[t, gas, battery] = _best_value(
                            road, rates[i, t], brakes[i, t], (gas, battery), table[t + 1]
                        )
        values[i] = table[0, start[0], start[1]]
        _follow(road, rates[i], brakes[i], start, table, actions[i])
    return values, actions


@njit(cache=True)
def _best_value(road, rates, braking, tanks, ahead):  # type: ignore[no-untyped-def]
    gas, battery = tanks
    if braking:
        return ahead[gas, min(road.capacity, battery + road.recharge)]
    used = min(road.quota, gas + battery)
    a = best_gas(road, rates, tanks, ahead)
    return rates[0] * a + rates[1] * (used - a) + ahead[gas - a, battery - used + a]


@njit(cache=True)
def _follow(road, rates, brakes, start, table, actions):  # type: ignore[no-untyped-def]
    """The best actions along one path, forwards through the table."""
    gas, battery = start[0], start[1]
    for t in range(brakes.size):
        if brakes[t]:
            battery = min(road.capacity, battery + road.recharge)
            continue
        used = min(road.quota, gas + battery)
        a = best_gas(road, rates[t], (gas, battery), table[t + 1])
        actions[t, 0], actions[t, 1] = a, used - a
        gas -= a
        battery -= used - a


@njit(cache=True)
def best_splits(road, rates, brakes, tanks, ahead):  # type: ignore[no-untyped-def]
    """(n, 2) the best actions for mileage (n, 2), braking (n,) and tanks (n, 2), with what remains
    worth ahead (n, c + 1, c + 1)."""
    n = brakes.size
    actions = np.zeros((n, 2))
    for i in range(n):
        if not brakes[i]:
            gas, battery = int(tanks[i, 0] + 0.5), int(tanks[i, 1] + 0.5)
            a = best_gas(road, rates[i], (gas, battery), ahead[i])
            actions[i, 0] = a
            actions[i, 1] = min(road.quota, gas + battery) - a
    return actions
