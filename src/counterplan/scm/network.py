"""One hidden layer with a tanh, as the 2023 paper uses for location and scale: outputs, compiled
counterfactual steps, and certified slopes.

    z = tanh(m (W_s s + b + W_a a)),      o = m (W_z z + b_z)

m multiplies both layers. With spectral norms ||W_s||, ||W_z|| the Lipschitz constant in s is at
most m^2 ||W_z|| ||W_s||, since tanh has slope at most 1.

Steps. The first layer splits into a state half, common to all actions of a node, and an action
half, common to all nodes. tanh of their sum needs no new tanh:

    tanh(x + y) = (tanh x + tanh y) / (1 + tanh x tanh y)

so a node costs one tanh per hidden unit and a child one division. Near saturation with opposite
signs the denominator vanishes; those few units are computed directly, as tanh(x + y).

Slopes. For o(s) = W_z tanh(W_s s + c) the slope between two states of a region is W_z diag(g) W_s
with gates g between the least and the largest value of 1 - tanh^2 over the region's
pre-activations, |W_s[h, :] (s - c)| <= min(||W_s[h, :]|| radius, |W_s[h, :]| . box). With middle
gates g and half-widths d

    J = W_z diag(g) W_s,      |x . (o(s) - o(c) - J (s - c))| <= (|W_z^T x| * d) |W_s| . |s - c|

The scale adds u_i sigma(o_i) W_z[i, :] diag(g) W_s with softplus slopes sigma; the product
sigma(o_i) g_h lies between the products of the least and of the largest of both. Nothing is
linearised: every slope of the region is covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit, plain
from counterplan.core.validation import LARGEST, FloatArray
from counterplan.errors import InputError
from counterplan.scm.point import Region, number_array, with_fixed

MATRICES = ("state", "action", "output", "skip", "action_skip")
# Norms come out of floating-point factorisations: certified ones are rounded up by this much.
ROUND_UP = 1.0 + 1e-12
# Below this denominator the addition formula loses digits. With arguments of opposite signs, one of
# them at most SAFE in size, it is at least 1 - tanh(SAFE), which is above.
CANCELS = 1e-3
SAFE = 3.75
# Intervals are widened by more than all roundings on the way to them can add up to.
OUTWARD = 1e-12


@dataclass(frozen=True, eq=False)
class Network:
    """Weights with the multiplier already applied to both layers.

    state        (H, D)
    bias         (H,)
    action       (H, d)
    output       (O, H)
    output_bias  (O,)
    """

    may_lack_units: ClassVar[bool] = False

    state: FloatArray
    bias: FloatArray
    action: FloatArray
    output: FloatArray
    output_bias: FloatArray

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of all weights."""
        return tuple(one.name for one in fields(cls))

    @classmethod
    def from_weights(cls, weights: Mapping[str, Any], name: str) -> Self:
        """From a mapping with the fields' names and an optional `multiplier`."""
        keys = cls.names()
        known = f"{', '.join(keys)} and multiplier"
        if not isinstance(weights, Mapping):
            raise InputError(f"{name}: weights must be a mapping with the keys {known}")
        if missing := [key for key in keys if key not in weights]:
            raise InputError(f"{name}: weights lack {', '.join(missing)}")
        if unknown := [key for key in weights if key not in (*keys, "multiplier")]:
            raise InputError(f"{name}: unknown weights {unknown[0]!r}: the keys are {known}")
        multiplier = number_array(weights.get("multiplier", 1.0), f"{name}: multiplier")
        if multiplier.ndim or not 0.0 < multiplier < np.inf:
            raise InputError(f"{name}: multiplier must be one positive number, got {multiplier}")
        arrays = {key: number_array(weights[key], f"{name}: {key} weights") for key in keys}
        network = cls(**{key: multiplier * array for key, array in arrays.items()})
        network.check(name)
        return network

    def check(self, name: str) -> None:
        """Raise unless the shapes fit together and every weight is finite."""
        shapes: dict[str, tuple[int, ...]] = {key: getattr(self, key).shape for key in self.names()}
        for key, shape in shapes.items():
            kind = "matrix" if key in MATRICES else "vector"
            is_empty = 0 in shape and not self.may_lack_units
            if len(shape) != 1 + (key in MATRICES) or is_empty:
                raise InputError(f"{name}: {key} weights have shape {shape}, expected a {kind}")
        (H,), (O,), (D, d) = shapes["bias"], shapes["output_bias"], self.widths  # noqa: E741
        wanted = {"state": (H, D), "action": (H, d), "output": (O, H)}
        for key, expected in {**wanted, "skip": (O, D), "action_skip": (O, d)}.items():
            if key in shapes and shapes[key] != expected:
                found = f"have shape {shapes[key]}, expected {expected}"
                raise InputError(f"{name}: {key} weights {found}")
        for key in shapes:
            if not np.isfinite(getattr(self, key)).all():
                raise InputError(f"{name}: {key} weights are not all finite")
            if np.abs(getattr(self, key)).max(initial=0.0) > LARGEST:
                raise InputError(f"{name}: {key} weights go beyond {LARGEST:g}")

    @property
    def widths(self) -> tuple[int, int]:
        """(D, d): how many features and action components it takes."""
        return int(self.state.shape[-1]), int(self.action.shape[-1])

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, O) outputs for states (n, D) and action vectors (n, d)."""
        hidden = np.tanh(states @ self.state.T + self.bias + actions @ self.action.T)
        return np.asarray(hidden @ self.output.T + self.output_bias)

    @cached_property
    def absolute(self) -> Self:
        """The network of the sizes of all weights, |W|."""
        return type(self)(*(np.abs(getattr(self, key)) for key in self.names()))

    def slopes(self, gates: FloatArray) -> FloatArray:
        """(n, O, D) W_z diag(g) W_s for gates (n, H)."""
        shape = (len(gates), self.output.shape[0], self.state.shape[1])
        return np.asarray(gates @ self._products).reshape(shape)

    @cached_property
    def _products(self) -> FloatArray:
        """(H, O D) W_z[i, h] W_s[h, j]: slopes of many gates are then one matrix product."""
        products = self.output.T[:, :, None] * self.state[:, None, :]
        return products.reshape(len(self.bias), self.output.shape[0] * self.state.shape[1])

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


class NeuralReplay:
    """F_t(s, a) for the actions of each step of one episode."""

    def __init__(
        self, networks: tuple[Network, Network], fixed: int, vectors: FloatArray, noise: FloatArray
    ) -> None:
        """`networks`: location and scale; action vectors (T-1, N, d) and noise (T-1, O)."""
        self._networks, self._noise, self._fixed = networks, plain(noise), fixed
        # The action half of each first layer, as it is and as its tanh.
        self._actions = [vectors @ network.action.T for network in networks]
        self._tanh_actions = [np.tanh(half) for half in self._actions]
        self._outputs = [plain(network.output) for network in networks]
        self._biases = [plain(network.output_bias) for network in networks]

    def children(self, t: int, states: FloatArray) -> FloatArray:
        """(n, N, D)."""
        N = self._actions[0].shape[1]
        return self._moved(t, states, np.broadcast_to(np.arange(N), (len(states), N)))

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, D)."""
        return self._moved(t, states, actions[:, None])[:, 0]

    def _moved(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        result = np.empty((*actions.shape, states.shape[1]))
        result[:, :, : self._fixed] = states[:, None, : self._fixed]
        halves = []
        for network, own, tanh, output in zip(
            self._networks, self._actions, self._tanh_actions, self._outputs, strict=True
        ):
            half = states @ network.state.T + network.bias
            halves.append((half, np.tanh(half), own[t], tanh[t], output))
        rest = (*self._biases, self._noise[t])
        moved = np.empty((*actions.shape, len(self._noise[t])))
        _children(halves[0], halves[1], rest, plain(actions), moved)
        result[:, :, self._fixed :] = moved
        return result


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _children(location: Any, scale: Any, rest: Any, actions: Any, result: Any) -> None:
    """Write h + phi u for each node and each of its actions into result (n, N, O)."""
    state_l, tanh_state_l, action_l, tanh_action_l, output_l = location
    state_s, tanh_state_s, action_s, tanh_action_s, output_s = scale
    bias_l, bias_s, noise = rest
    H, O = state_l.shape[1], output_l.shape[0]  # noqa: E741
    hidden_l, hidden_s = np.empty(H), np.empty(state_s.shape[1])
    for node in range(actions.shape[0]):
        for child in range(actions.shape[1]):
            action = actions[node, child]
            least = _add_tanh(tanh_state_l[node], tanh_action_l[action], hidden_l)
            if least < CANCELS:
                _repair(state_l[node], action_l[action], hidden_l)
            least = _add_tanh(tanh_state_s[node], tanh_action_s[action], hidden_s)
            if least < CANCELS:
                _repair(state_s[node], action_s[action], hidden_s)
            for feature in range(O):
                place, spread = bias_l[feature], bias_s[feature]
                for h in range(H):
                    place += output_l[feature, h] * hidden_l[h]
                for h in range(hidden_s.shape[0]):
                    spread += output_s[feature, h] * hidden_s[h]
                # softplus without overflow
                softplus = max(spread, 0.0) + np.log1p(np.exp(-abs(spread)))
                result[node, child, feature] = place + softplus * noise[feature]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _add_tanh(x: Any, y: Any, result: Any) -> float:
    """The addition formula for tanh values, and its least denominator."""
    least = 1.0
    for h in range(x.shape[0]):
        denominator = 1.0 + x[h] * y[h]
        least = min(least, denominator)
        result[h] = (x[h] + y[h]) / denominator
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def _repair(x: Any, y: Any, result: Any) -> None:
    """Units where the formula may have lost digits: large arguments of opposite signs."""
    for h in range(x.shape[0]):
        if x[h] * y[h] < 0.0 and min(abs(x[h]), abs(y[h])) > SAFE:
            result[h] = np.tanh(x[h] + y[h])


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
        return with_fixed(moving, self._fixed, 1.0)

    @cached_property
    def deviation(self) -> FloatArray:
        """(n, D, D)."""
        location, scale = self._networks
        half = (self._location.high - self._location.low) / 2
        moving = location.absolute.slopes(half)
        for sign, (sigma, gates) in zip((-1, 1), self._extremes(), strict=True):
            weight = sign * np.abs(self._noise) * sigma / 2
            moving += weight[:, :, None] * scale.absolute.slopes(gates)
        return with_fixed(moving * (1.0 + OUTWARD) + OUTWARD, self._fixed, 0.0)

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n, D), tighter than |x| E: location gates are weighed by |W_z^T x|."""
        location, scale = self._networks
        moving = directions[:, self._fixed :]
        half = (self._location.high - self._location.low) / 2
        result = (np.abs(moving @ location.output) * half) @ location.absolute.state
        weight = np.abs(moving * self._noise) / 2
        for sign, (sigma, gates) in zip((-1, 1), self._extremes(), strict=True):
            through = ((weight * sigma) @ scale.absolute.output) * gates
            result += sign * (through @ scale.absolute.state)
        size = 1.0 + np.abs(moving).sum(axis=1, keepdims=True)
        return np.asarray(result * (1.0 + OUTWARD) + OUTWARD * size)

    def _extremes(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Least and largest (softplus slope (n, O), gate (n, H)) of the scale."""
        return (self._sigma[0], self._scale.low), (self._sigma[1], self._scale.high)

    def _softplus_slopes(self) -> tuple[FloatArray, FloatArray]:
        """(n, O) least and largest slope of the softplus over the region."""
        scale = self._networks[1]
        output = np.tanh(self._scale.activation) @ scale.output.T + scale.output_bias
        moved = np.minimum(self._scale.high * self._scale.reach, 2.0) @ scale.absolute.output.T
        moved += OUTWARD
        return sigmoid(output - moved), sigmoid(output + moved)


def _gates(network: Network, region: Region, actions: FloatArray) -> _Gates:
    activation = region.centre @ network.state.T + network.bias + actions @ network.action.T
    reach = np.minimum(network.row_norms * region.radius, network.absolute.state @ region.box)
    reach = reach * (1.0 + OUTWARD) + OUTWARD
    low, high = gate_interval(activation - reach, activation + reach)
    return _Gates(low - OUTWARD, high + OUTWARD, reach, activation)


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), the slope of the softplus."""
    # Nothing overflows, and the absolute error is far below OUTWARD.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))
