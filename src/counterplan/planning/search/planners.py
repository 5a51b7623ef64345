"""The planners: named compositions of a selection, a backup and a leaf part around one search.

    planner  selection       backup              final action
    UCT      UCB (Eq. 3.1)   mean return         highest mean
    MENTS    E2W (Eq. 3.6)   soft value          highest soft value
    BTS      Boltzmann       highest value       highest value
    DENTS    Boltzmann with  highest value       highest value
             decaying entropy

MENTS maximises reward plus entropy, so its values converge to the soft optimum, above V*; BTS and
DENTS (Painter et al. 2024) explore in the same way and converge to V*. UCT's mean counts every
exploration further down, which it forgets only slowly (Coquelin & Munos 2007): without a good
rollout or bounds, BTS needs far fewer simulations.

`plan` asks a planner for one decision. A planner begins a `Session` with a problem: its compiled
model, its bounds where wanted, the parts and a tree, prepared once and then asked at every state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from numba.core.errors import NumbaError

from counterplan.core.limits import ProgressCallback, Watch, clock
from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import Clip as Clip
from counterplan.planning.model import (
    Compiled,
    ExogenousModel,
    HasBoundTables,
    State,
    checked_problem,
    checked_state,
    clip_share,
    sign_of,
)
from counterplan.planning.model import Plan as Plan
from counterplan.planning.model import PlanStatus as PlanStatus
from counterplan.planning.processes.base import number
from counterplan.planning.search import kernel as compiled
from counterplan.planning.search import loop as tree
from counterplan.planning.search import parts as part
from counterplan.planning.search.kernel import SIGNATURES, Kernel, no_bounds, uniform_policy

# Futures that a model's bounds are prepared from.
BOUND_SAMPLES = 4000
# A kernel's arrays.
ARRAYS = ("parameters", "exogenous", "resource", "tables")
# The weight of a rollout against the lower bound, by random actions or by the model's own. More
# would make waits for chance look too good where the lower bound is the value (options D and F).
TRUST = (0.25, 0.5)
# Random plays that set the unit of temperatures where none is given.
PILOT_PLAYS = 64
# Rollouts that value a decision: as many as simulations, but not fewer than these.
LEAST_PLAYS = 200
# A tree that was asked again and again about one state is planted anew after this many searches.
KEPT = 8
# Trees and sessions of searches with more simulations are given back to the system after use, and
# no more than so many sessions of one problem are kept.
FEW, SESSIONS = 20_000, 4
# Simulations between two calls of `progress`.
AT_ONCE = 256
# More would not fit in memory: each may add a node to the tree.
MOST_SIMULATIONS = 10**8
# From so many simulations on, a session compiles a model that is plain Python: that takes as long.
COMPILED_FROM = 50_000
LEAVES = ("auto", "rollout", "uniform", "bounds", "clipped")


# What is prepared of problems that never change: kernels, bound tables, sessions.
_prepared: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


# Room for a tree that nobody uses at the moment, by the widths of its arrays.
_spares: dict[Any, Any] = {}


def prepared(problem: Any, key: Any, make: Callable[[], Any]) -> Any:
    """What was made of a problem under this key before; kept where the problem cannot change."""
    if not getattr(getattr(problem, "__dataclass_params__", None), "frozen", False):
        return make()
    try:
        kept = _prepared.setdefault(problem, {})
    except TypeError:  # it has no hash, or there are no weak references to it
        return make()
    if key not in kept:
        kept[key] = make()
    return kept[key]


def kernel_of(problem: ExogenousModel, quantiles: int) -> Kernel:
    """The model's compiled functions, or its methods called from compiled code."""
    checked_problem(problem)
    if isinstance(problem, Compiled):
        with suppress(NotApplicableError):
            found: Kernel = prepared(
                problem, quantiles, lambda: checked_kernel(problem.compiled(quantiles=quantiles))
            )
            return found
    from counterplan.planning.search.interpreted import interpret

    return interpret(problem)


