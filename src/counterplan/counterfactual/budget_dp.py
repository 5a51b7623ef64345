"""The exact solver of discrete problems, and what all policy solvers share."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from counterplan.core.limits import Limits
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray, whole_number
from counterplan.counterfactual.backward_pass import BackwardPass, Setting, outcome_bounds, solve
from counterplan.counterfactual.distributions import PolicyProcess
from counterplan.counterfactual.laws import CounterfactualLaw, DiscreteSCM, SampledLaw, law_of
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.policy_table import PolicyTable
from counterplan.errors import InfeasibleError, InputError
from counterplan.scm.gumbel_max import GumbelMaxSCM
from counterplan.scm.tabular import TabularMDP

# As explanations name it.
METHOD = "dynamic programming"
# Entries of a policy's table, (T, S, C): 2 GB.
LARGEST_POLICY = 500_000_000


@dataclass(frozen=True)
class BudgetDP:
    """Exact dynamic programming over (step, state, budget left).

    samples  None for the exact counterfactual law; a number for the paper's Monte Carlo estimate
             of it (Gumbel-Max only)
    seed     of those samples
    """

    samples: int | None = None
    seed: int = 0

    def refuses(self, problem: Problem) -> str | None:
        """One line on the violated assumption and what to use instead, or None."""
        if self.samples is not None:
            whole_number(self.samples, "samples", minimum=1)
            whole_number(self.seed, "seed")
            if not isinstance(problem.scm, GumbelMaxSCM | TabularMDP):
                return "sampled kernels are defined for Gumbel-Max models: leave samples out"
        return refuse_unless_discrete(problem)

    def solve(self, problem: Problem) -> Explanation:
        """The explanation for the budget problem.k."""
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """One explanation for each budget 0..problem.k, all from one backward pass."""
        started = time.perf_counter()
        setting, law = prepare(problem)
        if self.samples is not None:
            law = SampledLaw(setting.mdp, setting.episode, self.samples, self.seed)
        ended, table = self._solved(setting, law, problem.limits)
        values, bounds = outcome_bounds(setting, ended)
        status = Status.OPTIMAL if ended.start == 0 else Status.LIMIT
        stats = {"seconds": time.perf_counter() - started, "nodes_expanded": float(ended.rows)}
        check_feasible(setting, bounds)
        process = PolicyProcess(setting, law, table)
        return PolicyExplanations(process, values, bounds, status, stats, problem.k, self._method)

    @property
    def _method(self) -> str:
        sampled = "" if self.samples is None else f", {self.samples:,} samples a kernel"
        return METHOD + sampled

    def _solved(
        self, setting: Setting, law: CounterfactualLaw, limits: Limits
    ) -> tuple[BackwardPass, PolicyTable]:
        """The backward pass; solvers that add to it go through here."""
        return solve(setting, law, limits)


def refuse_unless_discrete(problem: Problem) -> str | None:
    """Why a model cannot be solved by a discrete method, or None."""
    if isinstance(problem.scm, TabularMDP | DiscreteSCM):
        return None
    return (
        f"a {type(problem.scm).__name__} is no discrete causal model: pass a TabularMDP, a "
        "GumbelMaxSCM, or an object with `mdp` and `counterfactual_row`"
    )


def prepare(problem: Problem) -> tuple[Setting, CounterfactualLaw]:
    """The checked setting of a problem and the exact law of its causal model."""
    scm: DiscreteSCM = (
        GumbelMaxSCM(problem.scm) if isinstance(problem.scm, TabularMDP) else problem.scm
    )
    mdp, episode = scm.mdp, problem.episode
    mdp.check_episode(episode)
    resolved = problem.constraints.resolve(len(episode), mdp.n_states, mdp.n_actions)
    spendable = len(episode) * int(resolved.costs.max())
    entries = len(episode) * mdp.n_states * (min(problem.k, spendable) + 1)
    if entries > LARGEST_POLICY:
        raise InputError(
            f"{episode.name}: a policy for k={problem.k} and these change costs has {entries:,} "
            f"entries (limit {LARGEST_POLICY:,}): count costs in larger units or lower k"
        )
    return Setting(mdp, episode, resolved, min(problem.k, spendable)), law_of(scm, episode)


def check_feasible(setting: Setting, bounds: FloatArray) -> None:
    """Raise if what was observed is barred and the whole budget cannot avoid it."""
    if bounds[-1] > -math.inf:
        return
    episode = setting.episode
    for t in range(len(episode)):
        state, action = episode.states[t], episode.actions[t]
        if setting.rewards_at(t)[state, action] == -math.inf:
            why = "forbidden" if setting.constraints.forbidden[state, action] else "of reward -inf"
            raise InfeasibleError(
                f"{episode.name}: no policy with k={setting.k} avoids a barred pair; the observed "
                f"(state {state}, action {action}) at t={t} is {why}: raise k, or free the step"
            )
    raise InfeasibleError(f"{episode.name}: no policy with k={setting.k} satisfies the constraints")


@dataclass(frozen=True, eq=False)
class PolicyExplanations(Sequence[PolicyExplanation]):
    """Explanations for the budgets 0..largest_k from one pass, each made when asked for.

    values, bounds  (C,) for the budgets that an episode can spend; larger ones change nothing
    """

    process: PolicyProcess
    values: FloatArray
    bounds: FloatArray
    status: Status
    stats: Mapping[str, float]
    largest_k: int
    method: str

    def __len__(self) -> int:
        return self.largest_k + 1

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        setting = self.process.setting
        spendable = min(k, setting.k)
        return PolicyExplanation(
            episode=setting.episode,
            k=k,
            value=float(self.values[spendable]),
            factual_value=setting.mdp.outcome(setting.episode),
            bound=float(self.bounds[spendable]),
            status=self.status,
            stats=MappingProxyType(dict(self.stats)),
            method=self.method,
            process=replace(self.process, setting=replace(setting, k=spendable)),
        )
