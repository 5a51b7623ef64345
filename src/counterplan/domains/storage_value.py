"""The optimum of a storage without foresight, where what x brings can be listed.

    V_t(x, d) = max_y  r_t(x, y) + U_t(x, d'),    U_t(x, d') = hold d' + E[V_{t+1}(x', d') | x]

**One storage.** V and U are concave and piecewise linear in the level; `dispatch` finds V from U
exactly, and U is a mean of such functions, exact at the levels where any of them bends. Should they
bend at more levels than can be held, those that matter least are left out: V becomes smaller by at
most what is left out, which is counted (`error`).

**Two numbers** (two storages, or one and a flow with a ramp), from the state that is asked about.
Cuts (`planning.cuts`) say what no policy beats. From below, at points p_k (a grid, and levels that
the cuts' policy comes to): V is concave, so that it lies above what is interpolated between them,
and one program for each node and point gives backwards

    W_t(x, p) = max over y, d', z  r_t(x, y) + hold d' + sum_k z_k E[W_{t+1}(x', p_k) | x]
                with d' = sum_k z_k p_k,  sum_k z_k = 1,  z >= 0

which is at most V_t(x, p). The value said is halfway, and its error half the distance.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Certified
from counterplan.core.validation import FloatArray, generator
from counterplan.domains import dispatch
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.planning.model import FiniteSupport, State, following, sign_of
from counterplan.planning.stages import check_size

if TYPE_CHECKING:
    from counterplan.domains.storage import Storage
    from counterplan.planning.cuts import Training
    from counterplan.planning.stages import Stage

# Values of x at all times together: about ten seconds of work.
MOST_NODES = 50_000
# Levels at which a value may bend.
MOST_BENDS = 2_000
DECIMALS = 9
# Between value and bound, as a share that is small enough; rounds of cuts and futures that points
# are met on, and how often both are doubled before the distance is taken as it is.
GAP, ROUNDS, FUTURES, TRIES = 1e-5, 300, 200, 2
# Points at a time, at most, and levels of the grid along each axis, its ends included.
MOST_POINTS, ALONG = 500, 12


def _at(curve: FloatArray, level: float) -> float:
    """The value of a level on a curve (n, 2); raises where there is none."""
    slack = 1e-7 * (1.0 + abs(level))
    if not curve[0, 0] - slack <= level <= curve[-1, 0] + slack:
        raise InfeasibleError(f"a level of {level:g} leaves no flows that keep all later bounds")
    return float(np.interp(level, curve[:, 0], curve[:, 1]))


class _Rest:
    """A problem from a state on, as far as cuts need it."""

    def __init__(self, model: Storage, state: State) -> None:
        self._model, self._t, self.sense = model, state.t, model.sense
        self.horizon, self.start = model.horizon - state.t, State(0, *state[1:])

    def stage(self, t: int) -> Stage:
        return self._model.stage(self._t + t)

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        model: Any = self._model
        found: tuple[FloatArray, FloatArray] = model.successors(self._t + t, exogenous)
        return found


def bracketed(model: Storage, state: State) -> Certified:
    """V* of a state with two numbers to remember, from both sides."""
    from counterplan.planning.cuts import Cuts
    from counterplan.planning.lattice import Lattice

    rest: Any = _Rest(model, state)
    size = len(state.resource)
    if size > 2 or not isinstance(model, FiniteSupport) or not Lattice.of(rest).exact:
        raise NotApplicableError(
            f"{size} numbers to remember, or an x with more values than can be listed, are too "
            "much for an exact value: policies.Cuts bounds it, and value_bounds brackets it"
        )
    found, sign = Cuts(ROUNDS, GAP, samples=FUTURES).solve(rest), sign_of(model)
    limit, value, rng = found.bound, found.value, generator(0)
    for i in range(TRIES if found.se > 0.0 else 0):
        value = _from_below(found.training, FUTURES << i, rng, sign)
        if abs(limit - value) <= GAP * abs(limit) or i + 1 == TRIES:
            break
        limit = -sign * max(found.training.round(rng) for _ in range(ROUNDS << i))
    if not np.isfinite(value):
        raise NotApplicableError("no policy was found that is possible at every step: play Cuts")
    low, high = sorted((limit, value))
    return Certified(0.5 * (low + high), low, high)


def _from_below(training: Training, futures: int, rng: np.random.Generator, sign: float) -> float:
    """What a policy earns at the start for certain (costs at most)."""
    from counterplan.planning.cuts import StepProgram

    lattice, stages = training.lattice, training.stages
    points = training.met(futures, rng)
    for t, stage in enumerate(stages[:-1]):
        top = stage.most_level
        top = np.where(np.isinf(top), 1.0 + 2.0 * points[t + 1].max(axis=0), top)
        axes = [np.linspace(*ends, ALONG) for ends in zip(stage.least_level, top, strict=True)]
        grid = np.array(list(product(*axes)))
        met = rng.permutation(points[t + 1])[: MOST_POINTS - len(grid)]
        both = np.vstack([grid, met])
        nearly = np.round(both * (1e6 / (1e-9 + top.max())))  # points that nearly agree are one
        points[t + 1] = both[np.sort(np.unique(nearly, axis=0, return_index=True)[1])]
    worth = np.empty((0, 0))
    for t in reversed(range(lattice.horizon)):
        several = [stages[t]]
        if t + 1 < lattice.horizon:
            several = [_between(stages[t], points[t + 1], worth, p) for p in training.chances[t]]
        programs = [StepProgram(stage, sign, None) for stage in several]
        worth = np.full((len(lattice.values[t]), len(points[t])), np.nan)
        for j, x in enumerate(lattice.values[t]):
            program = programs[training.classes[t][j]]
            sides = program.sides(x)
            for k, level in enumerate(points[t]):
                with suppress(NotApplicableError):  # of a program gone astray: one point less
                    found = program.solve(sides, level)
                    worth[j, k] = np.nan if found is None else -sign * found.value
    return float(worth[0, 0])


def _between(stage: Stage, points: FloatArray, worth: FloatArray, chances: FloatArray) -> Stage:
    """A step that ends between points (K, D), worth (M, K) at the next nodes: the shares z of the
    points are further flows."""
    ahead = chances[chances > 0.0] @ worth[chances > 0.0]
    points, ahead = points[np.isfinite(ahead)], ahead[np.isfinite(ahead)]
    (K, D), m, X = points.shape, len(stage.low), stage.price_x.shape[1]
    ends = np.hstack([stage.effect, -points.T])
    own = np.hstack([stage.rows, np.zeros((m, K))])
    all_of_them = np.append(np.zeros(stage.effect.shape[1]), np.ones(K))
    return replace(
        stage,
        effect=np.hstack([stage.effect, np.zeros((D, K))]),
        rows=np.vstack([own, ends, all_of_them]),
        rows_d=np.vstack([stage.rows_d, stage.keep, np.zeros(D)]),
        rows_x=np.vstack([stage.rows_x, stage.inflow_x, np.zeros(X)]),
        low=np.concatenate([stage.low, -stage.inflow, [1.0]]),
        high=np.concatenate([stage.high, -stage.inflow, [1.0]]),
        floor=np.append(stage.floor, np.full(D + 1, -np.inf)),
        least=np.append(stage.least, np.zeros(K)),
        most=np.append(stage.most, np.full(K, np.inf)),
        price=np.append(stage.price, ahead),
        price_x=np.vstack([stage.price_x, np.zeros((K, X))]),
    )


class StorageValue:
    """The optimum of a problem with one storage and nothing else to remember, from its start on;
    other states are solved when they are met.

    error  by how much values may be too small
    """

    def __init__(self, model: Storage, numbers: FloatArray) -> None:
        if not isinstance(model, FiniteSupport):
            raise NotApplicableError(
                "x takes more values than can be listed: state a process with finitely many, or "
                "bracket the value by value_bounds or policies.Cuts"
            )
        self._model, self._flat, self._sign = model, numbers, sign_of(model)
        self._before: list[dict[bytes, FloatArray]] = [{} for _ in range(model.horizon)]
        self._afters: list[dict[bytes, FloatArray]] = [{} for _ in range(model.horizon)]
        self.error = 0.0

    def value(self, state: State) -> float:
        """V* in a state, in the problem's sense."""
        if state.t == self._model.horizon:
            return 0.0
        return self._sign * _at(self._curve(state.t, state.exogenous), float(state.resource[0]))

    def flows(self, state: State) -> FloatArray:
        """(A,) the best flows."""
        t, x, d = state.t, *(np.array(one, dtype=np.float64) for one in state[1:])
        self._curve(t, x)
        y = np.empty(len(self._model._table.labels))
        dispatch.best_flows(self._flat, t, x, d, self._afters[t][_key(x)], y)
        return y

    def loss(self, state: State, y: FloatArray) -> float:
        """V* - Q* of flows (A,), not negative but for rounding."""
        t, x, d = state
        rewards, after = self._model.step(t, x[None], d[None], y[None])
        best = _at(self._curve(t, x), float(d[0]))
        hold = self._sign * float(self._model.stage(t).hold[0] * after[0, 0])
        taken = self._sign * float(rewards[0]) - hold
        return best - taken - _at(self._afters[t][_key(x)], float(after[0, 0]))

    def _curve(self, t: int, x: FloatArray) -> FloatArray:
        if _key(x) not in self._before[t]:
            self._solve(t, np.array(x, dtype=np.float64))
        return self._before[t][_key(x)]

    def _solve(self, first: int, x: FloatArray) -> None:
        """All that can follow x at t, listed forwards and valued backwards."""
        layers, count = [{_key(x): x}], 1
        follows: list[dict[bytes, tuple[list[bytes], FloatArray]]] = []
        for t in range(first, self._model.horizon - 1):
            found: dict[bytes, FloatArray] = {}
            follows.append({})
            for key, now in layers[-1].items():
                values, chances = following(self._model, t, now)
                keys = [_key(one) for one in values]
                follows[-1][key] = keys, chances
                known = self._before[t + 1]
                found |= {k: v for k, v in zip(keys, values, strict=True) if k not in known}
            layers.append(found)
            count += len(found)
            if count > MOST_NODES:
                raise NotApplicableError(
                    f"x takes more than {MOST_NODES:,} values by t={t + 1}, too many to list; "
                    "value_bounds brackets the value"
                )
        for t in range(self._model.horizon - 1, first - 1, -1):
            worst = 0.0
            for key, now in layers[t - first].items():
                after = self._after(
                    t, follows[t - first][key] if t - first < len(follows) else None
                )
                before, left_out = _thinned(self._step_back(t, now, after))
                self._afters[t][key], self._before[t][key] = after, before
                worst = max(worst, left_out)
            self.error += worst

    def _after(self, t: int, follows: tuple[list[bytes], FloatArray] | None) -> FloatArray:
        """U, from what may follow."""
        mean = np.empty((0, 2))
        if follows is not None:
            mean = _mean([self._before[t + 1][key] for key in follows[0]], follows[1])
            self._some(len(mean), mean, t)
        n = dispatch.worth_after(self._flat, t, mean, out := _room(len(mean)))
        return self._some(n, out, t)

    def _step_back(self, t: int, x: FloatArray, after: FloatArray) -> FloatArray:
        check_size(f"x at t={t}", x)
        out = _room(len(after) + self._model._table.corners)
        return self._some(dispatch.worth_before(self._flat, t, x, after, out), out, t)

    def _some(self, n: int, curve: FloatArray, t: int) -> FloatArray:
        if n == 0:
            nothing = np.empty((0, self._model.start.exogenous.size))
            raise InfeasibleError(
                f"no level at t={t} leaves all later steps possible: "
                f"{self._model._hint(t, nothing)}"
            )
        return curve[:n].copy()


