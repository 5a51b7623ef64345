"""A certified first-order bound on what can still be earned.

Let s_t be the observed states, F_t(s, a) the counterfactual step, d_{t,a} = F_t(s_t, a) - s_{t+1}
(zero for the observed action) and l the budget spent. Any state that l units can reach differs from
s_t by at most r_{t,l} in norm and box_{t,l} in each feature; over that region (Slopes)

    F_t(s, a) - F_t(s_t, a) = J_a (s - s_t) + e,    |x . e| <= eta_a(x) ||s - s_t||
    ||F_t(s, a) - F_t(s_t, a)|| <= K_a ||s - s_t||

Then V(s, l, t) <= U(s, l, t) = max_a  C_a + p_a . (s - s_t) + q_a ||s - s_t||  with one piece for
each action that may be taken, l_a = l + cost_a and

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

Where costs add up to very many amounts l, close ones share a level (`Levels`) and count as the
least of it, which leaves more to spend. The region of a level holds all states reached with any of
its amounts, and those that a step counted so leads to.
"""

from __future__ import annotations

import math
import time
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.setting import OUTWARD, SequenceSetting, rounded_up
from counterplan.errors import NotApplicableError
from counterplan.scm.point import Region, Slopes

# Steps of the method that places a cone.
STEPS = 60
# Squares of less than this are lost in a norm.
TINIEST = 1e-150


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
            best[:] = centre
        for j in range(M):
            centre[j] += (slope[worst, j] - centre[j]) / (step + 2)
    return peak, best, max(least, 0.0)


class Piece(NamedTuple):
    """max over pieces of constant + slope . (s - s_t) + steepness ||s - s_t||.

    constant (n,), slope (n, M), steepness (n,); M moving features
    """

    constant: FloatArray
    slope: FloatArray
    steepness: FloatArray


class Cone(NamedTuple):
    """peak + slope . (s - s_t) + steepness ||s - s_t||."""

    peak: float
    slope: FloatArray
    steepness: float


