"""The optimal counterfactual policy under a budget of changes (the 2021 paper's Algorithm 2).

h(s, t, c) is the highest expected outcome from step t on, in state s with budget c left:

    h(s, t, 0) = R(s, a_t) + sum_s' P_tau,t(s' | s, a_t) h(s', t+1, 0)                      (Eq. 10)
    h(s, t, c) = max( R(s, a_t) + sum_s' P_tau,t(s' | s, a_t) h(s', t+1, c),
                      max_{a != a_t} R(s, a) + sum_s' P_tau,t(s' | s, a) h(s', t+1, c-1) )   (Eq. 9)

With E(s, a, c) the expected value of what follows (s, a) with budget c left, a backward step is

    q(s, a_t, c) = R(s, a_t) + E(s, a_t, c)
    q(s, a,   c) = R(s, a)   + E(s, a, c - cost_a)        for a != a_t with cost_a <= c

and h takes the maximum of q; the value of a given policy takes what the policy prescribes.

One backward pass yields every budget c = 0..k: a kernel row is formed once, applied to all columns
of h and dropped, so memory is O(R k) for R distinct rows besides the policy itself. Changes may
cost more than one unit each, and expectations may come from any `Expectation`: exact, sampled, or
the worst case over causal models.

Stopped at step t > 0, the pass still answers: keep what was done before t (which surely leads to
s_t), then follow the policy. No policy earns more before t than the largest reward per step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit
from counterplan.core.constraints import ResolvedConstraints
from counterplan.core.episode import Episode
from counterplan.core.limits import Watch
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.counterfactual.discrete.laws import Expectation
from counterplan.scm.tabular import TabularMDP

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


@dataclass(frozen=True, eq=False)
class PolicyTable:
    """A policy: what to do at step t in state s with budget c left.

    One table serves every k: with `used` spent of k the budget left is c = k - used.

    actions  (T, S, C, M) actions, in order of preference where there are several
    weights  (T, S, C, M) their probabilities, or None if the first is certain (then M = 1)
    """

    actions: NDArray[np.int32]
    weights: FloatArray | None = None

    def at(self, t: int, k: int) -> tuple[NDArray[np.int32], FloatArray]:
        """Actions and weights of step t, (S, k + 1, M) each."""
        actions = self.actions[t, :, : k + 1]
        if self.weights is None:
            return actions, np.ones(actions.shape)
        return actions, self.weights[t, :, : k + 1]

    def action(self, t: int, state: int, left: int) -> int:
        """The most probable action."""
        if self.weights is None:
            return int(self.actions[t, state, left, 0])
        return int(self.actions[t, state, left, np.argmax(self.weights[t, state, left])])

    def probabilities(self, t: int, state: int, left: int, n_actions: int) -> FloatArray:
        """(A,) how likely each action is."""
        result = np.zeros(n_actions)
        weights = np.ones(1) if self.weights is None else self.weights[t, state, left]
        np.add.at(result, self.actions[t, state, left], weights)
        return result


def keep_observed(setting: Setting) -> PolicyTable:
    """The policy that changes nothing."""
    observed = setting.episode.actions
    shape = (len(observed), setting.mdp.n_states, setting.k + 1, 1)
    actions = np.empty(shape, dtype=np.int32)
    actions[:] = observed[:, None, None, None]
    return PolicyTable(actions)


# Combines q(s, a, c) of a step, (S, A, C), into values (S, C).
Combine: TypeAlias = Callable[[int, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class BackwardPass:
    """Where a backward pass ended.

    start   the first step that was solved; 0 unless a limit stopped it
    values  (S, C) of that step
    rows    kernel rows evaluated
    """

    start: int
    values: FloatArray
    rows: int


@dataclass(frozen=True, eq=False)
class Setting:
    """An episode in a model, under constraints: what every backward pass works on.

    least  how often an action must have been taken in a state to be a change there
    """

    mdp: TabularMDP
    episode: Episode
    constraints: ResolvedConstraints
    k: int
    least: int = 0

    @cached_property
    def scale(self) -> float:
        """The size of the largest finite reward: rounding is measured against it."""
        rewards = np.stack([self.mdp.rewards, self.mdp.rewards_at(0, 1)])
        return float(np.abs(rewards[np.isfinite(rewards)]).max(initial=0.0))

    def rewards_at(self, t: int) -> FloatArray:
        """(S, A) rewards at step t, -inf where a pair is forbidden."""
        rewards = self.mdp.rewards_at(t, len(self.episode))
        return np.where(self.constraints.forbidden, -np.inf, rewards)

    def takeable_at(self, t: int) -> BoolArray:
        """(S, A) the observed action, and the alternatives that may replace it."""
        takeable = np.broadcast_to(
            self.constraints.alternatives[t], (self.mdp.n_states, self.mdp.n_actions)
        )
        if self.mdp.admissible is not None:
            takeable = takeable & self.mdp.admissible
        if self.least and self.mdp.visits is not None:
            takeable = takeable & (self.mdp.visits >= self.least)
        costly = self.constraints.costs > self.k
        takeable = takeable & ~self.constraints.forbidden & ~costly
        takeable[:, self.episode.actions[t]] = True
        return takeable

    def costs_at(self, t: int) -> NDArray[np.int64]:
        """(A,) budget units of taking each action; keeping the observed one is free."""
        costs = self.constraints.costs.copy()
        costs[self.episode.actions[t]] = 0
        return costs


def run_backward(
    setting: Setting,
    law: Expectation,
    takeable_at: Callable[[int], BoolArray],
    combine: Combine,
    watch: Watch | None = None,
) -> BackwardPass:
    """Work from the last step to the first, or until the watch says stop; `takeable_at` gives the
    pairs (S, A) of a step whose worth is needed."""
    T, columns = len(setting.episode), setting.k + 1
    states, actions = setting.episode.states, setting.episode.actions
    ended = BackwardPass(T, np.zeros((setting.mdp.n_states, columns)), 0)
    for t in range(T - 1, -1, -1):
        takeable, rewards, needed = takeable_at(t), setting.rewards_at(t), 0
        if t == T - 1:
            ahead = np.zeros((int(law.row_of.max()) + 1, columns))
        else:
            rows = np.unique(law.row_of[takeable])
            needed = len(rows)
            if watch is not None and _must_stop(watch, setting, ended, needed):
                break
            ahead = law.expect(t, rows, ended.values)
        worths = action_worths(rewards, takeable, setting.costs_at(t), law.row_of, ahead)
        if t < T - 1:
            # What followed the observed pair is known, whatever the causal model.
            worths[states[t], actions[t]] = (
                rewards[states[t], actions[t]] + ended.values[states[t + 1]]
            )
        ended = BackwardPass(t, combine(t, worths), ended.rows + needed)
    return ended


def solve(
    setting: Setting, law: Expectation, watch: Watch | None = None
) -> tuple[BackwardPass, PolicyTable]:
    """The optimal policy for every budget 0..k."""
    table = keep_observed(setting)

    def take_best(t: int, worths: FloatArray) -> FloatArray:
        return choose_best(setting, table, t, worths)

    return run_backward(setting, law, setting.takeable_at, take_best, watch), table


def choose_best(setting: Setting, table: PolicyTable, t: int, worths: FloatArray) -> FloatArray:
    """(S, C) the maximum of q over actions; the choices are written into the table."""
    values = np.empty((worths.shape[0], worths.shape[2]))
    observed = setting.episode.actions[t]
    best_actions(worths, observed, setting.scale, values, table.actions[t, :, :, 0])
    return values


def evaluate(setting: Setting, law: Expectation, table: PolicyTable) -> FloatArray:
    """(C,) the outcomes expected of a given policy, for every budget 0..k."""
    n_states, n_actions = setting.mdp.n_states, setting.mdp.n_actions

    def taken_at(t: int) -> BoolArray:
        taken = np.zeros((n_states, n_actions), dtype=np.bool_)
        taken[np.arange(n_states)[:, None, None], table.at(t, setting.k)[0]] = True
        return taken

    def follow(t: int, worths: FloatArray) -> FloatArray:
        values = np.empty((n_states, setting.k + 1))
        follow_policy(worths, *table.at(t, setting.k), values)
        return values

    ended = run_backward(setting, law, taken_at, follow)
    return np.asarray(ended.values[setting.episode.states[0]])


def outcome_bounds(setting: Setting, ended: BackwardPass) -> tuple[FloatArray, FloatArray]:
    """(C,) values of the policy found and upper bounds, by budget; equal after a full pass."""
    start, values = ended.start, ended.values
    states, actions = setting.episode.states, setting.episode.actions
    earned = sum((setting.rewards_at(t)[states[t], actions[t]] for t in range(start)), 0.0)
    reached = earned + values[states[start]]
    if start == 0:
        return reached, reached
    best_before = sum(float(setting.rewards_at(t).max()) for t in range(start))
    return reached, best_before + values.max(axis=0)


def _must_stop(watch: Watch, setting: Setting, ended: BackwardPass, more_rows: int) -> bool:
    if watch.remaining(more_rows, ended.rows) < more_rows:
        return True
    if not watch.wants_bounds:
        return watch.must_stop(ended.rows)
    reached, bound = outcome_bounds(setting, ended)
    if watch.gap > 0.0 and np.all(bound <= reached + watch.gap):
        return True
    return watch.must_stop(ended.rows, float(reached[-1]), float(bound[-1]))
