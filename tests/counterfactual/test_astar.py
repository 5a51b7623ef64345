"""The search over sequences: exact, certified when stopped, ties, open nodes, how it went."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.core.reward import LogisticReward
from counterplan.counterfactual import (
    EpisodeReward,
    LipschitzReward,
    NoBound,
    SequenceExplanation,
    oracle,
)
from counterplan.counterfactual.continuous.astar import Pool, thinned
from counterplan.counterfactual.continuous.first_order import FirstOrder
from counterplan.counterfactual.continuous.setting import prepare_sequence
from counterplan.domains.interacting import interacting_episode
from counterplan.errors import InputError
from counterplan.scm.point import IntervalSlopes
from counterplan.testing import check_answer
from counterplan.testing.continuous import MODELS

from .sequence_support import (
    Floats,
    Stated,
    TrueValues,
    explain,
    frontier,
    has_partition,
    partition_problem,
    random_question,
)

# --- The search finds what trying every sequence finds ---

# (states, actions, budget), up to the largest that brute force can take many of
SIZES = [(2, 3, 1), (4, 3, 4), (5, 4, 2), (6, 3, 3), (8, 2, 4), (8, 3, 2), (7, 4, 1)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("seed", range(36))
def test_equals_brute_force(kind: str, seed: int) -> None:
    """216 problems: every answer is replayed, checked against its constraints and brute force."""
    horizon, n_actions, k = SIZES[seed % len(SIZES)]
    problem = random_question(kind, seed, horizon=horizon, n_actions=n_actions, k=k)
    found = explain(problem)
    assert found.status == "optimal"
    assert found.bound == found.value
    check_answer(problem, k, found)


@pytest.mark.parametrize("kind", MODELS)
def test_frontier_equals_single_answers_and_never_falls(kind: str) -> None:
    problem = random_question(kind, 7, horizon=6, n_actions=3, k=5)
    problem = replace(problem, constraints=cp.Constraints(change_costs=[2, 2, 2]))
    front = frontier(problem, 5)
    alone = [explain(problem, k).value for k in range(6)]
    assert front.values == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert (np.diff(front.values) >= 0.0).all()
    assert front.values[0] == front[0].factual_value
    assert front.values[1] == front.values[0]  # one unit pays for nothing
    assert all(one.status == "optimal" for one in front)


def test_memory_limit_turns_the_search_depth_first_and_keeps_the_optimum() -> None:
    problem = random_question("waves", 3, horizon=8, n_actions=4, k=4)
    free, tight = explain(problem), explain(problem, solver=cp.AStar(batch=4, memory=1))
    assert tight.status == "optimal"
    assert tight.value == pytest.approx(free.value, abs=1e-12)


def test_an_answer_says_which_bound_it_used() -> None:
    with_slopes = explain(random_question("neural", 0, horizon=4, n_actions=3, k=2))
    constants_only = explain(random_question("post-nonlinear", 0, horizon=4, n_actions=3, k=2))
    assert with_slopes.method == "first-order bound from slopes"
    assert constants_only.method == (
        "first-order bound from Lipschitz constants (the model states no slopes)"
    )
    problem = random_question("neural", 0, horizon=4, n_actions=3, k=2)
    anchors = explain(problem, solver=cp.AStar(cp.AnchorHeuristic(samples=3, seed=1)))
    assert anchors.method.endswith("anchors (mc-lipschitz)")
    assert explain(problem, solver=cp.AStar(NoBound())).method == "none"


def test_actions_and_the_last_state_earn_something_of_their_own() -> None:
    """s' = s + a: whether a dose pays depends on its price and on what the end is worth."""
    scm = cp.LocationScaleSCM(lambda s, a: s + a, lambda s, a: s**0, lipschitz=(1.0, 0.0))
    episode, doses = cp.Episode(np.zeros((4, 1)), [0, 0, 0]), np.array([[0.0], [1.0]])

    def best(price: Any, final: Any = ()) -> SequenceExplanation:
        reward = EpisodeReward(cp.LinearReward([1.0]), final, price)
        return cp.explain(scm, episode, 3, actions=doses, reward=reward)

    # A dose at step t counts in the 3 - t states after it.
    assert best([0.0, -1.5]).actions.tolist() == [1, 1, 0]
    assert best([0.0, -1.5]).value == pytest.approx(3.0 + 2.0 - 2 * 1.5)
    assert best([[0.0, -9.0], [0.0, 0.0], [0.0, -9.0]]).actions.tolist() == [0, 1, 0]
    assert best([0.0, -1.5], [cp.LinearReward([1.0])]).actions.tolist() == [1, 1, 1]
    chance = LogisticReward(cp.LinearReward([1.0], -2.0), 100.0)
    found = best([0.0, -4.0], [chance])
    assert found.actions.tolist() == [1, 1, 1]
    assert found.value == pytest.approx(6.0 - 12.0 + 100.0 / (1.0 + np.exp(-1.0)))
    with pytest.raises(InputError, match="what actions earn has shape"):
        best([0.0, 1.0, 2.0])
    with pytest.raises(InputError, match="up to"):
        best([0.0, np.nan])


