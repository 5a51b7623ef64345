"""Checks of single arguments, so that every entry point words the same mistake the same way."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterplan.errors import InputError

Seed: TypeAlias = int | np.random.Generator
FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

# Budgets and costs are counted in 64 bits, with room to add them up along an episode.
LARGEST_BUDGET = 2**40
# Measurements, rewards and weights: beyond it squares, and so norms, come close to overflowing.
LARGEST = 1e100


def whole_number(value: object, name: str, minimum: int = 0, maximum: int | None = None) -> int:
    """`value` as an int, or an error that names it; booleans and 3.0 are not whole numbers here."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number, got {value!r}: pass an int")
    if value < minimum:
        raise InputError(f"{name} must be at least {minimum}, got {value}")
    if maximum is not None and value > maximum:
        raise InputError(f"{name} must be at most {maximum}, got {value}")
    return int(value)


def index_vector(values: object, name: str) -> IntArray:
    """A one-dimensional array of non-negative whole numbers (floats such as 2.0 are accepted)."""
    try:
        array = np.asarray(values)
    except ValueError as problem:
        raise InputError(f"{name} is not a plain list of numbers: {problem}") from None
    if array.ndim != 1:
        raise InputError(f"{name} must have one dimension (steps), got shape {array.shape}")
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold whole numbers, got values of type {array.dtype}")
    # Compared the other way round, nan would pass; 2^53 is where floats stop to be whole numbers.
    right = (array >= 0) & (array <= 2**53)
    if array.dtype.kind == "f":
        right &= array == np.floor(array)
    if not right.all():
        t = int(np.argmin(right))
        raise InputError(f"{name} at t={t} is {array[t]}: expected a whole number from 0 up")
    return array.astype(np.int64)


def feature_table(values: object, name: str) -> FloatArray:
    """A (T, D) table of numbers up to LARGEST."""
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} table must hold numbers, T rows of the same length") from None
    if table.shape[1] == 0:
        raise InputError(f"{name} table has no columns")
    bad = np.argwhere(~(np.abs(table) <= LARGEST))
    if bad.size:
        t, column = (int(i) for i in bad[0])
        value = table[t, column]
        why = f"too far from 0, {LARGEST:g} at most" if np.isfinite(value) else "must be finite"
        raise InputError(f"{name} at t={t}, column {column} is {value}: {why}")
    return table


def generator(seed: Seed) -> np.random.Generator:
    """The generator that a seed stands for."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(whole_number(seed, "seed"))
