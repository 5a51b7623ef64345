"""One of each process, and how samples are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterplan.planning.processes import (
    GBM,
    BinomialLattice,
    BootstrapPrices,
    GaussianHiddenModes,
    HiddenModes,
    MarkovModes,
    Process,
    ResampledTraces,
)

Floats = NDArray[np.float64]
MATRIX = [[0.3, 0.5, 0.2], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]]
MILEAGES = [[10, 8], [8, 9], [8, 8]]
EMISSIONS = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]]
RECORD = np.exp(np.cumsum(np.random.default_rng(0).normal(0.0, 0.1, 60)))
TRACE = [0, 1, 1, 2, 0, 2, 2, 1, 0, 1, 2, 2, 0]

PROCESSES: dict[str, Process] = {
    "independent": GBM(1000.0, 1.0, 0.5, 1 / 7, kind="independent"),
    "global": GBM(1000.0, 1.0, 0.5, 1 / 7),
    "correlated": GBM([10.0, 20.0, 30.0], 0.1, [0.1, 0.2, 0.3], 0.1, 0.5, "correlated"),
    "lattice": BinomialLattice(100.0, 0.05, 0.2, 0.1, 0.02),
    "modes": MarkovModes(MATRIX),
    "indicators": MarkovModes(MATRIX, 1, indicators=True),
    "hidden": HiddenModes(MATRIX, MILEAGES, EMISSIONS),
    "gaussian": GaussianHiddenModes(MATRIX, MILEAGES, 0.7, [0.2, 0.5, 0.3]),
    "bootstrap": BootstrapPrices(RECORD, initial=100.0, block=2),
    "independent bootstrap": BootstrapPrices(RECORD, 100.0, 3, "independent"),
    "traces": ResampledTraces.from_modes([TRACE], memory=2, indicators=True),
}


def assert_same_mean(samples: Floats, expected: Floats, sigmas: float = 5.0) -> None:
    """Within five standard errors of the mean of samples (n, ...): seeds are fixed, and a right
    mean would be refused once in two million."""
    error = samples.std(axis=0) / np.sqrt(len(samples))
    off = np.abs(samples.mean(axis=0) - expected)
    assert (off <= sigmas * error + 1e-9 * (1 + np.abs(expected))).all(), (off, error)
