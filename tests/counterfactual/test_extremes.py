"""No false proof at any scale: long episodes, huge and tiny constants, states, rewards, chances.

Every answer that is called optimal is compared with competitors, which must not beat it, and every
bound with what they earn; an input that overflows is refused in one line.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import FirstOrderBound, Tightest
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.counterfactual.oracle import brute_force
from counterplan.errors import CounterplanError, InfeasibleError

from .test_ensemble import Together

KINDS = ("first-order", "anchors", "both")
MAGNITUDES = st.floats(-300.0, 300.0).map(lambda power: 10.0**power)
SCALES = st.one_of(st.sampled_from([1e-300, 1e-160, 1e-30, 1.0, 1e30, 1e99]), MAGNITUDES)


def two_drugs(constant: float) -> cp.AdditiveNoiseSCM:
    """The second drug helps only where the first came right before it."""

    def location(states: Any, actions: Any) -> Any:
        drug, primed = actions[:, 0], states[:, 0] > 0.5
        effect = np.where(primed, 1.0, 0.001)
        return np.stack([drug == 1, (drug == 2) * effect], axis=1).astype(float)

    return cp.AdditiveNoiseSCM(location, lipschitz=constant)


@pytest.mark.parametrize(
    ("T", "constant", "solver"),
    [
        *((12, constant, kind) for constant in (1e40, 1e300) for kind in KINDS),
        pytest.param(450, 5.0, "first-order", marks=pytest.mark.slow),
        pytest.param(700, 3.0, "first-order", marks=pytest.mark.slow),
        pytest.param(1800, 1.5, "first-order", marks=pytest.mark.slow),
    ],
)
def test_a_bound_that_overflows_proves_nothing(T: int, constant: float, solver: str) -> None:
    anchors = cp.AnchorHeuristic(samples=2)
    heuristic: Any = {
        "first-order": FirstOrderBound(),
        "anchors": anchors,
        "both": Tightest((FirstOrderBound(), anchors)),
    }[solver]
    episode = cp.Episode(np.zeros((T, 2)), np.zeros(T - 1, int))
    found = cp.explain(
        two_drugs(constant),
        episode,
        k=2,
        actions=np.array([[0.0], [1.0], [2.0]]),
        reward=cp.LinearReward([-0.1, 100.0]),
        solver=cp.AStar(heuristic),
        limits=cp.Limits(nodes=300 if T == 12 else 50),
    )
    assert found.bound >= 99.9
    assert found.value == pytest.approx(99.9) or found.status == "limit"


@st.composite
def sequence_problems(draw: st.DrawFn, lengths: tuple[int, ...] = (2, 3, 5, 8)) -> Problem:
    """Linear steps x' = G x + B a + u with true or generous constants, at any scale."""
    T = draw(st.sampled_from(lengths))
    D, N = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Normal numbers of any scale that an episode may have.
    scale, gain = min(draw(SCALES), 1e98), draw(st.sampled_from([0.0, 0.5, 0.999, 1.0, 1.05, 3.0]))
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0] * gain
    effects = rng.normal(size=(N, D)) * scale
    constant = max(gain, draw(st.one_of(st.just(gain), MAGNITUDES)))
    slopes = None
    if draw(st.booleans()):
        slopes = lambda region, actions: (  # noqa: E731
            np.repeat(turn[None], len(actions), axis=0),
            np.zeros((len(actions), D, D)),
        )
    scm = cp.AdditiveNoiseSCM(
        lambda s, a: s @ turn.T + effects[a[:, 0].astype(int)], lipschitz=constant, slopes=slopes
    )
    weights = rng.normal(size=D) * draw(SCALES)
    return Problem(
        scm,
        cp.Episode(rng.normal(size=(T, D)) * scale, rng.integers(0, N, T - 1)),
        k=min(draw(st.sampled_from([0, 1, 2, T])), 3 if T > 8 else T),
        actions=np.arange(float(N))[:, None],
        reward=cp.LinearReward(np.clip(weights, -1e99, 1e99)),
        limits=cp.Limits(nodes=200 if T <= 8 else 5),
    )


@settings(max_examples=150, deadline=None)
@given(problem=sequence_problems(), anchors=st.booleans())
def test_no_sequence_beats_one_that_is_called_optimal(problem: Problem, anchors: bool) -> None:
    check_sequences(problem, anchors)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(problem=sequence_problems(lengths=(200, 1000)))
def test_nor_one_of_a_long_episode(problem: Problem) -> None:
    check_sequences(problem, anchors=False)


@pytest.mark.slow
def test_nor_one_of_many_steps_of_which_all_may_change() -> None:
    T = 100
    scm = cp.AdditiveNoiseSCM(lambda s, a: 0.5 * s + a, lipschitz=0.5)
    problem = Problem(
        scm,
        cp.Episode(np.zeros((T, 1)), np.arange(T - 1) % 2),
        k=T,
        actions=np.array([[0.0], [1.0]]),
        reward=cp.LinearReward([1.0]),
        limits=cp.Limits(nodes=3),
    )
    check_sequences(problem, anchors=False)


