"""Storages, the flows that fill and empty them, and the demands they serve: stated in plain words.

With l the levels, y the flows and x what is known at a step,

    l' = keep l + what flows in - what flows out + inflow_t(x) - spilled,   least <= l' <= capacity
    what arrives at a demand + what is lost of it = amount_t(x)
    least_t <= y <= most_t(x),    previous y - down <= y <= previous y + up
    sum weight y <= most_t(x)                                       of a limit that flows share
    reward = sum earns_t(x) efficiency_t y - sum pays_t(x) y - extra of dearer segments
             - lost_at_t(x) lost,  at the end + end_value l'                   (costs: the negative)

A flow is counted where it begins: it pays for what is sent and earns for what arrives. Whatever may
depend on the step or on x is a *rate*: a number, a list with an entry for each step, or a text that
is linear in the names of x, such as "price", "0.9 * price - 2" or "low + 8 * high".

    battery = Storage(
        process=GBM(40, 0, 0.8, dt=1 / 24),
        horizon=24,
        storages=Store("battery", capacity=10, start=5, keep=0.999, unit="MWh"),
        flows=[
            Flow("charge", into="battery", most=2.5, efficiency=0.95, pays="price"),
            Flow("discharge", out_of="battery", most=2.5, efficiency=0.95, earns="price"),
        ],
    )

An action is one number for each flow (segments of a convex cost: one for each), then what is lost
of each demand, then what each storage spills, so that a reward is linear in it. Every step is a
linear program (`stage`): hindsight, cuts and bounds follow from that. With one storage and no ramps
all is found exactly over levels (`dispatch`). What is offered to a search leaves no dead end: later
steps remain possible whatever x will be, or if its values cannot be listed, even if nothing of what
it brings comes.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.core.result import Certified
from counterplan.core.validation import FloatArray, whole_number
from counterplan.domains import dispatch
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.description import Axes, Column, Columns
from counterplan.planning.model import (
    Allocation,
    FiniteSupport,
    HasFutures,
    Sense,
    State,
    following,
)
from counterplan.planning.processes.base import FiniteProcess, Process, number, vector
from counterplan.planning.processes.laws import Shipped
from counterplan.planning.processes.modes import stated_process
from counterplan.planning.stages import Stage, allocate_stages, check_size, closest_flows

if TYPE_CHECKING:
    from counterplan.domains.storage_value import StorageValue
    from counterplan.planning.policies import Policy, Rule
    from counterplan.planning.search.kernel import Kernel

Rate: TypeAlias = float | str | Sequence[float | str]
# What flows and levels may miss their bounds by, of their size: programs are solved to 1e-10.
ROUNDING = 1e-7
# Levels offered between the least and the most that can be reached, and those for later needs.
GRID, NEEDS = 3, 6
# Values of x at all steps that are looked at for what an inflow may take.
MOST_LISTED = 50_000
# The largest number of a statement: beside 1e9, 1e-7 is still told apart.
LARGEST = 1e9
# Corners of a step that there is room for.
MOST_CORNERS = 400
NUMBER = r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)"
TERM = re.compile(
    rf"\s*([+-]?)\s*(?:{NUMBER}\s*\*?\s*)?(?:([^\W\d]\w*)(?:\s*\*\s*{NUMBER}(?!\w))?)?"
)
NAME = re.compile(r"[^\W\d][\w -]*")


@dataclass(frozen=True)
class Store:
    """A level between 0 and a capacity.

    name       what it is called
    capacity   the most it holds
    start      level before the first step
    keep       share of the level that is left a step later
    inflow     rate: what is added at each step, whatever is done (below 0: taken)
    least      the level must not be below this after a step
    end_least  nor below this at the end
    end_value  what a unit is worth that is left at the end
    spill      whether anything may be let go unused
    unit       what it is counted in
    """

    name: str
    capacity: float
    start: float = 0.0
    keep: float = 1.0
    inflow: Rate = 0.0
    least: float = 0.0
    end_least: float = 0.0
    end_value: float = 0.0
    spill: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        what = f"storage {self.name!r}"
        capacity = stated(self.capacity, f"{what}: capacity", 0.0, above=True)
        for one in ("start", "least", "end_least"):
            level = stated(getattr(self, one), f"{what}: {one}", 0.0)
            if level > capacity:
                raise InputError(
                    f"{what}: {one} {level:g} exceeds the capacity {capacity:g}: lower it"
                )
            object.__setattr__(self, one, level)
        object.__setattr__(self, "capacity", capacity)
        object.__setattr__(self, "end_value", stated(self.end_value, f"{what}: end_value", 0.0))
        object.__setattr__(self, "keep", stated(self.keep, f"{what}: keep", 0.0, above=True))
        if self.keep > 1.0:
            raise InputError(
                f"{what}: keep {self.keep:g} is the share of a level that is left a step later: "
                "give at most 1, such as 0.999"
            )


@dataclass(frozen=True)
class Flow:
    """What may flow at each step: from outside or a storage, to outside, a storage or a demand.

    name        what it is called
    out_of      the storage it empties (default: from outside)
    into        the storage it fills, or the demand it serves (default: to outside)
    most        rate: the most that may be sent at a step; needed unless it serves a demand (where x
                takes it below `least`, `least` counts)
    least       the least, a number or one for each step
    efficiency  share of what is sent that arrives, a number or one for each step
    pays        rate: what a unit costs that is sent
    earns       rate: what a unit earns that arrives
    segments    of a convex cost: (amount, what a unit costs beside `pays`), the cheapest first
    ramp        the most that the flow may change by from one step to the next, or (down, up)
    before      the flow before the first step, where there is a ramp
    unit        what it is counted in (default: as where it comes from)
    """

    name: str
    out_of: str | None = None
    into: str | None = None
    most: Rate | None = None
    least: float | Sequence[float] = 0.0
    efficiency: float | Sequence[float] = 1.0
    pays: Rate = 0.0
    earns: Rate = 0.0
    segments: Sequence[tuple[float, float]] = ()
    ramp: float | tuple[float, float] | None = None
    before: float = 0.0
    unit: str = ""

    def __post_init__(self) -> None:
        what = f"flow {self.name!r}"
        several = np.ndim(self.efficiency) == 1
        given: Any = self.efficiency if several else [self.efficiency]
        shares = tuple(stated(one, f"{what}: efficiency", 0.0, above=True) for one in given)
        if max(shares, default=0.0) > 1.0:
            raise InputError(
                f"{what}: efficiency {max(shares):g} is the share of what is sent that arrives: "
                "give at most 1, a share such as 0.95"
            )
        object.__setattr__(self, "efficiency", shares if several else shares[0])
        object.__setattr__(self, "before", stated(self.before, f"{what}: before", 0.0))
        if self.out_of is None and self.into is None:
            raise InputError(f"{what}: say where it comes from (out_of) or goes to (into)")
        if self.out_of == self.into:
            raise InputError(f"{what}: flows from {self.into!r} into itself: change one of the two")
        parts = _pairs(self.segments, f"{what}: segments")
        for i, (amount, extra) in enumerate(parts):
            stated(amount, f"{what}: the amount of segment {i}", 0.0, above=True)
            if i and extra < parts[i - 1][1]:
                raise InputError(
                    f"{what}: segment {i} costs {extra:g}, less than the one before: a cost that "
                    "falls with the amount is not convex; sort the segments, or state a mean cost"
                )
        object.__setattr__(self, "segments", parts)
        if self.ramp is not None:
            pair = (self.ramp, self.ramp) if np.ndim(self.ramp) == 0 else self.ramp
            ((down, up),) = _pairs([pair], f"{what}: ramp")
            ramp = stated(down, f"{what}: ramp", 0.0), stated(up, f"{what}: ramp", 0.0)
            object.__setattr__(self, "ramp", ramp)


@dataclass(frozen=True)
class Demand:
    """What flows must deliver at each step.

    name     what it is called
    amount   rate
    lost_at  rate: what a unit costs that is not delivered (default: all must be)
    unit     what it is counted in
    """

    name: str
    amount: Rate
    lost_at: Rate | None = None
    unit: str = ""


@dataclass(frozen=True)
class Limit:
    """What several flows may come to together at each step: sum of weight x flow <= most.

    name   what it is called
    flows  their names, or {name: weight}: {"discharge": 1, "charge": -1} limits what is left of one
           after the other
    most   rate (where x takes it below what the flows' `least` come to, that counts)
    """

    name: str
    flows: Sequence[str] | Mapping[str, float]
    most: Rate

    def __post_init__(self) -> None:
        what = f"limit {self.name!r}"
        given = self.flows if isinstance(self.flows, Mapping) else None
        if given is None and (isinstance(self.flows, str) or not np.iterable(self.flows)):
            raise InputError(f"{what}: flows must be a list of names, or {{name: weight}}")
        weights = dict.fromkeys(self.flows, 1.0) if given is None else dict(given)
        for one, weight in weights.items():
            weights[one] = stated(weight, f"{what}: the weight of {one!r}")
        if not any(weights.values()):
            raise InputError(f"{what}: names no flow: say which flows share it")
        object.__setattr__(self, "flows", weights)


def stated(value: object, name: str, least: float = -math.inf, above: bool = False) -> float:
    """A number that is not so large that others beside it would be lost to rounding."""
    return _within(number(value, name, least, above), name)


def _within(value: float, name: str) -> float:
    if not abs(value) <= LARGEST:
        raise InputError(
            f"{name} is {value:g}, so large that others are lost beside it: give at most "
            f"{LARGEST:g}, in larger units"
        )
    return value


def _pairs(values: Any, what: str) -> tuple[tuple[float, float], ...]:
    try:
        return tuple((stated(a, what), stated(b, what)) for a, b in values)
    except (TypeError, ValueError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(f"{what} must be pairs of numbers, got {values!r}") from None


def closest(wrong: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: the one that is meant, or all."""
    names = list(known)
    near = difflib.get_close_matches(wrong, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names) or 'none'}"


