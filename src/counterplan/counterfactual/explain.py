"""The single entry to every explanation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast, overload

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.limits import Limits
from counterplan.core.problem import Problem, Solver
from counterplan.core.validation import LARGEST_BUDGET, whole_number
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.solver import BudgetDP
from counterplan.errors import InputError, NotApplicableError


class Frontier(Sequence[PolicyExplanation]):
    """Explanations for every budget k = 0..k_max; `frontier[k]` is the one for k."""

    def __init__(self, explanations: Sequence[PolicyExplanation]) -> None:
        self._explanations = explanations
        self._made: dict[int, PolicyExplanation] = {}

    @overload
    def __getitem__(self, k: int) -> PolicyExplanation: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[PolicyExplanation]: ...
    def __getitem__(self, k: int | slice) -> PolicyExplanation | Sequence[PolicyExplanation]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        if k not in self._made:
            self._made[k] = self._explanations[k]
        return self._made[k]

    def __len__(self) -> int:
        return len(self._explanations)

    @property
    def values(self) -> tuple[float, ...]:
        """The value for each k, never falling."""
        return tuple(explanation.value for explanation in self)

    def smallest_k(self, outcome: float) -> int | None:
        """The smallest budget whose value reaches `outcome` (but for rounding), None if none here
        does."""
        if math.isnan(outcome):
            raise InputError("smallest_k: the wanted outcome is nan")
        for k, value in enumerate(self.values):
            if value >= outcome or math.isclose(value, outcome, rel_tol=1e-12, abs_tol=1e-12):
                return k
        return None


def frontier(
    scm: Any,
    episode: Episode,
    k_max: int | None = None,
    *,
    constraints: Constraints | None = None,
    limits: Limits | None = None,
    solver: Solver | None = None,
) -> Frontier:
    """Explanations for all budgets 0..k_max (default: the episode's length), in one pass."""
    k = 0 if k_max is None else whole_number(k_max, "k", maximum=LARGEST_BUDGET)
    problem = Problem(scm, episode, k, constraints or Constraints(), limits or Limits())
    if k_max is None:
        problem = replace(problem, k=len(episode))
    solver = BudgetDP() if solver is None else solver
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise InputError(f"solver is {solver!r}: pass an object such as baselines.Greedy()")
    if refusal := solver.refuses(problem):
        raise NotApplicableError(refusal)
    return Frontier(cast(Sequence[PolicyExplanation], solver.frontier(problem)))


def explain(
    scm: Any,
    episode: Episode,
    k: int,
    *,
    constraints: Constraints | None = None,
    limits: Limits | None = None,
    solver: Solver | None = None,
) -> PolicyExplanation:
    """The alternative with at most k changes that would have been best.

    scm          a causal model; a plain `TabularMDP` is read as a Gumbel-Max one
    constraints  what an alternative may not do
    limits       when to stop early; the result then has status 'limit' and a certified gap
    solver       another method, e.g. `baselines.Greedy()`
    """
    found = frontier(
        scm,
        episode,
        whole_number(k, "k"),
        constraints=constraints,
        limits=limits,
        solver=solver,
    )
    return found[-1]
