"""Many storages at once: stochastic dual dynamic programming on HiGHS.

For a model of linear steps (`stages`) under a Markov chain with nodes j (`lattice`), in costs, with
rho the mean or a nested measure of risk:

    V_t(j, d) = min over y, d'  c_t(x_j) . y + hold . d' + F_t(j, d')
    F_t(i, d') = rho( V_{t+1}(j, d') | i )            convex in d', so it lies above its tangents:
    F_t(i, d') >= sum_j q_j ( V_{t+1}(j, e) + g_j . (d' - e) )        g_j = dV_{t+1}(j, .)/dd at e

with q the weights of rho at e (the chances themselves for the mean). Each round goes forwards along
one sampled future, deciding with the cuts so far, then backwards through the levels e that it came
to: every node of the next step is solved there, and each F gets a cut. V_0 at the start is a bound
on the best value at any time, and the rule that the programs make is a policy. Tangents of single
nodes, made at different levels, together say more than their means do: where a program ends at d'
and they put F above its cuts by much, they make one more cut there, without solving anything.

Price multiplies quantity without harm: a node's price is a number in its own programs, and nothing
is interpolated between prices. Nodes from which the same follows (equal rows of the chain) share
their F: noise that is drawn anew at every step needs one program per step, and (price, inflow) with
inflows drawn anew one per price. A program stays in HiGHS; only bounds and costs change between
solves, and each begins at the last basis.

Where levels can be reached from which a later step is impossible, the least distance to levels from
which it is possible is a linear program, too, and its tangent forbids them.

The policy's value is an exact sum over the tree where that is small, else the mean of sampled
futures, with the luck taken out: z_t = V(j_{t+1}, d') - E[V(j, d')], by the cuts of single nodes,
has mean zero, so total - sum_t z_t has the policy's mean, and hardly any spread once the cuts are
good. With risk, futures are drawn with the weights q: the value is then an estimate that is exact
if the cuts order what may follow rightly. Of a process with more values than a lattice holds, bound
and value are those of the lattice; `played` is the policy on the model's own futures.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.limits import Limits, ProgressCallback, Watch
from counterplan.core.result import Sense, Status
from counterplan.core.validation import FloatArray, IntArray, Seed, generator, whole_number
from counterplan.errors import (
    InfeasibleError,
    InputError,
    NotApplicableError,
    StoppedError,
    not_installed,
)
from counterplan.planning.lattice import Lattice
from counterplan.planning.model import (
    Compiled,
    Estimate,
    ExogenousModel,
    State,
    estimate,
    sign_of,
)
from counterplan.planning.policies import Rule, each_state, follow, futures
from counterplan.planning.processes.base import number
from counterplan.planning.risk import Risk, RiskLike
from counterplan.planning.stages import Stage, check_size, stages_of

# What HiGHS may miss bounds and optimality by, and what levels may by what that makes.
PRECISION, ROUNDING = 1e-9, 1e-7
TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
SHAKING = "dual_simplex_cost_perturbation_multiplier"
# A cut that raises the value where it is made by less than this share is not kept.
SAME = 1e-10
# Trees up to this many nodes and steps are played whole.
WHOLE_TREE, DEEPEST = 2_000, 300
# Rounds before the policy is first looked at; and how many more futures a look at the end has: a
# few may all miss what is rare and dear.
FIRST_LOOK, ONCE_MORE = 8, 4
# A share of the bound that is nothing: an optimum is then proved.
PROVED = 1e-6
# What the newest levels count in their average, at least.
NEWEST = 0.1
# Cuts of a program before those are dropped that are best nowhere it has been.
MANY = 50
# What tangents of single nodes must say more than cuts for one more, as a share of a step's value;
# and how many of the newest are asked.
SHARPER, ASKED = 1e-3, 200
# Numbers held at once while tangents are compared.
AT_ONCE = 4_000_000
# Levels that futures may be forbidden on one way forwards.
MOST_RETURNS = 10_000


class Solved(NamedTuple):
    """The optimum of one step.

    value   its cost with what follows
    now     its cost without
    flows   y
    levels  d'
    slope   dV/dd
    """

    value: float
    now: float
    flows: FloatArray
    levels: FloatArray
    slope: FloatArray


class Sides(NamedTuple):
    """What x decides of a step: the rows' limits at levels 0, and the costs of y."""

    low: FloatArray
    high: FloatArray
    cost: FloatArray


