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
reached by then. A kernel row is formed once, applied to the columns of h that are asked for and
dropped; columns beyond what the steps left could spend are alike and left out. Small problems are
one call of compiled code; of large ones, of those with limits and under a user's own causal model,
every step is asked for in blocks of states, on all processors.
Changes may cost more than one unit each, and expectations may come from any `Law`: exact, sampled,
or the worst case over causal models.

Stopped at step t > 0, the pass still answers: keep what was done before t (which surely leads to
s_t), then follow the policy. No policy earns more before t than the largest reward per step.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import alone, call, entry, plain, within
from counterplan.core.constraints import ResolvedConstraints
from counterplan.core.episode import Episode
from counterplan.core.limits import Watch
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.discrete.laws import (
    Law,
    expectations,
    put_factual,
    rank_states,
)
from counterplan.scm.gumbel import MARKS
from counterplan.scm.tabular import TabularMDP

# A change must be worth more than rounding: ties keep the observed action (Algorithm 2).
TIE = 1e-12


# States of a block: its tables stay in the processor's cache.
BLOCK = 1024
# Up to so many states, over all steps, one call of compiled code makes a whole pass.
SMALL = 1_000_000
# What a backward pass does: choose the best actions, choose them by the next reward alone, follow a
# given policy, or only count the rows among which the first would choose.
CHOOSE, LOOK_AHEAD, FOLLOW, COUNT = 0, 1, 2, 3
# The weights of a policy that has none.
CERTAIN = np.zeros((0, 0, 0, 0))


@within
def budgets_elsewhere(task: int, costs: Any, columns: int) -> int:
    """With how many of the budgets 0..columns-1 one can be anywhere but in the observed state:
    without a change it is certain what follows, so one has been paid for. Who looks no further
    than a step does not ask how one came there."""
    cheapest = costs[0]
    for cost in costs:
        cheapest = min(cheapest, cost)
    return columns if task == LOOK_AHEAD else max(1, columns - cheapest)


@within
def needed_rows(
    task: int, game: Any, where: Any, columns: int, actions: Any, place: Any
) -> tuple[Any, int]:
    """The distinct rows that a step asks for, and how many of them, the first, are those of kept
    actions or of the observed state. What followed the observed pair is known and needs no row.

    game     see `Setting.game`
    where    the step t, some of its states (n,), and row_of (S, A) of the law
    actions  (T, S, K, M) of the policy that is followed, of which the first columns count
    place    (R,) zeros before and after
    """
    _, (begins, options), may, costs, path, _ = game
    t, states, row_of = where
    n_actions, elsewhere = row_of.shape[1], budgets_elsewhere(task, costs, columns)
    here, kept = path[0, t], path[1, t]
    rows = np.empty(states.shape[0] * n_actions, dtype=np.int32)
    count = n_kept = 0
    if t == path.shape[1] - 1:
        return rows[:0], 0
    if task == FOLLOW:
        for state in states:
            for c in range(columns if state == here else elsewhere):
                for m in range(actions.shape[3]):
                    action = actions[t, state, c, m]
                    row = row_of[state, action]
                    if place[row] == 0 and (state != here or action != kept):
                        place[row], rows[count] = 1, row
                        count += 1
        n_kept = count
    else:
        is_here = False
        for state in states:
            is_here = is_here or state == here
            row = row_of[state, kept]
            if place[row] == 0 and state != here:
                place[row], rows[count] = 1, row
                count += 1
        for action in options[begins[here] : begins[here + is_here]]:
            row = row_of[here, action]
            if action != kept and may[t, action] and place[row] == 0:
                place[row], rows[count] = 1, row
                count += 1
        n_kept = count
        for state in states:
            for action in options[begins[state] : begins[state + 1]]:
                row = row_of[state, action]
                if action != kept and may[t, action] and place[row] == 0:
                    place[row], rows[count] = 1, row
                    count += 1
    for row in rows[:count]:
        place[row] = 0
    return rows[:count], n_kept


