"""Where training starts: near a fit, not at random.

Constrained: with W_s of orthonormal columns and W_z its transpose, W_z tanh(W_s s) is nearly s, so
the location starts at "nothing changes", the best guess for a slow process. Unconstrained: hidden
units are random functions of the inputs, with W_z by ridge regression. The noise starts as the
residuals of a linear regression. From random weights, most epochs go into finding just that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.scm.training_data import Samples

# Units differ in weight by about this factor exp(+-UNEVEN) and in bias: equal ones bend the same.
UNEVEN = 0.75
BIAS = 0.3
ACTION = 0.1
# Unconstrained: pre-activations from this size (a nearly linear unit) to that (one that saturates),
# how much ridge regression shrinks, and the rows it looks at.
BENDS = (0.1, 2.0)
RIDGE = 1e-3
ROWS = 20_000
# Noise of a feature that a linear regression explains fully.
LEAST_NOISE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """Features, action components, outputs and hidden units of a network."""

    features: int
    components: int
    outputs: int
    hidden: int


def constrained_layers(
    sizes: Sizes, multiplier: float, rng: np.random.Generator, persist: bool
) -> dict[str, FloatArray]:
    """First weights with spectral norms 1.

    persist  start at o(s) = s, features that move (or less, if the constant does not allow it);
             else at o = 0 but for the units' small curvature
    """
    D, O, H = sizes.features, sizes.outputs, sizes.hidden  # noqa: E741
    rows = max(H, D + O)
    weights = np.exp(UNEVEN * rng.normal(size=(rows, 1)))
    basis = np.linalg.qr(weights * rng.normal(size=(rows, D + O)))[0][:H]
    state, other = basis[:, :D], basis[:, D:]
    # Of W_z's unit rows the part along W_s makes the slope, m^2 of it; the rest is orthogonal.
    along = min(1.0, multiplier**-2) if persist else 0.0
    output = along * state[:, D - O :].T + np.sqrt(1.0 - along**2) * other.T
    bias = rng.uniform(-BIAS, BIAS, H)
    return {
        "state": state,
        "bias": bias,
        "action": rng.uniform(-ACTION, ACTION, (H, sizes.components)),
        "output": output,
        "output_bias": -output @ np.tanh(multiplier * bias),
    }


def free_layers(
    sizes: Sizes, data: Samples, rng: np.random.Generator, fitted: bool
) -> dict[str, FloatArray]:
    """First weights of a network without constraint; fitted to the data, else o = 0."""
    D, H = sizes.features, sizes.hidden
    few = data.rows(rng.permutation(len(data))[:ROWS])
    size = np.exp(rng.uniform(np.log(BENDS[0]), np.log(BENDS[1]), H))
    weights = rng.normal(size=(H, few.inputs.shape[1])) / np.sqrt(few.inputs.var(axis=0).sum())
    weights *= size[:, None]
    bias = size * rng.uniform(-1.0, 1.0, H) - weights @ few.inputs.mean(axis=0)
    output = np.zeros((sizes.outputs, H))
    output_bias = np.zeros(sizes.outputs)
    if fitted:
        hidden = np.tanh(few.inputs @ weights.T + bias)
        centred = hidden - hidden.mean(axis=0)
        gram = centred.T @ centred + RIDGE * len(few) * np.eye(H)
        output = np.linalg.solve(gram, centred.T @ few.targets).T
        output_bias = few.targets.mean(axis=0) - output @ hidden.mean(axis=0)
    return {
        "state": weights[:, :D],
        "bias": bias,
        "action": weights[:, D:],
        "output": output,
        "output_bias": output_bias,
    }


def first_noise(data: Samples) -> tuple[FloatArray, FloatArray]:
    """First mixing (O, O) and log-precision (O,), if the scale starts at softplus(0)."""
    design = np.concatenate([np.ones((len(data), 1)), data.inputs], axis=1)
    coefficients = np.linalg.lstsq(design, data.targets)[0]
    residuals = data.targets - design @ coefficients
    covariance = residuals.T @ residuals / len(residuals)
    covariance += LEAST_NOISE**2 * np.eye(len(covariance))
    whitening = np.linalg.inv(np.linalg.cholesky(covariance)) * np.log(2.0)
    precision = np.diag(whitening).copy()
    return whitening / precision[:, None], np.log(precision)
