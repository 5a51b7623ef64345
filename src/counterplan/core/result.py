"""The one result type of every explanation, with its certificate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

from counterplan.core.shown import Drawn
from counterplan.errors import CertificateError, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.core.episode import Episode

# Whether more is better (rewards) or less (costs).
Sense: TypeAlias = Literal["max", "min"]


class Status(StrEnum):
    """How far a result can be trusted; `advice` says what to do about it."""

    OPTIMAL = "optimal"
    LIMIT = "limit"
    HEURISTIC = "heuristic"

    @property
    def advice(self) -> str:
        return {
            Status.OPTIMAL: "Proved optimal: no admissible alternative is better.",
            Status.LIMIT: "Stopped at a limit or at the gap asked for: the optimum lies between "
            "value and bound; raise the limits, or ask for a smaller gap, to close it (nothing "
            "does where the method says what rounding alone may move).",
            Status.HEURISTIC: "From a heuristic without a proof: compare it with the exact solver.",
        }[self]


class Change(NamedTuple):
    """At step t the action `observed` is replaced by `alternative`: both are indices of actions, or
    tuples of amounts where a resource is spent."""

    t: int
    observed: Any
    alternative: Any


class Interval(NamedTuple):
    """A closed interval that certainly holds the quantity asked for."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return 0.0 if self.low == self.high else self.high - self.low


@dataclass(frozen=True)
class Certified:
    """A number with bounds that hold for certain; `low == high` where it is exact."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation(Drawn, ABC):
    """What should have been done differently, how much it would have brought, and how sure that is.

    value          the outcome (expected, where the counterfactual is uncertain) of the alternative
    factual_value  the outcome that was observed
    bound          no alternative within the constraints can be better
    status         'optimal', 'limit' (a gap is left) or 'heuristic' (a baseline, no proof)
    stats          seconds and what the solver counted
    method         how it was found, e.g. which bound the search used
    rule           how alternatives were kept inside the data, in words; empty where they were not
    sense          'max': outcomes are rewards; 'min': costs, of which less is better
    """

    episode: Episode
    k: int
    value: float
    factual_value: float
    bound: float
    status: Status
    stats: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    method: str = ""
    rule: str = ""
    sense: Sense = "max"

    def __post_init__(self) -> None:
        """Whatever a solver did: no certificate holds something that is not a number, and none
        calls optimal what its own bound does not confirm."""
        numbers = {"value": self.value, "observed": self.factual_value, "bound": self.bound}
        if any(math.isnan(number) for number in numbers.values()):
            raise CertificateError(f"not a number in an explanation by {self.method!r}: {numbers}")
        room = 1e-9 * max(1.0, abs(self.value)) if math.isfinite(self.value) else 0.0
        if self.gap < -room or (self.status == Status.OPTIMAL and self.gap > room):
            raise CertificateError(
                f"{self.status} by {self.method!r}, but value and bound disagree: {numbers}"
            )

    def _facts(self) -> dict[str, object]:
        given: dict[str, object] = {"k": self.k, "value": self.value}
        given["factual_value"], given["changes"] = self.factual_value, len(self.changes)
        if self.harm is not None:
            given["interval"] = tuple(self.interval or ())
        return {**given, "status": str(self.status)}

    @property
    @abstractmethod
    def changes(self) -> tuple[Change, ...]:
        """The changes, or the most likely ones where they depend on chance."""

    @property
    def interval(self) -> Interval | None:
        """What the model leaves open: by members or draws the improvement, at 90 %; by a table of
        probabilities the value, over all causal models that fit it. None where a model does not
        know how sure it is, such as one network."""
        return None

    @property
    def harm(self) -> float | None:
        """How likely it is worse than what was done, None where members or draws do not say."""
        return None

    @property
    def gap(self) -> float:
        """How much better the optimum could be; 0 where the value is proved optimal."""
        return self._better(self.bound, self.value)

    @property
    def improvement(self) -> float:
        """By how much value is better than factual_value, 0 where both are the same infinity."""
        return self._better(self.value, self.factual_value)

    @property
    def relative_improvement(self) -> float:
        """Improvement as a share of the observed outcome's size (inf where that is zero)."""
        if self.improvement == 0.0 or math.isinf(self.improvement):
            return self.improvement
        if self.factual_value == 0.0:
            return math.copysign(math.inf, self.improvement)
        return self.improvement / abs(self.factual_value)

    def _better(self, one: float, other: float) -> float:
        """By how much one outcome is better than another."""
        if one == other:
            return 0.0
        return one - other if self.sense == "max" else other - one


Found = TypeVar("Found", bound=Explanation, covariant=True)


class Frontier(Drawn, Sequence[Found], Generic[Found]):
    """Explanations for every budget k = 0..k_max; `frontier[k]` is the one for k."""

    def __init__(self, explanations: Sequence[Found]) -> None:
        self._make: Callable[[int], Found] = explanations.__getitem__
        self._count = len(explanations)
        self._made: dict[int, Found] = {}

    @classmethod
    def lazily(cls, make: Callable[[int], Found], count: int) -> Frontier[Found]:
        """Explanations that are made when they are first asked for."""
        frontier = cls(())
        frontier._make, frontier._count = make, count
        return frontier

    @overload
    def __getitem__(self, k: int) -> Found: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Found]: ...
    def __getitem__(self, k: int | slice) -> Found | Sequence[Found]:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        if k not in self._made:
            self._made[k] = self._make(k)
        return self._made[k]

    def __len__(self) -> int:
        return self._count

    def plot(
        self,
        *,
        intervals: Sequence[Interval] | None = None,
        guaranteed: Sequence[float] | None = None,
    ) -> Figure:
        """The value for each k.

        intervals   for each k, the range of the value over all causal models
        guaranteed  for each k, the best value that some policy has in every causal model
        """
        return self._drawn(intervals=intervals, guaranteed=guaranteed)

    def _facts(self) -> dict[str, object]:
        shown = ", ".join(f"{one:.6g}" for one in self.values[:6])
        return {"k": f"0..{len(self) - 1}", "values": shown + ", ..." * (len(self) > 6)}

    @property
    def values(self) -> tuple[float, ...]:
        """The value for each k; of an exact solver none is worse than the one before."""
        return tuple(explanation.value for explanation in self)

    def smallest_k(self, outcome: float) -> int | None:
        """The smallest budget whose value reaches `outcome` (but for rounding), None if none here
        does."""
        try:
            known = not math.isnan(outcome)
        except TypeError:
            known = False
        if not known:
            raise InputError(f"smallest_k: the wanted outcome must be a number, got {outcome!r}")
        for k, found in enumerate(self):
            reached = found.value >= outcome if found.sense == "max" else found.value <= outcome
            if reached or math.isclose(found.value, outcome, rel_tol=1e-12, abs_tol=1e-12):
                return k
        return None
