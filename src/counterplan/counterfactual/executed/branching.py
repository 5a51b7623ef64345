"""Which decisions of an executed plan should have been others: the exact solver.

With z_t = 1 where step t may differ from what was executed, e_t, a resource program is

    max  sum_t <r_t, a_t>   s.t.   the bounds on steps, levels and the total,
         e_t - z_t (e_t - least_t) <= a_t <= e_t + z_t (most_t - e_t),
         sum_t z_t <= k,    z_t in {0, 1}

Relaxed to 0 <= z_t <= 1 this is a linear program (HiGHS, to 1e-10) whose value bounds all that its
node holds. The steps with the largest z, taken alone, give a possible answer. The most promising
node is split on its least certain step, until none promises more than the best answer. The branch
and bound is written here since a mixed-integer solver's own tolerance, 1e-6, is neither an exact
answer nor a certified bound, and since it must be able to stop with one.

Any number of changes is plain hindsight (`planning.hindsight`). Where the problem is no resource
program, a dynamic program along the path (`path_dp`) chooses among the actions that the model
offers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.limits import Watch
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import BoolArray, FloatArray
from counterplan.counterfactual.executed.path_dp import PathProgram
from counterplan.counterfactual.executed.setting import (
    AllocationExplanation,
    AllocationSetting,
    prepare_allocation,
)
from counterplan.errors import CertificateError, NotApplicableError
from counterplan.planning.allocation import TOLERANCE, level_constraints, refuses_transport
from counterplan.planning.hindsight import IsResourceProgram, stated_program
from counterplan.planning.model import ExogenousModel, HasHindsight
from counterplan.planning.regret import proved_hindsight

BRANCHING = "branch and bound on the steps that change: any amounts, by linear programs"
ALONG_PATH = "dynamic program along the path, over the actions that the model offers"


class Relaxed(NamedTuple):
    """The optimum of a relaxation, to be maximised: its value, actions (T, A) and z (T,)."""

    value: float
    actions: FloatArray
    chosen: FloatArray


class Answer(NamedTuple):
    """Decisions (T, A), a bound in the model's own sense, and what stands behind it; `complete`
    where no limit stopped the search."""

    actions: FloatArray
    bound: float
    method: str
    complete: bool = True
    expanded: int = 0


class StepProgram:
    """The linear programs of one setting, over actions, spills and z."""

    def __init__(self, setting: AllocationSetting, stated: IsResourceProgram) -> None:
        self.setting, self.program = setting, stated.program
        self._rewards = np.asarray(stated.unit_rewards(setting.state.t, setting.path[None])[0])
        # What rewards are divided by, so that the solver's tolerance is relative to them.
        self._unit = float(np.abs(self._rewards).max()) or 1.0
        # Likewise amounts far from 1; by a power of two, which rounds nothing.
        amount = setting.sizes[1]
        self._size = 1.0 if 1e-3 < amount < 1e6 else 2.0 ** math.floor(math.log2(amount))

    def relaxed(self, low: FloatArray, high: FloatArray, k: int) -> Relaxed | None:
        """The optimum with z between (T,) bounds; None where nothing is possible."""
        from scipy.optimize import linprog

        rows, limits = self._rows
        T, A = self._rewards.shape
        amounts, size = rows.shape[1] - T, self._size
        objective = np.zeros(rows.shape[1])
        objective[: T * A] = -self._rewards.ravel() / self._unit
        solved = linprog(
            objective,
            A_ub=rows,
            b_ub=np.append(limits / size, float(k)),
            bounds=[*[(0.0, math.inf)] * amounts, *zip(low.tolist(), high.tolist(), strict=True)],
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
        actions = solved.x[: T * A].reshape(T, A) * size
        return Relaxed(-self._unit * size * float(solved.fun), actions, solved.x[-T:])

    @cached_property
    def _rows(self) -> tuple[Any, FloatArray]:
        """Rows over actions and spills, in units of `_size`, and z; and their
        upper limits in the problem's own units, but for that of the last, the total of z."""
        from scipy.sparse import block_array, diags_array, eye_array, kron

        setting, done = self.setting, self.setting.done.actions
        (T, A), size = done.shape, self._size
        matrix, lows, highs = level_constraints(
            self.program, setting.state.t, setting.state.resource
        )
        upper, lower = np.isfinite(highs), np.isfinite(lows)
        up = np.clip(self._most() - done, 0.0, setting.max_move)
        down = np.clip(done, 0.0, setting.max_move)
        one, steps = eye_array(T * A, matrix.shape[1]), kron(eye_array(T), np.ones((A, 1)))
        rows: list[list[Any]] = [
            [matrix[upper], None],
            [-matrix[lower], None],
            [one, -diags_array(up.ravel() / size) @ steps],
            [-one, -diags_array(down.ravel() / size) @ steps],
            [None, np.ones((1, T))],
        ]
        limits = np.concatenate([highs[upper], -lows[lower], done.ravel(), -done.ravel()])
        return block_array(rows, format="csr"), limits

    def _most(self) -> FloatArray:
        """(T, A) no possible amount is larger."""
        program, first = self.program, self.setting.state.t
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
        setting, program = self.setting, self.program
        result, resource = setting.done.actions.copy(), setting.state.resource[None]
        for s in range(len(actions)):
            t = setting.state.t + s
            if changed[s]:
                (low, high), wanted = program.spendable(t, resource), np.maximum(actions[s], 0.0)
                result[s] = (
                    np.clip(wanted, low, high)
                    if len(wanted) == 1
                    else np.minimum(wanted, resource[0, : len(wanted)])
                )
            resource = program.levels_after(t, resource, result[s][None])
        return setting.without_rounding(result)


