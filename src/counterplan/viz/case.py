"""One explained episode with everything a reader needs to judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from counterplan.core.result import Change, Interval
from counterplan.counterfactual.explain import Frontier
from counterplan.counterfactual.policy_explanation import PolicyExplanation

# Differences below this are rounding.
ROUNDING = 1e-9
# A range over causal models is called narrow if it is at most this share of the improvement.
NARROW = 0.25
# A step that is changed less often than this is no main change.
RARELY = 0.1
MOST_MAIN = 5


class LikelyChange(NamedTuple):
    """A change and the probability that the policy makes it."""

    change: Change
    probability: float


class Footing(Enum):
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

    frontier: Frontier[PolicyExplanation]
    interval: Interval
    stable_interval: Interval
    robust: PolicyExplanation
    probability_better: float

    @property
    def explanation(self) -> PolicyExplanation:
        explanation: PolicyExplanation = self.frontier[-1]
        return explanation

    @property
    def name(self) -> str:
        """How the case is called everywhere."""
        return self.explanation.episode.id or "the episode"

    @property
    def improvable(self) -> bool:
        return self.explanation.improvement > ROUNDING

    @property
    def guaranteed_improvement(self) -> float:
        """What some policy gains in every causal model."""
        return max(0.0, self.robust.improvement)

    @property
    def footing(self) -> Footing:
        """What the improvement rests on."""
        if not self.improvable:
            return Footing.NONE
        if self.interval.low - self.explanation.factual_value > ROUNDING:
            narrow = self.interval.width <= NARROW * self.explanation.improvement
            return Footing.NARROW if narrow else Footing.EVERY_MODEL
        if self.robust.improvement > ROUNDING:
            return Footing.OTHER_POLICY
        return Footing.ASSUMPTION

    @cached_property
    def likely_changes(self) -> tuple[LikelyChange, ...]:
        """All changes that the policy may make, most probable first."""
        probabilities = self.explanation.change_probabilities()
        observed = self.explanation.episode.actions
        found = [
            LikelyChange(Change(int(t), int(observed[t]), int(a)), float(probabilities[t, a]))
            for t, a in zip(*np.nonzero(probabilities), strict=True)
        ]
        return tuple(sorted(found, key=lambda likely: -likely.probability))

    @cached_property
    def main_changes(self) -> tuple[LikelyChange, ...]:
        """The steps that are changed most often, at most k, each with its likeliest change."""
        often = self.explanation.change_probabilities().sum(axis=1)
        steps = np.argsort(-often, kind="stable")[: min(self.explanation.k, MOST_MAIN)]
        chosen = {int(t) for t in steps if often[t] >= RARELY}
        best: dict[int, LikelyChange] = {}
        for likely in self.likely_changes:
            if likely.change.t in chosen:
                best.setdefault(likely.change.t, likely)
        return tuple(best[t] for t in sorted(best))


def ranked(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Largest improvement first; equal ones in the order of their guarantees, then as given."""
    return tuple(
        sorted(
            cases,
            key=lambda case: (-case.explanation.improvement, -case.guaranteed_improvement),
        )
    )
