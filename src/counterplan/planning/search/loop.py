"""The search tree, and the loop that grows it: select, expand, evaluate, back up (Algorithms 1, 2).

Actions do not touch x, so the tree has two layers. An *exogenous node* is one history of x; its
children, the x_{t+1} met after it, are stored once and shared by all actions and all resource
levels: actions are compared on the same futures. A *decision node* is an exogenous node with a
resource; different actions that lead to the same resource under the same x meet in one node
(a transposition). An *edge* is a decision node with one of its actions; a *link* is an edge with
one of the successors met there, and leads to the next decision node:

    Q(edge) = reward + sum_links weight V(node) / sum_links weight        (Eq. 3.3)

A link remembers what it last contributed, so one simulation updates an edge in O(1).

A large tree is waited for, and several simulations wait at once: they walk step by step together
(`descend`), each asks for what it will read next and lets the others go first. They see each other:
a visit counts when an edge is chosen (Liu et al. 2020, `Watch the unobserved`), its return when it
is known. What one simulation reads lies in few cache lines. A row holds small
whole numbers beside its floats (`whole`), `edges` have what selection and backup scan and `sums`
the rest, and an exogenous node is made when a simulation first comes by: of the successors written
down (`support`), most are never met.

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

import math
from collections import namedtuple
from typing import Any

import numpy as np
from numba import types

from counterplan.core.compiled import fetch_ahead, fetch_line
from counterplan.errors import InputError
from counterplan.planning.compiled import (
    GENERATOR,
    MATRIX,
    VECTOR,
    borrowed,
    inlined,
    outer,
    set_whole,
    whole,
)
from counterplan.planning.model import State
from counterplan.planning.search.kernel import (
    BELLMAN,
    ENGINE,
    ENTROPY,
    LEAF,
    VALUE,
    VISITS,
    WEIGHT,
    WIDENING,
    WIDENING_POWER,
    Kernel,
)
from counterplan.planning.search.parts import highest_bound, leaf_value, mean_of, sampled_returns

# Columns of nodes alone, after those in `kernel`: the bounds on its value; then whole numbers, of
# which a column has two: exogenous node, resource, first edge (NONE: actions not asked yet), edges.
LOWEST, HIGHEST = 4, 5
EXOGENOUS, RESOURCE, FIRST_EDGE, EDGES = range(12, 16)
# Columns of sums: reward, and the sums over the links; the resource after the action, or NONE.
REWARD, TOTAL, SUM, LOW_SUM, HIGH_SUM = range(5)
NEXT = 10
# Columns of links: whose it is (NONE: a free row), where it leads, how often it was passed; value
# and entropy of the node when that last happened. They are their own hash table.
EDGE, CHILD, NODE, TIMES = range(4)
LINK_VALUE, LINK_ENTROPY = 2, 3
# Columns of exogenous: where in [0, 1) the sequence of successors starts; first place and number of
# its children, places reserved (EVEN: all successors are equally likely), visits; then x.
OFFSET, X = 0, 3
FIRST, COUNT, RESERVED, PASSED = range(2, 6)
NONE = 2**32 - 1
EVEN = 1
# Rows of counts: how many rows of each array are in use, the most that one simulation can add, and
# how many there are. Its columns, and those of the first row that tell what happened.
USED, NEEDS, ROOM = range(3)
IN_EXOGENOUS, IN_CHILDREN, IN_RESOURCES, IN_NODES, IN_EDGES, IN_LINKS = range(6)
DONE, DEEPEST, TRANSPOSITIONS = 6, 7, 8

# The arrays that grow: which count their rows are counted by, what they hold, and how many columns
# (X, D, A: the model's sizes; 0: one number per row).
_GROWING: dict[str, tuple[int, Any, Any]] = {
    "exogenous": (IN_EXOGENOUS, float, "3+X"),
    "children": (IN_CHILDREN, np.uint32, 0),  # the exogenous nodes that follow; NONE: not yet met
    "probability": (IN_CHILDREN, float, 0),  # of each child given its parent, cumulated
    "support": (IN_CHILDREN, float, "X"),  # x of each child
    "resources": (IN_RESOURCES, float, "D"),  # levels met
    "nodes": (IN_NODES, float, 8),
    "edges": (IN_EDGES, float, 4),
    "sums": (IN_EDGES, float, 6),
    "actions": (IN_EDGES, float, "A"),
}
# Hash tables have a power of two of rows, NONE where free, and are at most two thirds full.
# Resources are few: their rows keep the key, too.
_TABLES = {"resource_table": IN_RESOURCES, "node_table": IN_NODES, "links": IN_LINKS}
# Arrays that do not grow: node, edge and link (first, the child) of each step of the simulations
# under way (walkers T, 3); how many edges each passed (0: it still walks) and the value found there
# (walkers, 2); by time the lowest and the highest return from then on (T, 2); by action of the root
# its simulations, their mean return and sum of squared deviations (m, 3).
_FIXED = {
    "counts": types.int64[:, ::1],
    "path": types.int64[:, ::1],
    "returns": MATRIX,
    "root": MATRIX,
    "walks": MATRIX,
}
_FIELDS = {
    **_FIXED,
    **{
        name: types.uint32[::1] if kind is np.uint32 else (MATRIX if columns else VECTOR)
        for name, (_, kind, columns) in _GROWING.items()
    },
    "resource_table": types.int64[:, ::1],
    "node_table": types.uint32[:, ::1],
    "links": MATRIX,
}
# All arrays of a tree; rows beyond the counts are unused.
Tree: Any = namedtuple("Tree", _FIELDS)  # type: ignore[misc]
TREE = types.NamedTuple(list(_FIELDS.values()), Tree)  # type: ignore[no-untyped-call]

# Simulations for which there is plenty of room from the start; from so many on several are under
# way at once.
FEW, WALKERS = 10_000, 8
# Bytes that a processor fetches at once.
LINE = 64
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: spreads keys over a table
STEP = 0x51ED270B7E9A13  # likewise, of a second key
STRIDE = 0.6180339887498949  # of successors: 1 / golden ratio


@inlined
def spread(key):  # type: ignore[no-untyped-def]
    """Bits of a key that differ for keys that are near each other."""
    return np.int64((np.uint64(key) * np.uint64(GOLDEN)) >> np.uint64(33))


@inlined
def first_place(table, key, more):  # type: ignore[no-untyped-def]
    """Where in a hash table the search for a key begins."""
    return spread(key + more * STEP) & (table.shape[0] - 1)


@inlined
def node_place(tree, parent, child, resource):  # type: ignore[no-untyped-def]
    """Where in its table a node is, or belongs."""
    table = tree.node_table
    place = first_place(table, (parent << 32) | child, resource)
    while table[place, 3] != NONE:
        same = table[place, 0] == parent and table[place, 1] == child
        if same and table[place, 2] == resource:
            return place
        place = (place + 1) & (table.shape[0] - 1)
    return place


@inlined
def link_place(links, edge, child):  # type: ignore[no-untyped-def]
    """The row where a link is, or belongs."""
    mask = links.shape[0] - 1
    link = first_place(links, (edge << 32) | child, np.int64(0))
    while True:
        owner = whole(links, link, EDGE)
        if owner == NONE or (owner == edge and whole(links, link, CHILD) == child):
            return link
        link = (link + 1) & mask


@inlined
def rounded(number):  # type: ignore[no-untyped-def]
    """The bits of a number but its last ten: sums in another order are the same resource."""
    return (np.float64(number + 0.0).view(np.int64) + 512) >> 10


@inlined
def resource_number(tree, resource):  # type: ignore[no-untyped-def]
    """The row of `tree.resources` that holds this resource, new if need be."""
    table = tree.resource_table
    mask = table.shape[0] - 1
    bits = np.uint64(0)
    for i in range(resource.shape[0]):
        bits = (bits ^ np.uint64(rounded(resource[i]))) * np.uint64(GOLDEN)
        bits ^= bits >> np.uint64(29)
    # Resources that agree have this in common, and but for rare collisions only they.
    key = np.int64(bits >> np.uint64(1))
    row = spread(key) & mask
    while table[row, 0] != -1:
        same = table[row, 0] == key
        if same:
            number = table[row, 1]
            for i in range(resource.shape[0]):
                same &= rounded(tree.resources[number, i]) == rounded(resource[i])
            if same:
                return number
        row = (row + 1) & mask
    number = tree.counts[USED, IN_RESOURCES]
    tree.counts[USED, IN_RESOURCES] += 1
    table[row, 0] = key
    table[row, 1] = number
    for i in range(resource.shape[0]):
        tree.resources[number, i] = resource[i]
    return number


@inlined
def node_number(tree, parent, child, resource):  # type: ignore[no-untyped-def]
    """The decision node of a resource after a child of an exogenous node; a new one has no
    visits."""
    place = node_place(tree, parent, child, resource)
    if tree.node_table[place, 3] != NONE:
        return np.int64(tree.node_table[place, 3])
    node = tree.counts[USED, IN_NODES]
    tree.counts[USED, IN_NODES] += 1
    enter(tree.node_table, place, parent, child, resource, node)
    for column in range(6):
        tree.nodes[node, column] = 0.0
    set_whole(tree.nodes, node, EXOGENOUS, following(tree, parent, child))
    set_whole(tree.nodes, node, RESOURCE, resource)
    set_whole(tree.nodes, node, FIRST_EDGE, NONE)
    set_whole(tree.nodes, node, EDGES, 0)
    return node


@inlined
def enter(table, place, parent, child, resource, node):  # type: ignore[no-untyped-def]
    """Fill a row of the table of nodes."""
    table[place, 0], table[place, 1] = parent, child
    table[place, 2], table[place, 3] = resource, node


@inlined
def set_link(tree, link, edge, child, node):  # type: ignore[no-untyped-def]
    """A link that was never passed."""
    tree.counts[USED, IN_LINKS] += 1
    set_whole(tree.links, link, EDGE, edge)
    set_whole(tree.links, link, CHILD, child)
    set_whole(tree.links, link, NODE, node)
    set_whole(tree.links, link, TIMES, 0)
    tree.links[link, LINK_VALUE] = 0.0
    tree.links[link, LINK_ENTROPY] = 0.0


@inlined
def has_memory(tree):  # type: ignore[no-untyped-def]
    """Whether one more simulation surely fits."""
    fits = True
    for i in range(6):
        fits &= tree.counts[USED, i] + tree.counts[NEEDS, i] <= tree.counts[ROOM, i]
    return fits


@inlined
def expand_support(model, tree, parent, t):  # type: ignore[no-untyped-def]
    """Write all successors of a node with finite support, their probabilities cumulated."""
    place = tree.counts[USED, IN_CHILDREN]
    x, chances = tree.exogenous[parent, X:], tree.probability[place:]
    M = model.successors(model.parameters, t, x, tree.support[place:], chances)
    if M < 1:
        raise InputError("the kernel's successors gives none, though its most_successors is not 0")
    even, total = True, 0.0
    for c in range(M):
        tree.children[place + c] = NONE
        even &= chances[c] == chances[0]
        total += chances[c]
        chances[c] = total
    tree.counts[USED, IN_CHILDREN] += M
    set_whole(tree.exogenous, parent, FIRST, place)
    set_whole(tree.exogenous, parent, COUNT, M)
    set_whole(tree.exogenous, parent, RESERVED, EVEN if even else 0)


@inlined
def widen(model, tree, parent, t, generator):  # type: ignore[no-untyped-def]
    """One more child, drawn; children stay in one run of places, moved when it is full."""
    count, reserved = whole(tree.exogenous, parent, COUNT), whole(tree.exogenous, parent, RESERVED)
    first = whole(tree.exogenous, parent, FIRST)
    if count == reserved:
        place = tree.counts[USED, IN_CHILDREN]
        for c in range(count):
            tree.children[place + c] = tree.children[first + c]
            for i in range(tree.support.shape[1]):
                tree.support[place + c, i] = tree.support[first + c, i]
        first, reserved = place, max(2, 2 * count)
        set_whole(tree.exogenous, parent, FIRST, first)
        set_whole(tree.exogenous, parent, RESERVED, reserved)
        tree.counts[USED, IN_CHILDREN] += reserved
    x = tree.exogenous[parent, X:]
    model.draw(model.parameters, t, x, generator, tree.support[first + count])
    tree.children[first + count] = NONE
    set_whole(tree.exogenous, parent, COUNT, count + 1)
    return count


@inlined
def successor(model, settings, tree, parent, t, visits, generator):  # type: ignore[no-untyped-def]
    """Which child of an exogenous node an edge meets on this visit."""
    passed = whole(tree.exogenous, parent, PASSED) + 1
    set_whole(tree.exogenous, parent, PASSED, passed)
    if passed == 1:
        tree.exogenous[parent, OFFSET] = generator.random()
    finite, count = model.finite, whole(tree.exogenous, parent, COUNT)
    if finite and count == 0:
        expand_support(model, tree, parent, t)
        count = whole(tree.exogenous, parent, COUNT)
    is_wider = not finite and count < settings[WIDENING] * passed ** settings[WIDENING_POWER]
    # A tree that is kept is passed more often than there are simulations in a search.
    if is_wider and count < tree.counts[NEEDS, IN_CHILDREN] // tree.path.shape[0] // 2 - 1:
        return widen(model, tree, parent, t, generator)
    u = tree.exogenous[parent, OFFSET] + visits * STRIDE
    u -= np.floor(u)
    child = int(u * count)
    if finite and whole(tree.exogenous, parent, RESERVED) != EVEN:
        first = whole(tree.exogenous, parent, FIRST)
        while child > 0 and u < tree.probability[first + child - 1]:
            child -= 1
        while child < count - 1 and u >= tree.probability[first + child]:
            child += 1
    return child


@inlined
def chance(model, tree, parent, child):  # type: ignore[no-untyped-def]
    """The probability of a child; of drawn ones, that of each."""
    if not model.finite:
        return 1.0 / whole(tree.exogenous, parent, COUNT)
    place = whole(tree.exogenous, parent, FIRST) + child
    return tree.probability[place] - (tree.probability[place - 1] if child > 0 else 0.0)


@inlined
def following(tree, parent, child):  # type: ignore[no-untyped-def]
    """The exogenous node of a child, new if need be."""
    place = whole(tree.exogenous, parent, FIRST) + child
    if tree.children[place] != NONE:
        return np.int64(tree.children[place])
    number = tree.counts[USED, IN_EXOGENOUS]
    tree.counts[USED, IN_EXOGENOUS] += 1
    tree.children[place] = number
    for column in range(X):
        tree.exogenous[number, column] = 0.0
    for i in range(tree.support.shape[1]):
        tree.exogenous[number, X + i] = tree.support[place, i]
    return number


@inlined
def evaluate(model, parts, tree, node, t, generator):  # type: ignore[no-untyped-def]
    """Value a node seen for the first time: its first visit."""
    x = tree.exogenous[whole(tree.nodes, node, EXOGENOUS), X:]
    d = tree.resources[whole(tree.nodes, node, RESOURCE)]
    known = model.room_bounds
    known[0], known[1] = -np.inf, np.inf
    value = leaf_value(model, parts, t, x, d, generator)
    tree.nodes[node, LOWEST], tree.nodes[node, HIGHEST] = known[0], known[1]
    tree.nodes[node, VISITS] = 1.0
    tree.nodes[node, VALUE] = value
    tree.nodes[node, LEAF] = value
    return value


@inlined
def renew(tree, edge, link, before, weight):  # type: ignore[no-untyped-def]
    """Let a link count with this weight instead, and with what its node is worth now."""
    node = whole(tree.links, link, NODE)
    value, entropy = tree.nodes[node, VALUE], tree.nodes[node, ENTROPY]
    was = tree.links[link, LINK_VALUE]
    # A node without a bound is bounded by what it is worth itself.
    low, high = tree.nodes[node, LOWEST], tree.nodes[node, HIGHEST]
    low_was = was if np.isinf(low) else low
    low = value if np.isinf(low) else low
    high_was = max(low_was, was) if np.isinf(high) else high
    high = max(low, value) if np.isinf(high) else high
    total = tree.sums[edge, TOTAL]
    entropies = tree.edges[edge, ENTROPY] * total - before * tree.links[link, LINK_ENTROPY]
    total += weight - before
    tree.sums[edge, TOTAL] = total
    tree.sums[edge, SUM] += weight * value - before * was
    tree.sums[edge, LOW_SUM] += weight * low - before * low_was
    tree.sums[edge, HIGH_SUM] += weight * high - before * high_was
    tree.edges[edge, ENTROPY] = (entropies + weight * entropy) / total
    tree.links[link, LINK_VALUE] = value
    tree.links[link, LINK_ENTROPY] = entropy


@inlined
def bounded_mean(sums):  # type: ignore[no-untyped-def]
    """The mean over the links, within that of their bounds."""
    within = min(max(sums[SUM], sums[LOW_SUM]), sums[HIGH_SUM])
    return within / sums[TOTAL]


@inlined
def meet_all(model, parts, tree, parent, edge, t, generator):  # type: ignore[no-untyped-def]
    """Value every successor of an edge tried for the first time; their mean by probability."""
    for child in range(whole(tree.exogenous, parent, COUNT)):
        weight = chance(model, tree, parent, child)
        if weight > 0.0:
            node = node_number(tree, parent, child, whole(tree.sums, edge, NEXT))
            if tree.nodes[node, VISITS] == 0.0:
                evaluate(model, parts, tree, node, t, generator)
            else:
                tree.counts[USED, TRANSPOSITIONS] += 1
            link = link_place(tree.links, edge, child)
            set_link(tree, link, edge, child, node)
            set_whole(tree.links, link, TIMES, 1)
            renew(tree, edge, link, 0.0, weight)
    return bounded_mean(tree.sums[edge])


@inlined
def ask_actions(model, tree, node, t, x, d):  # type: ignore[no-untyped-def]
    """Edges for all actions of a node, none of them tried."""
    first = tree.counts[USED, IN_EDGES]
    m = model.actions(model.parameters, t, x, d, tree.actions[first:])
    if m < 1 or m > model.room_actions.shape[0]:
        raise InputError("the kernel's actions gives none, or more than its most_actions")
    for edge in range(first, first + m):
        for column in range(3):
            tree.edges[edge, column] = 0.0
        tree.edges[edge, WEIGHT] = 1.0
        for column in range(5):
            tree.sums[edge, column] = 0.0
        set_whole(tree.sums, edge, NEXT, NONE)
    set_whole(tree.nodes, node, FIRST_EDGE, first)
    set_whole(tree.nodes, node, EDGES, m)
    tree.counts[USED, IN_EDGES] += m
    return first


@inlined
def choose(model, parts, tree, node, t, generator):  # type: ignore[no-untyped-def]
    """The edge that the selection part follows from a node. The model is asked for the actions of
    a node, and for the reward and the resource that an action leads to, once each."""
    exogenous, first = whole(tree.nodes, node, EXOGENOUS), whole(tree.nodes, node, FIRST_EDGE)
    x, d = tree.exogenous[exogenous, X:], tree.resources[whole(tree.nodes, node, RESOURCE)]
    if first == NONE:
        first = ask_actions(model, tree, node, t, x, d)
    m = whole(tree.nodes, node, EDGES)
    wide = max(0.0, tree.returns[t, 1] - tree.returns[t, 0])
    if parts.by_bounds:
        visits = tree.nodes[node, VISITS]
        edge = highest_bound(parts.settings, wide, visits, tree.edges, first, first + m)
    else:
        edges = tree.edges[first : first + m]
        edge = first + parts.select(parts.settings, wide, tree.nodes[node], edges, generator)
    if whole(tree.sums, edge, NEXT) == NONE:
        after = model.room_resource[0]
        action = tree.actions[edge]
        tree.sums[edge, REWARD] = model.step(model.parameters, t, x, d, action, after)
        set_whole(tree.sums, edge, NEXT, resource_number(tree, after))
    return edge


@inlined
def set_out(model, parts, tree, step, t, generator):  # type: ignore[no-untyped-def]
    """Choose an edge and, before the end, a child at this step of a path. The visit counts at once:
    simulations on their way see each other; what it brings is expected to be what is known."""
    node = tree.path[step, 0]
    edge = choose(model, parts, tree, node, t, generator)
    tree.path[step, 1] = edge
    tree.path[step, 2] = -1
    visits = tree.edges[edge, VISITS]
    tree.edges[edge, VISITS] = visits + 1.0
    if visits == 0.0:
        tree.edges[edge, VALUE] = tree.nodes[node, VALUE]
    tree.nodes[node, VISITS] += 1.0
    if t + 1 < model.horizon:
        parent = whole(tree.nodes, node, EXOGENOUS)
        tree.path[step, 2] = successor(model, parts.settings, tree, parent, t, visits, generator)


@inlined
def arrive(model, parts, tree, step, t, generator):  # type: ignore[no-untyped-def]
    """The node after this step of a path, at time t, or NONE where the path ends; and the value
    found there."""
    node, edge, child = tree.path[step, 0], tree.path[step, 1], tree.path[step, 2]
    if t == model.horizon:
        return NONE, 0.0
    parent = whole(tree.nodes, node, EXOGENOUS)
    if model.finite and parts.settings[BELLMAN] > 0.0 and tree.sums[edge, TOTAL] == 0.0:
        tree.path[step, 2] = -1
        return NONE, meet_all(model, parts, tree, parent, edge, t, generator)
    link = link_place(tree.links, edge, child)
    tree.path[step, 2] = link
    if whole(tree.links, link, EDGE) != NONE:
        return whole(tree.links, link, NODE), 0.0
    after, nodes = whole(tree.sums, edge, NEXT), tree.counts[USED, IN_NODES]
    after = node_number(tree, parent, child, after)
    set_link(tree, link, edge, child, after)
    if after == nodes:
        return NONE, evaluate(model, parts, tree, after, t, generator)
    tree.counts[USED, TRANSPOSITIONS] += 1
    return after, 0.0


@inlined
def look_ahead(tree, node):  # type: ignore[no-untyped-def]
    """Ask for what a choice at a node reads."""
    first = whole(tree.nodes, node, FIRST_EDGE)
    fetch_line(tree.exogenous, whole(tree.nodes, node, EXOGENOUS))
    if first != NONE:
        fetch_ahead(tree.edges, first)
        fetch_ahead(tree.sums, first)


@inlined
def descend(model, parts, tree, t, generator):  # type: ignore[no-untyped-def]
    """Walk to a node seen for the first time, or to the end; the number of edges passed and the
    value found there."""
    node = depth = np.int64(0)  # no literal: all that takes it would be compiled twice
    while True:
        look_ahead(tree, node)
        tree.path[depth, 0] = node
        set_out(model, parts, tree, depth, t, generator)
        t += 1
        node, value = arrive(model, parts, tree, depth, t, generator)
        depth += 1
        if node == NONE:
            return depth, value


@inlined
def descend_together(model, parts, tree, t, walkers, generator):  # type: ignore[no-untyped-def]
    """Likewise some simulations, step by step together: each asks for what it will read next, and
    the others go on while it waits."""
    T, level, left = model.horizon, 0, walkers
    for walker in range(walkers):
        tree.path[walker * T, 0] = 0
        tree.walks[walker, 0] = 0.0
    while left > 0:
        for walker in range(walkers):
            if tree.walks[walker, 0] == 0.0:
                look_ahead(tree, tree.path[walker * T + level, 0])
        t += 1
        for walker in range(walkers):
            if tree.walks[walker, 0] == 0.0:
                step = walker * T + level
                set_out(model, parts, tree, step, t - 1, generator)
                edge, child = tree.path[step, 1], max(0, tree.path[step, 2])
                parent = whole(tree.nodes, tree.path[step, 0], EXOGENOUS)
                key, after = (parent << 32) | child, whole(tree.sums, edge, NEXT)
                fetch_line(tree.links, first_place(tree.links, (edge << 32) | child, np.int64(0)))
                fetch_line(tree.node_table, first_place(tree.node_table, key, after))
                fetch_line(tree.children, whole(tree.exogenous, parent, FIRST) + child)
        for walker in range(walkers):
            if tree.walks[walker, 0] == 0.0:
                step = walker * T + level
                node, value = arrive(model, parts, tree, step, t, generator)
                if node == NONE:
                    tree.walks[walker, 0], tree.walks[walker, 1] = level + 1, value
                    left -= 1
                else:
                    tree.path[step + 1, 0] = node
                    fetch_line(tree.nodes, node)
        level += 1


@inlined
def back_up(model, parts, tree, t, start, depth, value):  # type: ignore[no-untyped-def]
    """Value every edge and node on the path that starts there anew, from the last to the root."""
    bellman = parts.settings[BELLMAN] > 0.0
    for level in range(depth - 1, -1, -1):
        step = start + level
        node, edge, link = tree.path[step, 0], tree.path[step, 1], tree.path[step, 2]
        if link >= 0:
            times = whole(tree.links, link, TIMES)
            before, weight = float(times), float(times + 1)
            if bellman:
                weight = 1.0
                if model.finite:
                    parent, child = (
                        whole(tree.nodes, node, EXOGENOUS),
                        whole(tree.links, link, CHILD),
                    )
                    weight = chance(model, tree, parent, child)
                before = weight if times > 0 else 0.0
            set_whole(tree.links, link, TIMES, times + 1)
            renew(tree, edge, link, before, weight)
        reward = tree.sums[edge, REWARD]
        tree.edges[edge, VALUE] = reward
        if tree.sums[edge, TOTAL] > 0.0:
            tree.edges[edge, VALUE] += bounded_mean(tree.sums[edge])
        value += reward
        tree.returns[t + level, 0] = min(tree.returns[t + level, 0], value)
        tree.returns[t + level, 1] = max(tree.returns[t + level, 1], value)
        first, m = whole(tree.nodes, node, FIRST_EDGE), whole(tree.nodes, node, EDGES)
        if parts.by_mean:
            tree.nodes[node, VALUE] = mean_of(tree.nodes[node], tree.edges, first, first + m)
        else:
            parts.backup(parts.settings, tree.nodes[node], tree.edges[first : first + m])
    # The returns of each action of the root, as Welford counts them.
    row = tree.path[start, 1] - whole(tree.nodes, 0, FIRST_EDGE)
    tree.root[row, 0] += 1.0
    away = value - tree.root[row, 1]
    tree.root[row, 1] += away / tree.root[row, 0]
    tree.root[row, 2] += away * (value - tree.root[row, 1])
    tree.counts[USED, DONE] += 1
    tree.counts[USED, DEEPEST] = max(tree.counts[USED, DEEPEST], depth)


@inlined
def is_as_made(tree):  # type: ignore[no-untyped-def]
    """Always so; but from here on the compiler knows the widths, and multiplies by no other."""
    known = tree.nodes.shape[1] == 8 and tree.edges.shape[1] == 4 and tree.links.shape[1] == 4
    known = known and tree.sums.shape[1] == 6 and tree.counts.shape[1] == 9
    known = known and tree.path.shape[1] == 3 and tree.node_table.shape[1] == 4
    return known and tree.returns.shape[1] == 2 and tree.root.shape[1] == 3


@outer(types.int64(ENGINE, TREE, types.int64, types.int64, GENERATOR))
def search(engine, tree, t, simulations, generator):  # type: ignore[no-untyped-def]
    """Run simulations from the tree's root at time t until they are done or the arrays are full,
    one by one; how many have been done in all."""
    model, parts, tree = borrowed(engine.model), borrowed(engine.parts), borrowed(tree)
    generator = borrowed(generator)
    if not is_as_made(tree):
        return -1
    if tree.nodes[0, VISITS] == 0.0:
        evaluate(model, parts, tree, np.int64(0), t, generator)
    while tree.counts[USED, DONE] < simulations and has_memory(tree):
        depth, value = descend(model, parts, tree, t, generator)
        back_up(model, parts, tree, t, 0, depth, value)
    return tree.counts[USED, DONE]


@outer
def search_together(engine, tree, t, simulations, generator):  # type: ignore[no-untyped-def]
    """`search`, but several at once; compiled apart, when first asked for: one by one is faster
    while a tree is small."""
    model, parts, tree = borrowed(engine.model), borrowed(engine.parts), borrowed(tree)
    generator = borrowed(generator)
    if not is_as_made(tree):
        return -1
    if tree.nodes[0, VISITS] == 0.0:
        evaluate(model, parts, tree, np.int64(0), t, generator)
    while tree.counts[USED, DONE] < simulations and has_memory(tree):
        walkers = min(tree.walks.shape[0], simulations - tree.counts[USED, DONE])
        descend_together(model, parts, tree, t, walkers, generator)
        for walker in range(walkers):
            depth, value = int(tree.walks[walker, 0]), tree.walks[walker, 1]
            back_up(model, parts, tree, t, walker * model.horizon, depth, value)
    return tree.counts[USED, DONE]


@inlined
def next_edge(tree, parent, edge, child):  # type: ignore[no-untyped-def]
    """The best tried choice after an edge and one of its successors, -1 where little was tried."""
    link = link_place(tree.links, edge, child)
    if whole(tree.links, link, EDGE) == NONE:
        return -1
    node = whole(tree.links, link, NODE)
    first = whole(tree.nodes, node, FIRST_EDGE)
    exogenous = whole(tree.nodes, node, EXOGENOUS)
    if first == NONE or tree.nodes[node, VISITS] < whole(tree.exogenous, exogenous, COUNT):
        return -1
    best, highest = -1, -np.inf
    for after in range(first, first + whole(tree.nodes, node, EDGES)):
        if tree.edges[after, VISITS] > 0.0 and tree.edges[after, VALUE] > highest:
            best, highest = after, tree.edges[after, VALUE]
    return best


_QUESTION = types.UniTuple(types.int64, 3)  # type: ignore[no-untyped-call]


@outer(types.void(ENGINE, TREE, _QUESTION, GENERATOR, MATRIX, VECTOR))
def follow(engine, tree, question, generator, waiting, out):  # type: ignore[no-untyped-def]
    """Value and standard error (2,) of following the search; the question is the time, the root's
    edge, and about how many rollouts to play. Depth first: at every time at most the successors of
    one node wait, with their edge, exogenous node, time and weight (waiting, 4)."""
    model, parts, tree = borrowed(engine.model), borrowed(engine.parts), borrowed(tree)
    generator, waiting = borrowed(generator), borrowed(waiting)
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = question[1], 0, question[0], 1.0
    size, value, variance = 1, 0.0, 0.0
    while size > 0:
        size -= 1
        edge, parent, t = int(waiting[size, 0]), int(waiting[size, 1]), int(waiting[size, 2]) + 1
        weight = waiting[size, 3]
        value += weight * tree.sums[edge, REWARD]
        children = 0 if t == model.horizon else whole(tree.exogenous, parent, COUNT)
        for child in range(children):
            share = weight * chance(model, tree, parent, child)
            after = next_edge(tree, parent, edge, child)
            place = whole(tree.exogenous, parent, FIRST) + child
            if after >= 0:
                waiting[size, 0], waiting[size, 1] = after, tree.children[place]
                waiting[size, 2], waiting[size, 3] = t, share
                size += 1
            elif share > 0.0:
                state = t, tree.support[place], tree.resources[whole(tree.sums, edge, NEXT)]
                plays = max(2, int(share * question[2]))
                mean, squares = sampled_returns(model, parts, False, state, plays, generator)
                value += share * mean
                variance += share * share * (squares / (plays * (plays - 1)))
    out[0], out[1] = value, np.sqrt(variance)


def follow_room(tree: Any) -> Any:
    """Memory for `follow`."""
    counts = tree.exogenous[: tree.counts[USED, IN_EXOGENOUS]].view(np.uint32)[:, COUNT]
    return np.empty((len(tree.path) * int(counts.max()) + 1, 4))


def root_edges(tree: Any) -> tuple[int, int]:
    """The first edge of the root, and how many there are."""
    first, m = tree.nodes[0].view(np.uint32)[[FIRST_EDGE, EDGES]]
    return int(first), int(m)


# Memory is made once, used again for every decision, and doubled where a search needs more.


def allocate(
    kernel: Kernel, most_children: int, bellman: bool, simulations: int, together: bool = False
) -> Any:
    """An empty tree with room to begin with; continuous x have at most `most_children`."""
    T, M = kernel.horizon, kernel.most_successors
    met = T * max(M, 1) if bellman else T
    # Where support is continuous, children that outgrow their places move to twice as many.
    children = T * max(M, 2 * most_children + 2)
    needs = np.array([met, children, T, met, T * kernel.most_actions, met])
    walkers = max(1, min(WALKERS, simulations // needs.max())) if together else 1
    needs *= walkers
    # A simulation adds at most one node without BELLMAN, and up to two edges and links (ways to
    # nodes that are known); of resources there are never many. A table that must grow takes code of
    # its own to fill it again, which a first, small search should not need; a large table that is
    # larger than need be is slower.
    rows = needs + simulations + simulations // 4
    rows[[IN_EDGES, IN_LINKS]] += max(0, min(simulations, FEW) - simulations // 4)
    rows[IN_RESOURCES] = needs[IN_RESOURCES] + 250
    counts = np.zeros((3, 9), dtype=np.int64)
    counts[NEEDS, :6], counts[ROOM, :6] = needs, rows
    sizes = {"X": kernel.exogenous.size, "D": kernel.resource.size, "A": kernel.action_size}
    sizes["3+X"] = 3 + sizes["X"]

    def memory(rows: int, columns: Any, kind: Any) -> Any:
        wide = sizes.get(columns, columns)
        return _lines((rows, wide) if wide else (rows,), kind)

    growing = {name: memory(rows[i], wide, kind) for name, (i, kind, wide) in _GROWING.items()}
    tables = {name: _table(name, int(1.5 * rows[i])) for name, i in _TABLES.items()}
    counts[ROOM, IN_LINKS] = 2 * len(tables["links"]) // 3
    fixed = {
        "counts": counts,
        "path": np.zeros((walkers * T, 3), dtype=np.int64),
        "walks": np.zeros((walkers, 2)),
        "returns": np.zeros((T, 2)),
        "root": np.zeros((kernel.most_actions, 3)),
    }
    return Tree(**fixed, **growing, **tables)


def _lines(shape: tuple[int, ...], kind: Any) -> Any:
    """Zeros that begin where a cache line does: a row that lies in two is waited for twice."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.zeros(size + LINE, dtype=np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + size].view(kind).reshape(shape)


