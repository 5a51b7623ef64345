"""A tree planner at work on one problem: prepared once, then asked at every state."""

from __future__ import annotations

import time
from dataclasses import replace
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray, IntArray, Seed, generator
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.planning import compiled, leaf, storage, tree
from counterplan.planning.decision import Plan, PlanStatus
from counterplan.planning.following import follow
from counterplan.planning.kernel import uniform_policy
from counterplan.planning.preparation import kernel_of, kernel_with_bounds
from counterplan.planning.search import search

if TYPE_CHECKING:
    from counterplan.planning.planners import Clip, Parts, TreePlanner

# The weight of a rollout against the lower bound, by random actions or by the model's own. More
# would make waits for chance look too good where the lower bound is the value (options D and F).
TRUST = (0.25, 0.5)
# Random plays that set the unit of temperatures where none is given.
PILOT_PLAYS = 64
# Rollouts that value a decision: as many as simulations, but not fewer than these.
LEAST_PLAYS = 200


class Session:
    """The planner's model, parts and tree for one problem; calling it plans from a state."""

    def __init__(
        self, planner: TreePlanner, problem: ExogenousModel, clip: Clip, seed: Seed
    ) -> None:
        chance, self._generator = generator(seed).spawn(2)
        self._planner, self._parts = planner, planner.parts()
        self._sign = -1.0 if problem.sense == "min" else 1.0
        kernel = kernel_of(problem, planner.quantiles)
        needed = planner.leaf == "bounds"
        kernel, clipped = kernel_with_bounds(problem, kernel, clip, needed, chance)
        if planner.leaf in ("uniform", "clipped"):
            kernel = replace(kernel, policy=uniform_policy)
        self._kernel = kernel
        self._settings = settings_of(planner, self._parts, clipped)
        value = leaf.named(planner.leaf, clipped > 0.0)
        parts = (self._parts.select, self._parts.backup, value)
        self._engine = compiled.engine(kernel, *parts, self._settings)
        self._tree = storage.allocate(kernel, self._needs(), planner.simulations)

    def _needs(self) -> IntArray:
        factor, power = self._planner.widening
        most_children = ceil(factor * self._planner.simulations**power)
        return storage.most_per_simulation(self._kernel, most_children, self._planner.bellman)

    def __call__(self, state: State) -> Plan:
        """The decision at a state."""
        if state.t == self._kernel.horizon:
            return self._nothing_left()
        began = time.perf_counter()
        self._set_units(state)
        storage.plant(self._tree, state)
        while self._search(state.t) < self._planner.simulations:
            self._tree = storage.grown(self._tree)
        return self._plan(state, time.perf_counter() - began)

    def _search(self, t: int) -> int:
        model, parts, _ = self._engine
        wanted = self._planner.simulations
        return int(search(model, parts, self._tree, t, wanted, self._generator))

    def _set_units(self, state: State) -> None:
        """Count temperatures in units of reward: one objective for all of a search."""
        if not self._parts.in_units:
            return
        unit = self._planner.scale
        if unit is None:
            unit = leaf.pilot(self._engine.model, *state, PILOT_PLAYS, self._generator) or 1.0
        for place in self._parts.in_units:
            self._settings[place] = unit * self._parts.settings[place]

    def _plan(self, state: State, seconds: float) -> Plan:
        first, m = self._tree.node_index[0, tree.FIRST_EDGE :]
        returns = self._tree.root[:m]
        visits = returns[:, 0].astype(np.int64)
        values = np.where(visits > 0, self._tree.edges[first : first + m, tree.VALUE], -np.inf)
        index = int(np.argmax(values))
        value = self._tree.nodes[0, tree.VALUE] if self._parts.soft else values[index]
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
        )

    def followed(self, decision: Plan, state: State) -> Plan:
        """The decision, valued by following the search's choices."""
        if decision.status is PlanStatus.OVER or self._parts.soft:
            return decision
        edge = int(self._tree.node_index[0, tree.FIRST_EDGE]) + decision.index
        question = (state.t, edge, max(LEAST_PLAYS, self._planner.simulations))
        found = np.empty(2)
        model, _, _ = self._engine
        follow(model, self._settings, self._tree, question, self._generator, found)
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

    def _stats(self, seconds: float) -> MappingProxyType[str, float]:
        counts = self._tree.counts
        return MappingProxyType(
            {
                "simulations": int(counts[tree.DONE]),
                "seconds": seconds,
                "simulations_per_second": int(counts[tree.DONE]) / seconds,
                "nodes": int(counts[tree.IN_NODES]),
                "exogenous_nodes": int(counts[tree.IN_EXOGENOUS]),
                "depth": int(counts[tree.DEEPEST]),
                "transpositions": int(counts[tree.TRANSPOSITIONS]),
                "temperature": float(self._settings[compiled.TEMPERATURE]),
                "clip": float(self._settings[compiled.CLIP]),
            }
        )

    def _nothing_left(self) -> Plan:
        nothing = np.empty(0)
        return Plan(
            action=nothing,
            index=-1,
            value=0.0,
            se=0.0,
            actions=np.empty((0, self._kernel.action_size)),
            values=nothing,
            values_se=nothing,
            visits=np.empty(0, dtype=np.int64),
            bounds=Interval(0.0, 0.0),
            status=PlanStatus.OVER,
            stats=MappingProxyType({"simulations": 0}),
            planner=self._planner.name,
        )


def settings_of(planner: TreePlanner, parts: Parts, clipped: float) -> FloatArray:
    """The numbers that the parts read, by place."""
    size = max(compiled.OWN, 1 + max(parts.settings, default=0))
    settings = np.zeros(size)
    settings[compiled.BELLMAN] = planner.bellman
    settings[compiled.WIDENING], settings[compiled.WIDENING_POWER] = planner.widening
    settings[compiled.CLIP] = clipped
    settings[compiled.TRUST] = TRUST[planner.leaf != "uniform"]
    for place, number in parts.settings.items():
        settings[place] = number
    return settings


def standard_errors(returns: FloatArray, last: bool) -> FloatArray:
    """(m,) of the mean returns (m, 3: number, mean, squared deviations); the last step is sure."""
    n = returns[:, 0]
    if last:
        return np.where(n > 0, 0.0, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n > 1, np.sqrt(returns[:, 2] / (n * (n - 1))), np.inf)
