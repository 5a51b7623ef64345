"""Tables of bounds on the expected cost to go, for every port and every arrival of the grid.

    below   the mean hindsight cost over sampled futures
    above   the cost of a policy: the plan that is optimal for expected prices, executed, whose cost
            is its plug-in cost (the levels are deterministic and costs linear), or that plan
            re-solved at every port; both exact, no samples

Sampled is only what re-solving costs more than hindsight on the same path: its exact expected cost,
less the mean of that regret, is the mean hindsight cost with most of the noise gone, and never
above the cost of the policy. What noise is left is allowed for by MARGIN standard errors.

Prices that multiply: all costs in units of the price before. A fixed cost does not scale, so bounds
are kept in two parts, proportional to that price and constant; below, the constant part is K times
the fewest purchases that suffice, above, K for every port left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray, Seed, whole_number
from counterplan.domains.bunkering_exact import VoyageValue
from counterplan.domains.bunkering_levels import Levels
from counterplan.domains.bunkering_prices import dependence, law_of_means, price_law
from counterplan.errors import NotApplicableError

if TYPE_CHECKING:
    from counterplan.domains.bunkering import Bunkering

MARGIN = 3.0


def plan_costs(problem: Bunkering) -> FloatArray:
    """(T + 1, N) cost of the expected-price plan from every arrival on, before its price is known;
    0 where prices are neither independent nor multiply."""
    if dependence(problem.process) == "other":
        return np.zeros_like(problem.levels.arrivals)
    return _on_grid(_plan(problem))


def bound_tables(problem: Bunkering, samples: int, seed: Seed) -> FloatArray:
    """Four tables (T + 1, N): below and above, each proportional and constant; flat."""
    from counterplan.domains.bunkering_kernel import mean_regrets

    whole_number(samples, "samples", minimum=2)
    kind = dependence(problem.process)
    if kind == "other":
        raise NotApplicableError(
            f"prices of {type(problem.process).__name__} are neither independent nor do they "
            "multiply, so bounds by level alone do not hold; plan without clipping"
        )
    levels, T, scaled = problem.levels, problem.horizon, kind == "multiplies"
    plan = _plan(problem)
    resolved = VoyageValue.solve(levels, plan.fixed_cost, price_law(problem.process, T), plan)
    expected = _on_grid(plan)
    paths = np.ascontiguousarray(problem.sample_paths(samples, seed)[:, :, 0])
    regret, error = mean_regrets(paths, levels, plan.fixed_cost, scaled, expected)
    below = _on_grid(resolved) - regret - MARGIN * error
    above = expected if problem.executed == "open-loop" else _on_grid(resolved)
    constant_below = constant_above = np.zeros_like(below)
    if scaled and problem.fixed_cost > 0:
        constant_below = problem.fixed_cost * _fewest_purchases(levels)
        left = np.arange(T, -1.0, -1.0)[:, None]
        constant_above = np.broadcast_to(problem.fixed_cost * left, below.shape)
    tables = [below, constant_below, above, constant_above]
    return np.concatenate([table.ravel() for table in tables])


def _fewest_purchases(levels: Levels) -> FloatArray:
    """(T + 1, N) how often at least fuel must be bought from every arrival on."""
    from counterplan.domains.bunkering_kernel import backward

    counts = np.empty(levels.arrivals.shape)
    backward(np.zeros(len(levels.legs)), levels, 1.0, counts, np.empty(counts.shape, np.int64))
    return counts


def _plan(problem: Bunkering) -> VoyageValue:
    """The expected-price plan; where prices multiply, for the fuel alone."""
    law = law_of_means(problem.process, problem.horizon)
    return VoyageValue.solve(problem.levels, 0.0 if law.scaled else problem.fixed_cost, law)


def _on_grid(value: VoyageValue) -> FloatArray:
    arrivals = value.levels.arrivals
    return np.nan_to_num([value.before(t, row) for t, row in enumerate(arrivals)])
