"""One hidden layer of cosine units beside a linear part: outputs, counterfactual steps of many
nodes at a time, and certified slopes.

    o = C cos(W_s s + W_a a + b) + K_s s + K_a a + c

Steps. Many states at a time go through one unit after the other; weights that are zero cost
nothing, and of those that regression finds most are. Models that differ in C, K and c only, as the
members of an ensemble do, go through a unit together.

Slopes, as in `network`: between the centre of a region and one of its states a unit's argument x
moves by at most r, and

    cos(x + d) - cos(x) = g d,      g = -sin(x + d/2) sinc(d/2),      |d| <= r

so the gate g lies between the products of what both factors can be: -sin over x +- r/2, and sinc
between sinc(r/2) and 1. The scale is LEAST_SCALE + softplus(o).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from counterplan.core.compiled import njit, plain, within
from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm.network import ROUND_UP, Network, NeuralReplay

# Of the noise's usual spread: were it nothing somewhere, what is observed there would be infinite
# luck.
LEAST_SCALE = 0.1
# The least value of sin(x) / x.
LEAST_SINC = -0.2173
# States that are stepped together.
LANES = 64
# Beyond it angles are left to the system's own functions.
LARGEST_ANGLE = 1e5
# pi / 2 in parts, and the series of sine and cosine up to pi / 4, highest powers first.
QUARTER = (1.57079625129699707031, 7.54978941586159635335e-8, 5.39030285815811905290e-15)
SINE = (
    1.58962301576546568060e-10,
    -2.50507477628578072866e-8,
    2.75573136213857245213e-6,
    -1.98412698295895385996e-4,
    8.33333333332211858878e-3,
    -1.66666666666666307295e-1,
)
COSINE = (
    -1.13585365213876817300e-11,
    2.08757008419747316778e-9,
    -2.75573141792967388112e-7,
    2.48015872888517045348e-5,
    -1.38888888888730564116e-3,
    4.16666666666665929218e-2,
)


class Units(NamedTuple):
    """A network by its units h, for compiled loops; inputs are those of state and action.

    starts, inputs, weights  entries starts[h] to starts[h + 1]: inputs in rising order, and weights
    ends, outputs, effects   likewise the outputs that it enters
    bias                     (H,)
    linear, constant         (O, D + d) and (O,) of the outputs, without any units
    """

    starts: IntArray
    inputs: IntArray
    weights: FloatArray
    ends: IntArray
    outputs: IntArray
    effects: FloatArray
    bias: FloatArray
    linear: FloatArray
    constant: FloatArray


@dataclass(frozen=True, eq=False)
class CosineNetwork(Network):
    """Weights; there may be no units at all.

    state, bias, action, output, output_bias  W_s (H, D), b (H,), W_a (H, d), C (O, H), c (O,)
    skip                                      (O, D) K_s
    action_skip                               (O, d) K_a
    """

    may_lack_units: ClassVar[bool] = True
    sizes: ClassVar[tuple[float, float]] = (1.0, 1.0)

    skip: FloatArray
    action_skip: FloatArray

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        hidden = np.cos(states @ self.state.T + self.bias + actions @ self.action.T)
        return np.asarray(hidden @ self.output.T + self.linear(states, actions))

    def linear(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, O) what the units do not add."""
        skipped = states @ self.skip.T + actions @ self.action_skip.T
        return np.asarray(skipped + self.output_bias)

    def derivatives(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        slope = -np.sin(x)
        return slope, -np.cos(x) / 2, np.abs(slope) / 6

    def chords(self, x: FloatArray, reach: FloatArray) -> tuple[FloatArray, FloatArray]:
        return gate_interval(x, reach)

    def slopes(self, gates: FloatArray) -> FloatArray:
        return self.unit_slopes(gates) + self.skip

    @cached_property
    def sparse(self) -> Units:
        """The weights that are not zero."""
        into, H = np.concatenate([self.state, self.action], axis=1), len(self.bias)
        unit, place = np.nonzero(into)
        owner, output = np.nonzero(self.output.T)
        return Units(
            np.searchsorted(unit, np.arange(H + 1)), plain(place), into[unit, place],
            np.searchsorted(owner, np.arange(H + 1)), plain(output), self.output[output, owner],
            plain(self.bias), plain(np.concatenate([self.skip, self.action_skip], axis=1)),
            plain(self.output_bias),
        )  # fmt: skip

    @cached_property
    def lipschitz(self) -> float:
        norms = [
            float(np.linalg.norm(part, 2)) * ROUND_UP if part.size else 0.0
            for part in (self.state, self.output, self.skip)
        ]
        return norms[0] * norms[1] + norms[2]


def spread_of(outputs: FloatArray) -> FloatArray:
    """The scale that outputs of its network stand for."""
    return np.asarray(LEAST_SCALE + np.logaddexp(0.0, outputs))


class CosineReplay(NeuralReplay):
    """F_t(s, a) for the actions of each step of one episode."""

    def __init__(
        self,
        networks: tuple[CosineNetwork, CosineNetwork],
        fixed: int,
        vectors: FloatArray,
        noise: FloatArray,
        limits: FloatArray,
    ) -> None:
        self._parts = networks[0].sparse, networks[1].sparse, fixed, plain(limits)
        self._vectors, self._noise, self._count = plain(vectors), plain(noise), vectors.shape[1]

    def _fill(self, path: FloatArray, t: int, actions: IntArray, noise: FloatArray) -> None:
        _walk(self._parts, path, self._vectors[t : t + actions.shape[1]], actions, noise)


class JointReplay:
    """The steps of several models that share their units, all at once."""

    def __init__(self, replays: Sequence[CosineReplay]) -> None:
        location, scale, fixed, limits = zip(*(one._parts for one in replays), strict=True)
        self._parts = _together(location), _together(scale), fixed[0], np.stack(limits)
        self._noise = np.stack([one._noise for one in replays])
        self._vectors = replays[0]._vectors

    @classmethod
    def of(cls, replays: Sequence[object]) -> JointReplay | None:
        """None where they do not."""
        first, *rest = replays
        known = [one for one in rest if isinstance(one, CosineReplay)]
        if not isinstance(first, CosineReplay) or len(known) < len(rest) or not known:
            return None
        is_same = all(
            np.array_equal(first._vectors, one._vectors)
            and all(map(_share, first._parts[:2], one._parts[:2]))
            for one in known
        )
        return cls([first, *known]) if is_same else None

    def path(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, m + 1, B, D) states (n, B, D) of step t and those after m actions (n, m)."""
        result = np.empty((len(states), actions.shape[1] + 1, *states.shape[1:]))
        result[:, 0] = states
        steps = slice(t, t + actions.shape[1])
        noise, vectors = plain(self._noise[:, steps]), self._vectors[steps]
        _joint_walk(self._parts, result, vectors, plain(actions), noise)
        return result


def _share(one: Units, other: Units) -> bool:
    """Whether two networks differ in the weights behind their units only."""
    names = ("starts", "inputs", "weights", "ends", "outputs", "bias")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _together(networks: Sequence[Units]) -> Units:
    """Networks that share their units as one, with effects (e, B), linear (O, D + d, B) and
    constant (O, B) of each."""
    names = ("effects", "linear", "constant")
    joint = {name: np.stack([getattr(one, name) for one in networks], -1) for name in names}
    return networks[0]._replace(**joint)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def waves(angle: Any, cosine: Any, sine: Any) -> None:
    """Cosines and sines of angles (n,), several at a time: what is left of a multiple of pi / 2 by
    their series (Cephes), correct to the last digits."""
    n = angle.shape[0]
    for r in range(n):
        x = angle[r]
        quarters = np.floor(x * (2.0 / np.pi) + 0.5)
        y = x - quarters * QUARTER[0]
        y = y - quarters * QUARTER[1]
        y = y - quarters * QUARTER[2]
        z = y * y
        s = SINE[0]
        c = COSINE[0]
        for power in range(1, 6):
            s = s * z + SINE[power]
            c = c * z + COSINE[power]
        s = y + y * z * s
        c = 1.0 - 0.5 * z + z * z * c
        turn = quarters - 4.0 * np.floor(quarters * 0.25)
        swapped = (turn == 1.0) | (turn == 3.0)
        one, other = (s, c) if swapped else (c, s)
        cosine[r] = -one if (turn == 1.0) | (turn == 2.0) else one
        sine[r] = -other if turn >= 2.0 else other
    for r in range(n):
        if not abs(angle[r]) < LARGEST_ANGLE:
            cosine[r], sine[r] = np.cos(angle[r]), np.sin(angle[r])


@within(error_model="numpy", fastmath={"contract"})
def _outputs(units: Units, inputs: Any, outputs: Any) -> None:
    """Write the outputs (O, n) of a network for inputs (P, n)."""
    n, P = outputs.shape[1], inputs.shape[0]
    angle, cosine, sine = np.empty(n), np.empty(n), np.empty(n)
    for i in range(outputs.shape[0]):
        outputs[i] = units.constant[i]
        for j in range(P):
            for r in range(n):
                outputs[i, r] += units.linear[i, j] * inputs[j, r]
    for h in range(units.bias.shape[0]):
        angle[:] = units.bias[h]
        for e in range(units.starts[h], units.starts[h + 1]):
            j, weight = units.inputs[e], units.weights[e]
            for r in range(n):
                angle[r] += weight * inputs[j, r]
        waves(angle, cosine, sine)
        for e in range(units.ends[h], units.ends[h + 1]):
            i, weight = units.outputs[e], units.effects[e]
            for r in range(n):
                outputs[i, r] += weight * cosine[r]


@within(error_model="numpy", fastmath={"contract"})
def _joint_outputs(units: Units, inputs: Any, outputs: Any) -> None:
    """Write the outputs (O, n, B) of B networks that share their units (`_together`) for inputs (P,
    n, B)."""
    n, B = outputs.shape[1:]  # noqa: N806
    angle, cosine, sine = np.empty(n * B), np.empty(n * B), np.empty(n * B)
    for i in range(outputs.shape[0]):
        for r in range(n):
            for b in range(B):
                outputs[i, r, b] = units.constant[i, b]
            for j in range(inputs.shape[0]):
                for b in range(B):
                    outputs[i, r, b] += units.linear[i, j, b] * inputs[j, r, b]
    flat, cosines = inputs.reshape(-1, n * B), cosine.reshape(n, B)
    for h in range(units.bias.shape[0]):
        angle[:] = units.bias[h]
        for e in range(units.starts[h], units.starts[h + 1]):
            j, weight = units.inputs[e], units.weights[e]
            for r in range(n * B):
                angle[r] += weight * flat[j, r]
        waves(angle, cosine, sine)
        for e in range(units.ends[h], units.ends[h + 1]):
            i = units.outputs[e]
            for r in range(n):
                for b in range(B):
                    outputs[i, r, b] += units.effects[e, b] * cosines[r, b]


@njit(cache=True, nogil=True, error_model="numpy")
def spread(output: float) -> float:
    """The scale that an output of its network stands for: softplus without overflow."""
    return float(LEAST_SCALE + max(output, 0.0) + np.log1p(np.exp(-abs(output))))


@njit(cache=True, nogil=True, error_model="numpy")
def _walk(parts: Any, path: Any, vectors: Any, actions: Any, noise: Any) -> None:
    """Fill path (n, m + 1, D), given its beginning, by m actions (n, m) of each row, under noise
    (n, m, O), or (1, m, O) for all rows; parts of a model as `CosineReplay` has them."""
    location, scale, fixed, limits = parts
    n, D = path.shape[0], path.shape[2]
    d, O = vectors.shape[2], location.constant.shape[0]  # noqa: E741
    own = int(noise.shape[0] > 1)
    for start in range(0, n, LANES):
        rows = min(LANES, n - start)
        inputs = np.empty((D + d, rows))
        place, wide = np.empty((O, rows)), np.empty((O, rows))
        for r in range(rows):  # one by one: to assign slices takes twice as long to compile
            for j in range(D):
                inputs[j, r] = path[start + r, 0, j]
        for t in range(actions.shape[1]):
            for r in range(rows):
                for j in range(d):
                    inputs[D + j, r] = vectors[t, actions[start + r, t], j]
            _outputs(location, inputs, place)
            _outputs(scale, inputs, wide)
            for i in range(O):
                for r in range(rows):
                    moved = place[i, r] + spread(wide[i, r]) * noise[own * (start + r), t, i]
                    inputs[fixed + i, r] = min(max(moved, limits[i, 0]), limits[i, 1])
            for r in range(rows):
                for j in range(D):
                    path[start + r, t + 1, j] = inputs[j, r]


@njit(cache=True, nogil=True, error_model="numpy")
def _joint_walk(parts: Any, path: Any, vectors: Any, actions: Any, noise: Any) -> None:
    """Fill path (n, m + 1, B, D) of B models, given its beginning, by m actions (n, m) of each row,
    under noise (B, m, O); parts as `JointReplay` has them."""
    location, scale, fixed, limits = parts
    n, _, B, D = path.shape  # noqa: N806
    d, O = vectors.shape[2], location.constant.shape[0]  # noqa: E741
    together = max(LANES // B, 1)
    for start in range(0, n, together):
        rows = min(together, n - start)
        inputs = np.empty((D + d, rows, B))
        place, wide = np.empty((O, rows, B)), np.empty((O, rows, B))
        for r in range(rows):
            for b in range(B):
                for j in range(D):
                    inputs[j, r, b] = path[start + r, 0, b, j]
        for t in range(actions.shape[1]):
            for r in range(rows):
                for j in range(d):
                    for b in range(B):
                        inputs[D + j, r, b] = vectors[t, actions[start + r, t], j]
            _joint_outputs(location, inputs, place)
            _joint_outputs(scale, inputs, wide)
            for r in range(rows):
                for b in range(B):
                    for i in range(O):
                        moved = place[i, r, b] + spread(wide[i, r, b]) * noise[b, t, i]
                        moved = min(max(moved, limits[b, i, 0]), limits[b, i, 1])
                        inputs[fixed + i, r, b] = moved
                    for j in range(D):
                        path[start + r, t + 1, b, j] = inputs[j, r, b]


def gate_interval(argument: FloatArray, reach: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least and largest slope of a chord of the cosine from `argument` to a place within
    `reach` of it."""
    half = reach / 2
    # -sin(x) = cos(x + pi/2), which is largest at multiples of 2 pi, least halfway between them.
    first, last = argument + np.pi / 2 - half, argument + np.pi / 2 + half
    ends = np.cos(first), np.cos(last)
    turns = 2.0 * np.pi
    top = np.floor(last / turns) >= np.ceil(first / turns)
    bottom = np.floor((last - np.pi) / turns) >= np.ceil((first - np.pi) / turns)
    high = np.where(top, 1.0, np.maximum(*ends))
    low = np.where(bottom, -1.0, np.minimum(*ends))
    flattest = np.where(half < np.pi, np.sinc(np.minimum(half, np.pi) / np.pi), LEAST_SINC)
    low, high = (
        np.minimum(low, np.minimum(low * flattest, high * flattest)),
        np.maximum(high, np.maximum(low * flattest, high * flattest)),
    )
    return low, high
