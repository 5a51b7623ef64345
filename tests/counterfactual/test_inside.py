"""Alternatives stay inside the data: exact under that rule, in every solver, and as it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import baselines
from counterplan.counterfactual.continuous import astar
from counterplan.counterfactual.continuous.astar import AStar, NoBound
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.counterfactual.discrete.budget_dp import BudgetDP
from counterplan.counterfactual.oracle import Exhaustive, best_sequence, brute_force
from counterplan.counterfactual.support import NEIGHBOURS
from counterplan.errors import InputError
from counterplan.scm.learned import NeuralSCM
from counterplan.scm.support import Seen
from counterplan.testing import random_problems
from counterplan.testing.continuous import (
    neural_model,
    random_sequence_problem,
    scaled_neural_model,
)

from .sequence_support import asked_of, explain, frontier
from .test_ensemble import every_sequence, sparse_data
from .test_ensemble import question as of_members

SEEDS = range(24)


def question(seed: int, count: int = 70) -> Problem:
    """A small problem with a model that has kept data."""
    rng = np.random.default_rng(seed)
    model: NeuralSCM = (neural_model, scaled_neural_model)[seed % 2](rng)
    asked = random_sequence_problem(model, rng, horizon=5, n_actions=3, k=2)
    known = replace(model, seen=sparse_data(asked, rng, count))
    return replace(asked, scm=known)


def test_the_search_is_exact_under_the_rule() -> None:
    """Compared with trying everything in plain Python; today's filter afterwards fails this."""
    narrower = 0
    for seed in SEEDS:
        asked = question(seed)
        found, free = explain(asked), explain(asked, constraints=lifted(asked))
        best = best_sequence(asked.scm, asked.episode, asked.k, **asked_of(asked))
        assert found.status == "optimal"
        assert found.value == pytest.approx(best.value, abs=1e-9)
        assert found.support.supported
        assert "most similar" in found.rule
        assert free.rule == ""
        assert free.value >= found.value - 1e-9
        narrower += free.value > found.value + 1e-9
        everything = explain(asked, solver=Exhaustive())
        assert everything.value == pytest.approx(best.value, abs=1e-9)
    assert len(SEEDS) // 4 < narrower < len(SEEDS)


