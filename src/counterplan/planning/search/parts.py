"""The parts that a search is made of: selection, backup and leaf values.

Selection: which action a simulation follows. UCB (Eq. 3.1), with c counted in units of the spread
(highest minus lowest) of the returns met at this depth, so that it means the same in any currency;
an untried action goes first. E2W (Eq. 3.6 with the exponential that the paper lost), at random:

    ucb        argmax_a  Q(s, a) + c spread sqrt(log N(s) / N(s, a))
    boltzmann  (1 - lambda) softmax(Q / alpha) + lambda / |A|,
               lambda = min(1, epsilon |A| / log(N(s) + 1))

Backup: the value of a decision node from those of its edges. `soft`, `highest` and `entropy` leave
at the edges the weights that `boltzmann` draws by.

    mean       V = (V_leaf + sum_a N(a) Q(a)) / N                 UCT: the mean return (Eq. 3.2)
    soft       V = alpha log sum_a exp(Q(a) / alpha)              MENTS (Eq. 3.5)
    highest    V = max_a Q(a)                                     BTS
    entropy    as `highest`; H = sum_a pi(a) (H(a) - log pi(a))   DENTS

Leaf: the value of a state seen for the first time (Algorithms 1 and 2, lines 6-20).

    rollout    play on to the end by the model's policy, chance drawn afresh
    bounded    the middle of the model's bounds on V*, or the finite one of them
    clipped    with probability alpha_c a rollout moved into those bounds,
               v' = min(max(v, lower), upper), and no more: the algorithms as they stand
    weighed    likewise lower + trust (v' - lower), since the lower bound has no noise; and the
               bounds stay with the node (`loop`)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.planning.compiled import GENERATOR, VECTOR, borrowed, inlined, jit
from counterplan.planning.search.kernel import (
    BACKUP,
    CLIP,
    ENGINE,
    ENTROPY,
    ENTROPY_WEIGHT,
    EPSILON,
    EXPLORATION,
    LEAF,
    LEAF_SIGNATURE,
    MODEL,
    SCALE,
    SELECT,
    TEMPERATURE,
    TRUST,
    VALUE,
    VISITS,
    WEIGHT,
    uniform_policy,
)


@jit(SELECT)
def ucb(settings, spread, node, edges, generator):  # type: ignore[no-untyped-def]
    """The highest upper confidence bound."""
    unit = settings[SCALE] if settings[SCALE] > 0.0 else spread
    width = settings[EXPLORATION] * unit * np.sqrt(np.log(node[VISITS]))
    best, highest = 0, -np.inf
    for a in range(edges.shape[0]):
        visits = edges[a, VISITS]
        if visits == 0.0:
            return a
        bound = edges[a, VALUE] + width / np.sqrt(visits)
        if bound > highest:
            best, highest = a, bound
    return best


@jit(SELECT)
def boltzmann(settings, spread, node, edges, generator):  # type: ignore[no-untyped-def]
    """An action by the weights that the backup left at the edges, mixed with the uniform law."""
    m = edges.shape[0]
    mixed = settings[EPSILON] * m / np.log(node[VISITS] + 1.0)
    u = generator.random()
    if u < mixed or node[VISITS] <= 1.0:
        return int(generator.random() * m)
    total = 0.0
    for a in range(m):
        total += edges[a, WEIGHT]
    u = (u - mixed) / (1.0 - mixed) * total
    for a in range(m):
        u -= edges[a, WEIGHT]
        if u < 0.0:
            return a
    return m - 1


@jit(BACKUP)
def mean(settings, node, edges):  # type: ignore[no-untyped-def]
    """The mean of all returns, the leaf's first."""
    total = node[LEAF]
    for a in range(edges.shape[0]):
        total += edges[a, VISITS] * edges[a, VALUE]
    node[VALUE] = total / node[VISITS]


@inlined
def known(node, edges, a):  # type: ignore[no-untyped-def]
    """The value of an action; of one not yet tried, the leaf's."""
    return edges[a, VALUE] if edges[a, VISITS] > 0.0 else node[LEAF]


@inlined
def weigh(node, edges, temperature, entropy_weight):  # type: ignore[no-untyped-def]
    """Set WEIGHT to exp((Q + entropy_weight H - highest) / temperature); highest and their sum."""
    highest = -np.inf
    for a in range(edges.shape[0]):
        edges[a, WEIGHT] = known(node, edges, a) + entropy_weight * edges[a, ENTROPY]
        highest = max(highest, edges[a, WEIGHT])
    total = 0.0
    for a in range(edges.shape[0]):
        edges[a, WEIGHT] = np.exp((edges[a, WEIGHT] - highest) / temperature)
        total += edges[a, WEIGHT]
    return highest, total


@inlined
def best(node, edges):  # type: ignore[no-untyped-def]
    """The highest value among the actions tried."""
    highest = -np.inf
    for a in range(edges.shape[0]):
        if edges[a, VISITS] > 0.0:
            highest = max(highest, edges[a, VALUE])
    return highest


