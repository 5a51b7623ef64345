"""Problems to work on: what they are, their data or simulator, and how to sample them."""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
