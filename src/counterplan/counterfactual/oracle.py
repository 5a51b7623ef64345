"""Brute force, for small problems: what every exact solver is compared with.

Plain Python over whole histories, sharing no code with the solvers but the model itself. Costs grow
exponentially with the length of the episode; only `Exhaustive`, the batched brute force of
continuous problems, is meant to be fast.

    discrete    the tree of histories, and every deterministic policy one after another; the range
                over causal models by every vertex of the set of counterfactual rows
    continuous  every sequence with at most k changes, by the model's own `infer` and `step` in the
                units of the episode
    executed    every choice of at most k steps of a resource program without spilling, for each the
                linear program in which all others keep what they spent; elsewhere every sequence of
                the actions that the model offers
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.constraints import Constraints, ResolvedConstraints
from counterplan.core.episode import Episode
from counterplan.core.result import Interval
from counterplan.core.reward import Reward
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.exhaustive import Exhaustive as Exhaustive
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.laws import DiscreteSCM
from counterplan.counterfactual.executed.setting import stated_program
from counterplan.errors import InfeasibleError, NotApplicableError
from counterplan.planning.hindsight import IsResourceProgram
from counterplan.planning.model import ExogenousModel, MakesFeasible, State
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.point import PointSCM, action_indices, action_vectors
from counterplan.scm.tabular import TabularMDP

# Policies that are tried one after another.
LARGEST_ENUMERATION = 1_000_000

# A place in a counterfactual episode: step, state, budget left.
Node = tuple[int, int, int]


class BestSequence(NamedTuple):
    """The outcome of the best sequence, and its actions."""

    value: float
    actions: tuple[int, ...]


class SequenceWorld:
    """One problem, written as directly as possible."""

    def __init__(
        self,
        scm: PointSCM,
        episode: Episode,
        actions: ArrayLike,
        reward: Reward,
        constraints: Constraints | None = None,
    ) -> None:
        self.scm, self.reward = scm, reward
        self.states = episode.states
        self.decisions = len(episode) - 1
        self.vectors = action_vectors(np.asarray(actions, dtype=np.float64), self.decisions)
        self.observed = [int(a) for a in action_indices(episode, self.vectors)]
        taken = np.array([self.vectors[t][a] for t, a in enumerate(self.observed)])
        taken = taken.reshape(self.decisions, self.vectors.shape[2])
        self.noise = scm.infer(self.states[:-1], taken, self.states[1:])
        self.rules: ResolvedConstraints = (constraints or Constraints()).resolve_sequence(
            self.vectors, np.array(self.observed, dtype=np.int64)
        )

    def price(self, t: int, action: int) -> int:
        """What taking an action at step t costs."""
        return 0 if action == self.observed[t] else int(self.rules.costs[action])

    def options(self, t: int, left: int) -> list[int]:
        """Actions that may be taken, the observed one first."""
        found = [self.observed[t]]
        for action in range(self.vectors.shape[1]):
            affordable = self.price(t, action) <= left
            if action != self.observed[t] and self.rules.alternatives[t, action] and affordable:
                found.append(action)
        return found

    def after(self, t: int, state: FloatArray, action: int) -> FloatArray:
        """Where an action leads."""
        one = state[None], self.vectors[t, action][None], self.noise[t][None]
        return np.asarray(self.scm.step(*one)[0])

    def best_from(self, t: int, state: FloatArray, left: int) -> BestSequence:
        """The most that can be earned from a state on, with `left` of the budget."""
        here = float(self.reward(state[None])[0])
        if t == self.decisions:
            return BestSequence(here, ())
        best = BestSequence(-math.inf, ())
        for action in self.options(t, left):
            rest = self.best_from(t + 1, self.after(t, state, action), left - self.price(t, action))
            if here + rest.value > best.value:
                best = BestSequence(here + rest.value, (action, *rest.actions))
        return best

    def value_of(self, sequence: ArrayLike) -> float:
        """What one sequence (T-1,) of actions earns."""
        state, total = self.states[0], 0.0
        for t, action in enumerate(np.asarray(sequence)):
            total += float(self.reward(state[None])[0])
            state = self.after(t, state, int(action))
        return total + float(self.reward(state[None])[0])


def best_sequence(
    scm: PointSCM,
    episode: Episode,
    k: int,
    *,
    actions: ArrayLike,
    reward: Reward,
    constraints: Constraints | None = None,
) -> BestSequence:
    """The best sequence by following every one that the budget and the constraints allow."""
    world = SequenceWorld(scm, episode, actions, reward, constraints)
    return world.best_from(0, world.states[0], k)


def sequence_value(
    scm: PointSCM,
    episode: Episode,
    sequence: ArrayLike,
    *,
    actions: ArrayLike,
    reward: Reward,
) -> float:
    """What one sequence (T-1,) of actions earns."""
    return SequenceWorld(scm, episode, actions, reward).value_of(sequence)


class BestAllocation(NamedTuple):
    """The best total, a cost where the problem counts costs, and the decisions (T, A) behind it."""

    value: float
    actions: FloatArray


@dataclass(frozen=True, eq=False)
class _Executed:
    """A path (T, X), the decisions along it (T, A), and what may change about them."""

    problem: ExogenousModel
    path: FloatArray
    actions: FloatArray
    constraints: Constraints

    def may_change(self, t: int) -> bool:
        fixed = {int(step) % len(self.path) for step in self.constraints.fixed_steps}
        return t not in fixed

    @property
    def reach(self) -> FloatArray:
        """(A,) how far an amount may move."""
        limit = self.constraints.max_move
        return np.broadcast_to(np.inf if limit is None else limit, self.actions.shape[1:])

    def may_keep(self, here: State) -> bool:
        """Whether what was executed can be kept, as far as offers tell: not if it was on offer
        then, and is not with another resource. What else is impossible, the step refuses."""
        if isinstance(self.problem, MakesFeasible) or not self._offers[here.t]:
            return True
        return _is_offered(self.problem, here, self.actions[here.t])

    @cached_property
    def _offers(self) -> list[bool]:
        """Whether each executed action was on offer when it was taken."""
        found, state = [], self.problem.start
        for t, (x, action) in enumerate(zip(self.path, self.actions, strict=True)):
            state = State(t, x, state.resource)
            found.append(_is_offered(self.problem, state, action))
            _, after = self.problem.step(t, x[None], state.resource[None], action[None])
            state = State(t + 1, x, np.asarray(after[0]))
        return found


def _is_offered(problem: ExogenousModel, state: State, action: FloatArray) -> bool:
    return any(np.allclose(one, action, 1e-9, 1e-9) for one in problem.actions(state))


def best_allocation(
    problem: ExogenousModel,
    path: ArrayLike,
    actions: ArrayLike,
    k: int,
    constraints: Constraints | None = None,
) -> BestAllocation:
    """The best decisions along a path (T, X) from the start, of which at most k differ from those
    that were executed, (T, A)."""
    exogenous, executed = np.asarray(path, np.float64), np.asarray(actions, np.float64)
    done = _Executed(problem, exogenous, executed, constraints or Constraints())
    stated = stated_program(problem)
    if stated is not None:
        return _best_steps(done, stated, k)
    sign = 1.0 if problem.sense == "max" else -1.0
    found = _best_from(done, problem.start, k)
    return BestAllocation(sign * found[0], np.array(found[1]))


def _best_steps(done: _Executed, stated: IsResourceProgram, k: int) -> BestAllocation:
    if any(one.spill for one in stated.program.resources):
        raise NotApplicableError("with spilling, what may be spent is no polytope: nothing to try")
    rewards = stated.unit_rewards(0, done.path[None])[0]
    movable = [t for t in range(len(done.path)) if done.may_change(t)]
    best, decisions = -math.inf, done.actions
    for count in range(min(k, len(movable)) + 1):
        for steps in itertools.combinations(movable, count):
            found = _with_others_kept(done, stated, rewards, steps)
            if found is not None and (rewards * found).sum() > best:
                best, decisions = float((rewards * found).sum()), found
    return BestAllocation(best if done.problem.sense == "max" else -best, decisions)


def _with_others_kept(
    done: _Executed, stated: IsResourceProgram, rewards: FloatArray, steps: tuple[int, ...]
) -> FloatArray | None:
    """(T, A) the best decisions that differ at these steps alone; None where none is possible."""
    from scipy.optimize import linprog

    program = stated.program
    T, A = rewards.shape
    rows: list[FloatArray] = []
    limits: list[float] = []

    def between(low: float, row: FloatArray, high: float) -> None:
        for sign, limit in ((1.0, high), (-1.0, -low)):
            if math.isfinite(limit):
                rows.append(sign * row.ravel())
                limits.append(limit + 1e-12)

    spent = np.zeros((T, A))
    for t in range(T):
        step = np.zeros((T, A))
        step[t] = 1.0
        spent[t] = 1.0
        between(program.step_bounds[t, 0], step, program.step_bounds[t, 1])
        for i, one in enumerate(program.resources):
            moved = np.zeros((T, A))
            moved[: t + 1, i] = one.effect
            for flown in (program.changes[:t, i].sum(), program.changes[: t + 1, i].sum()):
                there = one.start + flown
                between(-there, moved, one.capacity - there)
    between(program.budget[0], spent, program.budget[1])
    low, high = done.actions.copy(), done.actions.copy()
    for t in steps:
        low[t], high[t] = np.maximum(low[t] - done.reach, 0.0), high[t] + done.reach
    bounds = list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
    unit = float(np.abs(rewards).max()) or 1.0
    solved = linprog(
        -rewards.ravel() / unit,
        np.array(rows),
        np.array(limits),
        bounds=bounds,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return solved.x.reshape(T, A) if solved.status == 0 and solved.x is not None else None


def _best_from(done: _Executed, state: State, left: int) -> tuple[float, list[FloatArray]]:
    """The most that the rest can bring, to be maximised, and the decisions; -inf if nothing can."""
    problem, t = done.problem, state.t
    if t == len(done.path):
        return 0.0, []
    sign = 1.0 if problem.sense == "max" else -1.0
    here = State(t, done.path[t], state.resource)
    kept = done.actions[t]
    options = [(kept, 0)] if done.may_keep(here) else []
    if left > 0 and done.may_change(t):
        offered = np.asarray(problem.actions(here), dtype=np.float64)
        near = (np.abs(offered - kept) <= done.reach + 1e-9).all(axis=1)
        options += [(action, 1) for action in offered[near]]
    best: tuple[float, list[FloatArray]] = (-math.inf, [])
    for action, cost in options:
        try:
            reward, after = problem.step(t, here.exogenous[None], here.resource[None], action[None])
        except InfeasibleError:
            continue
        following = State(t + 1, here.exogenous, np.asarray(after[0]))
        rest, decisions = _best_from(done, following, left - cost)
        total = sign * float(reward[0]) + rest
        if total > best[0]:
            best = total, [action, *decisions]
    return best


@dataclass(frozen=True, eq=False)
class _World:
    """The rules of one problem, written as directly as possible."""

    scm: DiscreteSCM
    episode: Episode
    constraints: Constraints

    @cached_property
    def rules(self) -> ResolvedConstraints:
        mdp = self.scm.mdp
        return self.constraints.resolve(len(self.episode), mdp.n_states, mdp.n_actions)

    def options(self, node: Node) -> list[int]:
        """Actions that may be taken, the observed one first."""
        t, state, left = node
        mdp, observed = self.scm.mdp, int(self.episode.actions[t])
        rules = self.rules
        found = [observed]
        for action in range(mdp.n_actions):
            admissible = mdp.admissible is None or mdp.admissible[state, action]
            if (
                action != observed
                and rules.alternatives[t, action]
                and admissible
                and not rules.forbidden[state, action]
                and rules.costs[action] <= left
            ):
                found.append(action)
        return found

    def reward(self, node: Node, action: int) -> float:
        t, state, _ = node
        mdp, T = self.scm.mdp, len(self.episode)
        if self.rules.forbidden[state, action]:
            return -math.inf
        final = 0.0 if mdp.final_rewards is None or t < T - 1 else mdp.final_rewards[state]
        return float(mdp.rewards[state, action] + final)

    def left_after(self, node: Node, action: int) -> int:
        t, _, left = node
        return left if action == self.episode.actions[t] else left - int(self.rules.costs[action])

    def row(self, node: Node, action: int) -> FloatArray:
        """(S,) where the action leads."""
        t, state, _ = node
        states, actions = self.episode.states, self.episode.actions
        observed = (int(states[t]), int(actions[t]), int(states[t + 1]))
        return self.scm.counterfactual_row(*observed, state, action)

    def worth(self, node: Node, action: int, value: Callable[[Node], float]) -> float:
        """Reward of an action and the expected value of what follows."""
        t = node[0]
        total = self.reward(node, action)
        if t == len(self.episode) - 1 or total == -math.inf:
            return total
        left = self.left_after(node, action)
        for after, probability in enumerate(self.row(node, action)):
            if probability > 0.0:
                total += probability * value((t + 1, after, left))
        return total

    def root(self, k: int) -> Node:
        return 0, int(self.episode.states[0]), k


def brute_force(
    scm: DiscreteSCM | TabularMDP, episode: Episode, k: int, constraints: Constraints | None = None
) -> float:
    """The optimal value by expanding the whole tree of histories, nothing remembered."""
    world = _World(_causal(scm), episode, constraints or Constraints())

    def value(node: Node) -> float:
        return max(world.worth(node, action, value) for action in world.options(node))

    return value(world.root(k))


def best_policy_value(
    scm: DiscreteSCM | TabularMDP, episode: Episode, k: int, constraints: Constraints | None = None
) -> float:
    """The optimal value by evaluating every deterministic policy, one after another."""
    world = _World(_causal(scm), episode, constraints or Constraints())
    options = {node: world.options(node) for node in _nodes(world, k)}
    if math.prod(len(actions) for actions in options.values()) > LARGEST_ENUMERATION:
        raise NotApplicableError("too many policies to enumerate: use brute_force")
    best = -math.inf
    for choice in itertools.product(*options.values()):
        policy = dict(zip(options, choice, strict=True))

        def value(node: Node, policy: dict[Node, int] = policy) -> float:
            return world.worth(node, policy[node], value)

        best = max(best, value(world.root(k)))
    return best


def policy_value(scm: DiscreteSCM | TabularMDP, explanation: PolicyExplanation) -> float:
    """What an explanation's policy earns, by following it through every history."""
    setting = explanation.process.setting
    world = _World(_causal(scm), explanation.episode, _hard_rules(explanation))

    def value(node: Node) -> float:
        t, state, left = node
        weights = explanation.action_probabilities(t, state, setting.k - left)
        return sum(
            float(weights[action]) * world.worth(node, int(action), value)
            for action in np.flatnonzero(weights)
        )

    return value(world.root(setting.k))


