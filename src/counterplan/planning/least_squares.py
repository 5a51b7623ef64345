"""Regression Monte Carlo: the value of waiting, regressed on what is seen, at every resource level.

On n sampled paths, backwards over the dates (Eq. G.1-G.3 where the resource is one option held):

    Y_T = 0
    C_t(x, d') = sum_k beta_k(d') basis_k(x)        fitted to Y_{t+1}(i, d') by least squares
    a_t(x, d)  = argmax_a  r_t(x, d, a) + C_t(x, d'),   d' = step_t(x, d, a)
    Y_t(i, d)  = r_t(x_i, d, a_t) + Y_{t+1}(i, d')

Y holds cash flows, not fitted values (Longstaff and Schwartz 2001), so errors of the fit do not add
up. The levels d' are those that can be reached, found forwards from the start; if they are too many
for one resource (D = 1), a grid with straight lines in between.

Three refinements of the fit, for every model alike:
  - only states where actions earn different rewards now count (options: the paths in the money);
  - where x takes few values, the mean for each of them is the fit: no basis can do better;
  - the basis must explain more than chance would (BIC), else C_t(., d') is the mean: right where
    x_{t+1} does not depend on x_t.
C_t is kept within the range of the cash flows it was fitted to.

The inner loops are compiled once for every model, which comes as its functions `actions` and `step`
and its `numbers`: the parameters, and memory for the actions of one state (most_actions, A). A grid
is (G, D) resource levels in ascending order (first number first). A value at a level that is not on
the grid is taken by straight line between its neighbours if D = 1; with D > 1 only levels on the
grid have values. Rewards are to be maximised, as in every kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numba import types

from counterplan.core.compiled import njit
from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.errors import NotApplicableError, StoppedError
from counterplan.planning.compiled import MATRIX, VECTOR
from counterplan.planning.model import Estimate, ExogenousModel, estimate, sign_of
from counterplan.planning.policies import Rule, follow, futures
from counterplan.planning.search.kernel import ACTIONS, STEP, Kernel

_ACTIONS, _STEP = types.FunctionType(ACTIONS), types.FunctionType(STEP)
_NUMBERS = types.Tuple([VECTOR, MATRIX])  # type: ignore[no-untyped-call]
_GRIDS = types.UniTuple(MATRIX, 2)  # type: ignore[no-untyped-call]
_MODEL = (_ACTIONS, _STEP, _NUMBERS, types.int64, MATRIX)

# Levels closer than this are the same.
TOLERANCE = 1e-7


@njit(cache=True)
def _compared(level, d):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: level before, at, or after d."""
    for k in range(d.size):
        if level[k] < d[k] - TOLERANCE:
            return -1
        if level[k] > d[k] + TOLERANCE:
            return 1
    return 0


@njit(cache=True)
def _first_not_before(levels, count, d):  # type: ignore[no-untyped-def]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _compared(levels[middle], d) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _located(levels, d):  # type: ignore[no-untyped-def]
    """(j, w): a function at d is (1 - w) f[j] + w f[j + 1]; j = -1 where d is off the grid."""
    size = levels.shape[0]
    j = _first_not_before(levels, size, d)
    if j < size and _compared(levels[j], d) == 0:
        return j, 0.0
    if d.size > 1 or j == 0 or j == size:
        return -1, 0.0
    low, high = levels[j - 1, 0], levels[j, 0]
    return j - 1, (d[0] - low) / (high - low)


@njit(types.int64(*_MODEL, MATRIX, MATRIX), cache=True)
def reachable(actions, step, numbers, t, states, levels, found):  # type: ignore[no-untyped-def]
    """How many levels follow date t's `levels` (G, D) under any of the states (m, X) and any
    action; they are written to `found` in ascending order. -1: more than `found` has rows; its
    first and last row are then the lowest and the highest."""
    count = 0
    crowded = False
    parameters, offered = numbers
    d = np.empty(levels.shape[1])
    for i in range(states.shape[0]):
        for g in range(levels.shape[0]):
            m = actions(parameters, t, states[i], levels[g], offered)
            for a in range(m):
                step(parameters, t, states[i], levels[g], offered[a], d)
                j = _first_not_before(found, count, d)
                if j < count and _compared(found[j], d) == 0:
                    continue
                if count == found.shape[0]:
                    crowded = True
                    if j == 0 or j == count:
                        found[min(j, count - 1)] = d
                    continue
                for k in range(count, j, -1):
                    found[k] = found[k - 1]
                found[j] = d
                count += 1
    return -1 if crowded else count


_CHOICE = types.Tuple([MATRIX, MATRIX, types.int64[:, ::1], MATRIX, types.boolean])  # type: ignore[no-untyped-call]


