"""Branch and bound over real doses.

A node with more changes to come is divided into cells of the next one, the last ones into halves of
the box that leaves most open (`dose_bounds` says what each can earn). The best course met so far,
by the search over listed actions on a grid of levels at first, is what bounds have to beat.

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
from typing import Any, ClassVar

import numpy as np

from counterplan.core.doses import ROUNDING, Doses, Room
from counterplan.core.limits import Watch, clock
from counterplan.core.problem import Problem
from counterplan.core.result import Change, Status
from counterplan.core.reward import EpisodeReward
from counterplan.core.validation import FloatArray, IntArray
from counterplan.counterfactual.continuous.claims import SequenceExplanation
from counterplan.counterfactual.continuous.dose_bounds import (
    Ahead,
    Cells,
    Courses,
    Expansion,
    Node,
    Tube,
    highest,
    priced,
)
from counterplan.counterfactual.continuous.setting import prepare_sequence, worst_weights
from counterplan.counterfactual.support import Support, sequence_support
from counterplan.errors import InputError

# Of the improvement: so far the best may be from the bound unless a gap is asked for.
DEFAULT_SHARE = 0.01
# Of the width of a box: what is less is looked at anew.
SMALLER = 0.7
# Of a change: parts that are tried to do with less of it.
PARTS = 16
# Of the range of a dose: steps of the local search from, and down to.
FIRST, FINEST = 0.125, 1e-7


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
        where = None
        if self._courses.setting.is_bound:
            inside, *where = self._courses.inside(node, found, tubes)
            if inside is None:
                return
            known = min(known, self._inside(found, inside)) if not node.more else known
            if _is_smaller(inside, node):
                self._push(inside, known)
                return
            node, tubes = inside, [tubes[b] for b in np.flatnonzero(weights)]
        rise, x, left = self._highest(found, node)
        bound = min(known, found.value + rise + float(found.steep @ found.size))
        self._try(found, x)
        if node.more:
            for child, promise in self._children(node, found, tubes, weights, where):
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
        return priced(found.slope, parts, *self._room.rows(found.middle, found.owner, found.place))

    def _try(self, found: Expansion, x: FloatArray) -> None:
        """Replay the course that an expansion holds for the best; with limits, or data, what of it
        they admit."""
        if found.value + found.slope @ x + 0.5 * x @ found.bend @ x <= self.value:
            return
        is_free = not (self._room.is_coupled or self._courses.setting.is_bound)
        shares = np.ones(1) if is_free else np.linspace(1.0, 0.0, 5)
        doses = np.repeat(found.middle[None], len(shares), axis=0)
        doses[:, found.owner, found.place] += shares[:, None] * x
        above = self.value + self._courses.setting.negligible(self.value)
        if better := self._courses.best(self._room.rounded(doses), above):
            self.doses, self.value = better

    def _children(
        self, node: Node, found: Expansion, tubes: list[Tube], weights: FloatArray, where: Any
    ) -> Iterator[tuple[Node, float]]:
        """Cells of a next change, each with a bound, as far as the data leads where states are."""
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
                near = None if where is None else self._courses.near(where[0][t], where[1][t])
                for action, height in zip(actions.tolist(), heights.tolist(), strict=True):
                    promise = before + rest + height
                    if not action or promise <= self._enough:
                        self._dropped = max(self._dropped, promise if action else -math.inf)
                    elif (child := self._cell(node, t, action, near)) is not None:
                        yield child, promise
            before += float(found.middle[t] @ self._room.worth)
            along = along + np.where(found.owner == t, self._room.worth[found.place], 0.0)
            for w, one, tube, gradient in zip(each, members, tubes, gradients, strict=True):
                before += w * float(one.reward(tube.path[t : t + 1])[0])
                along = along + w * gradient @ tube.moved[t]
                off = tube.off[t] @ found.size
                far = np.linalg.norm(np.abs(tube.moved[t]) @ found.size + off)
                rest += w * float(np.abs(gradient) @ off + one.reward.remainder * far)

    def _cell(self, node: Node, t: int, action: int, near: FloatArray | None) -> Node | None:
        """A node with a cell of doses at step t as well, as far as given doses vouch for it; None
        if they do not."""
        middle, half = self._cells.middle[t, action], self._cells.half[t, action]
        box: Any = middle - half, middle + half
        if near is not None and (box := self._courses.vouched(near, *box)) is None:
            return None
        low, high, decided = node.low.copy(), node.high.copy(), node.decided.copy()
        (low[t], high[t]), decided[t] = box, True
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


def _is_smaller(part: Node, node: Node) -> bool:
    """Whether a box of a node is much wider than in its part."""
    before, after = ((one.high - one.low)[one.decided] for one in (node, part))
    return bool((after < SMALLER * before).any())


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
        listed = _listed(problem, room, cells.middle, cells.half)
        courses = Courses(prepare_sequence(listed), room)
        start = self._start(problem, courses, watch.deadline)
        return self._explained(problem, courses, cells, start, watch)

    def frontier(self, problem: Problem) -> list[SequenceExplanation]:
        return [self.solve(replace(problem, k=k)) for k in range(problem.k + 1)]

    def _start(self, problem: Problem, courses: Courses, deadline: float) -> FloatArray:
        """The best course on a grid of levels, and what is better close to it; a third of the time
        is for the grid."""
        from counterplan.counterfactual.continuous.astar import AStar

        room = courses.room
        levels = problem.actions.levels
        listed = _listed(problem, room, _on_grid(room, levels))
        # Data within reach of two levels would count for the first of them alone.
        wide = (room.high - room.low)[room.may_change].min(axis=0, initial=np.inf)
        apart = np.where(np.isfinite(room.same), wide / (2 * (levels - 1)), np.inf)
        listed = replace(listed, tolerance=np.minimum(room.same, apart))
        limits = replace(problem.limits, seconds=problem.limits.seconds / 3)
        listed = replace(listed, limits=limits)
        found: IntArray = AStar().solve(listed).actions  # type: ignore[attr-defined]
        doses = listed.actions[np.arange(len(found)), found]
        if not room.admits(doses[None])[0]:
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
        return dose_explanation(problem, courses.room, _settled(courses, found.doses), certificate)


def dose_explanation(
    problem: Problem, room: Room, doses: FloatArray, certificate: Any
) -> DoseExplanation:
    """What is said about doses (T-1, d): their value is that of their replay. The certificate is
    bound, status, method, what was counted, and history."""
    taken = (doses != room.observed).any(axis=1).astype(np.int64)
    listed = _listed(problem, room, np.stack([room.observed, doses], axis=1))
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
        raise InputError(
            "what actions earn is a list, and doses are not listed: say what a unit of each earns, "
            "Doses(..., worth=), or list the doses"
        )


def _listed(
    problem: Problem, room: Room, vectors: FloatArray, half: FloatArray | None = None
) -> Problem:
    """The same problem with a list of actions, which are within its limits; each earns what its
    vector does, or the best of the doses up to `half` from it."""
    rules = replace(problem.constraints, max_move=None, fixed_steps=())
    reward: Any = problem.reward
    if room.worth.any():
        earned = vectors @ room.worth + (0.0 if half is None else half @ np.abs(room.worth))
        known = isinstance(reward, EpisodeReward)
        reward = replace(reward, actions=earned) if known else EpisodeReward(reward, (), earned)
    return replace(problem, actions=vectors, constraints=rules, reward=reward)


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


def _settled(courses: Courses, doses: FloatArray) -> FloatArray:
    """A course with every dose as close to what was given as is as good: what does nothing stays as
    it was, or moves no farther than to where there is data."""
    room, value = courses.room, float(courses.values(doses[None])[0])
    least = value - courses.setting.negligible(value) / 2
    shares = np.arange(PARTS) / PARTS
    for t, c in np.argwhere(doses != room.observed):
        tried = np.repeat(doses[None], PARTS, axis=0)
        tried[:, t, c] = room.observed[t, c] + shares * (doses[t, c] - room.observed[t, c])
        tried = room.rounded(tried)
        as_good = np.flatnonzero(courses.values(tried) >= least)
        doses = next((tried[i] for i in as_good if courses.is_inside(tried[i])), doses)
    return doses