@dataclass(frozen=True, eq=False)
class Local:
    """One step from a region, for the actions that may be taken there.

    actions  (n,) their indices
    spent    (n,) the budget spent after each, from the least amount of the region's level
    jumps    (n, M) d_{t,a}
    slopes   of F_t over the region, None where only the constant is known
    growth   (n,) K_a
    """

    actions: IntArray
    spent: IntArray
    jumps: FloatArray
    slopes: Slopes | None
    growth: FloatArray
    fixed: int

    def transposed(self, directions: FloatArray) -> FloatArray:
        """(n, M) J_a^T x for directions (n, M)."""
        if self.slopes is None:
            return np.zeros_like(directions)
        jacobian = self.slopes.jacobian[:, self.fixed :, self.fixed :]
        return np.asarray(np.einsum("nij,ni->nj", jacobian, directions))

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n,) eta_a(x)."""
        if self.slopes is None:
            return _times(self.growth, _norms(directions))
        padded = np.zeros((len(directions), self.fixed + directions.shape[1]))
        padded[:, self.fixed :] = directions
        return np.asarray(np.linalg.norm(self.slopes.remainder(padded)[:, self.fixed :], axis=1))

    def box_after(self, region: Region) -> FloatArray:
        """(n, M) how far each feature can be from s_{t+1} after each action."""
        if self.slopes is None:
            reach = _times(self.growth, region.radius)
            moved = np.repeat(reach[:, None], self.jumps.shape[1], axis=1)
        else:
            widest = np.abs(self.slopes.jacobian) + self.slopes.deviation
            moved = _times(widest, region.box).sum(axis=2)[:, self.fixed :]
        return np.abs(self.jumps) + moved


class FirstOrder:
    """The bound of one problem, prepared for every step and level of the budget spent.

    Regions, steps and pieces are found by (t, least amount of the level).
    """

    def __init__(self, setting: SequenceSetting, deadline: float = math.inf) -> None:
        """After the `deadline` (by `time.perf_counter`) constants stand in for slopes; without any
        the bound is infinite."""
        self._setting, self._fixed, self._levels = setting, setting.scm.fixed, setting.levels
        self._regions: dict[tuple[int, int], Region] = {}
        self._locals: dict[tuple[int, int], Local] = {}
        self._late = False
        self._finished = self._reach(deadline)
        self._build()

    @property
    def name(self) -> str:
        """What the bound was made of, and why."""
        if not self._finished:
            return "first-order bound, not finished in time"
        if not self._locals:
            return "first-order bound"
        if not any(local.slopes is not None for local in self._locals.values()):
            return "first-order bound from Lipschitz constants (the model states no slopes)"
        later = ", later Lipschitz constants for lack of time" if self._late else ""
        return f"first-order bound from slopes{later}"

    def restricted(self, setting: SequenceSetting) -> FirstOrder:
        """The bound for a smaller budget; regions and slopes hold there too."""
        smaller = copy(self)
        smaller._setting = setting
        smaller._build()
        return smaller

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) upper bounds on the rewards from step t on, for states (n, D) with `used` spent."""
        setting = self._setting
        if t == setting.horizon - 1:
            return setting.last(states)
        if not self._finished:
            return np.full(len(states), math.inf)
        result = np.empty(len(states))
        away = (states - setting.states[t])[:, self._fixed :]
        distance = _norms(away) * (1.0 + OUTWARD)
        counted = self._counted(used)
        for spent in np.unique(counted):
            rows = counted == spent
            piece = self._pieces[t, int(spent)]
            heights = piece.constant + away[rows] @ piece.slope.T
            heights += _times(distance[rows, None], piece.steepness)
            result[rows] = heights.max(axis=1)
        return rounded_up(result)

    def _counted(self, spent: IntArray) -> IntArray:
        """(n,) the least amounts of the levels."""
        return self._levels.first[self._levels.of(spent)]

    def _reach(self, deadline: float) -> bool:
        """Find regions that hold every reachable state, and the steps from them, forward in time;
        False if there is no time for it."""
        setting = self._setting
        first = setting.states[0]
        self._regions[0, 0] = Region(first, 0.0, np.zeros(len(first)))
        for t in range(setting.horizon - 1):
            jumps = self._jumps(t)
            for spent in sorted(spent for step, spent in self._regions if step == t):
                # The first step is always asked about: it tells whether there are slopes at all.
                self._late = self._late or (t > 0 and time.perf_counter() > deadline)
                if self._late and setting.step_constants is None:
                    return False
                local = self._local(t, spent, jumps)
                self._locals[t, spent] = local
                self._extend(t, spent, local)
        return True

    def _jumps(self, t: int) -> FloatArray:
        """(N, M) where each action leads, seen from the observed next state."""
        setting = self._setting
        after = setting.replay.children(t, setting.states[t : t + 1])[0]
        jumps: FloatArray = (after - setting.states[t + 1])[:, self._fixed :]
        jumps[setting.observed[t]] = 0.0
        return jumps

    def _local(self, t: int, spent: int, jumps: FloatArray) -> Local:
        setting = self._setting
        after = spent + setting.costs_at(t)
        actions = np.flatnonzero(setting.allowed[t] & (after <= setting.k))
        vectors, noise = setting.vectors[t][actions], setting.noise[t]
        slopes = None
        if not self._late:
            slopes = setting.scm.slopes(self._regions[t, spent], vectors, noise)
        constants = setting.step_constants
        if slopes is None and constants is None:
            raise NotApplicableError(
                f"{type(setting.scm).__name__} states slopes near some states only and no "
                "Lipschitz constants: provide one of them everywhere"
            )
        growth = np.full(len(actions), np.inf if constants is None else constants[t])
        if slopes is not None and not _is_finite(slopes):
            slopes = None
        if slopes is not None:
            growth = np.minimum(growth, _operator_norms(slopes, self._fixed))
        return Local(actions, after[actions], jumps[actions], slopes, growth, self._fixed)

    def _extend(self, t: int, spent: int, local: Local) -> None:
        """Enlarge the regions of the next step by what one step from here can reach."""
        region, levels = self._regions[t, spent], self._levels
        radius = rounded_up(_norms(local.jumps) + _times(local.growth, region.radius))
        box = rounded_up(local.box_after(region))
        # Nothing changed so far: the observed state itself, and no rounding to allow for.
        certain = (region.radius == 0.0) & (np.abs(local.jumps).max(axis=1) == 0.0)
        radius, box = np.where(certain, 0.0, radius), np.where(certain[:, None], 0.0, box)
        # By the least and the most that this level can mean.
        width = (levels.last - levels.first)[levels.of(np.asarray(spent))]
        low, high = levels.of(local.spent), levels.of(local.spent + width)
        for level in range(int(low.min()), int(high.max()) + 1):
            rows = (low <= level) & (level <= high)
            if not rows.any():
                continue
            key = t + 1, int(levels.first[level])
            old = self._regions.get(key)
            widest = np.concatenate([np.zeros(self._fixed), box[rows].max(axis=0)])
            reach = float(radius[rows].max())
            if old is not None:
                widest, reach = np.maximum(widest, old.box), max(reach, old.radius)
            reach = min(reach, float(_norms(widest[None])[0]) * (1.0 + OUTWARD))
            self._regions[key] = Region(self._setting.states[t + 1], reach, widest)

    def _build(self) -> None:
        """Pieces and cones, backward in time."""
        self._pieces: dict[tuple[int, int], Piece] = {}
        if not self._finished:
            return
        setting, last = self._setting, self._setting.horizon - 1
        gradient = setting.reward.gradient(setting.states.shape[1])[self._fixed :]
        here = setting.reward(setting.states)
        end = float(setting.last(setting.states[last:])[0])
        tilt = setting.last.gradient(setting.states.shape[1])[self._fixed :]
        cones = {
            (last, spent): Cone(end, tilt, setting.last.remainder)
            for t, spent in self._regions
            if t == last and spent <= setting.k
        }
        for t, spent in sorted(self._locals, reverse=True):
            if spent > setting.k:
                continue
            local = self._locals[t, spent]
            within = local.spent <= setting.k
            # Actions beyond this budget get any cone, and are left out below.
            after = self._counted(np.where(within, local.spent, spent))
            ahead = [cones[t + 1, int(amount)] for amount in after]
            earned = here[t] + setting.bonus[t, local.actions]
            piece = Piece(*(part[within] for part in self._piece(local, earned, gradient, ahead)))
            self._pieces[t, spent] = piece
            cones[t, spent] = Cone(*covering_cone(*piece, self._regions[t, spent].radius))

    def _piece(
        self, local: Local, here: FloatArray, gradient: FloatArray, ahead: list[Cone]
    ) -> Piece:
        """One piece for each action, from what it earns here (n,) and the cones ahead of it."""
        slope = np.stack([cone.slope for cone in ahead])
        steepness = np.array([cone.steepness for cone in ahead])
        peak = np.array([cone.peak for cone in ahead])
        jump = _norms(local.jumps)
        constant = here + peak + (slope * local.jumps).sum(axis=1) + _times(steepness, jump)
        # What rounding can do depends on the terms, not on what is left after they cancel.
        size = np.abs(here) + np.abs(peak) + _times(_norms(slope) + steepness, jump)
        tilt = gradient + local.transposed(slope)
        steep = self._setting.reward.remainder + local.remainder(slope)
        steep += _times(local.growth, steepness)
        steep += OUTWARD * (_norms(gradient[None]) + _times(local.growth, _norms(slope)))
        return Piece(constant + OUTWARD * (1.0 + size), tilt, rounded_up(steep))


