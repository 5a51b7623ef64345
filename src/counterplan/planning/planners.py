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
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.planning.checked import is_number

# More would not fit in memory: each may add a node to the tree.
MOST_SIMULATIONS = 10**8
# Whether leaf values are clipped: yes, no, with a probability, or (None) if the model has bounds.
Clip: TypeAlias = bool | float | None


@runtime_checkable
class HasAction(Protocol):
    """The least that a decision holds: `Plan`, or a planner's own result."""

    @property
    def action(self) -> FloatArray: ...


Decide: TypeAlias = Callable[[State], HasAction]


@runtime_checkable
class Planner(Protocol):
    """Anything that decides by looking ahead. `begin` prepares it for one problem; the function it
    returns is then asked at every state. `seed` is the planner's own chance, never the future's."""

    @property
    def name(self) -> str: ...

    def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Decide: ...


class Parts(NamedTuple):
    """The compiled parts of a search (signatures: `planning.compiled`) and their numbers.

    settings     place in the settings -> number
    in_units     which of them are counted in units of the scale of returns
    soft         whether the root's own value is the answer, instead of its best action's
    """

    select: Any
    backup: Any
    leaf: Any
    settings: Mapping[int, float]
    in_units: tuple[int, ...] = ()
    soft: bool = False


@dataclass(frozen=True)
class TreePlanner(ABC):
    """What all tree searches have in common.

    simulations  for each decision
    leaf         how a new state is valued: 'rollout' (play on by the model's own rollout policy),
                 'uniform' (by random actions), 'bounds' (the middle of the model's bounds),
                 'clipped' (random actions, clipped as in the paper and no more), or a compiled
                 function of one's own
    bellman      average over all successors by their probabilities (Algorithms 1 and 2), instead of
                 over those met
    quantiles    continuous chance is replaced by that many equally likely values; 0: it is sampled,
                 with progressive widening
    widening     (k, alpha): a chance node passed N times has at most k N^alpha children
    scale        the unit of exploration and temperature; None: found from the returns themselves
    """

    simulations: int = 1000
    leaf: Any = "rollout"
    bellman: bool = False
    quantiles: int = 32
    widening: tuple[float, float] = (1.0, 0.5)
    scale: float | None = None

    label: ClassVar[str] = ""

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
            positive(self.scale, "scale")

    @property
    def name(self) -> str:
        return self.label or type(self).__name__

    @abstractmethod
    def parts(self) -> Parts:
        """The composition; `leaf` is put in by the search where a name stands for it."""

    def begin(self, problem: ExogenousModel, clip: Clip = None, seed: Seed = 0) -> Decide:
        from counterplan.planning.session import Session

        return Session(self, problem, clip, seed)


LEAVES = ("rollout", "uniform", "bounds", "clipped")


def positive(value: float, name: str) -> None:
    """Refuse anything but a positive, finite number."""
    if not (is_number(value) and 0.0 < value < math.inf):
        raise InputError(f"{name} must be a positive number, got {value!r}")


def not_negative(value: float, name: str) -> None:
    """Refuse anything but a finite number from 0 up."""
    if not (is_number(value) and 0.0 <= value < math.inf):
        raise InputError(f"{name} must be a number from 0 up, got {value!r}")


@dataclass(frozen=True)
class UCT(TreePlanner):
    """Upper confidence bounds for trees.

    exploration  c of Eq. 3.1, in units of the range of returns met (or of `scale`)
    """

    exploration: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self.exploration, "exploration")

    def parts(self) -> Parts:
        from counterplan.planning import backup, compiled, selection

        settings = {compiled.EXPLORATION: self.exploration, compiled.SCALE: self.scale or 0.0}
        return Parts(selection.ucb, backup.mean, self.leaf, settings)


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
        positive(self.temperature, "temperature")
        not_negative(self.epsilon, "epsilon")

    def compose(self, backup: Any, entropy: float = 0.0, soft: bool = False) -> Parts:
        """The parts with this backup."""
        from counterplan.planning import compiled, selection

        settings = {
            compiled.TEMPERATURE: self.temperature,
            compiled.EPSILON: self.epsilon,
            compiled.ENTROPY_WEIGHT: entropy,
        }
        units = (compiled.TEMPERATURE, compiled.ENTROPY_WEIGHT)
        return Parts(selection.boltzmann, backup, self.leaf, settings, units, soft)


@dataclass(frozen=True)
class MENTS(Boltzmann):
    """Maximum entropy tree search (Eq. 3.3-3.6): its values are soft values."""

    temperature: float = 0.01
    epsilon: float = 0.1

    def parts(self) -> Parts:
        from counterplan.planning import backup

        return self.compose(backup.soft, soft=True)


@dataclass(frozen=True)
class BTS(Boltzmann):
    """Boltzmann tree search: explores like MENTS, values like dynamic programming."""

    def parts(self) -> Parts:
        from counterplan.planning import backup

        return self.compose(backup.highest)


@dataclass(frozen=True)
class DENTS(Boltzmann):
    """Decaying entropy tree search: BTS whose exploration also seeks entropy further down.

    entropy  the weight of entropy at a node's first visit, in the unit of the temperature; it
             decays as 1 / log(e + N)
    """

    entropy: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self.entropy, "entropy")

    def parts(self) -> Parts:
        from counterplan.planning import backup

        return self.compose(backup.entropy, entropy=self.entropy)


# By the names that a command line or a file has for them.
PLANNERS: Mapping[str, type[TreePlanner]] = {
    "uct": UCT,
    "ments": MENTS,
    "bts": BTS,
    "dents": DENTS,
}
