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
the member would bring. Tried are the best policy of the posterior's means, that of the weights of
its worst members, and to change nothing.

What chose a policy overrates it: not the draws alone, also the data that they are drawn from. So
the transitions that were seen are split in two halves; draws of what one of them tells choose, and
draws of the other say what is claimed (`outcomes`). The explained episode is known to both. Claims
need no search: one policy under one member is a forward pass over what it leads to
(`distributions.forward_values`). Rows that it hardly ever meets are left at their means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from counterplan.core.limits import Watch
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Frontier, Interval, Status
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.counterfactual.continuous.setting import worst_mean, worst_weights
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation, check_feasible, prepare
from counterplan.counterfactual.discrete.distributions import PolicyProcess, forward_values
from counterplan.counterfactual.discrete.dynamic_program import (
    CERTAIN,
    PolicyTable,
    Setting,
    keep_observed,
    outcome_bounds,
    solve,
)
from counterplan.counterfactual.discrete.laws import Law, RowIds
from counterplan.errors import InputError
from counterplan.scm.estimate import Evidence
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.tabular import TabularMDP, numbers

# Draws that choose, and draws that say what the choice is worth.
CHOOSING, CLAIMING = 16, 64
# Courses of events below the first are left out; rows that are met less often are not drawn.
LEAST, HARDLY = 1e-12, 1e-4


@dataclass(frozen=True, eq=False, kw_only=True)
class PosteriorExplanation(PolicyExplanation):
    """A policy under draws of the model; the value is that over the worst share of those that chose
    it, and what is claimed is said by those of the other half of the data.

    outcomes  (B,) what each of these says
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
        # The range of all draws: the truth, as one more of them, falls outside by 2 / (B + 1).
        # That is 3 % and not 10, since the prior is not known either: docs/ground-truth.md.
        gains = self.outcomes - self.factual_value
        return Interval(float(gains.min()), float(gains.max()))

    @cached_property
    def guaranteed(self) -> float:
        return self.interval_in(self.process.setting.mdp).low

    @property
    def harm(self) -> float:
        """The share of draws by which it is worse than what was done."""
        return float(np.mean(self.outcomes < self.factual_value - 1e-12)) if self.changes else 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedLaw(Law):
    """The mean of the counterfactual rows of several models whose pairs share rows alike."""

    laws: Sequence[Law]
    weights: FloatArray
    compiled = None

    def expect(self, t: int, rows: RowIds, values: FloatArray) -> FloatArray:
        parts = zip(self.weights, self.laws, strict=True)
        return np.asarray(sum(w * law.expect(t, rows, values) for w, law in parts if w > 0.0))


@dataclass(frozen=True)
class PosteriorDP:
    """Dynamic programming over draws of a model with counts; the problem's risk is the share.

    bounded  say what no policy can exceed, which takes most of the time; without it the status is
             'heuristic'
    """

    seed: int = 0
    bounded: bool = True

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
        return _frontier(problem, float(problem.risk or 1.0), self.seed, self.bounded)


def _frontier(
    problem: Problem, share: float, seed: int, bounded: bool
) -> Frontier[PosteriorExplanation]:
    """Policies for the budgets 0..problem.k that are good over the worst share of draws."""
    watch = Watch("draws", problem.limits, problem.progress)
    setting, law = prepare(problem)
    chooses, claims = Evidence.of(setting.mdp, "risk=").halves(setting.episode, seed)
    members = list(chooses.draws(CHOOSING, seed))
    tables = _candidates(replace(setting, mdp=chooses.mean), members, share)
    factual = setting.mdp.outcome(setting.episode)
    bounds = np.full(setting.k + 1, np.inf)
    if bounded:
        bounds = worst_mean(np.array([_best_alone(setting, one) for one in members]).T, share)
    stats = {"seconds": watch.seconds}

    def make(k: int) -> PosteriorExplanation:
        c = min(k, setting.k)
        # To change nothing is worth what was observed, whatever the model; it wins ties, and then
        # the policy of the means.
        worths = [factual]
        worths += [float(worst_mean(_values(setting, one, c, members), share)) for one in tables]
        best = int(np.argmax(np.array(worths) > max(worths) - 1e-12))
        value, bound = worths[best], max(float(bounds[c]), *worths)
        proved = bound <= value + 1e-9 * max(1.0, abs(value))
        table, outcomes = keep_observed(setting), np.full(CLAIMING, factual)
        if best:
            table = tables[best - 1]
            fresh = claims.draws(CLAIMING, seed + 1, _met(setting, table, c))
            outcomes = _values(setting, table, c, fresh)
        unproved = Status.LIMIT if bounded else Status.HEURISTIC
        return PosteriorExplanation(
            episode=setting.episode,
            k=k,
            value=value,
            factual_value=factual,
            bound=value if proved else bound,
            status=Status.OPTIMAL if proved else unproved,
            stats=MappingProxyType(stats),
            method=f"dynamic programming over {CHOOSING} draws, claims by {CLAIMING} of other data",
            process=PolicyProcess(replace(setting, k=c), law, table),
            outcomes=outcomes,
            share=share,
        )

    return Frontier.lazily(make, problem.k + 1)


def _candidates(setting: Setting, members: Sequence[TabularMDP], share: float) -> list[PolicyTable]:
    """The best policy of the means, and that of its worst members' weights."""
    ended, table = solve(setting, Law(setting.mdp, setting.episode))
    check_feasible(setting, outcome_bounds(setting, ended)[1])
    if share == 1.0:
        return [table]
    weights = worst_weights(_values(setting, table, setting.k, members), share)
    laws = [Law(one, setting.episode) for one in members]
    mixed = MixedLaw(members[0], setting.episode, laws=laws, weights=weights)
    return [table, solve(setting, mixed)[1]]


def _best_alone(setting: Setting, member: TabularMDP) -> FloatArray:
    """(C,) the best that a member by itself allows."""
    own = replace(setting, mdp=member)
    return outcome_bounds(own, solve(own, Law(member, setting.episode))[0])[0]


def _values(
    setting: Setting,
    table: PolicyTable,
    k: int,
    members: Iterable[TabularMDP],
    visits: FloatArray | None = None,
) -> FloatArray:
    """(B,) what members say of a policy that starts with a budget."""
    one, met = setting.episode, np.zeros(setting.mdp.row_of.shape) if visits is None else visits
    path = np.array([0, len(one)]), one.states, one.actions
    actions = np.ascontiguousarray(table.actions[:, :, : k + 1])
    rewards = np.stack([setting.rewards_at(-1), setting.rewards_at(len(one) - 1)])
    rest = (actions, CERTAIN), setting.constraints.costs, rewards, met, LEAST
    said = [forward_values(path, (*each.rows.arrays, each.row_of), *rest) for each in members]
    return np.concatenate(said)


def _met(setting: Setting, table: PolicyTable, k: int) -> BoolArray:
    """(S, A) pairs that a policy meets more than hardly ever, and those observed."""
    visits = np.zeros(setting.mdp.row_of.shape)
    _values(setting, table, k, [setting.mdp], visits)
    visits[setting.episode.states, setting.episode.actions] = 1.0
    return np.asarray(visits >= HARDLY)