def test_a_rewards_constant_counts_the_range_of_moving_features_only() -> None:
    problem = random_question("scaled neural", 4, horizon=6, n_actions=3, k=2)
    scm = problem.scm
    spread = scm.scaling.state_range.copy()
    spread[: scm.fixed] = 1e6
    wide = replace(scm, scaling=replace(scm.scaling, state_range=spread))
    reward = LipschitzReward(lambda states: states[:, -1], 2.0)
    setting = prepare_sequence(replace(problem, scm=wide, reward=reward))
    assert scm.fixed > 0
    assert setting.members[0].reward.remainder == pytest.approx(2.0 * spread[scm.fixed :].max())


@pytest.mark.parametrize("nodes", [1, 7, 160, 18_139, 10**9])
@pytest.mark.parametrize("horizon", [1, 12, 200])
def test_branching_factor_solves_its_equation(nodes: int, horizon: int) -> None:
    from counterplan.counterfactual.continuous.astar import branching_factor

    b = branching_factor(nodes, horizon)
    assert sum(b**power for power in range(1, horizon + 1)) == pytest.approx(nodes, rel=1e-6)


# --- Stopped early, an answer is still a sequence, and its bound still holds ---


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "limits",
    [
        *(cp.Limits(nodes=nodes) for nodes in (1, 2, 5, 20)),
        *(cp.Limits(gap=gap) for gap in (0.01, 0.3, 5.0)),
    ],
    ids=str,
)
def test_value_and_bound_enclose_the_optimum(kind: str, limits: cp.Limits) -> None:
    """The bound covers what was dropped on the way too: leaves, children and waiting nodes."""
    for seed in range(8):
        problem = random_question(kind, 200 + seed, horizon=6, n_actions=3, k=3)
        best = explain(problem).value
        for solver in (cp.AStar(batch=1, incumbent=False), cp.AStar(batch=8)):
            found = explain(problem, limits=limits, solver=solver)
            assert found.value <= best + 1e-9
            assert found.bound >= best - 1e-9
            assert found.gap == pytest.approx(found.bound - found.value)
            assert (found.status == "optimal") == (found.gap == 0.0)
            assert limits.nodes is None or found.stats["nodes_expanded"] <= limits.nodes
            assert limits.nodes is not None or found.gap <= limits.gap


@pytest.mark.parametrize("seed", range(120))
def test_a_gap_covers_everything_that_was_dropped(seed: int) -> None:
    """With bounds of any unevenness: leaves, children and waiting nodes are dropped in turn."""
    size = {"horizon": 5, "n_actions": 4, "k": 1 + seed % 4}
    problem = random_question("linear", 500 + seed, **size)
    best, rng, bound = explain(problem).value, np.random.default_rng(seed), cache(FirstOrder)

    def uneven(setting: Any, *node: Any) -> Floats:
        upper = bound(setting).upper(*node)
        return upper + np.where(rng.random(len(upper)) < 0.5, 4.0 * rng.random(len(upper)), 0.0)

    for gap in (0.1, 0.5, 1.0, 2.0):
        solver = cp.AStar(Stated(uneven), batch=1 + seed % 2, incumbent=False)
        found = explain(problem, limits=cp.Limits(gap=gap), solver=solver)
        assert found.value <= best + 1e-9
        assert best <= found.bound + 1e-9
        assert found.gap <= gap


