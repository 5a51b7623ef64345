"""The one result type of every explanation, with its certificate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from counterplan.core.episode import Episode


class Status(StrEnum):
    """How far a result can be trusted; `advice` says what to do about it."""

    OPTIMAL = "optimal"
    LIMIT = "limit"
    HEURISTIC = "heuristic"

    @property
    def advice(self) -> str:
        return {
            Status.OPTIMAL: "Proved optimal: no admissible alternative has a higher value.",
            Status.LIMIT: "Stopped at a limit or at the gap asked for: the optimum lies between "
            "value and bound; raise the limits, or ask for a smaller gap, to close it.",
            Status.HEURISTIC: "From a heuristic without a proof: compare it with the exact solver.",
        }[self]


class Change(NamedTuple):
    """At step t the action `observed` is replaced by `alternative`."""

    t: int
    observed: int
    alternative: int


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
class Explanation(ABC):
    """What should have been done differently, how much it would have brought, and how sure that is.

    value          the outcome (expected, where the counterfactual is uncertain) of the alternative
    factual_value  the outcome that was observed
    bound          no alternative within the constraints can exceed it
    status         'optimal', 'limit' (stopped early) or 'heuristic' (a baseline, no proof)
    stats          seconds and what the solver counted
    method         how it was found, e.g. which bound the search used
    """

    episode: Episode
    k: int
    value: float
    factual_value: float
    bound: float
    status: Status
    stats: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    method: str = ""

    @property
    @abstractmethod
    def changes(self) -> tuple[Change, ...]:
        """The changes, or the most likely ones where they depend on chance."""

    @property
    def gap(self) -> float:
        """How much better the optimum could be; 0 where the value is proved optimal."""
        return 0.0 if self.bound == self.value else self.bound - self.value

    @property
    def improvement(self) -> float:
        """value - factual_value, 0 where both are the same infinity."""
        return 0.0 if self.value == self.factual_value else self.value - self.factual_value

    @property
    def relative_improvement(self) -> float:
        """Improvement as a share of the observed outcome's size (inf where that is zero)."""
        if self.improvement == 0.0 or math.isinf(self.improvement):
            return self.improvement
        if self.factual_value == 0.0:
            return math.copysign(math.inf, self.improvement)
        return self.improvement / abs(self.factual_value)
