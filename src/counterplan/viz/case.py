"""One explained episode with everything a reader needs to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from counterplan.core.result import Change, Interval
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation

# Differences below this are rounding.
ROUNDING = 1e-9
# A range over causal models is called narrow if it is at most this share of the improvement.
NARROW = 0.25


class LikelyChange(NamedTuple):
    """A change and the probability that the policy makes it."""

    change: Change
    probability: float


class Evidence(Enum):
    """What an improvement rests on, from firm to weak."""

    NONE = "no change helps"
    NARROW = "firm"
    EVERY_MODEL = "holds in every model"
    OTHER_POLICY = "partly firm"
    ASSUMPTION = "rests on the assumption"


@dataclass(frozen=True, eq=False)
class Case:
    """What an episode's reader is told.

    frontier            explanations for k = 0, 1, ...; the last is the one reported
    interval            range of its value over all causal models that fit the MDP
    stable_interval     the same, over those with counterfactual stability
    robust              the policy whose worst case over all causal models is best
    probability_better  that the counterfactual outcome beats the observed one
    """

    frontier: Sequence[PolicyExplanation]
    interval: Interval
    stable_interval: Interval
    robust: PolicyExplanation
    probability_better: float

    @property
    def explanation(self) -> PolicyExplanation:
        return self.frontier[-1]

    @property
    def name(self) -> str:
        """How the case is called everywhere."""
        return self.explanation.episode.id or "the episode"

    @property
    def improvable(self) -> bool:
        return self.explanation.improvement > ROUNDING

    @property
    def footing(self) -> Evidence:
        """What the improvement rests on."""
        if not self.improvable:
            return Evidence.NONE
        if self.interval.low - self.explanation.factual_value > ROUNDING:
            narrow = self.interval.width <= NARROW * self.explanation.improvement
            return Evidence.NARROW if narrow else Evidence.EVERY_MODEL
        if self.robust.improvement > ROUNDING:
            return Evidence.OTHER_POLICY
        return Evidence.ASSUMPTION


def likely_changes(explanation: PolicyExplanation) -> tuple[LikelyChange, ...]:
    """All changes that a policy may make, most probable first."""
    probabilities = explanation.change_probabilities()
    observed = explanation.episode.actions
    found = [
        LikelyChange(Change(int(t), int(observed[t]), int(a)), float(probabilities[t, a]))
        for t, a in zip(*np.nonzero(probabilities), strict=True)
    ]
    return tuple(sorted(found, key=lambda likely: -likely.probability))
