"""Branch and bound over real doses.

A node is a set of alternatives: at its decided steps the dose lies in a box, and up to `more`
others may change later. Let x be how far doses are from the middle of the boxes. What decided doses
alone earn is at most

    W(x)  <=  W(0) + g . x + (x^T H x + |x|^T E |x|) / 2 + steep . |x|         over the node

by expansion along the course through the middle (`scm.curvature`), where W(0) is exact; `steep`
is what a reward that is not linear adds, or all there is where a model states constants only: with
K_t in the state, A_t in the dose, rho of the reward

    steep_t = A_t q_{t+1},      q_t = rho + K_t q_{t+1}

It is a quadratic over a box. With |x_i x_j| <= (w_j x_i^2 / w_i + w_i x_j^2 / w_j) / 2 for E and a
diagonal A such that H - A is concave,

    x_i^2 <= (low_i + high_i) x_i - low_i high_i        (exact in corners)

makes it concave, and f(x*) + max_x f'(x*) . (x - x*) bounds that at any x*.

What a next change can bring is bounded by pieces C_a + p_a . (s - s_t) + q_a ||s - s_t||, as in the
search over listed actions (`first_order`); an action a is now a cell of doses, and regions are of
states and doses. Up to the step of that change states are s_t + (y_t - s_t) + P x + q, |q| <= N w,
around the course y through the middle, and what is earned until then is linear in them.

A node with more changes to come is divided into cells of the next one, the last ones into halves of
the box that leaves most open. The best course met so far, by the search over listed actions on a
grid of levels at first, is what bounds have to beat.

Limits on steps and totals are rows A x <= b: they narrow boxes, and any multipliers m >= 0 bound
what is possible by max f(x) + m . (b - A x). Here each in turn is halved into the place where its
row is just kept.

Of a model with members, any weights bound the mean over the worst share (`setting`): those of the
start where more changes are to come, and after the last one those that are worst in the middle.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np

from counterplan.core.compiled import njit, plain
from counterplan.core.doses import ROUNDING, Doses, Room
from counterplan.core.limits import Watch, clock
from counterplan.core.problem import Problem
from counterplan.core.result import Change, Status
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.continuous.claims import SequenceExplanation
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.reach import Local, Reach, product_of
from counterplan.counterfactual.continuous.setting import (
    SequenceSetting,
    prepare_sequence,
    rounded_up,
    worst_weights,
)
from counterplan.counterfactual.support import NEIGHBOURS, Support, sequence_support
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.curvature import Layers, dosed
from counterplan.scm.point import Regions, Slopes

# Of the improvement: so far the best may be from the bound unless a gap is asked for.
DEFAULT_SHARE = 0.01
# Of the doses of a step, about so many cells.
CELLS = 16
# Courses that are tried for one that stays inside the data.
TRIED = 8
# Sweeps of coordinate ascent; what is left is added to the bound.
SWEEPS = 40
# Of the size of an outcome, more than the rounding behind it.
OUTWARD = 1e-11
# Rounds over prices of limits, halvings of each, and where they end.
ROUNDS, HALVINGS, LARGEST_PRICE = 2, 12, 1e9
# Of the range of a dose: steps of the local search from, and down to.
FIRST, FINEST = 0.125, 1e-7
METHOD = "second-order bounds over boxes of doses"
BY_CONSTANTS = "Lipschitz bounds over boxes of doses"


class Node(NamedTuple):
    """A set of alternatives: boxes (T-1, d) of the doses at decided steps (T-1,), and how many
    steps behind the last of these may change too."""

    low: FloatArray
    high: FloatArray
    decided: BoolArray
    more: int

    @property
    def first(self) -> int:
        """The first step that is behind all that are decided."""
        return int(np.flatnonzero(self.decided).max(initial=-1)) + 1


class Expansion(NamedTuple):
    """What n doses earn together, around the middle (T-1, d) of a node.

    owner  (n,) the step of each, and
    place  (n,) its component
    size   (n,) the most that it can change
    """

    value: float
    slope: FloatArray
    bend: FloatArray
    slack: FloatArray
    steep: FloatArray
    owner: IntArray
    place: IntArray
    size: FloatArray
    middle: FloatArray


class Tube(NamedTuple):
    """Where one member's states are: path (T, D), P and N (T, M, n)."""

    path: FloatArray
    moved: FloatArray
    off: FloatArray


