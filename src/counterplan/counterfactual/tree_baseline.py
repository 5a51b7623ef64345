"""Tree search in counterfactual worlds: what a planner without a proof makes of the same problem.

A sequence is found by deciding step after step, each time by a search from where the decisions so
far have led. A policy needs a search at every (step, state, budget left); those reached by what was
decided before are searched, the likeliest of each step first, and elsewhere nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.allocation_setting import AllocationSetting
from counterplan.counterfactual.backward_pass import Setting
from counterplan.counterfactual.laws import CounterfactualLaw
from counterplan.counterfactual.policy_table import PolicyTable, keep_observed
from counterplan.counterfactual.policy_world import PolicyWorld
from counterplan.counterfactual.sequence_setting import SequenceSetting
from counterplan.counterfactual.tree_worlds import AllocationWorld, SequenceWorld
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.planning.planners import Planner


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
    actions = setting.kept(np.array(_decided(AllocationWorld(setting), planner, seed)))
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
