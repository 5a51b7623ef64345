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
from counterplan.planning.compiled import inlined, jit

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


@jit
def path_values(graph, kinds, rates, units, plan, values, choices):  # type: ignore[no-untyped-def]
    """values (T + 1, G) along a path of kinds (T,) and rates (T, A), and the edges chosen (T, G).

    plan    (T + 1, G) what levels are believed to be worth, in units (T,); `values`: hindsight
    values  nan before: not wanted
    """
    values[kinds.size] = 0.0
    for t in range(kinds.size - 1, -1, -1):
        earned, judged = (rates[t], values[t + 1]), (rates[t], plan[t + 1], units[t])
        _step_back(graph, kinds[t], earned, judged, values[t], choices[t])


@jit
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
        path_values(graph, kinds[i], rates[i], units, values, values, choices)
        best[i], g = values[0, start], start
        for t in range(T):
            kind, m = kinds[i, t], choices[t, g]
            for k in range(A):
                actions[i, t, k] = graph.actions[kind, g, m, k]
            g = graph.after[kind, g, m]
    return best, actions


@njit(cache=True)
def mean_regrets(graph, paths, plan, groups, S):  # type: ignore[no-untyped-def]
    """By how much hindsight beats the policy that believes in a plan (T + 1, G), from every level
    on: the mean over paths (T, S, G) by the group (n, T) that they are in, its standard error, and
    how many there are (T, S).

    paths  kinds (n, T), rates (n, T, A), and units (n, T + 1): what regret at t is counted in; the
           plan's values after t are in those of t + 1
    """
    kinds, rates, units = paths
    (n, T), size = kinds.shape, graph.after.shape[1]
    sums, squares, counts = np.zeros((T, S, size)), np.zeros((T, S, size)), np.zeros((T, S))
    best, earned = np.zeros((T + 1, size)), np.zeros((T + 1, size))
    choices, ones = np.empty((T, size), dtype=np.int64), np.ones(T)
    for i in range(n):
        path_values(graph, kinds[i], rates[i], ones, best, best, choices)
        path_values(graph, kinds[i], rates[i], units[i, 1:], plan, earned, choices)
        for t in range(T):
            s, share = groups[i, t], 1.0 / units[i, t]
            counts[t, s] += 1.0
            for g in range(size):
                if choices[t, g] >= 0:
                    regret = (best[t, g] - earned[t, g]) * share
                    sums[t, s, g] += regret
                    squares[t, s, g] += regret * regret
    for t in range(T):
        for s in range(S):
            many = max(counts[t, s], 2.0)
            for g in range(size):  # number by number: whole rows take seconds to compile
                sums[t, s, g] /= many
                spread = max(squares[t, s, g] / many - sums[t, s, g] ** 2, 0.0)
                squares[t, s, g] = np.sqrt(spread / (many - 1.0))
    return sums, squares, counts
