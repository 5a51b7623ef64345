"""One hidden layer of cosine units beside a linear part: outputs, counterfactual steps of many
nodes at a time, and certified slopes.

    o = C cos(W_s s + W_a a + b) + K_s s + K_a a + c

Steps. Many states at a time go through one unit after the other; weights that are zero cost
nothing, and of those that regression finds most are.

Slopes, as in `network`: between the centre of a region and one of its states a unit's argument x
moves by at most r, and

    cos(x + d) - cos(x) = g d,      g = -sin(x + d/2) sinc(d/2),      |d| <= r

so the gate g lies between the products of what both factors can be: -sin over x +- r/2, and sinc
between sinc(r/2) and 1. The scale is LEAST_SCALE + softplus(o).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.compiled import njit, plain
from counterplan.core.validation import FloatArray, IntArray
from counterplan.scm.network import ROUND_UP, Network

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


class CosineReplay:
    """F_t(s, a) for the actions of each step of one episode."""

    def __init__(
        self,
        networks: tuple[CosineNetwork, CosineNetwork],
        fixed: int,
        vectors: FloatArray,
        noise: FloatArray,
        limits: FloatArray,
    ) -> None:
        """`networks`: location and scale; action vectors (T-1, N, d), noise (T-1, O), and limits
        (O, 2)."""
        self._parts = networks[0].sparse, networks[1].sparse, fixed, plain(limits)
        self._vectors, self._noise = plain(vectors), plain(noise)

    def children(self, t: int, states: FloatArray) -> FloatArray:
        """(n, N, D)."""
        n, N = len(states), self._vectors.shape[1]
        after = self.follow(t, np.repeat(states, N, axis=0), np.tile(np.arange(N), n))
        return after.reshape(n, N, -1)

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
        steps = slice(t, t + actions.shape[1])
        result = np.empty((len(states), actions.shape[1] + 1, states.shape[1]))
        result[:, 0] = states
        _walk(self._parts, result, self._vectors[steps], plain(actions), plain(noise))
        return result


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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
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
