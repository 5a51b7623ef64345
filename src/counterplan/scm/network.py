"""One hidden layer with a tanh, as the 2023 paper uses for location and scale.

    z = tanh(m (W_s s + b + W_a a)),      o = m (W_z z + b_z)

m multiplies both layers. With spectral norms ||W_s||, ||W_z|| the Lipschitz constant in s is at
most m^2 ||W_z|| ||W_s||, since tanh has slope at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.scm.number_arrays import number_array

KEYS = ("state", "bias", "action", "output", "output_bias")
MATRICES = ("state", "action", "output")
# Norms come out of floating-point factorisations: certified ones are rounded up by this much.
ROUND_UP = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class Network:
    """Weights with the multiplier already applied to both layers.

    state        (H, D)
    bias         (H,)
    action       (H, d)
    output       (O, H)
    output_bias  (O,)
    """

    state: FloatArray
    bias: FloatArray
    action: FloatArray
    output: FloatArray
    output_bias: FloatArray

    @classmethod
    def from_weights(cls, weights: Mapping[str, Any], name: str) -> Network:
        """From a mapping with the fields' names and an optional `multiplier`."""
        known = f"{', '.join(KEYS)} and multiplier"
        if not isinstance(weights, Mapping):
            raise InputError(f"{name}: weights must be a mapping with the keys {known}")
        missing = [key for key in KEYS if key not in weights]
        if missing:
            raise InputError(f"{name}: weights lack {', '.join(missing)}")
        unknown = [key for key in weights if key not in (*KEYS, "multiplier")]
        if unknown:
            raise InputError(f"{name}: unknown weights {unknown[0]!r}: the keys are {known}")
        multiplier = number_array(weights.get("multiplier", 1.0), f"{name}: multiplier")
        if multiplier.ndim or not 0.0 < multiplier < np.inf:
            raise InputError(f"{name}: multiplier must be one positive number, got {multiplier}")
        arrays = {key: number_array(weights[key], f"{name}: {key} weights") for key in KEYS}
        network = cls(**{key: multiplier * array for key, array in arrays.items()})
        network.check(name)
        return network

    def check(self, name: str) -> None:
        """Raise unless the shapes fit together and every weight is finite."""
        for key in KEYS:
            shape, dimensions = getattr(self, key).shape, 2 if key in MATRICES else 1
            if len(shape) != dimensions or 0 in shape:
                raise InputError(
                    f"{name}: {key} weights have shape {shape}, expected a "
                    f"{'matrix' if dimensions == 2 else 'vector'}"
                )
        H, O = len(self.bias), len(self.output_bias)  # noqa: E741
        shapes = {
            "state": (H, self.state.shape[-1]),
            "action": (H, self.action.shape[-1]),
            "output": (O, H),
        }
        for key, expected in shapes.items():
            found = getattr(self, key).shape
            if found != expected:
                raise InputError(f"{name}: {key} weights have shape {found}, expected {expected}")
        for key in KEYS:
            if not np.isfinite(getattr(self, key)).all():
                raise InputError(f"{name}: {key} weights are not all finite")

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, O) outputs for states (n, D) and action vectors (n, d)."""
        hidden = np.tanh(states @ self.state.T + self.bias + actions @ self.action.T)
        return np.asarray(hidden @ self.output.T + self.output_bias)

    @cached_property
    def absolute_state(self) -> FloatArray:
        """(H, D) |W_s|."""
        return np.abs(self.state)

    @cached_property
    def absolute_output(self) -> FloatArray:
        """(O, H) |W_z|."""
        return np.abs(self.output)

    def slopes(self, gates: FloatArray) -> FloatArray:
        """(n, O, D) W_z diag(g) W_s for gates (n, H)."""
        return self._contracted(self._products, gates)

    def absolute_slopes(self, gates: FloatArray) -> FloatArray:
        """(n, O, D) |W_z| diag(g) |W_s| for gates (n, H)."""
        return self._contracted(self._absolute_products, gates)

    @cached_property
    def _products(self) -> FloatArray:
        """(H, O D) W_z[i, h] W_s[h, j]: slopes of many gates are then one matrix product."""
        products = self.output.T[:, :, None] * self.state[:, None, :]
        return products.reshape(len(self.bias), -1)

    @cached_property
    def _absolute_products(self) -> FloatArray:
        return np.abs(self._products)

    def _contracted(self, products: FloatArray, gates: FloatArray) -> FloatArray:
        shape = (len(gates), self.output.shape[0], self.state.shape[1])
        return np.asarray(gates @ products).reshape(shape)

    @cached_property
    def row_norms(self) -> FloatArray:
        """(H,) Euclidean norms of the rows of W_s."""
        return np.asarray(np.linalg.norm(self.state, axis=1))

    @cached_property
    def lipschitz(self) -> float:
        """A certified constant with respect to the state, by singular values."""
        norms = (np.linalg.norm(part, 2) for part in (self.state, self.output))
        return float(np.prod([float(norm) * ROUND_UP for norm in norms]))


def gate_interval(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least and largest slope 1 - tanh^2 over pre-activations between low and high."""
    widest = np.maximum(np.abs(low), np.abs(high))
    nearest = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.minimum(np.abs(low), np.abs(high)))
    return _gate(widest), _gate(nearest)


def _gate(activation: FloatArray) -> FloatArray:
    # 1 / cosh^2 keeps its relative precision where 1 - tanh^2 would cancel.
    return np.asarray(1.0 / np.cosh(np.minimum(activation, 300.0)) ** 2)
