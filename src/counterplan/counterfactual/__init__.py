"""Given what happened, what should have been done: solvers, distributions, bounds, baselines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
