"""Every causal model that fits, and every row: intervals, worst cases and doubt against vertices
and linear programs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import counterplan as cp
from counterplan.core.problem import Problem
from counterplan.counterfactual import oracle
from counterplan.counterfactual.discrete.budget_dp import prepare
from counterplan.counterfactual.discrete.dynamic_program import solve
from counterplan.counterfactual.discrete.laws import Law
from counterplan.errors import InputError
from counterplan.scm import count_transitions, estimate_mdp
from counterplan.testing import random_episode, random_transitions

from .models import IndependentSCM, MechanismSCM, QuantileSCM
from .support import (
    close,
    interval_by_vertices,
    random_instance,
    row_vertices,
    tempting_instance,
)

# --- Intervals over causal models, and the policy with the best worst case ---

SEEDS = st.integers(0, 2**32 - 1)
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@settings(max_examples=80)
@given(SEEDS, st.sampled_from(["none", "stable", "monotone"]))
def test_interval_equals_trying_every_vertex(seed: int, assume: str) -> None:
    problem = random_instance(seed) if seed % 3 == 0 else tempting_instance(seed)
    found = problem.answer()
    if found is None or len(problem.episode) > 3:
        return
    expected = interval_by_vertices(problem.mdp, found, assume)
    interval = cp.value_interval(problem.mdp, problem.episode, found, assume=assume)
    assert close(interval.low, expected.low, 1e-9)
    assert close(interval.high, expected.high, 1e-9)


@given(SEEDS)
def test_holds_the_gumbel_max_value_and_narrows_with_stability(seed: int) -> None:
    problem = random_instance(seed) if seed % 2 else tempting_instance(seed)
    found = problem.answer()
    if found is None:
        return
    wide = cp.value_interval(problem.mdp, problem.episode, found)
    narrow = cp.value_interval(cp.GumbelMaxSCM(problem.mdp), problem.episode, found, stability=True)
    assert wide.low - 1e-9 <= narrow.low <= found.value + 1e-9
    assert found.value - 1e-9 <= narrow.high <= wide.high + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_holds_the_value_under_any_shared_mechanism(seed: int) -> None:
    # Here one mechanism serves all histories; the interval lets it depend on the budget left.
    rng = np.random.default_rng(seed)
    scm = MechanismSCM(rng, (3, 2))
    episode = random_episode(rng, scm.mdp, 4)
    found = cp.explain(scm.mdp, episode, 2)
    interval = cp.value_interval(scm.mdp, episode, found)
    for one in (scm, IndependentSCM(scm.mdp), QuantileSCM(scm.mdp)):
        assert interval.low - 1e-9 <= oracle.policy_value(one, found) <= interval.high + 1e-9
    best = cp.robust_explain(scm.mdp, episode, 2)
    assert oracle.policy_value(scm, best) >= best.value - 1e-9


@settings(max_examples=40)
@given(SEEDS, st.booleans())
def test_robust_explanation_has_the_best_worst_case(seed: int, stability: bool) -> None:
    problem = tempting_instance(seed, n_states=2)
    mdp, episode, k = problem.mdp, problem.episode, problem.k
    best = best_worst_case(mdp, episode, k, stability)
    found = cp.robust_explain(mdp, episode, k, assume="stable" if stability else "none")
    assert found.value == pytest.approx(best, abs=1e-9)
    # The policy itself reaches it.
    low = cp.value_interval(mdp, episode, found, stability).low
    assert low == pytest.approx(best, abs=1e-9)
    # It can do no better in the worst case than the optimum does on average.
    assert found.value <= cp.explain(mdp, episode, k).value + 1e-9
    assert found.outcome_mean >= found.value - 1e-9
    assert found.status == "optimal"
    assert found.method == "dynamic programming over every causal model"


def best_worst_case(mdp: cp.TabularMDP, episode: cp.Episode, k: int, stability: bool) -> float:
    """The maximum over all policies of their lowest value over all rows, by listing both."""
    T = len(episode)
    nodes = [(t, s, left) for t in range(T) for s in range(mdp.n_states) for left in range(k + 1)]
    options = [
        [int(episode.actions[t])]
        if left == 0
        else [int(episode.actions[t]), 1 - int(episode.actions[t])]
        for t, _, left in nodes
    ]

    def worst(policy: dict[tuple[int, int, int], int], node: tuple[int, int, int]) -> float:
        t, state, left = node
        action = policy[node]
        reward = float(mdp.rewards[state, action])
        if t == T - 1:
            return reward
        left -= action != episode.actions[t]
        ahead = [worst(policy, (t + 1, s, left)) for s in range(mdp.n_states)]
        assume = "stable" if stability else "none"
        vertices = row_vertices(mdp, episode, t, (state, action), assume)
        return reward + min(float(row @ ahead) for row in vertices)

    root = (0, int(episode.states[0]), k)
    policies = (dict(zip(nodes, choice, strict=True)) for choice in itertools.product(*options))
    return max(worst(policy, root) for policy in policies)


def test_a_certain_observation_leaves_no_doubt() -> None:
    # With p_o = 1 every causal model must give back q itself.
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(3), size=(3, 2))
    transitions[:, 0] = np.roll(np.eye(3), 1, axis=1)
    mdp = cp.TabularMDP(transitions, rng.normal(size=(3, 2)))
    episode = cp.Episode([0, 1, 2], [0, 0, 0])
    found = cp.explain(mdp, episode, 2)
    interval = cp.value_interval(mdp, episode, found)
    assert interval.width == pytest.approx(0.0, abs=1e-12)
    assert interval.low == pytest.approx(found.value, abs=1e-12)
    assert cp.robust_explain(mdp, episode, 2).value == pytest.approx(found.value, abs=1e-12)


def test_keeping_everything_is_certain_under_every_model() -> None:
    problem = random_instance(8, barred=False)
    found = cp.explain(problem.mdp, problem.episode, 0)
    interval = cp.value_interval(problem.mdp, problem.episode, found)
    assert interval == (found.value, found.value)
    assert cp.robust_explain(problem.mdp, problem.episode, 0).value == found.factual_value


def test_the_robust_choice_can_differ_from_the_expected_one() -> None:
    # Changing is better on average under Gumbel-Max (4 against 2), but a model in which the noise
    # of both actions is opposite makes it worthless.
    transitions = np.zeros((3, 2, 3))
    transitions[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    transitions[1:, :] = np.eye(3)[1:, None, :]
    mdp = cp.TabularMDP(transitions, [[0.0, 0.0], [2.0, 2.0], [6.0, 6.0]])
    episode = cp.Episode([0, 1], [0, 0])
    found = cp.explain(mdp, episode, 1)
    assert cp.value_interval(mdp, episode, found) == pytest.approx((0.0, 6.0), abs=1e-12)
    robust = cp.robust_explain(mdp, episode, 1)
    assert robust.changes == ()
    assert robust.value == robust.outcome_mean == 2.0


@settings(max_examples=40)
@given(SEEDS)
def test_constraints_bind_robust_explanations(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    ask = (problem.mdp, problem.episode, problem.k)
    found = cp.robust_explain(*ask, constraints=problem.constraints)
    assert found.value <= problem.explain().value + 1e-9
    # Costs are at least 1 and everything else only takes away.
    assert found.value <= cp.robust_explain(*ask).value + 1e-9
    drawn, rules = found.sample(30), problem.rules
    changed = drawn.actions != problem.episode.actions
    steps = np.broadcast_to(np.arange(len(problem.episode)), changed.shape)
    assert rules.alternatives[steps, drawn.actions][changed].all()
    assert ((rules.costs[drawn.actions] * changed).sum(axis=1) <= problem.k).all()


# --- The set of counterfactual rows that causal models allow, against all couplings of p and q ---


def question(seed: int, size: int = 3) -> tuple[cp.TabularMDP, cp.Episode, np.ndarray]:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, size, 2), np.zeros((size, 2)))
    o = int(rng.choice(np.flatnonzero(mdp.row(0, 0))))
    return mdp, cp.Episode([0, o], [0, 0]), rng.normal(size=size)


def extremes(
    mdp: cp.TabularMDP,
    episode: cp.Episode,
    values: np.ndarray,
    assume: str = "none",
    sets: cp.RowSets | None = None,
) -> tuple[float, float]:
    """Lowest and highest expectation of values after (0, 1)."""
    found = []
    for highest in (False, True):
        law = Law(mdp, episode, 1.0, assume, highest, sets)
        every = law.expect(0, np.unique(law.row_of), values[:, None])
        found.append(float(every[np.searchsorted(np.unique(law.row_of), law.row_of[0, 1]), 0]))
    return found[0], found[1]


def stays_out(p: np.ndarray, q: np.ndarray, o: int) -> list[int]:
    """States that stability rules out after an observed o."""
    return [i for i in range(len(p)) if i != o and q[o] * p[i] >= q[i] * p[o]]


def couplings(
    mdp: cp.TabularMDP, o: int, values: np.ndarray, barred: list[tuple[int, int]]
) -> tuple[float, float]:
    """Lowest and highest sum_i values_i joint[o, i] / p_o over all joint laws of the factual and
    the counterfactual outcome with the given marginals, by linear programming."""
    p, q = mdp.row(0, 0), mdp.row(0, 1)
    n = len(p)
    marginals = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    bounds = [(0.0, 0.0 if divmod(cell, n) in barred else 1.0) for cell in range(n * n)]
    cost = np.zeros((n, n))
    cost[o] = values / p[o]
    found = [
        linprog(
            sign * cost.ravel(),
            A_eq=marginals,
            b_eq=np.concatenate([p, q]),
            bounds=bounds,
            options=TIGHT,
        )
        for sign in (1.0, -1.0)
    ]
    assert all(result.success for result in found)
    return float(found[0].fun), float(-found[1].fun)


@settings(max_examples=120)
@given(SEEDS, st.booleans())
def test_filling_up_to_the_caps_equals_the_extreme_coupling(seed: int, stability: bool) -> None:
    """Stability rules out what may not follow the observed outcome."""
    mdp, episode, values = question(seed)
    o = int(episode.states[1])
    out = stays_out(mdp.row(0, 0), mdp.row(0, 1), o) if stability else []
    expected = couplings(mdp, o, values, [(o, i) for i in out])
    assert extremes(mdp, episode, values, "stable" if stability else "none") == pytest.approx(
        expected, abs=1e-9
    )


@settings(max_examples=60)
@given(SEEDS)
def test_models_that_are_stable_throughout_lie_inside(seed: int) -> None:
    # Stability after *every* outcome ties the rows together and may allow less: the interval is
    # then an outer one.
    mdp, episode, values = question(seed)
    p, q = mdp.row(0, 0), mdp.row(0, 1)
    barred = [(int(o), i) for o in np.flatnonzero(p) for i in stays_out(p, q, int(o))]
    low, high = couplings(mdp, int(episode.states[1]), values, barred)
    found = extremes(mdp, episode, values, "stable")
    assert found[0] <= low + 1e-9
    assert found[1] >= high - 1e-9


def test_by_hand() -> None:
    # p_o = 1/2: state i can take min(1, 2 q_i), so (0.4, 1.0, 0.6) here. Values 1, 2, 3.
    rows = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3]])
    mdp = cp.TabularMDP(np.broadcast_to(rows, (3, 2, 3)), np.zeros((3, 2)))
    episode, values = cp.Episode([0, 0], [0, 0]), np.array([1.0, 2.0, 3.0])
    assert extremes(mdp, episode, values) == pytest.approx((1.6, 2.6), abs=1e-12)
    # Stable: q_o / p_o = 0.4, state 1 gained (1.0), state 2 is new: nothing is ruled out.
    assert extremes(mdp, episode, values, "stable") == pytest.approx((1.6, 2.6), abs=1e-12)
    # Had state 1 been observed, its ratio 1.0 would rule out state 0 (0.4), and state 0 only.
    episode = cp.Episode([0, 1], [0, 0])
    assert extremes(mdp, episode, values) == pytest.approx((1.6, 2.6), abs=1e-12)
    assert extremes(mdp, episode, values, "stable") == pytest.approx((2.0, 2.6), abs=1e-12)


# --- Rows that are not known: sets of them, kinds of causal models, and doubt ---


def boxed(seed: int, size: int = 4) -> tuple[cp.TabularMDP, cp.RowSets, cp.Episode, np.ndarray]:
    """Two rows with limits around them, what the first one led to, and what states are worth."""
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, size, 2), np.zeros((size, 2)))
    rows = np.stack([[mdp.row(s, a) for a in range(2)] for s in range(size)])
    width = rng.choice([0.0, 0.3, 1.0]) * rng.uniform(size=rows.shape)
    sets = cp.RowSets.box(mdp, rows * (1 - width), np.minimum(1, rows + width * rng.uniform()))
    o = int(rng.choice(np.flatnonzero(rows[0, 0])))
    return mdp, sets, cp.Episode([0, o], [0, 0]), rng.normal(size=size)


def by_linear_program(
    mdp: cp.TabularMDP, sets: cp.RowSets, episode: cp.Episode, values: np.ndarray
) -> tuple[float, float]:
    """Over x and y, the parts of the row that do and do not go with what was observed."""
    n, o = len(values), int(episode.states[1])
    p = sets.dense(0, 0)[0, o]
    low, high = sets.dense(0, 1)
    ones, none, eye = np.ones(n), np.zeros(n), np.eye(n)
    found = []
    for sign in (1.0, -1.0):
        result = linprog(
            np.concatenate([sign * values / p, none]),
            A_ub=np.block([[eye, eye], [-eye, -eye]]),
            b_ub=np.concatenate([high, -low]),
            A_eq=np.stack([np.concatenate([ones, none]), np.concatenate([none, ones])]),
            b_eq=[p, 1.0 - p],
            options=TIGHT,
        )
        assert result.success
        found.append(sign * float(result.fun))
    return found[0], found[1]


@settings(max_examples=150)
@given(SEEDS)
def test_one_filling_equals_the_linear_program_over_rows_and_models(seed: int) -> None:
    mdp, sets, episode, values = boxed(seed)
    if sets.dense(0, 0)[0, episode.states[1]] < 1e-6:
        return  # the program divides by it
    expected = by_linear_program(mdp, sets, episode, values)
    assert extremes(mdp, episode, values, sets=sets) == pytest.approx(expected, abs=1e-8)


@settings(max_examples=100)
@given(SEEDS)
def test_monotone_rows_equal_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, 4, 2), np.zeros((4, 2)))
    p, q, values = mdp.row(0, 0), mdp.row(0, 1), rng.normal(size=4)
    o = int(rng.choice(np.flatnonzero(p)))
    caps, least = np.minimum(1.0, q / p[o]), np.zeros(4)
    for i in range(4):
        if i != o and p[i] > 0.0:
            caps[i] = min(caps[i], q[i])
        if i != o and q[o] * p[i] >= q[i] * p[o] * (1 - 1e-12):
            caps[i] = 0.0  # stable
    least[o] = q[o]
    expected = []
    for sign in (1.0, -1.0):
        found = linprog(
            sign * values,
            A_eq=np.ones((1, 4)),
            b_eq=[1.0],
            bounds=list(zip(least, caps, strict=True)),
            options=TIGHT,
        )
        assert found.success
        expected.append(sign * found.fun)
    episode = cp.Episode([0, o], [0, 0])
    assert extremes(mdp, episode, values, "monotone") == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(SEEDS)
def test_assumptions_and_sets_are_nested(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, 3, 2), rng.normal(size=(3, 2)))
    episode = random_episode(rng, mdp, 4)
    found = cp.explain(mdp, episode, k=2)
    for rows in (None, cp.RowSets.gamma(mdp, 1.0), cp.RowSets.gamma(mdp, 1.5)):
        ends = [
            cp.value_interval(mdp, episode, found, assume=assume, rows=rows)
            for assume in ("none", "stable", "monotone")
        ]
        for outer, inner in itertools.pairwise(ends):
            assert outer.low - 1e-9 <= inner.low <= inner.high <= outer.high + 1e-9
        assert ends[1].low - 1e-9 <= found.value <= ends[1].high + 1e-9
        # The widest sets hold everything else.
        wide = cp.value_interval(mdp, episode, found, rows=cp.RowSets.gamma(mdp, 3.0))
        assert wide.low - 1e-9 <= ends[0].low
        assert ends[0].high <= wide.high + 1e-9
    # A factor of one leaves nothing open.
    plain = cp.value_interval(mdp, episode, found)
    certain = cp.value_interval(mdp, episode, found, rows=cp.RowSets.gamma(mdp, 1.0))
    assert certain == pytest.approx(plain, abs=1e-9)


def test_gumbel_max_is_stable_but_not_monotone() -> None:
    # State 0 was an outcome of the factual row, was not seen, and is more likely for it: to have
    # seen 1 speaks against 2 still more.
    rows = np.array([[0.185, 0.21, 0.605], [0.473, 0.0625, 0.4645]])
    mdp = cp.TabularMDP(np.broadcast_to(rows, (3, 2, 3)), np.zeros((3, 2)))
    row = cp.GumbelMaxSCM(mdp).counterfactual_row(0, 0, 1, 0, 1)
    assert row[0] > rows[1, 0] + 0.03
    first = np.array([1.0, 0.0, 0.0])
    assert extremes(mdp, cp.Episode([0, 1], [0, 0]), first, "monotone")[1] < row[0] - 0.03
    assert extremes(mdp, cp.Episode([0, 1], [0, 0]), first, "stable")[1] > row[0]


@settings(max_examples=40)
@given(SEEDS)
def test_doubt_trades_what_is_expected_for_what_is_guaranteed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, 3, 2), rng.normal(size=(3, 2)))
    episode = random_episode(rng, mdp, 4)
    found = [cp.explain(mdp, episode, k=2, doubt=doubt) for doubt in (0.0, 0.3, 1.0)]
    assert found[0].value == pytest.approx(cp.explain(mdp, episode, k=2).value, abs=1e-12)
    robust = cp.robust_explain(mdp, episode, k=2)
    assert found[2].guaranteed == pytest.approx(robust.value, abs=1e-9)
    for one in found:
        assert one.status == "optimal"
        assert one.guaranteed <= one.value + 1e-9
        assert one.value <= found[0].value + 1e-9
        assert one.guaranteed <= robust.value + 1e-9
        assert one.outcome_mean == pytest.approx(one.value, abs=1e-9)
    every = cp.frontier(mdp, episode, k_max=2, doubt=0.3)
    assert every[2].value == pytest.approx(found[1].value, abs=1e-12)


def doubtful_value(mdp: cp.TabularMDP, episode: cp.Episode, k: int, doubt: float) -> float:
    """The best mixture of the model's and the worst row at every step, by recursion."""
    T, scm = len(episode), cp.GumbelMaxSCM(mdp)

    def best(t: int, state: int, left: int) -> float:
        worths = []
        for action in range(mdp.n_actions):
            spent = action != episode.actions[t]
            if spent > left:
                continue
            worth = float(mdp.rewards[state, action])
            if t < T - 1:
                o = (int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1]))
                ahead = np.array([best(t + 1, s, left - spent) for s in range(mdp.n_states)])
                if (state, action) == o[:2]:
                    worth += ahead[o[2]]
                else:
                    p, q = mdp.row(*o[:2])[o[2]], mdp.row(state, action)
                    program = linprog(
                        ahead, A_eq=np.ones((1, len(q))), b_eq=[1.0],
                        bounds=[(0.0, min(1.0, one / p)) for one in q], options=TIGHT,
                    )  # fmt: skip
                    expected = float(scm.counterfactual_row(*o, state, action) @ ahead)
                    worth += (1 - doubt) * expected + doubt * float(program.fun)
            worths.append(worth)
        return max(worths)

    return best(0, int(episode.states[0]), k)


