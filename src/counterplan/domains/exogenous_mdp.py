"""Your own structurally decomposed MDP, stated in a few lines (D1-D5 of Table 1).

A process (what no action touches), a reward per unit that depends on it alone (D2, so the reward is
linear in the action), resources with their bounds (D1, D3, D4), and which actions a planner may
choose from. Ties go to the earlier step (D5).

    ship = ExogenousMDP(
        process=GBM(1000, 1.0, 0.9, dt=1 / 7, kind="independent"),
        reward=[[1.0]],                                      # a unit costs one price
        resources=Resource(start=0, capacity=50, effect=+1, change=[-12, -25, -30]),
        step_bounds=[(0, 50)] * 3, sense="min", action_set="order-up-to"
    )

What the model can do is a method that it has: `successors` with a process of finite support, and
`compiled` with a matrix as reward and a shipped process.

Which of the feasible actions a planner may choose from:

    'extreme'      the least and the most that may be spent (Lemma 2.1); with several resources for
                   each of them, taken first from one resource and then from the others in turn
    n              a grid of n totals; with two resources the least and the most total, each divided
                   in n ways
    'order-up-to'  for a stock that is added to: the least, up to each level that just reaches a
                   later step, and full. These contain the optimum where the extremes do not

The bound below is what the plan that is optimal for expected rewards earns, executed: at every step
the offered action that is closest to what was planned, or to that and what earlier steps left
undone, whichever earns more. Neither plan nor offered actions depend on chance, and the reward is
linear in it, so what the plan earns at the expected rewards is its mean: a bound on the best that
offered actions reach, without any error. Several resources are planned as one pool and divided in
time order; two with a fixed quota exactly. There is no bound above: hindsight is one only in the
mean over futures (`value_bounds`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, whole_number
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.allocation import (
    AFTER_HIGH,
    AFTER_LOW,
    SHIFT,
    SOLVED,
    SPILL_HIGH,
    SPILL_LOW,
    nested_path,
    resource_steps,
    total_steps,
)
from counterplan.planning.compiled import SAME, Layout, inlined, jit, offer
from counterplan.planning.hindsight import by_program
from counterplan.planning.model import Allocation, HasFutures, Sense, State, require_levels
from counterplan.planning.processes.base import FiniteProcess, Process
from counterplan.planning.processes.laws import Shipped, process_ahead
from counterplan.planning.processes.modes import stated_process
from counterplan.planning.resource import TOLERANCE, Resource, ResourceProgram

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# What actions may miss their bounds by: linear programs are solved to 1e-10, step by step.
ROUNDING = 1e-7
# (t, x (n, X)) -> rewards per unit (n, A)
RewardRate: TypeAlias = Callable[[int, FloatArray], ArrayLike]
ActionSet: TypeAlias = Literal["extreme", "order-up-to"] | int | Callable[[State], ArrayLike]
# What a user's own actions may miss their bounds by.
SMALL = 1e-9
# What a model has if its process allows it.
FOUND = ("successors", "compiled")


@dataclass(frozen=True, eq=False)
class ExogenousMDP(HasFutures):
    """A structurally decomposed MDP from a process, a linear reward and resources.

    process      x_{t+1} from x_t: one of `cp.processes`, or your own
    reward       per unit of each action, which x_t alone decides: a matrix phi (A, X) with
                 r = <phi x, a>, or a function (t, x (n, X)) -> (n, A)
    resources    one Resource or A of them; D = A levels, then the total spent if there is a budget
    step_bounds  (T, 2) least and most that is spent at each step, all resources together
    budget       least and most that is spent over all steps
    sense        'max': rewards, 'min': costs
    action_set   'extreme', 'order-up-to', a number of levels, or a function State -> (m, A)

    The value V* (of `exact_value`, and what a search converges to) is that of the best choice among
    the offered actions; any feasible amounts may be worth more, and hindsight chooses among those.
    What bounds say below V* is true of the offered actions, too.
    """

    process: Process
    reward: ArrayLike | RewardRate
    resources: Resource | Sequence[Resource]
    step_bounds: ArrayLike
    budget: tuple[float, float] = (0.0, math.inf)
    sense: Sense = "max"
    action_set: ActionSet = "extreme"

    def __post_init__(self) -> None:
        process = stated_process(
            self.sense, self.process, "where a reward per mode is a matrix (A, M)"
        )
        object.__setattr__(self, "process", process)
        _ = self.program  # checks bounds and resources
        self._check_action_set()
        if callable(self.reward):
            _check_rate(self.reward)
        elif self.phi.shape != self._rate_shape:
            raise InputError(
                f"the reward matrix must be {self._rate_shape}: a row for each resource, a column "
                f"for each number of x; got {self.phi.shape}"
            )
        _check_linear(self)
        # What the model can do is a method that it has; a subclass may act in its own way.
        own = _acts_in_its_own_way(type(self))
        if not own and isinstance(self.process, FiniteProcess):
            object.__setattr__(self, "successors", self.process.successors)
        own = own or callable(self.reward) or callable(self.action_set)
        if not own and isinstance(self.process, Shipped):
            object.__setattr__(self, "compiled", self._compiled)

    @cached_property
    def program(self) -> ResourceProgram:
        """The resources and their bounds."""
        given: Any = (self.resources,) if isinstance(self.resources, Resource) else self.resources
        if not isinstance(given, Sequence):
            raise InputError(f"resources must be a Resource or a list of them, got {given!r}")
        for i, one in enumerate(given):
            if not isinstance(one, Resource):
                raise InputError(f"resource number {i} is {one!r}: give Resource(start, ...)")
        return ResourceProgram(tuple(given), np.asarray(self.step_bounds), self.budget)

    @cached_property
    def phi(self) -> FloatArray:
        """(A, X) the reward matrix, where the reward is one."""
        try:
            given = np.array(self.reward, dtype=np.float64, ndmin=2)  # not the caller's own
        except (TypeError, ValueError):
            raise InputError("reward must be a matrix (A, X) or a function of (t, x)") from None
        # What follows the prices of a fitted process, its belief, earns nothing.
        beliefs = len(self.process.start) - given.shape[-1]
        if beliefs > 0 and given.shape[-1] == getattr(self.process, "series", 0):
            return np.pad(given, ((0, 0), (0, beliefs)))
        return given

    @property
    def horizon(self) -> int:
        return self.program.horizon

    @property
    def start(self) -> State:
        return State(0, self.process.start, self.program.start)

    def actions(self, state: State) -> FloatArray:
        """The actions to choose from, (m, A), the least first."""
        self._check_state(state)
        if callable(self.action_set):
            offered = np.atleast_2d(np.asarray(self.action_set(state), dtype=np.float64))
            A = len(self.program.resources)
            if offered.ndim != 2 or offered.shape[1] != A or len(offered) == 0:
                raise InputError(
                    f"the action function gave shape {offered.shape} at t={state.t}, expected "
                    f"(m, {A}) with at least one action"
                )
            self._check_actions(state.t, state.resource[None], offered, offered=True)
            return offered
        low, high = self.program.spendable(state.t, state.resource[None])
        if low[0] > high[0]:
            raise InfeasibleError(
                f"the state at t={state.t} with resource {state.resource.tolist()} leaves no "
                "action that keeps all later bounds; it cannot be reached from the start"
            )
        rows = np.empty((self.most_actions, len(self.program.resources)))
        x, d = (np.array(part, dtype=np.float64) for part in state[1:])
        return rows[: actions(self._numbers, state.t, x, d, rows)]

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards (n,) and next resources (n, D); raises where an action breaks a bound, now or at
        a later step."""
        self._check_actions(t, resource, actions)
        rewards = (self.rates(t, exogenous) * actions).sum(axis=1)
        return rewards, self.program.levels_after(t, resource, actions)

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best actions along (n, T - t, X) paths, by the fastest solver that applies."""
        sign = 1.0 if self.sense == "max" else -1.0
        return by_program(self, paths, "auto", self.start if state is None else state, sign)

    @cached_property
    def steps_apart(self) -> bool:
        """Whether x touches rewards alone: neither what is offered nor where it leads."""
        return not callable(self.action_set) and not _acts_in_its_own_way(type(self))

    def rates(self, t: int, exogenous: FloatArray) -> FloatArray:
        """(n, A) rewards per unit at t for (n, X)."""
        if not callable(self.reward):
            return np.asarray(exogenous @ self.phi.T)
        found = np.asarray(self.reward(t, exogenous), dtype=np.float64)
        wanted = (len(exogenous), self._rate_shape[0])
        if found.shape != wanted:
            raise InputError(
                f"the reward function gave shape {found.shape} at t={t}, expected {wanted}: one "
                "reward per unit for each state and resource"
            )
        return found

    def unit_rewards(self, t: int, paths: FloatArray) -> FloatArray:
        """(n, steps, A) to be maximised, for paths (n, steps, X) that begin at t."""
        sign = 1.0 if self.sense == "max" else -1.0
        if not callable(self.reward):
            return np.asarray(paths @ (sign * self.phi.T))
        steps = [self.rates(t + s, paths[:, s]) for s in range(paths.shape[1])]
        return sign * np.stack(steps, axis=1)

    def _compiled(self, quantiles: int = 0) -> Kernel:
        """`quantiles` > 0: continuous chance is replaced by that many equally likely values."""
        from counterplan.planning.search.kernel import Kernel

        assert isinstance(self.process, Shipped)
        block = self.process.kernel_parameters(self.horizon, quantiles)
        parameters, most = np.concatenate([self._numbers, block]), self.most_actions
        functions = {"actions": actions, "step": step, "bounds": bounds}
        sizes = {"action_size": len(self.program.resources), "most_actions": most}
        successors = self.process.most_successors(quantiles)
        return Kernel.of(
            self, **functions, **sizes, parameters=parameters, most_successors=successors
        )

    @property
    def most_actions(self) -> int:
        """No state offers more, where the action set is not a function."""
        A, chosen = len(self.program.resources), self.action_set
        if isinstance(chosen, int):
            return chosen * A
        return 2 * A if chosen == "extreme" else self.horizon + 2

    @cached_property
    def _numbers(self) -> FloatArray:
        """What compiled functions read, but for the process at its end."""
        program, chosen = self.program, self.action_set
        table = [program.step_bounds, program.after, program.later, resource_steps(program)]
        quota = (program.step_bounds[:, 0] == program.step_bounds[:, 1]).all()
        two = len(program.resources) == 2 and program.plain_stocks
        solver = BY_ADVANTAGE if two and quota else BY_POOL
        return PROGRAM.pack(
            effect=program.resources[0].effect,
            budgeted=program.has_budget,
            least=program.budget[0],
            most=program.budget[1],
            sign=1.0 if self.sense == "max" else -1.0,
            choice={"extreme": EXTREME, "order-up-to": ORDER_UP_TO}.get(str(chosen), GRID),
            levels=chosen if isinstance(chosen, int) else 0,
            offered=self.most_actions,
            solver=BY_NESTED if len(program.resources) == 1 else solver,
            steps=np.hstack(table),
            changes=program.changes,
            capacities=[float(one.capacity) for one in program.resources],
            phi=np.zeros(self._rate_shape) if callable(self.reward) else self.phi,
            process=[],
        )

    @property
    def _rate_shape(self) -> tuple[int, int]:
        return len(self.program.resources), len(self.process.start)

    def _check_action_set(self) -> None:
        """Raise if these actions make no sense for these resources."""
        chosen, A = self.action_set, len(self.program.resources)
        added = A == 1 and self.program.resources[0].effect > 0
        if callable(chosen) or chosen == "extreme" or (chosen == "order-up-to" and added):
            return
        if chosen == "order-up-to":
            raise InputError(
                "action_set 'order-up-to' is for one resource that is added to (effect=+1); use "
                "'extreme' or a number of levels"
            )
        if isinstance(chosen, str):
            raise InputError(
                f"action_set {chosen!r} is not 'extreme', 'order-up-to', a number of levels or a "
                "function"
            )
        whole_number(chosen, "action_set (levels of the grid)", minimum=2)
        if A > 2:
            raise InputError(f"a grid divides between two resources, not {A}; use 'extreme'")

    def _check_state(self, state: State) -> None:
        A = len(self.program.resources)
        capacities = [float(one.capacity) for one in self.program.resources]
        require_levels(state.t, state.resource[:A], capacities, "a level of")
        if self.program.has_budget:
            most = self.program.budget[1:]
            require_levels(state.t, state.resource[A:], most, "a total spent of")

    def _check_actions(
        self, t: int, resource: FloatArray, actions: FloatArray, offered: bool = False
    ) -> None:
        """Raise where an action leaves what may be spent, by more than plans miss by rounding."""
        A, totals = len(self.program.resources), actions.sum(axis=1)
        low, high = self.program.spendable(t, resource)
        slack = (SMALL if offered else ROUNDING) * (1.0 + np.abs(totals))
        wrong = ~((totals >= low - slack) & (totals <= high + slack))
        if A > 1:  # of one resource the total says it all
            each = (actions < -slack[:, None]) | (actions > resource[:, :A] + slack[:, None])
            wrong |= each.any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            at = i % len(resource)  # several actions may be of one state
            between = f"between {low[at]:g} and {high[at]:g} may be spent there"
            action = actions[i].tolist()
            said = f"action {action} at t={t} with resource {resource[at].tolist()}: {between}"
            said += ", of no resource more than there is" if A > 1 else ""
            own = f"the action function offers {action} at t={t}, but {between}"
            raise InfeasibleError(own if offered else said)


def _acts_in_its_own_way(kind: type[ExogenousMDP]) -> bool:
    """Whether a subclass replaces anything of the model: what it says about itself is new."""
    above = kind.__mro__[: kind.__mro__.index(ExogenousMDP)]
    names = {name for one in above for name in vars(one) if not name.startswith("__")}
    return any(hasattr(ExogenousMDP, name) or name in FOUND for name in names)


def _check_rate(rate: RewardRate) -> None:
    """Refuse a function of the action before it is called."""
    try:
        parameters = inspect.signature(rate).parameters.values()
    except (TypeError, ValueError):
        return
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.default is one.empty and one.kind in positional]
    if len(required) > 2:
        names = ", ".join(one.name for one in required)
        raise InputError(
            f"the reward function takes ({names}), but a reward that depends on the action is not "
            "linear in it (D2): give the reward per unit as a function of (t, x) only"
        )


def _check_linear(model: ExogenousMDP) -> None:
    """The rate at the start is finite, and the same whatever other states it is asked with."""
    x = model.process.start
    rate = model.rates(0, x[None])
    if not np.isfinite(rate).all():
        raise InputError(f"the reward per unit at the start is {rate[0].tolist()}: must be finite")
    if not np.array_equal(model.rates(0, np.stack([x, x])), np.repeat(rate, 2, axis=0)):
        raise InputError(
            "the reward function gives the same state another reward when asked for two at once: "
            "compute each row of (n, A) from its row of x alone"
        )


# --- Compiled; rewards are to be maximised ----------------------------------------------------

# A step's row: its bounds, where the level must be after it, the sums of later bounds, and the
# seven numbers of `planning.allocation`. offered: how many actions there may be.
PROGRAM = Layout(
    "rest effect budgeted least most sign choice levels offered solver",
    "T A X",
    steps="T 13",
    changes="T A",
    capacities="A",
    phi="A X",
    process="*",
)
program_of = PROGRAM.view
LOW, HIGH, LOWEST, HIGHEST, LATER_LOW, LATER_HIGH, NESTED = range(7)
EXTREME, GRID, ORDER_UP_TO = range(3)
# How the plan for expected rewards is found.
BY_NESTED, BY_ADVANTAGE, BY_POOL = range(3)


@inlined
def rate(p, i, x):  # type: ignore[no-untyped-def]
    """Reward per unit of resource i."""
    total = 0.0
    for j in range(p.X):
        total += p.phi[i, j] * x[j]
    return p.sign * total


@inlined
def moved(p, t, i, level, amount):  # type: ignore[no-untyped-def]
    """The level of resource i after an action and the change of step t."""
    after = max(level + p.effect * amount, 0.0) + p.changes[t, i]
    return max(min(after, p.capacities[i]), 0.0)


@inlined
def _room(p, t, d):  # type: ignore[no-untyped-def]
    """The least and the most that may be spent, as `ResourceProgram.spendable`."""
    level = 0.0
    for i in range(p.A):
        level += d[i]
    row = p.steps[t]
    low, high = row[LOW], row[HIGH]
    if p.effect > 0:
        low, high = max(low, row[LOWEST] - level), min(high, row[HIGHEST] - level)
    else:
        low, high = max(low, level - row[HIGHEST]), min(high, level - row[LOWEST])
    if p.budgeted > 0:
        low = max(low, p.least - d[p.A] - row[LATER_HIGH])
        high = min(high, p.most - d[p.A] - row[LATER_LOW])
    if high < low <= high + TOLERANCE * (1.0 + abs(high)):
        low = high = max(high, 0.0)
    return low, high


@jit
def _divide(parameters, total, d, out, m):  # type: ignore[no-untyped-def]
    """The ways to divide a total between several resources; how many actions there are then."""
    p = program_of(parameters)
    if p.choice == EXTREME:
        for first in range(p.A):  # from one resource, then from the others in turn
            left = total
            for k in range(p.A):
                i = first if k == 0 else (k if k > first else k - 1)
                out[m, i] = min(max(left, 0.0), d[i])
                left -= out[m, i]
            m = offer(out, m, m)
        return m
    # What the first of two resources gives, at most and at least.
    total = max(total, 0.0)
    most = min(total, d[0])
    least = total - min(total, d[1])
    for k in range(int(p.levels)):
        weight = k / (p.levels - 1)
        out[m, 0] = most + weight * (least - most)
        out[m, 1] = (total - most) + weight * (most - least)
        m = offer(out, m, 0)
    return m


@jit
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """The actions of the set, each once, the least first."""
    p = program_of(parameters)
    low, high = _room(p, t, d)
    m = 0
    if p.A > 1:
        for total in (low, high):
            if m == 0 or total - low > SAME * (1.0 + abs(low)):  # else all are there already
                m = _divide(parameters, total, d, out, m)
        return m
    if p.choice == GRID:
        levels = int(p.levels)
        for i in range(levels):
            out[m, 0] = low + (high - low) * i / (levels - 1) if i < levels - 1 else high
            m = offer(out, m, 0)
        return m
    out[0, 0] = low
    m = 1
    if p.choice == ORDER_UP_TO:
        reach = -d[0]
        for s in range(t, p.T):
            reach -= p.changes[s, 0]
            out[m, 0] = min(max(reach, low), high)
            m = offer(out, m, m)
    out[m, 0] = high
    return offer(out, m, m)


@jit
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """The reward and the next resource."""
    p = program_of(parameters)
    reward = total = 0.0
    for i in range(p.A):
        reward += rate(p, i, x) * action[i]
        total += action[i]
        out[i] = moved(p, t, i, d[i], action[i])
    if p.budgeted > 0:
        out[p.A] = d[p.A] + total
    return reward


# What follows makes arrays, so it is not `jit`.


@njit(cache=True, inline="always")
def _solved(rates, steps, start, spent):  # type: ignore[no-untyped-def]
    """Whether there is an allocation; the best one is written to spent (T - t,)."""
    n = len(steps)
    order = np.empty(n, dtype=np.int64)
    return nested_path(rates, steps, start, np.empty(n), order, spent)[1] == SOLVED


@njit(cache=True)
def _plan_nested(parameters, t, d, rates, plan):  # type: ignore[no-untyped-def]
    """One resource, written to plan (1, T - t); whether a plan was found."""
    p = program_of(parameters)
    steps = p.steps[t:, NESTED:].copy()
    start = p.effect * d[0]
    zero = start + steps[:-1, SHIFT].sum()
    spills = np.isfinite(steps[0, SPILL_LOW]) or np.isfinite(steps[0, SPILL_HIGH])
    # With spilling the level does not tell what was spent: then the budget cuts off what is done.
    if p.budgeted > 0 and not spills:
        last = steps[-1]
        last[AFTER_LOW] = max(last[AFTER_LOW], zero + p.least - d[1])
        last[AFTER_HIGH] = min(last[AFTER_HIGH], zero + p.most - d[1])
    return _solved(rates[0], steps, start, plan[0])


@njit(cache=True)
def _plan_advantage(parameters, t, d, rates, plan):  # type: ignore[no-untyped-def]
    """Two stocks with fixed quotas, written to plan (2, T - t); whether a plan was found."""
    p = program_of(parameters)
    n = p.T - t
    limits = np.zeros((n, 2))
    limits[:, 1] = p.steps[t:, LOW]
    least = min(max(limits[:, 1].sum() - d[1], 0.0), d[0])
    found = _solved(rates[0] - rates[1], total_steps(limits, least, d[0]), 0.0, plan[0])
    plan[1] = limits[:, 1] - plan[0]
    return found


@njit(cache=True)
def _plan_pool(parameters, t, d, rates, plan):  # type: ignore[no-untyped-def]
    """Several stocks, taken as one at the best of their rates, then divided in time order, each
    total from the best resource that is left: written to plan (A, T - t); whether one was found."""
    p = program_of(parameters)
    n, levels = p.T - t, d[: p.A].copy()
    limits, best = p.steps[t:, : HIGH + 1], np.empty(n)
    for s in range(n):
        best[s] = rates[:, s].max()
    stock = levels.sum() + p.changes[t : p.T - 1].sum()
    least, most = 0.0, stock
    if p.budgeted > 0:
        least, most = max(p.least - d[p.A], 0.0), min(stock, p.most - d[p.A])
    totals = np.zeros(n)
    found = _solved(best, total_steps(limits, least, most), 0.0, totals)
    for s in range(n):
        for i in np.argsort(-rates[:, s]):
            plan[i, s] = min(totals[s], levels[i])
            totals[s] -= plan[i, s]
        for i in range(p.A):
            levels[i] = moved(p, t + s, i, levels[i], plan[i, s])
    return found


@njit(cache=True)
def _closest(offered, m, wanted, last):  # type: ignore[no-untyped-def]
    """Which of m offered actions is closest to the one wanted: the first of several, or the last,
    which spends no less."""
    chosen, least = 0, np.inf
    for k in range(m):
        away = 0.0
        for i in range(wanted.shape[0]):
            away += (offered[k, i] - wanted[i]) ** 2
        if away < least or (last and away <= least):
            chosen, least = k, away
    return chosen


@njit(cache=True)
def _executed(parameters, t, d, rates, plan, carried):  # type: ignore[no-untyped-def]
    """What a plan (A, T - t) earns at rates (A, T - t), made of offered actions.

    carried  1: what was done too little or too much so far is made up for, 0: it is not
    """
    p = program_of(parameters)
    offered, wanted = np.empty((int(p.offered), p.A)), np.zeros(p.A)
    resource = d.copy()
    value = 0.0
    for s in range(plan.shape[1]):
        m = actions(parameters, t + s, d, resource, offered)
        wanted = carried * wanted + plan[:, s]
        action = offered[_closest(offered, m, wanted, carried > 0)]
        for i in range(p.A):
            wanted[i] -= action[i]
            value += rates[i, s] * action[i]
            resource[i] = moved(p, t + s, i, resource[i], action[i])
            if p.budgeted > 0:
                resource[p.A] += action[i]
    return value


@njit(cache=True)
def bounds(parameters, tables, t, x, d, generator, out):  # type: ignore[no-untyped-def]
    """What the plan for expected rewards earns below, nothing above."""
    p = program_of(parameters)
    if t >= p.T:
        out[0] = out[1] = 0.0
        return
    rates, plan = np.empty((p.A, p.T - t)), np.empty((p.A, p.T - t))
    here, following = x.copy(), np.empty_like(x)
    for s in range(t, p.T):
        for i in range(p.A):
            rates[i, s - t] = rate(p, i, here)
        if s + 1 < p.T:
            process_ahead(p.process, t, x, s, here, following)
            here[:] = following
    out[0], out[1] = -np.inf, np.inf
    if p.solver == BY_NESTED:
        found = _plan_nested(parameters, t, d, rates, plan)
    elif p.solver == BY_ADVANTAGE:
        found = _plan_advantage(parameters, t, d, rates, plan)
    else:
        found = _plan_pool(parameters, t, d, rates, plan)
    if found:
        plain = _executed(parameters, t, d, rates, plan, 0.0)
        out[0] = max(plain, _executed(parameters, t, d, rates, plan, 1.0))
