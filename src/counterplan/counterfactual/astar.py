"""The exact solver of continuous problems: which bound, where to start, what to report."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.optimize import brentq

from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray, IntArray, whole_number
from counterplan.counterfactual.best_first import Outcome, Search, UpperBound
from counterplan.counterfactual.first_order_bound import FirstOrder
from counterplan.counterfactual.sequence_baselines import greedy_sequence
from counterplan.counterfactual.sequence_explanation import SequenceExplanation
from counterplan.counterfactual.sequence_setting import SequenceSetting, prepare_sequence
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.point import PointSCM, Region


@runtime_checkable
class Heuristic(Protocol):
    """A kind of upper bound; `AStar` prepares it for a problem."""

    def refuses(self, setting: SequenceSetting) -> str | None:
        """What the model would have to provide, or None."""
        ...

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """The bound of one problem; what is not known at the deadline (by `time.perf_counter`)
        is left unbounded."""
        ...


@dataclass(frozen=True)
class FirstOrderBound:
    """The certified first-order bound, from the model's slopes or at least its constants."""

    def refuses(self, setting: SequenceSetting) -> str | None:
        """Why there is no such bound: the model knows neither constants nor slopes. Or None."""
        if setting.step_constants is not None or knows_slopes(setting):
            return None
        return (
            f"{type(setting.scm).__name__} states no Lipschitz constants, which every bound needs: "
            "pass lipschitz=..., or search without a bound, solver=AStar(NoBound())"
        )

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """The bound of one problem, unbounded where it is not known at the deadline."""
        return FirstOrder(setting, deadline=deadline)


@dataclass(frozen=True)
class NoBound:
    """No bound at all: every sequence is tried (uniform-cost search, for comparison)."""

    def refuses(self, setting: SequenceSetting) -> str | None:
        """None: it asks nothing of the model."""
        return None

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """Infinity everywhere, at once."""
        return _Unbounded()


@dataclass(frozen=True)
class Tightest:
    """The least of several bounds, which is again a bound."""

    heuristics: tuple[Heuristic, ...]

    def __post_init__(self) -> None:
        given: object = self.heuristics
        if not isinstance(given, Sequence) or not given:
            raise InputError("Tightest needs bounds: e.g. Tightest((FirstOrderBound(), ...))")
        for heuristic in given:
            _check_heuristic(heuristic)

    def refuses(self, setting: SequenceSetting) -> str | None:
        """What the first bound that cannot be had would need, or None."""
        refusals = (heuristic.refuses(setting) for heuristic in self.heuristics)
        return next((refusal for refusal in refusals if refusal), None)

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """The least of the bounds of one problem, prepared one after the other."""
        return _Least([heuristic.prepare(setting, deadline) for heuristic in self.heuristics])


