"""Many models at once: the sequence that is best on average, or over the worst share of them.

V_1(a) .. V_B(a) are the outcomes of a sequence under the members of an ensemble, each of which
infers its own noise from the episode. What is optimised is their mean over the worst share beta,

    W(a) = min_w sum_b w_b V_b(a)      over   0 <= w_b <= 1 / (beta B),   sum_b w_b = 1

(beta = 1: the mean). So any fixed weights give a bound: U_w >= sum_b w_b V_b >= W, and the least of
several is one too. Here they are those of a good sequence known at the start, under which only its
own worst members count: a search knows no others (`narrowed`) until a sequence is to be judged.

A state of the search is what the members' states are, side by side, and what each has earned so
far; its outcome is then a function of the last state alone, and search, baselines, simplification
and limits are those of a single model (`setting`, `astar`). The bound is that of a single model
with a block for each member (`first_order`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from counterplan.core.problem import Problem
from counterplan.core.result import Interval, Status
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.claims import unseen_variance
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    SequenceSetting,
    prepare_sequence,
)
from counterplan.counterfactual.support import inside_of
from counterplan.errors import InputError
from counterplan.scm.point import action_indices, action_vectors, number_array

# What an interval is meant to hold.
LEVEL = 0.9
# The share of the members of a model that is optimised for, unless another is asked for.
DEFAULT_RISK = 0.25


def worst_mean(values: FloatArray, share: float) -> FloatArray:
    """(...,) the mean of the lowest share of values (..., B)."""
    ordered = np.sort(values, axis=-1)
    return np.asarray(ordered @ _weights(ordered.shape[-1], share))


def worst_weights(values: FloatArray, share: float) -> FloatArray:
    """(B,) the weights under which the mean of values (B,) is that of their lowest share."""
    weights = np.empty(len(values))
    weights[np.argsort(values, kind="stable")] = _weights(len(values), share)
    return weights


def _weights(count: int, share: float) -> FloatArray:
    held = np.clip(share * count - np.arange(count), 0.0, 1.0)
    return np.asarray(held / held.sum())


@dataclass(frozen=True, eq=False)
class _Nothing:
    """What states on the way are worth here: it is in what each member has earned."""

    remainder: float = 0.0

    def __call__(self, states: FloatArray) -> FloatArray:
        return np.zeros(len(states))

    def gradient(self, n_features: int) -> FloatArray:
        return np.zeros(n_features)

    def rescaled(self, offset: FloatArray, spread: FloatArray, fixed: int = 0) -> _Nothing:
        return self


@dataclass(frozen=True, eq=False)
class _AllMembers(_Nothing):
    """The outcome of an ensemble, in the last state."""

    members: tuple[SequenceSetting, ...] = ()
    share: float = 1.0
    fixed_weights: FloatArray | None = None

    def __call__(self, states: FloatArray) -> FloatArray:
        outcomes = self.outcomes(states)
        if self.fixed_weights is None:
            return worst_mean(outcomes, self.share)
        return np.asarray(outcomes @ self.fixed_weights)

    def outcomes(self, states: FloatArray) -> FloatArray:
        """(n, B) what each member says, but for what actions earn."""
        blocks, banked = _apart(states, len(self.members))
        last = [one.last(x) for one, x in zip(self.members, blocks, strict=True)]
        return np.asarray(banked + np.stack(last, axis=1))


def _apart(states: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """The members' states, (B, n, D), and (n, B) what they have earned."""
    own = states[:, :-count].reshape(len(states), count, states.shape[1] // count - 1)
    return own.swapaxes(0, 1), states[:, -count:]


@dataclass(frozen=True, eq=False)
class _SideBySide:
    """Every member's dynamics, and what it earns on the way."""

    members: tuple[SequenceSetting, ...]

    def children(self, t: int, states: FloatArray) -> FloatArray:
        blocks, banked = _apart(states, len(self.members))
        pairs = list(zip(self.members, blocks, strict=True))
        after = [one.replay.children(t, x) for one, x in pairs]
        earned = banked + np.stack([one.reward(x) for one, x in pairs], axis=1)
        every = np.repeat(earned[:, None], after[0].shape[1], axis=1)
        return np.concatenate([*after, every], axis=2)

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        return self.path(t, states, actions[:, None])[:, 1]

    def path(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, m + 1, D) the states after m actions (n, m)."""
        blocks, banked = _apart(states, len(self.members))
        n, m = actions.shape
        paths = [one.path(t, x, actions) for one, x in zip(self.members, blocks, strict=True)]
        earned = np.empty((n, m + 1, len(self.members)))
        earned[:, 0] = banked
        for b, (one, path) in enumerate(zip(self.members, paths, strict=True)):
            gained = one.reward(path[:, :-1].reshape(-1, path.shape[2])).reshape(n, m)
            earned[:, 1:, b] = banked[:, b : b + 1] + np.cumsum(gained, axis=1)
        return np.concatenate([*paths, earned], axis=2)


@dataclass(frozen=True, eq=False, kw_only=True)
class EnsembleExplanation(SequenceExplanation):
    """A sequence under all members of an ensemble.

    `value` and `bound`, which the search is about, are means over the worst share of the members.
    `improvement` is the mean over all of them, with its `interval` and the probability of `harm`.

    outcomes       (B,) what each member says
    member_states  (B, T, D) where each says it leads, in the units of the episode; `states` is
                   their mean
    share          of the members whose mean was optimised
    spread         standard deviation of the claimed improvement (`claims`)
    """

    outcomes: FloatArray
    member_states: FloatArray = field(repr=False)
    share: float
    spread: float

    @property
    def improvement(self) -> float:
        """The mean over all members (`value` is that over the worst share of them); nothing where
        nothing changes, whatever rounding says."""
        return float(self.outcomes.mean() - self.factual_value) if self.changes else 0.0

    @cached_property
    def interval(self) -> Interval:
        """Of the improvement: meant to hold what is true in nine of ten cases."""
        half = float(stdtrit(self._freedom, (1 + LEVEL) / 2)) * self.spread
        return Interval(self.improvement - half, self.improvement + half)

    @property
    def harm(self) -> float:
        """How likely it is worse than what was done."""
        if not self.spread:
            return float(self.improvement < 0.0)
        return float(stdtr(self._freedom, -self.improvement / self.spread))

    @property
    def _freedom(self) -> int:
        return max(len(self.outcomes) - 1, 1)


@dataclass(frozen=True, eq=False)
class EnsembleSetting(SequenceSetting):
    """What a search over all members works on, or over some that are weighted.

    parts  the members' own settings
    mean   that of the model itself, by which claims are judged
    """

    parts: tuple[SequenceSetting, ...] = ()
    mean: SequenceSetting | None = None
    share: float = 1.0
    fixed_weights: FloatArray | None = None

    @cached_property
    def _every_weight(self) -> FloatArray:
        """(B,) of all parts; those without any only tell where a state is among the data."""
        count = len(self.parts)
        return np.full(count, 1.0 / count) if self.fixed_weights is None else self.fixed_weights

    @property
    def _counted(self) -> IntArray:
        return np.flatnonzero(self._every_weight)

    @property
    def members(self) -> tuple[SequenceSetting, ...]:
        return tuple(replace(self.parts[b], k=self.k) for b in self._counted)

    @property
    def weights(self) -> FloatArray:
        return self._every_weight[self._counted]

    def blocks(self, states: FloatArray) -> Sequence[FloatArray]:
        every = _apart(states, len(self.parts))[0]
        return [every[b] for b in self._counted]

    def placed(self, states: FloatArray) -> FloatArray:
        return np.asarray(_apart(states, len(self.parts))[0].mean(axis=0))

    def ends(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        if self.fixed_weights is None:
            return super().ends(t, states, actions)
        banked = _apart(states, len(self.parts))[1]
        every = zip(self.weights, self._counted, self.blocks(states), strict=True)
        return np.asarray(
            sum(w * (banked[:, b] + self.parts[b].ends(t, x, actions)) for w, b, x in every)
        )

    def narrowed(self, known: IntArray) -> EnsembleSetting:
        weights = worst_weights(self.outcomes_by_member(known[None])[0], self.share)
        # Where a state is among the data, all members tell.
        chosen = (np.arange(len(weights)) if self.is_bound else np.flatnonzero(weights)).tolist()
        blocks, banked = _apart(self.states, len(self.parts))
        parts = tuple(self.parts[b] for b in chosen)
        return replace(
            self,
            replay=_SideBySide(parts),
            last=_AllMembers(members=parts, fixed_weights=weights[chosen]),
            states=np.column_stack([*(blocks[b] for b in chosen), banked[:, chosen]]),
            parts=parts,
            fixed_weights=weights[chosen],
        )

    def banked(self, states: FloatArray) -> FloatArray:
        return np.asarray(_apart(states, len(self.parts))[1] @ self._every_weight)

    @cached_property
    def _terms(self) -> float:
        return max(one._terms for one in self.parts)

    def outcomes_by_member(self, sequences: IntArray) -> FloatArray:
        """(n, B) what each member says of sequences (n, T-1)."""
        return np.stack([one.outcomes(sequences) for one in self.parts], axis=1)

    def held(self, actions: IntArray, ranges: FloatArray) -> float:
        return float(np.mean([one.held(actions, ranges) for one in self.parts]))

    def explanation(
        self,
        k: int,
        actions: IntArray,
        bound: float,
        status: Status,
        method: str,
        stats: Mapping[str, float],
        history: FloatArray | None = None,
    ) -> EnsembleExplanation:
        every = [one.trajectories(actions[None])[0] for one in self.parts]
        paths = np.stack(
            [one.in_episode_units(path) for one, path in zip(self.parts, every, strict=True)]
        )
        plain = self.parts[0].explanation(k, actions, np.inf, Status.LIMIT, method, stats, history)
        given: dict[str, Any] = {one.name: getattr(plain, one.name) for one in fields(plain)}
        value = float(self.outcomes(actions[None])[0])
        given |= {
            "problem": self.problem,
            "value": value,
            "bound": value if status == Status.OPTIMAL else max(value, bound),
            "status": status,
            "states": paths.mean(axis=0),
            "inner": np.mean(every, axis=0),
            "inside": self.inside,
            "rule": self.rule,
        }
        outcomes = self.outcomes_by_member(actions[None])[0]
        spread = self._spread(actions, outcomes)
        return EnsembleExplanation(
            **given, outcomes=outcomes, member_states=paths, share=self.share, spread=spread
        )

    def _spread(self, actions: IntArray, outcomes: FloatArray) -> float:
        """Of the improvement that the members' mean claims for a sequence."""
        if np.array_equal(actions, self.observed):
            return 0.0
        count = len(outcomes)
        between = outcomes.var(ddof=1) * (1 + 1 / count) if count > 1 else 0.0
        unseen = 0.0 if self.mean is None else unseen_variance(self.mean, actions)
        return float(np.sqrt(between + unseen))


def prepare_continuous(problem: Problem) -> SequenceSetting:
    """Check a continuous problem and bring it into the units of its model, or of each member."""
    if problem.risk is None:
        return prepare_sequence(problem)
    share = problem.risk
    if not 0.0 < float(number_array(share, "risk")) <= 1.0:
        raise InputError(f"risk is {share}: expected a share of members above 0 and up to 1")
    anywhere = replace(problem.constraints, supported=False)
    alone = replace(problem, risk=None, constraints=anywhere)
    parts = tuple(prepare_sequence(replace(alone, scm=one)) for one in members_of(alone))
    if len({one.states.shape for one in parts}) != 1:
        raise InputError("the members of a model differ in their features")
    banked = [np.cumsum(np.append(0.0, one.reward(one.states[:-1]))) for one in parts]
    given = {one.name: getattr(parts[0], one.name) for one in fields(SequenceSetting)}
    given |= {
        "replay": _SideBySide(parts),
        "reward": _Nothing(),
        "last": _AllMembers(members=parts, share=share),
        "states": np.column_stack([*(one.states for one in parts), *banked]),
        "problem": problem,
        "inside": inside_of(problem, parts[0].vectors),
    }
    tells = getattr(problem.scm, "form", None) is not None
    mean = prepare_sequence(alone) if tells else None
    return EnsembleSetting(**given, parts=parts, mean=mean, share=share)


def members_of(problem: Problem) -> Sequence[Any]:
    """The members of the model; those that infer effects know the episode."""
    scm, episode = problem.scm, problem.episode
    if not hasattr(scm, "members_of") or problem.actions is None or len(episode) < 2:
        return tuple(scm.members)
    vectors = action_vectors(problem.actions, len(episode) - 1)
    taken = vectors[np.arange(len(vectors)), action_indices(episode, vectors)]
    return tuple(scm.members_of(episode.states, taken))
