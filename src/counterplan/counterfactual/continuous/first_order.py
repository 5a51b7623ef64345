"""A certified first-order bound on what can still be earned.

With d, J, eta, K and r of `reach`, what can be earned from state s of step t on with l spent is

    V(s, l, t) <= U(s, l, t) = max_a  C_a + p_a . (s - s_t) + q_a ||s - s_t||

with one piece for each action that may be taken, l_a = l + cost_a and

    C_a = R(s_t) + b_{t+1,l_a} + g_{t+1,l_a} . d_{t,a} + rho_{t+1,l_a} ||d_{t,a}||
    p_a = c + J_a^T g_{t+1,l_a}
    q_a = r_R + eta_a(g_{t+1,l_a}) + K_a rho_{t+1,l_a}

where R(s) - R(s_t) <= c . (s - s_t) + r_R ||s - s_t||. One step further back the pieces are
replaced by a single cone b + g . (s - s_t) + rho ||s - s_t|| above them all:

    b = max_a C_a,    rho >= ||p_a - g|| + q_a - (b - C_a) / r_{t,l}    for all a

A piece that is worth less at the centre may rise faster and still stay below the cone within the
region. g is chosen to make rho small. Proof: induction on t, splitting F_t(s, a) - s_{t+1} into
d_{t,a} and F_t(s, a) - F_t(s_t, a). Everything is rounded outwards, so that the bound holds as
computed; what is too large for a number is infinite, times no distance at all nothing.

Several models at once (`setting`): a state is one block x_b for each, with weight w_b, and all
take the same actions. The rewards and cones of blocks add up, and so does all above; a cone is
b + sum_b g_b . x_b + rho_b ||x_b||, where the margin b - C_a of an action is shared out among the
blocks in proportion to what they need of it.

Over many steps `gains` are the better bound, W_t(s_t) + g . (s - s_t) + eta ||s - s_t|| with the
most that is left to gain. Whichever of both cones is lower near the centre goes on, and what is
left to gain is no more than the other one leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.limits import clock
from counterplan.core.reward import Reward
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.gains import Gains
from counterplan.counterfactual.continuous.reach import Local, Reach, norms_of, product_of
from counterplan.counterfactual.continuous.setting import OUTWARD, SequenceSetting, rounded_up

# Steps of the method that places a cone.
STEPS = 60
# Seconds after the deadline for regions by constants, and as many for the bound made of them.
GRACE = 0.5
# From so many steps on gains are bounded too.
MANY_STEPS = 16
# Cones are compared at this share of the region's radius.
NEAR = 0.25


@njit(cache=True, nogil=True)
def covering_cone(
    constant: Any, slope: Any, steepness: Any, radius: float
) -> tuple[float, Any, float]:
    """(b, g, rho) with b + g . x + rho ||x|| above every piece for ||x|| <= radius.

    g walks from the best piece towards whichever needs most, a little less each time (the method
    of Badoiu and Clarkson for the smallest enclosing ball).
    """
    n, M = slope.shape
    if not (np.isfinite(constant).all() and np.isfinite(slope).all()):
        return np.inf, np.zeros(M), np.inf
    peak = constant.max()
    centre = slope[np.argmax(constant)].copy()
    best = centre.copy()
    least = np.inf
    for step in range(STEPS):
        worst, need = 0, -np.inf
        for a in range(n):
            distance = 0.0
            for j in range(M):
                distance += (slope[a, j] - centre[j]) ** 2
            relief = (peak - constant[a]) / radius if radius > 0.0 else 0.0
            wanted = (np.sqrt(distance) + steepness[a]) * (1.0 + OUTWARD) + OUTWARD - relief
            if not wanted <= need:  # what is not a number needs everything
                need, worst = wanted if wanted == wanted else np.inf, a
        if need < least:
            least = need
            best = centre.copy()
        for j in range(M):
            centre[j] += (slope[worst, j] - centre[j]) / (step + 2)
    return peak, best, max(least, 0.0)


class Piece(NamedTuple):
    """max over pieces of constant + sum_b slope_b . x_b + steepness_b ||x_b||, x = s - s_t.

    constant (n,), slope (n, B, M), steepness (n, B); B blocks of M moving features
    """

    constant: FloatArray
    slope: FloatArray
    steepness: FloatArray


class Cone(NamedTuple):
    """peak + sum_b slope_b . x_b + steepness_b ||x_b||: slope (B, M), steepness (B,)."""

    peak: float
    slope: FloatArray
    steepness: FloatArray


class FirstOrder:
    """The bound of one problem, prepared for every step and level of the budget spent: of a model,
    or of the members of an ensemble, weighted.

    Pieces are found by (t, least amount of the level).
    """

    def __init__(
        self,
        setting: SequenceSetting,
        deadline: float = math.inf,
    ) -> None:
        """After the `deadline` (by `core.limits.clock`) constants stand in for slopes; without any,
        or if that takes long too, the bound is infinite."""
        self._setting, self._levels = setting, setting.levels
        self._end = max(deadline, clock()) + GRACE
        self.reaches = [self._reach(setting, one, deadline, self._end) for one in setting.members]
        self._finished = all(reach.finished for reach in self.reaches)
        self._build()

    def _reach(self, *arguments: Any) -> Reach:
        return Reach(*arguments)

    @property
    def name(self) -> str:
        """What the bound was made of, and why."""
        steps = [local for reach in self.reaches for local in reach.locals.values()]
        if not self._finished:
            return "first-order bound, not finished in time"
        if not steps:
            return "first-order bound"
        if not any(local.slopes is not None for local in steps):
            return "first-order bound from Lipschitz constants (the model states no slopes)"
        is_late = any(reach.late for reach in self.reaches)
        later = ", later Lipschitz constants for lack of time" if is_late else ""
        return f"first-order bound from slopes{later}"

    def gains(self) -> FloatArray | None:
        """(T-1, N) about what single changes bring, g_{t+1} . d_{t,a} with what was done after;
        None where slopes are not known."""
        setting, steps = self._setting, self._setting.horizon - 1
        every = [local for reach in self.reaches for local in reach.locals.values()]
        if not self._finished or any(local.slopes is None for local in every):
            return None
        found = np.full(setting.allowed.shape, -math.inf)
        taken = np.take_along_axis(setting.bonus[:steps], setting.observed[:, None], axis=1)
        found[setting.allowed] = (setting.bonus[:steps] - taken)[setting.allowed]
        parts = zip(setting.members, setting.weights, self.reaches, strict=True)
        for one, weight, reach in parts:
            width, fixed = one.states.shape[1], setting.fixed
            slope, later = one.reward.gradient(width)[fixed:], one.last.gradient(width)[fixed:]
            for t in reversed(range(steps)):
                local = reach.locals[t]
                first = local.level == 0
                found[t, local.actions[first]] += weight * (local.jumps[first] @ later)
                observed = int(np.argmax(first & (local.actions == setting.observed[t])))
                later = slope + later @ local.jacobian[observed]
        return found

    def restricted(self, setting: SequenceSetting) -> FirstOrder:
        """The bound for a smaller budget; regions and slopes hold there too."""
        smaller = copy(self)
        smaller._setting, smaller._end = setting, math.inf
        smaller._build()
        return smaller

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) upper bounds on the rewards from step t on, for states (n, B, D) with `used`
        spent."""
        setting = self._setting
        if t == setting.horizon - 1:
            return setting.last(states)
        if not self._finished:
            return np.full(len(states), math.inf)
        result = np.empty(len(states))
        away = setting.away(t, states)
        distance = norms_of(away) * (1.0 + OUTWARD)
        counted = self._counted(used)
        for spent in np.unique(counted):
            rows = counted == spent
            piece = self._pieces[t, int(spent)]
            n, A = np.count_nonzero(rows), len(piece.constant)
            heights = piece.constant + away[rows].reshape(n, -1) @ piece.slope.reshape(A, -1).T
            for steepness, far in zip(piece.steepness.T, distance[rows].T, strict=True):
                heights += product_of(far[:, None], steepness)
            result[rows] = heights.max(axis=1)
        if self._gains is not None:
            result = np.fmin(result, self._gains.upper(t, used, states))
        return rounded_up(result)

    def _counted(self, spent: IntArray) -> IntArray:
        """(n,) the least amounts of the levels."""
        return self._levels.first[self._levels.of(spent)]

    def _build(self) -> None:
        """Pieces and cones, backward in time."""
        self._pieces: dict[tuple[int, int], Piece] = {}
        self._gains: Gains | None = None
        if not self._finished:
            return
        setting = self._setting
        every = [local for reach in self.reaches for local in reach.locals.values()]
        is_known = all(one.slopes is not None and one.widths is None for one in every)
        if is_known and setting.horizon > MANY_STEPS:
            self._gains = Gains(setting, self._levels, self.reaches)
        last, regions = setting.horizon - 1, self.reaches[0].regions
        here, end = setting.reward(setting.states), float(setting.last(setting.states[last:])[0])
        slopes = _slopes_of(setting, [one.reward for one in setting.members])
        tip = Cone(end, *_slopes_of(setting, [one.last for one in setting.members]))
        cones = {spent: tip for t, spent in regions if t == last and spent <= setting.k}
        for t in reversed(range(last)):
            if clock() > self._end + GRACE:
                self._finished = False
                return
            if self._gains is not None:
                self._gains.step(t)
            steps = [reach.locals[t] for reach in self.reaches]
            within = steps[0].spent <= setting.k
            # Actions beyond this budget get any cone, and are left out below.
            after = self._counted(np.where(within, steps[0].spent, 0))
            some = next(iter(cones.values()))
            ahead = [cones.get(amount, some) for amount in after.tolist()]
            earned = here[t] + setting.bonus[t, steps[0].actions]
            whole, cones = _piece(steps, earned, slopes, ahead), {}
            for spent in np.unique(steps[0].level[within]).tolist():
                piece = Piece(*(part[within & (steps[0].level == spent)] for part in whole))
                self._pieces[t, spent] = piece
                radii = np.array([reach.regions[t, spent].radius for reach in self.reaches])
                cones[spent] = self._lower(t, spent, _cone(piece, radii), radii)

    def _lower(self, t: int, spent: int, cone: Cone, radii: FloatArray) -> Cone:
        """The cone of a level, or that of the gains, over a region of radii (B,)."""
        if self._gains is None:
            return cone
        gains, level = self._gains, int(self._levels.of(np.array([spent]))[0])
        slope, loose = gains.slope[t], norms_of(gains.loose[t, level]) * (1.0 + OUTWARD)
        known, ahead = float(gains.known[t]), float(gains.ahead[t, level])
        apart, other = (
            norms_of(cone.slope - slope) + cone.steepness,
            Cone(known + ahead, slope, loose),
        )
        most = cone.peak - known + 2.0 * gains.rounding + product_of(apart + loose, radii).sum()
        gains.ahead[t, level] = np.fmin(ahead, rounded_up(most))
        higher = cone.peak + product_of(apart, NEAR * radii).sum()
        is_lower = other.peak + product_of(loose, NEAR * radii).sum() < higher
        return other if is_lower and np.isfinite(slope).all() else cone