def checked_kernel(kernel: Kernel) -> Kernel:
    """A kernel whose functions can be called and whose numbers are where the search finds them."""
    for name, signature in SIGNATURES.items():
        try:
            getattr(kernel, name).get_compile_result(signature)
        except (AttributeError, NumbaError, TypeError, RuntimeError):
            raise InputError(
                f"the kernel's {name} is not a function compiled with the search's signature: "
                f"decorate it with @numba.njit(counterplan.planning.search.kernel.{name.upper()})"
            ) from None
    arrays: Any = {name: getattr(kernel, name) for name in ARRAYS}
    for name, numbers in arrays.items():
        if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype != np.float64:
            raise InputError(f"the kernel's {name} must be a one-dimensional array of float64")
    if kernel.horizon < 1 or kernel.most_actions < 1 or kernel.action_size < 1:
        raise InputError("the kernel's horizon, most_actions and action_size must be at least 1")
    contiguous: Any = {name: np.ascontiguousarray(one) for name, one in arrays.items()}
    return replace(kernel, **contiguous)


def kernel_with_bounds(
    problem: ExogenousModel, kernel: Kernel, clip: Clip, needed: bool, seed: Seed
) -> tuple[Kernel, float]:
    """The kernel with its tables of bounds, and the probability that a leaf value is clipped.

    needed  the leaf part cannot do without bounds
    """
    wanted = clip_share(clip)
    if not needed and wanted == 0.0:
        return kernel, 0.0
    try:
        if kernel.bounds is no_bounds:
            raise NotApplicableError(
                f"{type(problem).__name__} has no bounds on its value to clip to: give the model "
                "bounds(state) -> (lower, upper), or its kernel `bounds`, or plan with clip=False"
            )
        if isinstance(problem, HasBoundTables) and kernel.tables.size == 0:
            tables = prepared(problem, "tables", lambda: problem.bound_tables(BOUND_SAMPLES, seed))
            kernel = replace(kernel, tables=tables)
    except NotApplicableError:
        if needed or clip is not None:
            raise
        return kernel, 0.0
    return kernel, wanted


def stands_alone(problem: ExogenousModel) -> bool:
    """Whether a model brings what a search needs: bounds, a rollout policy, or a kernel."""
    own = isinstance(problem, HasBoundTables) or hasattr(problem, "rollout")
    if own or hasattr(problem, "bounds"):
        return True
    return isinstance(problem, Compiled) and not hasattr(problem, "steps_apart")


