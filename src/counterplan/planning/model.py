"""What a structurally decomposed MDP is, and what more a model may offer.

The state is a pair (x, d). The exogenous part x follows its own law whatever is done; the resource
d follows the action deterministically; the reward is linear in the action (Eq. 2.2-2.8):

    x_{t+1} ~ P(. | x_t),    d_{t+1} = step_t(x_t, d_t, a_t),    r_t = <phi f(x_t), a_t>

x_t is known before a_t is chosen. Times are t = 0 .. T-1 (`horizon` = T decisions), so a path is
(T, X): x_0 .. x_{T-1}. Arrays: X exogenous numbers, D resource levels, A numbers per action, n
states at once. A capability is a type: a model that has the method has it. `Plan` is what any
planner says of a state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from counterplan.core.result import Interval
from counterplan.core.result import Sense as Sense
from counterplan.core.shown import Drawn
from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.errors import InputError
from counterplan.planning.processes.base import FiniteProcess, Process

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# What levels may miss their bounds by.
ROUNDING = 1e-9


class State(NamedTuple):
    """Where a decision is made: before decision t, x_t revealed.

    exogenous  (X,)
    resource   (D,)
    """

    t: int
    exogenous: FloatArray
    resource: FloatArray


@runtime_checkable
class ExogenousModel(Protocol):
    """The least a planner needs; plain NumPy is enough.

    sense   'max': rewards, 'min': costs; `step`, values and bounds are all in this sense
    start   the state before the first decision
    """

    @property
    def horizon(self) -> int: ...

    @property
    def sense(self) -> Sense: ...

    @property
    def start(self) -> State: ...

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        ...

    def actions(self, state: State) -> FloatArray:
        """The actions to choose from, (m, A), m >= 1; all feasible."""
        ...

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards (n,) and next resources (n, D) for (n, X), (n, D), (n, A)."""
        ...


# x_{t+1} takes finitely many values: a model says so as a process does.
FiniteSupport = FiniteProcess


@runtime_checkable
class SamplesPaths(Protocol):
    """Whole futures at once."""

    def sample_paths(self, n: int, seed: Seed, state: State | None = None) -> FloatArray:
        """(n, T - t, X): futures that begin with the state's x_t (default: the start)."""
        ...


class Allocation(NamedTuple):
    """What should have been done along each of n paths.

    values   (n,)
    actions  (n, steps, A)
    method   which solver, and why it applies
    """

    values: FloatArray
    actions: FloatArray
    method: str


@runtime_checkable
class HasHindsight(Protocol):
    """The optimum for realised paths is computed exactly."""

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best actions along (n, T - t, X) paths from the state's resource."""
        ...


@runtime_checkable
class MakesFeasible(Protocol):
    """The closest possible action is known, for many states at once."""

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, A) the possible actions closest to those wanted (n, A)."""
        ...


@runtime_checkable
class HasMeanPath(Protocol):
    """Conditional means are known."""

    def mean_path(self, state: State | None = None) -> FloatArray:
        """(T - t, X): E[x_s | x_t] for s = t .. T-1."""
        ...


@runtime_checkable
class HasExactValue(Protocol):
    """The optimum without foresight is computed by a dynamic program of the model's own."""

    def optimal_value(self, state: State | None = None) -> float: ...

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """The optimal actions (n, A) for (n, X), (n, D)."""
        ...


@runtime_checkable
class Compiled(Protocol):
    """The model as compiled functions, for the fast search."""

    def compiled(self, quantiles: int = 0) -> Kernel:
        """`quantiles` > 0: continuous chance is replaced by that many equally likely values."""
        ...


@runtime_checkable
class HasBoundTables(Protocol):
    """Bounds on the value at every state, prepared once and read by `Kernel.bounds`."""

    def bound_tables(self, samples: int, seed: Seed) -> FloatArray:
        """One flat array of numbers; what it holds is between the model and its kernel."""
        ...