@njit(_CHOICE(*_MODEL, _GRIDS, MATRIX), cache=True)
def choose(actions, step, numbers, t, states, grids, waiting):  # type: ignore[no-untyped-def]
    """The best action at date t in every state (m, X) at every level of grids[0] (G, D), given what
    having a level of the date after, grids[1] (H, D), is worth: `waiting` (m, H).

    Returns the values (m, G), the rewards now (m, G), where the best actions lead: places (m, G)
    in grids[1] and the weights (m, G) of the place after; and whether all led onto that grid.
    """
    levels, later = grids
    shape = (states.shape[0], levels.shape[0])
    values, rewards = np.full(shape, -np.inf), np.zeros(shape)
    places, weights = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    parameters, offered = numbers
    d = np.empty(levels.shape[1])
    closed = True
    for i in range(shape[0]):
        for g in range(shape[1]):
            m = actions(parameters, t, states[i], levels[g], offered)
            for a in range(m):
                reward = step(parameters, t, states[i], levels[g], offered[a], d)
                j, w = _located(later, d)
                if j < 0:
                    closed = False
                    continue
                closed &= w == 0.0
                value = reward + waiting[i, j]
                if w > 0.0:
                    value += w * (waiting[i, j + 1] - waiting[i, j])
                if value > values[i, g]:
                    values[i, g], rewards[i, g] = value, reward
                    places[i, g], weights[i, g] = j, w
    return values, rewards, places, weights, closed


_AHEAD = types.Tuple([types.int64[::1], MATRIX])  # type: ignore[no-untyped-call]


@njit(MATRIX(*_MODEL, _GRIDS, _AHEAD), cache=True)
def best_values(actions, step, numbers, t, states, grids, ahead):  # type: ignore[no-untyped-def]
    """(G, n) the best values at date t on n paths that each know what a level of the date after is
    worth to them. States (m, X) are asked for their actions once, for all paths that share them.

    ahead  (m + 1,) which paths are in which state: those from firsts[i] to firsts[i + 1]; and what
           the levels of grids[1] are worth on each path, (H, n); every action must lead onto it
    """
    levels, later = grids
    firsts, waiting = ahead
    parameters, offered = numbers
    d = np.empty(levels.shape[1])
    result = np.full((levels.shape[0], waiting.shape[1]), -np.inf)
    for i in range(states.shape[0]):
        for g in range(levels.shape[0]):
            m = actions(parameters, t, states[i], levels[g], offered)
            for a in range(m):
                reward = step(parameters, t, states[i], levels[g], offered[a], d)
                j, _ = _located(later, d)
                if j >= 0:
                    for k in range(firsts[i], firsts[i + 1]):
                        result[g, k] = max(result[g, k], reward + waiting[j, k])
    return result


@njit(MATRIX(*_MODEL, MATRIX, _GRIDS), cache=True)
def choose_actions(actions, step, numbers, t, states, resources, ahead):  # type: ignore[no-untyped-def]
    """The best actions (n, A) at date t in states (n, X) with resources (n, D).

    ahead  the levels of the date after, (H, D), and what they are worth in each state, (n, H)
    """
    later, waiting = ahead
    n = states.shape[0]
    parameters, offered = numbers
    d = np.empty(later.shape[1])
    result = np.empty((n, offered.shape[1]))
    for i in range(n):
        m = actions(parameters, t, states[i], resources[i], offered)
        best, chosen = -np.inf, 0
        for a in range(m):
            value = step(parameters, t, states[i], resources[i], offered[a], d)
            j, w = _located(later, d)
            if j >= 0:
                value += waiting[i, j]
                if w > 0.0:
                    value += w * (waiting[i, j + 1] - waiting[i, j])
            else:
                value += waiting[i].min()
            if value > best:
                best, chosen = value, a
        result[i] = offered[chosen]
    return result


@njit(types.boolean[::1](*_MODEL, MATRIX), cache=True)
def at_stake(actions, step, numbers, t, states, levels):  # type: ignore[no-untyped-def]
    """(m,) whether, at some level, the actions' rewards now differ (options: in the money)."""
    result = np.zeros(states.shape[0], dtype=np.bool_)
    parameters, offered = numbers
    d = np.empty(levels.shape[1])
    for i in range(states.shape[0]):
        for g in range(levels.shape[0]):
            m = actions(parameters, t, states[i], levels[g], offered)
            first = step(parameters, t, states[i], levels[g], offered[0], d)
            for a in range(1, m):
                reward = step(parameters, t, states[i], levels[g], offered[a], d)
                if reward != first:
                    result[i] = True
                    break
            if result[i]:
                break
    return result