class Session:
    """The planner's model, parts and tree for one problem; calling it plans from a state."""

    def __init__(
        self,
        planner: TreePlanner,
        problem: ExogenousModel,
        clip: Clip,
        seed: Seed,
        tables: FloatArray | None = None,
    ) -> None:
        """tables: of values that leaves read, in place of the model's bounds. Where they are the
        bounds that leaves are worth, nodes are worth their best action, one that was not tried as
        much as the leaf: a mean of all that was tried would fall below what is known."""
        # The tables of bounds belong to the problem, whatever the seed: their error is allowed for.
        chance = generator(0).spawn(1)[0]
        self.reseed(seed)
        self._planner, self._parts, self._sign = planner, planner.parts(), sign_of(problem)
        kernel, clipped = kernel_with_bounds(
            problem,
            kernel_of(problem, planner.quantiles),
            clip,
            planner.leaf == "bounds",
            chance,
        )
        if planner.leaf in ("uniform", "clipped"):
            kernel = replace(kernel, policy=uniform_policy)
        if tables is not None:
            kernel = replace(kernel, tables=tables)
        self._settings = self._numbers(clipped)
        leaf = part.named(planner.leaf, clipped > 0.0)
        is_known = tables is not None and planner.leaf == "bounds" and not self._parts.soft
        backup = part.informed if is_known else self._parts.backup
        self._composed = (self._parts.select, backup, leaf, self._settings)
        self.own = None
        if kernel.model is not None:
            from counterplan.planning.search.interpreted import Interpreter
            from counterplan.planning.search.translated import OwnModel

            if isinstance(kernel.model, Interpreter):
                self.own = OwnModel(kernel, COMPILED_FROM)
        self._run_by(kernel)
        factor, power = planner.widening
        most_children = ceil(factor * planner.simulations**power)
        # Only UCB was seen to decide as well where simulations are under way at once.
        is_large = planner.simulations >= tree.FEW and self._parts.select is part.ucb
        sizes = (most_children, planner.bellman, planner.simulations)
        self._tree = tree.allocate(kernel, *sizes, is_large)
        self._run = tree.search_together if is_large else tree.search
        self._at: State | None = None

    def _run_by(self, kernel: Kernel) -> None:
        """Let the search call this kernel."""
        self._kernel = kernel
        self._engine, self._borrowed = part.engine(kernel, *self._composed)

    @property
    def calls_back(self) -> bool:
        """Whether it holds on to the problem itself."""
        return self._kernel.model is not None

    def ready(self) -> None:
        """Prepare what will be asked again and again: a model in plain Python is compiled."""
        if self.own is not None and self.own.renewed(COMPILED_FROM):
            self._run_by(self.own.kernel)

    def reseed(self, seed: Seed) -> None:
        """Begin the planner's own chance anew."""
        self._generator = generator(seed).spawn(2)[1]

    def _numbers(self, clipped: float) -> FloatArray:
        """What the parts read, by place."""
        planner, own = self._planner, self._parts.settings
        settings = np.zeros(max(compiled.OWN, 1 + max(own, default=0)))
        settings[compiled.BELLMAN] = planner.bellman
        settings[compiled.WIDENING], settings[compiled.WIDENING_POWER] = planner.widening
        settings[compiled.CLIP] = clipped
        settings[compiled.TRUST] = TRUST[planner.leaf != "uniform"]
        settings[list(own)] = list(own.values())
        return settings

    def __call__(self, state: State, progress: ProgressCallback | None = None) -> Plan:
        """The decision at a state; `progress` is told of some simulations at a time."""
        if state.t == self._kernel.horizon:
            return self._over()
        self._at = None
        return self._search(state, progress, clock())

    def resume(self, state: State) -> Plan:
        """The decision at a state, with what the search knows of it from the state before."""
        from counterplan.planning.search.transplant import find

        began, at = clock(), self._at
        if state.t == self._kernel.horizon:
            return self._over()
        is_root = at is not None and state.t == at.t
        node = None
        if at is not None and (is_root or state.t == at.t + 1):
            node = find(self._tree, state, is_root)
        used = self._tree.counts[tree.USED, tree.IN_NODES]
        # A model may raise on the way: then nothing is known of what the tree's root is.
        self._at = None
        is_known = node is not None and not (is_root and used > KEPT * self._planner.simulations)
        if is_known and node is not None and not is_root:
            self._move(state, node)
        self._tree.counts[tree.USED, [tree.DONE, tree.DEEPEST, tree.TRANSPOSITIONS]] = 0
        found = self._search(state, None, began, is_known)
        self._at = state
        return found

    def _move(self, state: State, node: int) -> None:
        """Make a node the root of a tree of its own; the room of the old one is used again."""
        from counterplan.planning.search.transplant import has_room_for, like, transplant

        # All that does not grow, and what a simulation may need, must be as large.
        fixed = (
            len(self._tree.path),
            len(self._tree.root),
            *self._tree.counts[tree.NEEDS].tolist(),
        )
        sizes = (fixed, *(one.shape[1:] for one in self._tree))
        spare = _spares.pop(sizes, None)
        if spare is None or not has_room_for(spare, self._tree):
            spare = like(self._tree)
        tree.plant(spare, state)
        transplant(self._tree, spare, node)
        self._tree, old = spare, self._tree
        if self._planner.simulations <= FEW:
            _spares[sizes] = old

    def _search(
        self,
        state: State,
        progress: ProgressCallback | None,
        began: float,
        is_known: bool = False,
    ) -> Plan:
        """Simulate from a state, in the tree there is if it is known there, or in a new one."""
        own = self.own
        if own is not None and own.renewed(self._planner.simulations):
            self._run_by(own.kernel)
        if own is None or not own.is_compiled:
            return self._simulated(state, progress, began, is_known)
        place = self._generator.bit_generator.state
        try:
            return self._simulated(state, progress, began, is_known)
        except Exception as error:  # plain Python has an answer, or says what is wrong
            own.distrust(error)
            self._run_by(own.kernel)
            self._generator.bit_generator.state = place
            return self._simulated(state, progress, began)

    def _simulated(
        self,
        state: State,
        progress: ProgressCallback | None,
        began: float,
        is_known: bool = False,
    ) -> Plan:
        self._set_units(state)
        if not is_known:
            tree.plant(self._tree, state)
        total, done, is_stopped = self._planner.simulations, 0, False
        watch = Watch("simulations", progress=progress)
        while done < total and not is_stopped:
            wanted = total if progress is None else min(done + AT_ONCE, total)
            asked = (state.t, wanted, self._generator)
            while (done := int(self._run(self._engine, self._tree, *asked))) < wanted:
                self._tree = tree.grown(self._tree)
            is_stopped = watch.must_stop(done, total=total) and done < total
        found = self._plan(state, clock() - began)
        return replace(found, status=PlanStatus.STOPPED) if is_stopped else found

    def _set_units(self, state: State) -> None:
        """Count temperatures in units of reward: one objective for all of a search."""
        if not self._parts.in_units:
            return
        unit = self._planner.scale
        if unit is None:
            unit = part.pilot(self._engine, *state, PILOT_PLAYS, self._generator) or 1.0
        for place in self._parts.in_units:
            self._settings[place] = unit * self._parts.settings[place]

    def _plan(self, state: State, seconds: float) -> Plan:
        first, m = tree.root_edges(self._tree)
        returns = self._tree.root[:m]
        visits = self._tree.edges[first : first + m, compiled.VISITS].astype(np.int64)
        values = np.where(visits > 0, self._tree.edges[first : first + m, compiled.VALUE], -np.inf)
        index = int(np.argmax(values))
        value = self._tree.nodes[0, compiled.VALUE] if self._parts.soft else values[index]
        actions = self._tree.actions[first : first + m].copy()
        errors = standard_errors(returns, last=state.t == self._kernel.horizon - 1)
        return Plan(
            action=actions[index],
            index=index,
            value=self._sign * float(value),
            se=float(errors[index]),
            actions=actions,
            values=self._sign * np.where(visits > 0, values, np.nan),
            values_se=errors,
            visits=visits,
            bounds=self._bounds(state),
            status=PlanStatus.SEARCHED if m > 1 else PlanStatus.FORCED,
            stats=self._stats(seconds),
            planner=self._planner.name,
            basis="" if self.own is None else self.own.words,
        )

    def followed(self, decision: Plan, state: State) -> Plan:
        """The decision, valued by following the search's choices."""
        if decision.status is PlanStatus.OVER or self._parts.soft:
            return decision
        edge = tree.root_edges(self._tree)[0] + decision.index
        question = (state.t, edge, max(LEAST_PLAYS, self._planner.simulations))
        found = np.empty(2)
        waiting = tree.follow_room(self._tree)
        tree.follow(self._engine, self._tree, question, self._generator, waiting, found)
        value, bounds = self._sign * float(found[0]), decision.bounds
        if bounds is not None and self._settings[compiled.CLIP] > 0.0:
            value = min(max(value, bounds.low), bounds.high)
        return replace(decision, value=value, se=float(found[1]))

    def _bounds(self, state: State) -> Interval | None:
        limits = np.empty(2)
        kernel = self._kernel
        kernel.bounds(kernel.parameters, kernel.tables, *state, self._generator, limits)
        if not np.any(np.isfinite(limits)):
            return None
        low, high = limits if self._sign > 0.0 else -limits[::-1]
        return Interval(float(low), float(high))

    def _stats(self, seconds: float) -> Mapping[str, float]:
        counts = self._tree.counts[tree.USED].tolist()
        stats = {
            "simulations": counts[tree.DONE],
            "seconds": seconds,
            "simulations_per_second": counts[tree.DONE] / seconds,
            "nodes": counts[tree.IN_NODES],
            "exogenous_nodes": counts[tree.IN_EXOGENOUS],
            "reused": int(self._tree.nodes[0, compiled.VISITS]) - 1 - counts[tree.DONE],
            "depth": counts[tree.DEEPEST],
            "transpositions": counts[tree.TRANSPOSITIONS],
            "temperature": float(self._settings[compiled.TEMPERATURE]),
            "clip": float(self._settings[compiled.CLIP]),
        }
        return MappingProxyType(stats)

    def _over(self) -> Plan:
        none, whole = np.empty(0), np.empty(0, dtype=np.int64)
        return Plan(
            action=none,
            index=-1,
            value=0.0,
            se=0.0,
            actions=np.empty((0, self._kernel.action_size)),
            values=none,
            values_se=none,
            visits=whole,
            bounds=Interval(0.0, 0.0),
            status=PlanStatus.OVER,
            stats=MappingProxyType({"simulations": 0}),
            planner=self._planner.name,
        )