@jit(BACKUP)
def soft(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value with the entropy of the best Boltzmann policy."""
    highest, total = weigh(node, edges, settings[TEMPERATURE], 0.0)
    node[VALUE] = highest + settings[TEMPERATURE] * np.log(total)


@jit(BACKUP)
def highest(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value of the best action, explored by Boltzmann weights."""
    weigh(node, edges, settings[TEMPERATURE], 0.0)
    node[VALUE] = best(node, edges)


@jit(BACKUP)
def entropy(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value of the best action; entropy counts in the weights, less and less."""
    decayed = settings[ENTROPY_WEIGHT] / np.log(np.e + node[VISITS])
    _, total = weigh(node, edges, settings[TEMPERATURE], decayed)
    node[VALUE] = best(node, edges)
    node[ENTROPY] = 0.0
    for a in range(edges.shape[0]):
        share = edges[a, WEIGHT] / total
        if share > 0.0:
            node[ENTROPY] += share * (edges[a, ENTROPY] - np.log(share))


@inlined
def copy(source, target):  # type: ignore[no-untyped-def]
    """Number by number: a slice would ask for memory in between."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@inlined
def play_on(model, is_random, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The return of one simulated future, by random actions or by the model's policy."""
    parameters, actions = model.parameters, model.room_actions
    now, then = model.room_exogenous[0], model.room_exogenous[1]
    level, left = model.room_resource[0], model.room_resource[1]
    copy(x, now)
    copy(d, level)
    total = 0.0
    while True:
        m = model.actions(parameters, t, now, level, actions)
        a = 0
        if is_random:
            a = uniform_policy(parameters, t, now, level, generator, actions, m)
        elif m > 1:
            a = model.policy(parameters, t, now, level, generator, actions, m)
        total += model.step(parameters, t, now, level, actions[a], left)
        t += 1
        if t == model.horizon:
            return total
        model.draw(parameters, t - 1, now, generator, then)
        now, then = then, now
        level, left = left, level


@jit(LEAF_SIGNATURE)
def rollout(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The return of one simulated future."""
    return play_on(model, False, t, x, d, generator)


@jit(LEAF_SIGNATURE)
def bounded(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The middle of the bounds."""
    limits = model.room_bounds
    model.bounds(model.parameters, model.tables, t, x, d, generator, limits)
    if np.isinf(limits[0]):
        return limits[1]
    if np.isinf(limits[1]):
        return limits[0]
    return 0.5 * (limits[0] + limits[1])


@inlined
def within(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """A rollout, if it is to be clipped moved into the bounds, which are left in their room."""
    value = rollout(model, settings, t, x, d, generator)
    if settings[CLIP] < 1.0 and generator.random() >= settings[CLIP]:
        return value
    limits = model.room_bounds
    model.bounds(model.parameters, model.tables, t, x, d, generator, limits)
    return min(max(value, limits[0]), limits[1])


@jit(LEAF_SIGNATURE)
def clipped(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """A rollout within the bounds, which are forgotten again."""
    value = within(model, settings, t, x, d, generator)
    model.room_bounds[0], model.room_bounds[1] = -np.inf, np.inf
    return value


@jit(LEAF_SIGNATURE)
def weighed(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The lower bound, and a rollout within the bounds as far as it is trusted."""
    value, low = within(model, settings, t, x, d, generator), model.room_bounds[0]
    return value if np.isinf(low) else low + settings[TRUST] * (value - low)


_MOMENTS = types.UniTuple(types.float64, 2)  # type: ignore[no-untyped-call]
_FROM = (types.int64, VECTOR, VECTOR, types.int64, GENERATOR)


@jit(_MOMENTS(MODEL, types.boolean, *_FROM))
def sampled_returns(model, is_random, t, x, d, plays, generator):  # type: ignore[no-untyped-def]
    """The mean and the sum of squared deviations of some returns from a state (Welford)."""
    mean, squares = 0.0, 0.0
    for i in range(plays):
        value = play_on(model, is_random, t, x, d, generator)
        away = value - mean
        mean += away / (i + 1)
        squares += away * (value - mean)
    return mean, squares


@njit(types.float64(ENGINE, *_FROM), cache=True)
def pilot(engine, t, x, d, plays, generator):  # type: ignore[no-untyped-def]
    """The standard deviation of the returns of random play from a state."""
    _, squares = sampled_returns(engine.model, True, t, x, d, plays, borrowed(generator))
    return np.sqrt(squares / max(plays - 1, 1))


def named(leaf: Any, clip: bool) -> Any:
    """The leaf part that a planner's option stands for."""
    if callable(leaf):
        return leaf
    if leaf == "bounds":
        return bounded
    if not clip:
        return rollout
    return clipped if leaf == "clipped" else weighed
