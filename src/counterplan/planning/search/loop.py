"""The search tree, and the loop that grows it: select, expand, evaluate, back up (Algorithms 1, 2).

Actions do not touch x, so the tree has two layers. An *exogenous node* is one history of x; its
children, the x_{t+1} met after it, are stored once and shared by all actions and all resource
levels: actions are compared on the same futures. A *decision node* is an exogenous node with a
resource; different actions that lead to the same resource under the same x meet in one node
(a transposition). An *edge* is a decision node with one of its actions; a *link* is an edge with
one of the successors met there, and leads to the next decision node:

    Q(edge) = reward + sum_links weight V(node) / sum_links weight        (Eq. 3.3)

An edge remembers what each link last contributed, so one simulation updates it in O(1).

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

from collections import namedtuple
from typing import Any

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.errors import InputError
from counterplan.planning.compiled import GENERATOR, MATRIX, VECTOR, borrowed, inlined, jit
from counterplan.planning.model import State
from counterplan.planning.search.kernel import (
    BELLMAN,
    ENGINE,
    ENTROPY,
    LEAF,
    MODEL,
    PARTS,
    VALUE,
    VISITS,
    WEIGHT,
    WIDENING,
    WIDENING_POWER,
    Kernel,
)
from counterplan.planning.search.parts import sampled_returns

# Columns of nodes alone, after those in `kernel`: the bounds on its value.
LOWEST, HIGHEST = 4, 5
# Columns of edges alone: reward, and the sums over the links.
REWARD, TOTAL, SUM, ENTROPY_SUM, LOW_SUM, HIGH_SUM = 3, *range(5, 10)
# Columns of links: weight, and what the node had in its columns when it was last passed.
LINK_WEIGHT, LINK_VALUE, LINK_ENTROPY, LINK_LOW, LINK_HIGH = range(5)
# Columns of exogenous_index: first place and number of its children, places reserved, visits.
FIRST, COUNT, RESERVED, PASSED = range(4)
# Columns of node_index: exogenous node, resource, first edge (-1: actions not asked yet), edges.
EXOGENOUS, RESOURCE, FIRST_EDGE, EDGES = range(4)
# Places in counts: how many rows of each array are in use, and what happened.
IN_EXOGENOUS, IN_CHILDREN, IN_RESOURCES, IN_NODES, IN_EDGES, IN_LINKS = range(6)
DONE, DEEPEST, TRANSPOSITIONS = 6, 7, 8

# The arrays that grow: which count their rows are counted by, what they hold, and how many columns
# (X, D, A: the model's sizes; 0: one number per row).
_GROWING: dict[str, tuple[int, Any, Any]] = {
    "exogenous": (IN_EXOGENOUS, float, "X"),
    "exogenous_index": (IN_EXOGENOUS, int, 4),
    "offset": (IN_EXOGENOUS, float, 0),  # where the sequence of successors starts, in [0, 1)
    "children": (IN_CHILDREN, int, 0),  # the exogenous nodes that follow
    "probability": (IN_CHILDREN, float, 0),  # of each child given its parent, cumulated
    "resources": (IN_RESOURCES, float, "D"),  # levels met
    "nodes": (IN_NODES, float, 6),
    "node_index": (IN_NODES, int, 4),
    "edges": (IN_EDGES, float, 10),
    "edge_next": (IN_EDGES, int, 0),  # the resource after the action, -1 where not yet known
    "actions": (IN_EDGES, float, "A"),
    "links": (IN_LINKS, float, 5),
    "link_node": (IN_LINKS, int, 0),  # where the link leads
}
# Hash tables that find them have a power of two of rows (key, what it stands for), -1 where free,
# and are at most two thirds full.
_TABLES = {"resource_table": IN_RESOURCES, "node_table": IN_NODES, "link_table": IN_LINKS}
# Arrays that do not: how much is in use (9,), the most that one simulation can add (6,) and how
# many rows there are (6,); node, edge and link of the simulation under way (T, 3); by time the
# lowest and the highest return from then on (T, 2); by action of the root its simulations, their
# mean return and sum of squared deviations (m, 3).
_FIXED = {
    **dict.fromkeys(("counts", "needs", "room"), types.int64[::1]),
    "path": types.int64[:, ::1],
    "returns": MATRIX,
    "root": MATRIX,
}
_KINDS = {
    (float, False): VECTOR,
    (float, True): MATRIX,
    (int, False): types.int64[::1],
    (int, True): types.int64[:, ::1],
}
_FIELDS = {
    **_FIXED,
    **{name: _KINDS[kind, columns != 0] for name, (_, kind, columns) in _GROWING.items()},
    **dict.fromkeys(_TABLES, types.int64[:, ::1]),
}
# All arrays of a tree; rows beyond the counts are unused.
Tree: Any = namedtuple("Tree", _FIELDS)  # type: ignore[misc]
TREE = types.NamedTuple(list(_FIELDS.values()), Tree)  # type: ignore[no-untyped-call]

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: spreads keys over a table
KEY = 32  # bits of the second half of a key
STRIDE = 0.6180339887498949  # of successors: 1 / golden ratio


@inlined
def place(table, key):  # type: ignore[no-untyped-def]
    """The row of a hash table where a key is, or where it belongs."""
    mask = table.shape[0] - 1
    row = np.int64((np.uint64(key) * np.uint64(GOLDEN)) >> np.uint64(32)) & mask
    while table[row, 0] != key and table[row, 0] != -1:
        row = (row + 1) & mask
    return row


@inlined
def rounded(number):  # type: ignore[no-untyped-def]
    """The bits of a number but its last ten: sums in another order are the same resource."""
    return (np.float64(number + 0.0).view(np.int64) + 512) >> 10


@inlined
def resource_key(resource):  # type: ignore[no-untyped-def]
    """A key that resources have in common if (and, but for rare collisions, only if) they agree."""
    key = np.uint64(0)
    for i in range(resource.shape[0]):
        key = (key ^ np.uint64(rounded(resource[i]))) * np.uint64(GOLDEN)
        key ^= key >> np.uint64(29)
    return np.int64(key >> np.uint64(1))


@inlined
def resource_number(tree, resource):  # type: ignore[no-untyped-def]
    """The row of `tree.resources` that holds this resource, new if need be."""
    table = tree.resource_table
    mask = table.shape[0] - 1
    key = resource_key(resource)
    row = place(table, key)
    while table[row, 0] == key:
        number = table[row, 1]
        same = True
        for i in range(resource.shape[0]):
            if rounded(tree.resources[number, i]) != rounded(resource[i]):
                same = False
        if same:
            return number
        row = (row + 1) & mask
        while table[row, 0] != key and table[row, 0] != -1:
            row = (row + 1) & mask
    number = tree.counts[IN_RESOURCES]
    tree.counts[IN_RESOURCES] += 1
    table[row, 0] = key
    table[row, 1] = number
    for i in range(resource.shape[0]):
        tree.resources[number, i] = resource[i]
    return number


@inlined
def node_number(tree, exogenous, resource):  # type: ignore[no-untyped-def]
    """The decision node of an exogenous node and a resource; a new one has no visits."""
    key = (exogenous << KEY) | resource
    row = place(tree.node_table, key)
    if tree.node_table[row, 0] == key:
        return tree.node_table[row, 1]
    node = tree.counts[IN_NODES]
    tree.counts[IN_NODES] += 1
    tree.node_table[row, 0] = key
    tree.node_table[row, 1] = node
    tree.node_index[node, EXOGENOUS] = exogenous
    tree.node_index[node, RESOURCE] = resource
    tree.node_index[node, FIRST_EDGE] = -1
    tree.nodes[node] = 0.0
    return node


@inlined
def new_link(tree, row, key, node):  # type: ignore[no-untyped-def]
    """A link, to be found at `row` of the table, that leads to `node`; it has no weight yet."""
    link = tree.counts[IN_LINKS]
    tree.counts[IN_LINKS] += 1
    tree.link_table[row, 0] = key
    tree.link_table[row, 1] = link
    tree.link_node[link] = node
    tree.links[link] = 0.0
    return link


@inlined
def has_memory(tree):  # type: ignore[no-untyped-def]
    """Whether one more simulation surely fits."""
    fits = True
    for i in range(tree.needs.shape[0]):
        fits &= tree.counts[i] + tree.needs[i] <= tree.room[i]
    return fits


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
    """The edge that the selection part follows from a node. The model is asked for the actions of
    a node, and for the reward and the resource that an action leads to, once each."""
    index = tree.node_index[node]
    x, d = tree.exogenous[index[EXOGENOUS]], tree.resources[index[RESOURCE]]
    if index[FIRST_EDGE] < 0:
        first = tree.counts[IN_EDGES]
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
    first = index[FIRST_EDGE]
    spread = max(0.0, tree.returns[t, 1] - tree.returns[t, 0])
    edges = tree.edges[first : first + index[EDGES]]
    edge = first + parts.select(parts.settings, spread, tree.nodes[node], edges, generator)
    if tree.edge_next[edge] < 0:
        after = model.room_resource[0]
        action = tree.actions[edge]
        tree.edges[edge, REWARD] = model.step(model.parameters, t, x, d, action, after)
        tree.edge_next[edge] = resource_number(tree, after)
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
    # The returns of each action of the root, as Welford counts them.
    row = tree.root[tree.path[0, 1] - tree.node_index[0, FIRST_EDGE]]
    row[0] += 1.0
    away = value - row[1]
    row[1] += away / row[0]
    row[2] += away * (value - row[1])


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


@njit(types.int64(ENGINE, TREE, types.int64, types.int64, GENERATOR), cache=True)
def search(engine, tree, t, simulations, generator):  # type: ignore[no-untyped-def]
    """Run simulations from the tree's root at time t until they are done or the arrays are full;
    how many have been done in all."""
    return run(engine.model, engine.parts, borrowed(tree), t, simulations, borrowed(generator))


@inlined
def next_edge(tree, edge, child, following):  # type: ignore[no-untyped-def]
    """The best tried choice after an edge and one of its successors, -1 where little was tried."""
    key = (edge << KEY) | child
    row = place(tree.link_table, key)
    if tree.link_table[row, 0] != key:
        return -1
    node = tree.link_node[tree.link_table[row, 1]]
    first = tree.node_index[node, FIRST_EDGE]
    if first < 0 or tree.nodes[node, VISITS] < tree.exogenous_index[following, COUNT]:
        return -1
    best, highest = -1, -np.inf
    for edge in range(first, first + tree.node_index[node, EDGES]):
        if tree.edges[edge, VISITS] > 0.0 and tree.edges[edge, VALUE] > highest:
            best, highest = edge, tree.edges[edge, VALUE]
    return best


_QUESTION = types.UniTuple(types.int64, 3)  # type: ignore[no-untyped-call]


@njit(types.void(ENGINE, TREE, _QUESTION, GENERATOR, VECTOR), cache=True)
def follow(engine, tree, question, generator, out):  # type: ignore[no-untyped-def]
    """Value and standard error (2,) of following the search; the question is the time, the root's
    edge, and about how many rollouts to play."""
    model, tree, generator = engine.model, borrowed(tree), borrowed(generator)
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
                mean, squares = sampled_returns(model, False, t, x, d, plays, generator)
                value += share * mean
                variance += share * share * (squares / (plays * (plays - 1)))
    out[0], out[1] = value, np.sqrt(variance)


# Memory is made once, used again for every decision, and doubled where a search needs more.


def allocate(kernel: Kernel, most_children: int, bellman: bool, simulations: int) -> Any:
    """An empty tree with room to begin with; continuous x have at most `most_children`."""
    T, M = kernel.horizon, kernel.most_successors
    met = T * max(M, 1) if bellman else T
    # Where support is continuous, children that outgrow their places move to twice as many.
    children = T * max(M, 2 * most_children + 2)
    needs = np.array([T * max(M, 1), children, T, met, T * kernel.most_actions, met])
    # A simulation adds one node, and few edges and links; of resources there are never many.
    rows = needs + simulations + simulations // 4
    rows[IN_RESOURCES] = needs[IN_RESOURCES] + 64
    sizes = {"X": kernel.exogenous.size, "D": kernel.resource.size, "A": kernel.action_size}

    def memory(rows: int, columns: Any = 0, kind: Any = int) -> Any:
        """Memory that is there already: the search does not stop to get it page by page."""
        wide = sizes.get(columns, columns)
        return np.full((rows, wide) if wide else rows, 0, dtype=kind)

    growing = {name: memory(rows[i], wide, kind) for name, (i, kind, wide) in _GROWING.items()}
    tables = {
        name: memory(1 << (int(1.5 * rows[i]) - 1).bit_length(), 2) for name, i in _TABLES.items()
    }
    fixed = {
        "counts": memory(9),
        "needs": needs,
        "room": rows,
        "path": memory(T, 3),
        "returns": memory(T, 2, float),
        "root": memory(kernel.most_actions, 3, float),
    }
    return Tree(**fixed, **growing, **tables)


def grown(tree: Any) -> Any:
    """The same tree with twice the room wherever one more simulation might not fit."""
    full = tree.counts[: len(tree.room)] + tree.needs > tree.room
    larger = {"room": np.where(full, 2 * tree.room, tree.room)}
    for name, (i, *_) in _GROWING.items():
        if full[i]:
            old = getattr(tree, name)
            larger[name] = np.concatenate([old, np.empty_like(old)])
    for name, i in _TABLES.items():
        if full[i]:
            old = getattr(tree, name)
            larger[name] = np.full((2 * len(old), 2), -1)
            _refill(larger[name], old)
    return tree._replace(**larger)


def plant(tree: Any, state: State) -> None:
    """Empty the tree and make a state its root: exogenous node 0, resource 0, decision node 0."""
    tree.counts[:] = 0
    for name in _TABLES:
        getattr(tree, name).fill(-1)
    tree.returns[:] = np.inf, -np.inf
    tree.root[:] = 0.0
    tree.exogenous[0] = state.exogenous
    tree.exogenous_index[0] = 0
    tree.resources[0] = state.resource
    tree.nodes[0] = 0.0
    tree.node_index[0] = (0, 0, -1, 0)
    tree.counts[[IN_EXOGENOUS, IN_RESOURCES, IN_NODES]] = 1


@njit(cache=True)
def _refill(table, old):  # type: ignore[no-untyped-def]
    """Enter every key of an old hash table into a new one."""
    for row in range(old.shape[0]):
        if old[row, 0] != -1:
            new = place(table, old[row, 0])
            while table[new, 0] != -1:
                new = (new + 1) & (table.shape[0] - 1)
            table[new, 0] = old[row, 0]
            table[new, 1] = old[row, 1]
