"""Simple methods to compare the optimum with, for discrete and continuous problems alike.

In a discrete problem they are policies whose expected outcome is exact (`policy_baselines`); in a
continuous one they are single sequences (`sequence_baselines`). `TreeSearch` plans in both, and
along the path of an executed plan (`tree_baseline`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import IntArray, whole_number
from counterplan.counterfactual.allocation_explanation import AllocationExplanation
from counterplan.counterfactual.allocation_setting import prepare_allocation
from counterplan.counterfactual.backward_pass import Setting
from counterplan.counterfactual.budget_dp import refuse_unless_discrete
from counterplan.counterfactual.laws import CounterfactualLaw
from counterplan.counterfactual.policy_baselines import (
    evaluated,
    greedy_table,
    kept_table,
    noisy_greedy_table,
    uniform_table,
)
from counterplan.counterfactual.policy_table import PolicyTable
from counterplan.counterfactual.sequence_baselines import (
    greedy_sequence,
    random_sequence,
    top_k_sequence,
)
from counterplan.counterfactual.sequence_explanation import SequenceExplanation, unproved
from counterplan.counterfactual.sequence_setting import SequenceSetting, prepare_sequence
from counterplan.counterfactual.tree_baseline import (
    planned_allocation,
    planned_sequence,
    planned_table,
)
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel
from counterplan.planning.planners import UCT, Planner
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
        return evaluated(problem, self._table, type(self).__name__)

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
        seconds = time.perf_counter() - started
        return unproved(setting, problem.k, sequence, type(self).__name__, seconds=seconds)


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


@dataclass(frozen=True)
class TreeSearch(_Baseline):
    """What a tree search decides in the counterfactual world, under the budget: its choices in a
    discrete problem, its sequence in a continuous one, its amounts along an executed plan's path.

    planner  UCT, BTS, ... with their simulations for each decision
    seed     of the planner's own chance
    places   discrete: how many (state, budget left) of a step are searched, the likeliest first
    """

    planner: Planner = field(default_factory=lambda: UCT(300))
    seed: int = 0
    places: int = 50

    def __post_init__(self) -> None:
        whole_number(self.seed, "seed")
        whole_number(self.places, "places", minimum=1)
        if isinstance(self.planner, type) or not isinstance(self.planner, Planner):
            raise InputError(f"planner is {self.planner!r}: pass an object such as UCT(300)")

    def refuses(self, problem: Problem) -> str | None:
        return None if isinstance(problem.scm, ExogenousModel) else super().refuses(problem)

    def solve(self, problem: Problem) -> Explanation:
        if isinstance(problem.scm, PointSCM) or not isinstance(problem.scm, ExogenousModel):
            return super().solve(problem)
        return self._allocation_explanation(problem)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        if isinstance(problem.scm, PointSCM):
            return super().frontier(problem)
        if isinstance(problem.scm, ExogenousModel):
            return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]
        searched = super().frontier(problem)
        if all(found.improvement >= 0.0 for found in searched):
            return searched
        # As in the other problems, what is worse than what was done is not proposed.
        kept = evaluated(problem, kept_table, type(self).__name__)
        pairs = zip(searched, kept, strict=True)
        return [found if found.improvement >= 0.0 else same for found, same in pairs]

    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        return planned_table(setting, law, self.planner, self.seed, self.places)

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        return planned_sequence(setting, self.planner, self.seed)

    def _allocation_explanation(self, problem: Problem) -> AllocationExplanation:
        started = time.perf_counter()
        setting = prepare_allocation(problem)
        actions = planned_allocation(setting, self.planner, self.seed)
        led = setting.replayed(actions)
        return AllocationExplanation(
            episode=setting.episode,
            k=problem.k,
            value=led.value,
            factual_value=setting.done.value,
            bound=setting.sign * math.inf,
            status=Status.HEURISTIC,
            stats=MappingProxyType({"seconds": time.perf_counter() - started}),
            method=type(self).__name__,
            sense=setting.model.sense,
            actions=actions,
            observed=setting.done.actions,
            levels=led.levels,
        )
