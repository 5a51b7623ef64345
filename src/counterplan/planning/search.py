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
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from counterplan.errors import InputError
from counterplan.planning.chance import successor
from counterplan.planning.compiled import (
    BELLMAN,
    MODEL,
    MODEL_HANDLE,
    PARTS,
    PARTS_HANDLE,
    borrowed,
)
from counterplan.planning.jit import inlined, jit
from counterplan.planning.kernel import GENERATOR
from counterplan.planning.tree import (
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
    IN_EDGES,
    KEY,
    LEAF,
    LINK_ENTROPY,
    LINK_HIGH,
    LINK_LOW,
    LINK_VALUE,
    LINK_WEIGHT,
    LOW_SUM,
    LOWEST,
    RESOURCE,
    REWARD,
    SUM,
    TOTAL,
    TRANSPOSITIONS,
    TREE,
    VALUE,
    VISITS,
    WEIGHT,
    has_room,
    new_link,
    node_number,
    place,
    resource_number,
)


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
    while tree.counts[DONE] < simulations and has_room(tree):
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
