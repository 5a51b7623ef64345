"""What storages can do at one step, and the best of it along a path: compiled.

Flows y (A,) earn c_j = price_j(t, x) each, change levels by effect y, and serve demands,

    sum of share_j y_j over the flows of a demand = its amount,
    sum of weight_j y_j <= a limit that flows share,

beside bounds on each. **Dispatch**: if a unit in storage i is worth w_i, flow j gains
c_j + sum_i w_i effect_ij. Flows that serve no demand run at most or least by the sign of that, and
a demand is served in the order of gain per unit served (merit order). Nothing does better at w.

**One storage.** Let F(z) be the most that a step earns while it changes the level by z. It is
concave and piecewise linear: as w rises, dispatch changes only where a gain changes its sign or two
gains of a demand trade places, and between these w it gives one corner of F after the other. Where
flows share limits, the simplex method goes from corner to corner as w rises (`_pivots`). What
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

from counterplan.core.compiled import njit, within
from counterplan.planning.compiled import Layout, inlined, inner, jit, offer

# D numbers of the resource: S levels, then the flows before of those with ramps. A flow is one or
# more numbers of y (its segments, the cheapest first), `first` says which; then come what is lost
# of each demand and what each storage spills, numbers of y too, -1 where that is not possible.
STORAGE = Layout(
    "rest sign grid corners",
    "T D S A F K L X N",
    keep="D",
    effect="T D A",
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
    share="T A",
    lost="K",
    weight="L A",
    limit="T L",
    limit_x="T L X",
    limit_least="T L",
    spill="S",
    targets="T N",
    process="*",
)
storage = STORAGE.view
# Levels closer than this are the same; what a demand may be missed by.
SAME, MISSED = 1e-12, 1e-9
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


@inner
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
def _gain(p, t, j, now, worth):  # type: ignore[no-untyped-def]
    total = now[PRICE, j]
    for i in range(worth.shape[0]):
        total += worth[i] * p.effect[t, i, j]
    return total


@inlined
def _limit(p, t, k, x):  # type: ignore[no-untyped-def]
    """What limit k allows."""
    return max(_linear(p.limit[t, k], p.limit_x[t, k], x), p.limit_least[t, k])


@inner
def _serve(flat, t, k, now, worth, left, y):  # type: ignore[no-untyped-def]
    """Serve what is left of demand k in merit order, above what y has already; what cannot be."""
    p = storage(flat)
    while left > 0.0:
        best, most = -1, -np.inf
        for j in range(p.A):
            if p.demand[j] == k and y[j] < now[MOST, j]:
                gain = _gain(p, t, j, now, worth) / p.share[t, j]
                if gain > most or best < 0:
                    best, most = j, gain
        if best < 0:
            return left
        room = (now[MOST, best] - y[best]) * p.share[t, best]
        if left < room:
            y[best] += left / p.share[t, best]
            return 0.0
        y[best], left = now[MOST, best], left - room
    return -left


@inner
def _dispatch(flat, t, x, now, worth, y):  # type: ignore[no-untyped-def]
    """The best flows where a unit in each storage is worth so much, whatever the levels and the
    limits; by how much a demand is missed."""
    p, missed = storage(flat), 0.0
    for j in range(p.A):
        runs = p.demand[j] < 0.0 and _gain(p, t, j, now, worth) > 0.0
        y[j] = now[MOST if runs else LEAST, j]
    for k in range(p.K):
        left = _linear(p.amount[t, k], p.amount_x[t, k], x)
        for j in range(p.A):
            if p.demand[j] == k:
                left -= p.share[t, j] * y[j]
        missed = max(missed, _serve(flat, t, k, now, worth, left, y))
    return missed


@inlined
def _change(p, t, y):  # type: ignore[no-untyped-def]
    """What flows change the first level by."""
    total = 0.0
    for j in range(p.A):
        total += p.effect[t, 0, j] * y[j]
    return total


# What follows makes arrays, so it is not `jit`. Curves are points (n, 2), ascending in the first.
# Those that only compiled code calls are parts of it.
compiled: Any = njit(cache=True)
part: Any = within


@part
def _note(flat, t, now, corners, curve, m):  # type: ignore[no-untyped-def]
    """The flows of place m as a corner, where they are another than the last; how many now."""
    p, y = storage(flat), corners[m]
    curve[m, 0], curve[m, 1] = _change(p, t, y), np.dot(now[PRICE], y)
    is_new = m == 0 or curve[m, 0] > curve[m - 1, 0] + SAME * (1.0 + abs(curve[m, 0]))
    return m + 1 if is_new else m


# Of the simplex method: what is nothing, and the three objectives: of all rows being kept, of
# earnings, of the level.
TINY, MOST_PIVOTS = 1e-11, 10_000
KEPT, EARNED, LEVEL = -3, -2, -1


@part
def _tableau(flat, t, x, now):  # type: ignore[no-untyped-def]
    """(R + 3, n) rows of demands and limits, then objectives; columns are y, what is left of each
    limit, and what each row misses by, which is where it begins: bounds (2, n) and values (n,)."""
    p = storage(flat)
    R, A = p.K + p.L, p.A
    n = A + p.L + R
    rows, bounds, value = np.zeros((R + 3, n)), np.zeros((2, n)), np.zeros(n)
    # Element by element, here and below: expressions of whole arrays take seconds to compile.
    for j in range(n):
        bounds[1, j] = np.inf
    for j in range(A):
        bounds[0, j], bounds[1, j], value[j] = now[LEAST, j], now[MOST, j], now[LEAST, j]
        rows[EARNED, j], rows[LEVEL, j] = now[PRICE, j], p.effect[t, 0, j]
    for r in range(R):
        if r < p.K:
            right = _linear(p.amount[t, r], p.amount_x[t, r], x)
            for j in range(A):
                rows[r, j] = p.share[t, j] if p.demand[j] == r else 0.0
        else:
            right = _limit(p, t, r - p.K, x)
            for j in range(A):
                rows[r, j] = p.weight[r - p.K, j]
            rows[r, A + r - p.K] = 1.0
        right -= np.dot(rows[r, :A], value[:A])
        for j in range(A + p.L):
            rows[r, j] = -rows[r, j] if right < 0.0 else rows[r, j]
            rows[KEPT, j] += rows[r, j]
        rows[r, A + p.L + r], value[A + p.L + r] = 1.0, abs(right)
    return rows, bounds, value


@part
def _entering(rows, bounds, basic, at_top, phase):  # type: ignore[no-untyped-def]
    """The column that is the next to change, -1 where none is."""
    enters, first = -1, np.inf
    for j in range(len(basic)):
        if basic[j] or bounds[1, j] <= bounds[0, j]:
            continue
        earned, level = rows[EARNED, j], rows[LEVEL, j]
        gain = rows[KEPT, j] if phase == 0 else level
        if phase == 1:  # the emptiest, and of those what earns most
            gain = -level if abs(level) > TINY else earned
        turn = -earned / level if phase == 2 and abs(level) > TINY else 0.0
        if (-gain if at_top[j] else gain) > TINY and turn < first - TINY * (1.0 + abs(turn)):
            enters, first = j, turn
    return enters


@part
def _pivots(flat, t, x, now, corners, curve):  # type: ignore[no-untyped-def]
    """F by the simplex method: first all rows are kept, then the level is lowest, then a unit in
    store is worth more and more. Each column that then enters leads to the next corner."""
    p = storage(flat)
    rows, bounds, value = _tableau(flat, t, x, now)
    R, n = len(rows) - 3, len(value)
    basis, basic, at_top = np.arange(n - R, n), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    for j in basis:
        basic[j] = True
    phase = m = np.int64(0)  # no literals: what takes them would be compiled twice
    for _ in range(MOST_PIVOTS):
        if phase == 3:
            return m
        j = _entering(rows, bounds, basic, at_top, phase)
        if j < 0:
            if phase == 0:
                for i in range(n - R, n):
                    if value[i] > MISSED * (1.0 + abs(p.top[t, 0])):
                        return 0
                    bounds[1, i] = 0.0
            phase += 1
            if phase == 2:
                for i in range(p.A):
                    corners[0, i] = value[i]
                m = _note(flat, t, now, corners, curve, np.int64(0))
            continue
        way = -1.0 if at_top[j] else 1.0
        step, leaves, to_top = bounds[1, j] - bounds[0, j], -1, False
        for r in range(R):
            rate, i = -way * rows[r, j], basis[r]
            if abs(rate) > TINY:
                room = (bounds[1, i] - value[i]) if rate > 0.0 else (value[i] - bounds[0, i])
                room = max(room, 0.0) / abs(rate)
                if room < step or (room == step and leaves >= 0 and i < basis[leaves]):
                    step, leaves, to_top = room, r, rate > 0.0
        value[j] += way * step
        for r in range(R):
            value[basis[r]] -= way * step * rows[r, j]
        if leaves < 0:
            at_top[j] = not at_top[j]
            value[j] = bounds[1 if at_top[j] else 0, j]
        else:
            i = basis[leaves]
            basic[i], basic[j], at_top[i], basis[leaves] = False, True, to_top, j
            value[i] = bounds[1 if to_top else 0, i]
            pivot = rows[leaves, j]
            for i in range(n):
                rows[leaves, i] /= pivot
            for r in range(R + 3):
                rate = rows[r, j]
                for i in range(n if r != leaves else 0):
                    rows[r, i] -= rate * rows[leaves, i]
        if phase == 2 and step > 0.0:
            if m == len(corners):
                raise ValueError("a step has more corners than there is room for")
            for i in range(p.A):
                corners[m, i] = value[i]
            m = _note(flat, t, now, corners, curve, m)
    return 0


@compiled
def frontier(flat, t, x, d, corners, curve):  # type: ignore[no-untyped-def]
    """F for one storage: the flows (m, A) at its corners, and there the change of the level and
    what they earn (m, 2); how many, 0 where no flows are possible."""
    p = storage(flat)
    now = np.empty((3, p.A))
    _look(flat, t, x, d, now)
    if p.L > 0:
        return _pivots(flat, t, x, now, corners, curve)
    turns, n = np.empty(int(p.corners)), 0
    for j in range(p.A):
        if p.demand[j] < 0.0 and p.effect[t, 0, j] != 0.0 and now[MOST, j] > now[LEAST, j]:
            turns[n] = -now[PRICE, j] / p.effect[t, 0, j]
            n += 1
        for i in range(j if p.demand[j] >= 0.0 else 0):
            if p.demand[i] == p.demand[j]:
                steeper = p.effect[t, 0, j] / p.share[t, j] - p.effect[t, 0, i] / p.share[t, i]
                if steeper != 0.0:
                    cheaper = now[PRICE, i] / p.share[t, i] - now[PRICE, j] / p.share[t, j]
                    turns[n] = cheaper / steeper
                    n += 1
    turns = np.sort(turns[:n])
    worth, m = np.zeros(1), np.int64(0)
    for k in range(n + 1):
        if n > 0:
            before = turns[k - 1] if k > 0 else turns[0] - 2.0 * (1.0 + abs(turns[0]))
            after = turns[k] if k < n else turns[n - 1] + 2.0 * (1.0 + abs(turns[n - 1]))
            if after <= before:
                continue
            worth[0] = 0.5 * (before + after)
        if _dispatch(flat, t, x, now, worth, corners[m]) > MISSED * (1.0 + abs(p.top[t, 0])):
            return 0
        m = _note(flat, t, now, corners, curve, m)
    return m


@part
def _place(corners, curve, wanted, y):  # type: ignore[no-untyped-def]
    """The flows on F that change the level as wanted."""
    k, m = 1, len(curve)
    while k < m - 1 and curve[k, 0] < wanted:
        k += 1
    if m == 1:
        for j in range(len(y)):
            y[j] = corners[0, j]
        return
    weight = (wanted - curve[k - 1, 0]) / (curve[k, 0] - curve[k - 1, 0])
    weight = min(max(weight, 0.0), 1.0)
    for j in range(len(y)):
        y[j] = corners[k - 1, j] + weight * (corners[k, j] - corners[k - 1, j])


@part
def _one(flat, t, x, d, out):  # type: ignore[no-untyped-def]
    """What is offered of one storage, from the emptiest to the fullest and then the rest."""
    p = storage(flat)
    n = int(p.corners) + 1
    corners, curve = np.empty((n, p.A)), np.empty((n, 2))
    n = frontier(flat, t, x, d, corners, curve)
    if n == 0:  # no state to be in
        for j in range(p.A):
            out[0, j] = 0.0
        repair(flat, t, x, d, out[0])
        return 1
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
            out[m, spill] = max(base + _change(p, t, out[m]) - high, 0.0)
        m = offer(out, m, ordered)
        ordered = m if k <= n + p.N else ordered
    return m


@part
def _reduce(row, sense, now, over, y):  # type: ignore[no-untyped-def]
    """Take back flows that add to a row (A,), or with sense -1 take from it, those that gain least
    first, until it has changed by `over`."""
    while over > 0.0:
        worst, least = -1, np.inf
        for j in range(len(row)):
            effect = sense * row[j]
            if effect > 0.0 and y[j] > now[LEAST, j] and now[PRICE, j] / effect < least:
                worst, least = j, now[PRICE, j] / effect
        if worst < 0:
            return
        effect, room = sense * row[worst], y[worst] - now[LEAST, worst]
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
    for round_ in range(ROUNDS + 2 * p.S + p.L + 1):
        # Flows in a circle are taken back by less and less: in the end all at once.
        worst, all_of_it = 0.0, np.inf if round_ >= ROUNDS else 0.0
        for k in range(p.L):
            over = np.dot(p.weight[k], y) - _limit(p, t, k, x)
            worst = max(worst, over)
            _reduce(p.weight[k], 1.0, now, max(over, all_of_it) if over > 0.0 else 0.0, y)
        for k in range(p.K):
            if p.lost[k] >= 0.0:
                y[int(p.lost[k])] = 0.0
            left = _linear(p.amount[t, k], p.amount_x[t, k], x)
            for j in range(p.A):
                if p.demand[j] == k:
                    left -= p.share[t, j] * y[j]
            for j in range(p.A):  # too much: the last come are served less
                if p.demand[j] == k and left < 0.0:
                    less = min(-left / p.share[t, j], y[j] - now[LEAST, j])
                    y[j], left = y[j] - less, left + less * p.share[t, j]
            if left > 0.0 and p.lost[k] >= 0.0:
                y[int(p.lost[k])] = left
            elif left > 0.0:
                _serve(flat, t, k, now, worth, left, y)
        for i in range(p.S):
            spill = int(p.spill[i])
            if spill >= 0:
                y[spill] = 0.0
            level = level_before(p, t, i, x, d)
            for j in range(p.A):
                level += p.effect[t, i, j] * y[j]
            if level > p.top[t, i]:
                over = level - p.top[t, i]
                if spill >= 0:
                    y[spill] = over
                else:
                    worst = max(worst, over)
                    _reduce(p.effect[t, i], 1.0, now, max(over, all_of_it), y)
            elif level < p.bottom[t, i]:
                missing = p.bottom[t, i] - level
                worst = max(worst, missing)
                _reduce(p.effect[t, i], -1.0, now, max(missing, all_of_it), y)
        if worst <= SAME * (1.0 + abs(p.top[t, 0])):
            return


@part
def _many(flat, t, x, d, out):  # type: ignore[no-untyped-def]
    """What is offered of several storages: each emptied, left or filled, in combinations."""
    p = storage(flat)
    now = np.empty((3, p.A))
    _look(flat, t, x, d, now)
    choices, largest = np.zeros((3, p.S)), 1.0
    for i in range(p.S):
        sells, buys = -np.inf, np.inf
        for j in range(p.A):
            if p.effect[t, i, j] < 0.0 and now[MOST, j] > 0.0:
                sells = max(sells, -now[PRICE, j] / p.effect[t, i, j])
            elif p.effect[t, i, j] > 0.0:
                buys = min(buys, -now[PRICE, j] / p.effect[t, i, j])
            if p.effect[t, i, j] != 0.0:
                largest = max(largest, abs(now[PRICE, j] / p.effect[t, i, j]))
        if np.isfinite(sells) and np.isfinite(buys):
            choices[1, i] = 0.5 * (sells + buys)
        elif np.isfinite(sells) or np.isfinite(buys):
            choices[1, i] = sells if np.isfinite(sells) else buys
    for i in range(p.S):
        choices[0, i], choices[2, i] = -4.0 * largest, 4.0 * largest
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
            level += p.effect[t, i, j] * action[j]
        out[i] = min(max(level, p.bottom[t, i]), p.top[t, i])
        reward += p.hold[t, i] * out[i]
    return p.sign * reward


# --- One storage: values of levels, concave and piecewise linear: curves (n, 2) -------------------


@part
def value_at(curve, level):  # type: ignore[no-untyped-def]
    """The value of a level, that of the nearest where there is none."""
    level = min(max(level, curve[0, 0]), curve[-1, 0])
    k = min(np.searchsorted(curve[:, 0], level), len(curve) - 1)
    if k == 0 or curve[k, 0] == level:
        return curve[k, 1]
    weight = (level - curve[k - 1, 0]) / (curve[k, 0] - curve[k - 1, 0])
    return curve[k - 1, 1] + weight * (curve[k, 1] - curve[k - 1, 1])


@part
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
        out[0, 1] = out[1, 1] = 0.0
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
    if m == 0:
        return 0
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
        if j == 0 or (i < n and slope >= other):  # whatever is not a number
            for column in range(2):
                last = found[size - 1, column]
                found[size, column] = last + curve[i, column] - curve[i - 1, column]
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
        y[spill] = max(base + _change(p, t, y) - curve[n - 1, 0], 0.0)
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
            for k in range(p.D):
                d[k] = following[k]
    return -1