class HasFutures:
    """Paths x_t, x_{t+1}, ... of a model whose exogenous part is one process."""

    process: Any

    if TYPE_CHECKING:

        @property
        def horizon(self) -> int: ...

        @property
        def start(self) -> State: ...

    @property
    def law(self) -> Process:
        """What the exogenous part follows."""
        found: Process = self.process
        return found

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        return self.law.draw(t, exogenous, generator)

    def sample_paths(self, n: int, seed: Seed = 0, state: State | None = None) -> FloatArray:
        """(n, T - t, X): futures that begin with the state's x_t."""
        now = self.start if state is None else state
        return self.law.sample_paths(n, self.horizon - now.t, seed, now.t, now.exogenous)

    def sample_path(self, seed: Seed = 0) -> FloatArray:
        """(T, X): one future from the start."""
        return np.asarray(self.sample_paths(1, seed)[0])

    def mean_path(self, state: State | None = None) -> FloatArray:
        """(T - t, X): E[x_s | x_t]."""
        now = self.start if state is None else state
        return self.law.mean_path(self.horizon - now.t, now.t, now.exogenous)


def sign_of(problem: ExogenousModel) -> float:
    """What turns values in the problem's own sense into ones to be maximised, and back."""
    return 1.0 if problem.sense == "max" else -1.0


def checked_problem(problem: ExogenousModel) -> ExogenousModel:
    """The problem, if it has all that a planner needs."""
    if not isinstance(problem, ExogenousModel):
        raise InputError(
            f"{type(problem).__name__} is not a problem to plan for: it needs horizon, sense, "
            "start, draw, actions and step (see ExogenousModel)"
        )
    name = type(problem).__name__
    start: Any = problem.start
    if isinstance(problem, type):
        raise InputError(f"{problem.__name__} is a class, not a problem: give {problem.__name__}()")
    whole_number(problem.horizon, f"{name}: horizon", minimum=1)
    if problem.sense not in ("max", "min"):
        raise InputError(f"{name}: sense must be 'max' or 'min', got {problem.sense!r}")
    arrays = isinstance(start, State) and [isinstance(one, np.ndarray) for one in start[1:]]
    if arrays != [True, True] or any(one.ndim != 1 for one in start[1:]):
        raise InputError(
            f"{name}: start must be State(0, x, d) with arrays x (X,) and d (D,), got {start!r}"
        )
    return problem


def checked_state(problem: ExogenousModel, state: State | None) -> State:
    """The state, or the problem's start, as arrays of the right sizes.

    A state that the problem offers no actions for is refused by the problem itself: its `actions`
    knows which levels, prices and modes there are.
    """
    start = problem.start
    try:
        t, *parts = start if state is None else state
        exogenous, resource = parts
    except (TypeError, ValueError):
        raise InputError(f"state must be State(t, exogenous, resource), got {state!r}") from None
    t = whole_number(t, "state t", maximum=problem.horizon)
    x = _vector(exogenous, "exogenous", np.size(start.exogenous))
    found = State(t, x, _vector(resource, "resource", np.size(start.resource)))
    if state is not None and t < problem.horizon:
        offered(problem, found)
    return found


def _vector(values: object, name: str, size: int) -> FloatArray:
    try:
        vector = np.array(values, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError):
        raise InputError(f"the state's {name} must hold numbers, got {values!r}") from None
    if vector.shape != (size,):
        raise InputError(f"the state's {name} has shape {vector.shape}, the problem's ({size},)")
    if not np.all(np.isfinite(vector)):
        raise InputError(f"the state's {name} must be finite, got {vector}")
    return vector


# What follows is asked at every decision, of a few numbers: plain Python is faster there.


def require_levels(t: int, levels: FloatArray, capacities: Iterable[float], what: str) -> None:
    """Refuse a state whose levels do not lie between 0 and their capacities."""
    for level, capacity in zip(levels.tolist(), capacities, strict=True):
        slack = ROUNDING * (1.0 + abs(level))
        if not -slack <= level <= capacity + slack:
            between = f"lie between 0 and {capacity:g}" if capacity < math.inf else "be at least 0"
            raise InputError(
                f"the state at t={t} has {what} {level:g}, which must {between}: no such state "
                "can be reached"
            )