def test_trying_everything_inside_ends_where_there_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How much there is to try inside the data is estimated; where that was wrong bounds are made
    after all, and the answer is the same."""
    methods = set()
    for seed in SEEDS[:8]:
        asked = question(seed)
        best = best_sequence(asked.scm, asked.episode, asked.k, **asked_of(asked))
        for few, misjudged in ((12, 4), (12, -1)):
            monkeypatch.setattr(astar, "FEW_SEQUENCES", few)
            monkeypatch.setattr(astar, "MISJUDGED", misjudged)
            for found in (explain(asked), frontier(asked, 2)[2]):
                assert found.status == "optimal"
                assert found.value == pytest.approx(best.value, abs=1e-9)
                assert found.support.supported
                methods.add((misjudged, "every sequence is tried" in found.method))
    assert methods >= {(4, True), (-1, False)}


def lifted(asked: Problem) -> cp.Constraints:
    return replace(asked.constraints, supported=False)


def test_frontiers_are_exact_under_the_rule() -> None:
    for seed in (0, 1, 2, 3):
        asked = question(seed)
        for k, found in enumerate(frontier(asked, 3)):
            best = best_sequence(asked.scm, asked.episode, k, **asked_of(asked))
            assert found.value == pytest.approx(best.value, abs=1e-9)
            assert found.support.supported


def test_some_alternatives_are_found_inside() -> None:
    improved = [explain(question(seed)).improvement > 1e-9 for seed in SEEDS]
    assert sum(improved) > len(SEEDS) // 2


@pytest.mark.parametrize(
    "solver",
    [
        baselines.Greedy(),
        baselines.TopK(),
        baselines.Random(3),
        baselines.NoisyGreedy(3),
        AStar(NoBound(), incumbent=False, rollout=False, batch=1),
    ],
    ids=lambda solver: type(solver).__name__,
)
def test_no_solver_leaves_the_data(solver: Any) -> None:
    changed = 0
    for seed in SEEDS:
        asked = question(seed)
        found = explain(asked, solver=solver)
        assert found.support.supported
        best = best_sequence(asked.scm, asked.episode, asked.k, **asked_of(asked))
        assert found.value <= best.value + 1e-9
        changed += len(found.changes) > 0
    assert changed > 0


def test_what_was_done_needs_no_vouching() -> None:
    """Data far away vouches for nothing, and nothing changes; that is no failure."""
    asked = question(1)
    far = replace(asked.scm.seen, states=asked.scm.seen.states + np.float32(100.0))
    found = explain(replace(asked, scm=replace(asked.scm, seen=far)))
    assert found.changes == ()
    assert found.value == found.factual_value
    assert found.status == "optimal"
    assert found.support.supported
    assert explain(asked, k=0).support.supported


def test_more_cases_are_asked_for() -> None:
    """The more cases a change needs, the less is left; as brute force has it."""
    for seed in (0, 3, 5):
        asked = question(seed)
        values = []
        for least in (1, 3, 8, NEIGHBOURS + 1):
            rules = replace(asked.constraints, supported=least)
            found = explain(asked, constraints=rules)
            options = {**asked_of(asked), "constraints": rules}
            best = best_sequence(asked.scm, asked.episode, asked.k, **options)
            assert found.value == pytest.approx(best.value, abs=1e-9)
            assert found.support.least == least
            assert found.support.supported
            values.append(found.value)
        assert values == sorted(values, reverse=True)
        assert values[-1] == pytest.approx(found.factual_value)


def test_nearest_against_every_row() -> None:
    rng = np.random.default_rng(0)
    for count, D in ((1, 1), (63, 2), (64, 3), (700, 5)):
        states, actions = rng.normal(size=(count, D)), rng.integers(0, 3, (count, 2)) * 1.0
        seen = Seen(states.astype(np.float32), actions.astype(np.float32), 0.1, 0.5)
        asked = 1.5 * rng.normal(size=(40, D))
        # The second component is not chosen: whatever it was, it does not matter.
        options = np.array([[0.0, 7.0], [1.0, 7.0], [2.0, 7.0]])
        apart = np.sqrt(((asked[:, None] - seen.states[None].astype(float)) ** 2).sum(axis=2))
        nearest, taken = seen.taken(asked, options, 20)
        np.testing.assert_allclose(nearest, apart.min(axis=1))
        np.testing.assert_allclose(seen.nearest(asked), apart.min(axis=1))
        assert ((seen.nearest(asked, 0.5) <= 0.5) == (apart.min(axis=1) <= 0.5)).all()
        closest = np.argsort(apart, axis=1)[:, :20]
        expected = [np.bincount(actions[rows, 0].astype(int), minlength=3) for rows in closest]
        assert (taken == expected).all()
    beyond = np.array([[np.inf] * 5, [np.nan] * 5])
    assert not (seen.nearest(beyond) <= seen.far).any()


def test_models_without_data() -> None:
    asked = question(0)
    bare = replace(asked, scm=replace(asked.scm, seen=None))
    assert explain(bare).rule == ""
    for least in (True, 3):
        with pytest.raises(InputError, match="this one has kept none: learn it anew"):
            explain(bare, constraints=cp.Constraints(supported=least))
    with pytest.raises(InputError, match="supported"):
        explain(asked, constraints=cp.Constraints(supported=0))
    problem = random_problems(1)[0]
    with pytest.raises(InputError, match="has kept none"):
        cp.explain(problem.scm, problem.episode, 1, constraints=cp.Constraints(supported=True))
    domain = cp.domains.Bunkering(config="A", prices="independent")
    path = domain.sample_path(seed=0)
    with pytest.raises(InputError, match="has kept none"):
        cp.explain(
            domain,
            cp.Episode(path, cp.hindsight(domain, path).actions),
            1,
            constraints=cp.Constraints(supported=True),
        )


def test_policies_are_exact_under_the_rule() -> None:
    narrower = 0
    rng = np.random.default_rng(0)
    for asked in random_problems(40, seed=5):
        mdp = asked.scm if isinstance(asked.scm, cp.TabularMDP) else asked.scm.mdp
        known = mdp.with_data(visits=rng.integers(0, 6, size=mdp.row_of.shape))
        problem = Problem(known, asked.episode, asked.k, asked.constraints)
        best = brute_force(known, asked.episode, asked.k, asked.constraints)
        if best == -np.inf:
            continue
        found: Any = BudgetDP().solve(problem)
        assert found.value == pytest.approx(best, abs=1e-9)
        visits, setting = known.visits, found.process.setting
        for t in range(len(asked.episode)):
            chosen = found.process.table.actions[t, :, : setting.k + 1, 0]
            for state, left in np.argwhere(chosen != asked.episode.actions[t]):
                assert visits[state, chosen[state, left]] >= 3
        free: Any = BudgetDP().solve(replace(problem, constraints=lifted(problem)))
        assert free.value >= found.value - 1e-9
        narrower += free.value > found.value + 1e-9
        assert "same state" in found.rule
        assert free.rule == ""
    assert narrower > 2


def test_members_of_a_model_are_asked_together() -> None:
    """The mean of the members' states has to stay inside; against every sequence."""
    narrower = 0
    for seed in range(8):
        asked = of_members("neural", seed)
        asked.scm.seen = sparse_data(asked, np.random.default_rng(seed), 70)
        setting = prepare_sequence(asked)
        sequences = every_sequence(setting)
        paths = np.mean([one.trajectories(sequences) for one in setting.members], axis=0)
        assert setting.inside is not None
        fine = setting.inside.holds(sequences, setting.observed, paths)
        values = setting.outcomes(sequences)
        found: Any = AStar().solve(asked)
        assert found.value == pytest.approx(values[fine].max(), abs=1e-9)
        assert found.support.supported
        narrower += values.max() > found.value + 1e-9
    assert narrower > 0
