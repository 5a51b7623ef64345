"""Tables of episodes and scenarios, in and out; mistakes are named by row, column and value."""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
