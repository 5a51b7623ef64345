"""Certified slopes of a neural location-scale step over a region.

For a network o(s) = W_z tanh(W_s s + c) the slope between two states of the region is
W_z diag(g) W_s with gates g between the least and the largest value of 1 - tanh^2 over the region's
pre-activations, |W_s[h, :] (s - c)| <= min(||W_s[h, :]|| radius, |W_s[h, :]| . box). With middle
gates g and half-widths d

    J = W_z diag(g) W_s,      |x . (o(s) - o(c) - J (s - c))| <= (|W_z^T x| * d) |W_s| . |s - c|

The scale adds u_i sigma(o_i) W_z[i, :] diag(g) W_s with softplus slopes sigma; the product
sigma(o_i) g_h lies between the products of the least and of the largest of both. Nothing is
linearised: every slope of the region is covered.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.scm.network import Network, gate_interval
from counterplan.scm.point import Region

# Intervals are widened by more than all roundings on the way to them can add up to.
OUTWARD = 1e-12


class _Gates(NamedTuple):
    """The least and largest gates (n, H), how far pre-activations may move (H,), and the
    pre-activations at the centre (n, H)."""

    low: FloatArray
    high: FloatArray
    reach: FloatArray
    activation: FloatArray


class NeuralSlopes:
    """Slopes of F(., a) for action vectors (n, d) under one noise vector."""

    def __init__(
        self,
        networks: tuple[Network, Network],
        fixed: int,
        region: Region,
        actions: FloatArray,
        noise: FloatArray,
    ) -> None:
        """`networks`: location and scale."""
        self._networks, self._fixed, self._noise = networks, fixed, noise
        self._location = _gates(networks[0], region, actions)
        self._scale = _gates(networks[1], region, actions)
        self._sigma = self._softplus_slopes()

    @cached_property
    def jacobian(self) -> FloatArray:
        """(n, D, D)."""
        location, scale = self._networks
        middle = (self._location.low + self._location.high) / 2
        moving = location.slopes(middle)
        for sigma, gates in self._extremes():
            moving += (self._noise * sigma / 2)[:, :, None] * scale.slopes(gates)
        return self._with_fixed(moving, identity=True)

    @cached_property
    def deviation(self) -> FloatArray:
        """(n, D, D)."""
        location, scale = self._networks
        half = (self._location.high - self._location.low) / 2
        moving = location.absolute_slopes(half)
        for sign, (sigma, gates) in zip((-1, 1), self._extremes(), strict=True):
            weight = sign * np.abs(self._noise) * sigma / 2
            moving += weight[:, :, None] * scale.absolute_slopes(gates)
        return self._with_fixed(moving * (1.0 + OUTWARD) + OUTWARD, identity=False)

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n, D), tighter than |x| E: location gates are weighed by |W_z^T x|."""
        location, scale = self._networks
        moving = directions[:, self._fixed :]
        half = (self._location.high - self._location.low) / 2
        result = (np.abs(moving @ location.output) * half) @ location.absolute_state
        weight = np.abs(moving * self._noise) / 2
        for sign, (sigma, gates) in zip((-1, 1), self._extremes(), strict=True):
            through = ((weight * sigma) @ scale.absolute_output) * gates
            result += sign * (through @ scale.absolute_state)
        size = 1.0 + np.abs(moving).sum(axis=1, keepdims=True)
        return np.asarray(result * (1.0 + OUTWARD) + OUTWARD * size)

    def _extremes(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Least and largest (softplus slope (n, O), gate (n, H)) of the scale."""
        return (self._sigma[0], self._scale.low), (self._sigma[1], self._scale.high)

    def _softplus_slopes(self) -> tuple[FloatArray, FloatArray]:
        """(n, O) least and largest slope of the softplus over the region."""
        scale = self._networks[1]
        output = np.tanh(self._scale.activation) @ scale.output.T + scale.output_bias
        moved = np.minimum(self._scale.high * self._scale.reach, 2.0) @ scale.absolute_output.T
        moved += OUTWARD
        return _sigmoid(output - moved), _sigmoid(output + moved)

    def _with_fixed(self, moving: FloatArray, identity: bool) -> FloatArray:
        """Prepend the rows of the features that stay."""
        fixed, n, D = self._fixed, len(moving), moving.shape[2]
        top = np.eye(fixed, D) if identity else np.zeros((fixed, D))
        return np.concatenate([np.broadcast_to(top, (n, fixed, D)), moving], axis=1)


def _gates(network: Network, region: Region, actions: FloatArray) -> _Gates:
    activation = region.centre @ network.state.T + network.bias + actions @ network.action.T
    reach = np.minimum(network.row_norms * region.radius, network.absolute_state @ region.box)
    reach = reach * (1.0 + OUTWARD) + OUTWARD
    low, high = gate_interval(activation - reach, activation + reach)
    return _Gates(low - OUTWARD, high + OUTWARD, reach, activation)


def _sigmoid(values: FloatArray) -> FloatArray:
    # Nothing overflows, and the absolute error is far below OUTWARD.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))