@within
def step_back(
    task: int, game: Any, where: Any, expected: Any, worths: Any, policy: Any, place: Any
) -> None:
    """Write the values of a step in some states, from those of the next.

    where     as in `needed_rows`
    expected  the rows that the step asks for, and the expected values (rows, C') under them; more
              budget than C' - 1 is worth no more
    worths    values of the next step (S, C'), and of this one (S, C)
    policy    actions (T, S, K, M), which are written unless they are followed, and their weights,
              empty where the first is certain
    place     (R,) zeros before and after
    """
    (t, states, row_of), (rows, ahead), (after, values) = where, expected, worths
    rewards, _, _, costs, path, _ = game
    actions, weights = policy
    here, kept, last = path[0, t], path[1, t], t == path.shape[1] - 1
    known = after[path[0, t if last else t + 1]]
    earned = rewards[int(last)]
    for i in range(rows.shape[0]):
        place[rows[i]] = i
    every, most, most_known = values.shape[1], ahead.shape[1] - 1, known.shape[0] - 1
    elsewhere = budgets_elsewhere(task, costs, every if task == FOLLOW else actions.shape[2])
    worth_keeping, best, choice = np.empty(every), np.empty(every), np.empty(every, dtype=np.int64)
    for state in states:
        columns = every if state == here else min(every, elsewhere)
        if task != FOLLOW:
            keep, change = worth_keeping[:columns], (best[:columns], choice[:columns])
            is_known = state == here and not last
            reward, number = earned[state, kept], place[row_of[state, kept]]
            for c in range(columns):
                # What followed the observed pair is known, whatever the causal model.
                follows = known[min(c, most_known)] if is_known else ahead[number, min(c, most)]
                keep[c] = reward + follows if reward > -np.inf else -np.inf
            _best_change(game, t, state, row_of, ahead, place, change)
            _decide(game, t, state, keep, change, values, actions)
            for c in range(columns if task == LOOK_AHEAD else 0):
                values[state, c] = reward
        for c in range(columns if task == FOLLOW else 0):
            total = 0.0
            for m in range(actions.shape[3]):
                weight = weights[t, state, c, m] if weights.shape[0] else 1.0
                if weight > 0.0:
                    action = actions[t, state, c, m]
                    left = c if action == kept else c - costs[action]
                    worth = earned[state, action]
                    if left < 0 or worth == -np.inf:
                        worth = -np.inf
                    elif state == here and action == kept and not last:
                        worth += known[min(left, most_known)]
                    else:
                        worth += ahead[place[row_of[state, action]], min(left, most)]
                    total += weight * worth
            values[state, c] = total
        for c in range(columns, every):  # nobody comes here with so much
            values[state, c] = values[state, columns - 1]
    for row in rows:
        place[row] = 0


@within
def _best_change(
    game: Any, t: int, state: int, row_of: Any, ahead: Any, place: Any, change: Any
) -> None:
    """Write the best worth (C,) of a change in a state, and the first action that has it, but for
    rounding."""
    best, choice = change
    rewards, (begins, options), may, costs, path, scale = game
    earned, kept = rewards[int(t == path.shape[1] - 1)], path[1, t]
    columns, most = best.shape[0], ahead.shape[1] - 1
    best[:] = -np.inf
    choice[:] = kept
    for action in options[begins[state] : begins[state + 1]]:
        reward, cost = earned[state, action], costs[action]
        if action == kept or not may[t, action]:
            continue
        if reward > -np.inf:
            row = ahead[place[row_of[state, action]]]
            for c in range(cost, columns):
                worth = reward + row[min(c - cost, most)]
                if worth > best[c] and worth - best[c] > TIE * max(scale, abs(worth)):
                    best[c], choice[c] = worth, action


@within
def _decide(
    game: Any, t: int, state: int, keep: Any, change: Any, values: Any, actions: Any
) -> None:
    """Write the higher of both worths and its action. The observed action wins ties."""
    best, choice = change
    _, _, _, _, path, scale = game
    kept, columns = path[1, t], keep.shape[0]
    for c in range(columns):
        worthwhile = best[c] > keep[c]
        if worthwhile and keep[c] > -np.inf:
            worthwhile = best[c] - keep[c] > TIE * max(scale, abs(keep[c]))
        values[state, c] = best[c] if worthwhile else keep[c]
        actions[t, state, c, 0] = choice[c] if worthwhile else kept
    # Budget that can no longer be spent changes nothing.
    for c in range(columns, actions.shape[2]):
        actions[t, state, c, 0] = actions[t, state, columns - 1, 0]


