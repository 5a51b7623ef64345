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

Models whose steps are linear programs (`planning.stages`) are solved in the same way, with all
flows and levels in the program.

Any number of changes is plain hindsight (`planning.hindsight`).

Where the problem is no resource program (options to exercise, fuel in whole units, fixed costs), a
dynamic program along the path chooses among the actions that the model offers. With c changes left,

    V_t(d, c) = max( r_t(d, e_t) + V_{t+1}(d', c),
                     max_{a offered} r_t(d, a) + V_{t+1}(d', c - 1) )                      V_T = 0

over every resource d that k changes can reach; what hindsight did at a step counts as offered, so
that enough changes reach it. One pass yields every budget 0..k. Ties keep what was executed.
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
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.executed.setting import (
    AllocationExplanation,
    AllocationSetting,
    prepare_allocation,
)
from counterplan.errors import CertificateError, InfeasibleError, NotApplicableError
from counterplan.planning.allocation import level_constraints, refuses_transport
from counterplan.planning.hindsight import IsResourceProgram
from counterplan.planning.model import ExogenousModel, HasHindsight
from counterplan.planning.regret import proved_hindsight
from counterplan.planning.stages import HasStages, Program, Stage, path_program, stages_of

BRANCHING = "branch and bound on the steps that change: any amounts, by linear programs"
ALONG_PATH = "dynamic program along the path, over the actions that the model offers"
# More (step, resource) pairs are not listed: about ten seconds of work.
MOST_STATES = 100_000
# Numbers that agree to this many decimals are one level.
DECIMALS = 9
# Worths that differ by this share are the same but for rounding: no reason for a change.
NEGLIGIBLE = 1e-12


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
    """The linear programs of one setting, over what the model chooses and z. Of a resource program
    amounts are in units of `_size` where they are far from 1, a power of two, which rounds nothing,
    and rewards in units of `_unit`: so the solver's tolerance is relative to them."""

    def __init__(self, setting: AllocationSetting) -> None:
        self.setting = setting
        self._size = self._unit = 1.0
        levels = np.asarray(setting.state.resource, dtype=np.float64)
        T, A = setting.done.actions.shape
        if isinstance(setting.model, IsResourceProgram):
            ends = self._of_resources(setting.model)
            self._places = np.arange(T * A)
        else:
            stages = stages_of(setting.model, setting.state.t)
            self._program = path_program(stages, setting.path[None], levels, setting.sign)
            ends = np.array([one.least for one in stages]), self._most_flows(stages)
            # Where y_t stand among y_0, d_1, y_1, d_2, ...
            self._places = (np.arange(T)[:, None] * (A + len(levels)) + np.arange(A)).ravel()
        moves = setting.done.actions - ends[0], ends[1] - setting.done.actions
        self._moves = [np.clip(one, 0.0, setting.max_move).ravel() / self._size for one in moves]

    def _of_resources(self, stated: IsResourceProgram) -> tuple[FloatArray, FloatArray]:
        """The program of a resource program, over amounts and spills; and (T, A) no possible amount
        is less or more."""
        setting, program, first = self.setting, stated.program, self.setting.state.t
        rewards = np.asarray(stated.unit_rewards(first, setting.path[None])[0])
        self._unit = float(np.abs(rewards).max()) or 1.0
        if not 1e-3 < (amount := setting.sizes[1]) < 1e6:
            self._size = 2.0 ** math.floor(math.log2(amount))
        matrix, low, high = level_constraints(program, first, setting.state.resource)
        cost = np.zeros(matrix.shape[1])
        cost[: rewards.size] = -rewards.ravel() / self._unit
        free = np.full(len(cost), np.inf)
        self._program = Program(
            cost, matrix, low / self._size, high / self._size, np.zeros(len(cost)), free
        )
        changes = np.maximum(program.changes[first:], 0.0)
        levels = setting.state.resource[: changes.shape[1]]
        there = levels + np.cumsum(changes, axis=0) - changes
        caps = np.array([one.capacity for one in program.resources])
        consumed = np.array([one.effect < 0 for one in program.resources])
        most = np.where(consumed, np.minimum(there, caps), caps)
        steps = np.minimum(program.step_bounds[first:, 1], program.budget[1])
        return np.zeros(rewards.shape), np.minimum(most, steps[:, None])

    def _most_flows(self, stages: list[Stage]) -> FloatArray:
        """(T, A) no possible flow is larger, whatever was done before."""
        from scipy.sparse import csr_matrix

        most = np.array([one.most for one in stages])
        for s, j in np.argwhere(np.isinf(most)):
            stage, D = stages[s], len(stages[s].hold)
            one = path_program([stage], self.setting.path[None, [s]], np.zeros(D), 1.0)
            # Levels before are columns, too.
            before = np.vstack([-stage.keep, stage.rows_d])
            low = self.setting.state.resource if s == 0 else stages[s - 1].least_level
            high = self.setting.state.resource if s == 0 else stages[s - 1].most_level
            wanted = np.zeros(len(one.cost) + D)
            wanted[j] = -1.0
            matrix = csr_matrix(np.hstack([one.matrix.toarray(), before]))
            ends = np.append(one.least, low), np.append(one.most, high)
            most[s, j] = Program(wanted, matrix, one.low, one.high, *ends).solve()[j]
        return most

    @cached_property
    def _matrix(self) -> Any:
        """The program's rows, those of what may move up and down by z, and the total of z."""
        from scipy.sparse import block_array, csr_matrix, diags_array, eye_array, kron

        (T, A), amounts = self.setting.done.actions.shape, len(self._places)
        places = np.ones(amounts), (np.arange(amounts), self._places)
        one, (down, up) = csr_matrix(places, (amounts, len(self._program.cost))), self._moves
        steps: Any = kron(eye_array(T), np.ones((A, 1)))
        rows: list[list[Any]] = [
            [self._program.matrix, None],
            [one, -diags_array(up) @ steps],
            [one, diags_array(down) @ steps],
            [None, np.ones((1, T))],
        ]
        return csr_matrix(block_array(rows))

    def relaxed(self, low: FloatArray, high: FloatArray, k: int) -> Relaxed | None:
        """The optimum with z between (T,) bounds; None where nothing is possible."""
        program, (T, A) = self._program, self.setting.done.actions.shape
        executed = self.setting.done.actions.ravel() / self._size
        free = np.full(len(executed), np.inf)
        try:
            z = Program(
                np.append(program.cost, np.zeros(T)),
                self._matrix,
                np.concatenate([program.low, -free, executed, [-np.inf]]),
                np.concatenate([program.high, executed, free, [float(k)]]),
                np.append(program.least, low),
                np.append(program.most, high),
            ).solve()
        except InfeasibleError:
            return None
        value = -self._unit * self._size * float(program.cost @ z[:-T])
        return Relaxed(value, z[self._places].reshape(T, A) * self._size, z[-T:])

    def only(self, steps: Iterable[int]) -> FloatArray | None:
        """(T, A) the best decisions that differ at these steps alone, without what the solver's
        tolerance lets them miss bounds by."""
        setting, may = self.setting, np.zeros(len(self.setting.path))
        may[list(steps)] = 1.0
        found = self.relaxed(may, may, len(may))
        if found is None:
            return None
        wanted = np.maximum(found.actions, 0.0)
        result = np.where(may[:, None] > 0.0, wanted, setting.done.actions)
        if isinstance(setting.model, IsResourceProgram):
            program, resource = setting.model.program, setting.state.resource[None]
            for s in range(len(result)):
                t = setting.state.t + s
                if may[s] and result.shape[1] == 1:
                    result[s] = np.clip(wanted[s], *program.spendable(t, resource))
                elif may[s]:
                    result[s] = np.minimum(wanted[s], resource[0, : result.shape[1]])
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


class Choices(NamedTuple):
    """What may be done with a resource: actions (m, A), the executed one first where it is
    possible, rewards (m,) to be maximised, what each costs (m,), and the resources that follow."""

    actions: FloatArray
    rewards: FloatArray
    costs: FloatArray
    after: list[bytes]


class PathProgram:
    """Everything that k changes can reach, and the best of it for every budget."""

    def __init__(
        self, setting: AllocationSetting, hindsight: FloatArray | None, watch: Watch
    ) -> None:
        """Raises TimeoutError if the watch says stop."""
        self._setting, self._hindsight = setting, hindsight
        self.states = 0
        self._layers: list[dict[bytes, Choices]] = []
        self._list(watch)
        self._solve()

    def _list(self, watch: Watch) -> None:
        """Forward: the resources that can be reached, with the fewest changes each takes."""
        setting = self._setting
        first = np.array(setting.state.resource, dtype=np.float64)
        reached = {_key(first): (first, 0)}
        for s in range(len(setting.path)):
            layer: dict[bytes, Choices] = {}
            following: dict[bytes, tuple[FloatArray, int]] = {}
            for key, (resource, used) in reached.items():
                choices, after = self._choices(s, resource, setting.k - used)
                layer[key] = choices
                for name, level, cost in zip(choices.after, after, choices.costs, strict=True):
                    spent = used + int(cost)
                    if name not in following or spent < following[name][1]:
                        following[name] = level, spent
            self.states += len(layer)
            if self.states > MOST_STATES:
                raise NotApplicableError(
                    f"more than {MOST_STATES:,} states can be reached, too many to list: lower k, "
                    "or ask for k=None, plain hindsight"
                )
            if watch.must_stop(self.states, setting.done.value):
                raise TimeoutError
            self._layers.append(layer)
            reached = following

    def _choices(self, s: int, resource: FloatArray, left: int) -> tuple[Choices, FloatArray]:
        setting, executed = self._setting, self._setting.done.actions[s]
        is_kept = setting.is_possible(s, resource, executed)
        actions = executed[None][: int(is_kept)]
        if left > 0 and setting.movable[s]:
            known = None if self._hindsight is None else self._hindsight[s]
            actions = np.concatenate([actions, setting.alternatives(s, resource, known)])
        m = len(actions)
        costs = np.ones(m)
        costs[: int(is_kept)] = 0.0
        rewards, after = np.empty(0), np.empty((0, len(resource)))
        if m:
            x, d = (np.repeat(one[None], m, axis=0) for one in (setting.path[s], resource))
            rewards, after = setting.model.step(setting.state.t + s, x, d, actions.copy())
        keys = [_key(level) for level in after]
        return Choices(actions, setting.sign * np.asarray(rewards), costs, keys), after

    def _solve(self) -> None:
        """Backward: (k + 1,) values of every resource by what is left, and which choice."""
        columns = self._setting.k + 1
        self._best: list[dict[bytes, IntArray]] = []
        later: dict[bytes, FloatArray] | None = None
        for layer in reversed(self._layers):
            now, best = {}, {}
            for key, choices in layer.items():
                worths = np.full((len(choices.rewards) + 1, columns), -np.inf)
                for i, (reward, cost) in enumerate(
                    zip(choices.rewards, choices.costs.astype(np.int64), strict=True)
                ):
                    ahead = np.zeros(columns) if later is None else later[choices.after[i]]
                    worths[i, cost:] = reward + ahead[: columns - cost]
                chosen = worths.argmax(axis=0)
                slack = np.nan_to_num(NEGLIGIBLE * (1.0 + np.abs(worths[0])))
                chosen[worths.max(axis=0) <= worths[0] + slack] = 0
                now[key], best[key] = worths[chosen, np.arange(columns)], chosen
            self._best.append(best)
            later = now
        assert later is not None
        self._best.reverse()
        self.values: FloatArray = later[self._start]

    @property
    def _start(self) -> bytes:
        return _key(np.asarray(self._setting.state.resource, dtype=np.float64))

    def actions(self, k: int) -> FloatArray:
        """(T, A) the best decisions with at most k changes."""
        key, taken, left = self._start, [], k
        for layer, best in zip(self._layers, self._best, strict=True):
            choices, i = layer[key], int(best[key][left])
            taken.append(choices.actions[i])
            key, left = choices.after[i], left - int(choices.costs[i])
        return np.array(taken)


def _key(levels: FloatArray) -> bytes:
    return (np.round(levels, DECIMALS) + 0.0).tobytes()


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
        stated = self._setting.model
        if isinstance(stated, IsResourceProgram) and (refusal := refuses_transport(stated.program)):
            raise NotApplicableError(f"no exact method applies: {refusal}; set spill=False")
        if isinstance(stated, IsResourceProgram | HasStages):
            self._steps = StepProgram(self._setting)

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