def _operator_norms(slopes: Slopes, fixed: int) -> FloatArray:
    """(n,) upper bounds on ||J + E'|| for |E'| <= E, over the moving features."""
    jacobian = slopes.jacobian[:, fixed:, fixed:]
    deviation = slopes.deviation[:, fixed:, fixed:]
    # ||J||^16 <= ||(J^T J)^8||_F: close to the norm, and much cheaper than singular values. Powers
    # are of J over its largest entry, which neither overflow nor vanish.
    largest = np.maximum(np.abs(jacobian).max(axis=(1, 2)), TINIEST)
    unit = jacobian / largest[:, None, None]
    power = np.swapaxes(unit, 1, 2) @ unit
    for _ in range(3):
        power = power @ power
    norm = np.linalg.norm(power, axis=(1, 2)) ** (1 / 16) * largest
    rows, columns = deviation.sum(axis=2).max(axis=1), deviation.sum(axis=1).max(axis=1)
    return rounded_up(norm + np.sqrt(rows) * np.sqrt(columns))


def _is_finite(slopes: Slopes) -> bool:
    return bool(np.isfinite(slopes.jacobian).all() and np.isfinite(slopes.deviation).all())


def _norms(rows: FloatArray) -> FloatArray:
    """(n,) norms of rows (n, M): 0 of zeros only, however small the rest."""
    norms = np.linalg.norm(rows, axis=1)
    lost = norms < TINIEST
    if lost.any():
        norms[lost] = np.where(rows[lost].any(axis=1), TINIEST * np.sqrt(rows.shape[1]), 0.0)
    return np.asarray(norms)


def _times(one: FloatArray, other: FloatArray | float) -> FloatArray:
    """The product of what is not negative, where nothing times infinity is nothing."""
    product = one * other
    lost = np.isnan(product)
    if lost.any():
        product[lost & ((one == 0.0) | (np.asarray(other) == 0.0))] = 0.0
    return np.asarray(product)
