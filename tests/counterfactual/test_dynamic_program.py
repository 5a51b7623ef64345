"""The budgeted dynamic program: exact against brute force, ties, constraints, limits, bars."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core import compiled
from counterplan.core.limits import Watch
from counterplan.core.problem import Problem
from counterplan.counterfactual import Frontier, oracle
from counterplan.counterfactual.discrete import dynamic_program
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import evaluate, outcome_bounds, solve
from counterplan.counterfactual.discrete.laws import Law
from counterplan.errors import InfeasibleError, InputError
from counterplan.scm import gumbel
from counterplan.testing import random_episode, random_transitions

from .support import best_policy_value, close, finite_horizon_value, random_instance

# --- The exact solver against brute force, and what must hold for every optimum ---

SEEDS = st.integers(0, 2**32 - 1)
EXACT = 1e-9


@settings(max_examples=400)
@given(SEEDS)
def test_equals_brute_force(seed: int) -> None:
    problem = random_instance(seed)
    found, best = problem.answer(), problem.best
    if found is None:
        assert best == -math.inf
        return
    assert found.value == pytest.approx(best, abs=EXACT)
    assert (found.bound, found.status, found.gap) == (found.value, "optimal", 0.0)
    # Following the policy through every history gives back its value.
    replayed = oracle.policy_value(problem.mdp, found)
    assert replayed == pytest.approx(found.value, abs=EXACT)


@given(SEEDS, st.integers(1, 4))
def test_kept_rows_change_no_digit(seed: int, slots: int) -> None:
    """With room for no transition, for some and for all of them the answers are the same, with
    values of -inf, too; asked again, when all are there, as well."""
    problem = random_instance(seed)
    cells = problem.mdp.n_states * len(problem.mdp.rows)
    found = []
    for most in (0, slots * cells, 10**6, None):
        with pytest.MonkeyPatch.context() as patch:
            if most is not None:
                patch.setattr(gumbel, "MOST_KEPT", most)
                problem.mdp.rows.__dict__.pop("_kept", None)
            with suppress(InfeasibleError):
                ask = (problem.mdp, problem.episode, problem.k)
                one = cp.explain(*ask, constraints=problem.constraints, doubt=0.3)
                path, likely = one.most_likely, one.change_probabilities().tobytes()
                told = path.states.tobytes(), path.actions.tobytes(), path.probability, likely
                found.append((one.value, one.bound, one.guaranteed, *told))
    assert all(one == found[0] for one in found)


@given(SEEDS)
def test_equals_the_best_of_all_policies(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    ask = (problem.mdp, problem.episode, min(problem.k, 2))
    best = best_policy_value(*ask, problem.constraints)
    if best is None:
        reject()
    found = cp.explain(*ask, constraints=problem.constraints)
    assert found.value == pytest.approx(best, abs=EXACT)


@given(SEEDS)
def test_one_pass_answers_every_budget(seed: int) -> None:
    problem = random_instance(seed)
    try:
        front = cp.frontier(problem.mdp, problem.episode, 4, constraints=problem.constraints)
    except InfeasibleError:
        return
    for k in range(5):
        best = oracle.brute_force(problem.mdp, problem.episode, k, problem.constraints)
        assert front[k].k == k
        assert close(front[k].value, best, EXACT)
        replayed = oracle.policy_value(problem.mdp, front[k])
        assert close(replayed, best, EXACT)
        assert k == 0 or front[k].value >= front[k - 1].value - 1e-12


@given(SEEDS)
def test_no_budget_gives_exactly_what_was_observed(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    found = cp.explain(problem.mdp, problem.episode, 0, constraints=problem.constraints)
    assert found.value == found.factual_value == problem.mdp.outcome(problem.episode)
    assert found.improvement == found.relative_improvement == 0.0
    assert found.changes == ()
    assert found.most_likely.probability == pytest.approx(1.0, abs=1e-12)
    assert found.most_likely.states.tolist() == problem.episode.states.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_without_information_it_is_plain_dynamic_programming(seed: int) -> None:
    # The observed action leads from each state to the next for certain, so what was observed says
    # nothing about the noise: every counterfactual row is the model's own.
    rng = np.random.default_rng(seed)
    S, A, T = 4, 3, 5
    transitions = random_transitions(rng, S, A)
    transitions[:, 0] = np.roll(np.eye(S), 1, axis=1)
    mdp = cp.TabularMDP(transitions, rng.normal(size=(S, A)), final_rewards=rng.normal(size=S))
    episode = cp.Episode(np.arange(T) % S, np.zeros(T, dtype=int))
    value = cp.explain(mdp, episode, T).value
    assert value == pytest.approx(finite_horizon_value(mdp, 0, T), abs=EXACT)
    assert cp.explain(mdp, episode, 10 * T).value == value


def test_what_was_observed_changes_the_answer() -> None:
    # Walking succeeds half the time and did, so staying (state 0) had poor noise: jumping, which
    # would also fail half the time, fails in one case of three. By hand: w_0 = 1, w_2 = 0,
    # D(1) = 3/2, P(0) = 1/2 * 1 / (1 * 3/2) = 1/3.
    transitions = np.zeros((3, 2, 3))
    transitions[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    transitions[1:, :] = np.eye(3)[1:, None, :]
    mdp = cp.TabularMDP(transitions, [[0.0, 0.0], [1.0, 1.0], [6.0, 6.0]])
    found = cp.explain(mdp, cp.Episode([0, 1], [0, 0]), 1)
    assert found.value == pytest.approx(4.0, abs=1e-12)
    assert found.changes == ((0, 0, 1),)
    assert found.improvement == pytest.approx(3.0, abs=1e-12)


def test_length_one_episodes_choose_the_best_reward() -> None:
    mdp = cp.TabularMDP(np.ones((1, 3, 1)), [[1.0, 4.0, 2.0]], final_rewards=[10.0])
    found = cp.explain(mdp, cp.Episode([0], [0]), 1)
    assert (found.value, found.factual_value, found.outcome_variance) == (14.0, 11.0, 0.0)
    assert found.changes == ((0, 0, 1),)
    assert found.changes_distribution().tolist() == [0.0, 1.0]
    assert found.outcome_distribution().values.tolist() == [14.0]


@pytest.mark.parametrize("k", [4, 7, 10**9, np.int64(5)])
def test_budgets_beyond_the_episode_cost_nothing(k: int) -> None:
    problem = random_instance(12, barred=False)
    T, first = len(problem.episode), int(problem.episode.states[0])
    assert T <= 4
    most, found = (cp.explain(problem.mdp, problem.episode, budget) for budget in (4, k))
    assert (found.k, found.value) == (k, most.value)
    assert found.process.setting.k <= T
    assert found.policy(0, first, 0) == most.policy(0, first, 0)
    # With all but nothing used, no more than the rest can be spent.
    assert found.policy(0, 0, int(k)) == problem.episode.actions[0]


# --- All budgets at once ---

# Every change gains 1, to action 2 it gains 1.5 for two units.
MDP = cp.TabularMDP(np.ones((1, 3, 1)), [[0.0, 1.0, 1.5]])
EPISODE = cp.Episode([0, 0, 0], [0, 0, 0])


def front(k_max: int | None = None, **given: object) -> Frontier:
    return cp.frontier(MDP, EPISODE, k_max, constraints=cp.Constraints(**given))  # type: ignore[arg-type]


def test_a_frontier_is_a_sequence_of_explanations() -> None:
    assert front().values == (0.0, 1.5, 3.0, 4.5)
    found = front(2)
    assert [one.k for one in found] == [0, 1, 2]
    assert [one.k for one in found[1:]] == [1, 2]
    assert found[-1] is found[2]
    with pytest.raises(IndexError):
        found[3]


def test_equals_single_explanations() -> None:
    found = front(7, change_costs={2: 2})
    # More than the episode is long may be needed.
    assert found.values == (0.0, 1.0, 2.0, 3.0, 3.5, 4.0, 4.5, 4.5)
    for k in range(6):
        alone = cp.explain(MDP, EPISODE, k, constraints=cp.Constraints(change_costs={2: 2}))
        assert found[k].value == alone.value
        assert found[k].changes_distribution() == pytest.approx(alone.changes_distribution())
        for t, used in product(range(3), range(k + 1)):
            assert found[k].policy(t, 0, used) == alone.policy(t, 0, used)


def test_smallest_budget_for_an_outcome() -> None:
    wanted = [-math.inf, -5.0, 1.0, 1.5, 1.6, 4.5, 4.6, math.inf]
    assert [front().smallest_k(outcome) for outcome in wanted] == [0, 0, 1, 1, 2, 3, None, None]
    with pytest.raises(InputError, match="must be a number, got nan"):
        front().smallest_k(math.nan)


def test_an_outcome_missed_by_rounding_is_reached() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[0.0, 0.1]])
    found = cp.frontier(mdp, cp.Episode([0] * 10, [0] * 10))
    assert found[8].value != 0.8
    assert (found.smallest_k(0.8), found.smallest_k(0.8 + 1e-9)) == (8, 9)


# --- Ties keep the observed action; among alternatives the lowest wins ---


def alike(rewards: list[float]) -> cp.TabularMDP:
    """Two states; actions differ in nothing but their reward."""
    return cp.TabularMDP(np.full((2, len(rewards), 2), 0.5), [rewards, rewards])


@pytest.mark.parametrize("observed", [0, 1, 2])
def test_equal_actions_are_never_exchanged(observed: int) -> None:
    # Also where rows and states differ, and in states that were not observed.
    rng = np.random.default_rng(5)
    rows, worth = rng.dirichlet(np.ones(2), size=2), rng.normal(size=2)
    same = cp.TabularMDP(np.repeat(rows[:, None], 3, axis=1), np.repeat(worth[:, None], 3, axis=1))
    for mdp in (alike([2.0, 2.0, 2.0]), same):
        found = cp.explain(mdp, cp.Episode([0, 1, 1, 0], [observed] * 4), 3)
        assert found.changes == ()
        assert found.value == found.factual_value
        places = product(range(4), range(2), range(4))
        assert {found.policy(*place) for place in places} == {observed}
        assert not found.change_probabilities().any()


@pytest.mark.parametrize(
    ("rewards", "observed", "taken"),
    [
        ([1.0, 3.0, 3.0, 2.0], 3, 1),  # the lowest of equal alternatives
        ([0.3, 0.1 + 0.2], 0, 0),  # larger by rounding alone
        ([0.3, 0.3 + 1e-9], 0, 1),  # a real gain, however small
    ],
)
def test_what_one_change_takes(rewards: list[float], observed: int, taken: int) -> None:
    found = cp.explain(alike(rewards), cp.Episode([0], [observed]), 1)
    assert found.actions.tolist() == [taken]
    assert found.value == rewards[taken]


# --- Stopped early, the answer is still a policy with its value, and the bound still holds ---


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_value_and_bound_enclose_the_optimum(seed: int, nodes: int) -> None:
    problem = random_instance(seed)
    exact, found = problem.answer(), problem.answer(limits=cp.Limits(nodes=nodes))
    best = -math.inf if exact is None else exact.value
    if found is None:
        assert best == -math.inf
        return
    assert found.value <= best + 1e-12
    assert found.bound >= best - 1e-12
    assert found.stats["nodes_expanded"] <= nodes
    assert close(oracle.policy_value(problem.mdp, found), found.value, 1e-9)
    assert close(found.outcome_mean, found.value, 1e-9)
    assert found.gap >= 0.0
    if found.status == "optimal":
        assert close(found.value, best, 1e-12)


def stopped(**limits: Any) -> Any:
    """A policy of twelve steps with 15 distinct rows each, one of them observed; the first step has
    two, those of its only state."""
    rng = np.random.default_rng(1)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(5), size=(5, 3)), rng.random((5, 3)))
    episode = cp.Episode(rng.integers(5, size=12), rng.integers(3, size=12))
    return cp.explain(mdp, episode, 3, limits=cp.Limits(**limits))


def test_no_time_at_all() -> None:
    found = stopped(seconds=1e-9)
    assert (found.status, found.stats["nodes_expanded"]) == ("limit", 0)
    # Only the last step was solved: keep everything before.
    assert found.factual_value <= found.value <= stopped().value <= found.bound
    assert all(change.t == 11 for change in found.changes)
    assert found.gap == found.bound - found.value > 0.0


@pytest.mark.parametrize("nodes", [13, 14, 41, 42, 141, 142])
def test_a_step_is_solved_whole_or_not_at_all(nodes: int) -> None:
    found = stopped(nodes=nodes)
    assert found.stats["nodes_expanded"] == (142 if nodes == 142 else nodes // 14 * 14)
    assert (found.status == "optimal") == (nodes == 10 * 14 + 2)
    assert found.status == "limit" or found.value == stopped().value


def test_a_gap_that_is_good_enough_stops_the_pass() -> None:
    tightest = stopped(nodes=14 * 10).gap
    found = stopped(gap=tightest + 1e-6)
    assert found.status == "limit"
    assert 0.0 < found.gap <= tightest + 1e-6
    assert stopped(gap=1e-6).status == "optimal"


def test_stopping_before_a_barred_step_is_not_called_infeasible() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), [[-np.inf, 1.0], [0.0, 1.0]])
    episode = cp.Episode([0, 1, 0], [0, 0, 1])
    found = cp.explain(mdp, episode, 2, limits=cp.Limits(nodes=1))
    assert found.value == found.factual_value == -math.inf
    assert found.bound >= cp.explain(mdp, episode, 2).value == 3.0
    assert found.gap == math.inf


def test_a_gap_limit_meets_minus_infinity_quietly() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[-np.inf, 1.0]])
    limits = cp.Limits(gap=0.5)
    found = cp.frontier(mdp, cp.Episode([0, 0, 0], [0, 0, 0]), 3, limits=limits)
    assert found[3].value == 3.0
    constraints = cp.Constraints(forbidden=[(0, 1)])
    with pytest.raises(InfeasibleError):
        cp.explain(mdp, cp.Episode([0, 0], [1, 1]), 2, limits=limits, constraints=constraints)


# --- Each constraint by itself, on problems small enough to see the answer ---

# One state; action a earns a: without constraints every step is changed to action 3.
REWARDS = [[0.0, 1.0, 2.0, 3.0]]
ONE_STATE = cp.TabularMDP(np.ones((1, 4, 1)), REWARDS)


def actions(k: int, mdp: cp.TabularMDP = ONE_STATE, **given: object) -> list[int]:
    constraints = cp.Constraints(**given)  # type: ignore[arg-type]
    found = cp.explain(mdp, EPISODE, k, constraints=constraints)
    assert found.value == sum(found.most_likely.actions)
    return found.most_likely.actions.tolist()


ADMITTED = cp.TabularMDP(np.ones((1, 4, 1)), REWARDS, admissible=[[False, True, True, False]])


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, [3, 3, 3]),
        ({"allowed": [True, True, True, False]}, [2, 2, 2]),
        ({"allowed": {0: [1], 2: []}}, [1, 3, 0]),
        ({"fixed_steps": [0, -1]}, [0, 3, 0]),
        ({"forbidden": [(0, 3)]}, [2, 2, 2]),
        ({"forbidden": [(0, 0), (0, 2), (0, 3)]}, [1, 1, 1]),
        ({"mdp": ADMITTED}, [2, 2, 2]),  # binds alternatives, not what was done
    ],
)
def test_each_constraint_alone(rules: dict[str, Any], expected: list[int]) -> None:
    assert actions(3, **rules) == expected


def test_keeping_what_is_forbidden_is_not_possible() -> None:
    with pytest.raises(InfeasibleError) as caught:
        actions(2, forbidden=[(0, 0)])
    assert str(caught.value) == (
        "the episode: no policy with k=2 avoids a barred pair; the observed (state 0, action 0) "
        "at t=0 is forbidden: raise k, or free the step"
    )
    with pytest.raises(InfeasibleError, match="no policy with k=3 avoids a barred pair"):
        actions(3, forbidden=[(0, 0)], fixed_steps=[1])
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[-np.inf, -np.inf]])
    with pytest.raises(InfeasibleError, match="at t=0 is of reward -inf: raise k"):
        cp.explain(mdp, cp.Episode([0], [0]), 1)
    names = {"state_labels": ["ill"], "action_labels": ["wait", "treat"]}
    named = cp.TabularMDP(np.ones((1, 2, 1)), [[-np.inf, -np.inf]], **names)
    with pytest.raises(InfeasibleError, match=r"\(state ill, action wait\) at t=0"):
        cp.explain(named, cp.Episode([0], [0]), 1)


# With one unit a change to 2; two of them beat one change to 3 for two units.
@pytest.mark.parametrize(
    ("k", "earned"), [(0, 0), (1, 2), (2, 4), (3, 6), (4, 7), (6, 9), (100, 9)]
)
def test_change_costs_are_paid_from_the_budget(k: int, earned: int) -> None:
    assert sum(actions(k, change_costs={3: 2})) == earned


# --- Pairs that must not occur never turn into nan, whatever is asked ---

INF = math.inf


@settings(max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(
        [None, cp.baselines.Greedy(), cp.baselines.Random(), cp.baselines.NoisyGreedy()]
    ),
)
def test_nothing_is_ever_nan(seed: int, solver: Any) -> None:
    problem = random_instance(seed)
    found = problem.answer(solver=solver)
    if found is None:
        return
    certified = found.probability_better()
    numbers = [
        *(found.value, found.factual_value, found.bound, found.gap),
        *(found.improvement, found.relative_improvement),
        *(found.outcome_mean, found.outcome_variance, found.most_likely.probability),
        *(certified.value, certified.low, certified.high),
        *found.change_probabilities().ravel(),
        *found.changes_distribution(),
        *found.sample(20).outcomes,
    ]
    for stability in (False, True):
        interval = cp.value_interval(problem.mdp, problem.episode, found, stability)
        numbers += [interval.low, interval.high, interval.width]
        assert interval.low <= interval.high
    assert INF not in (found.value, found.factual_value, found.outcome_mean)
    with suppress(InfeasibleError):
        asked = (problem.mdp, problem.episode, problem.k)
        robust = cp.robust_explain(*asked, constraints=problem.constraints)
        numbers += [robust.value, robust.outcome_mean, robust.outcome_variance]
    assert not np.isnan(numbers).any()


def risky() -> tuple[cp.TabularMDP, cp.Episode]:
    """Changing the first action earns more, but may lead to state 2, which is barred."""
    transitions = np.zeros((3, 2, 3))
    transitions[:, 0] = [0.5, 0.5, 0.0]
    transitions[:, 1] = [0.0, 0.5, 0.5]
    rewards = np.array([[0.0, 9.0], [0.0, 9.0], [-INF, -INF]])
    return cp.TabularMDP(transitions, rewards), cp.Episode([0, 1], [0, 0])


def test_an_outcome_of_minus_infinity_is_reported_as_such() -> None:
    mdp, episode = risky()
    best = cp.explain(mdp, episode, 2)
    assert (best.changes, best.value) == (((1, 0, 1),), 9.0), "such a chance is never worth it"
    found = cp.explain(mdp, episode, 2, solver=cp.baselines.Random())
    # Change at t = 0 with probability 1/2; w_2 = 0, w_1 = 1, w_o = 1: P(2) = 1/2 * 1 / (3/2) = 1/3.
    values, probabilities = found.outcome_distribution()
    assert values.tolist() == [-INF, 0.0, 9.0, 18.0]
    assert probabilities == pytest.approx([1 / 6, 1 / 4, 1 / 4 + 1 / 6, 1 / 6], abs=1e-12)
    assert found.value == found.outcome_mean == -INF
    assert found.outcome_variance == INF
    assert found.probability_better().value == pytest.approx(7 / 12, abs=1e-12)
    assert found.improvement == found.relative_improvement == -INF
    assert (found.sample(600).outcomes == -INF).mean() == pytest.approx(1 / 6, abs=0.08)


def test_a_forbidden_observation_still_counts_as_what_was_earned() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[5.0, 3.0]])
    found = cp.explain(mdp, cp.Episode([0], [0]), 1, constraints=cp.Constraints(forbidden=[(0, 0)]))
    assert (found.value, found.factual_value) == (3.0, 5.0)
    assert found.probability_better().value == 0.0


def test_everything_is_barred() -> None:
    episode, solver = cp.Episode([0, 1], [0, 0]), cp.baselines.Random()
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), final_rewards=[-INF, -INF])
    found = cp.explain(mdp, episode, 1, solver=solver)
    assert found.probability_better().value == 0.0
    values, probabilities = found.outcome_distribution()
    assert values.tolist() == [-INF]
    assert probabilities == pytest.approx([1.0], abs=1e-12)
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.eye(2))
    rules = cp.Constraints(forbidden=np.ones((2, 2), dtype=bool))
    found = cp.explain(mdp, episode, 1, constraints=rules, solver=solver)
    assert found.probability_better().value == 0.0


def test_ratios_tied_but_for_rounding_do_not_leak_into_barred_states() -> None:
    # States 1 to 3 gain nothing on each other, so from an observed 1 only state 0 is new.
    rng = np.random.default_rng(0)
    rewards = np.zeros((4, 2))
    rewards[0, 1], rewards[2:] = 5.0, -INF
    for _ in range(100):
        counts = rng.integers(0, 9, size=4) + 0.01
        more = counts + np.array([3.0, 0.0, 0.0, 0.0])
        rows = np.stack([counts / counts.sum(), more / more.sum()])
        mdp = cp.TabularMDP(np.broadcast_to(rows, (4, 2, 4)), rewards)
        found = cp.explain(mdp, cp.Episode([0, 1, 0], [0, 0, 0]), 2)
        assert found.value > found.factual_value + 5.0
        stable = cp.value_interval(mdp, found.episode, found, stability=True)
        assert stable.low > -INF


def test_the_highest_outcome_does_not_pay_for_rounding() -> None:
    # The finite states can take all mass exactly, so the highest outcome is finite.
    for share in np.linspace(0.01, 0.69, 50):
        rows = np.array([[0.7, 0.3, 0.0, 0.0], [share, 0.7 - share, 0.3, 0.0]])
        rewards = np.zeros((4, 2))
        rewards[2] = -INF
        mdp = cp.TabularMDP(np.broadcast_to(rows, (4, 2, 4)), rewards)
        episode = cp.Episode([0, 0], [0, 0])
        found = cp.explain(mdp, episode, 1, solver=cp.baselines.Random())
        assert cp.value_interval(mdp, episode, found) == (-INF, 0.0)


# --- In the states that can be reached, at once or in parts: the same as everywhere ---


def sparse_problem(seed: int) -> tuple[cp.TabularMDP, cp.Episode, int, cp.Constraints]:
    """Rows of one to three next states among nine, most of which lead nowhere else."""
    rng = np.random.default_rng(seed)
    S, A, T = 9, 3, int(rng.integers(2, 7))
    transitions = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        after = (s + rng.choice(4, size=int(rng.integers(1, 4)), replace=False)) % S
        transitions[s, a, after] = rng.dirichlet(np.ones(len(after)))
    rewards = rng.integers(0, 3, size=(S, A)) + rng.random((S, A)) * rng.integers(0, 2)
    rewards[rng.random((S, A)) < 0.05] = -np.inf
    mdp = cp.TabularMDP(transitions, rewards, final_rewards=rng.normal(size=S))
    rules = cp.Constraints(change_costs=rng.integers(1, 3, size=A).tolist(), fixed_steps=[T - 1])
    return mdp, random_episode(rng, mdp, T), int(rng.integers(0, 5)), rules


@settings(max_examples=60)
@given(SEEDS, st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from(["none", "stable", "monotone"]))
def test_reached_states_alone_give_what_all_states_give(
    seed: int, doubt: float, assume: str
) -> None:
    mdp, episode, k, rules = sparse_problem(seed)
    setting, _ = prepare(Problem(mdp, episode, k, rules))
    law = Law(mdp, episode, doubt, assume)
    everywhere = replace(setting, anywhere=True)
    ended, table = solve(setting, law)
    full, other = solve(everywhere, law)
    # Under limits that are never met every step is one call, and the states come in blocks.
    watch = Watch("backward pass", cp.Limits(nodes=10**9))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamic_program, "BLOCK", 2)
        parts, third = solve(setting, law, watch)
        by_parts = evaluate(setting, law, table)
    assert parts.rows >= ended.rows  # a row that two blocks share counts twice
    first = episode.states[0]
    close_to = pytest.approx(full.values[first], abs=1e-12)
    assert ended.values[first] == close_to
    assert parts.values[first] == close_to
    for t, states in enumerate(setting.reached):
        assert np.array_equal(table.actions[t, states], other.actions[t, states])
        assert np.array_equal(table.actions[t, states], third.actions[t, states])
    values = outcome_bounds(setting, ended)[0]
    for found in (by_parts, evaluate(setting, law, table), evaluate(everywhere, law, table)):
        assert found == pytest.approx(values, abs=1e-12)
    for t, states in enumerate(setting.followed(table)):
        assert np.isin(states, setting.reached[t]).all()


@pytest.mark.parametrize("doubt", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("long", [False, True])
def test_plain_python_and_compiled_code_give_the_same_bits(
    doubt: float, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of them answers a small question depends on what was asked before it."""
    rng, answers, calls = np.random.default_rng(3), [], []
    S = 40 if long else 4  # long rows are filled side by side
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(S), size=(S, 3)), rng.normal(size=(S, 3)))
    episode = random_episode(rng, mdp, 5)

    def interpreted(function: Any, steps: Any, *given: Any) -> Any:
        calls.append(function)
        return compiled._interpreted(function)(*given)

    for call in (interpreted, lambda function, steps, *given: function(*given)):
        monkeypatch.setattr(dynamic_program, "call", call)
        found = cp.explain(mdp, episode, k=2, doubt=doubt)
        answers.append((found.value, found.guaranteed, found.bound))
    assert answers[0] == answers[1]
    assert {function.__name__ for function in calls} >= {"first_steps", "pass_back"}


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_quick_sums_choose_as_exact_ones_do(seed: int) -> None:
    """Rows of half of the states, so many that they are not kept; some pairs are barred in half of
    the cases. Nothing leaves the first states: all actions are worth the same there."""
    rng, S, A = np.random.default_rng(seed), 70, 3
    transitions = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        after = rng.choice(S, size=35, replace=False)
        transitions[s, a, after] = rng.dirichlet(np.ones(35))
    transitions[:3] = np.eye(S)[:3, None]
    rewards = np.where(rng.random((S, A)) < 0.02 * (seed % 2), -np.inf, rng.normal(size=(S, A)))
    rewards[:3] = 1.0
    mdp = cp.TabularMDP(transitions, rewards, final_rewards=rng.normal(size=S))
    episode, k = random_episode(rng, mdp, 5), int(rng.integers(0, 6))
    setting, _ = prepare(Problem(mdp, episode, k))
    law = Law(mdp, episode, 0.2)
    (exact, table), (quick, other) = (
        solve(setting, one) for one in (law, replace(law, quick=True))
    )
    assert quick.rows == exact.rows
    first = episode.states[0]
    assert quick.values[first, -1] == pytest.approx(exact.values[first, -1], abs=1e-12)
    if not setting.is_best:
        for t, states in enumerate(setting.reached):
            assert np.array_equal(table.actions[t, states], other.actions[t, states])


def test_nothing_is_sought_where_nothing_is_better() -> None:
    """Survival earns all that can be earned, and ends it."""
    transitions = np.zeros((3, 2, 3))
    transitions[0] = [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]
    transitions[1:] = np.eye(3)[1:, None]
    rewards = np.zeros((3, 2))
    mdp = cp.TabularMDP(transitions, rewards, final_rewards=[0.4, 1.0, 0.0])
    for states, is_best in (([0, 0, 1], True), ([0, 0, 0], False), ([0, 0, 2], False)):
        episode = cp.Episode(states, [0, 1, 0])
        setting, _ = prepare(Problem(mdp, episode, 2))
        assert setting.is_best == is_best
        law = Law(mdp, episode, 0.2)
        (full, _), (quick, table) = (solve(setting, one) for one in (law, replace(law, quick=True)))
        assert quick.rows == full.rows
        assert quick.values[0, -1] == pytest.approx(full.values[0, -1], abs=1e-12)
        if is_best:
            assert (table.actions[:, :, :, 0] == episode.actions[:, None, None]).all()