@pytest.mark.parametrize("size", [0.3, 3.0, 30.0, 1e4, 1e30, 1e70, 1e99])
@pytest.mark.parametrize("T", [20, 60, pytest.param(1000, marks=pytest.mark.slow)])
def test_nor_one_of_networks_of_any_steepness(T: int, size: float) -> None:
    """Long enough for gains to be bounded one by one, by slopes that overflow on the way."""
    rng = np.random.default_rng(T)

    def network(size: float) -> dict[str, Any]:
        one = {"state": rng.normal(size=(4, 2)), "bias": rng.normal(size=4)}
        one |= {"action": rng.normal(size=(4, 1)), "output": size * rng.normal(size=(2, 4))}
        return {**one, "output_bias": np.zeros(2), "multiplier": 1.0}

    scm = cp.NeuralSCM.from_weights(network(size), network(0.0), 1e-3 * np.eye(2))
    actions, taken = np.array([[0.0], [1.0], [2.0]]), rng.integers(0, 3, T - 1)
    states = [np.zeros(2)]
    for action in taken:
        states.append(scm.step(states[-1][None], actions[action][None], np.zeros((1, 2)))[0])
    check_sequences(
        Problem(
            scm,
            cp.Episode(np.array(states), taken),
            k=2,
            actions=actions,
            reward=cp.LinearReward([1.0, -0.5]),
            limits=cp.Limits(nodes=200),
        ),
        anchors=False,
    )


@settings(max_examples=60, deadline=None)
@given(
    problem=sequence_problems(lengths=(2, 3, 5)),
    factors=st.lists(st.sampled_from([0.0, 1e-160, 0.5, 1.0, -2.0, 1e6]), min_size=1, max_size=3),
    share=st.sampled_from([1e-9, 0.3, 0.5, 1.0]),
)
def test_nor_one_over_the_worst_members(
    problem: Problem, factors: list[float], share: float
) -> None:
    """Members that differ by factors of their location, from the model itself to six orders."""
    first: Any = problem.scm

    def scaled(factor: float) -> cp.AdditiveNoiseSCM:
        constant = min(max(abs(factor), 1.0) * first.constants[0], 1e300)
        return cp.AdditiveNoiseSCM(lambda s, a: factor * first.location(s, a), lipschitz=constant)

    scm = Together((first, *map(scaled, factors)))
    try:
        found: Any = cp.explain(
            scm,
            problem.episode,
            problem.k,
            actions=problem.actions,
            reward=problem.reward,
            limits=problem.limits,
            risk=share,
        )
        setting: Any = prepare_sequence(replace(problem, scm=scm, risk=share))
        with np.errstate(over="ignore", invalid="ignore"):
            competitors = setting.outcomes(competing_sequences(setting))
    except CounterplanError as refusal:
        refused = ("finite", "larger units", "does not reproduce")
        assert any(words in str(refusal) for words in refused)  # noqa: PT017
        return
    assert math.isfinite(found.value)
    assert np.isfinite(found.outcomes).all()
    assert math.isfinite(found.improvement)
    assert found.interval.low <= found.interval.high
    size = max(np.abs(found.outcomes).max(), abs(found.factual_value))
    room = setting.negligible(found.value) + 1e-9 * size
    best = competitors[np.isfinite(competitors)].max(initial=-math.inf)
    assert best <= found.bound + room
    if found.status == "optimal":
        assert best <= found.value + room


def check_sequences(problem: Problem, anchors: bool) -> None:
    heuristic: Any = cp.AnchorHeuristic(samples=10) if anchors else FirstOrderBound()
    try:
        found: Any = cp.AStar(heuristic).solve(problem)
        setting = prepare_sequence(problem)
        with np.errstate(over="ignore"):
            competitors = setting.outcomes(competing_sequences(setting))
    except CounterplanError as refusal:
        refused = ("finite", "larger units", "does not reproduce")
        assert any(words in str(refusal) for words in refused)  # noqa: PT017
        return
    assert math.isfinite(found.value)
    room = setting.negligible(found.value) + 1e-9 * abs(found.value)
    best = competitors[np.isfinite(competitors)].max(initial=-math.inf)
    assert best <= found.bound + room
    if found.status == "optimal":
        assert best <= found.value + room


