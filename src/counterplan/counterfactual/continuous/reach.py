"""Where the states of one model can be, and how steps go from there.

Let s_t be the observed states, F_t(s, a) the counterfactual step, d_{t,a} = F_t(s_t, a) - s_{t+1}
(zero for the observed action) and l the budget spent. Any state that l units can reach differs from
s_t by at most r_{t,l} in norm and box_{t,l} in each feature; over that region (Slopes)

    F_t(s, a) - F_t(s_t, a) = J_a (s - s_t) + e,    |x . e| <= eta_a(x) ||s - s_t||
    ||F_t(s, a) - F_t(s_t, a)|| <= K_a ||s - s_t||

so that regions follow from those of the step before. Everything is rounded outwards; what is too
large for a number is infinite, times no distance at all nothing.

Where costs add up to very many amounts l, close ones share a level (`Levels`) and count as the
least of it, which leaves more to spend. The region of a level holds all states reached with any of
its amounts, and those that a step counted so leads to.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from counterplan.core.limits import clock
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.setting import OUTWARD, SequenceSetting, rounded_up
from counterplan.errors import NotApplicableError
from counterplan.scm.point import Region, Regions, Slopes

# Squares of less than this are lost in a norm.
TINIEST = 1e-150


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
            return product_of(self.growth, norms_of(directions))
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
        radius, moved = rounded_up(norms_of(local.jumps) + moved), moved[:, None]
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
        radii = np.minimum(radii, norms_of(boxes) * (1.0 + OUTWARD))
        boxes = np.concatenate([np.zeros((len(found), fixed)), boxes], axis=1)
        for level, most, widest in zip(levels.first[found].tolist(), radii, boxes, strict=True):
            self.regions[t + 1, level] = Region(self._member.states[t + 1], float(most), widest)


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


def norms_of(rows: FloatArray) -> FloatArray:
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
