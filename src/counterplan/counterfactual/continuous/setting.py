"""One episode of a continuous process, ready to be searched: under one model, or under many.

V_1(a) .. V_B(a) are the outcomes of a sequence under the members of a model (`member`), each of
which infers its own noise from the episode. What is optimised is their mean over the worst share
beta,

    W(a) = min_w sum_b w_b V_b(a)      over   0 <= w_b <= 1 / (beta B),   sum_b w_b = 1

(beta = 1: the mean). So any fixed weights give a bound: U_w >= sum_b w_b V_b >= W, and the least of
several is one too. Here they are those of a good sequence known at the start, under which only its
own worst members count: a search knows no others (`narrowed`) until a sequence is to be judged. One
model alone is the case B = 1, w = 1.

A state of the search is what the members' states are, side by side: (B, D), each in the units of
its model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from counterplan.core.limits import clock
from counterplan.core.problem import Problem
from counterplan.core.result import Status
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.continuous.claims import SequenceExplanation, claim_spread
from counterplan.counterfactual.continuous.member import Member, prepare_member
from counterplan.counterfactual.support import Inside, inside_of, sequence_rule
from counterplan.errors import InputError
from counterplan.scm.cosine import JointReplay
from counterplan.scm.point import action_vectors, number_array, taken_vectors

# The share of the members of a model that is optimised for, unless another is asked for.
DEFAULT_RISK = 0.25
# What rounding can do to an outcome, as a share of the terms it is the sum of.
ROUNDING = 1e-12
# Outcomes that rounding moves by less, as a share of these terms, are exact.
EXACT = 1e-10
# A first state is moved by so much, relative to its size, to see what rounding does to outcomes; at
# each step it does less than this.
MOVED, ROUNDED = 1e-12, 1e-15
# Steps at which another action is taken to see it.
SEEN = 14
# Terms of bounds are enlarged by more than their rounding.
OUTWARD = 1e-12
# Sequences that are tried together for one that stays inside the data.
TRIED = 16
# Steps whose single changes are tried together.
STEPS = 4
# So many amounts of the budget are told apart exactly; where more are possible, so many groups.
EXACT_LEVELS, MERGED_LEVELS = 64, 32


def rounded_up(values: FloatArray) -> FloatArray:
    """The values, enlarged by more than the rounding of the few operations behind them."""
    return np.asarray(values + OUTWARD * (1.0 + np.abs(values)))


def worst_mean(values: FloatArray, share: float) -> FloatArray:
    """(...,) the mean of the lowest share of values (..., B)."""
    ordered = np.sort(values, axis=-1)
    return np.asarray(ordered @ _weights(ordered.shape[-1], share))


def worst_weights(values: FloatArray, share: float) -> FloatArray:
    """(B,) the weights under which the mean of values (B,) is that of their lowest share."""
    weights = np.empty(len(values))
    weights[np.argsort(values, kind="stable")] = _weights(len(values), share)
    return weights


def _weights(count: int, share: float) -> FloatArray:
    held = np.clip(share * count - np.arange(count), 0.0, 1.0)
    return np.asarray(held / held.sum())


class Levels(NamedTuple):
    """Amounts of the budget that bounds tell apart: level i stands for first[i]..last[i].

    These are the sums that changes can cost. Where there are too many, those close to each other
    share a level; bounds then count as if the least of it were spent, or the most were left.
    """

    first: IntArray
    last: IntArray

    def of(self, amounts: IntArray) -> IntArray:
        """The levels of amounts of the budget."""
        return np.searchsorted(self.first, amounts, side="right") - 1


@dataclass(frozen=True, eq=False)
class SequenceSetting:
    """What a search works on.

    members  those whose outcomes count, B of them
    weights  (B,) of theirs in an outcome, unless
    share    says over which share of them, the worst, the mean is taken
    others   members that only tell, with the rest, where a state is among the data
    allowed  (T-1, N) the observed action, and those that may replace it
    costs    (N,) budget units of a change to each action
    inside   what tells how far alternatives leave the data, None if nothing does
    mean     the model whose members they are, where it says how far claims may be off
    """

    problem: Problem
    members: tuple[Member, ...]
    weights: FloatArray
    share: float | None
    allowed: BoolArray
    costs: IntArray
    k: int
    inside: Inside | None
    others: tuple[Member, ...] = ()
    mean: Member | None = None

    @property
    def observed(self) -> IntArray:
        """(T-1,) the actions that were taken."""
        return self.members[0].observed

    @property
    def bonus(self) -> FloatArray:
        """(T-1, N) what each action earns."""
        return self.members[0].bonus

    @property
    def horizon(self) -> int:
        """T, the number of states."""
        return len(self.members[0].states)

    @property
    def n_actions(self) -> int:
        return int(self.allowed.shape[1])

    @cached_property
    def states(self) -> FloatArray:
        """(T, B, D) observed, as all members have them."""
        return np.stack([one.states for one in self.members + self.others], axis=1)

    @property
    def fixed(self) -> int:
        """How many features, the first, never change."""
        return self.members[0].scm.fixed

    def away(self, t: int, states: FloatArray) -> FloatArray:
        """(n, B, M) how far the moving features of states (n, B, D) of step t are from those that
        were observed, for the members whose outcomes count."""
        counted = slice(len(self.members))
        moved: FloatArray = states[:, counted] - self.states[t, counted]
        return moved[:, :, self.fixed :]

    @cached_property
    def levels(self) -> Levels:
        """What to tell apart of the budget."""
        sums, costs = {0}, np.unique(self.costs).tolist()
        for _ in range(self.horizon - 1):
            more = {paid + cost for paid in sums for cost in costs if paid + cost <= self.k}
            if more <= sums:
                break
            sums |= more
            if len(sums) > EXACT_LEVELS:
                edges = np.arange(MERGED_LEVELS + 1) * (self.k + 1) // MERGED_LEVELS
                return Levels(edges[:-1], edges[1:] - 1)
        exact = np.array(sorted(sums), dtype=np.int64)
        return Levels(exact, exact)

    @cached_property
    def terms(self) -> float:
        """The size of what an outcome is the sum of."""
        return max(one.terms for one in self.members)

    def negligible(self, value: float) -> float:
        """Outcomes this close to a value are the same but for rounding: no reason for a change."""
        return ROUNDING * max(self.terms, abs(value))

    @cached_property
    def most_ahead(self) -> FloatArray:
        """(T-1,) the most that can be earned by the action of step t and after it, whatever is
        done, for no state leaves the limits of its model."""
        states = self.weights @ np.array([one.most(one.reward) for one in self.members])
        states[-1:] = self.weights @ np.array([one.most(one.last)[-1:] for one in self.members])
        actions = np.where(self.allowed, self.bonus[: self.horizon - 1], -np.inf).max(axis=1)
        found = np.cumsum((states + actions)[::-1])[::-1]
        return rounded_up(found + OUTWARD * self.terms)

    def drift(self, sequence: IntArray) -> float:
        """How far rounding may move the outcome of a sequence (T-1,), of what was done, or of a
        sequence close to either, by what moving their first states does. A chaotic member can
        enlarge the last digit of a state to any size: then no order of outcomes closer than this
        is proved, whatever computes them."""
        steps = np.unique(np.linspace(0, len(sequence) - 1, SEEN).astype(np.int64))
        close = [self.observed, sequence]
        for i, t in enumerate(steps if len(sequence) else ()):
            other = sequence.copy()
            other[t] = np.flatnonzero(self.allowed[t])[i % np.count_nonzero(self.allowed[t])]
            close.append(other)
        every, first = np.stack(close), self.states[0]
        size = np.abs(self.states).max(axis=0)
        size[:, : self.fixed] = 0.0
        moved = first + MOVED * size * np.where(np.arange(size.shape[1]) % 2, 1.0, -1.0)
        both = np.repeat(np.stack([first, moved]), len(every), axis=0)
        ends = self.ends_by_member(0, both, np.concatenate([every, every]))
        off = np.abs(np.subtract(*np.split(ends, 2))) * ROUNDED / MOVED * self.horizon
        # A model of somebody's own may round otherwise where it is asked for one state alone.
        alone = self.ends_by_member(0, first[None], sequence[None])
        off = np.concatenate([off, np.abs(alone - ends[1])])
        # Where an alternative overflows nothing is known of it, as of what search and bounds say.
        return float(off[np.isfinite(off)].max(initial=0.0))

    def narrowed(self, known: IntArray) -> SequenceSetting:
        """What bounds outcomes, and is close to them near a known sequence (T-1,): one with the
        weights of its worst members, and without those that do not count there."""
        if self.share is None:
            return self
        weights = worst_weights(self.outcomes_by_member(known[None])[0], self.share)
        counted = tuple(one for one, w in zip(self.members, weights, strict=True) if w > 0.0)
        rest = tuple(one for one in self.members if one not in counted) if self.is_bound else ()
        return replace(
            self, members=counted, weights=weights[weights > 0.0], share=None, others=rest
        )

    # --- Where actions lead, and what they earn ---

    def follow(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, B, D) the next states after one action each, (n,), from states (n, B, D) at step
        t."""
        return self.path(t, states, actions[:, None])[:, 1]

    def path(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, m + 1, B, D) states (n, B, D) of step t and those after m actions (n, m)."""
        every = self.members + self.others
        joint = self._together if states.shape[1] == len(every) else self._counted_together
        if joint is not None:
            return joint.path(t, states, actions)
        both = zip(every, np.moveaxis(states, 1, 0), strict=False)
        return np.stack([one.path(t, its, actions) for one, its in both], axis=2)

    @cached_property
    def _together(self) -> JointReplay | None:
        """The steps of all members at once, where they share what that takes."""
        return JointReplay.of([one.replay for one in self.members + self.others])

    @cached_property
    def _counted_together(self) -> JointReplay | None:
        """Those of the members that count."""
        return JointReplay.of([one.replay for one in self.members])

    def outcome(self, values: FloatArray) -> FloatArray:
        """(...,) what members say together that say values (..., B)."""
        if self.share is not None:
            return worst_mean(values, self.share)
        return np.asarray(values @ self.weights)

    def reward(self, states: FloatArray) -> FloatArray:
        """(n,) what states (n, B, D) before the last are worth together."""
        every = [one.reward(states[:, b]) for b, one in enumerate(self.members)]
        return self.outcome(np.stack(every, axis=-1))

    def last(self, states: FloatArray) -> FloatArray:
        """(n,) what last states (n, B, D) are worth together."""
        every = [one.last(states[:, b]) for b, one in enumerate(self.members)]
        return self.outcome(np.stack(every, axis=-1))

    def earned(self, paths: FloatArray, actions: IntArray, t: int) -> FloatArray:
        """(n,) what paths (n, T-t, B, D) by actions (n, T-1-t) earn from step t on."""
        every = [one.earned(paths[:, :, b], actions, t) for b, one in enumerate(self.members)]
        return self.outcome(np.stack(every, axis=-1))

    def ends_by_member(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, B) what actions (n, T-1-t) earn from states (n, B, D) of step t on."""
        path = self.path(t, states[:, : len(self.members)], actions)
        every = [one.earned(path[:, :, b], actions, t) for b, one in enumerate(self.members)]
        return np.stack(every, axis=-1)

    def ends(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n,) what these earn together."""
        return self.outcome(self.ends_by_member(t, states, actions))

    def outcomes_by_member(self, sequences: IntArray) -> FloatArray:
        """(n, B) what each member says of sequences (n, T-1)."""
        first = np.broadcast_to(self.states[0], (len(sequences), *self.states[0].shape))
        return self.ends_by_member(0, first, sequences)

    def outcomes(self, sequences: IntArray) -> FloatArray:
        """(n,) what sequences (n, T-1) of actions earn."""
        return self.outcome(self.outcomes_by_member(sequences))

    def single_change_values(self, base: IntArray, deadline: float = np.inf) -> FloatArray:
        """(T-1, N) the outcome of `base` (T-1,) with the action of step t replaced by a; -inf for
        what is not known at the deadline, which the last steps are tried first for."""
        high, N = self.horizon - 1, self.n_actions
        path = self.path(0, self.states[:1], base[None])[0]
        steps = [one.reward(path[:-1, b]) for b, one in enumerate(self.members)]
        taken = self.bonus[np.arange(high), base]
        before = np.cumsum(np.stack(steps, axis=1) + taken[:, None], axis=0)
        values = np.full((high, N), -np.inf)
        while high and clock() <= deadline:
            low = max(0, high - STEPS)
            changed = _changed(base, N, np.arange(low * N, high * N))
            here = np.broadcast_to(path[low], (len(changed), *path[low].shape))
            ahead = self.ends_by_member(low, here, changed[:, low:])
            ahead = ahead + (before[low - 1] if low else 0.0)
            values[low:high] = self.outcome(ahead).reshape(-1, N)
            high = low
        return values

    # --- What may be done ---

    def costs_at(self, t: int) -> IntArray:
        """(N,) budget units of each action; keeping the observed one is free."""
        costs = self.costs.copy()
        costs[self.observed[t]] = 0
        return costs

    def affordable(self, base: IntArray) -> BoolArray:
        """(T-1, N) whether step t of `base` may be set to a within the budget."""
        price = np.broadcast_to(self.costs, self.allowed.shape).copy()
        steps = np.arange(len(base))
        price[steps, self.observed] = 0
        spent = price[steps, base]
        return np.asarray(self.allowed & (spent.sum() - spent[:, None] + price <= self.k))

    @property
    def is_bound(self) -> bool:
        """Whether alternatives have to stay inside the data."""
        return self.inside is not None and self.inside.binds

    def may_take(self, t: int, states: FloatArray, used: IntArray) -> BoolArray:
        """(n, N) the actions that may be taken at step t in states (n, B, D) with `used` spent."""
        may = self.allowed[t] & (used[:, None] + self.costs_at(t) <= self.k)
        if self.inside is not None and self.is_bound:
            near, vouched = self.inside.may_change(t, states.mean(axis=1))
            # What was kept so far may be kept.
            vouched[:, self.observed[t]] = near | (used == 0)
            may &= vouched
        return np.asarray(may)

    @cached_property
    def single_changes(self) -> int:
        """How many changes may be made if there is no other: the budget aside."""
        steps, free = range(self.horizon - 1), replace(self, k=int(self.costs.max()))
        if not self.is_bound:
            return int(self.allowed.sum()) - len(self.allowed)
        nothing = np.zeros(1, dtype=np.int64)
        may = [free.may_take(t, self.states[t : t + 1], nothing).sum() - 1 for t in steps]
        return int(sum(may))

    def is_inside(self, sequences: IntArray) -> BoolArray:
        """(n,) whether sequences (n, T-1) stay inside the data, where they have to."""
        if self.inside is None or not (self.is_bound and len(sequences)):
            return np.ones(len(sequences), dtype=np.bool_)
        first = np.broadcast_to(self.states[0], (len(sequences), *self.states[0].shape))
        paths = self.path(0, first, sequences).mean(axis=2)
        return self.inside.holds(sequences, self.observed, paths)

    def stays_near(self, t: int, states: FloatArray, actions: IntArray) -> BoolArray:
        """(n,) whether states (n, B, D) of step t and those after m actions (n, m) are near the
        data; asked of a few steps at a time, and no longer of those that were not."""
        assert self.inside is not None  # or nothing is asked
        near = self.inside.is_near(states.mean(axis=1))
        for first in range(0, actions.shape[1], STEPS):
            rows = np.flatnonzero(near)
            if not rows.size:
                break
            path = self.path(t + first, states[rows], actions[rows, first : first + STEPS])
            for place in range(1, path.shape[1]):
                still = near[rows]
                near[rows[still]] = self.inside.is_near(path[still, place].mean(axis=1))
            states = states.copy()
            states[rows] = path[:, -1]
        return near

    def best_inside(
        self, sequences: IntArray, values: FloatArray, deadline: float = np.inf
    ) -> int | None:
        """Which of the sequences (n, T-1) with values (n,) above -inf has most of those that stay
        inside the data; None if there is none, or none is known at the deadline."""
        order = np.argsort(-values, kind="stable")
        order = order[values[order] > -np.inf]
        start, size = 0, 1  # mostly the first one is inside
        while start < len(order) and not (start and clock() > deadline):
            rows = order[start : start + size]
            if (fine := self.is_inside(sequences[rows])).any():
                return int(rows[fine.argmax()])
            start, size = start + size, min(4 * size, TRIED)
        return None

    def simplified(self, sequence: IntArray) -> IntArray:
        """The sequence (T-1,) without the changes that bring nothing."""
        value = float(self.outcomes(sequence[None])[0])
        # Half of it: simplified or not, what beat another sequence still does.
        least = value - self.negligible(value) / 2
        while (changed := np.flatnonzero(sequence != self.observed)).size:
            fewer = np.repeat(sequence[None], len(changed), axis=0)
            fewer[np.arange(len(changed)), changed] = self.observed[changed]
            values = self.outcomes(fewer)
            values[~(values >= least)] = -np.inf
            best = self.best_inside(fewer, values)
            if best is None:
                break
            sequence = fewer[best]
        return sequence

    def explanation(
        self,
        k: int,
        actions: IntArray,
        bound: float,
        status: Status,
        method: str,
        stats: Mapping[str, float],
        history: FloatArray | None = None,
    ) -> SequenceExplanation:
        """An answer: a sequence of actions (T-1,) and where it leads. An optimal one is its own
        bound; otherwise the bound is never below the value. Where rounding alone moves outcomes
        nothing is optimal, and the bound says by how much."""
        first, asks_members = self.members[0], self.problem.risk is not None
        paths = [one.trajectories(actions[None])[0] for one in self.members]
        given = [one.in_episode_units(path) for one, path in zip(self.members, paths, strict=True)]
        with np.errstate(over="ignore"):
            outcomes = self.outcomes_by_member(actions[None])[0]
            value = float(self.outcome(outcomes))
        if not np.isfinite(value):
            raise InputError(
                f"{self.problem.episode.name}: the rewards of an alternative add up to {value}: "
                "state them in larger units"
            )
        bound = value if status == Status.OPTIMAL else max(value, bound)
        if status != Status.HEURISTIC and self.k > 0:
            off = self.drift(actions)
            if off > EXACT * max(self.terms, abs(value)):
                bound, status = bound + off, Status.LIMIT
                method += f"; rounding alone may move outcomes by {off:.1g}"
        is_claim = asks_members and not np.array_equal(actions, self.observed)
        return SequenceExplanation(
            episode=self.problem.episode,
            problem=self.problem,
            k=k,
            value=value,
            factual_value=float(first.earned(first.states[None], self.observed[None])[0]),
            bound=bound,
            status=status,
            stats=MappingProxyType(dict(stats)),
            method=method,
            actions=actions,
            observed=self.observed,
            states=np.mean(given, axis=0),
            outcomes=outcomes,
            member_states=np.stack(given) if asks_members else None,
            spread=claim_spread(self.mean, actions, outcomes) if is_claim else 0.0,
            inner=np.mean(paths, axis=0),
            inside=self.inside,
            rule=sequence_rule(self.inside) if self.inside and self.is_bound else "",
            history=np.empty((0, 3)) if history is None else history,
        )


# Who has an answer asks more about the same problem at once: that is not prepared again.
@lru_cache(maxsize=1)
def prepare_sequence(problem: Problem) -> SequenceSetting:
    """Check a continuous problem and bring it into the units of its model, or of each member."""
    members: tuple[Member, ...] = ()
    mean, share = None, problem.risk
    if share is None:
        # Of a model without members what is asked of all of them is asked of it alone.
        is_one = not getattr(problem.scm, "members", ())
        alone = problem.scm
        members = prepare_members(problem) if is_one else (prepare_member(problem, alone),)
    else:
        if not 0.0 < float(number_array(share, "risk")) <= 1.0:
            raise InputError(f"risk is {share}: expected a share of members above 0 and up to 1")
        members = prepare_members(problem)
        if len({one.states.shape for one in members}) != 1:
            raise InputError("the members of a model differ in their features")
        if getattr(problem.scm, "form", None) is not None:
            mean = prepare_member(problem, problem.scm)
    observed = members[0].observed
    vectors = action_vectors(problem.actions, len(observed))
    rules = problem.constraints.resolve_sequence(vectors, observed)
    return SequenceSetting(
        problem=problem,
        members=members,
        weights=np.full(len(members), 1.0 / len(members)),
        share=share,
        allowed=rules.alternatives,
        costs=rules.costs,
        k=min(problem.k, len(observed) * int(rules.costs.max())),
        inside=inside_of(problem, members[0].vectors),
        mean=mean,
    )


@lru_cache(maxsize=1)
def prepare_members(problem: Problem) -> tuple[Member, ...]:
    """The members of the model, those that infer effects for this episode; or the model itself."""
    scm: Any = problem.scm
    every, has_steps = getattr(scm, "members", ()), len(problem.episode) > 1
    if every and hasattr(scm, "members_of") and problem.actions is not None and has_steps:
        taken = taken_vectors(problem.episode, problem.actions)
        every = scm.members_of(problem.episode.states, taken)
    return tuple(prepare_member(problem, one) for one in every or (scm,))


def greedy_sequence(
    setting: SequenceSetting,
    start: IntArray | None = None,
    rng: np.random.Generator | None = None,
    probability: float = 1.0,
    deadline: float = np.inf,
    few: int | None = None,
    gains: FloatArray | None = None,
) -> IntArray:
    """At most k rounds, each with the best affordable single change (taken with a probability) of
    those that there is time to try; only so few, the best of the first round, or by what they are
    thought to gain (T-1, N)."""
    best = (setting.observed if start is None else start).copy()
    value, (steps, N) = float(setting.outcomes(best[None])[0]), setting.allowed.shape
    places = np.arange(steps * N) if gains is None else _promising(gains, few)
    for _ in range(setting.k):
        if clock() > deadline:
            break
        if rng is not None and rng.random() >= probability:
            continue
        if len(places) == steps * N:
            values = setting.single_change_values(best, deadline).ravel()
        else:
            values = setting.outcomes(_changed(best, N, places))
        values[~setting.affordable(best).ravel()[places]] = -np.inf
        order = np.argsort(-values, kind="stable")
        better = order[values[order] > value + setting.negligible(value)]
        place: int | None = None
        # Few at a time: all of a long episode are as many as its steps squared.
        for first in range(0, len(better), TRIED):
            rows = better[first : first + TRIED]
            changed = _changed(best, N, places[rows])
            ranks = -np.arange(len(changed), dtype=float)
            place = setting.best_inside(changed, ranks, deadline)
            if place is not None:
                value, best = float(values[rows[place]]), changed[place]
            if place is not None or clock() > deadline:
                break
        if place is None:
            break
        if few is not None and len(places) == steps * N:
            places = _promising(values.reshape(steps, N), few)
    return best


def _promising(values: FloatArray, few: int | None) -> IntArray:
    """(m,) the places t N + a of the largest values (T-1, N), two of a step at most."""
    two = np.argsort(-values, axis=1, kind="stable")[:, :2]
    places = (two + values.shape[1] * np.arange(len(values))[:, None]).ravel()
    return np.asarray(places[np.argsort(-values.ravel()[places], kind="stable")[:few]])


def _changed(base: IntArray, n_actions: int, places: IntArray) -> IntArray:
    """(m, T-1) `base` with the action of one step replaced: of step t by a at place t N + a."""
    sequences = np.repeat(base[None], len(places), axis=0)
    sequences[np.arange(len(places)), places // n_actions] = places % n_actions
    return sequences