def test_a_gap_covers_waiting_nodes_that_fell_behind() -> None:
    """The first step is worth 0, 0.2, 0.5 or 0.1. Once 0.2 is found, 0.5 is within the gap of 0.4
    and dropped while it waits; the bound must still tell of it."""
    scm = cp.AdditiveNoiseSCM(lambda states, actions: actions.copy(), lipschitz=0.0)
    promises = {0.0: 0.0, 0.2: 5.0, 0.5: 0.5, 0.1: 4.0}

    def scripted(_: Any, t: int, used: Any, states: Floats) -> Any:
        """Too much of two first steps, and the truth of a third."""
        return [promises[round(float(s), 6)] if t else 10.0 for s in states[:, 0, 0]]

    asked = {
        "actions": [[0.0], [0.2], [0.5], [0.1]],
        "reward": cp.LinearReward([1.0]),
        "constraints": cp.Constraints(fixed_steps=[1]),
        "solver": cp.AStar(Stated(scripted), batch=1, incumbent=False),
    }
    episode = cp.Episode(np.zeros((3, 1)), [0, 0])
    assert cp.explain(scm, episode, 2, **asked).value == pytest.approx(0.5)
    found = cp.explain(scm, episode, 2, limits=cp.Limits(gap=0.4), **asked)
    assert found.value == pytest.approx(0.2)
    assert found.bound == pytest.approx(0.5)
    assert found.status == "limit"


def test_no_time_at_all_still_gives_the_greedy_answer_and_a_bound() -> None:
    problem = random_question("waves", 1, horizon=8, n_actions=4, k=4)
    best = explain(problem)
    found = explain(problem, limits=cp.Limits(seconds=1e-9))
    assert found.status == "limit"
    assert found.stats["nodes_expanded"] == 0
    assert found.value == pytest.approx(explain(problem, solver=cp.baselines.Greedy()).value)
    assert found.value <= best.value <= found.bound < math.inf


def test_without_a_bound_nothing_is_promised() -> None:
    problem = random_question("waves", 1, horizon=8, n_actions=4, k=4)
    limits = cp.Limits(nodes=3)
    for solver in (cp.AStar(NoBound()), oracle.Exhaustive(batch=1)):
        found = explain(problem, limits=limits, solver=solver)
        assert (found.status, found.bound) == ("limit", math.inf)
        assert found.value >= found.factual_value


def test_a_limit_also_ends_the_preparation_of_anchors() -> None:
    """What Algorithm 1 did not reach is unbounded: the answer says that nothing is proved."""
    problem = random_question("linear", 7, horizon=6, n_actions=3, k=2)
    solver = cp.AStar(cp.AnchorHeuristic("mc-uniform", samples=50))
    found = explain(problem, limits=cp.Limits(seconds=1e-6), solver=solver)
    assert found.status == "limit"
    assert found.bound == math.inf
    assert found.value <= explain(problem).value + 1e-9


# --- While the first-order bound is prepared ---------------------------------------------------


class Counted(cp.AdditiveNoiseSCM):
    """s' = s / 2 + a + u, counting how often its slopes are asked for."""

    def __init__(self, lipschitz: float | None) -> None:
        super().__init__(lambda s, a: 0.5 * s + a, lipschitz)
        self.asked = 0

    def slopes(self, region: Any, actions: Any, noise: Any) -> IntervalSlopes:
        self.asked += 1
        jacobian = np.repeat(0.5 * np.eye(2)[None], len(actions), axis=0)
        return IntervalSlopes(jacobian, np.zeros_like(jacobian))


def many_amounts(lipschitz: float | None) -> Problem:
    """12 doses whose costs add up to thousands of different amounts."""
    rng = np.random.default_rng(0)
    return Problem(
        Counted(lipschitz),
        cp.Episode(rng.normal(size=(10, 2)), np.zeros(9, dtype=int)),
        3000,
        cp.Constraints(change_costs=rng.integers(1, 1000, size=12)),
        actions=rng.normal(size=(12, 2)),
        reward=cp.LinearReward([1.0, -0.5]),
    )