@entry
def pass_back(task: int, game: Any, law: Any, reach: Any, policy: Any, k: int) -> tuple[Any, int]:
    """All steps back, under a law that compiled code works out (see `laws.expectations`): the
    values (S, C) of the first step, and how many rows it took.

    reach  the states of all steps, one after another, and where those of each begin and end
    """
    every, begins, ends = reach
    costs, path, row_of, actions = game[3], game[4], law[3], policy[0]
    n_states, horizon, needed = row_of.shape[0], path.shape[1], 0
    dearest = cheapest = costs[0]
    for cost in costs:
        dearest, cheapest = max(dearest, cost), min(cheapest, cost)
    elsewhere = budgets_elsewhere(task, costs, k + 1)
    factual = np.zeros((3, n_states)), np.zeros(MARKS, dtype=np.bool_)
    place = np.zeros(law[1][0].shape[0], dtype=np.int32)
    after = np.zeros((n_states, 1))
    for t in range(horizon - 1, -1, -1):
        states = every[begins[t] : ends[t]]
        spendable = k if task in (LOOK_AHEAD, FOLLOW) else (horizon - t) * dearest
        values = np.empty((n_states, min(k, spendable) + 1))
        where = t, states, row_of
        rows, many = needed_rows(task, game, where, k + 1, actions, place)
        ahead = np.zeros((1, 1))
        # Who changes elsewhere has paid for two changes then.
        columns = min(after.shape[1], elsewhere)
        wanted = many, columns, max(0, min(columns, elsewhere - cheapest))
        needed += rows.shape[0] if wanted[2] else many
        if task == COUNT:
            after = values
            continue
        if rows.shape[0]:
            put_factual(law, path[0, t], path[1, t], factual, True)
            observed = factual, path[0, t + 1], law[6][0][t]
            ranked = rank_states(law, rows, after, every[begins[t + 1] : ends[t + 1]], columns)
            ahead = expectations(law, observed, rows, after, ranked, wanted)
            put_factual(law, path[0, t], path[1, t], factual, False)
        step_back(task, game, where, (rows, ahead), (after, values), policy, place)
        after = values
    return after, needed


# For Python, which goes from step to step where problems are large.
rows_alone, step_alone = alone(needed_rows), alone(step_back)


