"""The exogenous processes that are shipped: `cp.processes`."""

from __future__ import annotations

from counterplan.planning.processes.base import FiniteProcess, HasQuantiles, Process
from counterplan.planning.processes.modes import (
    GaussianHiddenModes,
    HiddenModes,
    MarkovModes,
    ResampledTraces,
    drive_cycle_modes,
)
from counterplan.planning.processes.prices import GBM, BinomialLattice, BootstrapPrices, read_prices

__all__ = [
    "GBM",
    "BinomialLattice",
    "BootstrapPrices",
    "FiniteProcess",
    "GaussianHiddenModes",
    "HasQuantiles",
    "HiddenModes",
    "MarkovModes",
    "Process",
    "ResampledTraces",
    "drive_cycle_modes",
    "read_prices",
]
