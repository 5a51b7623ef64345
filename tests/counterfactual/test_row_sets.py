"""Rows that are not known: sets of them, kinds of causal models, and doubt, against linear programs
and what nested assumptions must obey."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import counterplan as cp
from counterplan.counterfactual.discrete.laws import Law
from counterplan.errors import InputError
from counterplan.scm import count_transitions, estimate_mdp
from counterplan.testing import random_episode, random_transitions

SEEDS = st.integers(0, 2**32 - 1)
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


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
    from counterplan.core.constraints import Constraints
    from counterplan.counterfactual.discrete.dynamic_program import Setting, solve

    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, 3, 2), rng.normal(size=(3, 2)))
    episode = random_episode(rng, mdp, 3)
    setting = Setting(mdp, episode, Constraints().resolve(3, 3, 2), 2)
    law = Law(mdp, episode, 0.4)
    ended, _ = solve(setting, law)
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
    cp.save_model(model, tmp_path / "m.safetensors")
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
