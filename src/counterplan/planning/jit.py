"""How the search's own functions are compiled: cached on disk, and without counting owners.

They make no arrays, only look at those that Python made before. Without numba's counting of owners
(`_nrt=False`, an option of its own library code) a search takes two thirds of the time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import njit
from numba.core.options import DefaultOptions

# A numba that no longer knows the option is only slower.
_OPTIONS: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

jit: Any = partial(njit, cache=True, **_OPTIONS)
# Small functions with many arrays: passing those on would cost more than the work.
inlined: Any = njit(cache=True, forceinline=True, **_OPTIONS)
