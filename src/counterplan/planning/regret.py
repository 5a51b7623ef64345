"""What executed decisions lost: against hindsight, against a policy without foresight, on average.

For one realised path, with regret counted so that more is worse (s = 1 for rewards, -1 for costs):

    regret_hindsight = s (hindsight - executed) >= 0     what perfect foresight would have brought
    regret_policy    = s (without_foresight - executed)  what the best policy without foresight
                                                         would have brought on this path; negative
                                                         where the decisions were luckier
    expected_regret  = sum_t V*_t - Q*_t >= 0            what the decisions lost in expectation when
                                                         they were made: no luck in it

Hindsight is an exact allocation; nobody could have had it. The expected regret is what to judge
decisions by. It holds decisions to have been made without foresight and the model's law to be true:
with Q*_t(x, d, a) = r_t + E[V*_{t+1}(x_{t+1}, d') | x_t] and V* = max_a Q* (costs: min), along any
path,

    E[ sum_t r_t ] = V* - E[ sum_t (V*_t - Q*_t) ]

It is known where V* is: by the model's own dynamic program (a method `loss`), or by listing every
state that can be reached, where they are few. Elsewhere the best policy known takes the optimum's
place: the model's own, what is best by the value on a lattice (of models in plain Python, where
regression takes minutes), or regression. It is made once for each problem.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.limits import ProgressCallback
from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.evaluate import carried_out
from counterplan.planning.exact_value import remembered, solved
from counterplan.planning.hindsight import Certificate, Hindsight, checked_path, hindsight
from counterplan.planning.lattice_value import OnLattice, lattice_value
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.model import (
    Compiled,
    ExogenousModel,
    FiniteSupport,
    HasExactValue,
    Sense,
    State,
    checked_problem,
    sign_of,
)
from counterplan.planning.policies import Played, Policy, Rule, played

# (t, x (X,), d (D,), a (A,)) -> what the action loses in expectation
Loss: TypeAlias = Callable[[int, FloatArray, FloatArray, FloatArray], float]

OPTIMAL = "optimal"
# Values that differ by this much of their size are the same but for rounding.
ROUNDING = 1e-9
# Losses below this share of the value are rounding too.
NEGLIGIBLE = 1e-12


@runtime_checkable
class KnowsLoss(HasExactValue, Protocol):
    """A model that knows what its actions lose against the best one."""

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) expected losses of actions (n, A) in (n, X), (n, D), not negative."""
        ...


@runtime_checkable
class KnowsPolicy(Protocol):
    """A model that knows a good policy for where nothing is exact."""

    def best_known_policy(self) -> Policy: ...


@dataclass(frozen=True)
class Benchmark:
    """A policy without foresight to compare with, ready to be asked.

    name   whose it is
    exact  whether nothing does better without foresight
    rule   what it does
    loss   what an action loses against the optimum in expectation; None where that is not known
    """

    name: str
    exact: bool
    rule: Rule
    loss: Loss | None


def benchmark(
    problem: ExogenousModel,
    state: State,
    policy: Policy | None = None,
    seed: Seed = 0,
    progress: ProgressCallback | None = None,
) -> Benchmark:
    """The policy, if one is asked for; else the optimum from a state on where it can be computed,
    or the best policy known. Losses are always those against the optimum."""
    found = _optimum(problem, state, progress)
    if policy is None and found is not None:
        return found
    if policy is None and not isinstance(problem, KnowsPolicy | Compiled):
        with suppress(NotApplicableError):
            rule: Rule = lattice_value(problem, state, progress=progress).actions
            return Benchmark(OnLattice.name, False, rule, None)
    chosen = _best_known(problem, state) if policy is None else policy

    def ready() -> Rule:
        if isinstance(chosen, LeastSquares):
            return chosen.fit(problem, seed, progress).act
        return chosen.prepare(problem, seed)

    is_ours = policy is None and isinstance(seed, int)
    rule = remembered(problem, ("best known", seed), ready) if is_ours else ready()
    return Benchmark(chosen.name, False, rule, None if found is None else found.loss)


def _optimum(
    problem: ExogenousModel, state: State, progress: ProgressCallback | None
) -> Benchmark | None:
    """The optimum from a state on, None where no dynamic program applies."""
    t, x, d = state
    one = x[np.newaxis], d[np.newaxis]
    if isinstance(problem, KnowsLoss):
        model = problem

        def loss(t: int, x: FloatArray, d: FloatArray, a: FloatArray) -> float:
            return float(model.loss(t, x[np.newaxis], d[np.newaxis], a[np.newaxis])[0])

        with suppress(NotApplicableError):
            loss(*state, problem.actions(state)[0])
            return Benchmark(OPTIMAL, True, problem.optimal_actions, loss)
    if isinstance(problem, FiniteSupport):
        with suppress(NotApplicableError):
            listed = solved(problem, state, progress)
            return Benchmark(OPTIMAL, True, listed.actions, listed.loss)
    if isinstance(problem, HasExactValue):
        with suppress(NotApplicableError):
            problem.optimal_actions(t, *one)
            return Benchmark(OPTIMAL, True, problem.optimal_actions, None)
    return None


def _best_known(problem: ExogenousModel, state: State) -> Policy:
    if isinstance(problem, KnowsPolicy):
        return problem.best_known_policy()
    start = problem.start
    if state.t != start.t or not np.array_equal(state.resource, start.resource):
        raise NotApplicableError(
            f"{type(problem).__name__} has no exact solution, and regression begins at its start, "
            f"not at t={state.t} with {state.resource.tolist()}: pass a policy to compare with"
        )
    return LeastSquares()


