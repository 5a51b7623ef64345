"""Small random problems, and what can be said about them by listing every counterfactual path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import counterplan
from counterplan import Constraints, Episode, GumbelMaxSCM, TabularMDP
from counterplan.core.result import Interval
from counterplan.counterfactual import PolicyExplanation, oracle
from counterplan.errors import InfeasibleError
from counterplan.testing import random_episode, random_transitions


@dataclass(frozen=True, eq=False)
class Instance:
    mdp: TabularMDP
    episode: Episode
    k: int
    constraints: Constraints = field(default_factory=Constraints)

    def explain(self, **options: Any) -> PolicyExplanation:
        """The answer, through the front door."""
        rules = {"constraints": self.constraints, **options}
        return counterplan.explain(self.mdp, self.episode, self.k, **rules)

    def answer(self, **options: Any) -> PolicyExplanation | None:
        """The same, None where no policy satisfies the constraints."""
        try:
            return self.explain(**options)
        except InfeasibleError:
            return None

    @property
    def best(self) -> float:
        """By brute force."""
        return oracle.brute_force(self.mdp, self.episode, self.k, self.constraints)

    @property
    def rules(self) -> Any:
        """The constraints, resolved."""
        return self.constraints.resolve(len(self.episode), *self.mdp.row_of.shape)


class Walk(NamedTuple):
    """One counterfactual episode."""

    states: tuple[int, ...]
    actions: tuple[int, ...]
    probability: float
    outcome: float

    def changes(self, episode: Episode) -> int:
        return sum(a != b for a, b in zip(self.actions, episode.actions.tolist(), strict=True))


def random_instance(seed: int, *, barred: bool = True, whole: bool = False) -> Instance:
    """A problem with up to 3 states, 3 actions and 4 steps, and a random choice of constraints.

    barred  whether pairs may be forbidden or have reward -inf, the observed ones included
    whole   whole-numbered rewards
    """
    rng = np.random.default_rng(seed)
    S, A, T = (int(rng.choice(sizes)) for sizes in ([1, 2, 3, 3, 3], [1, 2, 3, 3], [1, 2, 3, 3, 4]))
    rewards = rng.integers(-2, 3, size=(S, A)) * 1.0 if whole else rng.normal(size=(S, A))
    final = rng.integers(-2, 3, size=S) * 1.0 if whole else rng.normal(size=S)
    if barred and rng.random() < 0.25:
        rewards[rng.random((S, A)) < 0.15] = -np.inf
    mdp = TabularMDP(
        random_transitions(rng, S, A) if seed % 2 else rng.dirichlet(np.ones(S), size=(S, A)),
        rewards,
        admissible=rng.random((S, A)) < 0.7 if rng.random() < 0.25 else None,
        final_rewards=final if rng.random() < 0.5 else None,
    )
    episode = random_episode(rng, mdp, T)
    k = int(rng.choice([0, 1, 2, 3, 4]))
    return Instance(mdp, episode, k, _random_constraints(rng, (S, A, T), barred))


def _random_constraints(
    rng: np.random.Generator, shape: tuple[int, int, int], barred: bool
) -> Constraints:
    S, A, T = shape
    given: dict[str, Any] = {}
    if rng.random() < 0.25:
        mask = rng.random((T, A)) < 0.7
        steps = {t: np.flatnonzero(mask[t]).tolist() for t in range(T) if rng.random() < 0.7}
        given["allowed"] = (mask[0], mask, steps)[rng.integers(3)]
    if barred and rng.random() < 0.25:
        pairs = [(s, a) for s in range(S) for a in range(A) if rng.random() < 0.2]
        given["forbidden"] = pairs if rng.random() < 0.5 else np.array(pairs, dtype=int)
    if rng.random() < 0.25:
        given["fixed_steps"] = [int(rng.integers(-T, T))]
    if rng.random() < 0.4:
        given["change_costs"] = rng.integers(1, 4, size=A)
    return Constraints(**given)


def tempting_instance(seed: int, n_states: int = 3) -> Instance:
    """Changing earns a bonus at once, so that policies do change and causal models matter."""
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(n_states, 2)) + np.array([0.0, 1.0])
    mdp = TabularMDP(rng.dirichlet(np.ones(n_states), size=(n_states, 2)), rewards)
    T = int(rng.integers(2, 4))
    states = rng.integers(n_states, size=T)
    # Two choices at each place with budget left: at most 8 of these, to list every policy.
    k = int(rng.integers(1, 3)) if T == 2 else 1
    return Instance(mdp, Episode(states, np.zeros(T, dtype=int)), k)


def walks(explanation: PolicyExplanation, problem: Instance, scm: Any | None = None) -> list[Walk]:
    """Every path that the explanation's policy can take, in plain Python."""
    scm = scm or GumbelMaxSCM(problem.mdp)
    mdp, episode = problem.mdp, problem.episode
    T = len(episode)
    rules = problem.rules

    def follow(t: int, state: int, used: int) -> Iterator[Walk]:
        chances = explanation.action_probabilities(t, state, used)
        for action in np.flatnonzero(chances).tolist():
            reward = float(mdp.rewards[state, action])
            if t == T - 1 and mdp.final_rewards is not None:
                reward += float(mdp.final_rewards[state])
            if rules.forbidden[state, action]:
                reward = -math.inf
            if t == T - 1:
                yield Walk((state,), (action,), float(chances[action]), reward)
                continue
            observed = int(episode.actions[t])
            spent = used + (0 if action == observed else int(rules.costs[action]))
            after = int(episode.states[t + 1])
            row = scm.counterfactual_row(int(episode.states[t]), observed, after, state, action)
            for following in np.flatnonzero(row).tolist():
                for rest in follow(t + 1, following, spent):
                    yield Walk(
                        (state, *rest.states),
                        (action, *rest.actions),
                        float(chances[action] * row[following]) * rest.probability,
                        reward + rest.outcome,
                    )

    return list(follow(0, int(episode.states[0]), 0))