def require_prices(state: State) -> None:
    """Refuse a state with a price that is not positive."""
    for price in state.exogenous.tolist():
        if not price > 0.0:
            raise InputError(
                f"the state at t={state.t} has a price of {price:g}: prices must be positive"
            )


def require_held(state: State) -> None:
    """Refuse a state in which an option is neither held (1) nor exercised (0)."""
    held = state.resource.tolist()
    if any(one not in (0.0, 1.0) for one in held):
        raise InputError(
            f"the state at t={state.t} holds {held}: give 1 for each option still held and 0 for "
            "the others"
        )


def numbers(values: object, name: str, shape: tuple[int, ...] | None = None) -> FloatArray:
    """An array, where a shape is given of that shape and finite."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected an array of numbers, got {values!r}") from None
    if shape is not None and array.shape != shape:
        raise InputError(f"{name}: expected shape {shape}, got {array.shape}")
    if shape is not None and not np.all(np.isfinite(array)):
        raise InputError(f"{name}: expected finite numbers, got {array.tolist()}")
    return array


def offered(model: ExogenousModel, state: State) -> FloatArray:
    """(m, A) the model's own actions of a state, refused where these are no rows of numbers."""
    t, x, d = state
    actions = numbers(model.actions(State(t, x.copy(), d.copy())), f"actions at t={t}")
    if actions.ndim != 2 or not len(actions):
        raise InputError(
            f"actions at t={state.t}, x={state.exogenous.tolist()}, d={state.resource.tolist()} "
            f"must be (m, A) with m >= 1, got shape {actions.shape}"
        )
    return actions


def following(process: FiniteProcess, t: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What may follow x (X,), (M, X), and its chances (M,), above 0; refused where they are no
    chances."""
    values, chances = process.successors(t, x.copy())
    chances = numbers(chances, f"probabilities at t={t}")
    values = numbers(values, f"successors at t={t}", (chances.size, x.size))
    if chances.ndim != 1 or not (chances >= 0.0).all() or not abs(chances.sum() - 1.0) <= 1e-9:
        raise InputError(
            f"probabilities at t={t}, x={x.tolist()} must be at least 0 and sum to 1, got "
            f"{chances.tolist()}"
        )
    possible = chances > 0.0
    return values[possible], chances[possible]


def stepped(
    model: ExogenousModel, t: int, x: FloatArray, d: FloatArray, actions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The model's own step for (n, X), (n, D), (n, A), refused where it gives no numbers. It is
    given copies: a step may reckon in place."""
    found = model.step(t, x.copy(), d.copy(), actions.copy())
    try:
        rewards, after = (np.asarray(one, dtype=np.float64) for one in found)
    except (TypeError, ValueError):
        raise InputError(
            f"step at t={t} must give rewards (n,) and levels after (n, D) as arrays of numbers, "
            f"got {found!r}"
        ) from None
    if rewards.shape != (len(d),) or after.shape != d.shape:
        raise InputError(
            f"step at t={t} gives shapes {rewards.shape} and {after.shape} for {len(d)} state(s) "
            f"at once, expected {(len(d),)} and {d.shape}: compute each row from its own row"
        )
    right = np.isfinite(rewards) & np.isfinite(after).all(axis=1)
    if not right.all():
        i = int(np.argmin(right))
        x_i, d_i, a_i, left = (one[i].tolist() for one in (x, d, actions, after))
        raise InputError(
            f"step at t={t}, x={x_i}, d={d_i}, action={a_i} gives reward {rewards[i]:g} and "
            f"d={left}: give finite numbers; where no such state can be, let `actions` raise"
        )
    return rewards, after


class Estimate(NamedTuple):
    """The mean of independent samples, and the standard deviation of that mean."""

    mean: float
    se: float


def estimate(values: FloatArray) -> Estimate:
    """Of (n,) independent samples."""
    if len(values) < 2:
        raise InputError(f"{len(values)} sample(s) give no standard error: use at least 2")
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))


