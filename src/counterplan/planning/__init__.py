"""What to do now: value bounds, tree search and classical policies under an exogenous future."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
