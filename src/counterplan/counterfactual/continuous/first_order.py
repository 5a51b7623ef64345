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

Several models at once (`setting`): a state is one block x_b for each, with weight w_b, and all
take the same actions. The rewards and cones of blocks add up, and so does all above; a cone is
b + sum_b g_b . x_b + rho_b ||x_b||, where the margin b - C_a of an action is shared out among the
blocks in proportion to what they need of it.

Where costs add up to very many amounts l, close ones share a level (`Levels`) and count as the
least of it, which leaves more to spend. The region of a level holds all states reached with any of
its amounts, and those that a step counted so leads to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.limits import clock
from counterplan.core.reward import Reward
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.setting import OUTWARD, SequenceSetting, rounded_up
from counterplan.errors import NotApplicableError
from counterplan.scm.point import Region, Regions, Slopes

# Steps of the method that places a cone.
STEPS = 60
# Seconds after the deadline for regions by constants, and as many for the bound made of them.
GRACE = 0.5
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


class Widths(Protocol):
    """What doses add where an action is a set of them, its vector the middle of the set: radius
    (n,) and box (n, M) of where they lead, from where the vector does."""

    @property
    def radius(self) -> FloatArray: ...

    @property
    def box(self) -> FloatArray: ...

    def lift(self, slope: FloatArray, steepness: FloatArray) -> FloatArray:
        """(n,) the most that they add to cones ahead of slope (n, M) and steepness (n,)."""
        ...


class Local(NamedTuple):
    """One step from the regions of all levels, for the actions that may be taken there.

    level     (n,) the least amount of the region's level, rising
    actions   (n,) their indices
    spent     (n,) the budget spent after each, from that amount
    jumps     (n, M) d_{t,a}
    slopes    of F_t over the regions, None where only the constant is known
    jacobian  (n, M, M) J_a, zero where only the constant is known
    widest    (n, M, M) the largest size of slopes
    growth    (n,) K_a
    widths    where actions are sets of doses
    """

    level: IntArray
    actions: IntArray
    spent: IntArray
    jumps: FloatArray
    slopes: Slopes | None
    jacobian: FloatArray
    widest: FloatArray
    growth: FloatArray
    widths: Widths | None = None

    def remainder(self, directions: FloatArray) -> FloatArray:
        """(n,) eta_a(x) for directions (n, M)."""
        if self.slopes is None:
            return product_of(self.growth, _norms(directions))
        fixed = self.slopes.jacobian.shape[1] - directions.shape[1]
        padded = np.concatenate([np.zeros((len(directions), fixed)), directions], axis=1)
        return np.asarray(np.linalg.norm(self.slopes.remainder(padded)[:, fixed:], axis=1))


class _Joined:
    """Slopes over one region after the other, for the actions of each."""

    def __init__(self, parts: list[Slopes]) -> None:
        self._parts = parts
        self.jacobian = np.concatenate([one.jacobian for one in parts])
        self.deviation = np.concatenate([one.deviation for one in parts])

    def remainder(self, directions: FloatArray) -> FloatArray:
        cuts = np.cumsum([len(one.jacobian) for one in self._parts])[:-1]
        rows = zip(self._parts, np.split(directions, cuts), strict=True)
        return np.concatenate([one.remainder(own) for one, own in rows])


