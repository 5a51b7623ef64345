"""Baseline policies of discrete problems (the 2021 paper's appendix D).

Each is a policy over (step, state, budget left), random or not, so its expected outcome is exact:
no realizations are drawn to evaluate it.

    greedy        argmax_a R(s, a) + sum_s' P_tau,t(s' | s, a) R(s', a_{t+1})             (Eq. 13)
    noisy greedy  greedy with a given probability, else the observed action
    random        any action that may be taken, all equally likely

All keep the observed action once the budget is spent. Eq. 13 leaves a' open: here it is the
observed next action.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from counterplan.core.problem import Problem
from counterplan.core.result import Status
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.counterfactual.backward_pass import Setting, evaluate, run_backward
from counterplan.counterfactual.budget_dp import PolicyExplanations, prepare
from counterplan.counterfactual.distributions import PolicyProcess
from counterplan.counterfactual.laws import CounterfactualLaw
from counterplan.counterfactual.policy_table import PolicyTable, keep_observed


@dataclass(frozen=True, eq=False)
class LookOneStepAhead:
    """Chooses by Eq. 13; what it passes back is only the next step's reward."""

    setting: Setting
    table: PolicyTable

    def takeable_at(self, t: int) -> BoolArray:
        return self.setting.takeable_at(t)

    def combine(self, t: int, worths: FloatArray) -> FloatArray:
        from counterplan.counterfactual.backward_kernel import best_actions

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
