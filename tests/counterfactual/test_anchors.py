"""The paper's heuristic: its constants, its anchor sets, Algorithm 1 and Eq. 11."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual.continuous.anchors import (
    AnchorBound,
    random_alternatives,
    value_constants,
)
from counterplan.counterfactual.continuous.setting import SequenceSetting, prepare_sequence
from counterplan.errors import InputError, NotApplicableError

from .sequence_support import Floats, explain, random_question


def setting_of(kind: str = "neural", seed: int = 0, **size: int) -> SequenceSetting:
    asked = {"horizon": 6, "n_actions": 3, "k": 3, **size}
    problem = random_question(kind, seed, **asked)
    return prepare_sequence(replace(problem, constraints=cp.Constraints()))


def plain_algorithm_1(setting: SequenceSetting, anchors: Floats) -> Floats:
    """(T, k+1, A) by budget spent, written as in the paper: one anchor after the other."""
    slope, T, k = value_constants(setting), setting.horizon, setting.k
    model = setting.members[0]
    V = np.empty((T, k + 1, len(anchors)))
    V[T - 1] = model.last(anchors)
    for t, spent, i in product(reversed(range(T - 1)), range(k + 1), range(len(anchors))):
        anchor, bounds = anchors[i][None], []
        for a in range(setting.n_actions):
            price = 0 if a == setting.observed[t] else int(setting.costs[a])
            if setting.allowed[t, a] and spent + price <= k:
                after = model.scm.step(anchor, model.vectors[t, a][None], model.noise[t][None])
                distance = np.linalg.norm(anchors - after, axis=1)
                lowest = float((V[t + 1, spent + price] + slope[t + 1] * distance).min())
                bounds.append(setting.bonus[t, a] + lowest)
        V[t, spent, i] = float(model.reward(anchor)[0]) + max(bounds)
    return V


@pytest.mark.parametrize("kind", ["neural", "location-scale", "post-nonlinear"])
@pytest.mark.parametrize("costly", [False, True])
def test_algorithm_1_as_printed(kind: str, costly: bool) -> None:
    """Eq. 11 at an anchor is Algorithm 1's own value there."""
    problem = random_question(kind, 1, horizon=5, n_actions=3, k=3)
    costs = [1, 2, 1] if costly else None
    setting = prepare_sequence(replace(problem, constraints=cp.Constraints(change_costs=costs)))
    anchors = cp.AnchorHeuristic(samples=5, seed=2).anchors(setting)
    expected, bound = plain_algorithm_1(setting, anchors), AnchorBound(setting, anchors, "")
    for t, spent in product(range(setting.horizon), range(setting.k + 1)):
        found = bound.upper(t, np.full(len(anchors), spent), anchors[:, None])
        assert found == pytest.approx(expected[t, spent], rel=1e-9, abs=1e-9)
        assert (found >= expected[t, spent]).all(), "rounded downwards"


def test_constants_of_lemma_5() -> None:
    setting = setting_of("location-scale")
    model = setting.members[0]
    K = model.scm.lipschitz(model.noise)
    assert K is not None
    of_reward, of_last = (
        float(np.linalg.norm(one.gradient(4)[1:])) + one.remainder
        for one in (model.reward, model.last)
    )
    expected = [of_last]
    for constant in K[::-1]:
        expected.append(of_reward + expected[-1] * float(constant))
    assert value_constants(setting) == pytest.approx(expected[::-1], rel=1e-9)
    assert (value_constants(setting) >= expected[::-1]).all()


@pytest.mark.parametrize("strategy", ["mc-lipschitz", "mc-uniform"])
def test_simulated_anchors_are_the_observed_states_and_reachable_ones(strategy: str) -> None:
    setting = setting_of(horizon=4, n_actions=3, k=2)
    anchors = cp.AnchorHeuristic(strategy, samples=2000).anchors(setting)
    assert np.array_equal(anchors[: setting.horizon], setting.states[:, 0])
    reachable = {1: 3, 2: 9, 3: 1 + 3 * 2 + 3 * 4}  # prefixes with at most two changes
    assert len(anchors) == 1 + sum(reachable.values())
    assert len(np.unique(anchors.round(12), axis=0)) == len(anchors)


def test_steps_are_drawn_by_their_weights() -> None:
    """One change among three steps with weights 1:2:7; a third of the draws keep the action."""
    setting = setting_of(horizon=4, n_actions=3, k=1)
    drawn = random_alternatives(
        setting, np.array([1.0, 2.0, 7.0]), 30_000, np.random.default_rng(0)
    )
    changed = drawn != setting.observed
    assert changed.sum(axis=1).max() == 1
    assert changed.mean(axis=0) == pytest.approx(np.array([0.1, 0.2, 0.7]) * 2 / 3, abs=0.01)