class StepProgram:
    """The program of one step with the cuts on what follows it, kept in HiGHS between solves.

    Columns are y, d', a shift of the levels d up and one down (both 0 but where other levels are
    looked for), and F; rows the balance of levels, the stage's own, then cuts.

    ahead  F from below: the cuts that are kept
    """

    def __init__(self, stage: Stage, sign: float, floor: float | None) -> None:
        """floor  F is at least this; None: nothing follows."""
        self._stage, self._sign = stage, sign
        D, A = stage.effect.shape
        m = len(stage.low)
        self._shift = np.vstack([stage.keep, -stage.rows_d])
        own = np.block([[-stage.effect, np.eye(D)], [stage.rows, np.zeros((m, D))]])
        matrix = np.hstack([own, -self._shift, self._shift, np.zeros((D + m, 1))])
        ahead = (0.0, 0.0) if floor is None else (floor, math.inf)
        self._still = np.zeros(2 * D)
        lower = np.concatenate([stage.least, stage.least_level, self._still, ahead[:1]])
        upper = np.concatenate([stage.most, stage.most_level, self._still, ahead[1:]])
        self._fixed_costs = np.concatenate([-sign * stage.hold, self._still, [1.0]])
        self._rows, self._columns = (np.arange(n, dtype=np.int32) for n in matrix.shape)
        self._y, self._next = slice(0, A), slice(A, A + D)
        self._shifts = self._columns[A + D : -1]
        self._cut = np.append(self._columns[self._next], self._columns[-1])
        self.ahead = Tangents(np.array([floor or 0.0]), D)
        # Which cut each further row is; 0: it forbids levels.
        self._cuts, self._many = list[int](), MANY
        self._cost: FloatArray | None = None
        self._highs, self._status = _kept_program(matrix, lower, upper, self._fixed_costs)

    def sides(self, x: FloatArray) -> Sides:
        """At x (X,)."""
        stage = self._stage
        drift, moved = stage.inflow + stage.inflow_x @ x, stage.rows_x @ x
        limits = (stage.low - moved, np.maximum(stage.high - moved, stage.floor))
        low, high = (np.concatenate([drift, one]) for one in limits)
        cost = -self._sign * (stage.price + stage.price_x @ x)
        both = np.append(low, high)
        check_size(f"the step at x = {x.tolist()}", cost, both[~np.isinf(both)])
        return Sides(low, high, cost)

    def forbid(self, intercept: float, slope: FloatArray) -> None:
        """0 >= intercept + slope . d'."""
        self._highs.addRow(intercept, math.inf, len(self._cut), self._cut, np.append(-slope, 0.0))
        self._cuts.append(0)

    def add(self, intercept: float, slope: FloatArray, points: list[FloatArray]) -> None:
        """F >= intercept + slope . d'; cuts that are best at none of the points (D,) may go."""
        self._highs.addRow(intercept, math.inf, len(self._cut), self._cut, np.append(-slope, 1.0))
        self._cuts.append(len(self.ahead.rows))
        self.ahead.add(np.array([intercept]), slope[None])
        if len(self._cuts) < self._many:
            return
        best = self.ahead.keep(np.array(points))
        places = {old: new for new, old in enumerate(best.tolist())}
        gone = [i for i, cut in enumerate(self._cuts) if cut not in places]
        self._highs.deleteRows(len(gone), len(self._rows) + np.array(gone, dtype=np.int32))
        self._cuts = [places[cut] for cut in self._cuts if cut in places]
        self._many = MANY + 3 * len(self._cuts) // 2

    def solve(self, sides: Sides, levels: FloatArray) -> Solved | None:
        """The optimum from levels (D,), None where nothing is possible."""
        if sides.cost is not self._cost:
            self._highs.changeColsCost(len(sides.cost), self._columns[self._y], sides.cost)
            self._cost = sides.cost
        return self._run(sides, levels)

    def lowest(self, sides: Sides, least: FloatArray, most: FloatArray) -> float | None:
        """The least cost from any levels between these, None where nothing is possible."""
        zero = np.zeros(len(least))
        self._move(np.append(least, zero), np.append(most, zero))
        found = self.solve(sides, zero)
        self._move(self._still, self._still)
        return None if found is None else found.value

    def nearest(self, sides: Sides, levels: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """How far levels are from such as the step is possible from, the slope of this distance,
        and the closest such levels; infinitely far where there are none."""
        D, costs, self._cost = len(levels), np.zeros(len(self._columns)), sides.cost
        costs[self._shifts] = 1.0
        self._highs.changeColsCost(len(costs), self._columns, costs)
        self._move(self._still, np.full(2 * D, math.inf))
        found = self._run(sides, levels)
        columns = np.array(self._highs.getSolution().col_value)[self._shifts]
        costs[:] = np.append(sides.cost, self._fixed_costs)
        self._highs.changeColsCost(len(costs), self._columns, costs)
        self._move(self._still, self._still)
        if found is None:
            return math.inf, np.zeros(D), levels
        return found.value, found.slope, levels + columns[:D] - columns[D:]

    def _set(self, precision: float, shaking: float) -> None:
        for name in TOLERANCES:
            self._highs.setOptionValue(name, precision)
        self._highs.setOptionValue(SHAKING, shaking)

    def _move(self, lower: FloatArray, upper: FloatArray) -> None:
        self._highs.changeColsBounds(len(self._shifts), self._shifts, lower, upper)

    def _run(self, sides: Sides, levels: FloatArray) -> Solved | None:
        highs, moved = self._highs, self._shift @ levels
        n, status = len(self._rows), self._status
        highs.changeRowsBounds(n, self._rows, sides.low + moved, sides.high + moved)
        highs.run()
        if highs.getModelStatus() not in (status.kOptimal, status.kInfeasible):
            # Once more from the beginning, shaken: a basis may have gone astray, or in circles.
            highs.clearSolver()
            self._set(ROUNDING, 1.0)
            highs.run()
            self._set(PRECISION, 0.0)
        ended = highs.getModelStatus()
        if ended == status.kInfeasible:
            return None
        if ended in (status.kUnbounded, status.kUnboundedOrInfeasible):
            raise InputError(
                "a step earns without end: bound its flows by `most`, its levels by `most_level`"
            )
        if ended != status.kOptimal:
            raise NotApplicableError(f"HiGHS found no optimum: {highs.modelStatusToString(ended)}")
        solution, value = highs.getSolution(), float(highs.getObjectiveValue())
        columns, duals = np.array(solution.col_value), np.array(solution.row_dual[:n])
        stage = self._stage
        after = np.minimum(np.maximum(columns[self._next], stage.least_level), stage.most_level)
        flows = np.minimum(np.maximum(columns[self._y], stage.least), stage.most)
        return Solved(value, value - float(columns[-1]), flows, after, duals @ self._shift)


def _kept_program(
    matrix: FloatArray, lower: FloatArray, upper: FloatArray, last_costs: FloatArray
) -> tuple[Any, Any]:
    """A HiGHS program without limits of rows and costs of y, which change from solve to solve,
    and the names of how solves end."""
    try:
        import highspy
    except ImportError:
        raise NotApplicableError(not_installed("cuts need highspy", "cuts")) from None
    from scipy.sparse import csr_matrix

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    rows, program = csr_matrix(matrix), highspy.HighsLp()
    program.num_row_, program.num_col_ = matrix.shape
    program.col_cost_ = np.append(np.zeros(len(lower) - len(last_costs)), last_costs)
    program.col_lower_, program.col_upper_ = lower, upper
    program.row_lower_ = program.row_upper_ = np.zeros(len(matrix))
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_, program.a_matrix_.index_ = rows.indptr, rows.indices
    program.a_matrix_.value_ = rows.data
    options = {"output_flag": False, "presolve": "off", "solver": "simplex", "threads": 1}
    options[SHAKING] = 0.0  # a warm start needs none
    options["simplex_scale_strategy"] = 0  # nor to be scaled anew for a step or two of the simplex
    for name, value in (options | dict.fromkeys(TOLERANCES, PRECISION)).items():
        highs.setOptionValue(name, value)
    highs.passModel(program)
    return highs, highspy.HighsModelStatus


class Tangents:
    """The largest of k affine functions of the levels, for each of M nodes.

    rows  (k, M, 1 + D) intercepts and slopes
    """

    def __init__(self, intercepts: FloatArray, D: int) -> None:
        """The first: constant."""
        self._held, self._count = np.zeros((8, len(intercepts), 1 + D)), 1
        self._held[0, :, 0] = intercepts

    @property
    def rows(self) -> FloatArray:
        return self._held[: self._count]

    def add(self, intercepts: FloatArray, slopes: FloatArray) -> None:
        """One more for each node: (M,), (M, D)."""
        if self._count == len(self._held):
            self._held = np.concatenate([self._held, np.zeros_like(self._held)])
        self._held[self._count, :, 0], self._held[self._count, :, 1:] = intercepts, slopes
        self._count += 1

    def keep(self, points: FloatArray) -> IntArray:
        """Which were the first and those that are largest at any of points (n, D), of one node:
        the others are dropped."""
        values = self.rows[:, 0, 0] + points @ self.rows[:, 0, 1:].T
        best = np.union1d(np.argmax(values, axis=1), [0])
        self._held, self._count = self._held[best], len(best)
        return best

    def steepest(self, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(M,) the largest at levels (D,) of the newest, and (M, D) their slopes."""
        rows = self.rows[-ASKED:]
        values = rows[:, :, 0] + rows[:, :, 1:] @ levels
        best, nodes = values.argmax(axis=0), np.arange(values.shape[1])
        return values[best, nodes], rows[best, nodes, 1:]

    def at(self, levels: FloatArray) -> FloatArray:
        """(n, M) for levels (n, D)."""
        k, M, size = self.rows.shape
        with_one = np.hstack([np.ones((len(levels), 1)), levels])
        every, most = self.rows.reshape(k * M, size).T, max(1, AT_ONCE // (k * M))
        parts = [with_one[i : i + most] @ every for i in range(0, len(levels), most)]
        return np.concatenate([part.reshape(-1, k, M).max(axis=1) for part in parts])


class Training:
    """Programs and cuts for every step of a model, and what makes them better.

    stages    the steps
    programs  by step and class of nodes: nodes of a class have the same ahead of them
    classes   by step: (M,) the class of each node
    chances   by step: (classes, M') of the nodes that follow
    values    by step: V of each node, from below
    """

    def __init__(self, model: ExogenousModel, lattice: Lattice, risk: Risk) -> None:
        self.lattice, self.risk, self.stages = lattice, risk, stages_of(model)
        self._levels = np.array(model.start.resource, dtype=np.float64)
        T, D, self._sign = lattice.horizon, self._levels.size, sign_of(model)
        self.classes, self.chances = list[IntArray](), list[FloatArray]()
        for matrix in (*lattice.chances, np.zeros((len(lattice.values[-1]), 0))):
            rows = np.round(matrix, 14) + 0.0
            _, first, found = np.unique(rows, axis=0, return_index=True, return_inverse=True)
            self.classes.append(np.asarray(found, dtype=np.int64).ravel())
            self.chances.append(matrix[first])
        self.programs = [list[StepProgram]()] * T
        self._sides = [list[Sides]()] * T
        self._rounds, self._centres = 0, np.zeros((T, D))
        self._points = [list[FloatArray]() for _ in range(T)]
        self.values, lowest = list[Tangents](), np.zeros(0)
        for t in reversed(range(T)):
            floors = [self._cost(lowest, p) for p in self.chances[t]] if t + 1 < T else [None]
            self.programs[t] = [StepProgram(self.stages[t], self._sign, floor) for floor in floors]
            self._sides[t] = [self.programs[t][0].sides(x) for x in lattice.values[t]]
            costs = {one.cost.tobytes(): one.cost for one in self._sides[t]}  # equal ones are one
            self._sides[t] = [
                one._replace(cost=costs[one.cost.tobytes()]) for one in self._sides[t]
            ]
            lowest = self._lowest(t)
            self.values.insert(0, Tangents(lowest, D))

    def _cost(self, costs: FloatArray, chances: FloatArray) -> float:
        """rho of costs (M,)."""
        return -float(self.risk.value(-costs, chances))

    def _lowest(self, t: int) -> FloatArray:
        """(M,) the least cost from step t on, from any levels."""
        before = self.stages[t - 1]
        box = (before.least_level, before.most_level) if t > 0 else (self._levels, self._levels)
        found = np.empty(len(self._sides[t]))
        for j, sides in enumerate(self._sides[t]):
            lowest = self._program(t, j).lowest(sides, *box)
            if lowest is None:
                x, where = (
                    self.lattice.values[t][j].tolist(),
                    "any levels" if t > 0 else "the start",
                )
                raise InfeasibleError(
                    f"the step at t={t} is not possible from {where} when x is {x}: let "
                    "something give way there at a price (a flow for demand that is lost, or spill)"
                )
            found[j] = lowest
        return found

    def _program(self, t: int, node: int) -> StepProgram:
        return self.programs[t][int(self.classes[t][node])]

    def solve(self, t: int, node: int, levels: FloatArray) -> Solved | None:
        """A step at a node; where it is not possible, steps before it keep away from such levels
        from now on."""
        program, sides = self._program(t, node), self._sides[t][node]
        found = program.solve(sides, levels)
        if found is not None:
            return found
        distance, slope, closest = program.nearest(sides, levels)
        if distance <= ROUNDING * (1.0 + float(np.abs(levels).max())):
            return program.solve(sides, closest)
        if t == 0:
            raise InfeasibleError("no flows keep all bounds from the start on, whatever is done")
        for chances, before in zip(self.chances[t - 1], self.programs[t - 1], strict=True):
            if chances[node] > 0.0:
                before.forbid(distance - float(slope @ levels), slope)
        return None

    def _sharpened(self, t: int, node: int, levels: FloatArray) -> Solved | None:
        """As `solve`, and again where tangents of single nodes make another cut where it ends."""
        found = self.solve(t, node, levels)
        if found is None or t + 1 == self.lattice.horizon:
            return found
        place = int(self.classes[t][node])
        likely = self.chances[t][place] > 0.0
        values, slopes = (one[likely] for one in self.values[t + 1].steepest(found.levels))
        weights = self.risk.weights(-values, self.chances[t][place][likely])
        value, slope = float(weights @ values), weights @ slopes
        if value - (found.value - found.now) <= SHARPER * (1.0 + abs(found.value)):
            return found
        self._points[t + 1].append(found.levels)
        intercept = value - float(slope @ found.levels)
        self.programs[t][place].add(intercept, slope, self._points[t + 1])
        return self.solve(t, node, levels)

    def round(self, rng: np.random.Generator) -> float:
        """One way forwards and backwards; the bound, as a cost."""
        levels, self._rounds = self._decided(self.lattice.sample(1, rng)[0]), self._rounds + 1
        share, part = max(1.0 / self._rounds, NEWEST), rng.random()
        for t in reversed(range(1, len(levels))):
            # Decisions jump from one extreme to another while cuts are few: every second round
            # cuts somewhere on the way to where they were on average.
            self._centres[t] += share * (levels[t] - self._centres[t])
            away = 0.0 if self._rounds % 2 else part
            self._cut(t, levels[t] + away * (self._centres[t] - levels[t]))
        found = self.solve(0, 0, self._levels)
        if found is None:
            return -math.inf
        self.values[0].add(np.array([found.value - found.slope @ self._levels]), found.slope[None])
        return found.value

    def spread(self, rng: np.random.Generator) -> None:
        """One way backwards through levels anywhere within their bounds: cuts for whoever comes
        where this policy does not."""
        for t in reversed(range(1, len(self.stages))):
            low, high = self.stages[t - 1].least_level, self.stages[t - 1].most_level
            reached = np.max([self._levels, *self._points[t]], axis=0)
            self._cut(t, rng.uniform(low, np.where(np.isinf(high), 2.0 * reached, high)))

    def _decided(self, nodes: IntArray) -> list[FloatArray]:
        """The levels before each step along these nodes, as the cuts decide."""
        levels = [self._levels]
        for _ in range(MOST_RETURNS):
            t = len(levels) - 1
            if t == len(nodes) - 1:
                break
            found = self._sharpened(t, int(nodes[t]), levels[t])
            levels = levels[:-1] if found is None else [*levels, found.levels]
        return levels

    def _cut(self, t: int, levels: FloatArray) -> None:
        """Solve all nodes of step t at these levels, and cut for each class before."""
        solved = [self._sharpened(t, j, levels) for j in range(len(self._sides[t]))]
        known = np.array([one is not None for one in solved])
        values = np.array([math.inf if one is None else one.value for one in solved])
        slopes = np.array([0.0 * levels if one is None else one.slope for one in solved])
        scale = SAME * (1.0 + np.abs(values).max())
        if known.all() and (values > self.values[t].at(levels[None])[0] + scale).any():
            self.values[t].add(values - slopes @ levels, slopes)
        self._points[t].append(levels)
        for chances, program in zip(self.chances[t - 1], self.programs[t - 1], strict=True):
            likely = chances > 0.0
            if not known[likely].all():
                continue
            weights = self.risk.weights(-values[likely], chances[likely])
            value, slope = float(weights @ values[likely]), weights @ slopes[likely]
            if value > program.ahead.at(levels[None])[0, 0] + scale:
                program.add(value - float(slope @ levels), slope, self._points[t])

    def played(self, samples: int, rng: np.random.Generator) -> Estimate | None:
        """What the policy of the cuts costs on the lattice: exactly where its tree is small; None
        where it comes to levels from which it cannot go on."""
        counts = [np.ones(1)]
        for matrix in self.lattice.chances:
            counts.append(counts[-1] @ (matrix > 0.0))
        if sum(map(np.sum, counts)) <= WHOLE_TREE and len(counts) <= DEEPEST:
            whole = self._whole(0, 0, self._levels)
            return None if math.isinf(whole) else Estimate(whole, 0.0)
        return self._sampled(samples, rng)

    def _whole(self, t: int, node: int, levels: FloatArray) -> float:
        """What it costs from here on; infinite where it cannot go on."""
        found = self.solve(t, node, levels)
        if found is None or t + 1 == self.lattice.horizon:
            return math.inf if found is None else found.now
        chances = self.lattice.chances[t][node]
        likely = np.flatnonzero(chances)
        ahead = np.array([self._whole(t + 1, int(j), found.levels) for j in likely])
        return math.inf if np.isinf(ahead).any() else found.now + self._cost(ahead, chances[likely])

    def _sampled(self, n: int, rng: np.random.Generator) -> Estimate | None:
        """The mean over n futures, without their luck."""
        nodes, levels = np.zeros(n, dtype=np.int64), np.tile(self._levels, (n, 1))
        totals = np.zeros(n)
        for t in range(self.lattice.horizon):
            for i in range(n):
                found = self.solve(t, int(nodes[i]), levels[i])
                if found is None:
                    return None
                levels[i], totals[i] = found.levels, totals[i] + found.now
            if t + 1 < self.lattice.horizon:
                ahead = self.values[t + 1].at(levels)
                weights = self.risk.weights(-ahead, self.lattice.chances[t][nodes])
                reached = np.cumsum(weights, axis=1) < rng.random(n)[:, None]
                nodes = np.minimum(reached.sum(axis=1), ahead.shape[1] - 1)
                totals -= ahead[np.arange(n), nodes] - (weights * ahead).sum(axis=1)
        return estimate(totals)

    def met(self, n: int, rng: np.random.Generator) -> list[FloatArray]:
        """By step: (k, D) the levels that the policy comes to on n futures."""
        paths = [self._decided(nodes) for nodes in self.lattice.sample(n, rng)]
        steps = zip(*(one for one in paths if len(one) == len(self.stages)), strict=True)
        return [np.unique(np.round(one, 9), axis=0) for one in map(np.array, steps)]

    def cuts(self) -> list[FloatArray]:
        """By step: (M, K, 1 + D) what the value of each node lies below, to be maximised."""
        from counterplan.planning.cut_table import lowest_anywhere

        points = [np.array([self._levels]), *map(np.array, self._points[1:])]
        return [lowest_anywhere(-v.rows, p) for v, p in zip(self.values, points, strict=True)]

    def flows(self, state: State) -> FloatArray:
        """(A,) what the cuts say to do, at any x: what follows is that of the closest node."""
        t, x, levels = state
        program = self._program(t, int(self.lattice.nearest(t, x[None])[0]))
        sides = program.sides(x)
        found = program.solve(sides, levels)
        if found is None:
            distance, _, closest = program.nearest(sides, levels)
            if distance <= ROUNDING * (1.0 + float(np.abs(levels).max())):
                found = program.solve(sides, closest)
        if found is None:
            raise InfeasibleError(
                f"nothing is possible at t={t} with levels {levels.tolist()} and x {x.tolist()} "
                "that leaves later steps possible: let something give way at a price"
            )
        return found.flows


@dataclass(frozen=True, eq=False, kw_only=True)
class CutPlan:
    """What rounds of cuts came to; it is a policy, too: `evaluate` plays it.

    bound       no policy is better, on the lattice
    value, se   of this policy on the lattice: with risk its nested value; se 0 where it is exact
    played      mean and standard error on the model's own futures, where the lattice is not exact
    bounds      (n,) after each round
    status      'optimal' where the tree was played whole and nothing is left to gain, else 'limit'
    method      what was solved, in words
    """

    bound: float
    value: float
    se: float
    played: Estimate
    bounds: FloatArray
    seconds: float
    status: Status
    method: str
    sense: Sense
    training: Training = field(repr=False)
    name: str = "cuts"

    @cached_property
    def tables(self) -> FloatArray:
        """The value from above at every time, node and level (from below, of costs), to be
        maximised: what `cut_table.cut_value` reads."""
        from counterplan.planning.cut_table import packed

        return packed(self.training.lattice.values, self.training.cuts())

    def informing(self, model: ExogenousModel, rounds: int = 30, seed: Seed = 0) -> Any:
        """A copy of the model that knows these bounds, which hold where the lattice is exact: a
        search takes them as its leaves, and what it advises only where that does better on fresh
        futures than what the cuts say to do. Leaves of another kind are clipped to them.

        rounds  of cuts at levels anywhere: a search comes where the policy never does
        """
        from counterplan.planning.cut_table import cut_bounds, cut_value

        rng = generator(seed)
        for _ in range(rounds):
            self.training.spread(rng)
        better, known, sign = replace(self), copy(model), sign_of(model)
        table = better.tables

        def bounds(state: State) -> tuple[float, float]:
            value = sign * float(cut_value(table, state.t, state.exogenous, state.resource))
            return (-math.inf, value) if sign > 0.0 else (value, math.inf)

        def compiled(quantiles: int = 0) -> Any:
            assert isinstance(model, Compiled)
            return replace(model.compiled(quantiles), bounds=cut_bounds, tables=table)

        name, what = ("compiled", compiled) if isinstance(model, Compiled) else ("bounds", bounds)
        object.__setattr__(known, name, what)
        object.__setattr__(known, "grounds", better)
        return known

    @property
    def iterations(self) -> int:
        return len(self.bounds)

    @property
    def gap(self) -> float:
        """How much better the optimum on the lattice could be."""
        return max(0.0, (self.bound - self.value) * (1.0 if self.sense == "max" else -1.0))

    @property
    def relative_gap(self) -> float:
        """As a share of the bound."""
        return self.gap / max(abs(self.bound), 1e-300) if self.gap > 0.0 else 0.0

    def rule(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) what to do in states (n, X), (n, D)."""
        return each_state(t, exogenous, resource, self.training.flows)

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule; all is made."""
        return self.rule


@dataclass(frozen=True)
class Cuts:
    """Dual dynamic programming for models of linear steps: a policy, and a bound.

    iterations  rounds at most
    gap         stop once value and bound differ by at most this share of the bound, twice the
                value's standard error counted
    nodes       of the lattice at each time, where the model's own chain is not small
    samples     futures that the policy's value is the mean of
    risk        1: the mean; a share: the mean over the worst share; (weight of the mean, share)
    limits      seconds, nodes (rounds) and an absolute gap
    """

    iterations: int = 1000
    gap: float = 1e-3
    nodes: int = 20
    samples: int = 100
    risk: RiskLike = 1.0
    limits: Limits | None = None
    name: str = "cuts"

    def __post_init__(self) -> None:
        for name, least in (("iterations", 1), ("nodes", 1), ("samples", 2)):
            whole_number(getattr(self, name), name, minimum=least)
        number(self.gap, "gap", 0.0)
        Risk.of(self.risk)

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule of `solve`."""
        return self.solve(model, seed).rule

    def solve(
        self, model: ExogenousModel, seed: Seed = 0, progress: ProgressCallback | None = None
    ) -> CutPlan:
        """Rounds of cuts from the model's start, until the gap or a limit is reached.

        progress  called after every round; False stops
        """
        watch, rng = Watch("cuts", self.limits, progress), generator(seed)
        stages_of(model)
        lattice = Lattice.of(model, nodes=self.nodes, seed=rng)
        risk, sign = Risk.of(self.risk), sign_of(model)
        training = Training(model, lattice, risk)
        bounds, look, found = list[float](), FIRST_LOOK, None
        # Looking costs as much as this many rounds.
        pause = self.samples * lattice.horizon // sum(map(len, lattice.values))
        for done in range(1, self.iterations + 1):
            bounds.append(max([training.round(rng), *bounds[-1:]]))
            seen = done >= look or done == self.iterations
            if seen:
                look, found = done + max(done // 2, pause), training.played(self.samples, rng)
                if self._is_close(bounds[-1], found, watch.gap):
                    found = training.played(ONCE_MORE * self.samples, rng)
                    if self._is_close(bounds[-1], found, watch.gap):
                        break
            value = None if found is None else -sign * found.mean
            if watch.must_stop(done, value, -sign * bounds[-1], self.iterations):
                found = found if seen else training.played(self.samples, rng)
                break
        if found is None:
            raise StoppedError(
                f"stopped after {len(bounds)} rounds: no policy is known yet that is possible at "
                "every step; allow more iterations"
            )
        whole = found.se == 0.0 and found.mean - bounds[-1] <= PROVED * (1.0 + abs(bounds[-1]))
        played = Estimate(-sign * found.mean, found.se)
        most = max(map(len, lattice.values))
        how = f"cuts over {len(bounds)} rounds, {risk}, "
        how += f"{'the model' if lattice.exact else 'a lattice of sampled futures'}, up to {most} "
        how += "nodes at a time" + ("" if lattice.exact else ": bound and value are the lattice's")
        made = CutPlan(
            bound=-sign * bounds[-1],
            value=played.mean,
            se=played.se,
            played=played,
            bounds=-sign * np.array(bounds),
            seconds=watch.seconds,
            status=Status.OPTIMAL if whole else Status.LIMIT,
            method=how,
            sense=model.sense,
            training=training,
        )
        if lattice.exact:
            return made
        outcomes = follow(model, made.rule, futures(model, self.samples, rng))
        return replace(made, played=estimate(outcomes), seconds=watch.seconds)

    def _is_close(self, bound: float, found: Estimate | None, absolute: float) -> bool:
        if found is None:
            return False
        allowed = max(self.gap * abs(bound), absolute, 1e-12 * (1.0 + abs(bound)))
        return found.mean + 2.0 * found.se - bound <= allowed
