"""The exogenous processes that are shipped: `cp.processes`."""

from __future__ import annotations

from counterplan.exogenous.binomial_lattice import BinomialLattice
from counterplan.exogenous.bootstrap_prices import BootstrapPrices, read_prices
from counterplan.exogenous.gbm import GBM
from counterplan.exogenous.hidden_modes import GaussianHiddenModes, HiddenModes
from counterplan.exogenous.markov_modes import MarkovModes
from counterplan.exogenous.process import FiniteProcess, HasQuantiles, Process
from counterplan.exogenous.traces import ResampledTraces, drive_cycle_modes

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
