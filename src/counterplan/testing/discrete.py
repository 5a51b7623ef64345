"""Checks of discrete causal models and of policies, and small random problems to try them on."""

from __future__ import annotations

import math

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.core.problem import Problem
from counterplan.core.result import Explanation, Status
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.counterfactual.discrete.laws import DiscreteSCM
from counterplan.counterfactual.oracle import brute_force, policy_value
from counterplan.scm.gumbel import GumbelMaxSCM
from counterplan.scm.tabular import TabularMDP

# Relative to the value where that is large.
TOLERANCE = 1e-9


def close(one: float, other: float) -> bool:
    """Equal but for rounding, or the same infinity."""
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def check_discrete_scm(scm: DiscreteSCM, trials: int = 50, seed: Seed = 0) -> None:
    """Check a causal model of a tabular MDP at random places.

    * a counterfactual row is a distribution;
    * after the observed pair itself, what happened happens again;
    * averaged over what may have been observed, it gives back the MDP's own row (the law of total
      probability): the model fits its MDP.
    """
    assert isinstance(scm, DiscreteSCM), (
        f"{type(scm).__name__} needs an `mdp` and a `counterfactual_row` method"
    )
    rng, mdp = generator(seed), scm.mdp
    for _ in range(trials):
        s_obs, s = (int(i) for i in rng.integers(mdp.n_states, size=2))
        a_obs, a = (int(i) for i in rng.integers(mdp.n_actions, size=2))
        p = mdp.row(s_obs, a_obs)
        average = np.zeros(mdp.n_states)
        for o in np.flatnonzero(p):
            where = f"observed ({s_obs}, {a_obs}) -> {o}, asked for ({s}, {a})"
            row = np.asarray(scm.counterfactual_row(s_obs, a_obs, int(o), s, a))
            _check_distribution(row, mdp.n_states, where)
            average += p[o] * row
            same = np.asarray(scm.counterfactual_row(s_obs, a_obs, int(o), s_obs, a_obs))
            assert abs(same[o] - 1.0) <= TOLERANCE, (
                f"the observed pair ({s_obs}, {a_obs}) led to {o}, but its counterfactual row "
                f"gives that probability {same[o]}"
            )
        worst = float(np.abs(average - mdp.row(s, a)).max())
        assert worst <= TOLERANCE, (
            f"averaged over what ({s_obs}, {a_obs}) may lead to, the counterfactual rows of "
            f"({s}, {a}) miss the MDP's own row by {worst:.3g}"
        )


def check_policy(problem: Problem, k: int, explanation: Explanation) -> None:
    """Check one answer: following the policy through every history earns its value, brute force
    finds nothing better than what is called optimal, and realizations keep to the rules."""
    assert isinstance(explanation, PolicyExplanation), "a discrete solver must return a policy"
    value = explanation.value
    earned = policy_value(problem.scm, explanation)
    assert close(earned, value), f"k={k}: the policy earns {earned}, not the stated {value}"
    if explanation.status == Status.OPTIMAL:
        best = brute_force(problem.scm, problem.episode, k, problem.constraints)
        assert close(best, value), (
            f"k={k}: called optimal with {value}, but brute force finds {best}"
        )
    _check_realizations(explanation, problem)


def random_problems(count: int, seed: Seed = 0) -> list[Problem]:
    """Small random problems with zeros, constraints, costs and final rewards."""
    rng = generator(seed)
    problems = []
    for _ in range(count):
        S, A, T = (int(i) for i in rng.integers([2, 2, 1], [4, 4, 5]))
        mdp = TabularMDP(
            random_transitions(rng, S, A),
            rng.normal(size=(S, A)),
            admissible=rng.random((S, A)) < 0.8,
            final_rewards=rng.normal(size=S),
        )
        episode = random_episode(rng, mdp, T)
        seen = set(zip(episode.states.tolist(), episode.actions.tolist(), strict=True))
        pairs = [(s, a) for s in range(S) for a in range(A) if (s, a) not in seen]
        constraints = Constraints(
            allowed=rng.random((T, A)) < 0.8,
            forbidden=[pair for pair in pairs if rng.random() < 0.2],
            change_costs=rng.integers(1, 3, size=A),
        )
        problems.append(Problem(GumbelMaxSCM(mdp), episode, int(rng.integers(0, 4)), constraints))
    return problems


def random_transitions(rng: np.random.Generator, n_states: int, n_actions: int) -> FloatArray:
    """(S, A, S) random rows, about a third of the entries zero."""
    weights = rng.exponential(size=(n_states, n_actions, n_states))
    weights[rng.random(weights.shape) < 0.35] = 0.0
    weights[..., 0] += 1e-3 * (weights.sum(axis=2) == 0.0)
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def random_episode(rng: np.random.Generator, mdp: TabularMDP, horizon: int) -> Episode:
    """An episode of the MDP under uniformly random actions."""
    states = [int(rng.integers(mdp.n_states))]
    actions = rng.integers(mdp.n_actions, size=horizon)
    for action in actions[:-1]:
        states.append(int(rng.choice(mdp.n_states, p=mdp.row(states[-1], int(action)))))
    return Episode(states=states, actions=actions)


def _check_distribution(row: FloatArray, n_states: int, where: str) -> None:
    assert row.shape == (n_states,), f"{where}: row has shape {row.shape}, expected ({n_states},)"
    assert (np.isfinite(row) & (row >= 0.0)).all(), f"{where}: not probabilities: {row}"
    assert abs(row.sum() - 1.0) <= TOLERANCE, f"{where}: row sums to {row.sum()}"


def _check_realizations(explanation: PolicyExplanation, problem: Problem) -> None:
    episode, setting = problem.episode, explanation.process.setting
    drawn = explanation.sample(50, seed=0)
    changed = drawn.actions != episode.actions
    rules = setting.constraints
    spent = (rules.costs[drawn.actions] * changed).sum(axis=1)
    assert (spent <= explanation.k).all(), f"a realization spends {spent.max()} > {explanation.k}"
    steps = np.broadcast_to(np.arange(len(episode)), drawn.actions.shape)
    allowed = rules.alternatives[steps, drawn.actions] | ~changed
    assert allowed.all(), "a realization takes an action that is not allowed at its step"
    if setting.mdp.admissible is not None:
        admissible = setting.mdp.admissible[drawn.states, drawn.actions] | ~changed
        assert admissible.all(), "a realization changes to an action that is not admissible"
    if explanation.value > -np.inf:
        taken = rules.forbidden[drawn.states, drawn.actions]
        assert not taken.any(), "a realization takes a forbidden pair"
