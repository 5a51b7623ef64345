"""How far a counterfactual leaves the data that its model was learned from.

States that are vectors: the distance of each counterfactual state to the nearest state in the data,
in the model's own units, divided by what is typical between the states of different episodes there
(`scm.seen`). A changed action was taken nearby if one of the NEIGHBOURS transitions whose states
are nearest took it; components that are no choice (replayed inputs) do not matter. An episode that
the model was learned from is part of that data itself.

Discrete states: the probability that the counterfactual episode comes to take an action in a state
in which nobody took it (`mdp.visits`), and how often each changed action was taken in its state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.counterfactual.lattice import LOST
from counterplan.scm.scaling import Scaling

if TYPE_CHECKING:
    from scipy.spatial import KDTree

    from counterplan.counterfactual.policy_explanation import PolicyExplanation
    from counterplan.counterfactual.sequence_explanation import SequenceExplanation
    from counterplan.scm.neural import NeuralSCM
    from counterplan.scm.seen import Seen

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


def policy_support(explanation: PolicyExplanation, no_action: int | None = None) -> Support:
    """Of a policy in a discrete model; `no_action` stands for none, so it is never a new one."""
    changes, path = explanation.changes, explanation.most_likely
    visits = explanation.process.setting.mdp.visits
    if visits is None:
        return Support((None,) * len(changes))
    step = np.where(visits > 0, 0, LOST)
    if no_action is not None:
        step[:, no_action:] = 0  # a model in which every row has an action has no such column
    _, _, unseen = explanation.process.sums([step] * len(explanation.episode))
    taken = tuple(int(visits[path.states[change.t], change.alternative]) for change in changes)
    return Support(taken, unseen=min(1.0, float(unseen)))


@dataclass(frozen=True, eq=False)
class SeenData:
    """The data of a neural model, ready to be searched; None if the model has none."""

    seen: Seen | None
    scaling: Scaling | None

    @classmethod
    def of(cls, scm: NeuralSCM) -> SeenData:
        """What a model has kept."""
        return cls(scm.seen, scm.scaling)

    @cached_property
    def _tree(self) -> KDTree:
        from scipy.spatial import KDTree

        assert self.seen is not None
        return KDTree(self.seen.states.astype(np.float64))

    def support(self, explanation: SequenceExplanation, vectors: FloatArray) -> Support:
        """Of a sequence of actions; `vectors` (T-1, N, d) or (N, d) is their set."""
        changes = explanation.changes
        # Of one episode alone nothing is known about how far others are.
        if self.seen is None or math.isinf(self.seen.typical):
            return Support((None,) * len(changes))
        states = explanation.states
        if self.scaling is not None:
            states = self.scaling.encode_states(states)
            vectors = self.scaling.encode_actions(vectors)
        distance = np.asarray(self._tree.query(states)[0])
        if vectors.ndim == 2:
            vectors = np.broadcast_to(vectors, (len(states) - 1, *vectors.shape))
        taken = tuple(
            self._taken(states[change.t], vectors[change.t], change.alternative)
            for change in changes
        )
        return Support(taken, self._relative(distance), bool(distance.max() > self.seen.far))

    def _relative(self, distance: FloatArray) -> FloatArray:
        assert self.seen is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(distance / self.seen.typical, nan=0.0, posinf=np.inf)

    def _taken(self, state: FloatArray, options: FloatArray, action: int) -> int:
        """How many of the nearest transitions took the action number `action` of `options`."""
        assert self.seen is not None
        count = min(NEIGHBOURS, len(self.seen.states))
        nearest = self._tree.query(state, k=range(1, count + 1))[1]
        off = np.abs(self.seen.actions[nearest] - options[action])
        return int((off <= _tolerance(options)).all(axis=1).sum())


def _tolerance(options: FloatArray) -> FloatArray:
    """(d,) how far a dose may be from one of the set (N, d) to be counted as that one: half way to
    the next; anything where all have the same, which is no choice."""
    found = np.empty(options.shape[1])
    for component, values in enumerate(options.T):
        levels = np.unique(values)
        found[component] = np.diff(levels).min() / 2 if len(levels) > 1 else np.inf
    return found
