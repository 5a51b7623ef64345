"""The best that could have been done without foresight, and what single decisions lose against it.

With Q*_t(x, d, a) = r_t + E[V*_{t+1}(x_{t+1}, d') | x_t] and V* = max_a Q* (costs: min), a decision
loses V*_t(x, d) - Q*_t(x, d, a) >= 0 in expectation. Along any path, for decisions made without
foresight,

    E[ sum_t r_t ] = V* - E[ sum_t (V*_t - Q*_t) ]

so the sum of the losses is what decisions cost on average, and nothing in it is luck. It is known
where V* is: by the model's own dynamic program (a method `loss`), or by listing every state that
can be reached, where they are few. Elsewhere the best policy known takes the optimum's place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import NotApplicableError
from counterplan.exogenous.model import ExogenousModel, FiniteSupport, HasExactValue, State
from counterplan.planning.exact_value import Solution, solve
from counterplan.planning.policy import Policy, Rule

# (t, x (X,), d (D,), a (A,)) -> what the action loses in expectation
Loss: TypeAlias = Callable[[int, FloatArray, FloatArray, FloatArray], float]

OPTIMAL = "optimal"


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
    problem: ExogenousModel, state: State, policy: Policy | None = None, seed: Seed = 0
) -> Benchmark:
    """The policy, if one is asked for; else the optimum from a state on where it can be computed,
    or the best policy known. Losses are always those against the optimum."""
    found = optimum(problem, state)
    if policy is None and found is not None:
        return found
    chosen = _best_known(problem, state) if policy is None else policy
    loss = None if found is None else found.loss
    return Benchmark(chosen.name, False, chosen.prepare(problem, seed), loss)


def optimum(problem: ExogenousModel, state: State) -> Benchmark | None:
    """The optimum from a state on, None where no dynamic program applies."""
    for exact in (_by_model, _by_listing, _by_model_alone):
        try:
            found = exact(problem, state)
        except NotApplicableError:
            continue
        if found is not None:
            return found
    return None


def _by_model(problem: ExogenousModel, state: State) -> Benchmark | None:
    if not isinstance(problem, KnowsLoss):
        return None
    model = problem

    def loss(t: int, x: FloatArray, d: FloatArray, a: FloatArray) -> float:
        return float(model.loss(t, x[np.newaxis], d[np.newaxis], a[np.newaxis])[0])

    loss(*state, problem.actions(state)[0])  # raises where it does not apply
    return Benchmark(OPTIMAL, True, problem.optimal_actions, loss)


def _by_listing(problem: ExogenousModel, state: State) -> Benchmark | None:
    if not isinstance(problem, FiniteSupport):
        return None
    listed = _Listed(problem, state)
    return Benchmark(OPTIMAL, True, listed.actions, listed.loss)


def _by_model_alone(problem: ExogenousModel, state: State) -> Benchmark | None:
    if not isinstance(problem, HasExactValue):
        return None
    t, x, d = state
    problem.optimal_actions(t, x[np.newaxis], d[np.newaxis])  # raises where it does not apply
    return Benchmark(OPTIMAL, True, problem.optimal_actions, None)


def _best_known(problem: ExogenousModel, state: State) -> Policy:
    if isinstance(problem, KnowsPolicy):
        return problem.best_known_policy()
    from counterplan.planning.least_squares import LeastSquares

    start = problem.start
    if state.t != start.t or not np.array_equal(state.resource, start.resource):
        raise NotApplicableError(
            f"{type(problem).__name__} has no exact solution, and regression begins at its start, "
            f"not at t={state.t} with {state.resource.tolist()}: pass a policy to compare with"
        )
    return LeastSquares()


class _Listed:
    """V* of every state that can be reached; states off the list are solved when they are met."""

    def __init__(self, problem: ExogenousModel, state: State) -> None:
        self._problem = problem
        self._sign = 1.0 if problem.sense == "max" else -1.0
        self._solved: list[Solution] = [solve(problem, state)]

    def actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        states = zip(exogenous, resource, strict=True)
        return np.array([self._found(State(t, x, d))[1] for x, d in states])

    def loss(self, t: int, x: FloatArray, d: FloatArray, a: FloatArray) -> float:
        best = self._found(State(t, x, d))[0]
        rewards, after = self._problem.step(t, x[np.newaxis], d[np.newaxis], a[np.newaxis])
        taken = self._sign * float(rewards[0])
        if t + 1 < self._problem.horizon:
            assert isinstance(self._problem, FiniteSupport)
            following, chances = self._problem.successors(t, x)
            ahead = [self._found(State(t + 1, y, after[0]))[0] for y in following]
            taken += float(chances @ np.array(ahead))
        return best - taken

    def _found(self, state: State) -> tuple[float, FloatArray]:
        """V*, to be maximised, and the best action."""
        for solution in self._solved:
            if (known := solution.at(state)) is not None:
                return known
        self._solved.append(solve(self._problem, state))
        known = self._solved[-1].at(state)
        assert known is not None
        return known
