"""Observed modes that follow a Markov chain (Sec. F.1).

x is the number of the mode, or its indicator: (M,) zeros with a one at the mode. A reward per mode
is linear in the indicator, and the mean of the indicator is the distribution of the mode, while the
mean of a mode's number means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, IntArray, Seed, whole_number
from counterplan.errors import NotApplicableError
from counterplan.exogenous.checks import stochastic_matrix
from counterplan.exogenous.process import MODES_CODE, draw_paths, given_start


@dataclass(frozen=True, eq=False)
class MarkovModes:
    """A Markov chain on M modes.

    matrix      (M, M) row i: where mode i leads
    initial     the mode at t = 0
    indicators  False: x (1,) is the mode's number. True: x (M,) is its indicator
    """

    matrix: ArrayLike
    initial: int = 0
    indicators: bool = False

    def __post_init__(self) -> None:
        matrix = stochastic_matrix(self.matrix, "mode matrix")
        object.__setattr__(self, "matrix", matrix)
        whole_number(self.initial, "initial mode", maximum=len(matrix) - 1)

    @property
    def probabilities(self) -> FloatArray:
        """(M, M) the matrix."""
        return np.asarray(self.matrix, dtype=np.float64)

    @property
    def start(self) -> FloatArray:
        """(1,) or (M,): where it begins."""
        return np.asarray(self._encoded(np.array([self.initial]))[0])

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        """x_{t+1} for each x_t: (n, X) -> (n, X)."""
        rows = np.cumsum(self.probabilities, axis=1)[self.modes(exogenous)]
        # The last sum may miss 1 by rounding; the last mode takes what is left.
        uniform = generator.random((len(rows), 1))
        return self._encoded((rows[:, :-1] <= uniform).sum(axis=1))

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values (m, X) and probabilities (m,) of the modes that may follow."""
        row = self.probabilities[self.modes(np.atleast_2d(exogenous))[0]]
        possible = np.flatnonzero(row)
        return self._encoded(possible), row[possible]

    def sample_paths(
        self, n: int, steps: int, seed: Seed = 0, t: int = 0, start: FloatArray | None = None
    ) -> FloatArray:
        """(n, steps, X): futures that all begin with x_t."""
        return draw_paths(self, n, steps, seed, t, start)

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        """(steps, M): the distribution of each later mode; for indicators only."""
        if not self.indicators:
            raise NotApplicableError(
                "the mean of a mode's number means nothing; use MarkovModes(..., indicators=True)"
            )
        path = np.empty((whole_number(steps, "steps", minimum=1), len(self.probabilities)))
        path[0] = given_start(self, start)
        for s in range(1, steps):
            path[s] = path[s - 1] @ self.probabilities
        return path

    def modes(self, exogenous: FloatArray) -> IntArray:
        """(n,) the mode numbers of (n, X)."""
        if self.indicators:
            return np.asarray(np.argmax(exogenous, axis=1), dtype=np.int64)
        return np.asarray(exogenous[:, 0], dtype=np.int64)

    def kernel_parameters(self, steps: int, quantiles: int = 0) -> FloatArray:
        """The layout is in `process_kernel`."""
        head = [MODES_CODE, float(self.indicators), float(len(self.probabilities))]
        return np.concatenate([head, self.probabilities.ravel()])

    def most_successors(self, quantiles: int = 0) -> int:
        """M."""
        return len(self.probabilities)

    def _encoded(self, modes: IntArray) -> FloatArray:
        if self.indicators:
            return np.asarray(np.eye(len(self.probabilities))[modes])
        return modes[:, None].astype(np.float64)
