"""Tree search in counterfactual worlds: what a planner without a proof makes of the same problem.

A world is a model that a tree search can plan in. Its future is what abduction made of it: known
where the noise is known, else drawn from the counterfactual law. What has been spent of the budget
is part of the resource, so the search sees only changes that it can afford. The observed action
comes first, and rollouts keep to it.

A sequence is found by deciding step after step, each time by a search from where the decisions so
far have led. A policy needs a search at every (step, state, budget left); those reached by what was
decided before are searched, the likeliest of each step first, and elsewhere nothing changes.

In a discrete world chance is one number u_t a step, of which the action pending from the step
before makes the state: the u-quantile of its row. So u_t is known when step t is decided, and what
follows is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Sense, Status
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.counterfactual.continuous.setting import SequenceSetting, prepare_sequence
from counterplan.counterfactual.discrete.budget_dp import (
    policy_frontier,
    prepare,
    refuse_unless_discrete,
)
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    PolicyTable,
    Setting,
    evaluate,
    keep_observed,
)
from counterplan.counterfactual.discrete.laws import Law
from counterplan.counterfactual.executed.setting import AllocationSetting, prepare_allocation
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.compiled import Layout, inlined, jit
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.search.planners import UCT, Planner
from counterplan.scm.point import PointSCM

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# In place of the action that is pending in a state, where none is: the state itself is known.
SETTLED = -1.0
# Numbers of a compiled world: 200 MB, and three times as much while it is laid out.
LARGEST_WORLD = 25_000_000


class KnownFuture:
    """A world along a path (T, X) that no action touches; rollouts keep what was done."""

    path: FloatArray
    sense: Sense = "max"

    @property
    def horizon(self) -> int:
        return len(self.path)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        return np.repeat(self.path[t + 1][None], len(exogenous), axis=0)

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.path[t + 1][None], np.ones(1)

    def rollout(self, state: State) -> int:
        return 0


class SequenceWorld(KnownFuture):
    """A continuous episode: nothing is left to chance. Resource: the state, that of every member
    of a model (B D,), and the budget left; actions are numbers of action vectors. Of members those
    count that are the worst for what was done."""

    def __init__(self, setting: SequenceSetting) -> None:
        self.setting = setting = setting.narrowed(setting.observed)
        self.path = np.zeros((setting.horizon - 1, 1))
        self.start = State(0, np.zeros(1), np.append(setting.states[0], float(setting.k)))

    def _states(self, resource: FloatArray) -> FloatArray:
        return resource[:, :-1].reshape(-1, *self.setting.states.shape[1:])

    def actions(self, state: State) -> FloatArray:
        """(m, 1) those that may be taken and paid for; the observed one even where it leads out of
        the data."""
        setting, t = self.setting, state.t
        spent = np.array([setting.k - int(state.resource[-1])])
        may = setting.may_take(t, self._states(state.resource[None]), spent)[0]
        may[setting.observed[t]] = False
        return np.append(setting.observed[t], np.flatnonzero(may)).astype(np.float64)[:, None]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The rewards of actions and next states, and these with what is left."""
        setting, chosen = self.setting, actions[:, 0].astype(np.int64)
        after = setting.path(t, self._states(resource), chosen[:, None])[:, 1]
        left = resource[:, -1] - setting.costs_at(t)[chosen]
        worth = setting.last if t + 2 == setting.horizon else setting.reward
        earned = worth(after) + setting.bonus[t, chosen]
        return earned, np.column_stack([after.reshape(len(after), -1), left])


