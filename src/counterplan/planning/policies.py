"""Classical policies, to compare a search with (and to bound values with: each is feasible).

    OpenLoop      the plan that is optimal for expected values, made once and executed
    Resolve       that plan made anew in every state; its first action
    Greedy        the best reward now
    Optimal       by dynamic programming, where `exact_value` applies

Those by regression are in `least_squares`; `cp.policies` has all of them.

A plan for expected values may not be possible as it stands once the future shows (a hybrid vehicle
that brakes cannot burn fuel): each of its actions is replaced by the closest one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import NotApplicableError
from counterplan.planning.exact_value import solved
from counterplan.planning.model import (
    ExogenousModel,
    HasExactValue,
    HasHindsight,
    HasMeanPath,
    MakesFeasible,
    SamplesPaths,
    State,
    numbers,
    offered,
    stepped,
)

# (t, x (n, X), d (n, D)) -> actions (n, A)
Rule: TypeAlias = Callable[[int, FloatArray, FloatArray], FloatArray]


@runtime_checkable
class Policy(Protocol):
    """A rule that sees the present, never the future: prepared once for a model (a table, a
    regression), then asked at every state."""

    @property
    def name(self) -> str: ...

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule: ...


@runtime_checkable
class Replans(Protocol):
    """A model that solves the expected-value plans of many states at once."""

    def replan(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) the first actions of the plans."""
        ...


@dataclass(frozen=True)
class OpenLoop:
    """The plan that is optimal for expected values, executed."""

    name: ClassVar[str] = "open loop"

    def prepare(self, model: ExogenousModel, seed: Seed = 0, state: State | None = None) -> Rule:
        """The rule for a plan made in `state` (default: the start)."""
        at = model.start if state is None else state
        plan = expected_plan(model, at)

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            wanted = np.tile(plan[t - at.t], (len(resource), 1))
            return _made_feasible(model, t, exogenous, resource, wanted)

        return rule


@dataclass(frozen=True)
class Resolve:
    """The plan that is optimal for expected values, made anew in every state."""

    name: ClassVar[str] = "re-solve"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule; nothing is made in advance."""
        if isinstance(model, Replans):
            return model.replan
        _require_plan(model)

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            wanted = each_state(t, exogenous, resource, lambda now: expected_plan(model, now)[0])
            return _made_feasible(model, t, exogenous, resource, wanted)

        return rule


@dataclass(frozen=True)
class Greedy:
    """The best reward now, the first of equals."""

    name: ClassVar[str] = "greedy"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule; nothing is made in advance."""
        sign = 1.0 if model.sense == "max" else -1.0

        def best(state: State) -> FloatArray:
            actions = offered(model, state)
            x = np.repeat(state.exogenous[None], len(actions), axis=0)
            d = np.repeat(state.resource[None], len(actions), axis=0)
            rewards, _ = stepped(model, state.t, x, d, actions)
            return np.asarray(actions[int(np.argmax(sign * rewards))])

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            return each_state(t, exogenous, resource, best)

        return rule


@dataclass(frozen=True)
class Optimal:
    """Nothing does better without foresight."""

    name: ClassVar[str] = "optimal"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule, by the model's own dynamic program or the general one."""
        if isinstance(model, HasExactValue):
            return model.optimal_actions
        return solved(model, model.start).actions


