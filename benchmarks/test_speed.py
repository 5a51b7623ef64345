"""Timings to compare between versions: `make bench`, or pytest's --benchmark-compare.

Outside the tests' path, so `make test` does not collect it.
"""

from __future__ import annotations

from typing import Any

import pytest

import counterplan as cp
from benchmarks.problems import first_frontier
from counterplan.domains import icu_sepsis
from experiments import synthetic


@pytest.fixture(scope="module")
def paper_problem() -> tuple[cp.TabularMDP, cp.Episode]:
    process = synthetic.synthetic_process(0.4, seed=0)
    return process.mdp, process.sample_episodes(1, seed=1)[0]


@pytest.fixture(scope="module")
def sepsis_problem() -> tuple[cp.TabularMDP, cp.Episode]:
    icu = icu_sepsis.load()
    return icu.mdp, next(e for e in icu.sample_episodes(100, seed=0) if len(e) == 20)


def test_counterfactual_row(benchmark: Any, paper_problem: tuple[Any, Any]) -> None:
    mdp, episode = paper_problem
    scm = cp.GumbelMaxSCM(mdp)
    observed = (episode.states[0], episode.actions[0], episode.states[1])
    row = benchmark(scm.counterfactual_row, *observed, 3, 4)
    assert row.sum() == pytest.approx(1.0, abs=1e-12)


def test_paper_frontier(benchmark: Any, paper_problem: tuple[Any, Any]) -> None:
    frontier = benchmark(first_frontier, *paper_problem, 10)
    assert frontier[10].value > frontier[0].value


def test_sepsis_frontier(benchmark: Any, sepsis_problem: tuple[Any, Any]) -> None:
    frontier = benchmark(first_frontier, *sepsis_problem, 10)
    assert frontier[10].value > frontier[0].value


def test_sepsis_value_interval(benchmark: Any, sepsis_problem: tuple[Any, Any]) -> None:
    explanation = cp.explain(*sepsis_problem, k=3)
    interval = benchmark(cp.value_interval, *sepsis_problem, explanation)
    assert interval.low <= explanation.value <= interval.high


def test_sepsis_robust_explanation(benchmark: Any, sepsis_problem: tuple[Any, Any]) -> None:
    robust = benchmark(cp.robust_explain, *sepsis_problem, k=3)
    assert robust.value <= cp.explain(*sepsis_problem, k=3).value


def test_sample_realizations(benchmark: Any, sepsis_problem: tuple[Any, Any]) -> None:
    explanation = cp.explain(*sepsis_problem, k=3)
    realizations = benchmark(explanation.sample, 1000, seed=0)
    assert realizations.outcomes.shape == (1000,)