@entry
def first_steps(arrays: Any, row_of: Any, takeable: Any, may: Any, path: Any) -> Any:
    """(S,) the first step at which each state can be reached: along the observed states, or from
    any state reached before by the row of an observed action or of an alternative, where there is
    any: a pair (S, A) of an action that may be taken at a step (T, A). T where none leads to it."""
    indptr, indices, _ = arrays
    horizon, (n_states, n_actions) = path.shape[1], row_of.shape
    taken, ever = np.zeros(n_actions, dtype=np.bool_), np.zeros(n_actions, dtype=np.bool_)
    for t in range(horizon):
        taken[path[1, t]] = True
        for action in range(n_actions):
            ever[action] = ever[action] or may[t, action]
    spread = False
    for pair in range(n_states * n_actions):
        if takeable[pair // n_actions, pair % n_actions] and ever[pair % n_actions]:
            spread = True
            break
    first = np.full(n_states, horizon, dtype=np.int64)
    queue = np.empty(n_states, dtype=np.int64)
    start = count = 0
    for t in range(horizon):
        if first[path[0, t]] == horizon:
            first[path[0, t]] = t
            queue[count] = path[0, t]
            count += 1
        end = count
        for i in range(start, end if spread and t + 1 < horizon else start):
            if count == n_states:
                break
            for action in range(n_actions):
                if not (taken[action] or (ever[action] and takeable[queue[i], action])):
                    continue
                row = row_of[queue[i], action]
                for j in range(indptr[row], indptr[row + 1]):
                    if first[indices[j]] == horizon:
                        first[indices[j]] = t + 1
                        queue[count] = indices[j]
                        count += 1
        start = end
    return first


@entry
def followed_states(
    arrays: Any, row_of: Any, path: Any, actions: Any, columns: int
) -> tuple[Any, Any]:
    """The states that a policy's actions (T, S, K, M) lead to at each step, rising, one step after
    another, and (T + 1,) where those of each begin. What followed the observed pair is known."""
    indptr, indices, _ = arrays
    horizon, n_states = path.shape[1], row_of.shape[0]
    begins, every = np.zeros(horizon + 1, dtype=np.int64), np.empty(n_states, dtype=np.int64)
    every[0], begins[1] = path[0, 0], 1
    for t in range(horizon - 1):
        led = np.zeros(n_states, dtype=np.bool_)
        for state in every[begins[t] : begins[t + 1]]:
            for c in range(columns):
                for m in range(actions.shape[3]):
                    action = actions[t, state, c, m]
                    if state == path[0, t] and action == path[1, t]:
                        led[path[0, t + 1]] = True
                        continue
                    if c > 0 and m == 0 and action == actions[t, state, c - 1, 0]:
                        continue
                    row = row_of[state, action]
                    for j in range(indptr[row], indptr[row + 1]):
                        led[indices[j]] = True
        at = begins[t + 1]
        if at + n_states > every.shape[0]:
            longer = np.empty(2 * (at + n_states), dtype=np.int64)
            for place in range(at):
                longer[place] = every[place]
            every = longer
        for state in range(n_states):
            if led[state]:
                every[at] = state
                at += 1
        begins[t + 2] = at
    return every, begins


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
    actions = np.empty(shape, dtype=np.int16 if setting.mdp.n_actions < 2**15 else np.int32)
    actions[:] = observed[:, None, None, None]
    return PolicyTable(actions)


@dataclass(frozen=True, eq=False)
class BackwardPass:
    """Where a backward pass ended.

    start   the first step that was solved; 0 unless a limit stopped it
    values  (S, C) of that step
    rows    kernel rows that its states ask for
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

    def rewards_at(self, t: int) -> FloatArray:
        """(S, A) rewards at step t, -inf where a pair is forbidden."""
        return self._rules[0][int(t == len(self.episode) - 1)]

    @cached_property
    def _rules(self) -> tuple[tuple[FloatArray, FloatArray], BoolArray, tuple[IntArray, Any]]:
        """What holds at every step, kept with the model, which is asked about many episodes under
        the same rules: the rewards before the last step and there; the pairs that may be
        alternatives (S, A); and as lists, where those of each state begin and their actions."""
        mdp, forbidden = self.mdp, self.constraints.forbidden
        key = self.least, forbidden.tobytes()
        known: Any = mdp.__dict__.get("_rules", (None,))
        if known[0] != key:
            rewards, found = (mdp.rewards, mdp.rewards_at(0, 1)), ~forbidden
            if forbidden.any():
                before, last = rewards
                rewards = np.where(forbidden, -np.inf, before), np.where(forbidden, -np.inf, last)
            if mdp.admissible is not None:
                found &= mdp.admissible
            if self.least and mdp.visits is not None:
                found &= mdp.visits >= self.least
            begins = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
            options = (np.flatnonzero(found) % mdp.n_actions).astype(np.int32)
            known = mdp.__dict__["_rules"] = key, rewards, plain(found), (begins, options), []
        return known[1], known[2], known[3]

    def takeable_at(self, t: int) -> BoolArray:
        """(S, A) the observed action, and the alternatives that may replace it."""
        takeable = self._rules[1] & self._may[t]
        takeable[:, self.episode.actions[t]] = True
        return np.asarray(takeable)

    @cached_property
    def _may(self) -> BoolArray:
        """(T, A) alternatives that may be taken at a step, whatever the state."""
        return np.asarray(self.constraints.alternatives & (self.constraints.costs <= self.k))

    @cached_property
    def game(self) -> tuple[Any, ...]:
        """All of it as compiled functions take it: rewards before the last step and there, where
        the alternatives of each state begin and their actions, those that may be taken at each step
        (T, A), costs (A,), the observed states and actions (2, T), and the size of the rewards."""
        path = np.array([self.episode.states, self.episode.actions])
        rewards, _, options = self._rules
        return rewards, options, self._may, self.constraints.costs, path, self.mdp.largest_reward

    @cached_property
    def is_best(self) -> bool:
        """Whether nothing earns more than what was done, wherever chance may lead."""
        states, actions, earned = self.episode.states, self.episode.actions, 0.0
        for t in range(len(states) - 1, -1, -1):  # as `_ceiling` adds
            earned += self.rewards_at(t)[states[t], actions[t]]
            if not earned >= self._ceiling(len(states) - t)[states[t]]:
                return False
        return not self.anywhere

    def _ceiling(self, steps: int) -> FloatArray:
        """(S,) the most that so many last steps can earn, under any action and outcome that the
        rows allow; kept with the model."""
        mdp, (before, last) = self.mdp, self._rules[0]
        known: list[FloatArray] = mdp.__dict__["_rules"][-1]
        while len(known) < steps:
            ahead: Any = 0.0
            if known:
                best = np.maximum.reduceat(known[-1][mdp.rows.indices], mdp.rows.indptr[:-1])
                ahead = best[mdp.row_of]
            known.append(((before if known else last) + ahead).max(axis=1))
        return known[steps - 1]

    def costs_at(self, t: int) -> NDArray[np.int64]:
        """(A,) budget units of taking each action; keeping the observed one is free."""
        costs = self.constraints.costs.copy()
        costs[self.episode.actions[t]] = 0
        return costs

    @cached_property
    def reached(self) -> Sequence[IntArray]:
        """The states that any alternative can have reached by each step; all of them where the
        rows do not tell."""
        every, begins, ends = self.reach(CHOOSE)
        return [every[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def followed(self, table: PolicyTable) -> Sequence[IntArray]:
        """The states that a policy can lead to at each step."""
        every, begins, ends = self.reach(FOLLOW, table)
        return [every[begin:end] for begin, end in zip(begins, ends, strict=True)]

    @cached_property
    def _reach(self) -> tuple[IntArray, IntArray]:
        """The states in the order in which they can be reached, and how many can by each step."""
        T = len(self.episode)
        if self.anywhere:
            return np.arange(self.mdp.n_states), np.full(T, self.mdp.n_states)
        _, _, may, _, path, _ = self.game
        rows = self.mdp.rows.arrays
        given = rows, self.mdp.row_of, self._rules[1], may, path
        # Each entry is quickly looked at.
        first = call(first_steps, lambda: len(rows[1]) / 10, *given)
        order = np.argsort(first, kind="stable")
        return order, np.searchsorted(first[order], np.arange(T), side="right")

    def reach(
        self, task: int, table: PolicyTable | None = None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """The states of all steps, one after another, and where those of each begin and end."""
        if task == FOLLOW and table is not None and not self.anywhere:
            # A policy is followed more than once: by what is believed, and by the worst.
            found: tuple[Any, ...] = table.__dict__.get("_followed", (None,))
            if found[0] is not self:
                rows, path, actions = self.mdp.rows.arrays, self.game[4], plain(table.actions)
                given = rows, self.mdp.row_of, path, actions, self.k + 1
                steps = self.mdp.n_states * len(self.episode) / 10
                states = call(followed_states, lambda: steps, *given)
                found = table.__dict__["_followed"] = self, *states
            _, every, begins = found
            return every, begins[:-1], begins[1:]
        return self._reach[0], np.zeros(len(self.episode), np.int64), self._reach[1]


def _steps(setting: Setting, task: int, reach: Any) -> float:
    """About how many entries of rows a backward pass looks at."""
    indptr, indices, _ = setting.mdp.rows.arrays
    n_rows, many = len(indptr) - 1, setting.mdp.n_actions if task == CHOOSE else setting.k + 1
    if setting.k < 2 * int(setting.constraints.costs.min()):
        many = 1  # nobody changes anything but in the observed states
    asked = np.minimum((reach[2] - reach[1]) * many, n_rows)
    return float(asked.sum()) * len(indices) / n_rows


def run_backward(
    setting: Setting, law: Law, task: int, table: PolicyTable, watch: Watch | None = None
) -> BackwardPass:
    """Work from the last step to the first, or until the watch says stop."""
    T, S, game, row_of = len(setting.episode), setting.mdp.n_states, setting.game, law.row_of
    most = int(setting.constraints.costs.max())
    weights = CERTAIN if table.weights is None else plain(table.weights)
    policy, reach = (plain(table.actions), weights), setting.reach(task, table)
    if law.compiled is not None and T * S <= SMALL and (watch is None or not watch.is_limited):
        steps = partial(_steps, setting, task, reach)
        # Row sets may be of another model, with outcomes that its own rows do not have.
        is_best = task == CHOOSE and law.quick and law.sets is None and setting.is_best
        task = COUNT if is_best else task
        given = task, game, law.compiled, reach, policy
        values, rows = call(pass_back, steps, *given, setting.k)
        if is_best:
            values = np.full((S, 1), setting.mdp.outcome(setting.episode))
        return BackwardPass(0, values, rows)
    ended = BackwardPass(T, np.zeros((S, 1)), 0)
    # One for each processor.
    places = [np.zeros(int(row_of.max()) + 1, dtype=np.int32)]
    if len(reach[0]) > BLOCK:
        places += [np.zeros_like(places[0]) for _ in range((os.cpu_count() or 1) - 1)]

    def work(t: int, worths: Any, blocks: Any, place: NDArray[np.int32]) -> None:
        """Fill in the values of step t in some blocks: states, and the rows they ask for."""
        for states, rows in blocks:
            ahead = law.expect(t, rows, worths[0]) if len(rows) else np.zeros((1, 1))
            step_alone(task, game, (t, states, row_of), (rows, ahead), worths, policy, place)

    with ThreadPoolExecutor(len(places)) as pool:
        for t in range(T - 1, -1, -1):
            columns = min(setting.k, (T - t) * most) + 1 if task == CHOOSE else setting.k + 1
            worths = ended.values, np.empty((S, columns))
            states, blocks = reach[0][reach[1][t] : reach[2][t]], []
            for some in np.array_split(states, max(1, -(-len(states) // BLOCK))):
                where = t, some, row_of
                rows, _ = rows_alone(task, game, where, setting.k + 1, policy[0], places[0])
                blocks.append((some, np.sort(rows)))
            needed = sum(len(rows) for _, rows in blocks)
            if watch is not None and t < T - 1 and _must_stop(watch, setting, ended, needed):
                break
            shares = [blocks[i :: len(places)] for i in range(len(places))]
            list(pool.map(partial(work, t, worths), shares, places))
            ended = BackwardPass(t, worths[1], ended.rows + needed)
    return ended


def _all_columns(values: FloatArray, columns: int) -> FloatArray:
    """(columns,) of the first of them: those that are left out are worth as much as the last."""
    return values[np.minimum(np.arange(columns), len(values) - 1)]


def solve(
    setting: Setting, law: Law, watch: Watch | None = None
) -> tuple[BackwardPass, PolicyTable]:
    """The optimal policy for every budget 0..k."""
    table = keep_observed(setting)
    return run_backward(setting, law, CHOOSE, table, watch), table


def evaluate(setting: Setting, law: Law, table: PolicyTable) -> FloatArray:
    """(C,) the outcomes expected of a given policy, for every budget 0..k."""
    ended = run_backward(setting, law, FOLLOW, table)
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
    best = _all_columns(values[states[start] if start < len(states) else 0], setting.k + 1)
    if start < len(states):  # whoever is elsewhere has paid for a change
        others, cheapest = setting.reached[start], int(setting.constraints.costs.min())
        elsewhere = values[others[others != states[start]]].max(axis=0, initial=-np.inf)
        left = _all_columns(elsewhere, setting.k + 1)[: max(0, setting.k + 1 - cheapest)]
        best = np.maximum(best, np.concatenate([np.full(len(best) - len(left), -np.inf), left]))
    return reached, best_before + best


def _must_stop(watch: Watch, setting: Setting, ended: BackwardPass, more_rows: int) -> bool:
    if watch.remaining(more_rows, ended.rows) < more_rows:
        return True
    if not watch.wants_bounds:
        return watch.must_stop(ended.rows)
    reached, bound = outcome_bounds(setting, ended)
    if watch.gap > 0.0 and np.all(bound <= reached + watch.gap):
        return True
    return watch.must_stop(ended.rows, float(reached[-1]), float(bound[-1]))