@njit(MATRIX(MATRIX, types.int64[::1], MATRIX, types.int64[:, ::1], MATRIX), cache=True)
def cash_flows(later, cells, rewards, places, weights):  # type: ignore[no-untyped-def]
    """(n, G) what each path earns from date t on at each level, by the actions chosen: the reward
    now and what it earns (n, H) later. Path i is in state cells[i] of the m chosen for."""
    result = np.empty((cells.size, rewards.shape[1]))
    for i in range(result.shape[0]):
        c = cells[i]
        for g in range(result.shape[1]):
            j, w = places[c, g], weights[c, g]
            flow = later[i, j]
            if w > 0.0:
                flow += w * (later[i, j + 1] - later[i, j])
            result[i, g] = rewards[c, g] + flow
    return result


# (n, X) states, scaled to mean 0 and deviation 1 on the paths of the fit -> (n, K) columns, the
# first of them ones
Basis: TypeAlias = Callable[[FloatArray], FloatArray]

Grids: TypeAlias = tuple[FloatArray, FloatArray]

# x that takes at most this many values is fitted by its means.
MOST_CELLS = 16
# A grid of more levels is thinned to this many.
MOST_LEVELS, THINNED = 2048, 201
# Levels that can be reached are looked for from this many of the states.
SCOUTS = 256


def quadratic(states: FloatArray) -> FloatArray:
    """1, x_i and x_i x_j (Eq. G.3)."""
    n, X = states.shape
    products = [states[:, i] * states[:, j] for i in range(X) for j in range(i, X)]
    return np.column_stack([np.ones(n), states, *products])


@dataclass(frozen=True)
class LeastSquares:
    """The policy of regression Monte Carlo.

    paths  on which it is fitted
    basis  of the regression on x
    """

    paths: int = 10_000
    basis: Basis = quadratic

    def __post_init__(self) -> None:
        whole_number(self.paths, "paths", minimum=2)

    name: ClassVar[str] = "least squares"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule fitted on paths of this seed."""
        return self.fit(model, seed).act

    def fit(
        self, model: ExogenousModel, seed: Seed = 0, progress: ProgressCallback | None = None
    ) -> Regression:
        """Backward regression over the dates; StoppedError where `progress` stops it."""
        from counterplan.planning.search.planners import kernel_of

        kernel = kernel_of(model, quantiles=0)
        paths = futures(model, self.paths, seed)
        grids = _grids(kernel, paths)
        flows = np.zeros((len(paths), len(grids[-1])))
        fits: list[_Fit] = []
        closed, watch = True, Watch("backward regression", progress=progress)
        for t in range(kernel.horizon - 1, -1, -1):
            fit, flows, on_grid = self._backward(
                kernel, t, paths[:, t], (grids[t], grids[t + 1]), flows
            )
            closed &= on_grid
            fits.append(fit)
            if watch.must_stop(len(fits), total=kernel.horizon):
                raise StoppedError(f"stopped at date t={t} of {kernel.horizon}: no policy yet")
        in_sample = estimate(sign_of(model) * flows[:, 0])
        return Regression(model, kernel, tuple(grids), tuple(reversed(fits)), in_sample, closed)

    def _backward(
        self, kernel: Kernel, t: int, states: FloatArray, grids: Grids, flows: FloatArray
    ) -> tuple[_Fit, FloatArray, bool]:
        """The fit of date t, the cash flows from t on, and whether all levels were on the grid."""
        states = _rows(states)
        distinct, cells = distinct_states(states)
        if len(distinct) <= MOST_CELLS:
            fit = _fit_cells(distinct, cells, flows)
        else:
            used = at_stake(*model_arguments(kernel), t, states, grids[0])
            fit = _fit_basis(self.basis, states, flows, used)
        waiting = fit.waiting(distinct)
        _, *chosen, closed = choose(*model_arguments(kernel), t, distinct, grids, waiting)
        return fit, cash_flows(flows, cells, *chosen), closed


@dataclass(frozen=True)
class Regression:
    """What a fit found.

    grids      T+1 arrays (G, D): the levels before each decision, and after the last
    in_sample  the mean cash flow on the paths of the fit: flattered by having been fitted to them
    closed     every action in every state led to a level of the grid
    """

    model: ExogenousModel
    kernel: Kernel
    grids: tuple[FloatArray, ...]
    fits: tuple[_Fit, ...]
    in_sample: Estimate
    closed: bool

    def act(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """The actions (n, A) that look best in (n, X), (n, D)."""

        states, resources = _rows(exogenous), _rows(resource)
        waiting = self.fits[t].waiting(states)
        model, ahead = model_arguments(self.kernel), (self.grids[t + 1], waiting)
        return np.asarray(choose_actions(*model, t, states, resources, ahead))

    def values(self, t: int, exogenous: FloatArray) -> FloatArray:
        """(n, G): max_a r_t + C_t in states (n, X) at every level of date t, to be maximised."""
        distinct, cells = distinct_states(exogenous)
        waiting = self.fits[t].waiting(distinct)
        grids = self.grids[t], self.grids[t + 1]
        values = choose(*model_arguments(self.kernel), t, distinct, grids, waiting)[0]
        return np.asarray(values[cells])

    def out_of_sample(self, paths: int = 10_000, seed: Seed = 1) -> Estimate:
        """The policy's value on fresh paths: an honest lower bound (upper, for costs)."""
        return estimate(follow(self.model, self.act, futures(self.model, paths, seed)))


