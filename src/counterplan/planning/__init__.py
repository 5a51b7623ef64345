"""What to do now: value bounds, tree search and classical policies under an exogenous future."""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
