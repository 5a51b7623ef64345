"""What the optimal value lies between.

With foresight one does at least as well as the optimal policy, with any policy at most as well:

    rewards:  E[policy] <= V* <= E[hindsight]         costs:  E[hindsight] <= V* <= E[policy]

'plain'  hindsight as it is, and the plan that is optimal for expected values, executed on the same
         paths. The mean over paths converges to E[hindsight], not to V*: the paper's Thm. 1
         (A.34-A.36) equates the two, but they differ, on bunkering by 13 % of V*
'tight'  hindsight that pays for knowing the future (dual), and the policy of regression Monte Carlo
         (least_squares); each model's best penalties

'cuts'   where steps are linear programs under a chain with few values: both sides by dual dynamic
         programming, the one by cuts without any error

Tight bounds by information relaxation (Brown, Smith and Sun 2010): for any function V_t(x, d), with
z_t = V_{t+1}(x_{t+1}, d_{t+1}) - E[V_{t+1}(., d_{t+1}) | x_t],

    V* <= E[ max over actions, the whole path known, of  sum_t r_t - z_t ]             hindsight
    V* >= E[ sum_t r_t - z_t  along any policy without foresight ]                     executed

since z has mean zero for whoever does not know the future. With V = V* both sides are V* on every
path: z charges hindsight for what it should not know, and takes the luck out of the policy. Here
V_t = max_a r_t + C_t with the C_t of regression Monte Carlo, whose rule is the policy, and the left
side is a dynamic program over the resource levels of each path. The conditional mean is exact where
x_{t+1} takes finitely many values. Else it is the mean of a few fresh draws: still unbiased, so
both bounds hold; the draws are the same for all levels, and their noise, which widens the interval,
all but cancels where levels are compared. Both bounds are those of the best policy among the
model's own actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np

from counterplan.core.limits import ProgressCallback, Watch
from counterplan.core.validation import FloatArray, Seed, generator, whole_number
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.hindsight import allocate
from counterplan.planning.least_squares import (
    LeastSquares,
    Regression,
    best_values,
    cash_flows,
    choose,
    distinct_states,
    model_arguments,
)
from counterplan.planning.model import Compiled, ExogenousModel, State, estimate, sign_of
from counterplan.planning.policies import OpenLoop, follow, futures

# Paths to fit on, and draws per state where the conditional mean has no closed form; fewer for
# plain Python models, which are slower: the bounds hold with any number, only wider apart.
FIT_PATHS, DRAWS = 10_000, 64
PLAIN_FIT_PATHS, PLAIN_DRAWS = 1_000, 8
# Futures between two calls of `progress`.
AT_ONCE = 512
# Numbers held at once while averaging over the draws.
CHUNK = 4_000_000
# Means without any spread are still sums of rounded numbers.
ROUNDING = 1e-12
Method: TypeAlias = Literal["plain", "tight", "cuts"]


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


def penalised(
    model: ExogenousModel,
    samples: int = 2000,
    seed: Seed = 0,
    progress: ProgressCallback | None = None,
) -> Penalised:
    """Both bounds on fresh paths, by the model's own penalties or by regression."""
    samples = whole_number(samples, "samples", minimum=2)
    if isinstance(model, HasDual):
        return model.penalised(samples, seed)
    rng = generator(seed)
    compiled = isinstance(model, Compiled)
    fit = LeastSquares(FIT_PATHS if compiled else PLAIN_FIT_PATHS).fit(model, rng, progress)
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
    rng, model = generator(seed), model_arguments(fit.kernel)
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
    sign = sign_of(fit.model)
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
    kernel = fit.kernel
    if kernel.most_successors:
        distinct, cells = distinct_states(states)
        most = kernel.most_successors
        values, chances = np.empty((most, distinct.shape[1])), np.empty(most)
        after, odds, parents = [], list[float](), list[int]()
        for i, x in enumerate(distinct):
            M = kernel.successors(kernel.parameters, t, x, values, chances)
            after.append(values[:M].copy())
            odds += chances[:M].tolist()
            parents += [i] * M
        weighted = np.array(odds)[:, np.newaxis] * fit.values(t + 1, np.concatenate(after))
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


