"""Certified second-order expansions of what a course of actions earns, by models with cosine units
(`cosine`).

Let y_0, y_1, .. be the states along a course and W_t(x) what is earned from y_t + x on, if actions
and noise stay as they are. For every x with |x| <= box_t, entry by entry,

    W_t(x)  <=  W_t(0) + g_t . x + (x^T H_t x + |x|^T E_t |x|) / 2

Over that box the step from y_t is F(y_t + x) - F(y_t) = J x + e(x) with |e(x)| <= D |x| and

    z . e(x) = (x^T B x + |x|^T S |x| q) / 2,   |q| <= 1,   for a direction z,

With the reward's gradient c and g_t = c + J_t^T g_{t+1}, what is earned is linear but for the e:

    W_t(x) - W_t(0) = g_t . x + sum_u g_{u+1} . e_u(x_u)

for the states y_u + x_u that follow. From step t to u these are x_u = P x + q with the product P of
the J between, |q| <= N |x|: the errors D_v (|P_v| + N_v) of the steps v before, each through the J
between (those of long ago through |J|). So the boxes are (|P| + N) box_t, and with sums over u

    H = sum P^T B P,      E = sum (|P| + N)^T S (|P| + N) + |P^T B| N + N^T |B P| + N^T |B| N

Units. Let x be the argument of a unit f at y_u, which moves by d, |d| <= r = |w| . box. By Taylor's
formula, with derivatives f_1, f_2, f_3 at x, and sizes of f_2, f_3, f_4 of at most m_2, m_3, m_4
everywhere,

    (f(x + d) - f(x)) / d - f_1 - f_2 d / 2   at most  (|f_3| / 6 + m_4 r / 24) r^2,  m_3 r^2 / 6
    f(x + d) - f(x) - f_1 d - f_2 d^2 / 2     at most  (|f_3| / 6 + m_4 r / 24) r,  m_3 r / 6,
                                                       (m_2 + |f_2|) / 2,  times d^2

The first makes D, with the f_2 of all units added up before their size is taken; the second, for
units weighted by C^T z, makes B and S. The scale's outputs o go through the softplus, to which the
same applies, with o for the argument.

Limits. A feature y that is held in [low, high] is clip(y). Let a limit be a away from y, and let y
move by at most |r . x|, r = |J| + D. What the clip adds to e (where y is outside, with J = 0) is

    at most  (|r . x| - a)+  <=  (1 - a / r . box)+ |r . x|,       (r . x)^2 / 4 a

in size, not above 0 at the upper limit and not below it at the lower one. The first goes into D. To
S(z) the second adds |z| r r^T / 2 a, but nothing where z has the sign of the limit's side: what a
limit takes away there is no gain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit, plain, within
from counterplan.core.validation import FloatArray
from counterplan.scm.cosine import LEAST_SCALE, Units, spread, waves
from counterplan.scm.network import Network

# m_2, m_3, m_4 of the cosine, of tanh and of the softplus.
COSINE, TANH, SOFTPLUS = (1.0, 1.0, 1.0), (0.7699, 2.0, 4.0860), (0.25, 0.0963, 0.126)
# Terms are enlarged by more than their rounding.
OUTWARD = 1e-11
# Errors of so many steps back are followed with signs.
RECENT = 8


class Layers(NamedTuple):
    """What a model's steps are made of: networks, the number of features that never change, and
    limits (O, 2) of the others; whether the units are tanh, and the least that a scale can be."""

    location: Units
    scale: Units
    fixed: int
    limits: FloatArray
    is_tanh: bool = False
    least: float = LEAST_SCALE


class _Part(NamedTuple):
    """One network around one state: f', f'' and f''' of its units (H,), how far their arguments
    move (H,), outputs (O,), and their slopes and deviations (O, M)."""

    first: FloatArray
    second: FloatArray
    third: FloatArray
    reach: FloatArray
    output: FloatArray
    slope: FloatArray
    wide: FloatArray


@within(error_model="numpy")
def _part(units: Units, is_tanh: bool, fixed: int, inputs: Any, box: Any) -> Any:
    """A network around inputs (D + d,), over a box (M,) of the features that move, or (M + d,) of
    these and the action."""
    H, O, M = units.bias.shape[0], units.constant.shape[0], box.shape[0]  # noqa: E741
    _, m3, m4 = TANH if is_tanh else COSINE
    third, reach = np.empty(H), np.zeros(H)
    argument, values = units.bias.copy(), np.empty(H)
    output = units.constant + units.linear @ inputs
    slope = units.linear[:, fixed : fixed + M].copy()
    wide, curve = np.zeros((O, M)), np.zeros((O, M, M))
    for h in range(H):
        for e in range(units.starts[h], units.starts[h + 1]):
            j = units.inputs[e]
            argument[h] += units.weights[e] * inputs[j]
            if fixed <= j < fixed + M:
                reach[h] += abs(units.weights[e]) * box[j - fixed]
    if not is_tanh:
        waves(argument, values, third)
    first, second, off, most = np.empty(H), np.empty(H), np.empty(H), np.empty(H)
    for h in range(H):
        if is_tanh:
            value = values[h] = np.tanh(argument[h])
            first[h] = 1.0 - value * value
            second[h], third[h] = -2.0 * value * first[h], first[h] * (6.0 * value * value - 2.0)
        else:
            first[h], second[h] = -third[h], -values[h]
        r, size = reach[h], abs(first[h])
        off[h] = min(abs(third[h]) / 6 + m4 * r / 24, m3 / 6) * r * r
        # However far it moves: slopes of tanh are between 0 and 1, of the cosine -1 and 1.
        least = max(size, 1.0 - size) if is_tanh else 1.0 + size
        most[h] = min(least, abs(second[h]) * r / 2 + off[h])
    around, capped = (values, first, second, off, most), np.zeros((O, M))
    if is_tanh:
        _dense(units, fixed, around, output, slope, (wide, capped), curve)
    else:
        _sparse(units, fixed, around, output, slope, (wide, capped), curve)
    for i in range(O):
        for j in range(M):
            for k in range(M):
                wide[i, j] += abs(curve[i, j, k]) * box[k] / 2
            wide[i, j] = min(wide[i, j], capped[i, j])
    return _Part(first, second, third, reach, output, slope, wide)


@within(error_model="numpy")
def _sparse(
    units: Units, fixed: int, around: Any, output: Any, slope: Any, wide: Any, curve: Any
) -> None:
    """Add what the units do to outputs, their slopes (O, M) with errors (summed before their size
    is taken, and after) and curvatures, weight by weight."""
    values, first, second, off, most = around
    M = slope.shape[1]
    for h in range(units.bias.shape[0]):
        for o in range(units.ends[h], units.ends[h + 1]):
            i, effect = units.outputs[o], units.effects[o]
            output[i] += effect * values[h]
            for e in range(units.starts[h], units.starts[h + 1]):
                j, weight = units.inputs[e] - fixed, effect * units.weights[e]
                if 0 <= j < M:
                    slope[i, j] += weight * first[h]
                    wide[0][i, j] += abs(weight) * off[h]
                    wide[1][i, j] += abs(weight) * most[h]
                    for f in range(units.starts[h], units.starts[h + 1]):
                        k = units.inputs[f] - fixed
                        if 0 <= k < M:
                            curve[i, j, k] += weight * second[h] * units.weights[f]


@within(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _dense(
    units: Units, fixed: int, around: Any, output: Any, slope: Any, wide: Any, curve: Any
) -> None:
    """The same where hardly a weight is zero: sums over units, several at a time."""
    values, first, second, off, most = around
    H, (O, M) = len(values), slope.shape  # noqa: E741
    own, through, effects = _columns(units, fixed, M), np.empty(H), np.empty(H)
    for i in range(O):
        added = 0.0
        for h in range(H):
            effects[h] = units.effects[h * O + i]
            through[h] = effects[h] * second[h]
            added += effects[h] * values[h]
        output[i] += added
        for j in range(M):
            steep, less, more = 0.0, 0.0, 0.0
            for h in range(H):
                weight = effects[h] * own[j, h]
                steep += weight * first[h]
                less += abs(weight) * off[h]
                more += abs(weight) * most[h]
            slope[i, j] += steep
            wide[0][i, j] += less
            wide[1][i, j] += more
        _square(own, through, curve[i])


@within(error_model="numpy")
def _columns(units: Units, fixed: int, M: int) -> Any:
    """(M, H) the weights of a network without zeros, of all but the first features."""
    H, P = len(units.bias), units.linear.shape[1]
    own = np.empty((M, H))
    for j in range(M):
        for h in range(H):
            own[j, h] = units.weights[h * P + fixed + j]
    return own


@within(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _square(own: Any, weights: Any, total: Any) -> None:
    """Add own diag(weights) own^T for own (M, H)."""
    scaled = np.empty(len(weights))
    for j in range(len(own)):
        for h in range(len(weights)):
            scaled[h] = own[j, h] * weights[h]
        for k in range(j + 1):
            added = 0.0
            for h in range(len(weights)):
                added += scaled[h] * own[k, h]
            total[j, k] += added
            if k < j:
                total[k, j] += added


@within(error_model="numpy")
def _rest(third: float, second: float, r: float, most: tuple[float, float, float]) -> float:
    """How far twice the quotient of f(x + d) - f - f' d - f'' d^2 / 2 and d^2 is from 0."""
    m2, m3, m4 = most
    return min(abs(third) * r / 3 + m4 * r * r / 12, m3 * r / 3, m2 + abs(second))


