"""Bounds on V* from both sides by information relaxation (Brown, Smith and Sun 2010).

For any function V_t(x, d), with z_t = V_{t+1}(x_{t+1}, d_{t+1}) - E[V_{t+1}(., d_{t+1}) | x_t],

    V* <= E[ max over actions, the whole path known, of  sum_t r_t - z_t ]             hindsight
    V* >= E[ sum_t r_t - z_t  along any policy without foresight ]                     executed

since z has mean zero for whoever does not know the future. With V = V* both sides are V* on every
path: z charges hindsight for what it should not know, and takes the luck out of the policy.
Here V_t = max_a r_t + C_t with the C_t of regression Monte Carlo, whose rule is the policy, and the
left side is a dynamic program over the resource levels of each path.

The conditional mean is exact where x_{t+1} takes finitely many values. Else it is the mean of a few
fresh draws: still unbiased, so both bounds hold; the draws are the same for all levels, and their
noise, which widens the interval, all but cancels where levels are compared.

Both bounds are those of the best policy among the model's own actions.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import NotApplicableError
from counterplan.exogenous.model import Compiled, ExogenousModel
from counterplan.planning.least_squares import LeastSquares, Regression, called, distinct_states
from counterplan.planning.playing import futures

# Paths to fit on, and draws per state where the conditional mean has no closed form; fewer for
# plain Python models, which are slower: the bounds hold with any number, only wider apart.
FIT_PATHS, DRAWS = 10_000, 64
PLAIN_FIT_PATHS, PLAIN_DRAWS = 1_000, 8
# Numbers held at once while averaging over the draws.
CHUNK = 4_000_000


class Penalised(NamedTuple):
    """Samples whose means bound V*, in the model's sense, path by path.

    executed   (n,) of a policy without foresight
    hindsight  (n,) of the best with foresight, paying for it
    policy     what was executed
    penalty    what hindsight paid
    """

    executed: FloatArray
    hindsight: FloatArray
    policy: str
    penalty: str


@runtime_checkable
class HasDual(Protocol):
    """A model that knows better penalties than the general ones."""

    def penalised(self, samples: int, seed: Seed) -> Penalised:
        """Both bounds on `samples` fresh paths."""
        ...


def penalised(model: ExogenousModel, samples: int = 2000, seed: Seed = 0) -> Penalised:
    """Both bounds on fresh paths, by the model's own penalties or by regression."""
    samples = whole_number(samples, "samples", minimum=2)
    if isinstance(model, HasDual):
        return model.penalised(samples, seed)
    rng = generator(seed)
    compiled = isinstance(model, Compiled)
    fit = LeastSquares(FIT_PATHS if compiled else PLAIN_FIT_PATHS).fit(model, rng)
    return penalised_by(fit, samples, rng, DRAWS if compiled else PLAIN_DRAWS)


def penalised_by(fit: Regression, samples: int, seed: Seed = 0, draws: int = DRAWS) -> Penalised:
    """Both bounds with the value function of a regression, on paths other than those of the fit.

    draws  fresh ones per state, where the conditional mean has no closed form
    """
    if not fit.closed:
        raise NotApplicableError(
            "a penalised hindsight bound needs every action to lead to a level of the resource "
            "grid, and here levels lie in between; value_bounds(method='plain') applies"
        )
    from counterplan.planning.regression_kernel import best_values, cash_flows, choose

    rng, model = generator(seed), called(fit.kernel)
    paths = futures(fit.model, samples, rng)
    executed = np.zeros((samples, len(fit.grids[-1])))
    hindsight = executed
    for t in range(paths.shape[1] - 1, -1, -1):
        paid = penalty(fit, t, paths, draws, rng)
        distinct, cells = distinct_states(paths[:, t])
        grids = fit.grids[t], fit.grids[t + 1]
        waiting = fit.fits[t].waiting(distinct)
        _, rewards, places, weights, _ = choose(*model, t, distinct, grids, waiting)
        executed = cash_flows(executed - paid, cells, rewards, places, weights)
        order = np.argsort(cells, kind="stable")
        firsts = np.searchsorted(cells[order], np.arange(len(distinct) + 1))
        ahead = firsts, np.ascontiguousarray((hindsight - paid)[order].T)
        hindsight = np.empty((samples, len(grids[0])))
        hindsight[order] = best_values(*model, t, distinct, grids, ahead).T
    sign = 1.0 if fit.model.sense == "max" else -1.0
    how = "regression over the resource grid"
    return Penalised(
        sign * executed[:, 0],
        sign * hindsight[:, 0],
        f"least squares ({how}), penalties as control variate",
        f"hindsight minus martingale penalties ({how})",
    )


def penalty(
    fit: Regression, t: int, paths: FloatArray, draws: int, rng: np.random.Generator
) -> FloatArray:
    """(n, H) z_t at every level of date t + 1."""
    if t == paths.shape[1] - 1:
        return np.zeros((len(paths), len(fit.grids[-1])))
    return fit.values(t + 1, paths[:, t + 1]) - _mean_after(fit, t, paths[:, t], draws, rng)


def _mean_after(
    fit: Regression, t: int, states: FloatArray, draws: int, rng: np.random.Generator
) -> FloatArray:
    """(n, H) E[V_{t+1}(x_{t+1}, .) | x_t], exact or by draws."""
    from counterplan.planning.regression_kernel import supports

    kernel = fit.kernel
    if kernel.most_successors:
        distinct, cells = distinct_states(states)
        after, odds, parents = supports(
            kernel.successors, kernel.parameters, t, distinct, kernel.most_successors
        )
        weighted = odds[:, np.newaxis] * fit.values(t + 1, after)
        means = np.zeros((len(distinct), weighted.shape[1]))
        np.add.at(means, parents, weighted)
        return np.asarray(means[cells])
    H = len(fit.grids[t + 1])
    result = np.empty((len(states), H))
    size = max(1, CHUNK // (draws * H))
    for first in range(0, len(states), size):
        some = np.repeat(states[first : first + size], draws, axis=0)
        values = fit.values(t + 1, fit.model.draw(t, some, rng))
        result[first : first + size] = values.reshape(-1, draws, H).mean(axis=1)
    return result
