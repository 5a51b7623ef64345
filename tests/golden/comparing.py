"""Two recorded outputs against each other: numbers nearly, texts but for the numbers in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

RELATIVE, ABSOLUTE = 1e-7, 1e-9
# Distances to the data, which models keep in single precision.
SINGLE = ("/distance", "/arrays/seen")
SINGLE_RELATIVE, SINGLE_ABSOLUTE = 1e-5, 1e-6
NUMBER = re.compile(r"(\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?)")


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Every place in which they differ, in words."""
    if isinstance(expected, dict) and isinstance(found, dict):
        yield from _keys(expected, found, path)
        for key in (key for key in expected if key in found):
            yield from differences(expected[key], found[key], f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            yield f"{path}: {len(expected)} elements expected, {len(found)} found"
        for index, (one, other) in enumerate(zip(expected, found, strict=False)):
            yield from differences(one, other, f"{path}/{index}")
    elif not _is_same(expected, found, path):
        yield f"{path}: expected {_short(expected)}, found {_short(found)}"


def _keys(expected: dict[str, Any], found: dict[str, Any], path: str) -> Iterator[str]:
    for key in expected.keys() - found.keys():
        yield f"{path}/{key}: is missing"
    for key in found.keys() - expected.keys():
        yield f"{path}/{key}: is new"
    if expected.keys() == found.keys() and list(expected) != list(found):
        yield f"{path}: keys in another order: expected {list(expected)}, found {list(found)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def _is_same(expected: Any, found: Any, path: str) -> bool:
    if type(expected) is not type(found):
        return False
    if isinstance(expected, float):
        if any(part in path for part in SINGLE):
            return math.isclose(expected, found, rel_tol=SINGLE_RELATIVE, abs_tol=SINGLE_ABSOLUTE)
        return math.isclose(expected, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if isinstance(expected, str):
        return expected == found or same_text(expected, found)
    return bool(expected == found)


def same_text(expected: str, found: str) -> bool:
    """Whether two texts differ in nothing but the last shown digit of some numbers.

    Tables are filled with spaces after their numbers, so where a number differs spaces may, too.
    """
    parts, others = NUMBER.split(expected), NUMBER.split(found)
    if len(parts) != len(others) or parts[1::2] == others[1::2]:
        return expected == found
    words = zip(parts[::2], others[::2], strict=True)
    if any(_squeezed(one) != _squeezed(other) for one, other in words):
        return False
    return all(_same_number(*pair) for pair in zip(parts[1::2], others[1::2], strict=True))


def _squeezed(text: str) -> str:
    return re.sub(r"[ ─]+", " ", text)


def _same_number(expected: str, found: str) -> bool:
    if expected == found:
        return True
    if not any(sign in text for text in (expected, found) for sign in ".,e"):
        return False  # a count, a step or part of a name
    one, other = (float(text.replace(",", "")) for text in (expected, found))
    if math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
        return True  # as files write numbers, to the last digit
    return abs(one - other) <= 1.001 * min(_last_digit(expected), _last_digit(found))


def _last_digit(text: str) -> float:
    """What the last shown digit of a number is worth."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)
