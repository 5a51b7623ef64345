"""How much of an explanation rests on the Gumbel-Max assumption.

Many causal models share one MDP and differ in their counterfactuals. `value_interval` gives the
lowest and highest outcome that any of them predicts for a policy; `robust_explain` finds the
policy whose lowest outcome is highest (a pessimistic dynamic program).

Both let the mechanism of a step depend on the counterfactual history, i.e. on how much budget is
left. For a policy whose continuation depends on it, a model that shuts this out may predict a
narrower range, so for those the interval is an outer one. Likewise stability rules out what may
not follow the outcome that was observed; stability after all other outcomes, which would tie the
rows together, is not demanded. The interval always holds.

The rows themselves may be uncertain: with `RowSets` both are exact per step over all rows of the
sets and all causal models. A row that several steps share could be the worst for one of them only,
so there, too, the interval is an outer one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.limits import ProgressCallback
from counterplan.core.problem import Problem
from counterplan.core.result import Interval
from counterplan.core.validation import LARGEST_BUDGET, whole_number
from counterplan.counterfactual.discrete.budget_dp import (
    METHOD,
    PolicyExplanation,
    optimal_policies,
    prepare,
)
from counterplan.counterfactual.discrete.laws import ExtremeLaw
from counterplan.errors import InputError
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.tabular import TabularMDP

if TYPE_CHECKING:
    from counterplan.scm.row_sets import RowSets


def value_interval(
    mdp: TabularMDP | GumbelMaxSCM,
    episode: Episode,
    explanation: PolicyExplanation,
    stability: bool = False,
    *,
    assume: str = "none",
    rows: RowSets | None = None,
) -> Interval:
    """The lowest and highest expected outcome of the explanation's policy over all causal models
    that fit the MDP.

    stability  the same as assume="stable"
    assume     only causal models that are "stable" or "monotone"; "none" for all
    rows       over all rows of these sets too
    """
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
    assumed = "stable" if stability and assume == "none" else assume
    return explanation.interval_in(model, assumed, rows)


def robust_explain(
    mdp: TabularMDP | GumbelMaxSCM,
    episode: Episode,
    k: int,
    *,
    constraints: Constraints | None = None,
    progress: ProgressCallback | None = None,
    assume: str = "none",
    rows: RowSets | None = None,
) -> PolicyExplanation:
    """The policy with at most k changes whose worst case over all causal models that fit the MDP
    is best; `value` is that worst case, `outcome_mean` what the Gumbel-Max model expects of it.

    assume, rows  as in `value_interval`
    progress  as in `explain`: where it returns False the status is 'limit'
    """
    model = _tabular(mdp)
    budget = whole_number(k, "k", maximum=LARGEST_BUDGET)
    problem = Problem(model, episode, budget, constraints or Constraints(), progress=progress)
    setting, law = prepare(problem)
    worst = ExtremeLaw(model, episode, assume, sets=rows)
    method = f"{METHOD} over every causal model{'' if rows is None else f' and {rows.words}'}"
    return optimal_policies(problem, setting, worst, law, method)[-1]


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