@within(error_model="numpy")
def _curve(units: Units, part: Any, layers: Any, z: Any, bend: Any, slack: Any) -> None:
    """Add B(z) and S(z) of one network."""
    fixed, most = layers.fixed, TANH if layers.is_tanh else COSINE
    H, M = units.bias.shape[0], bend.shape[0]
    curve, rest = np.zeros(H), np.zeros(H)
    for h in range(H):
        through = 0.0
        for o in range(units.ends[h], units.ends[h + 1]):
            through += z[units.outputs[o]] * units.effects[o]
        curve[h] = through * part.second[h]
        rest[h] = abs(through) * _rest(part.third[h], part.second[h], part.reach[h], most)
    if layers.is_tanh:
        own = _columns(units, fixed, M)
        _square(own, curve, bend)
        for j in range(M):
            for h in range(H):
                own[j, h] = abs(own[j, h])
        _square(own, rest, slack)
        return
    for h in range(H):
        if rest[h] == 0.0 and curve[h] == 0.0:
            continue
        for e in range(units.starts[h], units.starts[h + 1]):
            i = units.inputs[e] - fixed
            if 0 <= i < M:
                for f in range(units.starts[h], units.starts[h + 1]):
                    j = units.inputs[f] - fixed
                    if 0 <= j < M:
                        product = units.weights[e] * units.weights[f]
                        bend[i, j] += curve[h] * product
                        slack[i, j] += rest[h] * abs(product)


