"""Many models of one table at once: a policy under draws of what the data leaves open.

A model with counts is the mean of a Dirichlet posterior. Its draws P_1 .. P_B are members of an
ensemble, each of which reads the episode by its own rows, and V_b(pi) is what the policy pi would
have brought under member b. What is asked for is the policy with the best mean over the worst share
beta of the members,

    W(pi) = min_w sum_b w_b V_b(pi)      over   0 <= w_b <= 1 / (beta B),   sum_b w_b = 1

(beta = 1: the mean). One policy has to do for all members, and a row that several steps share is
the same row in each of them: no dynamic program solves that. Two things are exact. For any weights
a backward pass under the mixed kernels sum_b w_b c_b, which forgets that steps share rows, gives a
policy, and its W is computed member by member. And for every policy

    W(pi) <= sum_b w_b V_b(pi) <= sum_b w_b V*_b        with V*_b what is best under b alone,

of which the least over w is the mean of the worst share of V*_b: the bound, which is what knowing
the member would bring. Tried are the policies of equal weights, of the weights of their worst
members, and to change nothing.

The draws that chose a policy overrate it, so what is claimed (`outcomes`) is said by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from counterplan.core.limits import Watch
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Frontier, Interval, Status
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.ensemble import LEVEL, worst_mean, worst_weights
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation, check_feasible, prepare
from counterplan.counterfactual.discrete.distributions import PolicyProcess
from counterplan.counterfactual.discrete.dynamic_program import (
    PolicyTable,
    Setting,
    evaluate,
    keep_observed,
    outcome_bounds,
    solve,
)
from counterplan.counterfactual.discrete.laws import CounterfactualLaw, ExactLaw, RowIds
from counterplan.errors import InputError
from counterplan.scm.estimate import posterior_draws
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.tabular import Rows, TabularMDP, numbers

# Draws that choose, and draws that say what the choice is worth.
CHOOSING, CLAIMING = 16, 64


@dataclass(frozen=True, eq=False, kw_only=True)
class PosteriorExplanation(PolicyExplanation):
    """A policy under draws of the model; the value is that over the worst share of those that chose
    it, and what is claimed is said by fresh ones.

    outcomes  (B,) what each fresh draw says
    share     of the draws whose mean was optimised
    """

    outcomes: FloatArray = field(repr=False)
    share: float

    @property
    def improvement(self) -> float:
        """The mean over draws."""
        return float(self.outcomes.mean() - self.factual_value)

    @cached_property
    def interval(self) -> Interval:
        """Of the improvement, at 90 %. What holds whichever causal model is right says
        `value_interval`."""
        # The truth is one more draw: it falls outside the r-th from either end by 2 r / (B + 1).
        # One further out on each side, since the prior is not known either: docs/ground-truth.md.
        gains = np.sort(self.outcomes - self.factual_value)
        r = max(1, int((len(gains) + 1) * (1 - LEVEL) / 2) - 1)
        return Interval(float(gains[r - 1]), float(gains[-r]))

    @cached_property
    def guaranteed(self) -> float:
        return self.interval_in(self.process.setting.mdp).low

    @property
    def harm(self) -> float:
        """The share of draws by which it is worse than what was done."""
        return float(np.mean(self.outcomes < self.factual_value - 1e-12)) if self.changes else 0.0


@dataclass(frozen=True, eq=False)
class MixedLaw:
    """The mean of the counterfactual rows of several models whose pairs share rows alike."""

    laws: Sequence[ExactLaw]
    weights: FloatArray

    @property
    def row_of(self) -> NDArray[np.int32]:
        return self.laws[0].row_of

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        parts = zip(self.weights, self.laws, strict=True)
        return np.asarray(sum(w * law.expect(t, rows, values) for w, law in parts if w > 0.0))

    def rows_at(self, t: int, rows: RowIds) -> Rows:
        found = [law.rows_at(t, rows) for law in self.laws]
        mixed = np.average([one.probabilities for one in found], axis=0, weights=self.weights)
        return Rows(found[0].indptr, found[0].indices, mixed)


@dataclass(frozen=True, eq=False)
class _Members:
    """Draws of a model, and what policies are worth under each."""

    setting: Setting
    laws: Sequence[ExactLaw]

    @classmethod
    def drawn(cls, setting: Setting, count: int, seed: int) -> _Members:
        models = posterior_draws(setting.mdp, count, seed)
        return cls(setting, [ExactLaw(one, setting.episode) for one in models])

    def outcomes(self, table: PolicyTable) -> FloatArray:
        """(B, C) what each member says of a policy, by budget."""
        every = [evaluate(replace(self.setting, mdp=one.mdp), one, table) for one in self.laws]
        return np.array(every)

    def mixed(self, weights: FloatArray) -> MixedLaw:
        return MixedLaw(self.laws, weights)

    def best_alone(self) -> FloatArray:
        """(B, C) the best that each member by itself allows."""
        found = []
        for one in self.laws:
            own = replace(self.setting, mdp=one.mdp)
            found.append(outcome_bounds(own, solve(own, one)[0])[0])
        return np.array(found)


@dataclass(frozen=True)
class PosteriorDP:
    """Dynamic programming over draws of a model with counts; the problem's risk is the share."""

    seed: int = 0

    def refuses(self, problem: Problem) -> str | None:
        if not 0.0 < float(numbers(0.0 if problem.risk is None else problem.risk, "risk")) <= 1.0:
            raise InputError(f"risk is {problem.risk}: expected a share of draws above 0, up to 1")
        if isinstance(problem.scm, TabularMDP | GumbelMaxSCM):
            return None
        return (
            f"risk= is for models that draws can be made of: a {type(problem.scm).__name__} is one "
            "causal model; pass a TabularMDP with counts"
        )

    def solve(self, problem: Problem) -> Explanation:
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        return _frontier(problem, float(problem.risk or 1.0), self.seed)


