"""Causal models, one per file."""

from counterplan.core.shown import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
