"""The search loop: select, expand, evaluate, back up (Algorithms 1 and 2).

A simulation walks from the root: `select` picks an edge, chance a successor, until it meets a
decision node for the first time (or the end). The leaf part values that node, and every node on
the way back is valued anew from its edges by `backup`. Rewards on the way count: they are part of
the edges' values. With BELLMAN, an edge tried for the first time meets all its successors at once,
each is valued by the leaf part, and links weigh by probability instead of by visits.

A leaf part that asks for the model's bounds leaves them in `model.room_bounds`; they stay with the
node. Whatever is found later, the mean over the successors of an edge stays within the mean of
their bounds:

    Q(edge) = reward + min(max(mean V, mean lower), mean upper)

Means are kept within bounds, not each value by itself: a value is noisy, and cutting off one side
of the noise again and again would make every wait for chance look better than it is.

What follows an exogenous node: the n-th pass through an edge takes the successor at
u_n = frac(u_0 + n / golden ratio) of the cumulative probabilities, where u_0 is random and belongs
to the exogenous node. Each u_n is uniform, and the first n of them are spread evenly: an edge meets
successors in proportion to their probabilities with an error of O(log n / n) instead of
O(1 / sqrt n), and all actions at a node meet the same ones in the same order (common random
numbers). Continuous support: a node that was passed N times has at most k N^alpha children, each an
independent draw; they count equally.

What a search's own choices are worth (`follow`): the values that a search decides by count every
exploration and lean on bounds; they rank actions but are no estimates of V*, and the luckiest of
them is no estimate either. So the policy that takes the best of the tried actions wherever the tree
is well explored, and plays on by the model's rollouts elsewhere, is evaluated over all successors
in the tree:

    F(node) = F(best edge),    F(edge) = reward + sum_children p(child) F(child's node)

A child whose node has not seen as many visits as it has successors is valued by rollouts, a share
of them in proportion to its probability. The value of a policy is at most V*; it is exact, and the
policy optimal, where the tree is complete.
"""

from __future__ import annotations

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.errors import InputError
from counterplan.planning.compiled import GENERATOR, VECTOR, borrowed, inlined, jit
from counterplan.planning.search.kernel import (
    BELLMAN,
    MODEL,
    MODEL_HANDLE,
    PARTS,
    PARTS_HANDLE,
    WIDENING,
    WIDENING_POWER,
)
from counterplan.planning.search.parts import rollout
from counterplan.planning.search.tree import (
    COUNT,
    DEEPEST,
    DONE,
    EDGES,
    ENTROPY,
    ENTROPY_SUM,
    EXOGENOUS,
    FIRST,
    FIRST_EDGE,
    HIGH_SUM,
    HIGHEST,
    IN_CHILDREN,
    IN_EDGES,
    IN_EXOGENOUS,
    KEY,
    LEAF,
    LINK_ENTROPY,
    LINK_HIGH,
    LINK_LOW,
    LINK_VALUE,
    LINK_WEIGHT,
    LOW_SUM,
    LOWEST,
    PASSED,
    RESERVED,
    RESOURCE,
    REWARD,
    SUM,
    TOTAL,
    TRANSPOSITIONS,
    TREE,
    VALUE,
    VISITS,
    WEIGHT,
    has_memory,
    new_link,
    node_number,
    place,
    resource_number,
)

STRIDE = 0.6180339887498949


@inlined
def new_exogenous(tree):  # type: ignore[no-untyped-def]
    """An exogenous node without children; its x is to be written by the caller."""
    number = tree.counts[IN_EXOGENOUS]
    tree.counts[IN_EXOGENOUS] += 1
    tree.exogenous_index[number] = 0
    return number


