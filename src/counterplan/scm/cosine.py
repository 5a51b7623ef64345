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
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.scm.network import ROUND_UP, Network, NeuralReplay, softplus_of

# Of the noise's usual spread: were it nothing somewhere, what is observed there would be infinite
# luck.
LEAST_SCALE = 0.1
# The least value of sin(x) / x.
LEAST_SINC = -0.2173
# States that are stepped together.
LANES = 128
# A quarter turn is one but for rounding, relative to the angle.
TURNED = 4e-16
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
    turned                   (H,) whether a unit is the one before, a quarter turn ahead
    linear, constant         (O, D + d) and (O,) of the outputs, without any units
    """

    starts: IntArray
    inputs: IntArray
    weights: FloatArray
    ends: IntArray
    outputs: IntArray
    effects: FloatArray
    bias: FloatArray
    turned: BoolArray
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
            plain(self.bias), _turned(into, self.bias),
            plain(np.concatenate([self.skip, self.action_skip], axis=1)), plain(self.output_bias),
        )  # fmt: skip

    @cached_property
    def lipschitz(self) -> float:
        norms = [
            float(np.linalg.norm(part, 2)) * ROUND_UP if part.size else 0.0
            for part in (self.state, self.output, self.skip)
        ]
        return norms[0] * norms[1] + norms[2]


def _turned(weights: FloatArray, bias: FloatArray) -> BoolArray:
    """(H,) whether a unit of weights (H, D + d) is the one before, a quarter turn ahead, and that
    one is not such a unit itself."""
    turned = np.zeros(len(bias), dtype=np.bool_)
    off = np.abs(np.diff(bias) - np.pi / 2)
    for h in np.flatnonzero(off <= TURNED * (1.0 + np.abs(bias[1:]))) + 1:
        turned[h] = not turned[h - 1] and np.array_equal(weights[h], weights[h - 1])
    return turned


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
        self._units, self._rest = [one.sparse for one in networks], (fixed, plain(limits)[None])
        self._parts = *(_together([one]) for one in self._units), *self._rest
        self._vectors, self._noise, self._count = plain(vectors), plain(noise), vectors.shape[1]

    def _fill(self, path: FloatArray, t: int, actions: IntArray, noise: FloatArray) -> None:
        vectors = self._vectors[t : t + actions.shape[1]]
        _walk(self._parts, path[:, :, None], vectors, actions, noise[None])


class JointReplay:
    """The steps of several models that share their units, all at once."""

    def __init__(self, replays: Sequence[CosineReplay]) -> None:
        networks = zip(*(one._units for one in replays), strict=True)
        fixed, limits = zip(*(one._rest for one in replays), strict=True)
        self._parts = *map(_together, networks), fixed[0], np.concatenate(limits)
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
            _is_same(first._vectors, one._vectors) and all(map(_share, first._units, one._units))
            for one in known
        )
        return cls([first, *known]) if is_same else None

    def path(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, m + 1, B, D) states (n, B, D) of step t and those after m actions (n, m)."""
        result = np.empty((len(states), actions.shape[1] + 1, *states.shape[1:]))
        result[:, 0] = states
        steps = slice(t, t + actions.shape[1])
        noise, vectors = plain(self._noise[:, None, steps]), self._vectors[steps]
        _walk(self._parts, result, vectors, plain(actions), noise)
        return result


def _share(one: Units, other: Units) -> bool:
    """Whether two networks differ in the weights behind their units only."""
    names = ("starts", "inputs", "weights", "ends", "outputs", "bias")
    return all(_is_same(getattr(one, name), getattr(other, name)) for name in names)


def _is_same(one: Any, other: Any) -> bool:
    return one is other or np.array_equal(one, other)


def _together(networks: Sequence[Units]) -> Units:
    """Networks that share their units as one, with effects (e, B), linear (O, D + d, B) and
    constant (O, B) of each."""
    names = ("effects", "linear", "constant")
    joint = {name: np.stack([getattr(one, name) for one in networks], -1) for name in names}
    return networks[0]._replace(**joint)


@within(error_model="numpy", fastmath={"contract"})
def _wave(x: float) -> tuple[float, float]:
    """Cosine and sine of an angle: what is left of a multiple of pi / 2 by their series (Cephes),
    correct to the last digits."""
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
    cosine = -one if (turn == 1.0) | (turn == 2.0) else one
    sine = -other if turn >= 2.0 else other
    return cosine, sine


@within(error_model="numpy", fastmath={"contract"})
def waves(angle: Any, cosine: Any, sine: Any) -> None:
    """Cosines and sines of angles (n,), several at a time."""
    far = 0
    for r in range(angle.shape[0]):
        cosine[r], sine[r] = _wave(angle[r])
        far += not abs(angle[r]) < LARGEST_ANGLE
    for r in range(angle.shape[0] if far else 0):
        if not abs(angle[r]) < LARGEST_ANGLE:
            cosine[r], sine[r] = np.cos(angle[r]), np.sin(angle[r])


@within(error_model="numpy", fastmath={"contract"})
def _computed_once(units: Units, inputs: Any, alike: Any) -> tuple[Any, Any]:
    """(H,) whether all inputs of a unit are alike (P,), and the cosines of those that have such
    inputs (P, m, n), one after the other: of one angle each, they go through together."""
    H = units.bias.shape[0]
    angle, cosine, sine = np.empty(H), np.empty(H), np.empty(H)
    is_alike, count = np.empty(H, np.bool_), 0
    for h in range(H):
        is_alike[h] = True
        for e in range(units.starts[h], units.starts[h + 1]):
            is_alike[h] = is_alike[h] and alike[units.inputs[e]]
        if is_alike[h]:
            angle[count] = units.bias[h]
            for e in range(units.starts[h], units.starts[h + 1]):
                angle[count] += units.weights[e] * inputs[units.inputs[e], 0, 0]
            count += 1
    waves(angle[:count], cosine, sine)
    return is_alike, cosine


