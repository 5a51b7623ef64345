"""Simple methods to compare the optimum with, for discrete and continuous problems alike.

In a discrete problem each is a policy over (step, state, budget left), random or not, so that its
expected outcome is exact and no realizations are drawn (the 2021 paper's appendix D):

    greedy        argmax_a R(s, a) + sum_s' P_tau,t(s' | s, a) R(s', a_{t+1})             (Eq. 13)
    noisy greedy  greedy with a given probability, else the observed action
    random        any action that may be taken, all equally likely

All keep the observed action once the budget is spent. Eq. 13 leaves a' open: here it is the
observed next action. In a continuous problem each is one sequence (the 2023 paper's experiments):

    greedy        round by round the best single change on top of those made
    top-k         the best single changes of the observed sequence, made together
    random        random changes

`TreeSearch` plans in both, and along the path of an executed plan (`tree_baseline`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Frontier, Status
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    SequenceSetting,
    greedy_sequence,
    prepare_sequence,
)
from counterplan.counterfactual.discrete.budget_dp import (
    PolicyExplanation,
    policy_frontier,
    prepare,
    refuse_unless_discrete,
)
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    PolicyTable,
    Setting,
    choose_best,
    evaluate,
    keep_observed,
    run_backward,
)
from counterplan.counterfactual.discrete.laws import CounterfactualLaw
from counterplan.counterfactual.executed.setting import AllocationExplanation, prepare_allocation
from counterplan.counterfactual.tree_baseline import (
    planned_allocation,
    planned_sequence,
    planned_table,
)
from counterplan.errors import InputError
from counterplan.planning.model import ExogenousModel
from counterplan.planning.search.planners import UCT, Planner
from counterplan.scm.point import PointSCM


def observed_table(setting: Setting, law: CounterfactualLaw) -> PolicyTable:
    """What was done."""
    return keep_observed(setting.episode, setting.mdp.n_states, setting.k)


def greedy_table(setting: Setting, law: CounterfactualLaw) -> PolicyTable:
    """The greedy action for every step, state and budget left."""
    table = observed_table(setting, law)

    def look_one_step_ahead(t: int, worths: FloatArray) -> FloatArray:
        choose_best(setting, table, t, worths)
        # What is passed back is only the next step's reward.
        next_reward = setting.rewards_at(t)[:, setting.episode.actions[t]]
        return np.repeat(next_reward[:, None], worths.shape[2], axis=1)

    run_backward(setting, law, setting.takeable_at, look_one_step_ahead)
    return table


def noisy_greedy_table(setting: Setting, law: CounterfactualLaw, probability: float) -> PolicyTable:
    """Greedy with a probability, else the observed action."""
    greedy, kept = greedy_table(setting, law).actions, observed_table(setting, law).actions
    # Where both agree there is one choice, not two halves of it.
    weights = np.where(greedy == kept, 1.0, probability)
    both = np.concatenate([greedy, kept], axis=3)
    return PolicyTable(both, np.concatenate([weights, 1.0 - weights], axis=3))


def uniform_table(setting: Setting, law: CounterfactualLaw) -> PolicyTable:
    """Every action that may be taken and paid for, all equally likely."""
    shape = (len(setting.episode), setting.mdp.n_states, setting.k + 1, setting.mdp.n_actions)
    actions = np.broadcast_to(np.arange(shape[3], dtype=np.int32), shape)
    weights = np.empty(shape)
    budgets = np.arange(setting.k + 1)
    for t in range(shape[0]):
        affordable = setting.costs_at(t)[None, :] <= budgets[:, None]
        weights[t] = setting.takeable_at(t)[:, None, :] & affordable[None, :, :]
    return PolicyTable(actions, weights / weights.sum(axis=3, keepdims=True))


def evaluated(
    problem: Problem, make_table: Callable[[Setting, CounterfactualLaw], PolicyTable], method: str
) -> Frontier[PolicyExplanation]:
    """The exact value of a policy for every budget; no proof of optimality, so no bound."""
    started = time.perf_counter()
    setting, law = prepare(problem)
    table = make_table(setting, law)
    values = evaluate(setting, law, table)
    stats = {"seconds": time.perf_counter() - started}
    bounds = np.full(len(values), math.inf)
    process = PolicyProcess(setting, law, table)
    return policy_frontier(process, values, bounds, Status.HEURISTIC, stats, problem.k, method)


def top_k_sequence(setting: SequenceSetting) -> IntArray:
    """The most valuable single changes, one for each step, as many as the budget allows."""
    result = setting.observed.copy()
    values = np.where(setting.affordable(result), setting.single_change_values(result), -np.inf)
    factual = float(setting.outcomes(result[None])[0])
    worthwhile = factual + setting.negligible(factual)
    order = np.argsort(-values.max(axis=1), kind="stable")
    left = setting.k
    for t in order:
        action = int(np.argmax(values[t]))
        cost = int(setting.costs_at(int(t))[action])
        if values[t, action] > worthwhile and 0 < cost <= left:
            result[t], left = action, left - cost
    return result


def random_sequence(setting: SequenceSetting, rng: np.random.Generator) -> IntArray:
    """Random steps in random order, each set to a random affordable action, until k is spent."""
    result = setting.observed.copy()
    for t in rng.permutation(len(result)):
        options = np.flatnonzero(setting.affordable(result)[t])
        others = options[options != setting.observed[t]]
        if len(others):
            result[t] = rng.choice(others)
    return result


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
        sequence, name = self._sequence(setting), type(self).__name__
        stats = {"seconds": time.perf_counter() - started}
        return setting.explanation(problem.k, sequence, math.inf, Status.HEURISTIC, name, stats)


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
        kept = evaluated(problem, observed_table, type(self).__name__)
        pairs = zip(searched, kept, strict=True)
        return [found if found.improvement >= 0.0 else same for found, same in pairs]

    def _table(self, setting: Setting, law: CounterfactualLaw) -> PolicyTable:
        return planned_table(setting, law, self.planner, self.seed, self.places)

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        return planned_sequence(setting, self.planner, self.seed)

    def _allocation_explanation(self, problem: Problem) -> AllocationExplanation:
        started = time.perf_counter()
        setting = prepare_allocation(problem)
        led = setting.replayed(planned_allocation(setting, self.planner, self.seed))
        stats, bound = {"seconds": time.perf_counter() - started}, setting.sign * math.inf
        name = type(self).__name__
        return setting.explanation(problem.k, led, bound, Status.HEURISTIC, name, stats)