class AllocationWorld(KnownFuture):
    """An executed plan: the path is known. Resource: the levels and the budget left; actions are
    those on offer, and the executed one."""

    def __init__(self, setting: AllocationSetting) -> None:
        self.setting, self.path, self.sense = setting, setting.path, setting.model.sense
        levels = np.append(setting.state.resource, float(setting.k))
        self.start = State(0, setting.path[0], levels)

    def actions(self, state: State) -> FloatArray:
        """(m, A) the executed one where it is still possible, and those on offer; against budget or
        constraints (and at a price) where nothing else is possible."""
        setting, t, levels = self.setting, state.t, state.resource[:-1]
        executed = setting.done.actions[t]
        rows = setting.alternatives(t, levels)[: None if state.resource[-1] > 0 else 0]
        if setting.is_possible(t, levels, executed):
            return np.vstack([executed, rows])
        here = State(setting.state.t + t, state.exogenous, levels)
        return rows if len(rows) else np.asarray(setting.model.actions(here))[:1]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """What the model says, and what is left of the budget."""
        first = self.setting.state.t
        rewards, after = self.setting.model.step(first + t, exogenous, resource[:, :-1], actions)
        left = resource[:, -1] - (actions != self.setting.done.actions[t]).any(axis=1)
        fine = self.setting.sign * 10.0 * (1.0 + abs(self.setting.done.value))
        barred = (left < 0) | self.setting.bars(t, actions)
        return rewards - fine * barred, np.column_stack([after, left])


# row_of: the row of a pair; may: 1 where an action may be taken and does not lead to minus inf;
# ends: the first entry of a row, and the one after its last; entries: the states that may follow,
# and the probability of all up to each.
WORLD = Layout(
    "worst",
    "T S A R N U",
    row_of="S A",
    may="T S A",
    rewards="T S A",
    costs="T A",
    observed="T",
    ends="U R 2",
    entries="N 2",
)
world_of = WORLD.view


@inlined
def _settled(w, t, uniform, d):  # type: ignore[no-untyped-def]
    """The state: known, or the quantile of the row of what is pending."""
    state = int(d[0])
    if d[1] == SETTLED:
        return state
    row = int(w.row_of[state, int(d[1])])
    first, last = int(w.ends[t - 1, row, 0]), int(w.ends[t - 1, row, 1]) - 1
    while first < last:
        middle = (first + last) // 2
        if w.entries[middle, 1] <= uniform:
            first = middle + 1
        else:
            last = middle
    return int(w.entries[first, 0])


@jit
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """A new number."""
    out[0] = generator.random()


@jit
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The observed action, then those that may be taken and paid for."""
    w = world_of(parameters)
    state, observed = _settled(w, t, x[0], d), int(w.observed[t])
    out[0, 0] = observed
    m = 1
    for action in range(w.A):
        if action != observed and w.costs[t, action] <= d[2] and w.may[t, state, action] > 0.0:
            out[m, 0] = action
            m += 1
    return m


@jit
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The reward; the action pends where it was taken."""
    w, chosen = world_of(parameters), int(action[0])
    state = _settled(w, t, x[0], d)
    out[0], out[1], out[2] = state, chosen, d[2] - w.costs[t, chosen]
    return max(w.rewards[t, state, chosen], w.worst)


@jit
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """The observed action."""
    return 0


@njit(cache=True)
def cumulate(indptr, probabilities):  # type: ignore[no-untyped-def]
    """Probabilities of all entries of a row up to each."""
    below = probabilities.copy()
    for i in range(indptr.shape[0] - 1):
        for j in range(indptr[i] + 1, indptr[i + 1]):
            below[j] += below[j - 1]
    return below


