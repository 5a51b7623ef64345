"""A Monte Carlo mean and its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError


class Estimate(NamedTuple):
    """The mean of independent samples, and the standard deviation of that mean."""

    mean: float
    se: float


def estimate(values: FloatArray) -> Estimate:
    """Of (n,) independent samples."""
    if len(values) < 2:
        raise InputError(f"{len(values)} sample(s) give no standard error: use at least 2")
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))))
