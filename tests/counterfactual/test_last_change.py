"""The second-order bound of the last change: it holds, and searches with it find what trying
everything finds, for one model and for many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.limits import Limits
from counterplan.core.problem import Problem
from counterplan.core.reward import EpisodeReward
from counterplan.counterfactual.continuous.astar import AStar
from counterplan.counterfactual.continuous.last_change import LastChange
from counterplan.counterfactual.continuous.setting import prepare_sequence, worst_mean
from counterplan.scm.smooth import SmoothSCM
from counterplan.testing.continuous import random_sequence_problem, smooth_model

from .sequence_support import asked_of
from .test_ensemble import every_sequence
from .test_inside import sparse_data

SEEDS = st.integers(0, 10_000)


def question(seed: int, horizon: int = 6, k: int = 2) -> Problem:
    """About a model with five members, and a linear reward."""
    rng = np.random.default_rng(seed)
    model = smooth_model(rng)
    draws = model._weights + 0.1 * rng.normal(size=(5, *model._weights.shape))
    asked = random_sequence_problem(
        replace(model, draws=draws), rng, horizon=horizon, n_actions=4, k=k
    )
    reward = cp.LinearReward(rng.normal(size=asked.episode.states.shape[1]))
    final = cp.LinearReward(rng.normal(size=len(reward.weights)))
    bonus = rng.normal(size=4)
    earned = (reward, EpisodeReward(reward, final=(final,), actions=bonus))[seed % 2]
    return replace(asked, reward=earned, risk=None)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_no_end_earns_more_than_its_bound(seed: int) -> None:
    """From every state that two changes lead to, at every step after them."""
    setting = prepare_sequence(replace(question(seed, k=3), scm=question(seed).scm.members[0]))
    rng, bound, T = np.random.default_rng(seed), LastChange(setting), setting.horizon
    assert bound.finished
    sequences = np.repeat(setting.observed[None], 30, axis=0)
    steps = rng.integers(T - 1, size=(30, 2))
    sequences[np.arange(30)[:, None], steps] = rng.integers(4, size=(30, 2))
    paths = setting.path(0, np.repeat(setting.states[:1], 30, axis=0), sequences)
    for t in range(T - 1):
        rows = np.flatnonzero(steps.max(axis=1) < t)
        if not rows.size:
            continue
        nothing, may = np.full(len(rows), -np.inf), rng.random((len(rows), 4)) < 0.7
        may &= setting.allowed[t] & (np.arange(4) != setting.observed[t])
        promise = bound.upper(t, paths[rows, t], nothing, may)
        assert (promise[~may] == -np.inf).all()
        for action in range(4):
            taken = np.repeat(setting.observed[None, t:], len(rows), axis=0)
            taken[:, 0] = action
            earned = setting.earned(setting.path(t, paths[rows, t], taken), taken, t)
            assert (promise[:, action] >= earned)[may[:, action]].all()


@pytest.mark.parametrize("risk", [None, 1.0, 0.4, 0.2])
@pytest.mark.parametrize("seed", range(12))
def test_searches_find_what_trying_everything_finds(seed: int, risk: float | None) -> None:
    asked = question(seed, k=1 + seed % 3)
    if seed % 4 == 3:
        seen = sparse_data(asked, np.random.default_rng(seed), 70)
        asked = replace(asked, scm=replace(asked.scm, seen=seen))
    if risk is None:
        asked = replace(asked, scm=replace(asked.scm, draws=None))
    whole = prepare_sequence(replace(asked, risk=risk))
    sequences = every_sequence(whole)
    sequences = sequences[whole.is_inside(sequences)]
    values = whole.outcomes(sequences)
    if risk is not None:
        assert values == pytest.approx(worst_mean(whole.outcomes_by_member(sequences), risk))
    found: Any = AStar().solve(replace(asked, risk=risk))
    assert found.method.startswith("second-order bound of the last change")
    assert found.status == "optimal"
    assert found.value == pytest.approx(values.max(), abs=1e-9)
    every = AStar().frontier(replace(asked, risk=risk))
    assert every[-1].value == pytest.approx(values.max(), abs=1e-9)


def test_long_episodes_keep_to_their_time() -> None:
    """Without time there is an answer, no worse than what was done, and a gap that says so."""
    asked = replace(question(1, horizon=40, k=5), limits=Limits(seconds=1e-9))
    for risk in (None, 0.4):
        scm: SmoothSCM = asked.scm if risk else replace(asked.scm, draws=None)
        found = AStar().solve(replace(asked, scm=scm, risk=risk))
        assert found.status == "limit"
        assert found.bound >= found.value >= found.factual_value - 1e-9


def test_many_nodes_before_the_last_change_have_their_own_bound() -> None:
    asked = question(2, horizon=5, k=3)
    asked = replace(asked, scm=replace(asked.scm, draws=None))
    expected = AStar().solve(asked)
    import counterplan.counterfactual.continuous.astar as astar

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(astar, "FEW_NODES", 0)
        found = cp.explain(asked.scm, asked.episode, asked.k, **asked_of(asked))
    assert "before it first-order bound" in found.method
    assert found.value == pytest.approx(expected.value, abs=1e-9)
