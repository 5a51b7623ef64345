"""What became real: after a decision, and the x that was revealed, the part of a tree below the new
state is a tree of its own; nothing else in it can be met any more.

Resources and nodes are numbered anew, first the root; successors that were written down but never
met stay written down.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.planning.compiled import borrowed, copy, inlined, outer, set_whole, whole
from counterplan.planning.model import State
from counterplan.planning.search.loop import (
    CHILD,
    COUNT,
    EDGE,
    EDGES,
    EXOGENOUS,
    FIRST,
    FIRST_EDGE,
    IN_CHILDREN,
    IN_EDGES,
    IN_EXOGENOUS,
    IN_NODES,
    IN_RESOURCES,
    LINK_ENTROPY,
    LINK_VALUE,
    NEXT,
    NODE,
    NONE,
    RESERVED,
    RESOURCE,
    ROOM,
    TIMES,
    USED,
    Tree,
    X,
    enter,
    link_place,
    node_place,
    resource_number,
    set_link,
)


def find(tree: Any, state: State, is_root: bool) -> int | None:
    """The node of a state one step after the root's time (or the root itself), if it was met."""
    used = tree.counts[USED]
    has = _same(tree.resources[: used[IN_RESOURCES]], state.resource)
    if is_root:
        x = tree.exogenous[0, X:]
        return 0 if has[0] and np.array_equal(x, state.exogenous) else None
    first, count = tree.exogenous[0].view(np.uint32)[[FIRST, COUNT]]
    places, is_met = slice(first, first + count), np.zeros(used[IN_EXOGENOUS], dtype=bool)
    met = tree.children[places][_same(tree.support[places], state.exogenous)]
    is_met[met[met != NONE]] = True
    rows = tree.nodes[: used[IN_NODES]].view(np.uint32)
    found = np.flatnonzero(is_met[rows[:, EXOGENOUS]] & has[rows[:, RESOURCE]])
    return int(found[0]) if len(found) else None


def _same(rows: Any, one: Any) -> Any:
    """Which rows are the same numbers but for rounding."""
    return (np.abs(rows - one) <= 1e-12 * np.abs(one)).all(axis=1)


def has_room_for(tree: Any, other: Any) -> bool:
    """Whether a tree has at least the room of another."""
    return bool((tree.counts[ROOM] >= other.counts[ROOM]).all())


def like(tree: Any) -> Any:
    """An empty tree with the room of another, to be planted."""
    empty: Any = Tree(*(np.empty_like(one) for one in tree))
    empty.counts[:] = tree.counts
    return empty


@inlined
def move_node(tree, other, old, node, way, histories, moved):  # type: ignore[no-untyped-def]
    """A node with its exogenous node, its resource and its edges; the way to it is the exogenous
    node before and which of its children."""
    exogenous = whole(tree.nodes, old, EXOGENOUS)
    if histories[exogenous] == NONE:
        histories[exogenous] = other.counts[USED, IN_EXOGENOUS]
        other.counts[USED, IN_EXOGENOUS] += 1
    resource = 0
    if node > 0:
        resource = resource_number(other, tree.resources[whole(tree.nodes, old, RESOURCE)])
    for column in range(6):
        other.nodes[node, column] = tree.nodes[old, column]
    set_whole(other.nodes, node, EXOGENOUS, histories[exogenous])
    set_whole(other.nodes, node, RESOURCE, resource)
    first, m = whole(tree.nodes, old, FIRST_EDGE), whole(tree.nodes, old, EDGES)
    start = other.counts[USED, IN_EDGES]
    set_whole(other.nodes, node, FIRST_EDGE, NONE if first == NONE else start)
    set_whole(other.nodes, node, EDGES, m)
    if node > 0:
        parent = histories[way[0]]
        place = node_place(other, parent, way[1], resource)
        enter(other.node_table, place, parent, way[1], resource, node)
    for i in range(m):
        copy(tree.edges[first + i], other.edges[start + i])
        copy(tree.sums[first + i], other.sums[start + i])
        copy(tree.actions[first + i], other.actions[start + i])
        after = whole(tree.sums, first + i, NEXT)
        if after != NONE:
            after = resource_number(other, tree.resources[after])
        set_whole(other.sums, start + i, NEXT, after)
        moved[first + i] = start + i
    other.counts[USED, IN_EDGES] += m


@inlined
def move_children(tree, other, histories):  # type: ignore[no-untyped-def]
    """The exogenous nodes that were moved, with the successors written down after them."""
    for old in range(histories.shape[0]):
        number = histories[old]
        if number != NONE:
            copy(tree.exogenous[old], other.exogenous[number])
            first, count = whole(tree.exogenous, old, FIRST), whole(tree.exogenous, old, COUNT)
            place = other.counts[USED, IN_CHILDREN]
            set_whole(other.exogenous, number, FIRST, place)
            reserved = whole(tree.exogenous, old, RESERVED)
            other.counts[USED, IN_CHILDREN] += max(count, reserved)
            for c in range(count):
                child = np.int64(tree.children[first + c])
                other.children[place + c] = NONE if child == NONE else histories[child]
                other.probability[place + c] = tree.probability[first + c]
                copy(tree.support[first + c], other.support[place + c])


@outer
def transplant(tree, other, root):  # type: ignore[no-untyped-def]
    """Plant in another, empty tree what can be met from a node on."""
    tree, other = borrowed(tree), borrowed(other)
    nodes, edges = tree.counts[USED, IN_NODES], tree.counts[USED, IN_EDGES]
    owner, moved = np.full(edges, NONE, np.int64), np.full(edges, NONE, np.int64)
    met, histories = (
        np.full(nodes, NONE, np.int64),
        np.full(tree.counts[USED, IN_EXOGENOUS], NONE, np.int64),
    )
    for node in range(nodes):
        first = whole(tree.nodes, node, FIRST_EDGE)  # any, where there are none
        for edge in range(first, first + whole(tree.nodes, node, EDGES)):
            owner[edge] = node
    order, ways = np.empty(nodes, np.int64), np.zeros((nodes, 2), np.int64)
    order[0], met[root], count, before = root, 0, 1, 0
    while before < count:  # once for every time ahead
        before = count
        for link in range(tree.links.shape[0]):
            edge = whole(tree.links, link, EDGE)
            if edge != NONE and met[owner[edge]] != NONE:
                node = whole(tree.links, link, NODE)
                if met[node] == NONE:
                    met[node] = count
                    order[count] = node
                    ways[count, 0] = whole(tree.nodes, owner[edge], EXOGENOUS)
                    ways[count, 1] = whole(tree.links, link, CHILD)
                    count += 1
    other.counts[USED, IN_EXOGENOUS] = 0
    for node in range(count):
        move_node(tree, other, order[node], node, ways[node], histories, moved)
    other.counts[USED, IN_NODES] = count
    move_children(tree, other, histories)
    for link in range(tree.links.shape[0]):
        edge = whole(tree.links, link, EDGE)
        if edge != NONE and moved[edge] != NONE:
            child = whole(tree.links, link, CHILD)
            row = link_place(other.links, moved[edge], child)
            set_link(other, row, moved[edge], child, met[whole(tree.links, link, NODE)])
            set_whole(other.links, row, TIMES, whole(tree.links, link, TIMES))
            other.links[row, LINK_VALUE] = tree.links[link, LINK_VALUE]
            other.links[row, LINK_ENTROPY] = tree.links[link, LINK_ENTROPY]
    for t in range(tree.returns.shape[0]):
        other.returns[t, 0], other.returns[t, 1] = tree.returns[t, 0], tree.returns[t, 1]
