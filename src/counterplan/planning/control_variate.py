"""Results without luck: a control variate that knows the problem.

What a policy earns on a path is its value plus luck. With penalties z (`information_relaxation`),

    sum_t r_t - z_t        has the same mean as   sum_t r_t        and hardly any variance

where V is close to V*: with V* itself the optimal policy earns exactly V* on every path, and any
other V* minus what its decisions cost. Two players on the same paths are then told apart by a
fraction of the futures that plain paired differences need. The penalties depend on the paths and
the seed only, so they are the same for both.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, generator
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.model import ExogenousModel
from counterplan.planning.information_relaxation import DRAWS, FIT_PATHS, penalty
from counterplan.planning.least_squares import LeastSquares

# A level this far from the grid is not on it.
OFF_GRID = 1e-6


@runtime_checkable
class KnowsLuck(Protocol):
    """A model with better penalties of its own."""

    def without_luck(self, paths: FloatArray, actions: FloatArray) -> FloatArray:
        """(n,) results of actions (n, T, A) along paths (n, T, X), penalised."""
        ...


def without_luck(
    problem: ExogenousModel, paths: FloatArray, actions: FloatArray, seed: Seed = 0
) -> FloatArray:
    """(n,) what actions (n, T, A) earned along paths (n, T, X) from the start, without luck.

    The actions must have been chosen without foresight, from those the problem offers.
    """
    if len(paths) != len(actions) or paths.shape[1] != actions.shape[1]:
        raise InputError(
            f"paths {paths.shape} and actions {actions.shape} must agree in episodes and steps"
        )
    if isinstance(problem, KnowsLuck):
        return problem.without_luck(paths, actions)
    rng = generator(seed)
    fit = LeastSquares(FIT_PATHS).fit(problem, rng)
    sign = 1.0 if problem.sense == "max" else -1.0
    resources = np.tile(problem.start.resource, (len(paths), 1))
    totals = np.zeros(len(paths))
    for t in range(paths.shape[1]):
        now = np.ascontiguousarray(paths[:, t])
        rewards, resources = problem.step(t, now, resources, actions[:, t])
        levels = _places(fit.grids[t + 1], resources, t)
        paid = penalty(fit, t, paths, DRAWS, rng)[np.arange(len(paths)), levels]
        totals += rewards - sign * paid
    return totals


def _places(grid: FloatArray, resources: FloatArray, t: int) -> IntArray:
    """(n,) the rows of the grid (H, D) that resources (n, D) are."""
    distinct, which = np.unique(resources.round(9), axis=0, return_inverse=True)
    distances = np.abs(distinct[:, np.newaxis] - grid).sum(axis=2)
    if distances.min(axis=1).max() > OFF_GRID:
        off = distinct[int(distances.min(axis=1).argmax())]
        raise NotApplicableError(
            f"the level {off.tolist()} after t={t} cannot be reached by the problem's own actions: "
            "compare plain outcomes instead"
        )
    return np.asarray(distances.argmin(axis=1)[which.ravel()])
