"""What policies lead to: distributions against every path listed, samples, lattices."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import BudgetDP, PolicyExplanation
from counterplan.counterfactual.discrete.distributions import Lattice, draw_states, find_lattice

from .support import Instance, Walk, close, random_instance, walks

# --- What a policy leads to, without sampling: against a list of every counterfactual path ---

SEEDS = st.integers(0, 2**32 - 1)
EXACT = 1e-12
SOLVERS = [BudgetDP(), cp.baselines.Random(), cp.baselines.NoisyGreedy(probability=0.3)]


@settings(max_examples=150)
@given(SEEDS, st.sampled_from(SOLVERS))
def test_agrees_with_every_path(seed: int, solver: Any) -> None:
    problem = random_instance(seed, whole=seed % 2 == 0)
    found = problem.answer(solver=solver)
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
    found = problem.answer(solver=solver)
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


@settings(max_examples=200)
@given(SEEDS, st.sampled_from(SOLVERS), st.booleans())
def test_the_chance_to_do_better(seed: int, solver: Any, whole: bool) -> None:
    """Bracketed for any rewards; exact if only the end is off the lattice."""
    problem = random_instance(seed, whole=whole)
    if whole:
        mdp, final = problem.mdp, np.random.default_rng(seed).normal(size=problem.mdp.n_states)
        own = {"admissible": mdp.admissible, "final_rewards": final}
        ended = cp.TabularMDP((mdp.rows, mdp.row_of), mdp.rewards, **own)
        problem = replace(problem, mdp=ended)
    found = problem.answer(solver=solver)
    if found is None:
        return
    # Outcomes that tie with the observed one but for rounding are not better.
    least = found.factual_value + 1e-9
    better = sum(path.probability for path in walks(found, problem) if path.outcome > least)
    certified = found.probability_better()
    assert 0.0 <= certified.low <= certified.value <= certified.high <= 1.0
    assert certified.low - EXACT <= better <= certified.high + EXACT
    assert not whole or certified.low == certified.high


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


# --- Realizations (Algorithm 1) follow the exact distributions ---

N = 20_000


def model(seed: int) -> tuple[cp.TabularMDP, cp.Episode]:
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(4, 0.5), size=(4, 3))
    mdp = cp.TabularMDP(transitions, rng.integers(0, 4, size=(4, 3)) * 1.0)
    states, actions = [0], rng.integers(3, size=6)
    for action in actions[:-1]:
        states.append(int(rng.choice(4, p=transitions[states[-1], action])))
    return mdp, cp.Episode(states, actions)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", [None, cp.baselines.Random(), cp.baselines.NoisyGreedy()])
def test_samples_agree_with_the_exact_numbers(seed: int, solver: Any) -> None:
    mdp, episode = model(seed)
    found = cp.explain(mdp, episode, 2, solver=solver)
    drawn = found.sample(N, seed=seed)
    # Five standard errors everywhere: passed once in 3.5 million comparisons.
    spread = np.sqrt(found.outcome_variance / N)
    assert abs(drawn.outcomes.mean() - found.outcome_mean) <= 5.0 * spread + 1e-12
    for exact, seen in (
        (found.changes_distribution(), np.bincount(drawn.changes, minlength=7) / N),
        (found.probability_better().value, (drawn.outcomes > found.factual_value).mean()),
        (found.most_likely.probability, share_of(found, drawn)),
        (found.change_probabilities(), shares_of_changes(episode, drawn)),
    ):
        error = np.sqrt(np.asarray(exact) * (1.0 - np.asarray(exact)) / N)
        assert (np.abs(seen - np.asarray(exact)) <= 5.0 * error + 1.0 / N).all()


def shares_of_changes(episode: cp.Episode, drawn: Any) -> Any:
    changed = drawn.actions != episode.actions
    return (changed[:, :, None] & (drawn.actions[:, :, None] == np.arange(3))).mean(axis=0)


def share_of(found: PolicyExplanation, drawn: Any) -> float:
    path = found.most_likely
    same = (drawn.states == path.states).all(axis=1) & (drawn.actions == path.actions).all(axis=1)
    return float(same.mean())


def test_realizations_are_consistent() -> None:
    mdp, episode = model(1)
    constraints = cp.Constraints(change_costs={0: 2}, fixed_steps=[2])
    found = cp.explain(mdp, episode, 3, constraints=constraints)
    drawn = found.sample(500, seed=1)
    assert drawn.states.shape == drawn.actions.shape == (500, 6)
    changed = drawn.actions != episode.actions
    assert np.array_equal(drawn.changes, changed.sum(axis=1))
    assert drawn.outcomes == pytest.approx(mdp.rewards[drawn.states, drawn.actions].sum(axis=1))
    assert (drawn.states[:, 0] == episode.states[0]).all()
    assert not changed[:, 2].any()
    costs = np.where(drawn.actions == 0, 2, 1) * changed
    assert (costs.sum(axis=1) <= 3).all()
    used = np.concatenate([np.zeros((500, 1), dtype=int), np.cumsum(costs, axis=1)], axis=1)
    for n, t in product(range(20), range(6)):
        state, spent = int(drawn.states[n, t]), int(used[n, t])
        assert found.policy(t, state, spent) == drawn.actions[n, t]


def test_entries_of_probability_zero_are_never_drawn() -> None:
    # Ten times 0.1 sum to a little less than 1, so the largest uniform number falls behind them.
    shares = np.array([0.1] * 10 + [0.0])
    row_of, place = np.zeros((1, 1), dtype=np.int32), np.zeros(3, dtype=np.int64)
    law = (row_of, place[:1], np.array([0, 11]), np.arange(11, dtype=np.int32), shares)
    drawn = draw_states(place, place, law, np.array([0.0, 0.55, 1.0 - 2.0**-53]))
    assert drawn.tolist() == [0, 5, 9]


def test_reproducible_by_seed_or_generator() -> None:
    mdp, episode = model(0)
    found = cp.explain(mdp, episode, 2)
    one, same = found.sample(100, seed=7), found.sample(100, seed=np.random.default_rng(7))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.states, found.sample(100, seed=8).states)
    rng = np.random.default_rng(7)
    first, second = found.sample(100, seed=rng), found.sample(100, seed=rng)
    assert np.array_equal(first.states, one.states)
    assert not np.array_equal(first.states, second.states)


# --- Whether numbers are whole multiples of a common step ---


@given(
    st.floats(-100, 100),
    st.floats(0.001, 100.0),
    st.lists(st.integers(0, 200), min_size=1, max_size=8),
)
def test_finds_the_lattice_that_numbers_were_made_from(
    base: float, step: float, positions: list[int]
) -> None:
    values = base + step * np.array(positions)
    found = find_lattice(values)
    assert found is not None
    rebuilt = found.base + found.step * np.rint((values - found.base) / found.step)
    # Differences of numbers near 100 carry a rounding error of 1e-14.
    assert rebuilt == pytest.approx(values, abs=1e-10)
    divisor = int(np.gcd.reduce(np.array(positions) - min(positions)))
    if divisor:
        assert found.step == pytest.approx(step * divisor, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "lattice"),
    [
        ([1.0, np.pi, np.e], None),
        ([0.0, 1.0, 1e-7], None),
        ([5.0, 5.0], Lattice(5.0, 1.0)),
        ([-np.inf], Lattice(0.0, 1.0)),
        ([0.0, -np.inf, 2.0], Lattice(0.0, 2.0)),
    ],
)
def test_no_small_lattice_or_any(values: list[float], lattice: Lattice | None) -> None:
    assert find_lattice(values) == lattice
