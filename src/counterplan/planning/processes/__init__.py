"""The exogenous processes that are shipped: `cp.processes`. `fit` learns one from a record of
prices or demand, `load` reads it again; others are stated by their parameters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