def standard_errors(returns: FloatArray, last: bool) -> FloatArray:
    """(m,) of the mean returns (m, 3: number, mean, squared deviations); the last step is sure."""
    n = returns[:, 0]
    if last:
        return np.where(n > 0, 0.0, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n > 1, np.sqrt(returns[:, 2] / (n * (n - 1))), np.inf)


@runtime_checkable
class HasAction(Protocol):
    """The least that a decision holds: `Plan`, or a planner's own result."""

    @property
    def action(self) -> FloatArray: ...


Decide: TypeAlias = Callable[[State], HasAction]


@runtime_checkable
class Follows(Protocol):
    """A decision maker of this library: tells its progress, values what it decides, and can go on
    with what it knows from the state before."""

    def __call__(self, state: State, progress: ProgressCallback | None = None) -> Plan: ...

    def followed(self, decision: Plan, state: State) -> Plan: ...

    def resume(self, state: State) -> Plan: ...

    def reseed(self, seed: Seed) -> None: ...

    def ready(self) -> None: ...


@runtime_checkable
class Planner(Protocol):
    """Anything that decides by looking ahead. `begin` prepares it for one problem; the function it
    returns is then asked at every state. `seed` is the planner's own chance, never the future's."""

    @property
    def name(self) -> str: ...

    def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Decide: ...