def _table(name: str, rows: int) -> Any:
    """An empty hash table with at least so many rows."""
    size = 1 << (rows - 1).bit_length()
    if name == "resource_table":
        return np.full((size, 2), -1)
    table = _lines((size, 4 if name == "node_table" else 8), np.uint32)
    table.fill(NONE)
    return table if name == "node_table" else table.view(np.float64)


def grown(tree: Any) -> Any:
    """The same tree with twice the room wherever one more simulation might not fit."""
    used, needs, room = tree.counts[:, :6]
    full = used + needs > room
    tree.counts[ROOM, :6] = np.where(full, 2 * room, room)
    larger = {}
    for name, (i, *_) in _GROWING.items():
        if full[i]:
            old = getattr(tree, name)
            larger[name] = _lines((2 * len(old), *old.shape[1:]), old.dtype)
            larger[name][: len(old)] = old
    for name, i in _TABLES.items():
        if full[i]:
            larger[name] = _table(name, 2 * len(getattr(tree, name)))
    result, tables = tree._replace(**larger), [bool(full[i]) for i in _TABLES.values()]
    if any(tables):
        _refill(result, tree.node_table, tree.links, *tables)
    return result


def plant(tree: Any, state: State) -> None:
    """Empty the tree and make a state its root: exogenous node 0, resource 0, decision node 0."""
    tree.counts[USED] = 0
    tree.resource_table.fill(-1)
    tree.node_table.fill(NONE)
    tree.links.view(np.uint32).fill(NONE)
    tree.returns[:] = np.inf, -np.inf
    tree.root[:] = 0.0
    tree.exogenous[0, :X] = 0.0
    tree.exogenous[0, X:] = state.exogenous
    tree.resources[0] = state.resource
    tree.nodes[0] = 0.0
    tree.nodes[0].view(np.uint32)[FIRST_EDGE] = NONE
    tree.counts[USED, [IN_EXOGENOUS, IN_RESOURCES, IN_NODES]] = 1


@outer
def _refill(tree, table, old, resources, nodes, links):  # type: ignore[no-untyped-def]
    """Enter what there is into hash tables that are new."""
    tree, table, old = borrowed(tree), borrowed(table), borrowed(old)
    if resources:
        used = tree.counts[USED, IN_RESOURCES]
        tree.counts[USED, IN_RESOURCES] = 1  # the root's is in no table
        for number in range(1, used):
            resource_number(tree, tree.resources[number])
    if nodes:
        for row in range(table.shape[0]):
            parent, child = np.int64(table[row, 0]), np.int64(table[row, 1])
            resource, node = np.int64(table[row, 2]), np.int64(table[row, 3])
            if node != NONE:
                place = node_place(tree, parent, child, resource)
                enter(tree.node_table, place, parent, child, resource, node)
    if links:
        for row in range(old.shape[0]):
            edge = whole(old, row, EDGE)
            if edge != NONE:
                link = link_place(tree.links, edge, whole(old, row, CHILD))
                for column in range(4):
                    tree.links[link, column] = old[row, column]
