"""The exact solver of executed plans: what should have been spent, with at most k changes.

Any number of changes is plain hindsight (`allocation.hindsight`). A budget on changes is solved by
branch and bound over linear programs (`allocation_branching`) where the problem is a resource
program, any amounts being possible, and else by a dynamic program along the path (`path_dp`) over
the actions that the model offers.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.problem import Problem, Watch
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.counterfactual.executed.path_dp import PathProgram
from counterplan.counterfactual.executed.setting import (
    AllocationExplanation,
    AllocationSetting,
    prepare_allocation,
    stated_program,
)
from counterplan.errors import NotApplicableError
from counterplan.planning.allocation import TOLERANCE, level_constraints, refuses_transport
from counterplan.planning.hindsight import Hindsight, IsResourceProgram
from counterplan.planning.model import ExogenousModel, HasHindsight
from counterplan.planning.regret import proved_hindsight

# ----------------------------------------------------------------------------------------------
# Which k steps should have spent other amounts: branch and bound over linear programs.
#
# With z_t = 1 where step t may differ from what was executed, e_t,
#
#     max  sum_t <r_t, a_t>   s.t.   the bounds on steps, levels and the total,
#          e_t - z_t (e_t - least_t) <= a_t <= e_t + z_t (most_t - e_t),
#          sum_t z_t <= k,    z_t in {0, 1}
#
# Relaxed to 0 <= z_t <= 1 this is a linear program (HiGHS, to 1e-10) whose value bounds all that
# its node holds. The steps with the largest z, taken alone, give a possible answer. The most
# promising node is split on its least certain step, until none promises more than the best answer.


class Relaxed(NamedTuple):
    """The optimum of a relaxation, to be maximised: its value, actions (T, A) and z (T,)."""

    value: float
    actions: FloatArray
    chosen: FloatArray


@dataclass(eq=False)
class Found:
    """The best decisions (T, A) so far, their value and a bound on any, to be maximised.

    dropped   the most that a node promised which was not worth looking into, for the gap asked for
    complete  whether no limit stopped the search
    """

    actions: FloatArray
    value: float
    bound: float = math.inf
    dropped: float = -math.inf
    expanded: int = 0
    complete: bool = False


@dataclass(frozen=True, eq=False)
class StepProgram:
    """The linear programs of one setting."""

    setting: AllocationSetting
    stated: IsResourceProgram
    # What rewards are divided by, so that the solver's tolerance is relative to them.
    unit: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", float(np.abs(self._rewards).max()) or 1.0)

    @cached_property
    def _rewards(self) -> FloatArray:
        """(T, A) per unit, to be maximised."""
        setting = self.setting
        return np.asarray(self.stated.unit_rewards(setting.state.t, setting.path[None])[0])

    def relaxed(self, low: FloatArray, high: FloatArray, k: int) -> Relaxed | None:
        """The optimum with z between (T,) bounds; None where nothing is possible."""
        from scipy.optimize import linprog

        rows, limits, spills = self._rows
        rewards = self._rewards / self.unit
        T, A = rewards.shape
        objective = np.concatenate([-rewards.ravel(), np.zeros(spills + T)])
        bounds = [(0.0, math.inf)] * (T * A + spills)
        bounds += zip(low.tolist(), high.tolist(), strict=True)
        solved = linprog(
            objective,
            A_ub=rows,
            b_ub=np.concatenate([limits, [float(k)]]),
            bounds=bounds,
            method="highs",
            options={
                "primal_feasibility_tolerance": TOLERANCE,
                "dual_feasibility_tolerance": TOLERANCE,
            },
        )
        if solved.status == 2:
            return None
        if solved.status != 0 or solved.x is None or solved.fun is None:
            raise NotApplicableError(f"HiGHS found no optimum: {solved.message}")
        actions = solved.x[: T * A].reshape(T, A)
        return Relaxed(-self.unit * float(solved.fun), actions, solved.x[-T:])

    @cached_property
    def _rows(self) -> tuple[Any, FloatArray, int]:
        """Rows and upper limits over actions, spills and z (its total comes last, without limit),
        and the number of spills."""
        from scipy.sparse import csr_matrix, hstack, vstack

        setting, program = self.setting, self.stated.program
        done = setting.done.actions
        T, A = done.shape
        matrix, lows, highs = level_constraints(program, setting.state.t, setting.state.resource)
        upper, lower = np.isfinite(highs), np.isfinite(lows)
        bounded = vstack([matrix[upper], -matrix[lower]])
        spills = matrix.shape[1] - T * A
        bounded = hstack([bounded, csr_matrix((bounded.shape[0], T))])
        up = np.clip(self._most() - done, 0.0, setting.max_move)
        down = np.clip(done, 0.0, setting.max_move)
        one = np.hstack([np.eye(T * A), np.zeros((T * A, spills))])
        steps = np.repeat(np.eye(T), A, axis=0)
        moves = csr_matrix(
            np.vstack(
                [
                    np.hstack([one, -steps * up.reshape(-1, 1)]),
                    np.hstack([-one, -steps * down.reshape(-1, 1)]),
                    np.concatenate([np.zeros(T * A + spills), np.ones(T)])[None],
                ]
            )
        )
        limits = [highs[upper], -lows[lower], done.ravel(), -done.ravel()]
        return vstack([bounded, moves], format="csr"), np.concatenate(limits), spills

    def _most(self) -> FloatArray:
        """(T, A) no possible amount is larger."""
        program, first = self.stated.program, self.setting.state.t
        changes = np.maximum(program.changes[first:], 0.0)
        levels = self.setting.state.resource[: changes.shape[1]]
        there = levels + np.cumsum(changes, axis=0) - changes
        caps = np.array([one.capacity for one in program.resources])
        consumed = np.array([one.effect < 0 for one in program.resources])
        most = np.where(consumed, np.minimum(there, caps), caps)
        steps = np.minimum(program.step_bounds[first:, 1], program.budget[1])
        return np.minimum(most, steps[:, None])

    def only(self, steps: Iterable[int]) -> FloatArray | None:
        """(T, A) the best decisions that differ at these steps alone."""
        may = np.zeros(len(self.setting.path))
        may[list(steps)] = 1.0
        found = self.relaxed(np.zeros(len(may)), may, len(may))
        return None if found is None else self._possible(found.actions, may > 0.0)

    def _possible(self, actions: FloatArray, changed: BoolArray) -> FloatArray:
        """The decisions without what the solver's tolerance lets them miss bounds by."""
        setting, program = self.setting, self.stated.program
        result, resource = setting.done.actions.copy(), setting.state.resource[None]
        for s in np.arange(len(actions)):
            t = setting.state.t + int(s)
            if changed[s]:
                room = program.room(t, resource)
                wanted = np.maximum(actions[s], 0.0)
                if len(wanted) == 1:
                    wanted = np.clip(wanted, room.low, room.high)
                else:
                    wanted = np.minimum(wanted, resource[0, : len(wanted)])
                result[s] = wanted
            resource = program.levels_after(t, resource, result[s][None])
        return setting.kept(result)