class Parts(NamedTuple):
    """The compiled parts of a search beside `leaf` (signatures: `kernel`) and their numbers.

    settings     place in the settings -> number
    in_units     which of them are counted in units of the scale of returns
    soft         whether the root's own value is the answer, instead of its best action's
    """

    select: Any
    backup: Any
    settings: Mapping[int, float]
    in_units: tuple[int, ...] = ()
    soft: bool = False


@dataclass(frozen=True)
class TreePlanner(ABC):
    """What all tree searches have in common.

    simulations  for each decision
    leaf         how a new state is valued: 'rollout' (play on by the model's own rollout policy),
                 'auto' (likewise; where a model has neither that nor bounds, by what is cheap for
                 it: see `grounded`), 'uniform' (by random actions), 'bounds' (the middle of the
                 model's bounds), 'clipped' (random actions, clipped as in the paper and no more),
                 or a compiled function of one's own
    bellman      average over all successors by their probabilities (Algorithms 1 and 2), instead of
                 over those met
    quantiles    continuous chance is replaced by that many equally likely values; 0: it is sampled,
                 with progressive widening
    widening     (k, alpha): a chance node passed N times has at most k N^alpha children
    scale        the unit of exploration and temperature; None: found from the returns themselves
    """

    simulations: int = 1000
    leaf: Any = "auto"
    bellman: bool = False
    quantiles: int = 32
    widening: tuple[float, float] = (1.0, 0.5)
    scale: float | None = None

    def __post_init__(self) -> None:
        whole_number(self.simulations, "simulations", 1, MOST_SIMULATIONS)
        whole_number(self.quantiles, "quantiles")
        if not callable(self.leaf) and self.leaf not in LEAVES:
            raise InputError(f"leaf must be one of {', '.join(LEAVES)}, got {self.leaf!r}")
        try:
            factor, power = (float(one) for one in self.widening)
        except (TypeError, ValueError):
            factor = power = math.nan
        if not (0.0 < factor < math.inf and 0.0 <= power <= 1.0):
            raise InputError(
                f"widening must be two numbers (k > 0, 0 <= alpha <= 1), got {self.widening!r}"
            )
        if self.scale is not None:
            number(self.scale, "scale", 0.0, above=True)

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def parts(self) -> Parts:
        """The composition."""

    def is_grounded(self, problem: ExogenousModel) -> bool:
        """Whether the search of this problem needs a basis (`grounded`), or was given one."""
        if hasattr(checked_problem(problem), "grounds"):
            return self.leaf in ("auto", "bounds")
        return self.leaf == "auto" and not stands_alone(problem)

    def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Decide:
        if self.is_grounded(problem):
            from counterplan.planning.search.grounded import Grounded, on_lattice

            planner = replace(self, leaf="bounds" if hasattr(problem, "grounds") else on_lattice)
            begin = partial(Session, planner, problem, False)
            return Grounded(self.name, problem, clip, seed, begin)
        return Session(self, problem, clip, seed)


