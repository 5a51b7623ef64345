"""One episode of a continuous process, ready to be searched.

The counterfactual is deterministic (Eq. 6, 7 of the 2023 paper): from state s at step t the action
a leads to F_t(s, a). An alternative is a sequence of T-1 actions; its outcome is the sum of R(s)
over all T states, with what the last state and the actions earn besides (`EpisodeReward`).
Everything here is in the model's own units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.limits import clock
from counterplan.core.problem import Problem
from counterplan.core.result import Change, Explanation, Status
from counterplan.core.reward import EpisodeReward, Reward
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.counterfactual.support import (
    Inside,
    Support,
    inside_of,
    sequence_rule,
    sequence_support,
)
from counterplan.errors import CounterplanError, InputError
from counterplan.scm.point import PointSCM, Replay, Scaling, action_indices, action_vectors

# What rounding can do to an outcome, as a share of the terms it is the sum of.
ROUNDING = 1e-12
# Terms of bounds are enlarged by more than their rounding.
OUTWARD = 1e-12
# Sequences that are tried together for one that stays inside the data.
TRIED = 16
# So many amounts of the budget are told apart exactly; where more are possible, so many groups.
EXACT_LEVELS, MERGED_LEVELS = 64, 32


def rounded_up(values: FloatArray) -> FloatArray:
    """The values, enlarged by more than the rounding of the few operations behind them."""
    return np.asarray(values + OUTWARD * (1.0 + np.abs(values)))


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


@dataclass(frozen=True, eq=False, kw_only=True)
class SequenceExplanation(Explanation):
    """The alternative actions and where they lead.

    actions   (T-1,) indices into the set of actions
    observed  (T-1,) those that were taken
    states    (T, D) the counterfactual states, in the units of the episode
    history   (m, 3) nodes expanded, best value and bound as the search went on, from its first
              moment to its end; none where nothing was searched
    inner     (T, D) the states in the model's own units
    inside    what tells how far they leave the data, None if nothing does
    """

    actions: IntArray
    observed: IntArray
    states: FloatArray
    history: FloatArray
    problem: Problem = field(repr=False)
    inner: FloatArray = field(repr=False)
    inside: Inside | None = field(repr=False)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Where the sequence differs from what was done."""
        return tuple(
            Change(int(t), int(self.observed[t]), int(self.actions[t]))
            for t in np.flatnonzero(self.actions != self.observed)
        )

    @cached_property
    def support(self) -> Support:
        """How far the alternative leaves the data, where the model knows its data."""
        return sequence_support(self.inside, self.inner, self.changes)


