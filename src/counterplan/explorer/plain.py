"""Values as JSON has them: plain numbers, "inf" and "-inf" as texts, null for what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

# As JSON has it: a number, an infinite one as a text, null if it is not known.
Number = float | Literal["inf", "-inf"] | None


def number(value: Any) -> Number:
    """A number, infinite or not."""
    if value is None:
        return None
    found = float(value)
    if math.isfinite(found):
        return found
    if math.isnan(found):
        return None
    return "inf" if found > 0 else "-inf"


def numbers(values: Iterable[Any]) -> list[Number]:
    """A list of them."""
    return [number(value) for value in values]


def table(rows: Iterable[Iterable[Any]]) -> list[list[Number]]:
    """A list of lists of them."""
    return [numbers(row) for row in rows]


def plain(value: Any) -> Any:
    """The same in types that JSON has, whatever it is made of."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return number(value)
    if isinstance(value, np.generic):
        return value.item()
    return value