@within(error_model="numpy", fastmath={"contract"})
def _outputs(units: Units, first: int, inputs: Any, alike: Any, outputs: Any) -> None:
    """Write the outputs (O, m, n) of m networks that share their units (`_together`), the first of
    them and those after it, for n rows of inputs (P, m, n) each. Units whose inputs are alike (P,)
    in all of them are computed once, and so is the angle of two a quarter turn apart. No views
    within loops: counting who uses them takes time."""
    _, m, n = outputs.shape
    P, H = inputs.shape[0], units.bias.shape[0]
    for i in range(outputs.shape[0]):
        for b in range(m):
            for r in range(n):
                outputs[i, b, r] = units.constant[i, first + b]
            for j in range(P):
                weight = units.linear[i, j, first + b]
                for r in range(n):
                    outputs[i, b, r] += weight * inputs[j, b, r]
    is_alike, known = _computed_once(units, inputs, alike)
    count, flat = 0, inputs.reshape(P, m * n)
    angle, cosine, sines = np.empty(m * n), np.empty((m, n)), np.empty(m * n)
    cosines = cosine.reshape(m * n)
    for h in range(H):
        if is_alike[h]:
            for r in range(m * n):
                cosines[r] = known[count]
            count += 1
        elif units.turned[h]:
            for r in range(m * n):
                cosines[r] = -sines[r]
        else:
            far, last = 0, units.starts[h + 1] - 1
            for r in range(m * n):
                angle[r] = units.bias[h]
            for e in range(units.starts[h], last):
                j, weight = units.inputs[e], units.weights[e]
                for r in range(m * n):
                    angle[r] += weight * flat[j, r]
            j, weight = units.inputs[last], units.weights[last]
            for r in range(m * n):
                x = angle[r] + weight * flat[j, r]
                cosines[r], sines[r] = _wave(x)
                far += not abs(x) < LARGEST_ANGLE
            for r in range(m * n if far else 0):
                x = angle[r] + weight * flat[j, r]
                if not abs(x) < LARGEST_ANGLE:
                    cosines[r], sines[r] = np.cos(x), np.sin(x)
        for e in range(units.ends[h], units.ends[h + 1]):
            i = units.outputs[e]
            if n == 1:
                for b in range(m):
                    outputs[i, b, 0] += units.effects[e, first + b] * cosines[b]
            else:
                for b in range(m):
                    weight = units.effects[e, first + b]
                    for r in range(n):
                        outputs[i, b, r] += weight * cosine[b, r]


@njit(cache=True, nogil=True, error_model="numpy")
def spread(output: float) -> float:
    """The scale that an output of its network stands for: softplus without overflow."""
    return float(LEAST_SCALE + max(output, 0.0) + np.log1p(np.exp(-abs(output))))


@njit(cache=True, nogil=True, error_model="numpy")
def _walk(parts: Any, path: Any, vectors: Any, actions: Any, noise: Any) -> None:
    """Fill path (n, m + 1, B, D) of B models, given its beginning, by m actions (n, m) of each row,
    under noise (B, n, m, O), or (B, 1, m, O) for all rows; parts as `JointReplay` has them. Few
    rows go through several models together."""
    location, scale, fixed, limits = parts
    n, _, B, D = path.shape  # noqa: N806
    d, O = vectors.shape[2], location.constant.shape[0]  # noqa: E741
    own, alike = int(noise.shape[1] > 1), np.empty(D + d, np.bool_)
    most = max(1, min(n, LANES))
    for start in range(0, n, most):
        rows = min(most, n - start)
        for first in range(0, B, LANES // most):
            some = min(LANES // most, B - first)
            inputs = np.empty((D + d, some, rows))
            place, wide = np.empty((O, some, rows)), np.empty((O, some, rows))
            powers = np.empty(O * some * rows, np.int64)
            for b in range(some):  # one by one: to assign slices takes twice as long to compile
                for r in range(rows):
                    for j in range(D):
                        inputs[j, b, r] = path[start + r, 0, first + b, j]
            for t in range(actions.shape[1]):
                for j in range(d):
                    for b in range(some):
                        for r in range(rows):
                            inputs[D + j, b, r] = vectors[t, actions[start + r, t], j]
                for j in range(D + d):
                    differ = 0
                    for b in range(some):
                        for r in range(rows):
                            differ += inputs[j, b, r] != inputs[j, 0, 0]
                    alike[j] = differ == 0
                _outputs(location, first, inputs, alike, place)
                _outputs(scale, first, inputs, alike, wide)
                softplus_of(wide.reshape(O * some * rows), powers)
                for b in range(some):
                    for r in range(rows):
                        luck = own * (start + r)
                        for i in range(O):
                            wide_by = LEAST_SCALE + wide[i, b, r]
                            moved = place[i, b, r] + wide_by * noise[first + b, luck, t, i]
                            moved = max(moved, limits[first + b, i, 0])
                            inputs[fixed + i, b, r] = min(moved, limits[first + b, i, 1])
                        for j in range(D):
                            path[start + r, t + 1, first + b, j] = inputs[j, b, r]


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