def test_slopes_are_asked_for_a_bounded_number_of_times() -> None:
    problem = many_amounts(0.5)
    found = explain(problem, limits=cp.Limits(nodes=1))
    assert 9 < problem.scm.asked <= 9 * 32
    assert found.bound < math.inf
    assert found.method == "first-order bound from slopes"


def test_amounts_are_told_apart_exactly_where_there_are_few() -> None:
    """One level for each change made, as long as an episode may reasonably be."""
    problem = random_question("linear", 1, horizon=40, n_actions=3, k=39)
    levels = prepare_sequence(replace(problem, constraints=cp.Constraints())).levels
    assert levels.first.tolist() == levels.last.tolist() == list(range(40))
    costs = cp.Constraints(change_costs=[3, 10**9, 5 * 10**9])
    few = prepare_sequence(replace(problem, k=10**10, constraints=costs)).levels
    assert len(few.first) == 32
    assert few.first[0] == 0
    assert few.last[-1] == 10**10
    assert (few.first[1:] == few.last[:-1] + 1).all()


def test_after_the_deadline_constants_stand_in_for_slopes() -> None:
    problem = many_amounts(0.5)
    found = explain(problem, limits=cp.Limits(seconds=1e-9))
    assert problem.scm.asked == 1
    assert found.status == "limit"
    assert found.value <= found.bound < math.inf
    later = "first-order bound from slopes, later Lipschitz constants for lack of time"
    assert found.method == later


def test_after_the_deadline_nothing_is_promised_without_constants() -> None:
    problem = many_amounts(None)
    found = explain(problem, limits=cp.Limits(seconds=1e-9))
    assert problem.scm.asked <= 2  # whether there are slopes at all, and the first step
    assert found.status == "limit"
    assert found.bound == math.inf
    assert found.method == "first-order bound, not finished in time"
    small = replace(problem, k=600, limits=cp.Limits(seconds=1e-9))
    fronts = cp.AStar().frontier(small)
    assert all(one.bound == math.inf for one in fronts if one.status == "limit")


@pytest.mark.parametrize("kind", MODELS)
def test_a_late_bound_still_holds(kind: str) -> None:
    for seed in range(4):
        problem = random_question(kind, 250 + seed, horizon=6, n_actions=3, k=3)
        setting = prepare_sequence(problem)
        TrueValues(setting).check(FirstOrder(setting, deadline=-math.inf))


# --- Rounding is no reason for a change: ties keep what was done, or change less ---

STATES = np.random.default_rng(0).normal(size=(5, 2))
EXACT = {
    "search": cp.AStar(),
    "textbook": cp.AStar(batch=1, incumbent=False, rollout=False),
    "no greedy start": cp.AStar(incumbent=False),
    "anchors": cp.AStar(cp.AnchorHeuristic(samples=20)),
    "no bound": cp.AStar(NoBound()),
    "everything": oracle.Exhaustive(),
}
TIED = {**EXACT, "top-k": cp.baselines.TopK(), "greedy": cp.baselines.Greedy()}


def ask(location: Any, k: int, solver: Any, states: Floats = STATES, **asked: Any) -> Any:
    scm = cp.AdditiveNoiseSCM(location, lipschitz=0.9 * (1.0 + 1e-12))
    question = {"actions": np.eye(2), "reward": cp.LinearReward([1.0, 1.0]), **asked}
    return cp.explain(scm, cp.Episode(states, [0] * 4), k, solver=solver, **question)


def either(states: Floats, actions: Floats) -> Floats:
    """Whatever feature a dose goes into, it is worth the same."""
    return 0.9 * states + actions


@pytest.mark.parametrize("solver", TIED.values(), ids=TIED)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_equivalent_actions_are_never_exchanged(solver: Any, unit: float, shift: float) -> None:
    """Also where large terms cancel, and in any unit of the outcome."""
    reward = cp.LinearReward([unit, unit], -2.0 * shift * unit)
    found = ask(either, 4, solver, reward=reward, states=STATES + shift)
    assert abs(found.value) < 10.0 * unit
    assert found.changes == ()
    assert len(set(found.history[:, 1])) <= 1, "nor in passing"
    assert found.improvement == 0.0
    assert found.status == "heuristic" or (found.status, found.gap) == ("optimal", 0.0)


