"""The best sequence over many models, against trying every sequence with every member; and the
second-order bound of the last change, for one model and for many."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import counterplan as cp
from counterplan.core.limits import Limits
from counterplan.core.problem import Problem
from counterplan.core.reward import EpisodeReward
from counterplan.counterfactual.continuous import astar, last_change
from counterplan.counterfactual.continuous.claims import TOLERATED
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.last_change import LastChange
from counterplan.counterfactual.continuous.setting import (
    SequenceSetting,
    prepare_sequence,
    worst_mean,
    worst_weights,
)
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm import PointSCM
from counterplan.scm.cosine import CosineNetwork, spread_of
from counterplan.scm.support import Seen
from counterplan.testing.continuous import neural_model, random_sequence_problem, smooth_model

from .sequence_support import asked_of, random_question

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


def sparse_data(problem: Problem, rng: np.random.Generator, count: int) -> Seen:
    """Transitions around the episode; some actions hardly ever, each in some places only."""
    scaling, vectors = getattr(problem.scm, "scaling", None), np.asarray(problem.actions)
    states = rng.choice(problem.episode.states, count) + rng.normal(size=(count, 1)) * 0.8
    states = states + 0.4 * rng.normal(size=states.shape)
    listed = vectors if vectors.ndim == 2 else vectors[rng.integers(len(vectors))]
    chosen = (states[:, -1] * 3 + rng.integers(0, 2, count)).astype(int) % len(listed)
    actions = listed[chosen] + 0.01 * rng.normal(size=(count, listed.shape[1]))
    if scaling is not None:
        states, actions = scaling.encode_states(states), scaling.encode_actions(actions)
    spread = float(np.abs(states).mean())
    return Seen(states.astype(np.float32), actions.astype(np.float32), 0.2 * spread, 0.8 * spread)


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


# --- The last change ---------------------------------------------------------------------------


def smooth_question(seed: int, horizon: int = 6, k: int = 2) -> Problem:
    """About a model with five members, and a linear reward; half of them within limits."""
    rng = np.random.default_rng(seed)
    model = smooth_model(rng)
    if seed // 2 % 2:
        ends = np.random.default_rng(seed).normal(size=(len(model.noise_cholesky), 2))
        model = replace(model, limits=np.sort(np.add(ends, (-0.5, 0.5))))
    draws = model._weights + 0.1 * rng.normal(size=(5, *model._weights.shape))
    asked = random_sequence_problem(
        replace(model, draws=draws), rng, horizon=horizon, n_actions=4, k=k
    )
    reward = cp.LinearReward(rng.normal(size=asked.episode.states.shape[1]))
    final = cp.LinearReward(rng.normal(size=len(reward.weights)))
    bonus = rng.normal(size=4)
    earned = (reward, EpisodeReward(reward, final=(final,), actions=bonus))[seed % 2]
    return replace(asked, reward=earned, risk=None)


def steep_question(seed: int, **size: int) -> Problem:
    """About a network whose slopes say little, and a linear reward."""
    rng = np.random.default_rng(seed)
    model = neural_model(rng)
    steeper = replace(model.location, output=2.5 * model.location.output)
    asked = random_sequence_problem(replace(model, location=steeper), rng, n_actions=4, **size)
    weights = rng.normal(size=asked.episode.states.shape[1])
    return replace(asked, reward=cp.LinearReward(weights))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_no_sequence_earns_more_than_its_limits_allow(seed: int) -> None:
    """From every state on its way, of several models, with rewards of actions and of the end; of a
    network without limits its units have ends."""
    asked = smooth_question(4 * seed + 2 + seed % 2)
    if seed % 3 == 0:
        asked = steep_question(seed, horizon=9, k=3)
    setting = prepare_sequence(asked)
    rng, T = np.random.default_rng(seed), setting.horizon
    sequences = np.stack([rng.choice(np.flatnonzero(may), 50) for may in setting.allowed], axis=1)
    paths = setting.path(0, np.repeat(setting.states[:1], 50, axis=0), sequences)
    for t in range(T - 1):
        ahead = setting.earned(paths[:, t:], sequences[:, t:], t)
        most = setting.reward(paths[:, t]) + setting.most_ahead[t]
        assert np.isfinite(most).all()
        assert (ahead <= most).all()


def test_a_bound_that_explodes_is_no_more_than_limits_allow() -> None:
    """Slopes of 40 steps say nothing; that a state stays above 0 says something."""
    asked = steep_question(3, horizon=40, k=3)
    limits = np.tile((-1.0, 1.0), (len(asked.scm.noise_cholesky), 1))
    asked = replace(asked, scm=replace(asked.scm, limits=limits))
    weights = np.abs(asked.reward.weights)
    found = cp.explain(
        asked.scm, asked.episode, 3, actions=asked.actions, reward=asked.reward,
        limits=cp.Limits(nodes=20),
    )  # fmt: skip
    largest = np.maximum(1.0, np.abs(asked.episode.states).max(axis=0))
    assert found.value <= found.bound <= 40 * float(weights @ largest) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), worth=st.sampled_from([0, 1, 4]))
def test_no_end_earns_more_than_its_bound(seed: int, worth: int) -> None:
    """From every state that two changes lead to, at every step after them, over boxes that are cut
    down to a few states or to single ones."""
    asked = steep_question(seed, horizon=6, k=3)
    if seed % 3:
        asked = replace(smooth_question(seed, k=3), scm=smooth_question(seed).scm.members[0])
    setting = prepare_sequence(asked)
    rng, bound, T = np.random.default_rng(seed), LastChange(setting), setting.horizon
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
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(last_change, "WORTH", worth)
            promise = bound.upper(t, paths[rows, t], nothing, may)
        assert (promise[~may] == -np.inf).all()
        assert (promise[:, may.sum(axis=0) > worth] < np.inf).all()
        for action in range(4):
            taken = np.repeat(setting.observed[None, t:], len(rows), axis=0)
            taken[:, 0] = action
            earned = setting.earned(setting.path(t, paths[rows, t], taken), taken, t)
            assert (promise[:, action] >= earned)[may[:, action]].all()


@pytest.mark.parametrize("risk", [None, 1.0, 0.4, 0.2])
@pytest.mark.parametrize("seed", range(12))
def test_searches_find_what_trying_everything_finds(seed: int, risk: float | None) -> None:
    asked = smooth_question(seed, k=1 + seed % 3)
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
    found: Any = cp.AStar().solve(replace(asked, risk=risk))
    assert found.method.startswith("second-order bound of the last change")
    assert found.status == "optimal"
    assert found.value == pytest.approx(values.max(), abs=1e-9)
    every = cp.AStar().frontier(replace(asked, risk=risk))
    assert every[-1].value == pytest.approx(values.max(), abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_steep_networks_are_searched_by_their_last_change(seed: int) -> None:
    asked = steep_question(seed, horizon=7, k=1 + seed % 3)
    setting = prepare_sequence(asked)
    best = setting.outcomes(every_sequence(setting)).max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(astar, "STEEP", 0.0 if seed % 2 else 2.0)
        patch.setattr(astar, "FEW_NODES", 0 if seed % 4 > 1 else 100_000)
        found = cp.AStar().solve(asked)
        every = cp.AStar().frontier(asked)
    assert seed % 2 == 0 or found.method.startswith("second-order bound of the last change")
    assert (found.status, every[-1].status) == ("optimal", "optimal")
    assert found.value == pytest.approx(best, abs=1e-9)
    assert every[-1].value == pytest.approx(best, abs=1e-9)


def test_long_episodes_keep_to_their_time() -> None:
    """Without time there is an answer, no worse than what was done, and a gap that says so."""
    asked = replace(smooth_question(1, horizon=40, k=5), limits=Limits(seconds=1e-9))
    for risk in (None, 0.4):
        scm: cp.SmoothSCM = asked.scm if risk else replace(asked.scm, draws=None)
        found = cp.AStar().solve(replace(asked, scm=scm, risk=risk))
        assert found.status == "limit"
        assert found.bound >= found.value >= found.factual_value - 1e-9


def test_many_nodes_before_the_last_change_have_their_own_bound() -> None:
    asked = smooth_question(2, horizon=5, k=3)
    asked = replace(asked, scm=replace(asked.scm, draws=None))
    expected = cp.AStar().solve(asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(astar, "FEW_NODES", 0)
        found = cp.explain(asked.scm, asked.episode, asked.k, **asked_of(asked))
    assert "before it first-order bound" in found.method
    assert found.value == pytest.approx(expected.value, abs=1e-9)


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


def test_a_claim_at_the_end_of_a_range_is_not_sure() -> None:
    """More luck changes nothing there, less does."""
    scm = replace(by_hand(2.0), form=np.zeros(1), limits=np.array([[-9.0, 0.9]]))
    episode = cp.Episode(np.array([[0.0], [0.3], [0.2]]), [0, 0])
    asked: dict[str, Any] = {"actions": [[0.0], [1.0]], "reward": cp.LinearReward([1.0])}
    found: Any = cp.replay(scm, episode, {0: 1}, **asked)
    assert found.states[1, 0] == pytest.approx(0.9)
    assert found.spread > 1.0


@pytest.mark.parametrize("risk", [0.4, None])
def test_what_rounding_decides_is_not_proved(risk: float | None) -> None:
    """Chaotic members enlarge the last digit of a state beyond what sequences differ by: outcomes
    computed in another order are others, and no sequence is called optimal."""
    rng = np.random.default_rng(8)
    model = smooth_model(rng)
    steep = 4.0 * model._weights
    draws = steep + 0.4 * rng.normal(size=(5, *steep.shape))
    asked = random_sequence_problem(replace(model, draws=draws), rng, horizon=22, n_actions=4, k=1)
    weights = rng.normal(size=asked.episode.states.shape[1])
    asked = replace(asked, reward=cp.LinearReward(weights), risk=risk)
    if risk is None:
        asked = replace(asked, scm=asked.scm.members[0])
    setting = prepare_sequence(asked)
    sequences = np.repeat(setting.observed[None], 21 * 4, axis=0)
    sequences[np.arange(21 * 4), np.repeat(np.arange(21), 4)] = np.tile(np.arange(4), 21)
    price = np.where(sequences == setting.observed, 0, setting.costs[sequences]).sum(axis=1)
    may = setting.allowed[np.arange(21), sequences].all(axis=1) & (price <= setting.k)
    sequences = sequences[may]
    in_plain_steps = []
    for one in setting.members:
        states = [np.repeat(one.states[:1], len(sequences), axis=0)]
        for t, taken in enumerate(sequences.T):
            noise = np.repeat(one.noise[t : t + 1], len(sequences), axis=0)
            states.append(one.scm.step(states[-1], one.vectors[t, taken], noise))
        in_plain_steps.append(one.earned(np.stack(states, axis=1), sequences))
    again = setting.outcome(np.stack(in_plain_steps, axis=-1))
    assert np.abs(again - setting.outcomes(sequences)).max() > 1e-7
    found = cp.AStar().solve(asked)
    assert found.status == "limit"
    assert "rounding alone may move outcomes by" in found.method
    assert found.bound >= max(again.max(), setting.outcomes(sequences).max())
    assert found.gap < 0.01 * abs(found.value)
