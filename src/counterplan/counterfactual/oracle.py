"""Brute force, for small problems: what every exact solver is compared with.

Plain Python over whole histories, sharing no code with the solvers but the model itself.
Costs grow exponentially with the length of the episode; nothing here is meant to be fast, but
`Exhaustive`, the batched brute force of continuous problems (see also `sequence_oracle` and, for
executed plans, `allocation_oracle`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterplan.core.constraints import Constraints, ResolvedConstraints
from counterplan.core.episode import Episode
from counterplan.core.result import Interval
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.allocation_oracle import BestAllocation as BestAllocation
from counterplan.counterfactual.allocation_oracle import best_allocation as best_allocation
from counterplan.counterfactual.exhaustive import Exhaustive as Exhaustive
from counterplan.counterfactual.laws import DiscreteSCM
from counterplan.counterfactual.policy_explanation import PolicyExplanation
from counterplan.counterfactual.sequence_oracle import BestSequence as BestSequence
from counterplan.counterfactual.sequence_oracle import best_sequence as best_sequence
from counterplan.counterfactual.sequence_oracle import sequence_value as sequence_value
from counterplan.errors import NotApplicableError
from counterplan.scm.gumbel_max import GumbelMaxSCM
from counterplan.scm.tabular import TabularMDP

LARGEST_ENUMERATION = 1_000_000

# A place in a counterfactual episode: step, state, budget left.
Node = tuple[int, int, int]


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
