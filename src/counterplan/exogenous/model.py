"""What a structurally decomposed MDP is, and what more a model may offer.

The state is a pair (x, d). The exogenous part x follows its own law whatever is done; the resource
d follows the action deterministically; the reward is linear in the action (Eq. 2.2-2.8):

    x_{t+1} ~ P(. | x_t),    d_{t+1} = step_t(x_t, d_t, a_t),    r_t = <phi f(x_t), a_t>

x_t is known before a_t is chosen. Times are t = 0 .. T-1 (`horizon` = T decisions), so a path is
(T, X): x_0 .. x_{T-1}. Arrays: X exogenous numbers, D resource levels, A numbers per action, n
states at once. A capability is a type: a model that has the method has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from counterplan.core.result import Sense as Sense
from counterplan.core.validation import FloatArray, Seed

if TYPE_CHECKING:
    from counterplan.planning.kernel import Kernel


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


@runtime_checkable
class FiniteSupport(Protocol):
    """x_{t+1} takes finitely many values."""

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (M, X) and probabilities (M,) of x_{t+1} given one x_t."""
        ...


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