def interval_by_vertices(
    mdp: TabularMDP, explanation: PolicyExplanation, stability: bool = False
) -> Interval:
    """The extreme outcomes of a deterministic policy, trying every vertex of the set of
    counterfactual rows at every place of every history."""
    setting, episode = explanation.process.setting, explanation.episode
    world = _World(GumbelMaxSCM(mdp), episode, _hard_rules(explanation))

    def value(node: Node, extreme: Callable[[Iterator[float]], float]) -> float:
        t, state, left = node
        action = explanation.policy(t, state, setting.k - left)
        reward = world.reward(node, action)
        if t == len(episode) - 1:
            return reward
        after = world.left_after(node, action)
        return reward + extreme(
            sum(float(row[i]) * value((t + 1, int(i), after), extreme) for i in np.flatnonzero(row))
            for row in row_vertices(mdp, episode, t, (state, action), stability)
        )

    root = world.root(setting.k)
    return Interval(value(root, min), value(root, max))


def row_vertices(
    mdp: TabularMDP, episode: Episode, t: int, pair: tuple[int, int], stability: bool = False
) -> list[FloatArray]:
    """Vertices of the set of counterfactual rows of a pair that any causal model allows: all
    entries at 0 or at their cap, but for at most one that takes what is left."""
    observed = (int(episode.states[t]), int(episode.actions[t]))
    p, q, o = mdp.row(*observed), mdp.row(*pair), int(episode.states[t + 1])
    if pair == observed:
        return [np.eye(mdp.n_states)[o]]
    caps = np.minimum(1.0, q / p[o])
    if stability:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(q > 0.0, q / p, 0.0)
        tied_or_less = ratios <= ratios[o] * (1.0 + 1e-14)
        caps[tied_or_less & (np.arange(len(q)) != o)] = 0.0
    vertices = []
    for free in np.flatnonzero(caps):
        others = [i for i in np.flatnonzero(caps) if i != free]
        for at_cap in itertools.product((False, True), repeat=len(others)):
            row = np.zeros(mdp.n_states)
            row[others] = np.where(at_cap, caps[others], 0.0)
            row[free] = 1.0 - row.sum()
            if -1e-12 <= row[free] <= caps[free] + 1e-12:
                vertices.append(np.maximum(row, 0.0))
    return vertices


def _nodes(world: _World, k: int) -> list[Node]:
    """Every place that some sequence of actions can reach."""
    found = {world.root(k): None}
    queue = [world.root(k)]
    for node in queue:
        if node[0] == len(world.episode) - 1:
            continue
        for action in world.options(node):
            left = world.left_after(node, action)
            for after in np.flatnonzero(world.row(node, action)):
                child = (node[0] + 1, int(after), left)
                if child not in found:
                    found[child] = None
                    queue.append(child)
    return list(found)


def _hard_rules(explanation: PolicyExplanation) -> Constraints:
    """What binds a policy that is already chosen: pairs it may not meet and what changes cost."""
    rules = explanation.process.setting.constraints
    return Constraints(forbidden=rules.forbidden, change_costs=rules.costs)


def _causal(scm: DiscreteSCM | TabularMDP) -> DiscreteSCM:
    return GumbelMaxSCM(scm) if isinstance(scm, TabularMDP) else scm
