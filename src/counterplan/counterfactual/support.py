"""The rule that keeps alternatives inside the data that their model was learned from.

States that are vectors: a state is near if its distance to the nearest state in the data, in the
model's own units, is at most `far`, which 99 in 100 states of different episodes keep (`scm.seen`).

    an action may be a change in a state that is near if at least `least` of the NEIGHBOURS
    transitions whose states are nearest took it (components that are no choice, replayed inputs,
    do not matter); from there on every state, the last included, must be near

What is not changed needs no more than that: to ask that also kept actions were taken by `least`
made explanations of simulated patients worse, not better (docs/ground-truth.md). Nothing is asked
of what was before the first change. An episode that the model was learned from is part of that data
itself. Discrete states: an action may be a change where it was taken in its state at least `least`
times (`mdp.visits`). Chance may lead to a state in which what was done is kept though nobody did it
there; how likely that is, is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.constraints import LEAST
from counterplan.core.result import Change
from counterplan.core.validation import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from counterplan.core.problem import Problem
    from counterplan.counterfactual.discrete.distributions import PolicyProcess
    from counterplan.scm.support import Seen

NEIGHBOURS = 50
# A chance of leaving the data that is not held against a policy.
TOLERATED = 0.05


def data_of(scm: Any) -> Seen | None:
    """What a model has kept of its data, None if nothing that tells: of one episode alone nothing
    is known about how far others are."""
    seen: Seen | None = getattr(scm, "seen", None)
    return None if seen is None or math.isinf(seen.typical) else seen


@dataclass(frozen=True, eq=False)
class Inside:
    """The rule for the alternatives of one episode whose states are vectors.

    vectors  (T-1, N, d) action vectors, in the model's own units as all states here
    binds    whether alternatives have to keep to it, or are only judged by it
    tolerance  (d,) of doses: within it they are the same, see `Seen.taken`
    """

    seen: Seen
    vectors: FloatArray
    least: int = LEAST
    binds: bool = True
    tolerance: FloatArray | None = None

    def taken(self, t: int, states: FloatArray) -> tuple[FloatArray, IntArray]:
        """(n,) how far states (n, D) at step t are from the data, and (n, N) how many of their
        neighbours there took each action."""
        return self.seen.taken(states, self.vectors[t], NEIGHBOURS, self.tolerance)

    def is_near(self, states: FloatArray) -> BoolArray:
        """(n,) whether states (n, D) are near."""
        return np.asarray(self.seen.nearest(states, self.seen.far) <= self.seen.far)

    def may_change(self, t: int, states: FloatArray) -> tuple[BoolArray, BoolArray]:
        """(n,) whether states (n, D) at step t are near, and (n, N) whether an action may be a
        change there."""
        nearest, taken = self.taken(t, states)
        near = nearest <= self.seen.far
        return near, near[:, None] & (taken >= self.least)

    def holds(self, sequences: IntArray, observed: IntArray, paths: FloatArray) -> BoolArray:
        """(n,) whether sequences (n, T-1) that lead along paths (n, T, D) keep to the rule."""
        changed, fine = sequences != observed, np.ones(len(sequences), dtype=np.bool_)
        for t in range(paths.shape[1]):
            if (rows := np.flatnonzero(fine & changed[:, :t].any(axis=1))).size:
                fine[rows] = self.is_near(paths[rows, t])
            if (rows := np.flatnonzero(fine & changed[:, t : t + 1].any(axis=1))).size:
                may = self.may_change(t, paths[rows, t])[1]
                fine[rows] = may[np.arange(len(rows)), sequences[rows, t]]
        return fine


def inside_of(problem: Problem, vectors: FloatArray) -> Inside | None:
    """The rule for a problem with action vectors (T-1, N, d) in the model's own units, None where
    nothing is known of its data."""
    seen = data_of(problem.scm)
    least = problem.constraints.least(seen is not None)
    if seen is None:
        return None
    within, scaling = problem.tolerance, problem.scm.internal()[1]
    if within is not None and scaling is not None:
        within = scaling.of_differences(within)
    return Inside(seen, vectors, least or LEAST, binds=least > 0, tolerance=within)


@dataclass(frozen=True)
class Support:
    """What is known of the data under a counterfactual; None where nothing is.

    taken        for each change: how often the new action was taken there (discrete: in its state;
                 vectors: among the nearest NEIGHBOURS transitions)
    distance     (T,) of the states, in units of what is typical
    is_far       whether a state is not near, from the first change on
    unseen       probability of an action in a state in which it was never taken
    least        how often an action must have been taken there
    """

    taken: tuple[int | None, ...]
    distance: FloatArray | None = None
    is_far: bool | None = None
    unseen: float | None = None
    least: int = LEAST

    @property
    def new_actions(self) -> int | None:
        """How many changed actions were taken there less often than that."""
        if self.is_far is None and self.unseen is None:
            return None
        return sum(count is not None and count < self.least for count in self.taken)

    @property
    def supported(self) -> bool | None:
        """Whether there is data under all of it."""
        if self.is_far is None and self.unseen is None:
            return None
        return not (self.is_far or (self.unseen or 0.0) > TOLERATED or self.new_actions)


def sequence_rule(inside: Inside) -> str:
    """The rule for states that are vectors in words."""
    count, far = min(NEIGHBOURS, len(inside.seen.states)), inside.seen.far
    return (
        f"a change only to what at least {inside.least} of the {count} most similar recorded "
        f"situations did, and from there on no state farther from the data than {far:.3g}, which "
        f"99 % of it keep (typical: {inside.seen.typical:.3g})"
    )


def sequence_rule_of(model: Any) -> str:
    """The same of a model, empty where it has kept none of its data."""
    seen = data_of(model)
    return "" if seen is None else sequence_rule(Inside(seen, np.empty(0)))


def policy_support(
    process: PolicyProcess,
    states: IntArray,
    changes: Sequence[Change],
    no_action: int | None = None,
) -> Support:
    """Of a policy with its likeliest states (T,) and changes; `no_action`, the number that stands
    for none in a last row, is never a new action."""
    visits = process.setting.mdp.visits
    if visits is None:
        return Support((None,) * len(changes))
    seen = visits > 0
    if no_action is not None:  # no such column in a model in which every row has an action
        seen[:, no_action:] = True
    taken = tuple(int(visits[states[change.t], change.alternative]) for change in changes)
    least = process.setting.least or LEAST
    return Support(taken, unseen=min(1.0, process.unseen(seen)), least=least)


def sequence_support(
    inside: Inside | None, states: FloatArray, changes: Sequence[Change]
) -> Support:
    """Of states (T, D) reached by changes."""
    if inside is None:
        return Support((None,) * len(changes))
    seen = inside.seen
    distance = seen.nearest(states)
    taken = tuple(int(inside.taken(t, states[t : t + 1])[1][0, new]) for t, _, new in changes)
    first = min((change.t for change in changes), default=len(states))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(distance / seen.typical, nan=0.0, posinf=np.inf)
    is_far = bool((distance[first:] > seen.far).any())
    return Support(taken, relative, is_far, least=inside.least)
