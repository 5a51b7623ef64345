"""Given what happened, what should have been done: solvers, distributions, bounds, baselines."""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
