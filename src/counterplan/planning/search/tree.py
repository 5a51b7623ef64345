"""The search tree as arrays; its shapes, and how it grows.

Actions do not touch x, so the tree has two layers. An *exogenous node* is one history of x; its
children, the x_{t+1} met after it, are stored once and shared by all actions and all resource
levels: actions are compared on the same futures. A *decision node* is an exogenous node with a
resource; different actions that lead to the same resource under the same x meet in one node
(a transposition). An *edge* is a decision node with one of its actions; a *link* is an edge with
one of the successors met there, and leads to the next decision node:

    Q(edge) = reward + sum_links weight V(node) / sum_links weight        (Eq. 3.3)

An edge remembers what each link last contributed, so one simulation updates it in O(1). Where nodes
have bounds, the same sums of these bound the mean.

Sizes: E exogenous nodes, C places for children, R resources, S decision nodes, G edges, L links.
Hash tables have a power of two of rows (key, what it stands for), -1 where free, and are at most
two thirds full.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, IntArray
from counterplan.planning.compiled import MATRIX, VECTOR, inlined
from counterplan.planning.model import State
from counterplan.planning.search.kernel import Kernel

# Columns of nodes and edges.
VISITS, VALUE, ENTROPY = 0, 1, 2
# Columns of nodes alone: the value that the leaf part gave it, and its bounds.
LEAF = 3
LOWEST, HIGHEST = 4, 5
NODE_COLUMNS = 6
# Columns of edges alone: reward, what the selection part keeps there, and the sums over the links.
REWARD, WEIGHT, TOTAL, SUM, ENTROPY_SUM, LOW_SUM, HIGH_SUM = range(3, 10)
EDGE_COLUMNS = 10
# Columns of links: weight, and what the node had in its columns when it was last passed.
LINK_WEIGHT, LINK_VALUE, LINK_ENTROPY, LINK_LOW, LINK_HIGH = range(5)
LINK_COLUMNS = 5

# Columns of exogenous_index: first place and number of its children, places reserved, visits.
FIRST, COUNT, RESERVED, PASSED = 0, 1, 2, 3
# Columns of node_index: exogenous node, resource, first edge (-1: actions not asked yet), edges.
EXOGENOUS, RESOURCE, FIRST_EDGE, EDGES = 0, 1, 2, 3

# Places in counts: how many rows of each array are in use, and what happened.
IN_EXOGENOUS, IN_CHILDREN, IN_RESOURCES, IN_NODES, IN_EDGES, IN_LINKS = 0, 1, 2, 3, 4, 5
DONE, DEEPEST, TRANSPOSITIONS = 6, 7, 8
COUNTS = 9


class Tree(NamedTuple):
    """Every array of a tree; rows beyond the counts are unused.

    counts           (9,)    how much is in use
    needs            (6,)    the most that one simulation can add to each
    exogenous        (E, X)  x
    exogenous_index  (E, 4)  FIRST, COUNT, RESERVED, PASSED
    offset           (E,)    where the sequence of successors starts, in [0, 1)
    children         (C,)    the exogenous nodes that follow
    probability      (C,)    of each child given its parent
    resources        (R, D)  resource levels met
    nodes            (S, 6)  VISITS, VALUE, ENTROPY, LEAF, LOWEST, HIGHEST
    node_index       (S, 4)  EXOGENOUS, RESOURCE, FIRST_EDGE, EDGES
    edges            (G, 10) VISITS, VALUE, ENTROPY, REWARD, WEIGHT, TOTAL, and sums over links
    edge_next        (G,)    the resource after the action, -1 where not yet known
    actions          (G, A)
    links            (L, 5)  LINK_WEIGHT, and LINK_VALUE, LINK_ENTROPY, ... of the node
    link_node        (L,)    where the link leads
    resource_table, node_table, link_table  (power of two, 2)
    path             (T, 3)  node, edge and link of the simulation under way
    returns          (T, 2)  by time: the lowest and the highest return from then on
    root             (m, 3)  by action: simulations, mean return, sum of squared deviations
    """

    counts: IntArray
    needs: IntArray
    exogenous: FloatArray
    exogenous_index: IntArray
    offset: FloatArray
    children: IntArray
    probability: FloatArray
    resources: FloatArray
    nodes: FloatArray
    node_index: IntArray
    edges: FloatArray
    edge_next: IntArray
    actions: FloatArray
    links: FloatArray
    link_node: IntArray
    resource_table: IntArray
    node_table: IntArray
    link_table: IntArray
    path: IntArray
    returns: FloatArray
    root: FloatArray


_WHOLE, _WHOLES = types.int64[::1], types.int64[:, ::1]
# The compiled type of a Tree, in the order of its fields.
TREE = types.NamedTuple(  # type: ignore[no-untyped-call]
    [
        *(_WHOLE, _WHOLE, MATRIX, _WHOLES, VECTOR, _WHOLE, VECTOR, MATRIX),
        *(MATRIX, _WHOLES, MATRIX, _WHOLE, MATRIX, MATRIX, _WHOLE),
        *(_WHOLES, _WHOLES, _WHOLES, _WHOLES, MATRIX, MATRIX),
    ],
    Tree,
)

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio: spreads keys over a table
KEY = 32  # bits of the second half of a key


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
    counts, needs = tree.counts, tree.needs
    return (
        counts[IN_EXOGENOUS] + needs[IN_EXOGENOUS] <= tree.exogenous.shape[0]
        and counts[IN_CHILDREN] + needs[IN_CHILDREN] <= tree.children.shape[0]
        and counts[IN_RESOURCES] + needs[IN_RESOURCES] <= tree.resources.shape[0]
        and counts[IN_NODES] + needs[IN_NODES] <= tree.nodes.shape[0]
        and counts[IN_EDGES] + needs[IN_EDGES] <= tree.edges.shape[0]
        and counts[IN_LINKS] + needs[IN_LINKS] <= tree.links.shape[0]
    )


# Memory is made once, used again for every decision, and doubled where a search needs more.
# Which count an array's rows are counted by, of what they are, and its columns (X, D, A: the
# model's sizes; none: one number per row); and which hash tables find them.
_GROWING: dict[str, tuple[int, type, Any]] = {
    "exogenous": (IN_EXOGENOUS, np.float64, "X"),
    "exogenous_index": (IN_EXOGENOUS, np.int64, 4),
    "offset": (IN_EXOGENOUS, np.float64, None),
    "children": (IN_CHILDREN, np.int64, None),
    "probability": (IN_CHILDREN, np.float64, None),
    "resources": (IN_RESOURCES, np.float64, "D"),
    "nodes": (IN_NODES, np.float64, NODE_COLUMNS),
    "node_index": (IN_NODES, np.int64, 4),
    "edges": (IN_EDGES, np.float64, EDGE_COLUMNS),
    "edge_next": (IN_EDGES, np.int64, None),
    "actions": (IN_EDGES, np.float64, "A"),
    "links": (IN_LINKS, np.float64, LINK_COLUMNS),
    "link_node": (IN_LINKS, np.int64, None),
}
_TABLES = {"resource_table": IN_RESOURCES, "node_table": IN_NODES, "link_table": IN_LINKS}


def most_per_simulation(kernel: Kernel, most_children: int, bellman: bool) -> IntArray:
    """(6,) the most that one simulation can add to each array of a tree."""
    T, M = kernel.horizon, kernel.most_successors
    met = T * max(M, 1) if bellman else T
    # Where support is continuous, children that outgrow their places move to twice as many.
    children = T * max(M, 2 * most_children + 2)
    needs = [T * max(M, 1), children, T, met, T * kernel.most_actions, met]
    return np.array(needs, dtype=np.int64)


def allocate(kernel: Kernel, needs: IntArray, simulations: int) -> Tree:
    """An empty tree with room to begin with."""
    # A simulation adds one node, and few edges and links; of resources there are never many.
    rows = needs + simulations + simulations // 4
    rows[IN_RESOURCES] = needs[IN_RESOURCES] + 64
    X, D, A = kernel.exogenous.size, kernel.resource.size, kernel.action_size
    columns: dict[Any, tuple[int, ...]] = {None: (), "X": (X,), "D": (D,), "A": (A,)}
    growing = {
        name: _memory(kind, rows[count], *columns.get(width, (width,)))
        for name, (count, kind, width) in _GROWING.items()
    }
    tables = {
        name: _memory(np.int64, 1 << (int(1.5 * rows[count]) - 1).bit_length(), 2)
        for name, count in _TABLES.items()
    }
    return Tree(
        counts=_memory(np.int64, COUNTS),
        needs=needs,
        path=_memory(np.int64, kernel.horizon, 3),
        returns=_memory(np.float64, kernel.horizon, 2),
        root=_memory(np.float64, kernel.most_actions, 3),
        **growing,
        **tables,
    )


def grown(tree: Tree) -> Tree:
    """The same tree with twice the room wherever one more simulation might not fit."""
    full = {
        count
        for name, (count, *_) in _GROWING.items()
        if tree.counts[count] + tree.needs[count] > len(getattr(tree, name))
    }
    larger = {}
    for name, (count, *_) in _GROWING.items():
        if count in full:
            old = getattr(tree, name)
            used = int(tree.counts[count])
            larger[name] = np.empty((2 * len(old), *old.shape[1:]), dtype=old.dtype)
            larger[name][:used] = old[:used]
    for name, count in _TABLES.items():
        if count in full:
            old = getattr(tree, name)
            larger[name] = np.full((2 * len(old), 2), -1, dtype=np.int64)
            _refill(larger[name], old)
    return tree._replace(**larger)


def plant(tree: Tree, state: State) -> None:
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


def _memory(dtype: Any, *shape: int) -> Any:
    """An array whose memory is there already: the search does not stop to get it page by page."""
    return np.full(shape, 0, dtype=dtype)


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
