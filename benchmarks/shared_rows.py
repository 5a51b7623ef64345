"""How far outside the worst case over row sets lies where steps share rows: `python -m
benchmarks.shared_rows` in the repository's root.

`value_interval(..., rows=...)` gives every step the row that is worst for it. Where two steps share
a row, both cannot have their worst at once. On problems of two states every row is one number, and
the worst over rows that are the same at all steps can be searched: a grid of three values for each
of the four rows, ends included, with the worst causal model for each.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import evaluate
from counterplan.counterfactual.discrete.laws import Law
from counterplan.testing import random_episode

PROBLEMS, STEPS, K, POINTS = 20, 5, 2, 3


def widths(seed: int, gamma: float) -> tuple[float, float]:
    """Of the interval over rows of every step, and over rows that are the same at all."""
    rng = np.random.default_rng(seed)
    first, rewards = rng.uniform(0.2, 0.8, size=(2, 2)), rng.normal(size=(2, 2))
    mdp = cp.TabularMDP(np.stack([first, 1.0 - first], axis=2), rewards)
    episode = random_episode(rng, mdp, STEPS)
    found = cp.explain(mdp, episode, K)
    outer = cp.value_interval(mdp, episode, found, rows=cp.RowSets.gamma(mdp, gamma))
    # Both entries of a row must lie in their limits.
    low = np.maximum(first / gamma, 1.0 - np.minimum(1.0, gamma * (1.0 - first)))
    high = np.minimum(np.minimum(1.0, gamma * first), 1.0 - (1.0 - first) / gamma)
    grids = [np.linspace(a, b, POINTS) for a, b in zip(low.ravel(), high.ravel(), strict=True)]
    ends = []
    for point in itertools.product(*grids):
        rows = np.reshape(point, (2, 2))
        other = cp.TabularMDP(np.stack([rows, 1.0 - rows], axis=2), rewards)
        setting, _ = prepare(Problem(other, episode, K))
        for up in (False, True):
            law = Law(other, episode, 1.0, "none", up)
            ends.append(float(evaluate(setting, law, found.process.table)[K]))
    return outer.width, max(ends) - min(ends)


def main() -> int:
    """Print the mean widths."""
    for gamma in (1.2, 1.5):
        both = np.array([widths(seed, gamma) for seed in range(PROBLEMS)])
        both = both[both[:, 1] > 1e-9]  # where anything is open at all
        ratio = both[:, 0] / both[:, 1]
        print(
            f"Gamma {gamma}: width {both[:, 0].mean():.3f} with rows of every step, "
            f"{both[:, 1].mean():.3f} with shared rows; wider by {ratio.mean() - 1:.1%} "
            f"on average, {ratio.max() - 1:.1%} at most, over {len(both)} problems",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
