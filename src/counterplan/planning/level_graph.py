"""Dynamic programs over a grid of resource levels.

Where few levels can be reached, what may be done with a resource is a graph: from level g an edge m
spends the amounts a_gm, leads to the level after_gm, and earns, since rewards are linear in the
action (D2), rates per unit that the exogenous state decides, and what does not depend on it:

    r_gm = <rate, a_gm> + extra_gm

There is a graph for each kind of step: a port with its leg, a mode that drives or brakes. Over a
Markov chain of states s, and along a known path of rates (hindsight):

    V_t(s, g) = max_m  r_gm(s) + sum_s' P(s' | s) V_{t+1}(s', after_gm)               V_T = 0
    V_t(g)    = max_m  r_gm(t) + V_{t+1}(after_gm)

An edge that is chosen by other rates or other values than those it brings evaluates a policy: one
that looks no further than its own step, or believes in a plan. Of equally good edges the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, IntArray
from counterplan.planning.compiled import borrowed, inlined, inner, jit, outer

# So many levels are solved without asking which can be reached.
FEW = 64


class LevelGraph(NamedTuple):
    """K kinds of steps, G levels, at most M edges from each, A amounts.

    actions  (K, G, M, A)
    extra    (K, G, M)
    after    (K, G, M) where edges lead, -1 where there is none
    """

    actions: FloatArray
    extra: FloatArray
    after: IntArray


@inlined
def _step_back(graph, kind, earned, judged, values, choices):  # type: ignore[no-untyped-def]
    """values (G,) before a step, and the edges chosen (G,), -1 where there is none; levels that are
    nan are not wanted.

    earned  rates (A,), and what levels are worth after the step (G,)
    judged  the same, by which edges are chosen, and the unit of the second
    """
    rates, later = earned
    by, ahead, unit = judged
    actions, extra, after = graph.actions[kind], graph.extra[kind], graph.after[kind]
    for g in range(values.size):
        if np.isnan(values[g]):
            continue
        best, choice = -np.inf, -1
        for m in range(after.shape[1]):
            to = after[g, m]
            if to >= 0:
                worth = extra[g, m]
                for i in range(by.size):
                    worth += by[i] * actions[g, m, i]
                worth += unit * ahead[to]
                if worth > best:
                    best, choice = worth, m
        choices[g] = choice
        paid = -np.inf
        if choice >= 0:
            paid = extra[g, choice]
            for i in range(rates.size):
                paid += rates[i] * actions[g, choice, i]
            paid += later[after[g, choice]]
        values[g] = paid


@njit(cache=True)
def expected_ahead(matrix, values):  # type: ignore[no-untyped-def]
    """(S, G) the mean of values (S, G) over the next state, by the present one; what cannot follow
    does not count, whatever it is worth."""
    ahead = np.zeros(values.shape)
    for s in range(matrix.shape[0]):
        for k in range(matrix.shape[0]):
            if matrix[s, k] > 0.0:
                ahead[s] += matrix[s, k] * values[k]
    return ahead


@njit(cache=True)
def chain_values(graph, chain, T, by, foresight):  # type: ignore[no-untyped-def]
    """(T + 1, S, G) values over a Markov chain.

    chain      kinds (S,), rates (S, A) and the matrix (S, S)
    by         (S, A) rates by which edges are chosen
    foresight  1: with what follows, 0: without
    """
    kinds, rates, matrix = chain
    S, size = kinds.size, graph.after.shape[1]
    values, choices = np.zeros((T + 1, S, size)), np.empty(size, dtype=np.int64)
    for t in range(T - 1, -1, -1):
        ahead = expected_ahead(matrix, values[t + 1])
        for s in range(S):
            earned, judged = (rates[s], ahead[s]), (by[s], ahead[s], foresight)
            _step_back(graph, kinds[s], earned, judged, values[t, s], choices)
    return values


@inner
def _along(graph, kinds, rates, units, plan, values, choices):  # type: ignore[no-untyped-def]
    """`path_values`, for others that are compiled."""
    for g in range(values.shape[1]):
        values[kinds.size, g] = 0.0
    for t in range(kinds.size - 1, -1, -1):
        earned, judged = (rates[t], values[t + 1]), (rates[t], plan[t + 1], units[t])
        _step_back(graph, kinds[t], earned, judged, values[t], choices[t])


@jit
def path_values(graph, kinds, rates, units, plan, values, choices):  # type: ignore[no-untyped-def]
    """values (T + 1, G) along a path of kinds (T,) and rates (T, A), and the edges chosen (T, G).

    plan    (T + 1, G) what levels are believed to be worth, in units (T,); `values`: hindsight
    values  nan before: not wanted
    """
    _along(graph, kinds, rates, units, plan, values, choices)


@inner
def _only_reached(graph, kinds, start, values):  # type: ignore[no-untyped-def]
    """Set values (T + 1, G) to nan where no level can be reached from the start; few are not worth
    looking for."""
    values[:] = 0.0 if values.shape[1] <= FEW else np.nan
    values[0, start] = 0.0
    for t in range(kinds.size):
        for g in range(values.shape[1]):
            if values[t, g] == 0.0 and values.shape[1] > FEW:
                for m in range(graph.after.shape[2]):
                    if graph.after[kinds[t], g, m] >= 0:
                        values[t + 1, graph.after[kinds[t], g, m]] = 0.0


@njit(cache=True)
def hindsight(graph, kinds, rates, start):  # type: ignore[no-untyped-def]
    """Values (n,) and actions (n, T, A) along paths of kinds (n, T) and rates (n, T, A)."""
    n, T, A = rates.shape
    best, actions = np.empty(n), np.zeros((n, T, A))
    values = np.empty((T + 1, graph.after.shape[1]))
    choices, units = np.empty(values.shape, dtype=np.int64), np.ones(T)
    for i in range(n):
        _only_reached(graph, kinds[i], start, values)
        _along(graph, kinds[i], rates[i], units, values, values, choices)
        best[i], g = values[0, start], start
        for t in range(T):
            kind, m = kinds[i, t], choices[t, g]
            for k in range(A):
                actions[i, t, k] = graph.actions[kind, g, m, k]
            g = graph.after[kind, g, m]
    return best, actions


@outer
def _add_regrets(graph, paths, plan, groups, room, found):  # type: ignore[no-untyped-def]
    """Sums of regrets and of their squares (T, S, G) and counts (T, S), added to those found; room:
    values in hindsight and earned (T + 1, G) and edges chosen (T, G)."""
    graph, plan, groups, units = (
        borrowed(graph),
        borrowed(plan),
        borrowed(groups),
        borrowed(paths[2]),
    )
    kinds, rates, ones = borrowed(paths[0]), borrowed(paths[1]), borrowed(room[3])
    best, earned, choices = borrowed(room[0]), borrowed(room[1]), borrowed(room[2])
    sums, squares, counts = borrowed(found[0]), borrowed(found[1]), borrowed(found[2])
    for i in range(kinds.shape[0]):
        _along(graph, kinds[i], rates[i], ones, best, best, choices)
        _along(graph, kinds[i], rates[i], units[i, 1:], plan, earned, choices)
        for t in range(kinds.shape[1]):
            s, share = groups[i, t], 1.0 / units[i, t]
            counts[t, s] += 1.0
            for g in range(best.shape[1]):
                if choices[t, g] >= 0:
                    regret = (best[t, g] - earned[t, g]) * share
                    sums[t, s, g] += regret
                    squares[t, s, g] += regret * regret


def mean_regrets(
    graph: LevelGraph,
    paths: tuple[IntArray, FloatArray, FloatArray],
    plan: FloatArray,
    groups: IntArray,
    S: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """By how much hindsight beats the policy that believes in a plan (T + 1, G), from every level
    on: the mean over paths (T, S, G) by the group (n, T) that they are in, its standard error, and
    how many there are (T, S).

    paths  kinds (n, T), rates (n, T, A), and units (n, T + 1): what regret at t is counted in; the
           plan's values after t are in those of t + 1
    """
    T, size = groups.shape[1], graph.after.shape[1]
    sums, squares, counts = np.zeros((T, S, size)), np.zeros((T, S, size)), np.zeros((T, S))
    room = np.zeros((T + 1, size)), np.zeros((T + 1, size)), np.zeros((T, size), np.int64)
    _add_regrets(graph, paths, plan, groups, (*room, np.ones(T)), (sums, squares, counts))
    many = np.maximum(counts, 2.0)[:, :, None]
    sums /= many
    spread = np.maximum(squares / many - sums**2, 0.0)
    return sums, np.sqrt(spread / (many - 1.0)), counts
