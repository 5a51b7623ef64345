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
follows is not. Compiled, the world is one array of parameters, which begins with the numbers named
below; each of these is the place of a table's first number:

    ROW_OF    (S, A) the row of a pair
    MAY       (T, S, A) 1 where an action may be taken and does not lead to minus infinity
    REWARDS   (T, S, A)
    COSTS     (T, A)
    OBSERVED  (T,)
    ENDS      (T-1, R, 2) the first entry of a row, and the one after its last
    ENTRIES   (N, 2) the states that may follow, and the probability of all up to each
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.result import Sense
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.continuous.setting import SequenceSetting
from counterplan.counterfactual.discrete.dynamic_program import PolicyTable, Setting, keep_observed
from counterplan.counterfactual.discrete.laws import CounterfactualLaw
from counterplan.counterfactual.executed.setting import ROUNDING, AllocationSetting
from counterplan.errors import NotApplicableError
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.search.kernel import ACTIONS, DRAW, POLICY, STEP
from counterplan.planning.search.planners import Planner

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# In place of the action that is pending in a state, where none is: the state itself is known.
SETTLED = -1.0


class KeepsObserved:
    """A world whose rollouts keep what was done."""

    def rollout(self, state: State) -> int:
        """The observed action."""
        return 0


@dataclass(frozen=True, eq=False)
class SequenceWorld(KeepsObserved):
    """A continuous episode: nothing is left to chance. Resource: the state (D,) and the budget
    left; actions are numbers of action vectors."""

    setting: SequenceSetting
    sense: Sense = "max"

    @property
    def horizon(self) -> int:
        """T-1 decisions."""
        return self.setting.horizon - 1

    @property
    def start(self) -> State:
        """The first state, the whole budget."""
        return State(0, np.zeros(1), np.append(self.setting.states[0], float(self.setting.k)))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The same: nothing is left to chance."""
        return exogenous

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The one that follows for certain."""
        return exogenous[None], np.ones(1)

    def actions(self, state: State) -> FloatArray:
        """(m, 1) those that may be taken and paid for."""
        setting, t = self.setting, state.t
        may = setting.allowed[t] & (setting.costs_at(t) <= state.resource[-1])
        may[setting.observed[t]] = False
        return np.append(setting.observed[t], np.flatnonzero(may)).astype(np.float64)[:, None]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The rewards of the next states, and these with what is left."""
        chosen = actions[:, 0].astype(np.int64)
        after = self.setting.replay.follow(t, resource[:, :-1], chosen)
        left = resource[:, -1] - self.setting.costs_at(t)[chosen]
        return self.setting.reward(after), np.column_stack([after, left])


@dataclass(frozen=True, eq=False)
class AllocationWorld(KeepsObserved):
    """An executed plan: the path is known. Resource: the levels and the budget left; actions are
    those on offer, and the executed one."""

    setting: AllocationSetting

    @property
    def horizon(self) -> int:
        """As many decisions as were executed."""
        return len(self.setting.path)

    @property
    def sense(self) -> Sense:
        """That of the model."""
        return self.setting.model.sense

    @property
    def start(self) -> State:
        """Where the path begins, the whole budget."""
        levels = np.append(self.setting.state.resource, float(self.setting.k))
        return State(0, self.setting.path[0], levels)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """What came next."""
        return np.repeat(self.setting.path[t + 1][None], len(exogenous), axis=0)

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The one that follows for certain."""
        return self.setting.path[t + 1][None], np.ones(1)

    def actions(self, state: State) -> FloatArray:
        """(m, A) the executed one where it is still possible, and those on offer; against budget or
        constraints (and at a price) where nothing else is possible."""
        setting, t = self.setting, state.t
        executed = setting.done.actions[t]
        here = State(setting.state.t + t, state.exogenous, state.resource[:-1])
        offered = np.asarray(setting.model.actions(here), dtype=np.float64)
        differs = (np.abs(offered - executed) > ROUNDING).any(axis=1)
        rows = offered[differs & ~setting.bars(t, offered) & (state.resource[-1] > 0)]
        if setting.is_possible(t, here.resource, executed):
            return np.vstack([executed, rows])
        return rows if len(rows) else offered[:1]

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


S_, A_, R_, WORST, ROW_OF, MAY, REWARDS, COSTS, OBSERVED, ENDS, ENTRIES = range(11)
HEADER = 11


@njit(cache=True)
def cumulate(starts, indices, probabilities, rows, first, ends, entries):  # type: ignore[no-untyped-def]
    """Write the entries of one step's rows, those of probability 0 left out; how many there are.

    first  the number of the step's first entry
    ends   (R, 2) of the step
    """
    count = 0
    for i in range(rows.shape[0]):
        ends[rows[i], 0] = first + count
        below = 0.0
        for j in range(starts[i], starts[i + 1]):
            if probabilities[j] > 0.0:
                below += probabilities[j]
                entries[count, 0], entries[count, 1] = indices[j], below
                count += 1
        ends[rows[i], 1] = first + count
    return count


