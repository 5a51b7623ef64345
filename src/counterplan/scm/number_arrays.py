"""Arrays that users give, checked to hold numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError


def number_array(values: Any, name: str) -> FloatArray:
    """`values` in double precision, or an error that names them: texts, booleans, None and rows of
    different lengths are no numbers."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name}: its rows differ in length") from None
    if array.dtype.kind not in "iuf":
        shown = repr(values)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        raise InputError(f"{name} must be numbers, got {' '.join(shown.split())}")
    return np.asarray(array, dtype=np.float64)
