"""How much of an explanation rests on the Gumbel-Max assumption.

Many causal models share one MDP and differ in their counterfactuals. `value_interval` gives the
lowest and highest outcome that any of them predicts for a policy; `robust_explain` finds the
policy whose lowest outcome is highest (a pessimistic dynamic program).

Both let the mechanism of a step depend on the counterfactual history, i.e. on how much budget is
left. For a policy whose continuation depends on it, a model that shuts this out may predict a
narrower range, so for those the interval is an outer one. Likewise `stability` rules out what may
not follow the outcome that was observed; stability after all other outcomes, which would tie the
rows together, is not demanded. The interval always holds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Interval, Status
from counterplan.core.validation import LARGEST_BUDGET, FloatArray, whole_number
from counterplan.counterfactual.backward_pass import evaluate, outcome_bounds, solve
from counterplan.counterfactual.budget_dp import (
    METHOD,
    PolicyExplanations,
    check_feasible,
    prepare,
)
from counterplan.counterfactual.distributions import PolicyProcess
from counterplan.counterfactual.laws import ExactLaw, RowIds
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.errors import InputError
from counterplan.scm.gumbel_max import GumbelMaxSCM
from counterplan.scm.tabular import TabularMDP


@dataclass(frozen=True, eq=False)
class ExtremeLaw:
    """The lowest (or highest) expectation over all causal models that fit the MDP.

    stability  only models with counterfactual stability
    highest    take the highest instead of the lowest
    """

    mdp: TabularMDP
    episode: Episode
    stability: bool = False
    highest: bool = False

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.mdp.row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        from counterplan.counterfactual.worst_case import extreme_values

        factual = self.mdp.row(self.episode.states[t], self.episode.actions[t])
        order = np.argsort(-values if self.highest else values, axis=0, kind="stable")
        table = (self.mdp.rows.indptr, self.mdp.rows.indices, self.mdp.rows.probabilities)
        outcome = int(self.episode.states[t + 1])
        return np.asarray(
            extreme_values(factual, outcome, table, rows, values, order, self.stability)
        )


def value_interval(
    mdp: TabularMDP | GumbelMaxSCM,
    episode: Episode,
    explanation: PolicyExplanation,
    stability: bool = False,
) -> Interval:
    """The lowest and highest expected outcome of the explanation's policy over all causal models
    that fit the MDP, or over those with counterfactual stability."""
    model = _tabular(mdp)
    model.check_episode(episode)
    if not isinstance(explanation, PolicyExplanation):
        raise InputError("value_interval needs the explanation of a discrete problem")
    setting = explanation.process.setting
    if len(episode) != len(setting.episode) or model.row_of.shape != setting.mdp.row_of.shape:
        raise InputError(
            "the explanation belongs to another problem: its episode has "
            f"{len(setting.episode)} steps and its model (S, A) = {setting.mdp.row_of.shape}, "
            f"but {len(episode)} steps and {model.row_of.shape} were given"
        )
    if not np.array_equal(episode.states, setting.episode.states) or not np.array_equal(
        episode.actions, setting.episode.actions
    ):
        raise InputError(
            f"the explanation belongs to another episode than {episode.name}: pass the one that "
            "was explained"
        )
    setting = replace(setting, mdp=model, episode=episode)
    table = explanation.process.table
    low, high = (
        float(evaluate(setting, ExtremeLaw(model, episode, stability, highest), table)[-1])
        for highest in (False, True)
    )
    # Both ends are sums in different orders: where they meet, rounding may turn them round.
    return Interval(min(low, high), max(low, high))


def robust_explain(
    mdp: TabularMDP | GumbelMaxSCM,
    episode: Episode,
    k: int,
    *,
    stability: bool = False,
    constraints: Constraints | None = None,
) -> PolicyExplanation:
    """The policy with at most k changes whose worst case over all causal models that fit the MDP
    is best; `value` is that worst case, `outcome_mean` what the Gumbel-Max model expects of it."""
    started = time.perf_counter()
    model = _tabular(mdp)
    budget = whole_number(k, "k", maximum=LARGEST_BUDGET)
    problem = Problem(model, episode, budget, constraints or Constraints())
    setting, _ = prepare(problem)
    ended, table = solve(setting, ExtremeLaw(model, episode, stability))
    values, bounds = outcome_bounds(setting, ended)
    check_feasible(setting, bounds)
    stats = {"seconds": time.perf_counter() - started, "nodes_expanded": float(ended.rows)}
    process = PolicyProcess(setting, ExactLaw(model, episode), table)
    method = f"{METHOD} over every causal model"
    made = PolicyExplanations(process, values, bounds, Status.OPTIMAL, stats, problem.k, method)
    explanation: PolicyExplanation = made[-1]
    return explanation


def _tabular(mdp: TabularMDP | GumbelMaxSCM) -> TabularMDP:
    if isinstance(mdp, GumbelMaxSCM):
        return mdp.mdp
    if isinstance(mdp, TabularMDP):
        return mdp
    # A bijective model and an executed plan have the noise itself, so there is no range.
    raise InputError(
        f"expected a TabularMDP, got {type(mdp).__name__}: only tables of probabilities leave open "
        "what would have happened; elsewhere explain gives the one value"
    )
