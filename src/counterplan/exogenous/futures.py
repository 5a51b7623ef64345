"""Futures of a model whose exogenous part is one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.validation import FloatArray, Seed
from counterplan.exogenous.model import State
from counterplan.exogenous.process import Process


class HasFutures:
    """Paths x_t, x_{t+1}, ... of a model with `process`, `horizon` and `start`."""

    if TYPE_CHECKING:

        @property
        def process(self) -> Any: ...

        @property
        def horizon(self) -> int: ...

        @property
        def start(self) -> State: ...

    @property
    def law(self) -> Process:
        """What the exogenous part follows."""
        found: Process = self.process
        return found

    def sample_paths(self, n: int, seed: Seed = 0, state: State | None = None) -> FloatArray:
        """(n, T - t, X): futures that begin with the state's x_t."""
        now = self.start if state is None else state
        return self.law.sample_paths(n, self.horizon - now.t, seed, now.t, now.exogenous)

    def sample_path(self, seed: Seed = 0) -> FloatArray:
        """(T, X): one future from the start."""
        return np.asarray(self.sample_paths(1, seed)[0])

    def mean_path(self, state: State | None = None) -> FloatArray:
        """(T - t, X): E[x_s | x_t]."""
        now = self.start if state is None else state
        return self.law.mean_path(self.horizon - now.t, now.t, now.exogenous)