def best_steps(program: StepProgram, k: int, start: FloatArray, watch: Watch) -> Found:
    """The best decisions with at most k changes, knowing that those of `start` (T, A) are possible;
    stopped by the watch, with a bound."""
    return _Branching(program, k, watch).run(start)


class _Branching:
    def __init__(self, program: StepProgram, k: int, watch: Watch) -> None:
        self._program, self._setting = program, program.setting
        self._k, self._watch = k, watch
        self._open: list[tuple[float, int, Relaxed, FloatArray, FloatArray]] = []
        self._order = itertools.count()

    def run(self, start: FloatArray) -> Found:
        sign = self._setting.sign
        found = Found(start, sign * self._setting.replayed(start).value)
        movable = self._setting.movable.astype(np.float64)
        self._consider(np.zeros(len(movable)), movable, found)
        while self._open:
            found.bound = max(found.value, found.dropped, -self._open[0][0])
            if -self._open[0][0] <= found.value + self._enough(found):
                found.complete = True
                return found
            if self._watch.must_stop(found.expanded, sign * found.value, sign * found.bound):
                return found
            _, _, relaxed, low, high = heapq.heappop(self._open)
            t = _least_certain(relaxed.chosen, low, high)
            for decided in (0.0, 1.0):
                below, above = low.copy(), high.copy()
                below[t] = above[t] = decided
                self._consider(below, above, found)
        found.bound, found.complete = max(found.value, found.dropped), True
        return found

    def _enough(self, found: Found) -> float:
        """What a node has to promise more than the best answer."""
        return max(self._watch.gap, self._setting.negligible(found.value))

    def _consider(self, low: FloatArray, high: FloatArray, found: Found) -> None:
        """Relax a node, try the answer it suggests, and keep it open if it promises more."""
        found.expanded += 1
        relaxed = self._program.relaxed(low, high, self._k)
        if relaxed is None:
            return
        steps = np.argsort(-relaxed.chosen, kind="stable")[: self._k]
        is_new = relaxed.value > found.value + self._setting.negligible(found.value)
        suggested = self._program.only(steps[relaxed.chosen[steps] > 0.0]) if is_new else None
        if suggested is not None:
            value = self._setting.sign * self._setting.replayed(suggested).value
            if value > found.value + self._setting.negligible(found.value) / 2:
                found.actions, found.value = suggested, value
        if (low < high).any() and relaxed.value > found.value + self._enough(found):
            node = (-relaxed.value, next(self._order), relaxed, low, high)
            heapq.heappush(self._open, node)
        else:
            found.dropped = max(found.dropped, relaxed.value)