class PolicyWorld:
    """A discrete episode: states follow the counterfactual law, as the functions above state it.

    Resource: a state, the action pending there (or SETTLED), and the budget left.
    """

    sense: Sense = "max"

    def __init__(self, setting: Setting, law: Law) -> None:
        self.setting, self.law = setting, law
        self.horizon = len(setting.episode)
        self.start = self.place(0, int(setting.episode.states[0]), setting.k)
        # What stands for minus infinity, since a search adds and averages: more than all steps can
        # make up for, and no more, since searches explore in proportion to what returns span.
        self.worst = -(1.0 + 2.0 * self.horizon * setting.mdp.largest_reward)
        self._numbers = self._packed()

    def place(self, t: int, state: int, left: int) -> State:
        """Where a decision is to be made."""
        return State(t, np.zeros(1), np.array([float(state), SETTLED, float(left)]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """A new number."""
        return generator.random(exogenous.shape)

    def actions(self, state: State) -> FloatArray:
        """(m, 1) those that may be taken and paid for, and do not lead to minus infinity."""
        rows = np.empty((self.setting.mdp.n_actions, 1))
        return rows[: actions(self._numbers, *state, rows)]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards, and the actions pending in the states they were taken in."""
        rewards, after = np.empty(len(actions)), np.empty((len(actions), 3))
        for i, one in enumerate(zip(exogenous, resource, actions, strict=True)):
            rewards[i] = step(self._numbers, t, *one, after[i])
        return rewards, after

    def row(self, t: int, state: int, action: int) -> tuple[IntArray, FloatArray]:
        """States that may follow a pair at step t, and their probabilities."""
        found = self.law.rows_at(t, self.law.row_of[state, [action]])
        likely = found.probabilities > 0.0
        return found.indices[likely].astype(np.int64), found.probabilities[likely]

    def compiled(self, quantiles: int = 0) -> Kernel:
        """The world as compiled functions; its chance is continuous whatever the quantiles."""
        from counterplan.planning.search.kernel import Kernel

        return Kernel(
            draw,
            actions,
            step,
            self._numbers,
            self.horizon,
            self.start.exogenous,
            self.start.resource,
            action_size=1,
            most_actions=self.setting.mdp.n_actions,
            policy=policy,
        )

    def _packed(self) -> FloatArray:
        """All rows that may be needed, and the rest of the world's numbers."""
        row_of, T, setting = self.law.row_of, self.horizon, self.setting
        R = int(row_of.max()) + 1
        size, count = 2 * (T * row_of.size + (T - 1) * R), 0
        ends, blocks = np.zeros((T - 1, R, 2)), [np.empty((0, 2))]
        for t in range(T - 1):
            _check_size(size + 2 * count)
            rows = np.unique(row_of[setting.takeable_at(t)])
            found = self.law.rows_at(t, rows)
            likely = found.probabilities > 0.0
            indptr = np.concatenate([[0], np.cumsum(likely)])[found.indptr]
            below = cumulate(indptr, found.probabilities[likely])
            blocks.append(np.column_stack([found.indices[likely], below]))
            ends[t, rows] = count + np.column_stack([indptr[:-1], indptr[1:]])
            count += len(below)
        _check_size(size + 2 * count)
        rewards = np.array([setting.rewards_at(t) for t in range(T)])
        takeable = np.array([setting.takeable_at(t) for t in range(T)])
        return WORLD.pack(
            worst=self.worst,
            row_of=row_of,
            may=takeable & np.isfinite(rewards),
            rewards=rewards,
            costs=np.array([setting.costs_at(t) for t in range(T)]),
            observed=setting.episode.actions,
            ends=ends,
            entries=np.concatenate(blocks),
        )


def _check_size(size: int) -> None:
    if size > LARGEST_WORLD:
        raise NotApplicableError(
            f"a tree search of this episode takes more than {LARGEST_WORLD:,} numbers; leave the "
            "solver out: the exact one needs no such table"
        )


def planned_sequence(setting: SequenceSetting, planner: Planner, seed: int) -> IntArray:
    """(T-1,) the actions that the planner decides on; the observed ones if these are worse, or
    leave the data where they must not."""
    if setting.horizon == 1:
        return setting.observed.copy()
    taken = _decided(SequenceWorld(setting), planner, seed)
    sequence = np.array([int(action[0]) for action in taken], dtype=np.int64)
    planned, observed = setting.outcomes(np.stack([sequence, setting.observed]))
    is_better = planned > observed and setting.is_inside(sequence[None])[0]
    return sequence if is_better else setting.observed.copy()


def planned_allocation(setting: AllocationSetting, planner: Planner, seed: int) -> FloatArray:
    """(T, A) the amounts that the planner decides on; the executed ones if these are worse, or
    break budget or constraints, as they may where an amount can no longer be kept."""
    actions = setting.without_rounding(np.array(_decided(AllocationWorld(setting), planner, seed)))
    changed = (actions != setting.done.actions).any(axis=1)
    is_barred = any(setting.bars(s, action[None])[0] for s, action in enumerate(actions))
    gain = setting.sign * (setting.replayed(actions).value - setting.done.value)
    may = changed.sum() <= setting.k and not is_barred
    return actions if may and gain > 0.0 else setting.done.actions


def _decided(world: ExogenousModel, planner: Planner, seed: int) -> Sequence[FloatArray]:
    decide = planner.begin(world, False, seed)
    state, taken = world.start, []
    for t in range(world.horizon):
        action = np.array(decide(state).action)
        one = state.exogenous[None], state.resource[None], action[None]
        after = np.asarray(world.step(t, *one)[1][0])
        taken.append(action)
        if t + 1 < world.horizon:
            following = world.draw(t, state.exogenous[None], np.random.default_rng(seed))
            state = State(t + 1, following[0], after)
    return taken


def planned_table(
    setting: Setting, law: Law, planner: Planner, seed: int, places: int
) -> PolicyTable:
    """The policy that the planner decides on, for every budget 0..k."""
    world = PolicyWorld(setting, law)
    decide = planner.begin(world, False, seed)
    table = keep_observed(setting)
    first = int(setting.episode.states[0])
    reached = {(first, left): 1.0 for left in range(1, setting.k + 1)}
    for t in range(world.horizon):
        following: dict[tuple[int, int], float] = {}
        likeliest = sorted(reached, key=lambda place: (-reached[place], place))[:places]
        for state, left in likeliest:
            action = int(decide(world.place(t, state, left)).action[0])
            table.actions[t, state, left, 0] = action
            after = left - int(setting.costs_at(t)[action])
            if t + 1 < world.horizon and after > 0:
                states, odds = world.row(t, state, action)
                chances = odds * reached[state, left]
                for name, chance in zip(states.tolist(), chances.tolist(), strict=True):
                    place = (name, after)
                    following[place] = following.get(place, 0.0) + chance
        reached = following
    return table


@dataclass(frozen=True)
class TreeSearch:
    """A solver: what a tree search decides in the counterfactual world, under the budget.

    planner  UCT, BTS, ... with their simulations for each decision
    seed     of the planner's own chance
    places   discrete: how many (state, budget left) of a step are searched, the likeliest first
    """

    planner: Planner = field(default_factory=lambda: UCT(300))
    seed: int = 0
    places: int = 50

    def __post_init__(self) -> None:
        whole_number(self.seed, "seed")
        whole_number(self.places, "places", minimum=1)
        if isinstance(self.planner, type) or not isinstance(self.planner, Planner):
            raise InputError(f"planner is {self.planner!r}: pass an object such as UCT(300)")

    def refuses(self, problem: Problem) -> str | None:
        if isinstance(problem.scm, PointSCM | ExogenousModel):
            return None
        return refuse_unless_discrete(problem)

    def solve(self, problem: Problem) -> Explanation:
        started, by = time.perf_counter(), (Status.HEURISTIC, "TreeSearch")
        if isinstance(problem.scm, PointSCM):
            sequences = prepare_sequence(problem)
            sequence = planned_sequence(sequences, self.planner, self.seed)
            stats = {"seconds": time.perf_counter() - started}
            return sequences.explanation(problem.k, sequence, math.inf, *by, stats)
        if isinstance(problem.scm, ExogenousModel):
            setting = prepare_allocation(problem)
            led = setting.replayed(planned_allocation(setting, self.planner, self.seed))
            stats = {"seconds": time.perf_counter() - started}
            return setting.explanation(problem.k, led, setting.sign * math.inf, *by, stats)
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        if isinstance(problem.scm, PointSCM | ExogenousModel):
            return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]
        started = time.perf_counter()
        setting, law = prepare(problem)

        def explained(table: PolicyTable) -> Sequence[Any]:
            values, process = evaluate(setting, law, table), PolicyProcess(setting, law, table)
            stats, bounds = {"seconds": time.perf_counter() - started}, np.full(len(values), np.inf)
            of = process, values, bounds, Status.HEURISTIC
            return policy_frontier(*of, stats, problem.k, "TreeSearch")

        searched = explained(planned_table(setting, law, self.planner, self.seed, self.places))
        # As in the other problems, what is worse than what was done is not proposed.
        pairs = zip(searched, explained(keep_observed(setting)), strict=True)
        return [found if found.improvement >= 0.0 else same for found, same in pairs]
