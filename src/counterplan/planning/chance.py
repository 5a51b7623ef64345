"""What follows an exogenous node: finite support, or progressive widening.

The n-th pass through an edge takes the successor at u_n = frac(u_0 + n / golden ratio) of the
cumulative probabilities, where u_0 is random and belongs to the exogenous node. Each u_n is
uniform, and the first n of them are spread evenly: an edge meets successors in proportion to their
probabilities with an error of O(log n / n) instead of O(1 / sqrt n), and all actions at a node meet
the same ones in the same order (common random numbers).

Continuous support: a node that was passed N times has at most k N^alpha children, each an
independent draw; they count equally.
"""

from __future__ import annotations

import numpy as np

from counterplan.errors import InputError
from counterplan.planning.compiled import WIDENING, WIDENING_POWER
from counterplan.planning.jit import inlined
from counterplan.planning.tree import (
    COUNT,
    FIRST,
    IN_CHILDREN,
    IN_EXOGENOUS,
    PASSED,
    RESERVED,
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
