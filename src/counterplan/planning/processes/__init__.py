"""The exogenous processes that are shipped: `cp.processes`. `fit` learns one from a record of
prices or demand, `load` reads it again; others are stated by their parameters."""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