@dataclass(frozen=True)
class ValueBounds:
    """lower <= V* <= upper, up to the Monte Carlo errors of the two.

    lower         a mean over sampled futures
    lower_se      its standard error
    lower_method  what it is the value of
    upper         a mean over sampled futures
    upper_se      its standard error
    upper_method  what it is the value of
    samples       how many futures
    """

    lower: float
    lower_se: float
    lower_method: str
    upper: float
    upper_se: float
    upper_method: str
    samples: int

    def __repr__(self) -> str:
        ends = f"lower={self.lower:.6g} (se {self.lower_se:.3g}), upper={self.upper:.6g}"
        return f"ValueBounds({ends} (se {self.upper_se:.3g}), samples={self.samples})"

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Contains V* with at least this probability, both means taken as normal."""
        if not 0.0 < confidence < 1.0:
            raise InputError(f"confidence must lie between 0 and 1, got {confidence}")
        z = NormalDist().inv_cdf(0.5 + confidence / 2)
        rounding = ROUNDING * max(abs(self.lower), abs(self.upper))
        below, above = z * self.lower_se + rounding, z * self.upper_se + rounding
        return self.lower - below, self.upper + above


def value_bounds(
    problem: ExogenousModel,
    samples: int = 2000,
    seed: Seed = 0,
    method: Method = "plain",
    state: State | None = None,
    progress: ProgressCallback | None = None,
) -> ValueBounds:
    """Bounds on the optimal value in a state (default: the start), each with its standard error.

    method    'tight' and 'cuts' are for the start only
    progress  called for some futures at a time; False stops, with bounds from the futures so far
              ('tight': while the regression is fitted, and raises StoppedError)
    """
    if method not in get_args(Method):
        raise InputError(f"method {method!r} is unknown: choose 'plain', 'tight' or 'cuts'")
    samples = whole_number(samples, "samples")
    if samples < 2:
        raise InputError(f"samples must be at least 2 to have a standard error, got {samples}")
    if method == "plain":
        watch = None if progress is None else Watch("futures", progress=progress)
        found = _plain(problem, samples, seed, state, watch)
    elif method == "cuts" and state is None:
        return _by_cuts(problem, samples, seed, progress)
    elif state is None:
        found = penalised(problem, samples, seed, progress)
    else:
        raise NotApplicableError(f"{method} bounds are for the start: use method='plain'")
    executed, hindsight, policy, foresight = found
    samples = len(executed)
    below, above = estimate(executed), estimate(hindsight)
    if problem.sense == "min":
        below, above, policy, foresight = above, below, foresight, policy
    return ValueBounds(*below, policy, *above, foresight, samples)


def _by_cuts(
    problem: ExogenousModel, samples: int, seed: Seed, progress: ProgressCallback | None
) -> ValueBounds:
    from counterplan.planning.cuts import Cuts

    found = Cuts(samples=samples).solve(problem, seed, progress)
    if not found.training.lattice.exact:
        raise NotApplicableError(
            "cuts bound the value where x takes few values, and here the chain was sampled; use "
            "method='plain', or policies.Cuts().solve(problem) for the bound of that chain"
        )
    cuts, policy = (found.bound, 0.0, found.method), (found.value, found.se, "the policy of cuts")
    low, high = (policy, cuts) if problem.sense == "max" else (cuts, policy)
    return ValueBounds(*low, *high, samples)


def _plain(
    problem: ExogenousModel, samples: int, seed: Seed, state: State | None, watch: Watch | None
) -> Penalised:
    """Hindsight and the executed plan; with a watch, `AT_ONCE` futures at a time."""
    rule = OpenLoop().prepare(problem, state=state)
    paths = futures(problem, samples, generator(seed), state)
    size = samples if watch is None else AT_ONCE
    executed, hindsight, method = [], [], ""
    for first in range(0, samples, size):
        some = paths[first : first + size]
        known = allocate(problem, some, state=state)
        executed.append(follow(problem, rule, some, state))
        hindsight.append(known.values)
        method = known.method
        if watch is not None and watch.must_stop(first + len(some), total=samples):
            break
    outcomes = (np.concatenate(executed), np.concatenate(hindsight))
    return Penalised(*outcomes, "executed open loop", f"hindsight ({method})")