@dataclass(frozen=True, eq=False, kw_only=True)
class Regret:
    """Executed decisions compared, on the path they were made on. Values are in the problem's own
    sense: costs where it minimises; regrets are always counted so that more is worse.

    sense              'max': rewards, 'min': costs
    executed           what the executed decisions earn (or pay)
    hindsight          the best possible on this path
    without_foresight  what the policy without foresight earns (or pays) on this path
    policy             whose that is: 'optimal' where the optimum can be computed
    expected_losses    (steps,) what each decision lost in expectation; None where the optimum
                       cannot be computed
    actions            (steps, A) as executed
    levels             (steps + 1, D) the resource before each of them, and at the end
    hindsight_actions  (steps, A)
    policy_actions     (steps, A) of the policy on its own way
    advised            (steps, A) what the policy would have done where the executed decisions led
    method             how hindsight was found
    certificate        what the hindsight value can be checked against
    """

    sense: Sense
    executed: float
    hindsight: float
    without_foresight: float
    policy: str
    expected_losses: FloatArray | None
    actions: FloatArray
    levels: FloatArray
    hindsight_actions: FloatArray
    policy_actions: FloatArray
    advised: FloatArray
    method: str
    certificate: Certificate

    def __repr__(self) -> str:
        lost = f"regret_hindsight={self.regret_hindsight:.6g}, policy={self.policy!r}"
        return f"Regret(executed={self.executed:.6g}, hindsight={self.hindsight:.6g}, {lost})"

    @property
    def regret_hindsight(self) -> float:
        """What was lost against perfect foresight; not negative."""
        return max(0.0, self._worse(self.hindsight))

    @property
    def regret_policy(self) -> float:
        """What was lost against the policy on this path; negative where luck outdid it."""
        return self._worse(self.without_foresight)

    @property
    def expected_regret(self) -> float | None:
        """What the decisions lost in expectation, all together; None where that is not known."""
        return None if self.expected_losses is None else float(self.expected_losses.sum())

    def _worse(self, reference: float) -> float:
        lost = reference - self.executed if self.sense == "max" else self.executed - reference
        return lost + 0.0  # no minus in front of a zero


def regret(
    problem: ExogenousModel,
    path: ArrayLike,
    actions: ArrayLike,
    policy: Policy | None = None,
    state: State | None = None,
    seed: Seed = 0,
    progress: ProgressCallback | None = None,
) -> Regret:
    """Compare decisions (steps, A) that were executed along a realised path (steps, X).

    policy    without foresight, to compare with (default: the optimum, or the best one known)
    state     where the path begins: its t and resource (default: the problem's start)
    seed      of a policy that is fitted by simulation
    progress  called while the optimum is listed or a policy fitted; False stops, and raises
              StoppedError
    """
    exogenous, at = checked_path(checked_problem(problem), path, state)
    done = carried_out(problem, exogenous, actions, at)
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(
            f"{type(policy).__name__} is not a policy such as policies.Resolve(): "
            "a planner is played by evaluate"
        )
    against = benchmark(problem, at, policy, seed, progress)
    known = proved_hindsight(problem, exogenous, at)
    check_regret(problem, done.value, known.value)
    follows = played(problem, against.rule, exogenous, at)
    return Regret(
        sense=problem.sense,
        executed=done.value,
        hindsight=known.value,
        without_foresight=follows.value,
        policy=against.name,
        expected_losses=expected_losses(done, against),
        actions=done.actions,
        levels=done.levels,
        hindsight_actions=known.actions,
        policy_actions=follows.actions,
        advised=advice(done, against),
        method=known.method,
        certificate=known.certificate,
    )


def proved_hindsight(problem: ExogenousModel, path: FloatArray, state: State) -> Hindsight:
    """The optimum of a path, its value being what its actions come to when they are replayed."""
    known = hindsight(problem, path, state=state)
    replayed = known.certificate.replayed
    if abs(replayed - known.value) > ROUNDING * (1.0 + abs(replayed)):
        raise NotApplicableError(
            f"{type(problem).__name__}'s hindsight is said to be {known.value:g}, but its actions "
            f"come to {replayed:g}: testing.check_model says what is wrong with the model"
        )
    return replace(known, value=replayed)


def expected_losses(done: Played, against: Benchmark) -> FloatArray | None:
    """(steps,) of each decision, not negative; None where the optimum is not known."""
    if against.loss is None:
        return None
    losses = [
        against.loss(*state, action)
        for state, action in zip(done.states, done.actions, strict=True)
    ]
    # The best action's own loss is a difference of equal sums, zero but for rounding.
    smallest = NEGLIGIBLE * (1.0 + abs(done.value))
    return np.where(np.array(losses) > smallest, losses, 0.0)


def advice(done: Played, against: Benchmark) -> FloatArray:
    """(steps, A) what the benchmark would have done in the states that decisions led to."""
    states = done.states
    return np.array([against.rule(t, x[None].copy(), d[None].copy())[0] for t, x, d in states])


def check_regret(problem: ExogenousModel, value: float, best: float) -> None:
    """Raise where decisions do better than hindsight allows: it was found among other actions."""
    if sign_of(problem) * (value - best) > ROUNDING * (1.0 + abs(best)):
        raise NotApplicableError(
            f"the decisions come to {value:g}, better than {type(problem).__name__}'s hindsight of "
            f"{best:g}: they are not among the actions that it offers"
        )
