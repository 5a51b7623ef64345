"""Brute force, for small problems: what every exact solver is compared with.

Plain Python over whole histories, sharing no code with the solvers but the model itself. A `World`
says what may be done at a node (step, state, budget left), what it earns and where it leads; the
best of every history is one recursion,

    V(t, s, c) = max_a  r_t(s, a) + sum_s' P_t(s' | s, a) V(t + 1, s', c - price_t(a))

    continuous  by the model's own `infer` and `step` in the units of the episode
    executed    every sequence of the actions that the model offers; of a resource program without
                spilling every choice of at most k steps, for each the linear program in which all
                others keep what they spent

Costs grow exponentially with the length of the episode; only `Exhaustive`, the batched brute force
of continuous problems, is meant to be fast.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.reward import EpisodeReward, Reward
from counterplan.core.shown import module_tells
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.astar import AStar, Heuristic, NoBound
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.laws import DiscreteSCM
from counterplan.counterfactual.support import NEIGHBOURS
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.planning.hindsight import IsResourceProgram
from counterplan.planning.model import ExogenousModel, MakesFeasible, State
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.point import PointSCM, action_indices, action_vectors
from counterplan.scm.tabular import TabularMDP

# A place in a counterfactual episode: step, state, budget left.
Node = tuple[int, Any, int]


class Best(NamedTuple):
    """The best value and, where nothing is left to chance, the actions behind it."""

    value: float
    actions: Any


class World(ABC):
    """One problem, written as directly as possible."""

    decisions: int

    @abstractmethod
    def options(self, node: Node) -> Iterable[Any]:
        """Actions that may be taken, the observed one first."""

    @abstractmethod
    def price(self, t: int, action: Any) -> int:
        """What taking an action at step t costs."""

    @abstractmethod
    def step(self, t: int, state: Any, action: Any) -> tuple[float, list[tuple[float, Any]]]:
        """What an action earns, and the states that follow with their probabilities."""

    def end(self, state: Any) -> float:
        """What the state after the last decision is worth."""
        return 0.0

    def worth(self, node: Node, action: Any, value: Callable[[Node], float]) -> float:
        """Reward of an action and the expected value of what follows."""
        t, state, left = node
        total, following = self.step(t, state, action)
        if total > -math.inf:
            left -= self.price(t, action)
            total += sum(chance * value((t + 1, after, left)) for chance, after in following)
        return total

    def best(self, node: Node) -> Best:
        """The most that can be earned from a node on, nothing remembered."""
        if node[0] == self.decisions:
            return Best(self.end(node[1]), ())
        best = Best(-math.inf, ())
        for action in self.options(node):
            rest: list[Best] = []

            def value(after: Node, rest: list[Best] = rest) -> float:
                rest.append(self.best(after))
                return rest[-1].value

            try:
                worth = self.worth(node, action, value)
            except InfeasibleError:
                continue
            if worth > best.value:
                best = Best(worth, (action, *(rest[-1].actions if rest else ())))
        return best


# --- Continuous states ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Everything(NoBound):
    name: str = "exhaustive"


@dataclass(frozen=True)
class Exhaustive(AStar):
    """Tries every sequence, many at a time and depth first: a search without a bound. Exact for any
    model, and slow."""

    heuristic: Heuristic = _Everything()
    batch: int = 1024
    incumbent: bool = False

    def refuses(self, problem: Problem) -> str | None:
        if isinstance(problem.scm, PointSCM):
            return super().refuses(problem)
        return "Exhaustive tries sequences: a discrete problem asks for a policy, use BudgetDP()"


class SequenceWorld(World):
    """A continuous problem."""

    def __init__(self, problem: Problem) -> None:
        given = problem.reward
        assert given is not None
        self.scm = problem.scm.admitting(problem.episode.states)
        self.reward = given if isinstance(given, EpisodeReward) else EpisodeReward(given)
        self.states = problem.episode.states
        self.decisions = len(problem.episode) - 1
        self.vectors = action_vectors(np.asarray(problem.actions, np.float64), self.decisions)
        self.observed = [int(a) for a in action_indices(problem.episode, self.vectors)]
        taken = np.array([self.vectors[t][a] for t, a in enumerate(self.observed)])
        taken = taken.reshape(self.decisions, self.vectors.shape[2])
        self.noise = self.scm.infer(self.states[:-1], taken, self.states[1:])
        self.bonus = self.reward.of_actions(*self.vectors.shape[:2])
        self.rules = problem.constraints.resolve_sequence(
            self.vectors, np.array(self.observed, dtype=np.int64)
        )
        self.k, seen = problem.k, getattr(self.scm, "seen", None)
        self.least = problem.constraints.least(seen is not None and seen.typical < math.inf)

    def price(self, t: int, action: int) -> int:
        return 0 if action == self.observed[t] else int(self.rules.costs[action])

    def options(self, node: Node) -> Iterator[int]:
        t, state, left = node
        if left == self.k or self._may_follow(t, state, self.observed[t]):
            yield self.observed[t]
        for action in range(self.vectors.shape[1]):
            may = self.rules.alternatives[t, action] and self.price(t, action) <= left
            may = may and action != self.observed[t] and self._was_taken(t, state, action)
            if may and self._may_follow(t, state, action):
                yield action

    def _may_follow(self, t: int, state: FloatArray, action: int) -> bool:
        after = self.step(t, state, action)[1][0][1]
        return not self.least or min(self._apart(after)) <= self.scm.seen.far

    def _was_taken(self, t: int, state: FloatArray, action: int) -> bool:
        """Whether enough of the nearest transitions did the same, and one is near."""
        if not self.least:
            return True
        apart, options = self._apart(state), self.vectors[t]
        if self.scm.scaling is not None:
            options = self.scm.scaling.encode_actions(options)
        gaps = [np.diff(np.unique(one)).min(initial=np.inf) / 2 for one in options.T]
        nearest = self.scm.seen.actions[np.argsort(apart)[:NEIGHBOURS]]
        same = [(abs(one - options[action]) <= gaps).all() for one in nearest]
        return sum(same) >= self.least and bool(min(apart) <= self.scm.seen.far)

    def _apart(self, state: FloatArray) -> list[float]:
        """How far each state of the data is away."""
        own = (
            state[None] if self.scm.scaling is None else self.scm.scaling.encode_states(state[None])
        )
        return [math.dist(own[0], one) for one in self.scm.seen.states.tolist()]

    def step(self, t: int, state: FloatArray, action: int) -> tuple[float, list[tuple[float, Any]]]:
        one = state[None], self.vectors[t, action][None], self.noise[t][None]
        earned = float(self.reward.state(state[None])[0]) + float(self.bonus[t, action])
        return earned, [(1.0, np.asarray(self.scm.step(*one)[0]))]

    def end(self, state: FloatArray) -> float:
        return float(self.reward.last(state[None])[0])

    def value_of(self, sequence: ArrayLike) -> float:
        """What one sequence (T-1,) of actions earns."""
        state, total = self.states[0], 0.0
        for t, action in enumerate(np.asarray(sequence)):
            earned, ((_, state),) = self.step(t, state, int(action))
            total += earned
        return total + self.end(state)


def best_sequence(
    scm: PointSCM,
    episode: Episode,
    k: int,
    *,
    actions: ArrayLike,
    reward: Reward | EpisodeReward,
    constraints: Constraints | None = None,
) -> Best:
    """The best sequence by following every one that the budget and the constraints allow."""
    rules = constraints or Constraints()
    world = SequenceWorld(Problem(scm, episode, k, rules, actions=actions, reward=reward))
    return world.best((0, world.states[0], k))


# --- Executed plans ---------------------------------------------------------------------------


class _ExecutedWorld(World):
    """A path (T, X), the decisions along it (T, A), and what may change about them."""

    def __init__(
        self, problem: ExogenousModel, path: FloatArray, actions: FloatArray, rules: Constraints
    ) -> None:
        self.problem, self.path, self.actions = problem, path, actions
        self.decisions = len(path)
        self.sign = 1.0 if problem.sense == "max" else -1.0
        fixed = {int(step) % len(path) for step in rules.fixed_steps}
        self.movable = [t for t in range(len(path)) if t not in fixed]
        limit = np.inf if rules.max_move is None else rules.max_move
        # (A,) how far an amount may move
        self.reach = np.broadcast_to(limit, actions.shape[1:])

    def price(self, t: int, action: FloatArray) -> int:
        return 0 if np.array_equal(action, self.actions[t]) else 1

    def options(self, node: Node) -> Iterator[FloatArray]:
        t, levels, left = node
        executed, may_change = self.actions[t], left > 0 and t in self.movable
        # What was on offer then must be so now; what else is impossible, the step refuses.
        is_free = isinstance(self.problem, MakesFeasible) or not self._was_offered[t]
        offered = self._offered(t, levels) if may_change or not is_free else executed[None]
        if is_free or _holds(offered, executed):
            yield executed
        if may_change:
            yield from offered[(np.abs(offered - executed) <= self.reach + 1e-9).all(axis=1)]

    def step(self, t: int, state: FloatArray, action: FloatArray) -> Any:
        given = (one[None].copy() for one in (self.path[t], state, action))
        reward, after = self.problem.step(t, *given)
        return self.sign * float(reward[0]), [(1.0, np.asarray(after[0]))]

    def _offered(self, t: int, levels: FloatArray) -> FloatArray:
        return np.asarray(
            self.problem.actions(State(t, self.path[t].copy(), levels.copy())), np.float64
        )

    @cached_property
    def _was_offered(self) -> list[bool]:
        """Whether each executed action was on offer when it was taken."""
        found, levels = [], self.problem.start.resource
        for t, action in enumerate(self.actions):
            found.append(_holds(self._offered(t, levels), action))
            levels = self.step(t, levels, action)[1][0][1]
        return found


def _holds(offered: FloatArray, action: FloatArray) -> bool:
    close = np.abs(offered - action) <= 1e-9 * (1.0 + np.abs(action))
    return bool(close.all(axis=1).any())


def best_allocation(
    problem: ExogenousModel,
    path: ArrayLike,
    actions: ArrayLike,
    k: int,
    constraints: Constraints | None = None,
) -> Best:
    """The best decisions (T, A) along a path (T, X) from the start, of which at most k differ from
    those that were executed, (T, A); the value is a cost where the problem counts costs."""
    exogenous, executed = np.asarray(path, np.float64), np.asarray(actions, np.float64)
    world = _ExecutedWorld(problem, exogenous, executed, constraints or Constraints())
    if isinstance(problem, IsResourceProgram):
        found = _best_steps(world, problem, k)
    else:
        found = world.best((0, problem.start.resource, k))
    return Best(world.sign * found.value, np.array(found.actions))


def _best_steps(world: _ExecutedWorld, stated: IsResourceProgram, k: int) -> Best:
    if any(one.spill for one in stated.program.resources):
        raise NotApplicableError("with spilling, what may be spent is no polytope: nothing to try")
    rewards, best = stated.unit_rewards(0, world.path[None])[0], Best(-math.inf, world.actions)
    for count in range(min(k, len(world.movable)) + 1):
        for steps in itertools.combinations(world.movable, count):
            found = _with_others_kept(world, stated, rewards, steps)
            if found is not None and (rewards * found).sum() > best.value:
                best = Best(float((rewards * found).sum()), found)
    return best


def _with_others_kept(
    world: _ExecutedWorld, stated: IsResourceProgram, rewards: FloatArray, steps: tuple[int, ...]
) -> FloatArray | None:
    """(T, A) the best decisions that differ at these steps alone; None where none is possible."""
    from scipy.optimize import linprog

    program, (T, A) = stated.program, rewards.shape
    so_far = np.tril(np.ones((T, T)))
    least, most = program.step_bounds.T
    # Rows of (what is bounded, from, to): every step, the total, and levels before and after flows.
    blocks: list[tuple[Any, Any, Any]] = [
        (np.kron(np.eye(T), np.ones((1, A))), least, most),
        (np.ones((1, T * A)), *program.budget),
    ]
    for i, one in enumerate(program.resources):
        moved = np.kron(so_far, one.effect * np.eye(A)[i])
        there = one.start + np.cumsum(program.changes[:, i])
        for level in (there - program.changes[:, i], there):
            blocks.append((moved, -level, one.capacity - level))
    rows = np.concatenate([part for row, _, _ in blocks for part in (row, -row)])
    upper = np.concatenate(
        [np.full(len(row), end) for row, low, high in blocks for end in (high, -1.0 * low)]
    )
    upper += 1e-12
    low, high, changed = world.actions.copy(), world.actions.copy(), list(steps)
    low[changed] = np.maximum(low[changed] - world.reach, 0.0)
    high[changed] += world.reach
    solved = linprog(
        -rewards.ravel() / (float(np.abs(rewards).max()) or 1.0),
        rows[np.isfinite(upper)],
        upper[np.isfinite(upper)],
        bounds=list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True)),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return solved.x.reshape(T, A) if solved.status == 0 and solved.x is not None else None


# --- Discrete states --------------------------------------------------------------------------


class PolicyWorld(World):
    """A discrete problem."""

    def __init__(
        self, scm: DiscreteSCM | TabularMDP, episode: Episode, rules: Constraints | None
    ) -> None:
        self.scm: DiscreteSCM = GumbelMaxSCM(scm) if isinstance(scm, TabularMDP) else scm
        self.mdp, self.episode, self.decisions = self.scm.mdp, episode, len(episode)
        shape = len(episode), self.mdp.n_states, self.mdp.n_actions
        self.rules = (rules or Constraints()).by_number(self.mdp).resolve(*shape)
        self.least = (rules or Constraints()).least(self.mdp.visits is not None)

    def root(self, k: int) -> Node:
        return 0, int(self.episode.states[0]), k

    def price(self, t: int, action: int) -> int:
        return 0 if action == self.episode.actions[t] else int(self.rules.costs[action])

    def options(self, node: Node) -> Iterator[int]:
        t, state, left = node
        rules, observed, admissible = self.rules, int(self.episode.actions[t]), self.mdp.admissible
        visits = self.mdp.visits
        yield observed
        for action in range(self.mdp.n_actions):
            may = rules.alternatives[t, action] and not rules.forbidden[state, action]
            may = may and (admissible is None or admissible[state, action])
            may = may and (visits is None or visits[state, action] >= self.least)
            if action != observed and may and rules.costs[action] <= left:
                yield action

    def reward(self, t: int, state: int, action: int) -> float:
        if self.rules.forbidden[state, action]:
            return -math.inf
        return float(self.mdp.rewards_at(t, self.decisions)[state, action])

    def step(self, t: int, state: int, action: int) -> tuple[float, list[tuple[float, Any]]]:
        reward = self.reward(t, state, action)
        if t == self.decisions - 1 or reward == -math.inf:
            return reward, []
        states, actions = self.episode.states, self.episode.actions
        observed = (int(states[t]), int(actions[t]), int(states[t + 1]))
        row = self.scm.counterfactual_row(*observed, state, action)
        return reward, [(row[i], int(i)) for i in np.flatnonzero(row)]


def brute_force(
    scm: DiscreteSCM | TabularMDP, episode: Episode, k: int, constraints: Constraints | None = None
) -> float:
    """The optimal value by expanding the whole tree of histories, nothing remembered."""
    world = PolicyWorld(scm, episode, constraints)
    return world.best(world.root(k)).value


def policy_value(scm: DiscreteSCM | TabularMDP, explanation: PolicyExplanation) -> float:
    """What an explanation's policy earns, by following it through every history."""
    k = explanation.process.setting.k
    world = PolicyWorld(scm, explanation.episode, hard_rules(explanation))

    def value(node: Node) -> float:
        t, state, left = node
        weights = explanation.action_probabilities(t, state, k - left)
        return sum(
            float(weights[action]) * world.worth(node, int(action), value)
            for action in np.flatnonzero(weights)
        )

    return value(world.root(k))


def hard_rules(explanation: PolicyExplanation) -> Constraints:
    """What binds a policy that is already chosen: pairs it may not meet and what changes cost."""
    rules = explanation.process.setting.constraints
    return Constraints(forbidden=rules.forbidden, change_costs=rules.costs)


module_tells(globals())
