"""counterplan: causal analysis of sequential decisions.

Given what happened, what should have been done; given what may happen, what to do next.
Names load on first use, so that importing the package stays cheap: `__init__.pyi` lists them.
"""

import logging

from counterplan.core.shown import attach

# What happens is told where somebody listens, as `--log` of the command line does.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
