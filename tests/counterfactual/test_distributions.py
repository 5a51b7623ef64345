"""What a policy leads to, without sampling: against a list of every counterfactual path."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import BudgetDP, PolicyExplanation
from counterplan.errors import InfeasibleError

from .support import Instance, Walk, close, random_instance, walks

SEEDS = st.integers(0, 2**32 - 1)
EXACT = 1e-12
SOLVERS = [
    BudgetDP(),
    cp.baselines.Random(),
    cp.baselines.NoisyGreedy(probability=0.3),
]


def answer(problem: Instance, solver: Any = None) -> PolicyExplanation | None:
    try:
        return cp.explain(
            problem.mdp,
            problem.episode,
            problem.k,
            constraints=problem.constraints,
            solver=solver,
        )
    except InfeasibleError:
        return None


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(SOLVERS))
def test_agrees_with_every_path(seed: int, solver: Any) -> None:
    problem = random_instance(seed, whole=seed % 2 == 0)
    found = answer(problem, solver)
    if found is None:
        return
    paths = walks(found, problem)
    assert sum(path.probability for path in paths) == pytest.approx(1.0, abs=EXACT)
    check_changes(found, paths, problem)
    check_moments(found, paths)
    check_most_likely(found, paths)


def check_changes(found: PolicyExplanation, paths: list[Walk], problem: Instance) -> None:
    T = len(problem.episode)
    changed = np.zeros((T, problem.mdp.n_actions))
    counted = np.zeros(T + 1)
    for path in paths:
        counted[path.changes(problem.episode)] += path.probability
        for t, action in enumerate(path.actions):
            if action != problem.episode.actions[t]:
                changed[t, action] += path.probability
    assert found.change_probabilities() == pytest.approx(changed, abs=EXACT)
    assert found.changes_distribution() == pytest.approx(counted, abs=EXACT)


def check_moments(found: PolicyExplanation, paths: list[Walk]) -> None:
    mean = sum(path.probability * path.outcome for path in paths)
    assert close(found.value, mean, 1e-9)
    assert close(found.outcome_mean, mean, EXACT * 10)
    if mean == -math.inf:
        assert found.outcome_variance == math.inf
        return
    variance = sum(path.probability * (path.outcome - mean) ** 2 for path in paths)
    assert found.outcome_variance == pytest.approx(variance, abs=EXACT * 10)


def check_most_likely(found: PolicyExplanation, paths: list[Walk]) -> None:
    best = max(path.probability for path in paths)
    path = found.most_likely
    assert path.probability == pytest.approx(best, abs=EXACT)
    key = (tuple(path.states.tolist()), tuple(path.actions.tolist()))
    listed = {(walk.states, walk.actions): walk.probability for walk in paths}
    assert listed[key] == pytest.approx(best, abs=EXACT)
    observed = found.episode.actions
    assert [change.t for change in found.changes] == np.flatnonzero(
        path.actions != observed
    ).tolist()
    for t, before, after in found.changes:
        assert (before, after) == (observed[t], path.actions[t])


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(SOLVERS))
def test_outcomes_of_whole_rewards_are_listed_exactly(seed: int, solver: Any) -> None:
    problem = random_instance(seed, whole=True)
    found = answer(problem, solver)
    if found is None:
        return
    expected: dict[float, float] = defaultdict(float)
    for path in walks(found, problem):
        expected[path.outcome] += path.probability
    outcomes = found.outcome_distribution()
    assert np.all(np.diff(outcomes.values) > 0.0)
    assert not np.isnan(outcomes.probabilities).any()
    listed = dict(zip(outcomes.values.round(9).tolist(), outcomes.probabilities, strict=True))
    for outcome in expected.keys() | listed.keys():
        assert listed.get(outcome, 0.0) == pytest.approx(expected.get(outcome, 0.0), abs=EXACT)
    better = sum(chance for outcome, chance in expected.items() if outcome > found.factual_value)
    certified = found.probability_better()
    assert certified.low == certified.high == certified.value
    assert certified.value == pytest.approx(better, abs=EXACT)


def chance_of_better(found: PolicyExplanation, problem: Instance) -> float:
    """By listing every path; outcomes that tie with the observed one but for rounding are not
    better."""
    return sum(
        path.probability
        for path in walks(found, problem)
        if path.outcome > found.factual_value + 1e-9
    )


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(SOLVERS))
def test_the_chance_to_do_better_is_bracketed_for_any_rewards(seed: int, solver: Any) -> None:
    problem = random_instance(seed)
    found = answer(problem, solver)
    if found is None:
        return
    better = chance_of_better(found, problem)
    certified = found.probability_better()
    assert 0.0 <= certified.low <= certified.value <= certified.high <= 1.0
    assert certified.low - EXACT <= better <= certified.high + EXACT


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(SOLVERS))
def test_the_chance_to_do_better_is_exact_if_only_the_end_is_off_the_lattice(
    seed: int, solver: Any
) -> None:
    problem = random_instance(seed, whole=True)
    mdp = problem.mdp
    final = np.random.default_rng(seed).normal(size=mdp.n_states)
    ended = cp.TabularMDP.from_rows(
        mdp.rows, mdp.row_of, mdp.rewards, admissible=mdp.admissible, final_rewards=final
    )
    problem = replace(problem, mdp=ended)
    found = answer(problem, solver)
    if found is None:
        return
    better = chance_of_better(found, problem)
    certified = found.probability_better()
    assert certified.low == certified.high == certified.value
    assert certified.value == pytest.approx(better, abs=EXACT)


def test_the_bracket_is_narrow_where_outcomes_lie_apart() -> None:
    rng = np.random.default_rng(2)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2)))
    found = cp.explain(mdp, cp.Episode([0, 1, 2, 0], [0, 1, 0, 1]), 2)
    certified = found.probability_better()
    assert certified.high - certified.low < 0.01


def test_outcomes_off_any_lattice_are_refused_with_advice() -> None:
    mdp = cp.TabularMDP(np.ones((1, 3, 1)), [[1.0, math.pi, math.e]])
    found = cp.explain(mdp, cp.Episode([0], [0]), 1)
    with pytest.raises(cp.errors.NotApplicableError, match=r"do not lie on a lattice .* sample"):
        found.outcome_distribution()


def test_distributions_too_large_to_hold_are_refused_with_advice() -> None:
    S, T = 400, 40
    rewards = np.zeros((S, 2))
    rewards[0] = [0.0, 50_001.0]
    rewards[1] = [1.0, 2.0]
    mdp = cp.TabularMDP(np.broadcast_to(np.eye(S)[0], (S, 2, S)), rewards)
    found = cp.explain(mdp, cp.Episode(np.zeros(T, dtype=int), np.zeros(T, dtype=int)), 3)
    with pytest.raises(cp.errors.NotApplicableError) as caught:
        found.outcome_distribution()
    assert str(caught.value).startswith("the exact distribution would need ")
    assert str(caught.value).endswith(" numbers (limit 100,000,000): use sample(n) instead")


def test_long_episodes_keep_their_precision() -> None:
    # A large constant reward must not swamp the variance.
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(4), size=(4, 2))
    rewards = rng.random((4, 2))
    states = [0]
    for _ in range(29):
        states.append(int(rng.choice(4, p=transitions[states[-1], 0])))
    episode = cp.Episode(states, np.zeros(30, dtype=int))
    plain = cp.explain(cp.TabularMDP(transitions, rewards), episode, 3)
    shifted = cp.explain(cp.TabularMDP(transitions, rewards + 1e6), episode, 3)
    assert plain.outcome_variance > 0.01
    assert shifted.outcome_variance == pytest.approx(plain.outcome_variance, rel=1e-6)
    assert plain.outcome_mean == pytest.approx(plain.value, abs=1e-9)
