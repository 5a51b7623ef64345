"""Counterfactual worlds as models that a tree search can plan in; `policy_world` has the discrete
one.

In each the future is what abduction made of it: known where the noise is known, else drawn from the
counterfactual law. What has been spent of the budget is part of the resource, so the search sees
only changes that it can afford. The observed action comes first, and rollouts keep to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.result import Sense
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.allocation_setting import ROUNDING, AllocationSetting
from counterplan.counterfactual.sequence_setting import SequenceSetting
from counterplan.exogenous.model import State

# In place of the action that is pending in a state, where none is: the state itself is known.
SETTLED = -1.0


class KeepsObserved:
    """What all of them do in rollouts."""

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
        """Nothing."""
        return exogenous

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """One."""
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
        """The model's."""
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
        """One."""
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