@dataclass(frozen=True)
class UCT(TreePlanner):
    """Upper confidence bounds for trees.

    exploration  c of Eq. 3.1, in units of the range of returns met (or of `scale`)
    """

    exploration: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.exploration, "exploration", 0.0)

    def parts(self) -> Parts:
        settings = {compiled.EXPLORATION: self.exploration, compiled.SCALE: self.scale or 0.0}
        return Parts(part.ucb, part.mean, settings)


@dataclass(frozen=True)
class Boltzmann(TreePlanner):
    """What the Boltzmann searches have in common.

    temperature  alpha, in units of the standard deviation of random play (or of `scale`)
    epsilon      of the uniform share min(1, epsilon |A| / log(N + 1))
    """

    temperature: float = 0.3
    epsilon: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.temperature, "temperature", 0.0, above=True)
        number(self.epsilon, "epsilon", 0.0)

    def compose(self, backup: Any, entropy: float = 0.0, soft: bool = False) -> Parts:
        """The parts with this backup."""
        settings = {
            compiled.TEMPERATURE: self.temperature,
            compiled.EPSILON: self.epsilon,
            compiled.ENTROPY_WEIGHT: entropy,
        }
        units = (compiled.TEMPERATURE, compiled.ENTROPY_WEIGHT)
        return Parts(part.boltzmann, backup, settings, units, soft)


@dataclass(frozen=True)
class MENTS(Boltzmann):
    """Maximum entropy tree search (Eq. 3.3-3.6): its values are soft values."""

    temperature: float = 0.01
    epsilon: float = 0.1

    def parts(self) -> Parts:
        return self.compose(part.soft, soft=True)


@dataclass(frozen=True)
class BTS(Boltzmann):
    """Boltzmann tree search: explores like MENTS, values like dynamic programming."""

    def parts(self) -> Parts:
        return self.compose(part.highest)


@dataclass(frozen=True)
class DENTS(Boltzmann):
    """Decaying entropy tree search: BTS whose exploration also seeks entropy further down.

    entropy  the weight of entropy at a node's first visit, in the unit of the temperature; it
             decays as 1 / log(e + N)
    """

    entropy: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.entropy, "entropy", 0.0)

    def parts(self) -> Parts:
        return self.compose(part.entropy, entropy=self.entropy)


# By the names that a command line or a file has for them.
PLANNERS: Mapping[str, type[TreePlanner]] = {
    one.__name__.lower(): one for one in (UCT, MENTS, BTS, DENTS)
}


