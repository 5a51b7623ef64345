"""The exact solver of discrete problems, the policies that it and the baselines return, and how
much of them rests on the Gumbel-Max assumption.

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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.constraints import Constraints, policy_rule
from counterplan.core.episode import Episode
from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.problem import Problem
from counterplan.core.result import Certified, Change, Explanation, Frontier, Interval, Status
from counterplan.core.validation import (
    LARGEST_BUDGET,
    FloatArray,
    IntArray,
    Seed,
    generator,
    whole_number,
)
from counterplan.counterfactual.discrete.distributions import (
    LOST,
    TOLERANCE,
    Moments,
    Path,
    PolicyProcess,
    Realizations,
    find_lattice,
)
from counterplan.counterfactual.discrete.dynamic_program import (
    Setting,
    evaluate,
    outcome_bounds,
    solve,
)
from counterplan.counterfactual.discrete.laws import (
    DiscreteSCM,
    Law,
    law_of,
    sampled_law,
)
from counterplan.counterfactual.support import Support, policy_support
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.scm.gumbel import GumbelMaxSCM, table_of
from counterplan.scm.tabular import TabularMDP, numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.scm.row_sets import RowSets

# As explanations name it.
METHOD = "dynamic programming"
# Entries of a policy's table, (T, S, C), of two bytes: 2 GB.
LARGEST_POLICY = 1_000_000_000
# Outcomes off any lattice are bracketed on a grid: as fine as about this many numbers and
# operations allow.
ENTRIES = 10_000_000
OPERATIONS = 2_000_000_000
COARSEST, FINEST = 20, 2_000


class OutcomeDistribution(NamedTuple):
    """Outcomes in ascending order with their probabilities; -inf first if it can happen."""

    values: FloatArray
    probabilities: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyExplanation(Explanation):
    """An explanation with its policy and the counterfactual process it runs in.

    `process` carries the model, the constraints, the causal law and the policy's table.
    """

    process: PolicyProcess = field(repr=False)

    def plot(self, *, seed: Seed = 0) -> Figure:
        """How likely each outcome is with the changes; `seed` of samples, where it takes some."""
        return self._drawn(seed=seed)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The changes along the likeliest counterfactual episode (see `most_likely`)."""
        observed, path = self.episode.actions, self.most_likely
        return tuple(
            Change(int(t), int(observed[t]), int(path.actions[t]))
            for t in np.flatnonzero(path.actions != observed)
        )

    @property
    def states(self) -> IntArray:
        """(T,) the states of the likeliest counterfactual episode."""
        return self.most_likely.states

    @property
    def actions(self) -> IntArray:
        """(T,) the actions taken in them."""
        return self.most_likely.actions

    @cached_property
    def interval(self) -> Interval:
        """The lowest and highest expected outcome of the policy over all causal models that fit the
        MDP (see `value_interval`)."""
        return self.interval_in(self.process.setting.mdp)

    def interval_in(
        self, mdp: TabularMDP, assume: str = "none", rows: RowSets | None = None
    ) -> Interval:
        """The same over the causal models of an MDP of a kind, and over the rows of sets."""
        low, high = (self._extreme(mdp, assume, up, rows) for up in (False, True))
        # Both ends are sums in different orders: where they meet, rounding may turn them round.
        return Interval(min(low, high), max(low, high))

    def least_in(self, mdp: TabularMDP, rows: RowSets | None = None) -> float:
        """The lower end alone, over all of them."""
        return self._extreme(mdp, "none", False, rows)

    def _extreme(self, mdp: TabularMDP, assume: str, up: bool, rows: RowSets | None) -> float:
        setting, table = self.process.setting, self.process.table
        setting = setting if mdp is setting.mdp else replace(setting, mdp=mdp)
        law = Law(mdp, self.episode, 1.0, assume, up, rows)
        return float(evaluate(setting, law, table)[-1])

    def expected_end(self, values: ArrayLike) -> float:
        """The mean of values (S,) of the last state under the policy."""
        setting = self.process.setting
        nothing = setting.mdp.with_rewards(np.zeros_like(setting.mdp.rewards), values)
        ended = replace(setting, mdp=nothing)
        return float(evaluate(ended, self.process.law, self.process.table)[-1])

    @cached_property
    def barred(self) -> tuple[str, ...]:
        """Which pairs make values minus infinity: of what was done, and of the changes."""
        setting = self.process.setting
        found = observed_barred(setting) if self.factual_value == -math.inf else None
        then = self.process.barred() if self.value == -math.inf else None
        places = (("what was done", found), ("with changes", then))
        return tuple(f"{of}: {barred_pair(setting, *at)}" for of, at in places if at is not None)

    @cached_property
    def guaranteed(self) -> float:
        """What the policy is worth whichever causal model holds: the lower end of `interval`."""
        return self.interval.low

    @cached_property
    def most_likely(self) -> Path:
        """The likeliest counterfactual episode under the policy, with its probability."""
        return self.process.most_likely()

    @cached_property
    def support(self) -> Support:
        """How far the policy leaves the data, where the model knows its data."""
        return policy_support(self.process, self.states, self.changes)

    def policy(self, t: int, state: int | str, used: int = 0) -> int:
        """The action at step t in `state`, by number or label, when `used` of the budget is spent
        (the most probable one, where a baseline chooses at random)."""
        return self.process.table.action(*self._place(t, state, used))

    def action_probabilities(self, t: int, state: int | str, used: int = 0) -> FloatArray:
        """(A,) how likely the policy is to take each action there."""
        place = self._place(t, state, used)
        return self.process.table.probabilities(*place, self.process.setting.mdp.n_actions)

    def sample(self, n: int, seed: Seed = 0) -> Realizations:
        """n counterfactual episodes (the paper's Algorithm 1)."""
        return self.process.sample(whole_number(n, "n", minimum=1), generator(seed))

    def change_probabilities(self) -> FloatArray:
        """(T, A) the probability that the action of step t is changed to a, exact."""
        return self._change_probabilities

    def changes_distribution(self) -> FloatArray:
        """(T + 1,) the probabilities of 0, 1, ..., T changes, exact."""
        S, A = self.process.setting.mdp.rewards.shape
        changed = (np.arange(A) != self.episode.actions[:, None]).astype(np.int64)
        smallest, probabilities, _ = self.process.sums([np.tile(one, (S, 1)) for one in changed])
        result = np.zeros(len(self.episode) + 1)
        result[smallest : smallest + len(probabilities)] = probabilities
        return result

    @property
    def outcome_mean(self) -> float:
        """The expected outcome under the causal model, exact."""
        return -math.inf if self.value == -math.inf else self._moments.mean

    @property
    def outcome_variance(self) -> float:
        """The variance of the outcome, exact; inf where an outcome of -inf is possible."""
        return math.inf if self.value == -math.inf else self._moments.variance

    def outcome_distribution(self) -> OutcomeDistribution:
        """The exact distribution of the outcome, where all rewards lie on a lattice."""
        setting, T = self.process.setting, len(self.episode)
        rewards = [setting.rewards_at(t) for t in range(T)]
        lattice = find_lattice(np.stack([rewards[0], rewards[-1]]))
        if lattice is None:
            raise NotApplicableError(
                "the rewards do not lie on a lattice (whole multiples of a common step), so the "
                "outcome has no small exact distribution: use sample(n), outcome_mean and "
                "outcome_variance, or probability_better(), which is bounded for any rewards"
            )
        above = (reward - lattice.base for reward in rewards)
        increments = [_in_steps(np.rint, one, lattice.step) for one in above]
        smallest, probabilities, lost = self.process.sums(increments)
        possible = np.flatnonzero(probabilities)
        values = np.asarray(T * lattice.base + lattice.step * (smallest + possible), np.float64)
        if lost > 0.0:
            values = np.concatenate([[-np.inf], values])
            return OutcomeDistribution(values, np.concatenate([[lost], probabilities[possible]]))
        return OutcomeDistribution(values, probabilities[possible])

    def probability_better(self) -> Certified:
        """The probability that the outcome beats the observed one: exact where the rewards before
        the last step lie on a lattice, otherwise between bounds from rounding them down and up."""
        setting, T = self.process.setting, len(self.episode)
        if self.factual_value == -math.inf:
            rewards = [setting.rewards_at(t) for t in range(T)]
            _, _, lost = self.process.sums([np.where(np.isfinite(r), 0, LOST) for r in rewards])
            exact = 1.0 - min(1.0, lost)
            return Certified(exact, exact, exact)
        gains = []
        for t in range(T):
            earned = setting.mdp.rewards_at(t, T)[self.episode.states[t], self.episode.actions[t]]
            gains.append(setting.rewards_at(t) - earned)
        *before, last = gains
        largest = max(float(np.abs(gain[np.isfinite(gain)]).max(initial=0.0)) for gain in gains)
        # Gains this small are what rounding leaves of a tie. Whole numbers g plus the last gain x
        # are positive if and only if g + ceil(x) is, so the last step needs no lattice.
        last = last - TOLERANCE * largest
        lattice = find_lattice(np.concatenate([[0.0], *(np.ravel(gain) for gain in before)]))
        if lattice is not None:
            increments = [_in_steps(np.rint, gain, lattice.step) for gain in before]
            exact = self.process.positive([*increments, _in_steps(np.ceil, last, lattice.step)])
            return Certified(exact, exact, exact)
        step = largest / self._grid()
        low, high = (
            self.process.positive(
                [*(_in_steps(way, gain, step) for gain in before), _in_steps(np.ceil, last, step)]
            )
            for way in (np.floor, np.ceil)
        )
        low, high = min(low, high), max(low, high)  # equal but for rounding, in any order
        return Certified((low + high) / 2, low, high)

    @cached_property
    def _change_probabilities(self) -> FloatArray:
        return self.process.change_probabilities()

    @cached_property
    def _moments(self) -> Moments:
        return self.process.moments()

    def _grid(self) -> int:
        """As many steps as memory and a few seconds of work allow."""
        setting, T = self.process.setting, len(self.episode)
        nodes = setting.mdp.n_states * (setting.k + 1)
        row = max(1, len(setting.mdp.rows.indices) // len(setting.mdp.rows))
        affordable = min(ENTRIES // (2 * T * nodes), OPERATIONS // (T * T * nodes * row))
        return min(FINEST, max(COARSEST, affordable))

    def _place(self, t: int, state: int | str, used: int) -> tuple[int, int, int]:
        mdp = self.process.setting.mdp
        state = mdp.state_number(state) if isinstance(state, str) else state
        places: tuple[tuple[str, object, int], ...] = (
            ("t", t, len(self.episode)),
            ("state", state, mdp.n_states),
            ("used", used, self.k + 1),
        )
        for name, given, count in places:
            if not isinstance(given, int | np.integer) or not 0 <= given < count:
                raise InputError(f"policy: {name} is {given}, expected 0..{count - 1}")
        # A budget beyond what an episode can spend is as good as the largest that it can.
        return t, state, min(self.k - used, self.process.setting.k)


def _in_steps(direction: np.ufunc, gain: FloatArray, step: float) -> NDArray[np.int64]:
    """Whole numbers of steps, rounded; LOST for -inf."""
    finite = np.isfinite(gain)
    result = np.full(gain.shape, LOST, dtype=np.int64)
    result[finite] = direction(gain[finite] / step).astype(np.int64)
    return result


@dataclass(frozen=True)
class BudgetDP:
    """Exact dynamic programming over (step, state, budget left).

    samples  None for the exact counterfactual law; a number for the paper's Monte Carlo estimate
             of it (Gumbel-Max only)
    seed     of those samples
    doubt    the weight of the worst that could have followed, at every step: 0 believes the causal
             model, 1 nothing but the MDP. A policy is then optimal by that mixture; its `value` is
             still what the model expects of it, `guaranteed` what holds in every model
    assume   the causal models among which the worst is sought: none, stable or monotone
    rows     the worst among the rows of these sets too
    """

    samples: int | None = None
    seed: int = 0
    doubt: float = 0.0
    assume: str = "none"
    rows: RowSets | None = None

    def refuses(self, problem: Problem) -> str | None:
        if not 0.0 <= float(numbers(self.doubt, "doubt")) <= 1.0:
            raise InputError(f"doubt is {self.doubt}: expected a number from 0 to 1")
        if problem.risk is not None:
            return "it solves one model: for risk= leave solver= and doubt= out"
        if self.samples is not None:
            whole_number(self.samples, "samples", minimum=1)
            whole_number(self.seed, "seed")
            if not isinstance(problem.scm, GumbelMaxSCM | TabularMDP):
                return "sampled kernels are defined for Gumbel-Max models: leave samples out"
        return refuse_unless_discrete(problem)

    def solve(self, problem: Problem) -> Explanation:
        return self.frontier(problem)[-1]

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """One explanation for each budget 0..problem.k, all from one backward pass."""
        setting, law = prepare(problem)
        method = METHOD
        if self.samples is not None:
            law = sampled_law(setting.mdp, setting.episode, self.samples, self.seed)
            method = f"{METHOD}, {self.samples:,} samples a kernel"
        chooses = law
        doubtful = replace(law, doubt=self.doubt, assume=self.assume, sets=self.rows, quick=True)
        if self.doubt > 0.0:
            chooses = doubtful
            method = f"{method}, doubt {self.doubt:g}"
        return _optimal_policies(problem, setting, chooses, law, method)


def _optimal_policies(
    problem: Problem,
    setting: Setting,
    chooses: Law,
    law: Law,
    method: str,
    believed: bool = True,
) -> Frontier[PolicyExplanation]:
    """The best policies for the budgets 0..problem.k by one law; what they lead to is told under
    another, and if that is `believed`, their values are too."""
    watch = Watch("backward pass", problem.limits, problem.progress)
    ended, table = solve(setting, chooses, watch)
    values, bounds = outcome_bounds(setting, ended)
    check_feasible(setting, bounds)
    status = Status.OPTIMAL if ended.start == 0 else Status.LIMIT
    if chooses is not law:
        told = law if believed else replace(chooses, quick=False)
        values = evaluate(setting, told, table)
        bounds = values if status == Status.OPTIMAL else np.maximum(values, bounds)
    stats = {"seconds": watch.seconds, "nodes_expanded": float(ended.rows)}
    process = PolicyProcess(setting, law, table)
    return policy_frontier(process, values, bounds, status, stats, problem.k, method)


def refuse_unless_discrete(problem: Problem) -> str | None:
    """Why a model cannot be solved by a discrete method, or None."""
    # What is known first: to look whether an object has all that it takes is slow.
    if isinstance(problem.scm, TabularMDP | GumbelMaxSCM | DiscreteSCM):
        return None
    return (
        f"a {type(problem.scm).__name__} is no discrete causal model: pass a TabularMDP, a "
        "GumbelMaxSCM, or an object with `mdp` and `counterfactual_row`"
    )


def prepare(problem: Problem) -> tuple[Setting, Law]:
    """The checked setting of a problem and the exact law of its causal model."""
    scm: DiscreteSCM = (
        GumbelMaxSCM(problem.scm) if isinstance(problem.scm, TabularMDP) else problem.scm
    )
    mdp, episode = scm.mdp, problem.episode
    mdp.check_episode(episode)
    rules = problem.constraints.by_number(mdp)
    resolved = rules.resolve(len(episode), mdp.n_states, mdp.n_actions)
    spendable = len(episode) * int(resolved.costs.max())
    entries = len(episode) * mdp.n_states * (min(problem.k, spendable) + 1)
    if entries > LARGEST_POLICY:
        raise InputError(
            f"{episode.name}: a policy for k={problem.k} and these change costs has {entries:,} "
            f"entries (limit {LARGEST_POLICY:,}): count costs in larger units or lower k"
        )
    least = problem.constraints.least(mdp.visits is not None)
    k, anywhere = min(problem.k, spendable), not isinstance(scm, GumbelMaxSCM)
    return Setting(mdp, episode, resolved, k, least, anywhere), law_of(scm, episode)


def check_feasible(setting: Setting, bounds: FloatArray) -> None:
    """Raise if what was observed is barred and the whole budget cannot avoid it."""
    if bounds[-1] > -math.inf:
        return
    name, observed = setting.episode.name, observed_barred(setting)
    if observed is None:
        raise InfeasibleError(f"{name}: no policy with k={setting.k} satisfies the constraints")
    raise InfeasibleError(
        f"{name}: no policy with k={setting.k} avoids a barred pair; the observed "
        f"{barred_pair(setting, *observed)}: raise k, or free the step"
    )


def observed_barred(setting: Setting) -> tuple[int, int, int] | None:
    """The first (t, state, action) that was observed and is of value -inf."""
    episode = setting.episode
    for t, (state, action) in enumerate(zip(episode.states, episode.actions, strict=True)):
        if setting.rewards_at(t)[state, action] == -math.inf:
            return t, int(state), int(action)
    return None


def barred_pair(setting: Setting, t: int, state: int, action: int) -> str:
    """Such a pair in words."""
    why = "forbidden" if setting.constraints.forbidden[state, action] else "of reward -inf"
    mdp = setting.mdp
    pair = f"(state {mdp.state_name(state)}, action {mdp.action_name(action)})"
    return f"{pair} at t={t} is {why}"


def policy_frontier(
    process: PolicyProcess,
    values: FloatArray,
    bounds: FloatArray,
    status: Status,
    stats: Mapping[str, float],
    largest_k: int,
    method: str,
) -> Frontier[PolicyExplanation]:
    """Explanations for the budgets 0..largest_k from one pass; values and bounds (C,) are those of
    the budgets that an episode can spend, beyond which nothing changes."""
    setting = process.setting

    def make(k: int) -> PolicyExplanation:
        spendable = min(k, setting.k)
        return PolicyExplanation(
            episode=setting.episode,
            k=k,
            value=float(values[spendable]),
            factual_value=setting.mdp.outcome(setting.episode),
            bound=float(bounds[spendable]),
            status=status,
            stats=MappingProxyType(dict(stats)),
            method=method,
            rule=policy_rule(setting.least) if setting.least else "",
            process=process
            if spendable == setting.k
            else replace(process, setting=replace(setting, k=spendable)),
        )

    return Frontier.lazily(make, largest_k + 1)


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
    model = table_of(mdp)
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
    explained = setting.episode
    if (episode.states != explained.states).any() or (episode.actions != explained.actions).any():
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
    model = table_of(mdp)
    budget = whole_number(k, "k", maximum=LARGEST_BUDGET)
    problem = Problem(model, episode, budget, constraints or Constraints(), progress=progress)
    setting, law = prepare(problem)
    worst = Law(model, episode, 1.0, assume, sets=rows, quick=True)
    method = f"{METHOD} over every causal model{'' if rows is None else f' and {rows.words}'}"
    return _optimal_policies(problem, setting, worst, law, method, believed=False)[-1]