@st.composite
def policy_problems(draw: st.DrawFn) -> tuple[cp.TabularMDP, cp.Episode, int]:
    """Small processes with chances down to 1e-300, certain and impossible steps, rewards of any
    scale and pairs that are barred."""
    S, A, T = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
    chance = st.sampled_from([0.0, 1e-300, 1e-160, 1e-17, 1e-9, 0.25, 1.0])
    weights = np.array(draw(st.lists(chance, min_size=S * A * S, max_size=S * A * S)))
    weights = weights.reshape(S, A, S)
    weights[weights.max(axis=2) < 0.25, 0] = 1.0
    reward = st.one_of(st.just(-math.inf), st.just(0.0), SCALES.map(lambda x: min(x, 1e100)))
    signs = st.sampled_from([-1.0, 1.0])
    rewards = [draw(signs) * draw(reward) for _ in range(S * A)]
    rewards = [-math.inf if math.isinf(one) else one for one in rewards]
    mdp = cp.TabularMDP(
        weights / weights.sum(axis=2, keepdims=True), np.reshape(rewards, (S, A)).astype(float)
    )
    states, actions = [draw(st.integers(0, S - 1))], [draw(st.integers(0, A - 1))]
    for _ in range(T - 1):
        possible = np.flatnonzero(mdp.row(states[-1], actions[-1]))
        states.append(int(draw(st.sampled_from(list(possible)))))
        actions.append(draw(st.integers(0, A - 1)))
    return mdp, cp.Episode(states, actions), draw(st.sampled_from([0, 1, 2, T]))


# What was observed had a chance of 1e-300: any cap on it is a ratio of such numbers.
RAREST = (
    cp.TabularMDP(
        np.array([[[1.0, 1e-300]] * 2, [[1.0, 0.0]] * 2]),
        np.array([[0.0, -math.inf], [-math.inf, 0.0]]),
    ),
    cp.Episode([0, 0, 1], [0, 1, 1]),
    1,
)


# What was observed had a chance of 4e-9, which loses its digits where it is taken from 1.
RARE = (
    cp.TabularMDP(
        np.array([[[1.0 - 1e-9, 1e-9], [1.0 - 4e-9, 4e-9]], [[1.0, 0.0], [1.0, 0.0]]]),
        np.array([[1.0, -math.inf], [-math.inf, 0.0]]),
    ),
    cp.Episode([0, 1], [1, 0]),
    2,
)


@settings(max_examples=150, deadline=None)
@example(RAREST)
@example(RARE)
@given(policy_problems())
def test_discrete_answers_equal_brute_force(asked: tuple[cp.TabularMDP, cp.Episode, int]) -> None:
    mdp, episode, k = asked
    best = brute_force(mdp, episode, k)
    try:
        found = cp.explain(mdp, episode, k=k)
    except InfeasibleError:
        assert best == -math.inf
        return
    scale = np.abs(mdp.rewards[np.isfinite(mdp.rewards)]).max(initial=1e-300)
    assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9 * scale)
    assert found.bound == found.value
    low, high = cp.value_interval(mdp, episode, found)
    room = 1e-9 * scale
    assert low <= found.value + room or low == found.value
    assert found.value <= high + room or high == found.value
    try:
        robust = cp.robust_explain(mdp, episode, k=k)
    except InfeasibleError:
        assert low == -math.inf
        return
    assert robust.value <= best + room or robust.value == best
    assert robust.value >= low - room or robust.value == low


@pytest.mark.parametrize("rewards", [1e308, 1e300, 1.1e100, -1.1e100, math.inf, math.nan])
def test_rewards_that_sums_of_overflow_are_refused(rewards: float) -> None:
    with pytest.raises(CounterplanError, match=r"reward of state 0, action 0 .* 1e\+100"):
        cp.TabularMDP(np.ones((1, 1, 1)), [[rewards]])
    with pytest.raises(CounterplanError, match=r"final reward of state 0 .* 1e\+100"):
        cp.TabularMDP(np.ones((1, 1, 1)), [[0.0]], final_rewards=[rewards])


def test_a_long_episode_with_as_many_changes_as_steps() -> None:
    T = 3000
    mdp = cp.TabularMDP(np.array([[[0.5, 0.5]] * 2] * 2), [[0.0, 1.0], [1.0, 0.0]])
    episode = cp.Episode(np.arange(T) % 2, np.arange(T) % 2)
    found = cp.explain(mdp, episode, k=T)
    assert found.value == pytest.approx(T)
    assert found.status == "optimal"


def competing_sequences(setting: Any) -> Any:
    """All sequences of a small problem; of a large one 40 at random and every change at the
    beginning and the end."""
    T, N, k = setting.horizon, setting.n_actions, setting.k
    if N ** (T - 1) <= 2000:
        every = np.array(list(itertools.product(range(N), repeat=T - 1)), dtype=np.int64)
        return every[(every != setting.observed).sum(axis=1) <= k]
    rng = np.random.default_rng(0)
    rows = np.repeat(setting.observed[None], 40 + 4 * N, axis=0)
    for row in rows[:40]:
        steps = rng.integers(0, T - 1, size=k)
        row[steps] = rng.integers(0, N, size=k)
    for i, (t, a) in enumerate(itertools.product([0, 1, T - 3, T - 2], range(N))):
        rows[40 + i, t] = a if k else rows[40 + i, t]
    return rows
