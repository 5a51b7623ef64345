"""Room for a tree: made once, used again for every decision, doubled where a search needs more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from counterplan.core.validation import IntArray
from counterplan.exogenous.model import State
from counterplan.planning.kernel import Kernel
from counterplan.planning.tree import (
    COUNTS,
    EDGE_COLUMNS,
    IN_CHILDREN,
    IN_EDGES,
    IN_EXOGENOUS,
    IN_LINKS,
    IN_NODES,
    IN_RESOURCES,
    LINK_COLUMNS,
    NODE_COLUMNS,
    Tree,
    place,
)

# Which count an array's rows are counted by, and which hash table finds them.
_GROWING = {
    "exogenous": IN_EXOGENOUS,
    "exogenous_index": IN_EXOGENOUS,
    "offset": IN_EXOGENOUS,
    "children": IN_CHILDREN,
    "probability": IN_CHILDREN,
    "resources": IN_RESOURCES,
    "nodes": IN_NODES,
    "node_index": IN_NODES,
    "edges": IN_EDGES,
    "edge_next": IN_EDGES,
    "actions": IN_EDGES,
    "links": IN_LINKS,
    "link_node": IN_LINKS,
}
_TABLES = {"resource_table": IN_RESOURCES, "node_table": IN_NODES, "link_table": IN_LINKS}


def most_per_simulation(kernel: Kernel, most_children: int, bellman: bool) -> IntArray:
    """(6,) the most that one simulation can add to each array of a tree."""
    T, M = kernel.horizon, kernel.most_successors
    met = T * max(M, 1) if bellman else T
    needs = np.empty(6, dtype=np.int64)
    needs[IN_EXOGENOUS] = T * max(M, 1)
    # Where support is continuous, children that outgrow their places move to twice as many.
    needs[IN_CHILDREN] = T * max(M, 2 * most_children + 2)
    needs[IN_RESOURCES] = T
    needs[IN_NODES] = met
    needs[IN_EDGES] = T * kernel.most_actions
    needs[IN_LINKS] = met
    return needs


def allocate(kernel: Kernel, needs: IntArray, simulations: int) -> Tree:
    """An empty tree with room to begin with."""
    # A simulation adds one node, and few edges and links; of resources there are never many.
    rows = needs + simulations + simulations // 4
    rows[IN_RESOURCES] = needs[IN_RESOURCES] + 64
    X, D, T = kernel.exogenous.size, kernel.resource.size, kernel.horizon
    tables = {
        name: _room(np.int64, _power_of_two(int(1.5 * rows[count])), 2)
        for name, count in _TABLES.items()
    }
    return Tree(
        counts=_room(np.int64, COUNTS),
        needs=needs,
        exogenous=_room(np.float64, rows[IN_EXOGENOUS], X),
        exogenous_index=_room(np.int64, rows[IN_EXOGENOUS], 4),
        offset=_room(np.float64, rows[IN_EXOGENOUS]),
        children=_room(np.int64, rows[IN_CHILDREN]),
        probability=_room(np.float64, rows[IN_CHILDREN]),
        resources=_room(np.float64, rows[IN_RESOURCES], D),
        nodes=_room(np.float64, rows[IN_NODES], NODE_COLUMNS),
        node_index=_room(np.int64, rows[IN_NODES], 4),
        edges=_room(np.float64, rows[IN_EDGES], EDGE_COLUMNS),
        edge_next=_room(np.int64, rows[IN_EDGES]),
        actions=_room(np.float64, rows[IN_EDGES], kernel.action_size),
        links=_room(np.float64, rows[IN_LINKS], LINK_COLUMNS),
        link_node=_room(np.int64, rows[IN_LINKS]),
        path=_room(np.int64, T, 3),
        returns=_room(np.float64, T, 2),
        root=_room(np.float64, kernel.most_actions, 3),
        **tables,
    )


def grown(tree: Tree) -> Tree:
    """The same tree with twice the room wherever one more simulation might not fit."""
    full = {
        count
        for name, count in _GROWING.items()
        if tree.counts[count] + tree.needs[count] > len(getattr(tree, name))
    }
    larger = {}
    for name, count in _GROWING.items():
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


def _room(dtype: Any, *shape: int) -> Any:
    """An array whose memory is there already: the search does not stop to get it page by page."""
    return np.full(shape, 0, dtype=dtype)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


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