class _Branching:
    """The search of one budget; values and bounds are to be maximised."""

    def __init__(self, program: StepProgram, k: int, start: FloatArray, watch: Watch) -> None:
        """`start`: (T, A) decisions that are known to be possible."""
        self._program, self._setting, self._k, self._watch = program, program.setting, k, watch
        self._best, self._value = start, self._value_of(start)
        # The most that a node promised which was not worth looking into, for the gap asked for.
        self._dropped = -math.inf
        self._open: list[tuple[float, int, Relaxed, FloatArray, FloatArray]] = []
        self._expanded = 0

    def run(self) -> Answer:
        sign, movable = self._setting.sign, self._setting.movable.astype(np.float64)
        self._consider(np.zeros(len(movable)), movable)
        bound, complete = self._value, True
        while self._open:
            promise = -self._open[0][0]
            if promise <= self._value + self._enough:
                self._dropped = max(self._dropped, promise)
                break
            bound = max(self._value, self._dropped, promise)
            if self._watch.must_stop(self._expanded, sign * self._value, sign * bound):
                complete = False
                break
            _, _, relaxed, low, high = heapq.heappop(self._open)
            # The undecided step whose z is closest to neither.
            t = int(np.argmin(np.where(low < high, np.abs(relaxed.chosen - 0.5), np.inf)))
            for decided in (0.0, 1.0):
                below, above = low.copy(), high.copy()
                below[t] = above[t] = decided
                self._consider(below, above)
        if complete:
            bound = max(self._value, self._dropped)
        actions = self._without_useless_changes(self._best)
        return Answer(actions, sign * bound, BRANCHING, complete, self._expanded)

    @property
    def _enough(self) -> float:
        """What a node has to promise more than the best answer."""
        return max(self._watch.gap, self._setting.negligible(self._value))

    def _value_of(self, actions: FloatArray) -> float:
        return self._setting.sign * self._setting.replayed(actions).value

    def _consider(self, low: FloatArray, high: FloatArray) -> None:
        """Relax a node, try the answer it suggests, and keep it open if it promises more."""
        self._expanded += 1
        relaxed = self._program.relaxed(low, high, self._k)
        if relaxed is None:
            return
        steps = np.argsort(-relaxed.chosen, kind="stable")[: self._k]
        if relaxed.value > self._value + self._setting.negligible(self._value):
            suggested = self._program.only(steps[relaxed.chosen[steps] > 0.0])
            value = -math.inf if suggested is None else self._value_of(suggested)
            if value > self._value + self._setting.negligible(self._value) / 2:
                assert suggested is not None
                self._best, self._value = suggested, value
        if (low < high).any() and relaxed.value > self._value + self._enough:
            heapq.heappush(self._open, (-relaxed.value, self._expanded, relaxed, low, high))
        else:
            self._dropped = max(self._dropped, relaxed.value)

    def _without_useless_changes(self, actions: FloatArray) -> FloatArray:
        setting, value = self._setting, self._value_of(actions)
        least = value - setting.negligible(value)
        while (changed := np.flatnonzero((actions != setting.done.actions).any(axis=1))).size:
            for t in changed:
                fewer = self._program.only(changed[changed != t])
                if fewer is not None and self._value_of(fewer) >= least:
                    actions = fewer
                    break
            else:
                break
        return actions