@pytest.mark.parametrize("seed", range(6))
def test_no_policy_is_better_by_the_mixture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, 3, 2), rng.normal(size=(3, 2)))
    episode = random_episode(rng, mdp, 3)
    setting, _ = prepare(Problem(mdp, episode, 2))
    ended, _ = solve(setting, Law(mdp, episode, 0.4))
    expected = doubtful_value(mdp, episode, 2, 0.4)
    assert ended.values[episode.states[0], 2] == pytest.approx(expected, abs=1e-9)


def learned(seed: int, n: int) -> tuple[cp.TabularMDP, cp.TabularMDP]:
    """A process, and what is estimated from n of its episodes."""
    rng = np.random.default_rng(seed)
    truth = cp.TabularMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2)))
    episodes = [random_episode(rng, truth, 6) for _ in range(n)]
    return truth, estimate_mdp(count_transitions(episodes, 3, 2), truth.rewards, prior=1.0)


@pytest.mark.parametrize("kind", ["credible", "pac"])
def test_sets_hold_the_true_rows_and_shrink_with_data(kind: str) -> None:
    missed, widths = 0, []
    for n in (20, 500):
        width = []
        for seed in range(20):
            truth, model = learned(seed, n)
            sets = getattr(cp.RowSets, kind)(model)
            for s, a in np.ndindex(3, 2):
                low, high = sets.dense(s, a)
                missed += bool((truth.row(s, a) < low - 1e-12).any()) + bool(
                    (truth.row(s, a) > high + 1e-12).any()
                )
                width.append((high - low).mean())
        widths.append(np.mean(width))
    # Of 40 models 2 may miss; far fewer do, since shares of the chance are added up.
    assert missed <= 2
    assert widths[1] < widths[0] / 2