def _slopes_of(
    setting: SequenceSetting, rewards: Sequence[Reward]
) -> tuple[FloatArray, FloatArray]:
    """(B, M) gradients and (B,) remainders of the members' rewards, weighted."""
    width, fixed = setting.states.shape[2], setting.fixed
    every = list(zip(setting.weights, rewards, strict=True))
    slopes = [w * reward.gradient(width)[fixed:] for w, reward in every]
    return np.stack(slopes), np.array([w * reward.remainder for w, reward in every])


def _piece(
    steps: Sequence[Local],
    here: FloatArray,
    reward: tuple[FloatArray, FloatArray],
    ahead: list[Cone],
) -> Piece:
    """One piece for each action, from what it earns here (n,), the slopes of the reward and the
    cones ahead of it."""
    peak = np.array([cone.peak for cone in ahead])
    constant, size = here + peak, np.abs(here) + np.abs(peak)
    tilts, steeps = [], []
    for b, (local, gradient, remainder) in enumerate(zip(steps, *reward, strict=True)):
        slope = np.stack([cone.slope[b] for cone in ahead])
        steepness = np.array([cone.steepness[b] for cone in ahead])
        jump, length = norms_of(local.jumps), norms_of(slope)
        constant = constant + (slope * local.jumps).sum(axis=1) + product_of(steepness, jump)
        if local.widths is not None:
            constant = constant + local.widths.lift(slope, steepness)
        # What rounding can do depends on the terms, not on what is left after they cancel.
        size = size + product_of(length + steepness, jump)
        tilts.append(gradient + np.einsum("nij,ni->nj", local.jacobian, slope))
        steep = remainder + local.remainder(slope)
        steep += product_of(local.growth, steepness)
        steep += OUTWARD * (norms_of(gradient[None]) + product_of(local.growth, length))
        steeps.append(rounded_up(steep))
    tilt, steep = np.stack(tilts, axis=1), np.stack(steeps, axis=1)
    return Piece(constant + OUTWARD * (1.0 + size), tilt, steep)


def _cone(piece: Piece, radii: FloatArray) -> Cone:
    """A cone above all pieces within the radii (B,) of the blocks."""
    constant, slope, steepness = piece
    peak = float(constant.max())
    if len(radii) == 1:
        shares = np.ones((len(constant), 1))
    else:
        best = slope[int(np.argmax(constant))]
        needs = product_of(np.linalg.norm(slope - best, axis=2) + steepness, radii)
        total = needs.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where((total > 0.0) & np.isfinite(total), needs / total, 1.0 / len(radii))
    slopes, steeps = [], []
    for b, radius in enumerate(radii):
        # Each block has its share of the margin.
        lowered = peak - (peak - constant) * shares[:, b] if len(radii) > 1 else constant
        own = np.ascontiguousarray(slope[:, b]), np.ascontiguousarray(steepness[:, b])
        height, g, rho = covering_cone(lowered, *own, radius)
        peak = max(peak, height)
        slopes.append(g)
        steeps.append(rho)
    return Cone(peak, np.stack(slopes), np.array(steeps))
