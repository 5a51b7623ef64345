"""Problems to work on: what they are, their data or simulator, and how to sample them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
