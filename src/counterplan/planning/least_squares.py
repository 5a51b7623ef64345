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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.errors import NotApplicableError
from counterplan.exogenous.model import ExogenousModel
from counterplan.planning.estimate import Estimate, estimate
from counterplan.planning.playing import follow, futures
from counterplan.planning.policy import Rule

if TYPE_CHECKING:
    from counterplan.planning.kernel import Kernel

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

    @property
    def name(self) -> str:
        return "least squares"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule fitted on paths of this seed."""
        return self.fit(model, seed).act

    def fit(self, model: ExogenousModel, seed: Seed = 0) -> Regression:
        """Backward regression over the dates."""
        from counterplan.planning.preparation import kernel_of

        kernel = kernel_of(model, quantiles=0)
        paths = futures(model, self.paths, seed)
        grids = _grids(kernel, paths)
        flows = np.zeros((len(paths), len(grids[-1])))
        fits: list[_Fit] = []
        closed = True
        for t in range(kernel.horizon - 1, -1, -1):
            fit, flows, on_grid = self._backward(
                kernel, t, paths[:, t], (grids[t], grids[t + 1]), flows
            )
            closed &= on_grid
            fits.append(fit)
        sign = 1.0 if model.sense == "max" else -1.0
        in_sample = estimate(sign * flows[:, 0])
        return Regression(model, kernel, tuple(grids), tuple(reversed(fits)), in_sample, closed)

    def _backward(
        self, kernel: Kernel, t: int, states: FloatArray, grids: Grids, flows: FloatArray
    ) -> tuple[_Fit, FloatArray, bool]:
        """The fit of date t, the cash flows from t on, and whether all levels were on the grid."""
        from counterplan.planning.regression_kernel import at_stake, cash_flows, choose

        states = _rows(states)
        distinct, cells = distinct_states(states)
        if len(distinct) <= MOST_CELLS:
            fit = _fit_cells(distinct, cells, flows)
        else:
            used = at_stake(*called(kernel), t, states, grids[0])
            fit = _fit_basis(self.basis, states, flows, used)
        waiting = fit.waiting(distinct)
        _, rewards, places, weights, closed = choose(*called(kernel), t, distinct, grids, waiting)
        return fit, cash_flows(flows, cells, rewards, places, weights), closed


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
        from counterplan.planning.regression_kernel import choose_actions

        states, resources = _rows(exogenous), _rows(resource)
        waiting = self.fits[t].waiting(states)
        ahead = self.grids[t + 1], waiting
        return np.asarray(choose_actions(*called(self.kernel), t, states, resources, ahead))

    def values(self, t: int, exogenous: FloatArray) -> FloatArray:
        """(n, G): max_a r_t + C_t in states (n, X) at every level of date t, to be maximised."""
        from counterplan.planning.regression_kernel import choose

        distinct, cells = distinct_states(exogenous)
        waiting = self.fits[t].waiting(distinct)
        grids = self.grids[t], self.grids[t + 1]
        values = choose(*called(self.kernel), t, distinct, grids, waiting)[0]
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
    counts = np.bincount(cells)
    sums = np.zeros((len(distinct), flows.shape[1]))
    for cell in range(len(distinct)):
        sums[cell] = flows[cells == cell].sum(axis=0)
    means = sums / counts[:, np.newaxis]
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
    from counterplan.planning.regression_kernel import reachable

    start = kernel.resource
    grids = [_rows(start[np.newaxis])]
    for t in range(paths.shape[1]):
        distinct, _ = distinct_states(paths[:, t])
        scouts = distinct[:: max(1, len(distinct) // SCOUTS)].copy()
        room = np.empty((MOST_LEVELS, len(start)))
        count = reachable(*called(kernel), t, scouts, grids[-1], room)
        if count < 0 and len(start) > 1:
            raise NotApplicableError(
                f"more than {MOST_LEVELS} resource levels can be reached after t={t}: regression "
                "over a resource grid needs fewer actions, or one resource only"
            )
        if count < 0:
            grids.append(np.linspace(room[0], room[-1], THINNED))
        else:
            grids.append(room[:count].copy())
    return grids


def distinct_states(states: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct states (m, X) and which of them each of (n, X) is; all of them, where many."""
    states = _rows(states)
    some = np.unique(states[:: max(1, len(states) // 64)].round(9), axis=0)
    if len(some) > MOST_CELLS:
        return states, np.arange(len(states))
    _, first, cells = np.unique(states.round(9), axis=0, return_index=True, return_inverse=True)
    return states[first], cells.ravel().astype(np.int64)


def called(kernel: Kernel) -> tuple[Any, Any, tuple[FloatArray, FloatArray]]:
    """The model as the functions of `regression_kernel` take it."""
    room = np.empty((kernel.most_actions, kernel.action_size))
    return kernel.actions, kernel.step, (kernel.parameters, room)


def _rows(states: FloatArray) -> FloatArray:
    return np.ascontiguousarray(states, dtype=np.float64)
