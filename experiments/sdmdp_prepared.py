"""A problem whose bounds are prepared once, for many searches: preparing them can take longer than
the search itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray, Seed
from counterplan.planning.model import (
    Compiled,
    ExogenousModel,
    HasBoundTables,
    SamplesPaths,
    Sense,
    State,
)

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel


@dataclass(frozen=True, eq=False)
class Prepared:
    """The same problem for a planner that clips; `prepare` makes it."""

    problem: ExogenousModel
    tables: FloatArray

    @classmethod
    def prepare(cls, problem: ExogenousModel, samples: int, seed: Seed) -> Prepared:
        """Bounds from this many futures."""
        assert isinstance(problem, HasBoundTables)
        return cls(problem, problem.bound_tables(samples, seed))

    def compiled(self, quantiles: int = 0) -> Kernel:
        """With its tables filled in."""
        assert isinstance(self.problem, Compiled)
        return replace(self.problem.compiled(quantiles), tables=self.tables)

    @property
    def horizon(self) -> int:
        """The problem's."""
        return self.problem.horizon

    @property
    def sense(self) -> Sense:
        """The problem's."""
        return self.problem.sense

    @property
    def start(self) -> State:
        """The problem's."""
        return self.problem.start

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """The problem's."""
        return self.problem.draw(t, exogenous, generator)

    def actions(self, state: State) -> FloatArray:
        """The problem's."""
        return self.problem.actions(state)

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The problem's."""
        return self.problem.step(t, exogenous, resource, actions)

    def sample_paths(self, n: int, seed: Seed, state: State | None = None) -> FloatArray:
        """The problem's."""
        assert isinstance(self.problem, SamplesPaths)
        return self.problem.sample_paths(n, seed, state)
