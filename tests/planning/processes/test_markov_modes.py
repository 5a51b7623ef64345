"""Observed and hidden modes: the chain, the belief filter, and bad matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.errors import InputError
from counterplan.planning.processes.modes import GaussianHiddenModes, HiddenModes, MarkovModes

from .support import EMISSIONS, MATRIX, MILEAGES, assert_same_mean

P, E = np.array(MATRIX), np.array(EMISSIONS)


def test_numbers_and_indicators_are_the_same_chain() -> None:
    numbers, indicators = MarkovModes(MATRIX, 1), MarkovModes(MATRIX, 1, indicators=True)
    a, b = (chain.sample_paths(50, 6, seed=3) for chain in (numbers, indicators))
    assert (np.argmax(b, axis=2) == a[:, :, 0]).all()
    assert indicators.mean_path(4) == pytest.approx(
        np.array([np.eye(3)[1] @ np.linalg.matrix_power(P, s) for s in range(4)])
    )


def test_a_mode_that_cannot_follow_is_no_successor() -> None:
    chain = MarkovModes([[0.0, 1.0], [0.5, 0.5]])
    values, chances = chain.successors(0, np.array([0.0]))
    assert values.tolist() == [[1.0]]
    assert chances.tolist() == [1.0]


def test_rounded_rows_are_scaled() -> None:
    chain = MarkovModes([[0.3333333, 0.3333333, 0.3333333], [0, 1, 0], [0, 0, 1]])
    assert chain.probabilities.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-15)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], "mode matrix row 1 sums to 0.9: each row must sum to 1"),
        ([[1.5, -0.5], [0.5, 0.5]], "mode matrix row 0, column 0 is 1.5: a probability lies"),
        ([[0.5, 0.5], [np.nan, 1.0]], "row 1, column 0 is nan"),
        ([[0.5, 0.5]], "mode matrix must have 1 columns, got shape"),
        ([], "mode matrix must be a table of rows"),
        ([[1.0], [0.5, 0.5]], "rows of numbers of the same length"),
    ],
)
def test_bad_matrices(matrix: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        MarkovModes(matrix)
    with pytest.raises(InputError, match=words):
        HiddenModes(matrix, MILEAGES, EMISSIONS)


def test_bad_start() -> None:
    with pytest.raises(InputError, match="initial mode must be at most 2, got 3"):
        MarkovModes(MATRIX, 3)


# --- Hidden -----------------------------------------------------------------------------------


def test_beliefs_follow_bayes_rule() -> None:
    """Eq. F.4 by enumerating all mode sequences."""
    process = HiddenModes(MATRIX, MILEAGES, EMISSIONS, [0.2, 0.5, 0.3])
    observed = [0, 2, 1]
    joint = np.zeros(3)
    for modes in np.ndindex(3, 3, 3, 3):
        chance = [0.2, 0.5, 0.3][modes[0]]
        for t, o in enumerate(observed):
            chance *= P[modes[t], modes[t + 1]] * E[modes[t + 1], o]
        joint[modes[-1]] += chance
    x, likelihood = process.start, 1.0
    for t, o in enumerate(observed):
        values, chances = process.successors(t, x)
        x = values[o]
        likelihood *= chances[o]
        assert x[:2].tolist() == [float(number) for number in MILEAGES[o]]
    assert process.beliefs(x) == pytest.approx(joint / joint.sum(), rel=1e-12)
    assert likelihood == pytest.approx(joint.sum(), rel=1e-12)


def test_observations_and_beliefs_have_the_law_of_the_hidden_chain() -> None:
    """Against simulating the modes themselves; and beliefs are calibrated: averaged over what is
    observed, they are the distribution of the mode."""
    process = HiddenModes(MATRIX, MILEAGES, EMISSIONS, 0)
    paths = process.sample_paths(20_000, 4, seed=5)
    chain = MarkovModes(MATRIX, 0, indicators=True)
    assert_same_mean(process.beliefs(paths), chain.mean_path(4))
    rng = np.random.default_rng(6)
    modes = MarkovModes(MATRIX, 0).sample_paths(20_000, 4, rng)[:, 1:, 0].astype(int)
    emitted = (np.cumsum(E, axis=1)[modes] <= rng.random((*modes.shape, 1))).sum(axis=2)
    mileages = np.array(MILEAGES, dtype=float)[emitted]
    error = np.hypot(*(a.std(axis=0) / 20_000**0.5 for a in (mileages, paths[:, 1:, :2])))
    assert (np.abs(mileages.mean(axis=0) - paths[:, 1:, :2].mean(axis=0)) <= 5 * error).all()


def test_gaussian_beliefs_follow_bayes_rule() -> None:
    process = GaussianHiddenModes(MATRIX, MILEAGES, [[1.0, 2.0], [0.5, 1.0], [2.0, 1.0]], 1)
    x = process.draw(0, process.start[None], np.random.default_rng(1))[0]
    spread, means = np.asarray(process.spread), np.array(MILEAGES, dtype=float)
    density = np.exp(-0.5 * ((x[:2] - means) / spread) ** 2) / spread
    weights = P[1] * density.prod(axis=1)
    assert process.beliefs(x) == pytest.approx(weights / weights.sum(), rel=1e-12)


def test_beliefs_survive_observations_far_from_every_mean() -> None:
    process = GaussianHiddenModes([[1.0, 0.0], [0.0, 1.0]], [[0.0], [1000.0]], 1e-3, 0)
    x = process.sample_paths(5, 4, seed=2)
    assert process.beliefs(x) == pytest.approx(np.broadcast_to([1.0, 0.0], (5, 4, 2)))


def test_at_first_nothing_has_been_observed() -> None:
    process = HiddenModes(MATRIX, MILEAGES, EMISSIONS, [0.2, 0.5, 0.3])
    assert process.beliefs(process.start).tolist() == [0.2, 0.5, 0.3]
    assert process.start[:2] == pytest.approx(np.array([0.2, 0.5, 0.3]) @ E @ np.array(MILEAGES))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: HiddenModes(MATRIX, MILEAGES, EMISSIONS[:2]), "has 2 rows, but there are 3 modes"),
        (lambda: HiddenModes(MATRIX, MILEAGES[:2], EMISSIONS), "must have 2 columns"),
        (lambda: HiddenModes(MATRIX, MILEAGES, [[0.5, 0.1, 0.1]] * 3), "row 0 sums to 0.7"),
        (lambda: HiddenModes(MATRIX, MILEAGES, EMISSIONS, [0.5, 0.2, 0.2]), "belief row 0 sums to"),
        (lambda: HiddenModes(MATRIX, MILEAGES, EMISSIONS, 3), "initial mode must be at most 2"),
        (lambda: HiddenModes(MATRIX, [[1, np.inf]] * 3, EMISSIONS), "values must be a table of"),
        (lambda: GaussianHiddenModes(MATRIX, MILEAGES, 0.0), "spread must be greater than 0"),
        (lambda: GaussianHiddenModes(MATRIX, MILEAGES, [1.0, 2.0]), "spread must be one number or"),
        (lambda: GaussianHiddenModes(MATRIX, MILEAGES[:2], 1.0), "means must have 3 rows"),
    ],
)
def test_bad_hidden_modes(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
