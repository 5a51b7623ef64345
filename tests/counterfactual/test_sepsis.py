"""The real sepsis model: the search equals trying everything, and every bound holds strictly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import FirstOrderBound, Tightest, oracle
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.testing import check_scm

from .sequence_support import TrueValues, explain, sepsis_model, sepsis_problem

ANCHORS = [
    cp.AnchorHeuristic("mc-lipschitz", samples=40),
    cp.AnchorHeuristic("mc-uniform", samples=40),
    cp.AnchorHeuristic("facility-location", samples=150),
]


def check(group: str, row: int, k: int, heuristics: list[Any]) -> None:
    problem = sepsis_problem(group, row, k)
    setting = prepare_sequence(problem)
    truth = TrueValues(setting)
    for heuristic in heuristics:
        truth.check(heuristic.prepare(setting))
        found = explain(problem, solver=cp.AStar(heuristic))
        assert found.status == "optimal"
        assert found.value == pytest.approx(truth.best, abs=1e-9)
        replayed = oracle.SequenceWorld(problem).value_of(found.actions)
        assert replayed == pytest.approx(found.value, abs=1e-9)
        assert len(found.changes) <= k


@pytest.mark.parametrize(
    ("group", "row"), [*(("T12", row) for row in range(6)), ("T16", 0), ("T16", 1), ("T20", 0)]
)
def test_one_change(group: str, row: int) -> None:
    check(group, row, 1, [FirstOrderBound()])


@pytest.mark.parametrize(
    ("group", "row"), [*(("T12", row) for row in range(3)), ("T16", 2), ("T20", 1)]
)
def test_two_changes(group: str, row: int) -> None:
    check(group, row, 2, [FirstOrderBound()])


@pytest.mark.parametrize("anchors", ANCHORS, ids=lambda anchors: anchors.strategy)
@pytest.mark.parametrize(("group", "row", "k"), [("T12", 5, 2), ("T16", 3, 1), ("T20", 2, 1)])
def test_anchors(group: str, row: int, k: int, anchors: cp.AnchorHeuristic) -> None:
    check(group, row, k, [anchors, Tightest((FirstOrderBound(), anchors))])


def test_exhaustive_walks_as_many_transitions_as_there_are() -> None:
    problem = sepsis_problem("T12", 0, 2)
    found = explain(problem, solver=oracle.Exhaustive(rollout=False))
    assert found.stats["nodes_added"] == 128_315
    assert found.value == pytest.approx(explain(problem).value, abs=1e-12)


def test_the_model_is_what_it_says() -> None:
    problems = [sepsis_problem("T12", row, 1) for row in range(3)]
    for problem in problems:
        check_scm(sepsis_model(), episodes=[problem.episode], actions=problem.actions, trials=10)


def test_value_constants_are_those_of_the_paper() -> None:
    """L_0 is about 16 on these episodes, where the true gradient's norm is below 6."""
    from counterplan.counterfactual.continuous.anchors import value_constants

    setting = prepare_sequence(sepsis_problem("T12", 0, 1))
    constants = value_constants(setting)
    assert constants[-1] == pytest.approx(1.0)
    assert (np.diff(constants) < 0.0).all()
    assert 12.0 < constants[0] < 20.0