def read_rate(rate: Any, names: Sequence[str], T: int, what: str) -> tuple[FloatArray, FloatArray]:
    """A rate as its fixed part (T,) and what each number of x adds (T, X)."""
    several = isinstance(rate, list | tuple | np.ndarray)
    entries = list(rate) if several else [rate]
    if several and len(entries) != T:
        raise InputError(f"{what} has {len(entries)} entries, but there are {T} steps")
    parts = [_linear(one, names, what) for one in entries]
    fixed, slopes = np.array([one for one, _ in parts]), np.array([one for _, one in parts])
    return np.broadcast_to(fixed, T).copy(), np.broadcast_to(slopes, (T, len(names))).copy()


def _linear(entry: Any, names: Sequence[str], what: str) -> tuple[float, FloatArray]:
    slopes, fixed, at = np.zeros(len(names)), 0.0, 0
    if not isinstance(entry, str):
        return stated(entry, what), slopes
    while at < len(entry.rstrip()):
        found = TERM.match(entry, at)
        assert found is not None
        sign, factor, name, more = found.groups()
        if (factor is None and name is None) or (at > 0 and not sign):
            raise InputError(
                f"{what} {entry!r}: cannot be read at {entry[at:].strip()!r}; give a number, a "
                "name of x, or a sum such as '0.9 * price - 2'"
            )
        value = (-1.0 if sign == "-" else 1.0) * float(factor or 1.0) * float(more or 1.0)
        _within(value, f"{what} {entry!r}: a factor")
        if name is None:
            fixed += value
        elif name in names:
            slopes[names.index(name)] += value
        else:
            raise InputError(f"{what}: {name!r} is no name of x: {closest(name, names)}")
        at = found.end()
    if at == 0:
        raise InputError(f"{what} is empty: give a number, a name of x, or a sum of them")
    return fixed, slopes


PARTS: dict[str, type] = {"storages": Store, "flows": Flow, "demands": Demand, "limits": Limit}


