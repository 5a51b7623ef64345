"""One hidden layer of cosine units beside a linear part: outputs, counterfactual steps of many
nodes at a time, and certified slopes.

    o = C cos(W_s s + W_a a + b) + K_s s + K_a a + c

Steps. cos(x + y) = cos x cos y - sin x sin y for a state's half x and an action's half y of the
first layer. With y moved into the output weights, C cos(y) and C sin(y), a node costs one cosine
and one sine per unit, and its children are a matrix product. Units that no action enters add the
same to all children.

Slopes. Between the centre c of a region and one of its states a unit's argument x moves by at most
r_h = min(||W_s[h, :]|| radius, |W_s[h, :]| . box), and

    cos(x + d) - cos(x) = g d,      g = -sin(x + d/2) sinc(d/2),      |d| <= r

so the gate g lies between the products of what both factors can be: -sin over x +- r/2, and sinc
between sinc(r/2) and 1. By Taylor's formula it also is -sin x - (cos x) d/2 with an error of at
most r^2 / 6. With gates g = -sin x, h = -(cos x) / 2 at the centre and errors e of g, e' of g + h d

    J = C diag(g) W_s + K_s,     z . (o(s) - o(c) - J (s - c))  is at most, with y = |s - c|,

    (|C^T z| * e) |W_s| y      and      y^T |W_s^T diag(h C^T z) W_s| y + (|C^T z| * e') |W_s| y

The second keeps what cancels among units, the first is better over large regions.
The scale is LEAST_SCALE + softplus(o). Slopes M +- E of o are multiplied by the noise u and by
slopes q +- p of chords of the softplus:

    u q M,     deviation |u| (q E + p (|M| + E))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import FloatArray
from counterplan.scm.network import OUTWARD, ROUND_UP, Network, sigmoid
from counterplan.scm.point import Region, with_fixed

# Of the noise's usual spread: were it nothing somewhere, what is observed there would be infinite
# luck.
LEAST_SCALE = 0.1
# The least value of sin(x) / x.
LEAST_SINC = -0.2173
# Chords of the softplus over less are lost in rounding.
SHORTEST_CHORD = 1e-3
# Of curvatures, numbers for all units.
LARGEST_CURVATURES = 2**23
# Steps of an episode whose output weights are kept.
KEPT_STEPS = 32


@dataclass(frozen=True, eq=False)
class CosineNetwork(Network):
    """Weights; there may be no units at all.

    state, bias, action, output, output_bias  W_s (H, D), b (H,), W_a (H, d), C (O, H), c (O,)
    skip                                      (O, D) K_s
    action_skip                               (O, d) K_a
    """

    may_lack_units: ClassVar[bool] = True

    skip: FloatArray
    action_skip: FloatArray

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        hidden = np.cos(states @ self.state.T + self.bias + actions @ self.action.T)
        return np.asarray(hidden @ self.output.T + self.linear(states, actions))

    def linear(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """(n, O) what the units do not add."""
        skipped = states @ self.skip.T + actions @ self.action_skip.T
        return np.asarray(skipped + self.output_bias)

    def curvatures(self, bends: FloatArray) -> FloatArray | None:
        """(n, O, D, D) C diag(h) W_s W_s^T for each output and bends h (n, H)."""
        (O, H), D = self.output.shape, self.state.shape[1]  # noqa: E741
        if self._squares is None:
            return None
        return np.asarray(bends @ self._squares.reshape(H, O * D * D)).reshape(-1, O, D, D)

    @cached_property
    def _squares(self) -> FloatArray | None:
        """(H, O, D, D) C[i, h] W_s[h, j] W_s[h, k], None if they are too many."""
        if self.output.size * self.state.shape[1] ** 2 > LARGEST_CURVATURES:
            return None
        return np.asarray(np.einsum("oh,hj,hk->hojk", self.output, self.state, self.state))

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
    ) -> None:
        """`networks`: location and scale; action vectors (T-1, N, d) and noise (T-1, O)."""
        self._networks, self._fixed, self._vectors, self._noise = networks, fixed, vectors, noise
        self._acted = [network.action.any(axis=1) for network in networks]
        # Weights of all actions are large: those of long episodes are made anew.
        self._weights = lru_cache(KEPT_STEPS)(self._weights_at)

    def children(self, t: int, states: FloatArray) -> FloatArray:
        """(n, N, D)."""
        N = self._vectors.shape[1]
        place, spread = (self._outputs(part, t, states) for part in range(2))
        moved = place + spread_of(spread) * self._noise[t]
        same = np.repeat(states[:, None, : self._fixed], N, axis=1)
        return np.concatenate([same, moved], axis=2)

    def follow(self, t: int, states: FloatArray, actions: NDArray[np.int64]) -> FloatArray:
        """(n, D)."""
        place, spread = (network(states, self._vectors[t][actions]) for network in self._networks)
        moved = place + spread_of(spread) * self._noise[t]
        return np.concatenate([states[:, : self._fixed], moved], axis=1)

    def _outputs(self, part: int, t: int, states: FloatArray) -> FloatArray:
        """(n, N, O) of location (0) or scale (1)."""
        network, acted, (vectors, waves) = self._networks[part], self._acted[part], self._weights(t)
        n, N = len(states), len(vectors)
        half = states @ network.state.T + network.bias
        cosine = np.cos(half)
        common = cosine[:, ~acted] @ network.output[:, ~acted].T + states @ network.skip.T
        own = vectors @ network.action_skip.T + network.output_bias
        result = common[:, None, :] + own
        if acted.any():
            both = np.concatenate([cosine[:, acted], np.sin(half[:, acted])], axis=1)
            result += (both @ waves[part]).reshape(n, N, -1)
        return np.asarray(result)

    def _weights_at(self, t: int) -> tuple[FloatArray, list[FloatArray]]:
        """The action vectors of a step (N, d), and for both networks (2 H, N O) output weights."""
        vectors, waves = self._vectors[t], []
        for network, acted in zip(self._networks, self._acted, strict=True):
            half = (vectors @ network.action[acted].T).T[:, :, None]
            output = network.output[:, acted].T[:, None, :]
            stacked = np.concatenate([np.cos(half) * output, -np.sin(half) * output])
            waves.append(stacked.reshape(len(stacked), len(vectors) * len(network.output)))
        return vectors, waves


class _Gates(NamedTuple):
    """For n actions and H units, seen from the centre of a region.

    slope  (n, H) -sin x
    bend   (n, H) -cos x / 2
    wide   (n, H) how far gates are from the slope at most
    rest   (n, H) and how far from slope + bend d
    """

    slope: FloatArray
    bend: FloatArray
    wide: FloatArray
    rest: FloatArray


class CosineSlopes:
    """Slopes of F(., a) for action vectors (n, d) under one noise vector."""

    def __init__(
        self,
        networks: tuple[CosineNetwork, CosineNetwork],
        fixed: int,
        region: Region,
        actions: FloatArray,
        noise: FloatArray,
    ) -> None:
        """`networks`: location and scale."""
        self._location, self._fixed, self._box = networks[0], fixed, region.box
        self._gates = _gates(networks[0], region, actions)
        self._scale_slope, self._scale_deviation = _scale_slopes(
            networks[1], region, actions, noise
        )

    @cached_property
    def jacobian(self) -> FloatArray:
        """(n, D, D)."""
        moving = self._location.slopes(self._gates.slope) + self._location.skip
        return with_fixed(moving + self._scale_slope, self._fixed, 1.0)

    @cached_property
    def deviation(self) -> FloatArray:
        """(n, D, D)."""
        sizes = self._location.absolute
        moving = sizes.slopes(self._gates.wide)
        if self._curvature is not None:
            bent = np.abs(self._curvature) @ self._box
            moving = np.minimum(moving, bent + sizes.slopes(self._gates.rest))
        moving += self._scale_deviation
        return with_fixed(moving * (1.0 + OUTWARD) + OUTWARD, self._fixed, 0.0)

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n, D), tighter than |z| E: curvatures of several features cancel."""
        location, moving = self._location, directions[:, self._fixed :]
        through = np.abs(moving @ location.output)
        result = (through * self._gates.wide) @ location.absolute.state
        if self._curvature is not None:
            bent = np.abs(np.einsum("ni,nijk->njk", moving, self._curvature)) @ self._box
            bent += (through * self._gates.rest) @ location.absolute.state
            result = np.minimum(result, bent)
        result += np.einsum("ni,nij->nj", np.abs(moving), self._scale_deviation)
        size = 1.0 + np.abs(moving).sum(axis=1, keepdims=True)
        return np.asarray(result * (1.0 + OUTWARD) + OUTWARD * size)

    @cached_property
    def _curvature(self) -> FloatArray | None:
        """(n, O, D, D) C diag(bend) W_s W_s^T for each output, None if that is too large."""
        return self._location.curvatures(self._gates.bend)