@within(error_model="numpy")
def _step(layers: Any, inputs: Any, box: Any, noise: Any) -> Any:
    """Both networks around one state, J (M, M) and D (M, M) of the step, of the softplus its slope,
    second derivative and how far its argument moves (O, 3); and of the limits whether a feature is
    inside, and 1 / 2 a of either that is in reach (O, 3), with r (O, M)."""
    place = _part(layers.location, layers.is_tanh, layers.fixed, inputs, box)
    scale = _part(layers.scale, layers.is_tanh, layers.fixed, inputs, box)
    slope, wide, soft = place.slope.copy(), place.wide.copy(), np.empty((len(noise), 3))
    _, m3, _ = SOFTPLUS
    for i in range(len(noise)):
        sigma = 0.5 + 0.5 * np.tanh(0.5 * scale.output[i])
        second = sigma * (1.0 - sigma)
        moved = 0.0
        for j in range(box.shape[0]):
            moved += (abs(scale.slope[i, j]) + scale.wide[i, j]) * box[j]
        soft[i, 0], soft[i, 1], soft[i, 2] = sigma, second, moved
        off = min(second * moved / 2 + m3 * moved * moved / 6, max(sigma, 1.0 - sigma))
        for j in range(box.shape[0]):
            slope[i, j] += noise[i] * sigma * scale.slope[i, j]
            steep = abs(scale.slope[i, j]) + scale.wide[i, j]
            wide[i, j] += abs(noise[i]) * (sigma * scale.wide[i, j] + off * steep)
    wide = wide * (1.0 + OUTWARD) + OUTWARD
    reach, held = np.abs(slope) + wide, np.zeros((len(noise), 3))
    for i in range(len(noise)):
        wide_by = spread(scale.output[i]) - LEAST_SCALE + layers.least
        y = place.output[i] + wide_by * noise[i]
        rooms = y - layers.limits[i, 0], layers.limits[i, 1] - y
        held[i, 0] = 1.0 if min(rooms[0], rooms[1]) >= 0.0 else 0.0
        moved, lost = 0.0, 0.0
        for j in range(box.shape[0]):
            moved += reach[i, j] * box[j] * (1.0 + OUTWARD)
        for side in range(2):
            # Of a feature that is outside, the limit that it is outside of.
            away = abs(rooms[side]) - OUTWARD * (1.0 + abs(y))
            if moved > away and (held[i, 0] == 1.0 or rooms[side] < 0.0):
                held[i, 1 + side] = 0.5 / away if away > 0.0 else np.inf
                lost = max(lost, 1.0 - away / moved if away > 0.0 else 1.0)
        for j in range(box.shape[0]):
            slope[i, j] *= held[i, 0]
            wide[i, j] = held[i, 0] * wide[i, j] + lost * reach[i, j] + OUTWARD
    return place, scale, slope, wide, soft, held, reach