@dataclass(frozen=True)
class KnownRule:
    """A rule that is there already, such as a model's own."""

    name: str
    rule: Rule

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule."""
        return self.rule


def expected_plan(model: ExogenousModel, state: State) -> FloatArray:
    """(T - t, A) the plan that is optimal for expected values from a state on."""
    _require_plan(model)
    assert isinstance(model, HasMeanPath)
    assert isinstance(model, HasHindsight)
    return np.asarray(model.allocate(model.mean_path(state)[None], state).actions[0])


def _require_plan(model: ExogenousModel) -> None:
    for needed, what in ((HasMeanPath, "mean_path"), (HasHindsight, "allocate")):
        if not isinstance(model, needed):
            raise NotApplicableError(
                f"{type(model).__name__} has no {what}, so there is no plan for expected values; "
                "policies.LeastSquares needs neither"
            )


def _made_feasible(
    model: ExogenousModel, t: int, exogenous: FloatArray, resource: FloatArray, wanted: FloatArray
) -> FloatArray:
    if isinstance(model, MakesFeasible):
        return model.feasible(t, exogenous, resource, wanted)
    chosen = np.empty_like(wanted)
    for i in range(len(wanted)):
        actions = offered(model, State(t, exogenous[i], resource[i]))
        chosen[i] = actions[int(np.argmin(((actions - wanted[i]) ** 2).sum(axis=1)))]
    return chosen


def each_state(
    t: int, exogenous: FloatArray, resource: FloatArray, choose: Callable[[State], FloatArray]
) -> FloatArray:
    """(n, A) an action for every state; equal states are asked once."""
    states = np.hstack([exogenous, resource])
    _, first, row = np.unique(states, axis=0, return_index=True, return_inverse=True)
    chosen = [choose(State(t, exogenous[i], resource[i])) for i in first]
    return np.array(chosen)[row.ravel()]


def futures(
    model: ExogenousModel, n: int, seed: Seed = 0, state: State | None = None
) -> FloatArray:
    """(n, T - t, X) futures that begin with the state's x_t (default: the start)."""
    n = whole_number(n, "paths", minimum=1)
    t, first, _ = state or model.start
    shape = n, model.horizon - t, first.size
    if isinstance(model, SamplesPaths):
        return numbers(model.sample_paths(n, seed, state), f"sample_paths from t={t}", shape)
    rng, paths = generator(seed), np.empty(shape)
    paths[:, 0] = first
    for s in range(1, shape[1]):
        drawn = model.draw(t + s - 1, paths[:, s - 1].copy(), rng)
        paths[:, s] = numbers(drawn, f"draw at t={t + s - 1}", (n, first.size))
    return paths


class Played(NamedTuple):
    """What a rule did along n paths from t on; along a single one (`played`), without the n.

    paths    (n, steps, X)
    rewards  (n, steps)
    actions  (n, steps, A)
    levels   (n, steps + 1, D) the resource before each action, and at the end
    """

    t: int
    paths: FloatArray
    rewards: FloatArray
    actions: FloatArray
    levels: FloatArray

    @property
    def totals(self) -> FloatArray:
        """(n,) added up in the order of the steps."""
        return np.asarray(np.cumsum(self.rewards, axis=-1)[..., -1] + 0.0)  # no minus before zeros

    @property
    def value(self) -> float:
        """Of a single path: what was earned (or paid) in all."""
        return float(self.totals)

    @property
    def states(self) -> list[State]:
        """Of a single path: where each decision was made."""
        steps = zip(self.paths, self.levels[:-1], strict=True)
        return [State(self.t + s, x, d) for s, (x, d) in enumerate(steps)]


def play(
    model: ExogenousModel, rule: Rule, paths: FloatArray, state: State | None = None
) -> Played:
    """A rule along paths (n, T - t, X) from a state (default: the start); it sees x_t, never
    beyond."""
    t, _, resource = state or model.start
    levels = [np.tile(np.asarray(resource, dtype=np.float64), (len(paths), 1))]
    rewards, actions = list[FloatArray](), list[FloatArray]()
    for s in range(paths.shape[1]):
        now = np.ascontiguousarray(paths[:, s])
        chosen = np.asarray(rule(t + s, now.copy(), levels[-1].copy()), dtype=np.float64)
        earned, after = stepped(model, t + s, now, levels[-1], chosen)
        for found, one in ((rewards, earned), (actions, chosen), (levels, after)):
            found.append(one)
    return Played(t, paths, *(np.stack(one, axis=1) for one in (rewards, actions, levels)))


def played(model: ExogenousModel, rule: Rule, path: FloatArray, state: State) -> Played:
    """What a rule does along a single path (T - t, X) that begins in a state."""
    t, *found = play(model, rule, path[None], state)
    return Played(t, *(one[0] for one in found))


def follow(
    model: ExogenousModel, rule: Rule, paths: FloatArray, state: State | None = None
) -> FloatArray:
    """(n,) what the rule earns (or costs) along paths (n, T - t, X)."""
    return play(model, rule, paths, state).totals
