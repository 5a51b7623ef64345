"""What a search's own choices are worth: the tree evaluated for them, with fresh rollouts.

The values that a search decides by count every exploration and lean on bounds; they rank actions
but are no estimates of V*, and the luckiest of them is no estimate either. Here the policy that
takes the best of the tried actions wherever the tree is well explored, and plays on by the model's
rollouts elsewhere, is evaluated over all successors in the tree:

    F(node) = F(best edge),    F(edge) = reward + sum_children p(child) F(child's node)

A child whose node has not seen as many visits as it has successors is valued by rollouts, a share
of them in proportion to its probability. The value of a policy is at most V*; it is exact, and the
policy optimal, where the tree is complete.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from counterplan.planning.compiled import MODEL_HANDLE, borrowed
from counterplan.planning.jit import inlined
from counterplan.planning.kernel import GENERATOR, VECTOR
from counterplan.planning.leaf import rollout
from counterplan.planning.tree import (
    COUNT,
    EDGES,
    FIRST,
    FIRST_EDGE,
    IN_EXOGENOUS,
    KEY,
    REWARD,
    TREE,
    VALUE,
    VISITS,
    place,
)


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
