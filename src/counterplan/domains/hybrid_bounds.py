"""Tables of bounds on the expected value after every step, by its mode and the tanks after it.

    above   the mean of hindsight over sampled futures of the modes; one backward pass along a path
            values all tanks at once, from every step on
    below   policies, evaluated exactly: open loops that use one fuel first, or greedy

Sampled is only what hindsight earns more than greedy on the same path: greedy's exact value and the
mean of that regret give the mean of hindsight with most of the noise gone; what is left is allowed
for by MARGIN standard errors. Where modes are observed, the better of the two open loops may be
chosen once the next mode is seen; where they are hidden, each is a bound of its own, linear in the
belief.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray, whole_number

if TYPE_CHECKING:
    from counterplan.domains.hybrid import HybridVehicle

MARGIN = 3.0


def bound_tables(
    problem: HybridVehicle, samples: int, generator: np.random.Generator
) -> FloatArray:
    """1 + K tables (T, S, c + 1, c + 1), flat; samples: paths, as many from every mode."""
    from counterplan.domains.hybrid_exact import sum_regrets

    S, T = len(problem.road.matrix), problem.horizon
    each = -(-whole_number(samples, "samples", minimum=2) // S)
    starts = np.eye(S)
    paths = [problem.chain.sample_paths(each, T, generator, 0, start) for start in starts]
    modes = np.concatenate([path.argmax(axis=2) for path in paths])
    above = problem.rule_values("greedy")[:T] + _raised(*sum_regrets(problem.road, modes))
    below = _executed(problem)
    # A bound that is met exactly must not be crossed by rounding.
    tables = [np.maximum.reduce([above, *below]), *below]
    return np.concatenate([_after(problem.road.matrix, table).ravel() for table in tables])


def _raised(sums: FloatArray, squares: FloatArray, counts: FloatArray) -> FloatArray:
    """Means and MARGIN standard errors; infinite where fewer than two paths passed."""
    n = np.maximum(counts, 2.0)[:, :, None, None]
    means = sums / n
    errors = np.sqrt(np.maximum(squares / n - means**2, 0.0) / (n - 1.0))
    return np.where(counts[:, :, None, None] < 2, np.inf, means + MARGIN * errors)


def _executed(problem: HybridVehicle) -> list[FloatArray]:
    """K tables (T, S, c + 1, c + 1) of policies' values before each step."""
    T = problem.horizon
    if problem.executed == "greedy":
        return [problem.rule_values("greedy")[:T]]
    orders = [problem.rule_values("gas-first")[:T], problem.rule_values("electric-first")[:T]]
    return orders if problem.hidden else [np.maximum(*orders)]


def _after(matrix: FloatArray, values: FloatArray) -> FloatArray:
    """(T, S, c + 1, c + 1) expected values after each step, given values before each."""
    from counterplan.domains.hybrid_exact import expected_ahead

    after = np.zeros_like(values)
    for t in range(len(values) - 1):
        after[t] = expected_ahead(matrix, values[t + 1])
    return after