def test_counts_are_kept_saved_and_left_out(tmp_path: Path) -> None:
    _, model = learned(0, 20)
    assert model.counts is not None
    assert model.mass is not None
    trials = model.counts[:, 3].sum()
    assert trials == 20 * 5
    assert model.mass.sum() == pytest.approx(trials + 3 * 3 * 2)
    cp.tables.save_model(model, tmp_path / "m.safetensors")
    again = cp.load_model(tmp_path / "m.safetensors")
    assert isinstance(again, cp.TabularMDP)
    sets, same = cp.RowSets.credible(model), cp.RowSets.credible(again)
    assert np.array_equal(sets.lower, same.lower)
    assert np.array_equal(sets.row_of, same.row_of)
    with pytest.raises(InputError, match="does not know the counts that it was estimated from"):
        cp.RowSets.pac(model.without_data())


def test_robust_explanations_over_uncertain_rows() -> None:
    _, model = learned(3, 100)
    episode = random_episode(np.random.default_rng(5), model, 5)
    rows = cp.RowSets.credible(model, 0.9)
    known, unknown = (
        cp.robust_explain(model, episode, 2),
        cp.robust_explain(model, episode, 2, rows=rows),
    )
    assert unknown.value <= known.value + 1e-12
    assert cp.value_interval(model, episode, unknown, rows=rows).low == pytest.approx(unknown.value)
    assert "90% credible sets" in unknown.method
    best = cp.explain(model, episode, 2)
    assert cp.value_interval(model, episode, best, rows=rows).low <= unknown.value + 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: cp.value_interval(3, ask(m), None), "expected a TabularMDP, got int"),
        (lambda m: cp.value_interval(m, ask(m), "best"), "the explanation of a discrete problem"),
        (
            lambda m: cp.value_interval(m, cp.Episode([0, 1], [0, 1]), cp.explain(m, ask(m), 1)),
            "the explanation belongs to another problem",
        ),
        (
            lambda m: cp.value_interval(
                m, cp.Episode([0, 1, 2], 1 - ask(m).actions), cp.explain(m, ask(m), 1)
            ),
            "belongs to another episode than the episode: pass",
        ),
        (lambda m: cp.robust_explain("model", ask(m), 1), "expected a TabularMDP, got str"),
        (lambda m: cp.RowSets.gamma(m, 0.5), "gamma is 0.5: expected a number from 1 up"),
        (lambda m: cp.RowSets.credible(m, 95), "level is 95: expected a number between 0 and 1"),
        (lambda m: cp.RowSets.pac(m, "x"), "delta must be an array of numbers"),
        (lambda m: cp.RowSets.box(m, 0, 1), r"limits have shape \(\), expected \(3, 2, 3\)"),
        (
            lambda m: cp.RowSets.box(m, np.full((3, 2, 3), 0.6), np.ones((3, 2, 3))),
            r"the lower limits of state 0, action 0 sum to 1.8, so no distribution",
        ),
        (
            lambda m: cp.RowSets.box(m, np.full((3, 2, 3), 0.3), np.full((3, 2, 3), 0.2)),
            r"P\(state 0 \| state 0, action 0\) lies between 0.3 and 0.2: limits go up",
        ),
        (lambda m: cp.explain(m, ask(m), k=1, doubt=2), "doubt is 2: expected a number from 0"),
        (
            lambda m: cp.value_interval(m, ask(m), cp.explain(m, ask(m), k=1), assume="stabel"),
            "assume is 'stabel': expected one of none, stable, monotone",
        ),
        (
            lambda m: cp.robust_explain(m, ask(m), 1, rows=cp.RowSets.gamma(other(), 2.0)),
            r"the row sets are for \(S, A\) = \(2, 2\), but the model has \(3, 2\)",
        ),
    ],
)  # fmt: skip
def test_mistakes(call: object, message: str) -> None:
    _, model = learned(0, 10)
    with pytest.raises(InputError, match=message):
        call(model)  # type: ignore[operator]


def ask(model: cp.TabularMDP) -> cp.Episode:
    return random_episode(np.random.default_rng(0), model, 3)


def other() -> cp.TabularMDP:
    return cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