def best_policy_value(
    mdp: TabularMDP, episode: Episode, k: int, rules: Constraints
) -> float | None:
    """The optimal value by evaluating every deterministic policy, one after another; None where
    these are too many."""
    world = oracle.PolicyWorld(mdp, episode, rules)
    options: dict[oracle.Node, list[int]] = {}
    queue = [world.root(k)]
    for node in queue:  # every place that some sequence of actions can reach
        if node not in options:
            options[node] = list(world.options(node))
            for action in options[node]:
                left = node[2] - world.price(node[0], action)
                after = world.step(*node[:2], action)[1]
                queue += [(node[0] + 1, following, left) for _, following in after]
    if math.prod(map(len, options.values())) > 2_000:
        return None
    best = -math.inf
    for choice in product(*options.values()):
        policy = dict(zip(options, choice, strict=True))

        def value(node: oracle.Node, policy: dict[oracle.Node, int] = policy) -> float:
            return world.worth(node, policy[node], value)

        best = max(best, value(world.root(k)))
    return best


def interval_by_vertices(
    mdp: TabularMDP, explanation: PolicyExplanation, assume: str = "none"
) -> Interval:
    """The extreme outcomes of a deterministic policy, trying every vertex of the set of
    counterfactual rows at every place of every history."""
    k, episode = explanation.process.setting.k, explanation.episode
    world = oracle.PolicyWorld(mdp, episode, oracle.hard_rules(explanation))

    def value(node: oracle.Node, extreme: Callable[[Iterable[float]], float]) -> float:
        t, state, left = node
        action = explanation.policy(t, state, k - left)
        reward = world.reward(t, state, action)
        if t == len(episode) - 1:
            return reward
        after = left - world.price(t, action)
        return reward + extreme(
            sum(float(row[i]) * value((t + 1, int(i), after), extreme) for i in np.flatnonzero(row))
            for row in row_vertices(mdp, episode, t, (state, action), assume)
        )

    root = world.root(k)
    return Interval(value(root, min), value(root, max))


def row_vertices(
    mdp: TabularMDP, episode: Episode, t: int, pair: tuple[int, int], assume: str = "none"
) -> list[Any]:
    """Vertices of the set of counterfactual rows of a pair that causal models allow: all entries at
    a limit, but for at most one that takes what is left."""
    observed = (int(episode.states[t]), int(episode.actions[t]))
    p, q, o = mdp.row(*observed), mdp.row(*pair), int(episode.states[t + 1])
    if pair == observed:
        return [np.eye(mdp.n_states)[o]]
    low, high = np.zeros(len(q)), np.minimum(1.0, q / p[o])
    for i in range(len(q)):
        if i != o and assume != "none" and q[o] * p[i] >= q[i] * p[o] * (1 - 1e-12):
            high[i] = 0.0
        if i != o and assume == "monotone" and p[i] > 0.0:
            high[i] = min(high[i], q[i])
    if assume == "monotone":
        low[o] = q[o]
    found = []
    for free in np.flatnonzero(high):
        others = [i for i in np.flatnonzero(high) if i != free]
        for ends in product((0, 1), repeat=len(others)):
            row = np.zeros(len(q))
            row[others] = [(low, high)[end][i] for i, end in zip(others, ends, strict=True)]
            row[free] = 1.0 - row.sum()
            if low[free] - 1e-12 <= row[free] <= high[free] + 1e-12:
                found.append(np.maximum(row, 0.0))
    return found


def finite_horizon_value(mdp: TabularMDP, start: int, horizon: int) -> float:
    """The best expected sum of rewards without any observation: plain backward induction."""
    P = np.array([[mdp.row(s, a) for a in range(mdp.n_actions)] for s in range(mdp.n_states)])
    values = mdp.rewards_at(horizon - 1, horizon).max(axis=1)
    for t in range(horizon - 2, -1, -1):
        values = (mdp.rewards_at(t, horizon) + P @ values).max(axis=1)
    return float(values[start])


def close(one: float, other: float, tolerance: float) -> bool:
    """Equal up to the tolerance, or the same infinity."""
    return one == other or abs(one - other) <= tolerance
