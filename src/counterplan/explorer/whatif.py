"""What if these actions had been taken? A plan made by hand, followed through the model.

With point abduction the answer is one trajectory: the noise of the episode is inferred, and the
plan is replayed with it. In a discrete model the plan is followed whatever state comes about, and
its value is the expected outcome; the course shown is the likeliest one.

A plan is put to the model as a solver that has nothing to search, so that all that is said about it
(changes in words, support in the data, trajectories) comes from where every answer comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from counterplan.cohort.answers import Answer
from counterplan.cohort.question import Question
from counterplan.cohort.subject import DiscreteSubject, Subject
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem, Solver
from counterplan.core.result import Explanation, Status
from counterplan.counterfactual.backward_pass import Setting, evaluate
from counterplan.counterfactual.budget_dp import prepare
from counterplan.counterfactual.distributions import PolicyProcess
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.policy_table import PolicyTable, keep_observed
from counterplan.counterfactual.sequence_explanation import SequenceExplanation, unproved
from counterplan.counterfactual.sequence_setting import prepare_sequence
from counterplan.errors import InputError, NotApplicableError
from counterplan.explorer.kept import Memo
from counterplan.explorer.remembered_law import RememberedLaw
from counterplan.scm.point import PointSCM

Edits = Mapping[int, int]
# The method of an answer.
BY_HAND = "by hand"


@dataclass(frozen=True)
class ByHand:
    """A plan as a solver: the observed actions, but for those of `edits` (step -> action)."""

    edits: Edits
    memo: Memo

    def refuses(self, problem: Problem) -> str | None:
        return None

    def solve(self, problem: Problem) -> Explanation:
        if isinstance(problem.scm, PointSCM):
            return self._replayed(problem)
        return self._expected(problem)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        raise NotApplicableError("a plan made by hand has one budget: ask for that alone")

    def _replayed(self, problem: Problem) -> SequenceExplanation:
        setting = prepare_sequence(problem)
        actions = setting.observed.copy()
        for t, action in self.edits.items():
            actions[t] = action
        return unproved(setting, problem.k, actions, BY_HAND)

    def _expected(self, problem: Problem) -> PolicyExplanation:
        setting, law = prepare(problem)
        # Nothing is chosen, so no budget is counted: one column of the tables is enough.
        free = replace(setting.constraints, costs=np.zeros_like(setting.constraints.costs))
        setting = replace(setting, constraints=free, k=0)
        table = keep_observed(setting.episode, setting.mdp.n_states, 0)
        for t, action in self.edits.items():
            table.actions[t] = action
        remembered = RememberedLaw(law, problem.episode.id, self.memo)
        first = min(self.edits, default=len(setting.episode) - 1)
        return PolicyExplanation(
            episode=setting.episode,
            k=problem.k,
            value=_value(setting, remembered, table, first),
            factual_value=setting.mdp.outcome(setting.episode),
            bound=math.inf,
            status=Status.HEURISTIC,
            method=BY_HAND,
            process=PolicyProcess(setting, remembered, table),
        )


def _value(setting: Setting, law: RememberedLaw, table: PolicyTable, first: int) -> float:
    """What a plan is expected to earn that changes nothing before the step `first`: until there it
    leads where it led, so only what follows is a matter of chance."""
    episode, T = setting.episode, len(setting.episode)
    rest = Episode(episode.states[first:], episode.actions[first:], episode.id)
    ahead = evaluate(
        replace(setting, episode=rest),
        replace(law, first=first),
        PolicyTable(table.actions[first:]),
    )
    total = float(ahead[0])
    for t in range(first - 1, -1, -1):
        rewards = setting.mdp.rewards_at(t, T)
        total = float(rewards[episode.states[t], episode.actions[t]]) + total
    return total


@dataclass(frozen=True)
class WhatIf(Question):
    """The question what a plan made by hand would have led to."""

    edits: Edits = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo, compare=False)

    def solver_for(self, episode: str) -> Solver:
        return ByHand(self.edits, self.memo)


def what_if(subject: Subject, episode: Episode, edits: Edits, memo: Memo) -> WhatIf:
    """The question, or an error if the edits are none of this episode."""
    decisions = decisions_of(subject, episode)
    actions = actions_of(subject, episode)
    fixed = {t % decisions for t in subject.constraints(episode).fixed_steps}
    for t, action in edits.items():
        if not 0 <= t < decisions:
            raise InputError(
                f"{episode.name}: step {t} has no decision to edit; there are 0..{decisions - 1}"
            )
        if t in fixed:
            raise InputError(f"{episode.name}: nothing was done at step {t}, so nothing can change")
        if not 0 <= action < actions:
            raise InputError(f"action {action} is unknown; there are 0..{actions - 1}")
    return WhatIf(budgets=(len(edits),), edits=dict(edits), memo=memo)


def decisions_of(subject: Subject, episode: Episode) -> int:
    """How many steps have a decision: with states that are vectors the last leads nowhere."""
    return len(episode) if subject.is_discrete else len(episode) - 1


def actions_of(subject: Subject, episode: Episode) -> int:
    """How many actions there are to choose from; the one that stands for none is not among them."""
    if isinstance(subject, DiscreteSubject):
        return subject.mdp.n_actions if subject.layout is None else len(subject.layout.choices)
    return int(np.asarray(subject.problem(episode)["actions"]).shape[-2])


def inadmissible(subject: Subject, found: Answer) -> list[str]:
    """What to be told about changes that a discrete model does not admit where they are made."""
    explanation = found.explanation
    if not isinstance(subject, DiscreteSubject) or subject.mdp.admissible is None:
        return []
    assert isinstance(explanation, PolicyExplanation)
    states = explanation.most_likely.states
    return [
        f"{change.text}: the model has no such action in the likeliest state there; what it says "
        "about it means little"
        for change in found.changes
        if not subject.mdp.admissible[states[change.t], change.alternative]
    ]
