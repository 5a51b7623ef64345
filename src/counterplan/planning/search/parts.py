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
    informed   V = max_a Q(a), V_leaf for an action not yet tried where leaves are cuts

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

from counterplan.core.validation import FloatArray
from counterplan.planning.compiled import (
    another,
    borrowed,
    inlined,
    inner,
    jit,
    outer,
    play_with,
)
from counterplan.planning.search.kernel import (
    BOUNDED,
    CLIP,
    CLIPPED,
    ENTROPY,
    ENTROPY_WEIGHT,
    EPSILON,
    EXPLORATION,
    LEAF,
    OWN_LEAF,
    ROLLOUT,
    SCALE,
    SIGNATURES,
    TEMPERATURE,
    TRUST,
    VALUE,
    VISITS,
    WEIGHED,
    WEIGHT,
    Kernel,
    no_leaf,
    no_play,
    set_parts,
    uniform_policy,
    with_model,
)


@inlined
def highest_bound(settings, spread, visits, edges, first, end):  # type: ignore[no-untyped-def]
    """The edge from `first` on, before `end`, with the highest upper confidence bound."""
    unit = settings[SCALE] if settings[SCALE] > 0.0 else spread
    width = settings[EXPLORATION] * unit * np.sqrt(np.log(visits))
    best, highest = first, -np.inf
    for a in range(first, end):
        tried = edges[a, VISITS]
        if tried == 0.0:
            return a
        bound = edges[a, VALUE] + width / np.sqrt(tried)
        if bound > highest:
            best, highest = a, bound
    return best


@jit
def ucb(settings, spread, node, edges, generator):  # type: ignore[no-untyped-def]
    """The highest upper confidence bound."""
    return highest_bound(settings, spread, node[VISITS], edges, np.int64(0), edges.shape[0])


@jit
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


@inlined
def mean_of(node, edges, first, end):  # type: ignore[no-untyped-def]
    """The mean of all returns, the leaf's first, by the edges from `first` on, before `end`."""
    total = node[LEAF]
    for a in range(first, end):
        total += edges[a, VISITS] * edges[a, VALUE]
    return total / node[VISITS]


@jit
def mean(settings, node, edges):  # type: ignore[no-untyped-def]
    """The mean of all returns."""
    node[VALUE] = mean_of(node, edges, np.int64(0), edges.shape[0])


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


@jit
def soft(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value with the entropy of the best Boltzmann policy."""
    highest, total = weigh(node, edges, settings[TEMPERATURE], 0.0)
    node[VALUE] = highest + settings[TEMPERATURE] * np.log(total)


@jit
def highest(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value of the best action, explored by Boltzmann weights."""
    weigh(node, edges, settings[TEMPERATURE], 0.0)
    node[VALUE] = best(node, edges)


@jit
def informed(settings, node, edges):  # type: ignore[no-untyped-def]
    """The value of the best action, where one not yet tried is worth what the leaf says."""
    temperature = settings[TEMPERATURE] if settings[TEMPERATURE] > 0.0 else 1.0
    node[VALUE], _ = weigh(node, edges, temperature, 0.0)


@jit
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
def play_on(model, parts, is_random, t, x, d, generator):  # type: ignore[no-untyped-def]
    """The return of one simulated future, by random actions or by the model's policy."""
    is_random |= parts.is_random
    now, level = model.room_exogenous, model.room_resource
    room = model.horizon, is_random, model.room_actions, now, level
    if parts.is_fused:
        return parts.play(model.parameters, t, x, d, generator, room)
    state = model.parameters, t, x, d
    return play_with(model.draw, model.actions, model.step, model.policy, state, generator, room)


@inlined
def leaf_value(model, parts, t, x, d, generator):  # type: ignore[no-untyped-def]
    """What the leaf part says of a state. The bounds that it asked for are left in their room,
    unless they are to be forgotten."""
    how, settings = parts.how, parts.settings
    if how == OWN_LEAF:
        return parts.leaf(another(model), settings, t, x, d, generator)
    value = 0.0
    if how != BOUNDED:
        value = play_on(model, parts, False, t, x, d, generator)
        chosen = how != ROLLOUT and (settings[CLIP] >= 1.0 or generator.random() < settings[CLIP])
        if not chosen:
            return value
    limits = model.room_bounds
    model.bounds(model.parameters, model.tables, t, x, d, generator, limits)
    low, high = limits[0], limits[1]
    if how == BOUNDED:
        if np.isinf(low) or np.isinf(high):
            return high if np.isinf(low) else low
        return 0.5 * (low + high)
    value = min(max(value, low), high)
    if how == CLIPPED:
        limits[0], limits[1] = -np.inf, np.inf
        return value
    return value if np.isinf(low) else low + settings[TRUST] * (value - low)


@inner
def sampled_returns(model, parts, is_random, state, plays, generator):  # type: ignore[no-untyped-def]
    """The mean and the sum of squared deviations of some returns from a state (Welford)."""
    t, x, d = state
    mean, squares = 0.0, 0.0
    for i in range(plays):
        value = play_on(model, parts, is_random, t, x, d, generator)
        away = value - mean
        mean += away / (i + 1)
        squares += away * (value - mean)
    return mean, squares


@outer
def pilot(engine, t, x, d, plays, generator):  # type: ignore[no-untyped-def]
    """The standard deviation of the returns of random play from a state."""
    model, parts = borrowed(engine.model), borrowed(engine.parts)
    state = t, borrowed(x), borrowed(d)
    _, squares = sampled_returns(model, parts, True, state, plays, borrowed(generator))
    return np.sqrt(squares / max(plays - 1, 1))


def engine(
    kernel: Kernel, select: Any, backup: Any, leaf: Any, settings: FloatArray
) -> tuple[Any, Any]:
    """A kernel, parts and settings in the form that the search takes; and the arrays that it
    borrows, which the caller keeps. The leaf is a compiled function or how the loop values one."""
    numbers = (
        kernel.horizon,
        kernel.most_successors > 0,
        kernel.parameters,
        kernel.tables,
        np.empty(2),
        np.empty((kernel.most_actions, kernel.action_size)),
        np.empty((2, kernel.exogenous.size)),
        np.empty((2, kernel.resource.size)),
    )
    made = with_model(*(getattr(kernel, name) for name in SIGNATURES), numbers)
    play, own = kernel.play, callable(leaf)
    inside = (select is ucb, backup is mean, play is not None, kernel.policy is uniform_policy)
    how = OWN_LEAF if own else leaf
    parts = (select, backup, leaf if own else no_leaf, play or no_play, settings)
    set_parts(made, *parts, (*inside, how))
    return made, (numbers, settings)


def named(leaf: Any, clip: bool) -> Any:
    """The leaf part that a planner's option stands for: which of the above, or a function."""
    if callable(leaf):
        return leaf
    if leaf == "bounds":
        return BOUNDED
    if not clip:
        return ROLLOUT
    return CLIPPED if leaf == "clipped" else WEIGHED
