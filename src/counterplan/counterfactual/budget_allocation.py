"""The exact solver of executed plans: what should have been spent, with at most k changes.

Any number of changes is plain hindsight (`allocation.hindsight`). A budget on changes is solved by
branch and bound over linear programs (`allocation_branching`) where the problem is a resource
program, any amounts being possible, and else by a dynamic program along the path (`path_dp`) over
the actions that the model offers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from counterplan.allocation.hindsight import Hindsight, IsResourceProgram
from counterplan.allocation.linear_program import refuses_transport
from counterplan.core.limits import Limits
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.allocation_branching import StepProgram, best_steps
from counterplan.counterfactual.allocation_explanation import AllocationExplanation
from counterplan.counterfactual.allocation_setting import (
    AllocationSetting,
    prepare_allocation,
    stated_program,
)
from counterplan.counterfactual.path_dp import PathProgram
from counterplan.errors import NotApplicableError
from counterplan.exogenous.model import ExogenousModel, HasHindsight
from counterplan.planning.regret import proved_hindsight

BRANCHING = "branch and bound on the steps that change: any amounts, by linear programs"
ALONG_PATH = "dynamic program along the path, over the actions that the model offers"


class Answer(NamedTuple):
    """Decisions (T, A), a bound in the model's own sense, and what stands behind it."""

    actions: FloatArray
    bound: float
    method: str
    complete: bool
    expanded: int


@dataclass(frozen=True)
class BudgetAllocation:
    """Exact, for any model of `cp.domains`, an `ExogenousMDP` or your own."""

    def refuses(self, problem: Problem) -> str | None:
        """One line on what it cannot do, or None."""
        return refuse_unless_executed(problem)

    def solve(self, problem: Problem) -> Explanation:
        """The explanation for the budget problem.k."""
        started = time.perf_counter()
        setting = prepare_allocation(problem)
        found = _Solving(setting, problem.limits, started).answer(setting.k, None)
        return _explained(setting, problem.k, found, started)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """Every budget in turn, each starting from the one before; limits hold for each of them."""
        largest = prepare_allocation(problem)
        solving = _Solving(largest, problem.limits, time.perf_counter())
        found: list[Explanation] = []
        last: FloatArray | None = None
        for k in range(problem.k + 1):
            started = time.perf_counter()
            answer = solving.answer(min(k, largest.k), last, started)
            last = answer.actions
            found.append(_explained(largest, k, answer, started))
        return found


def refuse_unless_executed(problem: Problem) -> str | None:
    """Why a problem is no executed plan, or None."""
    if isinstance(problem.scm, ExogenousModel):
        return None
    return (
        f"a {type(problem.scm).__name__} is no planning problem: BudgetAllocation takes those of "
        "cp.domains, an ExogenousMDP, or an object with the methods of one"
    )


class _Solving:
    """Answers for the budgets of one setting."""

    def __init__(self, setting: AllocationSetting, limits: Limits, started: float) -> None:
        self._setting, self._limits, self._started = setting, limits, started
        self._stated = _exactly_stated(setting.model)
        self._steps = None if self._stated is None else StepProgram(setting, self._stated)
        self._path: PathProgram | None = None

    def answer(self, k: int, last: FloatArray | None, started: float | None = None) -> Answer:
        """The best decisions with at most k changes; those of `last` are possible."""
        setting = replace(self._setting, k=k)
        executed = setting.done.actions
        if k == 0:
            return Answer(executed, setting.done.value, "nothing may change", True, 0)
        known = self._hindsight
        start = executed if last is None else last
        if setting.is_free and known is not None:
            gain = setting.sign * (known.value - setting.replayed(start).value)
            is_better = gain > setting.negligible(known.value)
            actions = setting.kept(known.actions) if is_better else start
            return Answer(actions, known.value, known.method, True, 0)
        deadline = (self._started if started is None else started) + self._limits.seconds
        if self._steps is not None:
            return self._by_branching(setting, start, deadline)
        return self._along_path(setting, deadline)

    @cached_property
    def _hindsight(self) -> Hindsight | None:
        """What would be best if everything may change, where the model knows."""
        setting = self._setting
        if self._steps is None and not isinstance(setting.model, HasHindsight):
            return None
        return proved_hindsight(setting.model, setting.path, setting.state)

    def _by_branching(
        self, setting: AllocationSetting, start: FloatArray, deadline: float
    ) -> Answer:
        assert self._steps is not None
        found = best_steps(self._steps, setting.k, start, self._limits, deadline)
        actions = _simplified(setting, self._steps, found.actions)
        bound = setting.sign * found.bound
        return Answer(actions, bound, BRANCHING, found.complete, found.expanded)

    def _along_path(self, setting: AllocationSetting, deadline: float) -> Answer:
        if self._path is None:
            try:
                wise = None if self._hindsight is None else self._hindsight.actions
                self._path = PathProgram(self._setting, wise, deadline)
            except TimeoutError:
                known = self._hindsight
                bound = setting.sign * math.inf if known is None else known.value
                return Answer(setting.done.actions, bound, ALONG_PATH, known is not None, 0)
        actions = setting.kept(self._path.actions(setting.k))
        bound = setting.sign * float(self._path.values[setting.k])
        return Answer(actions, bound, ALONG_PATH, True, self._path.states)


def _exactly_stated(model: ExogenousModel) -> IsResourceProgram | None:
    """The resource program behind a model; raises where it has one that no method solves."""
    stated = stated_program(model)
    if stated is None:
        return None
    refusal = refuses_transport(stated.program)
    if refusal is not None:
        raise NotApplicableError(f"no exact method applies: {refusal}; set spill=False")
    return stated


def _simplified(
    setting: AllocationSetting, program: StepProgram, actions: FloatArray
) -> FloatArray:
    """The decisions without changes that bring nothing."""
    value = setting.sign * setting.replayed(actions).value
    least = value - setting.negligible(value)
    while (changed := np.flatnonzero((actions != setting.done.actions).any(axis=1))).size:
        for t in changed:
            fewer = program.only(changed[changed != t])
            if fewer is not None and setting.sign * setting.replayed(fewer).value >= least:
                actions = fewer
                break
        else:
            break
    return actions


def _explained(
    setting: AllocationSetting, k: int, answer: Answer, started: float
) -> AllocationExplanation:
    led = setting.replayed(answer.actions)
    gap = setting.sign * (answer.bound - led.value)
    proved = answer.complete and gap <= 2 * setting.negligible(led.value)
    return AllocationExplanation(
        episode=setting.episode,
        k=k,
        value=led.value,
        factual_value=setting.done.value,
        bound=led.value if proved else answer.bound,
        status=Status.OPTIMAL if proved else Status.LIMIT,
        stats=MappingProxyType(
            {"seconds": time.perf_counter() - started, "nodes_expanded": float(answer.expanded)}
        ),
        method=answer.method,
        sense=setting.model.sense,
        actions=answer.actions,
        observed=setting.done.actions,
        levels=led.levels,
    )