def _least_certain(chosen: FloatArray, low: FloatArray, high: FloatArray) -> int:
    """The undecided step whose z is closest to neither."""
    return int(np.argmin(np.where(low < high, np.abs(chosen - 0.5), np.inf)))


# ----------------------------------------------------------------------------------------------

BRANCHING = "branch and bound on the steps that change: any amounts, by linear programs"
ALONG_PATH = "dynamic program along the path, over the actions that the model offers"


class BudgetAnswer(NamedTuple):
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
        found = _Solving(setting, problem).answer(setting.k, None, started)
        return _explained(setting, problem.k, found, started)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """Every budget in turn, each starting from the one before; limits hold for each of them."""
        largest = prepare_allocation(problem)
        solving = _Solving(largest, problem)
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

    def __init__(self, setting: AllocationSetting, problem: Problem) -> None:
        self._setting, self._problem = setting, problem
        self._stated = _exactly_stated(setting.model)
        self._steps = None if self._stated is None else StepProgram(setting, self._stated)
        self._path: PathProgram | None = None

    def answer(self, k: int, last: FloatArray | None, started: float) -> BudgetAnswer:
        """The best decisions with at most k changes; those of `last` are possible."""
        setting = replace(self._setting, k=k)
        executed = setting.done.actions
        if k == 0:
            return BudgetAnswer(executed, setting.done.value, "nothing may change", True, 0)
        known = self._hindsight
        start = executed if last is None else last
        if setting.is_free and known is not None:
            gain = setting.sign * (known.value - setting.replayed(start).value)
            is_better = gain > setting.negligible(known.value)
            actions = setting.kept(known.actions) if is_better else start
            return BudgetAnswer(actions, known.value, known.method, True, 0)
        problem = self._problem
        watch = Watch("search", problem.limits, problem.progress, started)
        if self._steps is not None:
            return self._by_branching(setting, start, watch)
        return self._along_path(setting, watch)

    @cached_property
    def _hindsight(self) -> Hindsight | None:
        """What would be best if everything may change, where the model knows."""
        setting = self._setting
        if self._steps is None and not isinstance(setting.model, HasHindsight):
            return None
        return proved_hindsight(setting.model, setting.path, setting.state)

    def _by_branching(
        self, setting: AllocationSetting, start: FloatArray, watch: Watch
    ) -> BudgetAnswer:
        assert self._steps is not None
        found = best_steps(self._steps, setting.k, start, watch)
        actions = _simplified(setting, self._steps, found.actions)
        bound = setting.sign * found.bound
        return BudgetAnswer(actions, bound, BRANCHING, found.complete, found.expanded)

    def _along_path(self, setting: AllocationSetting, watch: Watch) -> BudgetAnswer:
        if self._path is None:
            try:
                wise = None if self._hindsight is None else self._hindsight.actions
                self._path = PathProgram(self._setting, wise, watch)
            except TimeoutError:
                known = self._hindsight
                bound = setting.sign * math.inf if known is None else known.value
                return BudgetAnswer(setting.done.actions, bound, ALONG_PATH, known is not None, 0)
        actions = setting.kept(self._path.actions(setting.k))
        bound = setting.sign * float(self._path.values[setting.k])
        return BudgetAnswer(actions, bound, ALONG_PATH, True, self._path.states)


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
    setting: AllocationSetting, k: int, answer: BudgetAnswer, started: float
) -> AllocationExplanation:
    led = setting.replayed(answer.actions)
    gap = setting.sign * (answer.bound - led.value)
    proved = answer.complete and gap <= 2 * setting.negligible(led.value)
    stats = {"seconds": time.perf_counter() - started, "nodes_expanded": float(answer.expanded)}
    if proved:
        return setting.explanation(k, led, led.value, Status.OPTIMAL, answer.method, stats)
    return setting.explanation(k, led, answer.bound, Status.LIMIT, answer.method, stats)