@njit(cache=True)
def _settled(parameters, t, uniform, d):  # type: ignore[no-untyped-def]
    """The state: known, or the quantile of the row of what is pending."""
    state = int(d[0])
    if d[1] == SETTLED:
        return state
    pair = state * int(parameters[A_]) + int(d[1])
    row = int(parameters[int(parameters[ROW_OF]) + pair])
    ends = int(parameters[ENDS]) + 2 * ((t - 1) * int(parameters[R_]) + row)
    first, last = int(parameters[ends]), int(parameters[ends + 1]) - 1
    entries = int(parameters[ENTRIES])
    while first < last:
        middle = (first + last) // 2
        if parameters[entries + 2 * middle + 1] <= uniform:
            first = middle + 1
        else:
            last = middle
    return int(parameters[entries + 2 * first])


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """A new number."""
    out[0] = generator.random()


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The observed action, then those that may be taken and paid for."""
    S, A = int(parameters[S_]), int(parameters[A_])
    may = int(parameters[MAY]) + (t * S + _settled(parameters, t, x[0], d)) * A
    costs = int(parameters[COSTS]) + t * A
    observed = int(parameters[int(parameters[OBSERVED]) + t])
    out[0, 0] = observed
    m = 1
    for action in range(A):
        affordable = parameters[costs + action] <= d[2]
        if action != observed and affordable and parameters[may + action] > 0.0:
            out[m, 0] = action
            m += 1
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The reward; the action pends where it was taken."""
    S, A, chosen = int(parameters[S_]), int(parameters[A_]), int(action[0])
    state = _settled(parameters, t, x[0], d)
    left = d[2] - parameters[int(parameters[COSTS]) + t * A + chosen]
    out[0], out[1], out[2] = state, chosen, left
    reward = parameters[int(parameters[REWARDS]) + (t * S + state) * A + chosen]
    return max(reward, parameters[WORST])


@njit(POLICY, cache=True)
def policy(parameters, t, x, d, generator, offered, m):  # type: ignore[no-untyped-def]
    """The observed action."""
    return 0


def flattened(numbers: dict[int, float], tables: dict[int, FloatArray]) -> FloatArray:
    """Parameters from numbers and tables, given by their places."""
    header = np.zeros(HEADER)
    for place, number in numbers.items():
        header[place] = number
    at = HEADER
    for place, table in tables.items():
        header[place] = at
        at += table.size
    return np.concatenate([header, *(table.ravel() for table in tables.values())])


# Numbers of a compiled world: 200 MB, and three times as much while it is laid out.
LARGEST_WORLD = 25_000_000


class Row(NamedTuple):
    """States that may follow, and the probabilities of all up to each."""

    states: IntArray
    below: FloatArray


