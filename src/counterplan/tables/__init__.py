"""Tables of episodes and scenarios, in and out; mistakes are named by row, column and value."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