@njit(cache=True, nogil=True, error_model="numpy")
def highest(g: Any, H: Any, rest: Any, low: Any, high: Any) -> Any:
    """An upper bound on g . x + (x^T H x + |x|^T rest |x|) / 2 over a box, where it is nearly
    reached, and (n,) what of the bound comes from each dose's own room."""
    n = len(g)
    x, left_open = np.zeros(n), np.zeros(n)
    wide = np.maximum(np.abs(low), np.abs(high))
    scaled, total = np.zeros((n, n)), 0.0
    for i in range(n):
        for j in range(n):
            # In units of the box: the rest goes to the diagonal.
            scaled[i, j] += H[i, j] * wide[i] * wide[j]
            scaled[i, i] += rest[i, j] * wide[i] * wide[j]
    lift, sure = np.zeros(n), 0.0
    for i in range(n):
        row = scaled[i, i]
        for j in range(n):
            row += abs(scaled[i, j]) if j != i else 0.0
        lift[i] = max(row, 0.0)
        sure += lift[i]
    if not sure < np.inf:
        return np.inf, x, wide
    if n > 1 and sure > 0.0:
        most = max(np.linalg.eigvalsh(scaled)[-1], 0.0) * (1.0 + 1e-9) + 1e-14 * sure
        if most * n < sure:
            lift[:] = most
    slope, left, right = np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(n):
        scaled[i, i] -= lift[i]
        if wide[i] > 0.0:
            left[i], right[i] = low[i] / wide[i], high[i] / wide[i]
        slope[i] = g[i] * wide[i] + 0.5 * lift[i] * (left[i] + right[i])
        total -= 0.5 * lift[i] * left[i] * right[i]
        x[i] = min(max(0.0, left[i]), right[i])
        left_open[i] = 0.125 * lift[i] * (right[i] - left[i]) ** 2
        for j in range(n):
            left_open[i] += 0.5 * rest[i, j] * wide[i] * wide[j]
    rise = slope + scaled @ x
    for _ in range(SWEEPS):
        most = 0.0
        for i in range(n):
            new = x[i]
            if scaled[i, i] < 0.0:
                new = min(max(x[i] - rise[i] / scaled[i, i], left[i]), right[i])
            elif rise[i] != 0.0:
                new = right[i] if rise[i] > 0.0 else left[i]
            change = new - x[i]
            if change != 0.0:
                x[i] = new
                most = max(most, abs(change))
                for j in range(n):
                    rise[j] += scaled[j, i] * change
        if most < 1e-9:
            break
    for i in range(n):
        total += 0.5 * (slope[i] + rise[i]) * x[i]
        total += max(rise[i] * (left[i] - x[i]), rise[i] * (right[i] - x[i]))
        x[i] = min(max(x[i] * wide[i], low[i]), high[i])
    return total, x, left_open