def test_alternatives_respect_budget_and_constraints() -> None:
    problem = random_question("waves", 3, horizon=7, n_actions=4, k=4)
    allowed = np.ones((6, 4), dtype=bool)
    allowed[:, 2] = False
    rules = cp.Constraints(allowed=allowed, fixed_steps=[1], change_costs=[1, 2, 1, 3])
    setting = prepare_sequence(replace(problem, constraints=rules))
    drawn = random_alternatives(setting, np.ones(6), 500, np.random.default_rng(1))
    changed = drawn != setting.observed
    assert not changed[:, 1].any()
    assert not (changed & (drawn == 2)).any()
    assert (np.where(changed, setting.costs[drawn], 0).sum(axis=1) <= 4).all()
    assert len(np.unique(changed.sum(axis=1))) >= 4


@pytest.mark.parametrize("strategy", ["mc-lipschitz", "mc-uniform", "facility-location"])
def test_size_is_the_number_of_anchors(strategy: str) -> None:
    setting = setting_of(horizon=7, n_actions=3)
    anchors = cp.AnchorHeuristic(strategy, samples=10, size=31).anchors(setting)
    assert len(anchors) == (31 if strategy != "facility-location" else min(31, len(anchors)))
    few = cp.AnchorHeuristic(strategy, samples=50, size=3).anchors(setting)
    assert len(few) == 3


def test_facility_location_takes_the_farthest_each_time() -> None:
    setting = setting_of("linear", horizon=5)
    population = np.random.default_rng(4).normal(size=(60, 4))
    heuristic = cp.AnchorHeuristic("facility-location", size=12, population=population)
    chosen = heuristic.anchors(setting)
    # Nothing of another patient's fixed features remains.
    assert (chosen[:, 0] == setting.states[0, 0, 0]).all()
    moving = population[:, 1:]
    for i in range(1, 12):
        gaps = np.linalg.norm(moving[:, None] - chosen[None, :i, 1:], axis=2).min(axis=1)
        assert moving[gaps.argmax()] == pytest.approx(chosen[i, 1:])


def test_a_population_in_physical_units_is_scaled() -> None:
    setting = setting_of("scaled neural", horizon=5)
    population = np.random.default_rng(4).normal(size=(30, 4))
    heuristic = cp.AnchorHeuristic("facility-location", size=30, population=population)
    scaling = setting.members[0].scaling
    assert scaling is not None
    expected = scaling.encode_states(population)[:, 1:]
    found = heuristic.anchors(setting)[:, 1:]
    assert np.sort(found, axis=0) == pytest.approx(np.sort(expected, axis=0))


def test_textbook_search_counts_every_child() -> None:
    """Without rollout each expanded node adds all its children, as in Algorithm 2."""
    problem = replace(
        random_question("linear", 3, horizon=6, n_actions=3, k=1),
        constraints=cp.Constraints(),
        reward=cp.LinearReward([0.0, 1.0, 0.0, 0.0]),
    )
    solver = cp.AStar(cp.AnchorHeuristic(samples=500), batch=1, incumbent=False, rollout=False)
    found = explain(problem, solver=solver)
    assert found.value == pytest.approx(explain(problem).value, abs=1e-12)
    expanded, added = found.stats["nodes_expanded"], found.stats["nodes_added"]
    # Nodes that can still change have three children, the others one.
    assert expanded < added <= 3 * expanded
    quick = explain(problem, solver=cp.AStar(cp.AnchorHeuristic(samples=500)))
    assert quick.stats["nodes_added"] < added


def spread(population: Floats) -> object:
    heuristic = cp.AnchorHeuristic("facility-location", population=population)
    problem = random_question("linear", 0, horizon=4, n_actions=3, k=1)
    return explain(problem, solver=cp.AStar(heuristic))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cp.AnchorHeuristic("nearest"), "unknown anchor strategy 'nearest': use one of mc"),
        (lambda: cp.AnchorHeuristic(samples=0), "samples must be at least 1, got 0"),
        (lambda: cp.AnchorHeuristic(size=0), "size must be at least 1, got 0"),
        (
            lambda: cp.AnchorHeuristic("mc-uniform", population=np.zeros((2, 4))),
            "population is for facility-location, not for mc-uniform",
        ),
        (lambda: spread(np.zeros((3, 2))), "population has 2 features, states have 4"),
        (
            lambda: spread(np.full((3, 4), np.nan)),
            "population at t=0, column 0 is nan: must be",
        ),
    ],
)
def test_refuses_bad_settings(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_says_what_is_missing_without_constants() -> None:
    problem = random_question("location-scale", 0, horizon=4, n_actions=3, k=1)
    silent = cp.LocationScaleSCM(problem.scm.location, problem.scm.scale, fixed=1)
    with pytest.raises(NotApplicableError, match=r"anchors need Lipschitz constants.*lipschitz="):
        explain(replace(problem, scm=silent), solver=cp.AStar(cp.AnchorHeuristic()))
