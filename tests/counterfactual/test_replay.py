"""A plan made by hand: exact against every path listed, and what explain said where it found it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual.discrete.laws import Law
from counterplan.counterfactual.replay import CachedLaw, RowCache
from counterplan.errors import InfeasibleError, InputError
from counterplan.scm.tabular import Rows
from counterplan.testing import random_allocation_problems, random_sequence_problems

from .models import IndependentSCM
from .support import Instance, random_instance, row_vertices, walks

seeds = st.integers(0, 2**32 - 1)


def random_changes(seed: int, decisions: int, n_actions: int) -> dict[int, int]:
    rng = np.random.default_rng(seed)
    return {t: int(rng.integers(n_actions)) for t in range(decisions) if rng.random() < 0.5}


# --- Discrete states --------------------------------------------------------------------------


def extreme_value(problem: Instance, actions: list[int], extreme: Any) -> float:
    """The lowest or highest outcome of a plan, trying every vertex at every place."""
    mdp, episode = problem.mdp, problem.episode

    def value(t: int, state: int) -> float:
        reward = float(mdp.rewards_at(t, len(episode))[state, actions[t]])
        if t == len(episode) - 1:
            return reward
        return reward + float(
            extreme(
                sum(float(row[i]) * value(t + 1, int(i)) for i in np.flatnonzero(row))
                for row in row_vertices(mdp, episode, t, (state, actions[t]))
            )
        )

    return value(0, int(episode.states[0]))


@settings(max_examples=40)
@given(seeds)
def test_a_policy_equals_every_path_listed(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    problem = Instance(problem.mdp, problem.episode, problem.k)
    changes = random_changes(seed, len(problem.episode), problem.mdp.n_actions)
    found = cp.replay(problem.mdp, problem.episode, changes)
    paths = walks(found, problem)
    assert found.value == pytest.approx(sum(p.probability * p.outcome for p in paths), abs=1e-9)
    assert found.factual_value == pytest.approx(problem.mdp.outcome(problem.episode))
    plan = [changes.get(t, int(a)) for t, a in enumerate(problem.episode.actions)]
    assert found.actions.tolist() == plan
    assert {change.t: change.alternative for change in found.changes} == {
        t: a for t, a in changes.items() if a != problem.episode.actions[t]
    }
    assert max(p.probability for p in paths) == pytest.approx(found.most_likely.probability)
    assert tuple(found.states.tolist()) in {p.states for p in paths}
    low, high = found.interval
    assert low == pytest.approx(extreme_value(problem, plan, min), abs=1e-9)
    assert high == pytest.approx(extreme_value(problem, plan, max), abs=1e-9)


def test_nothing_changed_is_what_happened() -> None:
    problem = random_instance(3, barred=False)
    for scm in (problem.mdp, cp.GumbelMaxSCM(problem.mdp)):
        found = cp.replay(scm, problem.episode, {})
        assert found.value == pytest.approx(found.factual_value)
        assert found.interval.width == pytest.approx(0.0, abs=1e-12)
        assert found.states.tolist() == problem.episode.states.tolist()


@given(seeds)
@settings(max_examples=10)
def test_any_discrete_model(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    problem = Instance(problem.mdp, problem.episode, problem.k)
    changes = random_changes(seed, len(problem.episode), problem.mdp.n_actions)
    own, cache = IndependentSCM(problem.mdp), RowCache()
    for _ in range(2):
        found = cp.replay(own, problem.episode, changes, cache=cache)
        paths = walks(found, problem, own)
        assert found.value == pytest.approx(sum(p.probability * p.outcome for p in paths), abs=1e-9)
    # Another model finds nothing of the first in the cache.
    exact = cp.replay(problem.mdp, problem.episode, changes)
    assert cp.replay(problem.mdp, problem.episode, changes, cache=cache).value == exact.value


# --- The cache --------------------------------------------------------------------------------


def laws(cache: RowCache | None = None) -> tuple[Law, CachedLaw]:
    rng = np.random.default_rng(0)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(6), size=(6, 3)), rng.normal(size=(6, 3)))
    episode = cp.Episode([0, 3, 2, 5, 1], [0, 1, 2, 0, 1])
    exact = Law(mdp, episode)
    return exact, CachedLaw(mdp, episode, law=exact, cache=cache or RowCache())


def same(one: Rows, other: Rows) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@given(st.lists(st.sets(st.integers(0, 17), min_size=1), min_size=1, max_size=6))
def test_cached_rows_are_the_same_whatever_was_asked_before(asked: list[set[int]]) -> None:
    exact, cached = laws()
    later = replace(cached, first=1)
    for ids in asked:
        wanted = np.array(sorted(ids), dtype=np.int32)
        for t in (0, 2):
            assert same(cached.rows_at(t, wanted), exact.rows_at(t, wanted))
            assert same(later.rows_at(t, wanted), exact.rows_at(t + 1, wanted))


def test_cached_expectations_are_the_same_to_the_last_bit() -> None:
    exact, cached = laws()
    rng = np.random.default_rng(0)
    for _ in range(3):
        values = rng.normal(size=(6, 2))
        values[0, 0] = -np.inf
        wanted = np.array([0, 3, 17], dtype=np.int32)
        for _ in range(2):
            found = cached.expect(1, wanted, values)
            assert np.array_equal(found, exact.expect(1, wanted, values))


def test_a_cache_stays_within_its_size() -> None:
    cache = RowCache(max_bytes=3_000)
    _, cached = laws(cache)
    for t in (0, 1, 2, 0, 1):
        for start in range(17):
            cached.rows_at(t, np.array([start, 17], dtype=np.int32))
            assert 0 < cache.used <= 3_000
    cache.add("large", object(), 3_001)
    assert cache.find("large") == []


def test_episodes_without_a_name_are_told_apart() -> None:
    mdp, cache = laws()[0].mdp, RowCache()
    for states in ([0, 3, 2], [0, 4, 2]) * 2:
        episode = cp.Episode(states, [0, 1, 2])
        alone = cp.replay(mdp, episode, {0: 2})
        assert cp.replay(mdp, episode, {0: 2}, cache=cache).value == alone.value


# --- Continuous states ------------------------------------------------------------------------


@settings(max_examples=6)
@given(seeds)
def test_a_sequence_leads_where_the_search_said(seed: int) -> None:
    for problem in random_sequence_problems(4, seed):
        known = {"actions": problem.actions, "reward": problem.reward}
        best = cp.explain(
            problem.scm, problem.episode, problem.k, constraints=problem.constraints, **known
        )
        changes = {change.t: change.alternative for change in best.changes}
        found = cp.replay(problem.scm, problem.episode, changes, **known)
        assert found.value == pytest.approx(best.value, rel=1e-12, abs=1e-12)
        assert np.array_equal(found.actions, best.actions)
        assert np.allclose(found.states, best.states)
        assert found.changes == best.changes
        # One model does not know how sure it is: a point would say that it is certain.
        assert found.interval is found.harm is None


def test_an_action_may_be_its_vector() -> None:
    problem = random_sequence_problems(1, 5)[0]
    known = {"actions": problem.actions, "reward": problem.reward}
    vectors = np.asarray(problem.actions)
    vector = vectors[0] if vectors.ndim == 2 else vectors[0, 0]
    by_number = cp.replay(problem.scm, problem.episode, {0: 0}, **known)
    by_vector = cp.replay(problem.scm, problem.episode, {0: vector}, **known)
    assert by_vector.value == by_number.value
    with pytest.raises(InputError, match="is not in the set; the nearest is"):
        cp.replay(problem.scm, problem.episode, {0: vector + 1e3}, **known)
    with pytest.raises(InputError, match="components, but actions have"):
        cp.replay(problem.scm, problem.episode, {0: [0.0] * 9}, **known)


# --- Executed plans ---------------------------------------------------------------------------


@settings(max_examples=4)
@given(seeds)
def test_an_executed_plan_leads_where_the_solver_said(seed: int) -> None:
    for problem in random_allocation_problems(4, seed):
        best = cp.explain(problem.scm, problem.episode, problem.k, constraints=problem.constraints)
        changes = {change.t: change.alternative for change in best.changes}
        found = cp.replay(problem.scm, problem.episode, changes)
        assert found.value == pytest.approx(best.value, rel=1e-9, abs=1e-9)
        assert found.improvement == pytest.approx(best.improvement, rel=1e-9, abs=1e-9)
        assert np.allclose(found.levels, best.levels)
        assert np.allclose(found.states[:, found.path.shape[1] :], best.levels[:-1])
        assert found.bound == (np.inf if found.sense == "max" else -np.inf)


def test_amounts_that_cannot_be_spent_are_refused() -> None:
    ship = cp.domains.Bunkering(config="A")
    bought = np.array([[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]])
    voyage = cp.Episode(ship.sample_path(seed=5), bought)
    assert cp.replay(ship, voyage, {1: 10.0, 2: [27.0]}).actions[1, 0] == 10.0
    with pytest.raises(InfeasibleError, match="t=1"):
        cp.replay(ship, voyage, {1: 1e6})
    with pytest.raises(InputError, match="must be 1 finite amounts"):
        cp.replay(ship, voyage, {1: [1.0, 2.0]})


# --- Bad questions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({5: 0}, "step 5 has no decision to change; there are 0..4"),
        ({-1: 0}, "step -1 has no decision"),
        ({True: 0}, "step True has no decision"),
        ({"a": 0}, "step a has no decision"),
        ({0: 3}, "action 3 is unknown; there are 0..2"),
        ({0: -1}, "action -1 is unknown"),
        ({0: 1.5}, "action 1.5 is unknown"),
        ([(0, 1)], "pass a mapping from steps to actions"),
    ],
)
def test_bad_changes(changes: Any, message: str) -> None:
    exact, cached = laws()
    with pytest.raises(InputError, match=message) as raised:
        cp.replay(exact.mdp, cached.episode, changes)
    assert "\n" not in str(raised.value)


def test_a_discrete_model_has_its_own_actions() -> None:
    exact, cached = laws()
    with pytest.raises(InputError, match="actions= is for continuous states"):
        cp.replay(exact.mdp, cached.episode, {}, actions=[[1.0]])  # type: ignore[call-overload]