@dataclass(frozen=True)
class BudgetAllocation:
    """Exact, for any model of `cp.domains`, an `ExogenousMDP` or your own."""

    def refuses(self, problem: Problem) -> str | None:
        if isinstance(problem.scm, ExogenousModel):
            return None
        return (
            f"a {type(problem.scm).__name__} is no planning problem: BudgetAllocation takes those "
            "of cp.domains, an ExogenousMDP, or an object with the methods of one"
        )

    def solve(self, problem: Problem) -> Explanation:
        return _Budgets(problem).explanation(problem.k, None)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """Every budget in turn, each starting from the one before; limits hold for each of them."""
        budgets = _Budgets(problem)
        found: list[AllocationExplanation] = []
        for k in range(problem.k + 1):
            found.append(budgets.explanation(k, found[-1].actions if found else None))
        return found


class _Budgets:
    """Answers for the budgets of one problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._setting = problem, prepare_allocation(problem)
        self._steps: StepProgram | None = None
        self._path: PathProgram | None = None
        stated = stated_program(self._setting.model)
        if stated is not None:
            if refusal := refuses_transport(stated.program):
                raise NotApplicableError(f"no exact method applies: {refusal}; set spill=False")
            self._steps = StepProgram(self._setting, stated)

    def explanation(self, k: int, last: FloatArray | None) -> AllocationExplanation:
        """The best decisions with at most k changes; those of `last` are possible."""
        watch = Watch("search", self._problem.limits, self._problem.progress)
        setting = self._setting
        found = self._answer(replace(setting, k=min(k, setting.k)), watch, last)
        led = setting.replayed(found.actions)
        gap = setting.sign * (found.bound - led.value)
        if gap < -2 * setting.negligible(led.value):
            raise CertificateError(
                f"{found.method}: decisions worth {led.value} beat their bound {found.bound}"
            )
        proved = found.complete and gap <= 2 * setting.negligible(led.value)
        status, bound = (Status.OPTIMAL, led.value) if proved else (Status.LIMIT, found.bound)
        stats = {"seconds": watch.seconds, "nodes_expanded": float(found.expanded)}
        return setting.explanation(k, led, bound, status, found.method, stats)

    def _answer(self, setting: AllocationSetting, watch: Watch, last: FloatArray | None) -> Answer:
        done = setting.done
        if setting.k == 0:
            return Answer(done.actions, done.value, "nothing may change")
        known = self._hindsight
        start = done.actions if last is None else last
        if setting.is_free and known is not None:
            gain = setting.sign * (known.bound - setting.replayed(start).value)
            is_better = gain > setting.negligible(known.bound)
            actions = setting.without_rounding(known.actions) if is_better else start
            return known._replace(actions=actions)
        if self._steps is not None:
            return _Branching(self._steps, setting.k, start, watch).run()
        if self._path is None:
            try:
                self._path = PathProgram(self._setting, known and known.actions, watch)
            except TimeoutError:
                bound = setting.sign * math.inf if known is None else known.bound
                return Answer(done.actions, bound, ALONG_PATH, known is not None)
        actions = setting.without_rounding(self._path.actions(setting.k))
        bound = setting.sign * float(self._path.values[setting.k])
        return Answer(actions, bound, ALONG_PATH, expanded=self._path.states)

    @cached_property
    def _hindsight(self) -> Answer | None:
        """What would be best if everything may change, where the model knows."""
        setting = self._setting
        if self._steps is None and not isinstance(setting.model, HasHindsight):
            return None
        known = proved_hindsight(setting.model, setting.path, setting.state)
        return Answer(known.actions, known.value, known.method)
