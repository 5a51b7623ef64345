"""What boxes of real doses can earn at most.

A node is a set of alternatives: at its decided steps the dose lies in a box, and up to `more`
others may change later. Let x be how far doses are from the middle of the boxes. What decided doses
alone earn is at most

    W(x)  <=  W(0) + g . x + (x^T H x + |x|^T E |x|) / 2 + steep . |x|         over the node

by expansion along the course through the middle (`scm.curvature`), where W(0) is exact; `steep`
is what a reward that is not linear adds, or all there is where a model states constants only: with
K_t in the state, A_t in the dose, rho of the reward

    steep_t = A_t q_{t+1},      q_t = rho + K_t q_{t+1}

What doses themselves earn, `worth` . dose, is part of W(0) and g. It is a quadratic over a box.
With |x_i x_j| <= (w_j x_i^2 / w_i + w_i x_j^2 / w_j) / 2 for E and a diagonal A such that H - A is
concave,

    x_i^2 <= (low_i + high_i) x_i - low_i high_i        (exact in corners)

makes it concave, and f(x*) + max_x f'(x*) . (x - x*) bounds that at any x*.

What a next change can bring is bounded by pieces C_a + p_a . (s - s_t) + q_a ||s - s_t||, as in the
search over listed actions (`first_order`); an action a is now a cell of doses, and regions are of
states and doses. Up to the step of that change states are s_t + (y_t - s_t) + P x + q, |q| <= N w,
around the course y through the middle, and what is earned until then is linear in them.

Limits on steps and totals are rows A x <= b: they narrow boxes, and any multipliers m >= 0 bound
what is possible by max f(x) + m . (b - A x). Here each in turn is halved into the place where its
row is just kept.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.compiled import njit, plain
from counterplan.core.doses import Room
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.member import Member
from counterplan.counterfactual.continuous.reach import Local, Reach, product_of
from counterplan.counterfactual.continuous.setting import (
    SequenceSetting,
    rounded_up,
    worst_weights,
)
from counterplan.counterfactual.support import NEIGHBOURS
from counterplan.errors import NotApplicableError
from counterplan.scm.curvature import Layers, dosed
from counterplan.scm.point import Regions, Slopes

# Of the doses of a step, about so many cells.
CELLS = 16
# Courses that are tried for one that stays inside the data.
TRIED = 8
# Sweeps of coordinate ascent; what is left is added to the bound.
SWEEPS = 40
# Of the size of an outcome, more than the rounding behind it.
OUTWARD = 1e-11
# Rounds over what limits or data leave of a box; halvings of prices, and where they end.
ROUNDS, HALVINGS, LARGEST_PRICE = 2, 12, 1e9
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


def priced(
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
            own = replace(one, replay=replay, bonus=each @ self.room.worth)
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
            if self.is_inside(doses[i]):
                return doses[i], float(values[i])
        return None

    def is_inside(self, doses: FloatArray) -> bool:
        """Whether a course stays inside the data, where it has to."""
        inside, setting = self.setting.inside, self.setting
        if inside is None or not setting.is_bound:
            return True
        path = np.mean([path[0] for path in self.follow(doses[None])[1]], axis=0)
        both = _of_doses(setting.members[0], np.stack([self.room.observed, doses], axis=1))
        taken = (doses != self.room.observed).any(axis=1).astype(np.int64)
        rule = replace(inside, vectors=both)
        return bool(rule.holds(taken[None], np.zeros_like(taken), path[None])[0])

    @cached_property
    def _given(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The components to choose, what was given of them in the data (n, m), and how far that is
        the same."""
        inside, scaling = self.setting.inside, self.setting.members[0].scaling
        assert inside is not None
        chosen = np.flatnonzero((self.room.high > self.room.low).any(axis=0))
        given = inside.seen.actions.astype(np.float64)
        if scaling is None:
            return chosen, given[:, chosen], self.room.same[chosen]
        columns = np.maximum(np.asarray(scaling.action_categories), 1)
        given = given[:, (np.cumsum(columns) - columns)[chosen]]
        given = given * scaling.action_range[chosen] + scaling.action_offset[chosen]
        return chosen, given, self.room.same[chosen] * (1.0 + 1e-5)

    def near(self, state: FloatArray, far: float) -> FloatArray:
        """(n, m) the doses given in the nearest states of all states within `far` of one, in the
        model's units: a state within r of another has its nearest NEIGHBOURS among those that are
        no farther from the other than its own are and 2 r."""
        inside = self.setting.inside
        assert inside is not None
        states = inside.seen.states
        count = min(NEIGHBOURS, len(states))
        away = np.linalg.norm(states - state, axis=1)
        within = np.partition(away, count - 1)[count - 1] + 2.0 * far + 1e-6
        return np.asarray(self._given[1][away <= within])

    def vouched(
        self, doses: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """The part of a box (d,) outside of which not enough was given, of doses (n, m); None if
        that is all of it. A dose that enough were given is no lower than that many of theirs, nor
        higher."""
        inside, (chosen, _, same) = self.setting.inside, self._given
        assert inside is not None
        ends, least = (low[chosen], high[chosen]), inside.least
        for _ in range(ROUNDS):
            doses = doses[((doses >= ends[0] - same) & (doses <= ends[1] + same)).all(axis=1)]
            if len(doses) < least:
                return None
            parts = np.partition(doses, [least - 1, len(doses) - least], axis=0)
            lowest, highest = parts[least - 1] - same, parts[len(doses) - least] + same
            ends = np.maximum(ends[0], lowest), np.minimum(ends[1], highest)
            if (ends[0] > ends[1]).any():
                return None
        low, high = low.copy(), high.copy()
        low[chosen], high[chosen] = ends
        return low, high

    def inside(
        self, node: Node, found: Expansion, tubes: list[Tube]
    ) -> tuple[Node | None, FloatArray, FloatArray]:
        """The part of a node outside of which no course stays inside the data, by where all
        members' states are, None if there is none; and where these are (T, D), and how far at
        most."""
        inside = self.setting.inside
        assert inside is not None
        path = np.mean([one.path for one in tubes], axis=0)
        wide = np.mean([np.abs(one.moved) + one.off for one in tubes], axis=0) @ found.size
        far = np.linalg.norm(wide, axis=1) * (1.0 + OUTWARD)
        steps, ends = np.flatnonzero(node.decided), (node.low.copy(), node.high.copy())
        for t in steps:
            part = self.vouched(self.near(path[t], far[t]), ends[0][t], ends[1][t])
            if part is None:
                return None, path, far
            ends[0][t], ends[1][t] = part
        last = len(path) if not node.more else node.first + 1
        behind = slice(int(steps.min(initial=last)) + 1, last)
        nearest = inside.seen.nearest(path[behind]) - far[behind]
        is_far = bool((nearest > inside.seen.far + 1e-6).any())
        return None if is_far else node._replace(low=ends[0], high=ends[1]), path, far

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
        slope += self.room.worth[place]
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
