"""The Gumbel-Max model: the closed form against integration, sampling and a reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from counterplan import GumbelMaxSCM, TabularMDP
from counterplan.core.compiled import alone
from counterplan.errors import InputError
from counterplan.scm.gumbel import SHORT, sort_pairs, sort_spread

from .support import exact_kernel, fractions_of, kernel, model_of, quadrature, questions

# --- The closed form's properties, on random rows with zeros, ties and extreme sizes ---

EXACT = 1e-12


@given(questions())
def test_agrees_with_rational_arithmetic(question: tuple[np.ndarray, int, np.ndarray]) -> None:
    """A distribution within the support of q, and zero where counterfactual stability says so:
    ratios are compared in rational arithmetic, where ties count and rounding does not."""
    p, o, q = question
    row, mdp = kernel(p, o, q), model_of(p, q).mdp
    exact_p, exact_q = fractions_of(mdp.row(0, 0)), fractions_of(mdp.row(0, 1))
    exact = exact_kernel(exact_p, o, exact_q)
    assert sum(exact) == 1
    assert row == pytest.approx([float(x) for x in exact], abs=EXACT)
    assert (row >= 0.0).all()
    assert abs(row.sum() - 1.0) <= EXACT
    assert not row[q == 0.0].any()
    given_p, given_q = fractions_of(p), fractions_of(q)
    for i in range(len(p)):
        if i != o and given_q[o] * given_p[i] >= given_q[i] * given_p[o]:
            assert row[i] == 0.0
    if min(q[q > 0.0].min(), p[p > 0.0].min()) > 1e-5:
        gained = q * p[o] > q[o] * p * (1.0 + 1e-9)
        gained[o] = False
        assert (row[gained] > 0.0).all()


@given(questions())
def test_what_happened_happens_again_after_the_observed_pair(
    question: tuple[np.ndarray, int, np.ndarray],
) -> None:
    p, o, q = question
    scm = model_of(p, q)
    assume(scm.mdp.row(0, 0)[o] > 0.0)
    assert np.array_equal(scm.counterfactual_row(0, 0, o, 0, 0), np.eye(len(p))[o])


@given(questions())
@example((np.array([1.0]), 0, np.array([1.0])))
@example((np.array([0.5, 0.5]), 0, np.array([0.0, 1.0])))
def test_law_of_total_probability(question: tuple[np.ndarray, int, np.ndarray]) -> None:
    p, _, q = question
    scm = model_of(p, q)
    p, q = scm.mdp.row(0, 0), scm.mdp.row(0, 1)
    average = sum(p[o] * scm.counterfactual_row(0, 0, int(o), 0, 1) for o in np.flatnonzero(p))
    assert np.abs(average - q).max() <= EXACT


@pytest.mark.parametrize("size", [40, SHORT - 1, SHORT, SHORT + 1, SHORT + 2, 2 * SHORT])
def test_both_sorts_give_the_same_kind_of_row(size: int) -> None:
    # Rows of up to SHORT started clocks are sorted by insertion, longer ones by the general sort;
    # after the outcome that rings last, nearly all have started.
    rng = np.random.default_rng(size)
    p, q = rng.dirichlet(np.full(size, 0.5), size=2)
    scm = model_of(p, q)
    p, q = scm.mdp.row(0, 0), scm.mdp.row(0, 1)
    rows = np.array([scm.counterfactual_row(0, 0, o, 0, 1) for o in range(size)])
    assert np.abs(rows.sum(axis=1) - 1.0).max() <= EXACT
    assert np.abs(p @ rows - q).max() <= EXACT


def test_a_hand_computed_row() -> None:
    # p = (1/2, 1/4, 1/4), o = 0, q = (1/4, 1/2, 1/4): only state 1 starts before w_o = 2, at 1/2;
    # D(2) = 1 + 1/2 * 2 - 1/4 = 7/4 counts state 2 from w_2 = 1 on too: + 1/4 * 2 - 1/4 = 2.
    # P(0) = 1/2; state 2 from 1 to 2: D(1) = 5/4, so P(2) = 1/4 * 1 / (5/4 * 2) = 1/10; P(1) = 2/5.
    row = kernel(np.array([0.5, 0.25, 0.25]), 0, np.array([0.25, 0.5, 0.25]))
    assert row == pytest.approx([0.5, 0.4, 0.1], abs=EXACT)


def test_a_certain_observation_says_nothing() -> None:
    # Where p is one-hot, winning told nothing about the noise: the row is q itself.
    q = np.array([0.2, 0.5, 0.3])
    assert kernel(np.array([0.0, 1.0, 0.0]), 1, q) == pytest.approx(q, abs=EXACT)


@pytest.mark.parametrize("tiny", [1e-300, 1e-308, 5e-324])
def test_extreme_probabilities(tiny: float) -> None:
    ordinary = np.array([0.5, 0.5])
    lopsided = np.array([tiny, 1.0])
    for p, o, q in (
        (lopsided, 0, ordinary),
        (lopsided, 1, ordinary),
        (ordinary, 0, lopsided),
        (ordinary, 1, lopsided),
        (lopsided, 0, lopsided[::-1]),
    ):
        row = kernel(p, o, q)
        assert np.isfinite(row).all()
        assert abs(row.sum() - 1.0) <= EXACT
    # Almost impossible, yet observed: o had very favourable noise, so it wins again.
    assert kernel(lopsided, 0, ordinary) == pytest.approx([1.0, 0.0], abs=EXACT)


def test_ratios_equal_but_for_rounding_count_as_equal() -> None:
    # Dirichlet estimates often leave ratios that are equal in theory: here all but state 0 keep
    # theirs, so only state 0 can be reached besides o. A stray 1e-17 would matter before -inf.
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.integers(0, 9, size=4) + 0.01
        more = counts + np.array([3.0, 0.0, 0.0, 0.0])
        row = kernel(counts / counts.sum(), 1, more / more.sum())
        assert not row[2:].any()


@given(st.integers(0, 10**6))
def test_sparse_and_dense_models_agree_bit_for_bit(seed: int) -> None:
    from scipy.sparse import coo_array, csc_array, csr_array

    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    weights = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.6)
    weights[..., 0] += 0.1
    dense = weights / weights.sum(axis=2, keepdims=True)
    kinds = (coo_array, csc_array, csr_array)
    sparse = [kinds[a % 3](dense[:, a]) for a in range(A)]
    one = GumbelMaxSCM(TabularMDP(dense, np.zeros((S, A))))
    other = GumbelMaxSCM(TabularMDP(sparse, np.zeros((S, A))))
    s_obs, s = rng.integers(S, size=2)
    a_obs, a = rng.integers(A, size=2)
    o = int(rng.choice(np.flatnonzero(dense[s_obs, a_obs])))
    assert np.array_equal(
        one.counterfactual_row(s_obs, a_obs, o, s, a),
        other.counterfactual_row(s_obs, a_obs, o, s, a),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 0, 0, 0, 0), "unknown state 3: the model has states 0..2"),
        ((0, 2, 0, 0, 0), "unknown action 2: the model has actions 0..1"),
        ((0, 0, 3, 0, 0), "unknown state 3: the model has states 0..2"),
        ((0, 0, -1, 0, 0), "unknown state -1: the model has states 0..2"),
        ((0, 0, 1, -1, 0), "unknown state -1: the model has states 0..2"),
        ((0, 0, 1, 0, 5), "unknown action 5: the model has actions 0..1"),
        ((0, 0, 0, 0, 1), "the observed transition (state 0, action 0 -> state 0) has probability"),
    ],
)
def test_questions_without_an_answer(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match="GumbelMaxSCM needs a TabularMDP, got ndarray"):
        GumbelMaxSCM(np.zeros((2, 2, 2)))  # type: ignore[arg-type]
    scm = model_of(np.array([0.0, 0.5, 0.5]), np.array([0.2, 0.3, 0.5]))
    with pytest.raises(InputError) as caught:
        scm.counterfactual_row(*arguments)
    assert str(caught.value).startswith(message)


# --- The closed form against rational arithmetic and numerical integration ---


@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_rational_arithmetic_on_long_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(50), size=2)
    p[rng.random(50) < 0.2] = 0.0
    q[rng.random(50) < 0.2] = 0.0
    o = int(np.argmax(p))
    mdp = model_of(p / p.sum(), q / q.sum()).mdp
    exact = exact_kernel(fractions_of(mdp.row(0, 0)), o, fractions_of(mdp.row(0, 1)))
    row = kernel(mdp.row(0, 0), o, mdp.row(0, 1))
    assert row == pytest.approx([float(x) for x in exact], abs=1e-12)


@pytest.mark.parametrize(
    ("p", "o", "q"),
    [
        ([0.5, 0.3, 0.2], 0, [0.2, 0.5, 0.3]),
        ([0.1, 0.9], 0, [0.05, 0.95]),
        ([0.6, 0.4, 0.0], 1, [0.3, 0.0, 0.7]),  # q_o = 0 and a state that p never reached
        ([0.3, 0.3, 0.4], 2, [0.4, 0.4, 0.2]),  # tied starts
        ([0.25, 0.25, 0.25, 0.25], 3, [0.4, 0.3, 0.2, 0.1]),
    ],
)
def test_agrees_with_numerical_integration_of_the_race(
    p: list[float], o: int, q: list[float]
) -> None:
    row = kernel(np.array(p), o, np.array(q))
    for i in range(len(p)):
        if i != o and q[i] > 0.0:
            # The integrator stops at 1e-8 and its integrand has kinks.
            assert row[i] == pytest.approx(quadrature(np.array(p), o, np.array(q), i), abs=1e-6)


# --- The paper's sampler (Eq. 5): its limit is the closed form, its noise fits what was seen ---

SAMPLES = 40_000


@pytest.mark.parametrize("seed", range(6))
def test_converges_to_the_closed_form(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(6, 0.7), size=2)
    p[rng.random(6) < 0.3] = 0.0
    p[0] += 0.2
    q[5] = 0.0
    scm = model_of(p / p.sum(), q / q.sum())
    for o in np.flatnonzero(p):
        exact = scm.counterfactual_row(0, 0, int(o), 0, 1)
        shares = scm.sampled_row(0, 0, int(o), 0, 1, samples=SAMPLES, seed=seed)
        # Each share is a binomial mean. Five standard errors are passed once in 3.5 million times;
        # entries so rare that the normal law fails are compared with one sample.
        error = np.sqrt(exact * (1.0 - exact) / SAMPLES)
        assert (np.abs(shares - exact) <= 5.0 * error + 1.0 / SAMPLES).all()
        assert not shares[exact == 0.0].any()


def test_noise_of_impossible_states_keeps_its_prior() -> None:
    scm = model_of(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.3, 0.5]))
    noise = scm.sample_noise(0, 0, 1, SAMPLES, 0)
    # A Gumbel(0, 1) has mean 0.5772 and variance pi^2 / 6.
    error = np.pi / np.sqrt(6.0 * SAMPLES)
    assert abs(noise[:, 2].mean() - 0.5772156649) <= 5.0 * error


def test_tiny_probabilities_do_not_overflow() -> None:
    scm = model_of(np.array([5e-324, 1.0]), np.array([0.5, 0.5]))
    shares = scm.sampled_row(0, 0, 1, 0, 1, samples=1_000, seed=0)
    # State 0 was all but impossible, so its noise is free: it wins with probability 1/2.
    assert abs(shares[0] - 0.5) <= 5.0 * np.sqrt(0.25 / 1_000)


@pytest.mark.parametrize("n", [0, 1, 2, SHORT, SHORT + 1, 3 * SHORT, 1_000])
@pytest.mark.parametrize("sort", [sort_pairs, sort_spread])
@pytest.mark.parametrize("worst", [0.0, -np.inf])
def test_pairs_are_sorted_and_equals_stay_in_order(n: int, sort: Any, worst: float) -> None:
    keys, companions = np.random.default_rng(n).integers(0, 9, n) / 8.0, np.arange(n)
    keys[n // 2 : n // 2 + 1] = worst
    order = np.argsort(keys, kind="stable")
    wanted = keys[order]
    alone(sort)(keys, companions)
    assert (companions == order).all()
    assert (keys == wanted).all()


def test_what_is_no_number_is_dealt_nowhere() -> None:
    keys, companions = np.array([2.0, np.nan, 1.0, 0.5]), np.arange(4)
    alone(sort_spread)(keys, companions)
    assert sorted(companions) == [0, 1, 2, 3]
