"""The optimal value without foresight, by dynamic programming.

A model may bring a dynamic program of its own (`HasExactValue`). Where chance and actions are
finite, the general one here lists every state (x, d) that can be reached, forwards, and solves

    V_t(x, d) = max_a [ r_t(x, d, a) + sum_x' P(x' | x) V_{t+1}(x', step_t(x, d, a)) ],    V_T = 0

backwards (min for costs). It is exact, and meant for problems small enough to list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from counterplan.core.problem import ProgressCallback, Watch
from counterplan.core.validation import FloatArray
from counterplan.errors import NotApplicableError, StoppedError
from counterplan.planning.model import (
    ExogenousModel,
    FiniteSupport,
    HasExactValue,
    State,
    checked_state,
)

# More (state, time) pairs are not listed: about ten seconds of work.
MOST_STATES = 100_000
# Numbers that agree to this many decimals are one state.
DECIMALS = 9

Key: TypeAlias = bytes
# What follows an x: keys and probabilities.
Next: TypeAlias = tuple[list[Key], FloatArray]


def exact_value(
    problem: ExogenousModel,
    state: State | None = None,
    progress: ProgressCallback | None = None,
) -> float:
    """V* in a state (default: the start): the best expected total without foresight.

    Raises NotApplicableError where no dynamic program applies. `progress` is called for each step
    of the general one; False stops it, and raises StoppedError.
    """
    at = None if state is None else checked_state(problem, state)
    if isinstance(problem, HasExactValue):
        return problem.optimal_value(at)
    return solve(problem, at, progress).value


@dataclass(frozen=True)
class Solution:
    """A model solved from one state on.

    value    V* there
    chosen   for each time and (x, d) that can be reached: V and the best action
    """

    value: float
    chosen: list[dict[tuple[Key, Key], tuple[float, FloatArray]]]
    first: int

    def at(self, state: State) -> tuple[float, FloatArray] | None:
        """V*, to be maximised whatever the sense, and the best action; None if not reached."""
        if not self.first <= state.t < self.first + len(self.chosen):
            return None
        return self.chosen[state.t - self.first].get((_key(state.exogenous), _key(state.resource)))

    def actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) the optimal actions in states (n, X), (n, D) that can be reached."""
        rows = []
        for x, d in zip(exogenous, resource, strict=True):
            found = self.at(State(t, x, d))
            if found is None:
                raise NotApplicableError(
                    f"the state x={x}, d={d} at t={t} cannot be reached from where the model was "
                    "solved; solve it from there"
                )
            rows.append(found[1])
        return np.array(rows)


def solve(
    model: ExogenousModel, state: State | None = None, progress: ProgressCallback | None = None
) -> Solution:
    """List what can be reached, then solve backwards."""
    if not isinstance(model, FiniteSupport):
        raise NotApplicableError(
            f"{type(model).__name__} has neither an exact solution of its own nor finitely many "
            "successors, so no dynamic program applies; value_bounds brackets the value"
        )
    at = model.start if state is None else state
    watch = Watch("listing states", progress=progress)
    listing = _Listing(model, at, watch)
    watch = Watch("backward pass", progress=progress)
    sign = 1.0 if model.sense == "max" else -1.0
    later: dict[tuple[Key, Key], tuple[float, FloatArray]] = {}
    chosen = []
    for t in reversed(range(at.t, model.horizon)):
        now: dict[tuple[Key, Key], tuple[float, FloatArray]] = {}
        for (x, d), (actions, rewards, after) in listing.choices[t - at.t].items():
            totals = sign * rewards
            if t + 1 < model.horizon:
                keys, chances = listing.follows[t - at.t][x]
                ahead = [[later[y, e][0] for y in keys] for e in after]
                totals = totals + np.array(ahead) @ chances
            best = int(np.argmax(totals))
            now[x, d] = (float(totals[best]), actions[best])
        chosen.append(now)
        later = now
        _stop_if(watch, len(chosen), model.horizon - at.t)
    value = sign * later[_key(at.exogenous), _key(at.resource)][0]
    return Solution(value, chosen[::-1], at.t)


class _Listing:
    """Every state that can be reached.

    choices  by time and (x, d): actions (m, A), rewards (m,) and the keys of the next resources
    follows  by time and x: what may follow
    """

    def __init__(self, model: ExogenousModel, at: State, watch: Watch) -> None:
        self.model = model
        self.choices: list[dict[tuple[Key, Key], tuple[FloatArray, FloatArray, list[Key]]]] = []
        self.follows: list[dict[Key, Next]] = []
        self.count = 0
        xs = {_key(at.exogenous): np.asarray(at.exogenous, dtype=np.float64)}
        ds = {_key(at.resource): np.asarray(at.resource, dtype=np.float64)}
        pairs = {(x, d) for x in xs for d in ds}
        for t in range(at.t, model.horizon):
            pairs, xs, ds = self._forward(t, pairs, xs, ds)
            _stop_if(watch, t + 1 - at.t, model.horizon - at.t)

    def _forward(
        self,
        t: int,
        pairs: set[tuple[Key, Key]],
        xs: dict[Key, FloatArray],
        ds: dict[Key, FloatArray],
    ) -> tuple[set[tuple[Key, Key]], dict[Key, FloatArray], dict[Key, FloatArray]]:
        """The states after t, with what their keys stand for."""
        self.count += len(pairs)
        following, next_xs = self._chance(t, xs)
        next_ds: dict[Key, FloatArray] = {}
        next_pairs: set[tuple[Key, Key]] = set()
        choices = {}
        for x, d in pairs:
            actions, rewards, after = self._step(State(t, xs[x], ds[d]))
            keys = [_key(e) for e in after]
            next_ds.update(zip(keys, after, strict=True))
            choices[x, d] = actions, rewards, keys
            next_pairs |= {(y, e) for y in following[x][0] for e in keys}
            if self.count + len(next_pairs) > MOST_STATES:
                raise NotApplicableError(
                    f"more than {MOST_STATES:,} states can be reached by t={t + 1}, too many to "
                    "list; value_bounds brackets the value"
                )
        self.choices.append(choices)
        self.follows.append(following)
        return next_pairs, next_xs, next_ds

    def _chance(
        self, t: int, xs: dict[Key, FloatArray]
    ) -> tuple[dict[Key, Next], dict[Key, FloatArray]]:
        following: dict[Key, Next] = {}
        next_xs: dict[Key, FloatArray] = {}
        if t + 1 == self.model.horizon:
            return {x: ([], np.empty(0)) for x in xs}, next_xs
        assert isinstance(self.model, FiniteSupport)
        for x, values in xs.items():
            successors, chances = self.model.successors(t, values)
            keys = [_key(y) for y in successors]
            next_xs.update(zip(keys, successors, strict=True))
            following[x] = keys, chances
        return following, next_xs

    def _step(self, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
        actions = self.model.actions(state)
        x = np.repeat(state.exogenous[None], len(actions), axis=0)
        d = np.repeat(state.resource[None], len(actions), axis=0)
        rewards, after = self.model.step(state.t, x, d, actions)
        return actions, rewards, after


def _stop_if(watch: Watch, done: int, total: int) -> None:
    if watch.must_stop(done, total=total):
        raise StoppedError(f"stopped after {done} of {total} steps: no value is known yet")


def _key(values: FloatArray) -> Key:
    # Adding 0.0 makes -0.0 and 0.0 the same bytes.
    return (np.round(np.asarray(values, dtype=np.float64), DECIMALS) + 0.0).tobytes()