def _frontier(problem: Problem, share: float, seed: int) -> Frontier[PosteriorExplanation]:
    """Policies for the budgets 0..problem.k that are good over the worst share of draws."""
    watch = Watch("draws", problem.limits, problem.progress)
    setting, _ = prepare(problem)
    choosing = _Members.drawn(setting, CHOOSING, seed)
    tables = _candidates(setting, choosing, share)
    factual = setting.mdp.outcome(setting.episode)
    worths = np.array([worst_mean(choosing.outcomes(one).T, share) for one in tables[1:]])
    # To change nothing is worth what was observed, whatever the model.
    worths = np.vstack([np.full(setting.k + 1, factual), worths])
    bounds = np.maximum(worst_mean(choosing.best_alone().T, share), worths.max(axis=0))
    check_feasible(setting, bounds)
    claims = _Members.drawn(setting, CLAIMING, seed + 1)
    said = cache(lambda best: claims.outcomes(tables[best]))
    law: CounterfactualLaw = choosing.mixed(np.full(CHOOSING, 1.0 / CHOOSING))
    stats = {"seconds": watch.seconds}

    def make(k: int) -> PosteriorExplanation:
        c = min(k, setting.k)
        # Of equals the first: to change nothing, then equal weights.
        best = int(np.argmax(worths[:, c] > worths[:, c].max() - 1e-12))
        value, bound = float(worths[best, c]), float(bounds[c])
        proved = bound <= value + 1e-9 * max(1.0, abs(value))
        return PosteriorExplanation(
            episode=setting.episode,
            k=k,
            value=value,
            factual_value=factual,
            bound=value if proved else bound,
            status=Status.OPTIMAL if proved else Status.LIMIT,
            stats=MappingProxyType(stats),
            method=f"dynamic programming over {CHOOSING} draws, claims by {CLAIMING} others",
            process=PolicyProcess(replace(setting, k=c), law, tables[best]),
            outcomes=said(best)[:, c] if best else np.full(CLAIMING, factual),
            share=share,
        )

    return Frontier.lazily(make, problem.k + 1)


def _candidates(setting: Setting, members: _Members, share: float) -> list[PolicyTable]:
    """To change nothing, the policy of equal weights, and that of its worst members' weights."""
    equal = np.full(len(members.laws), 1.0 / len(members.laws))
    tables = [keep_observed(setting), solve(setting, members.mixed(equal))[1]]
    if share < 1.0:
        weights = worst_weights(members.outcomes(tables[1])[:, -1], share)
        tables.append(solve(setting, members.mixed(weights))[1])
    return tables
