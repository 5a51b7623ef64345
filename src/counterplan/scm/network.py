"""One hidden layer with a tanh, as the 2023 paper uses for location and scale: outputs, compiled
counterfactual steps, and certified slopes.

    z = tanh(m (W_s s + b + W_a a)),      o = m (W_z z + b_z)

m multiplies both layers. With spectral norms ||W_s||, ||W_z|| the Lipschitz constant in s is at
most m^2 ||W_z|| ||W_s||, since tanh has slope at most 1.

Steps. The first layer splits into a state half, common to all actions of a node, and an action
half, common to all nodes.

Slopes. Between the centre c of a region and one of its states a unit's argument x moves by at most
r_h = min(||W_s[h, :]|| radius, |W_s[h, :]| . box), say by d, and the unit f by a gate times d. The
gate lies between the least and the largest slope over x +- r; by Taylor's formula it also is
f'(x) + f''(x) d / 2 with an error of at most (|f'''(x)| / 6 + m_4 r / 24) r^2 and m_3 r^2 / 6 (m_i:
the size of the i-th derivative anywhere). With gates g = f', h = f'' / 2 at the centre and errors e
of g, e' of g + h d

    J = W_z diag(g) W_s,     z . (o(s) - o(c) - J (s - c))  is at most, with y = |s - c|,

    (|W_z^T z| * e) |W_s| y    and    y^T |W_s^T diag(h W_z^T z) W_s| y + (|W_z^T z| * e') |W_s| y

The second keeps what cancels among units, the first is better over large regions. Other units:
`cosine`. The scale is a constant + softplus(o): slopes
M +- E of o are multiplied by the noise u and by slopes q +- p of chords of the softplus,

    u q M,     deviation |u| (q E + p (|M| + E))

Nothing is linearised: every slope of the region is covered.

Limits. A feature that cannot leave [low, high] becomes clip(y), y = h + phi u. Let y be its value
at the centre and m the most that it can move over the region. A chord of the clip has a slope

    inside   from min(1, (high - y) / m, (y - low) / m) to 1
    outside  from 0 to 1 - x / m, where x is how far outside y is

by which slopes of y are multiplied, as above: 1 where no limit is in reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit, plain, within
from counterplan.core.validation import LARGEST, FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.point import Region, Regions, Slopes, number_array, with_fixed

MATRICES = ("state", "action", "output", "skip", "action_skip")
# Norms come out of floating-point factorisations: certified ones are rounded up by this much.
ROUND_UP = 1.0 + 1e-12
# ln 2 in two parts, and the series of exp(x) - 1 up to ln 2 / 2, highest powers first.
LN2 = (0.693147180369123816490, 1.90821492927058770002e-10)
EXPONENTIAL = tuple(1.0 / math.factorial(power) for power in range(14, 0, -1))
# States that are stepped together.
ROWS = 8
# Chords of the softplus over less are lost in rounding.
SHORTEST_CHORD = 1e-3
# Intervals are widened by more than all roundings on the way to them can add up to.
OUTWARD = 1e-12
# Over less the second of both bounds is never the larger one.
SMALL = 0.5
# Of curvatures, numbers for all units.
LARGEST_CURVATURES = 2**23


class Gates(NamedTuple):
    """For N actions and H units at a centre (N, H), and over regions around it.

    slope  g
    bend   h
    wide   (m, H) e, how far gates are from g at most
    rest   (m, H) e', from g + h d
    row    (n,) which of these belong to each pair of a region and an action
    small  whether e is no less than what h and e' come to
    """

    slope: FloatArray
    bend: FloatArray
    wide: FloatArray
    rest: FloatArray
    row: IntArray
    small: bool


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
    # m_3 and m_4
    sizes: ClassVar[tuple[float, float]] = (2.0, 4.1)

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

    @cached_property
    def of_doses(self) -> Self:
        """The network with what is added to an action as more features behind those of a state."""
        pairs = {"state": "action", "skip": "action_skip"}
        joined = {
            one: np.concatenate([getattr(self, one), getattr(self, other)], axis=1)
            for one, other in pairs.items()
            if one in self.names()
        }
        return replace(self, **joined)

    @property
    def widths(self) -> tuple[int, int]:
        """(D, d): how many features and action components it takes."""
        return int(self.state.shape[-1]), int(self.action.shape[-1])

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, O) outputs for states (n, D) and action vectors (n, d)."""
        hidden = np.tanh(states @ self.state.T + self.bias + actions @ self.action.T)
        return np.asarray(hidden @ self.output.T + self.output_bias)

    @cached_property
    def by_feature(self) -> FloatArray:
        """(D, H) the weights of states, for compiled loops over units."""
        return np.ascontiguousarray(self.state.T)

    @cached_property
    def absolute(self) -> Self:
        """The network of the sizes of all weights, |W|."""
        return type(self)(*(np.abs(getattr(self, key)) for key in self.names()))

    def gates(self, region: Region, actions: FloatArray) -> Gates:
        """Of all units over a region, for action vectors (n, d)."""
        return self.gates_over(Regions.only(region, len(actions)), actions)

    def gates_over(self, regions: Regions, actions: FloatArray) -> Gates:
        """Of all units over regions, for action vectors (N, d)."""
        x = regions.centre @ self.state.T + self.bias + actions @ self.action.T
        # Features that cannot differ add nothing to the norm.
        norms = np.linalg.norm(self.state[:, (regions.box > 0.0).any(axis=0)], axis=1)
        ball = np.outer(regions.radius, norms)
        reach = np.minimum(ball, regions.box @ self.absolute.state.T) * (1.0 + OUTWARD) + OUTWARD
        slope, bend, third = self.derivatives(x)
        # Arguments themselves are rounded, by a share of their size.
        parts = np.abs(bend), third, OUTWARD * (1.0 + np.abs(x))
        if small := float(reach.max(initial=0.0)) <= SMALL:
            # The most over all actions: little more, and much less to compute.
            r, row = reach, regions.level
            bent, third, outward = (part.max(axis=0, initial=0.0) for part in parts)
        else:
            r, row = reach[regions.level], np.arange(len(regions.level))
            bent, third, outward = (part[regions.action] for part in parts)
        rest = np.minimum(third + (self.sizes[1] / 24) * r, self.sizes[0] / 6) * r**2
        rest += outward * (1.0 + r)
        bent = bent * r
        if small:
            return Gates(slope, bend, bent + rest, rest, row, small)
        middle, (low, high) = slope[regions.action], self.chords(x[regions.action], r)
        wide = np.minimum(np.maximum(high - middle, middle - low) + outward, bent + rest)
        return Gates(slope, bend, wide, np.minimum(rest, wide + bent), row, small)

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """f', f'' / 2 and |f'''| / 6 of the units."""
        value = np.tanh(x)
        slope = 1.0 - value**2
        return slope, -value * slope, slope * np.abs(value**2 - 1 / 3)

    def chords(self, x: FloatArray, reach: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and largest slope of a chord of a unit from x to a place within reach."""
        # At the nearest and the farthest place from 0.
        size = np.abs(x)
        near, far = np.tanh(np.maximum(size - reach, 0.0)), np.tanh(size + reach)
        return 1.0 - far**2, 1.0 - near**2

    def slopes(self, gates: FloatArray) -> FloatArray:
        """(n, O, D) slopes of the outputs under gates (n, H)."""
        return self.unit_slopes(gates)

    def curvatures(self, gates: Gates, fixed: int) -> FloatArray | None:
        """(N, O, M, M) W_z diag(h) W_s W_s^T for each output, by all but the first features; None
        if that is too large."""
        (O, H), M = self.output.shape, self.state.shape[1] - fixed  # noqa: E741
        if self.output.size * M**2 > LARGEST_CURVATURES:
            return None
        one, other = np.triu_indices(M)
        if fixed not in self._squares:
            pairs = self.state[:, fixed + one] * self.state[:, fixed + other]
            squares = self.output.T[:, :, None] * pairs[:, None]
            self._squares[fixed] = squares.reshape(H, O * len(one))
        place = np.empty((M, M), dtype=np.int64)
        place[one, other] = place[other, one] = np.arange(len(one))
        halves = (gates.bend @ self._squares[fixed]).reshape(len(gates.bend), O, len(one))
        return np.asarray(halves[:, :, place])

    @cached_property
    def _squares(self) -> dict[int, FloatArray]:
        """By the number of features left out: (H, O P) of the P pairs of the others."""
        return {}

    def deviations(self, gates: Gates, curvature: FloatArray, regions: Regions) -> FloatArray:
        """(n, O, D) how far slopes over regions are from those at the centre."""
        rest = self.absolute.unit_slopes(gates.rest)[gates.row]
        fixed = rest.shape[2] - curvature.shape[3]
        bent = np.abs(curvature) @ regions.box[:, fixed:].T
        rest[:, :, fixed:] += bent[regions.action, ..., regions.level]
        return rest if gates.small else np.minimum(rest, self.widest(gates))

    def widest(self, gates: Gates) -> FloatArray:
        """(n, O, D) the same by the sizes of all units."""
        return self.absolute.unit_slopes(gates.wide)[gates.row]

    def unit_slopes(self, gates: FloatArray) -> FloatArray:
        """(n, O, D) W_z diag(g) W_s for gates (n, H)."""
        shape = (len(gates), self.output.shape[0], self.state.shape[1])
        return np.asarray(gates @ self._products).reshape(shape)

    @cached_property
    def _products(self) -> FloatArray:
        """(H, O D) W_z[i, h] W_s[h, j]: slopes of many gates are then one matrix product."""
        products = self.output.T[:, :, None] * self.state[:, None, :]
        return products.reshape(len(self.bias), self.output.shape[0] * self.state.shape[1])

    @cached_property
    def ends(self) -> FloatArray:
        """(O, 2) between which outputs are, whatever goes in."""
        size = np.abs(self.output).sum(axis=1)
        return np.stack([self.output_bias - size, self.output_bias + size], axis=1)

    @cached_property
    def lipschitz(self) -> float:
        """A certified constant with respect to the state, by singular values."""
        norms = (np.linalg.norm(part, 2) for part in (self.state, self.output))
        return float(np.prod([float(norm) * ROUND_UP for norm in norms]))


class NeuralReplay:
    """F_t(s, a) for the actions of each step of one episode."""

    def __init__(
        self,
        networks: tuple[Network, Network],
        fixed: int,
        vectors: FloatArray,
        noise: FloatArray,
        limits: FloatArray,
    ) -> None:
        """`networks`: location and scale; action vectors (T-1, N, d), noise (T-1, O), and limits
        (O, 2)."""
        self._noise, self._count = plain(noise), vectors.shape[1]
        # The state half of each first layer, the action half, and the second layer.
        location, scale = (
            (
                one.by_feature,
                vectors @ one.action.T + one.bias,
                plain(one.output),
                plain(one.output_bias),
            )
            for one in networks
        )
        self._parts: Any = location, scale, fixed, plain(limits)

    def children(self, t: int, states: FloatArray) -> FloatArray:
        """(n, N, D)."""
        n, every = len(states), np.arange(self._count)
        after = self.follow(t, np.repeat(states, len(every), axis=0), np.tile(every, n))
        return after.reshape(n, len(every), -1)

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, D)."""
        return self.path(t, states, actions[:, None])[:, 1]

    def path(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, m + 1, D)."""
        steps = slice(t, t + actions.shape[1])
        return self.under(t, states, actions, self._noise[None, steps])

    def under(
        self, t: int, states: FloatArray, actions: NDArray[np.int64], noise: FloatArray
    ) -> FloatArray:
        """(n, m + 1, D) the same under other noise: (n, m, O), or (1, m, O) for all."""
        result = np.empty((len(states), actions.shape[1] + 1, states.shape[1]))
        result[:, 0] = states
        self._fill(result, t, plain(actions), plain(noise))
        return result

    def _fill(self, path: FloatArray, t: int, actions: IntArray, noise: FloatArray) -> None:
        """The states of a path (n, m + 1, D), given those of step t."""
        _walk(self._parts, path, t, actions, noise)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def tanh_of(values: Any, powers: Any) -> None:
    """Put tanh(x) = (e^2x - 1) / (e^2x + 1) in the place of values (n,), several at a time, correct
    to the last digits: 2x = q ln 2 + y, and e^y - 1 by its series. Room for powers (n,) of 2, as
    the bits of a number."""
    two = powers.view(np.float64)
    for r in range(values.shape[0]):
        x = 2.0 * values[r]
        x = 44.0 if x > 44.0 else x  # beyond it tanh is 1
        x = -44.0 if x < -44.0 else x
        values[r] = x
        powers[r] = (np.int64(np.floor(x * (1.0 / np.log(2.0)) + 0.5)) + 1023) << 52
    for r in range(values.shape[0]):
        x = values[r]
        quotient = np.floor(x * (1.0 / np.log(2.0)) + 0.5)
        y = x - quotient * LN2[0]
        y = y - quotient * LN2[1]
        series = EXPONENTIAL[0]
        for power in range(1, 14):
            series = series * y + EXPONENTIAL[power]
        less = two[r] * (series * y) + (two[r] - 1.0)
        values[r] = less / (less + 2.0)


@within(error_model="numpy", fastmath={"contract"})
def softplus_of(values: Any, powers: Any) -> None:
    """Put softplus(x) = max(x, 0) + log(1 + e), e = e^-|x|, in the place of values (n,) likewise;
    with z = e / (2 + e) the logarithm is 2 (z + z^3 / 3 + z^5 / 5 ..)."""
    two = powers.view(np.float64)
    for r in range(values.shape[0]):
        x = -abs(values[r])
        x = -700.0 if x < -700.0 else x  # beyond it nothing is left
        powers[r] = (np.int64(np.floor(x * (1.0 / np.log(2.0)) + 0.5)) + 1023) << 52
    for r in range(values.shape[0]):
        x = -abs(values[r])
        x = -700.0 if x < -700.0 else x
        quotient = np.floor(x * (1.0 / np.log(2.0)) + 0.5)
        y = x - quotient * LN2[0]
        y = y - quotient * LN2[1]
        series = EXPONENTIAL[0]
        for power in range(1, 14):
            series = series * y + EXPONENTIAL[power]
        e = two[r] + two[r] * (series * y)
        z = e / (2.0 + e)
        square = z * z
        series = 1.0 / 33.0
        for power in range(15, -1, -1):
            series = series * square + 1.0 / (2.0 * power + 1.0)
        values[r] = max(values[r], 0.0) + 2.0 * z * series


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _first_layer(state: Any, weights: Any, half: Any) -> None:
    """Write the state half (H,) for one state; four features at a time, which takes half as
    long."""
    D, H, fours = weights.shape[0], half.shape[0], weights.shape[0] // 4 * 4
    half[:] = 0.0
    for j in range(0, fours, 4):
        a, b, c, d = state[j], state[j + 1], state[j + 2], state[j + 3]
        one, two, three, four = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for h in range(H):
            half[h] += a * one[h] + b * two[h] + c * three[h] + d * four[h]
    for j in range(fours, D):
        for h in range(H):
            half[h] += state[j] * weights[j, h]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _second_layer(half: Any, action: Any, rest: Any, room: Any, outputs: Any) -> None:
    """Write the outputs (O,) of both halves; `rest`: its weights and bias."""
    weights, bias = rest
    hidden, powers = room
    for h in range(half.shape[0]):
        hidden[h] = half[h] + action[h]
    tanh_of(hidden, powers)
    O, threes = outputs.shape[0], outputs.shape[0] // 3 * 3  # noqa: E741
    for i in range(0, threes, 3):  # three at a time: hidden units are read once
        a, b, c = bias[i], bias[i + 1], bias[i + 2]
        for h in range(half.shape[0]):
            a += weights[i, h] * hidden[h]
            b += weights[i + 1, h] * hidden[h]
            c += weights[i + 2, h] * hidden[h]
        outputs[i], outputs[i + 1], outputs[i + 2] = a, b, c
    for i in range(threes, O):
        a = bias[i]
        for h in range(half.shape[0]):
            a += weights[i, h] * hidden[h]
        outputs[i] = a


@njit(cache=True, nogil=True, error_model="numpy")
def _outputs(network: Any, states: Any, t: int, actions: Any, like: Any, outputs: Any) -> None:
    """Write the outputs (n, O) of a network, as `NeuralReplay` has its parts, for a few states (n,
    D) and actions (n,) of step t; of rows with the same state `like` (n,) names the first."""
    weights, halves = network[:2]
    H = weights.shape[1]
    half, room = np.empty((len(like), H)), (np.empty(H), np.empty(H, np.int64))
    for r in range(len(like)):
        if like[r] == r:
            _first_layer(states[r], weights, half[r])
    for r in range(len(like)):
        if r > 0 and like[r] == like[r - 1] and actions[r] == actions[r - 1]:
            outputs[r] = outputs[r - 1]
        else:
            _second_layer(half[like[r]], halves[t, actions[r]], network[2:], room, outputs[r])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _walk(parts: Any, path: Any, t: int, actions: Any, noise: Any) -> None:
    """Fill path (n, m + 1, D) from its beginning at step t by the actions (n, m) of each row, under
    noise (n, m, O), or (1, m, O) for all; parts as `NeuralReplay` has them. A few rows at a time,
    so that weights stay at hand; those with the same state share what is common."""
    location, scale, fixed, limits = parts
    n, D, O = path.shape[0], path.shape[2], len(location[3])  # noqa: E741
    own, like = int(noise.shape[0] > 1), np.empty(ROWS, np.int64)
    place, wide, powers = np.empty((ROWS, O)), np.empty((ROWS, O)), np.empty(ROWS * O, np.int64)
    for step in range(actions.shape[1]):
        for first in range(0, n, ROWS):
            rows = min(ROWS, n - first)
            states, taken = path[first : first + rows, step], actions[first : first + rows, step]
            for r in range(rows):
                is_same = r > 0
                for j in range(D):
                    is_same = is_same and states[r, j] == states[r - 1, j]
                like[r] = like[r - 1] if is_same else r
            _outputs(location, states, t + step, taken, like[:rows], place)
            _outputs(scale, states, t + step, taken, like[:rows], wide)
            softplus_of(wide.reshape(ROWS * O)[: rows * O], powers)
            for r in range(rows):
                after = path[first + r, step + 1]
                for j in range(fixed):
                    after[j] = states[r, j]
                for i in range(O):
                    moved = place[r, i] + wide[r, i] * noise[own * (first + r), step, i]
                    after[fixed + i] = min(max(moved, limits[i, 0]), limits[i, 1])


class NetworkSlopes:
    """Slopes of F(., a) over regions for action vectors (N, d) under one noise vector."""

    def __init__(
        self,
        networks: tuple[Network, Network],
        fixed: int,
        regions: Regions,
        actions: FloatArray,
        noise: FloatArray,
    ) -> None:
        """`networks`: location and scale."""
        self._location, self._fixed, self._regions = networks[0], fixed, regions
        self._gates = networks[0].gates_over(regions, actions)
        unmoved = 0 if regions.box[:, :fixed].any() else fixed
        self._curvature = networks[0].curvatures(self._gates, unmoved)
        self._scale_slope, self._scale_deviation = _scale_slopes(
            networks[1], regions, actions, noise
        )

    @cached_property
    def jacobian(self) -> FloatArray:
        """(n, D, D)."""
        moving = self._location.slopes(self._gates.slope)[self._regions.action]
        return with_fixed(moving + self._scale_slope, self._fixed, 1.0)

    @cached_property
    def deviation(self) -> FloatArray:
        """(n, D, D)."""
        if self._curvature is None:
            moving = self._location.widest(self._gates)
        else:
            moving = self._location.deviations(self._gates, self._curvature, self._regions)
        moving += self._scale_deviation
        return with_fixed(moving * (1.0 + OUTWARD) + OUTWARD, self._fixed, 0.0)

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n, D), tighter than |z| E: what several features have in common may cancel."""
        location, fixed, regions = self._location, self._fixed, self._regions
        moving = directions[:, fixed:]
        gates, through = self._gates, np.abs(moving @ location.output)
        if self._curvature is None:
            result = (through * gates.wide[gates.row]) @ location.absolute.state
        else:
            result = (through * gates.rest[gates.row]) @ location.absolute.state
            n, (_, O, M, _) = len(moving), self._curvature.shape  # noqa: E741
            flat = self._curvature.reshape(-1, O, M * M)[regions.action]
            bent = np.abs((moving[:, None] @ flat).reshape(n, M, M))
            result[:, -M:] += (bent @ regions.box[regions.level, -M:, None])[:, :, 0]
            if not gates.small:
                result = np.minimum(result, (through * gates.wide) @ location.absolute.state)
        result += np.einsum("ni,nij->nj", np.abs(moving), self._scale_deviation)
        size = 1.0 + np.abs(moving).sum(axis=1, keepdims=True)
        return np.asarray(result * (1.0 + OUTWARD) + OUTWARD * size)


class HeldSlopes:
    """Slopes of features that are held within limits."""

    def __init__(self, free: Slopes, share: tuple[FloatArray, FloatArray], fixed: int) -> None:
        """`free`: without limits; `share` (n, O): the least and most that is left of them."""
        self._free, self._fixed = free, fixed
        self._middle, self._half = (share[1] + share[0]) / 2, (share[1] - share[0]) / 2
        self._wide = (np.abs(free.jacobian) + free.deviation)[:, fixed:]

    @cached_property
    def jacobian(self) -> FloatArray:
        """(n, D, D)."""
        moving = self._middle[:, :, None] * self._free.jacobian[:, self._fixed :]
        return with_fixed(moving, self._fixed, 1.0)

    @cached_property
    def deviation(self) -> FloatArray:
        """(n, D, D)."""
        moving = self._middle[:, :, None] * self._free.deviation[:, self._fixed :]
        moving += self._half[:, :, None] * self._wide
        return with_fixed(moving * (1.0 + OUTWARD) + OUTWARD, self._fixed, 0.0)

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n, D)."""
        moving, held = directions[:, self._fixed :], directions.copy()
        held[:, self._fixed :] *= self._middle
        lost = np.einsum("ni,nij->nj", np.abs(moving) * self._half, self._wide)
        return np.asarray((self._free.remainder(held) + lost) * (1.0 + OUTWARD))


def held_slopes(
    free: Slopes, after: FloatArray, limits: FloatArray, regions: Regions, fixed: int
) -> Slopes:
    """Slopes over regions within limits (O, 2), where the features that move are `after` (n, O)
    at their centre, without limits; `free` themselves where no limit is in reach."""
    wide = (np.abs(free.jacobian) + free.deviation)[:, fixed:]
    with np.errstate(invalid="ignore", over="ignore"):  # what is no number is no slope
        moved = regions.moved(wide) * (1.0 + OUTWARD) + OUTWARD
        room = np.minimum(after - limits[:, 0], limits[:, 1] - after)
        rounding = OUTWARD * (1.0 + np.abs(after))
        least = np.clip((room - rounding) / moved, 0.0, 1.0)
        most = np.clip(1.0 + (room + rounding) / moved, 0.0, 1.0)
    return free if (least == 1.0).all() else HeldSlopes(free, (least, most), fixed)


def _scale_slopes(
    network: Network, regions: Regions, actions: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n, O, D) middle and deviation of the slopes of softplus(o) u over regions."""
    gates = network.gates_over(regions, actions)
    slope = network.slopes(gates.slope)[regions.action]
    deviation = network.widest(gates)
    output = network(np.repeat(regions.centre[None], len(actions), axis=0), actions)
    output = output[regions.action]
    steep = np.abs(slope) + deviation
    moved = regions.moved(steep) * (1.0 + OUTWARD) + OUTWARD
    # Chords of the softplus, which is convex, from the centre to both ends; where they are too
    # short for that, its slopes there.
    here, ends = np.logaddexp(0.0, output), (output - moved, output + moved)
    is_long = moved > SHORTEST_CHORD
    least, most = (
        np.where(is_long, np.abs(np.logaddexp(0.0, end) - here) / moved, sigmoid(end))
        for end in ends
    )
    middle = ((least + most) / 2)[:, :, None]
    half = ((most - least) / 2 + OUTWARD / SHORTEST_CHORD)[:, :, None]
    wide = np.abs(noise)[:, None] * (middle * deviation + half * steep)
    return noise[:, None] * middle * slope, np.asarray(wide)


def sigmoid(values: FloatArray) -> FloatArray:
    """1 / (1 + exp(-x)), the slope of the softplus."""
    # Nothing overflows, and the absolute error is far below OUTWARD.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))
