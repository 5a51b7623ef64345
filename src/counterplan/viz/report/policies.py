"""Discrete cases solved again for a close look: all that a policy may do, not only most likely."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from counterplan.cohort.subject import DiscreteSubject
from counterplan.core.episode import Episode
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.robust import robust_explain, value_interval
from counterplan.io.episode_parts import Recorded
from counterplan.viz.case import Case, LikelyChange, likely_changes
from counterplan.viz.report.source import Source

# By how much a value may differ from the stored one: other versions of libraries round otherwise.
TOLERATED = 1e-6


@dataclass(frozen=True, eq=False)
class PolicyLook:
    """A policy with what is worth knowing about it.

    case  how much of it rests on the causal assumption, where the run has asked for that
    """

    explanation: PolicyExplanation
    probability_better: float
    likely: tuple[LikelyChange, ...]
    case: Case | None = None


def policy_look(source: Source, recorded: Recorded, value: float) -> PolicyLook | None:
    """The explanation that the run has found, solved again; None where there is no policy, or where
    the answer depended on how busy the machine was and is another one now."""
    subject = source.subject
    if not isinstance(subject, DiscreteSubject):
        return None
    budgets = tuple(k for k in source.budgets if k <= source.k)
    found = subject.explain(recorded.episode, replace(source.question, budgets=budgets))
    policies = [one for one in found if isinstance(one, PolicyExplanation)]
    if not _is_near(policies[-1].value, value):
        return None
    better = policies[-1].probability_better().value
    case = _case(source, subject, policies, better) if source.question.robust else None
    return PolicyLook(policies[-1], better, likely_changes(policies[-1]), case)


def guaranteed(source: Source, episode: Episode) -> float | None:
    """What some plan within the budget reaches in every causal model; None where the run did not
    ask about other models."""
    subject = source.subject
    if not source.question.robust or not isinstance(subject, DiscreteSubject):
        return None
    return _robust(source, subject, episode).value


def _robust(source: Source, subject: DiscreteSubject, episode: Episode) -> PolicyExplanation:
    constraints = source.question.constraints(subject.constraints(episode))
    return robust_explain(subject.mdp, episode, source.k, constraints=constraints)


def _case(
    source: Source, subject: DiscreteSubject, found: list[PolicyExplanation], better: float
) -> Case:
    last = found[-1]
    episode, mdp = last.episode, subject.mdp
    return Case(
        frontier=found,
        interval=value_interval(mdp, episode, last),
        stable_interval=value_interval(mdp, episode, last, stability=True),
        robust=_robust(source, subject, episode),
        probability_better=better,
    )


def _is_near(now: float, then: float) -> bool:
    return now == then or math.isclose(now, then, rel_tol=TOLERATED, abs_tol=TOLERATED)
