"""How far a counterfactual leaves the data that its model was learned from.

States that are vectors: the distance of each counterfactual state to the nearest state in the
data, in the model's own units, divided by what is typical between the states of different episodes
there (`scm.seen`). A changed action was taken nearby if one of the NEIGHBOURS transitions whose
states are nearest took it; components that are no choice (replayed inputs) do not matter. An
episode that the model was learned from is part of that data itself. Discrete states: the
probability that the counterfactual episode comes to take an action in a state in which nobody took
it (`mdp.visits`), and how often each changed action was taken in its state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Change
from counterplan.core.validation import FloatArray, IntArray

if TYPE_CHECKING:
    from counterplan.counterfactual.discrete.distributions import PolicyProcess
    from counterplan.scm.support import Seen

NEIGHBOURS = 100
# A chance of leaving the data that is not held against a policy.
TOLERATED = 0.05


@dataclass(frozen=True)
class Support:
    """What is known of the data under a counterfactual; None where nothing is.

    taken        for each change: how often the new action was taken there (discrete: in its state;
                 vectors: among the nearest NEIGHBOURS transitions)
    distance     (T,) of the states, in units of what is typical
    is_far       whether a state is farther than nearly all states of the data are from others
    unseen       probability of an action in a state in which it was never taken
    """

    taken: tuple[int | None, ...]
    distance: FloatArray | None = None
    is_far: bool | None = None
    unseen: float | None = None

    @property
    def new_actions(self) -> int | None:
        """How many changed actions were never taken there."""
        if self.supported is None:
            return None
        return sum(count == 0 for count in self.taken)

    @property
    def supported(self) -> bool | None:
        """Whether there is data under all of it."""
        if self.is_far is None and self.unseen is None:
            return None
        return not (self.is_far or (self.unseen or 0.0) > TOLERATED or 0 in self.taken)


def policy_support(
    process: PolicyProcess,
    states: IntArray,
    changes: Sequence[Change],
    no_action: int | None = None,
) -> Support:
    """Of a policy with its likeliest states (T,) and changes; `no_action`, the number that stands
    for none in a last row, is never a new action."""
    from counterplan.counterfactual.discrete.distributions import LOST

    visits = process.setting.mdp.visits
    if visits is None:
        return Support((None,) * len(changes))
    step = np.where(visits > 0, 0, LOST)
    if no_action is not None:  # no such column in a model in which every row has an action
        step[:, no_action:] = 0
    _, _, unseen = process.sums([step] * len(process.setting.episode))
    taken = tuple(int(visits[states[change.t], change.alternative]) for change in changes)
    return Support(taken, unseen=min(1.0, float(unseen)))


def sequence_support(
    scm: Any, states: FloatArray, vectors: FloatArray, changes: Sequence[Change]
) -> Support:
    """Of states (T, D) reached by changes among action vectors, all in the units of the episode."""
    seen: Seen | None = getattr(scm, "seen", None)
    # Of one episode alone nothing is known about how far others are.
    if seen is None or math.isinf(seen.typical):
        return Support((None,) * len(changes))
    if scm.scaling is not None:
        states, vectors = scm.scaling.encode_states(states), scm.scaling.encode_actions(vectors)
    distance = np.asarray(seen.tree.query(states)[0])
    vectors = np.broadcast_to(vectors, (len(states) - 1, *vectors.shape[-2:]))
    taken = tuple(_count_taken(seen, states[t], vectors[t], new) for t, _, new in changes)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(distance / seen.typical, nan=0.0, posinf=np.inf)
    return Support(taken, relative, bool(distance.max() > seen.far))


def _count_taken(seen: Seen, state: FloatArray, options: FloatArray, action: int) -> int:
    """How many of the nearest transitions took the action number `action` of `options` (N, d): a
    dose half way to the next counts as that one, anything where all have the same."""
    levels = [np.unique(values) for values in options.T]
    tolerance = [np.diff(one).min() / 2 if len(one) > 1 else np.inf for one in levels]
    nearest = seen.tree.query(state, k=range(1, min(NEIGHBOURS, len(seen.states)) + 1))[1]
    off = np.abs(seen.actions[nearest] - options[action])
    return int((off <= tolerance).all(axis=1).sum())