class Reach:
    """Where one model's states can be, for every step and level of the budget spent, and how its
    steps from there go: regions by (t, least amount of the level), steps by t.

    finished  whether there was time for it
    late      whether constants stand in for some slopes for lack of time
    """

    def __init__(
        self, setting: SequenceSetting, member: Member, deadline: float, end: float
    ) -> None:
        """After the `deadline` constants stand in for slopes, after the `end` nothing does."""
        self._setting, self._member, self._end = setting, member, end
        self._fixed, self._levels = member.scm.fixed, setting.levels
        self.regions: dict[tuple[int, int], Region] = {}
        self.locals: dict[int, Local] = {}
        self.late = False
        self.finished = self._walk(deadline)

    def _walk(self, deadline: float) -> bool:
        """Find regions that hold every reachable state, and the steps from them, forward in time;
        False if there is no time for it."""
        first = self._member.states[0]
        self.regions[0, 0] = Region(first, 0.0, np.zeros(len(first)))
        for t in range(self._setting.horizon - 1):
            # The first step is always asked about: it tells whether there are slopes at all.
            now = clock()
            self.late = self.late or (t > 0 and now > deadline)
            if self.late and (self._member.step_constants is None or now > self._end):
                return False
            self.locals[t] = self._local(t)
            self._extend(t, self.locals[t])
        return True

    def _jumps(self, t: int) -> FloatArray:
        """(N, M) where each action leads, seen from the observed next state."""
        member = self._member
        after = member.replay.children(t, member.states[t : t + 1])[0]
        jumps: FloatArray = (after - member.states[t + 1])[:, self._fixed :]
        jumps[member.observed[t]] = 0.0
        return jumps

    def _here(self, t: int) -> tuple[list[int], Regions]:
        """The levels at a step, and their regions with the actions that may be taken there."""
        setting = self._setting
        levels = [first for first in self._levels.first.tolist() if (t, first) in self.regions]
        here = [self.regions[t, level] for level in levels]
        spent = np.array(levels)[:, None] + setting.costs_at(t)
        place, actions = np.nonzero(setting.allowed[t] & (spent <= setting.k))
        radius = np.array([one.radius for one in here])
        boxes = np.stack([one.box for one in here])
        return levels, Regions(here[0].centre, radius, boxes, place, actions)

    def _slopes(self, t: int, regions: Regions) -> Slopes | None:
        member, noise = self._member, self._member.noise[t]
        if hasattr(member.scm, "slopes_over"):
            found: Slopes | None = member.scm.slopes_over(regions, member.vectors[t], noise)
            return found
        parts = []
        for place, (radius, box) in enumerate(zip(regions.radius, regions.box, strict=True)):
            vectors = member.vectors[t][regions.action[regions.level == place]]
            one = member.scm.slopes(Region(regions.centre, float(radius), box), vectors, noise)
            if one is None:
                return None
            parts.append(one)
        return _Joined(parts)

    def _local(self, t: int) -> Local:
        setting, member, fixed = self._setting, self._member, self._fixed
        levels, regions = self._here(t)
        actions, level = regions.action, np.array(levels)[regions.level]
        slopes = None if self.late else self._slopes(t, regions)
        constants = member.step_constants
        if slopes is None and constants is None:
            raise NotApplicableError(
                f"{type(member.scm).__name__} states slopes near some states only and no "
                "Lipschitz constants: provide one of them everywhere"
            )
        growth = np.full(len(actions), np.inf if constants is None else constants[t])
        jumps = self._jumps(t)[actions]
        jacobian = widest = np.zeros((len(actions), jumps.shape[1], jumps.shape[1]))
        if slopes is not None and not np.isfinite(slopes.jacobian + slopes.deviation).all():
            slopes = None
        if slopes is not None:
            jacobian = np.ascontiguousarray(slopes.jacobian[:, fixed:, fixed:])
            deviation = slopes.deviation[:, fixed:, fixed:]
            growth = np.minimum(growth, _operator_norms(jacobian, deviation))
            widest = np.abs(jacobian) + deviation
        spent = level + setting.costs_at(t)[actions]
        return Local(level, actions, spent, jumps, slopes, jacobian, widest, growth)

    def _extend(self, t: int, local: Local) -> None:
        """Enlarge the regions of the next step by what one step from here can reach."""
        levels, fixed = self._levels, self._fixed
        before = [self.regions[t, level] for level in np.unique(local.level).tolist()]
        place = np.append(0, np.cumsum(np.diff(local.level) > 0))
        reach = np.array([one.radius for one in before])[place]
        moved = product_of(local.growth, reach)
        radius, moved = rounded_up(_norms(local.jumps) + moved), moved[:, None]
        boxes = np.stack([one.box[fixed:] for one in before])[place]
        if local.slopes is not None and np.isfinite(boxes).all():
            moved = (local.widest @ boxes[:, :, None])[:, :, 0]
        box = rounded_up(np.abs(local.jumps) + moved)
        if local.widths is not None:
            radius, box = rounded_up(radius + local.widths.radius), box + local.widths.box
        # Nothing changed so far: the observed state itself, and no rounding to allow for.
        certain = (reach == 0.0) & ~local.jumps.any(axis=1)
        if local.widths is not None:
            certain &= local.widths.radius == 0.0
        radius, box = np.where(certain, 0.0, radius), np.where(certain[:, None], 0.0, box)
        # By the least and the most that a level can mean.
        width = (levels.last - levels.first)[levels.of(local.level)]
        low, high = levels.of(local.spent), levels.of(local.spent + width)
        rows, after = np.arange(len(low)), low
        if (high > low).any():
            rows = np.repeat(rows, high - low + 1)
            pairs = zip(low.tolist(), high.tolist(), strict=True)
            after = np.concatenate([np.arange(first, last + 1) for first, last in pairs])
        order = np.argsort(after, kind="stable")
        found, starts = np.unique(after[order], return_index=True)
        boxes = np.maximum.reduceat(box[rows[order]], starts)
        radii = np.maximum.reduceat(radius[rows[order]], starts)
        radii = np.minimum(radii, _norms(boxes) * (1.0 + OUTWARD))
        boxes = np.concatenate([np.zeros((len(found), fixed)), boxes], axis=1)
        for level, most, widest in zip(levels.first[found].tolist(), radii, boxes, strict=True):
            self.regions[t + 1, level] = Region(self._member.states[t + 1], float(most), widest)


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
        distance = _norms(away) * (1.0 + OUTWARD)
        counted = self._counted(used)
        for spent in np.unique(counted):
            rows = counted == spent
            piece = self._pieces[t, int(spent)]
            n, A = np.count_nonzero(rows), len(piece.constant)
            heights = piece.constant + away[rows].reshape(n, -1) @ piece.slope.reshape(A, -1).T
            for steepness, far in zip(piece.steepness.T, distance[rows].T, strict=True):
                heights += product_of(far[:, None], steepness)
            result[rows] = heights.max(axis=1)
        return rounded_up(result)

    def _counted(self, spent: IntArray) -> IntArray:
        """(n,) the least amounts of the levels."""
        return self._levels.first[self._levels.of(spent)]

    def _build(self) -> None:
        """Pieces and cones, backward in time."""
        self._pieces: dict[tuple[int, int], Piece] = {}
        if not self._finished:
            return
        setting = self._setting
        last, regions = setting.horizon - 1, self.reaches[0].regions
        here, end = setting.reward(setting.states), float(setting.last(setting.states[last:])[0])
        slopes = _slopes_of(setting, [one.reward for one in setting.members])
        tip = Cone(end, *_slopes_of(setting, [one.last for one in setting.members]))
        cones = {spent: tip for t, spent in regions if t == last and spent <= setting.k}
        for t in reversed(range(last)):
            if clock() > self._end + GRACE:
                self._finished = False
                return
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
                cones[spent] = _cone(piece, radii)


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
        jump, length = _norms(local.jumps), _norms(slope)
        constant = constant + (slope * local.jumps).sum(axis=1) + product_of(steepness, jump)
        if local.widths is not None:
            constant = constant + local.widths.lift(slope, steepness)
        # What rounding can do depends on the terms, not on what is left after they cancel.
        size = size + product_of(length + steepness, jump)
        tilts.append(gradient + np.einsum("nij,ni->nj", local.jacobian, slope))
        steep = remainder + local.remainder(slope)
        steep += product_of(local.growth, steepness)
        steep += OUTWARD * (_norms(gradient[None]) + product_of(local.growth, length))
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


def _operator_norms(jacobian: FloatArray, deviation: FloatArray) -> FloatArray:
    """(n,) upper bounds on ||J + E'|| for |E'| <= E, both (n, M, M)."""
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


def _norms(rows: FloatArray) -> FloatArray:
    """(..., ) norms of rows (..., M): 0 of zeros only, however small the rest."""
    norms = np.linalg.norm(rows, axis=-1)
    lost = norms < TINIEST
    if lost.any():
        norms[lost] = np.where(rows[lost].any(axis=-1), TINIEST * np.sqrt(rows.shape[-1]), 0.0)
    return np.asarray(norms)


def product_of(one: FloatArray, other: FloatArray | float) -> FloatArray:
    """The product of what is not negative, where nothing times infinity is nothing."""
    product = one * other
    lost = np.isnan(product)
    if lost.any():
        product[lost & ((one == 0.0) | (np.asarray(other) == 0.0))] = 0.0
    return np.asarray(product)
