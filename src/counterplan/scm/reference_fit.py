"""What a trained model must be better than: simple models with a closed form.

linear     s' ~ N(B [1, s, a], C)      least squares
constant   s' ~ N(m, C)                as if neither state nor action mattered
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.scm.neural_start import LEAST_NOISE
from counterplan.scm.training_data import Samples


@dataclass(frozen=True)
class ReferenceLosses:
    """Mean negative log-likelihoods in nats per transition, in the model's units."""

    linear: float
    constant: float


def reference_losses(train: Samples, judged: Samples) -> ReferenceLosses:
    """Losses on the `judged` transitions after learning from the others."""
    losses = []
    for given in (train.inputs, np.empty((len(train), 0))):
        coefficients = np.linalg.lstsq(_design(given), train.targets)[0]
        seen = judged.inputs[:, : given.shape[1]]
        losses.append(
            _gaussian_loss(
                train.targets - _design(given) @ coefficients,
                judged.targets - _design(seen) @ coefficients,
            )
        )
    return ReferenceLosses(*losses)


def _design(inputs: FloatArray) -> FloatArray:
    return np.concatenate([np.ones((len(inputs), 1)), inputs], axis=1)


def _gaussian_loss(train: FloatArray, judged: FloatArray) -> float:
    """Of residuals under the covariance of those learned from."""
    features = train.shape[1]
    covariance = train.T @ train / len(train) + LEAST_NOISE**2 * np.eye(features)
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, judged.T)
    constant = 0.5 * features * math.log(2.0 * math.pi)
    return float(0.5 * (white**2).sum(axis=0).mean() + np.log(np.diag(factor)).sum() + constant)
