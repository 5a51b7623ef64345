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
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Interval, Status
from counterplan.core.validation import LARGEST_BUDGET, FloatArray, whole_number
from counterplan.counterfactual.discrete.budget_dp import (
    METHOD,
    PolicyExplanation,
    PolicyExplanations,
    check_feasible,
    prepare,
)
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import evaluate, outcome_bounds, solve
from counterplan.counterfactual.discrete.laws import ExactLaw, RowIds
from counterplan.errors import InputError
from counterplan.scm.gumbel import GumbelMaxSCM, starts_before
from counterplan.scm.tabular import TabularMDP

# ----------------------------------------------------------------------------------------------
# Extreme expectations over every counterfactual row that a causal model of the MDP allows.
#
# Knowing only that (s_t, a_t), with row p, led to o, the counterfactual row of another pair with
# row q can be any c with
#
#     sum_i c_i = 1,      0 <= c_i <= min(1, q_i / p_o)
#
# (the mass q_i - c_i p_o left for the other factual outcomes must not be negative; it then sums to
# 1 - p_o, so the rest can be coupled in any way). Counterfactual stability further sets c_i = 0
# for every i != o with q_o / p_o >= q_i / p_i. The smallest expectation of h fills the states from
# the lowest h up to their caps; the largest, from the highest down.

# Mass below this is what rounding left over, not something to place in a state worth -inf.
ROUNDING = 1e-14


@njit(cache=True, nogil=True)
def caps_of_row(
    factual: Any, outcome: int, indices: Any, probabilities: Any, stability: bool, caps: Any
) -> None:
    """Write the largest c_i of one sparse row into the dense caps (S,), zero elsewhere."""
    caps[:] = 0.0
    finish = np.inf
    for j in range(indices.shape[0]):
        if indices[j] == outcome:
            finish = factual[outcome] / probabilities[j]
    for j in range(indices.shape[0]):
        i = indices[j]
        # q_o / p_o < q_i / p_i, decided as the Gumbel-Max kernel decides it
        if not stability or i == outcome or starts_before(factual[i], probabilities[j], finish):
            caps[i] = min(1.0, probabilities[j] / factual[outcome])


@njit(cache=True, nogil=True)
def extreme_values(
    factual: Any, outcome: int, table: Any, rows: Any, values: Any, order: Any, stability: bool
) -> Any:
    """(R, C) extreme expectations of values (S, C) for the row ids in `rows`.

    order  (S, C) states in the order in which they are filled, for each column
    """
    indptr, indices, probabilities = table
    n_states, columns = values.shape
    result = np.zeros((indptr.shape[0] - 1, columns))
    caps = np.empty(n_states)
    for row in rows:
        start, end = indptr[row], indptr[row + 1]
        caps_of_row(factual, outcome, indices[start:end], probabilities[start:end], stability, caps)
        for c in range(columns):
            left = 1.0
            total = 0.0
            last = -1
            first = 0.0
            for position in range(n_states):
                i = order[position, c]
                if caps[i] > 0.0:
                    if last < 0:
                        first = values[i, c]
                    share = min(left, caps[i])
                    total += share * values[i, c]
                    left -= share
                    last = i
                    if left <= ROUNDING:
                        break
            if left > 0.0 and last >= 0:
                total += left * values[last, c]
            # A mean lies between what it is a mean of, whatever rounding says.
            least, most = min(first, values[last, c]), max(first, values[last, c])
            result[row, c] = min(max(total, least), most)
    return result


# ----------------------------------------------------------------------------------------------


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
