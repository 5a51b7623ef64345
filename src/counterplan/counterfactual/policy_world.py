"""A discrete counterfactual world as a model that a tree search can plan in.

Chance is one number u_t a step, of which an action pending from the step before makes the state:
the u-quantile of its row. So u_t is known when step t is decided, and what follows is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplan.core.result import Sense
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.backward_pass import Setting
from counterplan.counterfactual.laws import CounterfactualLaw
from counterplan.counterfactual.tree_worlds import SETTLED, KeepsObserved
from counterplan.errors import NotApplicableError
from counterplan.exogenous.model import State

if TYPE_CHECKING:
    from counterplan.planning.kernel import Kernel

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
        """Fresh luck."""
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
        states = np.array([self._settled(t, luck, one) for luck, one in pairs])
        chosen = actions[:, 0].astype(np.int64)
        rewards = np.maximum(self.rewards[t][states, chosen], self.worst)
        left = resource[:, 2] - self.setting.costs_at(t)[chosen]
        return rewards, np.column_stack([states, chosen, left]).astype(np.float64)

    def compiled(self, quantiles: int = 0) -> Kernel:
        """The world as compiled functions; its luck is continuous whatever the quantiles."""
        from counterplan.counterfactual import policy_world_kernel as functions
        from counterplan.planning.kernel import Kernel

        return Kernel(
            functions.draw,
            functions.actions,
            functions.step,
            _parameters(self),
            self.horizon,
            self.start.exogenous,
            self.start.resource,
            action_size=1,
            most_actions=self.setting.mdp.n_actions,
            policy=functions.policy,
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

    def _settled(self, t: int, luck: float, resource: FloatArray) -> int:
        if resource[1] == SETTLED:
            return int(resource[0])
        row = self.row(t - 1, int(resource[0]), int(resource[1]))
        return int(row.states[np.searchsorted(row.below[:-1], luck, side="right")])

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
    from counterplan.counterfactual import policy_world_kernel as functions

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
        added = functions.cumulate(*compressed, rows, count, ends[t], entries)
        blocks.append(entries[:added].copy())
        count += added
    _check_size(world, size + 2 * count)
    rewards = np.array(world.rewards)
    numbers = {functions.S_: S, functions.A_: A, functions.R_: R, functions.WORST: world.worst}
    tables = {
        functions.ROW_OF: row_of,
        functions.MAY: np.array(world.takeable) & np.isfinite(rewards),
        functions.REWARDS: rewards,
        functions.COSTS: np.array([world.setting.costs_at(t) for t in range(T)]),
        functions.OBSERVED: world.setting.episode.actions,
        functions.ENDS: ends,
        functions.ENTRIES: np.concatenate(blocks),
    }
    plain = {place: np.asarray(table, dtype=np.float64) for place, table in tables.items()}
    return functions.flattened(numbers, plain)


def _check_size(world: PolicyWorld, size: int) -> None:
    if size > world.largest:
        raise NotApplicableError(f"the world takes more than {world.largest:,} numbers")