@inlined
def expand_support(model, tree, parent, t):  # type: ignore[no-untyped-def]
    """Write all successors of a node with finite support, their probabilities cumulated."""
    first, place = tree.counts[IN_EXOGENOUS], tree.counts[IN_CHILDREN]
    M = model.successors(
        model.parameters,
        t,
        tree.exogenous[parent],
        tree.exogenous[first:],
        tree.probability[place:],
    )
    if M < 1:
        raise InputError("the kernel's successors gives none, though its most_successors is not 0")
    total = 0.0
    for c in range(M):
        tree.children[place + c] = new_exogenous(tree)
        total += tree.probability[place + c]
        tree.probability[place + c] = total
    tree.counts[IN_CHILDREN] += M
    tree.exogenous_index[parent, FIRST] = place
    tree.exogenous_index[parent, COUNT] = M


@inlined
def widen(model, tree, parent, t, generator):  # type: ignore[no-untyped-def]
    """One more child, drawn; children stay in one run of places, moved when it is full."""
    index = tree.exogenous_index[parent]
    count = index[COUNT]
    if count == index[RESERVED]:
        place = tree.counts[IN_CHILDREN]
        for c in range(count):
            tree.children[place + c] = tree.children[index[FIRST] + c]
        index[FIRST] = place
        index[RESERVED] = max(2, 2 * count)
        tree.counts[IN_CHILDREN] += index[RESERVED]
    child = new_exogenous(tree)
    model.draw(model.parameters, t, tree.exogenous[parent], generator, tree.exogenous[child])
    tree.children[index[FIRST] + count] = child
    index[COUNT] = count + 1
    return count


@inlined
def successor(model, settings, tree, parent, t, visits, generator):  # type: ignore[no-untyped-def]
    """Which child of an exogenous node an edge meets on this visit."""
    index = tree.exogenous_index
    if index[parent, PASSED] == 0:
        tree.offset[parent] = generator.random()
    index[parent, PASSED] += 1
    finite = model.finite
    if finite and index[parent, COUNT] == 0:
        expand_support(model, tree, parent, t)
    count, passed = index[parent, COUNT], index[parent, PASSED]
    if not finite and count < settings[WIDENING] * passed ** settings[WIDENING_POWER]:
        return widen(model, tree, parent, t, generator)
    u = tree.offset[parent] + visits * STRIDE
    u -= np.floor(u)
    child = int(u * count)
    if finite:
        first = index[parent, FIRST]
        while child > 0 and u < tree.probability[first + child - 1]:
            child -= 1
        while child < count - 1 and u >= tree.probability[first + child]:
            child += 1
    return child


@inlined
def ask_actions(model, tree, node, t):  # type: ignore[no-untyped-def]
    """Edges for all actions of a node, none of them tried."""
    first = tree.counts[IN_EDGES]
    index = tree.node_index[node]
    x, d = tree.exogenous[index[EXOGENOUS]], tree.resources[index[RESOURCE]]
    m = model.actions(model.parameters, t, x, d, tree.actions[first:])
    if m < 1 or m > model.room_actions.shape[0]:
        raise InputError("the kernel's actions gives none, or more than its most_actions")
    for edge in range(first, first + m):
        tree.edges[edge] = 0.0
        tree.edges[edge, WEIGHT] = 1.0
        tree.edge_next[edge] = -1
    index[FIRST_EDGE] = first
    index[EDGES] = m
    tree.counts[IN_EDGES] += m


@inlined
def take_step(model, tree, node, edge, t):  # type: ignore[no-untyped-def]
    """The reward and the resource that an action leads to, asked once."""
    index = tree.node_index[node]
    x, d = tree.exogenous[index[EXOGENOUS]], tree.resources[index[RESOURCE]]
    after = model.room_resource[0]
    reward = model.step(model.parameters, t, x, d, tree.actions[edge], after)
    tree.edges[edge, REWARD] = reward
    tree.edge_next[edge] = resource_number(tree, after)


