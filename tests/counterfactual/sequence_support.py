"""What tests of the continuous search share: true values by trying everything, bounds that a
function states, the sepsis episodes, and the partition problem."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import LipschitzReward, SequenceExplanation
from counterplan.counterfactual.continuous.astar import UpperBound
from counterplan.counterfactual.continuous.setting import SequenceSetting
from counterplan.scm import PointSCM
from counterplan.scm.point import BatchReplay, IntervalSlopes, Region
from counterplan.testing.continuous import MODELS, random_sequence_problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
REPOSITORY = Path(__file__).resolve().parents[2]


def random_question(kind: str, seed: int, **size: int) -> Problem:
    """A random problem about a model of one kind."""
    rng = np.random.default_rng([seed, *kind.encode()])
    return random_sequence_problem(MODELS[kind](rng), rng, **size)


def explain(problem: Problem, k: int | None = None, **options: Any) -> SequenceExplanation:
    """The answer to a problem, through the front door."""
    budget = problem.k if k is None else k
    found = cp.explain(problem.scm, problem.episode, budget, **{**asked_of(problem), **options})
    assert isinstance(found, SequenceExplanation)
    return found


def frontier(problem: Problem, k: int, **options: Any) -> Any:
    return cp.frontier(problem.scm, problem.episode, k, **{**asked_of(problem), **options})


def asked_of(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in ("actions", "reward", "constraints")}


# --- True values ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """All nodes of one step: their parents in the step before, what the action to them earned, and
    the rewards from here on."""

    states: Floats
    used: Ints
    parent: Ints
    earned: Floats
    value: Floats


class TrueValues:
    """The value of every node of the tree of sequences, by following them all with the model's own
    `step`, in the model's own units."""

    def __init__(self, setting: SequenceSetting) -> None:
        self.setting, self.model = setting, setting.members[0]
        self._replay = BatchReplay(self.model.scm, self.model.vectors, self.model.noise)
        self.levels: list[_Level] = []
        states, used = self.model.states[:1], np.zeros(1, dtype=np.int64)
        parent, earned = np.zeros(1, dtype=np.int64), np.zeros(1)
        for t in range(setting.horizon):
            self.levels.append(_Level(states, used, parent, earned, np.full(len(used), -np.inf)))
            if t < setting.horizon - 1:
                states, used, parent, earned = self._children(t, states, used)
        self._go_back()

    def _children(self, t: int, states: Floats, used: Ints) -> tuple[Floats, Ints, Ints, Floats]:
        setting = self.setting
        made = []
        for action in range(setting.n_actions):
            price = 0 if action == setting.observed[t] else int(setting.costs[action])
            rows = np.flatnonzero(used + price <= setting.k)
            if not setting.allowed[t, action] or not len(rows):
                continue
            earned = np.full(len(rows), setting.bonus[t, action])
            made.append((self._follow(t, states[rows], action), used[rows] + price, rows, earned))
        return tuple(np.concatenate(parts) for parts in zip(*made, strict=True))  # type: ignore[return-value]

    def _follow(self, t: int, states: Floats, action: int) -> Floats:
        # A thousand at a time stay in the cache.
        parts = np.array_split(states, 1 + len(states) // 1000)
        follow = self._replay.follow
        return np.concatenate([follow(t, part, np.full(len(part), action)) for part in parts])

    def _go_back(self) -> None:
        for t in reversed(range(len(self.levels))):
            level = self.levels[t]
            if t == len(self.levels) - 1:
                level.value[:] = 0.0
            else:
                after = self.levels[t + 1]
                np.maximum.at(level.value, after.parent, after.value + after.earned)
            is_last = t == len(self.levels) - 1
            reward = self.model.last if is_last else self.model.reward
            level.value[:] += reward(level.states)

    @property
    def best(self) -> float:
        return float(self.levels[0].value[0])

    def excess(self, bound: Any) -> Floats:
        """How far a bound is above the value on every node there is, not only where a search looks;
        of very many some."""
        found = []
        for t, level in enumerate(self.levels):
            rows = slice(None, None, 1 + len(level.used) // 20_000)
            upper = bound.upper(t, level.used[rows], level.states[rows, None])
            found.append(upper - level.value[rows])
        return np.concatenate(found)

    def check(self, bound: Any) -> None:
        """A bound holds."""
        assert (self.excess(bound) >= -1e-13).all()

    def check_regions(self, regions: Any) -> Iterator[tuple[int, int, Any, Floats]]:
        """Balls and boxes by (step, least amount of a level) hold every state; tells how far these
        are away."""
        levels = self.setting.levels
        for t, level in enumerate(self.levels):
            for spent in np.unique(levels.of(level.used)):
                region = regions[t, int(levels.first[spent])]
                away = np.abs(level.states[levels.of(level.used) == spent] - region.centre)
                assert (away <= region.box + 1e-13).all()
                assert (np.linalg.norm(away, axis=1) <= region.radius + 1e-13).all()
                yield t, int(spent), region, away


class Stated:
    """A bound that a function states: of the setting, t, used and states."""

    name = "stated"

    def __init__(self, function: Any, setting: Any = None) -> None:
        self._function, self._setting = function, setting

    def refuses(self, setting: SequenceSetting) -> str | None:
        return None

    def prepare(self, setting: SequenceSetting, deadline: float = np.inf) -> UpperBound:
        return Stated(self._function, setting)

    restricted = prepare

    def upper(self, t: int, used: Ints, states: Floats) -> Floats:
        return np.asarray(self._function(self._setting, t, used, states))


# --- The sepsis episodes ----------------------------------------------------------------------


def shared_data() -> Path:
    """Where the real model and the simulated episodes are; skips where they are not."""
    given = os.environ.get("COUNTERPLAN_SHARED")
    shared = Path(given) if given else REPOSITORY.parent / "shared"
    folder = shared / "data" / "sepsis_scm"
    if not (folder / "sepsis_scm.npz").is_file():
        pytest.skip("needs the sepsis model, which is not part of this repository")
    return folder


@cache
def sepsis_model() -> cp.NeuralSCM:
    weights = np.load(shared_data() / "sepsis_scm.npz")

    def network(prefix: str) -> dict[str, Any]:
        names = {"state": "W_s", "bias": "b_s", "action": "W_a", "output": "W_z"}
        found: dict[str, Any] = {key: weights[f"{prefix}_{name}"] for key, name in names.items()}
        found["output_bias"] = weights[f"{prefix}_b_z"]
        return {**found, "multiplier": float(weights[f"{prefix}_mult"])}

    return cp.NeuralSCM.from_weights(
        network("loc"), network("scale"), weights["noise_chol_L"], fixed=3
    )


def sepsis_problem(group: str, row: int, k: int) -> Problem:
    """One of the simulated patients; ventilation is replayed, 25 doses may be chosen."""
    data = np.load(shared_data() / "episodes.npz")
    states = data[f"states_{group}"][row].astype(np.float64)
    levels = data[f"levels_{group}"][row]
    doses = np.array([[v / 4 - 0.5, iv / 4 - 0.5] for v in range(5) for iv in range(5)])
    vectors = np.stack([np.c_[doses, np.full(25, vent - 0.5)] for vent in levels[:, 2]])
    weights = np.zeros(12)
    weights[-1] = -1.0
    return Problem(
        sepsis_model(),
        cp.Episode(states, 5 * levels[:, 0] + levels[:, 1]),
        k,
        actions=vectors,
        reward=cp.LinearReward(weights),
    )


# --- The partition problem --------------------------------------------------------------------


class PartitionSCM(PointSCM):
    """The dynamics of Eq. 12: the action 1 ('diff') takes the second feature off the first, the
    action 0 ('null') does not; the noise brings the next number."""

    def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
        return after - self._carried(states, actions)

    def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        return self._carried(states, actions) + noise

    def _carried(self, states: Floats, actions: Floats) -> Floats:
        first = states[:, 0] - actions[:, 0] * states[:, 1]
        return np.column_stack([first, np.zeros(len(states))])

    def lipschitz(self, noise: Floats) -> Floats:
        return np.full(len(noise), np.sqrt(2.0) * (1.0 + 1e-12))


class SlopedPartitionSCM(PartitionSCM):
    """The same, telling its slopes: it is linear for each action."""

    def slopes(self, region: Region, actions: Floats, noise: Floats) -> IntervalSlopes:
        jacobian = np.zeros((len(actions), 2, 2))
        jacobian[:, 0, 0] = 1.0
        jacobian[:, 0, 1] = -actions[:, 0]
        return IntervalSlopes(jacobian, np.zeros_like(jacobian))


def partition_problem(numbers: list[int], sloped: bool = False) -> Problem:
    """Theorem 4: the optimum is 0 if the numbers fall into two sets of the same sum, else less.

    The paper states the reward's constant as 2 sqrt(1 + sum / 2); the gradients have norms
    sqrt(1 + (sum / 2)^2) and, where both terms count, sum.
    """
    half, T = sum(numbers) / 2.0, len(numbers) + 1

    def reward(states: Floats) -> Floats:
        first, slack = states[:, 0], states[:, 1] * half
        over = np.maximum(0.0, first - half - slack)
        return -over - np.maximum(0.0, half - first - slack)

    states = np.zeros((T, 2))
    states[1:, 0] = np.cumsum(numbers)
    states[:-1, 1] = numbers
    constant = max(np.hypot(1.0, half), 2.0 * half) * (1.0 + 1e-12)
    return Problem(
        SlopedPartitionSCM() if sloped else PartitionSCM(),
        cp.Episode(states, np.zeros(T - 1, dtype=np.int64)),
        T,
        actions=np.array([[0.0], [1.0]]),
        reward=LipschitzReward(reward, float(constant)),
    )


def has_partition(numbers: list[int]) -> bool:
    sums = {0}
    for number in numbers:
        sums |= {total + number for total in sums}
    return 2 * (sum(numbers) // 2) == sum(numbers) and sum(numbers) // 2 in sums