def _room(points: int) -> FloatArray:
    return np.empty((points + 4, 2))


def _mean(several: list[FloatArray], chances: FloatArray) -> FloatArray:
    """At every level where one of them bends, where all have a value."""
    low, high = max(one[0, 0] for one in several), min(one[-1, 0] for one in several)
    if low > high:
        if low - high > 1e-9 * (1.0 + abs(low)):
            return np.empty((0, 2))
        low = high = 0.5 * (low + high)
    bends = np.unique(np.concatenate([one[:, 0] for one in several]))
    gaps = np.diff(bends, prepend=-np.inf) > 1e-13 * (1.0 + np.abs(bends))
    bends = bends[gaps & (bends > low) & (bends < high)]
    levels = np.concatenate([[low], bends, [high]] if high > low else [[low]])
    values = np.zeros(len(levels))
    for one, chance in zip(several, chances, strict=True):
        values += chance * np.interp(levels, one[:, 0], one[:, 1])
    return np.column_stack([levels, values])


def _thinned(curve: FloatArray) -> tuple[FloatArray, float]:
    """Without levels where it does not bend, and at most MOST_BENDS of the others; and by how much
    values became smaller at most."""
    left_out = 0.0
    while len(curve) > 2:
        levels, values = curve.T
        widths = np.diff(levels)
        chord = (values[:-2] * widths[1:] + values[2:] * widths[:-1]) / (widths[:-1] + widths[1:])
        height = np.maximum(values[1:-1] - chord, 0.0)
        over = len(levels) - MOST_BENDS
        limit = np.partition(height, over)[over] if over > 0 else 0.0
        drop = height <= np.maximum(1e-14 * (1.0 + np.abs(values[1:-1])), limit)
        for i in np.flatnonzero(drop)[1:]:  # neighbours hold each other up
            drop[i] &= not drop[i - 1]
        if not drop.any():
            break
        left_out += float(height[drop].max())
        curve = curve[np.concatenate([[True], ~drop, [True]])]
    return np.ascontiguousarray(curve), left_out


def _key(x: FloatArray) -> bytes:
    return (np.round(np.asarray(x, dtype=np.float64), DECIMALS) + 0.0).tobytes()
