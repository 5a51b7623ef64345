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

All keep to the rule that alternatives stay inside the data, where the problem has it: what would
leave it is not changed.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.shown import module_tells
from counterplan.core.validation import IntArray, whole_number
from counterplan.counterfactual.continuous.setting import (
    SequenceSetting,
    greedy_sequence,
    prepare_sequence,
)
from counterplan.counterfactual.discrete.budget_dp import (
    policy_frontier,
    prepare,
    refuse_unless_discrete,
)
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    LOOK_AHEAD,
    PolicyTable,
    Setting,
    evaluate,
    keep_observed,
    run_backward,
)
from counterplan.counterfactual.discrete.laws import Law
from counterplan.errors import InputError
from counterplan.scm.point import PointSCM


class _Baseline(ABC):
    """A method for several kinds of problem; no proof of optimality, so no bound."""

    def refuses(self, problem: Problem) -> str | None:
        return None if isinstance(problem.scm, PointSCM) else refuse_unless_discrete(problem)

    def solve(self, problem: Problem) -> Explanation:
        started, name = time.perf_counter(), type(self).__name__
        if isinstance(problem.scm, PointSCM):
            setting = prepare_sequence(problem)
            sequence = self._sequence(setting)
            stats = {"seconds": time.perf_counter() - started}
            return setting.explanation(problem.k, sequence, math.inf, Status.HEURISTIC, name, stats)
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        if isinstance(problem.scm, PointSCM):
            return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]
        if problem.risk is not None:
            raise InputError("risk= is for the exact solver: leave solver= out")
        started = time.perf_counter()
        setting, law = prepare(problem)
        table = self._table(setting, law)
        values = evaluate(setting, law, table)
        stats, name = {"seconds": time.perf_counter() - started}, type(self).__name__
        process, bounds = PolicyProcess(setting, law, table), np.full(len(values), math.inf)
        return policy_frontier(process, values, bounds, Status.HEURISTIC, stats, problem.k, name)

    @abstractmethod
    def _table(self, setting: Setting, law: Law) -> PolicyTable:
        """The policy of a discrete problem."""

    @abstractmethod
    def _sequence(self, setting: SequenceSetting) -> IntArray:
        """(T-1,) the actions of a continuous problem."""


@dataclass(frozen=True)
class Greedy(_Baseline):
    """Discrete: the best action one step ahead, as long as the budget lasts. Continuous: round by
    round the best single change."""

    def _table(self, setting: Setting, law: Law) -> PolicyTable:
        table = keep_observed(setting)
        run_backward(setting, law, LOOK_AHEAD, table)
        return table

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

    def _table(self, setting: Setting, law: Law) -> PolicyTable:
        greedy, observed = Greedy()._table(setting, law).actions, keep_observed(setting).actions
        # Where both agree there is one choice, not two halves of it.
        weights = np.where(greedy == observed, 1.0, self.probability)
        both = np.concatenate([greedy, observed], axis=3)
        return PolicyTable(both, np.concatenate([weights, 1.0 - weights], axis=3))

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        rng = np.random.default_rng(self.seed)
        return greedy_sequence(setting, rng=rng, probability=self.probability)


@dataclass(frozen=True)
class Random(_Baseline):
    """Discrete: any action that may be taken, all equally likely, as long as the budget lasts.
    Continuous: random steps in random order, each set to a random affordable action.

    seed  of the one sequence that is drawn in a continuous problem; a discrete value is exact
    """

    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.seed, "seed")

    def _table(self, setting: Setting, law: Law) -> PolicyTable:
        shape = (len(setting.episode), setting.mdp.n_states, setting.k + 1, setting.mdp.n_actions)
        actions = np.broadcast_to(np.arange(shape[3], dtype=np.int32), shape)
        weights, budgets = np.empty(shape), np.arange(setting.k + 1)
        for t in range(shape[0]):
            affordable = setting.costs_at(t)[None, :] <= budgets[:, None]
            weights[t] = setting.takeable_at(t)[:, None, :] & affordable[None, :, :]
        return PolicyTable(actions, weights / weights.sum(axis=3, keepdims=True))

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        rng, result = np.random.default_rng(self.seed), setting.observed.copy()
        for t in rng.permutation(len(result)):
            options = np.flatnonzero(setting.affordable(result)[t])
            others = options[options != setting.observed[t]]
            changed = np.repeat(result[None], len(others), axis=0)
            changed[:, t] = others
            changed = changed[setting.is_inside(changed)]
            if len(changed):
                result = rng.choice(changed)
        return result


@dataclass(frozen=True)
class TopK(_Baseline):
    """Continuous: the best single changes of the observed sequence, one for each step, made
    together as far as the budget allows."""

    def refuses(self, problem: Problem) -> str | None:
        if isinstance(problem.scm, PointSCM):
            return None
        return "TopK changes a fixed sequence: a discrete problem asks for a policy, use Greedy()"

    def _table(self, setting: Setting, law: Law) -> PolicyTable:
        raise NotImplementedError  # refused above

    def _sequence(self, setting: SequenceSetting) -> IntArray:
        result, left = setting.observed.copy(), setting.k
        values = np.where(setting.affordable(result), setting.single_change_values(result), -np.inf)
        factual = float(setting.outcomes(result[None])[0])
        worthwhile = factual + setting.negligible(factual)
        for t in np.argsort(-values.max(axis=1), kind="stable"):
            action = int(np.argmax(values[t]))
            cost = int(setting.costs_at(int(t))[action])
            changed = np.where(np.arange(len(result)) == t, action, result)
            is_worth = values[t, action] > worthwhile and 0 < cost <= left
            if is_worth and setting.is_inside(changed[None])[0]:
                result, left = changed, left - cost
        return result


module_tells(globals())