@dataclass(frozen=True, eq=False)
class Storage(HasFutures):
    """A problem of storages, flows and demands; what is known at a step is one process.

    process    x_{t+1} from x_t: one of `cp.processes`, or your own
    horizon    T steps
    storages   one Store or several
    flows      at least one
    demands    what flows must deliver, if anything
    sense      'max': what is earned, 'min': what is paid
    names      of the numbers of x, with a unit where there is one: "price (EUR/MWh)"
    values     where x is the indicator of a mode: what each mode means, {"price": (20, 45, 90)};
               rates and tables then speak of these names
    step_name  what a step is: "hour"
    title      one line on what is decided
    limits     what several flows may come to together, if anything
    unit       what outcomes are counted in, if not what prices by the unit ("EUR/MWh") are
    """

    process: Process
    horizon: int
    storages: Store | Sequence[Store]
    flows: Flow | Sequence[Flow]
    demands: Demand | Sequence[Demand] = ()
    sense: Sense = "max"
    names: Sequence[str] = ()
    values: Mapping[str, Sequence[float]] | None = None
    step_name: str = "step"
    title: str = "How to fill and empty storages"
    limits: Limit | Sequence[Limit] = ()
    unit: str = ""

    # What is offered depends on x, too: on which flows are cheapest.
    steps_apart: ClassVar[bool] = False
    _table: _Table = field(init=False, repr=False)
    about: str = field(init=False, repr=False)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={len(getattr(self, name))}" for name in ("storages", "flows"))
        return f"Storage(title={self.title!r}, horizon={self.horizon}, {parts})"

    def __post_init__(self) -> None:
        process = stated_process(
            self.sense, self.process, "and `values` to say what each mode means"
        )
        object.__setattr__(self, "process", process)
        horizon = whole_number(self.horizon, "horizon", minimum=1)
        object.__setattr__(self, "horizon", horizon)
        parts: list[tuple[Any, ...]] = []
        for name, kind in PARTS.items():
            given: Any = getattr(self, name)
            several = tuple([given] if isinstance(given, kind) else given)
            for one in several:
                if not isinstance(one, kind):
                    raise InputError(f"{name} must be {kind.__name__}(...), got {one!r}")
            object.__setattr__(self, name, several)
            parts.append(several)
        object.__setattr__(self, "about", self.title)
        object.__setattr__(self, "_table", _Table.of(self, *parts))
        _check_possible(self)
        # What the model can do is a method that it has.
        if isinstance(self.process, FiniteProcess):
            object.__setattr__(self, "successors", self.process.successors)
        if isinstance(self.process, Shipped) and (self.is_simple or not self.has_dead_ends):
            object.__setattr__(self, "compiled", self._compiled)

    @property
    def is_simple(self) -> bool:
        """Whether there is one storage and nothing else to remember: all is exact over levels."""
        return len(self._table.keep) == 1

    @cached_property
    def has_dead_ends(self) -> bool:
        """Whether some levels within bounds leave nothing possible later."""
        hard = any(one.lost_at is None for one in self._table.demands)
        hard |= any(one.ramp is not None for one in self._table.flows) or bool(
            self._table.low.any() or (self._table.limit[~self._table.limited_by_x] < 0.0).any()
        )
        comes = np.array([self._table.extreme(t).inflow for t in range(self.horizon)])
        for i, one in enumerate(self._table.stores):
            drift = self._table.inflow[:, i]
            lasts = comes[:, i].min() >= (1.0 - one.keep) * one.least and one.end_least <= one.least
            fits = one.spill or (drift <= (1.0 - one.keep) * one.capacity).all()
            hard |= not (lasts and fits)
        return hard

    @property
    def start(self) -> State:
        before = [one.before for one in self._table.flows if one.ramp is not None]
        return State(
            0, self.process.start, np.array([one.start for one in self._table.stores] + before)
        )

    def stage(self, t: int) -> Stage:
        """Step t as a linear program."""
        return self._table.stage(t)

    def actions(self, state: State) -> FloatArray:
        """(m, A) what is offered: each possible, and none a dead end."""
        t, x, d = state.t, *(np.array(part, dtype=np.float64) for part in state[1:])
        check_size(f"x at t={t}", x)
        self._check_levels(t, d)
        rows = np.empty((self.most_actions, len(self._table.labels)))
        rows = rows[: dispatch.actions(self._numbers, t, x, d, rows)]
        known = np.repeat(x[None], len(rows), axis=0), np.repeat(d[None], len(rows), axis=0)
        if self.is_simple or not self.has_dead_ends:
            if self._misses(t, *known, rows)[0] > 0.0:
                self._closest(t, *(one[:1] for one in (*known, rows)))  # says what is wrong
            return rows
        return np.unique(np.round(self._closest(t, *known, rows), 12), axis=0) + 0.0

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Rewards (n,) and next levels (n, D); raises where flows miss a bound of the step."""
        stage = self.stage(t)
        misses = self._misses(t, exogenous, resource, actions)
        if (misses > 0.0).any():
            i = int(np.argmax(misses))
            raise InfeasibleError(
                f"{self.describe(actions[i])} at t={t} with {self._levels_in_words(resource[i])}: "
                f"{self._table.broken(t, exogenous[i], resource[i], actions[i])}"
            )
        rewards, after = stage.after(exogenous, resource, actions)
        after = np.clip(after, stage.least_level, stage.most_level)
        return np.asarray(rewards), np.asarray(after)

    def _misses(self, t: int, x: FloatArray, d: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) above 0 where flows miss a bound of step t by more than rounding."""
        size = 1.0 + np.maximum(np.abs(y).max(axis=1), np.abs(d).max(axis=1))
        return np.asarray(self.stage(t).misses(x, d, y) - ROUNDING * size)

    def feasible(
        self, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
    ) -> FloatArray:
        """(n, A) possible flows close to those wanted, without dead ends."""
        x, d = (np.ascontiguousarray(one, dtype=np.float64) for one in (exogenous, resource))
        found = np.array(wanted, dtype=np.float64)
        for i in np.flatnonzero(self._misses(t, x, d, found) > 0.0):
            dispatch.repair(self._numbers, t, x[i], d[i], found[i])
        wrong = self._misses(t, x, d, found) > 0.0
        if self.is_simple:
            low, high = self._table.viable[t]
            after = self.stage(t).after(x, d, found)[1][:, 0]
            slack = ROUNDING * (1.0 + np.abs(after))
            wrong |= (after < low - slack) | (after > high + slack)
        elif self.has_dead_ends:
            wrong[:] = True
        if wrong.any():
            found[wrong] = self._closest(t, x[wrong], d[wrong], found[wrong])
        return found

    def _closest(self, t: int, x: FloatArray, d: FloatArray, wanted: FloatArray) -> FloatArray:
        """(n, A) the closest flows that leave all later steps possible, by linear programs; where
        x may not be at its worst in all things at once, what there is a way on after."""
        stage = self._table.stage(t, viable=True) if self.is_simple else self.stage(t)
        later = range(0) if self.is_simple else range(t + 1, self.horizon)
        ahead = [self._table.extreme(s) for s in later]
        # Prices change nothing about what is possible: rows that differ in these alone share one.
        alike = np.hstack([x @ stage.inflow_x.T, x @ stage.rows_x.T, d, wanted])
        known: dict[bytes, FloatArray] = {}
        found = np.empty_like(wanted)
        for i, key in enumerate(row.tobytes() for row in alike):
            try:
                if key not in known:
                    known[key] = closest_flows(stage, x[i], d[i], wanted[i], ahead)
                found[i] = known[key]
            except InfeasibleError:
                found[i] = self._possible(t, x[i : i + 1], d[i : i + 1])
        return found

    def _possible(self, t: int, x: FloatArray, d: FloatArray) -> FloatArray:
        """(A,) flows that there is a way on after, in x (1, X), d (1, D)."""
        if isinstance(self, FiniteSupport):
            with suppress(InfeasibleError, NotApplicableError):
                return np.asarray(self._way_on(t, x, d)[0])
        raise InfeasibleError(
            f"with {self._levels_in_words(d[0])} at t={t} no flows keep all bounds from there on: "
            f"{self._hint(t, x)}"
        ) from None

    @cached_property
    def _way_on(self) -> Rule:
        """What is best: it knows which levels are dead ends at which x."""
        if self.is_simple:
            return self.optimal_actions
        from counterplan.planning.cuts import Cuts

        return Cuts().prepare(self)

    def _hint(self, t: int, path: FloatArray) -> str:
        """What to do where nothing is possible along x (n, X) from t on: is an inflow to blame?"""
        table, n = self._table, len(path)
        taken = np.einsum("tdx,tx->td", table.inflow_x[t : t + n], path) + table.inflow[t : t + n]
        later = [table.extreme(s).inflow for s in range(t + n, self.horizon)]
        taken = np.vstack([taken, *later])
        for i, one in enumerate(table.stores):
            if table.inflow_x[t:, i].any() and taken[:, i].min() < 0.0:
                return (
                    f"the inflow {one.inflow!r} of {one.name} takes up to {-taken[:, i].min():.4g} "
                    "at a step, which may not be there; state what is taken as a demand that may "
                    "be lost (lost_at), and an inflow that is never below 0"
                )
        return HINT

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        """The best flows along (n, T - t, X) paths: over levels, or by linear programs."""
        now = self.start if state is None else state
        if not self.is_simple:
            return allocate_stages(self, paths, state)
        known = np.ascontiguousarray(paths, dtype=np.float64)
        check_size("x along a path", known)
        values, flows = np.empty(len(known)), np.empty((*known.shape[:2], len(self._table.labels)))
        level = float(now.resource[0])
        wrong = dispatch.along_paths(self._numbers, now.t, level, known, values, flows)
        if wrong >= 0:
            raise InfeasibleError(
                f"with {self._levels_in_words(now.resource)} at t={now.t} no flows keep all bounds "
                f"along path {wrong}: {self._hint(now.t, known[wrong])}"
            )
        sign = 1.0 if self.sense == "max" else -1.0
        return Allocation(sign * values, flows, "levels: values of one storage's level are concave")

    # --- The optimum without foresight ----------------------------------------------------------

    @cached_property
    def _optimum(self) -> StorageValue:
        from counterplan.domains.storage_value import StorageValue

        if not self.is_simple:
            raise NotApplicableError(
                f"{len(self._table.keep)} numbers to remember are too many for a dynamic program "
                "over levels: policies.Cuts is a policy"
            )
        return StorageValue(self, self._numbers)

    def optimal_value(self, state: State | None = None) -> float:
        """The best expected total without foresight, with two numbers to remember (storages, or
        flows with ramps) as `value_within` has it."""
        at = self.start if state is None else state
        return self._optimum.value(at) if self.is_simple else self.value_within(at).value

    def value_within(self, state: State | None = None) -> Certified:
        """The best expected total without foresight, and what it lies between for certain."""
        at = self.start if state is None else state
        if self.is_simple:
            value, error = self._optimum.value(at), self._optimum.error
            low, high = sorted((value, value + (error if self.sense == "max" else -error)))
            return Certified(value, low, high)
        if at.t == self.horizon:
            return Certified(0.0, 0.0, 0.0)
        self._check_levels(at.t, at.resource)
        known: dict[Any, Certified] = self.__dict__.setdefault("_known_values", {})
        key = (at.t, *(one.tobytes() for one in at[1:]))
        if key not in known:
            from counterplan.domains.storage_value import bracketed

            known[key] = bracketed(self, at)
        return known[key]

    @property
    def value_error(self) -> float:
        """What `optimal_value` at the start may miss by."""
        found = self.value_within()
        return max(found.high - found.value, found.value - found.low)

    def optimal_actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) the flows that attain it."""
        states = zip(exogenous, resource, strict=True)
        return np.array([self._optimum.flows(State(t, x, d)) for x, d in states])

    def loss(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """(n,) what flows lose in expectation against the best ones."""
        rows = zip(exogenous, resource, actions, strict=True)
        return np.array([self._optimum.loss(State(t, x, d), y) for x, d, y in rows])

    def best_known_policy(self) -> Policy:
        """To compare with where nothing is exact."""
        from counterplan.planning.cuts import Cuts
        from counterplan.planning.lattice_value import OnLattice

        return OnLattice() if self.is_simple else Cuts()

    # --- For the search -------------------------------------------------------------------------

    @property
    def most_actions(self) -> int:
        """Room for what is offered."""
        if len(self._table.stores) > 1:
            return int(min(3 ** len(self._table.stores), dispatch.MOST_COMBINATIONS) + 1)
        return self._table.corners + 1 + NEEDS + GRID + 5

    @cached_property
    def _numbers(self) -> FloatArray:
        return self._table.packed(self.sense, _needs(self))

    def _compiled(self, quantiles: int = 0) -> Kernel:
        """`quantiles` > 0: continuous chance is replaced by that many equally likely values."""
        from counterplan.planning.search.kernel import Kernel

        assert isinstance(self.process, Shipped)
        block = self.process.kernel_parameters(self.horizon, quantiles)
        functions = {"actions": dispatch.actions, "step": dispatch.step}
        sizes = {"action_size": len(self._table.labels), "most_actions": self.most_actions}
        most = self.process.most_successors(quantiles)
        parameters = np.concatenate([self._numbers, block])
        return Kernel.of(self, **functions, **sizes, parameters=parameters, most_successors=most)

    # --- What it says of itself -----------------------------------------------------------------

    def columns(self) -> Columns:
        """Tables have a column for each number of x, each flow and each storage."""
        return _StorageColumns.of(self)

    def axes(self) -> Axes:
        """What figures and the explorer write at their axes."""
        table, units = self._table, self._table.units
        titles = [f"{name} ({unit})" if unit else name for name, unit in table.labels.items()]
        levels = [f"{name} ({units[name]})" if units[name] else name for name in table.resources]
        keys = (
            tuple(f"_{_key(one)}" for one in table.labels),
            tuple(f"_{_key(one)}" for one in table.resources),
        )
        several = (tuple(self._observed()), tuple(titles), tuple(levels))
        prices = {units[one].partition("/")[0] for one in table.names if "/" in units[one]}
        unit = self.unit or (prices.pop() if len(prices) == 1 else "")
        step = f"{self.step_name} t"
        return Axes(*several, step=step, action_keys=keys[0], level_keys=keys[1], unit=unit)

    def _observed(self) -> list[str]:
        units = self._table.units
        return [f"{one} ({units[one]})" if units[one] else one for one in self._table.names]

    def describe(self, action: FloatArray) -> str:
        """Flows in words, those that run."""
        amounts, parts = self._table.amounts(np.asarray(action)[None])[0], []
        units = [self._table.units[one.name] for one in self._table.flows]
        for one, amount, unit in zip(self._table.flows, amounts, units, strict=True):
            if abs(amount) > SMALL:
                parts.append(f"{one.name} {amount:.4g} {unit}".rstrip())
        rest = int(self._table.first[-1])
        labels = list(self._table.labels.items())[rest:]
        for (name, unit), amount in zip(labels, action[rest:], strict=True):
            if abs(amount) > SMALL:
                parts.append(f"{name} {amount:.4g} {unit}".rstrip())
        return ", ".join(parts) or "nothing flows"

    def _levels_in_words(self, resource: FloatArray) -> str:
        names = self._table.resources
        return ", ".join(f"{name} at {one:.4g}" for name, one in zip(names, resource, strict=True))

    def _check_levels(self, t: int, resource: FloatArray) -> None:
        for one, level in zip(self._table.stores, resource.tolist(), strict=False):
            if not -ROUNDING <= level <= one.capacity * (1.0 + ROUNDING) + ROUNDING:
                raise InputError(
                    f"the state at t={t} has {one.name} at {level:g}, which must lie between 0 and "
                    f"{one.capacity:g}: no such state can be reached"
                )


# Amounts that nobody needs to be told.
SMALL = 1e-9
HINT = (
    "allow more (most, ramp, capacity), let demand be lost at a price (lost_at), or let a storage "
    "spill (spill)"
)


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name)


@dataclass(frozen=True, eq=False)
class _Table:
    """The problem as numbers: D of the resource, F flows, A numbers of an action, K demands; as
    `dispatch.STORAGE` has them."""

    stores: tuple[Store, ...]
    flows: tuple[Flow, ...]
    demands: tuple[Demand, ...]
    limits: tuple[Limit, ...]
    names: tuple[str, ...]
    basis: FloatArray
    units: dict[str, str]
    labels: dict[str, str]
    resources: tuple[str, ...]
    numbers: dict[str, FloatArray]
    seen: tuple[FloatArray, ...]  # by time: (n, X) values of x that differ in what is possible
    known: dict[tuple[int, bool], Stage] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Storage,
        stores: tuple[Store, ...],
        flows: tuple[Flow, ...],
        demands: tuple[Demand, ...],
        limits: tuple[Limit, ...],
    ) -> _Table:
        """Of a problem whose parts are right by themselves: check that they fit."""
        if not stores or not flows:
            raise InputError("a problem needs at least one storage and one flow")
        units, basis = _names(model)
        names = tuple(units)
        several: list[Any] = [*stores, *flows, *demands, *limits]
        for one in several:
            if not isinstance(one.name, str) or not NAME.fullmatch(one.name):
                raise InputError(f"{one.name!r} is no name: begin with a letter, then letters, "
                                 "digits, spaces, '-' and '_'")  # fmt: skip
            if _key(one.name) in map(_key, units):
                raise InputError(f"{one.name!r} is the name of two things: rename one")
            units[one.name] = getattr(one, "unit", "")
        homes = {one.name: i for i, one in enumerate(stores)}
        served = {one.name: k for k, one in enumerate(demands)}
        for one in flows:
            _check_flow(one, homes, served)
            ends = [end for end in (one.out_of, one.into) if end is not None]
            units[one.name] = one.unit or units[ends[0]]
        known = [one.name for one in flows]
        for limit in limits:
            for name in limit.flows:
                if name not in known:
                    raise InputError(
                        f"limit {limit.name!r}: {name!r} is no flow: {closest(str(name), known)}"
                    )
        labels: dict[str, str] = {}
        for one in flows:
            for i in range(max(len(one.segments), 1)):
                labels[one.name if i == 0 else f"{one.name} {i + 1}"] = units[one.name]
        labels |= {f"lost {one.name}": one.unit for one in demands if one.lost_at is not None}
        labels |= {f"spilled {one.name}": one.unit for one in stores if one.spill}
        ramped = [f"{one.name} before" for one in flows if one.ramp is not None]
        units |= {f"{one.name} before": units[one.name] for one in flows}
        resources = (*(one.name for one in stores), *ramped)
        parts = (stores, flows, demands, limits)
        table = cls(*parts, names, basis, units, labels, resources, {}, ())
        _fill(table, model.horizon, 1.0 if model.sense == "max" else -1.0)
        return replace(table, seen=_seen(table, model.process))

    def __getattr__(self, name: str) -> FloatArray:
        try:
            return self.__dict__["numbers"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def corners(self) -> int:
        """Worths at which dispatch changes: at most so many. At each some flows trade places that
        have rows of demands and limits in common: of m rows no more than m + 1 at a time."""
        several = [(self.demand == k, 1, 0) for k in range(len(self.lost))]
        for weight in self.weight:
            mine, m, free = weight != 0.0, 1, 1
            for other in [one for one in several if (one[0] & mine).any()]:
                several = [one for one in several if one is not other]
                mine, m, free = mine | other[0], m + other[1], free + other[2]
            several.append((mine, m, free))
        alone = ~np.any([one[0] for one in several], axis=0) if several else self.demand < 0
        counts = [math.comb(int(mine.sum()) + free, m + 1) for mine, m, free in several]
        return min(int(alone.sum()) + sum(counts) + 1, MOST_CORNERS)

    @property
    def limited_by_x(self) -> NDArray[np.bool_]:
        """(T, L) which limits x moves."""
        return np.asarray(self.limit_x.any(axis=2))

    @cached_property
    def viable(self) -> FloatArray:
        """(T, 2) between which levels one storage must be after each step for all later ones to be
        possible whatever x is of what was seen."""
        found = np.column_stack([self.bottom[:, 0], self.top[:, 0]])
        flat = self.packed("max", np.empty((len(found), 0)), found)
        corners, curve = (
            np.empty((self.corners + 1, len(self.labels))),
            np.empty((self.corners + 1, 2)),
        )
        d, keep = np.zeros(1), self.keep[0]
        for t in range(len(found) - 1, 0, -1):
            for x in self.seen[t]:
                m = dispatch.frontier(flat, t, x, d, corners, curve)
                if m == 0:  # nothing is possible there, as is said elsewhere
                    continue
                drift = self.inflow[t, 0] + self.inflow_x[t, 0] @ x
                lowest = (found[t, 0] - drift - curve[m - 1, 0]) / keep
                highest = (found[t, 1] - drift - curve[0, 0]) / keep
                found[t - 1, 0] = max(found[t - 1, 0], lowest)
                if self.spill[0] < 0:
                    found[t - 1, 1] = min(found[t - 1, 1], highest)
        return found

    def packed(
        self, sense: Sense, targets: FloatArray, viable: FloatArray | None = None
    ) -> FloatArray:
        """What compiled functions read, but for the process at its end."""
        if viable is None:
            alone = len(self.keep) == 1
            viable = self.viable if alone else np.zeros((len(self.bottom), 2))
            if not alone and len(self.spill) == 1:
                viable = np.column_stack([self.bottom[:, 0], self.top[:, 0]])
        one = {"sign": 1.0 if sense == "max" else -1.0, "grid": GRID, "corners": self.corners}
        return dispatch.STORAGE.pack(
            **self.numbers, **one, viable=viable, targets=targets, process=[]
        )

    def stage(self, t: int, viable: bool = False) -> Stage:
        """Step t as a linear program; `viable`: levels after it leave no dead end."""
        if (t, viable) not in self.known:
            self.known[t, viable] = self._stage(t, viable)
        return self.known[t, viable]

    def extreme(self, t: int, best: bool = False) -> Stage:
        """Step t at x = 0, with the least, or the most, that x leaves of every bound."""
        stage, x, most = self.stage(t), self.seen[t], np.max if best else np.min
        inflow = stage.inflow + most(x @ stage.inflow_x.T, axis=0)
        moved = most(-x @ stage.rows_x.T, axis=0)
        high = np.where(moved == 0.0, stage.high, np.maximum(stage.high + moved, stage.floor))
        return replace(stage, inflow=inflow, low=stage.low + moved, high=high)

    def _stage(self, t: int, viable: bool) -> Stage:
        A, D, X = len(self.labels), len(self.keep), self.basis.shape[1]
        rows: list[tuple[FloatArray, FloatArray, FloatArray, float, float, float]] = []
        least, most = np.zeros(A), self.size.copy()
        for k in range(len(self.lost)):
            amount = float(self.amount[t, k])
            share = np.where(self.demand == k, self.share[t], 0.0)
            rows.append((share, np.zeros(D), -self.amount_x[t, k], amount, amount, -np.inf))
        for f, (first, after) in enumerate(zip(self.first[:-1], self.first[1:], strict=True)):
            these = np.zeros(A)
            these[int(first) : int(after)] = 1.0
            low, high, slopes = self.low[t, f], self.high[t, f], self.high_x[t, f]
            if after - first == 1:
                least[int(first)] = low
                most[int(first)] = np.inf if slopes.any() else high
            elif low > 0.0:
                rows.append((these, np.zeros(D), np.zeros(X), low, np.inf, -np.inf))
            if slopes.any() or (after - first > 1 and math.isfinite(high)):
                rows.append((these, np.zeros(D), -slopes, -np.inf, high, low))
            if self.before[f] >= 0:
                previous = np.zeros(D)
                previous[int(self.before[f])] = -1.0
                down, up = self.ramp[f]
                rows.append((these, previous, np.zeros(X), -down, up, -np.inf))
        for k, weight in enumerate(self.weight):
            slopes, low = -self.limit_x[t, k], self.limit_least[t, k]
            rows.append((weight, np.zeros(D), slopes, -np.inf, self.limit[t, k], low))
        most[int(self.first[-1]) :] = np.inf
        parts = [np.array(part) for part in zip(*rows, strict=True)] if rows else []
        names = ("rows", "rows_d", "rows_x", "low", "high", "floor")
        bottom, top = self.bottom[t].copy(), self.top[t].copy()
        if viable:
            bottom[0], top[0] = self.viable[t]
        return Stage.of(
            self.effect[t],
            X,
            keep=np.diag(self.keep),
            inflow=self.inflow[t],
            inflow_x=self.inflow_x[t],
            least_level=bottom,
            most_level=top,
            least=least,
            most=most,
            price=self.price[t],
            price_x=self.price_x[t],
            hold=self.hold[t],
            **dict(zip(names, parts, strict=False)),
        )

    def amounts(self, actions: FloatArray) -> FloatArray:
        """(n, F) what flows in all, of actions (n, A)."""
        return np.add.reduceat(
            actions[:, : int(self.first[-1])], self.first[:-1].astype(np.int64), axis=1
        )

    def broken(self, t: int, x: FloatArray, d: FloatArray, y: FloatArray) -> str:
        """Which bound of a step flows miss."""
        stage, flows = self.stage(t), list(self.labels)
        for j, name in enumerate(flows):
            if not stage.least[j] - ROUNDING <= y[j] <= stage.most[j] + ROUNDING * (1 + abs(y[j])):
                return f"{name} must lie between {stage.least[j]:g} and {stage.most[j]:g}"
        after = stage.after(x[None], d[None], y[None])[1][0]
        for i, name in enumerate(self.resources):
            low, high = stage.least_level[i], stage.most_level[i]
            if not low - ROUNDING * (1 + high) <= after[i] <= high + ROUNDING * (1 + high):
                return f"it leaves {name} at {after[i]:.6g}, not between {low:g} and {high:g}"
        for k in range(len(self.lost)):
            amount = self.amount[t, k] + self.amount_x[t, k] @ x
            served = float(np.where(self.demand == k, self.share[t], 0.0) @ y)
            if abs(served - amount) > ROUNDING * (1 + abs(amount)):
                return (
                    f"{served:.6g} of a demand of {amount:.6g} is served or lost: make them equal"
                )
        for k, one in enumerate(self.limits):
            total, most = self.weight[k] @ y, self.limit[t, k] + self.limit_x[t, k] @ x
            most = max(most, self.limit_least[t, k])
            if total > most + ROUNDING * (1 + abs(total)):
                return f"limit {one.name!r}: its flows come to {total:.6g}, not at most {most:.6g}"
        return "it breaks the most of a flow, or a ramp"


def _names(model: Storage) -> tuple[dict[str, str], FloatArray]:
    """The names that rates use, with units, and what each is of x: a matrix (N, X)."""
    X = len(model.process.start)
    _within(float(np.abs(model.process.start).max()), "process: where it starts")
    given, basis = list(model.names or getattr(model.process, "names", ()) or ()), np.eye(X)
    if model.values:
        given = [*model.values]
        rows = [vector(one, f"values of {name!r}") for name, one in model.values.items()]
        if any(len(row) != X for row in rows):
            raise InputError(f"values: give {X} numbers for each name, one for each mode of x")
        basis = np.array(rows)
        _within(float(np.abs(basis).max()), "values: one")
    elif not given:
        given = ["price"] if X == 1 else [f"x_{i + 1}" for i in range(X)]
    if len(given) == X - 1 and not model.names and not model.values:
        given.append("belief")  # of a hidden regime
    if len(given) != len(basis) or not all(isinstance(one, str) for one in given):
        raise InputError(f"names must be {X} texts, one for each number of x; got {given!r}")
    units: dict[str, str] = {}
    for one in given:
        name, _, unit = one.partition(" (")
        if not re.fullmatch(r"[^\W\d]\w*", name) or name in units:
            raise InputError(
                f"names: {one!r} is no new name of a number of x: letters, digits and '_', with a "
                "unit in brackets after it if there is one"
            )
        units[name] = unit.removesuffix(")")
    return units, basis


def _check_flow(flow: Flow, stores: dict[str, int], demands: dict[str, int]) -> None:
    what = f"flow {flow.name!r}"
    if flow.out_of is not None and flow.out_of not in stores:
        other = "a demand gives nothing" if flow.out_of in demands else closest(flow.out_of, stores)
        raise InputError(f"{what}: out_of {flow.out_of!r} is no storage: {other}")
    if flow.into is not None and flow.into not in {**stores, **demands}:
        known = closest(flow.into, [*stores, *demands])
        raise InputError(f"{what}: into {flow.into!r} is neither a storage nor a demand: {known}")
    if flow.most is None and not flow.segments and flow.into not in demands:
        raise InputError(f"{what}: say how much may flow at a step at most (most)")


def _fill(table: _Table, T: int, sign: float) -> None:
    """Everything that `dispatch.STORAGE` holds but for what follows from it."""
    stores, demands, n = table.stores, table.demands, table.numbers
    sizes = {"T": T, "D": len(table.resources), "A": len(table.labels), "X": table.basis.shape[1]}
    sizes |= {"S": len(stores), "F": len(table.flows), "K": len(demands), "2": 2}
    sizes |= {"F+1": sizes["F"] + 1, "L": len(table.limits)}

    def said(rate: Any, what: str) -> tuple[FloatArray, FloatArray]:
        fixed, slopes = read_rate(rate, table.names, T, what)
        return fixed, slopes @ table.basis

    for name, shape in dispatch.STORAGE.shapes.items():
        if name not in ("viable", "targets", "process"):
            n[name] = np.zeros([sizes[one] for one in shape])
    for name in ("before", "demand", "lost", "spill"):
        n[name] -= 1.0
    for name, most in (("limit_least", -np.inf), ("size", np.inf), ("top", np.inf)):
        n[name] += most
    for i, store in enumerate(stores):
        n["keep"][i], n["bottom"][:, i], n["top"][:, i] = store.keep, store.least, store.capacity
        n["bottom"][-1, i] = max(store.least, store.end_least)
        n["hold"][-1, i] = sign * store.end_value
        what = f"storage {store.name!r}: inflow"
        n["inflow"][:, i], n["inflow_x"][:, i] = said(store.inflow, what)
        if n["inflow_x"][:, i].any() and not store.spill:
            raise InputError(
                f"{what} {store.inflow!r} comes as it likes and may not fit: set spill=True"
            )
    homes = {one.name: i for i, one in enumerate(stores)}
    served = {one.name: k for k, one in enumerate(demands)}
    ramped = iter(range(len(stores), len(table.resources)))
    for f, flow in enumerate(table.flows):
        _fill_flow(n, f, flow, (homes, served), said, sign)
        if flow.ramp is not None:
            n["before"][f] = place = next(ramped)
            n["ramp"][f] = flow.ramp
            n["effect"][:, place, int(n["first"][f]) : int(n["first"][f + 1])] = 1.0
    at = int(n["first"][-1])
    for k, demand in enumerate(demands):
        what = f"demand {demand.name!r}"
        n["amount"][:, k], n["amount_x"][:, k] = said(demand.amount, what)
        if not n["amount_x"][:, k].any() and (n["amount"][:, k] < 0.0).any():
            raise InputError(f"{what}: an amount is {n['amount'][:, k].min():g}: give 0 or more")
        if demand.lost_at is None:
            if n["amount_x"][:, k].any():
                raise InputError(
                    f"{what} depends on x, so that it may be too large to be met: say what a unit "
                    "costs that is not (lost_at)"
                )
            continue
        n["lost"][k], n["demand"][at], n["share"][:, at] = at, k, 1.0
        fixed, slopes = said(demand.lost_at, f"{what}: lost_at")
        n["price"][:, at], n["price_x"][:, at] = -sign * fixed, -sign * slopes
        at += 1
    for i, store in enumerate(stores):
        if store.spill:
            n["spill"][i], n["effect"][:, i, at] = at, -1.0
            at += 1
    for k, limit in enumerate(table.limits):
        _fill_limit(table, k, limit, said)


def _fill_limit(
    table: _Table, k: int, limit: Limit, said: Callable[[Any, str], tuple[FloatArray, FloatArray]]
) -> None:
    """The numbers of one limit."""
    n, what = table.numbers, f"limit {limit.name!r}"
    n["limit"][:, k], n["limit_x"][:, k] = said(limit.most, f"{what}: most")
    assert isinstance(limit.flows, Mapping)
    by_flow = np.array([limit.flows.get(one.name, 0.0) for one in table.flows])
    n["weight"][k, : int(n["first"][-1])] = np.repeat(by_flow, np.diff(n["first"]).astype(int))
    if n["limit_x"][:, k].any():
        moved = table.limited_by_x[:, k]
        n["limit_least"][moved, k] = (n["low"] @ by_flow)[moved]
        return
    ends = np.where(by_flow > 0.0, n["low"], n["high"])
    with np.errstate(invalid="ignore"):  # 0 x infinity
        least = np.where(by_flow == 0.0, 0.0, by_flow * ends).sum(axis=1)
    if (least > n["limit"][:, k]).any():
        t = int(np.argmax(least > n["limit"][:, k]))
        raise InfeasibleError(
            f"{what}: at t={t} its flows come to {least[t]:g} at least, more than the most "
            f"{n['limit'][t, k]:g}: raise it, or lower the `least` of a flow"
        )


def _seen(table: _Table, process: Process) -> tuple[FloatArray, ...]:
    """By time: (n, X) the values of x that bounds differ at; 0 where they cannot be listed."""
    slopes = np.hstack([table.inflow_x, table.high_x, table.limit_x, table.amount_x])
    T, X = len(slopes), slopes.shape[2]
    nothing, found, count = np.zeros((1, X)), list[FloatArray](), 0
    if not isinstance(process, FiniteProcess) or not slopes.any():
        return (nothing,) * T
    now = np.asarray(process.start, dtype=np.float64)[None]
    for t in range(T):
        _, firsts = np.unique(np.round(now @ slopes[t].T, 9), axis=0, return_index=True)
        found.append(now[firsts])
        count += len(now)
        if count > MOST_LISTED:
            return (nothing,) * T
        if t < T - 1:
            several = [following(process, t, one) for one in now]
            able = np.vstack([values for values, _ in several])
            now = np.unique(np.round(able, 9), axis=0)
    return tuple(found)


def _fill_flow(
    n: dict[str, FloatArray],
    f: int,
    flow: Flow,
    ends: tuple[dict[str, int], dict[str, int]],
    said: Callable[[Any, str], tuple[FloatArray, FloatArray]],
    sign: float,
) -> None:
    """The numbers of one flow, and of its segments."""
    T, what, (homes, served) = len(n["low"]), f"flow {flow.name!r}", ends
    for name, given in (("least", flow.least), ("efficiency", flow.efficiency)):
        if np.ndim(given) == 1 and np.size(given) != T:
            raise InputError(
                f"{what}: {name} has {np.size(given)} entries, but there are {T} steps"
            )
    n["low"][:, f] = vector(flow.least, f"{what}: least", T)
    _within(float(np.abs(n["low"][:, f]).max()), f"{what}: least")
    arrives = vector(flow.efficiency, f"{what}: efficiency", T)
    earned, paid = said(flow.earns, f"{what}: earns"), said(flow.pays, f"{what}: pays")
    fixed, slopes = arrives * earned[0] - paid[0], arrives[:, None] * earned[1] - paid[1]
    total = sum(amount for amount, _ in flow.segments) or math.inf
    if flow.most is None:
        n["high"][:, f] = total
    else:
        most, n["high_x"][:, f] = said(flow.most, f"{what}: most")
        n["high"][:, f] = most if n["high_x"][:, f].any() else np.minimum(most, total)
    wrong = (n["low"][:, f] < 0.0) | (n["low"][:, f] > n["high"][:, f] + 0.0)
    wrong &= ~n["high_x"][:, f].any(axis=1)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise InfeasibleError(
            f"{what}: at t={t} it must lie between {n['low'][t, f]:g} and {n['high'][t, f]:g}: the "
            "least must be at least 0 and not exceed the most"
        )
    j = int(n["first"][f])
    for amount, extra in flow.segments or ((math.inf, 0.0),):
        n["price"][:, j], n["price_x"][:, j] = sign * (fixed - extra), sign * slopes
        n["size"][j] = amount
        if flow.out_of is not None:
            n["effect"][:, homes[flow.out_of], j] = -1.0
        if flow.into in homes:
            n["effect"][:, homes[flow.into], j] = arrives
        elif flow.into is not None:
            n["demand"][j], n["share"][:, j] = served[flow.into], arrives
        j += 1
    n["first"][f + 1] = j


def _needs(model: Storage) -> FloatArray:
    """(T, NEEDS) levels of one storage after each step that just serve expected later demands."""
    table, T = model._table, model.horizon
    found = np.full((T, NEEDS), np.nan)
    takes = (table.demand >= 0) & (table.effect[0, 0] < 0)
    if len(model._table.stores) > 1 or not takes.any():
        return found
    try:
        path = model.mean_path()
    except NotApplicableError:
        path = np.tile(model.process.start, (T, 1))
    check_size("what is expected of x", path)
    used = np.zeros(T)
    for k in {int(one) for one in table.demand[takes]}:
        share = table.share[:, takes & (table.demand == k)].max(axis=1)
        used += (table.amount[:, k] + (table.amount_x[:, k] * path).sum(axis=1)) / share
    drift = table.inflow[:, 0] + (table.inflow_x[:, 0] * path).sum(axis=1)
    for t in range(T - 1):
        for n, until in enumerate(range(t + 1, min(t + 1 + NEEDS, T))):
            level = table.bottom[until, 0]
            for s in range(until, t, -1):
                level = max((level + used[s] - drift[s]) / table.keep[0], table.bottom[s - 1, 0])
            found[t, n] = level
    return found


def _check_possible(model: Storage) -> None:
    """Refuse a problem in which nothing can be done, and say from when on."""
    if not model.has_dead_ends:
        return
    start, table = model.start, model._table

    def fails(steps: int, best: bool = True) -> bool:
        later = [table.extreme(t, best) for t in range(1, steps)]
        try:
            wanted = np.zeros(len(table.labels))
            closest_flows(model.stage(0), start.exogenous, start.resource, wanted, later)
        except InfeasibleError:
            return True
        return False

    if not fails(model.horizon, best=False):
        return  # whatever x is
    if not fails(model.horizon):  # x is not always at its worst
        if model.is_simple:
            with suppress(NotApplicableError):
                model._optimum.value(start)
        return
    good, bad = 0, model.horizon
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if fails(middle) else (middle, bad)
    t = bad - 1
    needed = [
        f"demand {one.name!r} of {table.amount[t, k]:g}"
        for k, one in enumerate(model._table.demands)
        if one.lost_at is None
    ]
    which = f" ({', '.join(needed)})" if needed else ""
    raise InfeasibleError(
        f"infeasible at step t={t}{which}: no flows keep all bounds by then, whatever was done "
        f"before; {HINT}"
    )


@dataclass(frozen=True, eq=False)
class _StorageColumns(Columns):
    """Tables tell what flows in all; segments, what is lost and what is spilled follow from it."""

    @classmethod
    def of(cls, model: Storage) -> _StorageColumns:
        """Of a problem."""
        table = model._table
        units = table.units
        observed = [Column(one, f"the number {one!r} of the step", unit=units[one])
                    for one in table.names]  # fmt: skip
        flows = [
            Column(_key(one.name), f"the amount of {one.name!r}, 0 for none", "amount",
                   unit=units[one.name])
            for one in model._table.flows
        ]  # fmt: skip
        most = [one.capacity for one in model._table.stores]
        levels = [
            Column(_key(name), f"the amount of {name!r} at the start", "amount", unit=units[name],
                   most=most[i] if i < len(most) else math.inf)
            for i, name in enumerate(table.resources)
        ]  # fmt: skip
        return cls(model, tuple(observed), tuple(flows), tuple(levels))

    def actions(self, path: FloatArray, state: State, decisions: FloatArray) -> FloatArray:
        """(T, A) with segments filled in turn, and what is lost and spilled."""
        table: _Table = self.problem._table
        d, found = np.array(state.resource, dtype=np.float64), list[FloatArray]()
        for s, amounts in enumerate(decisions):
            stage, y = self.problem.stage(state.t + s), np.zeros(len(table.labels))
            for f, left in enumerate(amounts.tolist()):
                first, last = int(table.first[f]), int(table.first[f + 1]) - 1
                for j in range(first, last + 1):
                    y[j] = left if j == last else min(left, table.size[j])
                    left -= y[j]
            for k, j in enumerate(table.lost.astype(int)):
                if j >= 0:
                    amount = table.amount[state.t + s, k] + table.amount_x[state.t + s, k] @ path[s]
                    served = np.where(table.demand == k, table.share[state.t + s], 0.0) @ y
                    y[j] = max(float(amount - served), 0.0)
            after = stage.after(path[s][None], d[None], y[None])[1][0]
            for i, j in enumerate(table.spill.astype(int)):
                if j >= 0:
                    y[j] = max(after[i] - stage.most_level[i], 0.0)
                    after[i] -= y[j]
            found.append(y)
            d = np.clip(after, stage.least_level, stage.most_level)
        return np.array(found)

    def written(self, path: FloatArray, actions: FloatArray) -> FloatArray:
        """(T, X + F) the path, and what flows in all."""
        table: _Table = self.problem._table
        return np.hstack([path @ table.basis.T, table.amounts(actions)])

    def path(self, observed: FloatArray) -> FloatArray:
        """(T, X) of modes those that mean what was observed."""
        basis: FloatArray = self.problem._table.basis
        if not self.problem.values:
            return observed
        away = np.abs(observed[:, :, None] - basis)
        mode = away.sum(axis=1).argmin(axis=1)
        wrong = np.flatnonzero(away[np.arange(len(observed)), :, mode].max(axis=1) > 1e-6)
        if wrong.size:
            row = dict(zip(self.problem._table.names, observed[wrong[0]].tolist(), strict=True))
            raise InputError(f"no mode means {row}: give the values of one of them")
        return np.asarray(np.eye(basis.shape[1])[mode])