@inlined
def evaluate(model, parts, tree, node, t, generator):  # type: ignore[no-untyped-def]
    """Value a node seen for the first time: its first visit."""
    index = tree.node_index[node]
    x, d = tree.exogenous[index[EXOGENOUS]], tree.resources[index[RESOURCE]]
    known = model.room_bounds
    known[0], known[1] = -np.inf, np.inf
    value = parts.leaf(model, parts.settings, t, x, d, generator)
    tree.nodes[node, LOWEST], tree.nodes[node, HIGHEST] = known[0], known[1]
    tree.nodes[node, VISITS] = 1.0
    tree.nodes[node, VALUE] = value
    tree.nodes[node, LEAF] = value
    return value


@inlined
def renew(tree, edge, link, weight):  # type: ignore[no-untyped-def]
    """Let a link count with this weight, and with what its node is worth now."""
    node = tree.link_node[link]
    value, entropy = tree.nodes[node, VALUE], tree.nodes[node, ENTROPY]
    # A node without a bound is bounded by what it is worth itself.
    low, high = tree.nodes[node, LOWEST], tree.nodes[node, HIGHEST]
    low = value if np.isinf(low) else low
    high = max(low, value) if np.isinf(high) else high
    before = tree.links[link, LINK_WEIGHT]
    tree.edges[edge, TOTAL] += weight - before
    tree.edges[edge, SUM] += weight * value - before * tree.links[link, LINK_VALUE]
    tree.edges[edge, ENTROPY_SUM] += weight * entropy - before * tree.links[link, LINK_ENTROPY]
    tree.edges[edge, LOW_SUM] += weight * low - before * tree.links[link, LINK_LOW]
    tree.edges[edge, HIGH_SUM] += weight * high - before * tree.links[link, LINK_HIGH]
    tree.links[link, LINK_LOW] = low
    tree.links[link, LINK_HIGH] = high
    tree.links[link, LINK_WEIGHT] = weight
    tree.links[link, LINK_VALUE] = value
    tree.links[link, LINK_ENTROPY] = entropy


@inlined
def meet_all(model, parts, tree, parent, edge, t, generator):  # type: ignore[no-untyped-def]
    """Value every successor of an edge tried for the first time; their mean by probability."""
    first, count = tree.exogenous_index[parent, FIRST], tree.exogenous_index[parent, COUNT]
    below = 0.0
    for child in range(count):
        probability = tree.probability[first + child] - below
        below = tree.probability[first + child]
        if probability > 0.0:
            node = node_number(tree, tree.children[first + child], tree.edge_next[edge])
            if tree.nodes[node, VISITS] == 0.0:
                evaluate(model, parts, tree, node, t, generator)
            else:
                tree.counts[TRANSPOSITIONS] += 1
            key = (edge << KEY) | child
            link = new_link(tree, place(tree.link_table, key), key, node)
            renew(tree, edge, link, probability)
    return bounded_mean(tree.edges[edge])


@inlined
def bounded_mean(edge):  # type: ignore[no-untyped-def]
    """The mean over the links, within that of their bounds."""
    within = min(max(edge[SUM], edge[LOW_SUM]), edge[HIGH_SUM])
    return within / edge[TOTAL]


@inlined
def choose(model, parts, tree, node, t, generator):  # type: ignore[no-untyped-def]
    """The edge that the selection part follows from a node."""
    if tree.node_index[node, FIRST_EDGE] < 0:
        ask_actions(model, tree, node, t)
    first, m = tree.node_index[node, FIRST_EDGE], tree.node_index[node, EDGES]
    spread = max(0.0, tree.returns[t, 1] - tree.returns[t, 0])
    values, edges = tree.nodes[node], tree.edges[first : first + m]
    edge = first + parts.select(parts.settings, spread, values, edges, generator)
    if tree.edge_next[edge] < 0:
        take_step(model, tree, node, edge, t)
    return edge


