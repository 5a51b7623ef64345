"""Resources and what bounds their use: the constraints D1, D3 and D4 of Table 1 (Eq. 2.7-2.11).

    a_t >= 0 (A,)                                     one number per resource
    low_t <= sum_i a_t,i <= high_t                    step bounds (D3)
    low <= sum_t sum_i a_t,i <= high                  budget (D4)
    level after the action in [0, capacity], then level += change_t, again in [0, capacity],
    or cut at the capacity where the resource may spill over

One resource may be anything of that. Several resources are either plain stocks (nothing flows in or
out), or spill over and need not be used (all lows are 0): then every state can be continued, and
what is left to an action has a closed form, Eq. 2.19-2.21 with the bounds of all later steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InfeasibleError, InputError
from counterplan.planning.processes.base import number, vector

# Sums of bounds may miss each other by rounding.
TOLERANCE = 1e-9
ADVICE = "widen the step bounds or change the start level"


@dataclass(frozen=True, eq=False)
class Resource:
    """A level between 0 and a capacity.

    start     level before the first step
    capacity  most it holds (default: without limit)
    effect    -1: a unit of action consumes a unit; +1: it adds one
    change    what is added after each step whatever is done, one number or (T,); below 0: taken
    spill     True: what exceeds the capacity after the change is lost; False: it must not happen
    """

    start: float
    capacity: float = math.inf
    effect: int = -1
    change: ArrayLike = 0.0
    spill: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", number(self.start, "start level", 0.0))
        if self.capacity != math.inf:
            capacity = number(self.capacity, "capacity", 0.0, above=True)
            object.__setattr__(self, "capacity", capacity)
        if self.start > self.capacity:
            raise InputError(
                f"start level {self.start:g} exceeds the capacity {self.capacity:g}: lower it"
            )
        if self.effect not in (-1, 1):
            raise InputError(f"effect must be -1 (consumes) or +1 (adds), got {self.effect!r}")
        object.__setattr__(self, "change", vector(self.change, "change"))


@dataclass(frozen=True, eq=False)
class ResourceProgram:
    """What may be done with the resources; raises if nothing may.

    resources    A of them
    step_bounds  (T, 2) least and most that is spent at each step, all resources together
    budget       least and most that is spent over all steps
    """

    resources: tuple[Resource, ...]
    step_bounds: FloatArray
    budget: tuple[float, float] = (0.0, math.inf)

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_bounds", _step_bounds(self.step_bounds))
        object.__setattr__(self, "budget", _budget(self.budget))
        if not self.resources:
            raise InputError("there is no resource: pass at least one Resource")
        self._check_kinds()
        self._check_capacity()
        failure = _first_failure(self)
        if failure is not None:
            raise InfeasibleError(f"infeasible at step {failure}")

    @property
    def horizon(self) -> int:
        """T."""
        return len(self.step_bounds)

    @property
    def has_budget(self) -> bool:
        """Whether the total matters: then the state counts what has been spent."""
        return self.budget[0] > 0 or math.isfinite(self.budget[1])

    @property
    def plain_stocks(self) -> bool:
        """Whether nothing but actions changes any level, and they only consume."""
        consumed = all(resource.effect < 0 for resource in self.resources)
        return consumed and not self.changes.any()

    @cached_property
    def changes(self) -> FloatArray:
        """(T, A)."""
        changes = [vector(one.change, "change", self.horizon) for one in self.resources]
        return np.column_stack(changes)

    @property
    def start(self) -> FloatArray:
        """(D,) levels (A,), then what has been spent if there is a budget."""
        levels = [float(resource.start) for resource in self.resources]
        return np.array([*levels, 0.0] if self.has_budget else levels)

    @cached_property
    def later(self) -> FloatArray:
        """(T, 2) the sums of the bounds of all later steps."""
        sums = np.cumsum(self.step_bounds[:0:-1], axis=0)[::-1]
        return np.vstack([sums, np.zeros((1, 2))])

    @cached_property
    def after(self) -> FloatArray:
        """(T, 2) where the level (several: their sum) must be after each action, so that all later
        steps remain possible."""
        if len(self.resources) > 1:
            return np.column_stack([self.later[:, 0], np.full(self.horizon, np.inf)])
        return _viable_levels(self.resources[0], self.step_bounds, self.changes[:, 0])

    def spendable(self, t: int, resource: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the most (n,) that may be spent at t by each of (n, D), so that all later
        bounds hold; the least exceeds the most where nothing may."""
        A = len(self.resources)
        level = resource[:, :A].sum(axis=1)
        least, most = self.step_bounds[t]
        lowest, highest = self.after[t]
        if self.resources[0].effect > 0:
            low, high = np.maximum(least, lowest - level), np.minimum(most, highest - level)
        else:
            low, high = np.maximum(least, level - highest), np.minimum(most, level - lowest)
        if self.has_budget:
            spent = resource[:, A]
            low = np.maximum(low, self.budget[0] - spent - self.later[t, 1])
            high = np.minimum(high, self.budget[1] - spent - self.later[t, 0])
        crossed = low > high
        if crossed.any():
            # Bounds that meet but for rounding; none leaves less than nothing to spend.
            touching = crossed & (low <= high + TOLERANCE * (1 + np.abs(high)))
            meet = np.maximum(high, 0.0)
            low, high = np.where(touching, meet, low), np.where(touching, meet, high)
        return low, high

    def levels_after(self, t: int, resource: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, D) after the actions (n, A) and the change of step t."""
        A = len(self.resources)
        effects, capacities = self._effects_and_capacities
        levels = resource[:, :A] + effects * actions
        # What a level misses zero by is rounding: infeasible actions are not offered.
        levels = np.minimum(np.maximum(levels, 0.0) + self.changes[t], capacities)
        levels = np.asarray(np.maximum(levels, 0.0))
        if not self.has_budget:
            return levels
        return np.column_stack([levels, resource[:, A] + actions.sum(axis=1)])

    @cached_property
    def _effects_and_capacities(self) -> FloatArray:
        """(2, A)."""
        return np.array([(one.effect, one.capacity) for one in self.resources]).T

    def _check_kinds(self) -> None:
        """Refuse combinations that have no closed form."""
        first, several = self.resources[0], len(self.resources) > 1
        if several and any(resource.effect > 0 for resource in self.resources):
            raise InputError(
                "several resources must all be consumed (effect=-1); model one that is added to "
                "as a problem of its own"
            )
        if several and not self.plain_stocks:
            free = not self.step_bounds[:, 0].any() and self.budget[0] == 0
            spills = all(
                one.spill or not self.changes[:, i].any() for i, one in enumerate(self.resources)
            )
            if not (free and spills and (self.changes >= 0).all()):
                raise InputError(
                    "several resources whose levels change by themselves must spill over "
                    "(spill=True), never lose by themselves (change >= 0), and need not be used "
                    "(all lower bounds 0)"
                )
        if not several and first.spill and self.budget[0] > 0:
            raise InputError(
                "a budget that must be reached does not go with a resource that spills over; "
                "use step bounds, or set spill=False"
            )
        if not several and first.spill and first.effect > 0 and self.has_budget:
            raise InputError(
                "a budget does not go with a resource that is added to and spills over; use step "
                "bounds, or set spill=False"
            )
        if first.effect > 0 and math.isinf(min(first.capacity, self.budget[1])):
            endless = np.flatnonzero(np.isinf(self.step_bounds[:, 1]))
            if endless.size:
                raise InputError(
                    f"step t={int(endless[0])} may add without limit: give it an upper bound, or "
                    "the resource a capacity"
                )

    def _check_capacity(self) -> None:
        for i, resource in enumerate(self.resources):
            change, capacity = self.changes[:, i], resource.capacity
            large = (-change > capacity) | ((change > capacity) & (not resource.spill))
            if large.any():
                t = int(np.argmax(large))
                moves = f"takes {-change[t]:g}" if change[t] < 0 else f"adds {change[t]:g}"
                raise InfeasibleError(
                    f"step t={t} {moves}, but the capacity is {capacity:g}: enlarge the capacity "
                    f"or {'split the step' if change[t] < 0 else 'set spill=True'}"
                )


def _step_bounds(values: ArrayLike) -> FloatArray:
    try:
        bounds = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("step bounds must be (T, 2) numbers: least and most per step") from None
    if bounds.ndim != 2 or bounds.shape[1:] != (2,) or len(bounds) == 0:
        raise InputError(f"step bounds must be (T, 2): least and most per step: {bounds.shape}")
    for t, (low, high) in enumerate(bounds):
        _require_order(f"step t={t} is bounded by {low:g} and {high:g}", low, high)
    return bounds


def _budget(values: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(
            f"budget must be two numbers, least and most in total, got {values!r}"
        ) from None
    _require_order(f"the budget is {low:g} to {high:g}", low, high)
    return low, high


def _require_order(what: str, low: float, high: float) -> None:
    if not (0.0 <= low < math.inf and low <= high):
        raise InfeasibleError(f"{what}: the least must be at least 0 and not exceed the most")


def _viable_levels(resource: Resource, bounds: FloatArray, changes: FloatArray) -> FloatArray:
    """(T, 2) where one level must be after each action, from the last step back."""
    T, capacity = len(bounds), resource.capacity
    after = np.empty((T, 2))
    lowest, highest = 0.0, capacity
    for t in reversed(range(T)):
        change, (low, high) = changes[t], bounds[t]
        after[t, 0] = max(0.0, -change, lowest - change)
        spills = resource.spill and highest >= capacity
        after[t, 1] = capacity if spills else min(capacity, highest - change)
        if resource.effect > 0:
            lowest, highest = after[t, 0] - high, after[t, 1] - low
        else:
            lowest, highest = after[t, 0] + low, after[t, 1] + high
        lowest, highest = max(lowest, 0.0), min(highest, capacity)
    return after


def _first_failure(program: ResourceProgram) -> str | None:
    """The first step that cannot be done however the earlier ones were, and why."""
    several, first = len(program.resources) > 1, program.resources[0]
    capacity = math.inf if several else first.capacity
    spills = any(
        resource.spill and (program.changes[:, i] > 0).any()
        for i, resource in enumerate(program.resources)
    )
    start = sum(float(resource.start) for resource in program.resources)
    least = most = start
    required = allowed = flown = 0.0
    for t, (low, high) in enumerate(program.step_bounds):
        change = float(program.changes[t].sum())
        bottom = max(0.0, -change)
        top = capacity if spills else min(capacity, capacity - change)
        if first.effect > 0:
            least, most = least + low, most + high
        else:
            least, most = least - high, most - low
        if most < bottom - TOLERANCE * (1 + bottom):
            return f"t={t}: {bottom - most:g} is missing whatever was done before; {ADVICE}"
        if least > top + TOLERANCE * (1 + abs(top)):
            return f"t={t}: {least - top:g} is too much whatever was done before; {ADVICE}"
        least, most = min(max(least, bottom), top), max(min(most, top), bottom)
        # Without spilling, levels tell what has been spent.
        if spills:
            required, allowed = required + low, allowed + high
        elif first.effect > 0:
            required, allowed = least - start - flown, most - start - flown
        else:
            required, allowed = start + flown - most, start + flown - least
        if required > program.budget[1] + TOLERANCE * (1 + required):
            return (
                f"t={t}: {required:g} must be spent by then, the budget allows "
                f"{program.budget[1]:g}; raise the budget or lower the step bounds"
            )
        flown += change
        least, most = min(least + change, capacity), min(most + change, capacity)
    if allowed < program.budget[0] * (1 - TOLERANCE):
        return (
            f"t={program.horizon - 1}: at most {allowed:g} can be spent by then, the budget "
            f"requires {program.budget[0]:g}; lower the budget or raise the step bounds"
        )
    return None
