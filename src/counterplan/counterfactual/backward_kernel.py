"""One backward step of a budgeted dynamic program, compiled.

With E(s, a, c) the expected value of what follows (s, a) with budget c left, keeping the observed
action a_t and changing to another are worth

    q(s, a_t, c) = R(s, a_t) + E(s, a_t, c)
    q(s, a,   c) = R(s, a)   + E(s, a, c - cost_a)        for a != a_t with cost_a <= c

Solvers differ only in how they combine them: the optimum takes the maximum (Eq. 9 and 10), a
given policy takes what it prescribes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# A change must be worth more than rounding: ties keep the observed action (Algorithm 2).
TIE = 1e-12


@njit(cache=True, nogil=True)
def action_worths(rewards: Any, changeable: Any, costs: Any, row_of: Any, ahead: Any) -> Any:
    """(S, A, C) q(s, a, c); -inf where the budget does not reach or the action may not be taken.

    rewards     (S, A), -inf where a pair is forbidden
    changeable  (S, A) whether an action may be taken at all at this step
    costs       (A,) budget units the action takes here, 0 for the observed one
    ahead       (R, C) expected values by row id
    """
    n_states, n_actions = rewards.shape
    columns = ahead.shape[1]
    result = np.full((n_states, n_actions, columns), -np.inf)
    for state in range(n_states):
        for action in range(n_actions):
            if changeable[state, action] and rewards[state, action] > -np.inf:
                source = ahead[row_of[state, action]]
                cost = costs[action]
                for budget in range(cost, columns):
                    result[state, action, budget] = rewards[state, action] + source[budget - cost]
    return result


@njit(cache=True, nogil=True)
def best_actions(worths: Any, observed: int, scale: float, values: Any, actions: Any) -> None:
    """Write the maximum of q over actions into values (S, C) and its action into actions (S, C);
    the observed action wins ties, then the lowest. `scale`: the size of the rewards."""
    n_states, n_actions, columns = worths.shape
    for state in range(n_states):
        for budget in range(columns):
            keep = worths[state, observed, budget]
            best = -np.inf
            choice = observed
            for action in range(n_actions):
                if action != observed and worths[state, action, budget] > best:
                    best = worths[state, action, budget]
                    choice = action
            worthwhile = best > keep
            if worthwhile and keep > -np.inf:
                worthwhile = best - keep > TIE * max(scale, abs(keep))
            values[state, budget] = best if worthwhile else keep
            actions[state, budget] = choice if worthwhile else observed


@njit(cache=True, nogil=True)
def follow_policy(worths: Any, actions: Any, weights: Any, values: Any) -> None:
    """Write into values (S, C) what a policy's actions (S, C, M) with weights (S, C, M) earn."""
    n_states, _, columns = worths.shape
    for state in range(n_states):
        for budget in range(columns):
            total = 0.0
            for choice in range(actions.shape[2]):
                weight = weights[state, budget, choice]
                if weight > 0.0:
                    total += weight * worths[state, actions[state, budget, choice], budget]
            values[state, budget] = total
