"""Belief-MDP value iteration for hidden modes (F.2, Eq. F.3-F.6), the classical baseline.

The belief b about the mode follows Bayes' rule (F.4) whatever is done, so on a grid of beliefs,
with each belief that follows replaced by a mixture of grid points, it is a Markov chain:

    V_t(b, d) = max_a [ <sum_m b(m) mileage_m, a> + sum_o P(o | b) sum_i w_i(b_o) V_{t+1}(b_i, d') ]

which the dynamic program of the observed modes solves as it is. There is no discount
(the score is the mileage). V is convex in the belief, so the grid's value is not below V*; the
policy looks one step ahead with its exact belief, and playing it bounds V* from below.

The grid of resolution r holds the distributions on n outcomes with entries k / r. Freudenthal's
triangulation writes b as a mixture of at most n of them (Lovejoy 1991): with x_i = r (b_i + ... +
b_n), the base floor(x), and one more unit for one coordinate after another in the order of their
fractional parts, largest first. Linear functions are kept; a convex function is never
underestimated by mixing its values at the grid points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.domains.hybrid import HybridVehicle
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.level_graph import chain_values
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.policies import Rule

MOST_POINTS = 20_000
# Coordinates that are whole numbers but for rounding are whole.
ROUNDING = 1e-9
# Points per edge of the simplex, by the number of driving modes: fine where that is cheap.
FINE, COARSE = 60, 4


class SimplexGrid:
    """The grid on n outcomes."""

    def __init__(self, outcomes: int, resolution: int) -> None:
        n, r = outcomes, whole_number(resolution, "resolution", minimum=1)
        size = comb(r + n - 1, n - 1)
        if size > MOST_POINTS:
            raise InputError(
                f"a grid of resolution {r} on {n} modes has {size:,} points, more than "
                f"{MOST_POINTS:,}: use a lower resolution"
            )
        self.resolution = r
        # Every way to cut r units into n parts: where the n - 1 cuts lie.
        cuts = np.array(list(combinations(range(r + n - 1), n - 1)), dtype=np.int64)
        first, last = np.full((size, 1), -1), np.full((size, 1), r + n - 1)
        ends = np.hstack([first, cuts.reshape(size, n - 1), last])
        self.counts: IntArray = np.diff(ends, axis=1) - 1

    @property
    def points(self) -> FloatArray:
        """(N, n) the distributions."""
        return np.asarray(self.counts / self.resolution)

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row.tobytes(): place for place, row in enumerate(self.counts)}

    def mixture(self, distribution: FloatArray) -> FloatArray:
        """(N,) weights of the grid points whose mixture is the distribution (n,)."""
        sums = self.resolution * np.cumsum(distribution[::-1])[::-1] / distribution.sum()
        whole = np.floor(sums + ROUNDING)
        parts = np.maximum(sums - whole, 0.0)
        # The first sum is the resolution itself: it never moves.
        order = 1 + np.argsort(-parts[1:], kind="stable")
        fractions = np.concatenate([[1.0], parts[order], [0.0]])
        weights = np.zeros(len(self.counts))
        corner = whole.astype(np.int64)
        for i, weight in enumerate(-np.diff(fractions)):
            if i > 0:
                corner[order[i - 1]] += 1
            if weight > ROUNDING:
                entries = corner - np.append(corner[1:], 0)
                weights[self._places[entries.tobytes()]] += weight
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class BeliefIteration:
    """The policy of value iteration on a grid of beliefs.

    resolution  of the grid (default: 60 for two driving modes, 4 for more)
    """

    resolution: int | None = None

    name: ClassVar[str] = "belief value iteration"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        """The rule for a vehicle with hidden modes."""
        if not isinstance(model, HybridVehicle):
            raise NotApplicableError(
                f"beliefs are about the modes of a hybrid vehicle, not of {type(model).__name__}"
            )
        return self.solve(model).actions

    def solve(self, problem: HybridVehicle) -> BeliefValue:
        """Values on the grid."""
        if not problem.hidden:
            raise NotApplicableError("modes are observed: exact_value solves it without beliefs")
        return BeliefValue(problem, self.resolution)


class BeliefValue:
    """Values on a grid of beliefs.

    values  (T + 1, N + 1, G) over the belief as a Markov chain on the grid: points of driving
            beliefs, and last, braking; by the number of the level
    """

    def __init__(self, problem: HybridVehicle, resolution: int | None = None) -> None:
        self.problem, self.driving = problem, np.flatnonzero(~problem.brakes)
        fine = FINE if len(self.driving) == 2 else COARSE
        self.grid = SimplexGrid(len(self.driving), resolution or fine)
        beliefs = np.zeros((len(self.grid.points) + 1, len(problem.brakes)))
        beliefs[:-1, self.driving] = self.grid.points
        beliefs[-1] = problem.brakes
        matrix = np.array([self.following(belief) for belief in beliefs])
        mileage = beliefs @ problem.mileage
        kinds = np.rint(beliefs @ problem.brakes).astype(np.int64)
        chain = kinds, mileage, matrix
        self.values: FloatArray = chain_values(problem.graph, chain, problem.horizon, mileage, 1.0)

    def value(self, state: State | None = None) -> float:
        """The grid's value: not below V*."""
        at = self.problem.start if state is None else state
        table = self.values[at.t, :, self.problem.level_numbers(at.resource)]
        return float(self.mixture(self.problem.beliefs(at.exogenous)) @ table)

    def actions(self, t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
        """(n, 2) the best actions, looking one step ahead."""
        beliefs, row = np.unique(self.problem.beliefs(exogenous), axis=0, return_inverse=True)
        following = np.array([self.following(belief) for belief in beliefs])[row.ravel()]
        return self.problem.best_actions(exogenous, resource, following, self.values[t + 1])

    def mixture(self, belief: FloatArray) -> FloatArray:
        """(N + 1,) a belief (S,) as a mixture of grid points."""
        if self.problem.brakes @ belief > 0.5:
            return np.append(np.zeros(len(self.grid.counts)), 1.0)
        return np.append(self.grid.mixture(belief[self.driving]), 0.0)

    def following(self, belief: FloatArray) -> FloatArray:
        """(N + 1,) the grid points that follow a belief, with their probabilities."""
        seen = np.concatenate([np.zeros(2), belief])
        successors, chances = self.problem.law.successors(0, seen)
        mixtures = [self.mixture(one) for one in self.problem.beliefs(successors)]
        return np.asarray(chances @ np.array(mixtures))