# Whether leaf values are clipped: yes, no, with a probability, or (None) if the model has bounds.
Clip: TypeAlias = bool | float | None


def clip_share(clip: Clip) -> float:
    """The probability that a leaf value is clipped, if there are bounds."""
    try:
        possible = clip is None or 0.0 <= clip <= 1.0
    except TypeError:
        possible = False
    if not possible:
        raise InputError(f"clip must be True, False or a probability from 0 to 1, got {clip!r}")
    return 1.0 if clip is None else float(clip)


class PlanStatus(StrEnum):
    """What stands behind a decision; `advice` says what to do about it."""

    SEARCHED = "searched"
    STOPPED = "stopped"
    FOLLOWED = "followed"
    EXACT = "exact"
    FORCED = "forced"
    OVER = "over"

    @property
    def advice(self) -> str:
        return {
            PlanStatus.SEARCHED: "Estimated by simulation: compare the values of the actions with "
            "their standard errors; more simulations separate closer ones.",
            PlanStatus.STOPPED: "Estimated by the simulations made until the search was stopped: "
            "`stats` says how many.",
            PlanStatus.FOLLOWED: "What the basis does is followed: no search was made, or what it "
            "advised did not do better on the same futures.",
            PlanStatus.EXACT: "By dynamic programming over every state: nothing does better "
            "without foresight.",
            PlanStatus.FORCED: "There is only one action: nothing to decide.",
            PlanStatus.OVER: "The horizon is reached: there is no decision left, and no value.",
        }[self]


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(Drawn):
    """A decision at a state. Values are in the problem's own sense: costs where it minimises.

    action           (A,) what to do
    index            its row in `actions` (-1 where nothing is left to decide)
    value            of the state: what the action, then the search's choices, then fresh rollouts
                     bring, so below the optimum but for chance; within `bounds` where the planner
                     clips. MENTS: its soft value, above the optimum
    se               standard error of the value, from the rollouts; the successors in the tree are
                     taken as given
    actions          (m, A) all that could be done
    values           (m,) of each action, by which it is chosen; nan where it was never tried. Means
                     over all that was tried further down, so they lag behind the optimum
    values_se        (m,) standard error of each; inf where it was tried less than twice
    visits           (m,) simulations that began with it
    bounds           what the model knows of the value beforehand, if anything; of a model without
                     bounds of its own, what was executed on fresh futures and a limit from cuts or
                     hindsight, where `clip` asks for it
    bounds_se        standard errors of the two, 0 where they are sure
    status           'searched', 'followed', 'exact', 'stopped', 'forced' or 'over'
    stats            simulations, seconds, simulations_per_second, nodes, depth, transpositions, ...
    planner          whose decision it is
    basis            what the search of a model without bounds of its own stands on, in words
    problem          what was decided about, if it is told: it knows words and units
    """

    action: FloatArray
    index: int
    value: float
    se: float
    actions: FloatArray
    values: FloatArray
    values_se: FloatArray
    visits: IntArray
    bounds: Interval | None
    status: PlanStatus
    stats: Mapping[str, float]
    planner: str
    basis: str = ""
    bounds_se: tuple[float, float] = (0.0, 0.0)
    problem: ExogenousModel | None = None

    def __post_init__(self) -> None:
        """Whatever a search did: no decision is valued at what is not a finite number."""
        if not math.isfinite(self.value):
            raise InputError(
                f"{self.planner}: the rewards on the way add up to {self.value}: state them in "
                "larger units"
            )

    def _facts(self) -> dict[str, object]:
        found: dict[str, object] = {"action": tuple(np.asarray(self.action).tolist())}
        found |= {"value": self.value, "se": self.se, "status": str(self.status)}
        return {**found, "planner": self.planner}
