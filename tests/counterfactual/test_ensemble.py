"""The best sequence over many models, against trying every sequence with every member."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual.continuous.claims import TOLERATED
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.setting import (
    SequenceSetting,
    prepare_sequence,
    worst_mean,
    worst_weights,
)
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm import PointSCM
from counterplan.scm.cosine import CosineNetwork, spread_of

from .sequence_support import random_question

KINDS = ("linear", "neural")


@dataclass(eq=False)
class Together(PointSCM):
    """Some models as the members of one, which itself is the first."""

    members: tuple[Any, ...]

    def infer(self, states: Any, actions: Any, after: Any) -> Any:
        return self.members[0].infer(states, actions, after)

    def step(self, states: Any, actions: Any, noise: Any) -> Any:
        return self.members[0].step(states, actions, noise)


def question(kind: str, seed: int, count: int = 3, **size: int) -> Problem:
    """A problem about several models of a kind."""
    size = {"horizon": 5, "n_actions": 3, "k": 2, **size}
    every = [random_question(kind, seed + 100 * one, **size) for one in range(count)]
    problem = every[0]
    return Problem(
        Together(tuple(one.scm for one in every)),
        problem.episode,
        problem.k,
        problem.constraints,
        actions=problem.actions,
        reward=problem.reward,
        risk=0.5,
    )


def every_sequence(setting: SequenceSetting) -> Any:
    options = [np.flatnonzero(row) for row in setting.allowed]
    every = np.array(list(itertools.product(*options)))
    price = np.where(every == setting.observed, 0, setting.costs[every])
    return every[price.sum(axis=1) <= setting.k]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.4, 0.1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_no_sequence_has_a_better_mean_over_its_worst_members(
    kind: str, seed: int, share: float
) -> None:
    problem = question(kind, seed)
    found = cp.explain(
        problem.scm, problem.episode, problem.k, risk=share, actions=problem.actions,
        reward=problem.reward, constraints=problem.constraints,
    )  # fmt: skip
    setting = prepare_sequence(problem)
    sequences = every_sequence(setting)
    outcomes = setting.outcomes_by_member(sequences)
    best = worst_mean(outcomes, share).max()
    assert found.status == "optimal"
    assert found.value == pytest.approx(best, abs=1e-9)
    ours: Any = found
    assert worst_mean(ours.outcomes, share) == pytest.approx(best, abs=1e-9)
    assert ours.improvement == pytest.approx(ours.outcomes.mean() - found.factual_value)
    assert ours.interval.low <= ours.interval.high
    assert 0.0 <= ours.harm <= 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_at_every_node(kind: str, seed: int) -> None:
    problem = question(kind, seed)
    whole = prepare_sequence(problem)
    setting = whole.narrowed(whole.observed)
    bound = FirstOrder(setting)
    sequences = every_sequence(setting)
    values = setting.outcomes(sequences)
    assert (values >= whole.outcomes(sequences) - 1e-9).all()
    start = np.repeat(setting.states[:1], len(sequences), axis=0)
    paths = setting.path(0, start, sequences)
    price = np.where(sequences == setting.observed, 0, setting.costs[sequences])
    for t in range(setting.horizon):
        spent = price[:, :t].sum(axis=1)
        earned = setting.bonus[np.arange(t), sequences[:, :t]].sum(axis=1)
        earned = earned + sum(setting.reward(paths[:, u]) for u in range(t))
        promise = earned + bound.upper(t, spent, paths[:, t])
        assert (promise >= values - 1e-9).all()


def test_what_changes_nothing_brings_nothing() -> None:
    problem = question("neural", 1)
    found: Any = cp.explain(
        problem.scm, problem.episode, 0, actions=problem.actions, reward=problem.reward
    )
    assert (found.improvement, found.interval, found.harm) == (0.0, (0.0, 0.0), 0.0)


def test_a_single_member_is_the_model_alone() -> None:
    problem = question("neural", 1, count=1)
    options: dict[str, Any] = {"actions": problem.actions, "reward": problem.reward}
    alone = cp.explain(problem.scm.members[0], problem.episode, 2, **options)
    together = cp.explain(problem.scm, problem.episode, 2, **options)
    assert together.value == pytest.approx(alone.value, abs=1e-9)
    assert together.actions.tolist() == alone.actions.tolist()
    same = cp.explain(problem.scm, problem.episode, 2, risk=1, **options)
    assert same.value == pytest.approx(alone.value, abs=1e-9)


def test_frontiers_baselines_and_plans_by_hand_know_members() -> None:
    problem = question("neural", 2)
    options: dict[str, Any] = {"actions": problem.actions, "reward": problem.reward, "risk": 0.4}
    every = cp.frontier(problem.scm, problem.episode, 2, **options)
    assert [one.value for one in every] == sorted(one.value for one in every)
    best = cp.explain(problem.scm, problem.episode, 2, **options)
    assert every[2].value == pytest.approx(best.value, abs=1e-9)
    greedy = cp.explain(problem.scm, problem.episode, 2, solver=cp.baselines.Greedy(), **options)
    assert greedy.value <= best.value + 1e-9
    again: Any = cp.replay(
        problem.scm,
        problem.episode,
        {change.t: change.alternative for change in best.changes},
        actions=problem.actions,
        reward=problem.reward,
    )
    assert again.outcomes == pytest.approx(best.outcomes)
    assert again.harm == best.harm
    assert best.member_states.mean(axis=0) == pytest.approx(best.states)


def test_weights_of_the_worst() -> None:
    values = np.array([3.0, 1.0, 2.0, 9.0])
    assert worst_mean(values, 0.25) == 1.0
    assert worst_mean(values, 0.5) == 1.5
    assert worst_mean(values, 0.375) == pytest.approx((1.0 + 0.5 * 2.0) / 1.5)
    assert worst_mean(values, 1.0) == pytest.approx(values.mean())
    for share in (0.1, 0.3, 0.8):
        assert worst_weights(values, share) @ values == pytest.approx(worst_mean(values, share))


def test_mistakes() -> None:
    problem = question("linear", 0)
    options: dict[str, Any] = {"actions": problem.actions, "reward": problem.reward}
    with pytest.raises(InputError, match="risk is 2: expected a share of members above 0"):
        cp.explain(problem.scm, problem.episode, 1, risk=2, **options)
    with pytest.raises(InputError, match="risk= is for models with members"):
        cp.explain(problem.scm.members[0], problem.episode, 1, risk=1, **options)
    solver = cp.AStar(cp.AnchorHeuristic(samples=3))
    with pytest.raises(NotApplicableError, match="anchors are for one model"):
        cp.explain(problem.scm, problem.episode, 1, solver=solver, **options)


# --- How sure a claim is ------------------------------------------------------------------------


def by_hand(lean: float) -> cp.SmoothSCM:
    """s' = s + a + phi u with two members, s' = s + (1 -+ 0.1) a + phi u; phi depends on the
    action where `lean` is not 0; effects may be off by half."""

    def network(slope: float, on_action: float, constant: float) -> CosineNetwork:
        return CosineNetwork(
            state=np.zeros((0, 1)), bias=np.zeros(0), action=np.zeros((0, 1)),
            output=np.zeros((1, 0)), output_bias=np.array([constant]),
            skip=np.array([[slope]]), action_skip=np.array([[on_action]]),
        )  # fmt: skip

    draws = np.array([[[1.0, 0.9, 0.0]], [[1.0, 1.1, 0.0]]])
    location, scale = network(1.0, 1.0, 0.0), network(0.0, lean, 0.0)
    return cp.SmoothSCM(location, scale, np.eye(1), draws=draws, form=np.array([0.5]))


@pytest.mark.parametrize("lean", [0.0, 0.1, 2.0])
def test_the_spread_of_a_claim(lean: float) -> None:
    scm, episode = by_hand(lean), cp.Episode(np.array([[0.0], [0.3], [0.2]]), [0, 0])
    asked: dict[str, Any] = {"actions": [[0.0], [1.0]], "reward": cp.LinearReward([1.0])}
    found: Any = cp.replay(scm, episode, {0: 1}, **asked)
    observed, new = spread_of(np.array([0.0, lean]))
    rho = min(1.0, TOLERATED * observed / new)
    # Members: 2 (0.9 or 1.1), but noise that was observed is scaled anew.
    noise = 0.3 / observed
    luck = 2 * (new - observed) * noise
    assert found.outcomes - found.factual_value == pytest.approx(
        np.array([1.8, 2.2]) + luck, abs=1e-9
    )
    moved = (1 - rho) ** 2 * noise**2 + 1 - rho**2
    expected = 1.5 * 0.08 + (0.5 * (2 + luck)) ** 2 + (2 * new) ** 2 * moved
    assert found.spread**2 == pytest.approx(expected, abs=1e-9)
    half = stats.t(1).ppf(0.95) * found.spread
    assert found.interval == pytest.approx((2 + luck - half, 2 + luck + half), abs=1e-9)
    assert found.harm == pytest.approx(stats.t(1).cdf(-(2 + luck) / found.spread), abs=1e-9)
    same: Any = cp.replay(scm, episode, {}, **asked)
    assert (same.spread, same.harm, same.interval) == (0.0, 0.0, (0.0, 0.0))
