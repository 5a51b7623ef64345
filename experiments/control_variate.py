"""What players earned without what they owe to chance alone: penalties as a control variate.

With the penalties z of `planning.bounds`,

    sum_t r_t - z_t        has the same mean as   sum_t r_t        and hardly any variance

where V is close to V*: with V* itself the optimal policy earns exactly V* on every path, and any
other V* minus what its decisions cost. Two players on the same paths are then told apart by a
fraction of the futures that plain paired differences need. The penalties depend on the paths and
the seed only, so they are the same for both. Those of options are the martingales of their own
optimal values: without a cap the optimal policy earns V* on every path.
"""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, generator
from counterplan.domains.options import OptionProblem
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.bounds import DRAWS, FIT_PATHS, penalty
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.model import ExogenousModel, sign_of
from counterplan.planning.policies import play

# A level this far from the grid is not on it.
OFF_GRID = 1e-6


def controlled_outcomes(
    problem: ExogenousModel, paths: FloatArray, actions: FloatArray, seed: Seed = 0
) -> FloatArray:
    """(n,) what actions (n, T, A) earned along paths (n, T, X) from the start, without luck.

    The actions must have been chosen without foresight, from those the problem offers.
    """
    if len(paths) != len(actions) or paths.shape[1] != actions.shape[1]:
        raise InputError(
            f"paths {paths.shape} and actions {actions.shape} must agree in episodes and steps"
        )
    if isinstance(problem, OptionProblem):
        gains, never, _ = problem.without_luck(paths)
        return np.asarray((actions * gains).sum(axis=(1, 2)) + never.sum(axis=1))
    rng = generator(seed)
    fit = LeastSquares(FIT_PATHS).fit(problem, rng)
    found = play(problem, lambda t, x, d: actions[:, t - problem.start.t], paths)
    totals, rows = np.zeros(len(paths)), np.arange(len(paths))
    for t in range(paths.shape[1]):
        levels = _places(fit.grids[t + 1], found.levels[:, t + 1], t)
        paid = penalty(fit, t, paths, DRAWS, rng)[rows, levels]
        totals += found.rewards[:, t] - sign_of(problem) * paid
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