@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize(("since", "k"), [(1, 4), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4)])
def test_no_change_comes_along_that_brings_nothing(solver: Any, since: int, k: int) -> None:
    """Only later on does the other action count for more: the budget is not spent, not even where
    changes are tried before what was done."""

    class Late(cp.AdditiveNoiseSCM):
        def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
            counts = np.where(noise[:, 2:] > 0.5, 1.0, 0.0)
            moved = 0.9 * states[:, :1] + (actions[:, :1] + (1.0 + counts) * actions[:, 1:])
            return np.concatenate([moved + noise[:, :1], states[:, 1:] + noise[:, 1:2]], axis=1)

        def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
            clock = (states[:, 1:] >= since).astype(float)
            blank = np.concatenate([np.zeros((len(states), 2)), clock], axis=1)
            return np.concatenate([after - self.step(states, actions, blank), clock], axis=1)

    states = np.column_stack([STATES[:, 0], np.arange(5.0)])
    asked = {"actions": np.eye(2)[::-1], "reward": cp.LinearReward([1.0, 0.0]), "solver": solver}
    found = cp.explain(Late(either, lipschitz=1.0), cp.Episode(states, [1] * 4), k, **asked)
    assert [change.t for change in found.changes] == list(range(since, 4))
    assert (found.status, found.gap) == ("optimal", 0.0)


@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_a_small_gain_that_is_none_of_rounding_is_taken(solver: Any, unit: float) -> None:
    reward = cp.LinearReward([unit, unit * (1.0 + 1e-9)])
    found = ask(either, 4, solver, reward=reward)
    assert len(found.changes) == 4
    assert 0.0 < found.improvement < 2e-8 * unit


def test_simplified_drops_what_brings_nothing_and_nothing_else() -> None:
    problem = random_question("neural", 3, horizon=7, n_actions=4, k=4)
    setting = prepare_sequence(problem)
    best = explain(problem).actions
    assert np.array_equal(setting.simplified(best), best)
    vectors = np.asarray(problem.actions, dtype=float)
    double = np.concatenate([vectors, vectors], axis=-2)  # each action twice
    twins = prepare_sequence(replace(problem, actions=double, constraints=cp.Constraints()))
    every = twins.observed + 4
    assert np.array_equal(twins.simplified(every), twins.observed)


def test_nothing_is_searched_for_the_sake_of_rounding() -> None:
    """A bound that promises rounding only is as good as none better."""

    def as_observed(setting: Any, t: int, used: Any, states: Floats) -> Any:
        kept = np.repeat(setting.observed[None, t:], len(states), axis=0)
        return setting.ends(t, states, kept) + 1e-12

    found = ask(either, 4, cp.AStar(Stated(as_observed), incumbent=False))
    assert found.stats["nodes_expanded"] == 0
    assert (found.status, found.gap) == ("optimal", 0.0)


# --- The paper's NP-hard family (Theorem 4): the search decides the partition problem ---

YES = [[1, 1], [3, 1, 1, 2, 2, 1], [4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7], [8, 7, 6, 5, 4, 2, 2, 2]]
NO = [[1], [1, 2, 4], [3, 3, 3, 5], [2, 2, 2, 2, 2], [1, 1, 1, 1, 20], [6, 10, 15, 2, 1, 1, 48]]


@pytest.mark.parametrize("sloped", [False, True])
@pytest.mark.parametrize("numbers", YES + NO, ids=str)
def test_decides_partition(numbers: list[int], sloped: bool) -> None:
    assert has_partition(numbers) == (numbers in YES)
    problem = partition_problem(numbers, sloped)
    found = explain(problem)
    assert found.status == "optimal"
    assert (found.value == 0.0) == (numbers in YES)
    kept = sum(n for n, a in zip(numbers, found.actions, strict=True) if a == 0)
    assert found.value == -abs(kept - sum(numbers) / 2)


@pytest.mark.parametrize("seed", range(25))
def test_random_instances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [int(n) for n in rng.integers(1, 40, size=int(rng.integers(3, 10)))]
    problem = partition_problem(numbers, sloped=bool(seed % 2))
    best = oracle.best_sequence(
        problem.scm, problem.episode, problem.k, actions=problem.actions, reward=problem.reward
    )
    found = explain(problem)
    assert found.value == pytest.approx(best.value, abs=1e-9)
    assert (found.value == 0.0) == has_partition(numbers)