@inlined
def descend(model, parts, tree, t, generator):  # type: ignore[no-untyped-def]
    """Walk to a node seen for the first time, or to the end; the number of edges passed and the
    value found there."""
    node, depth = 0, 0
    while True:
        edge = choose(model, parts, tree, node, t, generator)
        tree.path[depth, 0] = node
        tree.path[depth, 1] = edge
        tree.path[depth, 2] = -1
        depth += 1
        t += 1
        if t == model.horizon:
            return depth, 0.0
        parent = tree.node_index[node, EXOGENOUS]
        visits = tree.edges[edge, VISITS]
        child = successor(model, parts.settings, tree, parent, t - 1, visits, generator)
        if visits == 0.0 and model.finite and parts.settings[BELLMAN] > 0.0:
            return depth, meet_all(model, parts, tree, parent, edge, t, generator)
        key = (edge << KEY) | child
        row = place(tree.link_table, key)
        if tree.link_table[row, 0] == key:
            link = tree.link_table[row, 1]
            tree.path[depth - 1, 2] = link
            node = tree.link_node[link]
        else:
            following = tree.children[tree.exogenous_index[parent, FIRST] + child]
            node = node_number(tree, following, tree.edge_next[edge])
            tree.path[depth - 1, 2] = new_link(tree, row, key, node)
            if tree.nodes[node, VISITS] == 0.0:
                return depth, evaluate(model, parts, tree, node, t, generator)
            tree.counts[TRANSPOSITIONS] += 1


@inlined
def count(row, value):  # type: ignore[no-untyped-def]
    """One more value in a row (number, mean, sum of squared deviations), as Welford does."""
    row[0] += 1.0
    away = value - row[1]
    row[1] += away / row[0]
    row[2] += away * (value - row[1])


@inlined
def back_up(parts, tree, t, depth, value):  # type: ignore[no-untyped-def]
    """Value every edge and node on the path anew, from the last to the root."""
    bellman = parts.settings[BELLMAN] > 0.0
    for level in range(depth - 1, -1, -1):
        node, edge, link = tree.path[level, 0], tree.path[level, 1], tree.path[level, 2]
        if link >= 0:
            weight = tree.links[link, LINK_WEIGHT]
            renew(tree, edge, link, weight if bellman and weight > 0.0 else weight + 1.0)
        reward, total = tree.edges[edge, REWARD], tree.edges[edge, TOTAL]
        tree.edges[edge, VISITS] += 1.0
        tree.edges[edge, VALUE] = reward
        if total > 0.0:
            tree.edges[edge, VALUE] += bounded_mean(tree.edges[edge])
            tree.edges[edge, ENTROPY] = tree.edges[edge, ENTROPY_SUM] / total
        value += reward
        tree.returns[t + level, 0] = min(tree.returns[t + level, 0], value)
        tree.returns[t + level, 1] = max(tree.returns[t + level, 1], value)
        tree.nodes[node, VISITS] += 1.0
        first, m = tree.node_index[node, FIRST_EDGE], tree.node_index[node, EDGES]
        parts.backup(parts.settings, tree.nodes[node], tree.edges[first : first + m])
    count(tree.root[tree.path[0, 1] - tree.node_index[0, FIRST_EDGE]], value)


@jit(types.int64(MODEL, PARTS, TREE, types.int64, types.int64, GENERATOR))
def run(model, parts, tree, t, simulations, generator):  # type: ignore[no-untyped-def]
    """`search` without handles."""
    if tree.nodes[0, VISITS] == 0.0:
        evaluate(model, parts, tree, 0, t, generator)
    while tree.counts[DONE] < simulations and has_memory(tree):
        depth, value = descend(model, parts, tree, t, generator)
        back_up(parts, tree, t, depth, value)
        tree.counts[DONE] += 1
        tree.counts[DEEPEST] = max(tree.counts[DEEPEST], depth)
    return tree.counts[DONE]


