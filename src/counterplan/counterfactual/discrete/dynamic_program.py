"""The optimal counterfactual policy under a budget of changes (the 2021 paper's Algorithm 2).

h(s, t, c) is the highest expected outcome from step t on, in state s with budget c left:

    h(s, t, 0) = R(s, a_t) + sum_s' P_tau,t(s' | s, a_t) h(s', t+1, 0)                      (Eq. 10)
    h(s, t, c) = max( R(s, a_t) + sum_s' P_tau,t(s' | s, a_t) h(s', t+1, c),
                      max_{a != a_t} R(s, a) + sum_s' P_tau,t(s' | s, a) h(s', t+1, c-1) )   (Eq. 9)

With E(s, a, c) the expected value of what follows (s, a) with budget c left, a backward step is

    q(s, a_t, c) = R(s, a_t) + E(s, a_t, c)
    q(s, a,   c) = R(s, a)   + E(s, a, c - cost_a)        for a != a_t with cost_a <= c

and h takes the maximum of q; the value of a given policy takes what the policy prescribes.

One backward pass yields every budget c = 0..k, and only where it matters: in the states that can be
reached by then, a block of them at a time. A kernel row is formed once in a block, applied to all
columns of h and dropped; columns beyond what the steps left could spend are alike and left out.
Changes may cost more than one unit each, and expectations may come from any `Expectation`: exact,
sampled, or the worst case over causal models.

Stopped at step t > 0, the pass still answers: keep what was done before t (which surely leads to
s_t), then follow the policy. No policy earns more before t than the largest reward per step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit, plain
from counterplan.core.constraints import ResolvedConstraints
from counterplan.core.episode import Episode
from counterplan.core.limits import Watch
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.discrete.laws import Expectation
from counterplan.scm.tabular import TabularMDP

# A change must be worth more than rounding: ties keep the observed action (Algorithm 2).
TIE = 1e-12


# States of a block: its tables stay in the processor's cache.
BLOCK = 4096


@njit(cache=True, nogil=True)
def needed_rows(states: Any, pairs: Any, row_of: Any, place: Any) -> Any:
    """The distinct rows of some pairs (n, A) of states (n,), in rising order; `place` (R,) is all
    zeros before and after."""
    rows = np.empty(pairs.size, dtype=np.int32)
    count, rising = 0, True
    for action in range(pairs.shape[1]):
        for i in range(states.shape[0]):
            row = row_of[states[i], action]
            if pairs[i, action] and place[row] == 0:
                place[row] = 1
                rising = rising and (count == 0 or rows[count - 1] < row)
                rows[count] = row
                count += 1
    rows = rows[:count]
    if not rising:
        rows.sort()
    for row in rows:
        place[row] = 0
    return rows


@njit(cache=True, nogil=True)
def action_worths(
    where: tuple[Any, Any, Any], rewards: Any, costs: Any, row_of: Any, place: Any, ahead: Any
) -> Any:
    """(n, A, C) q(s, a, c); -inf where the budget does not reach or the action may not be taken.

    where    states (n,), the pairs (n, A) of them that may be taken, and their distinct rows
    rewards  (S, A), -inf where a pair is forbidden
    costs    (A + 1,) budget units each action takes here, 0 for the observed one; then C
    place    (R,) zeros before and after
    ahead    (rows, C') expected values; more budget than C' - 1 is worth no more
    """
    states, pairs, rows = where
    for i in range(rows.shape[0]):
        place[rows[i]] = i
    n_actions, columns, last = pairs.shape[1], costs[-1], ahead.shape[1] - 1
    result = np.full((states.shape[0], n_actions, columns), -np.inf)
    for i in range(states.shape[0]):
        for action in range(n_actions):
            reward = rewards[states[i], action]
            if pairs[i, action] and reward > -np.inf:
                number = place[row_of[states[i], action]]
                cost = costs[action]
                for budget in range(cost, columns):
                    result[i, action, budget] = reward + ahead[number, min(budget - cost, last)]
    for row in rows:
        place[row] = 0
    return result


@njit(cache=True, nogil=True)
def first_steps(arrays: Any, row_of: Any, pairs: Any, observed: Any, spread: bool) -> Any:
    """(S,) the first step at which each state can be reached: along the observed states, or from
    any state reached before by the row of any pair; T where none leads to it."""
    indptr, indices, _ = arrays
    horizon, n_states = observed.shape[0], row_of.shape[0]
    first = np.full(n_states, horizon, dtype=np.int64)
    queue = np.empty(n_states, dtype=np.int64)
    start = count = 0
    for t in range(horizon):
        if first[observed[t]] == horizon:
            first[observed[t]] = t
            queue[count] = observed[t]
            count += 1
        end = count
        for i in range(start, end if spread else start):
            for action in range(pairs.shape[1]):
                if not pairs[queue[i], action]:
                    continue
                row = row_of[queue[i], action]
                for j in range(indptr[row], indptr[row + 1]):
                    if first[indices[j]] == horizon and t + 1 < horizon:
                        first[indices[j]] = t + 1
                        queue[count] = indices[j]
                        count += 1
        start = end
    return first


@njit(cache=True, nogil=True)
def led_to(arrays: Any, row_of: Any, states: Any, actions: Any, observed: Any) -> Any:
    """(S,) whether a state can follow one of `states` by the actions (n, M) taken there; what
    follows the `observed` pair, its third entry, is known."""
    indptr, indices, _ = arrays
    result = np.zeros(row_of.shape[0], dtype=np.bool_)
    for i in range(states.shape[0]):
        for m in range(actions.shape[1]):
            if states[i] == observed[0] and actions[i, m] == observed[1]:
                result[observed[2]] = True
                continue
            row = row_of[states[i], actions[i, m]]
            for j in range(indptr[row], indptr[row + 1]):
                result[indices[j]] = True
    return result


@njit(cache=True, nogil=True)
def best_actions(worths: Any, observed: int, scale: float, places: Any, actions: Any) -> Any:
    """(n, C) the maximum of q over actions; its action is written into actions (S, C) at `places`.
    The observed action wins ties, then the lowest. `scale`: the size of the rewards."""
    n_states, n_actions, columns = worths.shape
    values = np.empty((n_states, columns))
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
            actions[places[state], budget] = choice if worthwhile else observed
        # Budget that can no longer be spent changes nothing.
        actions[places[state], columns:] = actions[places[state], columns - 1]
    return values


@njit(cache=True, nogil=True)
def follow_policy(worths: Any, actions: Any, weights: Any) -> Any:
    """(n, C) what a policy's actions (n, C, M) with weights (n, C, M) earn."""
    n_states, _, columns = worths.shape
    values = np.empty((n_states, columns))
    for state in range(n_states):
        for budget in range(columns):
            total = 0.0
            for choice in range(actions.shape[2]):
                weight = weights[state, budget, choice]
                if weight > 0.0:
                    total += weight * worths[state, actions[state, budget, choice], budget]
            values[state, budget] = total
    return values


@dataclass(frozen=True, eq=False)
class PolicyTable:
    """A policy: what to do at step t in state s with budget c left.

    One table serves every k: with `used` spent of k the budget left is c = k - used.

    actions  (T, S, C, M) actions, in order of preference where there are several
    weights  (T, S, C, M) their probabilities, or None if the first is certain (then M = 1)
    """

    actions: NDArray[np.integer[Any]]
    weights: FloatArray | None = None

    def at(self, t: int, k: int) -> tuple[NDArray[np.integer[Any]], FloatArray]:
        """Actions and weights of step t, (S, k + 1, M) each."""
        actions = plain(self.actions[t, :, : k + 1])
        if self.weights is None:
            return actions, np.ones(actions.shape)
        return actions, plain(self.weights[t, :, : k + 1])

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
    few = setting.mdp.n_actions <= np.iinfo(np.int16).max
    actions = np.empty(shape, dtype=np.int16 if few else np.int32)
    actions[:] = observed[:, None, None, None]
    return PolicyTable(actions)


# The pairs (n, A) of states (n,) at a step whose worth is needed.
Pairs: TypeAlias = Callable[[int, IntArray], BoolArray]
# Combines q(s, a, c) of states (n,) at a step, (n, A, C), into values (n, C).
Combine: TypeAlias = Callable[[int, IntArray, FloatArray], FloatArray]


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

    least     how often an action must have been taken in a state to be a change there
    anywhere  whether a causal model may lead where the MDP's rows do not
    """

    mdp: TabularMDP
    episode: Episode
    constraints: ResolvedConstraints
    k: int
    least: int = 0
    anywhere: bool = False

    @cached_property
    def scale(self) -> float:
        """The size of the largest finite reward: rounding is measured against it."""
        both = (self.mdp.rewards, self.mdp.rewards_at(0, 1))
        return max(float(np.abs(r[np.isfinite(r)]).max(initial=0.0)) for r in both)

    def rewards_at(self, t: int) -> FloatArray:
        """(S, A) rewards at step t, -inf where a pair is forbidden."""
        return self._rewards[int(t == len(self.episode) - 1)]

    @cached_property
    def _rewards(self) -> tuple[FloatArray, FloatArray]:
        """Before the last step, and there."""
        both = self.mdp.rewards, self.mdp.rewards_at(0, 1)
        forbidden = self.constraints.forbidden
        if not forbidden.any():
            return both
        return np.where(forbidden, -np.inf, both[0]), np.where(forbidden, -np.inf, both[1])

    @cached_property
    def _open(self) -> BoolArray:
        """(S, A) pairs that may be taken as alternatives, whatever the step."""
        found = ~self.constraints.forbidden
        if self.mdp.admissible is not None:
            found &= self.mdp.admissible
        if self.least and self.mdp.visits is not None:
            found &= self.mdp.visits >= self.least
        return found

    def takeable(self, t: int, states: IntArray) -> BoolArray:
        """(n, A) the observed action, and the alternatives that may replace it, in some states."""
        may = self.constraints.alternatives[t] & (self.constraints.costs <= self.k)
        takeable = self._open[states] & may
        takeable[:, self.episode.actions[t]] = True
        return np.asarray(takeable)

    def takeable_at(self, t: int) -> BoolArray:
        """(S, A) the same in all states."""
        return self.takeable(t, np.arange(self.mdp.n_states))

    def costs_at(self, t: int) -> NDArray[np.int64]:
        """(A,) budget units of taking each action; keeping the observed one is free."""
        costs = self.constraints.costs.copy()
        costs[self.episode.actions[t]] = 0
        return costs

    @cached_property
    def reached(self) -> Sequence[IntArray]:
        """The states that any alternative can have reached by each step; all of them where the
        rows do not tell."""
        T, states = len(self.episode), self.episode.states
        if self.anywhere:
            return [np.arange(self.mdp.n_states)] * T
        may = self.constraints.alternatives.any(axis=0) & (self.constraints.costs <= self.k)
        pairs = self._open & may
        spread = bool(pairs.any())
        pairs[:, self.episode.actions] = True
        first = first_steps(self.mdp.rows.arrays, self.mdp.row_of, pairs, states, spread)
        order = np.argsort(first, kind="stable")
        return [order[:end] for end in np.searchsorted(first[order], np.arange(T), side="right")]

    def followed(self, table: PolicyTable) -> Sequence[IntArray]:
        """The states that a policy can lead to at each step."""
        T, states, actions = len(self.episode), self.episode.states, self.episode.actions
        if self.anywhere:
            return self.reached
        found, arrays = [np.array([states[0]])], self.mdp.rows.arrays
        for t in range(T - 1):
            taken = table.actions[t, found[-1]].reshape(len(found[-1]), -1)
            observed = states[t], actions[t], states[t + 1]
            led = led_to(arrays, self.mdp.row_of, found[-1], taken, observed)
            found.append(np.flatnonzero(led))
        return found


@dataclass(frozen=True, eq=False)
class Rule:
    """What a backward pass does at each step.

    reached  the states it is done in
    pairs    the pairs of some of them whose worth is needed
    combine  makes values of worths
    shrinks  whether budget that can no longer be spent changes nothing
    """

    reached: Sequence[IntArray]
    pairs: Pairs
    combine: Combine
    shrinks: bool = False


def run_backward(
    setting: Setting, law: Expectation, rule: Rule, watch: Watch | None = None
) -> BackwardPass:
    """Work from the last step to the first, or until the watch says stop."""
    T, most = len(setting.episode), int(setting.constraints.costs.max())
    ended = BackwardPass(T, np.zeros((setting.mdp.n_states, 1)), 0)
    # One for each block that is worked on at a time.
    places = [np.zeros(int(law.row_of.max()) + 1, dtype=np.int32)]
    for t in range(T - 1, -1, -1):
        blocks = _blocks(setting, law, rule, t, places[0])
        needed = sum(len(rows) for *_, rows in blocks)
        if watch is not None and t < T - 1 and _must_stop(watch, setting, ended, needed):
            break
        columns = min(setting.k, (T - t) * most) + 1 if rule.shrinks else setting.k + 1
        step = _Step(setting, law, t, ended.values, np.empty((setting.mdp.n_states, columns)))
        if len(blocks) > len(places):  # asking how many processors there are takes a while
            more = min(len(blocks), os.cpu_count() or 1) - len(places)
            places += [np.zeros_like(places[0]) for _ in range(more)]
        step.work_on(blocks, rule, places)
        ended = BackwardPass(t, step.values, ended.rows + needed)
    return ended


# Some of a step's states, the pairs (n, A) of them whose worth is needed, and their distinct rows.
Block: TypeAlias = tuple[IntArray, BoolArray, NDArray[np.int32]]


def _blocks(
    setting: Setting, law: Expectation, rule: Rule, t: int, place: NDArray[np.int32]
) -> list[Block]:
    """The states of a step in parts."""
    reached, found = rule.reached[t], []
    parts = -(-len(reached) // BLOCK)
    for states in np.array_split(reached, parts) if parts > 1 else [reached]:
        pairs, rows = rule.pairs(t, states), np.zeros(0, dtype=np.int32)
        if t < len(setting.episode) - 1:
            unknown = pairs.copy()
            unknown[states == setting.episode.states[t], setting.episode.actions[t]] = False
            rows = needed_rows(states, unknown, law.row_of, place)
        found.append((states, pairs, rows))
    return found


@dataclass(frozen=True, eq=False)
class _Step:
    """One step back: from the values (S, C') of step t + 1 to those (S, C) of step t."""

    setting: Setting
    law: Expectation
    t: int
    after: FloatArray
    values: FloatArray

    def work_on(
        self, blocks: Sequence[Block], rule: Rule, places: Sequence[NDArray[np.int32]]
    ) -> None:
        """Fill in the values of the blocks' states, on as many processors as there are places."""

        def work(place: NDArray[np.int32], own: Sequence[Block]) -> None:
            for block in own:
                self.values[block[0]] = rule.combine(self.t, block[0], self.worths(block, place))

        if len(blocks) == 1:
            work(places[0], blocks)
        else:
            shares = [blocks[i :: len(places)] for i in range(len(places))]
            with ThreadPoolExecutor(len(places)) as pool:
                list(pool.map(work, places, shares))

    def worths(self, block: Block, place: NDArray[np.int32]) -> FloatArray:
        """(n, A, C) q of the states of a block."""
        setting, t, after, columns = self.setting, self.t, self.after, self.values.shape[1]
        rewards, costs = setting.rewards_at(t), np.full(setting.mdp.n_actions + 1, columns)
        costs[:-1] = setting.costs_at(t)
        last = t == len(setting.episode) - 1
        known_all = last or not len(block[2])
        ahead = np.zeros((1, 1)) if known_all else self.law.expect(t, block[2], after)
        worths = action_worths(block, rewards, costs, self.law.row_of, place, ahead)
        if not last:
            # What followed the observed pair is known, whatever the causal model.
            state, action = setting.episode.states[t], setting.episode.actions[t]
            known = _all_columns(after[setting.episode.states[t + 1]], columns)
            worths[block[0] == state, action] = rewards[state, action] + known
        return np.asarray(worths)


def _all_columns(values: FloatArray, columns: int) -> FloatArray:
    """(columns,) of the first of them: those that are left out are worth as much as the last."""
    return values[np.minimum(np.arange(columns), len(values) - 1)]


def solve(
    setting: Setting, law: Expectation, watch: Watch | None = None
) -> tuple[BackwardPass, PolicyTable]:
    """The optimal policy for every budget 0..k."""
    table = keep_observed(setting)

    def take_best(t: int, states: IntArray, worths: FloatArray) -> FloatArray:
        return choose_best(setting, table, t, states, worths)

    rule = Rule(setting.reached, setting.takeable, take_best, shrinks=True)
    return run_backward(setting, law, rule, watch), table


def choose_best(
    setting: Setting, table: PolicyTable, t: int, states: IntArray, worths: FloatArray
) -> FloatArray:
    """(n, C) the maximum of q over actions; the choices are written into the table."""
    observed, actions = setting.episode.actions[t], table.actions[t, :, :, 0]
    return np.asarray(best_actions(worths, observed, setting.scale, states, actions))


def evaluate(setting: Setting, law: Expectation, table: PolicyTable) -> FloatArray:
    """(C,) the outcomes expected of a given policy, for every budget 0..k."""
    n_actions = setting.mdp.n_actions

    def taken(t: int, states: IntArray) -> BoolArray:
        found = np.zeros((len(states), n_actions), dtype=np.bool_)
        actions = table.actions[t, states, : setting.k + 1]
        found[np.arange(len(states))[:, None, None], actions] = True
        return found

    def follow(t: int, states: IntArray, worths: FloatArray) -> FloatArray:
        actions, weights = table.at(t, setting.k)
        return np.asarray(follow_policy(worths, actions[states], weights[states]))

    ended = run_backward(setting, law, Rule(setting.followed(table), taken, follow))
    return np.asarray(ended.values[setting.episode.states[0]])


def outcome_bounds(setting: Setting, ended: BackwardPass) -> tuple[FloatArray, FloatArray]:
    """(C,) values of the policy found and upper bounds, by budget; equal after a full pass."""
    start, values = ended.start, ended.values
    states, actions = setting.episode.states, setting.episode.actions
    earned = sum((setting.rewards_at(t)[states[t], actions[t]] for t in range(start)), 0.0)
    reached = earned + _all_columns(values[states[start]], setting.k + 1)
    if start == 0:
        return reached, reached
    best_before = sum(float(setting.rewards_at(t).max()) for t in range(start))
    best = values[setting.reached[start]].max(axis=0) if start < len(states) else values[0]
    return reached, best_before + _all_columns(best, setting.k + 1)


def _must_stop(watch: Watch, setting: Setting, ended: BackwardPass, more_rows: int) -> bool:
    if watch.remaining(more_rows, ended.rows) < more_rows:
        return True
    if not watch.wants_bounds:
        return watch.must_stop(ended.rows)
    reached, bound = outcome_bounds(setting, ended)
    if watch.gap > 0.0 and np.all(bound <= reached + watch.gap):
        return True
    return watch.must_stop(ended.rows, float(reached[-1]), float(bound[-1]))