def _priced(
    slope: FloatArray, parts: Any, rows: FloatArray, limits: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """The bound of `highest` under rows x <= limits, by prices of what they hold back."""
    prices, scale = np.zeros(len(limits)), float(np.abs(slope).max(initial=1e-12))

    def at() -> tuple[float, FloatArray, FloatArray]:
        rise, x, left = highest(slope - prices @ rows, *parts)
        return rise + float(prices @ limits), x, left

    best = now = at()
    for i in [*range(len(limits))] * ROUNDS:
        least = most = prices[i] = 0.0
        now = at()
        while rows[i] @ now[1] > limits[i] and most < LARGEST_PRICE * scale:
            least, most = most, max(2.0 * most, scale / 8)
            prices[i] = most
            now = at()
        for _ in range(HALVINGS if most else 0):
            prices[i] = (least + most) / 2
            now = at()
            is_kept = rows[i] @ now[1] <= limits[i]
            least, most = (least, prices[i]) if is_kept else (prices[i], most)
        prices[i] = most
        now = at()
        best = min(best, now, key=lambda one: one[0])
    return best[0], now[1], now[2]


class Widths(NamedTuple):
    """What the doses of n cells add to steps, in the model's units.

    slope      (n, M, d) of states in doses, and
    deviation  (n, M, d) how far they are from it
    half       (n, d) of the cells; none of what was observed
    slopes     in states and doses; None where only
    constant   is known: of states in doses, at a step
    """

    slope: FloatArray
    deviation: FloatArray
    half: FloatArray
    slopes: Slopes | None
    constant: float

    @property
    def box(self) -> FloatArray:
        if self.slopes is None:
            return np.repeat(self.radius[:, None], self.slope.shape[1], axis=1)
        widest = np.abs(self.slope) + self.deviation
        return rounded_up(np.einsum("nid,nd->ni", widest, self.half))

    @property
    def radius(self) -> FloatArray:
        if self.slopes is None:
            length = np.linalg.norm(self.half, axis=1)
            return np.asarray(np.where(length > 0.0, self.constant, 0.0) * length * (1.0 + OUTWARD))
        return np.asarray(np.linalg.norm(self.box, axis=1))

    def lift(self, slope: FloatArray, steepness: FloatArray) -> FloatArray:
        if self.slopes is None:
            return product_of(np.linalg.norm(slope, axis=1) + steepness, self.radius)
        d, fixed = self.half.shape[1], self.slopes.jacobian.shape[1] - slope.shape[1]
        rest = self.slopes.remainder(np.pad(slope, ((0, 0), (fixed, 0))))[:, -d:]
        by_dose = np.abs(np.einsum("ni,nid->nd", slope, self.slope)) + rest
        return rounded_up((by_dose * self.half).sum(axis=1) + steepness * self.radius)


class _States:
    """Slopes in states alone, of those in states and doses."""

    def __init__(self, both: Slopes, width: int) -> None:
        self.both, self._width = both, width
        self.jacobian, self.deviation = both.jacobian[..., :width], both.deviation[..., :width]

    def remainder(self, directions: FloatArray) -> FloatArray:
        return self.both.remainder(directions)[:, : self._width]


class CellReach(Reach):
    """Where states can be if actions are cells of doses around their vectors; `halves` (T-1, N, d)
    in the units of the doses."""

    def __init__(self, halves: FloatArray, *arguments: Any) -> None:
        self._halves = halves
        super().__init__(*arguments)

    def _slopes(self, t: int, regions: Regions) -> Slopes | None:
        member = self._member
        scm: Any = member.scm
        half = _of_widths(member, self._halves[t])
        if not hasattr(scm, "slopes_over"):
            return super()._slopes(t, regions)
        # Of every level two regions: with the doses of a cell, and with those observed alone.
        most, (levels, D) = half.max(axis=0, initial=0.0), regions.box.shape
        radius = np.concatenate([np.hypot(regions.radius, np.linalg.norm(most)), regions.radius])
        doses = np.concatenate([np.tile(most, (levels, 1)), np.zeros((levels, len(most)))])
        box = np.concatenate([np.tile(regions.box, (2, 1)), doses], axis=1)
        level = regions.level + levels * (half[regions.action] == 0.0).all(axis=1)
        centre = np.append(regions.centre, np.zeros(len(most)))
        joint = Regions(centre, radius, box, level, regions.action)
        return _States(scm.slopes_over(joint, member.vectors[t], member.noise[t]), D)

    def _local(self, t: int) -> Local:
        found, D, fixed = super()._local(t), self._member.states.shape[1], self._fixed
        half = _of_widths(self._member, self._halves[t])[found.actions]
        if not isinstance(found.slopes, _States):
            constants = self._member.scm.action_lipschitz(self._member.noise)
            constant = math.inf if constants is None else float(constants[t])
            nothing = np.zeros((*found.jumps.shape, half.shape[1]))
            return found._replace(widths=Widths(nothing, nothing, half, None, constant))
        both = found.slopes.both
        slope, deviation = both.jacobian[:, fixed:, D:], both.deviation[:, fixed:, D:]
        return found._replace(widths=Widths(slope, deviation, half, both, 0.0))


class Ahead(FirstOrder):
    """What changes to come can bring, where an action is a cell of doses."""

    def __init__(self, setting: SequenceSetting, halves: FloatArray, deadline: float) -> None:
        self._halves = halves
        super().__init__(setting, deadline)

    def _reach(self, *arguments: Any) -> Reach:
        return CellReach(self._halves, *arguments)

    def heights(
        self, t: int, used: int, tubes: list[Tube], earned: FloatArray, size: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """(a,) the most that actions at step t earn from there on together with what doses x (n,)
        earn before, `earned` . x, but for constants; and which actions these are."""
        if not self._finished:
            return np.full(self._setting.n_actions, math.inf), np.arange(self._setting.n_actions)
        used = int(self._counted(np.array([used]))[0])  # large budgets are counted together
        local, piece = self.reaches[0].locals[t], self._pieces[t, used]
        actions = local.actions[(local.level == used) & (local.spent <= self._setting.k)]
        fixed, height = self._setting.fixed, piece.constant.copy()
        along = np.repeat(earned[None], len(height), axis=0)
        for b, (one, tube) in enumerate(zip(self._setting.members, tubes, strict=True)):
            away = (tube.path[t] - one.states[t])[fixed:]
            rest = tube.off[t] @ size
            far = np.linalg.norm(away) + np.linalg.norm(np.abs(tube.moved[t]) @ size + rest)
            height += piece.slope[:, b] @ away + np.abs(piece.slope[:, b]) @ rest
            height += np.where(far > 0.0, piece.steepness[:, b] * far, 0.0)
            along += piece.slope[:, b] @ tube.moved[t]
        return rounded_up(height + np.abs(along) @ size), actions


class Courses:
    """What doses lead to under the members of a model.

    setting  of a listed problem: members, their noise, rewards and weights
    """

    def __init__(self, setting: SequenceSetting, room: Room) -> None:
        self.setting, self.room = setting, room
        self.layers = [_layers_of(one) for one in setting.members]
        self._steep = [
            _steepness(one) if layers is None else np.zeros(0)
            for one, layers in zip(setting.members, self.layers, strict=True)
        ]

    @property
    def method(self) -> str:
        """How bounds are made."""
        every = METHOD if all(one is not None for one in self.layers) else BY_CONSTANTS
        counted = len(self.setting.members)
        return every if self.setting.share is None else f"{every}, over {counted} members"

    def follow(self, doses: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """(n, B) what courses (n, T-1, d) earn, and by member (n, T, D) where they lead."""
        n, steps = doses.shape[:2]
        every, each = np.repeat(np.arange(n)[:, None], steps, axis=1), np.swapaxes(doses, 0, 1)
        values, paths = np.empty((n, len(self.setting.members))), []
        for b, one in enumerate(self.setting.members):
            replay = one.scm.replay(plain(_of_doses(one, each)), one.noise, one.states[0])
            own = replace(one, replay=replay, bonus=np.zeros((steps, n)))
            paths.append(own.trajectories(every))
            values[:, b] = own.earned(paths[-1], every)
        return values, paths

    def values(self, doses: FloatArray) -> FloatArray:
        """(n,) what courses earn; -inf where they do not keep to the limits."""
        found = self.setting.outcome(self.follow(doses)[0])
        return np.where(self.room.admits(doses), found, -np.inf)

    def best(self, doses: FloatArray, above: float) -> tuple[FloatArray, float] | None:
        """The best of some courses that earns more and stays inside the data, where it has to."""
        values = self.values(doses)
        for i in np.argsort(-values)[:TRIED]:
            if not values[i] > above:
                break
            if self._is_inside(doses[i]):
                return doses[i], float(values[i])
        return None

    def _is_inside(self, doses: FloatArray) -> bool:
        inside, setting = self.setting.inside, self.setting
        if inside is None or not setting.is_bound:
            return True
        path = np.mean([path[0] for path in self.follow(doses[None])[1]], axis=0)
        both = _of_doses(setting.members[0], np.stack([self.room.observed, doses], axis=1))
        taken = (doses != self.room.observed).any(axis=1).astype(np.int64)
        rule = replace(inside, vectors=both)
        return bool(rule.holds(taken[None], np.zeros_like(taken), path[None])[0])

    def leaves_data(self, node: Node, found: Expansion, tubes: list[Tube]) -> bool:
        """Whether no course of a node stays inside the data, by where all members' states are.

        A state within r of another has its nearest NEIGHBOURS among those that are no farther from
        the other than its own are and 2 r.
        """
        inside = self.setting.inside
        assert inside is not None
        assert inside.tolerance is not None
        path = np.mean([one.path for one in tubes], axis=0)
        wide = np.mean([np.abs(one.moved) + one.off for one in tubes], axis=0) @ found.size
        far = np.linalg.norm(wide, axis=1) * (1.0 + OUTWARD)
        member, seen = self.setting.members[0], inside.seen
        steps = np.flatnonzero(node.decided)
        count = min(NEIGHBOURS, len(seen.states))
        for t in steps:
            low, high = (_of_doses(member, end[t : t + 1])[0] for end in (node.low, node.high))
            away = np.linalg.norm(seen.states - path[t], axis=1)
            near = away <= np.partition(away, count - 1)[count - 1] + 2.0 * far[t] + 1e-6
            doses, within = seen.actions[near], inside.tolerance * (1.0 + 1e-5)
            alike = ((doses >= low - within) & (doses <= high + within)).all(axis=1)
            if alike.sum() < inside.least:
                return True
        last = len(path) if not node.more else node.first + 1
        behind = slice(int(steps.min(initial=last)) + 1, last)
        nearest = seen.nearest(path[behind]) - far[behind]
        return bool((nearest > seen.far + 1e-6).any())

    def expanded(
        self, node: Node, weights: FloatArray | None
    ) -> tuple[Expansion, list[Tube], FloatArray]:
        """A node around its middle by members with weights (B,), or by those that are worst there;
        and where the states of members are: of those that count, or of all that are asked where
        the data are."""
        middle = np.where(node.decided[:, None], (node.low + node.high) / 2, self.room.observed)
        outcomes, paths = self.follow(middle[None])
        if weights is None:
            share, weights = self.setting.share, self.setting.weights
            weights = weights if share is None else worst_weights(outcomes[0], share)
        owner, place = np.nonzero(node.decided[:, None] & (node.high > node.low))
        size = (node.high - node.low)[owner, place] / 2
        n, tubes = len(owner), []
        total = [np.zeros(n), np.zeros((n, n)), np.zeros((n, n)), np.zeros(n)]
        asked = np.arange(len(weights)) if self.setting.is_bound else np.flatnonzero(weights)
        for b in asked:
            own, tube = self._of_member(int(b), paths[b][0], middle, (owner, place, size))
            tubes.append(tube)
            for part, more in zip(total, own, strict=True):
                part += weights[b] * more
        value = float(outcomes[0] @ weights)
        value += OUTWARD * (self.setting.terms + abs(value))
        slope, bend, slack, steep = total
        found = Expansion(value, slope, bend, slack, steep, owner, place, size, middle)
        return found, tubes, weights

    def _of_member(
        self, b: int, path: FloatArray, middle: FloatArray, moving: Any
    ) -> tuple[tuple[FloatArray, ...], Tube]:
        """Slope, bend, slack and steepness by one member, in the units of the doses."""
        one, layers, (owner, place, size) = self.setting.members[b], self.layers[b], moving
        n, unit, M = len(owner), np.ones(len(owner)), path.shape[1] - one.scm.fixed
        if one.scaling is not None:
            columns = np.maximum(np.asarray(one.scaling.action_categories), 1)
            unit = 1.0 / one.scaling.action_range[place]
            place = (np.cumsum(columns) - columns)[place]
        shape = (len(path), M, n)
        if layers is None:
            nothing = np.zeros(n), np.zeros((n, n)), np.zeros((n, n))
            off = np.repeat(_reach(one, owner)[:, None], M, axis=1) * unit
            return (*nothing, self._steep[b][owner] * unit), Tube(path, np.zeros(shape), off)
        rewards = one.reward, one.last
        worth = tuple(plain(each.gradient(path.shape[1])[one.scm.fixed :]) for each in rewards)
        moved, off = np.zeros(shape), np.zeros(shape)
        first = int(owner.min(initial=len(middle) - 1))
        given = owner - first, place, size * unit
        vectors = plain(_of_doses(one, middle[first:]))
        parts = plain(path[first:]), vectors, plain(one.noise[first:])
        slope, bend, slack, moved[first:], off[first:] = dosed(layers, *parts, given, worth)
        far = np.linalg.norm(np.abs(moved) + off, axis=1)
        steep = rewards[0].remainder * far[:-1].sum(axis=0) + rewards[1].remainder * far[-1]
        both = np.outer(unit, unit)
        tube = Tube(path, moved * unit, off * unit)
        return (slope * unit, bend * both, slack * both, steep * unit), tube


def _of_doses(member: Member, doses: FloatArray) -> FloatArray:
    """Doses in the model's units."""
    return doses if member.scaling is None else member.scaling.encode_actions(doses)


def _of_widths(member: Member, widths: FloatArray) -> FloatArray:
    """Differences of doses in the model's units."""
    return widths if member.scaling is None else member.scaling.of_differences(widths)


def _layers_of(member: Member) -> Layers | None:
    found: Layers | None = getattr(member.scm, "dose_layers", None)
    return found


def _dose_constants(member: Member) -> FloatArray:
    """(T-1,) Lipschitz constants of steps in the dose."""
    found = member.scm.action_lipschitz(member.noise)
    if found is None or member.step_constants is None:
        raise NotApplicableError(
            f"{type(member.given).__name__} does not say how fast its steps change with the dose: "
            "give lipschitz= and action_lipschitz=, use a learned model, or list the doses"
        )
    return found


def _steepness(member: Member) -> FloatArray:
    """(T-1,) by how much outcomes can change with the dose of each step, from constants."""
    doses, states = _dose_constants(member), member.step_constants
    assert states is not None
    width, ahead = member.states.shape[1], np.zeros(len(member.states))
    steepest = [
        float(np.linalg.norm(reward.gradient(width))) + reward.remainder
        for reward in (member.reward, member.last)
    ]
    ahead[-1] = steepest[1]
    for t in range(len(states) - 1, -1, -1):
        ahead[t] = steepest[0] + states[t] * ahead[t + 1]
    return np.asarray(doses * ahead[1:] * (1.0 + OUTWARD))


def _reach(member: Member, owner: IntArray) -> FloatArray:
    """(T, n) how far states move by a unit of doses at steps (n,), from constants."""
    doses, states = _dose_constants(member), member.step_constants
    assert states is not None
    found = np.zeros((len(states) + 1, len(owner)))
    for t in range(len(states)):
        found[t + 1] = states[t] * found[t] + np.where(owner == t, doses[t], 0.0)
    return found * (1.0 + OUTWARD)


class Cells(NamedTuple):
    """Steps' doses in parts: the middles (T-1, N, d) and half widths of N cells; the first is what
    was observed, and such are those of steps that may not change."""

    middle: FloatArray
    half: FloatArray

    @classmethod
    def of(cls, room: Room) -> Cells:
        """About CELLS of them."""
        wide = (room.high > room.low).any(axis=0)
        each = max(1, round(CELLS ** (1.0 / max(int(wide.sum()), 1))))
        counts = np.where(wide, each, 1)
        places = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1)
        share = (places.reshape(-1, len(counts)) + 0.5) / counts
        may, every = room.may_change[:, None, None], np.ones((len(share), 1))
        half = np.where(may, ((room.high - room.low) / counts / 2)[:, None] * every, 0.0)
        middle = room.low[:, None] + share * (room.high - room.low)[:, None]
        middle = np.where(may, middle, room.observed[:, None])
        both = (room.observed[:, None], middle), (np.zeros_like(half[:, :1]), half)
        return cls(*(np.concatenate(parts, axis=1) for parts in both))


class Search:
    """One run from a course that is known to be possible.

    doses  (T-1, d) the best found, and its
    value
    bound  no course is better
    """

    def __init__(
        self, courses: Courses, cells: Cells, k: int, start: FloatArray, watch: Watch
    ) -> None:
        self._courses, self._cells, self._watch, self._room = courses, cells, watch, courses.room
        self._factual = float(courses.values(self._room.observed[None])[0])
        self.doses, self.value = start, float(courses.values(start[None])[0])
        self.bound, self.expanded, self.added = math.inf, 0, 0
        self._dropped, self._order = -math.inf, count()
        self._open: list[tuple[float, int, Node]] = []
        self._moments: list[tuple[float, float, float]] = []
        setting, room = courses.setting, courses.room
        self._weights = setting.weights
        if setting.share is not None:
            self._weights = worst_weights(courses.follow(start[None])[0][0], setting.share)
        counted = tuple(setting.members[b] for b in np.flatnonzero(self._weights))
        weights = self._weights[self._weights > 0.0]
        self._may = room.may_change
        self._k = min(k, int(self._may.sum()))
        narrow = replace(setting, members=counted, weights=weights, share=None, others=())
        if self._k:
            self._ahead = Ahead(replace(narrow, k=self._k), cells.half, watch.deadline)
        nothing = np.zeros_like(self._may)
        self._push(Node(room.low, room.high, nothing, self._k), math.inf)
        self._run()

    @property
    def history(self) -> FloatArray:
        """(m, 3) nodes expanded, value and bound as it went on."""
        return np.array(self._moments)

    @property
    def _enough(self) -> float:
        """What a bound has to exceed."""
        gap = self._watch.gap
        share = DEFAULT_SHARE if gap == 0.0 else 0.0
        least = self._courses.setting.negligible(self.value)
        return self.value + max(gap, share * (self.value - self._factual), least)

    def _run(self) -> None:
        while True:
            promise = -self._open[0][0] if self._open else -math.inf
            self.bound = float(max(self.value, promise, self._dropped))
            self._moments.append((self.expanded, self.value, self.bound))
            if promise <= self._enough:
                return
            if self._watch.must_stop(self.expanded, self.value, self.bound):
                return
            known, _, node = heapq.heappop(self._open)
            self.expanded += 1
            self._divide(node, -known)

    def _push(self, node: Node, bound: float) -> None:
        if self._room.is_coupled and node.decided.any():
            kept = ~node.decided if not node.more else np.arange(len(node.decided)) < node.first
            ends = self._room.narrowed(node.low, node.high, node.decided, kept & ~node.decided)
            if (ends[0] > ends[1])[node.decided].any():
                return
            node = node._replace(low=ends[0], high=ends[1])
        if math.isnan(bound):  # promises nothing, so it may be anything
            bound = math.inf
        if bound <= self._enough:
            self._dropped = max(self._dropped, bound)
            return
        self.added += 1
        heapq.heappush(self._open, (-bound, next(self._order), node))

    def _divide(self, node: Node, known: float) -> None:
        """Expand a node at its middle, and push what it is divided into."""
        found, tubes, weights = self._courses.expanded(node, self._weights if node.more else None)
        if self._courses.setting.is_bound:
            if node.decided.any() and self._courses.leaves_data(node, found, tubes):
                return
            tubes = [tubes[b] for b in np.flatnonzero(weights)]
        rise, x, left = self._highest(found, node)
        bound = min(known, found.value + rise + float(found.steep @ found.size))
        self._try(found, x)
        if node.more:
            for child, promise in self._children(node, found, tubes, weights):
                self._push(child, min(known, promise))
        if not len(found.owner):
            self._dropped = max(self._dropped, bound if node.decided.any() else -math.inf)
        elif node.more:
            self._push(node._replace(more=0), bound)
        elif bound <= self._enough:
            self._dropped = max(self._dropped, bound)
        else:
            for child in self._halves(node, found, left + found.steep * found.size):
                self._push(child, min(bound, self._inside(found, child)))

    def _inside(self, found: Expansion, node: Node) -> float:
        """The bound of an expansion over a part of its node."""
        ends = np.abs(node.low - found.middle), np.abs(node.high - found.middle)
        rise, _, _ = self._highest(found, node)
        return float(found.value + rise + found.steep @ np.maximum(*ends)[found.owner, found.place])

    def _highest(self, found: Expansion, node: Node) -> tuple[float, FloatArray, FloatArray]:
        """The quadratic of an expansion over a part of its node, within the limits."""
        low, high = ((end - found.middle)[found.owner, found.place] for end in node[:2])
        parts = found.bend, found.slack, low, high
        best: tuple[float, FloatArray, FloatArray] = highest(found.slope, *parts)
        if not self._room.is_coupled or node.more or not best[0] < math.inf:
            return best
        return _priced(found.slope, parts, *self._room.rows(found.middle, found.owner, found.place))

    def _try(self, found: Expansion, x: FloatArray) -> None:
        """Replay the course that an expansion holds for the best; with limits, what of it they
        admit."""
        if found.value + found.slope @ x + 0.5 * x @ found.bend @ x <= self.value:
            return
        shares = np.linspace(1.0, 0.0, 5) if self._room.is_coupled else np.ones(1)
        doses = np.repeat(found.middle[None], len(shares), axis=0)
        doses[:, found.owner, found.place] += shares[:, None] * x
        above = self.value + self._courses.setting.negligible(self.value)
        if better := self._courses.best(self._room.rounded(doses), above):
            self.doses, self.value = better

    def _children(
        self, node: Node, found: Expansion, tubes: list[Tube], weights: FloatArray
    ) -> Iterator[tuple[Node, float]]:
        """Cells of a next change, each with a bound."""
        setting, used = self._courses.setting, self._k - node.more
        members = [setting.members[b] for b in np.flatnonzero(weights)]
        each, fixed = weights[weights > 0.0], setting.fixed
        gradients = [one.reward.gradient(one.states.shape[1])[fixed:] for one in members]
        steps = len(node.decided)
        # Until a step: what the middle earns, how that changes with doses, and what is not linear.
        before, along, rest = 0.0, np.zeros(len(found.size)), 0.0
        for t in range(steps):
            if t >= node.first and self._may[t]:
                heights, actions = self._ahead.heights(t, used, tubes, along, found.size)
                for action, height in zip(actions.tolist(), heights.tolist(), strict=True):
                    if action:
                        yield self._cell(node, t, action), before + rest + height
            for w, one, tube, gradient in zip(each, members, tubes, gradients, strict=True):
                before += w * float(one.reward(tube.path[t : t + 1])[0])
                along = along + w * gradient @ tube.moved[t]
                off = tube.off[t] @ found.size
                far = np.linalg.norm(np.abs(tube.moved[t]) @ found.size + off)
                rest += w * float(np.abs(gradient) @ off + one.reward.remainder * far)

    def _cell(self, node: Node, t: int, action: int) -> Node:
        low, high, decided = node.low.copy(), node.high.copy(), node.decided.copy()
        middle, half = self._cells.middle[t, action], self._cells.half[t, action]
        low[t], high[t], decided[t] = middle - half, middle + half, True
        return Node(low, high, decided, node.more - 1)

    def _halves(self, node: Node, found: Expansion, left: FloatArray) -> Iterator[Node]:
        """The node with one dose's box halved, that which leaves most open."""
        known = np.isfinite(left).all() and left.max() > 0.0
        i = int(np.argmax(left if known else found.size))
        t, c = found.owner[i], found.place[i]
        for side in (0, 1):
            ends = node.low.copy(), node.high.copy()
            ends[1 - side][t, c] = found.middle[t, c]
            yield node._replace(low=ends[0], high=ends[1])


@dataclass(frozen=True, eq=False, kw_only=True)
class DoseExplanation(SequenceExplanation):
    """The alternative doses and where they lead; `actions` and `observed` are doses (T-1, d)."""

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Where doses differ from those given: tuples of amounts."""
        return tuple(
            Change(int(t), tuple(self.observed[t].tolist()), tuple(self.actions[t].tolist()))
            for t in np.flatnonzero(self.indices)
        )

    @cached_property
    def support(self) -> Support:
        """How far the alternative leaves the data, where the model knows its data."""
        steps = np.flatnonzero(self.indices)
        return sequence_support(self.inside, self.inner, [Change(int(t), 0, 1) for t in steps])

    @property
    def indices(self) -> IntArray:
        return np.asarray((self.actions != self.observed).any(axis=1), dtype=np.int64)


@dataclass(frozen=True)
class DoseSearch:
    """The solver of problems whose actions are `Doses`."""

    of_doses: ClassVar[bool] = True

    def refuses(self, problem: Problem) -> str | None:
        if isinstance(problem.actions, Doses):
            return None
        return "DoseSearch is for actions=Doses(low, high): a list of actions is for AStar"

    @np.errstate(over="ignore", invalid="ignore")  # infinite is a bound, too
    def solve(self, problem: Problem) -> SequenceExplanation:
        watch = Watch("search", problem.limits, problem.progress)
        room = problem.actions.room(problem.episode, problem.constraints)
        _check_reward(problem)
        problem, cells = replace(problem, tolerance=room.same), Cells.of(room)
        courses = Courses(prepare_sequence(_listed(problem, cells.middle)), room)
        start = self._start(problem, courses, watch.deadline)
        return self._explained(problem, courses, cells, start, watch)

    def frontier(self, problem: Problem) -> list[SequenceExplanation]:
        return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]

    def _start(self, problem: Problem, courses: Courses, deadline: float) -> FloatArray:
        """The best course on a grid of levels, and what is better close to it; a third of the time
        is for the grid."""
        from counterplan.counterfactual.continuous.astar import AStar

        listed = _listed(problem, _on_grid(courses.room, problem.actions.levels))
        limits = replace(problem.limits, seconds=problem.limits.seconds / 3)
        listed = replace(listed, limits=limits)
        found: IntArray = AStar().solve(listed).actions  # type: ignore[attr-defined]
        doses = listed.actions[np.arange(len(found)), found]
        if not courses.room.admits(doses[None])[0]:
            doses = _greedy(courses, listed.actions, problem.k, deadline)
        return _climbed(courses, doses, deadline)

    def _explained(
        self, problem: Problem, courses: Courses, cells: Cells, start: FloatArray, watch: Watch
    ) -> SequenceExplanation:
        prepared = watch.seconds
        found = Search(courses, cells, problem.k, start, watch)
        stats = {
            "seconds": watch.seconds,
            "start_seconds": prepared,
            "nodes_expanded": float(found.expanded),
            "nodes_added": float(found.added),
        }
        gap = found.bound - found.value
        proved = gap <= courses.setting.negligible(found.value)
        status = Status.OPTIMAL if proved else Status.LIMIT
        certificate = found.bound, status, courses.method, stats, found.history
        return dose_explanation(problem, courses.room, found.doses, certificate)


def dose_explanation(
    problem: Problem, room: Room, doses: FloatArray, certificate: Any
) -> DoseExplanation:
    """What is said about doses (T-1, d): their value is that of their replay. The certificate is
    bound, status, method, what was counted, and history."""
    taken = (doses != room.observed).any(axis=1).astype(np.int64)
    listed = _listed(problem, np.stack([room.observed, doses], axis=1))
    found = prepare_sequence(listed).explanation(problem.k, taken, *certificate)
    given = {one.name: getattr(found, one.name) for one in fields(found)}
    return DoseExplanation(**given | {"actions": doses, "observed": room.observed})


def replayed_doses(problem: Problem, changes: Mapping[int, FloatArray]) -> DoseExplanation:
    """What doses by step, all components or those that are chosen, lead to."""
    room = problem.actions.room(problem.episode, replace(problem.constraints, max_move=None))
    _check_reward(problem)
    problem = replace(problem, tolerance=room.same)
    doses, chosen = room.observed.copy(), (room.high > room.low).any(axis=0)
    for t, given in changes.items():
        try:
            amounts = np.atleast_1d(np.asarray(given, dtype=np.float64))
        except (TypeError, ValueError):
            amounts = np.empty(0)
        places = np.arange(len(chosen)) if amounts.shape == chosen.shape else np.flatnonzero(chosen)
        if amounts.shape != places.shape or not np.isfinite(amounts).all():
            raise InputError(
                f"step {t}: the doses {given!r} must be {chosen.sum()} finite numbers, or "
                f"{len(chosen)} with those that are not chosen"
            )
        low, high = room.low[t, places], room.high[t, places]
        slack = ROUNDING * (1.0 + np.abs(high - low))
        for c in np.flatnonzero((amounts < low - slack) | (amounts > high + slack)):
            raise InputError(
                f"step {t}: the dose {amounts[c]:g} of component {places[c]} is not between "
                f"{low[c]:g} and {high[c]:g}"
            )
        doses[t, places] = amounts
    nothing: Any = math.inf, Status.HEURISTIC, "by hand", {}, None
    return dose_explanation(problem, room, doses, nothing)


def _check_reward(problem: Problem) -> None:
    if getattr(problem.reward, "actions", None) is not None:
        raise InputError("what actions earn is a list, and doses are not listed: list the doses")


def _listed(problem: Problem, vectors: FloatArray) -> Problem:
    """The same problem with a list of actions, which are within its limits."""
    rules = replace(problem.constraints, max_move=None, fixed_steps=())
    return replace(problem, actions=vectors, constraints=rules)


def _on_grid(room: Room, levels: int) -> FloatArray:
    """(T-1, N, d) what was given, and a grid of levels."""
    counts = np.where((room.high > room.low).any(axis=0), levels, 1)
    places = np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1)
    share = places.reshape(-1, len(counts)) / np.maximum(counts - 1, 1)
    vectors = room.low[:, None] + share * (room.high - room.low)[:, None]
    vectors = np.where(room.may_change[:, None, None], vectors, room.observed[:, None])
    return np.concatenate([room.observed[:, None], vectors], axis=1)


def _greedy(courses: Courses, listed: FloatArray, k: int, deadline: float) -> FloatArray:
    """The best change at a time that limits admit."""
    doses = courses.room.observed
    value = float(courses.values(doses[None])[0])
    for _ in range(k):
        if clock() > deadline:
            break
        steps, count = listed.shape[:2]
        tried = np.repeat(doses[None], steps * count, axis=0)
        tried[np.arange(steps * count), np.repeat(np.arange(steps), count)] = listed.reshape(
            steps * count, -1
        )
        used = (tried != courses.room.observed).any(axis=2).sum(axis=1)
        if (better := courses.best(tried[used <= k], value)) is None:
            break
        doses, value = better
    return doses


def _climbed(courses: Courses, doses: FloatArray, deadline: float) -> FloatArray:
    """A course improved dose by dose, with ever smaller steps."""
    room = courses.room
    changed = (doses != room.observed).any(axis=1)
    places = np.argwhere(changed[:, None] & (room.high > room.low))
    if not len(places):
        return doses
    value, share = float(courses.values(doses[None])[0]), FIRST
    moves = np.eye(len(places))
    if room.is_coupled:  # what one gives up another may get
        same = np.equal.outer(places[:, 1], places[:, 1])
        pairs = [np.eye(len(places))[i] - np.eye(len(places))[j] for i, j in np.argwhere(same)]
        moves = np.concatenate([moves, np.reshape(pairs, (-1, len(places)))])
    moves = np.concatenate([moves, -moves])
    rows, columns = places.T
    while share > FINEST and clock() < deadline:
        tried = np.repeat(doses[None], len(moves), axis=0)
        tried[:, rows, columns] += share * moves * (room.high - room.low)[rows, columns]
        if better := courses.best(room.rounded(tried), value):
            doses, value = better
        else:
            share /= 4
    return doses