@dataclass(frozen=True, eq=False)
class PolicyWorld(KeepsObserved):
    """A discrete episode: states follow the counterfactual law.

    Resource: a state, the action pending there (or SETTLED), and the budget left.

    largest  numbers that a compiled world may take; larger ones are searched as they are
    """

    setting: Setting
    law: CounterfactualLaw
    sense: Sense = "max"
    largest: int = LARGEST_WORLD
    _rows: dict[tuple[int, int], Row] = field(default_factory=dict, repr=False)

    @property
    def horizon(self) -> int:
        """T decisions."""
        return len(self.setting.episode)

    @property
    def start(self) -> State:
        """The first state, the whole budget."""
        return self.place(0, int(self.setting.episode.states[0]), self.setting.k)

    def place(self, t: int, state: int, left: int) -> State:
        """Where a decision is to be made."""
        return State(t, np.zeros(1), np.array([float(state), SETTLED, float(left)]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """A new number."""
        return generator.random(exogenous.shape)

    def actions(self, state: State) -> FloatArray:
        """(m, 1) those that may be taken and paid for, and do not lead to minus infinity."""
        setting, t = self.setting, state.t
        s = self._settled(t, float(state.exogenous[0]), state.resource)
        may = self.takeable[t][s] & (setting.costs_at(t) <= state.resource[2])
        may &= np.isfinite(self.rewards[t][s])
        observed = int(setting.episode.actions[t])
        may[observed] = False
        return np.append(observed, np.flatnonzero(may)).astype(np.float64)[:, None]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards, and the actions pending in the states they were taken in."""
        pairs = zip(exogenous[:, 0].tolist(), resource, strict=True)
        states = np.array([self._settled(t, uniform, one) for uniform, one in pairs])
        chosen = actions[:, 0].astype(np.int64)
        rewards = np.maximum(self.rewards[t][states, chosen], self.worst)
        left = resource[:, 2] - self.setting.costs_at(t)[chosen]
        return rewards, np.column_stack([states, chosen, left]).astype(np.float64)

    def compiled(self, quantiles: int = 0) -> Kernel:
        """The world as compiled functions; its chance is continuous whatever the quantiles."""
        from counterplan.planning.search.kernel import Kernel

        return Kernel(
            draw,
            actions,
            step,
            _parameters(self),
            self.horizon,
            self.start.exogenous,
            self.start.resource,
            action_size=1,
            most_actions=self.setting.mdp.n_actions,
            policy=policy,
        )

    def row(self, t: int, state: int, action: int) -> Row:
        """What follows a pair at step t."""
        number = int(self.law.row_of[state, action])
        if (t, number) not in self._rows:
            found = self.law.rows_at(t, np.array([number], dtype=np.int32))
            likely = found.probabilities > 0.0
            below = np.cumsum(found.probabilities[likely])
            self._rows[t, number] = Row(found.indices[likely].astype(np.int64), below)
        return self._rows[t, number]

    def _settled(self, t: int, uniform: float, resource: FloatArray) -> int:
        if resource[1] == SETTLED:
            return int(resource[0])
        row = self.row(t - 1, int(resource[0]), int(resource[1]))
        return int(row.states[np.searchsorted(row.below[:-1], uniform, side="right")])

    @cached_property
    def takeable(self) -> list[BoolArray]:
        """(S, A) for each step: the observed action, and alternatives."""
        return [self.setting.takeable_at(t) for t in range(self.horizon)]

    @cached_property
    def rewards(self) -> list[FloatArray]:
        """(S, A) for each step."""
        return [self.setting.rewards_at(t) for t in range(self.horizon)]

    @property
    def worst(self) -> float:
        """What stands for minus infinity, since a search adds and averages: more than all steps
        can make up for, and no more, since searches explore in proportion to what returns span."""
        return -(1.0 + 2.0 * self.horizon * self.setting.scale)


def _parameters(world: PolicyWorld) -> FloatArray:
    """All rows that may be needed, and the rest of the world's numbers."""
    row_of, T = world.law.row_of, world.horizon
    S, A = row_of.shape
    R = int(row_of.max()) + 1
    size = 2 * (T * S * A + (T - 1) * R)
    ends, blocks, count = np.zeros((T - 1, R, 2)), [np.empty((0, 2))], 0
    for t in range(T - 1):
        _check_size(world, size + 2 * count)
        rows = np.unique(row_of[world.takeable[t]])
        found = world.law.rows_at(t, rows)
        entries = np.empty((found.indices.size, 2))
        compressed = found.indptr, found.indices, found.probabilities
        added = cumulate(*compressed, rows, count, ends[t], entries)
        blocks.append(entries[:added].copy())
        count += added
    _check_size(world, size + 2 * count)
    rewards = np.array(world.rewards)
    numbers = {S_: S, A_: A, R_: R, WORST: world.worst}
    tables = {
        ROW_OF: row_of,
        MAY: np.array(world.takeable) & np.isfinite(rewards),
        REWARDS: rewards,
        COSTS: np.array([world.setting.costs_at(t) for t in range(T)]),
        OBSERVED: world.setting.episode.actions,
        ENDS: ends,
        ENTRIES: np.concatenate(blocks),
    }
    plain = {place: np.asarray(table, dtype=np.float64) for place, table in tables.items()}
    return flattened(numbers, plain)


def _check_size(world: PolicyWorld, size: int) -> None:
    if size > world.largest:
        raise NotApplicableError(f"the world takes more than {world.largest:,} numbers")


def planned_sequence(setting: SequenceSetting, planner: Planner, seed: int) -> IntArray:
    """(T-1,) the actions that the planner decides on; the observed ones if these are worse."""
    if setting.horizon == 1:
        return setting.observed.copy()
    taken = _decided(SequenceWorld(setting), planner, seed)
    sequence = np.array([int(action[0]) for action in taken], dtype=np.int64)
    planned, observed = setting.outcomes(np.stack([sequence, setting.observed]))
    return sequence if planned > observed else setting.observed.copy()


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
    setting: Setting, law: CounterfactualLaw, planner: Planner, seed: int, places: int
) -> PolicyTable:
    """The policy that the planner decides on, for every budget 0..k."""
    world = PolicyWorld(setting, law)
    decide = planner.begin(world, False, seed)
    table = keep_observed(setting.episode, setting.mdp.n_states, setting.k)
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
                row = world.row(t, state, action)
                chances = np.diff(row.below, prepend=0.0) * reached[state, left]
                for name, chance in zip(row.states.tolist(), chances.tolist(), strict=True):
                    place = (name, after)
                    following[place] = following.get(place, 0.0) + chance
        reached = following
    return table
