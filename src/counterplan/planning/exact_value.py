"""The optimal value without foresight, by dynamic programming.

A model may bring a dynamic program of its own (`HasExactValue`). Where chance and actions are
finite, the general one here lists every state (x, d) that can be reached, forwards, and solves

    V_t(x, d) = max_a Q_t(x, d, a),    V_T = 0
    Q_t(x, d, a) = r_t(x, d, a) + sum_x' P(x' | x) V_{t+1}(x', step_t(x, d, a))

backwards (min for costs). It is exact, and meant for problems small enough to list.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.validation import FloatArray
from counterplan.errors import NotApplicableError, StoppedError
from counterplan.planning.model import (
    ExogenousModel,
    FiniteSupport,
    HasExactValue,
    State,
    checked_state,
    sign_of,
)

# More (state, time) pairs are not listed: about ten seconds of work.
MOST_STATES = 100_000
# Numbers that agree to this many decimals are one state.
DECIMALS = 9

Key: TypeAlias = bytes
# (x, d) -> V*, to be maximised whatever the sense, and the best action
Values: TypeAlias = dict[tuple[Key, Key], tuple[float, FloatArray]]


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
    return Solution(problem, at, progress).value


class Solution:
    """A model solved from one state on; states that cannot be reached from there are solved when
    they are met.

    value  V* in that state
    """

    def __init__(
        self,
        model: ExogenousModel,
        state: State | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        if not isinstance(model, FiniteSupport):
            raise NotApplicableError(
                f"{type(model).__name__} has neither an exact solution of its own nor finitely "
                "many successors, so no dynamic program applies; value_bounds brackets the value"
            )
        at = model.start if state is None else state
        self._model, self._sign, self._known = model, sign_of(model), dict[int, Values]()
        self._solve(at, progress)
        self.value = self._sign * self.at(at)[0]

    def at(self, state: State) -> tuple[float, FloatArray]:
        """V*, to be maximised whatever the sense, and the best action."""
        key = _key(state.exogenous), _key(state.resource)
        if key not in self._known.get(state.t, {}):
            self._solve(state, None)
        return self._known[state.t][key]

    def actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, A) the optimal actions in states (n, X), (n, D)."""
        states = zip(exogenous, resource, strict=True)
        return np.array([self.at(State(t, x, d))[1] for x, d in states])

    def loss(self, t: int, x: FloatArray, d: FloatArray, a: FloatArray) -> float:
        """V* - Q* >= 0: what an action (A,) loses in expectation in (X,), (D,)."""
        assert isinstance(self._model, FiniteSupport)
        rewards, after = self._model.step(t, x[np.newaxis], d[np.newaxis], a[np.newaxis])
        taken = self._sign * float(rewards[0])
        if t + 1 < self._model.horizon:
            following, chances = self._model.successors(t, x)
            ahead = [self.at(State(t + 1, y, after[0]))[0] for y in following]
            taken += float(chances @ np.array(ahead))
        return self.at(State(t, x, d))[0] - taken

    def _solve(self, at: State, progress: ProgressCallback | None) -> None:
        layers = _listed(self._model, at, progress)
        watch, later = Watch("backward pass", progress=progress), Values()
        for t in reversed(range(at.t, self._model.horizon)):
            follows, choices = layers[t - at.t]
            now = Values()
            for (x, d), (actions, rewards, after) in choices.items():
                totals = self._sign * rewards
                if later:
                    keys, chances = follows[x]
                    ahead = [[later[y, e][0] for y in keys] for e in after]
                    totals = totals + np.array(ahead) @ chances
                best = int(np.argmax(totals))
                now[x, d] = (float(totals[best]), actions[best])
            self._known.setdefault(t, {}).update(now)
            later = now
            _stop_if(watch, self._model.horizon - t, self._model.horizon - at.t)


class _Layer(NamedTuple):
    """What can be reached at one time.

    follows  by x: the keys and the probabilities of what may follow
    choices  by (x, d): actions (m, A), rewards (m,) and the keys of the next resources
    """

    follows: dict[Key, tuple[list[Key], FloatArray]]
    choices: dict[tuple[Key, Key], tuple[FloatArray, FloatArray, list[Key]]]


def _listed(model: ExogenousModel, at: State, progress: ProgressCallback | None) -> list[_Layer]:
    """Every state that can be reached, by time."""
    assert isinstance(model, FiniteSupport)
    watch, count, layers = Watch("listing states", progress=progress), 0, list[_Layer]()
    values = {_key(one): np.asarray(one, dtype=np.float64) for one in at[1:]}
    pairs = {(_key(at.exogenous), _key(at.resource))}
    for t in range(at.t, model.horizon):
        layer, count, following = _Layer({}, {}), count + len(pairs), set[tuple[Key, Key]]()
        for x in {x for x, _ in pairs} if t + 1 < model.horizon else ():
            successors, chances = model.successors(t, values[x])
            keys = [_key(y) for y in successors]
            values.update(zip(keys, successors, strict=True))
            layer.follows[x] = keys, chances
        for x, d in pairs:
            actions = model.actions(State(t, values[x], values[d]))
            m = len(actions)
            xs, ds = (np.repeat(values[one][None], m, axis=0) for one in (x, d))
            rewards, after = model.step(t, xs, ds, actions)
            keys = [_key(e) for e in after]
            values.update(zip(keys, after, strict=True))
            layer.choices[x, d] = actions, rewards, keys
            following |= {(y, e) for y in layer.follows.get(x, ((),))[0] for e in keys}
            if count + len(following) > MOST_STATES:
                raise NotApplicableError(
                    f"more than {MOST_STATES:,} states can be reached by t={t + 1}, too many to "
                    "list; value_bounds brackets the value"
                )
        layers.append(layer)
        pairs = following
        _stop_if(watch, t + 1 - at.t, model.horizon - at.t)
    return layers


def _stop_if(watch: Watch, done: int, total: int) -> None:
    if watch.must_stop(done, total=total):
        raise StoppedError(f"stopped after {done} of {total} steps: no value is known yet")


def _key(values: FloatArray) -> Key:
    # Adding 0.0 makes -0.0 and 0.0 the same bytes.
    return (np.round(np.asarray(values, dtype=np.float64), DECIMALS) + 0.0).tobytes()