@dataclass(frozen=True)
class AStar:
    """Best-first search for the best sequence.

    heuristic  the bound
    batch      how many nodes are expanded at a time
    incumbent  whether to start from the greedy sequence, to drop what cannot beat it
    memory     how many nodes may be open before the search turns to depth first
    rollout    whether a spent budget is followed to the end at once

    With batch=1, incumbent=False, rollout=False it visits and adds nodes as textbook A* does.
    """

    heuristic: Heuristic = FirstOrderBound()
    batch: int = 256
    incumbent: bool = True
    memory: int = 2_000_000
    rollout: bool = True

    def refuses(self, problem: Problem) -> str | None:
        """One line on the violated assumption and what to use instead, or None."""
        _check_heuristic(self.heuristic)
        whole_number(self.batch, "batch", minimum=1)
        whole_number(self.memory, "memory", minimum=1)
        if not isinstance(problem.scm, PointSCM):
            return (
                f"a {type(problem.scm).__name__} has no point abduction: A* needs a PointSCM, "
                "such as NeuralSCM, LocationScaleSCM or your own subclass"
            )
        return None

    def solve(self, problem: Problem) -> Explanation:
        """The explanation for the budget problem.k."""
        started = time.perf_counter()
        setting = self._accepted(problem)
        bound = self.heuristic.prepare(setting, started + problem.limits.seconds)
        return self._explained(problem, setting, bound, setting.observed, started)

    def frontier(self, problem: Problem) -> Sequence[Explanation]:
        """Every budget in turn, each starting from the best sequence of the one before. Limits
        hold for each of them, and for preparing the bound that they share."""
        found: list[Explanation] = []
        start: IntArray | None = None
        largest = self._accepted(problem)
        bound = self.heuristic.prepare(largest, time.perf_counter() + problem.limits.seconds)
        for k in range(problem.k + 1):
            started = time.perf_counter()
            smaller = replace(problem, k=k)
            setting = replace(largest, k=min(k, largest.k))
            begin = setting.observed if start is None else start
            explanation = self._explained(
                smaller, setting, bound.restricted(setting), begin, started
            )
            start = explanation.actions
            found.append(explanation)
        return found

    def _accepted(self, problem: Problem) -> SequenceSetting:
        setting = prepare_sequence(problem)
        if refusal := self.heuristic.refuses(setting):
            raise NotApplicableError(refusal)
        return setting

    def _explained(
        self,
        problem: Problem,
        setting: SequenceSetting,
        bound: UpperBound,
        start: IntArray,
        started: float,
    ) -> SequenceExplanation:
        prepared = time.perf_counter()
        if self.incumbent:
            start = greedy_sequence(setting, start)
        outcome = self._search(setting, bound).run(start, problem.limits, started)
        ended = time.perf_counter()
        stats = {
            "seconds": ended - started,
            "bound_seconds": prepared - started,
            "nodes_expanded": float(outcome.expanded),
            "nodes_added": float(outcome.added),
            "effective_branching_factor": branching_factor(outcome.added, setting.horizon),
        }
        return explained(problem, setting, outcome, bound.name, stats)

    def _search(self, setting: SequenceSetting, bound: UpperBound) -> Search:
        """The search itself; solvers that add to it go through here."""
        return Search(setting, bound, self.batch, self.memory, self.rollout)


@dataclass(frozen=True)
class _Unbounded:
    name = "none"

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        return np.full(len(states), np.inf)

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        return self


class _Least:
    def __init__(self, bounds: list[UpperBound]) -> None:
        self._bounds = bounds

    @property
    def name(self) -> str:
        return " and ".join(bound.name for bound in self._bounds)

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        return np.asarray(np.min([b.upper(t, used, states) for b in self._bounds], axis=0))

    def restricted(self, setting: SequenceSetting) -> UpperBound:
        return _Least([bound.restricted(setting) for bound in self._bounds])


def _check_heuristic(heuristic: object) -> None:
    if isinstance(heuristic, type) or not isinstance(heuristic, Heuristic):
        raise InputError(f"the bound is {heuristic!r}: pass an object such as FirstOrderBound()")


def knows_slopes(setting: SequenceSetting) -> bool:
    """Whether the model states slopes, tried at the first state."""
    first = setting.states[0]
    region = Region(first, 0.0, np.zeros(len(first)))
    return setting.scm.slopes(region, setting.vectors[0][:1], setting.noise[0]) is not None


def explained(
    problem: Problem,
    setting: SequenceSetting,
    outcome: Outcome,
    method: str,
    stats: dict[str, float],
) -> SequenceExplanation:
    """The result of a search, in the units of the episode."""
    actions = setting.simplified(outcome.sequence)
    states = setting.trajectories(actions[None])[0]
    value = float(setting.reward(states).sum())
    # Compared as the search added it up: here the same rewards may round differently.
    gap = outcome.bound - outcome.value
    proved = outcome.complete and gap <= setting.negligible(outcome.value)
    return SequenceExplanation(
        episode=setting.episode,
        k=problem.k,
        value=value,
        factual_value=float(setting.reward(setting.states).sum()),
        bound=value if proved else max(value, outcome.bound),
        status=Status.OPTIMAL if proved else Status.LIMIT,
        stats=MappingProxyType(stats),
        method=method,
        actions=actions,
        observed=setting.observed,
        states=setting.in_episode_units(states),
        history=outcome.history.array(),
    )


def branching_factor(nodes: int, horizon: int) -> float:
    """b with nodes = b + b^2 + ... + b^T (the paper's effective branching factor)."""
    if nodes <= 0:
        return 0.0
    # b^T is at most `nodes`, and smaller powers cannot overflow.
    largest = max(1.0, float(nodes) ** (1.0 / horizon) * (1.0 + 1e-9))

    def surplus(b: float) -> float:
        return sum(b**power for power in range(1, horizon + 1)) - nodes

    return float(brentq(surplus, 0.0, largest))