@dataclass(frozen=True)
class _Fit:
    """C_t: by means of cells (centers (U, X)) or by a basis of (x - shift) / scale.

    coefficients  (U, H) or (K, H)
    low, high     (H,) the range of the cash flows
    """

    coefficients: FloatArray
    low: FloatArray
    high: FloatArray
    centers: FloatArray | None = None
    basis: Basis = quadratic
    shift: FloatArray | float = 0.0
    scale: FloatArray | float = 1.0

    def waiting(self, states: FloatArray) -> FloatArray:
        """(n, H) C_t in states (n, X)."""
        if self.centers is not None:
            distance = np.abs(states[:, np.newaxis] - self.centers).sum(axis=2)
            return np.ascontiguousarray(self.coefficients[distance.argmin(axis=1)])
        fitted = self.basis((states - self.shift) / self.scale) @ self.coefficients
        return np.ascontiguousarray(np.clip(fitted, self.low, self.high))


def _fit_cells(distinct: FloatArray, cells: IntArray, flows: FloatArray) -> _Fit:
    means = np.array([flows[cells == cell].mean(axis=0) for cell in range(len(distinct))])
    return _Fit(means, flows.min(axis=0), flows.max(axis=0), centers=distinct)


def _fit_basis(basis: Basis, states: FloatArray, flows: FloatArray, used: Any) -> _Fit:
    low, high = flows.min(axis=0), flows.max(axis=0)
    x, y = states[used], flows[used]
    if len(x) < MOST_CELLS:
        x, y = states, flows
    shift, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
    columns = basis((x - shift) / scale)
    n = len(columns)
    coefficients, _, rank, _ = np.linalg.lstsq(columns, y, rcond=None)
    unexplained = ((y - columns @ coefficients) ** 2).sum(axis=0)
    total = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    # n log(RSS_mean / RSS_basis) > (rank - 1) log n, without the division.
    chance = total <= unexplained * np.exp((rank - 1) * np.log(n) / n)
    coefficients[:, chance] = 0.0
    coefficients[0, chance] = y.mean(axis=0)[chance]
    return _Fit(coefficients, low, high, None, basis, shift, scale)


def _grids(kernel: Kernel, paths: FloatArray) -> list[FloatArray]:
    """The levels that can be reached before each decision, and after the last."""
    start = kernel.resource
    grids = [_rows(start[np.newaxis])]
    for t in range(paths.shape[1]):
        distinct, _ = distinct_states(paths[:, t])
        scouts = distinct[:: max(1, len(distinct) // SCOUTS)].copy()
        found = np.empty((MOST_LEVELS, len(start)))
        count = reachable(*model_arguments(kernel), t, scouts, grids[-1], found)
        if count < 0 and len(start) > 1:
            raise NotApplicableError(
                f"more than {MOST_LEVELS} resource levels can be reached after t={t}: regression "
                "over a resource grid needs fewer actions, or one resource only"
            )
        thinned = np.linspace(found[0], found[-1], THINNED) if count < 0 else found[:count].copy()
        grids.append(thinned)
    return grids


def distinct_states(states: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct states (m, X) and which of them each of (n, X) is; all of them, where many."""
    states = _rows(states)
    some = np.unique(states[:: max(1, len(states) // 64)].round(9), axis=0)
    if len(some) > MOST_CELLS:
        return states, np.arange(len(states))
    _, first, cells = np.unique(states.round(9), axis=0, return_index=True, return_inverse=True)
    return states[first], cells.ravel().astype(np.int64)


def model_arguments(kernel: Kernel) -> tuple[Any, Any, tuple[FloatArray, FloatArray]]:
    """The model as the compiled functions take it."""
    offered = np.empty((kernel.most_actions, kernel.action_size))
    return kernel.actions, kernel.step, (kernel.parameters, offered)


def _rows(states: FloatArray) -> FloatArray:
    return np.ascontiguousarray(states, dtype=np.float64)