@within(error_model="numpy")
def _bent(layers: Any, step: Any, noise: Any, g: Any, curve: Any, rest: Any) -> None:
    """Add B(g) and S(g) of a step."""
    place, scale, _, _, soft, held, reach = step
    M = curve.shape[0]
    for i in range(len(g)):
        for side in range(2):
            if held[i, 1 + side] > 0.0 and g[i] * (2 * side - 1) < 0.0:
                size = abs(g[i]) * held[i, 1 + side]
                for a in range(M):
                    for b in range(M):
                        rest[a, b] += size * reach[i, a] * reach[i, b]
    g = g * held[:, 0]
    _curve(layers.location, place, layers, g, curve, rest)
    weight = g * noise
    _curve(layers.scale, scale, layers, weight * soft[:, 0], curve, rest)
    for i in range(len(g)):
        if weight[i] == 0.0:
            continue
        third = soft[i, 1] * (1.0 - 2.0 * soft[i, 0])
        off = _rest(third, soft[i, 1], soft[i, 2], SOFTPLUS)
        for a in range(M):
            one, more = abs(scale.slope[i, a]), scale.wide[i, a]
            for b in range(M):
                other, most = abs(scale.slope[i, b]), scale.wide[i, b]
                both = soft[i, 1] * (one * most + more * other + more * most)
                both += off * (one + more) * (other + most)
                curve[a, b] += weight[i] * soft[i, 1] * scale.slope[i, a] * scale.slope[i, b]
                rest[a, b] += abs(weight[i]) * both