@dataclass(frozen=True, eq=False)
class SequenceSetting:
    """What a search works on.

    states    (T, D) observed
    vectors   (T-1, N, d) action vectors
    observed  (T-1,) which of them were taken
    noise     (T-1, U) abducted
    reward    of a state
    last      of the last state
    bonus     (T-1, N) what each action earns
    allowed   (T-1, N) the observed action, and those that may replace it
    costs     (N,) budget units of a change to each action
    inside    what tells how far alternatives leave the data, None if nothing does
    """

    scm: PointSCM
    replay: Replay
    reward: Reward
    last: Reward
    bonus: FloatArray
    states: FloatArray
    vectors: FloatArray
    observed: IntArray
    noise: FloatArray
    allowed: BoolArray
    costs: IntArray
    k: int
    scaling: Scaling | None
    problem: Problem
    inside: Inside | None

    @property
    def members(self) -> tuple[SequenceSetting, ...]:
        """The settings of single models: this one, but for an ensemble those that count."""
        return (self,)

    @property
    def weights(self) -> FloatArray:
        """(B,) of the members in what bounds an outcome."""
        return np.ones(1)

    def narrowed(self, known: IntArray) -> SequenceSetting:
        """What bounds outcomes, and is close to them near a known sequence (T-1,): the same, but
        for an ensemble."""
        return self

    def blocks(self, states: FloatArray) -> Sequence[FloatArray]:
        """States (n, D) as the members have them."""
        return (states,)

    def banked(self, states: FloatArray) -> FloatArray | float:
        """(n,) what states remember of earlier rewards, weighted; nothing here."""
        return 0.0

    @property
    def horizon(self) -> int:
        """T, the number of states."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def step_constants(self) -> FloatArray | None:
        """(T-1,) Lipschitz constants of the steps, None where the model states none."""
        if self.horizon == 1:
            return np.empty(0)
        given = self.scm.lipschitz(self.noise)
        if given is None:
            return None
        constants = np.asarray(given, dtype=np.float64)
        usable = np.isfinite(constants) & (constants >= 0.0)
        if constants.shape != (len(self.noise),) or not usable.all():
            raise InputError(
                f"{type(self.scm).__name__}: lipschitz must give one finite constant from 0 up for "
                f"each of {len(self.noise)} noise vectors, got {constants.tolist()}"
            )
        return constants

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
    def _terms(self) -> float:
        """The size of what the observed outcome is the sum of."""
        weights = np.abs(self.last.gradient(self.states.shape[1]))
        if self.last is not self.reward:
            weights = weights + np.abs(self.reward.gradient(self.states.shape[1]))
        terms = np.abs(self.last(self.states)) + np.abs(self.states) @ weights
        return float(terms.sum() + np.abs(self.bonus).max(axis=1, initial=0.0).sum())

    def negligible(self, value: float) -> float:
        """Outcomes this close to a value are the same but for rounding: no reason for a change."""
        return ROUNDING * max(self._terms, abs(value))

    def in_episode_units(self, states: FloatArray) -> FloatArray:
        """States as the episode gives them."""
        return states if self.scaling is None else self.scaling.decode_states(states)

    def costs_at(self, t: int) -> IntArray:
        """(N,) budget units of each action; keeping the observed one is free."""
        costs = self.costs.copy()
        costs[self.observed[t]] = 0
        return costs

    def path(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n, m + 1, D) states (n, D) of step t and those after m actions (n, m) from there."""
        if hasattr(self.replay, "path"):
            return np.asarray(self.replay.path(t, states, actions))
        path = [states]
        for step in range(actions.shape[1]):
            path.append(self.replay.follow(t + step, path[-1], actions[:, step]))
        return np.stack(path, axis=1)

    def ends(self, t: int, states: FloatArray, actions: IntArray) -> FloatArray:
        """(n,) what actions (n, T-1-t) earn from states (n, D) of step t on."""
        return self.earned(self.path(t, states, actions), actions, t)

    def placed(self, states: FloatArray) -> FloatArray:
        """States (n, D) where they are among the data."""
        return states

    @property
    def is_bound(self) -> bool:
        """Whether alternatives have to stay inside the data."""
        return self.inside is not None and self.inside.binds

    @property
    def rule(self) -> str:
        """How alternatives are kept inside the data, in words; empty where they are not."""
        return sequence_rule(self.inside) if self.inside and self.is_bound else ""

    def may_take(self, t: int, states: FloatArray, used: IntArray) -> BoolArray:
        """(n, N) the actions that may be taken at step t in states (n, D) with `used` spent."""
        may = self.allowed[t] & (used[:, None] + self.costs_at(t) <= self.k)
        if self.inside is not None and self.is_bound:
            near, vouched = self.inside.may_change(t, self.placed(states))
            # What was kept so far may be kept.
            vouched[:, self.observed[t]] = near | (used == 0)
            may &= vouched
        return np.asarray(may)

    def stays(self, paths: FloatArray, changed: BoolArray | None = None) -> BoolArray:
        """(n, m) whether paths (n, m, D) are among the data up to each state, where they have to:
        those that have `changed` (n,), all by default."""
        n, m, _ = paths.shape
        fine = np.ones((n, m), dtype=np.bool_)
        if self.inside is None or not self.is_bound:
            return fine
        rows = np.arange(n) if changed is None else np.flatnonzero(changed)
        for t in range(m):
            near = self.inside.near(self.placed(paths[rows, t]))
            fine[rows[~near], t:] = False
            rows = rows[near]
        return fine

    def best_inside(
        self, sequences: Callable[[IntArray], IntArray], values: FloatArray, since: int = 0
    ) -> int | None:
        """Which of n sequences with values (n,) above -inf has most of those that stay inside the
        data; None if there is none.

        sequences  those of some numbers, (m, T-1)
        since      all that they change before this step is known to be inside
        """
        order = np.argsort(-values, kind="stable")
        order = order[values[order] > -np.inf]
        for start in range(0, len(order), TRIED):
            rows = order[start : start + TRIED]
            if (fine := self.is_inside(sequences(rows), since)).any():
                return int(rows[fine.argmax()])
        return None

    def is_inside(self, sequences: IntArray, since: int = 0) -> BoolArray:
        """(n,) whether sequences (n, T-1) stay inside the data, where they have to."""
        if self.inside is None or not (self.is_bound and len(sequences)):
            return np.ones(len(sequences), dtype=np.bool_)
        paths = np.stack([self.placed(path) for path in self.trajectories(sequences)])
        return self.inside.holds(sequences, self.observed, paths, since)

    def trajectories(self, sequences: IntArray) -> FloatArray:
        """(n, T, D) the states along sequences (n, T-1) of actions."""
        return self.path(0, np.repeat(self.states[:1], len(sequences), axis=0), sequences)

    def outcomes(self, sequences: IntArray) -> FloatArray:
        """(n,) what sequences (n, T-1) of actions earn."""
        return self.earned(self.trajectories(sequences), sequences)

    def held(self, actions: IntArray, ranges: FloatArray) -> float:
        """What a sequence (T-1,) would earn if its states stayed in ranges (D, 2), in the units of
        the episode: what the model puts outside is on the end of the range, and goes on there."""
        path = [self.states[:1]]
        for t in range(len(actions)):
            after = self.replay.follow(t, path[-1], actions[t : t + 1])
            given = self.in_episode_units(after)
            inside = np.clip(given, *ranges.T)
            if (inside != given).any():
                after = inside if self.scaling is None else self.scaling.encode_states(inside)
            path.append(after)
        return float(self.earned(np.stack(path, axis=1), actions[None])[0])

    def earned(self, states: FloatArray, sequences: IntArray, t: int = 0) -> FloatArray:
        """(n,) what states (n, T-t, D) and the sequences (n, T-1-t) that lead through them earn,
        from step t on."""
        n, m, D = states.shape
        rewards = self.reward(states.reshape(n * m, D)).reshape(n, m)
        if self.last is not self.reward:
            rewards[:, -1] = self.last(states[:, -1])
        steps = np.arange(t, t + m - 1)
        return np.asarray(rewards.sum(axis=1) + self.bonus[steps, sequences].sum(axis=1))

    def reward_at(self, t: int) -> Reward:
        """What the state of step t is worth."""
        return self.last if t == self.horizon - 1 else self.reward

    def single_change_values(self, base: IntArray, deadline: float = np.inf) -> FloatArray:
        """(T-1, N) the outcome of `base` (T-1,) with the action of step t replaced by a; -inf for
        what is not known at the deadline, which the last steps are tried first for."""
        T, N = self.horizon, self.n_actions
        path = self.trajectories(base[None])
        before = np.append(
            0.0, np.cumsum(self.reward(path[0, :-1]) + self.bonus[range(T - 1), base])
        )
        values, high = np.full((T - 1, N), -np.inf), T - 1
        while high and clock() <= deadline:
            # A model without a path of its own is asked step by step, about many changes at once;
            # fewer where the way is long, for the deadline.
            many = 1 if hasattr(self.replay, "path") else 256 // (T - high + 15)
            low = max(0, high - max(1, many))
            after = np.empty((0, path.shape[2]))
            totals = np.empty(0)
            for t in range(low, high):
                if len(after):
                    totals = totals + self.reward(after) + self.bonus[t, base[t]]
                    after = self.replay.follow(t, after, np.full(len(after), base[t]))
                after = np.concatenate([after, self.replay.children(t, path[:, t])[0]])
                here = before[t] + self.reward(path[:, t]) + self.bonus[t]
                totals = np.concatenate([totals, here])
            taken = np.repeat(base[None, high:], len(after), axis=0)
            totals = totals + self.earned(self.path(high, after, taken), taken, high)
            values[low:high] = totals.reshape(-1, N)
            high = low
        return values

    def affordable(self, base: IntArray) -> BoolArray:
        """(T-1, N) whether step t of `base` may be set to a within the budget."""
        price = np.broadcast_to(self.costs, self.allowed.shape).copy()
        steps = np.arange(len(base))
        price[steps, self.observed] = 0
        spent = price[steps, base]
        return np.asarray(self.allowed & (spent.sum() - spent[:, None] + price <= self.k))

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
            best = self.best_inside(fewer.__getitem__, values)
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
        bound; otherwise the bound is never below the value."""
        states = self.trajectories(actions[None])[0]
        with np.errstate(over="ignore"):
            value = float(self.earned(states[None], actions[None])[0])
        if not np.isfinite(value):
            raise InputError(
                f"{self.problem.episode.name}: the rewards of an alternative add up to {value}: "
                "state them in larger units"
            )
        return SequenceExplanation(
            episode=self.problem.episode,
            problem=self.problem,
            k=k,
            value=value,
            factual_value=float(self.earned(self.states[None], self.observed[None])[0]),
            bound=value if status == Status.OPTIMAL else max(value, bound),
            status=status,
            stats=MappingProxyType(dict(stats)),
            method=method,
            actions=actions,
            observed=self.observed,
            states=self.in_episode_units(states),
            inner=states,
            inside=self.inside,
            rule=self.rule,
            history=np.empty((0, 3)) if history is None else history,
        )


def prepare_sequence(problem: Problem) -> SequenceSetting:
    """Check a continuous problem and bring it into the model's own units."""
    scm, episode = problem.scm, problem.episode
    if problem.actions is None:
        raise InputError("a continuous problem needs the set of actions: actions=(N, d) vectors")
    scm, scaling = scm.internal()
    vectors = action_vectors(problem.actions, len(episode) - 1)
    observed = action_indices(episode, vectors)
    states, given = episode.states, _accepted(problem.reward)
    reward, last = given.state, given.last
    bonus = given.of_actions(*vectors.shape[:2])
    rules = problem.constraints.resolve_sequence(vectors, observed)
    if scaling is not None:
        _check_widths(states, vectors, scaling, episode)
        states, vectors = scaling.encode_states(states), scaling.encode_actions(vectors)
        reward = scaling.encode_reward(reward, problem.scm.fixed)
        last = scaling.encode_reward(last, problem.scm.fixed) if given.final else reward
    last.gradient(states.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(reward(states).sum() + last(states[-1:])[0] + bonus.sum())
    if not np.isfinite(total):
        raise InputError(
            f"{episode.name}: its rewards add up to {total}: state them in larger units"
        )
    taken = vectors[np.arange(len(observed)), observed]
    noise = _inferred(scm, episode, states, taken)
    replay = scm.replay(vectors, noise, states[0])
    spendable = len(observed) * int(rules.costs.max())
    return SequenceSetting(
        scm=scm,
        replay=replay,
        reward=reward,
        last=last,
        bonus=bonus,
        states=_replayed(replay, states, observed),
        vectors=vectors,
        observed=observed,
        noise=noise,
        allowed=rules.alternatives,
        costs=rules.costs,
        k=min(problem.k, spendable),
        scaling=scaling,
        problem=problem,
        inside=inside_of(problem, vectors),
    )


def _accepted(given: Reward | EpisodeReward | None) -> EpisodeReward:
    if given is None:
        raise InputError("a continuous problem needs a reward: e.g. reward=LinearReward(weights)")
    whole = given if isinstance(given, EpisodeReward) else EpisodeReward(given)
    for reward in (whole.state, *whole.final):
        if isinstance(reward, type) or not isinstance(reward, Reward):
            raise InputError(
                f"reward is a {type(reward).__name__}: pass LinearReward(weights), or a function "
                "of yours as LipschitzReward(function, constant)"
            )
    return whole


def _inferred(scm: PointSCM, episode: Episode, states: FloatArray, taken: FloatArray) -> FloatArray:
    """The noise of the episode; what the model cannot read is the episode's fault, not a crash."""
    widths = f"{states.shape[1]} features and action vectors of {taken.shape[1]} components"
    try:
        noise = np.asarray(scm.infer(states[:-1], taken, states[1:]), dtype=np.float64)
    except CounterplanError:
        raise
    except (ValueError, IndexError) as problem:
        raise InputError(
            f"{episode.name}: the model cannot read states of {widths}: {problem}"
        ) from None
    if noise.ndim != 2 or len(noise) != len(taken):
        raise InputError(
            f"{type(scm).__name__}: infer returned shape {noise.shape}, expected one row of noise "
            f"for each transition: ({len(taken)}, U)"
        )
    unknown = np.flatnonzero(~np.isfinite(noise).all(axis=1))
    if unknown.size:
        t = int(unknown[0])
        raise InputError(
            f"{episode.name}: no finite noise explains the transition after t={t}: the model "
            "rules it out"
        )
    return noise


def _replayed(replay: Replay, states: FloatArray, observed: IntArray) -> FloatArray:
    """The observed states as the model replays them: the same but for rounding, and exactly what a
    search reaches by changing nothing."""
    result = states.copy()
    for t in range(len(states) - 1):
        result[t + 1] = replay.follow(t, result[t : t + 1], observed[t : t + 1])[0]
    # Each feature in its own units, beside what rounding in others can do to it.
    sizes = np.abs(states).max(axis=0)
    allowed = 1e-6 * sizes + 1e-10 * sizes.max()
    off = np.abs(result - states)
    if not (off <= allowed).all():
        t, feature = (int(i) for i in np.argwhere(~(off <= allowed))[0])
        raise InputError(
            f"the model does not reproduce the episode: replayed, state {t} is off by "
            f"{off[t, feature]:.3g} in feature {feature}; check that infer and step are inverse to "
            "each other and that fixed features are fixed"
        )
    return result


def _check_widths(
    states: FloatArray, vectors: FloatArray, scaling: Scaling, episode: Episode
) -> None:
    features, components = len(scaling.state_offset), len(scaling.action_offset)
    if states.shape[1] != features:
        raise InputError(
            f"{episode.name}: states have {states.shape[1]} features, the model has {features}"
        )
    if vectors.shape[2] != components:
        raise InputError(
            f"action vectors have {vectors.shape[2]} components, the model takes {components}"
        )


def greedy_sequence(
    setting: SequenceSetting,
    start: IntArray | None = None,
    rng: np.random.Generator | None = None,
    probability: float = 1.0,
    deadline: float = np.inf,
) -> IntArray:
    """At most k rounds, each with the best affordable single change (taken with a probability) of
    those that there is time to try."""
    best = (setting.observed if start is None else start).copy()
    value = float(setting.outcomes(best[None])[0])
    for _ in range(setting.k):
        if clock() > deadline:
            break
        if rng is not None and rng.random() >= probability:
            continue
        gains = np.where(
            setting.affordable(best), setting.single_change_values(best, deadline), -np.inf
        )
        gains[~(gains > value + setting.negligible(value))] = -np.inf
        place = setting.best_inside(partial(_changed, best, gains.shape[1]), gains.ravel())
        if place is None:
            break
        value, best = float(gains.flat[place]), _changed(best, gains.shape[1], np.array([place]))[0]
    return best


def _changed(base: IntArray, n_actions: int, places: IntArray) -> IntArray:
    """(m, T-1) `base` with the action of one step replaced: of step t by a at place t N + a."""
    sequences = np.repeat(base[None], len(places), axis=0)
    sequences[np.arange(len(places)), places // n_actions] = places % n_actions
    return sequences