@njit(
    types.int64(MODEL_HANDLE, PARTS_HANDLE, TREE, types.int64, types.int64, GENERATOR), cache=True
)
def search(model, parts, tree, t, simulations, generator):  # type: ignore[no-untyped-def]
    """Run simulations from the tree's root at time t until they are done or the arrays are full;
    how many have been done in all."""
    return run(model.value, parts.value, borrowed(tree), t, simulations, borrowed(generator))


@inlined
def best_tried(tree, node):  # type: ignore[no-untyped-def]
    """The edge with the highest value, -1 if none was tried."""
    best, highest = -1, -np.inf
    first = tree.node_index[node, FIRST_EDGE]
    for edge in range(first, first + tree.node_index[node, EDGES]):
        if tree.edges[edge, VISITS] > 0.0 and tree.edges[edge, VALUE] > highest:
            best, highest = edge, tree.edges[edge, VALUE]
    return best


@inlined
def next_edge(tree, edge, child, following):  # type: ignore[no-untyped-def]
    """The choice after an edge and one of its successors, -1 where little was tried."""
    key = (edge << KEY) | child
    row = place(tree.link_table, key)
    if tree.link_table[row, 0] != key:
        return -1
    node = tree.link_node[tree.link_table[row, 1]]
    if tree.node_index[node, FIRST_EDGE] < 0:
        return -1
    explored = tree.nodes[node, VISITS] >= tree.exogenous_index[following, COUNT]
    return best_tried(tree, node) if explored else -1


@inlined
def mean_rollout(model, settings, t, x, d, plays, generator):  # type: ignore[no-untyped-def]
    """The mean return of some rollouts, and its variance."""
    mean, squares = 0.0, 0.0
    for i in range(plays):
        value = rollout(model, settings, t, x, d, generator)
        away = value - mean
        mean += away / (i + 1)
        squares += away * (value - mean)
    return mean, squares / (plays * (plays - 1))


_QUESTION = types.UniTuple(types.int64, 3)  # type: ignore[no-untyped-call]


@njit(types.void(MODEL_HANDLE, VECTOR, TREE, _QUESTION, GENERATOR, VECTOR), cache=True)
def follow(model, settings, tree, question, generator, out):  # type: ignore[no-untyped-def]
    """Value and standard error (2,) of following the search; the question is the time, the root's
    edge, and about how many rollouts to play."""
    model, tree, generator = model.value, borrowed(tree), borrowed(generator)
    most = 1
    for node in range(tree.counts[IN_EXOGENOUS]):
        most = max(most, tree.exogenous_index[node, COUNT])
    # Depth first: at every time at most one node's successors wait.
    waiting = np.empty((model.horizon * most + 1, 3), dtype=np.int64)
    weights = np.empty(len(waiting))
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = question[0], question[1], 0
    weights[0] = 1.0
    size, value, variance = 1, 0.0, 0.0
    while size > 0:
        size -= 1
        t, edge, parent = waiting[size]
        weight = weights[size]
        value += weight * tree.edges[edge, REWARD]
        t += 1
        if t == model.horizon:
            continue
        first, children = tree.exogenous_index[parent, FIRST], tree.exogenous_index[parent, COUNT]
        below = 0.0
        for child in range(children):
            share = weight / children
            if model.finite:
                share = weight * (tree.probability[first + child] - below)
                below = tree.probability[first + child]
            following = tree.children[first + child]
            after = next_edge(tree, edge, child, following)
            if after >= 0:
                waiting[size, 0], waiting[size, 1], waiting[size, 2] = t, after, following
                weights[size] = share
                size += 1
            elif share > 0.0:
                x, d = tree.exogenous[following], tree.resources[tree.edge_next[edge]]
                plays = max(2, int(share * question[2]))
                mean, spread = mean_rollout(model, settings, t, x, d, plays, generator)
                value += share * mean
                variance += share * share * spread
    out[0], out[1] = value, np.sqrt(variance)
