"""The 2023 paper's heuristic: upper bounds from a finite set of anchor states (Section 4).

The value is Lipschitz continuous in the state (Lemma 5): with K_t the constant of the step at t and
C that of the reward

    |V(s, l, t) - V(s', l, t)| <= L_t ||s - s'||,      L_{T-1} = C,   L_t = C + L_{t+1} K_t

Algorithm 1 computes upper bounds V^ at the anchors, backward in time, and Eq. 11 extends the same
expression to every other state:

    V^(s, l, T-1) = R(s)
    V^(s, l, t)   = R(s) + max_a min_anchor { V^(anchor, l_a, t+1) + L_{t+1} ||anchor - s_a|| }

where s_a = F_t(s, a), a runs over the actions that may be taken, and l_a is what is spent after a.
Only what is left of the budget matters, and of that only which sums of costs it can pay: these are
the levels here (`Levels`), so that a smaller budget finds its values among those of a larger one.
Everything is rounded upwards. Which states are anchors is a strategy:

    MC-Lipschitz       states of random alternatives, which change steps with probabilities
                       proportional to the constants L_t of the value (Section 4)
    MC-uniform         the same, all steps equally likely (Appendix F)
    facility location  states of the data, each the farthest from those already chosen (Eq. 18 by
                       the farthest-point algorithm, within a factor 2 of the best)
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.compiled import njit
from counterplan.core.limits import clock
from counterplan.core.validation import (
    FloatArray,
    IntArray,
    Seed,
    feature_table,
    generator,
    whole_number,
)
from counterplan.counterfactual.continuous.astar import UpperBound
from counterplan.counterfactual.continuous.setting import OUTWARD, SequenceSetting, rounded_up
from counterplan.errors import InputError

STRATEGIES = ("mc-lipschitz", "mc-uniform", "facility-location")
# Rounds of sampling without any new state before a wanted number of anchors is given up.
PATIENCE = 10
# Anchors whose next states are held in memory at a time.
CHUNK = 2048
# Alternatives that are followed at a time where time is limited, and distances of states from
# anchors, times their features, between two looks at the clock.
FOLLOWED, WORK = 64, 10**8
# Anchors handled together: their coordinates stay in the fastest cache.
BLOCK = 256
# Added to squares of distances, which may have vanished.
VANISHING = 1e-300


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz", "nnan"})
def lowest_cones(
    states: Any, first: Any, last: Any, anchors: Any, values: Any, steepness: float
) -> Any:
    """(n, levels) min over anchors of value + steepness * distance, for the levels first..last of
    each state (n, M); anchors (blocks, M, BLOCK), values (blocks, levels, BLOCK)."""
    n, M = states.shape
    result = np.full((n, values.shape[1]), np.inf)
    cone = np.empty(BLOCK)
    for block in range(anchors.shape[0]):
        for i in range(n):
            cone[:] = 0.0
            for m in range(M):
                coordinate, x = anchors[block, m], states[i, m]
                for j in range(BLOCK):
                    away = coordinate[j] - x
                    cone[j] += away * away
            for j in range(BLOCK):
                # A little farther than it is: squares of tiny distances vanish.
                cone[j] = steepness * np.sqrt(cone[j] + VANISHING)
            for level in range(first[i], last[i] + 1):
                value, lowest = values[block, level], np.inf
                for j in range(BLOCK):
                    height = value[j] + cone[j]
                    lowest = height if height < lowest else lowest
                result[i, level] = min(result[i, level], lowest)
    return result


def farthest_points(
    states: FloatArray, start: int, count: int, deadline: float = math.inf
) -> list[int]:
    """Indices of `count` of the states (n, M), or as many as are found by the deadline: each the
    farthest from all those before it."""
    chosen, nearest = [start], np.full(len(states), np.inf)
    while len(chosen) < count and clock() < deadline:
        nearest = np.minimum(nearest, ((states - states[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(nearest.argmax()))
    return chosen


def value_constants(setting: SequenceSetting) -> FloatArray:
    """(T,) the constants L_t of Lemma 5."""
    constants, one = np.empty(setting.horizon), setting.members[0]
    for t, reward in ((slice(None), one.reward), (-1, one.last)):
        gradient = reward.gradient(one.states.shape[1])[setting.fixed :]
        constants[t] = float(np.linalg.norm(gradient)) + reward.remainder
    of_steps = one.step_constants
    if of_steps is not None:
        for t in reversed(range(setting.horizon - 1)):
            constants[t] += constants[t + 1] * of_steps[t] if of_steps[t] > 0.0 else 0.0
    return np.asarray(constants * (1.0 + OUTWARD))


class AnchorBound:
    """The bound of one problem, with values for every step, anchor (A, D) and level."""

    def __init__(
        self,
        setting: SequenceSetting,
        anchors: FloatArray,
        strategy: str,
        deadline: float = math.inf,
    ) -> None:
        self._setting, self._model, self._deadline = setting, setting.members[0], deadline
        self.name = f"{len(anchors)} anchors ({strategy})"
        self._constants = value_constants(setting)
        self._levels = setting.levels
        # Whole blocks: the last anchor stands in for those that are missing.
        filled = np.concatenate([anchors, np.repeat(anchors[-1:], -len(anchors) % BLOCK, axis=0)])
        self._coordinates = _in_blocks(filled[:, setting.fixed :].T)
        # By step: (blocks, levels, BLOCK)
        self._values = [np.empty(0)] * setting.horizon
        self._algorithm_1(filled)

    def restricted(self, setting: SequenceSetting) -> AnchorBound:
        """The bound for a smaller budget: the same anchors, fewer levels."""
        smaller = copy(self)
        smaller._setting, smaller._deadline = setting, math.inf
        return smaller

    def upper(self, t: int, used: IntArray, states: FloatArray) -> FloatArray:
        """(n,) Eq. 11 for states (n, 1, D) with `used` spent."""
        setting = self._setting
        if t == setting.horizon - 1:
            return setting.last(states)
        left = setting.k - used[:, None] - setting.costs_at(t)[None, :]
        row, action = np.nonzero(setting.allowed[t] & (left >= 0))
        level = self._levels.of(left[row, action])
        after = setting.follow(t, states[row], action)[:, 0]
        reached = self._lifted(t, after, level, level)[np.arange(len(level)), level]
        best = np.full(len(states), -math.inf)
        np.maximum.at(best, row, reached + setting.bonus[t, action])
        return rounded_up(setting.reward(states) + best)

    def _algorithm_1(self, anchors: FloatArray) -> None:
        setting = self._setting
        here = self._model.reward(anchors)
        values = np.repeat(self._model.last(anchors)[None], len(self._levels.first), axis=0)
        self._values[-1] = _in_blocks(values)
        for t in reversed(range(setting.horizon - 1)):
            for start in range(0, len(anchors), CHUNK):
                if clock() > self._deadline:  # nothing is known of this step and those before it
                    return
                rows = slice(start, start + CHUNK)
                best = self._best_step(t, anchors[rows])
                above = rounded_up(here[rows] + best)
                values[:, rows] = np.where(np.isfinite(above), above, math.inf)
            self._values[t] = _in_blocks(values)

    def _best_step(self, t: int, anchors: FloatArray) -> FloatArray:
        """(levels, n) the best of all steps from anchors (n, D), by what can be paid before it."""
        setting, n, left = self._setting, len(anchors), self._levels.last
        costs = setting.costs_at(t)
        actions = np.flatnonzero(setting.allowed[t] & (costs <= left[-1]))
        after = self._model.replay.children(t, anchors)[:, actions].reshape(n * len(actions), -1)
        last = np.tile(self._levels.of(left[-1] - costs[actions]), n)
        reached = self._lifted(t, after, np.zeros_like(last), last)
        reached = reached.reshape(n, len(actions), len(left))
        best = np.full((len(left), n), -math.inf)
        for i, cost in enumerate(costs[actions]):
            affordable = np.flatnonzero(left >= cost)
            afterwards = self._levels.of(left[affordable] - cost)
            found = reached[:, i, afterwards].T + setting.bonus[t, actions[i]]
            best[affordable] = np.maximum(best[affordable], found)
        return best

    def _lifted(self, t: int, after: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
        """(n, levels) the anchors' values at t + 1, lifted to the states `after` (n, D)."""
        moving = np.ascontiguousarray(after[:, self._setting.fixed :])
        steepness = float(self._constants[t + 1]) * (1.0 + OUTWARD)
        found, values = (
            np.full((len(after), len(self._levels.first)), math.inf),
            self._values[t + 1],
        )
        if not (math.isfinite(steepness) and values.size):
            return found
        size = max(WORK // self._coordinates.size, 1)
        for start in range(0, len(after), size):
            if clock() > self._deadline:  # the others stay unbounded
                break
            rows = slice(start, start + size)
            given = moving[rows], first[rows], last[rows]
            found[rows] = lowest_cones(*given, self._coordinates, values, steepness)
        return found


def _in_blocks(table: FloatArray) -> FloatArray:
    """(blocks, m, BLOCK) a copy of (m, A)."""
    blocks = table.reshape(len(table), -1, BLOCK)
    return np.swapaxes(blocks, 0, 1).copy()


@dataclass(frozen=True, eq=False)
class AnchorHeuristic:
    """The paper's bound: Algorithm 1 and Eq. 11 on a set of anchors.

    strategy    'mc-lipschitz', 'mc-uniform' or 'facility-location'
    samples     how many alternatives are drawn (M); with facility location also the number of
                anchors, if `size` does not say otherwise
    seed        of the draws
    size        the number of anchors: alternatives are drawn until there are so many
    population  (n, D) states of the data that facility location chooses from; without any it
                chooses from those of random alternatives
    """

    strategy: str = "mc-lipschitz"
    samples: int = 2000
    seed: Seed = 0
    size: int | None = None
    population: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise InputError(
                f"unknown anchor strategy {self.strategy!r}: use one of {', '.join(STRATEGIES)}"
            )
        whole_number(self.samples, "samples", minimum=1)
        if self.size is not None:
            whole_number(self.size, "size", minimum=1)
        if self.population is not None and self.strategy != "facility-location":
            raise InputError(f"population is for facility-location, not for {self.strategy}")
        if self.population is not None:
            try:
                dimensions = np.ndim(self.population)
            except ValueError:  # rows of different lengths
                dimensions = 0
            if dimensions != 2:
                raise InputError(
                    "population must be a table of states, (n, D): one row for each state"
                )

    def refuses(self, setting: SequenceSetting) -> str | None:
        if len(setting.members) > 1:
            return "anchors are for one model: pass risk=None, or leave the solver out"
        if setting.members[0].step_constants is not None:
            return None
        name = type(setting.members[0].scm).__name__
        return (
            f"anchors need Lipschitz constants, which {name} does not state: "
            "pass lipschitz=..., or search without a bound, solver=AStar(NoBound())"
        )

    def prepare(self, setting: SequenceSetting, deadline: float = math.inf) -> UpperBound:
        """The bound of one problem, unbounded at steps that Algorithm 1 does not reach in time."""
        anchors = self.anchors(setting, deadline)
        return AnchorBound(setting, anchors, self.strategy, deadline)

    def anchors(self, setting: SequenceSetting, deadline: float = math.inf) -> FloatArray:
        """(A, D) the anchors of one problem, in the model's own units, as far as there is time."""
        rng, weights = generator(self.seed), np.ones(setting.horizon - 1)
        if self.strategy == "facility-location":
            return self._spread_out(setting, weights, rng, deadline)
        if self.strategy == "mc-lipschitz":
            weights = value_constants(setting)[:-1]
        # The observed states and all distinct ones of random alternatives.
        drawn = random_alternatives(setting, weights, self.samples, rng)
        found, idle = distinct_states(setting, drawn, deadline), 0
        if self.size is None:
            return found
        while len(found) < self.size and idle < PATIENCE and clock() < deadline:
            more = random_alternatives(setting, weights, self.samples, rng)
            drawn = np.unique(np.concatenate([drawn, more]), axis=0)
            before, found = len(found), distinct_states(setting, drawn, deadline)
            idle = idle + 1 if len(found) == before else 0
        # Any of them, but the observed states, which come first, for certain.
        kept = rng.permutation(np.arange(setting.horizon, len(found)))
        order = np.concatenate([np.arange(setting.horizon), kept])
        return np.asarray(found[order[: self.size]])

    def _spread_out(
        self,
        setting: SequenceSetting,
        weights: FloatArray,
        rng: np.random.Generator,
        deadline: float,
    ) -> FloatArray:
        if self.population is None:
            drawn = random_alternatives(setting, weights, self.samples, rng)
            states = distinct_states(setting, drawn, deadline)
        else:
            states = _comparable(setting, feature_table(self.population, "population"))
        count = min(self.samples if self.size is None else self.size, len(states))
        start = int(rng.integers(len(states)))
        moving = states[:, setting.fixed :]
        return np.asarray(states[farthest_points(moving, start, count, deadline)])


def random_alternatives(
    setting: SequenceSetting, weights: FloatArray, count: int, rng: np.random.Generator
) -> IntArray:
    """(count, T-1) sequences: 1..k steps, drawn without replacement by their weights, are set to
    any of the actions allowed there, as far as the budget lasts."""
    result = np.repeat(setting.observed[None], count, axis=0)
    options = setting.allowed.sum(axis=1)
    free = np.flatnonzero((options > 1) & (weights > 0.0))
    most = min(setting.k, len(free))
    if most == 0:
        return result
    changes = rng.integers(1, most + 1, size=count)
    # The first of exponential races with these rates are a draw without replacement.
    arrival = rng.exponential(size=(count, len(free))) / weights[free]
    place = arrival.argsort(axis=1).argsort(axis=1)
    choice = (rng.random((count, len(free))) * options[free]).astype(np.int64)
    listed = np.argsort(~setting.allowed, axis=1, kind="stable")
    wanted = listed[free[None, :], choice]
    result[:, free] = np.where(place < changes[:, None], wanted, result[:, free])
    left = np.full(count, setting.k)
    for t, observed in enumerate(setting.observed):
        price = setting.costs_at(t)[result[:, t]]
        result[:, t] = np.where(price <= left, result[:, t], observed)
        left -= np.where(price <= left, price, 0)
    return result


def distinct_states(
    setting: SequenceSetting, sequences: IntArray, deadline: float = math.inf
) -> FloatArray:
    """The observed states, then each other state that the sequences (n, T-1) pass, once; of those
    sequences that there is time to follow."""
    model = setting.members[0]
    found, parts = [model.states], [np.empty((0, *model.states.shape))]
    size = len(sequences) if deadline == math.inf else FOLLOWED
    for start in range(0, len(sequences), size):
        if clock() < deadline:
            parts.append(model.trajectories(sequences[start : start + size]))
    paths = np.concatenate(parts)
    sequences = sequences[: len(paths)]
    same, rank = np.ones(len(sequences), np.bool_), np.zeros(len(sequences), np.int64)
    for t in range(1, setting.horizon):
        # A state is known by the actions that lead to it, which are ranked as one number.
        same &= sequences[:, t - 1] == setting.observed[t - 1]
        ranks = rank * setting.n_actions + sequences[:, t - 1]
        _, first, rank = np.unique(ranks, return_index=True, return_inverse=True)
        found.append(paths[first[~same[first]], t])
    return np.concatenate(found)


def _comparable(setting: SequenceSetting, population: FloatArray) -> FloatArray:
    """States of the data in the model's units, with the fixed features of this episode: no state
    that it can reach has others."""
    model, width = setting.members[0], setting.states.shape[2]
    if population.shape[1] != width:
        raise InputError(f"population has {population.shape[1]} features, states have {width}")
    states = population if model.scaling is None else model.scaling.encode_states(population)
    states[:, : setting.fixed] = model.states[0, : setting.fixed]
    return np.unique(states, axis=0)