def test_the_papers_constant_of_the_reward_is_too_small() -> None:
    """Where only one term counts, the reward falls by sqrt(1 + (sum/2)^2) per unit of distance."""
    problem = partition_problem([3, 5, 4])
    half = 6.0
    direction = np.array([1.0, -half]) / np.hypot(1.0, half)
    start = np.array([20.0, 0.0])
    values = problem.reward(np.stack([start, start + direction]))
    slope = values[0] - values[1]
    assert slope == pytest.approx(np.hypot(1.0, half))
    assert slope > 2.0 * np.sqrt(1.0 + half)
    assert slope <= problem.reward.remainder


# --- The pool of open nodes against a plain sorted list ---

# Few distinct promises, so that ties are common.
PROMISES = st.lists(st.integers(0, 9), max_size=12)


def nodes(promises: list[int], first: int) -> Any:
    """Nodes whose `used` is a number of their own, to be known by."""
    found = np.zeros(len(promises), [("used", np.int64), ("promise", np.float64)])
    found["used"], found["promise"] = np.arange(first, first + len(promises)), promises
    return found


@given(
    st.lists(
        st.one_of(PROMISES, st.tuples(st.integers(1, 7), st.integers(-1, 8))),
        max_size=40,
    )
)
def test_takes_the_most_promising_and_loses_none(calls: list[list[int] | tuple[int, int]]) -> None:
    pool, held, named = Pool(), {}, 0
    for call in calls:
        if isinstance(call, list):
            pool.push(nodes(call, named))
            held |= {named + i: float(promise) for i, promise in enumerate(call)}
            named += len(call)
        elif held:
            count, above = call
            taken, dropped = pool.pop(count, above)
            below = [promise for promise in held.values() if promise <= above]
            assert dropped == max(below, default=-math.inf)
            held = {name: promise for name, promise in held.items() if promise > above}
            best = sorted(held.values(), reverse=True)[:count]
            assert sorted(taken["promise"], reverse=True) == best
            for name, promise in taken[["used", "promise"]]:
                assert held.pop(int(name)) == promise
        assert len(pool) == len(held)
        assert pool.largest == max(held.values(), default=-math.inf)


# --- The record of a search stays short, and keeps what matters ---


@given(st.integers(1, 2_000), st.integers(8, 64), st.integers(0, 2**32))
def test_a_long_search_is_thinned(moments: int, longest: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    expanded = np.cumsum(rng.integers(1, 9, moments))
    jumps = rng.choice(moments, size=min(moments, 3), replace=False)
    values = np.cumsum(np.isin(np.arange(moments), jumps)).astype(float)
    every = np.column_stack([expanded, values, 10.0 + np.sort(rng.random(moments))[::-1]])
    # What is known later about the same nodes counts.
    kept = thinned(np.concatenate([every[:1] * [1.0, 1.0, 2.0], every]), longest)
    assert len(kept) <= longest + 3
    assert {tuple(row) for row in kept} <= {tuple(row) for row in every}
    places = np.searchsorted(expanded, kept[:, 0])
    assert (places[0], places[-1]) == (0, moments - 1)
    assert {*jumps[jumps > 0]} <= {*places}, "improvements are kept"
    assert 0 < np.diff(places).min(initial=1) <= np.diff(places).max(initial=1)
    assert np.diff(places).max(initial=1) <= 1 + moments // (longest - 1), "no gap is long"


def test_a_search_is_recorded_from_its_start_to_its_proof() -> None:
    problem = interacting_episode(seed=0, horizon=10)
    asked = {"actions": problem.actions, "reward": problem.reward}
    solver = cp.AStar(batch=1, incumbent=False)
    found = cp.explain(problem.scm, problem.episode, 2, solver=solver, **asked)
    nodes, values, bounds = found.history.T
    assert nodes[0] == 0
    assert values[0] == found.factual_value
    assert nodes[-1] == found.stats["nodes_expanded"]
    assert values[-1] == bounds[-1]
    assert (np.diff(bounds) <= 0.0).all()
    # The value is that of the sequence replayed, in another order of sums.
    assert (bounds >= found.value - 1e-12).all()