@within(error_model="numpy", fastmath={"contract"})
def _add(one: Any, other: Any, is_turned: bool, is_size: bool, total: Any) -> None:
    """Add the product of small matrices to a third, of `one` the transpose or the sizes of its
    entries where asked, and no more of its columns than `other` has rows."""
    for i in range(total.shape[0]):
        for k in range(other.shape[0]):
            x = one[k, i] if is_turned else one[i, k]
            x = abs(x) if is_size else x
            for j in range(total.shape[1]):
                total[i, j] += x * other[k, j]


@within(error_model="numpy")
def _expand(
    layers: Any, course: Any, noise: Any, moving: Any, worth: Any, states: Any, total: Any
) -> None:
    """Add g (q,), H (q, q) and E (q, q) of one course to `total`, and write P and N (m + 1, M, q)
    into `states`, whose first it is given.

    course   states (m + 1, D) by action vectors (m, d) and noise (m, O)
    moving   of what moves, x (q,), the most by which it does, and where it is a dose, its step and
             its component; and the number of rows (M or, with doses, M + d) that a step depends on
    worth    gradients (M,) of the reward of a state and of the last

    Loops over elements: expressions of whole arrays take seconds to compile."""
    (path, vectors), (size, owner, place, rows) = course, moving
    phi, off = states
    (m, d), (M, q), D = vectors.shape, phi.shape[1:], path.shape[1]
    # (m, rows, q) P with the doses of a step, N, and |P| + N.
    joint, rest, whole = np.zeros((m, rows, q)), np.zeros((m, rows, q)), np.zeros((m, rows, q))
    pushed, errors, old = np.zeros((m, M, M)), np.zeros((m, M, q)), np.zeros((M, q))
    inputs, around, steps = np.empty(D + d), np.empty(rows), []
    for t in range(m):
        for i in range(D + d):
            inputs[i] = path[t, i] if i < D else vectors[t, i - D]
        for i in range(rows):
            around[i] = 0.0
            for c in range(q):
                if i < M:
                    joint[t, i, c], rest[t, i, c] = phi[t, i, c], off[t, i, c]
                elif owner[c] == t and place[c] == i - M:
                    joint[t, i, c] = 1.0
                whole[t, i, c] = abs(joint[t, i, c]) + rest[t, i, c]
                around[i] += whole[t, i, c] * size[c] * (1.0 + OUTWARD)
        steps.append(_step(layers, inputs, around, noise[t]))
        across, wide = steps[t][2], steps[t][3]
        _add(across, joint[t], False, False, phi[t + 1])
        _add(wide, whole[t], False, False, errors[t])
        old = _push(across, t, pushed, errors, old, off[t + 1])
    _gather(layers, steps, noise, (joint, rest, whole), worth, phi, total)


@within(error_model="numpy")
def _push(across: Any, t: int, pushed: Any, errors: Any, old: Any, off: Any) -> Any:
    """Add N after step t, the errors of the steps so far, and return those of long ago."""
    M, q = off.shape
    older = np.zeros((M, q))
    _add(across, old, False, True, older)
    for i in range(M):
        pushed[t, i, i] = 1.0
    for v in range(max(0, t - RECENT), t):
        through = np.zeros((M, M))
        _add(across, pushed[v], False, False, through)
        for i in range(M):
            for j in range(M):
                pushed[v, i, j] = through[i, j]
        _add(through, errors[v], False, True, older if v == t - RECENT else off)
    for i in range(M):
        for c in range(q):
            off[i, c] += errors[t, i, c] + older[i, c]
    return older


