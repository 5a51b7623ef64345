"""The paper's sampler (Eq. 5): its limit is the closed form, its noise fits what was seen."""

from __future__ import annotations

import numpy as np
import pytest

from counterplan.errors import InputError

from .support import model_of

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


def test_the_observed_pair_always_repeats_itself() -> None:
    scm = model_of(np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7]))
    for o in range(3):
        shares = scm.sampled_row(0, 0, o, 0, 0, samples=5_000, seed=o)
        assert shares.tolist() == np.eye(3)[o].tolist()


def test_noise_of_impossible_states_keeps_its_prior() -> None:
    scm = model_of(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.3, 0.5]))
    noise = scm.sample_noise(0, 0, 1, SAMPLES, 0)
    # A Gumbel(0, 1) has mean 0.5772 and variance pi^2 / 6.
    error = np.pi / np.sqrt(6.0 * SAMPLES)
    assert abs(noise[:, 2].mean() - 0.5772156649) <= 5.0 * error


def test_draws_are_reproducible_and_take_a_generator() -> None:
    scm = model_of(np.array([0.5, 0.5]), np.array([0.2, 0.8]))
    one = scm.sampled_row(0, 0, 0, 0, 1, samples=100, seed=4)
    assert np.array_equal(one, scm.sampled_row(0, 0, 0, 0, 1, samples=100, seed=4))
    rng = np.random.default_rng(4)
    assert np.array_equal(one, scm.sampled_row(0, 0, 0, 0, 1, samples=100, seed=rng))
    assert not np.array_equal(one, scm.sampled_row(0, 0, 0, 0, 1, samples=100, seed=rng))


def test_tiny_probabilities_do_not_overflow() -> None:
    scm = model_of(np.array([5e-324, 1.0]), np.array([0.5, 0.5]))
    shares = scm.sampled_row(0, 0, 1, 0, 1, samples=1_000, seed=0)
    # State 0 was all but impossible, so its noise is free: it wins with probability 1/2.
    assert abs(shares[0] - 0.5) <= 5.0 * np.sqrt(0.25 / 1_000)


def test_needs_at_least_one_sample() -> None:
    scm = model_of(np.array([1.0]), np.array([1.0]))
    with pytest.raises(InputError, match="samples must be at least 1, got 0"):
        scm.sampled_row(0, 0, 0, 0, 1, samples=0)
