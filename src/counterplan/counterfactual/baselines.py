"""Simple methods to compare the optimum with, for discrete and continuous problems alike.

In a discrete problem they are policies whose expected outcome is exact (`policy_baselines`); in a
continuous one they are single sequences (`sequence_baselines`). `TreeSearch` plans in both, and
along the path of an executed plan (`tree_baseline`).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import BoolArray, FloatArray, IntArray, whole_number
from counterplan.counterfactual.continuous.setting import (
    SequenceExplanation,
    SequenceSetting,
    prepare_sequence,
    unproved,
)
from counterplan.counterfactual.discrete.budget_dp import (
    PolicyExplanations,
    prepare,
    refuse_unless_discrete,
)
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    PolicyTable,
    Setting,
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

# ----------------------------------------------------------------------------------------------
# Baseline policies of discrete problems (the 2021 paper's appendix D).
#
# Each is a policy over (step, state, budget left), random or not, so its expected outcome is exact:
# no realizations are drawn to evaluate it.
#
#     greedy        argmax_a R(s, a) + sum_s' P_tau,t(s' | s, a) R(s', a_{t+1})             (Eq. 13)
#     noisy greedy  greedy with a given probability, else the observed action
#     random        any action that may be taken, all equally likely
#
# All keep the observed action once the budget is spent. Eq. 13 leaves a' open: here it is the
# observed next action.


@dataclass(frozen=True, eq=False)
class LookOneStepAhead:
    """Chooses by Eq. 13; what it passes back is only the next step's reward."""

    setting: Setting
    table: PolicyTable

    def takeable_at(self, t: int) -> BoolArray:
        return self.setting.takeable_at(t)

    def combine(self, t: int, worths: FloatArray) -> FloatArray:
        from counterplan.counterfactual.discrete.dynamic_program import best_actions

        observed = self.setting.episode.actions[t]
        unused = np.empty(worths[:, 0].shape)
        scale = self.setting.scale
        best_actions(worths, observed, scale, unused, self.table.actions[t, ..., 0])
        next_reward = self.setting.rewards_at(t)[:, observed]
        return np.repeat(next_reward[:, None], worths.shape[2], axis=1)


def kept_table(setting: Setting, law: CounterfactualLaw) -> PolicyTable:
    """What was observed."""
    return keep_observed(setting.episode, setting.mdp.n_states, setting.k)


def greedy_table(setting: Setting, law: CounterfactualLaw) -> PolicyTable:
    """The greedy action for every step, state and budget left."""
    table = keep_observed(setting.episode, setting.mdp.n_states, setting.k)
    run_backward(setting, law, LookOneStepAhead(setting, table))
    return table


def noisy_greedy_table(setting: Setting, law: CounterfactualLaw, probability: float) -> PolicyTable:
    """Greedy with a probability, else the observed action."""
    greedy = greedy_table(setting, law).actions
    kept = keep_observed(setting.episode, setting.mdp.n_states, setting.k).actions
    weights = np.empty((*greedy.shape[:3], 2))
    # Where both agree there is one choice, not two halves of it.
    weights[..., 0] = np.where(greedy == kept, 1.0, probability)[..., 0]
    weights[..., 1] = 1.0 - weights[..., 0]
    return PolicyTable(np.concatenate([greedy, kept], axis=3), weights)


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
) -> PolicyExplanations:
    """The exact value of a policy for every budget; no proof of optimality, so no bound."""
    started = time.perf_counter()
    setting, law = prepare(problem)
    table = make_table(setting, law)
    values = evaluate(setting, law, table)
    stats = {"seconds": time.perf_counter() - started}
    bounds = np.full(len(values), math.inf)
    process = PolicyProcess(setting, law, table)
    return PolicyExplanations(process, values, bounds, Status.HEURISTIC, stats, problem.k, method)


# ----------------------------------------------------------------------------------------------
# What every single change of a sequence would bring, all of them side by side.


def single_change_values(setting: SequenceSetting, base: IntArray) -> FloatArray:
    """(T-1, N) the outcome of `base` (T-1,) with the action of step t replaced by a."""
    T, N = setting.horizon, setting.n_actions
    current = setting.states[:1]
    earned = 0.0
    waiting = np.empty((0, setting.states.shape[1]))
    totals = np.empty(0)
    for t in range(T - 1):
        if len(waiting):  # those that changed earlier follow the base from here on
            totals = totals + setting.reward(waiting)
            waiting = setting.replay.follow(t, waiting, np.full(len(waiting), base[t]))
        earned += float(setting.reward(current)[0])
        after = setting.replay.children(t, current)[0]
        waiting = np.concatenate([waiting, after])
        totals = np.concatenate([totals, np.full(N, earned)])
        current = after[base[t]][None]
    return np.asarray((totals + setting.reward(waiting)).reshape(T - 1, N))


def affordable(setting: SequenceSetting, base: IntArray) -> BoolArray:
    """(T-1, N) whether step t of `base` may be set to a within the budget."""
    steps = np.arange(len(base))
    prices = [setting.costs_at(t) for t in range(len(base))]
    price = np.array(prices, dtype=np.int64).reshape(len(base), setting.n_actions)
    spent = price[steps, base]
    return np.asarray(setting.allowed & (spent.sum() - spent[:, None] + price <= setting.k))


# ----------------------------------------------------------------------------------------------
# Simple sequences to compare the optimum with (those of the 2023 paper's experiments).
#
# greedy   round by round the best single change on top of those made
# top-k    the best single changes of the observed sequence, made together
# random   random changes


def greedy_sequence(
    setting: SequenceSetting,
    start: IntArray | None = None,
    rng: np.random.Generator | None = None,
    probability: float = 1.0,
) -> IntArray:
    """At most k rounds, each with the best affordable single change (taken with a probability)."""
    best = (setting.observed if start is None else start).copy()
    value = float(setting.outcomes(best[None])[0])
    for _ in range(setting.k):
        if rng is not None and rng.random() >= probability:
            continue
        gains = np.where(affordable(setting, best), single_change_values(setting, best), -np.inf)
        t, action = (int(i) for i in np.unravel_index(np.argmax(gains), gains.shape))
        if not gains[t, action] > value + setting.negligible(value):
            break
        best[t], value = action, float(gains[t, action])
    return best


def top_k_sequence(setting: SequenceSetting) -> IntArray:
    """The most valuable single changes, one for each step, as many as the budget allows."""
    result = setting.observed.copy()
    values = np.where(affordable(setting, result), single_change_values(setting, result), -np.inf)
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
        options = np.flatnonzero(affordable(setting, result)[t])
        others = options[options != setting.observed[t]]
        if len(others):
            result[t] = rng.choice(others)
    return result


# ----------------------------------------------------------------------------------------------


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
        led = setting.replayed(planned_allocation(setting, self.planner, self.seed))
        stats, bound = {"seconds": time.perf_counter() - started}, setting.sign * math.inf
        name = type(self).__name__
        return setting.explanation(problem.k, led, bound, Status.HEURISTIC, name, stats)