@within(error_model="numpy")
def _gather(
    layers: Any, steps: Any, noise: Any, along: Any, worth: Any, phi: Any, total: Any
) -> None:
    """Add g, H and E, from the last step to the first."""
    (joint, rest, whole), (gradient, last), (slope, bends, slacks) = along, worth, total
    m, rows, q = joint.shape
    M, g = phi.shape[1], last.copy()
    for c in range(q):
        for i in range(M):
            slope[c] += last[i] * phi[m, i, c]
    for t in range(m - 1, -1, -1):
        bend, slack = np.zeros((rows, rows)), np.zeros((rows, rows))
        _bent(layers, steps[t], noise[t], g, bend, slack)
        for i in range(rows):
            for j in range(rows):
                slack[i, j] = slack[i, j] * (1.0 + OUTWARD) + OUTWARD * (1.0 + abs(bend[i, j]))
        across, before = steps[t][2], gradient.copy()
        for i in range(M):
            for j in range(M):
                before[j] += across[i, j] * g[i]
            for c in range(q):
                slope[c] += gradient[i] * phi[t, i, c]
        g = before
        turned, cross = np.zeros((rows, q)), np.zeros((q, q))
        _add(bend, joint[t], False, False, turned)
        _add(joint[t], turned, True, False, bends)
        _add(turned, rest[t], True, True, cross)
        held, bent = np.zeros((rows, q)), np.zeros((rows, q))
        _add(slack, whole[t], False, False, held)
        _add(whole[t], held, True, False, slacks)
        _add(bend, rest[t], False, True, bent)
        _add(rest[t], bent, True, False, slacks)
        for i in range(q):
            for j in range(q):
                slacks[i, j] += cross[i, j] + cross[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def along(
    layers: Any, path: Any, vectors: Any, noise: Any, box: Any, gradient: Any, last: Any
) -> tuple[Any, Any, Any]:
    """g (n, M), H (n, M, M) and E (n, M, M) at the beginning of n courses: path (n, m + 1, D) by
    action vectors (n, m, d) and noise (m, O), over a box (M,) there; gradients (M,) of the reward
    of each state and of the last."""
    n, m, M = path.shape[0], vectors.shape[1], len(box)
    slopes, bends, slacks = np.zeros((n, M)), np.zeros((n, M, M)), np.zeros((n, M, M))
    nowhere = np.full(M, -1)
    for r in range(n):
        phi, off = np.zeros((m + 1, M, M)), np.zeros((m + 1, M, M))
        for i in range(M):
            phi[0, i, i] = 1.0
        course, moving = (path[r], vectors[r]), (box, nowhere, nowhere, M)
        total = slopes[r], bends[r], slacks[r]
        _expand(layers, course, noise, moving, (gradient, last), (phi, off), total)
    return slopes, bends, slacks


@njit(cache=True, nogil=True, error_model="numpy")
def dosed(layers: Any, path: Any, vectors: Any, noise: Any, moving: Any, worth: Any) -> Any:
    """g (n,), H (n, n) and E (n, n) of what a course earns as its doses change by x (n,): the same
    expansion with the doses of some steps for x, so that P, N are (M, n) and steps are expanded in
    state and action; besides P and N themselves (m + 1, M, n).

    path (m + 1, D) by action vectors (m, d) and noise (m, O); moving: of each dose its step, its
    component and the most that it changes (n,); worth: gradients (M,) of the reward of a state and
    of the last
    """
    owner, place, size = moving
    (m, d), n, M = vectors.shape, len(size), len(worth[0])
    phi, off = np.zeros((m + 1, M, n)), np.zeros((m + 1, M, n))
    total = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
    doses = size, owner, place, M + d
    _expand(layers, (path, vectors), noise, doses, worth, (phi, off), total)
    return total[0], total[1], total[2], phi, off


def dense_units(network: Network) -> Units:
    """A network of tanh units, weight by weight."""
    into = np.concatenate([network.state, network.action], axis=1)
    (H, P), O = into.shape, len(network.output_bias)  # noqa: E741
    return Units(
        np.arange(H + 1) * P, np.tile(np.arange(P), H), plain(into).ravel(),
        np.arange(H + 1) * O, np.tile(np.arange(O), H), plain(network.output.T).ravel(),
        plain(network.bias), np.zeros(H, np.bool_), np.zeros((O, P)), plain(network.output_bias),
    )  # fmt: skip