def _gates(network: CosineNetwork, region: Region, actions: FloatArray) -> _Gates:
    argument = region.centre @ network.state.T + network.bias + actions @ network.action.T
    # Features that cannot differ add nothing to the norm.
    norms = np.linalg.norm(network.state[:, region.box > 0.0], axis=1)
    reach = np.minimum(norms * region.radius, network.absolute.state @ region.box)
    reach = reach * (1.0 + OUTWARD) + OUTWARD
    slope, (low, high) = -np.sin(argument), gate_interval(argument, reach)
    # Arguments themselves are rounded, by a share of their size.
    outward = OUTWARD * (1.0 + np.abs(argument))
    wide = np.maximum(high - slope, slope - low) + outward
    rest = np.broadcast_to(reach**2 / 6.0, wide.shape) + outward * (1.0 + reach)
    return _Gates(slope, -np.cos(argument) / 2, wide, rest)


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


def _scale_slopes(
    network: CosineNetwork, region: Region, actions: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n, O, D) middle and deviation of the slopes of softplus(o) u over the region."""
    gates = _gates(network, region, actions)
    slope = network.slopes(gates.slope) + network.skip
    deviation = network.absolute.slopes(gates.wide)
    centre = np.repeat(region.centre[None], len(actions), axis=0)
    output = network(centre, actions)
    moved = (np.abs(slope) + deviation) @ region.box * (1.0 + OUTWARD) + OUTWARD
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
    size = np.abs(noise)[:, None]
    wide = size * (middle * deviation + half * (np.abs(slope) + deviation))
    return noise[:, None] * middle * slope, np.asarray(wide)
