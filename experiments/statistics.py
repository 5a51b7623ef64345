"""Averages with confidence intervals, and how many explanations there are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.explain import Frontier

# The normal quantile of a two-sided 95 % interval.
QUANTILE_95 = 1.959963984540054


class Average(NamedTuple):
    """Means of n realizations for each budget k, and the ends of their 95 % intervals."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    n: int

    def rows(self) -> list[dict[str, Any]]:
        """One row of a table for each k."""
        ends = zip(self.mean, self.low, self.high, strict=True)
        return [
            {"k": k, "mean": mean, "low": low, "high": high, "n": self.n}
            for k, (mean, low, high) in enumerate(ends)
        ]


def average(values: ArrayLike) -> Average:
    """Over realizations, (n, K + 1); a single one has no spread, so its interval is a point."""
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    mean = array.mean(axis=0)
    spread = array.std(axis=0, ddof=1) if n > 1 else np.zeros_like(mean)
    half = QUANTILE_95 * spread / np.sqrt(n)
    return Average(mean, mean - half, mean + half, n)


def count_unique(
    optimal: Frontier[PolicyExplanation], realizations: int, rng: np.random.Generator
) -> IntArray:
    """(K + 1,) distinct action sequences other than the observed one, among that many
    realizations of each budget's policy."""
    counts = []
    for explanation in optimal:
        sequences = np.unique(explanation.sample(realizations, rng).actions, axis=0)
        differs = (sequences != explanation.episode.actions).any(axis=1)
        counts.append(int(differs.sum()))
    return np.array(counts)
