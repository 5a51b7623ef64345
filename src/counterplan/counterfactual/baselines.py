"""Simple methods to compare the optimum with, for discrete and continuous problems alike.

In a discrete problem they are policies whose expected outcome is exact (`policy_baselines`); in a
continuous one they are single sequences (`sequence_baselines`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import IntArray, whole_number
from counterplan.counterfactual.budget_dp import Setting
from counterplan.counterfactual.laws import CounterfactualLaw
from counterplan.counterfactual.policy_baselines import (
    evaluated,
    greedy_table,
    noisy_greedy_table,
    uniform_table,
)
from counterplan.counterfactual.policy_table import PolicyTable
from counterplan.counterfactual.sequence import SequenceSetting, prepare_sequence
from counterplan.counterfactual.sequence_baselines import (
    greedy_sequence,
    random_sequence,
    top_k_sequence,
)
from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.counterfactual.solver import refuse_unless_discrete
from counterplan.errors import InputError
from counterplan.scm.point import PointSCM


class _Baseline(ABC):
    """A method for both kinds of problem; no proof of optimality, so no bound."""

    def refuses(self, problem: Problem) -> str | None:
        return None if isinstance(problem.scm, PointSCM) else refuse_unless_discrete(problem)

    def solve(self, problem: Problem) -> Explanation:
        if isinstance(problem.scm, PointSCM):
            return self._sequence_explanation(problem)
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        if isinstance(problem.scm, PointSCM):
            budgets = range(problem.k + 1)
            return [self._sequence_explanation(replace(problem, k=k)) for k in budgets]
        return evaluated(problem, self._table)

    @abstractmethod
    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        """The policy of a discrete problem."""

    @abstractmethod
    def _sequence(self, setting: SequenceSetting) -> IntArray:
        """(T-1,) the actions of a continuous problem."""

    def _sequence_explanation(self, problem: Problem) -> SequenceExplanation:
        started = time.perf_counter()
        setting = prepare_sequence(problem)
        sequence = self._sequence(setting)
        states = setting.trajectories(sequence[None])[0]
        return SequenceExplanation(
            episode=setting.episode,
            k=problem.k,
            value=float(setting.reward(states).sum()),
            factual_value=float(setting.reward(setting.states).sum()),
            bound=math.inf,
            status=Status.HEURISTIC,
            stats=MappingProxyType({"seconds": time.perf_counter() - started}),
            method=type(self).__name__,
            actions=sequence,
            observed=setting.observed,
            states=setting.in_episode_units(states),
            history=np.empty((0, 3)),
        )


@dataclass(frozen=True)
class Greedy(_Baseline):
    """Discrete: the best action one step ahead, as long as the budget lasts. Continuous: round by
    round the best single change."""

    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        return greedy_table(setting, law)

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        return greedy_sequence(setting)


@dataclass(frozen=True)
class NoisyGreedy(_Baseline):
    """Greedy with the given probability at each step (round), else nothing changes.

    seed  of the one sequence that is drawn in a continuous problem; a discrete value is exact
    """

    seed: int = 0
    probability: float = 0.5

    def __post_init__(self) -> None:
        whole_number(self.seed, "seed")
        if not 0.0 <= self.probability <= 1.0:
            raise InputError(f"probability must lie between 0 and 1, got {self.probability}")

    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        return noisy_greedy_table(setting, law, self.probability)

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        rng = np.random.default_rng(self.seed)
        return greedy_sequence(setting, rng=rng, probability=self.probability)


@dataclass(frozen=True)
class Random(_Baseline):
    """Discrete: any action that may be taken, all equally likely, as long as the budget lasts.
    Continuous: random changes.

    seed  of the one sequence that is drawn in a continuous problem; a discrete value is exact
    """

    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.seed, "seed")

    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        return uniform_table(setting, law)

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        return random_sequence(setting, np.random.default_rng(self.seed))


@dataclass(frozen=True)
class TopK(_Baseline):
    """Continuous: the best single changes of the observed sequence, made together."""

    def refuses(self, problem: Problem) -> str | None:
        if isinstance(problem.scm, PointSCM):
            return None
        return "TopK changes a fixed sequence: a discrete problem asks for a policy, use Greedy()"

    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        raise NotImplementedError  # refused above

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        return top_k_sequence(setting)
