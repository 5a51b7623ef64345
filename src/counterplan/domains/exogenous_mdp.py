"""Your own structurally decomposed MDP, stated in a few lines (D1-D5 of Table 1).

A process (what no action touches), a reward per unit that depends on it alone (D2, so the reward is
linear in the action), resources with their bounds (D1, D3, D4), and which actions a planner may
choose from. Ties go to the earlier step (D5).

    ship = ExogenousMDP(
        process=GBM(1000, 1.0, 0.9, dt=1 / 7, kind="independent"),
        reward=[[1.0]],                                      # a unit costs one price
        resources=Resource(start=0, capacity=50, effect=+1, change=[-12, -25, -30]),
        step_bounds=[(0, 50)] * 3, sense="min", action_set="order-up-to",
    )

What the model can do is its type: with a process of finite support it has `successors`, and with a
matrix as reward and a shipped process it is compiled.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.domains.exogenous_mdp_compiled import ActionSet, action_rows, check_action_set
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.hindsight import allocate
from counterplan.planning.model import Allocation, HasFutures, Sense, State, require_levels
from counterplan.planning.processes.base import CompiledProcess, FiniteProcess, Process
from counterplan.planning.processes.modes import MarkovModes
from counterplan.planning.resource import Resource, ResourceProgram

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# What actions may miss their bounds by: linear programs are solved to 1e-10, step by step.
ROUNDING = 1e-7
# (t, x (n, X)) -> rewards per unit (n, A)
RewardRate: TypeAlias = Callable[[int, FloatArray], ArrayLike]


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
    action_set   'extreme': the least and the most (Lemma 2.1); a whole number: a grid of that many
                 levels; 'order-up-to': for a stock that is added to, just enough to reach each
                 later step, or full; or a function State -> (m, A)

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

    def __new__(
        cls,
        process: Process | None = None,
        reward: Any = None,
        *arguments: Any,
        **named: Any,
    ) -> ExogenousMDP:
        """Choose the class whose methods are what this problem can do."""
        chosen: type[ExogenousMDP] = cls
        if cls is ExogenousMDP and process is not None:
            action_set = named.get("action_set", arguments[4] if len(arguments) > 4 else "extreme")
            plain = not callable(reward) and not callable(action_set)
            compiled = plain and isinstance(process, CompiledProcess)
            chosen = _CLASSES[isinstance(process, FiniteProcess), compiled]
        return object.__new__(chosen)

    def __post_init__(self) -> None:
        if self.sense not in ("max", "min"):
            raise InputError(f"sense must be 'max' or 'min', got {self.sense!r}")
        if not isinstance(self.process, Process):
            raise InputError(
                f"{type(self.process).__name__} is no process: it needs start, draw, mean_path and "
                "sample_paths; see counterplan.processes"
            )
        if isinstance(self.process, MarkovModes) and not self.process.indicators:
            raise InputError(
                "a mode's number has no mean: use MarkovModes(..., indicators=True), where a "
                "reward per mode is a matrix (A, M)"
            )
        _ = self.program  # checks bounds and resources
        check_action_set(self.action_set, self.program)
        if callable(self.reward):
            _check_rate(self.reward)
        elif self.phi.shape != self._rate_shape:
            raise InputError(
                f"the reward matrix must be {self._rate_shape}: a row for each resource, a column "
                f"for each number of x; got {self.phi.shape}"
            )
        _check_linear(self)

    @cached_property
    def program(self) -> ResourceProgram:
        """The resources and their bounds."""
        given = self.resources
        try:
            several = (given,) if isinstance(given, Resource) else tuple(given)
        except TypeError:
            raise InputError(
                f"resources must be a Resource or a list of them, got {given!r}"
            ) from None
        for i, one in enumerate(several):
            if not isinstance(one, Resource):
                raise InputError(f"resource number {i} is {one!r}: give Resource(start, ...)")
        return ResourceProgram(several, np.asarray(self.step_bounds), self.budget)

    @cached_property
    def phi(self) -> FloatArray:
        """(A, X) the reward matrix, where the reward is one."""
        try:
            return np.atleast_2d(np.asarray(self.reward, dtype=np.float64))
        except (TypeError, ValueError):
            raise InputError("reward must be a matrix (A, X) or a function of (t, x)") from None

    @property
    def horizon(self) -> int:
        """T decisions."""
        return self.program.horizon

    @property
    def start(self) -> State:
        """The state before the first decision."""
        return State(0, self.process.start, self.program.start)

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        return self.process.draw(t, exogenous, generator)

    def actions(self, state: State) -> FloatArray:
        """The actions to choose from, (m, A), the least first."""
        self._check_state(state)
        if callable(self.action_set):
            offered = np.atleast_2d(np.asarray(self.action_set(state), dtype=np.float64))
            self._check_offered(state, offered)
            return offered
        room = self.program.room(state.t, state.resource[None])
        if room.low[0] > room.high[0]:
            raise InfeasibleError(
                f"the state at t={state.t} with resource {state.resource.tolist()} leaves no "
                "action that keeps all later bounds; it cannot be reached from the start"
            )
        low, high = float(room.low[0]), float(room.high[0])
        return action_rows(self.action_set, self.program, state, (low, high))

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards (n,) and next resources (n, D); raises where an action breaks a bound, now or at
        a later step."""
        self._check_done(t, resource, actions)
        rewards = (self.rates(t, exogenous) * actions).sum(axis=1)
        return rewards, self.program.levels_after(t, resource, actions)

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best actions along (n, T - t, X) paths, by the fastest solver that applies."""
        return allocate(self, paths, "auto", state)

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

    @property
    def _rate_shape(self) -> tuple[int, int]:
        return len(self.program.resources), len(self.process.start)

    def _check_state(self, state: State) -> None:
        A = len(self.program.resources)
        capacities = [float(one.capacity) for one in self.program.resources]
        require_levels(state.t, state.resource[:A], capacities, "a level of")
        if self.program.has_budget:
            most = self.program.budget[1:]
            require_levels(state.t, state.resource[A:], most, "a total spent of")

    def _check_done(self, t: int, resource: FloatArray, actions: FloatArray) -> None:
        """Raise where an action leaves what may be spent, by more than plans miss by rounding."""
        A = len(self.program.resources)
        totals = actions.sum(axis=1)
        room = self.program.room(t, resource)
        slack = ROUNDING * (1.0 + np.abs(totals))
        wrong = ~((totals >= room.low - slack) & (totals <= room.high + slack))
        # Of one resource the room says it all.
        if A > 1:
            each = (actions < -slack[:, None]) | (actions > resource[:, :A] + slack[:, None])
            wrong |= each.any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            more = ", of no resource more than there is" if A > 1 else ""
            raise InfeasibleError(
                f"action {actions[i].tolist()} at t={t} with resource {resource[i].tolist()}: "
                f"between {room.low[i]:g} and {room.high[i]:g} may be spent there{more}"
            )

    def _check_offered(self, state: State, offered: FloatArray) -> None:
        A = len(self.program.resources)
        if offered.ndim != 2 or offered.shape[1] != A or len(offered) == 0:
            raise InputError(
                f"the action function gave shape {offered.shape} at t={state.t}, expected (m, {A}) "
                "with at least one action"
            )
        room = self.program.room(state.t, state.resource[None])
        totals = offered.sum(axis=1)
        slack = 1e-9 * (1.0 + np.abs(totals))
        wrong = (offered < 0).any(axis=1) | (totals < room.low - slack)
        wrong |= totals > room.high + slack
        if self.program.plain_stocks or A > 1:
            wrong |= (offered > state.resource[:A] + slack[:, None]).any(axis=1)
        if wrong.any():
            action = offered[int(np.argmax(wrong))]
            raise InfeasibleError(
                f"the action function offers {action.tolist()} at t={state.t}, but between "
                f"{room.low[0]:g} and {room.high[0]:g} may be spent there"
            )


class FiniteExogenousMDP(ExogenousMDP):
    """With a process of finite support."""

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (M, X) and probabilities (M,) of x_{t+1} given one x_t."""
        assert isinstance(self.process, FiniteProcess)
        return self.process.successors(t, exogenous)


class CompiledExogenousMDP(ExogenousMDP):
    """With a matrix as reward and a shipped process."""

    def compiled(self, quantiles: int = 0) -> Kernel:
        """`quantiles` > 0: continuous chance is replaced by that many equally likely values."""
        from counterplan.domains.exogenous_mdp_compiled import kernel

        return kernel(self, quantiles)


class FiniteCompiledExogenousMDP(FiniteExogenousMDP, CompiledExogenousMDP):
    """Both."""


_CLASSES: dict[tuple[bool, bool], type[ExogenousMDP]] = {
    (False, False): ExogenousMDP,
    (True, False): FiniteExogenousMDP,
    (False, True): CompiledExogenousMDP,
    (True, True): FiniteCompiledExogenousMDP,
}


def _check_rate(rate: RewardRate) -> None:
    """Refuse a function of the action before it is called."""
    try:
        required = [
            one
            for one in inspect.signature(rate).parameters.values()
            if one.default is one.empty
            and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return
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