def plan(
    problem: ExogenousModel,
    state: State | None = None,
    planner: Planner | None = None,
    *,
    clip: Clip = None,
    seed: Seed = 0,
    progress: ProgressCallback | None = None,
    risk: Any = 1.0,
) -> Plan:
    """Decide at a state (default: the problem's start); the planner may stand in the state's place.

    planner  default: UCT with 1,000 simulations
    clip     leaf values are kept within the model's bounds: True, False, or with which probability
             (the paper's alpha_c); None: if the model has bounds (its own, or by cuts). Of a model
             without any nothing in the tree is clipped: the value of the decision at the root is
             bounded by an executed policy (and by hindsight, if True), see `Plan.bounds_se`
    progress  called for some simulations at a time; False stops the search, and the plan's status
              says so (planners of one's own are not asked)
    risk     what is ahead counts by it at every step (nested, so plans are time consistent): 1 the
             mean, a share such as 0.25 the mean over the worst quarter, or (the mean's weight,
             share). Other than the mean it is planned by dynamic programming, not by a search
    """
    if isinstance(state, Planner):
        if isinstance(planner, Planner):
            raise InputError("two planners were given: plan(problem, state, planner)")
        state, planner = planner, state
    chosen = checked_planner(planner)
    place = checked_state(checked_problem(problem), state)
    is_own = not isinstance(chosen, TreePlanner) or type(chosen).begin is not TreePlanner.begin
    is_mean = isinstance(risk, int | float) and risk == 1.0
    if isinstance(chosen, TreePlanner) and is_mean and not (is_own or chosen.is_grounded(problem)):
        session = _session(chosen, problem, clip, seed)
        # A tree search values its decision by following its choices.
        found = session.followed(session(place, progress), place)
        _keep(session, chosen, problem, clip)
        return replace(found, problem=problem)
    decide = begun(chosen, problem, clip, seed, risk)
    decision = decide(place, progress) if isinstance(decide, Follows) else decide(place)
    if not isinstance(decision, Plan):
        raise InputError(
            f"{chosen.name} returns {type(decision).__name__}, not a Plan: ask it directly, "
            "planner.begin(problem)(state), or play it with evaluate"
        )
    if isinstance(decide, Follows):
        decision = decide.followed(decision, place)
    return replace(decision, problem=problem)


def begun(
    planner: Planner, problem: ExogenousModel, clip: Clip, seed: Seed, risk: Any = 1.0
) -> Decide:
    """A planner begun with a problem; averse to risk by dynamic programming, if asked for."""
    if isinstance(risk, int | float) and risk == 1.0:
        return planner.begin(problem, clip, seed)
    from counterplan.planning.risk import Risk
    from counterplan.planning.search.grounded import Grounded

    measure = Risk.of(risk)
    if measure.is_mean:
        return planner.begin(problem, clip, seed)
    if not isinstance(planner, TreePlanner):
        raise InputError(
            f"risk {measure} is planned by dynamic programming, which {planner.name} does not do: "
            "leave risk out, or plan with UCT()"
        )
    return Grounded(planner.name, problem, clip, seed, None, measure)


def checked_planner(planner: object) -> Planner:
    """A planner; none: UCT."""
    if planner is None:
        return UCT()
    if not isinstance(planner, Planner):
        raise InputError(
            f"{type(planner).__name__} is not a planner such as UCT(simulations=1000): "
            "a policy is played by evaluate"
        )
    return planner


def _session(planner: TreePlanner, problem: ExogenousModel, clip: Clip, seed: Seed) -> Session:
    """A session, the last one with the same planner if it is there and free."""
    kept = None
    with suppress(TypeError):  # numbers of a planner's own need not have a hash
        kept = prepared(problem, "sessions", dict).pop((planner, clip), None)
    if kept is None:
        return Session(planner, problem, clip, seed)
    kept.reseed(seed)
    return kept  # type: ignore[no-any-return]


def _keep(session: Session, planner: TreePlanner, problem: ExogenousModel, clip: Clip) -> None:
    """Let the next plan have it."""
    if planner.simulations > FEW or session.calls_back:
        return
    with suppress(TypeError):
        kept = prepared(problem, "sessions", dict)
        kept[planner, clip] = session
        while len(kept) > SESSIONS:
            kept.pop(next(iter(kept)), None)
