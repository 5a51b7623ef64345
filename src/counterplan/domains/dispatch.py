"""What storages can do at one step, and the best of it along a path: compiled.

Flows y (A,) earn c_j = price_j(t, x) each, change levels by effect y, and serve demands,

    sum of share_j y_j over the flows of a demand = its amount,

beside bounds on each. **Dispatch**: if a unit in storage i is worth w_i, flow j gains
c_j + sum_i w_i effect_ij. Flows that serve no demand run at most or least by the sign of that, and
a demand is served in the order of gain per unit served (merit order). Nothing does better at w.

**One storage.** Let F(z) be the most that a step earns while it changes the level by z. It is
concave and piecewise linear: as w rises, dispatch changes only where a gain changes its sign or two
gains of a demand trade places, and between these w it gives one corner of F after the other. What
is offered at a level are those corners that levels allow, and the points of F that end at the same
level, empty, full, at levels that just serve later needs, and on a grid. With U(l) the value of
level l after the step and z = l - keep d - inflow,

    V(d) = max_l  U(l) + F(l - keep d - inflow)

is a sup-convolution: the segments of U and of F, turned around, sorted by slope. So V is found
exactly, whatever losses, leakage, demands and convex costs there are. Backwards along a path that
is known it is hindsight; with U the mean over what may follow it is the optimum without foresight.

**Several storages.** Offered is the dispatch for worths that are low, in between and high for each
storage, with what levels do not allow taken back, the flows that gain least first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.core.compiled import njit
from counterplan.planning.compiled import Layout, inlined, jit, offer

# D numbers of the resource: S levels, then the flows before of those with ramps. A flow is one or
# more numbers of y (its segments, the cheapest first), `first` says which; then come what is lost
# of each demand and what each storage spills, numbers of y too, -1 where that is not possible.
STORAGE = Layout(
    "rest sign grid corners",
    "T D S A F K X N",
    keep="D",
    effect="D A",
    inflow="T D",
    inflow_x="T D X",
    bottom="T D",
    top="T D",
    viable="T 2",
    price="T A",
    price_x="T A X",
    hold="T D",
    low="T F",
    high="T F",
    high_x="T F X",
    first="F+1",
    size="A",
    ramp="F 2",
    before="F",
    amount="T K",
    amount_x="T K X",
    demand="A",
    share="A",
    lost="K",
    spill="S",
    targets="T N",
    process="*",
)
storage = STORAGE.view
# Levels closer than this are the same.
SAME = 1e-12
# Combinations of worths of several storages.
MOST_COMBINATIONS = 27
# Rounds in which flows are taken back.
ROUNDS = 12
# What is known of each number of y at a step.
PRICE, LEAST, MOST = range(3)


@inlined
def _linear(fixed, slopes, x):  # type: ignore[no-untyped-def]
    """fixed + slopes . x."""
    total = fixed
    for i in range(x.shape[0]):
        total += slopes[i] * x[i]
    return total


@inlined
def level_before(p, t, i, x, d):  # type: ignore[no-untyped-def]
    """Number i of the resource after step t if no flow runs."""
    return _linear(p.keep[i] * d[i] + p.inflow[t, i], p.inflow_x[t, i], x)


@jit
def _look(flat, t, x, d, now):  # type: ignore[no-untyped-def]
    """Of each number of y what a unit earns, to be maximised, its least and its most but for levels
    and demands, without spilling; written to now (3, A)."""
    p = storage(flat)
    for j in range(p.A):
        now[PRICE, j] = p.sign * _linear(p.price[t, j], p.price_x[t, j], x)
    for f in range(p.F):
        least = p.low[t, f]
        most = max(_linear(p.high[t, f], p.high_x[t, f], x), least)
        if p.before[f] >= 0.0:
            last = d[int(p.before[f])]
            least, most = max(least, last - p.ramp[f, 0]), min(most, last + p.ramp[f, 1])
        for j in range(int(p.first[f]), int(p.first[f + 1])):
            now[LEAST, j] = max(min(least, p.size[j]), 0.0)
            now[MOST, j] = max(min(most, p.size[j]), 0.0)
            least, most = least - p.size[j], most - p.size[j]
    for j in range(int(p.first[p.F]), p.A):
        now[LEAST, j], now[MOST, j] = 0.0, np.inf if p.demand[j] >= 0.0 else 0.0


@inlined
def _gain(p, j, now, worth):  # type: ignore[no-untyped-def]
    total = now[PRICE, j]
    for i in range(worth.shape[0]):
        total += worth[i] * p.effect[i, j]
    return total


@jit
def _serve(flat, k, now, worth, left, y):  # type: ignore[no-untyped-def]
    """Serve what is left of demand k in merit order, above what y has already."""
    p = storage(flat)
    while left > 0.0:
        best, most = -1, -np.inf
        for j in range(p.A):
            if p.demand[j] == k and y[j] < now[MOST, j]:
                gain = _gain(p, j, now, worth) / p.share[j]
                if gain > most or best < 0:
                    best, most = j, gain
        if best < 0:
            return
        room = (now[MOST, best] - y[best]) * p.share[best]
        if left < room:
            y[best] += left / p.share[best]
            return
        y[best], left = now[MOST, best], left - room


@jit
def _dispatch(flat, t, x, now, worth, y):  # type: ignore[no-untyped-def]
    """The best flows where a unit in each storage is worth so much, whatever the levels."""
    p = storage(flat)
    for j in range(p.A):
        runs = p.demand[j] < 0.0 and _gain(p, j, now, worth) > 0.0
        y[j] = now[MOST if runs else LEAST, j]
    for k in range(p.K):
        left = _linear(p.amount[t, k], p.amount_x[t, k], x)
        for j in range(p.A):
            if p.demand[j] == k:
                left -= p.share[j] * y[j]
        _serve(flat, k, now, worth, left, y)


@inlined
def _change(p, y):  # type: ignore[no-untyped-def]
    """What flows change the first level by."""
    total = 0.0
    for j in range(p.A):
        total += p.effect[0, j] * y[j]
    return total


# What follows makes arrays, so it is not `jit`. Curves are points (n, 2), ascending in the first.
compiled: Any = njit(cache=True)


@compiled
def frontier(flat, t, x, d, corners, curve):  # type: ignore[no-untyped-def]
    """F for one storage: the flows (m, A) at its corners, and there the change of the level and
    what they earn (m, 2); how many."""
    p = storage(flat)
    now = np.empty((3, p.A))
    _look(flat, t, x, d, now)
    turns, n = np.empty(int(p.corners)), 0
    for j in range(p.A):
        if p.demand[j] < 0.0 and p.effect[0, j] != 0.0 and now[MOST, j] > now[LEAST, j]:
            turns[n] = -now[PRICE, j] / p.effect[0, j]
            n += 1
        for i in range(j if p.demand[j] >= 0.0 else 0):
            if p.demand[i] == p.demand[j]:
                steeper = p.effect[0, j] / p.share[j] - p.effect[0, i] / p.share[i]
                if steeper != 0.0:
                    cheaper = now[PRICE, i] / p.share[i] - now[PRICE, j] / p.share[j]
                    turns[n] = cheaper / steeper
                    n += 1
    turns = np.sort(turns[:n])
    worth, m = np.zeros(1), 0
    for k in range(n + 1):
        if n > 0:
            before = turns[k - 1] if k > 0 else turns[0] - 2.0 * (1.0 + abs(turns[0]))
            after = turns[k] if k < n else turns[n - 1] + 2.0 * (1.0 + abs(turns[n - 1]))
            if after <= before:
                continue
            worth[0] = 0.5 * (before + after)
        _dispatch(flat, t, x, now, worth, corners[m])
        curve[m, 0], curve[m, 1] = _change(p, corners[m]), np.dot(now[PRICE], corners[m])
        if m == 0 or curve[m, 0] > curve[m - 1, 0] + SAME * (1.0 + abs(curve[m, 0])):
            m += 1
    return m


@compiled
def _place(corners, curve, wanted, y):  # type: ignore[no-untyped-def]
    """The flows on F that change the level as wanted."""
    k, m = 1, len(curve)
    while k < m - 1 and curve[k, 0] < wanted:
        k += 1
    if m == 1:
        y[:] = corners[0]
        return
    weight = (wanted - curve[k - 1, 0]) / (curve[k, 0] - curve[k - 1, 0])
    weight = min(max(weight, 0.0), 1.0)
    for j in range(len(y)):
        y[j] = corners[k - 1, j] + weight * (corners[k, j] - corners[k - 1, j])


@compiled
def _one(flat, t, x, d, out):  # type: ignore[no-untyped-def]
    """What is offered of one storage, from the emptiest to the fullest and then the rest."""
    p = storage(flat)
    n = int(p.corners) + 1
    corners, curve = np.empty((n, p.A)), np.empty((n, 2))
    n = frontier(flat, t, x, d, corners, curve)
    curve = curve[:n]
    base, spill = level_before(p, t, 0, x, d), int(p.spill[0])
    low, high = p.viable[t]
    # What the levels allow of F; where it misses them, its nearest end: no state to be in.
    least = min(max(base + curve[0, 0], low), base + curve[n - 1, 0])
    most = max(min(base + curve[n - 1, 0], high), base + curve[0, 0])
    m, ordered = 0, 0  # of the grid the levels ascend
    for k in range(-2, n + p.N + int(p.grid) + 1):
        level = least if k == -2 else most
        if 0 <= k < n:
            level = base + curve[k, 0]
        elif n <= k < n + p.N:
            level = p.targets[t, k - n]
        elif k == n + p.N:
            level = d[0]
        elif k > n + p.N:
            level = least + (most - least) * (k - n - p.N) / (p.grid + 1.0)
        is_over = spill >= 0 and level > high
        if k >= 0 and not (least <= level <= most or (is_over and k < n)):
            continue
        _place(corners, curve, level - base, out[m])
        if spill >= 0:
            out[m, spill] = max(base + _change(p, out[m]) - high, 0.0)
        m = offer(out, m, ordered)
        ordered = m if k <= n + p.N else ordered
    return m


@compiled
def _reduce(flat, i, is_into, now, over, y):  # type: ignore[no-untyped-def]
    """Take back flows that fill storage i (or empty it), those that gain least first, until its
    level has changed by `over`."""
    p = storage(flat)
    sense = 1.0 if is_into else -1.0
    while over > 0.0:
        worst, least = -1, np.inf
        for j in range(p.A):
            effect = sense * p.effect[i, j]
            if effect > 0.0 and y[j] > now[LEAST, j] and now[PRICE, j] / effect < least:
                worst, least = j, now[PRICE, j] / effect
        if worst < 0:
            return
        effect, room = sense * p.effect[i, worst], y[worst] - now[LEAST, worst]
        if over < room * effect:
            y[worst] -= over / effect
            return
        y[worst], over = now[LEAST, worst], over - room * effect


@compiled
def repair(flat, t, x, d, y):  # type: ignore[no-untyped-def]
    """Take back what bounds, demands and levels do not allow of flows: possible ones near them,
    wherever no bound below stands in the way."""
    p = storage(flat)
    now, worth = np.empty((3, p.A)), np.zeros(p.S)
    _look(flat, t, x, d, now)
    for j in range(p.A):
        y[j] = min(max(y[j], now[LEAST, j]), now[MOST, j])
    for round_ in range(ROUNDS + 2 * p.S + 1):
        # Flows in a circle are taken back by less and less: in the end all at once.
        worst, all_of_it = 0.0, np.inf if round_ >= ROUNDS else 0.0
        for k in range(p.K):
            if p.lost[k] >= 0.0:
                y[int(p.lost[k])] = 0.0
            left = _linear(p.amount[t, k], p.amount_x[t, k], x)
            for j in range(p.A):
                if p.demand[j] == k:
                    left -= p.share[j] * y[j]
            for j in range(p.A):  # too much: the last come are served less
                if p.demand[j] == k and left < 0.0:
                    less = min(-left / p.share[j], y[j] - now[LEAST, j])
                    y[j], left = y[j] - less, left + less * p.share[j]
            if left > 0.0 and p.lost[k] >= 0.0:
                y[int(p.lost[k])] = left
            elif left > 0.0:
                _serve(flat, k, now, worth, left, y)
        for i in range(p.S):
            spill = int(p.spill[i])
            if spill >= 0:
                y[spill] = 0.0
            level = level_before(p, t, i, x, d)
            for j in range(p.A):
                level += p.effect[i, j] * y[j]
            if level > p.top[t, i]:
                over = level - p.top[t, i]
                if spill >= 0:
                    y[spill] = over
                else:
                    worst = max(worst, over)
                    _reduce(flat, i, True, now, max(over, all_of_it), y)
            elif level < p.bottom[t, i]:
                missing = p.bottom[t, i] - level
                worst = max(worst, missing)
                _reduce(flat, i, False, now, max(missing, all_of_it), y)
        if worst <= SAME * (1.0 + abs(p.top[t, 0])):
            return


@compiled
def _many(flat, t, x, d, out):  # type: ignore[no-untyped-def]
    """What is offered of several storages: each emptied, left or filled, in combinations."""
    p = storage(flat)
    now = np.empty((3, p.A))
    _look(flat, t, x, d, now)
    choices, largest = np.zeros((3, p.S)), 1.0
    for i in range(p.S):
        sells, buys = -np.inf, np.inf
        for j in range(p.A):
            if p.effect[i, j] < 0.0 and now[MOST, j] > 0.0:
                sells = max(sells, -now[PRICE, j] / p.effect[i, j])
            elif p.effect[i, j] > 0.0:
                buys = min(buys, -now[PRICE, j] / p.effect[i, j])
            if p.effect[i, j] != 0.0:
                largest = max(largest, abs(now[PRICE, j] / p.effect[i, j]))
        if np.isfinite(sells) and np.isfinite(buys):
            choices[1, i] = 0.5 * (sells + buys)
        elif np.isfinite(sells) or np.isfinite(buys):
            choices[1, i] = sells if np.isfinite(sells) else buys
    choices[0], choices[2] = -4.0 * largest, 4.0 * largest
    m, worth, count = 0, np.zeros(p.S), min(3**p.S, MOST_COMBINATIONS)
    for k in range(count):
        rest = k
        for i in range(p.S):  # beyond three storages, those further on change with the first three
            worth[i] = choices[rest % 3 if i < 3 else (k // 3 ** (i % 3)) % 3, i]
            rest //= 3
        _dispatch(flat, t, x, now, worth, out[m])
        repair(flat, t, x, d, out[m])
        m = offer(out, m, m)
    return m


@compiled
def actions(flat, t, x, d, out):  # type: ignore[no-untyped-def]
    """What is offered at t."""
    if storage(flat).S == 1:
        return _one(flat, t, x, d, out)
    return _many(flat, t, x, d, out)


@jit
def step(flat, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """What flows earn, and the next resource."""
    p = storage(flat)
    reward = 0.0
    for j in range(p.A):
        reward += _linear(p.price[t, j], p.price_x[t, j], x) * action[j]
    for i in range(p.D):
        level = level_before(p, t, i, x, d)
        for j in range(p.A):
            level += p.effect[i, j] * action[j]
        out[i] = min(max(level, p.bottom[t, i]), p.top[t, i])
        reward += p.hold[t, i] * out[i]
    return p.sign * reward


# --- One storage: values of levels, concave and piecewise linear: curves (n, 2) -------------------


@compiled
def value_at(curve, level):  # type: ignore[no-untyped-def]
    """The value of a level, that of the nearest where there is none."""
    level = min(max(level, curve[0, 0]), curve[-1, 0])
    k = np.searchsorted(curve[:, 0], level)
    if k == 0 or curve[k, 0] == level:
        return curve[k, 1]
    weight = (level - curve[k - 1, 0]) / (curve[k, 0] - curve[k - 1, 0])
    return curve[k - 1, 1] + weight * (curve[k, 1] - curve[k - 1, 1])


@compiled
def _cut(curve, low, high, out):  # type: ignore[no-untyped-def]
    """The part of a curve between two levels; how many points, 0 where there is none."""
    n = len(curve)
    low, high = max(low, curve[0, 0]), min(high, curve[n - 1, 0])
    if low > high:
        if low - high > 1e-9 * (1.0 + abs(low)):
            return 0
        high = low = max(min(low, curve[n - 1, 0]), curve[0, 0])
    out[0, 0], out[0, 1] = low, value_at(curve, low)
    m = 1
    for k in range(n + 1):  # levels that are the same but for rounding have no slope between them
        level = curve[k, 0] if k < n else high
        if out[m - 1, 0] + SAME * (1.0 + abs(level)) < level <= high:
            out[m, 0], out[m, 1] = level, value_at(curve, level)
            m += 1
    return m


@compiled
def worth_after(flat, t, curve, out):  # type: ignore[no-untyped-def]
    """U: values of the levels after step t, from those before the next one (none: the end)."""
    p = storage(flat)
    low, high, n = p.bottom[t, 0], p.top[t, 0], len(curve)
    if n == 0:
        n = 2 if high > low else 1
        out[0, 0], out[1, 0] = low, high
        out[:2, 1] = 0.0
    else:
        n = _cut(curve, low, high, out)
    for k in range(n):
        out[k, 1] += p.sign * p.hold[t, 0] * out[k, 0]
    return n


@compiled
def worth_before(flat, t, x, curve, out):  # type: ignore[no-untyped-def]
    """V: values of the levels before step t, from those after it."""
    p = storage(flat)
    m, n = int(p.corners) + 1, len(curve)
    corners, turned, found = np.empty((m, p.A)), np.empty((m, 2)), np.empty((n + m + 1, 2))
    m = frontier(flat, t, x, curve[0], corners, turned)
    drift, spills = _linear(p.inflow[t, 0], p.inflow_x[t, 0], x), p.spill[0] >= 0.0
    found[0, 0], found[0, 1] = curve[0, 0] - turned[m - 1, 0], curve[0, 1] + turned[m - 1, 1]
    i, j, size = 1, m - 1, 1
    while i < n or j > 0:
        slope, other = -np.inf, -np.inf
        if i < n:
            slope = (curve[i, 1] - curve[i - 1, 1]) / (curve[i, 0] - curve[i - 1, 0])
        if j > 0:
            other = (turned[j - 1, 1] - turned[j, 1]) / (turned[j, 0] - turned[j - 1, 0])
        if spills and max(slope, other) <= 0.0:
            break
        if slope >= other:
            found[size] = found[size - 1] + curve[i] - curve[i - 1]
            i += 1
        else:
            found[size, 0] = found[size - 1, 0] + turned[j, 0] - turned[j - 1, 0]
            found[size, 1] = found[size - 1, 1] + turned[j - 1, 1] - turned[j, 1]
            j -= 1
        size += 1
    if spills:  # what does not pay is let go
        found[size, 0] = max(found[size - 1, 0], p.keep[0] * p.top[t, 0] + drift) + 1.0
        found[size, 1] = found[size - 1, 1]
        size += 1
    for k in range(size):
        found[k, 0] = (found[k, 0] - drift) / p.keep[0]
    return _cut(found[:size], 0.0, p.top[t, 0], out)


@compiled
def best_flows(flat, t, x, d, curve, y):  # type: ignore[no-untyped-def]
    """The flows that are best where U is this curve, written to y; their value."""
    p = storage(flat)
    m, n = int(p.corners) + 1, len(curve)
    corners, earned = np.empty((m, p.A)), np.empty((m, 2))
    m = frontier(flat, t, x, d, corners, earned)
    earned = earned[:m]
    base, spill = level_before(p, t, 0, x, d), int(p.spill[0])
    best, wanted = -np.inf, 0.0
    for k in range(m + n):
        z = earned[k, 0] if k < m else curve[k - m, 0] - base
        z = min(max(z, earned[0, 0], curve[0, 0] - base), earned[m - 1, 0])
        if spill < 0:
            z = min(z, max(curve[n - 1, 0] - base, earned[0, 0]))
        total = value_at(earned, z) + value_at(curve, base + z)
        if total > best:
            best, wanted = total, z
    _place(corners, earned, wanted, y)
    if spill >= 0:
        y[spill] = max(base + _change(p, y) - curve[n - 1, 0], 0.0)
    return best


@compiled
def along_paths(flat, t, level, paths, values, found):  # type: ignore[no-untyped-def]
    """Hindsight of one storage along paths (n, steps, X) from a level at t: values (n,) and flows
    (n, steps, A); the number of the first path along which nothing is possible, or -1."""
    p = storage(flat)
    count, steps = paths.shape[:2]
    room = 4 + steps * (int(p.corners) + 2)
    after, before = np.empty((steps, room, 2)), np.empty((room, 2))
    sizes, d, following = np.empty(steps, dtype=np.int64), np.empty(p.D), np.empty(p.D)
    for i in range(count):
        n = 0
        for s in range(steps - 1, -1, -1):
            sizes[s] = worth_after(flat, t + s, before[:n], after[s])
            if sizes[s] == 0:
                return i
            n = worth_before(flat, t + s, paths[i, s], after[s, : sizes[s]], before)
            if n == 0:
                return i
        slack = 1e-9 * (1.0 + abs(level))
        if level < before[0, 0] - slack or level > before[n - 1, 0] + slack:
            return i
        d[0] = level
        values[i] = 0.0
        for s in range(steps):
            best_flows(flat, t + s, paths[i, s], d, after[s, : sizes[s]], found[i, s])
            values[i] += step(flat, t + s, paths[i, s], d, found[i, s], following)
            d[:] = following
    return -1
