"""The answer to a question about one episode, which every record, stored or printed, is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterplan.cohort.question import Question
from counterplan.cohort.subject import ContinuousSubject, DiscreteSubject, Subject
from counterplan.cohort.support import Support, policy_support
from counterplan.cohort.words import PartChange
from counterplan.core.result import Explanation, Interval
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.io.episode_parts import Recorded
from counterplan.io.stay_models import Outlier, outliers


@dataclass(frozen=True)
class ChangeAnswer:
    """A change with all that is said about it.

    t            the step
    time         when it begins, in the unit of the table
    parts        the components of the action that change, where it has some
    text         all of it in words
    probability  how likely the policy makes this change; None where it is certain
    taken        how often the new action was taken there in the data, None if unknown
    """

    t: int
    time: float
    observed: int
    alternative: int
    observed_label: str
    alternative_label: str
    parts: tuple[PartChange, ...]
    text: str
    probability: float | None
    taken: int | None


@dataclass(frozen=True, eq=False)
class Answer:
    """An explanation for one budget.

    interval  of the value over all causal models that fit, where asked for
    far       states far outside what the model has learned from
    """

    recorded: Recorded
    explanation: Explanation
    changes: tuple[ChangeAnswer, ...]
    support: Support
    interval: Interval | None = None
    far: tuple[Outlier, ...] | None = None

    def row(self) -> dict[str, Any]:
        """One row of the table of results."""
        found, support = self.explanation, self.support
        distance = support.distance
        return {
            "episode_id": found.episode.id,
            "k": found.k,
            "steps": len(found.episode),
            "factual": found.factual_value,
            "value": found.value,
            "improvement": found.improvement,
            "relative_improvement": found.relative_improvement,
            "bound": found.bound,
            "gap": found.gap,
            "status": found.status.value,
            "reason": None,
            "method": found.method,
            "nodes": nodes_of(found.stats),
            "n_changes": len(self.changes),
            "changes": [_change_row(change) for change in self.changes],
            "interval_low": None if self.interval is None else self.interval.low,
            "interval_high": None if self.interval is None else self.interval.high,
            "filled": self.recorded.filled,
            "distance_max": None if distance is None else float(distance.max()),
            "distance_mean": None if distance is None else float(distance.mean()),
            "far_from_data": support.is_far,
            "unseen_probability": support.unseen,
            "new_actions": support.new_actions,
            "supported": support.supported,
            "far_outside_training": None if self.far is None else columns_of(self.far),
            **{f"outcome:{name}": text for name, text in self.recorded.outcomes},
        }


def failed_row(recorded: Recorded, k: int, reason: str) -> dict[str, Any]:
    """The row of an episode that could not be explained."""
    return {
        "episode_id": recorded.episode.id,
        "k": k,
        "steps": len(recorded.episode),
        "status": "failed",
        "reason": reason,
        "changes": [],
        "filled": recorded.filled,
        **{f"outcome:{name}": text for name, text in recorded.outcomes},
    }


def answers(subject: Subject, recorded: Recorded, question: Question) -> list[Answer]:
    """What should have been done differently, for each budget that is asked about."""
    found = subject.explain(recorded.episode, question)
    if isinstance(subject, DiscreteSubject):
        return [_policy_answer(subject, recorded, one, question) for one in found]
    assert isinstance(subject, ContinuousSubject)
    return [_sequence_answer(subject, recorded, one) for one in found]


def columns_of(far: tuple[Outlier, ...]) -> str:
    """Which columns lie far outside."""
    return ", ".join(outlier.column for outlier in far)


def nodes_of(stats: Mapping[str, float]) -> int | None:
    """What a solver counted: nodes of a search or rows of a dynamic program."""
    counted = stats.get("nodes_expanded")
    return None if counted is None else int(counted)


def _policy_answer(
    subject: DiscreteSubject, recorded: Recorded, found: Explanation, question: Question
) -> Answer:
    from counterplan.counterfactual.robust import value_interval

    assert isinstance(found, PolicyExplanation)
    support, likely = policy_support(found, subject.no_action), found.change_probabilities()
    changes = tuple(
        _worded(subject, recorded, number, found, support, float(likely[one.t, one.alternative]))
        for number, one in enumerate(found.changes)
    )
    interval = None
    if question.robust:
        interval = value_interval(subject.mdp, recorded.episode, found)
    return Answer(recorded, found, changes, support, interval)


def _sequence_answer(subject: ContinuousSubject, recorded: Recorded, found: Explanation) -> Answer:
    assert isinstance(found, SequenceExplanation)
    support = subject.seen.support(found, subject.layout.action_set(recorded.episode))
    changes = tuple(
        _worded(subject, recorded, number, found, support) for number in range(len(found.changes))
    )
    far = tuple(outliers(subject.scm, subject.layout, recorded.episode))
    return Answer(recorded, found, changes, support, far=far)


def _worded(
    subject: Subject,
    recorded: Recorded,
    number: int,
    found: Explanation,
    support: Support,
    probability: float | None = None,
) -> ChangeAnswer:
    t, observed, alternative = found.changes[number]
    words, time = subject.words, float(recorded.times[t])
    chance = "" if probability is None else f" ({probability:.0%})"
    return ChangeAnswer(
        t=t,
        time=time,
        observed=observed,
        alternative=alternative,
        observed_label=words.action(observed),
        alternative_label=words.action(alternative),
        parts=tuple(words.parts(observed, alternative)),
        text=f"{words.when(time)}: {words.change(observed, alternative)}{chance}",
        probability=probability,
        taken=support.taken[number],
    )


def _change_row(change: ChangeAnswer) -> dict[str, Any]:
    return {**vars(change), "parts": [part._asdict() for part in change.parts]}
